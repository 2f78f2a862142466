"""Hostile request lines, headers, framing and paths."""

from random import Random

from tests.http.hostile_bodies import (
    MARK,
    NAME,
    PATHS,
    ROUTES,
    Hostile,
    body_of,
    headed,
    posted,
    text_of,
    valid,
)


def headers(rng: Random) -> Hostile:
    """Headers that are long, many, folded, obsolete or invalid."""
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
    """Several requests at once; one of them may be invalid."""
    several = [valid(rng) for _ in range(rng.randint(2, 4))]
    if rng.random() < 0.5:
        several.insert(rng.randrange(len(several)), headers(rng).sent)
    return Hostile(b"".join(several), max_responses=len(several))


def versions(rng: Random) -> Hostile:
    """Other protocols, and versions that HTTP does not have."""
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
    """First messages of other protocols, and random bytes."""
    if rng.random() < 0.4:
        return Hostile(rng.randbytes(rng.randint(1, 3000)))
    return Hostile(rng.choice(_PROTOCOLS) + rng.choice([b"", MARK.encode()]))


def truncated(rng: Random) -> Hostile:
    """A request that ends midway."""
    whole = valid(rng)
    return Hostile(whole[: rng.randrange(len(whole))])


def spliced(rng: Random) -> Hostile:
    """The start of one request and the end of another."""
    one, other = valid(rng), valid(rng)
    return Hostile(
        one[: rng.randrange(len(one))] + other[rng.randrange(len(other)) :], max_responses=2
    )


def flipped(rng: Random) -> Hostile:
    """A request with flipped bits."""
    whole = bytearray(valid(rng))
    for _ in range(rng.randint(1, 5)):
        whole[rng.randrange(min(len(whole), rng.choice([20, 200, 2000])))] ^= 1 << rng.randrange(8)
    return Hostile(bytes(whole), max_responses=2)


LINES = (headers, pipelined, versions, protocols, truncated, spliced, flipped)


_HIDDEN = f"GET /livez?{MARK} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
"""A request inside the body of another. It must get no response."""
_TYPE = ("Content-Type", "application/json")
_CHUNKED = ("Transfer-Encoding", "chunked")


def _path_and_body(rng: Random) -> tuple[str, bytes]:
    path, document = body_of(rng)
    return path, text_of(document)


def lengths(rng: Random) -> Hostile:
    """Content-Length that is wrong, not a number, or repeated."""
    path, body = _path_and_body(rng)
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
    """Content-Length that is too short: the rest is a second, malformed request."""
    path, body = _path_and_body(rng)
    headers = (_TYPE, ("Content-Length", str(rng.randrange(len(body)))))
    return Hostile(headed("POST", path, headers, body), max_responses=2)


def chunks(rng: Random) -> Hostile:
    """Chunks with wrong sizes, invalid ends, extensions and trailers."""
    path, body = _path_and_body(rng)
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
    request = headed("POST", path, (_TYPE, _CHUNKED), first + b"\r\n" + body + rng.choice(ends))
    return Hostile(request, max_responses=2)


def many_chunks(rng: Random) -> Hostile:
    """A body in chunks of a byte each."""
    path, body = _path_and_body(rng)
    chunked = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    return Hostile(headed("POST", path, (_TYPE, _CHUNKED), chunked + b"0\r\n\r\n"), kept=True)


def transfer_codings(rng: Random) -> Hostile:
    """Transfer codings that are unknown, or that two servers parse differently."""
    path, body = _path_and_body(rng)
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
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    return Hostile(headed("POST", path, headers, chunked), max_responses=2)


def smuggled(rng: Random) -> Hostile:
    """A request in the body of another, which two servers may delimit differently."""
    hidden = _HIDDEN
    length = len(hidden)
    zero = b"0\r\n\r\n"
    cases = [
        ((("Content-Length", str(length)),), hidden),
        ((("Content-Length", str(length + 5)), _CHUNKED), zero + hidden),
        ((_CHUNKED, ("Content-Length", "4")), b"%x\r\n%b\r\n0\r\n\r\n" % (length, hidden)),
        ((("Content-Length", "0"), ("Content-Length", str(length))), hidden),
        ((("Content-Length", f"{length}, {length}"),), hidden),
        ((("Transfer-Encoding", "x"), ("Content-Length", str(length))), hidden),
        ((("Content_Length", "0"), ("Content-Length", str(length))), hidden),
        ((("Content-Length ", "0"), ("Content-Length", str(length))), hidden),
        ((("X-A", "b\r\n Content-Length: 0"), ("Content-Length", str(length))), hidden),
        ((("X-A", "b\nContent-Length: 0"), ("Content-Length", str(length))), hidden),
        ((("Transfer-Encoding", "chunked\r\nTransfer-Encoding: x"),), zero + hidden),
    ]
    headers, body = rng.choice(cases)
    method, path = rng.choice(
        [("POST", rng.choice(ROUTES)), ("GET", "/livez"), ("POST", "/nowhere")]
    )
    return Hostile(headed(method, path, (_TYPE, *headers), body))


