"""The documentation builds as a site; a dead link would fail the build."""

import subprocess
import sys

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.slow


def test_the_site_has_every_page_and_a_search(tmp_path):
    pytest.importorskip("sphinx", reason="needs the extra [site]")
    options = ["-q", "-n", "-W", "--keep-going", "-c", "docs", ".", tmp_path]
    command = [sys.executable, "-m", "sphinx", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for page in ROOT.glob("docs/**/*.md"):
        assert (tmp_path / page.relative_to(ROOT)).with_suffix(".html").is_file()
    index = (tmp_path / "searchindex.js").read_text("utf-8")
    assert "polysem" in index and "docs/senses" in index
    assert [file.name for file in tmp_path.glob("_downloads/*/bass.txt")] == ["bass.txt"]
