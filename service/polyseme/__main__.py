"""The command `polyseme`."""

import os
import sys


def main() -> None:
    """Run the command line.

    BLAS is limited to one thread, as in the service, so that both compute the same bits. BLAS reads
    these environment variables when NumPy is imported. Arrow uses the memory of the system, which
    `bulk.read` limits, instead of reserving a gigabyte.
    """
    for library in ("OPENBLAS", "OMP", "MKL"):
        os.environ[f"{library}_NUM_THREADS"] = "1"
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    try:
        from polyseme.cli.main import polyseme
    except KeyboardInterrupt:  # click handles later ones in the same way
        sys.exit("Aborted!")
    polyseme()


if __name__ == "__main__":
    main()
