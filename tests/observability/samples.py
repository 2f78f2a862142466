"""The numbers of /metrics."""

import httpx
from prometheus_client.parser import text_string_to_metric_families

Numbers = dict[tuple[str, frozenset[tuple[str, str]]], float]


def numbers(client: httpx.Client) -> Numbers:
    """Every sample, by its name and labels."""
    return numbers_in(client.get("/metrics").text)


def numbers_in(text: str) -> Numbers:
    """The samples of an exposition."""
    families = text_string_to_metric_families(text)
    return {(s.name, frozenset(s.labels.items())): s.value for f in families for s in f.samples}


def total(found: Numbers, name: str, **labels: str) -> float:
    """The sum of the samples of a name that have these labels."""
    wanted = labels.items()
    return sum(v for (one, its), v in found.items() if one == f"polyseme_{name}" and wanted <= its)
