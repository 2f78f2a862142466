"""The record of what is encoded."""

from tests.operations.conftest import encoded  # noqa: F401 - a fixture
