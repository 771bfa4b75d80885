"""A simulated prover service: proofs from the trapdoor, for requests in the prover's format.

It answers at once and checks only the format. The programs detect wrong chains and roots
(shared/localnet/docs/chain.md, "Simulated proofs").
"""

from aiohttp import web

from localnet.access import LOOPBACK_ONLY, AccessRules, restrict
from localnet.chain.simulated_proofs import simulate_proof
from localnet.prover.faults import ProverFaults, showing
from shared.requests.proof_wire import Envelope, ProofJson, WireError, decode_request, encode_proof
from shared.requests.witness_inputs import public_inputs
from shared.trees.field import parse_scalar

MAX_BODY_BYTES = 8 << 20


def make_app(faults: ProverFaults | None = None, access: AccessRules = LOOPBACK_ONLY) -> web.Application:
    """Return an application with POST /prove and GET /health."""
    app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[showing(faults or ProverFaults())])
    restrict(app, access, cors=False)
    app.router.add_post("/prove", _prove)
    app.router.add_get("/health", _health)
    return app


async def _health(_request: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})


async def _prove(request: web.Request) -> web.Response:
    try:
        proof = prove(await request.read())
    except WireError as error:
        return web.json_response({"code": "malformed_body", "message": str(error)}, status=400)
    except ValueError as error:
        return web.json_response({"code": "proving_error", "message": str(error)}, status=400)
    return web.Response(body=encode_proof(proof), content_type="application/json")


def prove(body: bytes) -> ProofJson:
    """Return the proof of a request; raise WireError or ValueError for a request that names no statement."""
    envelope = Envelope.read(body)
    request = decode_request(envelope.members, envelope.kind)
    if request.public_input_hash:
        inputs = [int.from_bytes(parse_scalar(request.public_input_hash)[0], "big")]
    else:
        inputs = [int.from_bytes(element, "big") for element in public_inputs(request)]
    return simulate_proof(inputs)
