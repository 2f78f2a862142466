"""Operations over HTTP; `tests/operations` and `tests/senses` test what they compute."""

import pytest
from pydantic import TypeAdapter

from polyseme.operations.compare import MappedComparison
from polyseme.operations.neighbors import Neighbors
from polyseme.operations.trace import Trace
from polyseme.senses.find import MappedSenses
from polyseme.senses.inventory import AppliedSenses
from tests.http.bodies import BODIES
from tests.http.conftest import expect_problem
from tests.http.service import inventory_document

RESULTS = {
    "/v1/compare": MappedComparison,
    "/v1/neighbors": Neighbors,
    "/v1/trace": Trace,
    "/v1/senses": MappedSenses,
    "/v1/senses/apply": AppliedSenses,
}


@pytest.mark.parametrize("path", RESULTS)
def test_a_response_has_the_documented_form(client, path) -> None:
    answer = client.post(path, json=BODIES[path])
    assert answer.status_code == 200, answer.text
    TypeAdapter(RESULTS[path]).validate_python(answer.json())
    for field in {"map", "inventory"} & RESULTS[path].__annotations__.keys():
        asked = client.post(path, json={**BODIES[path], field: True}).json()
        assert asked[field] and not answer.json().get(field)


@pytest.mark.parametrize(
    ("changes", "status", "code", "message"),
    [
        ({"checksum": "0" * 64}, 422, "invalid", "another model than wiki-en found these"),
        ({"version": 2}, 422, "invalid", "this release reads no other version"),
        ({"model": "absent"}, 404, "unknown_model", "There is no model of this name"),
    ],
)
def test_an_inventory_that_does_not_fit_is_an_error(client, changes, status, code, message):
    inventory = {**inventory_document(), **changes}
    answer = client.post("/v1/senses/apply", json={"inventory": inventory, "texts": ["a bank"]})
    assert message in expect_problem(answer, status, code)["detail"]
