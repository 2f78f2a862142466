"""The documentation builds as a site, and a dead link fails the build."""

import subprocess
import sys

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.slow


def build(source, target):
    command = ["-m", "sphinx", "-q", "-n", "-W", "--keep-going", "-c", source / "docs"]
    return subprocess.run(
        [sys.executable, *map(str, command), str(source), str(target)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_site_has_every_page_and_a_search(tmp_path):
    pytest.importorskip("sphinx", reason="needs the extra [site]")
    done = build(ROOT, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    pages = {path.relative_to(ROOT / "docs").with_suffix("") for path in ROOT.glob("docs/**/*.md")}
    built = {
        page.relative_to(tmp_path / "docs").with_suffix("")
        for page in tmp_path.rglob("docs/**/*.html")
    }
    assert pages - built == set()
    index = (tmp_path / "searchindex.js").read_text("utf-8")
    assert "polysem" in index and "docs/senses" in index
    assert [file.name for file in tmp_path.glob("_downloads/*/bass.txt")] == ["bass.txt"]


def test_a_dead_link_fails(tmp_path):
    pytest.importorskip("sphinx", reason="needs the extra [site]")
    source = tmp_path / "source"
    (source / "docs").mkdir(parents=True)
    settings = (ROOT / "docs/conf.py").read_text("utf-8")
    (source / "docs/conf.py").write_text(settings, "utf-8")
    (source / "docs/index.md").write_text(
        "# Documentation\n\n[a page](api.md#no-such-section)\n", "utf-8"
    )
    (source / "docs/api.md").write_text("# The API\n", "utf-8")
    done = build(source, tmp_path / "site")
    assert done.returncode == 1
    assert "no-such-section" in done.stderr and "xref_missing" in done.stderr
