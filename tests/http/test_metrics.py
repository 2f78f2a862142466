"""Metrics of one process, and the alerts and the dashboard that use them.

`test_admin.py` counts the requests of several workers.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from polyseme.http import metrics
from tests.conftest import ROOT
from tests.http.conftest import SECRET, Numbers, in_process, numbers, total

WORDS = ["apple", "BANK", "river", "zzz", "gnat"]
"""One word is found in another case, and two are unknown."""
ONE = {"input": [WORDS], "model": "tiny"}


@pytest.fixture(scope="module")
def client(models: Path) -> httpx.Client:
    """A client of an application with the tiny model."""
    return in_process(models_dir=models, model="tiny", max_sentence_tokens=5)


class Increase:
    """The increase of samples since the creation of this object."""

    def __init__(self, client: httpx.Client) -> None:
        self.client, self.before = client, numbers(client)

    def __call__(self, name: str, **labels: str) -> float:
        now: Numbers = numbers(self.client)
        return total(now, name, **labels) - total(self.before, name, **labels)


def test_requests_are_counted_with_their_errors_stages_and_words(client: httpx.Client) -> None:
    increase = Increase(client)
    size = sum(len(client.post("/v1/encode", json=ONE).content) for _ in range(4))
    rejected = client.post("/v1/encode", json={**ONE, "colour": SECRET})
    client.get(f"/v1/models/{SECRET}")
    client.request("BREW", f"/{SECRET}?{SECRET}", headers={"X-Request-ID": SECRET})
    occurrences = [
        {"text": "apple Bank bank zzz", "word": "bank"},
        {"text": "bank", "start": 1, "end": 2},
    ]
    assert client.post("/v1/compare", json={"occurrences": occurrences}).status_code == 200
    assert client.post("/v1/trace", json={"text": "apple zzz"}).status_code == 200
    longer = {**ONE, "input": [[*WORDS, "end", "end"]], "truncate": True}
    size += len(client.post("/v1/encode", json=longer).content)
    encode = {"route": "/v1/encode"}
    assert increase("requests_total", **encode, method="POST", status="200") == 5
    assert increase("requests_total", **encode, status="422") == 1
    assert increase("requests_total", route="/v1/models/<name>", status="404") == 1
    assert increase("requests_total", route="unmatched", method="other") == 1
    assert increase("errors_total", code="invalid") == 1
    assert increase("errors_total", code="unknown_model") == 1
    assert increase("request_duration_seconds_count", **encode) == 6
    assert increase("stage_duration_seconds_count", stage="attention") == 7
    assert increase("stage_duration_seconds_sum", stage="attention") > 0
    assert increase("tokens_total", model="tiny") == 5 * 5 + 5 + 2
    assert increase("unknown_words_total", model="tiny") == 5 * 2 + 1 + 1
    assert increase("case_fallbacks_total", model="tiny") == 5 + 1
    assert increase("truncated_words_total", model="tiny") == 2
    assert increase("answer_bytes_total", **encode) == size + len(rejected.content)
    text = client.get("/metrics").text
    assert SECRET not in text and "BREW" not in text


def test_bytes_are_counted_of_whole_streams_and_not_of_responses_to_head(client) -> None:
    headers, many = {"Accept": "application/x-ndjson"}, {**ONE, "input": [WORDS] * 30}
    increase = Increase(client)
    size = len(client.post("/v1/encode", json=many, headers=headers).content)
    assert increase("answer_bytes_total", route="/v1/encode") == size
    with client.stream("POST", "/v1/encode", json=many, headers=headers) as response:
        next(response.iter_raw(10))
    assert increase("connections_cut_total", reason="client_gone") == 1
    assert int(client.head("/v1/models").headers["content-length"]) > 0
    assert increase("answer_bytes_total", route="/v1/models") == 0
    assert increase("request_duration_seconds_count", route="/v1/models") == 1


def test_the_gauges_show_the_models(client: httpx.Client, models: Path, broken_models) -> None:
    found = numbers(client)
    assert total(found, "models_loaded") == 1
    assert total(found, "models_broken") == 0
    assert total(found, "ready") == 1
    mapped = [*(models / "tiny").glob("*.npy"), *(models / "tiny").glob("vocabulary-*.txt")]
    assert total(found, "mapped_bytes") == sum(path.stat().st_size for path in mapped)
    broken = numbers(in_process(models_dir=broken_models, model="broken"))
    assert total(broken, "models_broken") == 1
    assert total(broken, "ready") == 0


def test_every_label_set_exists_before_its_first_request(client: httpx.Client) -> None:
    found = set(numbers(client))
    for name, labels in (
        ("requests_total", {"route": "/v1/senses/apply", "method": "POST", "status": "200"}),
        ("errors_total", {"code": "overloaded"}),
        ("tokens_total", {"model": "wiki-en"}),
        ("connections_cut_total", {"reason": "client_gone"}),
    ):
        assert (f"polyseme_{name}", frozenset(labels.items())) in found


def test_openmetrics_is_offered(client: httpx.Client) -> None:
    accept = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"
    response = client.get("/metrics", headers={"Accept": accept})
    assert response.headers["content-type"].startswith("application/openmetrics-text")
    assert response.text.endswith("# EOF\n")
    plain = client.get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain")
    assert list(text_string_to_metric_families(plain.text))


PROMETHEUS = ROOT / "deploy" / "prometheus"
PAGE = (ROOT / "docs" / "operation.md").read_text("utf-8")
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "polyseme.json").read_text("utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
RULES = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text("utf-8"))["groups"][0]["rules"]

EXPRESSIONS = [
    *(rule["expr"] for rule in RULES),
    *(target["expr"] for panel in PANELS for target in panel["targets"]),
]
ENDINGS = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("_total",), "gauge": ("",)}
LABELS = {
    f"{metric._name}{ending}": set(metric._labelnames)
    for metric in metrics.METRICS._collector_to_names
    for ending in ENDINGS[metric._type]
}
"""The labels of each series of the service."""

needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="needs Prometheus and promtool (Debian's package prometheus)",
)


def test_the_page_lists_every_metric_with_its_labels_and_no_other():
    rows = re.findall(r"^\| `(polyseme_\w+)` \| (\w+) \|([^|]*)\|", PAGE, re.MULTILINE)
    listed = {(name, kind, *re.findall(r"`(\w+)`", labels)) for name, kind, labels in rows}
    assert listed == {
        (m._name + ("_total" if m._type == "counter" else ""), m._type, *m._labelnames)
        for m in metrics.METRICS._collector_to_names
    }


def test_every_alert_has_a_severity_and_a_runbook():
    for rule in RULES:
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        page, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert (page, anchor) == ("docs/operation.md", rule["alert"].lower())
        assert f"\n### {rule['alert']}\n" in PAGE


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_and_label_in_an_expression_exists(expression):
    names = set(re.findall(r"\bpolyseme_\w+", expression))
    labels = set(re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"', expression))
    for listed in re.findall(r"\b(?:by|without|on|ignoring) ?\(([^)]*)\)", expression):
        labels |= set(re.findall(r"\w+", listed))
    assert labels <= {"le", "job", "instance"}.union(*(LABELS[name] for name in names))


def test_every_metric_is_on_the_dashboard_or_in_an_alert():
    ending = re.compile("_(bucket|sum|count)$")
    used = {ending.sub("", n) for e in EXPRESSIONS for n in re.findall(r"\bpolyseme_\w+", e)}
    assert used == {ending.sub("", name) for name in LABELS}


def promtool(*arguments, text=None):
    done = subprocess.run(
        ["promtool", *arguments],
        input=text,
        capture_output=True,
        text=True,
        cwd=PROMETHEUS,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
@needs_prometheus
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "config", "prometheus.yml"),
        ("check", "rules", "--lint-fatal", "alerts.yml"),
        ("test", "rules", "alerts-tests.yml"),
    ],
    ids=" ".join,
)
def test_promtool_accepts_the_rules(arguments):
    code, output = promtool(*arguments)
    assert code == 0, output


@needs_prometheus
def test_promtool_accepts_the_metrics_of_a_live_service(live_client):
    live_client.post("/v1/encode", json={"input": "a bank"})
    code, output = promtool("check", "metrics", text=live_client.get("/metrics").text)
    assert (code, output) == (0, "")
