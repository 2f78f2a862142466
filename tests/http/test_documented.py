"""The requests of docs/api.md are answered as the page says."""

import json
import re

from tests.conftest import ROOT
from tests.test_readme import require_fragments

PAGE = (ROOT / "docs" / "api.md").read_text("utf-8")


def test_the_requests_of_the_page_are_answered(client):
    sections = re.findall(r"^## POST /v1/(\w+)\n(?:```json\n)?`?(\{.*?\})`?", PAGE, re.MULTILINE)
    found = {route: json.loads(body) for route, body in sections if "…" not in body}
    assert list(found) == ["encode", "trace", "neighbors", "embeddings"]
    for route, body in found.items():
        assert client.post(f"/v1/{route}", json=body).status_code == 200, route


def test_the_analogy_of_the_page_has_its_neighbors(client):
    ((body, answer),) = re.findall(r"/v1/neighbors --json '(.*)'\n```\n```json\n([^`]+)", PAGE)
    require_fragments(answer, client.post("/v1/neighbors", json=json.loads(body)).text)


def test_the_last_line_of_a_stream_is_the_documented_one(client):
    (last,) = re.findall(r'^\{"complete": true.*$', PAGE, re.MULTILINE)
    text = "Apple launched a new phone while I was eating an apple."
    headers = {"Accept": "application/x-ndjson"}
    answer = client.post("/v1/encode", json={"input": text}, headers=headers)
    assert json.loads(answer.text.splitlines()[-1]) == json.loads(last)


def test_the_other_routes_of_the_page_exist(client):
    _, _, table = PAGE.partition("## Other routes\n")
    routes = re.findall(r"`GET (\S+)`", table)
    assert len(routes) == 6
    for route in routes:
        answer = client.get(route.replace("NAME", "wiki-en"))
        assert answer.status_code == 200, route
    # The last row: the root is the web interface, not a redirection to /docs.
    assert table.rstrip().splitlines()[-1].startswith("| `GET /` | [the web interface]")
    assert b"<title>Polyseme</title>" in answer.content
