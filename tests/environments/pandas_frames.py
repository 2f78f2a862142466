"""Let scikit-learn give data frames of sentence vectors; write what they hold as JSON."""

import json
import sys

import pandas as pd

# Packages of this environment first, then those of the caller's.
sys.path += sys.argv[1:]
from sklearn.compose import make_column_transformer

from polyseme.integrations.sklearn import ContextualVectorizer

table = pd.DataFrame({"text": ["river bank", "qzx"], "number": [1, 2]}, index=["a", "b"])
vectorizer = ContextualVectorizer("tiny", dimensions=2).set_output(transform="pandas")
frame = vectorizer.fit_transform(table["text"])
columns = make_column_transformer((vectorizer, "text"), remainder="passthrough")
refused = []
for wrong in (table[["text"]], pd.Series(["river", None])):
    try:
        vectorizer.transform(wrong)
    except TypeError as error:
        refused.append(str(error))
shown = {
    "columns": list(frame.columns),
    "index": list(frame.index),
    "values": frame.to_numpy().tolist(),
    "beside": list(columns.set_output(transform="pandas").fit_transform(table).columns),
    "refused": refused,
}
sys.stdout.write(json.dumps(shown))
