"""Run the first Python block of docs/spark.md with other paths. Arguments: PAGE SOURCE OUTPUT."""

import os
import re
import sys
from pathlib import Path

page, source, out = sys.argv[1:]
# The workers of Spark run in this environment, too.
os.environ["PYSPARK_PYTHON"] = sys.executable
code = re.search(r"```python\n(.*?)```", Path(page).read_text("utf-8"), re.DOTALL).group(1)
code = code.replace('"sentences.parquet"', repr(source)).replace('"vectors.parquet"', repr(out))
exec(compile(code, page, "exec"), {"__name__": "__main__"})
