"""The block of docs/senses.md prints what the page shows."""

import re

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "senses.md").read_text("utf-8")


def test_the_block_prints_the_documented_output(capsys):
    (block,) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
    exec(block[0], {})
    assert capsys.readouterr().out == block[1]
