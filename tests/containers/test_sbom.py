"""The image's software bill of materials (SBOM) lists what the image contains."""

import json
import subprocess
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from polyseme import __version__
from tests.containers.conftest import NEEDS_AN_ENGINE, ROOT, Podman

INSTALLED = """
import importlib.metadata as metadata
for one in metadata.distributions():
    print(one.metadata["Name"], one.version)
"""

pytestmark = NEEDS_AN_ENGINE


@pytest.fixture(scope="module")
def text(image: str, engine: dict[str, str]) -> str:
    """The SBOM, as `make sbom` prints it."""
    environment = {**engine, "TAG": image.rsplit(":", 1)[1]}
    command = [ROOT / "containers/show-sbom"]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout


@pytest.fixture(scope="module")
def sbom(text: str) -> dict[str, Any]:
    """The SBOM as a document."""
    return dict(json.loads(text))


def packages_of(sbom: dict[str, Any], kind: str) -> set[tuple[str, str]]:
    """Name and version of the components whose package URL is of a kind."""
    return {
        (one["name"].lower(), one["version"])
        for one in sbom["components"]
        if one.get("purl", "").startswith(f"pkg:{kind}/") and "at=base" not in one["purl"]
    }


def lines(podman: Podman, image: str, program: str, *arguments: str) -> set[tuple[str, ...]]:
    """The words of each line that a program in the image prints."""
    out = podman("run", "--rm", "--entrypoint", program, image, *arguments).stdout
    return {tuple(line.split()) for line in out.splitlines()}


def test_the_sbom_follows_the_schema(text: str) -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None


def test_the_sbom_lists_the_installed_packages(sbom, podman: Podman, image: str) -> None:
    installed = {(n.lower(), v) for n, v in lines(podman, image, "python", "-c", INSTALLED)}
    assert ("polyseme", __version__) in installed
    assert packages_of(sbom, "pypi") == installed - {("polyseme", __version__)}
    options = ("-W", "-f", "${Package} ${Version}\n")
    assert packages_of(sbom, "deb") == lines(podman, image, "dpkg-query", *options)


def test_the_sbom_lists_the_project_the_model_and_the_scripts(sbom: dict[str, Any]) -> None:
    named = {one["name"]: one for one in sbom["components"]}
    manifest = json.loads((ROOT / "models/wiki-en/manifest.json").read_text())
    digest = manifest["files"]["vectors.npy"]["sha256"]
    assert named["wiki-en"]["type"] == "machine-learning-model"
    assert named["wiki-en"]["hashes"] == [{"alg": "SHA-256", "content": digest}]
    assert named["polyseme"]["version"] == __version__
    sources = (ROOT / "service/polyseme").glob("*/vendor/sources.json")
    packages = [one for file in sources for one in json.loads(file.read_text())["packages"]]
    assert {(one["name"], one["version"]) for one in packages} == packages_of(sbom, "npm")
    for package in packages:
        files = {one["name"]: one["hashes"] for one in named[package["name"]]["components"]}
        digests = package["files"].items()
        assert files == {f: [{"alg": "SHA-256", "content": digest}] for f, digest in digests}
    assert sbom["metadata"]["component"]["type"] == "container"
