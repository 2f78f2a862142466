"""Export of a model's static vectors as word2vec text.

The format (Mikolov's `word2vec.c`) has a line with the number of words and the dimension, then a
line per word with its values.
"""

from pathlib import Path

import numpy as np
import orjson

from polyseme.atomic_files import atomic_files
from polyseme.models.model import Model


def export_word2vec(model: Model, file: Path, limit: int | None = None) -> int:
    """Write word2vec text; return the number of skipped words.

    The format cannot represent words that contain whitespace. Values have the shortest decimal form
    that round-trips to float32.
    """
    size = model.manifest.vocabulary_size
    count = size if limit is None else min(size, limit)
    words = enumerate(map(model.vocabulary.word, range(count)))
    rows = {row: word for row, word in words if not any(map(str.isspace, word))}
    with atomic_files(file) as (out,):
        out.write(b"%d %d\n" % (len(rows), model.manifest.dimension))
        for row, word in rows.items():
            vector = np.ascontiguousarray(model.rows[row], np.float32)
            values = orjson.dumps(vector, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1]
            out.write(b"%s %s\n" % (word.encode(), values.replace(b",", b" ")))
    return count - len(rows)
