"""The Dockerfile, the compose file and the scripts beside them, checked without an engine."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from polyseme.settings import Settings

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted(path for path in (ROOT / "containers").iterdir() if not path.suffix)
OURS = ["polyseme", "tools"]
OTHERS = ["proxy", "redis", "prometheus", "grafana"]
# What the image fixes: where it listens, inside, and where the volume of models is.
FIXED_BY_THE_IMAGE = {"host", "port", "models_dir"}


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


@pytest.mark.parametrize("file", ["docker-compose.yml", "deploy/compose/keys.yml"])
def test_the_compose_files_follow_the_specification(file):
    schema = ("--builtin-schema", "vendor.compose-spec")
    _assert_passes(_installed("check-jsonschema"), *schema, file)


def test_the_dockerfile_passes_its_linter():
    _assert_passes(_installed("hadolint"), "Dockerfile")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_the_scripts_pass_their_linter_and_can_be_run(script):
    assert script.stat().st_mode & 0o111
    _assert_passes(_installed("shellcheck"), str(script))


@pytest.mark.parametrize("name", [*OURS, *OTHERS])
def test_the_services_are_hardened(services, name):
    service = services[name]
    assert not service["user"].startswith(("0", "root"))
    assert service["read_only"] is True
    assert service["tmpfs"].split(":")[0] == "/tmp"
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["pids_limit"] > 0
    assert service["mem_limit"]
    assert "privileged" not in service
    assert "cap_add" not in service


@pytest.mark.parametrize("name", OURS)
def test_our_services_run_as_the_images_user(services, name):
    assert services[name]["user"] == "10001:10001"


@pytest.mark.parametrize("name", OTHERS)
def test_images_of_others_are_named_in_full_and_with_a_version(services, name):
    assert re.fullmatch(r"docker\.io/[a-z/]+:v?\d+\.\d+[\w.-]*", services[name]["image"])


@pytest.mark.parametrize("name", OTHERS)
def test_the_others_are_watched_and_come_back(services, name):
    assert services[name]["healthcheck"]["test"][0] == "CMD"
    assert services[name]["restart"] == "unless-stopped"
    for volume in services[name].get("volumes", ()):
        source, _, rest = volume.partition(":")
        assert not source.startswith(".") or rest.endswith(":ro")


def test_the_proxy_alone_is_reached_from_outside(services):
    reached = {name for name, one in services.items() if "outside" in one.get("networks", ())}
    assert "ports" not in services["polyseme"] and "ports" not in services["redis"]
    assert services["proxy"]["ports"] == ["${PORT:-8000}:8080"]
    assert reached == {"proxy", "prometheus", "grafana"}
    for name in ("prometheus", "grafana"):
        (published,) = services[name]["ports"]
        assert published.startswith("127.0.0.1:")


def test_the_service_believes_the_one_proxy_there_is(services):
    assert services["polyseme"]["environment"]["POLYSEME_PROXIES"] == "${POLYSEME_PROXIES:-1}"


def test_the_proxys_memory_holds_what_it_keeps(services):
    kept = services["proxy"]["tmpfs"].removeprefix("/tmp:size=").removesuffix("m")
    assert int(kept) < int(services["proxy"]["mem_limit"].removesuffix("m")) / 2


def test_up_starts_the_service_and_the_proxy_and_profiles_the_rest(services):
    profiles = {name: one.get("profiles") for name, one in services.items()}
    assert {name for name, chosen in profiles.items() if chosen is None} == {"polyseme", "proxy"}
    assert profiles["prometheus"] == profiles["grafana"] == ["watch"]
    assert profiles["redis"] == ["redis"]


def test_what_is_mounted_is_there(services):
    mounted = [v for one in services.values() for v in one.get("volumes", ()) if v[:2] == "./"]
    assert mounted
    for volume in mounted:
        assert (ROOT / volume.split(":")[0]).exists(), volume


def test_the_service_only_reads_the_volume_of_models(services):
    assert services["polyseme"]["volumes"] == ["models:/models:ro"]


def test_the_tools_write_models_where_the_service_reads_them_and_start_by_name_alone(services):
    tools = services["tools"]
    assert "models:/models" in tools["volumes"]
    assert tools["image"] == services["polyseme"]["image"]
    assert tools["profiles"] == ["tools"]
    assert tools["healthcheck"] == {"disable": True}
    assert "ports" not in tools


def test_the_tools_keep_what_they_download_on_a_disk(services):
    tools = services["tools"]
    assert "downloads:/var/tmp" in tools["volumes"]
    assert tools["environment"]["TMPDIR"] == "/var/tmp"
    assert tools["environment"]["GENSIM_DATA_DIR"].startswith("/var/tmp/")


def test_signals_reach_the_service_and_not_a_shell_before_it():
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    assert 'ENTRYPOINT ["polyseme"]' in lines
    assert 'CMD ["serve"]' in lines


def test_the_service_can_be_checked_restarted_and_stopped_in_order(services):
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


def test_the_build_is_sent_nothing_but_what_the_image_is_made_of():
    rules = (ROOT / ".dockerignore").read_text().split("\n")
    assert [rule for rule in rules if rule and not rule.startswith("#")] == [
        "*",
        "!pyproject.toml",
        "!README.md",
        "!LICENSE",
        "!service",
        "!models/wiki-en",
        "!containers/sbom.py",
        "**/__pycache__",
    ]
