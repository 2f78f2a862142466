"""Start TensorBoard on a folder, and write what its Embedding Projector is given as JSON."""

import json
import sys
from urllib.parse import urlencode
from urllib.request import urlopen

from tensorboard import default, program

board = program.TensorBoard(plugins=default.get_plugins())
board.configure(logdir=sys.argv[1], port=0, host="127.0.0.1", load_fast="false")
address = board.launch() + "data/plugin/projector/"


def ask(what, **query):
    with urlopen(f"{address}{what}?{urlencode(query)}", timeout=30) as answer:
        return answer.read()


(run,) = json.loads(ask("runs"))
(embedding,) = json.loads(ask("info", run=run))["embeddings"]
name = embedding["tensorName"]
shown = {
    "embedding": embedding,
    "vectors": ask("tensor", run=run, name=name).hex(),
    "metadata": ask("metadata", run=run, name=name).decode(),
}
sys.stdout.write(json.dumps(shown))
