"""Checks of machine requirements and of causes of slowness. Facts come from /proc and /sys below a root."""

import errno
import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from prometheus_client import CollectorRegistry

from prover.cli.checks.result import CheckResult, Status
from prover.errors import SettingsInvalid
from prover.http.app import split_address
from prover.kernel.engine import Engine
from prover.observability.metrics import Metrics
from prover.proving.device_selection import open_devices
from prover.proving.devices import DeviceReport
from prover.settings import DeviceSettings
from prover.units import gibibytes
from shared.process.cpus_and_memory import cpu_quota, memory_limit_bytes
from shared.process.listening import listen

MIN_MEMORY_BYTES = 32 * 10**9
MIN_CORES = 16
MIN_DISK_BYTES = 100 * 10**9
"""Recommended minimums of a host that proves every published circuit."""

_MIN_OPEN_FILES = 8192 + 256
"""Connections that the API accepts, and other files that the process opens."""
_ROOT = Path("/")
_ON_CPU = DeviceSettings()
_VIRTUAL_DISKS = ("vd", "xvd", "zram", "loop", "ram", "dm-")
_BACKENDS = {
    "ifma": "AVX-512 IFMA, the fastest arithmetic",
    "avx512": "AVX-512 without IFMA; with it (Intel Ice Lake, AMD Zen 4, and later) proofs would be faster",
    "avx2": "AVX2 and FMA; with AVX-512 IFMA (Intel Ice Lake, AMD Zen 4, and later) proofs would be faster",
    "adx": "ADX and BMI2; AVX-512 IFMA (Intel Ice Lake, AMD Zen 4, and later) would be faster",
    "aarch64": "aarch64, one product at a time; AVX-512 IFMA on x86-64 would be several times faster",
    "portable": "portable C, several times slower than on x86-64 with ADX and BMI2",
}


def machine_checks(keys_dir: Path, root: Path = _ROOT, devices: DeviceSettings = _ON_CPU) -> Iterator[CheckResult]:
    """Check CPUs, memory, disk, limits and GPUs of this machine."""
    yield check_cores(root)
    yield check_arithmetic()
    yield check_memory(memory_limit_bytes(root))
    yield check_disk(keys_dir)
    yield check_rotation(keys_dir, root)
    yield check_open_files()
    yield check_gpu(root, devices)


def check_cores(root: Path = _ROOT) -> CheckResult:
    """Compare the CPUs that this process may use with the recommended minimum."""
    cores = len(os.sched_getaffinity(0))
    quota = cpu_quota(root)
    usable = min(cores, quota) if quota is not None else cores
    limited = f", of which the control group grants {quota:g}" if quota is not None and quota < cores else ""
    detail = f"{cores} CPUs{limited}; {MIN_CORES} are recommended"
    if limited:
        return CheckResult("processors", Status.WARNING, detail, "raise the CPU quota; a throttled prover is slow")
    if usable < MIN_CORES:
        return CheckResult(
            "processors", Status.WARNING, detail, "proofs take longer; use a larger machine in production"
        )
    return CheckResult("processors", Status.OK, detail)


def check_arithmetic() -> CheckResult:
    """Report the arithmetic that the CPU supports."""
    with Engine(1) as engine:
        backend = engine.backend
    detail = _BACKENDS.get(backend, backend)
    if backend == "portable":
        return CheckResult("arithmetic", Status.WARNING, detail, "use a CPU with AVX-512 IFMA, or AVX2 and ADX")
    return CheckResult("arithmetic", Status.OK, detail)


def check_memory(total_bytes: int) -> CheckResult:
    """Compare memory with the recommended minimum."""
    detail = f"{gibibytes(total_bytes)}; 32 GB are recommended, and 64 GB in production"
    if total_bytes < MIN_MEMORY_BYTES:
        return CheckResult(
            "memory", Status.WARNING, detail, "production batches need more: use smaller batches or add memory"
        )
    return CheckResult("memory", Status.OK, detail)


