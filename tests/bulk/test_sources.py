"""Texts from every kind of file; other files are rejected in one sentence."""

import bz2
import gzip
import json

import fsspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import zstandard

from polyseme.bulk import read as reading
from polyseme.bulk.read import find_files, read, read_schema, split_shards
from polyseme.errors import CommandError
from tests.bulk import SENTENCES, write_lines


def texts_of(path, column="text", keep=()):
    """The text and the kept columns of each row."""
    values = []
    for file in find_files(path):
        for rows in read(file, column, keep):
            for i, problem in enumerate(rows.problems, rows.first):
                if problem:
                    raise CommandError(f"{rows.file}: row {i} {problem}.")
            values += zip(*lists_of(rows), strict=True)
    return values


def conllu(*sentences):
    """Sentences of (word, lemma) in CoNLL-U."""
    rest = "\t_" * 7
    lines = (
        [f"{i}\t{word}\t{lemma}{rest}\n" for i, (word, lemma) in enumerate(sentence, 1)]
        for sentence in sentences
    )
    return "".join("".join([*words, "\n"]) for words in lines)


def lists_of(rows):
    """The texts of rows, and the columns to keep."""
    return [column.to_pylist() for column in (rows.texts, *rows.columns)]


def write(path, rows):
    """Write rows of a text and an id in the format of the path's extension."""
    match path.suffix:
        case ".parquet":
            pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=2)
        case ".jsonl":
            path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        case ".csv" | ".tsv":
            delimiter = {".csv": ",", ".tsv": "\t"}[path.suffix]
            options = pyarrow.csv.WriteOptions(delimiter=delimiter)
            pyarrow.csv.write_csv(pa.Table.from_pylist(rows), path, options)
        case ".txt":
            write_lines(path, [row["text"] for row in rows])
    return path


ROWS = [{"id": str(number), "text": text} for number, text in enumerate(SENTENCES)]


def test_sentences_of_conllu_are_lists_of_words_with_lemmas(tmp_path, monkeypatch):
    path, rest = tmp_path / "a.conllu", "\t_" * 7
    spans = f"# text = im Haus\n1-2\tim\t_{rest}\n1\tin\tin{rest}\n2\tdem\tder{rest}\n"
    path.write_text(f"{spans}2.1\tgeht\tgehen{rest}\n3\tHaus\tHaus{rest}\n\n\n1\tab c\t_{rest}\r\n")
    expected = [(["in", "dem", "Haus"], ["in", "der", "Haus"]), (["ab c"], ["_"])]
    assert texts_of(path, keep=["lemma"]) == expected
    with pytest.raises(CommandError, match="no column upos; the columns are text, lemma"):
        texts_of(path, keep=["upos"])
    monkeypatch.setattr(reading, "MAX_ROW_BYTES", 1000)
    rows = conllu([("d", "e")], [("c", "c")] * 200, [("a", "b")])
    path.write_text(f"{conllu([('a', 'b')]).rstrip()}\n1 c c\n\n{rows}")
    (rows,) = read(*find_files(path), "text", ["lemma"])
    assert lists_of(rows) == [[None, ["d"], None, ["a"]], [None, ["e"], None, ["b"]]]
    problem = "has a line without 10 fields separated by tabs; correct it, or remove the sentence"
    assert rows.problems[:2] == [problem, None]
    assert rows.problems[2].startswith("has more than") and not rows.problems[3]


COMPRESSED = {
    "b.jsonl.gz": gzip.compress,
    "b.csv.zst": zstandard.ZstdCompressor().compress,
    "b.txt.bz2": bz2.compress,
}


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl", "a.csv", "a.tsv", "a.txt", *COMPRESSED])
def test_every_kind_of_file_gives_the_same_texts_and_columns(tmp_path, name):
    path = tmp_path / name
    if name in COMPRESSED:
        data = write(path.with_suffix(""), ROWS).read_bytes()
        # Two members in one file, as `cat` makes them.
        path.write_bytes(b"".join(map(COMPRESSED[name], (data[:50], data[50:]))))
    else:
        write(path, ROWS)
    keep = ("text",) if ".txt" in name else ("id", "text")
    expected = [tuple(row[column] for column in ("text", *keep)) for row in ROWS]
    assert texts_of(path, keep=keep) == expected


