"""Requests whose framing is wrong: lengths, chunks, and one hidden behind another."""

from random import Random

from tests.faults.requests import MARK, ROUTES, Hostile, body_of, headed, text_of

_HIDDEN = f"GET /livez?{MARK} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
"""A request inside the body of another, which nobody may answer."""
_TYPE = ("Content-Type", "application/json")
_CHUNKED = ("Transfer-Encoding", "chunked")


def _body(rng: Random) -> tuple[str, bytes]:
    path, document = body_of(rng)
    return path, text_of(document)


def lengths(rng: Random) -> Hostile:
    """Content-Length that is wrong, no number, or there twice."""
    path, body = _body(rng)
    n = len(body)
    odd = [
        str(n + 1),
        str(n + 99_999),
        "-1",
        "0x10",
        f"+{n}",
        f"{n} ",
        f" {n}",
        f"{n},{n}",
        f"{n}.0",
    ]
    odd += [
        "",
        "1e2",
        "9" * 30,
        "18446744073709551617",
        f"{n}, {n + 1}",
        MARK,
        "\xb2",
        f"{n}\x00",
        "00",
    ]
    headers = [_TYPE, ("Content-Length", rng.choice(odd))]
    if rng.random() < 0.3:
        headers.append(("Content-Length", rng.choice([str(n), str(n + 1), "0"])))
    return Hostile(headed("POST", path, tuple(headers), body))


def short(rng: Random) -> Hostile:
    """Content-Length that is too short: what is left is a request of its own, and a bad one."""
    path, body = _body(rng)
    headers = (_TYPE, ("Content-Length", str(rng.randrange(len(body)))))
    return Hostile(headed("POST", path, headers, body), answers=2)


def chunks(rng: Random) -> Hostile:
    """Chunks of wrong sizes, with odd ends, extensions and trailers."""
    path, body = _body(rng)
    size = f"{len(body):x}".encode()
    odd = [
        b"-1",
        b"0x5",
        b"zz",
        b"",
        b"ffffffffffffffffff",
        size + b" ",
        b"+" + size,
        size + b";a=b",
        b"1_0",
    ]
    odd += [
        size + b";" + b"x" * 9000,
        b"7fffffff",
        size + b"\x00",
        b" " + size,
        b"00000" + size,
        b"5;\n",
    ]
    first = rng.choice([size, *odd])
    ends = [
        b"\r\n0\r\n\r\n",
        b"\n0\n\n",
        b"0\r\n\r\n",
        b"\r\n",
        b"\r\n0\r\n",
        b"\r\n0\r\nX: y\r\n\r\n",
        b"xx",
    ]
    ends += [
        b"\r\n0\r\nContent-Length: 5\r\n\r\n",
        b"\r\n0\r\n" + b"A: b\r\n" * 500 + b"\r\n",
        b"\r\r0\r\r",
    ]
    sent = headed("POST", path, (_TYPE, _CHUNKED), first + b"\r\n" + body + rng.choice(ends))
    return Hostile(sent, answers=2)


def many_chunks(rng: Random) -> Hostile:
    """A body in chunks of a byte each."""
    path, body = _body(rng)
    sent = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    return Hostile(headed("POST", path, (_TYPE, _CHUNKED), sent + b"0\r\n\r\n"), kept=True)


def codings(rng: Random) -> Hostile:
    """Transfer codings that nobody has, or that hide from one of two servers."""
    path, body = _body(rng)
    odd = [
        "chunked, chunked",
        "gzip",
        "gzip, chunked",
        "identity",
        "xchunked",
        "chunked;q=1",
        " chunked",
    ]
    odd += [
        "chunked\x00",
        "Chunked ",
        "\x0bchunked",
        "chunked,",
        ",chunked",
        MARK,
        "",
        "chunked, identity",
    ]
    headers = (_TYPE, ("Transfer-Encoding", rng.choice(odd)))
    sent = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    return Hostile(headed("POST", path, headers, sent), answers=2)


def smuggled(rng: Random) -> Hostile:
    """A request hidden in the body of another: one of two lengths says that it is none."""
    hidden = _HIDDEN
    whole = len(hidden)
    zero = b"0\r\n\r\n"
    cases = [
        ((("Content-Length", str(whole)),), hidden),
        ((("Content-Length", str(whole + 5)), _CHUNKED), zero + hidden),
        ((_CHUNKED, ("Content-Length", "4")), b"%x\r\n%b\r\n0\r\n\r\n" % (whole, hidden)),
        ((("Content-Length", "0"), ("Content-Length", str(whole))), hidden),
        ((("Content-Length", f"{whole}, {whole}"),), hidden),
        ((("Transfer-Encoding", "x"), ("Content-Length", str(whole))), hidden),
        ((("Content_Length", "0"), ("Content-Length", str(whole))), hidden),
        ((("Content-Length ", "0"), ("Content-Length", str(whole))), hidden),
        ((("X-A", "b\r\n Content-Length: 0"), ("Content-Length", str(whole))), hidden),
        ((("X-A", "b\nContent-Length: 0"), ("Content-Length", str(whole))), hidden),
        ((("Transfer-Encoding", "chunked\r\nTransfer-Encoding: x"),), zero + hidden),
    ]
    headers, body = rng.choice(cases)
    method, path = rng.choice(
        [("POST", rng.choice(ROUTES)), ("GET", "/livez"), ("POST", "/nowhere")]
    )
    return Hostile(headed(method, path, (_TYPE, *headers), body))


MAKERS = (lengths, short, chunks, many_chunks, codings, smuggled)
