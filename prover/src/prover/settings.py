"""Settings of the prover: environment variables ``PROVER_<GROUP>__<NAME>``, then defaults.

Command-line options override both. All problems are reported together; see ``load_settings``.
"""

import math
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast, get_args, get_origin

from msgspec import DecodeError, Meta, Struct, convert
from msgspec.json import decode
from msgspec.structs import FieldInfo, fields

from prover.errors import SettingsInvalid
from prover.variables import PREFIX, Secret, unknown_names
from shared.process.cpus_and_memory import available_cpus
from shared.process.encoding import NOT_UTF_8, is_utf_8

_KUBERNETES_VARIABLE = "KUBERNETES_SERVICE_HOST"
"""Set in every container of Kubernetes."""
_KUBERNETES_DRAIN_DELAY_S = 5

RunModeName = Literal["local-rpc", "rpc", "forester", "forester-test", "full", "full-test"]
Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
_MAX_PORT = 65535
UNKNOWN_REMEDY = "correct or remove it"
"""Remedy for an unknown variable."""
_LONGEST_S = 10**9
"""Thirty years: milliseconds beyond 64 bits would fail at every use, not at the start."""
Time = Annotated[float, Meta(gt=0, le=_LONGEST_S)]
Gibibytes = Annotated[float, Meta(ge=0, le=2**30)]
"""Below a bound that is beyond all machines, and small enough for the kernel to count in bytes."""

AnyGroup = TypeVar("AnyGroup", bound="Group")
_BOOLEANS = dict.fromkeys(("yes", "y", "on", "t"), True) | dict.fromkeys(("no", "n", "off", "f"), False)
"""Words for true and false besides those of msgspec: true, false, 1 and 0."""


class Group(Struct, frozen=True):
    """Settings with a common prefix."""

    given: frozenset[str] = frozenset()
    """Names of the settings that an option or a variable set."""

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield what bounds of single settings do not say: the name of a setting, empty for the group, and a text."""
        yield from ()


def settings_of(group: type[Group]) -> dict[str, FieldInfo]:
    """Return the types and defaults of a group's settings by their names."""
    return {field.name: field for field in fields(group) if field.name != "given"}


def words_of(kind: Any) -> Iterator[str]:
    """Yield the words that a setting of a type may be; none for a type with other values."""
    for part in get_args(kind):
        if isinstance(part, str):
            yield part
        else:
            yield from words_of(part)