ROW = "id\ttext\n1\t"
CONTENTS = {
    "marks.tsv": (
        'id\ttext\n2\t"Apple fell, he said\n3\tMoney bank grows\n4\tHe said "yes" today\n',
        [('"Apple fell, he said', "2"), ("Money bank grows", "3"), ('He said "yes" today', "4")],
    ),
    "mark at the end of another line.tsv": (
        ROW + '"Apple fell\n\n2\tMoney bank"\n3\tc\n',
        [('"Apple fell', "1"), ('Money bank"', "2"), ("c", "3")],
    ),
    "mark that is never closed.tsv": (ROW + '"a\n2\tb\n', [('"a', "1"), ("b", "2")]),
    "mark alone.tsv": (ROW + '"\n2\tb\n', [('"', "1"), ("b", "2")]),
    "text after a mark.tsv": (ROW + '"a" b\n', [('"a" b', "1")]),
    "one column.tsv": ('text\n"I came,\nwe left."\n', [('"I came,',), ('we left."',)]),
    "quoted fields.tsv": (
        '"id"\t"text"\n"1"\t"a ""b"" c"\n2\t""\n3\t"d"',
        [('a "b" c', "1"), ("", "2"), ("d", "3")],
    ),
    "tab in a quoted field.tsv": (ROW + '"a\tb"\n', [("a\tb", "1")]),
    "line break in a quoted field.tsv": (
        ROW + '"two\nlines ""and\n\nmarks"""\n2\tb\n',
        [('two\nlines "and\n\nmarks"', "1"), ("b", "2")],
    ),
    "line break in the first field.tsv": (
        'text\tid\n"two\nlines"\t1\n"open\t2\n',
        [("two\nlines", "1"), ('"open', "2")],
    ),
    "empty lines.tsv": ("id\ttext\n\n1\ta\n\n\n2\tb", [("a", "1"), ("b", "2")]),
    "CRLF.tsv": ('id\ttext\r\n1\t"a\r\nb"\r\n2\tc\r\n', [("a\r\nb", "1"), ("c", "2")]),
    "BOM and null.tsv": ("\ufeff" + ROW + "a\0b\n", [("a\0b", "1")]),
    "quotes.csv": (
        '"id","text"\n1,"two\nlines, ""and"" marks"\n2,in "the" middle\nNA,\n',
        [('two\nlines, "and" marks', "1"), ('in "the" middle', "2"), ("", "NA")],
    ),
    "empty lines.csv": ("id,text\n\n1,a\n\n2,b", [("a", "1"), ("b", "2")]),
    "CR.csv": ("id,text\r1,a\r2,b\r", [("a", "1"), ("b", "2")]),
    "long field.csv": (f"id,text\n1,{'x' * 200_000}\n", [("x" * 200_000, "1")]),
    "CR.txt": ("one\rtwo\r\rthree", [("one",), ("two",), ("",), ("three",)]),
    "CR and LF.txt": ("a\rb\nthree\n", [("a\rb",), ("three",)]),
    "CRLF and BOM.txt": (
        "\ufeffone\r\n\r\ntwo\nthree \r",
        [("one",), ("",), ("two",), ("three ",)],
    ),
}


@pytest.mark.parametrize("size", [7, 1 << 20])
@pytest.mark.parametrize(("name", "content", "rows"), [(n, *c) for n, c in CONTENTS.items()])
def test_quotes_and_line_breaks(tmp_path, monkeypatch, size, name, content, rows):
    """Quotes in CSV are those of RFC 4180; in TSV, marks are text unless they enclose a field."""
    monkeypatch.setattr(reading, "READ_BYTES", size)
    path = tmp_path / name
    path.write_bytes(content.encode())
    assert texts_of(path, keep=("id",) if len(rows[0]) > 1 else ()) == rows


