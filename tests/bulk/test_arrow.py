"""`polyseme.arrow.Encoder`: tables of texts to tables of vectors."""

import hashlib
import json
import pickle

import numpy as np
import pyarrow as pa
import pytest

import polyseme
from polyseme.arrow import METADATA_KEY, Encoder
from polyseme.errors import InvalidError, ModelFolderError, UnknownModelError
from polyseme.models.reader import bundled_models
from polyseme.settings import BUNDLED
from tests.bulk import SENTENCES
from tests.operations.calls import senses_in
from tests.senses.test_find import MONEY, RIVER

TEXTS = ["The river bank", None, "", "word " * 2000, " \n", "Money in the bank"]
BATCH = pa.RecordBatch.from_pydict({"id": range(len(TEXTS)), "text": TEXTS})


@pytest.fixture(scope="module")
def local():
    return polyseme.load()


def vectors_of(table, column="vector"):
    return np.array([vector for vector in table[column].to_pylist() if vector], np.float32)


def test_rows_have_the_vectors_of_embed_or_null(local):
    table = Encoder(keep="id")(BATCH)
    assert table.schema.names == ["id", "error", "truncated", "vector"]
    assert table["id"].equals(BATCH["id"])
    assert [vector is None for vector in table["vector"].to_pylist()] == [False, *[True] * 4, False]
    assert vectors_of(table).tobytes() == local.embed([TEXTS[0], TEXTS[5]]).tobytes()
    errors = [one and one.split(",")[0] for one in table["error"].to_pylist()]
    error = "too_large: A sentence has too many tokens: 2000"
    assert errors == [None, None, None, error, None, None]
    assert table["truncated"].to_pylist() == [0, None, 0, None, 0, 0]
    vectors = Encoder(wordless="zero")(BATCH)["vector"].to_pylist()
    assert vectors[2] == vectors[4] == [0.0] * 300
    assert vectors[1] is vectors[3] is None


def test_error_rows_may_be_skipped_or_raise():
    assert Encoder(keep="id", on_error="skip")(BATCH)["id"].to_pylist() == [0, 1, 2, 4, 5]
    with pytest.raises(InvalidError, match=r"`text\[3\]`: too_large: A sentence has too many"):
        Encoder(on_error="fail")(BATCH)
    with pytest.raises(InvalidError, match=r"`text\[4\]`"):
        Encoder(on_error="fail")(pa.Table.from_batches([BATCH.slice(4), BATCH.slice(1)]))
    table = Encoder(truncate=True)(BATCH)
    assert (table["error"].null_count, table["truncated"].to_pylist()[3]) == (6, 976)


@pytest.mark.parametrize("lists", ["fixed", "variable"])
def test_rows_have_the_same_bits_in_every_batch(lists):
    options = {"keep": "id", "include": ("static", "contextual", "attention"), "lists": lists}
    encode = Encoder(**options)
    whole = encode(pa.Table.from_batches([BATCH, BATCH]))
    assert whole.schema == encode.schema(BATCH.schema)
    alone = [encode(BATCH.slice(i, 1)) for i in range(len(TEXTS))]
    assert pa.Table.from_batches(alone * 2).equals(whole)
    assert encode(BATCH.slice(0, 0)).schema == whole.schema
    first, before = encode(BATCH), whole.slice(0, len(TEXTS))
    encode(BATCH.slice(4))  # the next call does not overwrite the memory of a result
    assert pa.Table.from_batches([first]).equals(before)
    values = Encoder(**options | {"lists": "fixed"})(BATCH).to_pylist()
    assert values == first.to_pylist()


def test_pickled_encoder_is_small_and_gives_the_same_bits(inventory):
    encode = Encoder(keep="id", include="features", senses=inventory)
    data = pickle.dumps(encode)
    assert len(data) < 50_000
    assert pickle.loads(data)(BATCH).equals(encode(BATCH))


