"""Where a request ends, however its bytes come; gunicorn's parser is the oracle."""

import io

import pytest
from gunicorn import http
from gunicorn.config import Config
from hypothesis import given
from hypothesis import strategies as st
from polyseme.http.framing import MOST_HEAD, Framing

LIMIT = 1000
POST = b"POST /v1/encode HTTP/1.1\r\nHost: a\r\n"
AFTER = b"GET /livez HTTP/1.1\r\n"


def fed(request, sizes=(1,)):
    """What is known once it is enough: the bytes that had come, and the framing."""
    framing, data, at, turn = Framing(LIMIT), bytearray(), 0, 0
    while at < len(request):
        size = sizes[turn % len(sizes)]
        data += request[at : at + size]
        at, turn = at + size, turn + 1
        if framing.enough(data):
            return data, framing
    return None


@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        POST + b"Content-Length: 5\r\n\r\nabcde",
        POST + b"content-length:\t5 \r\n\r\nabcde",
        POST + b"Content-Length: 0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\n\r\r\n0\r\nA: b\r\n\r\n",
    ],
)
def test_a_request_ends_where_it_says(request_) -> None:
    length = len(request_)
    for sizes in ((1,), (7,), (length,)):
        assert fed(request_[:-1], sizes) is None
        data, framing = fed(request_ + AFTER, sizes)
        assert framing.end == length
        assert framing.whole(data)
    data, framing = fed(request_ + AFTER, (length + len(AFTER),))
    assert (framing.end, framing.whole(data)) == (length, True)


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 5\r\nContent-Length: 5\r\n",
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: -5\r\n",
        b"Content-Length: 0x5\r\n",
        b"Content-Length: \r\n",
        b"Content-Length: 1001\r\n",
        b"Content-Length: 99999999999999999999\r\n",
        b"Transfer-Encoding: gzip\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    ],
)
def test_what_is_refused_anyway_is_not_waited_for(headers) -> None:
    data, framing = fed(POST + headers + b"Expect: 100-continue\r\n\r\n" + b"x" * 20)
    assert data.endswith(b"\r\n\r\n")
    assert not framing.whole(data)
    assert not framing.expects


@pytest.mark.parametrize("line", [b"", b"-1", b"g", b"0x1", b"1 1", b"1" * 16, b"\x00"])
def test_a_chunk_that_is_none_is_not_waited_for(line) -> None:
    request = POST + b"Transfer-Encoding: chunked\r\n\r\n" + line + b"\r\nabc\r\n0\r\n\r\n"
    data, framing = fed(request)
    assert not framing.whole(data)


def test_chunks_over_the_limit_are_handed_over_when_more_than_the_limit_has_come() -> None:
    head = POST + b"Transfer-Encoding: chunked\r\n\r\n"
    data, framing = fed(head + b"FFFFFFF\r\n" + b"x" * 5000)
    assert len(data) == len(head) + len(b"FFFFFFF\r\n") + LIMIT + 1
    assert not framing.whole(data)
    many, framing = fed(head + b"1\r\nx\r\n" * 1200)
    assert LIMIT < many.count(b"x") <= LIMIT + 2


def test_a_line_of_a_chunk_and_a_head_that_never_end_are_not_waited_for() -> None:
    assert fed(b"GET / HTTP/1.1\r\nA: " + b"x" * MOST_HEAD, (1000,))
    assert fed(POST + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"x" * 5000)
    assert fed(POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nA: " + b"x" * 5000)


def test_who_waits_to_be_told_is_seen_when_the_head_is_there() -> None:
    framing = Framing(LIMIT)
    assert not framing.enough(
        bytearray(POST + b"Content-Length: 5\r\nExpect: 100-Continue\r\n\r\n")
    )
    assert framing.expects
    older = POST.replace(b"1.1", b"1.0") + b"Content-Length: 5\r\nExpect: 100-continue\r\n\r\n"
    framing = Framing(LIMIT)
    assert not framing.enough(bytearray(older))
    assert not framing.expects


@given(
    body=st.binary(max_size=200),
    chunks=st.lists(st.integers(1, 50), max_size=8),
    trailers=st.sampled_from([b"", b"A: b\r\n", b"A: b\r\nC: d\r\n"]),
    sizes=st.lists(st.integers(1, 90), min_size=1, max_size=5),
    after=st.binary(max_size=30),
)
def test_gunicorn_finds_the_same_body_and_the_same_rest(
    body, chunks, trailers, sizes, after
) -> None:
    whole, rest = b"", body
    for size in chunks:
        if rest:
            whole += b"%X\r\n%s\r\n" % (len(rest[:size]), rest[:size])
            rest = rest[size:]
    whole += (b"%x\r\n%s\r\n" % (len(rest), rest) if rest else b"") + b"0\r\n" + trailers + b"\r\n"
    for request in (
        POST + b"Content-Length: %d\r\n\r\n" % len(body) + body,
        POST + b"Transfer-Encoding: chunked\r\n\r\n" + whole,
    ):
        _, framing = fed(request + after, sizes)
        assert framing.end == len(request)
        parser = http.get_parser(Config(), [request], ("127.0.0.1", 1))
        assert next(parser).body.read() == body
        assert not parser.unreader.buf.getvalue()
        assert isinstance(parser.unreader.buf, io.BytesIO)