VALUES = {
    '{"a": [1]}': '{"a":[1]}',
    '"c"': "c",
    "18446744073709551617": "18446744073709551617",
    "1.10": "1.10",
    "1e400": "1e400",
    '[1.50, {"b": -0}]': '[1.50,{"b":-0}]',
    r'["\u00e9\/\n\""]': r'["é/\n\""]',
    "true": "true",
    "null": None,
    "[NaN, -Infinity, Infinity]": "[null,null,null]",
}


@pytest.mark.parametrize(("value", "kept"), VALUES.items(), ids=lambda one: str(one)[:20])
def test_kept_json_values_other_than_strings_stay_json(tmp_path, value, kept):
    path = tmp_path / "a.jsonl"
    path.write_text(
        f'{{"text": null, "k": {value}}}\n\n{{"k": {value}, "text": "b"}}\n{{"text": ""}}'
    )
    assert texts_of(path, keep=("k",)) == [(None, kept), ("b", kept), ("", None)]
    path.write_text(f'{{"k": {value}, "text": "a", "k": "\\ud800", "n": {{"a": 1, "a": 2}}}}')
    assert texts_of(path) == [("a",)]


def test_texts_of_json_may_be_lists_of_words(tmp_path):
    path = write(tmp_path / "a.jsonl", [{"text": ["New York", "bank"]}, {"text": []}])
    assert texts_of(path) == [(["New York", "bank"],), ([],)]


def write_views(path, columns):
    try:
        pq.write_table(pa.table(columns), path)
    except pa.ArrowNotImplementedError as error:  # of views, before Arrow 21
        pytest.skip(str(error))


STRINGS = [
    *(pa.string(), pa.large_string(), pa.string_view()),
    *(pa.binary(), pa.large_binary(), pa.binary_view()),
    *(pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.large_string())),
]


@pytest.mark.parametrize("lists", [None, pa.list_, pa.large_list], ids=["texts", "lists", "large"])
@pytest.mark.parametrize("kind", STRINGS, ids=str)
def test_parquet_texts_may_have_any_type_of_strings(tmp_path, kind, lists):
    values = pa.array(["ä", "b", "ä"]).cast(pa.binary())
    column = (values if "binary" in str(kind) else values.cast(pa.string())).cast(kind)
    expected = ["ä", "b", "ä", None]
    if lists:
        class_ = pa.ListArray if lists is pa.list_ else pa.LargeListArray
        column = class_.from_arrays(pa.array([0, 1, 1, None, 3]), column)
        expected = [["ä"], [], ["b", "ä"], None]
    else:
        column = pa.concat_arrays([column, pa.nulls(1, kind)])
    write_views(tmp_path / "a.parquet", {"text": column})
    assert [text for (text,) in texts_of(tmp_path / "a.parquet")] == expected


def test_views_of_strings_in_parquet_are_kept(tmp_path):
    kinds = {
        "a": pa.string_view(),
        "b": pa.large_list(pa.string_view()),
        "c": pa.struct([("x", pa.list_(pa.binary_view()))]),
        "d": pa.map_(pa.string(), pa.string_view()),
    }
    values = ["a", ["a", None], {"x": [b"a"]}, [("a", "b")]]
    pairs = zip(kinds.items(), values, strict=True)
    columns = {name: pa.array([value, None], kind) for (name, kind), value in pairs}
    write_views(tmp_path / "a.parquet", {"text": ["a", "b"], **columns})
    expected = [("a", *values), ("b", *[None] * 4)]
    assert texts_of(tmp_path / "a.parquet", keep=(*kinds,)) == expected


