"""Put deliberate faults into the sources, one at a time, and see whether the tests find them.

    python -m tests.faults draw [--number 100] [--seed 1]    writes tests/faults.json
    python -m tests.faults trace                             writes build/faults.coverage
    python -m tests.faults run [--first 0] [--number 100]    adds the tests that find them

A fault changes one operator, constant or condition of a function (mutation testing). The faults are
spread over all modules. A fault is known by its function and its line, so that it is found again
after the function has moved to another module; `run` reports faults whose line no longer exists.
Each is tried in a copy of the tree: first the tests that execute its line, as `trace` has seen them
(needs pytest-cov), then those of its package, then those of `make test`.
"""

import argparse
import ast
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from tqdm import tqdm

ROOT = Path(__file__).parent.parent
LIST = Path(__file__).with_suffix(".json")
TRACE = ROOT / "build" / "faults.coverage"
SOURCES = ("service/polyseme", "lab/polyseme_lab")
OPERATORS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: (" is ", " is not "),
    ast.IsNot: (" is not ", " is "),
    ast.In: (" in ", " not in "),
    ast.NotIn: (" not in ", " in "),  # codespell:ignore notin
    ast.Add: (" + ", " - "),
    ast.Sub: (" - ", " + "),
    ast.Mult: (" * ", " / "),
    ast.Div: (" / ", " * "),
    ast.FloorDiv: (" // ", " / "),
    ast.And: (" and ", " or "),
    ast.Or: (" or ", " and "),
}
"""The operator of a node, and what replaces it on its line."""
MARKED = "not (slow or container or wheel or clients)"
LIMIT = 900
"""Seconds after which the tests of a fault are stopped; a fault that hangs them is found."""
MOST = 150
"""Number of tests that execute a line to try first."""


def modules() -> list[Path]:
    """Return the modules of the service and the laboratory."""
    return sorted(path for top in SOURCES for path in (ROOT / top).rglob("*.py"))


def faults_of(path: Path) -> Iterator[dict[str, str]]:
    """Yield every fault of a module, with a line that its function has only once."""
    source = path.read_text()
    lines = source.splitlines()
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        body = lines[function.lineno - 1 : function.end_lineno]
        for node in ast.walk(function):
            for number, before, after in changes(node, lines):
                line = lines[number - 1]
                if body.count(line) == 1 and line.count(before) == 1:
                    changed = line.replace(before, after)
                    yield {
                        "function": function.name,
                        "line": line.strip(),
                        "fault": changed.strip(),
                    }


