"""Batches of texts: size, order, and how far texts are read ahead."""

import asyncio

import pytest

from polyseme.client.requests import Batch, BatchSize, async_batches, batches
from polyseme.errors import TooLargeError


def batched(texts, sentences=3, size=1000):
    return list(batches(texts, BatchSize(sentences, size)))


def test_batches_are_filled_to_the_limit_of_sentences():
    assert batched(["a", "b", "c", "d"]) == [
        Batch(0, [b'"a"', b'"b"', b'"c"']),
        Batch(3, [b'"d"']),
    ]


def test_batches_are_filled_to_the_limit_of_bytes_and_have_at_least_one_text():
    # The quotation marks count, and é has two bytes.
    found = batched(["abc", "abé", "a", "abcdefghijkl", "b"], 10, 11)
    assert [batch.texts for batch in found] == [
        [b'"abc"', '"abé"'.encode()],
        [b'"a"'],
        [b'"abcdefghijkl"'],
        [b'"b"'],
    ]
    assert [batch.first for batch in found] == [0, 2, 3, 4]


def test_texts_and_tokenized_texts_are_in_different_batches():
    found = batched(["a", ["b", "c"], ("d",), "e"])
    assert [batch.texts for batch in found] == [[b'"a"'], [b'["b","c"]', b'["d"]'], [b'"e"']]


def test_a_batch_over_a_lowered_limit_is_split_in_order():
    batch = Batch(5, [b"1", b"2", b"333", b"4"])
    assert BatchSize(2, 100).split(batch) == [Batch(5, [b"1", b"2"]), Batch(7, [b"333", b"4"])]
    assert BatchSize(9, 3).split(batch) == [
        Batch(5, [b"1", b"2"]),
        Batch(7, [b"333"]),
        Batch(8, [b"4"]),
    ]
    assert BatchSize(9, 100).split(batch) == [batch]


@pytest.mark.parametrize("setting", ["max_sentences", "max_tokens"])
@pytest.mark.parametrize("limit", [-1, 0, 1, 2, 1000])
def test_a_rejected_batch_is_split_for_any_reported_limit(setting, limit):
    sizes, batch = BatchSize(), Batch(0, [b'"aaaaaaa"', b'""'])
    sizes.reduce(batch, TooLargeError("", 2, setting, limit))
    assert len(sizes.split(batch)) == 2


def test_asynchronous_texts_are_batched_in_the_same_way():
    async def async_batched(texts):
        return [batch async for batch in async_batches(texts, BatchSize(3, 1000))]

    async def generate(texts):
        for text in texts:
            yield text

    texts = ["a", "b", "c", "d", ["e"]]
    assert asyncio.run(async_batched(texts)) == batched(texts)
    assert asyncio.run(async_batched(generate(texts))) == batched(texts)