def test_a_string_that_is_not_utf8_costs_only_its_row(tmp_path):
    column = pa.array([b"a", b"\xff", b"c"]).view(pa.string())
    column = pa.StructArray.from_arrays([column], ["x"])
    pq.write_table(pa.table({"text": ["1", "2", "3"], "k": column}), tmp_path / "a.parquet")
    (tmp_path / "a.tsv").write_bytes(b"k\ttext\n1\ta\xff\n2\tb\n\xff\tc\n")
    problem, values = "is not text in UTF-8", {}
    for name, problems in (("tsv", [problem, None, problem]), ("parquet", [None, problem, None])):
        (rows,) = read(*find_files(tmp_path / f"a.{name}"), "text", ("k",))
        assert rows.problems == problems
        values[name] = lists_of(rows)
    assert values["tsv"] == [[None, "b", None], ["1", "2", None]]
    assert values["parquet"] == [["1", None, "3"], [{"x": "a"}, None, {"x": "c"}]]


@pytest.fixture
def memory():
    """The files of `fsspec+memory://`, an address of a file system that is not on this machine."""
    memory = fsspec.filesystem("memory")
    yield memory
    memory.store.clear()


NULL = "__HIVE_DEFAULT_PARTITION__"


def test_files_of_an_address_are_those_of_a_folder(tmp_path, memory):
    for name in ("c.csv", "year=2024/lang=en%20gb/a.parquet", f"year={NULL}/b.jsonl"):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, ROWS)
    path.with_suffix(".csv.gz").write_bytes(gzip.compress((tmp_path / "in/c.csv").read_bytes()))
    memory.put(str(tmp_path / "in"), "/bucket/in", recursive=True)
    memory.pipe("/bucket/in/_SUCCESS", b"")
    local, remote = find_files(tmp_path / "in"), find_files("fsspec+memory:///bucket/in")
    assert [one.document() for one in local] == [one.document() for one in remote]
    none = {"year": None, "lang": None}
    partitions = [none, {"year": "2024", "lang": "en gb"}, none, none]
    assert [one.partitions for one in local] == [one.partitions for one in remote] == partitions
    assert read_schema(remote, "text", ("id",)).names == ["id", "year", "lang"]
    rows = [(one["text"], one["id"], *values.values()) for values in partitions for one in ROWS]
    for folder in (tmp_path / "in", "fsspec+memory:///bucket/in"):
        assert texts_of(folder, keep=("id", "year", "lang")) == rows
    with pytest.raises(CommandError, match=r"\*\.csv: there is no such file"):
        find_files("fsspec+memory:///bucket/*.csv")


