"""Alerts and dashboard, checked against the metrics and by promtool."""

import json
import re
import shutil
import subprocess

import pytest
import yaml

from polyseme.http import metrics
from polyseme.http.middleware import RequestContext, log_request
from polyseme.operations.encode import TokenCounts
from tests.conftest import ROOT

PROMETHEUS = ROOT / "deploy" / "prometheus"
GRAFANA = ROOT / "deploy" / "grafana"
PAGE = (ROOT / "docs" / "operation.md").read_text("utf-8")
DASHBOARD = json.loads((GRAFANA / "polyseme.json").read_text("utf-8"))
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


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_alert_has_a_severity_and_a_runbook(rule):
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert set(rule["annotations"]) == {"summary", "description", "runbook"}
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert page == "docs/operation.md"
    assert anchor == rule["alert"].lower()
    assert f"\n### {rule['alert']}\n" in PAGE


def test_every_alert_has_a_test_that_it_fires_and_one_that_it_does_not():
    tests = yaml.safe_load((PROMETHEUS / "alerts-tests.yml").read_text("utf-8"))["tests"]
    tested = {}
    for test in tests:
        for one in test["alert_rule_test"]:
            tested.setdefault(one["alertname"], set()).add(bool(one["exp_alerts"]))
    assert tested == {rule["alert"]: {True, False} for rule in RULES}


def promtool(*arguments, text=None, folder=PROMETHEUS):
    done = subprocess.run(
        ["promtool", *arguments],
        input=text,
        capture_output=True,
        text=True,
        cwd=folder,
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


@pytest.mark.slow
@needs_prometheus
def test_promtool_accepts_the_expressions_of_the_dashboard(tmp_path):
    filled = [
        target["expr"].replace("$__rate_interval", "30s").replace("$instance", ".*")
        for panel in PANELS
        for target in panel["targets"]
    ]
    rules = [{"record": f"panel:{i}", "expr": expression} for i, expression in enumerate(filled)]
    groups = {"groups": [{"name": "dashboard", "rules": rules}]}
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(groups), "utf-8")
    code, output = promtool("check", "rules", "rules.yml", folder=tmp_path)
    assert code == 0 and f"{len(rules)} rules found" in output, output


def test_prometheus_scrapes_each_replica_and_sends_alerts():
    settings = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text("utf-8"))
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]
    (found,) = settings["scrape_configs"][0]["dns_sd_configs"]
    assert (found["names"], found["type"], found["port"]) == (["polyseme"], "A", 8001)
    (manager,) = settings["alerting"]["alertmanagers"]
    assert manager["static_configs"] == [{"targets": ["alertmanager:9093"]}]
    assert {"polyseme", "alertmanager"} <= services.keys()


@pytest.mark.skipif(shutil.which("amtool") is None, reason="needs Debian's prometheus-alertmanager")
def test_amtool_accepts_the_configuration_of_the_alertmanager():
    file = ROOT / "deploy" / "alertmanager" / "alertmanager.yml"
    done = subprocess.run(["amtool", "check-config", file], capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_prometheus
def test_promtool_accepts_the_metrics_of_a_live_service(live_client):
    live_client.post("/v1/encode", json={"input": "a bank"})
    code, output = promtool("check", "metrics", text=live_client.get("/metrics").text)
    assert (code, output) == (0, "")


def test_the_dashboard_queries_the_provisioned_source():
    path = GRAFANA / "provisioning" / "datasources" / "prometheus.yml"
    (source,) = yaml.safe_load(path.read_text("utf-8"))["datasources"]
    queried = {target["datasource"]["uid"] for panel in PANELS for target in panel["targets"]}
    assert queried == {panel["datasource"]["uid"] for panel in PANELS} == {source["uid"]}


def test_the_page_names_every_field_of_a_log_line(caplog):
    context = RequestContext("x", "GET", "x")
    context.arrived -= 1
    context.code = context.model = context.caller = context.trace_id = "x"
    context.counts, context.aborted, context.work = TokenCounts([]), True, 1.0
    with caplog.at_level("INFO", "polyseme.requests"):
        log_request(context)
    fields = {*caplog.records[0].fields, "error", "places"}
    section = PAGE.partition("## The log")[2].partition("\n## ")[0]
    names = re.findall(r"^\| ([^|]*) \|", section, re.MULTILINE)
    listed = set(re.findall(r"`(\w+)`", " ".join(names)))
    assert listed == fields | {"time", "level", "message", "pid"}
