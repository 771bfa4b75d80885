"""The interface description: valid, recorded, and true of the routes."""

import json
from pathlib import Path

import openapi_spec_validator

from prover.http.openapi import document
from prover.http.routes.table import ROUTES

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
