"""Hostile bodies in requests that are well-formed HTTP, and the parts that they are made of."""

import gzip
import json
import zlib
from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any, NamedTuple

import zstandard

from tests.http.conftest import SECRET

MARK = SECRET
"""A text in every hostile request that has room for it. No response may repeat it."""


class Hostile(NamedTuple):
    """A request and its allowed responses."""

    sent: bytes
    max_responses: int = 1
    kept: bool = False
    """whether it is well-formed HTTP, so that its connection stays open"""
    head: bool = False
    """whether it is a HEAD request, whose response has no body"""
    kind: str = ""


NAME, JSON = "wiki-en", "application/json"
INFER = f"/v2/models/{NAME}/infer"
TEXT = f"Apple launched a phone {MARK} while I ate an apple."
BODIES: dict[str, list[dict[str, Any]]] = {
    "/v1/encode": [
        {"input": TEXT},
        {"input": [TEXT, "the bank"], "include": ["static"], "encoding": "base64"},
        {
            "input": [["the", MARK, "bank"], ["river"]],
            "model": NAME,
            "include": ["contextual", "attention", "queries", "keys", "values", "scores"],
            "layers": [0],
            "heads": "mean",
            "oov": "zero",
            "case": "lower",
            "truncate": True,
            "encoding": "float",
            "dtype": "float16",
        },
        {"input": TEXT, "oov": "error", "layers": "last", "case": "exact"},
    ],
    "/v1/compare": [
        {
            "occurrences": [
                {"text": "an apple a day", "word": "apple", "nth": 0},
                {"text": f"{MARK} apple", "start": 9, "end": 14},
            ],
            "neighbors": 0,
            "map": True,
            "model": NAME,
            "case": "auto",
        }
    ],
    "/v1/trace": [
        {"text": "the bank", "model": NAME, "layer": 0, "case": "auto"},
        {
            "tokens": ["a", MARK],
            "embeddings": [[1.0, 0.5], [0.25, 2.0]],
            "weights": {
                "query": [[1, 0], [0, 1]],
                "key": [[1, 2], [3, 4]],
                "output": [[1, 0], [0, 1]],
            },
            "heads": 2,
            "scale": True,
            "convention": "column",
        },
        {"tokens": ["a"], "queries": [[1.5]], "keys": [[2]], "values": [[3, 4]]},
    ],
    "/v1/neighbors": [
        {"word": "apple", "k": 2, "model": NAME, "case": "auto"},
        {"vector": [0.5] * 300, "k": 1},
        {"word": MARK},
    ],
    "/v1/embeddings": [
        {"input": TEXT},
        {
            "input": [TEXT, "the bank"],
            "model": NAME,
            "encoding_format": "base64",
            "dimensions": 7,
            "user": MARK,
        },
    ],
    INFER: [
        {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": [TEXT]}]},
        {
            "id": "seven",
            "inputs": [
                {"name": "text", "datatype": "BYTES", "shape": [2, 1], "data": [[TEXT], ["a"]]},
            ],
            "outputs": [
                {"name": "attention", "parameters": {"binary_data": True}},
                {"name": "tokens"},
            ],
            "parameters": {"layers": "0", "heads": "mean", "case": "lower", "truncate": True},
        },
    ],
}
ROUTES = tuple(BODIES)
PATHS = (
    *ROUTES,
    *("/v1/models", f"/v1/models/{NAME}", "/livez", "/readyz", "/openapi.json", "/docs", "/"),
    *("/v2", "/v2/health/ready", f"/v2/models/{NAME}", f"/v2/models/{NAME}/ready"),
)


def body_of(rng: Random, path: str | None = None) -> tuple[str, dict[str, Any]]:
    """A route, and a copy of a well-formed body for it."""
    path = path or rng.choice(ROUTES)
    return path, json.loads(json.dumps(rng.choice(BODIES[path])))


def text_of(document: Any) -> bytes:
    """A document as JSON."""
    return json.dumps(document).encode()


def places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in a document with each of its keys or indexes, at most eight."""
    inside = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in list(inside)[:8]:
        yield document, key
        if isinstance(value, dict | list):
            yield from places(value)


def headed(
    method: str, target: str, headers: tuple[tuple[str, str], ...] = (), body: bytes = b""
) -> bytes:
    """The bytes of a request."""
    lines = [f"{method} {target} HTTP/1.1", "Host: x", *(f"{name}: {one}" for name, one in headers)]
    return "\r\n".join([*lines, "\r\n"]).encode("latin-1", "replace") + body


def posted(path: str, body: bytes, *headers: tuple[str, str], kind: str = JSON) -> bytes:
    """The bytes of a POST request with the correct Content-Length."""
    declared = (("Content-Type", kind), ("Content-Length", str(len(body))))
    return headed("POST", path, (*declared, *headers), body)


def well_formed(path: str, body: bytes, *headers: tuple[str, str], kind: str = JSON) -> Hostile:
    """A POST request that is well-formed HTTP, whatever its body is."""
    return Hostile(posted(path, body, *headers, kind=kind), kept=True)


def valid(rng: Random) -> bytes:
    """A valid request."""
    if rng.random() < 0.2:
        return headed("GET", rng.choice(PATHS[len(ROUTES) :]))
    path, document = body_of(rng)
    return posted(path, text_of(document))


_PLACEHOLDER = "@placeholder@"
"""A placeholder for bytes that `json.dumps` would not write."""


def _with_value(rng: Random, raw: bytes, path: str | None = None) -> Hostile:
    """A valid body, one of whose values is replaced by some bytes."""
    path, document = body_of(rng, path)
    where, key = rng.choice(list(places(document)))
    where[key] = _PLACEHOLDER
    return well_formed(path, text_of(document).replace(f'"{_PLACEHOLDER}"'.encode(), raw))


def deep(rng: Random) -> Hostile:
    """Nested brackets: a few, about as many as a parser accepts, and far too many."""
    depth = rng.choice([3, 100, 500, 1000, 1023, 1024, 1025, 10_000, 100_000])
    inner, (left, right) = rng.choice(
        [(b"1", (b"[", b"]")), (b"", (b"[", b"]")), (b"null", (b'{"input":', b"}"))]
    )
    cut = rng.choice([depth, depth - 1, 0])
    nested = left * depth + inner + right * cut
    if rng.random() < 0.5:
        return well_formed(rng.choice(ROUTES), nested)
    return _with_value(rng, nested)


def surrogates(rng: Random) -> Hostile:
    """Lone surrogates, NUL and control characters, escaped."""
    odd = ["\\ud800", "\\udfff", "\\udc00\\ud800", "\\u0000", "\\u001b[31m", "\\ufffe", "\\u202e"]
    text = "".join(
        rng.choice([*odd, MARK, " ", "\\ud83d\\ude00"]) for _ in range(rng.randint(1, 9))
    )
    return _with_value(rng, f'"{text}"'.encode())


def raw_bytes(rng: Random) -> Hostile:
    """Invalid UTF-8, and control characters that are not escaped."""
    odd = [b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80"]
    odd += [bytes([rng.randrange(32)]), b"\x00", b"\x7f", b"\xef\xbb\xbf"]
    return _with_value(rng, b'"%b%b"' % (MARK.encode(), rng.choice(odd)))


def numbers(rng: Random) -> Hostile:
    """Numbers that are huge, tiny, long, or invalid."""
    odd = ["1e400", "-1e400", "1e308", "-1.8e308", "1e-400", "NaN", "Infinity", "-Infinity", "nan"]
    odd += [
        "9" * 20,
        "-" + "9" * 400,
        "0." + "1" * 5000,
        "9" * 100_000,
        "1e999999999",
        "-0",
        "-0.0",
    ]
    odd += [
        "01",
        "+1",
        "1.",
        ".5",
        "0x10",
        "1_000",
        "1e",
        "--1",
        "4294967296",
        "18446744073709551616",
    ]
    return _with_value(rng, rng.choice(odd).encode())


def vectors(rng: Random) -> Hostile:
    """Valid JSON numbers in matrices whose products overflow."""
    huge = [[rng.choice([1e308, -1e308, 1e154, 5e-324, 0.0, 3.5e38])] * 2 for _ in range(2)]
    document = {"tokens": ["a", MARK], "embeddings": huge}
    if rng.random() < 0.5:
        document = {"tokens": ["a", MARK], "queries": huge, "keys": huge, "values": huge}
    if rng.random() < 0.3:
        return well_formed("/v1/neighbors", text_of({"vector": [huge[0][0]] * 300, "k": 1}))
    return well_formed("/v1/trace", text_of(document))


_ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 1.5, -0.5, 1e308, 2**31, 2**53, 2**63, 2**64, "", MARK, " "),
    *(
        [],
        [[]],
        [[], []],
        {},
        [None],
        [MARK],
        [[MARK]],
        [0],
        [[0]],
        [[[0]]],
        [1, MARK],
        {MARK: MARK},
    ),
    *({"shape": [1], "dtype": "float32", "data": "AAAA"}, "all", "0", "null", [True], [["a"], "b"]),
    *(["a", ["b"]], "\n", "\u2028", "a" * 5000, [""], [" "], [["", " "]], -(2**63), {"": 0}),
)


def _odd(rng: Random) -> Any:
    return deepcopy(rng.choice(_ODD))


def types(rng: Random) -> Hostile:
    """Values of other types in one or several fields."""
    path, document = body_of(rng)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        where, key = rng.choice(list(places(document)))
        where[key] = _odd(rng)
    return well_formed(path, text_of(document))


def fields(rng: Random) -> Hostile:
    """A field that is missing, unknown, repeated, or strangely named."""
    path, document = body_of(rng)
    name = rng.choice([MARK, "", "__proto__", "constructor", "Input", "input ", "a" * 3000, "$ref"])
    change = rng.randrange(4)
    if change == 0:
        document[name] = _odd(rng)
    elif change == 1:
        del document[rng.choice(list(document))]
    elif change == 2:
        where, _ = rng.choice(list(places(document)))
        target = where if isinstance(where, dict) else document
        target[name] = MARK
    text = text_of(document)
    if change == 3:
        key = rng.choice([*document, MARK])
        text = text[:-1] + b", %b: %b}" % (text_of(key), text_of(_odd(rng)))
    return well_formed(path, text)


def lists(rng: Random) -> Hostile:
    """Long lists of one value, some with another value at the end."""
    many = rng.choice([63, 64, 65, 300, 2000])
    one = rng.choice([None, MARK, 1, [], {}, [MARK]])
    path, document = body_of(rng)
    key = rng.choice(list(document))
    document[key] = [deepcopy(one) for _ in range(many)]
    if rng.random() < 0.5:
        document[key][-1] = _odd(rng)
    return well_formed(path, text_of(document))


def base64_junk(rng: Random) -> Hostile:
    """Base64 and pickles in place of vectors, and an invalid `encoding`."""
    junk = rng.choice(["AAAA", "====", MARK, "gASVAAAAAAAAAAB9lC4=", "\x80\x04K\x01.", "!" * 99])
    key, path = rng.choice(
        [
            *(("encoding", "/v1/encode"), ("dtype", "/v1/encode"), ("input", "/v1/encode")),
            *(("vector", "/v1/neighbors"), ("embeddings", "/v1/trace"), ("queries", "/v1/trace")),
        ]
    )
    _, document = body_of(rng, path)
    return well_formed(path, text_of({**document, key: junk}))


def names(rng: Random) -> Hostile:
    """Model names that would leave the folder of models if they became paths."""
    odd = [
        "../",
        "../../etc/passwd",
        "/etc/passwd",
        "%2e%2e%2f",
        "..%2f",
        "\u0000",
        ".",
        "..",
        "~root",
    ]
    odd += [
        f"{NAME}/",
        f"{NAME}\u0000",
        f"./{NAME}",
        f"{NAME}/../{NAME}",
        "\uff57iki-en",
        "wiki\u2010en",
    ]
    odd += [
        NAME.upper(),
        "con",
        "C:\\",
        "file:///etc/passwd",
        "${HOME}",
        "`id`",
        "$(id)",
        "a" * 5000,
    ]
    odd += [
        "wiki-en\n",
        " wiki-en",
        "w\u0456ki-en",
        "{{7*7}}",
        "%s%n",
        "\u202ewiki-en",
        "*",
        ".hidden",
    ]
    path, document = body_of(rng)
    document["model"] = rng.choice(odd) + rng.choice(["", MARK])
    return well_formed(path, text_of(document))


VALUES = (deep, surrogates, raw_bytes, numbers, vectors, types, fields, lists, base64_junk, names)


_NDJSON = "application/x-ndjson"


def texts(rng: Random) -> Hostile:
    """Texts that are difficult for a tokenizer."""
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
    return well_formed("/v1/encode", text_of(document))


def not_json(rng: Random) -> Hostile:
    """Syntax of other languages."""
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
    return well_formed(rng.choice(ROUTES), rng.choice(odd) + rng.choice([b"", MARK.encode()]))


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
"""Query strings of a request whose body is NDJSON."""


def lines(rng: Random) -> Hostile:
    """NDJSON with hostile lines and a hostile query."""
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
    return well_formed(f"/v1/encode{rng.choice(_QUERIES)}", body, kind=_NDJSON)


def compressed(rng: Random) -> Hostile:
    """Decompression bombs, and other compressed or invalid bodies."""
    packed = rng.choice(_BOMBS)
    name = rng.choice(["gzip", "deflate", "zstd", "br", "gzip, gzip", "compress", "x-gzip", MARK])
    kind = rng.choice([JSON, JSON, _NDJSON, "application/zip", "application/gzip"])
    return well_formed(rng.choice(ROUTES), packed, ("Content-Encoding", name), kind=kind)


def content_types(rng: Random) -> Hostile:
    """Content types that are wrong or invalid."""
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
    return well_formed(path, text_of(document), kind=rng.choice(odd))


def accept_headers(rng: Random) -> Hostile:
    """Accepted types that are not offered, or are invalid."""
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
    return well_formed(path, text_of(document), ("Accept", rng.choice(odd)))


def mutated(rng: Random) -> Hostile:
    """A valid body with flipped bits, and with pieces removed, repeated or inserted."""
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
    return well_formed(path, bytes(text))


def huge_list(rng: Random) -> Hostile:
    """More sentences, tokens or occurrences than allowed, in an allowed number of bytes."""
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
    return well_formed(path, text_of(document))


def huge_text(rng: Random) -> Hostile:
    """One text of megabytes, with and without words."""
    text = rng.choice(["a ", MARK, "\U0001f600", "'", "a-", " "]) * rng.choice([50_000, 300_000])
    return well_formed("/v1/encode", text_of({"input": text, "truncate": rng.random() < 0.5}))


def huge_body(rng: Random) -> Hostile:
    """More bytes than allowed."""
    return well_formed(rng.choice(ROUTES), b" " * rng.choice([(4 << 20) + 1, 5 << 20]))


def huge_depth(rng: Random) -> Hostile:
    """Only brackets, as many as allowed."""
    return well_formed(rng.choice(ROUTES), rng.choice([b"[", b'{"a":', b"[[],"]) * 500_000)


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

BODY_MAKERS = (texts, not_json, lines, compressed, content_types, accept_headers, mutated)
LARGE = (huge_list, huge_text, huge_body, huge_depth)


LENGTH = "Inference-Header-Content-Length"
BYTES = "application/octet-stream"
_ELEMENT_LENGTHS = (0, 1, 4, 255, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
_INVALID_LENGTHS = ("", "-1", "+1", "1e1", "0x10", "1.0", " 1", "1, 1", "9" * 40, "nan", MARK)


def _element(rng: Random) -> bytes:
    content = rng.choice([MARK.encode(), b"", b"\xff\xfe", b"\x00", b"\xc3", b"a" * 300])
    length = len(content) if rng.random() < 0.6 else rng.choice(_ELEMENT_LENGTHS)
    return length.to_bytes(4, "little") + content


def _head(rng: Random, number: int, size: Any) -> bytes:
    shape = rng.choice([[number], [number], [number, 1], [1, number], [number + 1]])
    tensor = {"name": "text", "datatype": "BYTES", "shape": shape}
    tensor["parameters"] = {"binary_data_size": size}
    document = {"inputs": [tensor], "outputs": [{"name": "offsets"}]}
    document["parameters"] = {"binary_data_output": rng.random() < 0.5}
    return text_of(document)


def wrong_element_lengths(rng: Random) -> Hostile:
    """Tensor elements with wrong lengths after JSON with the right size."""
    number = rng.randrange(1, 6)
    data = b"".join(_element(rng) for _ in range(number))
    data = data[: rng.randrange(len(data) + 1)] if rng.random() < 0.3 else data
    head = _head(rng, number, len(data))
    return well_formed(INFER, head + data, (LENGTH, str(len(head))), kind=BYTES)


def wrong_binary_sizes(rng: Random) -> Hostile:
    """A tensor with a wrong size in the JSON or a wrong length in the header."""
    data = b"\x05\x00\x00\x00Apple"
    size = rng.choice([0, 8, 9, 9, 10, -1, 1 << 40, 1 << 63, 9.0, "9", None, True, [9]])
    head = _head(rng, 1, size)
    near = [len(head) + step for step in (-1, 0, 0, 1, 9, 10)]
    declared_length = rng.choice([*_INVALID_LENGTHS, *map(str, near)])
    return well_formed(INFER, head + data, (LENGTH, declared_length), kind=BYTES)


def bytes_without_json(rng: Random) -> Hostile:
    """Random bytes without JSON before them, whose length may be wrong or invalid."""
    data = rng.randbytes(rng.randrange(64))
    declared_length = rng.choice(["0", str(len(data)), "1", *_INVALID_LENGTHS])
    return well_formed(INFER, data, (LENGTH, declared_length), kind=BYTES)


TENSORS = (wrong_element_lengths, wrong_binary_sizes, bytes_without_json)
