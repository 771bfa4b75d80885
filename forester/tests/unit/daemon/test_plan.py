"""Output of `forester start --dry-run`."""

from __future__ import annotations

from typing import Any, cast

import pytest
from chain_accounts import GROUP, TreeAccount
from registry_rules import CONFIG, PHASES
from registry_rules import registration as registration_of
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from forester.chain import registry_accounts
from forester.chain.registry_accounts import ForesterEpochAccount, ProtocolConfigAccount
from forester.chain.rpc_client import RpcClient
from forester.chain.tree_metadata import TreeKind, decode_tree_metadata
from forester.daemon import plan as plan_module
from forester.daemon.plan import make_plan, plan_text
from forester.epoch.decisions import EpochOnChain
from forester.scheduling.tree_schedule import Share, TreeSchedule
from forester.settings import Settings, SigningKey

PAYER = Keypair.from_seed(bytes([7]) * 32)
TREE = TreeAccount(TreeKind.STATE_V2, 1)
METADATA = decode_tree_metadata(TREE.address, TREE.accounts()[0].data)


class Node:
    """A node whose slot is in the active phase of epoch 1, when epoch 2 is not open yet."""

    async def existing_account(self, *_: Any) -> Any:
        return cast(Any, type("Found", (), {"data": b""}))

    async def slot(self) -> int:
        return 1305


@pytest.mark.parametrize(
    ("registration", "total", "expected", "reported"),
    [
        (None, 1, None, "not registered; would register"),
        (registration_of(1, 1, None, 0), 2, Share(1, 1, 2), "would finalize"),
        (registration_of(1, 1, 2, 1), 2, Share(1, 1, 2), "would work until slot 2299"),
    ],
)
async def test_plan__epoch_in_some_state__reports_trees_windows_and_the_next_action(
    registration: ForesterEpochAccount | None,
    total: int,
    expected: Share | None,
    reported: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def read_epoch(_: object, __: object, epoch: int, slot: int, **___: object) -> EpochOnChain:
        return EpochOnChain(slot, registration if epoch == 1 else None, total)

    async def find_trees(*_: object) -> dict[Pubkey, Any]:
        return {METADATA.address: METADATA}

    monkeypatch.setattr(plan_module, "read_epoch", read_epoch)
    monkeypatch.setattr(plan_module, "find_trees", find_trees)
    monkeypatch.setattr(registry_accounts, "decode_protocol_config", lambda _: ProtocolConfigAccount(GROUP, CONFIG))
    settings = Settings(payer=SigningKey(PAYER), derivation=PAYER.pubkey())
    plan = await make_plan(cast(RpcClient, Node()), settings, "/somewhere/journal.sqlite")
    (tree,) = plan.trees
    if expected is None:
        assert tree.windows == ()
    else:
        windows = TreeSchedule.make(PHASES, bytes(METADATA.eligibility_key), expected, 1305).windows[:3]
        assert tree.windows == tuple((window.first, window.last) for window in windows)
    assert tree.certain == (registration is not None and registration.total_epoch_weight is not None)
    text = "\n".join(plan_text(plan))
    assert reported in text
    assert "\n1 tree\n" in text
    assert str(PAYER.pubkey()) in text
    assert str(PAYER) not in text
    assert ("from the weights registered so far" in text) == (expected is not None and not tree.certain)
