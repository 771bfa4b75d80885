from dataclasses import dataclass
from typing import cast

import pytest
from onchain_vectors import FORESTER, recorded, recorded_instruction
from solders.pubkey import Pubkey

from forester.chain.program_errors import ForesterRefusal
from forester.chain.programs.addresses import REGISTRY, SYSTEM
from forester.chain.rpc_client import Account, RpcClient
from forester.epoch.decisions import Action, ActionResult
from forester.epoch.registration import instruction_of, outcome_of, read_epoch
from forester.errors import EndpointUnreachable, MalformedAccount, TransactionRefused

ME = FORESTER.pubkey()


@pytest.mark.parametrize(
    ("action", "name"),
    [
        (Action.REGISTER, "register_forester_epoch"),
        (Action.FINALIZE, "finalize_registration"),
        (Action.REPORT, "report_work"),
    ],
)
def test_instructions__of_the_actions__are_those_recorded(action: Action, name: str) -> None:
    entry = recorded("registry_epoch_txs")[name]
    expected = recorded_instruction(entry.get("instruction", entry))
    epoch = int.from_bytes(expected.data[8:16], "little") if action is Action.REGISTER else 2
    assert instruction_of(action, ME, ME, epoch) == expected


@pytest.mark.parametrize("action", [Action.WAIT, Action.WORK, Action.STOP])
def test_instructions__of_actions_that_need_none__do_not_exist(action: Action) -> None:
    with pytest.raises(ValueError, match=f"no instruction performs {action.value}"):
        instruction_of(action, ME, ME, 2)


@dataclass
class Node:
    """A node with one registration, and no account of its epoch."""

    data: bytes

    async def accounts(self, addresses: list[Pubkey]) -> list[Account | None]:
        return [Account(addresses[0], REGISTRY, 1, self.data), None]


async def test_read_epoch__registration_of_another_key_or_epoch__is_not_ours() -> None:
    entry = recorded("registry_epoch_txs")["finalize_registration"]["forester_epoch_pda"]
    rpc = cast(RpcClient, Node(bytes.fromhex(entry["data"])))
    key, epoch = Pubkey.from_string(entry["decoded"]["authority"]), entry["decoded"]["epoch"]
    assert (await read_epoch(rpc, key, epoch, 7, authority=key)).other_authority == ""
    other = await read_epoch(rpc, key, epoch, 7, authority=Pubkey.default())
    assert (other.other_authority, other.registration is not None) == (str(key), True)
    with pytest.raises(MalformedAccount, match=f"registration for epoch {epoch + 1} at .* names epoch {epoch}"):
        await read_epoch(rpc, key, epoch + 1, 7, authority=key)


def test_outcomes__failures__report_codes_of_the_registry_alone() -> None:
    refused = TransactionRefused("no", program=str(REGISTRY), code=6011)
    assert outcome_of(Action.REPORT, refused) == ActionResult(done=False, code=6011, text="no")
    other = TransactionRefused("no", program=str(Pubkey.default()), code=6012)
    assert outcome_of(Action.REPORT, other).code is None
    assert outcome_of(Action.REPORT, TransactionRefused("no", code=6001)).code == 6001
    assert outcome_of(Action.REGISTER, EndpointUnreachable("gone")) == ActionResult(done=False, text="gone")


def test_outcomes__account_in_use__means_registered_for_registration_alone() -> None:
    in_use = TransactionRefused("in use", program=str(SYSTEM), code=0)
    assert outcome_of(Action.REGISTER, in_use).code == ForesterRefusal.FORESTER_ALREADY_REGISTERED
    assert outcome_of(Action.REPORT, in_use).code is None
