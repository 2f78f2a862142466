"""The command `polyseme`."""

import os
import sys


def main() -> None:
    """Run the command line.

    One BLAS thread, as in the service: the same sentence gets the same bits from both. NumPy
    reads the variables when it is imported.
    """
    for library in ("OPENBLAS", "OMP", "MKL"):
        os.environ[f"{library}_NUM_THREADS"] = "1"
    try:
        from polyseme.cli.main import polyseme  # noqa: PLC0415
    except KeyboardInterrupt:  # as click ends one that comes later
        sys.exit("Aborted!")
    polyseme()


if __name__ == "__main__":
    main()
