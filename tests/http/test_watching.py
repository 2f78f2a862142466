"""Alerts and dashboard, checked against the metrics and by promtool."""

import json
import re
import shutil
import subprocess

import pytest
import yaml

from polyseme.http import metrics
from tests.conftest import ROOT

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
