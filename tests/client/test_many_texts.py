"""Any number of texts: read lazily, a few batches at once, halved when refused."""

import asyncio
import threading
from itertools import islice

import httpx
import orjson
import pytest

from polyseme.client import AsyncClient, Client
from polyseme.errors import TooLargeError
from tests.client.conftest import both_clients, call, require_same
from tests.client.scripted_server import ScriptedResponse, embeddings, scripted_server


def endless(read):
    """Yield texts endlessly, and add each to `read`."""
    while True:
        read.append("river bank")
        yield read[-1]


async def slowly(texts):
    for text in texts:
        await asyncio.sleep(0)
        yield text


async def first(client, texts, number):
    """Read a number of sentences."""
    async with client:
        each = client.encode_each(texts)
        for _ in range(number):
            await anext(each)
        await each.aclose()


@pytest.mark.parametrize("kind", ["blocking", "asynchronous", "asynchronous texts"])
@pytest.mark.parametrize("number", [1, 6])
def test_texts_are_read_a_few_batches_ahead(url, number, kind):
    read = []
    texts = slowly(endless(read)) if kind == "asynchronous texts" else endless(read)
    options = {"batch_sentences": 5, "concurrency": 3}
    if kind == "blocking":
        with Client(url, **options) as client:
            assert len(list(islice(client.encode_each(texts), number))) == number
    else:
        asyncio.run(first(AsyncClient(url, **options), texts, number))
    # Three batches in flight, one prepared meanwhile, and the text that filled it.
    assert number <= len(read) <= number + 4 * 5 + 1


def test_no_texts_send_no_request():
    with scripted_server(ScriptedResponse()) as server, Client(server.url) as client:
        client.encode_each(endless([]))  # nor does a sentence that is not yet read
        assert client.encode([]) == list(client.encode_each([])) == []
        assert client.embed([], dimensions=3).shape == (0, 3)
        assert server.requests == []


def vectors_for(request):
    """A response with the vector [1] for each text."""
    count = len(orjson.loads(request.body)["input"])
    return ScriptedResponse(body=embeddings(*((i, "AACAPw==") for i in range(count))))


def sent_by(texts, respond=vectors_for, **options):
    """The texts of each request of `embed`."""
    with scripted_server(respond) as server:
        call(Client, server.url, "embed", texts, client={"concurrency": 1, **options})
        return [orjson.loads(request.body)["input"] for request in server.requests]


@pytest.mark.parametrize(
    ("texts", "options", "batches"),
    [
        (["a", "b", "c", "d"], {"batch_sentences": 3}, [["a", "b", "c"], ["d"]]),
        # The quotation marks count, é has two bytes, and a batch has at least one text.
        (
            ["abc", "abé", "a", "abcdefghijkl", "b"],
            {"batch_bytes": 11},
            [["abc", "abé"], ["a"], ["abcdefghijkl"], ["b"]],
        ),
        (["a", ["b", "c"], ("d",), "e"], {}, [["a"], [["b", "c"], ["d"]], ["e"]]),
    ],
)
def test_batches_are_filled_to_the_limits_with_texts_of_one_kind(texts, options, batches):
    assert sent_by(texts, **options) == batches


@pytest.mark.parametrize("setting", ["max_sentences", "max_tokens"])
@pytest.mark.parametrize("limit", [-1, 0, 1, 2, 1000])
def test_a_rejected_batch_is_split_for_any_reported_limit(setting, limit):
    document = {"code": "too_large", "limit": limit, "size": 2, "setting": setting}

    def respond(request):
        if len(orjson.loads(request.body)["input"]) == 1:
            return vectors_for(request)
        return ScriptedResponse(413, "application/problem+json", orjson.dumps(document))

    assert sent_by(["aaaaaaa", ""], respond) == [["aaaaaaa", ""], ["aaaaaaa"], [""]]
    sizes = [len(batch) for batch in sent_by(["a"] * 4, respond)]
    assert sizes == [4, *[2] * ((setting, limit) != ("max_sentences", 1)), *[1] * 4]


@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        *(("concurrency", value, ValueError) for value in (0, 2.5)),
        *((option, 0, ValueError) for option in ("batch_sentences", "batch_bytes")),
        *(("timeout", value, ValueError) for value in ("5", -1)),
        *(("retries", value, ValueError) for value in (-1, 1.5)),
        *(("max_answer_bytes", value, ValueError) for value in (0, "x")),
        ("longest_wait", float("nan"), ValueError),
        *((option, 5, TypeError) for option in ("key", "proxy", "tls")),
    ],
)
def test_an_invalid_option_is_named(option, value, error):
    with pytest.raises(error, match=f"`{option}`"):
        Client("https://localhost:8000", **{option: value})


@both_clients
def test_at_most_the_allowed_number_of_requests_is_in_flight(kind):
    three, slots, within = threading.Barrier(3), threading.Semaphore(3), []

    def respond(request):
        within.append(slots.acquire(blocking=False))
        three.wait(20)  # the first request of a sequential client times out
        slots.release()
        return vectors_for(request)

    options = {"batch_sentences": 2, "concurrency": 3}
    with scripted_server(respond) as server:
        vectors = call(kind, server.url, "embed", ["a"] * 24, client=options)
    assert vectors.tolist() == [[1.0]] * 24
    assert within == [True] * 12


@both_clients
def test_results_keep_the_order_of_the_texts(url, local, kind):
    texts = [f"{'bank ' * (number % 7)}apple {'river ' * (number % 5)}" for number in range(60)]
    options = {"batch_sentences": 2, "concurrency": 3}
    expected = local.encode(texts)
    require_same(call(kind, url, "encode", texts, client=options), expected)
    if kind is AsyncClient:
        each = call(kind, url, "encode_each", slowly(texts), client=options)
        require_same(each, expected)


class Statuses(httpx.HTTPTransport):
    """Records the status of each response. A service counts them only after it has sent them."""

    def __init__(self):
        super().__init__()
        self.received = []

    def handle_request(self, request):
        response = super().handle_request(request)
        self.received.append(response.status_code)
        return response


def test_a_rejected_batch_is_halved_and_later_ones_are_smaller(url, local):
    texts = ["river bank", "Apple apple bank end"] * 100  # 600 tokens; the limit is 60
    statuses = Statuses()
    with Client(url, batch_sentences=1000, concurrency=1, transport=statuses) as client:
        for _ in range(2):
            require_same(client.encode(texts), local.encode(texts))
    # Only the first: the next has as many sentences as the response named, and 60 tokens.
    assert statuses.received.count(413) == 1


@pytest.mark.parametrize("count", [0, 7])
def test_a_sentence_that_is_too_long_by_itself_is_rejected(url, count):
    statuses = Statuses()
    with Client(url, transport=statuses) as client, pytest.raises(TooLargeError) as caught:
        client.encode(["bank"] * count + ["bank " * 31])
    assert caught.value.extra == {"limit": 30, "size": 31, "setting": "max_sentence_tokens"}
    assert statuses.received == [413]  # halving does not help


def test_an_oversized_response_is_requested_again_in_halves(url, local):
    texts = ["river bank"] * 16
    options = {"include": ["contextual"]}
    with Client(url, max_answer_bytes=3000) as client:
        require_same(client.encode(texts, **options), local.encode(texts, **options))
    with Client(url, max_answer_bytes=100) as client, pytest.raises(TooLargeError):
        client.encode(texts, **options)
