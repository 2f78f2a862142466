"""Hostile targets, methods and headers in requests whose framing is sound."""

from random import Random

from tests.faults.requests import MARK, NAME, PATHS, Hostile, body_of, headed, posted, text_of

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
    """Targets of every form that HTTP has, and of some that it has not."""
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
    """Methods that a route does not have, and some that nobody has."""
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
    """HEAD, which has no body whatever comes."""
    path = rng.choice([*PATHS, f"/{MARK}", f"/v1/models/{MARK}"])
    headers = rng.choice([(), (("Range", "bytes=0-3"),), (("Accept", MARK),)])
    return Hostile(headed("HEAD", path, headers), kept=True, head=True)


def ranges(rng: Random) -> Hostile:
    """Parts that are asked for of what has none, or that are not there."""
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
    path = rng.choice([*PATHS[4:], "/docs/swagger-ui.css", "/docs/start.js", "/page/start.js"])
    extra = rng.choice([(), (rng.choice(others),)])
    return Hostile(headed("GET", path, (("Range", rng.choice(odd)), *extra)), kept=True)


def ids(rng: Random) -> Hostile:
    """Request ids, traces and addresses that would forge a line of a log."""
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


def doors(rng: Random) -> Hostile:
    """Keys, origins and cookies that nobody gave out."""
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
    return Hostile(posted(path, text_of(document), *chosen), answers=2)


MAKERS = (model_paths, targets, methods, heads, ranges, ids, doors, expectations)
