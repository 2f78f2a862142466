"""The features of kustomize that `deploy/kubernetes` uses, because Debian's kubectl is too old.

If a kubectl that supports components is installed, a test compares the two.
"""

import copy
from pathlib import Path
from typing import Any

import yaml

Document = dict[str, Any]


def build(folder: Path) -> list[Document]:
    """The documents of a kustomization."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text("utf-8"))
    documents = _resources(folder, kustomization)
    _generate(kustomization, documents)
    for component in kustomization.get("components", ()):
        documents = _apply_component(folder / component, documents)
    for document in documents:
        if "namespace" in kustomization and document["kind"] != "Namespace":
            document["metadata"]["namespace"] = kustomization["namespace"]
        for image in kustomization.get("images", ()):
            _set_image(document, image)
    return documents


def _resources(folder: Path, kustomization: Document) -> list[Document]:
    documents = []
    for resource in kustomization.get("resources", ()):
        path = folder / resource
        read = build(path) if path.is_dir() else [*yaml.safe_load_all(path.read_text("utf-8"))]
        documents += copy.deepcopy(read)
    return documents


def _apply_component(folder: Path, documents: list[Document]) -> list[Document]:
    """The documents with the resources, generators and patches of a component applied."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text("utf-8"))
    documents = documents + _resources(folder, kustomization)
    _generate(kustomization, documents)
    for patch in kustomization.get("patches", ()):
        target = patch["target"]
        (document,) = (
            one
            for one in documents
            if (one["kind"], one["metadata"]["name"]) == (target["kind"], target["name"])
        )
        _merge(document, yaml.safe_load(patch["patch"]))
    return documents


def _generate(kustomization: Document, documents: list[Document]) -> None:
    """Create the config maps of a kustomization, or merge them into existing ones."""
    for generator in kustomization.get("configMapGenerator", ()):
        data = dict(one.split("=", 1) for one in generator["literals"])
        metadata = {"name": generator["name"]}
        if generator.get("behavior") == "merge":
            (existing,) = (
                one
                for one in documents
                if one["kind"] == "ConfigMap" and one["metadata"]["name"] == generator["name"]
            )
            existing["data"].update(data)
        else:
            documents.append(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
            )


def _merge(document: Document, change: Document) -> None:
    """Apply a strategic merge patch: lists of named items are merged by name."""
    for key, value in change.items():
        existing = document.get(key)
        if isinstance(value, dict) and isinstance(existing, dict):
            _merge(existing, value)
        elif isinstance(value, list) and isinstance(existing, list):
            _merge_lists(existing, value, "mountPath" if key == "volumeMounts" else "name")
        elif value is None:
            document.pop(key, None)
        else:
            document[key] = value


def _merge_lists(existing: list[Document], more: list[Document], name: str) -> None:
    """Merge items whose field `name` is equal; append the others."""
    for one in more:
        same = [other for other in existing if other[name] == one[name]]
        if same:
            _merge(same[0], one)
        else:
            existing.append(one)


def _set_image(document: Document, image: dict[str, str]) -> None:
    """Replace the name and the tag of an image in the containers of a document."""
    pod = document.get("spec", {}).get("template", {}).get("spec", {})
    for one in [*pod.get("containers", ()), *pod.get("initContainers", ())]:
        if one["image"].rsplit(":", 1)[0] == image["name"]:
            one["image"] = f"{image['newName']}:{image['newTag']}"
