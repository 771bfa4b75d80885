"""Instructions as nodes write them under ``jsonParsed``."""

from collections.abc import Callable, Sequence
from typing import Any

from localnet.borsh import MalformedData
from localnet.chain.token_accounts import TOKEN_2022_PROGRAM, TOKEN_PROGRAM
from localnet.rpc.parsed import programs
from localnet.rpc.parsed.token_instructions import token

Parser = Callable[[bytes, Sequence[str]], Any]

MEMO_PROGRAMS = ("Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo", "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr")
PARSERS: dict[str, tuple[str, Parser]] = {
    "11111111111111111111111111111111": ("system", programs.SYSTEM),
    "Stake11111111111111111111111111111111111111": ("stake", programs.STAKE),
    "AddressLookupTab1e1111111111111111111111111": ("address-lookup-table", programs.LOOKUP_TABLE),
    "BPFLoader2111111111111111111111111111111111": ("bpf-loader", programs.LOADER),
    "BPFLoaderUpgradeab1e11111111111111111111111": ("bpf-upgradeable-loader", programs.UPGRADEABLE_LOADER),
    "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL": ("spl-associated-token-account", programs.associated_token),
    str(TOKEN_PROGRAM): ("spl-token", token),
    str(TOKEN_2022_PROGRAM): ("spl-token", token),
    **dict.fromkeys(MEMO_PROGRAMS, ("spl-memo", programs.memo)),
}
"""Name and parser of each program, by its address."""


def parse_instruction(program: str, data: bytes, accounts: Sequence[str]) -> dict[str, Any] | None:
    """Return name of the program and content of an instruction; None if nodes or this table have no parser for it."""
    found = PARSERS.get(program)
    if found is None:
        return None
    try:
        return {"program": found[0], "programId": program, "parsed": found[1](data, accounts)}
    except MalformedData:
        return None
