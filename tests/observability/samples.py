"""The samples of /metrics."""

import httpx
from prometheus_client.parser import text_string_to_metric_families

Numbers = dict[tuple[str, frozenset[tuple[str, str]]], float]


def numbers(client: httpx.Client) -> Numbers:
    """The samples that a service exposes, by name and labels."""
    return numbers_in(client.get("/metrics").text)


def numbers_in(text: str) -> Numbers:
    """The samples of a text in the Prometheus format, by name and labels."""
    families = text_string_to_metric_families(text)
    return {(s.name, frozenset(s.labels.items())): s.value for f in families for s in f.samples}


def total(found: Numbers, name: str, **labels: str) -> float:
    """The sum of the samples of the metric polyseme_NAME that have these labels."""
    return sum(
        value
        for (sample, its_labels), value in found.items()
        if sample == f"polyseme_{name}" and labels.items() <= its_labels
    )
