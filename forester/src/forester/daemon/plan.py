"""Plan of a dry run: the chain is read once, nothing is sent or written."""

from collections.abc import Sequence
from dataclasses import dataclass

from forester.chain.registry_accounts import read_protocol_config
from forester.chain.rpc_client import RpcClient
from forester.chain.tree_metadata import TreeMetadata
from forester.chain.trees import TreeFilter, find_trees
from forester.epoch.decisions import EpochOnChain, Progress, decide
from forester.epoch.phases import EpochPhases, SlotRange
from forester.epoch.registration import read_epoch
from forester.network_status.epochs import protocol_times
from forester.scheduling.tree_schedule import Share, TreeSchedule
from forester.settings import Settings, given

WINDOWS_SHOWN = 3


@dataclass(frozen=True)
class EpochPlan:
    """An epoch, our state in it, and the next action."""

    epoch: int
    phase: str
    state: str
    action: str
    until_slot: int | None
    share: str | None


@dataclass(frozen=True)
class TreePlan:
    """A tree that would be processed, and our next eligibility windows.

    ``certain`` is false while the weight of the epoch is not finalised: the windows then follow from the weights
    registered so far.
    """

    tree: str
    kind: str
    rolled_over: bool
    windows: tuple[tuple[int, int], ...]
    certain: bool


@dataclass(frozen=True)
class Plan:
    """All that a forester would do."""

    slot: int
    payer: str
    derivation: str
    journal: str
    epochs: tuple[EpochPlan, ...]
    trees: tuple[TreePlan, ...]


async def make_plan(rpc: RpcClient, settings: Settings, journal: str) -> Plan:
    """Read the chain and decide. Raises EndpointError, AccountMissing, MalformedAccount."""
    derivation, payer = given(settings.derivation), given(settings.payer).pubkey
    config = (await read_protocol_config(rpc)).config
    slot = await rpc.slot()
    lived: list[tuple[EpochPhases, EpochOnChain]] = []
    for epoch in protocol_times(config).live_epochs(slot):
        seen = await read_epoch(rpc, derivation, epoch, slot, authority=payer)
        own = config if seen.registration is None else seen.registration.config
        lived.append((protocol_times(own).phases(epoch), seen))
    trees = await find_trees(rpc, TreeFilter.from_settings(settings))
    return Plan(
        slot=slot,
        payer=str(payer),
        derivation=str(derivation),
        journal=journal,
        epochs=tuple(_epoch_plan(phases, seen) for phases, seen in lived),
        trees=tuple(_tree_plan(tree, lived, slot) for tree in sorted(trees.values(), key=_order)),
    )


def _order(tree: TreeMetadata) -> tuple[int, str]:
    return tree.kind.value, str(tree.address)


def _epoch_plan(phases: EpochPhases, seen: EpochOnChain) -> EpochPlan:
    decision = decide(phases, Progress(), seen)
    share = _share(seen)
    return EpochPlan(
        epoch=phases.epoch,
        phase=phases.phase_at(seen.slot).value,
        state=decision.state.value,
        action=decision.action.value,
        until_slot=decision.until_slot,
        share=f"{share.weight} of {share.total_weight} from {share.index}" if share is not None else None,
    )


def _share(seen: EpochOnChain) -> Share | None:
    """Return our share, of the registered weight while it is not finalised."""
    registration = seen.registration
    if registration is None or seen.other_authority:
        return None
    total = registration.total_epoch_weight or seen.registered_weight
    return Share(registration.forester_index, registration.weight, total) if total else None


def _tree_plan(tree: TreeMetadata, lived: Sequence[tuple[EpochPhases, EpochOnChain]], slot: int) -> TreePlan:
    windows: list[SlotRange] = []
    certain = True
    for phases, seen in lived:
        share = _share(seen)
        if share is None or slot > phases.active.last or len(windows) >= WINDOWS_SHOWN:
            continue
        certain = certain and seen.registration is not None and seen.registration.total_epoch_weight is not None
        schedule = TreeSchedule.make(phases, bytes(tree.eligibility_key), share, max(slot, phases.active.first))
        windows += schedule.windows[: WINDOWS_SHOWN - len(windows)]
    shown = tuple((window.first, window.last) for window in windows)
    return TreePlan(str(tree.address), tree.kind.label, tree.metadata.is_rolled_over, shown, bool(windows) and certain)


def plan_text(plan: Plan) -> list[str]:
    """Return the plan as lines for people."""
    lines = [
        f"slot {plan.slot}",
        f"payer {plan.payer}, registered under {plan.derivation}",
        f"journal {plan.journal}",
        *(_epoch_line(item) for item in plan.epochs),
        "1 tree" if len(plan.trees) == 1 else f"{len(plan.trees)} trees",
    ]
    for tree in plan.trees:
        slots = ", ".join(f"{first} to {last}" for first, last in tree.windows) or "none known yet"
        note = "" if tree.certain or not tree.windows else " (from the weights registered so far)"
        retired = ", rolled over" if tree.rolled_over else ""
        lines.append(f"  {tree.kind} {tree.tree}{retired}: next windows {slots}{note}")
    return lines


def _epoch_line(item: EpochPlan) -> str:
    until = f" until slot {item.until_slot}" if item.until_slot is not None else ""
    share = f", share {item.share}" if item.share is not None else ", not registered"
    return f"epoch {item.epoch}: {item.phase} phase, {item.state}{share}; would {item.action}{until}"
