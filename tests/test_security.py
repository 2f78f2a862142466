"""SECURITY.md: every attack and guarantee names its tests, and some guarantees are tested here."""

import ast
import re

import httpx

from tests.conftest import ROOT
from tests.http.service import raw

PAGE = (ROOT / "SECURITY.md").read_text()
ATTACKS = re.findall(
    r"^\| (?!actor|attack|---)(.+) \|$", PAGE.partition("**Attacks")[2], re.MULTILINE
)
GUARANTEES = re.split(
    r"^- ", PAGE.partition("## Guarantees")[2].partition("##")[0], flags=re.MULTILINE
)
SOURCES = sorted(
    path for top in ("service/polyseme", "lab/polyseme_lab") for path in (ROOT / top).rglob("*.py")
)


def test_every_attack_and_guarantee_names_its_tests() -> None:
    assert len(ATTACKS) > 15 and len(GUARANTEES) > 8
    for sentence in (*ATTACKS, *GUARANTEES[1:]):
        assert re.search(r"`tests/[\w/]+(\.py)?`", sentence)
        for place in re.findall(r"`(tests/[^`]+)`", sentence):
            assert list(ROOT.glob(f"{place}/test_*.py")) or (ROOT / place).is_file(), place


def test_no_module_unpickles_or_executes_data() -> None:
    banned = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
    for node in (node for file in SOURCES for node in ast.walk(ast.parse(file.read_text()))):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = {alias.name for alias in node.names} | {getattr(node, "module", "") or ""}
            assert not names & banned
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            assert name not in {"eval", "exec", "__import__"}
            options = {one.arg: ast.unparse(one.value) for one in node.keywords}
            assert options.get("allow_pickle", "False") == "False"
            assert options.get("weights_only", "True") == "True"


def test_the_head_of_a_request_has_the_documented_limits(client: httpx.Client) -> None:
    address = client.base_url.host, client.base_url.port

    def status(line: int = 0, fields: int = 1, field: int = 0) -> bytes:
        path = "/livez?".ljust(line - len("GET  HTTP/1.1\r\n"), "a")
        headers = [f"X-{number}: ".ljust(field - 2, "a") for number in range(fields - 2)]
        head = [f"GET {path} HTTP/1.1", "Host: localhost", "Connection: close", *headers, "", ""]
        return raw(address, "\r\n".join(head).encode()).split(b" ", 2)[1]

    assert [status(line=4094), status(line=4200)] == [b"200", b"400"]
    assert [status(fields=100), status(fields=101)] == [b"200", b"400"]
    assert [status(fields=3, field=8190), status(fields=3, field=8300)] == [b"200", b"400"]
    assert [status(fields=6, field=7000), status(fields=8, field=7000)] == [b"200", b"400"]
