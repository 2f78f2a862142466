"""Requests whose lines are wrong: headers, versions, and what other protocols say."""

from random import Random

from tests.faults.requests import MARK, PATHS, Hostile, valid


def headers(rng: Random) -> Hostile:
    """Headers that are long, many, folded, obsolete or no headers."""
    odd = [
        b"X: " + b"a" * rng.choice([8000, 9000, 70_000]),
        b": a",
        b" X: y",
        b"X : y",
    ]
    odd += [
        b"\r\n".join(b"X-%d: y" % n for n in range(rng.choice([90, 150, 2000]))),
        b"X: a\r\n  folded",
    ]
    odd += [
        b"X: a\rb",
        b"X: a\nb: c",
        b"X\x00: a",
        b"X: \x00",
        b"X: \x7f",
        b"X(): a",
        b"X",
        b"X\xff: a",
    ]
    odd += [
        b"Host: y",
        b"host: y",
        b"Host:",
        b"Host: a b",
        b"Host: \xff",
        b"Host: y:99999999",
        b"X: \xe2\x80",
    ]
    odd += [
        b"Host: " + b"a" * 5000,
        b"A" * 9000 + b": b",
        b"\t: x",
        b"X_Y: a",
        b"Proxy-Connection: keep-alive",
    ]
    path = rng.choice(PATHS)
    first = b"GET %b HTTP/1.1\r\n" % path.encode()
    host = rng.choice([b"Host: x\r\n", b"Host: x\r\n", b""])
    end = rng.choice([b"\r\n\r\n", b"\r\n\r\n", b"\n\n", b"\r\n"])
    return Hostile(first + host + rng.choice(odd) + b"\r\nX-A: " + MARK.encode() + end)


def pipelined(rng: Random) -> Hostile:
    """Several requests in one piece; one of them may be bad."""
    several = [valid(rng) for _ in range(rng.randint(2, 4))]
    if rng.random() < 0.5:
        several.insert(rng.randrange(len(several)), headers(rng).sent)
    return Hostile(b"".join(several), answers=len(several))


def versions(rng: Random) -> Hostile:
    """Other protocols, and versions that HTTP has not."""
    path = rng.choice(PATHS).encode()
    odd = [
        b"GET %b\r\n\r\n",
        b"GET %b HTTP/0.9\r\n\r\n",
        b"GET %b HTTP/1.0\r\n\r\n",
        b"GET %b HTTP/2.0\r\n\r\n",
    ]
    odd += [
        b"GET %b HTTP/9.9\r\n\r\n",
        b"GET %b HTTP/1.1.1\r\n\r\n",
        b"GET %b http/1.1\r\n\r\n",
        b"GET  %b  HTTP/1.1\r\n\r\n",
    ]
    odd += [
        b"GET\t%b\tHTTP/1.1\r\n\r\n",
        b"GET %b HTTP/1.1 x\r\n\r\n",
        b"\r\n\r\nGET %b HTTP/1.1\r\n\r\n",
        b"GET %b HTTP/\r\n\r\n",
    ]
    odd += [
        b"GET %b ICY/1.0\r\n\r\n",
        b"GET %b HTTP/1.1\n\n",
        b"GET %b HTTP/1.\xb2\r\n\r\n",
        b"GET %b HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    ]
    return Hostile(rng.choice(odd) % path)


_PROTOCOLS = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),
    b"\x16\x03\x01" + b"\xff" * 300,
    b"SSH-2.0-OpenSSH_9.0\r\n",
    b"EHLO x\r\nMAIL FROM:<a@b>\r\n",
    b"*1\r\n$4\r\nPING\r\n",
    b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x54" + bytes(84),
    b"\x00" * 5000,
    b"\r\n" * 3000,
    b"",
    b"\n",
    b"GET",
    b"stats\r\n",
)


def protocols(rng: Random) -> Hostile:
    """What clients of other protocols say first, and bytes that nobody says."""
    if rng.random() < 0.4:
        return Hostile(rng.randbytes(rng.randint(1, 3000)))
    return Hostile(rng.choice(_PROTOCOLS) + rng.choice([b"", MARK.encode()]))


def cut(rng: Random) -> Hostile:
    """A request that ends somewhere in its middle."""
    whole = valid(rng)
    return Hostile(whole[: rng.randrange(len(whole))])


def spliced(rng: Random) -> Hostile:
    """The start of one request and the end of another."""
    one, other = valid(rng), valid(rng)
    return Hostile(one[: rng.randrange(len(one))] + other[rng.randrange(len(other)) :], answers=2)


def flipped(rng: Random) -> Hostile:
    """A request some of whose bits are turned."""
    whole = bytearray(valid(rng))
    for _ in range(rng.randint(1, 5)):
        whole[rng.randrange(min(len(whole), rng.choice([20, 200, 2000])))] ^= 1 << rng.randrange(8)
    return Hostile(bytes(whole), answers=2)


MAKERS = (headers, pipelined, versions, protocols, cut, spliced, flipped)
