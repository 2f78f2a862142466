"""Print results and errors of OpenAI's client as JSON. Arguments: ADDRESS KEY LIMITED.

LIMITED is the address of a service with a low rate limit.
"""

import asyncio
import json
import sys

import openai

address, key, limited = sys.argv[1:]
TEXTS = ["river bank", "money bank end"]
client = openai.OpenAI(base_url=f"{address}/v1", api_key=key, max_retries=0)


def error_of(call, **fields):
    """The error that a call raises."""
    try:
        call(**fields)
    except openai.APIStatusError as error:
        return {
            "class": type(error).__name__,
            "code": error.code,
            "param": error.param,
            "said": error.message,
            "request_id": error.request_id,
        }
    raise AssertionError("no error")


def create_with(key):
    return client.with_options(api_key=key).embeddings.create


def count_retries():
    """Send three requests to the rate-limited service, because a window may end in between."""
    retrying = openai.OpenAI(base_url=f"{limited}/v1", api_key="none", max_retries=5)
    raw = [
        retrying.embeddings.with_raw_response.create(input="end", model="tiny") for _ in range(3)
    ]
    assert [len(one.parse().data[0].embedding) for one in raw] == [5] * 3
    return sum(one.retries_taken for one in raw)


async def asynchronous():
    """Ten concurrent requests."""
    async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key=key) as async_client:
        calls = [async_client.embeddings.create(input=TEXTS, model="tiny") for _ in range(10)]
        models = await async_client.models.list()
        return [
            [[one.embedding for one in answer.data] for answer in await asyncio.gather(*calls)],
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
            "wrong key": error_of(create_with("wrong"), input="end", model="tiny"),
            "empty": error_of(create, input=["end", ""], model="tiny"),
            "async": asyncio.run(asynchronous()),
            "retries": count_retries(),
            "over its rate": error_of(
                lambda: [
                    openai.OpenAI(
                        base_url=f"{limited}/v1", api_key="x", max_retries=0
                    ).models.list()
                    for _ in range(100)
                ]
            ),
        }
    )
)
