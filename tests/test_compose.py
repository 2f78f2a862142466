"""The Dockerfile, the compose file, nginx.conf and the scripts, without running a container."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from polyseme import errors
from polyseme.http.errors import problem_document
from polyseme.settings import Settings
from tests.conftest import ROOT, output_of

SCRIPTS = sorted(path for path in (ROOT / "containers").iterdir() if not path.suffix)
OURS = ["polyseme", "tools"]
WATCHING = ["prometheus", "alertmanager", "grafana"]
THIRD_PARTY = ["proxy", "redis", *WATCHING]
# The image sets the address inside the container and the mount point of the models.
FIXED_BY_THE_IMAGE = {"host", "port", "models_dir"}
NGINX_CONF = (ROOT / "deploy/nginx/nginx.conf").read_text("utf-8")


@pytest.fixture(scope="module")
def services():
    """The services of the compose file."""
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]


def _assert_passes(program, *arguments):
    beside_python = Path(sys.executable).with_name(program)
    command = str(beside_python) if beside_python.exists() else shutil.which(program)
    if command is None:
        pytest.skip(f"needs {program}")
    output_of(command, *arguments)


@pytest.mark.slow
def test_the_compose_files_follow_the_specification():
    schema = ("--builtin-schema", "vendor.compose-spec")
    files = ("docker-compose.yml", "deploy/compose/keys.yml")
    _assert_passes("check-jsonschema", *schema, *files)


def test_the_dockerfile_passes_its_linter():
    _assert_passes("hadolint", "Dockerfile")


def test_the_scripts_pass_their_linter_and_are_executable():
    assert all(script.stat().st_mode & 0o111 for script in SCRIPTS)
    _assert_passes("shellcheck", *map(str, SCRIPTS))


@pytest.mark.parametrize("name", [*OURS, *THIRD_PARTY])
def test_the_services_are_hardened(services, name):
    service = services[name]
    assert service["read_only"] is True
    # The proxy's /tmp is a volume, because buffered responses do not fit in memory.
    assert name == "proxy" or service["tmpfs"] == "/tmp"
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["pids_limit"] > 0
    assert service["mem_limit"]
    assert not {"privileged", "cap_add"} & service.keys()
    if name in OURS:
        assert service["user"] == "10001:10001"
    else:
        assert not service["user"].startswith(("0", "root"))
        assert re.fullmatch(
            r"docker\.io/[a-z/]+:v?\d+\.\d+[\w.-]*", service["image"].partition("@")[0]
        )


IMAGE = re.compile(
    r"^ARG BASE=(\S+)|^ +BASE: \$\{BASE:-(\S+)\}|^ *(?:- )?image: (\S+)|^FROM (\S+)", re.MULTILINE
)


def listed_images():
    lines = (ROOT / "containers/images.txt").read_text().splitlines()
    return [line for line in lines if not line.startswith("#")]


def test_every_image_of_a_registry_is_listed_with_its_tag():
    deployed = (ROOT / "deploy").rglob("*.y*ml")
    texts = [f.read_text() for f in (ROOT / "Dockerfile", ROOT / "docker-compose.yml", *deployed)]
    images = {next(filter(None, groups)) for text in texts for groups in IMAGE.findall(text)}
    stages = set(re.findall(r"^FROM \S+ AS (\S+)", texts[0], re.MULTILINE))
    ours = {"polyseme:latest", "polyseme:${TAG:-latest}", "${BASE}"}
    assert sorted(images - ours - stages) == listed_images()
    for image in listed_images():
        assert re.fullmatch(r"[a-z./]+:v?\d[\w.-]*(@sha256:[0-9a-f]{64})?", image)


def test_only_the_proxy_is_reachable(services):
    assert services["polyseme"]["environment"]["POLYSEME_PROXIES"] == "${POLYSEME_PROXIES:-1}"
    reached = {name for name, one in services.items() if "outside" in one.get("networks", ())}
    assert "ports" not in services["polyseme"] and "ports" not in services["redis"]
    assert services["proxy"]["ports"] == ["${ADDRESS:-127.0.0.1}:${PORT:-8000}:8080"]
    assert reached == {"proxy", *WATCHING}
    for name in WATCHING:
        (published,) = services[name]["ports"]
        assert published.startswith("127.0.0.1:")


def test_the_proxy_buffers_whole_requests_and_responses_on_disk(services):
    assert "spool:/tmp" in services["proxy"]["volumes"]
    largest = Settings.model_fields["max_answer_bytes"].default
    for line in (
        "proxy_buffering on;",
        "proxy_request_buffering on;",
        f"proxy_max_temp_file_size {largest >> 20}m;",
    ):
        assert line in NGINX_CONF


PROXY_LIMIT = int(re.findall(r"client_max_body_size (\d+)m;", NGINX_CONF)[0]) << 20


@pytest.mark.parametrize(
    "error",
    [
        errors.MalformedError(),
        errors.UnknownRouteError(),
        errors.MethodNotAllowedError(),
        errors.TooLargeError(
            *("The body has too many bytes", "$size", "client_max_body_size", PROXY_LIMIT),
            "Split the request, or raise the limits of the proxy and of the service.",
        ),
        errors.PolysemeError(),
        errors.NotReadyError(),
        errors.OverloadedError(),
    ],
    ids=lambda error: error.code,
)
def test_an_error_of_the_proxy_is_the_services_document(error):
    pattern = rf"location = /problem/{error.code} {{\s+return {error.status} '(.*)';"
    (document,) = re.findall(pattern, NGINX_CONF)
    assert json.loads(document) == problem_document(error, "$id")
    retry = re.findall(rf"^ +/problem/{error.code} (\d+);$", NGINX_CONF, re.MULTILINE)
    assert retry == [value for name, value in error.headers().items() if name == "Retry-After"]


def test_the_log_of_the_proxy_names_every_public_route():
    (routes,) = re.findall(r"map \$request_uri \$route \{(.*?)\n    \}", NGINX_CONF, re.DOTALL)
    patterns = [one.replace("?<", "?P<") for one in re.findall(r'"~(.*?)" ', routes)]
    paths = json.loads((ROOT / "service/polyseme/http/openapi.json").read_bytes())["paths"]
    sent = {re.sub(r"\{\w+\}", "x", path) for path in paths}
    logged = {path for path in sent if any(re.search(pattern, path) for pattern in patterns)}
    assert sent - logged == {"/readyz"}


def test_the_tools_write_models_that_the_service_reads(services):
    service, tools = services["polyseme"], services["tools"]
    assert service["volumes"] == ["models:/models:ro"]
    assert {"models:/models", "downloads:/var/tmp"} <= set(tools["volumes"])
    # Downloads are on disk, because /tmp is in memory.
    assert tools["environment"]["TMPDIR"] == "/var/tmp"


def test_the_service_has_a_health_check_restarts_and_has_time_to_stop(services):
    service = services["polyseme"]
    assert "/readyz" in service["healthcheck"]["test"][-1]
    assert service["restart"] == "unless-stopped"
    grace = Settings.model_fields["graceful_timeout"].default
    assert int(service["stop_grace_period"].removesuffix("s")) > grace


def test_the_compose_file_passes_every_setting_on(services):
    passed = services["polyseme"]["environment"]
    names = {name.removeprefix("POLYSEME_").lower() for name in passed}
    assert names == set(Settings.model_fields) - FIXED_BY_THE_IMAGE
