"""The memory and the children of processes, from /proc."""

from collections.abc import Iterable
from pathlib import Path


def megabytes(pid: int | str, *names: str) -> float:
    """Return the sum of entries such as VmHWM of status, or Pss of smaps_rollup, in MB."""
    file = "status" if names[0].startswith("Vm") else "smaps_rollup"
    lines = Path(f"/proc/{pid}/{file}").read_text("ascii").splitlines()
    entries = dict(line.split(":", 1) for line in lines if ":" in line)
    return sum(int(entries[name].split()[0]) for name in names) * 1.024e-3


def children(pid: int) -> list[int]:
    """Return the process IDs of the children of a process."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii")
    return [int(child) for child in text.split()]


def reset_peaks(pids: Iterable[int | str]) -> None:
    """Set VmHWM, the peak of the resident memory, to the present memory."""
    for pid in pids:
        Path(f"/proc/{pid}/clear_refs").write_text("5", "ascii")