def test_folders_and_patterns_are_read_file_by_file(tmp_path):
    write_lines(tmp_path / "b.txt", ["three"])
    write_lines(tmp_path / "a.txt", ["one", "two"])
    (tmp_path / "deep").mkdir()
    write_lines(tmp_path / "deep" / "c.txt", ["four"])
    for name in ("_SUCCESS", ".DS_Store", "._a.txt", "__MACOSX/a.txt", "deep/.hidden/a.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write_lines(tmp_path / name, [""])
    assert [one.name for one in find_files(tmp_path)] == ["a.txt", "b.txt", "deep/c.txt"]
    assert texts_of(tmp_path) == [("one",), ("two",), ("three",), ("four",)]
    assert [one.name for one in find_files(tmp_path / "?.txt")] == ["a.txt", "b.txt"]


def split(path, max_rows):
    """The rows of each shard: file, row, text."""
    shards = split_shards([find_files(path)], "text", pa.schema([]), max_rows)
    return [
        [
            (rows.file, i, text)
            for rows in shard.parts
            for i, text in enumerate(rows.texts.to_pylist(), rows.first)
        ]
        for shard in shards
    ]


def test_shard_boundaries_do_not_depend_on_files_and_chunks(tmp_path, monkeypatch):
    write_lines(tmp_path / "a.txt", ["0", "1", "2"])
    write_lines(tmp_path / "b.txt", ["3", "4", "5", "6"])
    expected = [
        [("a.txt", 0, "0"), ("a.txt", 1, "1")],
        [("a.txt", 2, "2"), ("b.txt", 0, "3")],
        [("b.txt", 1, "4"), ("b.txt", 2, "5")],
        [("b.txt", 3, "6")],
    ]
    assert split(tmp_path, 2) == expected
    shards = [*split_shards([find_files(tmp_path)], "text", pa.schema([]), 2)]
    assert [shard.index for shard in shards] == [0, 1, 2, 3]
    # The bytes of a file are divided among its rows, without its line breaks.
    assert [round(shard.bytes, 6) for shard in shards] == [4, 4, 4, 2]
    monkeypatch.setattr(reading, "READ_BYTES", 3)
    assert split(tmp_path, 2) == expected


def test_a_shard_of_long_texts_ends_before_it_has_all_its_rows(tmp_path, monkeypatch):
    monkeypatch.setattr("polyseme.bulk.read._SHARD_BYTES", 40)
    path = write_lines(tmp_path / "a.txt", ["x" * 100, "y", "z" * 10, "", "v" * 10])
    # A row counts 8 bytes beside its text: 108 | 9 + 18 + 8 + 18.
    assert [*map(len, split(path, 100))] == [1, 4]
    monkeypatch.setattr(reading, "READ_BYTES", 5)
    assert [*map(len, split(path, 100))] == [1, 4]


def test_kept_columns_have_the_types_of_the_first_file_with_rows(tmp_path):
    table = pa.table({"text": ["a"], "id": [1]})
    pq.write_table(table.slice(1), tmp_path / "a.parquet")
    files = find_files(tmp_path)
    assert read_schema(files, "text", ("id",)).types == [pa.string()]
    pq.write_table(table, tmp_path / "b.parquet")
    assert read_schema(find_files(tmp_path), "text", ("id",)).types == [pa.int64()]


QUOTE = "has a quotation mark that is not closed, or not followed by a comma"
INVALID = {
    "two columns of CSV": ("a.csv", b"id,text,text\n1,a,b\n", "there are 2 columns text: rename"),
    "two fields of JSON": ("a.jsonl", b'{"text": "a", "t\\u0065xt": "b"}\n', "row 0 has several"),
    "a printed array": ("a.jsonl", b'\n[\n  {"text": "a"}\n]\n', "a.jsonl is one JSON array"),
    "the start of an array": ("a.jsonl", b"[", "one JSON array instead of lines of JSON;"),
    "a row of one column": ("a.tsv", b"id\ttext\n1\ta\n2\n", "row 1 has another number of columns"),
    "a row of three columns": ("a.csv", b"a,text\n1,a\n2,b,c\n", "row 1 has another number of col"),
    "a mark without its partner": ("a.csv", b'id,text\n1,a\n2,"b\n3,c\n', f"row 1 {QUOTE}"),
    "a partner in a later row": ("a.csv", b'text\n"a\nb "c" d\n', f"row 0 {QUOTE}"),
    "a header with a mark": ("a.csv", b'text,"id\na,1\n', f"the header {QUOTE}"),
    "another separator": ("a.csv", b"id;text\n1;a\n", "no column text; the columns are id;text."),
    "an empty table": ("a.tsv", b"", "there is no column text; the file is empty."),
    "UTF-16": ("a.csv", "text\na\n".encode("utf-16"), "is not CSV in UTF-8"),
    "UTF-16 without a mark": ("a.txt", "text\na\n".encode("utf-16-le"), "is not text in UTF-8"),
    "UTF-32 without a mark": ("a.txt", "text\n".encode("utf-32-be"), "is not text in UTF-8"),
    "JSON in UTF-16": ("a.jsonl", '{"text": "a"}'.encode("utf-16-be"), "is not lines of JSON"),
    "compressed": ("a.csv", gzip.compress(b"text\na\n"), "is not CSV in UTF-8"),
    "a workbook": ("a.csv", b"PK\3\4\x14\0", "a.csv is damaged, or is not CSV in UTF-8"),
    "no such file": ("a.txt", None, "a.txt: there is no such file"),
    "an unknown kind": ("a.doc", b"", "not of a supported kind"),
    "compressed Parquet": ("a.parquet.gz", b"", "not of a supported kind"),
    "not Parquet": ("a.parquet", b"PAR1 but no more", "damaged, or is not Parquet"),
    "not UTF-8": ("a.txt", b"fine\n\xff\xfe\n", "row 1 is not text in UTF-8"),
    "a split-off .gz": ("a.txt.gz", gzip.compress(b"text\n" * 999)[:-9], "damaged"),
    "not JSON": ("a.jsonl", b'{"text": "a"}\n{"text": \n', "row 1 is not well-formed JSON at col"),
    "a number": ("a.jsonl", b'{"text": 5}\n', "row 0 has a text that is neither a string"),
    "half a character": ("a.jsonl", b'{"text": "\\ud800"}\n', "row 0 is not text in UTF-8."),
    "no such field": ("a.jsonl", b'{"text": "a"}\n{"words": "b"}\n', "the columns are words."),
    "an empty object": ("a.jsonl", b"{}\n", "has no column text; the columns are none."),
    "both kinds of text": ("a.jsonl", b'{"text": "a"}\n{"text": ["b"]}\n', "lists of words"),
    "no such column": ("a.csv", b"id,words\n1,a\n", "the columns are id, words."),
}


@pytest.mark.parametrize(("name", "data", "sentence"), INVALID.values(), ids=INVALID.keys())
def test_unreadable_input_is_rejected(tmp_path, name, data, sentence):
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(CommandError) as caught:
        texts_of(tmp_path / name)
    assert sentence in str(caught.value)
    assert str(tmp_path) not in str(caught.value)


def test_columns_of_parquet_that_cannot_be_used_are_rejected(tmp_path):
    path, columns = tmp_path / "a.parquet", [pa.array([text]) for text in ("a", "b", "c")]
    for names, keep in ((["text", "text", "k"], ()), (["text", "k", "k"], ("k",))):
        pq.write_table(pa.table(columns, names=names), path)
        with pytest.raises(CommandError, match=f"there are 2 columns {names[1]}: rename all"):
            texts_of(path, keep=keep)
    assert texts_of(path) == [("a",)]
    pq.write_table(pa.table({"text": [1, 2]}), path)
    with pytest.raises(CommandError, match="the column of texts has the type int64; --column must"):
        texts_of(path)
    for kind in (pa.null(), pa.list_(pa.null())):
        pq.write_table(pa.table({"text": pa.nulls(2, kind)}), path)
        assert texts_of(path) == [(None,), (None,)]


OTHER_TYPES = [
    (pa.array([1]), pa.array(["007"]), None),
    (pa.array([1]), pa.array(["x"]), None),
    (pa.array([1]), pa.array(["7"]), 7),
    (pa.array([0.5], pa.float32()), pa.array([0.1]), None),
    (pa.array([0.5]), pa.array([float("nan")], pa.float32()), float("nan")),
    (pa.array(["007"]), pa.array([7]), "7"),
    (pa.array(["a"]), pa.array(["b"]).dictionary_encode(), "b"),
]


@pytest.mark.parametrize(("first", "second", "value"), OTHER_TYPES)
def test_a_kept_column_of_another_type_keeps_its_values_or_is_rejected(
    tmp_path, first, second, value
):
    for name, column in (("a", first), ("b", second)):
        pq.write_table(pa.table({"text": ["a"], "k": column}), tmp_path / f"{name}.parquet")
    files = find_files(tmp_path)
    shards = split_shards([files], "text", read_schema(files, "text", ("k",)), 1)
    if value is None:
        with pytest.raises(CommandError, match=r"b\.parquet: a column of --keep has another type"):
            list(shards)
    else:
        assert str([*shards][1].parts[0].columns[0].to_pylist()) == str([value])