def changes(node: ast.AST, lines: list[str]) -> Iterator[tuple[int, str, str]]:
    """Yield the line number, a part of the line and its replacement for each change of a node."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield node.lineno, *OPERATORS[type(node.ops[0])]
    elif isinstance(node, ast.BoolOp | ast.BinOp) and type(node.op) in OPERATORS:
        yield node.lineno, *OPERATORS[type(node.op)]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.lineno, "not ", ""
    elif isinstance(node, ast.Constant) and node.lineno == node.end_lineno:
        text = lines[node.lineno - 1].encode()[node.col_offset : node.end_col_offset].decode()
        if isinstance(node.value, bool):
            yield node.lineno, text, str(not node.value)
        elif isinstance(node.value, int):
            yield node.lineno, text, str(node.value + 1)


def draw(number: int, seed: int) -> list[dict[str, Any]]:
    """Draw faults, one from each module in turn."""
    rng = random.Random(seed)
    left = {path: list(faults_of(path)) for path in modules()}
    order = [path for path, faults in left.items() if faults]
    rng.shuffle(order)
    drawn: list[dict[str, Any]] = []
    while order and len(drawn) < number:
        for path in list(order):
            drawn.append(left[path].pop(rng.randrange(len(left[path]))))
            if not left[path]:
                order.remove(path)
    return drawn[:number]


def place(fault: dict[str, Any]) -> tuple[Path, int] | None:
    """Return the module and the index of the line of a fault, None if it is gone.

    A line whose function has another name is found if only one line of the sources equals it.
    """
    same: list[tuple[Path, int]] = []
    for path in modules():
        source = path.read_text()
        if fault["line"] not in source:
            continue
        lines = source.splitlines()
        same += [(path, n) for n, line in enumerate(lines) if line.strip() == fault["line"]]
        for function in ast.walk(ast.parse(source)):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and (
                function.name == fault["function"]
            ):
                for number in range(function.lineno - 1, function.end_lineno or 0):
                    if lines[number].strip() == fault["line"]:
                        return path, number
    return same[0] if len(same) == 1 else None


def executing(path: Path, line: int) -> list[str]:
    """Return tests that execute a line of a module, those of its package first."""
    if not TRACE.exists():
        return []
    query = (
        "SELECT context.context, line_bits.numbits FROM line_bits JOIN file ON file.id = file_id"
        " JOIN context ON context.id = context_id WHERE file.path LIKE ?"
    )
    with sqlite3.connect(TRACE) as database:
        rows = database.execute(query, [f"%{path.relative_to(ROOT)}"]).fetchall()
    tests = sorted(
        {
            name.rpartition("|")[0]
            for name, bits in rows
            if "|" in name and line // 8 < len(bits) and bits[line // 8] >> line % 8 & 1
        }
    )
    random.Random(1).shuffle(tests)
    package = f"/{path.relative_to(ROOT).parts[2].removesuffix('.py')}/"
    return sorted(tests, key=lambda name: package not in name)[:MOST]


def found(fault: dict[str, Any], copy: Path) -> str:
    """Return the test that finds a fault, `hangs`, `gone`, or an empty string if none finds it."""
    where = place(fault)
    if where is None:
        return "gone"
    path, number = where
    target = copy / path.relative_to(ROOT)
    source = path.read_text()
    lines = source.splitlines(keepends=True)
    lines[number] = lines[number].replace(fault["line"], fault["fault"])
    target.write_text("".join(lines))
    package = path.relative_to(ROOT).parts[2]
    near = [test for test in (f"tests/{package}", f"tests/lab/{package}") if (ROOT / test).is_dir()]
    name = ""
    try:
        for tests in (executing(path, number + 1), near, ["tests"]):
            if tests and (name := failure(tests, copy)):
                break
    except subprocess.TimeoutExpired:
        name = "hangs"
    finally:
        target.write_text(source)
    return name


def failure(tests: Sequence[str], copy: Path) -> str:
    """Return the first test that fails in the copy, or an empty string."""
    names = copy.parent / "tests"
    names.write_text("\n".join(tests))
    processes = "0" if "::" in tests[0] else "2"
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--dist", "loadfile"]
    paths = os.pathsep.join(str(copy / top) for top in ("service", "lab", "."))
    done = subprocess.run(
        [*command, "-n", processes, "-p", "no:cacheprovider", "-m", MARKED, f"@{names}"],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    if done.returncode in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        return ""
    if "ERROR: not found" in done.stderr + done.stdout:  # a test was renamed after the trace
        return ""
    failed = (line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR")))
    return next(failed, "no test ran").split(" - ")[0].removeprefix("FAILED ")


def trace() -> None:
    """Run the tests of `make test` and record which of them execute each line."""
    TRACE.parent.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-m", MARKED]
    options = [*(f"--cov={top}" for top in SOURCES), "--cov-context=test", "--cov-report="]
    environment = {**os.environ, "COVERAGE_FILE": str(TRACE)}
    subprocess.run([*command, *options], cwd=ROOT, env=environment, check=False)


def write(faults: list[dict[str, Any]]) -> None:
    """Write the list of faults."""
    LIST.write_bytes(orjson.dumps(faults, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def main() -> None:
    """Draw faults, trace the tests, or run them with each fault."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["draw", "trace", "run"])
    parser.add_argument("--number", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    if given.action == "draw":
        write(draw(given.number, given.seed))
        return
    if given.action == "trace":
        trace()
        return
    faults = orjson.loads(LIST.read_bytes())
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "main"
        ignored = shutil.ignore_patterns(".git", ".venv", "build", "__pycache__")
        shutil.copytree(ROOT, copy, ignore=ignored)
        (Path(folder) / "shared").symlink_to(ROOT.parent / "shared")
        for fault in tqdm(faults[given.first : given.first + given.number]):
            fault["found_by"] = found(fault, copy)
            write(faults)
            tqdm.write(f"{fault['found_by'] or 'NOT FOUND'}: {fault['function']}: {fault['fault']}")


if __name__ == "__main__":
    main()
