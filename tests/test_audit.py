"""The audit of dependencies in `make check`: its verdicts on reports of pip-audit."""

import json
import runpy

import pytest

from tests.conftest import ROOT

AUDIT = runpy.run_path(str(ROOT / ".ci/audit.py"))
# As `pip-audit --format json` writes them (2.10).
CLEAN = {"name": "numpy", "version": "2.4.6", "vulns": []}
VULNERABLE = {
    "name": "flask",
    "version": "0.5",
    "vulns": [
        {"id": "PYSEC-2018-66", "fix_versions": ["0.12.3", "1.0"], "aliases": []},
        {"id": "PYSEC-2019-1", "fix_versions": [], "aliases": [], "description": "…"},
    ],
}
SKIPPED = {"name": "regex", "skip_reason": "Dependency not found on PyPI"}
UNREACHABLE = "requests.exceptions.ConnectionError: Max retries exceeded"


def verdict(*packages: dict, error: str = "") -> tuple[str, int]:
    report = json.dumps({"dependencies": packages, "fixes": []}) if packages else ""
    return AUDIT["verdict"](AUDIT["read"](report, error))


def test_a_known_vulnerability_fails_the_check_and_is_named() -> None:
    text, code = verdict(CLEAN, VULNERABLE, SKIPPED)
    assert code == 1
    assert text.splitlines() == [
        "audit: flask 0.5 has PYSEC-2018-66; take 0.12.3, 1.0.",
        "audit: flask 0.5 has PYSEC-2019-1; no version mends it yet.",
    ]
    expected = "audit: 1 packages have no known weakness; not audited: regex."
    assert verdict(CLEAN, SKIPPED) == (expected, 0)


def test_an_audit_of_nothing_fails_unless_that_is_accepted(monkeypatch) -> None:
    for accepted, expected in (("", 1), ("skip", 0)):
        monkeypatch.setenv("AUDIT", accepted)
        for text, code in (verdict(SKIPPED, SKIPPED), verdict(error=UNREACHABLE)):
            assert code == expected
            assert text.startswith("audit: nothing was audited, ")
    with pytest.raises(SystemExit, match="pip-audit failed: No module named pip_audit"):
        verdict(error="No module named pip_audit")
