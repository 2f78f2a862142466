"""What is not well-formed HTTP, or breaks off, sent over a socket to a real gunicorn."""

import json
import socket

import httpx
import pytest

from tests.http.problem import SECRET


def test_a_client_that_goes_away_in_the_middle_harms_nobody(client: httpx.Client) -> None:
    address = (client.base_url.host, client.base_url.port)
    for _ in range(8):
        with socket.create_connection(address, timeout=10) as half:
            half.sendall(
                b"POST /v1/encode HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b'Content-Length: 100\r\n\r\n{"input": "a'
            )
    assert client.post("/v1/encode", json={"input": "a"}).status_code == 200


def test_a_body_that_ends_too_soon_is_refused_though_it_is_json(client: httpx.Client) -> None:
    body = b'{"input": "a"}'
    sent = (
        b"POST /v1/encode HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Connection: close\r\nContent-Length: %d\r\n\r\n"
    )
    assert raw(client, sent % len(body) + body).startswith(b"HTTP/1.1 200 ")
    assert raw(client, sent % (len(body) + 1) + body).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("path", [b"/v1//models", b"/docs//"])
def test_a_slash_too_many_is_another_path_and_leads_nowhere(
    client: httpx.Client, path: bytes
) -> None:
    sent = b"GET " + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    assert raw(client, sent).startswith(b"HTTP/1.1 404 ")


@pytest.mark.parametrize(
    "sent",
    [
        b"s3cretqx\r\n\r\n",
        b"GET /" + b"s3cretqx" * 1000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Long: " + b"s3cretqx" * 2000 + b"\r\n\r\n",
        b"POST /v1/encode HTTP/1.1\r\nHost: x\r\nContent-Length: s3cretqx\r\n\r\n",
    ],
)
def test_what_is_not_http_is_a_problem_too(client: httpx.Client, sent: bytes) -> None:
    head, _, body = raw(client, sent).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    headers = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    assert headers[b"content-type"] == b"application/problem+json"
    document = json.loads(body)
    assert (document["code"], document["status"]) == ("malformed", 400)
    assert document["request_id"].encode() == headers[b"x-request-id"]
    assert SECRET.encode() not in body


def test_chunks_that_are_not_well_formed_are_a_400(client: httpx.Client) -> None:
    head = b"POST /v1/encode HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    answer = raw(client, head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'"code":"not_json"' in answer


def raw(client: httpx.Client, sent: bytes) -> bytes:
    """Send bytes and read until the server closes, or has nothing more to say."""
    answer = b""
    with socket.create_connection((client.base_url.host, client.base_url.port), 30) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        while chunk := connection.recv(1 << 16):
            answer += chunk
    return answer