FRAMING = (lengths, short, chunks, many_chunks, transfer_codings, smuggled)


_TRICKS = (
    *(
        "../",
        "..%2f",
        "%2e%2e%2f",
        "%2e%2e/",
        "....//",
        "..;/",
        "%252e%252e%252f",
        "..\\",
        "%c0%ae/",
    ),
    *(
        "%00",
        "%0a",
        "%0d%0aSet-Cookie:%20a=b",
        "%ff",
        "%",
        "%zz",
        "%u002e",
        "~",
        "//",
        "/./",
        "\\",
        ";",
    ),
    *(
        "%ef%bc%8e",
        "\u0251".encode().decode("latin-1"),
        "%20",
        "+",
        "'",
        "%22%3E%3Cscript%3E",
        "{}",
    ),
)


def model_paths(rng: Random) -> Hostile:
    """Model names in the path that would leave a folder."""
    tricks = "".join(rng.choice(_TRICKS) for _ in range(rng.randint(1, 6)))
    tail = rng.choice(["etc/passwd", NAME, f"{NAME}/manifest.json", "", "proc/self/environ"])
    start = rng.choice(["/v1/models/", "/v1/models/wiki-en/", "/page/", "/docs/", "/", "/v1/"])
    return Hostile(headed("GET", f"{start}{tricks}{tail}{MARK}"), kept=True)


def targets(rng: Random) -> Hostile:
    """Request targets of every form of HTTP, and invalid ones."""
    path = rng.choice(PATHS)
    odd = [f"http://x{path}", f"http://{MARK}{path}", f"https://x:99999{path}", "*", "", f"x{path}"]
    odd += [
        f"{path}?{MARK}",
        f"{path}#{MARK}",
        f"{path}?" + "a=b&" * 300,
        f"{path};a=b",
        f"//x{path}",
    ]
    odd += [
        f"http://[::1{path}",
        f"{path}/",
        f"/{path}",
        path.upper(),
        f"{path}?%",
        f"{path}%3Fa",
        "/%",
    ]
    odd += [
        f"file://{path}",
        f"{path}\x80",
        f"{path}?\xff",
        "http:",
        "http://",
        "?",
        "#",
        f"{path}??=&&",
    ]
    method = rng.choice(["GET", "GET", "POST", "OPTIONS"])
    return Hostile(headed(method, rng.choice(odd), (("Content-Length", "0"),)))


def methods(rng: Random) -> Hostile:
    """Methods that a route does not have, and unknown ones."""
    odd = [
        "TRACE",
        "CONNECT",
        "PUT",
        "DELETE",
        "PATCH",
        "OPTIONS",
        "PROPFIND",
        "get",
        "Post",
        "GETS",
    ]
    odd += [
        "PRI",
        MARK.upper(),
        "G" * 40,
        "X",
        "GET\t",
        "\x00GET",
        "M-SEARCH",
        "GET:",
        "POST,",
        "QUERY",
    ]
    method, path = rng.choice(odd), rng.choice(PATHS)
    target = rng.choice([path, path, "x:443"]) if method == "CONNECT" else path
    return Hostile(headed(method, target, (("Content-Length", "0"), ("X-A", MARK))))


def heads(rng: Random) -> Hostile:
    """HEAD, whose response never has a body."""
    path = rng.choice([*PATHS, f"/{MARK}", f"/v1/models/{MARK}"])
    headers = rng.choice([(), (("Range", "bytes=0-3"),), (("Accept", MARK),)])
    return Hostile(headed("HEAD", path, headers), kept=True, head=True)


def ranges(rng: Random) -> Hostile:
    """Range requests, also for ranges that do not exist."""
    odd = [
        "bytes=0-0",
        "bytes=0-",
        "bytes=-1",
        "bytes=999999999-",
        "bytes=5-2",
        f"{MARK}=0-1",
        "bytes=a-b",
    ]
    odd += [
        "bytes=" + ",".join(f"{n}-{n}" for n in range(200)),
        "bytes=-0",
        "bytes",
        "=",
        "bytes=0-9,3-4",
    ]
    odd += [
        "bytes=99999999999999999999999-",
        "bytes=0-18446744073709551616",
        "items=0-5",
        "bytes=--1",
    ]
    others = [("If-Range", MARK), ("If-None-Match", f'"{MARK}"'), ("If-Modified-Since", MARK)]
    others += [("If-Match", "*"), ("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT")]
    others += [("If-None-Match", "*"), ("If-Modified-Since", "Fri, 31 Dec 9999 23:59:59 GMT")]
    path = rng.choice(
        [*PATHS[len(ROUTES) :], "/docs/swagger-ui.css", "/docs/start.js", "/page/start.js"]
    )
    extra = rng.choice([(), (rng.choice(others),)])
    return Hostile(headed("GET", path, (("Range", rng.choice(odd)), *extra)), kept=True)


