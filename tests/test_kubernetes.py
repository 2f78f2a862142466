"""The manifests of `deploy/kubernetes`: valid, hardened and consistent with the settings."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from polyseme import create_app
from polyseme.settings import PREFIX, Settings

Document = dict[str, Any]
PLACE = Path(__file__).parents[1] / "deploy/kubernetes"
COMPONENTS = sorted(path.name for path in (PLACE / "components").iterdir())


class Kustomization(NamedTuple):
    """What a kustomization, its bases and its components have."""

    documents: list[Document]
    settings: dict[str, str]
    """the literals of the config map"""
    patches: list[Document]
    """strategic merge patches of the documents"""


def read(folder: Path) -> Kustomization:
    """Read a kustomization with its bases and components."""
    content = yaml.safe_load((folder / "kustomization.yaml").read_text("utf-8"))
    found = Kustomization([], {}, [])
    for name in (*content.get("resources", ()), *content.get("components", ())):
        path = folder / name
        if path.is_dir():
            inner = read(path)
            found.documents.extend(inner.documents)
            found.settings.update(inner.settings)
            found.patches.extend(inner.patches)
        else:
            found.documents.extend(yaml.safe_load_all(path.read_text("utf-8")))
    for generator in content.get("configMapGenerator", ()):
        found.settings.update(one.split("=", 1) for one in generator["literals"])
    found.patches.extend(yaml.safe_load(one["patch"]) for one in content.get("patches", ()))
    return found


def default_of(name: str) -> int:
    """The default of a setting."""
    return int(Settings.model_fields[name].default)


FOLDERS = {
    **{name: PLACE / name for name in ("base", "example")},
    **{name: PLACE / "components" / name for name in COMPONENTS},
}
each_folder = pytest.mark.parametrize("name", FOLDERS)


def document(place: Path, kind: str, name: str = "polyseme") -> Document:
    """The one document of a kind and a name."""
    (found,) = (
        one
        for one in read(place).documents
        if (one["kind"], one["metadata"]["name"]) == (kind, name)
    )
    return found


def pod_of(document: Document) -> Document:
    pod: Document = document["spec"]["template"]["spec"]
    return pod


def pods() -> list[Document]:
    """The pod specifications of the base and of the components."""
    made = [one for name in FOLDERS for one in read(FOLDERS[name]).documents]
    return [pod_of(one) for one in made if one["kind"] in {"Deployment", "Job"}]


def containers() -> list[Document]:
    """The containers of these pods, and the init containers that a component adds."""
    (patch,) = read(FOLDERS["models-pulled"]).patches
    return [*pod_of(patch)["initContainers"], *(one for pod in pods() for one in pod["containers"])]


@pytest.mark.slow
def test_every_manifest_follows_its_schema(tmp_path: Path) -> None:
    made = [one for name in FOLDERS for one in read(FOLDERS[name]).documents]
    # The Prometheus operator defines PodMonitor.
    own = {json.dumps(one, sort_keys=True) for one in made if one["kind"] != "PodMonitor"}
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(map(json.loads, own)))
    program = Path(sys.executable).with_name("kubernetes-validate")
    command = [program, "--strict", tmp_path / "all.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (done.stdout + done.stderr).count("passed for resource") == len(own)


def test_pods_satisfy_the_restricted_profile() -> None:
    for pod in pods():
        assert pod["automountServiceAccountToken"] is False
        security = pod["securityContext"]
        assert security["runAsNonRoot"] is True and security["runAsUser"] > 0
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
        assert not any("hostPath" in volume for volume in pod["volumes"])


def test_containers_are_read_only_and_have_resource_limits() -> None:
    for container in containers():
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"cpu", "memory"} <= set(container["resources"]["requests"])
        assert "memory" in container["resources"]["limits"]


@each_folder
def test_the_settings_exist_and_have_valid_values(name: str, tmp_path: Path) -> None:
    data = read(PLACE / "base").settings | read(FOLDERS[name]).settings
    assert all(key.startswith(PREFIX) for key in data)
    given = {key.removeprefix(PREFIX).lower(): value for key, value in data.items()}
    assert set(given) <= set(Settings.model_fields)
    keys = tmp_path / "keys"
    keys.touch()
    Settings(**given | ({"api_keys_file": keys} if "api_keys_file" in given else {}))


@pytest.fixture(scope="module")
def deployment() -> Document:
    return pod_of(document(PLACE / "base", "Deployment"))


def test_a_pod_is_not_killed_before_the_service_has_stopped(deployment) -> None:
    settings = read(PLACE / "base").settings
    grace, drain = (
        int(settings.get(f"{PREFIX}{name.upper()}", default_of(name)))
        for name in ("graceful_timeout", "drain_seconds")
    )
    probe = deployment["containers"][0]["readinessProbe"]
    assert deployment["terminationGracePeriodSeconds"] > grace
    # The failing probe removes the endpoint before the service stops accepting connections.
    assert probe["periodSeconds"] * probe["failureThreshold"] + probe["timeoutSeconds"] < drain
    assert grace - drain >= default_of("graceful_timeout")


def test_the_probes_request_the_health_routes(deployment) -> None:
    settings = read(PLACE / "base").settings
    (container,) = deployment["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": default_of("port"), "admin": int(settings["POLYSEME_ADMIN_PORT"])}
    paths = {"startup": "/livez", "liveness": "/livez", "readiness": "/readyz"}
    for kind, path in paths.items():
        assert container[f"{kind}Probe"]["httpGet"] == {"path": path, "port": "admin"}


def test_the_service_connects_only_to_dns_redis_and_the_collector() -> None:
    rules = document(PLACE / "base", "NetworkPolicy")["spec"]
    assert set(rules["policyTypes"]) == {"Ingress", "Egress"}
    ports = [[(p["port"], p["protocol"]) for p in rule["ports"]] for rule in rules["egress"]]
    assert ports == [[(53, "UDP"), (53, "TCP")], [(6379, "TCP")], [(4318, "TCP")]]
    assert all("to" in rule for rule in rules["egress"])
    for ingress, port in zip(rules["ingress"], ("http", "admin"), strict=True):
        assert ingress["from"] and ingress["ports"] == [{"port": port, "protocol": "TCP"}]


def test_there_are_two_replicas_of_which_at_most_one_is_unavailable() -> None:
    assert document(PLACE / "base", "HorizontalPodAutoscaler")["spec"]["minReplicas"] >= 2
    assert document(PLACE / "base", "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    # With a number here, each `kubectl apply` would reset that of the autoscaler.
    assert "replicas" not in document(PLACE / "base", "Deployment")["spec"]


def test_the_ingress_has_every_route_but_metrics_and_readyz() -> None:
    (rule,) = document(PLACE / "example", "Ingress")["spec"]["rules"]
    paths = rule["http"]["paths"]
    port = document(PLACE / "base", "Service")["spec"]["ports"][0]["name"]
    backends = [one["backend"]["service"] for one in paths]
    assert backends == [{"name": "polyseme", "port": {"name": port}}] * len(paths)
    exact = {one["path"] for one in paths if one["pathType"] == "Exact"}
    prefixes = tuple(one["path"] for one in paths if one["pathType"] == "Prefix")
    rules = create_app(Settings(metrics="open")).url_map.iter_rules()
    missing = {r.rule for r in rules if r.rule not in exact and not r.rule.startswith(prefixes)}
    assert missing == {"/metrics", "/readyz"}
