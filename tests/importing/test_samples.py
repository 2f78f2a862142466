"""Samples of texts by form: forms share the sample, and copies do not fill it."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from polyseme.importing.texts import StratifiedSample


def test_the_strata_of_a_sample_have_the_same_share():
    sample = StratifiedSample(100)
    for form, count in (("Bank", 10_000), ("bank", 300), ("BANK", 20)):
        for i in range(count):
            sample.add(form, f"{form} {i}")
    texts = sample.texts()
    assert Counter(text.split()[0] for text in texts) == {"BANK": 20, "bank": 40, "Bank": 40}
    assert sample.total == 10_320 and len({*texts}) == 100
    # Late texts are as likely as early ones.
    late = [text for text in texts if text.startswith("Bank") and int(text.split()[1]) >= 5000]
    assert 8 < len(late) < 32


@given(st.lists(st.sampled_from("abcdefgh"), max_size=60), st.integers(1, 20), st.integers(0, 9))
def test_texts_in_another_order_give_the_same_sample(texts, size, seed):
    shuffled = np.random.default_rng(seed).permutation(texts).tolist()
    drawn = []
    for order in (texts, shuffled):
        sample = StratifiedSample(size)
        for text in order:
            sample.add("Bank" if text < "c" else "bank", text)
        drawn.append(Counter(sample.texts()))
    assert drawn[0] == drawn[1] and drawn[0].total() == min(size, len(texts))


def test_a_text_with_many_copies_does_not_fill_a_sample():
    sample = StratifiedSample(100)
    for number in range(3000):
        for text in (str(number), f"copy {number % 60}"):
            sample.add("bank", text)
    counts = Counter(sample.texts())
    assert max(counts.values()) < 25 and counts.total() == 100
    assert any(text.startswith("copy") for text in counts)
