"""Imports go one way: which package may import which, and what importing a package loads."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SERVICE, LAB = ROOT / "service", ROOT / "lab"

CATALOG = "operations.catalog"
"""The operations and the senses, for routes, clients and the OpenAPI document."""
LAYERS = (
    *("caches api_keys atomic_files processes terminal validation engine single_thread",),
    *(
        "spellings",
        "words",
        "tokenizer errors progress",
        "models sentences",
        "operations",
        "senses",
    ),
    *(CATALOG, "settings importing", "http client", "arrow", "bulk integrations", "__init__"),
    *("cli", "__main__"),
)
"""What a package imports is in earlier ones, of which the first import none of this project."""
RANKS = {f"polyseme.{name}": rank for rank, names in enumerate(LAYERS) for name in names.split()}

IMPORT_TORCH = {
    f"polyseme_lab.training.{file}" for file in ("held_out", "network", "run", "trainer", "stack")
}
"""The files that import torch; the command imports them where it needs them."""

IMPORT_GENSIM = {"polyseme.importing.download"}
"""The file that imports gensim, in the function that uses it; serving does not load it."""


def files():
    """The files of the service and of the laboratory's package."""
    return sorted([*SERVICE.rglob("*.py"), *LAB.joinpath("polyseme_lab").rglob("*.py")])


def module_of(path):
    source = SERVICE if path.is_relative_to(SERVICE) else LAB
    return ".".join(path.relative_to(source).with_suffix("").parts)


def package_of(name):
    """`polyseme.models` for its modules and what they define, and for a module its own name."""
    catalog = f"polyseme.{CATALOG}"
    return catalog if within(name, catalog) else ".".join(name.split(".")[:2])


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


@pytest.mark.parametrize("path", sorted(SERVICE.rglob("*.py")), ids=module_of)
def test_a_file_imports_its_own_package_and_lower_ones(path):
    own = package_of(module_of(path))
    others = {package_of(name) for name in imports(path) if within(name, "polyseme")} - {own}
    allowed = {name for name, rank in RANKS.items() if rank < RANKS[own]}
    assert others - {"polyseme.__version__"} <= allowed


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


def importers_of(package):
    return {
        module_of(path) for path in files() if any(within(name, package) for name in imports(path))
    }


def test_only_the_importers_import_gensim():
    assert importers_of("gensim") == IMPORT_GENSIM


def test_only_the_listed_files_of_training_load_torch():
    assert {m for m in importers_of("torch") if within(m, "polyseme_lab.training")} == IMPORT_TORCH
    assert "torch" not in loaded_by(
        "polyseme.importing.closed_form", "polyseme_lab.training.config"
    )


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


@pytest.mark.parametrize("modules", [modules_in("polyseme.engine"), ["polyseme.tokenizer"]])
def test_the_pure_packages_load_no_framework(modules):
    loaded = loaded_by(*modules)
    assert not loaded & (HEAVY | {"flask", "pydantic", "safetensors", "click"})


def test_serving_imports_no_heavy_package_and_no_other_command():
    names = loaded_modules(*SERVING)
    loaded = {name.split(".")[0] for name in names}
    assert {"flask", "gunicorn", "numpy"} <= loaded
    assert not loaded & (HEAVY | UNUSED)
    others = [
        n for n in names if n.startswith(("polyseme.cli.", "polyseme.importing.", "polyseme_lab."))
    ]
    assert sorted(others) == [f"polyseme.cli.{name}" for name in ("main", "options", "serve")]


def test_the_command_line_loads_neither_the_framework_nor_anything_heavy():
    commands = [*modules_in("polyseme.cli"), *modules_in("polyseme_lab.commands")]
    assert not loaded_by(*commands) & (HEAVY | {"flask"})
