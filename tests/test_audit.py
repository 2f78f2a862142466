"""The audit of dependencies in `make check`: its verdicts on reports of pip-audit."""

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci/audit.py"

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


@pytest.fixture(scope="module")
def audit() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("audit", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def verdict(audit: ModuleType, *packages: dict) -> tuple[str, int]:
    return audit.verdict(audit.read(json.dumps({"dependencies": packages, "fixes": []}), ""))


def test_a_known_vulnerability_fails_the_check_and_is_named(audit: ModuleType) -> None:
    text, code = verdict(audit, CLEAN, VULNERABLE, SKIPPED)
    assert code == 1
    assert text.splitlines() == [
        "audit: flask 0.5 has PYSEC-2018-66; take 0.12.3, 1.0.",
        "audit: flask 0.5 has PYSEC-2019-1; no version mends it yet.",
    ]


def test_packages_without_vulnerabilities_pass(audit) -> None:
    text, code = verdict(audit, CLEAN, SKIPPED)
    assert (text, code) == ("audit: 1 packages have no known weakness; not audited: regex.", 0)


@pytest.mark.parametrize(("accepted", "expected"), [("", 1), ("skip", 0)])
def test_an_audit_of_nothing_fails_unless_that_is_accepted(
    audit: ModuleType, monkeypatch, accepted: str, expected: int
) -> None:
    monkeypatch.setenv("AUDIT", accepted)
    unreachable = audit.read("", "requests.exceptions.ConnectionError: Max retries exceeded")
    for text, code in (verdict(audit, SKIPPED, SKIPPED), audit.verdict(unreachable)):
        assert code == expected
        assert re.fullmatch(r"audit: nothing was audited, [^\n]+\.", text)


def test_an_audit_that_fails_for_another_reason_fails_the_check(audit: ModuleType) -> None:
    with pytest.raises(SystemExit, match="pip-audit failed: No module named pip_audit"):
        audit.read("", "No module named pip_audit")
