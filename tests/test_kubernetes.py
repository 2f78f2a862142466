"""The manifests of `deploy/kubernetes`: valid, hardened and consistent with the settings."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from polyseme import create_app
from polyseme.settings import PREFIX, Settings
from tests.conftest import ROOT, output_of

Document = dict[str, Any]
PLACE = ROOT / "deploy/kubernetes"


def read(folder: Path) -> tuple[list[Document], dict[str, str]]:
    """The documents and the settings of a kustomization, its bases and its components."""
    content = kustomization(folder)
    documents: list[Document] = []
    settings: dict[str, str] = {}
    for name in (*content.get("resources", ()), *content.get("components", ())):
        path = folder / name
        if path.is_dir():
            inner = read(path)
            documents += inner[0]
            settings |= inner[1]
        else:
            documents += yaml.safe_load_all(path.read_text("utf-8"))
    for generator in content.get("configMapGenerator", ()):
        settings |= dict(one.split("=", 1) for one in generator["literals"])
    return documents, settings


def kustomization(folder: Path) -> Document:
    return dict(yaml.safe_load((folder / "kustomization.yaml").read_text("utf-8")))


FOLDERS = [PLACE / "base", PLACE / "example", *sorted((PLACE / "components").iterdir())]
DOCUMENTS = [one for folder in FOLDERS for one in read(folder)[0]]
SETTINGS = read(PLACE / "base")[1]
PODS = [
    one["spec"]["template"]["spec"] for one in DOCUMENTS if one["kind"] in {"Deployment", "Job"}
]


def document(kind: str) -> Document:
    """The first document of a kind."""
    return next(one for one in DOCUMENTS if one["kind"] == kind)


def default_of(name: str) -> int:
    """The default of a setting."""
    return int(Settings.model_fields[name].default)


@pytest.mark.slow
def test_every_manifest_follows_its_schema(tmp_path: Path) -> None:
    # The Prometheus operator defines PodMonitor.
    own = {json.dumps(one, sort_keys=True) for one in DOCUMENTS if one["kind"] != "PodMonitor"}
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(map(json.loads, own)))
    program = Path(sys.executable).with_name("kubernetes-validate")
    output = output_of(program, "--strict", tmp_path / "all.yaml", stderr=subprocess.STDOUT)
    assert output.count("passed for resource") == len(own)


def test_pods_and_containers_satisfy_the_restricted_profile() -> None:
    (patch,) = kustomization(PLACE / "components/models-pulled")["patches"]
    added = yaml.safe_load(patch["patch"])["spec"]["template"]["spec"]["initContainers"]
    for container in (*added, *(one for pod in PODS for one in pod["containers"])):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"cpu", "memory"} <= set(container["resources"]["requests"])
        assert "memory" in container["resources"]["limits"]
    for pod in PODS:
        assert pod["automountServiceAccountToken"] is False
        security = pod["securityContext"]
        assert security["runAsNonRoot"] is True and security["runAsUser"] > 0
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
        assert not any("hostPath" in volume for volume in pod["volumes"])


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_settings_exist_and_have_valid_values(folder: Path, tmp_path: Path) -> None:
    data = SETTINGS | read(folder)[1]
    assert all(key.startswith(PREFIX) for key in data)
    values = {key.removeprefix(PREFIX).lower(): value for key, value in data.items()}
    assert set(values) <= set(Settings.model_fields)
    keys = tmp_path / "keys"
    keys.touch()
    Settings(**values | ({"api_keys_file": keys} if "api_keys_file" in values else {}))


def test_a_pod_is_not_killed_before_the_service_has_stopped() -> None:
    grace, drain = (
        int(SETTINGS.get(f"{PREFIX}{name.upper()}", default_of(name)))
        for name in ("graceful_timeout", "drain_seconds")
    )
    probe = PODS[0]["containers"][0]["readinessProbe"]
    assert PODS[0]["terminationGracePeriodSeconds"] > grace
    # The failing probe removes the endpoint before the service stops accepting connections.
    assert probe["periodSeconds"] * probe["failureThreshold"] + probe["timeoutSeconds"] < drain
    assert grace - drain >= default_of("graceful_timeout")


def test_the_probes_request_the_health_routes() -> None:
    (container,) = PODS[0]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": default_of("port"), "admin": int(SETTINGS["POLYSEME_ADMIN_PORT"])}
    paths = {"startup": "/livez", "liveness": "/livez", "readiness": "/readyz"}
    for kind, path in paths.items():
        assert container[f"{kind}Probe"]["httpGet"] == {"path": path, "port": "admin"}


def test_the_service_connects_only_to_dns_redis_and_the_collector() -> None:
    rules = document("NetworkPolicy")["spec"]
    assert set(rules["policyTypes"]) == {"Ingress", "Egress"}
    ports = [[(p["port"], p["protocol"]) for p in rule["ports"]] for rule in rules["egress"]]
    assert ports == [[(53, "UDP"), (53, "TCP")], [(6379, "TCP")], [(4318, "TCP")]]
    assert all("to" in rule for rule in rules["egress"])
    for ingress, port in zip(rules["ingress"], ("http", "admin"), strict=True):
        assert ingress["from"] and ingress["ports"] == [{"port": port, "protocol": "TCP"}]


def test_there_are_two_replicas_of_which_at_most_one_is_unavailable() -> None:
    assert document("HorizontalPodAutoscaler")["spec"]["minReplicas"] >= 2
    assert document("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    # With a number here, each `kubectl apply` would reset that of the autoscaler.
    assert "replicas" not in document("Deployment")["spec"]


def test_the_ingress_has_every_route_but_metrics_and_readyz() -> None:
    (rule,) = document("Ingress")["spec"]["rules"]
    paths = rule["http"]["paths"]
    port = document("Service")["spec"]["ports"][0]["name"]
    for one in paths:
        assert one["backend"]["service"] == {"name": "polyseme", "port": {"name": port}}
    exact = {one["path"] for one in paths if one["pathType"] == "Exact"}
    prefixes = tuple(one["path"] for one in paths if one["pathType"] == "Prefix")
    rules = create_app(Settings(metrics="open")).url_map.iter_rules()
    missing = {r.rule for r in rules if r.rule not in exact and not r.rule.startswith(prefixes)}
    assert missing == {"/metrics", "/readyz"}
