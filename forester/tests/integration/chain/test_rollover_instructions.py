"""Rollovers as localnet's tests build and execute them: both builders must agree, byte for byte."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from localnet_process import LOCALNET
from solders.pubkey import Pubkey

from forester.chain.programs import registry

PROGRAM = """
import json
from solders.pubkey import Pubkey
import forester_instructions as registry
from forester_instructions import Pair
me, epoch, new_tree, old_tree, new_queue, old_queue, context = (Pubkey(bytes([n]) * 32) for n in range(1, 8))
old, new = Pair(old_tree, old_queue), Pair(new_tree, new_queue)
built = {
    "state_v1": registry.rollover_state_v1(me, epoch, old, new, context),
    "address_v1": registry.rollover_address_v1(me, epoch, old, new),
    "state_v2": registry.rollover_state_v2(me, epoch, old, new, context),
    "address_v2": registry.rollover_address_v2(me, epoch, old_tree, new_tree),
}
print(json.dumps({
    name: [bytes(item.data).hex(), [[str(meta.pubkey), meta.is_signer, meta.is_writable] for meta in item.accounts]]
    for name, item in built.items()
}))
"""


def test_rollovers__built_here_and_by_localnet__are_equal() -> None:
    python = LOCALNET.parent / "python"
    if not python.is_file():
        pytest.skip("localnet is not here: make setup")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    environment["PYTHONPATH"] = str(LOCALNET.parents[2] / "tests/support")
    answer = subprocess.run([python, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    me, epoch, *keys = (Pubkey(bytes([number]) * 32) for number in range(1, 8))
    accounts = registry.Successors(*keys)
    for name, (data, metas) in json.loads(answer.stdout).items():
        built = getattr(registry, f"rollover_{name}")(registry.Forester(me, epoch), accounts)
        assert bytes(built.data).hex() == data, name
        assert [[str(meta.pubkey), meta.is_signer, meta.is_writable] for meta in built.accounts] == metas, name
