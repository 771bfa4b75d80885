"""Checks of the selected keys: installed, and within disk and memory of this machine."""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path

from prover.cli.checks.machine import existing_parent
from prover.cli.checks.result import CheckResult, Status
from prover.errors import SettingsInvalid
from prover.http.state import working_memory_bytes
from prover.kernel.engine import Engine
from prover.keys.catalogue.circuits import smallest_first
from prover.keys.catalogue.key_estimates import file_bytes, resident_bytes, scratch_bytes
from prover.keys.catalogue.selection import CircuitSelection
from prover.keys.files.key_folder import UNREADABLE_REMEDY, keys_of_folder
from prover.keys.files.memory_budget import key_budget_bytes
from prover.keys.prepared.prepared_keys import path_of
from prover.keys.verify import known_files
from prover.settings import KeySettings, ProvingSettings
from prover.units import gibibytes
from shared.process.cpus_and_memory import available_cpus
from shared.requests.circuit_id import CircuitId

_MAX_NAMES = 5


def key_checks(
    settings: KeySettings, proving: ProvingSettings, selection: CircuitSelection, required: Sequence[CircuitId] = ()
) -> Iterator[CheckResult]:
    """Check the folder of the keys, the presence of the selected ones, and disk and memory for them.

    Where nothing is excluded, the selected keys are those of the folder and the ``required``, which are preloaded.
    """
    yield check_folder(settings)
    found = keys_of_folder(settings.directory)
    for entry in found.unreadable.values():
        yield CheckResult("keys", Status.WARNING, f"{entry.path.name} is {entry.fault}", UNREADABLE_REMEDY)
    installed = found.files
    selected = selection.published() if selection.is_restricted else smallest_first({*installed, *required})
    missing = [circuit for circuit in selected if circuit not in installed]
    yield check_presence(settings, selected, missing)
    yield check_sizes(settings, {circuit: installed[circuit] for circuit in selected if circuit in installed})
    if selected:
        yield check_key_disk(settings, missing)
        yield check_key_memory(settings, selected)
        yield check_working_memory(proving, settings, selected)
    if required:
        yield check_preload_memory(settings, required, installed)


def check_folder(settings: KeySettings) -> CheckResult:
    """Check that the folder can be read, and written if keys are downloaded."""
    folder = settings.directory
    if not folder.is_dir():
        status = Status.WARNING if settings.auto_download else Status.FAILURE
        return CheckResult(
            "keys directory", status, f"{folder} does not exist", "create it or choose another --keys-dir"
        )
    if not os.access(folder, os.R_OK | os.X_OK):
        return CheckResult("keys directory", Status.FAILURE, f"{folder} cannot be read", "check its permissions")
    if settings.auto_download and not os.access(folder, os.W_OK):
        hint = "check its permissions; --auto-download writes keys to it"
        return CheckResult("keys directory", Status.FAILURE, f"{folder} cannot be written", hint)
    return CheckResult("keys directory", Status.OK, str(folder))


def check_presence(settings: KeySettings, selected: list[CircuitId], missing: list[CircuitId]) -> CheckResult:
    """Check that the selected keys are installed."""
    if not selected:
        status = Status.WARNING if settings.auto_download else Status.FAILURE
        detail = f"no proving keys in {settings.directory}"
        hint = f"run `prover download --run-mode MODE --keys-dir {settings.directory}`"
        return CheckResult("keys", status, detail, hint)
    detail = f"{len(selected) - len(missing)} of {len(selected)} are installed"
    if not missing:
        return CheckResult("keys", Status.OK, detail)
    names = ", ".join(circuit.key_file for circuit in missing[:_MAX_NAMES])
    more = f" and {len(missing) - _MAX_NAMES} more" if len(missing) > _MAX_NAMES else ""
    detail += f"; proving key file not found: {names}{more}"
    if settings.auto_download:
        return CheckResult(
            "keys", Status.WARNING, detail, "missing keys are downloaded on first use, which then takes longer"
        )
    return CheckResult(
        "keys", Status.FAILURE, detail, "run `prover download` with the same options, or use --auto-download"
    )


