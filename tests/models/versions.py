"""Models of known versions, and a hook that runs while a model is read."""

from polyseme.models import registry as registry_module
from tests.models.damage import VECTORS, path
from tests.tiny import VECTORS as TABLE
from tests.tiny import write_tiny


def write(folder, version):
    """Write a version of a model; an existing one is replaced."""
    return write_tiny(folder, vectors=TABLE * version, source=f"version {version}")


def write_broken(folder):
    """Replace a model by one whose vectors are truncated."""
    vectors = path(write(folder, 9), VECTORS)
    vectors.unlink()
    vectors.write_bytes(b"x")


def version_of(model):
    """The version of a model, which its manifest and its vectors must agree on."""
    version = int(model.vectors[0, 0])
    assert model.manifest.source == f"version {version}"
    return version


def call_after_reading(monkeypatch, folder, function):
    """Call a function whenever a folder has been read, before the model is returned."""
    read_model = registry_module.read_model

    def read(found, **options):
        model = read_model(found, **options)
        if found == folder:
            function()
        return model

    monkeypatch.setattr(registry_module, "read_model", read)
