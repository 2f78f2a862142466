"""Alerts and dashboard, checked against the metrics and evaluated by a real Prometheus."""

import json
import re
import shutil
import subprocess
from contextlib import contextmanager

import httpx
import pytest
import yaml

from polyseme.http import metrics
from polyseme.http.context import RequestContext
from polyseme.http.logs import log_request
from polyseme.operations.encode import TokenCounts
from tests.conftest import ROOT, free_port
from tests.http.service import until

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


@pytest.mark.parametrize(("where", "expression"), EXPRESSIONS)
def test_every_metric_in_an_expression_exists(where, expression):
    assert names_in(expression) <= metric_names(), where


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


def test_prometheus_scrapes_each_replica_and_sends_alerts_to_the_alertmanager():
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


@contextmanager
def prometheus(folder, target):
    """Run a Prometheus with the repository's configuration that scrapes a service each second."""
    settings = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text("utf-8"))
    settings["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    del settings["alerting"], settings["scrape_configs"][0]["dns_sd_configs"]
    settings["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(settings), "utf-8")
    shutil.copy(PROMETHEUS / "alerts.yml", folder)
    port = free_port()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                "prometheus",
                "--config.file=prometheus.yml",
                f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as api:
            until(lambda: ready(api))
            yield api
    finally:
        process.terminate()
        process.wait(60)


def ready(api):
    try:
        return api.get("/-/ready").status_code == 200
    except httpx.TransportError:
        return False


def query(api, expression):
    """The result of an expression, with Grafana's variables filled in."""
    filled = expression.replace("$__rate_interval", "30s").replace("$instance", ".*")
    response = api.get("/api/v1/query", params={"query": filled}).json()
    assert response["status"] == "success", response
    return response["data"]["result"]


@pytest.fixture(scope="module")
def watched(tmp_path_factory, serve):
    """A Prometheus that has scraped a service before and after some requests."""
    client = serve()
    with prometheus(tmp_path_factory.mktemp("prometheus"), client.base_url.netloc.decode()) as api:
        until(lambda: query(api, "polyseme_workers"))

        def rates_after_requests():
            client.post("/v1/encode", json={"input": "A BANK of zzzqqq", "truncate": True})
            client.get("/v1/models/nothing")
            return query(api, "rate(polyseme_tokens_total[30s]) > 0")

        until(rates_after_requests)
        yield api


ALERTS = {rule["alert"] for rule in RULES}


@pytest.mark.slow
@needs_prometheus
@pytest.mark.parametrize(("where", "expression"), EXPRESSIONS)
def test_a_real_prometheus_evaluates_every_expression(watched, where, expression):
    found = query(watched, expression)
    if where in ALERTS:
        assert found == [], "a healthy service fires no alert"
    else:
        assert found, f"{where} shows nothing"


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