def check_disk(keys_dir: Path) -> CheckResult:
    """Compare the disk of the keys with the recommended minimum."""
    usage = shutil.disk_usage(existing_parent(keys_dir))
    detail = f"{gibibytes(usage.total)}, {gibibytes(usage.free)} free; 100 GB are recommended"
    if usage.total < MIN_DISK_BYTES:
        return CheckResult(
            "disk", Status.WARNING, detail, "all production keys together need more; choose another --keys-dir"
        )
    return CheckResult("disk", Status.OK, detail)


def check_rotation(keys_dir: Path, root: Path = _ROOT) -> CheckResult:
    """Check whether the keys are on a rotating disk."""
    device = existing_parent(keys_dir).stat().st_dev
    block = (root / f"sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    for folder in (block, block.parent):  # a partition has no queue attributes
        try:
            rotates = (folder / "queue/rotational").read_text().strip() == "1"
        except OSError:
            continue
        if rotates and not folder.name.startswith(_VIRTUAL_DISKS):
            detail = f"{folder.name} is a rotating disk"
            return CheckResult(
                "disk kind", Status.WARNING, detail, "keys load slowly from it; put --keys-dir on an SSD"
            )
        return CheckResult("disk kind", Status.OK, f"{folder.name} is {'virtual' if rotates else 'no rotating disk'}")
    return CheckResult("disk kind", Status.INFO, "unknown")


def check_open_files() -> CheckResult:
    """Compare the limit of open files with the connections that the API accepts."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    detail = f"{soft} open files allowed"
    if soft != resource.RLIM_INFINITY and soft < _MIN_OPEN_FILES:
        hint = f"to serve thousands of connections, run ulimit -n {_MIN_OPEN_FILES}, or set LimitNOFILE= in systemd"
        return CheckResult("open files", Status.WARNING, detail, hint)
    return CheckResult("open files", Status.OK, detail)


def check_gpu(root: Path = _ROOT, settings: DeviceSettings = _ON_CPU) -> CheckResult:
    """Report the GPUs known to the driver and, if they are selected for proofs, open them."""
    models = []
    for path in sorted(root.glob("proc/driver/nvidia/gpus/*/information")):
        lines = path.read_text(errors="replace").splitlines()
        models += [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]
    known = ", ".join(models) or "none known to the driver"
    if settings.policy == "cpu":
        return CheckResult("GPU", Status.INFO, f"{known}; proofs are made on the CPU (--device)")
    try:
        with closing(open_devices(settings, Metrics(CollectorRegistry()))) as devices:
            choice, opened = devices.choice, [_described(gpu) for gpu in devices.describe()]
    except SettingsInvalid as error:
        return CheckResult("GPU", Status.FAILURE, f"{known}; {error.detail}", "see prover/docs/how-to/gpu.md")
    if not opened:
        hint = "see prover/docs/how-to/gpu.md, or choose the CPU with --device cpu"
        return CheckResult("GPU", Status.WARNING, f"{known}; {choice.reason}", hint)
    return CheckResult("GPU", Status.OK, "; ".join(opened))


def _described(gpu: DeviceReport) -> str:
    return (
        f"{gpu.device} is {gpu.model}, capability {gpu.capability}, CUDA of the driver {gpu.driver}, "
        f"{gibibytes(gpu.memory_bytes)}, budget {gibibytes(gpu.budget_bytes)}"
    )


def check_address(name: str, address: str, option: str, *, must_be_free: bool = True) -> CheckResult:
    """Check that an address is free."""
    host, port = split_address(address)
    try:
        with listen(host, port):
            pass
    except OSError as error:
        detail = f"cannot listen on {address}: {error.strerror}"
        if not must_be_free and error.errno == errno.EADDRINUSE:
            return CheckResult(
                name, Status.WARNING, detail, f"the prover will use a free port; choose one with {option}"
            )
        hint = f"stop the process that listens there, or choose another address with {option}"
        return CheckResult(name, Status.FAILURE, detail, hint)
    return CheckResult(name, Status.OK, f"{address} is free")


def existing_parent(path: Path) -> Path:
    """Return the nearest folder of a path that exists."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path
