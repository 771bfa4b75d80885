"""Settings of the prover: environment variables ``PROVER_<GROUP>__<NAME>``, then defaults.

Command-line options override both. All problems are reported together; see ``load_settings``.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Self, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from prover.cpu.cpu_count import available_cpus
from prover.errors import SettingsInvalid
from prover.variables import PREFIX, unknown_names

_MAX_GIB = 2**30
"""Beyond all machines, and small enough for the kernel to count in bytes."""

_KUBERNETES_VARIABLE = "KUBERNETES_SERVICE_HOST"
"""Set in every container of Kubernetes."""
_KUBERNETES_DRAIN_DELAY_S = 5

RunModeName = Literal["local-rpc", "rpc", "forester", "forester-test", "full", "full-test"]


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class HttpSettings(_Group):
    """The API server."""

    address: str = "0.0.0.0:3001"
    """Address of the API as host:port; port 0 uses a free one."""
    metrics_address: str = "0.0.0.0:9998"
    """Address of Prometheus metrics and probes as host:port."""
    body_limit_bytes: int = Field(default=16 * 2**20, gt=0)
    """Maximum size of a body; the largest valid one is about 1.5 MB."""
    body_timeout_s: float = Field(default=30, gt=0)
    """Time for a body to arrive."""
    body_memory_bytes: int = Field(default=256 * 2**20, gt=0)
    """Memory for bodies that have arrived; an API key, or without keys an address, gets half of it."""
    body_rate_bytes_per_s: int = Field(default=4096, gt=0)
    """Minimum rate at which a body arrives, in each period of 10 seconds."""
    header_timeout_s: float = Field(default=10, gt=0)
    """Time for the header of a connection's first request, from its first byte."""
    idle_timeout_s: float = Field(default=75, gt=0)
    """Time without a request after which a connection is closed."""
    write_timeout_s: float = Field(default=30, gt=0)
    """Time that an answer may wait for its client to read it, before the connection is closed."""
    connection_limit: int = Field(default=8192, gt=0)
    """Maximum open connections; more are answered 503 and closed."""
    address_connection_limit: int = Field(default=0, ge=0)
    """Maximum open connections of one address (IPv6: of one /64 network); 0 means half of connection_limit."""
    drain_delay_s: float | None = Field(default=None, ge=0)
    """Time to keep serving after a stop signal, while readiness fails, before connections are refused. Unset means 5 in
    Kubernetes, whose load balancers notice late, and otherwise 0."""
    drain_deadline_s: float = Field(default=30, ge=0)
    """Time that running proofs get after that, before they are cancelled."""
    cors_origins: tuple[str, ...] = ()
    """Origins whose web pages may call the API; ``*`` is any, empty none."""
    api_key: SecretStr = SecretStr("")
    """API key of the reference (PROVER_API_KEY), with the role ``admin``."""
    api_keys: SecretStr = SecretStr("")
    """API keys as NAME=KEY or NAME:admin=KEY, separated by commas or line breaks."""
    api_keys_file: Path | None = None
    """File with one such API key per line; reloaded on change and on SIGHUP."""
    rate_limit_per_s: float = Field(default=0, ge=0)
    """Maximum requests per second of each API key; 0 means no limit."""
    rate_burst: int = Field(default=20, gt=0)
    """Requests that an API key may send at once after a pause."""
    idempotency_retention_s: float = Field(default=3600, gt=0)
    """Time for which the answer to a request with an Idempotency-Key is kept."""

    @property
    def serving_after_stop_s(self) -> float:
        """The drain delay, with the default resolved for this process."""
        if self.drain_delay_s is not None:
            return self.drain_delay_s
        return _KUBERNETES_DRAIN_DELAY_S if os.environ.get(_KUBERNETES_VARIABLE) else 0


