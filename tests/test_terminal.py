"""The terminal: control characters are escaped there and nowhere else; progress is a bar there."""

import json
import os
import pty
import sys
import termios
from contextlib import redirect_stderr, redirect_stdout, suppress
from threading import Thread
from types import SimpleNamespace

import pytest

from polyseme import terminal
from polyseme.cli.main import polyseme
from polyseme.terminal import SILENT, Progress, visible
from tests.senses.test_find import MONEY, RIVER
from tests.tiny import write_tiny

TITLE = "\x1b]0;title\x07"
HOSTILE = f"{TITLE}\x9b31m \u202ereversed\u2066 \x7f\r"
ESCAPED = r"\u001b]0;title\u0007\u009b31m \u202ereversed\u2066 \u007f\r"


def on_terminal(*arguments):
    """What `polyseme` writes to a terminal, without the ends of lines."""
    master, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 1000))
    parts = []

    def read():
        with suppress(OSError):  # EIO on Linux when the terminal is closed
            while part := os.read(master, 1 << 16):
                parts.append(part)

    reader = Thread(target=read)
    reader.start()
    with (
        open(terminal, "w") as file,  # noqa: PTH123
        redirect_stderr(file),
        redirect_stdout(file),
        suppress(SystemExit),
    ):
        polyseme([str(argument) for argument in arguments], prog_name="polyseme")
    reader.join()
    os.close(master)
    return b"".join(parts).decode().replace("\r\n", "\n")


CONTROLS = set("\x1b\x07\x9b\u202e\u2066\x7f")


def assert_escaped(output):
    assert not CONTROLS & set(output)
    assert r"\u001b]0;title\u0007" in output


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HOSTILE, ESCAPED),
        ("a\nb\tc\u2028\ud800", r"a\nb\tc\u2028\ud800"),
        ("naïve — 银行 \U0001f600 क्\u200dष", "naïve — 银行 \U0001f600 क्\u200dष"),
    ],
)
def test_control_characters_are_escaped_only_on_a_terminal(text, expected):
    assert visible(text, SimpleNamespace(isatty=lambda: True)) == expected
    assert visible(text, SimpleNamespace(isatty=lambda: False)) == visible(text, None) == text


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "a.jsonl"
    texts = [f"{TITLE}\x9b {text}" for text in RIVER + MONEY]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def test_senses_of_a_file_are_escaped(corpus, tmp_path):
    saved = tmp_path / "bank.senses"
    assert_escaped(on_terminal("senses", "bank", corpus, "--senses", "2", "--save", saved))
    document = json.loads(saved.read_text())
    for sense in document["senses"]:
        sense["label"] = f"{HOSTILE}{sense['label']}"
    saved.write_text(json.dumps(document))
    assert_escaped(on_terminal("senses", "--apply", saved, corpus))


REVERSED = "ban\u202ek"
"""A token with a control character in it."""


@pytest.mark.parametrize(
    "arguments",
    [
        ("compare", "--word", REVERSED, f"{REVERSED} river", f"{REVERSED} money"),
        ("encode", REVERSED),
        ("encode", "--format", "ndjson", REVERSED, REVERSED),
    ],
    ids=["compare", "encode", "encode --format ndjson"],
)
def test_tokens_are_escaped(arguments):
    output = on_terminal(*arguments)
    assert "\u202e" not in output
    assert r"ban\u202ek" in output


def test_models_are_escaped(tmp_path):
    folder = write_tiny(tmp_path / "tiny")
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "licence": HOSTILE}))
    shown = on_terminal("models", "show", "tiny", "--models-dir", tmp_path)
    assert_escaped(shown)
    assert json.loads(shown)["licence"] == HOSTILE


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", f"{json.dumps({HOSTILE: 'bank'})}\n" * 2),
        (f"a{TITLE}.txt", "\n"),
    ],
)
def test_errors_that_quote_a_file_are_escaped(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content)
    column = "words" if name.endswith("txt") else "text"
    assert_escaped(on_terminal("senses", "bank", path, "--column", column))
    assert_escaped(on_terminal("bulk", path, tmp_path / "out", "--column", column))


@pytest.fixture
def clock(monkeypatch):
    """The time that progress sees, as the only item."""
    now = [100.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    return now


def test_without_a_terminal_a_line_is_written_every_ten_seconds(clock, capsys):
    with Progress().stage("reading", 7_000_000) as bar:
        for done in range(8):
            clock[0] += 4
            bar.reach(done * 1_000_000, done * 1000)
    assert capsys.readouterr().err.splitlines() == [
        "polyseme: reading, 2 of 7 MB, 2,000 rows",
        "polyseme: reading, 5 of 7 MB, 5,000 rows",
    ]


def test_without_a_terminal_progress_that_is_no_bytes_is_counted(clock, capsys):
    with Progress().stage("sentences", 2000, in_bytes=False) as bar:
        clock[0] += 1
        bar.advance(500)
        clock[0] += 9
        bar.advance(1000)
    assert capsys.readouterr().err == "polyseme: sentences, 1,500 of 2,000\n"


def test_on_a_terminal_progress_is_a_bar_below_messages(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    shown = Progress()
    with shown.stage("reading", 7_000_000) as bar:
        bar.reach(3_500_000, 2000)
        bar.show(7_000_000, "3,000 rows")
        shown.say("A message.")
    with shown.stage("sentences", 20, in_bytes=False) as bar:
        bar.advance(20)
    out, err = capsys.readouterr()
    assert out == ""
    assert "reading: 100%" in err and "7.00M/7.00M [" in err and ", 3,000 rows]" in err
    assert "polyseme: A message.\n" in err
    assert "sentences:" in err and "/20 [" in err


def test_progress_that_is_not_shown_writes_nothing(monkeypatch, capsys):
    monkeypatch.setattr(terminal, "SECONDS", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with SILENT.stage("reading", 7) as bar:
        bar.advance(7)
    SILENT.say("A message.")
    assert capsys.readouterr() == ("", "")
