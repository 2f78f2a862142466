"""Write the image's bill of materials (CycloneDX JSON).

    cyclonedx-py environment PYTHON | python containers/sbom.py SITE-PACKAGES > sbom.cdx.json

The input is cyclonedx-bom's list of the packages of the environment. The script adds the Debian
packages, the Python of the base image with its packages, the bundled models and the npm packages.
"""

import json
import platform
import sys
import sysconfig
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

DPKG = Path("/var/lib/dpkg/status")
RELEASE = Path("/etc/os-release")


def bill(environment: Bom, site_packages: Path) -> Bom:
    """Complete the bill of an environment."""
    (project,) = (one for one in environment.components if one.name == "polyseme")
    image = Component(
        type=ComponentType.CONTAINER,
        name="polyseme-image",
        version=project.version,
        bom_ref="image",
        description="Contextual word vectors, as a service",
    )
    environment.metadata.component = image
    environment.components.update(
        [*_debian_packages(), *_base_packages(), *_models(site_packages), *_scripts(site_packages)]
    )
    environment.register_dependency(image, environment.components)
    return environment


def _debian_packages() -> Iterator[Component]:
    system = platform.freedesktop_os_release() if RELEASE.exists() else {}
    distribution = system.get("ID", "debian")
    blocks = DPKG.read_text("utf-8").strip().split("\n\n")
    for block in blocks:
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if not fields["Status"].endswith(" installed"):
            continue
        name, version, arch = (fields[key] for key in ("Package", "Version", "Architecture"))
        release = f"{distribution}-{system.get('VERSION_ID', '')}"
        purl = PackageURL("deb", distribution, name, version, {"arch": arch, "distro": release})
        yield Component(
            type=ComponentType.LIBRARY, name=name, version=version, purl=purl, bom_ref=str(purl)
        )


def _base_packages() -> Iterator[Component]:
    """Yield Python and its preinstalled packages, unless they are Debian packages."""
    if sys.base_prefix == "/usr":
        return
    version = platform.python_version()
    purl = PackageURL("generic", None, "python", version)
    yield Component(
        type=ComponentType.PLATFORM, name="python", version=version, purl=purl, bom_ref=str(purl)
    )
    site = sysconfig.get_path("purelib", vars={"base": sys.base_prefix})
    for one in metadata.distributions(path=[site]):
        name = one.metadata["Name"]
        purl = PackageURL("pypi", None, name.lower(), one.version, {"at": "base"})
        yield Component(
            type=ComponentType.LIBRARY, name=name, version=one.version, purl=purl, bom_ref=str(purl)
        )


def _models(site_packages: Path) -> Iterator[Component]:
    for manifest in sorted(site_packages.glob("polyseme/bundled/*/manifest.json")):
        facts = json.loads(manifest.read_text("utf-8"))
        # A model with a base has no vectors of its own.
        file = "attention.safetensors" if "base" in facts else "vectors.npy"
        digest = facts["files"][file]["sha256"]
        yield Component(
            type=ComponentType.MACHINE_LEARNING_MODEL,
            name=facts["name"],
            version=digest[:12],
            bom_ref=f"model:{facts['name']}",
            description=facts["source"],
            licenses=[LicenseExpression(facts["licence"])],
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
        )


def _scripts(site_packages: Path) -> Iterator[Component]:
    for file in site_packages.glob("polyseme/*/vendor/sources.json"):
        for package in json.loads(file.read_text("utf-8"))["packages"]:
            purl = PackageURL("npm", None, package["name"], package["version"])
            yield Component(
                type=ComponentType.LIBRARY,
                name=package["name"],
                version=package["version"],
                purl=purl,
                bom_ref=str(purl),
                licenses=[LicenseExpression(package["license"])],
                components=[
                    Component(
                        type=ComponentType.FILE,
                        name=name,
                        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
                    )
                    for name, digest in package["files"].items()
                ],
            )


if __name__ == "__main__":
    complete = bill(Bom.from_json(json.load(sys.stdin)), Path(sys.argv[1]))  # type: ignore[attr-defined]
    writer = make_outputter(complete, OutputFormat.JSON, SchemaVersion.V1_6)
    sys.stdout.write(writer.output_as_string(indent=1) + "\n")
