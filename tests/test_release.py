"""A release, and its wheel in an environment of its own outside the checkout."""

import hashlib
import os
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

import httpx
import pytest

from tests.conftest import ROOT, output_of, start

pytestmark = pytest.mark.wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the checkout, with the time of the last commit."""
    out = tmp_path_factory.mktemp("wheel")
    epoch = output_of("git", "log", "-1", "--format=%ct") if is_clone() else ""
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out)
    output_of(*build, env=os.environ | ({"SOURCE_DATE_EPOCH": epoch} if epoch else {}))
    (built,) = out.glob("*.whl")
    return built


def is_clone() -> bool:
    return (ROOT / ".git").exists() and shutil.which("git") is not None


def test_a_release_has_the_bytes_of_the_checkout_and_their_checksums(wheel: Path) -> None:
    if not is_clone():
        pytest.skip("needs git and a clone")
    output_of(ROOT / "containers/release", env=os.environ | {"IMAGES": "skip"})
    folder = ROOT / "build/release"
    files = {path.name: path for path in folder.iterdir()}
    sums = dict(reversed(line.split()) for line in files.pop("SHA256SUMS").read_text().splitlines())
    assert sums == {n: hashlib.sha256(f.read_bytes()).hexdigest() for n, f in files.items()}
    if not output_of("git", "status", "--porcelain"):
        assert files[wheel.name].read_bytes() == wheel.read_bytes()
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as members:
        names = {name.partition("/")[2] for name in members.getnames()}
    assert {"pyproject.toml", "CHANGELOG.md", "tests/test_release.py", "docs/index.md"} <= names
    assert "service/polyseme/http/vendor/swagger-ui-bundle.js" in names


def test_the_wheel_contains_the_models_and_the_page_but_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    models = [path.parent for path in (ROOT / "models").glob("*/manifest.json")]
    files = [file for folder in (*models, ROOT / "models/weights") for file in folder.iterdir()]
    bundled = {f"polyseme/bundled/{file.parent.name}/{file.name}" for file in files}
    assert {name for name in names if name.startswith("polyseme/bundled/")} == bundled
    source = ROOT / "service"
    page = {f.relative_to(source).as_posix() for f in (source / "polyseme/page").rglob("*.*")}
    page |= {f.relative_to(source).as_posix() for f in source.glob("polyseme/http/vendor/*")}
    assert page | {"polyseme/py.typed"} <= set(names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"polyseme", "polyseme_lab"}


def test_an_installed_wheel_serves_without_a_checkout(wheel: Path, tmp_path: Path) -> None:
    uv = (sys.executable, "-m", "uv", "--quiet")
    output_of(*uv, "venv", "--seed", "--python", sys.executable, "environment", cwd=tmp_path)
    python = tmp_path / "environment" / "bin" / "python"
    output_of(*uv, "pip", "install", "--python", python, wheel, cwd=tmp_path)
    polyseme = tmp_path / "environment" / "bin" / "polyseme"
    assert "wiki-en: ok" in output_of(polyseme, "models", "verify", cwd=tmp_path)
    # Hints name this command; pip keeps the installed wheel and adds the extra.
    code = "from polyseme.errors import install_command; print(install_command('client'))"
    command = output_of(python, "-c", code, cwd=tmp_path)
    assert command == f"{python} -m pip install 'polyseme[client]'\n"
    output_of("sh", "-c", command, cwd=tmp_path)
    output_of(python, "-c", "from polyseme import Client; Client('http://localhost')", cwd=tmp_path)
    assert "Train attention weights" in output_of(polyseme, "train", "--help", cwd=tmp_path)
    process, address = start(tmp_path / "log", [polyseme])
    try:
        response = httpx.post(f"{address}/v1/encode", json={"input": "River bank flows"})
        assert len(response.json()["results"][0]["contextual"]) == 3
        for path in ("", "page/elements.js", "docs/swagger-ui-bundle.js"):
            assert httpx.get(f"{address}/{path}").status_code == 200
    finally:
        process.terminate()
        assert process.wait(30) == 0
