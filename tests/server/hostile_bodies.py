"""Hostile bodies in requests that are well-formed HTTP."""

import gzip
import json
import zlib
from random import Random
from typing import Any

import zstandard

from tests.faults.requests import JSON, MARK, ROUTES, Hostile, body_of, sent, text_of

_NDJSON = "application/x-ndjson"


def texts(rng: Random) -> Hostile:
    """Texts that a tokenizer may stumble on."""
    odd = [
        "\u0301",
        "\u200d",
        "\U0001f469\u200d\U0001f469",
        "\ufeff",
        "a\u0300" * 50,
        "\u2028",
        "\u0130",
    ]
    odd += [
        "'" * 40,
        "-" * 90,
        "n't" * 30,
        "\ufdfa" * 20,
        "\U00010000",
        "\xad",
        "A" * 700,
        "1" * 300,
    ]
    text = "".join(rng.choice([*odd, " ", MARK, " apple "]) for _ in range(rng.randint(1, 8)))
    document: dict[str, Any] = {"input": text, "include": ["static"], "encoding": "base64"}
    if rng.random() < 0.3:
        document["oov"] = rng.choice(["error", "subword"])
    return sent("/v1/encode", text_of(document))


def not_json(rng: Random) -> Hostile:
    """What other languages write."""
    odd = [
        b"",
        b" ",
        b"{",
        b"}",
        b"[",
        b'"',
        b"{'input': 'a'}",
        b'{"input": "a",}',
        b"input=a",
        b"\x00",
    ]
    odd += [
        b"<?xml version='1.0'?><a/>",
        b'{"input": "a"} {}',
        b'{"input": "a"}x',
        b"undefined",
        b"\xff",
    ]
    odd += [
        b"// " + MARK.encode(),
        b"{input: 1}",
        b"[1 2]",
        b'{"a" 1}',
        b'"\n"',
        b"!!python/object",
        b"tru",
    ]
    odd += [b"1", b'"a"', b"null", b"[]", b"{}", json.dumps({"input": "a"}).encode("utf-16")]
    return sent(rng.choice(ROUTES), rng.choice(odd) + rng.choice([b"", MARK.encode()]))


_QUERIES = (
    "",
    "?",
    f"?{MARK}={MARK}",
    "?input=a",
    "?layers=99",
    "?layers=0,0",
    "?include=static,",
    "?include=",
    "?truncate=1",
    "?model=../x",
    "?dtype=float16&dtype=float32",
    "?layers=-1",
    f"?oov={MARK}",
    "?%00",
    "?include=static&include=keys",
    "?=&=&",
    "?layers=9999999999",
)
"""Of a request whose body is lines."""


def lines(rng: Random) -> Hostile:
    """NDJSON whose lines are any of this, with a query that is no better."""
    odd = [
        b'"a"',
        b'["a"]',
        b"{}",
        b"1",
        b"",
        b"null",
        b'"',
        b"NaN",
        b'"\\ud800"',
        b"\xff",
        b"[" * 2000,
    ]
    odd += [
        b'"%b"' % MARK.encode(),
        b'["a", ["b"]]',
        b'"a" "b"',
        b"\r",
        b"[]",
        b"[1]",
        b'[""]',
        b'""',
    ]
    body = b"\n".join(rng.choice(odd) for _ in range(rng.randint(1, 12)))
    return sent(f"/v1/encode{rng.choice(_QUERIES)}", body, kind=_NDJSON)


def encoded(rng: Random) -> Hostile:
    """Bombs that a service would burst with if it unpacked them."""
    packed = rng.choice(_BOMBS)
    name = rng.choice(["gzip", "deflate", "zstd", "br", "gzip, gzip", "compress", "x-gzip", MARK])
    kind = rng.choice([JSON, JSON, _NDJSON, "application/zip", "application/gzip"])
    return sent(rng.choice(ROUTES), packed, ("Content-Encoding", name), kind=kind)


