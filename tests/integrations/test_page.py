"""The blocks for spaCy, scikit-learn, … run unchanged and print the documented output."""

import json
import re
import sysconfig
from contextlib import redirect_stdout
from inspect import signature
from io import StringIO

import numpy as np
import pytest

import polyseme
from polyseme.integrations.sklearn import ContextualVectorizer
from polyseme.integrations.spacy import Contextualizer
from tests.conftest import ROOT
from tests.environments import output, python_of, run_in
from tests.pages import section

PAGE = "".join(
    section("pipelines.md", heading)
    for heading in ("spaCy", "scikit-learn", "BertViz and the Embedding Projector")
)
BLOCKS = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", PAGE, re.DOTALL)
IN_PROCESS = [block for block in BLOCKS if "bertviz" not in block[0]]
(BERTVIZ,) = [code for code, _ in BLOCKS if "bertviz" in code]
(PROJECTOR,) = [code for code, _ in BLOCKS if "projector_config" in code]


def test_the_blocks_in_one_session_print_the_documented_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session = {}
    assert len(IN_PROCESS) == 4
    for code, expected in IN_PROCESS:
        printed = StringIO()
        with redirect_stdout(printed):
            exec(code, session)
        assert printed.getvalue() == expected != ""
    for name in {
        *signature(Contextualizer).parameters,
        *signature(ContextualVectorizer).parameters,
    }:
        assert f"`{name}`" in PAGE or name in {"nlp", "name"}


@pytest.mark.clients
def test_bertviz_draws_the_weights_of_its_recipe(tmp_path):
    # The packages of BertViz's environment come first, then those of this one.
    paths = [str(ROOT / "service"), sysconfig.get_path("purelib")]
    call = "head_view(attention, sentence.words"
    assert call in BERTVIZ
    recipe = BERTVIZ.replace(call, f"page = {call}, html_action='return'")
    program = f"import sys\nsys.path += {paths}\n{recipe}\nprint(page.data)"
    html = output(python_of("bertviz"), "-c", program, folder=tmp_path, PYTHONDONTWRITEBYTECODE="1")
    (view,) = json.loads(re.search(r"const params = (\{.*\});", html)[1])["attention"]
    (sentence,) = polyseme.load().encode(["He sat on the bank of the river"])
    assert view["left_text"] == view["right_text"] == sentence.words
    assert np.array_equal(np.array(view["attn"], np.float32), sentence.attention)


@pytest.mark.clients
def test_tensorboard_serves_the_points_of_its_recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session = {}
    exec(PROJECTOR, session)
    shown = json.loads(run_in("tensorboard", "tensorboard_projector.py", "projection"))
    assert bytes.fromhex(shown["vectors"]) == session["vectors"].tobytes()
    assert shown["embedding"]["tensorShape"] == list(session["vectors"].shape)
    assert shown["metadata"].splitlines()[5] == "bank\tHe sat on the bank of the river ."