class KeySettings(_Group):
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
    memory_gib: float = Field(default=0, ge=0, le=_MAX_GIB)
    """Maximum memory of all loaded keys; beyond it the least recently used is unloaded. 0 means half of the total."""
    total_memory_gib: float = Field(default=0, ge=0, le=_MAX_GIB)
    """Total memory of this prover (PROVER_TOTAL_MEMORY_GB); 0 means that of the machine or container."""
    auto_download: bool = False
    """Download a missing key on first use."""
    download_url: str = "https://storage.googleapis.com/light-protocol-proving-keys/light-protocol-keys"
    """Base URL of the key files and their CHECKSUM list."""
    download_max_retries: int = Field(default=10, ge=1)
    """Maximum attempts per file."""
    download_parallel: int = Field(default=4, ge=1, le=64)
    """Maximum files downloaded at once."""
    prepare: bool = True
    """Write a prepared key after loading a key; the next start maps it in milliseconds."""
    prepared_directory: Path | None = None
    """Directory of the prepared keys, about as large as the keys. Unset means ``prepared`` in the keys directory."""
    manifest: Path | None = None
    """File with name, size and SHA-256 of every key; replaces the CHECKSUM list."""

    @property
    def prepared_folder(self) -> Path:
        """Directory of the prepared keys, with the default resolved."""
        return self.prepared_directory or self.directory / "prepared"


