"""The files of a kustomization, without kubectl, which few machines have."""

from pathlib import Path
from typing import Any, NamedTuple

import yaml

Document = dict[str, Any]


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
