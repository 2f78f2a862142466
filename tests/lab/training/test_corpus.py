"""The sample of a corpus: its size, reproducibility and distribution."""

from collections import Counter

from polyseme_lab.training.corpus import sample_paragraphs


def corpus(path, count, words=5):
    path.write_text("".join(f"w{n} " + "x " * (words - 2) + "y\n" for n in range(count)))
    return path


def numbers(lines):
    return [int(line.split()[0][1:]) for line in lines]


def test_a_small_corpus_is_sampled_whole_and_in_order(tmp_path):
    assert numbers(sample_paragraphs([corpus(tmp_path / "c", 50)], 1000, 1)) == list(range(50))


def test_a_sample_fills_the_limit_of_words_with_the_fewest_paragraphs(tmp_path):
    found = sample_paragraphs([corpus(tmp_path / "c", 500)], 100, 1)
    assert len(found) == 20
    assert len(sample_paragraphs([tmp_path / "c"], 101, 1)) == 21
    assert numbers(found) == sorted(numbers(found))


def test_a_sample_depends_on_the_seed(tmp_path):
    path = corpus(tmp_path / "c", 500)
    assert sample_paragraphs([path], 100, 1) == sample_paragraphs([path], 100, 1)
    assert sample_paragraphs([path], 100, 1) != sample_paragraphs([path], 100, 2)


def test_every_paragraph_is_as_likely_as_any_other(tmp_path):
    path = corpus(tmp_path / "c", 40)
    counts = Counter(n for seed in range(400) for n in numbers(sample_paragraphs([path], 50, seed)))
    assert len(counts) == 40
    assert all(60 < count < 145 for count in counts.values())  # 100 ± at least 4.6 σ


def test_several_files_are_one_corpus(tmp_path):
    one, two = corpus(tmp_path / "one", 100), corpus(tmp_path / "two", 100)
    found = numbers(sample_paragraphs([one, two], 10_000, 1))
    assert found == [*range(100), *range(100)]


def test_paragraphs_that_are_too_short_are_skipped(tmp_path):
    (tmp_path / "c").write_text("a b c\n\na b c d\n  \nHeading\n")
    assert sample_paragraphs([tmp_path / "c"], 100, 1) == ["a b c d\n"]


def test_an_empty_corpus_has_no_sample(tmp_path):
    (tmp_path / "c").write_text("")
    assert sample_paragraphs([tmp_path / "c"], 100, 1) == []


def test_reading_reports_progress(tmp_path):
    path, read = corpus(tmp_path / "c", 100), []
    sample_paragraphs([path], 10, 1, read.append)
    assert sum(read) == path.stat().st_size
