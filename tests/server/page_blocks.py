"""Blocks of documentation pages, run with the address of a test service."""

import subprocess


def with_address(block, client):
    """Put the address of the test service into a block."""
    assert "localhost:8000" in block
    return block.replace("localhost:8000", f"{client.base_url.host}:{client.base_url.port}")


def shell_output(block, client):
    """Run a block of shell commands; return its standard output."""
    command = ["sh", "-ec", with_address(block, client)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def python_output(python, block, client):
    """Run a block of Python code with an interpreter; return its standard output."""
    command = [python, "-W", "ignore", "-c", with_address(block, client)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