def test_metadata_has_the_model_and_the_options():
    manifest = (bundled_models() / BUNDLED / "manifest.json").read_bytes()
    sha256 = hashlib.sha256(manifest).hexdigest()
    schema = Encoder(sha256=sha256, pooling="sif").schema(BATCH.schema)
    facts = json.loads(schema.metadata[METADATA_KEY])
    assert (facts["model"], facts["sha256"]) == (BUNDLED, sha256)
    assert (facts["options"]["pooling"], facts["options"]["dtype"]) == ("sif", "float32")


def test_tokens_have_rows_with_offsets_and_vectors(local):
    table = Encoder(rows="tokens", keep="id", words=("BANK", "money"))(BATCH)
    columns = ["id", "index", "token", "start", "stop", "key", "resolution"]
    assert [tuple(row.values()) for row in table.select(columns).to_pylist()] == [
        (0, 2, "bank", 10, 14, "bank", "exact"),
        (5, 0, "Money", 0, 5, "Money", "exact"),
        (5, 3, "bank", 13, 17, "bank", "exact"),
    ]
    first, second = local.encode([TEXTS[0], TEXTS[5]])
    expected = np.stack([first.contextual[2], second.contextual[0], second.contextual[3]])
    assert vectors_of(table).tobytes() == expected.tobytes()


def test_tokens_of_words_and_senses_are_written_in_one_pass(local, inventory):
    batch = pa.RecordBatch.from_pydict({"text": [*SENTENCES, None, "zebra " * 2000]})
    table = Encoder(rows="tokens", words="river", senses=inventory)(batch)
    rows = table.select(["token", "start", "sense", "label", "confidence", "unsure"]).to_pylist()
    expected = local.apply(inventory, SENTENCES).occurrences
    banks = [row for row in rows if row["token"] == "bank"]
    assert [(row["start"], row["sense"], row["label"], row["unsure"]) for row in banks] == [
        (one.start, one.sense, one.label, one.unsure) for one in expected
    ]
    assert [row["sense"] for row in rows if row["token"] == "river"] == [None, None]
    assert len(rows) == len(banks) + 2
    # The text that has no such word is not tokenized.
    assert table["error"].null_count == len(rows)


def test_each_row_has_the_senses_that_the_model_applies(local, inventories):
    texts = [
        "No such word.",
        "The bank of the river.",
        "",
        "Bank interest at the bank.",
        "interest",
    ]
    expected = [[] for _ in texts]
    for inventory in inventories:
        for one in local.apply(inventory, texts).occurrences:
            values = (one.start, one.end, one.sense, one.label, one.unsure)
            expected[one.text].append((inventory.word, *values))
    table = Encoder(pooling=None, senses=inventories)(pa.record_batch({"text": [*texts, None]}))
    *rows, of_null = table["senses"].to_pylist()
    fields = ("word", "start", "stop", "sense", "label", "unsure")
    assert [[tuple(one[name] for name in fields) for one in row] for row in rows] == expected
    assert of_null is None


@pytest.mark.parametrize("phrases", [False, True])
def test_lists_of_words_have_the_senses_of_their_texts(bundled, phrases):
    found = senses_in(bundled, "bank", RIVER + MONEY, senses=2, inventory=True, phrases=phrases)
    texts = ["the New York bank", "", "no", "Bank by bank", "the river bank " + "a " * 9 + "bank"]
    lists = pa.array([text.split() for text in texts])
    options = {"senses": (found.inventory,), "phrases": phrases, "pooling": None}
    options |= {"truncate": True, "max_sentence_tokens": 9}
    rows = Encoder(**options)(pa.record_batch({"text": texts})).to_pylist()
    of_lists = Encoder(**options)(pa.record_batch({"text": lists})).to_pylist()
    senses = [sense for row in of_lists for sense in row["senses"]]
    assert [sense["index"] for sense in senses] == [3, 0, 2, 2]
    assert {sense["start"] for sense in senses} == {None}
    for text, row, of_list in zip(texts, rows, of_lists, strict=True):
        for one, other in zip(row["senses"], of_list["senses"], strict=True):
            one |= {"index": text[: one["start"]].count(" "), "start": None, "stop": None}
            assert one == other
    for column in (lists, texts):
        tokens = Encoder(**options, rows="tokens")(pa.record_batch({"text": column})).to_pylist()
        assert [token["label"] for token in tokens] == [sense["label"] for sense in senses]
        assert {token["token"].lower() for token in tokens} == {"bank"}
    assert [token["start"] for token in tokens] == [13, 0, 8, 10]


