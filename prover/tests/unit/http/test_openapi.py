"""The interface description: valid, recorded, and true of the routes."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import openapi_spec_validator
import pytest

from prover.http.description.openapi import document
from prover.http.routes.table import ROUTES
from shared.requests.circuit_id import CircuitKind
from shared.requests.circuit_inputs import inputs_of

CONTRACT = Path(__file__).resolve().parents[3] / "contracts" / "openapi.json"


def test_document__composed__is_the_recorded_one() -> None:
    assert document() == json.loads(CONTRACT.read_text())


def test_document__is_valid_openapi() -> None:
    openapi_spec_validator.validate(document())


def test_document__describes_every_route() -> None:
    described = {(method.upper(), path) for path, methods in document()["paths"].items() for method in methods}
    assert described == {(route.method, route.path) for route in ROUTES}


def test_document__names_the_codes_of_every_status() -> None:
    responses = document()["paths"]["/prove"]["post"]["responses"]
    assert {"overloaded", "circuit_disabled", "out_of_memory", "key_not_found"} <= set(
        responses["503"]["description"].removesuffix(".").split()
    )
    assert "malformed_body or proving_error" in responses["400"]["description"]


def test_examples__of_requests_and_answers__satisfy_their_schemas() -> None:
    described = document()
    checked = 0
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            answers = [answer for status, answer in operation["responses"].items() if status.startswith("2")]
            contents = [
                each for part in (operation.get("requestBody"), *answers) if part for each in part["content"].values()
            ]
            for content in contents:
                schema = content["schema"] | {"components": described["components"]}
                if "example" in content:
                    jsonschema.validate(content["example"], schema)
                    checked += 1
                else:
                    assert path in ("/openapi.json", "/docs") or method == "delete", path
    assert checked >= 14


HEADERS = {"circuitType", "stateTreeHeight", "addressTreeHeight", "treeHeight", "height", "batchSize"}
"""Members of requests that select a circuit."""


def members_of(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, str]:
    """Return the type of every member below a schema, by its path with ``[]`` for each array."""
    if "$ref" in schema:
        return members_of(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    if "anyOf" in schema:
        return members_of(schema["anyOf"][0], schemas)
    if schema["type"] == "array":
        return {f"[]{path}": kind for path, kind in members_of(schema["items"], schemas).items()}
    if schema["type"] == "object":
        properties = {name: members_of(each, schemas) for name, each in schema["properties"].items()}
        return {f".{name}{path}": kind for name, below in properties.items() for path, kind in below.items()}
    return {"": schema["type"]}


@pytest.mark.parametrize("kind", CircuitKind)
def test_document__of_a_request__has_the_members_that_are_inputs(kind: CircuitKind) -> None:
    schemas = document()["components"]["schemas"]
    mapping = document()["paths"]["/prove"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    model = schemas[mapping["discriminator"]["mapping"][kind.value].rpartition("/")[2]]
    del model["properties"]["circuitType"]
    described = {path.removeprefix("."): type_ for path, type_ in members_of(model, schemas).items()}
    versions = (2,) if kind.is_batch else (1, 2)
    inputs = [each for version in versions for each in inputs_of(kind, version)]
    expected = {each.member: "integer" if each.is_index else "string" for each in inputs}
    assert {path: type_ for path, type_ in described.items() if path not in HEADERS} == expected
