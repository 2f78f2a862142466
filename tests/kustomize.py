"""The part of kustomize that `deploy/kubernetes` uses: the documents of `kubectl kustomize`.

Debian's kubectl is too old for components; a test compares the two if a newer one is installed.
"""

import copy
from pathlib import Path
from typing import Any

import yaml

Document = dict[str, Any]


def build(folder: Path) -> list[Document]:
    """The documents of a kustomization."""
    said = yaml.safe_load((folder / "kustomization.yaml").read_text("utf-8"))
    documents = _resources(folder, said)
    _generate(said, documents)
    for component in said.get("components", ()):
        documents = _add(folder / component, documents)
    for document in documents:
        if "namespace" in said and document["kind"] != "Namespace":
            document["metadata"]["namespace"] = said["namespace"]
        for image in said.get("images", ()):
            _rename(document, image)
    return documents


def _resources(folder: Path, said: Document) -> list[Document]:
    documents = []
    for resource in said.get("resources", ()):
        path = folder / resource
        read = build(path) if path.is_dir() else [*yaml.safe_load_all(path.read_text("utf-8"))]
        documents += copy.deepcopy(read)
    return documents


def _add(folder: Path, documents: list[Document]) -> list[Document]:
    """The documents with a component added."""
    said = yaml.safe_load((folder / "kustomization.yaml").read_text("utf-8"))
    documents = documents + _resources(folder, said)
    _generate(said, documents)
    for patch in said.get("patches", ()):
        target = patch["target"]
        (document,) = (
            one
            for one in documents
            if (one["kind"], one["metadata"]["name"]) == (target["kind"], target["name"])
        )
        _merge(document, yaml.safe_load(patch["patch"]))
    return documents


def _generate(said: Document, documents: list[Document]) -> None:
    for maker in said.get("configMapGenerator", ()):
        data = dict(one.split("=", 1) for one in maker["literals"])
        there = [d for d in documents if d["kind"] == "ConfigMap"]
        if maker.get("behavior") == "merge":
            there[0]["data"].update(data)
        else:
            metadata = {"name": maker["name"]}
            documents.append(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
            )


def _merge(document: Document, change: Document) -> None:
    """Apply a strategic merge patch: lists of named items are merged by name."""
    for key, value in change.items():
        there = document.get(key)
        if isinstance(value, dict) and isinstance(there, dict):
            _merge(there, value)
        elif isinstance(value, list) and isinstance(there, list):
            _join(there, value, "mountPath" if key == "volumeMounts" else "name")
        elif value is None:
            document.pop(key, None)
        else:
            document[key] = value


def _join(there: list[Document], more: list[Document], name: str) -> None:
    for one in more:
        same = [other for other in there if other[name] == one[name]]
        if same:
            _merge(same[0], one)
        else:
            there.append(one)


def _rename(document: Document, image: dict[str, str]) -> None:
    pod = document.get("spec", {}).get("template", {}).get("spec", {})
    for one in [*pod.get("containers", ()), *pod.get("initContainers", ())]:
        if one["image"].rsplit(":", 1)[0] == image["name"]:
            one["image"] = f"{image['newName']}:{image['newTag']}"
