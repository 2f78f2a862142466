"""A running service follows its OpenAPI document: schemathesis, with all of its checks.

The document does not contain `/metrics`, `/`, `/docs` and the files of the page: their responses
are text that no schema describes.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import orjson
import pytest

from tests.conftest import ROOT, Serve

pytest.importorskip("schemathesis", reason="needs the extra `test`")

pytestmark = [pytest.mark.faults, pytest.mark.slow]

KEY = "kq7Jx2mV9sW4"
EXAMPLES = 4
NDJSON, BINARY = "application/x-ndjson", "application/octet-stream"
CONFIGURATION = f"""\
[warnings]
enabled = false
[checks]
max_response_time = 30
# The statuses of requests that follow the schema. A schema cannot say that `start` and `end` are in
# the text, that the shapes of matrices fit, or which layers, words and subwords a model has. Such
# requests get a 422, or a 413 if the response would be too large.
positive_data_acceptance.expected-statuses = ["200", "404", "413", "422"]
[headers]
Authorization = "Bearer {KEY}"
"""


def document_of(client: httpx.Client) -> dict:
    """The document of the service with JSON bodies; `test_encode.py` has those in NDJSON."""
    document = client.get("/openapi.json").raise_for_status().json()
    assert {"key": []} in document["security"]
    document["security"] = [{"key": []}]
    for path, methods in document["paths"].items():
        if path.endswith("/infer"):
            # A schema cannot describe the length of the JSON before the bytes.
            del methods["post"]["requestBody"]["content"][BINARY]
    encode = document["paths"]["/v1/encode"]["post"]
    # The service reads the query only with NDJSON, which OpenAPI cannot say.
    del encode["requestBody"]["content"][NDJSON], encode["parameters"]
    return document


def run(folder: Path, address: str, document: dict) -> str:
    """Run schemathesis; return its output."""
    folder.joinpath("document.json").write_bytes(orjson.dumps(document))
    folder.joinpath("schemathesis.toml").write_text(CONFIGURATION)
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", "schemathesis.toml"]
    command += ["run", "document.json", "--url", address, "--checks", "all", "--no-color"]
    command += ["--generation-deterministic", "--max-examples", str(EXAMPLES)]
    command += ["--continue-on-failure", "--mode", "all"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'service'}"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_response_matches_the_openapi_document(serve: Serve, tmp_path):
    client = serve(api_keys=KEY)
    document = document_of(client)
    output = run(tmp_path, str(client.base_url), document)
    tested = int(re.search(r"Tested: (\d+)", output)[1])
    assert tested == sum(map(len, document["paths"].values()))
    cases = int(re.search(r"([\d,]+) generated", output)[1].replace(",", ""))
    assert cases > EXAMPLES