class ProvingSettings(_Group):
    """The kernel and its limits."""

    threads: int = Field(default=0, ge=0)
    """Kernel threads; 0 means one per CPU available to this process."""
    max_concurrency: int = Field(default=0, ge=0)
    """Maximum proofs computed at once; 0 means one per two CPUs, at least two."""
    waiting_limit: int = Field(default=64, ge=0)
    """Maximum requests that wait for a proof; more are answered 503."""
    merkle_deadline_s: float = Field(default=10, gt=0)
    """Deadline of inclusion, non-inclusion and combined requests, from when their key is loaded."""
    batch_deadline_s: float = Field(default=60, gt=0)
    """Deadline of append, update and address-append requests, from when their key is loaded."""
    key_wait_s: float = Field(default=120, gt=0)
    """Time that a request waits for its key before it is answered 503."""
    working_memory_bytes: int = Field(default=0, ge=0)
    """Maximum memory of proofs in progress, without keys; 0 means half of the machine's or container's memory."""

    @property
    def permits(self) -> int:
        """Proofs computed at once, with 0 resolved for this machine."""
        return self.max_concurrency or max(2, available_cpus() // 2)


class QueueSettings(_Group):
    """The job queue in Redis. Times are in seconds."""

    url: SecretStr = SecretStr("")
    """Address of Redis (REDIS_URL): redis://, rediss:// (TLS), unix:// or redis+sentinel://. Empty means no queue."""
    http: bool = True
    """Serve the HTTP API; without it only metrics and probes are served."""
    workers: bool = True
    """Prove jobs of the queue."""
    slots: int = Field(default=0, ge=0, le=100)
    """Maximum jobs of each circuit proved at once; 0 derives it from the total memory, as the reference, or is 1."""
    depth_limit: int = Field(default=20_000, gt=0)
    """Maximum jobs that wait in each queue; more are answered 503."""
    require_network: bool = False
    """Answer requests for the queue 400 unless X-Light-Network names their network."""
    max_pending_mainnet: int = Field(default=0, ge=0)
    """Maximum jobs that wait in each queue of mainnet; more are answered 429. 0 means depth_limit."""
    max_pending_devnet: int = Field(default=0, ge=0)
    """Maximum jobs that wait in each queue of devnet; more are answered 429. 0 means depth_limit."""
    memory_limit_bytes: int = Field(default=8 * 2**30, gt=0)
    """Maximum size of all bodies of waiting and running jobs in each queue; more are answered 503."""
    wait_limit_s: float = Field(default=3600, gt=0)
    """Time after which a job that was not started fails with ``job expired``."""
    request_age_s: float = Field(default=3600, gt=0)
    """Age at which the rest of a request that is not running is removed."""
    failure_age_s: float = Field(default=3600, gt=0)
    """Age at which failed jobs are removed."""
    failure_limit: int = Field(default=50_000, ge=1)
    """Maximum failed and cancelled jobs that are kept; beyond it the oldest are removed early."""
    result_age_s: float = Field(default=3600, gt=0)
    """Age at which results are removed."""
    attempts: int = Field(default=3, ge=1, le=100)
    """Attempts after which a job fails."""
    lease_s: float = Field(default=10, ge=1)
    """Time without a heartbeat after which a job goes to another worker."""
    heartbeat_s: float = Field(default=2.5, gt=0)
    """Interval of a worker's heartbeats."""
    job_deadline_s: float = Field(default=1800, gt=0)
    """Deadline of one attempt at a job, including the time to load its key."""
    sweep_stuck_s: float = Field(default=10, gt=0)
    """Interval at which jobs of dead workers are requeued."""
    sweep_requests_s: float = Field(default=600, gt=0)
    """Interval at which old requests are removed."""
    sweep_failures_s: float = Field(default=1800, gt=0)
    """Interval at which old failed jobs are removed."""
    sweep_results_s: float = Field(default=1800, gt=0)
    """Interval at which old results are removed."""
    poll_s: float = Field(default=0.1, ge=0.01)
    """Interval at which a worker with a free slot polls for a job."""
    connection_limit: int = Field(default=64, ge=4)
    """Maximum connections of this instance to Redis."""
    timeout_s: float = Field(default=5, gt=0)
    """Time for Redis to accept a connection or to answer."""

    def slots_of(self, total_memory_gib: float) -> int:
        """Return the jobs of each queue proved at once, with 0 resolved by the reference's rule; 0 GiB is unknown."""
        return self.slots or min(100, max(1, int((total_memory_gib - 20) // 15 // 3)))

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.heartbeat_s * 2 > self.lease_s:
            raise ValueError("heartbeat_s must be at most half of lease_s")
        if not self.http and not self.url:
            raise ValueError("an instance without the API needs a queue; pass --redis-url or set REDIS_URL")
        if not self.http and not self.workers:
            raise ValueError("an instance without the API and without workers does nothing; enable one of them")
        return self


class LogSettings(_Group):
    """Logs."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Minimum level of lines that are written."""
    json_lines: bool | None = None
    """Log format: true is JSON lines, false columns. Unset means columns on a terminal, JSON lines elsewhere."""


class DeviceSettings(_Group):
    """Devices that compute proofs. The variables have no group: PROVER_DEVICE, PROVER_CUDA_LIBRARY and so on."""

    device: str = "cpu"
    """``cpu``; ``cuda``, all GPUs; ``cuda:N``, one GPU; or ``auto``, which uses the CPU if no GPU is usable."""
    cuda_devices: str = ""
    """Indices of the GPUs that compute proofs, separated by commas; empty means all."""
    cuda_library: Path | None = None
    """CUDA library; unset means libgroth16_cuda.so next to the kernel."""
    cuda_memory_gib: float = Field(default=0, ge=0, le=_MAX_GIB)
    """Maximum memory of each GPU for keys and proofs; 0 means nine tenths of what is free at the start."""
    cuda_batch: int = Field(default=64, ge=1, le=1024)
    """Maximum proofs of a small circuit that a GPU computes together; 1 computes each alone."""

    @field_validator("device")
    @classmethod
    def _known(cls, text: str) -> str:
        if not re.fullmatch(r"(cpu|auto|cuda(:\d{1,3})?)?", text, re.ASCII):
            raise ValueError(f"{text!r} is not cpu, cuda, cuda:N or auto")
        return text or "cpu"

    @field_validator("cuda_devices")
    @classmethod
    def _named_once(cls, text: str, info: ValidationInfo) -> str:
        indices = [word.strip() for word in text.split(",")] if text.strip() else []
        if any(not re.fullmatch(r"\d{1,3}", index, re.ASCII) for index in indices):
            raise ValueError(f"{text!r} is not a list of indices; write 0 or 0,1")
        if len(set(map(int, indices))) != len(indices):
            raise ValueError(f"{text!r} names a GPU twice; name each once")
        if indices and ":" in info.data.get("device", ""):
            raise ValueError(f"--device {info.data['device']} already names its GPU; remove one of the two")
        return ",".join(indices)

    @field_validator("cuda_library", mode="before")
    @classmethod
    def _unset(cls, path: object) -> object:
        return path or None

    @property
    def policy(self) -> Literal["cpu", "cuda", "auto"]:
        """The device without its index."""
        return cast("Literal['cpu', 'cuda', 'auto']", self.device.partition(":")[0])

    @property
    def indices(self) -> tuple[int, ...]:
        """The GPUs that were named; none if all are meant."""
        named = self.device.partition(":")[2] or self.cuda_devices
        return tuple(int(index) for index in named.split(",") if index)


class Settings(DeviceSettings, BaseSettings):
    """All settings; frozen."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", frozen=True, extra="ignore", allow_inf_nan=False
    )

    http: HttpSettings = HttpSettings()
    keys: KeySettings = KeySettings()
    proving: ProvingSettings = ProvingSettings()
    queue: QueueSettings = QueueSettings()
    log: LogSettings = LogSettings()


def load_settings(overrides: Mapping[str, Mapping[str, Any] | object] | None = None) -> Settings:
    """Read the settings; ``overrides`` are groups of values from the command line, and values without a group.

    Raises SettingsInvalid that lists every problem with its variable. A variable of a group that means nothing is one:
    no other program sets such, and one that was meant to restrict access must not be ignored.
    """
    grouped = {name: value for name, value in os.environ.items() if _is_of_group(name)}
    if misspelt := list(unknown_names(grouped, _known_variables())):
        raise SettingsInvalid(f"{'; '.join(misspelt)}; correct or remove it")
    given = {
        name: dict(values) if isinstance(values, Mapping) else values
        for name, values in (overrides or {}).items()
        if values not in ({}, None)
    }
    with _explained():
        settings: Settings = cast("Any", Settings)(**given)
    return settings


def device_settings(**values: object) -> DeviceSettings:
    """Return the settings of the devices; None means not given. Raises SettingsInvalid."""
    with _explained():
        return DeviceSettings.model_validate({name: value for name, value in values.items() if value is not None})


@contextmanager
def _explained() -> Iterator[None]:
    """Turn validation errors in the block into SettingsInvalid."""
    try:
        yield
    except ValidationError as error:
        names = [f"{PREFIX}{'__'.join(str(part) for part in item['loc']).upper()}" for item in error.errors()]
        problems = "; ".join(f"{name}: {item['msg']}" for name, item in zip(names, error.errors(), strict=True))
        raise SettingsInvalid(problems, names=tuple(names)) from error
    except SettingsError as error:  # names only the group
        group = re.search(r'field "(\w+)"', str(error))
        raise SettingsInvalid(
            f'{PREFIX}{group[1].upper() if group else ""}…: a value is not JSON; write a list as ["a", "b"]'
        ) from error


def unknown_variables() -> list[str]:
    """Return one sentence per unknown environment variable with our prefix."""
    return list(unknown_names(os.environ, _known_variables()))


def _groups() -> dict[str, type[BaseModel]]:
    fields = Settings.model_fields.items()
    return {group: type(field.default) for group, field in fields if isinstance(field.default, BaseModel)}


def _is_of_group(variable: str) -> bool:
    name = variable.lower()
    return name.startswith(PREFIX.lower()) and name.removeprefix(PREFIX.lower()).partition("__")[0] in _groups()


def _known_variables() -> set[str]:
    grouped = {f"{PREFIX}{group}__{name}".upper() for group, model in _groups().items() for name in model.model_fields}
    return grouped | {f"{PREFIX}{name}".upper() for name in DeviceSettings.model_fields}