def declared(rng: Random) -> Hostile:
    """Bodies that are declared as something else."""
    odd = [
        "",
        "text/plain",
        "application/xml",
        "application/json; charset=utf-16",
        "APPLICATION/JSON",
    ]
    odd += [
        "multipart/form-data; boundary=" + "x" * 90,
        "application/x-www-form-urlencoded",
        "*/*",
        MARK,
    ]
    odd += [
        "application/json, text/html",
        "application/json;" * 40,
        'a/b; c="',
        "application/x-pickle",
    ]
    odd += ["application/octet-stream", "multipart/form-data", "application/problem+json", ";", "/"]
    path, document = body_of(rng)
    return sent(path, text_of(document), kind=rng.choice(odd))


def accepted(rng: Random) -> Hostile:
    """Answer types that are not offered, or are no types."""
    odd = [
        "",
        "*",
        "*/*",
        "text/html",
        f"{MARK}/{MARK}",
        "application/json;q=0",
        "application/x-npz",
        ",,,",
    ]
    odd += [
        "application/*;q=2",
        "application/json;q=NaN",
        "a/b;" + "q=1;" * 200,
        "application/x-ndjson",
    ]
    odd += [
        ",".join(f"a{n}/b" for n in range(300)),
        "application/x-npz;q=0.1, */*;q=0",
        ";q=1",
        '"',
        "/",
    ]
    odd += [
        "*/json",
        "application/json;q=-1",
        "text/*",
        "application/json;charset=\xff",
        "a/b;q=1e400",
    ]
    path, document = body_of(rng)
    return sent(path, text_of(document), ("Accept", rng.choice(odd)))


def mutated(rng: Random) -> Hostile:
    """A well-formed body with some of its bits turned, or a piece of it moved."""
    path, document = body_of(rng)
    text = bytearray(text_of(document))
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(text))
        change = rng.randrange(4)
        if change == 0:
            text[place] ^= 1 << rng.randrange(8)
        elif change == 1:
            del text[place : place + rng.randint(1, 9)]
        elif change == 2:
            text[place:place] = text[rng.randrange(len(text)) :][: rng.randint(1, 30)]
        else:
            text[place:place] = rng.randbytes(rng.randint(1, 4))
        text = text or bytearray(b"0")
    return sent(path, bytes(text))


def huge_list(rng: Random) -> Hostile:
    """More sentences, tokens or occurrences than are let in, in as many bytes as are."""
    many = rng.choice([20_000, 200_000])
    one: Any = rng.choice([MARK, "a", ["a"], None, 0, [], "a " * 9])
    field, path = rng.choice(
        [
            *(("input", "/v1/encode"), ("occurrences", "/v1/compare"), ("vector", "/v1/neighbors")),
            *(("embeddings", "/v1/trace"), ("tokens", "/v1/trace")),
        ]
    )
    document = {field: [one] * many}
    if path == "/v1/encode":
        document["include"] = ["static"] * rng.choice([1, many])
    return sent(path, text_of(document))


def huge_text(rng: Random) -> Hostile:
    """One text of megabytes, of words or of none."""
    text = rng.choice(["a ", MARK, "\U0001f600", "'", "a-", " "]) * rng.choice([50_000, 300_000])
    return sent("/v1/encode", text_of({"input": text, "truncate": rng.random() < 0.5}))


def huge_body(rng: Random) -> Hostile:
    """More bytes than are let in."""
    return sent(rng.choice(ROUTES), b" " * rng.choice([(4 << 20) + 1, 5 << 20]))


def huge_depth(rng: Random) -> Hostile:
    """Nothing but brackets, as many as are let in."""
    return sent(rng.choice(ROUTES), rng.choice([b"[", b'{"a":', b"[[],"]) * 500_000)


_PLAIN = json.dumps({"input": MARK}).encode() + b" " * (1 << 22)
_BOMBS = (
    gzip.compress(_PLAIN, 9),
    gzip.compress(gzip.compress(_PLAIN, 9), 9),
    zlib.compress(_PLAIN, 9),
    zstandard.compress(_PLAIN, 19),
    b"PK\x03\x04" + MARK.encode() * 50,
    b"\x1f\x8b\x08\x00",
    MARK.encode(),
)

MAKERS = (texts, not_json, lines, encoded, declared, accepted, mutated)
RARE = (huge_list, huge_text, huge_body, huge_depth)
