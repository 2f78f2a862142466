"""Imports load only the dependencies of the used part."""

import subprocess
import sys

import pytest

import polyseme.client
from polyseme.errors import install_command
from tests.conftest import ROOT


def python(code):
    """The output of a program, or the last line of its errors."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False
    )
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def test_importing_the_package_loads_no_dependency():
    heavy = {"numpy", "httpx", "orjson", "flask", "gensim"}
    assert python(f"import polyseme, sys; print({heavy} & set(sys.modules))") == "set()"


def test_importing_the_clients_package_loads_no_framework():
    heavy = {"httpx", "flask", "gensim"}
    assert python(f"import polyseme.client, sys; print({heavy} & set(sys.modules))") == "set()"


@pytest.mark.parametrize("name", polyseme.__all__)
def test_every_public_name_resolves_and_loads_no_other_framework(name):
    heavy = {"flask", "gensim", "httpx"} - {"create_app": {"flask"}}.get(name, set())
    heavy -= {"httpx"} if "Client" in name else set()
    code = f"import polyseme, sys; polyseme.{name}; print({heavy} & set(sys.modules))"
    assert python(code) == "set()"


@pytest.mark.parametrize(
    ("package", "code", "extra"),
    [
        ("httpx", "from polyseme.client import Client", "client"),
        ("httpx", "from polyseme.client import AsyncClient", "client"),
        ("pandas", "from polyseme.client import Sentence; Sentence([]).to_frame()", "pandas"),
        ("spacy", "import polyseme.integrations.spacy", "spacy"),
        ("sklearn", "import polyseme.integrations.sklearn", "sklearn"),
    ],
)
def test_a_missing_package_is_reported_with_its_extra(package, code, extra):
    error = python(f"import sys; sys.modules[{package!r}] = None; {code}")
    assert error.endswith(f"pip install 'polyseme[{extra}]'.")


def test_the_command_for_an_extra_uses_the_pip_of_this_interpreter(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "own env/python"))
    for folder in ("own env", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "pip").touch()
        (tmp_path / folder / "pip").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "own env"))
    assert install_command("bulk") == "pip install 'polyseme[bulk]'"
    for path in (tmp_path / "other", tmp_path):
        monkeypatch.setenv("PATH", str(path))
        expected = f"'{tmp_path}/own env/python' -m pip install 'polyseme[bulk]'"
        assert install_command("bulk") == expected


@pytest.mark.parametrize("name", polyseme.client.__all__)
def test_every_public_name_exists(name):
    assert getattr(polyseme.client, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error_or_an_import_error():
    with pytest.raises(AttributeError, match="Server"):
        _ = polyseme.Server
    with pytest.raises(ImportError):
        from polyseme.client import Server  # noqa: F401
