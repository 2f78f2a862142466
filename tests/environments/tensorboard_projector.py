"""Print what TensorBoard's Embedding Projector loads from a folder, as JSON."""

import json
import sys
from urllib.parse import urlencode
from urllib.request import urlopen

from tensorboard import default, program

board = program.TensorBoard(plugins=default.get_plugins())
board.configure(logdir=sys.argv[1], port=0, host="127.0.0.1", load_fast="false")
address = board.launch() + "data/plugin/projector/"


def fetch(route, **query):
    with urlopen(f"{address}{route}?{urlencode(query)}", timeout=30) as response:
        return response.read()


(run,) = json.loads(fetch("runs"))
(embedding,) = json.loads(fetch("info", run=run))["embeddings"]
name = embedding["tensorName"]
loaded = {
    "embedding": embedding,
    "vectors": fetch("tensor", run=run, name=name).hex(),
    "metadata": fetch("metadata", run=run, name=name).decode(),
}
sys.stdout.write(json.dumps(loaded))
