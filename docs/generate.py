"""Write the pages, figures and snapshots that are made from the code and from measurements.

make docs           (a test compares the committed files with the output)
"""

import re
from pathlib import Path

import orjson
from docs import costs, performance, quality, reliability, scale
from docs.results import result
from pydantic import SecretStr

from polyseme import errors
from polyseme.cli.serve import SECRET
from polyseme.http.openapi import document
from polyseme.settings import PREFIX, Settings
from polyseme_lab.evaluation.results import (
    COARSEWSD_COLUMNS,
    Published,
    ResultRow,
    Results,
    coarsewsd_title,
    table,
)
from polyseme_lab.evaluation.statistics import IntervalEstimate
from polyseme_lab.evaluation.systems import DEFAULT, MOST_FREQUENT

HERE = Path(__file__).parent
IMAGES = HERE / "images"


WORK = """\
## Work

Before a request is computed, its work is estimated from the tokens, layers, pairs of tokens,
arrays, neighbor searches, occurrences and bytes of the response, in milliseconds of one processor
(`service/polyseme/operations/work.py`; [how exact it is](reliability.md#estimated-work)).

- A request with more than `max_work` gets a 413 that names its estimate, the limit and what to send
  instead. Texts that exceed it by their number of words alone are not tokenized.
- The requests that a worker computes at the same time have at most `max_work` together. A longer
  one gets a 503 with `Retry-After`, so that threads stay free; requests of at most 1/50 of
  `max_work` are always computed.
- After `request_seconds`, or once the client has closed its connection, a request ends before its
  next sentence, search or cluster: 503 `deadline`, or a log line with the code `aborted`. The time
  in which a client reads a stream does not count.
- The log has the estimate of each request as `work_ms`. In process, and in `polyseme bulk`, work is
  not limited.

On a slower machine, lower `max_work`; for callers that send long requests on purpose, raise it
together with `request_seconds`.
"""


def settings() -> str:
    """The table of settings."""
    lines = [
        "# Settings",
        "",
        "Each setting is an environment variable and, unless it may contain a secret, a flag of",
        "`polyseme serve`. The flag overrides the variable. Secrets have no flag, because all",
        "users of the machine can read command lines. A variable `POLYSEME_…` that is not a",
        "setting is reported by a warning, with the most similar name if there is one: in the log",
        "of a service, on standard error by the other commands, and as a Python warning by",
        "`polyseme.load`.",
        "`make docs` writes this page from `service/polyseme/settings.py`.",
        "",
        "| variable | flag | default | bounds | meaning |",
        "|---|---|---|---|---|",
    ]
    for name, field in Settings.model_fields.items():
        flag = "" if name in SECRET else f"`--{name.replace('_', '-')}`"
        empty = field.default_factory is not None or field.default in (None, "", ())
        plain = field.default
        shown = plain.get_secret_value() if isinstance(plain, SecretStr) else plain
        default = "" if empty else f"`{shown}`"
        bounds = ", ".join(
            f"{sign} {getattr(rule, kind)}"
            for rule in field.metadata
            for kind, sign in (("ge", "≥"), ("le", "≤"))
            if hasattr(rule, kind)
        )
        variable = f"`{PREFIX}{name.upper()}`"
        lines.append(f"| {variable} | {flag} | {default} | {bounds} | {field.description} |")
    return "\n".join(lines) + "\n\n" + WORK


def error_tree() -> list[type[errors.PolysemeError]]:
    """Every error class, by status and code."""
    found, waiting = [], [errors.PolysemeError]
    while waiting:
        one = waiting.pop()
        waiting += one.__subclasses__()
        found.append(one)
    return sorted(found, key=lambda one: (one.status, one.code))


