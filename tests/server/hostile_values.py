"""Hostile values in the fields of bodies that are otherwise well-formed."""

from copy import deepcopy
from random import Random
from typing import Any

from tests.faults.requests import MARK, NAME, ROUTES, Hostile, body_of, places, sent, text_of

_HERE = "@here@"
"""Stands in a document where text is put that JSON's writer would not write."""


def _with(rng: Random, raw: bytes, path: str | None = None) -> Hostile:
    """A well-formed body with some bytes in the place of one of its values."""
    path, document = body_of(rng, path)
    where, key = rng.choice(list(places(document)))
    where[key] = _HERE
    return sent(path, text_of(document).replace(f'"{_HERE}"'.encode(), raw))


def deep(rng: Random) -> Hostile:
    """Brackets in brackets: a few, as many as a parser takes, and far too many."""
    depth = rng.choice([3, 100, 500, 1000, 1023, 1024, 1025, 10_000, 100_000])
    inner, (left, right) = rng.choice(
        [(b"1", (b"[", b"]")), (b"", (b"[", b"]")), (b"null", (b'{"input":', b"}"))]
    )
    cut = rng.choice([depth, depth - 1, 0])
    nested = left * depth + inner + right * cut
    if rng.random() < 0.5:
        return sent(rng.choice(ROUTES), nested)
    return _with(rng, nested)


def surrogates(rng: Random) -> Hostile:
    """Halves of surrogate pairs, NUL and control characters, escaped."""
    odd = ["\\ud800", "\\udfff", "\\udc00\\ud800", "\\u0000", "\\u001b[31m", "\\ufffe", "\\u202e"]
    text = "".join(
        rng.choice([*odd, MARK, " ", "\\ud83d\\ude00"]) for _ in range(rng.randint(1, 9))
    )
    return _with(rng, f'"{text}"'.encode())


def raw_bytes(rng: Random) -> Hostile:
    """Bytes that are no UTF-8, and control bytes as they are."""
    odd = [b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80"]
    odd += [bytes([rng.randrange(32)]), b"\x00", b"\x7f", b"\xef\xbb\xbf"]
    return _with(rng, b'"%b%b"' % (MARK.encode(), rng.choice(odd)))


def numbers(rng: Random) -> Hostile:
    """Numbers that are huge, tiny, long, or none."""
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
    return _with(rng, rng.choice(odd).encode())


def vectors(rng: Random) -> Hostile:
    """Numbers that JSON has, in matrices whose products nothing can hold."""
    huge = [[rng.choice([1e308, -1e308, 1e154, 5e-324, 0.0, 3.5e38])] * 2 for _ in range(2)]
    document = {"tokens": ["a", MARK], "embeddings": huge}
    if rng.random() < 0.5:
        document = {"tokens": ["a", MARK], "queries": huge, "keys": huge, "values": huge}
    if rng.random() < 0.3:
        return sent("/v1/neighbors", text_of({"vector": [huge[0][0]] * 300, "k": 1}))
    return sent("/v1/trace", text_of(document))


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
    """Another type in some field, wherever it stands."""
    path, document = body_of(rng)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        where, key = rng.choice(list(places(document)))
        where[key] = _odd(rng)
    return sent(path, text_of(document))


def fields(rng: Random) -> Hostile:
    """A field that is missing, unknown, there twice, or strangely named."""
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
    return sent(path, text)


def lists(rng: Random) -> Hostile:
    """Lists that are long, and of the wrong things at their ends."""
    many = rng.choice([63, 64, 65, 300, 2000])
    one = rng.choice([None, MARK, 1, [], {}, [MARK]])
    path, document = body_of(rng)
    key = rng.choice(list(document))
    document[key] = [deepcopy(one) for _ in range(many)]
    if rng.random() < 0.5:
        document[key][-1] = _odd(rng)
    return sent(path, text_of(document))


def base64_junk(rng: Random) -> Hostile:
    """Base64 and pickles where vectors are wanted, and an `encoding` that is none."""
    junk = rng.choice(["AAAA", "====", MARK, "gASVAAAAAAAAAAB9lC4=", "\x80\x04K\x01.", "!" * 99])
    key, path = rng.choice(
        [
            *(("encoding", "/v1/encode"), ("dtype", "/v1/encode"), ("input", "/v1/encode")),
            *(("vector", "/v1/neighbors"), ("embeddings", "/v1/trace"), ("queries", "/v1/trace")),
        ]
    )
    _, document = body_of(rng, path)
    return sent(path, text_of({**document, key: junk}))


def names(rng: Random) -> Hostile:
    """Model names that would be paths if a path were made of them."""
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
    return sent(path, text_of(document))


MAKERS = (deep, surrogates, raw_bytes, numbers, vectors, types, fields, lists, base64_junk, names)