def check_sizes(settings: KeySettings, present: dict[CircuitId, Path]) -> CheckResult:
    """Compare sizes with the lists that contain them."""
    try:
        known = known_files(settings.directory, settings.manifest)
    except SettingsInvalid as error:
        return CheckResult("key sizes", Status.FAILURE, error.detail, "remove the list or download it again")
    wrong = []
    for path in present.values():
        expected, size = known.get(path.name), path.stat().st_size
        if not size or (expected is not None and expected.size not in (None, size)):
            wrong.append(f"{path.name} has {size} bytes")
    if wrong:
        return CheckResult("key sizes", Status.FAILURE, "; ".join(wrong), "remove the file and download it again")
    return CheckResult("key sizes", Status.OK, "as published, where known; `prover keys verify` also compares digests")


def check_key_disk(settings: KeySettings, missing: list[CircuitId]) -> CheckResult:
    """Check that the missing keys and their prepared keys fit on the disk."""
    need = sum(map(file_bytes, missing))
    if settings.prepare:
        need += sum(map(resident_bytes, missing))
    free = shutil.disk_usage(existing_parent(settings.directory)).free
    if not missing:
        return CheckResult("disk for keys", Status.OK, f"no key is missing; {gibibytes(free)} are free")
    detail = f"missing keys need up to {gibibytes(need)}; {gibibytes(free)} are free"
    if need > free:
        return CheckResult("disk for keys", Status.FAILURE, detail, "free disk space or choose another --keys-dir")
    return CheckResult("disk for keys", Status.OK, detail)


def check_key_memory(settings: KeySettings, selected: list[CircuitId]) -> CheckResult:
    """Check that the largest selected key fits into the budget, and warn unless all do."""
    budget = key_budget_bytes(settings.memory_gib, settings.total_memory_gib)
    largest = max(selected, key=resident_bytes)
    need, together = resident_bytes(largest), sum(map(resident_bytes, selected))
    detail = (
        f"{largest} takes about {gibibytes(need)}, all keys {gibibytes(together)}; the budget is {gibibytes(budget)}"
    )
    if need > budget:
        hint = "add memory, raise --key-memory-gb, or select smaller circuits"
        return CheckResult("memory for keys", Status.FAILURE, detail, hint)
    if together > budget:
        hint = "keys will be unloaded and loaded again; add memory or select fewer circuits"
        return CheckResult("memory for keys", Status.WARNING, detail, hint)
    return CheckResult("memory for keys", Status.OK, detail)


def check_preload_memory(
    settings: KeySettings, required: Sequence[CircuitId], installed: Mapping[CircuitId, Path]
) -> CheckResult:
    """Check that the preloaded keys, which stay in memory, fit into the budget together; mapped keys do not count."""
    mapped = _prepared_of(settings, {circuit: installed[circuit] for circuit in required if circuit in installed})
    need = sum(resident_bytes(circuit) for circuit in required if circuit not in mapped)
    budget = key_budget_bytes(settings.memory_gib, settings.total_memory_gib)
    detail = (
        f"{len(required)} keys stay in memory; the {len(required) - len(mapped)} that are not prepared take about "
        f"{gibibytes(need)}; the budget is {gibibytes(budget)}"
    )
    if need > budget:
        hint = "preload fewer keys, raise --key-memory-gb, add memory, or run `prover keys prepare` first"
        return CheckResult("memory for preload", Status.FAILURE, detail, hint)
    return CheckResult("memory for preload", Status.OK, detail)


def _prepared_of(settings: KeySettings, present: Mapping[CircuitId, Path]) -> set[CircuitId]:
    if not settings.prepare:
        return set()
    with Engine(1) as engine:
        return {
            circuit for circuit, path in present.items() if path_of(engine, path, settings.prepared_folder).exists()
        }


def check_working_memory(proving: ProvingSettings, keys: KeySettings, selected: list[CircuitId]) -> CheckResult:
    """Check that the largest proof fits into the memory for proofs."""
    budget = working_memory_bytes(proving, keys)
    threads = proving.threads or available_cpus()
    need, largest = max(((scratch_bytes(circuit, threads), circuit) for circuit in selected), key=itemgetter(0))
    detail = f"a proof of {largest} takes about {gibibytes(need)}; the budget is {gibibytes(budget)}"
    if need > budget:
        return CheckResult("memory for proofs", Status.FAILURE, detail, "add memory, or select smaller circuits")
    return CheckResult("memory for proofs", Status.OK, detail)