def error_page() -> str:
    """The table of errors."""
    lines = [
        "# Errors",
        "",
        "Every error is `application/problem+json` (RFC 9457) with `type`, `title`, `status`,",
        "`detail`, `code`, `hint` and `request_id`. A 422 also has `errors`, each with a JSON",
        "`pointer` and a `message`; a 413 also has `limit`, `size` and `setting`, and `errors` if",
        "one sentence is too long. The `detail` of `not_json` says where the body is not JSON. The",
        "`detail` of `unknown_model` lists the models. Errors do not contain text of the request,",
        'except the `words` of `oov: "error"`, the name of an unknown field in a `pointer`, and a',
        "valid `X-Request-ID` as `request_id`. The errors of the [OpenAI](openai.md) and",
        "[Open Inference Protocol](inference.md) routes also have the `error` of that API. In",
        "Python, `str(error)` has the detail, the errors and the hint.",
        "`make docs` writes this page from `service/polyseme/errors.py`.",
        "",
        "| status | code | title | what to do |",
        "|---|---|---|---|",
    ]
    lines += [f"| {e.status} | `{e.code}` | {e.title} | {e.hint} |" for e in error_tree()]
    return "\n".join(lines) + "\n"


def openapi() -> str:
    """The OpenAPI document."""
    style = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
    return orjson.dumps(document(), option=style).decode()


def with_output(name: str, **outputs: str) -> str:
    """A page whose marked blocks show these outputs of commands."""
    page = (HERE / name).read_text(encoding="utf-8")
    for block, text in outputs.items():
        mark = rf"(<!-- {block}: written by `make docs` -->\n).*?(<!-- end of {block} -->)"
        shown = f"```\n{text.strip()}\n```\n"
        page, count = re.subn(mark, lambda at, s=shown: at[1] + s + at[2], page, flags=re.DOTALL)
        if count != 1:
            raise SystemExit(f"{name} has {count} blocks {block}.")
    return page


def evaluation() -> str:
    """The page on evaluation, with the output of `polyseme evaluate coarsewsd --compare`."""
    found, compared = result("coarsewsd"), result("coarsewsd-minilm")
    systems = {name: found["systems"][name] for name in (MOST_FREQUENT, *DEFAULT)}
    results = Results(
        "coarsewsd",
        coarsewsd_title(len(found["words"]), found["sentences"]),
        COARSEWSD_COLUMNS,
        [
            ResultRow(
                *(name, one["title"], one["kind"]),
                {column: IntervalEstimate(**one[column]) for column in COARSEWSD_COLUMNS},
            )
            for name, one in [*systems.items(), *compared["systems"].items()]
        ],
        [
            Published(one["title"], one["source"], {name: one[name] for name in COARSEWSD_COLUMNS})
            for one in found["published"]
        ],
        notes=found["notes"],
    )
    return with_output("evaluation.md", coarsewsd=table(results))


def senses() -> str:
    """The page on senses, with the outputs of `polyseme senses`."""
    printed = result("examples")["senses"]
    others = "\n".join((printed["bat"], printed["park"]))
    brief = re.sub(r"^   (?:neighbors|example) .*\n", "", others, flags=re.MULTILINE)
    return with_output("senses.md", bank=printed["bank"], others=brief)


PAGES = {
    "evaluation.md": evaluation,
    "senses.md": senses,
    "measurements.md": costs.measurements,
    "settings.md": settings,
    "errors.md": error_page,
    "quality.md": quality.quality,
    "performance.md": performance.performance,
    "reliability.md": reliability.reliability,
    "scale.md": scale.scale,
    "openapi.json": openapi,
}


def main() -> None:
    """Write every page and picture; remove figures that are no longer made."""
    for name, make in PAGES.items():
        (HERE / name).write_text(make(), encoding="utf-8")
    IMAGES.mkdir(exist_ok=True)
    drawn = quality.images() | performance.images() | reliability.images()
    for name, data in drawn.items():
        (IMAGES / name).write_bytes(data)
    for file in IMAGES.glob("*.svg"):
        if file.name not in drawn:
            file.unlink()


if __name__ == "__main__":
    main()