class HttpSettings(Group, frozen=True):
    """The API server."""

    address: str = "0.0.0.0:3001"
    """Address of the API as host:port; without a host all interfaces, of IPv4 and IPv6; port 0 uses a free one."""
    metrics_address: str = "0.0.0.0:9998"
    """Address of Prometheus metrics and probes as host:port."""
    body_limit_bytes: Positive = 16 * 2**20
    """Maximum size of a body; the largest valid one is about 1.5 MB."""
    body_timeout_s: Time = 30
    """Time for a body to arrive."""
    body_memory_bytes: Positive = 256 * 2**20
    """Memory for bodies that have arrived, at least body_limit_bytes. An API key, or without keys an address, gets half
    of it, and at least body_limit_bytes."""
    body_rate_bytes_per_s: Positive = 4096
    """Minimum rate at which a body arrives, in each period of 10 seconds."""
    header_timeout_s: Time = 10
    """Time for the header of a connection's first request, from its first byte."""
    idle_timeout_s: Time = 75
    """Time without a request after which a connection is closed."""
    write_timeout_s: Time = 30
    """Time that an answer may wait for its client to read it, before the connection is closed."""
    connection_limit: Positive = 8192
    """Maximum open connections; more are answered 503 and closed."""
    address_connection_limit: Count = 0
    """Maximum open connections of one address (IPv6: of one /64 network); 0 means half of connection_limit."""
    drain_delay_s: NotNegative | None = None
    """Time to keep serving after a stop signal, while readiness fails, before connections are refused. Unset means 5 in
    Kubernetes, whose load balancers notice late, and otherwise 0."""
    drain_deadline_s: NotNegative = 30
    """Time that running proofs get after that, before they are cancelled."""
    cors_origins: tuple[str, ...] = ()
    """Origins whose web pages may call the API; ``*`` is any, empty none."""
    api_key: Secret = Secret("")
    """API key of the reference (PROVER_API_KEY), with the role ``admin``."""
    api_keys: Secret = Secret("")
    """API keys as NAME=KEY or NAME:admin=KEY, separated by commas or line breaks."""
    api_keys_file: Path | None = None
    """File with one such API key per line; reloaded on change and on SIGHUP."""
    rate_limit_per_s: NotNegative = 0
    """Maximum requests per second of each API key; 0 means no limit."""
    rate_burst: Positive = 20
    """Requests that an API key may send at once after a pause."""
    idempotency_retention_s: Time = 3600
    """Time for which the answer to a request with an Idempotency-Key is kept."""

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield malformed addresses, and a memory for bodies into which a body that is accepted never fits."""
        for name, address in (("address", self.address), ("metrics_address", self.metrics_address)):
            port = re.fullmatch(r".*:(\d{1,5})", address, re.ASCII)
            if port is None or int(port[1]) > _MAX_PORT:
                yield name, f"{address!r} is not an address; write host:port, for example 127.0.0.1:3001"
        if self.body_memory_bytes < self.body_limit_bytes:
            yield "body_memory_bytes", f"must be at least body_limit_bytes ({self.body_limit_bytes})"

    @property
    def serving_after_stop_s(self) -> float:
        """The drain delay, with the default resolved for this process."""
        if self.drain_delay_s is not None:
            return self.drain_delay_s
        return _KUBERNETES_DRAIN_DELAY_S if os.environ.get(_KUBERNETES_VARIABLE) else 0


class KeySettings(Group, frozen=True):
    """Proving keys."""

    directory: Path = Path("proving-keys")
    """Directory of the key files."""
    run_mode: RunModeName | None = None
    """Role of this instance: it proves the circuits of the mode and answers others 503. Unset means every circuit."""
    circuits: str = ""
    """Further circuits that this instance proves: circuit or key names, separated by commas."""
    key_set: Literal["specification", "reference"] = "specification"
    """Table of run modes; that of the reference is wider."""
    preload: Literal["none", "all"] | RunModeName = "none"
    """Keys to load at the start and keep: none, all, or those of a run mode. Others load on first use."""
    preload_circuits: str = ""
    """Further circuits to preload: circuit or key names, separated by commas."""
    memory_gib: Gibibytes = 0
    """Maximum memory of all loaded keys; beyond it the least recently used is unloaded. 0 means half of the total."""
    total_memory_gib: Gibibytes = 0
    """Total memory of this prover (PROVER_TOTAL_MEMORY_GB); 0 means that of the machine or container."""
    auto_download: bool = False
    """Download a missing key on first use."""
    download_url: str = "https://storage.googleapis.com/light-protocol-proving-keys/light-protocol-keys"
    """Base URL of the key files and their CHECKSUM list."""
    download_max_retries: Positive = 10
    """Maximum attempts per file."""
    download_parallel: Annotated[int, Meta(ge=1, le=64)] = 4
    """Maximum files downloaded at once."""
    prepare: bool = True
    """Write a prepared key after loading a key; the next start maps it in milliseconds."""
    prepared_directory: Path | None = None
    """Directory of the prepared keys, which are as large as the keys of batches, and up to four times as large as the
    small ones, whose tables they hold. Unset means ``prepared`` in the keys directory."""
    manifest: Path | None = None
    """File with name, size and SHA-256 of every key; replaces the CHECKSUM list."""

    @property
    def prepared_folder(self) -> Path:
        """Directory of the prepared keys, with the default resolved."""
        return self.prepared_directory or self.directory / "prepared"


class ProvingSettings(Group, frozen=True):
    """The kernel and its limits."""

    threads: Count = 0
    """Kernel threads; 0 means one per CPU available to this process."""
    max_concurrency: Count = 0
    """Maximum proofs computed at once; 0 means one per two CPUs, at least two."""
    waiting_limit: Count = 64
    """Maximum requests that wait for a proof; more are answered 503."""
    merkle_deadline_s: Time = 10
    """Deadline of inclusion, non-inclusion and combined requests, from when their key is loaded."""
    batch_deadline_s: Time = 60
    """Deadline of append, update and address-append requests, from when their key is loaded."""
    key_wait_s: Time = 120
    """Time that a request waits for its key before it is answered 503."""
    working_memory_bytes: Count = 0
    """Maximum memory of proofs in progress, without keys; 0 means half of the total (keys.total_memory_gib)."""

    @property
    def permits(self) -> int:
        """Proofs computed at once, with 0 resolved for this machine."""
        return self.max_concurrency or max(2, available_cpus() // 2)


class QueueSettings(Group, frozen=True):
    """The job queue in Redis. Times are in seconds."""

    url: Secret = Secret("")
    """Address of Redis (REDIS_URL): redis://, rediss:// (TLS), unix:// or redis+sentinel://. Empty means no queue."""
    http: bool = True
    """Serve the HTTP API; without it only metrics and probes are served."""
    workers: bool = True
    """Prove jobs of the queue."""
    slots: Annotated[int, Meta(ge=0, le=100)] = 0
    """Maximum jobs of each circuit proved at once; 0 derives it from the total memory, as the reference, or is 1."""
    depth_limit: Positive = 20_000
    """Maximum jobs that wait in each queue, unless its network has a limit; more are answered 503."""
    require_network: bool = False
    """Answer requests for the queue 400 unless X-Light-Network names their network."""
    max_pending_mainnet: Count = 0
    """Maximum jobs that wait in each queue of mainnet; more are answered 429. 0 means depth_limit."""
    max_pending_devnet: Count = 0
    """Maximum jobs that wait in each queue of devnet; more are answered 429. 0 means depth_limit."""
    memory_limit_bytes: Positive = 8 * 2**30
    """Maximum size of all bodies of waiting and running jobs in each queue; more are answered 503."""
    wait_limit_s: Time = 3600
    """Time after which a job that was not started fails with ``job expired``."""
    request_age_s: Time = 3600
    """Age at which the rest of a request that is not running is removed; at least wait_limit_s."""
    failure_age_s: Time = 3600
    """Age at which failed jobs are removed."""
    failure_limit: Positive = 50_000
    """Maximum failed and cancelled jobs that are kept; beyond it the oldest are removed early."""
    result_age_s: Time = 3600
    """Age at which results are removed."""
    attempts: Annotated[int, Meta(ge=1, le=100)] = 3
    """Attempts after which a job fails."""
    lease_s: Annotated[float, Meta(ge=1, le=_LONGEST_S)] = 10
    """Time without a heartbeat after which a job goes to another worker."""
    heartbeat_s: Time = 2.5
    """Interval of a worker's heartbeats."""
    job_deadline_s: Time = 1800
    """Deadline of one attempt at a job, including the time to load its key."""
    sweep_stuck_s: Time = 10
    """Interval at which jobs of dead workers are requeued."""
    sweep_requests_s: Time = 600
    """Interval at which old requests are removed."""
    sweep_failures_s: Time = 1800
    """Interval at which old failed jobs are removed."""
    sweep_results_s: Time = 1800
    """Interval at which old results are removed."""
    poll_s: Annotated[float, Meta(ge=0.01)] = 0.1
    """Interval at which a worker with a free slot polls for a job."""
    connection_limit: Annotated[int, Meta(ge=4)] = 64
    """Maximum connections of this instance to Redis."""
    timeout_s: Time = 5
    """Time for Redis to accept a connection or to answer."""

    def depth_limit_of(self, network: str | None) -> int:
        """Return the maximum waiting jobs in each queue of a network; None for the queues without one."""
        own = {"mainnet": self.max_pending_mainnet, "devnet": self.max_pending_devnet}.get(network or "")
        return own or self.depth_limit

    def slots_of(self, total_memory_gib: float) -> int:
        """Return the jobs of each queue proved at once, with 0 resolved by the reference's rule; 0 GiB is unknown."""
        return self.slots or min(100, max(1, int((total_memory_gib - 20) // 15 // 3)))

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield pairs of settings that exclude each other."""
        if self.heartbeat_s * 2 > self.lease_s:
            yield "", "heartbeat_s must be at most half of lease_s"
        elif not self.http and not self.url:
            yield "", "an instance without the API needs a queue; pass --redis-url or set REDIS_URL"
        elif not self.http and not self.workers:
            yield "", "an instance without the API and without workers does nothing; enable one of them"


class LogSettings(Group, frozen=True):
    """Logs."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Minimum level of lines that are written."""
    json_lines: bool | None = None
    """Log format: true is JSON lines, false columns. Unset means columns on a terminal, JSON lines elsewhere."""


class DeviceSettings(Group, frozen=True):
    """Devices that compute proofs. The variables have no group: PROVER_DEVICE, PROVER_CUDA_LIBRARY and so on."""

    device: str = "cpu"
    """``cpu``; ``cuda``, all GPUs; ``cuda:N``, one GPU; or ``auto``, which uses the CPU if no GPU is usable."""
    cuda_devices: str = ""
    """Indices of the GPUs that compute proofs, separated by commas; empty means all."""
    cuda_library: Path | None = None
    """CUDA library; unset means libgroth16_cuda.so next to the kernel."""
    cuda_memory_gib: Gibibytes = 0
    """Maximum memory of each GPU for keys and proofs; 0 means nine tenths of what is free at the start."""
    cuda_batch: Annotated[int, Meta(ge=1, le=1024)] = 64
    """Maximum proofs of a small circuit that a GPU computes together; 1 computes each alone."""

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield names of devices that are malformed or exclude each other."""
        if not re.fullmatch(r"(cpu|auto|cuda(:\d{1,3})?)?", self.device, re.ASCII):
            yield "device", f"{self.device!r} is not cpu, cuda, cuda:N or auto"
        indices = [word.strip() for word in self.cuda_devices.split(",")] if self.cuda_devices.strip() else []
        if any(not re.fullmatch(r"\d{1,3}", index, re.ASCII) for index in indices):
            yield "cuda_devices", f"{self.cuda_devices!r} is not a list of indices; write 0 or 0,1"
        elif len(set(map(int, indices))) != len(indices):
            yield "cuda_devices", f"{self.cuda_devices!r} names a GPU twice; name each once"
        elif indices and ":" in self.device:
            yield "cuda_devices", f"--device {self.device} already names its GPU; remove one of the two"

    @property
    def policy(self) -> Literal["cpu", "cuda", "auto"]:
        """The device without its index."""
        return cast("Literal['cpu', 'cuda', 'auto']", self.device.partition(":")[0] or "cpu")

    @property
    def indices(self) -> tuple[int, ...]:
        """The GPUs that were named; none if all are meant."""
        named = self.device.partition(":")[2] or self.cuda_devices
        return tuple(int(index) for index in named.split(",") if index.strip())


class Settings(DeviceSettings, frozen=True):
    """All settings; frozen."""

    http: HttpSettings = HttpSettings()
    keys: KeySettings = KeySettings()
    proving: ProvingSettings = ProvingSettings()
    queue: QueueSettings = QueueSettings()
    log: LogSettings = LogSettings()


_GROUPS = {
    name: type(field.default) for name, field in settings_of(Settings).items() if isinstance(field.default, Group)
}
_VARIABLES = {f"{PREFIX}{name}".upper() for name in settings_of(DeviceSettings)} | {
    f"{PREFIX}{name}__{setting}".upper() for name, group in _GROUPS.items() for setting in settings_of(group)
}


def load_settings(overrides: Mapping[str, Any] | None = None) -> Settings:
    """Read the settings; ``overrides`` are groups of values from the command line, and values without a group.

    Raises SettingsInvalid that lists every problem with its variable. A variable of a group that means nothing is one:
    no other program sets such, and one that was meant to restrict access must not be ignored.
    """
    groups = [name.upper() for name in _GROUPS]
    variables = os.environ.items()
    grouped = {name: text for name, text in variables if name.upper().removeprefix(PREFIX).partition("__")[0] in groups}
    if misspelt := list(unknown_names(grouped, _VARIABLES)):
        raise SettingsInvalid(f"{'; '.join(misspelt)}; {UNKNOWN_REMEDY}")
    # An empty variable without a group is not set.
    return _checked(Settings, overrides or {}, {name.upper(): text for name, text in variables if text or "__" in name})


def device_settings(**values: object) -> DeviceSettings:
    """Return the settings of the devices; None and empty mean not given. Raises SettingsInvalid."""
    return _checked(DeviceSettings, {name: value for name, value in values.items() if value != ""}, {})


def unknown_variables() -> list[str]:
    """Return one sentence per unknown environment variable with our prefix."""
    return list(unknown_names(os.environ, _VARIABLES))


def _checked(group: type[AnyGroup], values: Mapping[str, Any], texts: Mapping[str, str]) -> AnyGroup:
    problems: dict[str, str] = {}
    made = _read(group, values, texts, PREFIX, problems)
    if problems:
        raise SettingsInvalid("; ".join(f"{name}: {text}" for name, text in problems.items()), names=tuple(problems))
    return made


def _read(
    group: type[AnyGroup], values: Mapping[str, Any], texts: Mapping[str, str], prefix: str, problems: dict[str, str]
) -> AnyGroup:
    """Return a group of values by name, then texts by variable, then defaults; adds problems by variable."""
    known, found = settings_of(group), dict[str, Any]()
    wrong = {f"{prefix}{name}".upper(): "is not a setting of the prover" for name in values.keys() - known}
    for name, field in known.items():
        variable = f"{prefix}{name}".upper()
        if isinstance(field.default, Group):
            found[name] = _read(type(field.default), values.get(name) or {}, texts, f"{variable}__", problems)
        elif (value := values.get(name, texts.get(variable))) is not None:
            try:
                found[name] = _converted(value, field.type)
            except DecodeError as error:
                wrong[variable] = _explained(error, field.type)
    made = group(**found, given=frozenset(found))
    problems |= wrong or {f"{prefix}{name}".upper().removesuffix("__"): text for name, text in made.contradictions()}
    return made


def _explained(error: DecodeError, kind: Any) -> str:
    if words := ", ".join(words_of(kind)):
        return f"expected one of {words}"
    return re.sub(r"`| \| null|, got .*", "", str(error)).replace("Expected", "expected")


def _converted(value: object, kind: Any) -> object:
    """Return a value, or what a text means, as a type of a setting. Raises DecodeError."""
    if not is_utf_8(value):
        raise DecodeError(NOT_UTF_8)
    if isinstance(value, str) and get_origin(kind) is tuple:
        try:
            value = decode(value)
        except DecodeError:
            raise DecodeError('not JSON; write a list as ["a", "b"]') from None
    elif isinstance(value, str) and bool in (kind, *get_args(kind)):
        value = _BOOLEANS.get(value.lower(), value)
    found = convert(value, kind, strict=False, dec_hook=lambda wanted, text: wanted(text))
    if found is None:
        raise DecodeError("null is no value; leave the variable out")
    if isinstance(found, float) and not math.isfinite(found):
        raise DecodeError("Expected finite number")
    return found