def test_senses_alone_skip_texts_that_lack_the_word(inventory):
    batch = pa.RecordBatch.from_pydict(
        {"text": ["zebra " * 2000, "bank " * 2000, "the bank", None]}
    )
    table = Encoder(pooling=None, senses=inventory)(batch)
    senses = table["senses"].to_pylist()
    assert [one if one is None else len(one) for one in senses] == [0, None, 1, None]
    assert [one is None for one in table["error"].to_pylist()] == [True, False, True, True]
    cut = Encoder(pooling=None, senses=inventory, truncate=True, max_sentence_tokens=5)(batch)
    assert len(cut["senses"][1]) == 5


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("part", ["static", "contextual", "features", "attention"])
def test_arrays_have_the_bits_of_encode_rounded_once(local, part, dtype):
    batch = pa.RecordBatch.from_pydict({"text": SENTENCES})
    options = {"include": part, "pooling": "informativeness", "wordless": "zero", "dtype": dtype}
    table = Encoder(**options)(batch)
    sentences = local.encode(SENTENCES, include=[part])
    for text, row, sentence in zip(SENTENCES, table.to_pylist(), sentences, strict=True):
        expected = getattr(sentence, part).astype(dtype)
        assert np.array(row[part], dtype).reshape(expected.shape).tobytes() == expected.tobytes()
        assert row["tokens"] == sentence.words
        pairs = zip(row["starts"], row["stops"], strict=True)
        assert [text[start:stop] for start, stop in pairs] == row["tokens"]
    pooled = local.embed(SENTENCES, pooling="informativeness").astype(dtype)
    assert np.array(table["vector"].to_pylist(), dtype).tobytes() == pooled.tobytes()
    last = table.to_pylist()[-1]
    i = last["tokens"].index("unbankable")
    assert (last["resolutions"][i], last["keys"][i]) == ("subword", None)
    assert (last["resolutions"][i + 1], last["keys"][i + 1]) == ("exact", "is")


def test_every_token_has_a_row_without_words():
    batch = pa.RecordBatch.from_pydict({"text": SENTENCES})
    rows = Encoder(include="features", pooling=None)(batch).to_pylist()
    table = Encoder(rows="tokens", include="features")(batch)
    assert table["token"].to_pylist() == [token for row in rows for token in row["tokens"]]
    assert table["index"].to_pylist() == [i for row in rows for i in range(len(row["tokens"]))]
    vectors = [vector if any(vector) else None for row in rows for vector in row["features"]]
    assert table["vector"].to_pylist() == vectors


def tokens_of(texts, words, **options):
    batch = pa.RecordBatch.from_pydict({"text": texts})
    return Encoder(rows="tokens", words=words, **options)(batch)["token"].to_pylist()


def test_words_are_compared_without_case_and_white_space():
    assert tokens_of(SENTENCES, "Apple") == ["Apple", "apple"]
    assert tokens_of(SENTENCES, "Apple", exact=True) == ["Apple"]
    assert tokens_of(SENTENCES, "quark") == []
    texts = ["a high  speed train", "high time", "the High\nspeed line"]
    assert tokens_of(texts, "high speed", phrases=True) == ["high  speed", "High\nspeed"]
    words = [["the", "bank"], None, ["New York", "river", "Bank"]]
    assert tokens_of(words, ("bank", "new york")) == ["bank", "New York", "Bank"]


def test_columns_of_any_type_are_copied_for_each_token():
    columns = {
        "view": pa.array(["x", None], pa.string_view()),
        "views": pa.array([["x"], None], pa.list_(pa.string_view())),
        "dictionary": pa.array(["x", "y"]).dictionary_encode(),
        "struct": pa.array([{"a": 1}, None]),
        "text": pa.array(["a bank", "river"]),
    }
    table = Encoder(rows="tokens", keep=tuple(columns))(pa.table(columns))
    rows = table.select([*columns]).to_pylist()
    assert rows == [rows[0], rows[0], rows[2]]
    assert [rows[0], rows[2]] == pa.table(columns).to_pylist()


