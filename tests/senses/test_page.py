"""docs/senses.md: its Python block prints the documented output."""

import re

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "senses.md").read_text("utf-8")


def test_the_block_prints_the_documented_output(capsys):
    ((code, output),) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
    exec(code, {})
    assert capsys.readouterr().out == output
