"""A release: the same bytes every time, with checksums."""

import os
import shutil
import subprocess
import tarfile
import zipfile

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.wheel


def test_a_release_has_the_same_bytes_every_time():
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("needs git and a clone")
    environment = {**os.environ, "IMAGES": "skip"}
    folder, kept = ROOT / "build/release", []
    for _ in range(2):
        done = subprocess.run(
            [ROOT / "containers/release"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        kept.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert kept[0] == kept[1]
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=folder, check=True)
    wheel, archive = (next(folder.glob(pattern)) for pattern in ("*.whl", "*.tar.gz"))
    assert "polyseme/bundled/wiki-en/manifest.json" in zipfile.ZipFile(wheel).namelist()
    with tarfile.open(archive) as members:
        names = {name.partition("/")[2] for name in members.getnames()}
    assert {"pyproject.toml", "CHANGELOG.md", "tests/test_release.py", "docs/index.md"} <= names
    assert "service/polyseme/http/vendor/swagger-ui-bundle.js" in names
