"""docs/client.md and the notebook: every block runs."""

import inspect
import json
import os
import re
import subprocess
import sys

import pytest

from polyseme.client import Client
from polyseme.client.client import KEY_VARIABLE, RETRY_STATUSES
from polyseme.client.encoder import Encoder
from tests.conftest import PYTHONPATH, ROOT

PAGE = (ROOT / "docs/client.md").read_text("utf-8")
DEFAULTS = {
    name: one.default
    for name, one in inspect.signature(Client).parameters.items()
    if one.kind == one.KEYWORD_ONLY
}
NOTEBOOKS = ROOT / "docs/notebooks"
RUN = """
import sys, nbformat, nbclient
notebook = nbformat.read(sys.argv[1], 4)
nbclient.NotebookClient(notebook, timeout=120).execute()
nbformat.write(notebook, sys.argv[2])
"""


@pytest.fixture(scope="module")
def address(serve):
    return str(serve().base_url).rstrip("/")


def test_every_block_of_the_page_runs(address, capsys, monkeypatch):
    pytest.importorskip("pandas", reason="needs the extra `pandas`")
    monkeypatch.delenv("POLYSEME_URL", raising=False)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 7
    program = "\n".join(blocks).replace("http://localhost:8000", address)
    namespace = {"__name__": "page"}
    exec(compile(program, "docs/client.md", "exec"), namespace)
    assert len(namespace["first"]) == 1000 and namespace["vectors"].shape == (3, 300)
    shown = "".join(re.findall(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
    printed = capsys.readouterr().out
    assert printed.startswith(shown) and shown
    printed = printed.removeprefix(shown).splitlines()
    assert printed[:3] == ["['one']", "['two']", "300"]
    unknown = "A word of the request is not in the vocabulary: zxqwv. `texts[0]`: token 2 is "
    assert printed[3].startswith(unknown)
    assert printed[4].startswith("The service does not respond (ConnectError: [Errno 111] ")


def test_the_page_names_every_method_option_and_default():
    page = " ".join(PAGE.split())
    for name in vars(Encoder):
        assert name.startswith("_") or f"`{name}" in page or f".{name}`" in page
    for text in (
        *(f"`{name}` ({DEFAULTS[name]})" for name in ("batch_sentences", "concurrency", "retries")),
        f"`batch_bytes` ({DEFAULTS['batch_bytes'] >> 10} KiB)",
        f"`max_answer_bytes` ({DEFAULTS['max_answer_bytes'] >> 20} MiB)",
        f"`longest_wait` ({DEFAULTS['longest_wait']:g} seconds)",
        f"`timeout` ({DEFAULTS['timeout']:g} seconds",
        "{}, {}, {} or {}".format(*RETRY_STATUSES),
        f"`{KEY_VARIABLE}`",
        *(f"`{name}" for name in DEFAULTS),
    ):
        assert text in page


def outputs_of(file):
    """The printed texts, the results and the number of pictures of a notebook."""
    cells = json.loads(file.read_text("utf-8"))["cells"]
    outputs = [one for cell in cells for one in cell.get("outputs", [])]
    assert all(one.get("name") != "stderr" and one["output_type"] != "error" for one in outputs)
    texts = ["".join(one["text"]) for one in outputs if one["output_type"] == "stream"]
    results = [
        one["data"]["text/plain"] for one in outputs if one["output_type"] == "execute_result"
    ]
    return texts, results, sum("image/png" in one.get("data", ()) for one in outputs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "where", "pictures"),
    [("apple-and-bank", "a service", 3), ("own-vectors", "this process", 1)],
)
def test_the_notebook_runs_and_reproduces_its_output(name, where, pictures, tmp_path, request):
    notebook = NOTEBOOKS / f"{name}.ipynb"
    pytest.importorskip("matplotlib", reason="needs the extra `evaluate`")
    folders = ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR")
    env = {**os.environ, "PYTHONPATH": PYTHONPATH, **dict.fromkeys(folders, str(tmp_path))}
    env.pop("POLYSEME_URL", None)
    if where == "a service":
        env["POLYSEME_URL"] = request.getfixturevalue("address")
    command = [sys.executable, "-c", RUN, notebook, tmp_path / "run.ipynb"]
    subprocess.run(command, env=env, cwd=tmp_path, timeout=200, check=True)
    assert outputs_of(tmp_path / "run.ipynb") == outputs_of(notebook)
    assert outputs_of(notebook)[2] == pictures
    text = notebook.read_text("utf-8")
    assert len(text) < 200_000
    assert not re.search(r"/(home|root|tmp|work|usr)/", re.sub(r'"image/png": "[^"]*"', "", text))
