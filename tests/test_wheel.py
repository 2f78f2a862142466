"""The wheel, in its own environment outside the checkout."""

import subprocess
import sys
import zipfile
from pathlib import Path

import httpx
import pytest

from tests.conftest import start

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.wheel


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, cwd=ROOT)
    (built,) = out.glob("*.whl")
    return built


def test_the_wheel_contains_the_model_and_the_page_but_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {"polyseme/bundled/wiki-en/manifest.json", "polyseme/py.typed"} <= set(names)
    models = [path.parent for path in (ROOT / "models").glob("*/manifest.json")]
    files = {f"polyseme/bundled/{m.name}/{file.name}" for m in models for file in m.iterdir()}
    weights = {file.name for file in (ROOT / "models/weights").iterdir()}
    files |= {f"polyseme/bundled/weights/{name}" for name in weights}
    assert {name for name in names if name.startswith("polyseme/bundled/")} == files
    source = ROOT / "service"
    page = {f.relative_to(source).as_posix() for f in (source / "polyseme/page").rglob("*.*")}
    page |= {f.relative_to(source).as_posix() for f in source.glob("polyseme/http/vendor/*")}
    assert page <= set(names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"polyseme", "polyseme_lab"}


def test_an_installed_wheel_serves_without_a_checkout(wheel: Path, tmp_path: Path) -> None:
    uv = (sys.executable, "-m", "uv", "--quiet")
    run(*uv, "venv", "--seed", "--python", sys.executable, "environment", cwd=tmp_path)
    python = tmp_path / "environment" / "bin" / "python"
    run(*uv, "pip", "install", "--python", python, wheel, cwd=tmp_path)
    polyseme = tmp_path / "environment" / "bin" / "polyseme"
    assert "wiki-en: ok" in run(polyseme, "models", "verify", cwd=tmp_path)
    # Hints name this command; pip keeps the installed wheel and adds the extra.
    code = "from polyseme.errors import install_command; print(install_command('client'))"
    command = run(python, "-c", code, cwd=tmp_path)
    assert command == f"{python} -m pip install 'polyseme[client]'\n"
    run("sh", "-c", command, cwd=tmp_path)
    run(python, "-c", "from polyseme import Client; Client('http://localhost')", cwd=tmp_path)
    out = run(polyseme, "compare", "--word", "bank", "River bank", "Money bank", cwd=tmp_path)
    assert "share one vocabulary key" in out
    assert "Train attention weights" in run(polyseme, "train", "--help", cwd=tmp_path)
    process, address = start(tmp_path / "log", [polyseme])
    try:
        response = httpx.post(f"{address}/v1/encode", json={"input": "River bank flows"})
        assert len(response.json()["results"][0]["contextual"]) == 3
        for path in ("", "page/elements.js", "docs/swagger-ui-bundle.js"):
            assert httpx.get(f"{address}/{path}").status_code == 200
    finally:
        process.terminate()
        assert process.wait(30) == 0
