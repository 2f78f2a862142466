"""The page on quality, from `lab/results/` and the model's manifest."""

from collections.abc import Iterator, Sequence
from typing import Any

from docs import pictures
from docs.explained import attention_explained
from docs.results import (
    interval,
    manifest,
    paragraph,
    result,
    result_if_any,
    table,
    trainings,
)
from docs.trainings import histories, not_helpful, training_runs

WORDS = 4
"""The maximum number of neighbors of a word on the page."""
DEFAULT_POOLING = "static, sif"
"""The vectors and weights of `/v1/embeddings` by default."""
IMPORTED_HEAD = ("vector of an occurrence", "accuracy", "macro-F1", "WiC train", "WiC dev")

HEAD = """\
# How well contextual vectors separate senses

`make docs` writes this page from the files in `lab/results/`, which `make results` and the scripts
in `lab/studies/` write. All scores are × 100. Nothing was trained on CoarseWSD-20, on WiC or on
similarity judgments, and the words of CoarseWSD-20 were never targets of training.
[Evaluation](evaluation.md) explains the measures, [training](training.md) the training."""

LIMITS = """\
## Limits
- CoarseWSD-20 and WiC are small. The intervals cover the choice of sentences, not other words,
  kinds of text or languages. Only the available words of CoarseWSD-20 were measured, and only the
  dev set of WiC, because the labels of its test set are not public.
- Training starts from the closed form. Its constants come from a prototype with other vectors,
  which was also measured on CoarseWSD-20 and WiC ([decision 3](decisions/0003-closed-form.md)).
- The nearest centroid needs labeled sentences of each sense. [Clustering](senses.md) needs no
  labels and is less accurate.
- BERT, trained on far more text, is better, as its rows show; all-MiniLM-L6-v2 is not.
- The dictionary senses of SemCor and MASC are finer than those that readers distinguish, so the
  scores of every system are low. Compare their differences.
- Attention shows what a vector is computed from, not why a person would choose a sense. It does
  not resolve pronouns: the figures of the animal and the street show what “it” attends to."""


def quality() -> str:
    """The page."""
    records = trainings()
    sections: Sequence[list[str]] = (
        *(HEAD.splitlines(), coarsewsd(), wic(), ablation(result("ablation"))),
        *(attention_explained(result_if_any("explanation")), attention_pictures(), context_words()),
        downstream(),
        senses_found(*(result_if_any(f"senses{one}") for one in ("", "-closed-form", "-minilm"))),
        sentence_vectors(),
        training_runs(records, pictured=bool(histories(manifest(), records))),
        *(not_helpful(result_if_any("not-helpful")), imported(), constants()),
        LIMITS.splitlines(),
    )
    return "\n\n".join("\n".join(one) for one in sections if one) + "\n"


