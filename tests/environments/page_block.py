"""Run the Python block of a section of a page. Arguments: PAGE HEADING."""

import os
import re
import sys
from pathlib import Path

page, heading = sys.argv[1:]
# The workers of Spark run in this environment, too.
os.environ["PYSPARK_PYTHON"] = sys.executable
text = Path(page).read_text("utf-8")
block = re.search(rf"^### {heading}\n.*?^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
exec(compile(block.group(1), page, "exec"), {"__name__": "__main__"})
