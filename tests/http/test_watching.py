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
    *((rule["alert"], rule["expr"]) for rule in RULES),
    *((panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]),
]

needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="needs Prometheus and promtool (Debian's package prometheus)",
)


def metric_names():
    """The names of all series of the service."""
    names = set()
    for family in metrics.METRICS.collect():
        if family.type == "histogram":
            names |= {f"{family.name}{end}" for end in ("_bucket", "_sum", "_count")}
        else:
            names.add(f"{family.name}_total" if family.type == "counter" else family.name)
    return names


def names_in(expression):
    return set(re.findall(r"\bpolyseme_\w+", expression))


def labels_of(name):
    """The labels of a series."""
    family = re.sub("_(bucket|sum|count|total)$", "", name)
    (labels,) = {m._labelnames for m in metrics.METRICS._collector_to_names if m._name == family}
    return labels


@pytest.mark.parametrize(("where", "expression"), EXPRESSIONS)
def test_every_metric_and_label_in_an_expression_exists(where, expression):
    names = names_in(expression)
    assert names <= metric_names(), where
    labels = set(re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"', expression))
    for listed in re.findall(r"\b(?:by|without|on|ignoring) ?\(([^)]*)\)", expression):
        labels |= set(re.findall(r"\w+", listed))
    assert labels <= {"le", "job", "instance"}.union(*map(labels_of, names)), where


def test_every_metric_is_on_the_dashboard_or_in_an_alert():
    used = set().union(*(names_in(expression) for _, expression in EXPRESSIONS))
    ending = re.compile("_(bucket|sum|count)$")
    families = {ending.sub("", name) for name in metric_names()}
    assert {ending.sub("", name) for name in used} == families


def test_the_page_lists_every_metric_with_its_labels_and_no_other():
    rows = re.findall(r"^\| `(polyseme_\w+)` \| (\w+) \|([^|]*)\|", PAGE, re.MULTILINE)
    listed = {name: (kind, re.findall(r"`(\w+)`", labels)) for name, kind, labels in rows}
    existing = {}
    for metric in set(metrics.METRICS._collector_to_names):
        kind = metric._type
        name = f"{metric._name}_total" if kind == "counter" else metric._name
        existing[name] = (kind, list(metric._labelnames))
    assert listed == existing


def test_every_alert_has_a_severity_and_a_runbook():
    for rule in RULES:
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        page, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert (page, anchor) == ("docs/operation.md", rule["alert"].lower())
        assert f"\n### {rule['alert']}\n" in PAGE


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
