"""Titles of conditions and what an operator does about them.

Source: forester/docs/how-to/monitoring.md, "What makes `/health` red".
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Advice:
    """A title for a condition, and its remedy."""

    title: str
    remedy: str


ADVICE = {
    "funds": Advice("Out of funds", "Send SOL to the payer: work continues automatically."),
    "budget": Advice(
        "Spending budget exceeded",
        "Wait: it ends automatically. Compare the node with another one before you raise the budget.",
    ),
    "balance": Advice("Balance is low", "Send SOL to the payer soon."),
    "registration": Advice("Not registered", "Search the log for register, and run forester check."),
    "epoch": Advice("Epoch action refused", "The reason names the refusal; run forester check."),
    "slots": Advice("Node is stuck", "Check the node; with FALLBACK_RPC_URL the fallback is used meanwhile."),
    "snapshot": Advice("Network cannot be read", "Check the node and its rate limit."),
    "indexer": Advice("Indexer is out of order", "Check the indexer; with FALLBACK_INDEXER_URL the fallback is used."),
    "prover": Advice("Prover is out of order", "Check the prover: its /health must answer with 200."),
    "key": Advice("Key is used elsewhere", "Stop one of the two processes, or give it a key of its own."),
    "lookup_table": Advice("Lookup table is unusable", "Create another one and pass it as --lookup-table-address."),
    "trees": Advice("No tree is chosen", "Correct the setting that the reason names."),
    "progress": Advice("Work waits without progress", "See the likely cause of each tree below."),
}
SERVICES = {
    "node": Advice("Calls to the node fail", "Check the node and its rate limit; a fallback is FALLBACK_RPC_URL."),
    "indexer": Advice(
        "Calls to the indexer fail",
        "Check the indexer; a fallback is FALLBACK_INDEXER_URL. Stored proofs are still sent.",
    ),
    "prover": Advice("Calls to the prover fail", "Check the prover and its capacity. Stored proofs are still sent."),
}
_TASK = Advice(
    "A part of the forester fails",
    "Search the log for task_failed, task_crashed and unexpected_error, and report the error.",
)
_OTHER = Advice("Unfit", "The reason says what is wrong.")


def advice_of(condition: str) -> Advice:
    """Return the advice for a condition of the health board."""
    return _TASK if condition.startswith("task ") else ADVICE.get(condition, _OTHER)