def test_unreadable_texts_are_errors_of_their_rows(local):
    texts = pa.array([b"bank", b"\xff", None]).view(pa.string())
    table = Encoder()(pa.table({"text": texts}))
    error = "unreadable: The row is not text in UTF-8."
    assert table["error"].to_pylist() == [None, error, None]
    words = pa.array([["New York", "bank"], ["a", None], None])
    table = Encoder(include="contextual", pooling=None)(pa.table({"text": words}))
    error = "unreadable: The row has a list with a word that is null."
    assert table["error"].to_pylist() == [None, error, None]
    assert table["starts"].to_pylist() == [[None, None], None, None]
    expected = local.encode([["New York", "bank"]])[0].contextual
    assert np.array(table["contextual"][0].as_py(), np.float32).tobytes() == expected.tobytes()


INVALID = {
    "`pooling`: must be": {"pooling": "cls"},
    "`rows`: must be": {"rows": "words"},
    "`include\\[0\\]`: must be": {"include": ("scores",)},
    "`max_sentence_tokens`: must be": {"max_sentence_tokens": 0},
    "`on_error`: must be": {"on_error": None},
    "`truncate`": {"truncate": "yes"},
    "`include`: rows of tokens have one": {"rows": "tokens", "include": ("static", "features")},
    "`words`: these are for rows of tokens": {"words": "bank"},
    "`exact`: this needs `words`": {"rows": "tokens", "exact": True},
    "`words`: a word is empty": {"rows": "tokens", "words": ("a", " ")},
    "`pooling`: without `include` and `senses`": {"pooling": None},
}


@pytest.mark.parametrize(("message", "options"), INVALID.items(), ids=INVALID)
def test_invalid_options_are_rejected_at_once(message, options):
    with pytest.raises(InvalidError, match=message):
        Encoder(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"column": "texts"}, "`column`: there are 0 columns texts; the columns are id, text"),
        ({"column": "id"}, "`column`: id has the type int64 instead of strings"),
        ({"keep": ("no",)}, "`keep`: there are 0 columns no"),
        ({"keep": ("id", "id")}, "`keep`: the result has another column id"),
    ],
    ids=str,
)
def test_tables_that_do_not_fit_are_rejected(options, message):
    with pytest.raises(InvalidError, match=message):
        Encoder(**options).schema(BATCH.schema)
    with pytest.raises(InvalidError, match=message):
        Encoder(**options)(BATCH)


def test_another_model_is_rejected():
    with pytest.raises(ModelFolderError, match=r"has the sha256 [0-9a-f]{64}, not 0000"):
        Encoder(sha256="0" * 64)(BATCH)
    with pytest.raises(UnknownModelError, match="nobody"):
        Encoder(model="nobody")(BATCH)
    with pytest.raises(TypeError, match=r"pyarrow\.RecordBatch"):
        Encoder()(BATCH.to_pydict())


def test_ddl_of_spark_has_the_types_of_the_schema():
    schema = pa.schema({"text": pa.string(), "a`b": pa.int64(), "day": pa.date32()})
    encode = Encoder(keep=("a`b", "day"), include="static", lists="variable")
    assert encode.spark_ddl(schema) == (
        "`a``b` bigint, `day` date, `error` string, `truncated` int, `tokens` array<string>,"
        " `starts` array<int>, `stops` array<int>, `keys` array<string>,"
        " `resolutions` array<string>, `static` array<array<float>>, `vector` array<float>"
    )
    with pytest.raises(InvalidError, match="`lists`: Spark has no type fixed_size_list"):
        Encoder().spark_ddl(schema)
    with pytest.raises(InvalidError, match="`dtype`: Spark has no type halffloat"):
        Encoder(dtype="float16", lists="variable").spark_ddl(schema)
