"""Faults of the services, the clock and the network of a forester process, and how each is injected."""

from __future__ import annotations

import asyncio
import os
import signal
import struct
import subprocess
import sysconfig
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import fault_proxy
from fault_proxy import Fault, FaultProxy, Lie
from fleet import Member
from network import Network
from solders.pubkey import Pubkey

from forester.chain.programs.addresses import SYSTEM, forester_epoch_address

FAR_SLOTS = 3000
DAY_S = 86_400
_SHIM = Path(__file__).with_name("clock_skew.c")
_POLL_S = 0.5
_PHASE_DEADLINE_S = 300.0


@dataclass(frozen=True)
class HostClock:
    """The clock of a process's machine, set by ``clock_skew.c``; ``folder`` is for its files."""

    folder: Path

    def environment(self) -> dict[str, str]:
        """Return variables for a process whose clock can be set; compile the shim."""
        shim = self.folder / "clock_skew.so"
        compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
        subprocess.run([os.environ.get("CC", compiler), "-O2", "-shared", "-fPIC", "-o", shim, _SHIM], check=True)
        self.set(0)
        return {"LD_PRELOAD": str(shim), "CLOCK_SKEW": str(self._file)}

    def set(self, seconds: int) -> None:
        """Set the clock ahead by this number of seconds from now on."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("=q", seconds))

    @property
    def _file(self) -> Path:
        return self.folder / "clock_skew"


@dataclass
class Stage:
    """A network with fault-injecting proxies in front of its services, and its forester."""

    network: Network
    member: Member
    proxies: dict[str, FaultProxy]
    host: HostClock
    skipped: set[int] = field(default_factory=set)
    """Epochs that a jump of the clock left no time for."""
    awaited: int | None = None
    """An epoch for which the forester must be registered before it has recovered."""

    def registration_of(self, epoch: int) -> Pubkey:
        """Return the address of the forester's account of an epoch."""
        return forester_epoch_address(self.member.derivation.pubkey(), epoch)

    async def is_registered(self, epoch: int) -> bool:
        """Return True if the forester has an account of an epoch."""
        return (await self.network.rpc.accounts([self.registration_of(epoch)]))[0] is not None

    async def next_registered(self) -> int:
        """Wait until we are registered for the coming epoch, whose registration is open; return its number."""
        times, ends = self.network.times, time.monotonic() + _PHASE_DEADLINE_S
        while time.monotonic() < ends:
            slot = await self.network.rpc.slot()
            epoch = times.registering_epoch(slot)
            open_for = times.phases(epoch).registration.remaining(slot)
            if open_for > times.registration_phase_length // 4 and await self.is_registered(epoch):
                return epoch
            await asyncio.sleep(_POLL_S)
        raise TimeoutError("no registration phase was found open")

    def end_faults(self) -> None:
        """End every fault."""
        for each in self.proxies.values():
            each.behave()
        self.host.set(0)
        self.network.net.call("localnet_faults", {"indexerLag": 0})
        if self.member.process is not None:
            self.member.process.send_signal(signal.SIGCONT)


Begin = Callable[[Stage], Awaitable[None]]


@dataclass(frozen=True)
class Case:
    """A fault that lasts ``hold_s`` seconds, 0 for what happens at once; recovery may take ``recover_s``."""

    name: str
    begin: Begin
    hold_s: float = 30.0
    recover_s: float = 90.0


def at_proxy(service: str, *, fault: Fault | None = None, lie: Callable[[], Lie] | None = None) -> Begin:
    """Return a case's beginning: a service misbehaves."""

    async def begin(stage: Stage) -> None:
        stage.proxies[service].show(fault=fault, lie=lie() if lie is not None else None)

    return begin


async def lagging(stage: Stage) -> None:
    """Keep the indexer 40 slots behind, as it reports."""
    await stage.network.call("localnet_faults", {"indexerLag": 40})


async def host_is_ahead(stage: Stage) -> None:
    """Set the machine's clock a day ahead, and at the end back again."""
    stage.host.set(DAY_S)


async def frozen(stage: Stage) -> None:
    """Stop the machine's process, as when a virtual machine is moved or suspended."""
    os.kill(stage.member.pid, signal.SIGSTOP)


async def jumps_over_an_epoch(stage: Stage) -> None:
    """Jump from the registration of an epoch into its active phase: the previous epoch's report is due at once."""
    epoch = await stage.next_registered()
    await stage.network.call("localnet_warp", stage.network.times.phases(epoch).active.first + 5)


async def jumps_far(stage: Stage) -> None:
    """Jump over many epochs: no earlier registration can be reported any more."""
    slot = await stage.network.rpc.slot()
    landing = stage.network.times.registering_epoch(slot + FAR_SLOTS)
    first = stage.network.times.live_epochs(slot)[0]
    stage.skipped |= set(range(first, landing))
    stage.awaited = landing
    await stage.network.call("localnet_warp", stage.network.times.phases(landing).registration.first)


async def registration_vanishes(stage: Stage) -> None:
    """Remove the account of our registration, as after a fork; the case ends when it exists again."""
    epoch = stage.awaited = await stage.next_registered()
    empty = {"lamports": 0, "owner": str(SYSTEM), "data": ""}
    await stage.network.call("localnet_setAccount", str(stage.registration_of(epoch)), empty)


CASES: tuple[Case, ...] = (
    Case("rpc: 429", at_proxy("rpc", fault=fault_proxy.too_many())),
    Case("rpc: 429, Retry-After 5 s", at_proxy("rpc", fault=fault_proxy.too_many("5"))),
    Case("rpc: no answers", at_proxy("rpc", fault=fault_proxy.silent)),
    Case("rpc: connections cut", at_proxy("rpc", fault=fault_proxy.cut)),
    # V1 elements sent at the end of an epoch wait for TX_CACHE_TTL_SECONDS in the next one: 180 s.
    Case("rpc: transactions dropped", at_proxy("rpc", fault=fault_proxy.lost_sends), recover_s=210.0),
    Case("indexer: 429", at_proxy("indexer", fault=fault_proxy.too_many())),
    Case("indexer: no answers", at_proxy("indexer", fault=fault_proxy.silent)),
    Case("indexer: lags", lagging),
    Case("indexer: stale answers", at_proxy("indexer", lie=fault_proxy.Stale)),
    Case("indexer: wrong root", at_proxy("indexer", lie=lambda: fault_proxy.wrong_root)),
    Case("indexer: wrong nodes", at_proxy("indexer", lie=lambda: fault_proxy.wrong_nodes)),
    Case("indexer: wrong leaf", at_proxy("indexer", lie=lambda: fault_proxy.wrong_leaf)),
    Case("indexer: stale sequence", at_proxy("indexer", lie=lambda: fault_proxy.stale_sequence)),
    Case("prover: away", at_proxy("prover", fault=fault_proxy.cut), hold_s=60.0),
    Case("prover: 503", at_proxy("prover", fault=fault_proxy.unavailable), hold_s=60.0),
    Case("prover: 429", at_proxy("prover", fault=fault_proxy.too_many())),
    Case("process: stopped", frozen),
    Case("clock: host a day ahead", host_is_ahead),
    Case("registration vanishes", registration_vanishes, hold_s=0.0, recover_s=180.0),
    Case("clock: over an epoch", jumps_over_an_epoch, hold_s=0.0),
    Case("clock: 15 epochs", jumps_far, hold_s=0.0, recover_s=240.0),
)
