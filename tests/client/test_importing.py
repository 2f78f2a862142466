"""Imports load only the dependencies of the used part."""

import subprocess
import sys

import pytest

import polyseme.client
from polyseme.errors import install_command
from tests.conftest import ROOT


def python(code):
    """The lines of the output of a program."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


NAMES = """
import polyseme, sys
def loaded(*names):
    return sorted({"flask", "gensim", "httpx", *names} & set(sys.modules))
print(loaded("numpy", "orjson"))
import polyseme.client
print(loaded())
for name in sorted(polyseme.__all__, key=lambda name: (name == "create_app", "Client" in name)):
    getattr(polyseme, name)
    if name != "create_app":
        print(loaded() if "Client" not in name else loaded()[:-1])
"""


def test_a_name_loads_no_framework_but_its_own():
    assert set(python(NAMES)) == {"[]"}


MISSING = {
    "httpx": ("from polyseme.client import Client", "client"),
    "pandas": ("from polyseme.client import Sentence; Sentence([]).to_frame()", "pandas"),
    "spacy": ("import polyseme.integrations.spacy", "spacy"),
    "sklearn": ("import polyseme.integrations.sklearn", "sklearn"),
}
REPORT = f"""
import sys
for package, (code, _) in {MISSING!r}.items():
    sys.modules[package] = None
    try:
        exec(code)
    except ImportError as error:
        print(error)
"""


def test_a_missing_package_is_reported_with_its_extra():
    for message, (_, extra) in zip(python(REPORT), MISSING.values(), strict=True):
        assert message.endswith(f"pip install 'polyseme[{extra}]'.")


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


def test_every_public_name_exists_and_another_is_an_error():
    for name in polyseme.client.__all__:
        assert getattr(polyseme.client, name).__name__ == name
    with pytest.raises(AttributeError, match="Server"):
        _ = polyseme.Server
    with pytest.raises(ImportError):
        from polyseme.client import Server  # noqa: F401
