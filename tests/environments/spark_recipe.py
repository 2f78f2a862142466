"""Runs the recipe of docs/spark.md over a file of texts, as its reader would."""

import os
import re
import sys
from pathlib import Path

page, source, out = sys.argv[1:]
os.environ["PYSPARK_PYTHON"] = sys.executable  # the tasks run in this environment, too
code = re.search(r"```python\n(.*?)```", Path(page).read_text("utf-8"), re.DOTALL).group(1)
code = code.replace('"sentences.parquet"', repr(source)).replace('"vectors.parquet"', repr(out))
exec(compile(code, page, "exec"), {"__name__": "__main__"})