def log_injections(rng: Random) -> Hostile:
    """Request IDs, traces and addresses that could forge a line of the log."""
    odd = [
        f"{MARK} x",
        f"{MARK};",
        f"{MARK}\tx",
        "a" * 129,
        f"<{MARK}>",
        f"{MARK}%0d%0aX: y",
        "\xff\xfe",
    ]
    odd += [
        f'{MARK}"',
        "",
        f"{{{MARK}}}",
        f"{MARK}\\n",
        f"{MARK}\x1b[2J",
        f"${{jndi:{MARK}}}",
        "\u0080",
    ]
    traces = [
        "00-" + "0" * 32 + "-" + "0" * 16 + "-01",
        "ff-1-1-1",
        MARK,
        "00-" + "a" * 5000,
        "00---",
        "0",
    ]
    traces += [
        "00-" + "a" * 32 + "-" + "b" * 16 + "-01-more",
        "00-" + "G" * 32 + "-" + "b" * 16 + "-zz",
    ]
    headers = (
        ("X-Request-ID", rng.choice(odd)),
        ("traceparent", rng.choice(traces)),
        ("tracestate", rng.choice([MARK, "=" * 600, "a=b," * 100])),
        ("X-Forwarded-For", rng.choice([MARK, "1.2.3.4", "::1", ",,,", "a" * 2000])),
        ("X-Forwarded-Host", MARK),
        ("Forwarded", f"for={MARK};host={MARK}"),
    )
    path, document = body_of(rng)
    body = text_of({**document, MARK: 1}) if rng.random() < 0.5 else text_of(document)
    return Hostile(posted(path, body, *headers))


def credentials(rng: Random) -> Hostile:
    """Invalid keys, origins and cookies."""
    odd = [
        f"Bearer {MARK}",
        "Bearer",
        "Bearer ",
        f"Basic {MARK}",
        f"bearer  {MARK}",
        MARK,
        "Bearer \xff",
    ]
    odd += ["Bearer " + "a" * 7000, f"Digest {MARK}", "Bearer a b", "Bearer\ta", "Negotiate", ","]
    headers = [("Authorization", rng.choice(odd))]
    headers += [
        ("Origin", rng.choice([f"https://{MARK}", "null", "https://x\x00", "*", "", "\xff"]))
    ]
    headers += [("Access-Control-Request-Method", rng.choice(["PUT", MARK, ""]))]
    headers += [("Access-Control-Request-Headers", rng.choice([MARK, "*", ",,"]))]
    headers += [("Cookie", rng.choice([MARK, "a=b; " * 300, "a", ";;;", '="'])), ("Referer", MARK)]
    chosen = tuple(rng.sample(headers, rng.randint(1, len(headers))))
    if rng.random() < 0.4:
        return Hostile(headed("OPTIONS", rng.choice([*PATHS, f"/{MARK}"]), chosen))
    path, document = body_of(rng)
    return Hostile(posted(path, text_of(document), *chosen))


def expectations(rng: Random) -> Hostile:
    """Expectations and upgrades that are not met."""
    odd = [("Expect", "100-continue"), ("Expect", MARK), ("Expect", "200-ok"), ("Expect", "")]
    odd += [("Upgrade", "websocket"), ("Upgrade", "h2c"), ("HTTP2-Settings", "AAMAAABkAAQAAP__")]
    odd += [("Connection", "Upgrade, HTTP2-Settings"), ("Connection", "close, close, keep-alive")]
    odd += [
        ("Connection", MARK),
        ("Keep-Alive", "timeout=99999"),
        ("TE", "trailers"),
        ("Trailer", MARK),
    ]
    odd += [
        ("Max-Forwards", "-1"),
        ("Via", MARK),
        ("Proxy", "http://x"),
        ("X-HTTP-Method", "DELETE"),
    ]
    odd += [
        ("X-Original-URL", "/etc/passwd"),
        ("X-Rewrite-URL", "/"),
        ("X-Method-Override", "TRACE"),
    ]
    path, document = body_of(rng)
    chosen = rng.sample(odd, rng.randint(1, 3))
    return Hostile(posted(path, text_of(document), *chosen), max_responses=2)


PATH_MAKERS = (
    model_paths,
    targets,
    methods,
    heads,
    ranges,
    log_injections,
    credentials,
    expectations,
)
