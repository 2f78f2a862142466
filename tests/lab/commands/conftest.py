"""The fixtures of the command line, for the commands of the laboratory."""

from tests.cli.conftest import models_dir, polyseme

__all__ = ["models_dir", "polyseme"]
