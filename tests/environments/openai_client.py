"""Print results and errors of OpenAI's client as JSON. Arguments: ADDRESS KEY."""

import asyncio
import json
import sys
from itertools import repeat

import openai

address, key = sys.argv[1:]
TEXTS = ["river bank", "money bank end"]


def client_of(kind=openai.OpenAI, api_key=key, max_retries=0):
    return kind(base_url=f"{address}/v1", api_key=api_key, max_retries=max_retries)


def create(client=None, **fields):
    return (client or client_of()).embeddings.create(model="tiny", **fields)


def vectors(answer):
    return [one.embedding for one in answer.data]


def error_of(call, **fields):
    """The error that a call raises."""
    try:
        call(**fields)
    except openai.APIStatusError as error:
        return [type(error).__name__, error.code, error.param, error.message, error.request_id]
    raise AssertionError("no error")


async def asynchronous():
    """Ten concurrent requests."""
    async with client_of(openai.AsyncOpenAI) as client:
        calls = [create(client, input=TEXTS) for _ in range(10)]
        return list(map(vectors, await asyncio.gather(*calls)))


def over_the_rate():
    for _ in repeat(None, 1000):
        create(input="end")


def count_retries():
    """Send more requests than the rate allows to a client that waits."""
    client = client_of(max_retries=5).embeddings.with_raw_response
    return sum(client.create(input="end", model="tiny").retries_taken for _ in range(31))


raw = client_of().embeddings.with_raw_response.create(input=TEXTS, model="tiny")
results = {
    "encoding": json.loads(raw.http_response.request.content)["encoding_format"],
    "answer": raw.parse().model_dump(),
    "floats": vectors(create(input=TEXTS, encoding_format="float")),
    "zero": vectors(create(input=["end", ""], extra_body={"wordless": "zero"}))[1],
    "models": [one.id for one in client_of().models.list()],
    "wrong key": error_of(create, client=client_of(api_key="wrong"), input="end"),
    "empty": error_of(create, input=["end", ""]),
    "async": asyncio.run(asynchronous()),
    "over its rate": error_of(over_the_rate),
    "retries": count_retries(),
}
sys.stdout.write(json.dumps(results))
