"""Imports go one way: which package may import which, and what importing a package loads."""

import ast
import sys
from functools import cache
from graphlib import TopologicalSorter

import pytest

from tests.conftest import ROOT, output_of

SERVICE, LAB = ROOT / "service", ROOT / "lab"

CATALOG = "operations.catalog"
"""The operations and the senses, for routes, clients and the OpenAPI document."""
LAYERS = (
    *("caches api_keys atomic_files processes terminal engine single_thread",),
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

FILES = sorted([*SERVICE.rglob("*.py"), *LAB.joinpath("polyseme_lab").rglob("*.py")])
IMPORT_TORCH = {
    f"polyseme_lab.training.{file}" for file in ("held_out", "network", "run", "trainer", "stack")
}
"""The files that import torch; the command imports them where it needs them."""
IMPORT_GENSIM = {"polyseme.importing.download"}
"""The file that imports gensim, in the function that uses it; serving does not load it."""


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
    modules = {module_of(path).removesuffix(".__init__"): path for path in FILES}
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


@pytest.mark.parametrize(
    ("package", "importers", "folder"),
    [("gensim", IMPORT_GENSIM, ""), ("torch", IMPORT_TORCH, "polyseme_lab.training")],
)
def test_only_the_listed_files_import_gensim_and_torch(package, importers, folder):
    files = [path for path in FILES if module_of(path).startswith(folder)]
    named = {module_of(f) for f in files if any(within(name, package) for name in imports(f))}
    assert named == importers


def loaded_by(*modules):
    """The modules and their top-level packages that importing some loads, in a fresh process."""
    code = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    names = output_of(sys.executable, "-c", code).split()
    return {*names, *(name.split(".")[0] for name in names)}


HEAVY = {"gensim", "scipy", "sklearn", "torch", "transformers", "pandas", "matplotlib"}
FRAMEWORKS = {"flask", "pydantic", "safetensors", "click"}

UNUSED = {
    *("flask_cors", "limits", "redis", "rich", "wrapt", "tqdm", "urllib3"),
    *("defusedxml", "opentelemetry", "requests", "zstandard"),
}
"""Packages that only other commands and optional settings need."""

SERVING = (
    *("polyseme.cli.main", "polyseme.cli.serve", "gunicorn.app.base"),
    *("polyseme.http.server", "polyseme.http.worker", "polyseme.http"),
)
"""The modules that `polyseme serve` imports."""


def modules_in(package):
    place = (LAB if within(package, "polyseme_lab") else SERVICE).joinpath(*package.split("."))
    return [module_of(path) for path in sorted(place.glob("*.py")) if path.stem != "__init__"]


@pytest.mark.parametrize(
    ("modules", "unwanted"),
    [
        (modules_in("polyseme.engine"), HEAVY | FRAMEWORKS),
        (["polyseme.tokenizer"], HEAVY | FRAMEWORKS),
        (["polyseme.importing.closed_form", "polyseme_lab.training.config"], {"torch"}),
        (
            [*modules_in("polyseme.cli"), *modules_in("polyseme_lab.commands")],
            HEAVY | {"flask"},
        ),
    ],
)
def test_importing_loads_no_framework_and_nothing_heavy(modules, unwanted):
    assert not loaded_by(*modules) & unwanted


def test_serving_imports_no_heavy_package_and_no_other_command():
    names = loaded_by(*SERVING)
    assert {"flask", "gunicorn", "numpy"} <= names
    assert not names & (HEAVY | UNUSED)
    others = ("polyseme.cli.", "polyseme.importing.", "polyseme_lab.")
    commands = sorted(name for name in names if name.startswith(others))
    assert commands == [f"polyseme.cli.{name}" for name in ("main", "options", "serve")]
