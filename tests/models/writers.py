"""Programs that write the tiny model in processes of their own, to be stopped or raced."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

WAITING = """
import sys
from pathlib import Path
from tests.tiny import WORDS, write_tiny

class Words(tuple):
    def __iter__(self):
        yield from self[:7]
        print("writing", flush=True)
        sys.stdin.readline()
        yield from self[7:]

write_tiny(Path(sys.argv[1]), words=Words(WORDS), source="the waiting one")
"""

STOPPED_AT_A_RENAME = """
import os, signal, sys
from pathlib import Path
from tests.tiny import write_tiny

folder = Path(sys.argv[1])

def stop(event, arguments):
    if event == "os.rename" and str(arguments[int(sys.argv[2])]) == str(folder):
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(stop)
write_tiny(folder, source="the new one")
"""

MANY_TIMES = """
import sys
from pathlib import Path
from tests.tiny import write_tiny

for number in range(20):
    write_tiny(Path(sys.argv[1]), source=sys.argv[2])
"""

NEW_ONES = """
import sys
from pathlib import Path
from polyseme.errors import ModelFolderError
from tests.tiny import write_tiny

won = 0
for number in range(20):
    try:
        write_tiny(Path(sys.argv[1]) / f"model{number}", source=sys.argv[2], replace=False)
        won += 1
    except ModelFolderError as error:
        assert error.sentence == "a model of this name is there already."
print(won)
"""

RIVAL_AT_THE_LAST_MOMENT = """
import sys
from pathlib import Path
from polyseme.errors import ModelFolderError
from tests.tiny import write_tiny

folder, replace, came = Path(sys.argv[1]), sys.argv[2] == "True", []

def come(event, arguments):
    # A writer that may not replace may not move a folder away either.
    ends = arguments[1:2] if replace else arguments[:2]
    if event == "os.rename" and str(folder) in map(str, ends) and not came:
        came.append(True)
        write_tiny(folder, source="the rival")

sys.addaudithook(come)
try:
    write_tiny(folder, source="the slower one", replace=replace)
except ModelFolderError as error:
    print(error.sentence, end="")
assert came
"""

STOPPED_WHILE_IT_TIDIES = """
import os, signal, sys
from pathlib import Path
from tests.tiny import write_tiny

def stop(event, arguments):
    if event == "shutil.rmtree":
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(stop)
write_tiny(Path(sys.argv[1]), source="the new one")
"""


def python(code, *arguments):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, text=True, **pipes)


def names(folder):
    return sorted(path.name for path in folder.iterdir())
