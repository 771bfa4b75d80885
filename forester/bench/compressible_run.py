"""Foresters that close compressible accounts while connections, transactions and processes are lost.

Token accounts, a third of them associated ones, mints, and accounts of a test program are created with rent for two
rent epochs, a tenth of each with more; a fifth of them while no forester has a subscription. Two foresters run across
the border of the rent epoch. Then transactions are dropped, connections cut, and processes killed by SIGKILL. Bounds:
all due accounts are closed once, none early, the others stay, rent and incentive are where they belong, and the indexer
has the compressed accounts.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from bench_report import Report
from compressible_accounts import (
    RENT_SPONSOR,
    create_account,
    create_associated_account,
    create_mint,
    mint_of,
    set_mint,
)
from compressible_program import (
    DISCRIMINATOR,
    NAME,
    PROGRAM,
    SPONSOR,
    account_key,
    create_placeholders,
    set_account,
    set_program,
)
from fault_proxy import FaultProxy, lost_sends
from fleet import Member, admit
from localnet_forester import Kit, forester_on
from network import Network, log_line, running_network
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.signature import Signature
from tcp_valve import TcpValve

from forester.chain.programs.addresses import COMPRESSED_TOKEN
from forester.chain.programs.compressed_address import compressed_address
from forester.chain.programs.compression import MINT_ADDRESS_TREE
from forester.compressible.rent import RENT_EPOCH_SLOTS

BORDER = 2 * RENT_EPOCH_SLOTS
BEFORE = 410
"""Slots before the border, in which foresters register and must not close anything."""

COST, NETWORK_FEE, ROLLOVER_FEE, SIGNATURE_FEE = 11_000, 5000, 1, 5000
DUE_EPOCHS, LATER_EPOCHS = 2, 6
DEADLINE_S = 600.0
_PLACEHOLDER = int.from_bytes(b"\xff" * 7 + b"\x00", "little")


@dataclass(frozen=True)
class Account:
    """An account: its kind, whether its rent runs out, and the owner or address of its compressed account."""

    kind: str
    address: Pubkey
    is_due: bool
    compressed: Pubkey


@dataclass
class Run:
    """The network with its foresters and accounts."""

    network: Network
    kit: Kit
    members: list[Member]
    proxy: FaultProxy
    connections: TcpValve
    environment: dict[str, str]
    accounts: list[Account] = field(default_factory=list)
    numbers: random.Random = field(default_factory=lambda: random.Random(1))

    async def create(self, tokens: int, mints: int, program_accounts: int) -> None:
        """Create accounts, a tenth of each kind, at least one, with more rent."""
        mint, net, payer = set_mint(self.kit), self.network.net, self.kit.pubkey
        begun = len(self.accounts)
        work = []
        for number in range(tokens):
            key, owner, is_due = Keypair(), Keypair().pubkey(), number % 10 != 9
            epochs = DUE_EPOCHS if is_due else LATER_EPOCHS
            if number % 3:
                work.append(self._send([create_account(key.pubkey(), mint, owner, payer, epochs)], key))
                self.accounts.append(Account("ctoken", key.pubkey(), is_due, owner))
            else:
                address, instruction = create_associated_account(mint, owner, payer, epochs)
                work.append(self._send([instruction]))
                self.accounts.append(Account("ata", address, is_due, address))
        for begin in range(0, len(work), 10):
            await asyncio.gather(*work[begin : begin + 10])
        for number in range(mints):
            key, is_due = Keypair(), number % 10 != 9
            epochs = DUE_EPOCHS if is_due else LATER_EPOCHS
            instruction = await asyncio.to_thread(create_mint, net, key.pubkey(), payer, epochs)
            await self._send([instruction], key)
            address, _ = mint_of(key.pubkey())
            compressed = compressed_address(address, MINT_ADDRESS_TREE, COMPRESSED_TOKEN)
            self.accounts.append(Account("mint", address, is_due, Pubkey(compressed)))
        addresses = [account_key(begun * 1000 + number) for number in range(program_accounts)]
        for begin in range(0, len(addresses), 3):
            await self._send([await asyncio.to_thread(create_placeholders, net, payer, addresses[begin : begin + 3])])
        for number, address in enumerate(addresses):
            is_due = number % 10 != 9
            set_account(net, address, DUE_EPOCHS if is_due else LATER_EPOCHS, 0)
            compressed = compressed_address(address, MINT_ADDRESS_TREE, PROGRAM)
            self.accounts.append(Account("pda", address, is_due, Pubkey(compressed)))

    async def _send(self, work: list[Instruction], *signers: Keypair) -> None:
        outcome = await self.kit.sender.send(work, purpose="test", subject=b"", within_s=120, signers=signers)
        if outcome.error is not None:
            raise outcome.error

    async def until_tracked(self) -> None:
        """Wait until the journals of all foresters have all accounts."""
        ends = time.monotonic() + DEADLINE_S
        while any(_tracked(member) != len(self.accounts) for member in self.members):
            if time.monotonic() > ends:
                raise TimeoutError(f"not all accounts were tracked: {[_tracked(member) for member in self.members]}")
            await asyncio.sleep(0.5)

    async def lamports(self, accounts: Sequence[Account]) -> list[int | None]:
        """Return the lamports of accounts, None for those that are gone."""
        found = await self.network.rpc.accounts([item.address for item in accounts])
        return [None if account is None else account.lamports for account in found]

    async def reach(self, slot: int) -> None:
        """Wait for a slot of the running clock."""
        while await self.network.rpc.slot() < slot:  # noqa: ASYNC110
            await asyncio.sleep(0.1)

    async def faults(self) -> int:
        """Drop transactions, cut connections and kill processes until all due accounts are gone; return kills."""
        due, kills, ends = [item for item in self.accounts if item.is_due], 0, time.monotonic() + DEADLINE_S
        while any(found is not None for found in await self.lamports(due)) or kills < len(self.members):
            if time.monotonic() > ends:
                return kills
            self.proxy.show(fault=lost_sends)
            await asyncio.sleep(self.numbers.uniform(1, 2))
            member = self.members[kills % len(self.members)]
            member.kill()
            kills += 1
            await self.connections.close()
            await asyncio.sleep(1)
            self.proxy.behave()
            await self.connections.open()
            member.start(self.environment)
            # A started process waits for its pending transactions to expire, and for its windows.
            await asyncio.sleep(self.numbers.uniform(12, 20))
        return kills


def _tracked(member: Member) -> int:
    path = f"file:{member.journal}?mode=ro"
    with (
        contextlib.suppress(sqlite3.OperationalError),
        contextlib.closing(sqlite3.connect(path, uri=True)) as connection,
    ):
        (count,) = connection.execute("SELECT COUNT(*) FROM compressible_accounts").fetchone()
        return int(count)
    return 0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add = parser.add_argument
    add("--tokens", type=int, default=300, help="number of token accounts (300)")
    add("--mints", type=int, default=20, help="number of mints (20)")
    add("--program-accounts", type=int, default=20, help="number of accounts of the test program (20)")
    add("--slot-ms", type=float, default=40, help="milliseconds per slot (40)")


async def run(options: argparse.Namespace, folder: Path) -> Report:
    """Create the accounts, run the foresters, and check every account."""
    async with contextlib.AsyncExitStack() as stack:
        network = await stack.enter_async_context(running_network("--slot-ms", f"{options.slot_ms:g}"))
        kit = await stack.enter_async_context(forester_on(network.net, folder))
        node = urlsplit(network.net.environment["WS_RPC_URL"])
        proxy, connections = FaultProxy(), await stack.enter_async_context(TcpValve(node.port or 0))
        members = [Member(number, 1, folder / f"forester-{number}") for number in range(2)]
        admit(network.net, members)
        environment = dict(network.net.environment) | {
            "RPC_URL": await stack.enter_async_context(proxy.before(network.net.url)),
            "WS_RPC_URL": f"ws://127.0.0.1:{connections.port}",
            "LIGHT_PDA_PROGRAMS": NAME,
            "QUEUE_POLL_INTERVAL_SECONDS": "1",
            "SLOT_UPDATE_INTERVAL_SECONDS": "1",
        }
        run = Run(network, kit, members, proxy, connections, environment)
        stack.callback(lambda: [member.stop() for member in members])
        set_program(network.net)
        return await _report(run, options)


async def _report(run: Run, options: argparse.Namespace) -> Report:
    parts = [options.tokens, options.mints, options.program_accounts]
    late = [max(1, count // 5) for count in parts]
    log_line("creating accounts")
    await run.create(*(count - rest for count, rest in zip(parts, late, strict=True)))
    for member in run.members:
        member.start(run.environment)
    await run.until_tracked()
    log_line("creating accounts without subscriptions")
    await run.connections.close()
    await run.create(*late)
    await run.connections.open()
    await run.until_tracked()
    log_line("going to the border of the rent epoch")
    await run.network.call("localnet_warp", BORDER - BEFORE)
    due = [item for item in run.accounts if item.is_due]
    later = [item for item in run.accounts if not item.is_due]
    held = dict(zip((item.address for item in due), await run.lamports(due), strict=True))
    sponsors = [await run.network.rpc.balance(key) for key in (RENT_SPONSOR, SPONSOR)]
    await run.reach(BORDER - 5)
    early = sum(found is None for found in await run.lamports(run.accounts))
    log_line("injecting faults")
    began = time.monotonic()
    kills = await run.faults()
    report = Report()
    report.figures |= {"accounts": len(run.accounts), "kills": kills, "seconds_of_faults": time.monotonic() - began}
    report.require("none is closed early", early == 0, early)
    left = [item for item, found in zip(due, await run.lamports(due), strict=True) if found is not None]
    report.require("all due accounts are closed", not left, [str(item.address) for item in left])
    kept = sum(found is not None for found in await run.lamports(later))
    report.require("all other accounts stay", kept == len(later), f"{kept} of {len(later)}")
    await _check_lamports(run, report, due, held, sponsors)
    await _check_transactions(run, report, due)
    await _check_indexer(run, report, due)
    return report


async def _check_lamports(
    run: Run, report: Report, due: Sequence[Account], held: dict[Pubkey, int | None], before: Sequence[int]
) -> None:
    """Check that all lamports but the incentive are with the rent sponsors."""
    paid = sum(COST for item in due if item.kind in ("ctoken", "ata"))
    of_tokens = sum(held[item.address] or 0 for item in due if item.kind != "pda") - paid
    of_program = sum(held[item.address] or 0 for item in due if item.kind == "pda")
    for name, key, balance, expected in (
        ("rent sponsor", RENT_SPONSOR, before[0], of_tokens),
        ("rent sponsor of the program", SPONSOR, before[1], of_program),
    ):
        received = await run.network.rpc.balance(key) - balance
        report.require(f"the {name} has the lamports of all closed accounts", received == expected, received - expected)


async def _check_transactions(run: Run, report: Report, due: Sequence[Account]) -> None:
    """Check that one transaction closed each account, after the border, and what it earned."""
    closings: dict[Signature, list[Account]] = {}
    failed: set[Signature] = set()
    early, closers = 0, {}
    for item in due:
        for found in await run.network.rpc.signatures_for(item.address, limit=20):
            transaction = await run.network.rpc.transaction(found.signature)
            if transaction is None or found.slot < BORDER - BEFORE:
                continue
            if transaction["meta"]["err"] is not None:
                failed.add(found.signature)
                continue
            closings.setdefault(found.signature, []).append(item)
            early += found.slot < BORDER
            meta = transaction["meta"]
            closers[found.signature] = meta["postBalances"][0] - meta["preBalances"][0]
    times = sum(len(items) for items in closings.values())
    report.require("each is closed by one transaction", times == len(due), f"{times} for {len(due)}")
    report.require("none is closed before the border", early == 0, early)
    tokens = {key: items for key, items in closings.items() if items[0].kind in ("ctoken", "ata")}
    earned = sum(closers[key] for key in tokens)
    number = sum(len(items) for items in tokens.values())
    expected = number * (COST - ROLLOVER_FEE) - len(tokens) * (NETWORK_FEE + SIGNATURE_FEE)
    report.require("foresters have the incentives, less fees", earned == expected, f"{earned} of {expected}")
    report.figures |= {
        "transactions that closed accounts": len(closings),
        "token accounts per transaction": number / max(1, len(tokens)),
        "transactions refused on chain": len(failed),
        "lamports earned by closing token accounts": earned,
        "lamports spent on mints and accounts of the program": -sum(
            earned for key, earned in closers.items() if key not in tokens
        ),
    }


async def _check_indexer(run: Run, report: Report, due: Sequence[Account]) -> None:
    """Check that the indexer has the compressed account of each closed account once."""
    found = [await asyncio.to_thread(_is_indexed, run, item) for item in due]
    missing = [f"{item.kind} {item.address}" for item, is_there in zip(due, found, strict=True) if not is_there]
    report.require("the indexer has all compressed accounts", not missing, missing)


def _is_indexed(run: Run, item: Account) -> bool:
    net = run.network.net
    if item.kind in ("ctoken", "ata"):
        owned = net.indexed("getCompressedTokenAccountsByOwnerV2", {"owner": str(item.compressed)})["items"]
        return len(owned) == 1
    found = net.indexed("getCompressedAccountV2", {"address": str(item.compressed)})
    kind = found["data"]["discriminator"] if found is not None else _PLACEHOLDER
    return kind == int.from_bytes(DISCRIMINATOR, "little") if item.kind == "pda" else kind != _PLACEHOLDER
