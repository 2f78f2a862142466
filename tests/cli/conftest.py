"""The real command, in a process of its own, with a folder of models."""

import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

from tests.tiny import full_layer, write_tiny


def run(*arguments, models_dir=None, stdin="", **variables):
    """Run `polyseme`; a traceback is a failure whatever the test is about."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("POLYSEME_", "PYTEST"))}
    place = {} if models_dir is None else {"POLYSEME_MODELS_DIR": str(models_dir)}
    done = subprocess.run(
        [sys.executable, "-m", "polyseme", *map(os.fsencode, map(str, arguments))],
        input=stdin if isinstance(stdin, bytes) else stdin.encode(),
        capture_output=True,
        timeout=120,
        env={**kept, "PYTHONIOENCODING": "", "LC_ALL": "C.UTF-8", **place, **variables},
        check=False,
    )
    if b"Traceback" in done.stdout + done.stderr:
        pytest.fail(done.stderr.decode().splitlines()[-1], pytrace=False)
    return done


@pytest.fixture(scope="session")
def models_dir(tmp_path_factory):
    """A whole model `tiny`, a model `broken`, and one whose manifest is none."""
    place = tmp_path_factory.mktemp("models")
    bias = np.linspace(-1, 1, 11)
    write_tiny(place / "tiny", layers=[full_layer(1), full_layer(2)], word_bias=bias)
    vectors = write_tiny(place / "broken") / "vectors.npy"
    vectors.write_bytes(vectors.read_bytes()[:-4])
    (write_tiny(place / "unreadable") / "manifest.json").write_text("{}")
    return place


@pytest.fixture(scope="session")
def polyseme(models_dir):
    """`polyseme` with these models, `tiny` being the default one."""
    return partial(run, models_dir=models_dir, POLYSEME_MODEL="tiny")
