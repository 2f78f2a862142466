"""A check of the responses to errors."""

import re

import httpx

from polyseme.api.responses import ProblemResponse

SECRET = "s3cretqx"
"""A text of requests that no response repeats."""


def expect_problem(answer: httpx.Response, status: int, code: str) -> dict:
    """Check the members of an error; return the document."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    ProblemResponse.model_validate(document)
    assert (document["status"], document["code"]) == (status, code)
    assert document["request_id"] == answer.headers["x-request-id"]
    assert "server-timing" in answer.headers
    assert document["detail"].endswith(".") and document["hint"].endswith(".")
    assert SECRET not in answer.text
    assert not re.search(r"Traceback|\.py\b|File \"|/site-packages/", answer.text)
    return document
