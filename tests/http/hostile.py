"""Hostile requests, reproducible from a seed, and the check that responses fit the contract."""

import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

import h11
import orjson
from docs.openapi import ProblemResponse

from polyseme.errors import PolysemeError
from tests.http.bodies import ALTERNATIVES, BODIES
from tests.http.service import SECRET as MARK
from tests.http.service import Address, Response, raw, responses_in

INFER = "/v2/models/wiki-en/infer"
ROUTES = tuple(BODIES)


def cells(table: str) -> list[str]:
    """The cells of a table, separated by ` | ` or a line break, with their escapes read."""
    rows = [line.strip(" ") for line in table.replace("MARK", MARK).strip().split("\n")]
    return [c.encode().decode("unicode_escape") for row in rows for c in row.split(" | ")]


PATHS = (
    *ROUTES,
    *cells("/v1/models | /v1/models/wiki-en | /livez | /openapi.json | / | /v2 | /page/start.js"),
)
TEXT = f"Apple launched a phone {MARK} while I ate an apple."
VALID: tuple[tuple[str, Any], ...] = (
    *BODIES.items(),
    *((path, body) for path, others in ALTERNATIVES.items() for body in others),
    ("/v1/encode", {"input": TEXT}),
    ("/v1/encode", {"input": [["the", MARK, "bank"]], "layers": [0], "dtype": "float16"}),
    ("/v1/encode", {"input": TEXT, "oov": "error", "case": "exact"}),
    ("/v1/embeddings", {"input": [TEXT, "the bank"], "encoding_format": "base64", "user": MARK}),
    (INFER, {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": [TEXT]}]}),
)
"""Requests to damage."""


class Hostile(NamedTuple):
    """A request and its allowed responses."""

    sent: bytes
    max_responses: int = 1
    method: str = "GET"
    """HEAD for a request whose response has no body"""
    kind: str = ""


def headed(method: str, target: str, headers: Iterable[str], body: bytes = b"") -> bytes:
    """The bytes of a request."""
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost", *headers, "\r\n"]
    return "\r\n".join(lines).encode("latin-1", "replace") + body


def posted(path: str, body: bytes, *headers: str, kind: str = "application/json") -> bytes:
    """The bytes of a POST request with the correct Content-Length."""
    declared = (f"Content-Type: {kind}", f"Content-Length: {len(body)}")
    return headed("POST", path, (*declared, *headers), body)


def well_formed(path: str, body: bytes, *headers: str, **kind: str) -> Hostile:
    """A POST request that is well-formed HTTP, whatever its body is."""
    return Hostile(posted(path, body, *headers, **kind))


def valid(rng: Random) -> tuple[str, bytes]:
    """A route and a valid body."""
    path, body = rng.choice(VALID)
    return path, json.dumps(body).encode()


# Bodies.


def places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in a document with each of its keys or indexes, at most eight."""
    inside = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in list(inside)[:8]:
        yield document, key
        if isinstance(value, dict | list):
            yield from places(value)


ODD = [
    *cells(r"""
        null | true | 0 | -1 | 1.5 | "" | [] | [[]] | {} | [null] | [1e308,1e308] | "AAAA" | NaN
        1e308 | -1e308 | 5e-324 | 1e400 | 1e999999999 | -0.0 | 4294967296 | "====" | Infinity | 01
        1. | 0x10 | 1e | --1 | 99999999999999999999 | "\\ud800" | "\\udc00\\ud800" | "\\u0000"
        "\\u001b[31m" | "\\u202e" | "\n" | "\x00" | "\xff\xfe" | "\xc0\x80" | "\xed\xa0\x80"
        {"shape": [1], "data": "AAAA"} | "gASVAAAAAAAAAAB9lC4=" | "../../etc/passwd" | "wiki-en/"
        "WIKI-EN" | "w\xd1\x96ki-en" | "{{7*7}}" | "%s%n"
    """),
    *("[" * depth + "]" * depth for depth in (300, 1025, 100_000)),
    "[" + "1," * 2000 + '"b"]',
    '{"input":' * 1000 + "1" + "}" * 1000,
    "0." + "1" * 5000,
    "9" * 100_000,
    "[" * 10_000,
]
"""JSON and invalid JSON in place of a value."""
NAMES = (MARK, "", "__proto__", "Input", "input ", "a" * 3000, "$ref")


def values(rng: Random) -> Hostile:
    """A body with a value, a name or a repetition that does not fit."""
    path, body = valid(rng)
    document = json.loads(body)
    where, key = rng.choice([*places(document), (document, MARK)])
    change = rng.randrange(6)
    if change == 0 and isinstance(where, dict):
        where[rng.choice(NAMES)] = MARK
    elif change == 1 and key in where:
        del where[key]
    elif change > 1:
        where[key] = "@place@"
    odd = rng.choice(ODD).encode("latin-1")
    body = json.dumps(document).encode().replace(b'"@place@"', odd)
    if rng.random() < 0.1:
        body = body[:-1] + b', "%b": %b}' % (str(key).encode(), odd)
    return well_formed(path, body)


NOT_JSON = cells(r"""
     { | } | [ | " | {'input': 'a'} | {"input": "a",} | input=a | \x00 | \xff | // a | "a" | null
     <?xml version='1.0'?><a/> | {"input": "a"} {} | [1 2] | {"a" 1} | tru | [] | {\x00"\x00i\x00
""")
LINES = cells(r"""["a"] | ["a", ["b"]] | "\\ud800" | \r | [1] | "" | {} | 5 | "a" | [[[[[[""")
QUERIES = cells(r"""
    ?input=a | ?layers=99 | ?layers=0,0 | ?include=static, | ?include= | ?truncate=1 | ?model=../x
    ?dtype=float16&dtype=float32 | ?layers=-1 | ?%00 | ?=&=& | ? | ?MARK=MARK | ?oov=MARK |
""")
PLAIN = json.dumps({"input": MARK}).encode() + b" " * (1 << 22)
BOMBS = (gzip.compress(PLAIN, 9, mtime=0), zlib.compress(PLAIN, 9))


def bodies(rng: Random) -> Hostile:
    """Syntax of other languages, hostile lines and queries, and decompression bombs."""
    match rng.randrange(3):
        case 0:
            end = rng.choice([b"", MARK.encode()])
            return well_formed(rng.choice(ROUTES), rng.choice(NOT_JSON).encode("latin-1") + end)
        case 1:
            lines = "\n".join(rng.choice([*LINES, *NOT_JSON]) for _ in range(rng.randint(1, 12)))
            path = f"/v1/encode{rng.choice(QUERIES)}"
            return well_formed(path, lines.encode("latin-1"), kind="application/x-ndjson")
    coding = rng.choice(["gzip", "deflate", "zstd", "br", "gzip, gzip", "x-gzip", MARK])
    return well_formed(rng.choice(ROUTES), rng.choice(BOMBS), f"Content-Encoding: {coding}")


# Headers, targets and framing.

HEADER_ROWS = r"""
    Content-Type: text/plain | application/json; charset=utf-16 | MARK | ; | multipart/form-data
    Accept: * | text/html | MARK/MARK | ,,, | application/json;q=0 | application/x-npz | \xff
    Accept: application/x-ndjson | application/json;q=NaN | a/b;q=1e400 | ;q=1 | "
    Authorization: MARK | , | Bearer MARK | Bearer | Bearer \xff | Basic MARK | Bearer a b
    Origin: https://MARK | null | https://x\x00 | *
    Access-Control-Request-Method: PUT | MARK
    Cookie: MARK | ;;;
    Range: bytes=0-0 | MARK=0-1 | bytes=0-18446744073709551616
    If-None-Match: * | "MARK"
    If-Modified-Since: MARK | Fri, 31 Dec 9999 23:59:59 GMT
    X-Request-ID: MARK x | <MARK> | MARK%0d%0aX: y | \xff\xfe | MARK" | \x80 | MARK\x1b[2J
    traceparent: ff-1-1-1 | MARK | 00-00000000000000000000000000000000-0000000000000000-01
    X-Forwarded-For: MARK | 1.2.3.4 | ,,,
    Expect: 100-continue | MARK
    Upgrade: websocket | h2c
    Connection: Upgrade, HTTP2-Settings | close, close, keep-alive | MARK
    Transfer-Encoding: chunked, chunked | gzip | identity | xchunked | chunked\x00 | MARK
    X: \x00 | \x7f | a\rb | a\nb: c | a\r\n  folded
    SCRIPT_NAME: /MARK
    Host: MARK.example | y |  | a b | \xff | y:99999999
    Content-Length: 5 | -1 | x
""".strip().split("\n")
HEADERS = [
    *(
        f"{name}: {value}"
        for name, _, values in (row.strip().partition(": ") for row in HEADER_ROWS)
        for value in cells(values)
    ),
    *cells(r"X(: a | X\x00: a | \x20X: a | X : a | : a | X\xff: a | X | \t: x | X_Y: a"),
    *(f"{name}: {'a' * 9000}" for name in ("X", "Host", "Authorization", "X-Request-ID", "Cookie")),
    "Accept: " + ",".join(f"a{n}/b" for n in range(300)),
    "\r\n".join(f"X-{n}: y" for n in range(2000)),
]
"""Headers that are wrong, long, obsolete or invalid."""


def headers(rng: Random) -> Hostile:
    """A valid request with odd headers, sometimes with very many."""
    chosen = rng.sample(HEADERS, rng.choice([1, 1, 2, 3]))
    path, body = valid(rng)
    method = rng.choice(["GET", "HEAD", "OPTIONS", "POST", "POST", "POST"])
    if method == "HEAD":  # its response to malformed HTTP has a body
        chosen = [header for header in chosen if header.startswith(("Accept", "Range", "If-"))]
    if method != "POST":
        return Hostile(headed(method, rng.choice(PATHS), chosen), 2, method=method)
    return Hostile(posted(path, body, *chosen), 2)


METHODS = cells(r"""
    OPTIONS | TRACE | CONNECT | PUT | DELETE | PROPFIND | get | MARK | GET\t | \x00GET | GET:
""")
TARGETS = cells(r"""
    {0} | {0} | {0} | http://x{0} | https://x:99999{0} | //x{0} | x{0} | {0}?MARK | {0}#MARK
    {0};a=b | http://MARK{0} | http://[::1{0} | {0}/ | /{0} | {0}%3Fa | {0}\x80 | {0}?\xff | * |
    http: | ? | /% | {0}/MARK | /v1/models/../MARK | /v1/models/%2e%2e%2fMARK | /page/%00MARK
    /v1/models/wiki-en/%0d%0aSet-Cookie:%20a=bMARK | /page/....//MARK | /v1/..\\MARK
    /page/%c0%ae/MARK | /page//etc/passwd | /%22%3E%3Cscript%3EMARK | /v1/models/MARK
""")
VERSIONS = cells(r"""
    \x20HTTP/0.9 |  | \x20HTTP/1.0 | \x20HTTP/2.0 | \x20HTTP/1.1.1 | \x20http/1.1
    \x20\x20HTTP/1.1 | \x20HTTP/1.1 x | \x20HTTP/ | \x20ICY/1.0 | \x20HTTP/1.\xb2
""")


PROTOCOLS = cells(r"""
    PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00 | SSH-2.0-OpenSSH_9.0\r\n | GET
    *1\r\n$4\r\nPING\r\n | \x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00\x01\x02 |
    \r\n\r\nGET / HTTP/1.1\r\n\r\n
""")


def lines(rng: Random) -> Hostile:
    """Odd methods, targets, versions and ends of lines, other protocols, and random bytes."""
    odd = rng.randrange(6)
    if odd == 4:
        return Hostile((rng.choice(PROTOCOLS) + rng.choice(["", MARK])).encode("latin-1"))
    if odd == 5:
        return Hostile(rng.randbytes(3000))
    method = rng.choice(METHODS) if odd == 0 else rng.choice(["GET", "POST", "OPTIONS"])
    version = rng.choice(VERSIONS) if odd == 1 else " HTTP/1.1"
    end = rng.choice(["\r\n\r\n", "\n\n", "\r\n"]) if odd == 2 else "\r\n\r\n"
    target = rng.choice(TARGETS).format(rng.choice(PATHS))
    head = f"{method} {target}{version}\r\nHost: localhost\r\nContent-Length: 0{end}"
    return Hostile(head.encode("latin-1", "replace"))


CHUNKS = cells(r"""
    -1\r\n{}\r\n0\r\n\r\n | zz\r\n | ffffffffffffffffff\r\n | {:x};a=b\r\n | +1\r\nx\r\n0\r\n\r\n
    1\r\nxx | \n0\n\n | 0\r\nX: y\r\n\r\n | 1_0\r\n
""")


def framing(rng: Random) -> Hostile:
    """Wrong lengths, and chunks with wrong sizes and ends."""
    path, body = valid(rng)
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    if rng.random() < 0.5:
        length = rng.choice(
            ["-1", "0x10", "", "9" * 30, MARK, f"{len(body)}.0", "1", f"+{len(body)}"]
        )
        return Hostile(f"{head}Content-Length: {length}\r\n\r\n".encode() + body, 2)
    chunks = rng.choice(CHUNKS).format(len(body)).encode() + body
    return Hostile(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunks, 2)


HIDDEN = f"GET /livez?{MARK} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
SMUGGLED = cells(r"""
    Content-Length: {n}\r\n\r\n
    Content-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n
    Content-Length: 0\r\nContent-Length: {n}\r\n\r\n | Content-Length: {n}, {n}\r\n\r\n
    Transfer-Encoding: x\r\nContent-Length: {n}\r\n\r\n | X\nContent-Length: {n}\r\n\r\n
    Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n{n:x}\r\n
    Content_Length: 0\r\nContent-Length: {n}\r\n\r\n
    Content-Length : 0\r\nContent-Length: {n}\r\n\r\n
    X-A: b\r\n Content-Length: 0\r\nContent-Length: {n}\r\n\r\n
    X-A: b\nContent-Length: 0\r\nContent-Length: {n}\r\n\r\n
    Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n
""")


def smuggled(rng: Random) -> Hostile:
    """A request in the body of another, which two servers may delimit differently."""
    first = rng.choice([f"POST {rng.choice(ROUTES)}", "GET /livez", "POST /nowhere"])
    head = f"{first} HTTP/1.1\r\nHost: localhost\r\n{rng.choice(SMUGGLED).format(n=len(HIDDEN))}"
    return Hostile(head.encode() + HIDDEN)


def damaged(rng: Random) -> Hostile:
    """Valid requests with flipped bits, cut short, spliced, repeated or pipelined."""
    one, other = (bytearray(posted(*valid(rng))) for _ in range(2))
    place = rng.randrange(len(one))
    match rng.randrange(5):
        case 0:
            return Hostile(bytes(one[:place]))
        case 1:
            one[place:] = other[rng.randrange(len(other)) :]
        case 2:
            one[place:place] = one[rng.randrange(len(one)) :][:30]
        case 3:
            sent = [bytes(one), lines(rng).sent, bytes(other)]
            return Hostile(b"".join(sent[: rng.randint(2, 3)]), max_responses=4)
        case _:
            for _ in range(rng.randint(1, 5)):
                one[rng.randrange(len(one))] ^= 1 << rng.randrange(8)
    return Hostile(bytes(one), max_responses=2)


KINDS = (values, headers, bodies, lines, framing, values, damaged, smuggled, lines)


def hostile(seed: int, number: int) -> Hostile:
    """Return a request; the kinds take turns."""
    make = KINDS[number % len(KINDS)]
    return make(Random(f"{seed} {number}"))._replace(kind=make.__name__)


# The contract.

PROBLEM = "application/problem+json"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_TIMING = re.compile(r"([a-z_]+;dur=\d+(\.\d+)?(, |$))+")
_POINTER = re.compile(r"(/(\d{1,9}|[A-Za-z_][A-Za-z0-9_]{0,31}))*")
_INTERNALS = re.compile(rb"Traceback|\.py\b|File \\?\"|site-packages|/proc/|/home/|/root/|/tmp/")


def _codes(error: type[PolysemeError] = PolysemeError) -> set[tuple[int, str]]:
    return {(error.status, error.code)}.union(*map(_codes, error.__subclasses__()))


CODES = _codes()
"""Every status and code of an error."""


def violation(response: Response, method: str = "GET") -> str | None:
    """The violation of the contract by a response, or None."""
    try:
        _check_headers(response)
        if response.status in {200, 204, 206, 304}:
            if method != "HEAD":
                _check_success(response)
        else:
            assert response.status < 500 or response.status == 503, f"status {response.status}"
            assert response.kind == PROBLEM, f"{response.status} as {response.kind!r}"
            if method != "HEAD":
                _check_problem(response)
    except (AssertionError, ValueError, KeyError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def _check_headers(response: Response) -> None:
    headers = dict(response.headers)
    assert _REQUEST_ID.fullmatch(headers.pop("x-request-id")), "the request id"
    assert _TIMING.fullmatch(headers["server-timing"]), headers["server-timing"]
    assert MARK not in str(headers).lower(), "a header repeats the request"
    if response.status in {429, 503}:
        assert int(headers["retry-after"]) >= 1


def _check_success(response: Response) -> None:
    if response.kind == "application/json":
        orjson.loads(response.body)
    elif response.kind == "application/x-ndjson":
        for line in response.body.splitlines():
            orjson.loads(line)


def _check_problem(response: Response) -> None:
    document = orjson.loads(response.body)
    ProblemResponse.model_validate(document)
    assert document["status"] == response.status
    assert (response.status, document["code"]) in CODES, document["code"]
    assert document["type"] == f"urn:polyseme:error:{document['code']}"
    assert document["request_id"] == response.headers["x-request-id"]
    # A pointer may name an unknown field of the request, but only a plain name.
    pointers = [one["pointer"] for one in document.get("errors", ())]
    assert all(map(_POINTER.fullmatch, pointers)), pointers
    text = response.body.replace(document["request_id"].encode(), b"")
    assert not _INTERNALS.search(text), "a path or a traceback"
    is_named = document["code"] == "unknown_word" or any(MARK in one for one in pointers)
    assert is_named or MARK.encode() not in text.lower(), "an echo"


# Sending.

THREADS = 4
ORDINARY = posted("/v1/encode", b'{"input": "the bank of the river", "include": ["contextual"]}')


@dataclass
class Outcome:
    """The results of some requests."""

    statuses: Counter[str] = field(default_factory=Counter)
    """by status, and `ended` if the connection ended without a response"""
    kinds: Counter[str] = field(default_factory=Counter)
    """by kind and status"""
    faults: list[str] = field(default_factory=list)

    def add(self, other: "Outcome") -> None:
        self.statuses += other.statuses
        self.kinds += other.kinds
        self.faults += other.faults


def exchange(address: Address, sent: bytes, method: str = "GET") -> list[Response]:
    """The responses to bytes that are sent on a connection of their own."""
    return responses_in(raw(address, sent), method)


def send(address: Address, seed: int, number: int) -> Outcome:
    """Send the request of a number."""
    request = hostile(seed, number)
    try:
        responses = exchange(address, request.sent, request.method)
    except (OSError, h11.RemoteProtocolError, AssertionError) as error:
        responses, violations = [], [f"{type(error).__name__}: {error}"]
    else:
        found = (violation(response, request.method) for response in responses)
        violations = list(filter(None, found))
        if len(responses) > request.max_responses:
            violations.append(f"{len(responses)} responses")
    statuses = [str(response.status) for response in responses] or ["ended"]
    kinds = Counter(f"{request.kind} {status}" for status in statuses)
    described = f"{request.kind} {number}: {request.sent[:300]!r}"
    return Outcome(Counter(statuses), kinds, [f"{one}: {described}" for one in violations])


def send_all(address: Address, seed: int, numbers: Sequence[int]) -> Outcome:
    """Send the requests of some numbers from several threads."""
    total = Outcome()
    with ThreadPoolExecutor(THREADS) as pool:
        for outcome in pool.map(lambda number: send(address, seed, number), numbers):
            total.add(outcome)
    return total
