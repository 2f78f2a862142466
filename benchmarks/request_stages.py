"""Measure the time of a request by stage, compared with a bare Flask route.

    python benchmarks/request_stages.py [--words 20] [--requests 2000]

A client requests different sentences as base64, npz and JSON from one worker, on one connection,
each followed by a request to a bare route that reads the same body and returns a response of median
size. The stages are those of `Server-Timing`; the rest, and all time of the bare route, is Flask,
gunicorn, the network and the client. Figures are medians in microseconds. Results:
results/request_stages.json.
"""

import tempfile
import time
from pathlib import Path

import click
import httpx
import orjson
from gunicorns import SERVICE, running
from record import median_row, record
from requests_per_second import ENCODINGS, accept, typical
from sentences import sentences

WARM = 500
"""The number of warm-up requests in each format."""


def stages_of(response: httpx.Response) -> dict[str, float]:
    """Return the microseconds of each stage, and the total."""
    entries = (entry.split(";dur=") for entry in response.headers["Server-Timing"].split(", "))
    return {name: float(milliseconds) * 1000 for name, milliseconds in entries}


def timed_post(
    client: httpx.Client, url: str, body: bytes, kind: str
) -> tuple[httpx.Response, float]:
    """Send a request; return the response and its microseconds."""
    headers = {"Accept": accept(kind), "Content-Type": "application/json"}
    began = time.perf_counter()
    response = client.post(url, content=body, headers=headers)
    spent = (time.perf_counter() - began) * 1e6
    return response.raise_for_status(), spent


@click.command()
@click.option("--words", default=20)
@click.option("--requests", default=2000)
def main(words: int, requests: int) -> None:
    """Run the benchmark."""
    texts = [" ".join(sentence) for sentence in sentences([words] * (WARM + requests))]
    middle: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder, running(SERVICE, workers=1) as service:
        bodies = {
            kind: [orjson.dumps({"input": text, "encoding": encoding}) for text in texts]
            for kind, encoding in ENCODINGS.items()
        }
        for kind, of_kind in bodies.items():
            file = Path(folder, kind)
            file.write_bytes(b"\n".join(of_kind))
            file.write_bytes(typical(service.address, file, kind))
        with (
            running(f"bare:bare_app({folder!r})", workers=1) as bare,
            httpx.Client(timeout=60) as client,
        ):
            for kind, of_kind in bodies.items():
                rows = []
                for body in of_kind:
                    response, spent = timed_post(client, f"{service.address}/v1/encode", body, kind)
                    _, bare_spent = timed_post(client, f"{bare.address}/{kind}", body, kind)
                    rows.append({**stages_of(response), "answer": spent, "bare answer": bare_spent})
                middle[kind] = median_row(rows[WARM:], None)
                click.echo(f"{kind:<7} {middle[kind]}")
    about = {"words": words, "requests": requests}
    packages = ["gunicorn", "flask", "numpy", "orjson", "pydantic"]
    record("request_stages", packages, {**about, "microseconds": middle})


if __name__ == "__main__":
    main()
