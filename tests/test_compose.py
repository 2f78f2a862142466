"""The Dockerfile, the compose file, nginx.conf and the scripts, without running a container."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from polyseme import create_app, errors
from polyseme.http.errors import problem_document
from polyseme.settings import Settings

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted(path for path in (ROOT / "containers").iterdir() if not path.suffix)
OURS = ["polyseme", "tools"]
WATCHING = ["prometheus", "alertmanager", "grafana"]
THIRD_PARTY = ["proxy", "redis", *WATCHING]
# The image sets the address inside the container and the mount point of the models.
FIXED_BY_THE_IMAGE = {"host", "port", "models_dir"}
NGINX_CONF = (ROOT / "deploy/nginx/nginx.conf").read_text("utf-8")
UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def directive(name):
    """The values of an nginx directive, sizes in bytes."""
    (line,) = re.findall(rf"^ *{name} (.+);$", NGINX_CONF, re.MULTILINE)
    return [size(value) for value in line.split()]


def size(value):
    """The bytes of a size with or without a unit, such as 256m."""
    return int(value[:-1]) * UNITS[value[-1]] if value[-1] in UNITS else int(value)


@pytest.fixture(scope="module")
def services():
    """The services of the compose file."""
    yaml = pytest.importorskip("yaml", reason="needs PyYAML to read the compose file")
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]


def _assert_passes(*command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _installed(program):
    beside_python = Path(sys.executable).parent / program
    path = str(beside_python) if beside_python.exists() else shutil.which(program)
    return path or pytest.skip(f"needs {program}")


@pytest.mark.slow
def test_the_compose_files_follow_the_specification():
    schema = ("--builtin-schema", "vendor.compose-spec")
    files = ("docker-compose.yml", "deploy/compose/keys.yml")
    _assert_passes(_installed("check-jsonschema"), *schema, *files)


def test_the_dockerfile_passes_its_linter():
    _assert_passes(_installed("hadolint"), "Dockerfile")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_the_scripts_pass_their_linter_and_are_executable(script):
    assert script.stat().st_mode & 0o111
    _assert_passes(_installed("shellcheck"), str(script))


@pytest.mark.parametrize("name", [*OURS, *THIRD_PARTY])
def test_the_services_are_hardened(services, name):
    service = services[name]
    assert not service["user"].startswith(("0", "root"))
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
        return
    image = service["image"].partition("@")[0]
    assert re.fullmatch(r"docker\.io/[a-z/]+:v?\d+\.\d+[\w.-]*", image)
    assert service["healthcheck"]["test"][0] == "CMD"
    assert service["restart"] == "unless-stopped"
    for volume in service.get("volumes", ()):
        source, _, rest = volume.partition(":")
        assert not source.startswith(".") or (rest.endswith(":ro") and (ROOT / source).exists())


IMAGE = re.compile(
    r"^ARG BASE=(\S+)|^ +BASE: \$\{BASE:-(\S+)\}|^ *(?:- )?image: (\S+)|^FROM (\S+)", re.MULTILINE
)


def image_files(root):
    return [root / "Dockerfile", root / "docker-compose.yml", *(root / "deploy").rglob("*.y*ml")]


def listed_images(root):
    lines = (root / "containers/images.txt").read_text().splitlines()
    return [line for line in lines if not line.startswith("#")]


def used_images(root):
    """The images of registries that the files of a tree use."""
    found = {
        next(filter(None, groups))
        for file in image_files(root)
        for groups in IMAGE.findall(file.read_text())
    }
    stages = set(re.findall(r"^FROM \S+ AS (\S+)", (root / "Dockerfile").read_text(), re.MULTILINE))
    ours = {"polyseme:latest", "polyseme:${TAG:-latest}", "${BASE}"}
    assert ours <= found
    return found - ours - stages


def test_every_image_of_a_registry_has_a_tag_and_is_listed():
    assert sorted(used_images(ROOT)) == listed_images(ROOT)
    for image in listed_images(ROOT):
        assert re.fullmatch(r"[a-z./]+:v?\d[\w.-]*(@sha256:[0-9a-f]{64})?", image)


SKOPEO = """#!/bin/sh
# A registry whose digests begin with DIGIT, and which has no Grafana if DIGIT is 0.
case "$DIGIT $4" in "0 "*grafana*) exit 1 ;; esac
printf 'sha256:%s%s' "$DIGIT" "$(printf '%s' "$4" | sha256sum | cut -c 2-64)"
"""


def test_images_are_pinned_and_renewed_by_digest(tmp_path):
    for file in (*image_files(ROOT), ROOT / "containers/images.txt", ROOT / "containers/pin"):
        copy = tmp_path / "tree" / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    program = tmp_path / "skopeo"
    program.write_text(SKOPEO)
    program.chmod(0o755)

    def pin(digit):
        environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "DIGIT": digit}
        command = [tmp_path / "tree/containers/pin"]
        return subprocess.run(command, env=environment, capture_output=True, check=False).returncode

    names = [image.partition("@")[0] for image in listed_images(ROOT)]
    for digit in "1", "2":
        assert pin(digit) == 0
        pinned = listed_images(tmp_path / "tree")
        assert [re.sub(f"@sha256:{digit}[0-9a-f]{{63}}$", "", image) for image in pinned] == names
        assert sorted(used_images(tmp_path / "tree")) == pinned
    assert pin("0") != 0
    assert listed_images(tmp_path / "tree") == pinned


def test_only_the_proxy_which_the_service_trusts_is_reachable_and_on_request_from_outside(services):
    assert services["polyseme"]["environment"]["POLYSEME_PROXIES"] == "${POLYSEME_PROXIES:-1}"
    reached = {name for name, one in services.items() if "outside" in one.get("networks", ())}
    assert "ports" not in services["polyseme"] and "ports" not in services["redis"]
    assert services["proxy"]["ports"] == ["${ADDRESS:-127.0.0.1}:${PORT:-8000}:8080"]
    assert reached == {"proxy", *WATCHING}
    for name in WATCHING:
        (published,) = services[name]["ports"]
        assert published.startswith("127.0.0.1:")


def test_the_proxy_has_memory_for_the_buffers_of_all_connections(services):
    (workers,), (connections,) = directive("worker_processes"), directive("worker_connections")
    (first,), (number, further) = directive("proxy_buffer_size"), directive("proxy_buffers")
    buffers = workers * connections * (first + number * further)
    assert buffers < size(services["proxy"]["mem_limit"]) * 0.6


def test_the_proxy_buffers_a_whole_response_on_disk(services):
    assert "spool:/tmp" in services["proxy"]["volumes"]
    assert "proxy_buffering on;" in NGINX_CONF and "proxy_request_buffering on;" in NGINX_CONF
    assert "proxy_temp_path /tmp/" in NGINX_CONF and "client_body_temp_path /tmp/" in NGINX_CONF
    largest = Settings.model_fields["max_answer_bytes"].default
    assert directive("proxy_max_temp_file_size") == [largest]


def test_the_log_of_the_proxy_names_every_route_that_it_forwards():
    (routes,) = re.findall(r"map \$request_uri \$route {(.+?)\n    }", NGINX_CONF, re.DOTALL)
    patterns = [one.replace("(?<", "(?P<") for one in re.findall(r'"~(.+)" .+;', routes)]
    rules = create_app(Settings(metrics="open")).url_map.iter_rules()
    assert {rule.rule for rule in rules if not any(re.match(p, rule.rule) for p in patterns)} == {
        "/metrics",
        "/readyz",
    }


PROXY_LIMIT = directive("client_max_body_size")[0]


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


def test_up_starts_the_service_and_the_proxy_and_profiles_start_the_rest(services):
    profiles = {name: one.get("profiles") for name, one in services.items()}
    assert {name for name, chosen in profiles.items() if chosen is None} == {"polyseme", "proxy"}
    assert [profiles[name] for name in WATCHING] == [["watch"]] * len(WATCHING)
    assert profiles["redis"] == ["redis"]


def test_the_tools_write_models_that_the_service_reads_and_start_only_by_name(services):
    service, tools = services["polyseme"], services["tools"]
    assert service["volumes"] == ["models:/models:ro"]
    assert {"models:/models", "downloads:/var/tmp"} <= set(tools["volumes"])
    assert tools["image"] == service["image"]
    assert tools["profiles"] == ["tools"]
    assert tools["healthcheck"] == {"disable": True}
    assert "ports" not in tools
    # Downloads are on disk, because /tmp is in memory.
    assert tools["environment"]["TMPDIR"] == "/var/tmp"
    assert tools["environment"]["GENSIM_DATA_DIR"].startswith("/var/tmp/")


def test_signals_reach_the_service_without_a_shell_in_between():
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    assert 'ENTRYPOINT ["polyseme"]' in lines
    assert 'CMD ["serve"]' in lines


def test_the_service_has_a_health_check_restarts_and_has_time_to_stop(services):
    service = services["polyseme"]
    assert "/readyz" in service["healthcheck"]["test"][-1]
    assert service["restart"] == "unless-stopped"
    grace = Settings.model_fields["graceful_timeout"].default
    assert int(service["stop_grace_period"].removesuffix("s")) > grace


def test_the_compose_file_passes_every_setting_on(services):
    passed = {
        name.removeprefix("POLYSEME_").lower() for name in services["polyseme"]["environment"]
    }
    assert passed == set(Settings.model_fields) - FIXED_BY_THE_IMAGE


def test_the_build_context_has_only_the_files_of_the_image():
    rules = (ROOT / ".dockerignore").read_text().split("\n")
    assert [rule for rule in rules if rule and not rule.startswith("#")] == [
        "*",
        "!pyproject.toml",
        "!README.md",
        "!LICENSE",
        "!service",
        "!models/wiki-en*",
        "!containers/*requirements.txt",
        "!containers/sbom.py",
        "**/__pycache__",
    ]