def _systems(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The measured systems of a set; a transformer, which is measured separately, is last."""
    yield from result(name)["systems"].items()
    beside = result_if_any(f"{name}-minilm")
    if beside:
        yield from beside["systems"].items()


def coarsewsd() -> list[str]:
    """CoarseWSD-20: the model, its baselines and published figures."""
    found = result("coarsewsd")
    rows = [
        (one["title"], interval(one["accuracy"]), interval(one["macro_f1"]))
        for _, one in _systems("coarsewsd")
    ]
    rows += [
        (f"*{one['title']} ({one['source']}, published)*", one["accuracy"], one["macro_f1"])
        for one in [*found["published"], *result("published")["coarsewsd_controls"]]
    ]
    lacking = f" The vocabulary lacks {', '.join(found['lacking'])}." if found["lacking"] else ""
    text = f"""\
The task is to predict which of a few coarse senses a word has. The prediction is the nearest sense
centroid, for {found["sentences"]:,} test sentences of {len(found["words"])} words, in lower case.
Scores are means over the words, with {found["interval"]["percent"]} % intervals in
brackets.{lacking} Published figures were not measured here; they are for the same words and
sentences unless their row says otherwise.
"""
    return [
        "## CoarseWSD-20",
        *paragraph(text),
        "",
        *table(("vector of an occurrence", "accuracy", "macro-F1"), rows),
        "",
        "![bar chart of the table](images/coarsewsd.svg)",
        "",
        "Word by word, accuracy / macro-F1:",
        "",
        *_by_word(found),
    ]


def _by_word(found: dict[str, Any]) -> list[str]:
    titles = {
        "most-frequent": "most frequent sense",
        "mean": "plain mean of the context",
        "model": "contextual vector",
    }
    shown = {name: title for name, title in titles.items() if name in found["systems"]}
    of_system = [found["systems"][name]["words"] for name in shown]
    rows = [
        [word, *(f"{one[word]['accuracy']} / {one[word]['macro_f1']}" for one in of_system)]
        for word in found["words"]
    ]
    return table(["word", *shown.values()], rows)


def wic() -> list[str]:
    """WiC and the similarity of words without context."""
    found = result("wic")
    rows = [
        (one["title"], one["train_accuracy"], interval(one["accuracy"]))
        for _, one in _systems("wic")
    ]
    rows += [
        (f"*{one['title']} ({one['source']}, published, test set)*", "", one["accuracy"])
        for one in result("published")["wic_test"]
    ]
    text = f"""\
The task is to decide whether a word has the same meaning in two sentences. The prediction is *same*
if the cosine reaches a threshold, the one with the best accuracy on the train set. The accuracy is
measured on {found["pairs"]} pairs of the {found["split"]} set. Published figures are for the test
set, whose labels are not public.
"""
    head = ("vector of an occurrence", "train accuracy", f"{found['split']} accuracy")
    bars = ["", "![bar chart of the table](images/wic.svg)", ""]
    return ["## WiC", *paragraph(text), "", *table(head, rows), *bars, *similarity()]


def similarity() -> list[str]:
    """Similarity of static vectors."""
    found = result("similarity")
    sets = list(found["pairs"])
    rows = [
        [one["title"], *(interval(one[name]) for name in sets)] for one in found["systems"].values()
    ]
    counts = ", ".join(f"{found['pairs'][name]} pairs of {name}" for name in sets)
    text = f"""\
Spearman's correlation × 100 between the cosines of static vectors and human judgments, on {counts};
{sum(found["lacking"].values())} more pairs have a word that is not in the vocabulary. No context is
used, and nothing was tuned on these data sets.
"""
    return [
        "## Words without context",
        *paragraph(text),
        "",
        *table(("", *sets), rows),
    ]


def ablation(found: dict[str, Any]) -> list[str]:
    """The model without each part."""
    sample, base, *others = found["sample"], *found["variants"].items()
    apart = "that the model was not trained on" if sample["held_out"] else "of the text"
    text = f"""\
Each row changes one part of the model (`lab/studies/ablation.py`). The data are SemCor and MASC,
text with dictionary senses: {sample["occurrences"]:,} occurrences in {sample["sentences"]:,}
sentences, of {sample["lemmas"]} lemmas {apart}, drawn at random, without the words of CoarseWSD-20.
*Nouns, F1* is the macro-F1 of the nearest sense centroid in folds, averaged over {sample["nouns"]}
nouns. *Pairs, AUC* is the area under the curve of the cosine over pairs of occurrences of a lemma,
with the same sense or not. ± is a standard error over lemmas. Differences from the model are
computed on the same occurrences, so they are more certain than the scores. A difference smaller
than twice its error is not significant.
"""
    rows = [_base_row(*base), *(_variant_row(*one) for one in others)]
    head = ("model", "nouns, F1", "difference", "pairs, AUC", "difference")
    return ["## What each part is worth", *paragraph(text), "", *table(head, rows)]


def _base_row(name: str, found: dict[str, dict[str, float]]) -> list[str]:
    cells: list[str] = []
    for one in found.values():
        cells += [f"{one['value']} ± {one['error']}", ""]
    return [f"**{name}**", *cells]


def _variant_row(name: str, found: dict[str, dict[str, float]]) -> list[str]:
    cells: list[str] = []
    for one in found.values():
        cells += [str(one["value"]), f"{one['difference']:+} ± {one['difference_error']}"]
    return [name, *cells]


def attention_pictures() -> list[str]:
    """The pictures of attention."""
    lines = [
        "## What a word attends to",
        "Each square is a head, each row a query token, each column a key token. The strongest",
        "color of a figure is its largest weight. Some of the sentences show errors of the model.",
    ]
    for slug, one in result("examples")["sentences"].items():
        lines += ["", f"![attention in “{one['text']}”](images/attention-{slug}.svg)"]
    return lines


def context_words() -> list[str]:
    """Neighbors before and after context."""
    rows = [
        (f"{one['text']}", f"**{one['word']}**", *(_words(one[kind]) for kind in _KINDS))
        for one in result("examples")["words"]
    ]
    head = ("sentence", "word", "attends to", "nearest to static", "nearest to contextual")
    return [
        "## Neighbors of static and contextual vectors",
        "The nearest words to the static vector of a word, without the word itself, and to",
        "unit(contextual) + 0.4·unit(static), without the words of the sentence.",
        "",
        *table(head, rows),
    ]


_KINDS = ("attends_to", "static", "contextual")  # keys of lab/results/examples.json


def _words(pairs: Sequence[tuple[str, float]]) -> str:
    return ", ".join(word for word, _ in pairs[:WORDS])


_TAGGING = {
    "pos": "part-of-speech tags, UD English LinES, dev: accuracy",
    "ner": "named entities, WNUT17, dev: F1 of spans",
}


def downstream() -> list[str]:
    """Classifiers of tokens, similarity of sentences, and pseudo-words."""
    measured = {
        title: [result(f"tagging-{task}{kind}")["systems"] for kind in ("", "-hidden")]
        for task, title in _TAGGING.items()
    }
    lines = [
        "## In a pipeline",
        *paragraph(
            """\
The tables have the scores of a token classifier on standardized vectors, linear or with a hidden
layer of 256 units (`polyseme evaluate tagging`). Brackets contain 95 % intervals over sentences.
Contextual vectors separate senses and hardly contain the word itself, so taggers and classifiers
need `features`."""
        ),
    ]
    for title, (linear, hidden) in measured.items():
        rows = [
            (one["title"], interval(one["score"]), interval(hidden[name]["score"]), one["width"])
            for name, one in linear.items()
        ]
        head = (title, "linear", "hidden layer", "columns")
        lines += ["", *table(head, rows)]
    pseudo = result("pseudowords")
    rows = [
        (one["title"], interval(one["balanced"]), interval(one["imbalanced"]))
        for one in pseudo["systems"].values()
    ]
    lines += [
        "",
        *paragraph(
            f"""\
The next table has the macro-F1 on {pseudo["pairs"]} *pseudo-words* (`polyseme evaluate
pseudowords`). A pseudo-word replaces two different words, and the nearest centroid predicts from
the context which word it was. *Imbalanced* keeps one of five training examples of the second
word."""
        ),
        "",
        *table(("vector", "balanced", "imbalanced"), rows),
    ]
    lines += ["", *share()]
    sentences = result("sentences")
    rows = [(one["title"], interval(one["spearman"])) for one in sentences["systems"].values()]
    return [
        *lines,
        "",
        *paragraph(
            f"""\
The last table has Spearman's correlation × 100 between cosines and human scores, on
{sentences["pairs"]:,} pairs of sentences, the dev set of the STS benchmark (`polyseme evaluate
sentences`)."""
        ),
        "",
        *table(("vector of a sentence", "correlation"), rows),
    ]


def share() -> list[str]:
    """Contextual vectors as features of a tagger, by their share of the static vector."""
    measured = result("share")
    rows = [
        (f"**{name}**" if float(name) == measured["share"] else name, interval(one))
        for name, one in measured["shares"].items()
    ]
    return [
        *paragraph(
            """\
The more of the static vector a contextual vector contains (`share`), the better a linear tagger
works on it, but it stays below `features` (`lab/studies/share.py`). A large share harms the
separation of senses ([above](#what-each-part-is-worth)). The share of the bundled model is in
bold."""
        ),
        "",
        *table(("share", "part-of-speech tags: accuracy"), rows),
    ]


def senses_found(
    found: dict[str, Any] | None,
    closed_form: dict[str, Any] | None = None,
    transformer: dict[str, Any] | None = None,
) -> list[str]:
    """Senses found without labels, on each set that was measured."""
    if found is None:
        return []
    lines = [
        "## Senses without labels",
        *paragraph(
            """\
What `/v1/senses` finds (`polyseme evaluate senses`), with 95 % intervals over words or pairs of
words. *Closed form* is a model of the same vectors with the attention weights of an import.
[Evaluation](evaluation.md) explains the measures; a dash marks a rule that ranks words, but does
not decide."""
        ),
    ]
    for name, (text, head, columns) in _SENSES.items():
        if name not in found["sets"]:
            continue
        measured = found["sets"][name]
        systems = [(one["title"], one) for one in measured["systems"].values()]
        beside = (closed_form, "model", ", closed form"), (transformer, "minilm", "")
        for other, system, suffix in beside:
            if other and system in other["sets"].get(name, {"systems": {}})["systems"]:
                one = other["sets"][name]["systems"][system]
                systems.append((one["title"] + suffix, one))
        rows = [
            (title, *(interval(one[key]) if key in one else "–" for key in columns))
            for title, one in systems
        ]
        lines += ["", *paragraph(text.format(**measured)), "", *table(head, rows)]
    if "coarsewsd" in found["sets"]:
        words = found["sets"]["coarsewsd"]["systems"]["model"]["words"]
        rows = [
            (word, one["senses"], one["found"], one["ari_given"], one["ari_found"])
            for word, one in words.items()
        ]
        head = ("word", "senses", "found", "number given", "not given")
        lines += ["", "`/v1/senses`, word by word, adjusted Rand index:", "", *table(head, rows)]
    return lines


_SENSES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "coarsewsd": (
        """\
Adjusted Rand index and V-measure of the senses in {occurrences:,} test sentences of CoarseWSD-20,
with the number of senses given and not given; *right* is how often the number found is that of the
set. The rule for one sense was chosen with these words in view, so its results without the number
are optimistic ([decision 22](decisions/0022-senses.md)).""",
        ("system", "ARI, given", "V", "ARI, not given", "V", "right"),
        ("ari_given", "v_given", "ari_found", "v_found", "number_right"),
    ),
    "pseudowords": (
        """\
One sense or two: {pairs} *pseudo-words*. A pseudo-word hides two words in the same way; the rules
decide between it and a single word. The table has the area under the ROC curve, where both have
equally many occurrences and where the pseudo-word has twice as many; how often the default is
right; and the adjusted Rand index of the two words if two senses are requested.""",
        ("rule", "AUC", "twice as many", "one: right", "two: right", "of twice as many", "ARI"),
        ("auc", "auc_twice", "one_right", "two_right", "two_right_twice", "split_ari"),
    ),
    "semeval": (
        """\
SemEval-2013 task 13, {terms} words with fine senses of WordNet, the number not given.""",
        ("system", "fuzzy NMI", "fuzzy B-Cubed", "√ of the product"),
        ("fuzzy_nmi", "fuzzy_b_cubed", "both"),
    ),
}


def sentence_vectors() -> list[str]:
    """The effect of pooling and of the number of dimensions."""
    found = result("sentence-vectors")
    systems = found["systems"]
    whole = ((name, next(iter(widths.values()))) for name, widths in systems.items())
    measured = f"""\
The tables compare the vectors of `/v1/embeddings` by pooling and by number of `dimensions`
(`lab/studies/sentence_vectors.py`).

- *Halves*: {found["passages"]:,} passages from the English Wikipedia have two sentences each. The
  score is how often the sentence nearest to one half is the other half; chance is
  {100 / found["passages"]} %.
- *Senses*: the accuracy on CoarseWSD-20 by nearest centroid, as above, but with the vector of the
  whole sentence instead of the word."""
    learned = """\
The weights have the largest effect. `sif` reduces the weights of frequent words most.
With `sif` and `informativeness`, static vectors find more halves than contextual ones; with equal
weights, fewer. Context improves the vector of a single word, as above."""
    return [
        "## Vectors of sentences",
        *measured.splitlines(),
        "",
        *table(("vectors, weights", "halves", "senses"), (_pooling_row(*one) for one in whole)),
        "",
        *paragraph(learned),
        "",
        f"By number of dimensions, for {DEFAULT_POOLING}:",
        "",
        *table(
            ("dimensions", "halves", "senses"),
            (_pooling_row(*o) for o in systems[DEFAULT_POOLING].items()),
        ),
    ]


def _pooling_row(name: str, figures: dict[str, Any]) -> list[str]:
    return [name, interval(figures["halves"]), interval(figures["senses"])]


def imported() -> list[str]:
    """Quality of imported files."""
    lines = [
        "## Imported vectors",
        *paragraph(
            """\
These files have thousands of rows of published vectors, imported by `polyseme models import
--no-subwords` with the closed form, and in the last row by default, with subwords
(`lab/studies/imported.py`). The scores are measured as above, on
the words of CoarseWSD-20 and the pairs of WiC that are in the vocabulary. No constant was chosen by
these scores. With so few words and pairs, differences of one point of accuracy, or of two points on
WiC, are not significant."""
        ),
    ]
    for name, file in result("imported")["files"].items():
        pairs, coarse = file["wic_pairs"], file["coarsewsd_words"]
        lines += [
            "",
            f"**{name}**: {file['words']} words of {file['dimension']} dimensions.",
            f"CoarseWSD-20: {len(coarse)} words ({', '.join(coarse)}).",
            f"WiC: {pairs['train']} pairs of the train set, {pairs['dev']} of the dev set.",
            "",
            *table(IMPORTED_HEAD, (_imported_row(*one) for one in file["systems"].items())),
        ]
    return [*lines, *imported_probes(), *testbed()]


def testbed() -> list[str]:
    """Whole files of vectors that gensim has trained, imported with and without texts."""
    found = result("testbed")
    columns = {
        ("nearest centroids", "model", "balanced"): "centroids, balanced",
        ("nearest centroids", "model", "imbalanced"): "imbalanced",
        ("coarsewsd", "model", "ari_given"): "ARI, number given",
        ("coarsewsd", "model", "ari_found"): "number found",
        ("pseudowords", "model", "auc"): "one or several, area",
        ("pseudowords", "model", "split_ari"): "split, ARI",
        ("tags", "static", "score"): "tags, static",
        ("tags", "features", "score"): "features",
        ("tags", "window", "score"): "word and neighbors",
        ("sentences", "whitened", "spearman"): "sentences",
    }
    lines = [
        "",
        *paragraph(
            f"""\
The files above are excerpts. `lab/studies/testbed.py` trains whole files that nobody selected, with
gensim: 100 dimensions, at most 100,000 words, {found["tokens"] // 10**6} million words of Wikipedia
without the sentences of the pseudo-words. Each is imported by default, and with `--texts` for the
text that it was trained on. The columns are the nearest centroids of the pseudo-words, the senses
found in ten words of CoarseWSD-20 and in pseudo-words, tags by a linear probe, and the similarity
of sentences, measured as above. Texts raise the split of pseudo-words by 3 points; the other
differences between the imports are within the intervals."""
        ),
        "",
    ]
    rows = [
        [name, way, *(interval(one[group][system][figure]) for group, system, figure in columns)]
        for name, file in found["files"].items()
        for way, one in file["ways"].items()
    ]
    return [*lines, *table(["vectors", "import", *columns.values()], rows)]


def imported_probes() -> list[str]:
    """Token classifiers on imported vectors, with and without subwords."""
    lines = [
        "",
        *paragraph(
            """\
The next table has the same token classifiers with a hidden layer as above, on vectors of these
files, imported without subwords and with them (`lab/studies/imported_probes.py`). *Composed* is the
percentage of the tokens of the dev set that get a vector from subwords. *None* is the percentage
without a vector. With static vectors, subwords raise the accuracy of tags by 3 to 14 points. The
closed form attends to words of the same topic, not to adjacent words, so `features` also have
columns for the adjacent words ([decision 21](decisions/0021-features-and-subwords.md)). Two heads
of the bundled model attend to adjacent words."""
        ),
        "",
    ]
    head = ("file", "task", "import", "composed", "none", *_PROBES.values())
    rows = []
    for name, file in result("imported-probes")["files"].items():
        for task in _TAGGING:
            for way, tasks in file["ways"].items():
                one = tasks[task]
                figures = (one["systems"][system]["value"] for system in _PROBES)
                tokens = one["tokens"]
                rows.append((name, task, way, tokens["subword"], tokens["oov"], *figures))
    return [*lines, *table(head, rows)]


_PROBES = {
    "static": "static",
    "window": "word and neighbors",
    "contextual": "contextual",
    "features": "features",
}


def _imported_row(name: str, figures: dict[str, dict[str, float]]) -> list[Any]:
    coarse, wic = figures["coarsewsd"], figures["wic"]
    titles = {"contextual vector": "closed form", "default import": "closed form, default import"}
    title = titles.get(name, name)
    return [
        *(title, coarse["accuracy"], coarse["macro_f1"]),
        *(wic["train_accuracy"], wic["dev_accuracy"]),
    ]


def constants() -> list[str]:
    """The choice of the form and the scale of association."""
    files = result("imported-constants")["files"]
    f1 = [
        {name: one["nouns_macro_f1"] for name, one in file["variants"].items()}
        for file in files.values()
    ]
    behind = max(max(one.values()) - one["spread 0.2"] for one in f1)
    lines = [
        "## Association by the vectors themselves",
        *paragraph(
            f"""\
Association needs output vectors, which an imported file does not have. Instead, it is computed from
the products of the vectors, without the direction of their mean, at the same scale for all files
([decision 3](decisions/0003-closed-form.md)). The *spread* is the standard deviation of association
over pairs of words. Form and spread were chosen by the scores below. They are measured on SemCor
and MASC as above, but on every tagged occurrence of a word in each vocabulary, not on a sample.
With a spread of 0.2, the F1 of each file is at most {behind:.2f} points below the best of its
column. The rows without a spread in their name also have this spread, except `products, no scale`,
which is 0.2·x_i·x_j, and `parameter-free`, which has no part of the closed form. The column wiki-en
has the vectors of the first edition, treated like an imported file
(`lab/studies/imported_constants.py`)."""
        ),
        "",
        "Each cell has the F1 of nouns and the AUC of pairs:",
        "",
    ]
    rows = []
    for variant in next(iter(files.values()))["variants"]:
        found = [file["variants"][variant] for file in files.values()]
        rows.append([variant, *(f"{f['nouns_macro_f1']} / {f['pairs_auc']}" for f in found)])
    return [*lines, *table(["association", *files], rows)]


def images() -> dict[str, Any]:
    """The bytes of every picture by file name."""
    coarse, pairs = result("coarsewsd"), result("wic")
    columns = {"accuracy": "accuracy", "macro_f1": "macro-F1"}
    drawn = {
        "coarsewsd.svg": pictures.bars(
            coarse, "CoarseWSD-20: nearest sense centroid, %", columns, "coarsewsd"
        ),
        "wic.svg": pictures.bars(
            pairs, "WiC", {"accuracy": f"{pairs['split']} accuracy"}, "wic", 50.0
        ),
    }
    for slug, one in result("examples")["sentences"].items():
        svg = pictures.heatmap(one["text"], one["tokens"], one["weights"])
        drawn[f"attention-{slug}.svg"] = svg.encode()
    if found := histories(manifest(), trainings()):
        drawn["learning-curves.svg"] = pictures.curves(found)
    return drawn
