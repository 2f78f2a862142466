"""OpenAI's client with a service: ADDRESS with KEY, and SLOW, which has a low rate limit.

Prints one JSON object.
"""

import asyncio
import json
import sys

import openai

address, key, slow = sys.argv[1:]
TEXTS = ["river bank", "money bank end"]
client = openai.OpenAI(base_url=f"{address}/v1", api_key=key, max_retries=0)


def refused(ask, **fields):
    """What the client raises."""
    try:
        ask(**fields)
    except openai.APIStatusError as error:
        return {
            "class": type(error).__name__,
            "code": error.code,
            "param": error.param,
            "type": error.type,
            "said": error.message,
            "request_id": error.request_id,
        }
    raise AssertionError("not refused")


def without(key):
    return client.with_options(api_key=key).embeddings.create


def tried_again():
    """Send three requests to a rate-limited service, because a window may end in between."""
    patient = openai.OpenAI(base_url=f"{slow}/v1", api_key="none", max_retries=5)
    raw = [patient.embeddings.with_raw_response.create(input="end", model="tiny") for _ in range(3)]
    assert [len(one.parse().data[0].embedding) for one in raw] == [5] * 3
    return sum(one.retries_taken for one in raw)


async def asynchronous():
    """Ten at once."""
    async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key=key) as several:
        asked = [several.embeddings.create(input=TEXTS, model="tiny") for _ in range(10)]
        models = await several.models.list()
        return [
            [[one.embedding for one in answer.data] for answer in await asyncio.gather(*asked)],
            [one.id for one in models.data],
        ]


create = client.embeddings.create
raw = client.embeddings.with_raw_response.create(input=TEXTS, model="tiny")
answer = raw.parse()
sys.stdout.write(
    json.dumps(
        {
            "sent": json.loads(raw.http_response.request.content),
            "vectors": [one.embedding for one in answer.data],
            "answer": [answer.object, answer.model, answer.usage.model_dump()],
            "floats": [
                one.embedding
                for one in create(input=TEXTS, model="tiny", encoding_format="float").data
            ],
            "cut": create(input="river bank", model="tiny", dimensions=3, user="me")
            .data[0]
            .embedding,
            "zero": create(
                input=["end", ""], model="tiny", extra_body={"wordless": "zero", "pooling": "mean"}
            )
            .data[1]
            .embedding,
            "models": [one.id for one in client.models.list()],
            "model": client.models.retrieve("tiny").model_dump(),
            "wrong key": refused(without("wrong"), input="end", model="tiny"),
            "wrong model": refused(create, input="end", model="text-embedding-3-small"),
            "no such model": refused(lambda: client.models.retrieve("nothing")),
            "dimensions": refused(create, input="end", model="tiny", dimensions=6),
            "empty": refused(create, input=["end", ""], model="tiny"),
            "tokens": refused(create, input=[5, 7], model="tiny"),
            "extra": refused(create, input="end", model="tiny", extra_body={"task": "search"}),
            "long": refused(create, input="end " * 2000, model="tiny"),
            "no such route": refused(lambda: client.completions.create(prompt="a", model="tiny")),
            "async": asyncio.run(asynchronous()),
            "retries": tried_again(),
            "over its rate": refused(
                lambda: [
                    openai.OpenAI(base_url=f"{slow}/v1", api_key="x", max_retries=0).models.list()
                    for _ in range(3)
                ]
            ),
        }
    )
)
