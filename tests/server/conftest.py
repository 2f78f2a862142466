"""What the tests of faults share: how much is tried, and where what they find is written."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

Record = Callable[..., None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--full", action="store_true", help="try every fault as often as the record has it"
    )
    parser.addoption(
        "--record", type=Path, help="file to which each test adds a line of what it found"
    )


@pytest.fixture(scope="session")
def full(request: pytest.FixtureRequest) -> bool:
    """Whether the faults are tried as often as `make reliability` does."""
    return bool(request.config.getoption("--full", default=False))


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Record:
    """Write down what a test found, where a file was asked for."""
    file: Path | None = request.config.getoption("--record", default=None)

    def write(kind: str, **found: Any) -> None:
        if file is not None:
            with file.open("ab") as out:
                out.write(orjson.dumps({"kind": kind, **found}, option=orjson.OPT_APPEND_NEWLINE))

    return write
