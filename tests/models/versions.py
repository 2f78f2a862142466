"""Models of known versions, and readings that something interrupts."""

from polyseme.models import registry as registry_module
from tests.models.damage import VECTORS
from tests.tiny import VECTORS as TABLE
from tests.tiny import write_tiny


def write_two(place):
    """Write the models `one` and `two` and return their place."""
    for name in ("one", "two"):
        write(place / name, 1)
    return place


def write(folder, version):
    """Write a version of a model; a folder that is there is replaced by renaming."""
    return write_tiny(folder, vectors=TABLE * version, source=f"version {version}")


def spoil(folder):
    """Replace a folder by one whose vectors are cut short."""
    vectors = write(folder, 9) / VECTORS
    vectors.unlink()
    vectors.write_bytes(b"x")


def version_of(model):
    """The version a model is of; its manifest and its vectors have to agree."""
    version = int(model.vectors[0, 0])
    assert model.manifest.source == f"version {version}"
    return version


def interrupted(monkeypatch, folder, interrupt):
    """Call a function after each reading of a folder, before the model is returned."""
    read_model = registry_module.read_model

    def read(path, **options):
        model = read_model(path, **options)
        if path == folder:
            interrupt()
        return model

    monkeypatch.setattr(registry_module, "read_model", read)
