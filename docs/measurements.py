"""The page on what an import and the index of words cost, from `benchmarks/results/`."""

from typing import Any

import orjson
from docs.results import BENCHMARKS


def measurements() -> str:
    """What an import and the index of words cost."""
    lines = [
        "# What an import and the index of words cost",
        "",
        "Made by `make docs` from `benchmarks/results/`, where each file has the machine, the",
        "versions and the date; the script of the same name makes it. What is compared was run in",
        "turn. What requests, a start and a worker cost is in [performance.md](performance.md).",
        "",
    ]
    sections = (_import_costs, _vocabulary_costs)
    return "\n".join(lines + [line for section in sections for line in section()])


def _result(name: str) -> Any:
    return orjson.loads((BENCHMARKS / f"{name}.json").read_bytes())


def _import_costs() -> list[str]:
    found = _result("importing")
    text = f"""\
## An import
A synthetic GloVe file of {found["words"]:,} words of {found["width"]} numbers,
{found["file_mb"]:.0f} MB of text, on {found["machine"]["cores"]} processors; medians. gensim loads
it into memory; the import also checks every row, weighs, writes the model and reads it back. Memory
is that of the largest process.

| | seconds | to gensim | memory, MB |
|---|---|---|---|"""
    lines = text.splitlines()
    for name, seconds in found["median_seconds"].items():
        ratio, memory = found["ratio_to_gensim"][name], found["largest_process_mb"][name]
        lines.append(f"| {name} | {seconds} | {ratio} | {memory} |")
    return [*lines, ""]


def _vocabulary_costs() -> list[str]:
    found = _result("vocabulary")
    text = f"""\
## The index of words
{found["words"]:,} words ([why](decisions/0004-vocabulary-index.md)): what a worker has of its own,
how long thirty lookups take, and how long until the first.

| index | private, MB | 30 lookups, µs | ready, s |
|---|---|---|---|"""
    lines = text.splitlines()
    for name, at in found["median"].items():
        cells = (at["private_mb"], at["microseconds_30_words"], at["worker_ready_s"])
        lines.append(f"| {name} | {' | '.join(f'{cell:.3g}' for cell in cells)} |")
    return [*lines, ""]
