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

from prover.errors import SettingsInvalid
from prover.processors import available_processors
from prover.variables import PREFIX, unknown_names

_MOST_GIB = 2**30
"""Beyond all machines, and small enough for the kernel to count in bytes."""

RunModeName = Literal["local-rpc", "rpc", "forester", "forester-test", "full", "full-test"]


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class HttpSettings(_Group):
    """The API server."""

    address: str = "0.0.0.0:3001"
    """Where the API listens, as host:port; port 0 takes a free one."""
    metrics_address: str = "0.0.0.0:9998"
    """Where Prometheus metrics and probes are served, as host:port."""
    body_limit_bytes: int = Field(default=16 * 2**20, gt=0)
    """Largest accepted body; the largest honest one is about 1.5 MB."""
    body_timeout_s: float = Field(default=30, gt=0)
    """How long a body may take to arrive."""
    body_memory_bytes: int = Field(default=256 * 2**20, gt=0)
    """Memory for bodies that are being received or read; more are refused with 503."""
    header_timeout_s: float = Field(default=10, gt=0)
    """How long the header of a connection's first request may take from its first byte."""
    idle_timeout_s: float = Field(default=75, gt=0)
    """How long a connection may be without a request before it is closed."""
    connection_limit: int = Field(default=8192, gt=0)
    """Open connections; more are answered 503 and closed."""
    drain_delay_s: float = Field(default=0, ge=0)
    """How long to go on serving after a stop signal, with readiness failing, before connections are refused."""
    drain_deadline_s: float = Field(default=30, ge=0)
    """How long running proofs may take after that before they are cancelled."""
    cors_origins: tuple[str, ...] = ()
    """Origins whose pages may call the API; ``*`` is any. Empty switches CORS off."""
    api_key: SecretStr = SecretStr("")
    """The one API key of the reference (PROVER_API_KEY), with the role of an administrator."""
    api_keys: SecretStr = SecretStr("")
    """API keys as NAME=KEY or NAME:admin=KEY, separated by commas or line breaks."""
    api_keys_file: Path | None = None
    """File with one such API key per line; read again when it changes or on SIGHUP."""
    rate_limit_per_s: float = Field(default=0, ge=0)
    """Requests per second that each API key may send; 0 is no limit."""
    rate_burst: int = Field(default=20, gt=0)
    """Requests that an API key may send at once after a pause."""
    idempotency_retention_s: float = Field(default=3600, gt=0)
    """How long the answer to a request with an Idempotency-Key is kept."""


class KeySettings(_Group):
    """Proving keys."""

    directory: Path = Path("proving-keys")
    """Folder with the key files."""
    run_mode: RunModeName | None = None
    """Role of this instance: the circuits of the mode are proved, others answered 503. Unset: every circuit."""
    circuits: str = ""
    """More circuits that are proved: names of kinds or of keys, separated by commas."""
    key_set: Literal["specification", "reference"] = "specification"
    """Whose table of run modes holds; the reference's is wider."""
    preload: Literal["none", "all"] | RunModeName = "none"
    """Keys loaded at the start and kept: none, all, or those of a run mode. Others are loaded on first use."""
    preload_circuits: str = ""
    """More keys loaded at the start: names of kinds or of keys, separated by commas."""
    memory_gib: float = Field(default=0, ge=0, le=_MOST_GIB)
    """Memory of loaded keys together; the key unused for longest leaves. 0 means half of the total."""
    total_memory_gib: float = Field(default=0, ge=0, le=_MOST_GIB)
    """Memory of this prover in all (PROVER_TOTAL_MEMORY_GB); 0 means that of the machine or container."""
    auto_download: bool = False
    """Whether a missing key is downloaded on first use."""
    download_url: str = "https://storage.googleapis.com/light-protocol-proving-keys/light-protocol-keys"
    """Folder of the key files and their CHECKSUM list."""
    download_max_retries: int = Field(default=10, ge=1)
    """Attempts per file."""
    download_parallel: int = Field(default=4, ge=1, le=64)
    """Files downloaded at once."""
    prepare: bool = True
    """Whether a key that was loaded is written in its prepared form, which the next start maps at once."""
    prepared_directory: Path | None = None
    """Folder of the prepared keys, about as large as the keys; unset: ``prepared`` in the keys directory."""
    manifest: Path | None = None
    """File with name, size and SHA-256 of every key, in place of the CHECKSUM list."""

    @property
    def prepared_folder(self) -> Path:
        """Folder of the prepared keys, with the default resolved."""
        return self.prepared_directory or self.directory / "prepared"


class ProvingSettings(_Group):
    """The kernel and its use."""

    threads: int = Field(default=0, ge=0)
    """Kernel threads; 0 means one per processor available to this process."""
    share_processors: bool = True
    """Whether provers of one user that prove on this host at the same moment divide its processors among them."""
    share_directory: Path = Path("/dev/shm")  # noqa: S108 - what is made there is checked for its owner
    """Where the lock file lies by which they count each other: in a folder of its own, ``prover-processors-<uid>``."""
    max_concurrency: int = Field(default=0, ge=0)
    """Proofs computed at once; 0 means one per two processors, at least two."""
    waiting_limit: int = Field(default=64, ge=0)
    """Requests that may wait for a permit before further ones are refused with 503."""
    merkle_deadline_s: float = Field(default=10, gt=0)
    """Limit for inclusion, non-inclusion and combined requests once their key is loaded."""
    batch_deadline_s: float = Field(default=60, gt=0)
    """Limit for append, update and address-append requests once their key is loaded."""
    key_wait_s: float = Field(default=120, gt=0)
    """How long a request may wait for its key to be loaded before it is answered 503."""
    working_memory_bytes: int = Field(default=0, ge=0)
    """Memory for proofs in progress, keys not counted; 0 means half of the machine's or container's memory."""

    @property
    def permits(self) -> int:
        """Proofs computed at once, with 0 resolved for this machine."""
        return self.max_concurrency or max(2, available_processors() // 2)


class QueueSettings(_Group):
    """The job queue in Redis. Times without another word are seconds."""

    url: SecretStr = SecretStr("")
    """Where Redis is (REDIS_URL): redis://, rediss:// (TLS), unix://, or redis+sentinel://; empty is no queue."""
    http: bool = True
    """Whether this instance has the HTTP API; without it only metrics and probes are served."""
    workers: bool = True
    """Whether this instance proves jobs of the queue."""
    slots: int = Field(default=0, ge=0, le=100)
    """Jobs of each lane proved at once; 0 follows from the total memory, as in the reference, or is 1."""
    depth_limit: int = Field(default=20_000, gt=0)
    """Jobs that may wait in a lane before further ones are refused with 503."""
    memory_limit_bytes: int = Field(default=8 * 2**30, gt=0)
    """Bodies of waiting and running jobs of a lane together, before further ones are refused with 503."""
    wait_limit_s: float = Field(default=600, gt=0)
    """A job that was not started for so long fails with ``job expired``."""
    request_age_s: float = Field(default=3600, gt=0)
    """Age at which what remains of a request that is not being worked on is removed."""
    failure_age_s: float = Field(default=3600, gt=0)
    """Age at which failed jobs are removed."""
    failure_limit: int = Field(default=50_000, ge=1)
    """Failed and cancelled jobs that are kept at most; the oldest go before their time."""
    result_age_s: float = Field(default=3600, gt=0)
    """Age at which results are removed."""
    attempts: int = Field(default=3, ge=1, le=100)
    """How often a job is begun before it fails for good."""
    lease_s: float = Field(default=10, ge=1)
    """A job whose worker gave no sign of life for so long is given to another."""
    heartbeat_s: float = Field(default=2.5, gt=0)
    """How often a worker gives signs of life."""
    job_deadline_s: float = Field(default=1800, gt=0)
    """Limit for one attempt at a job, loading its key included."""
    sweep_stuck_s: float = Field(default=10, gt=0)
    """How often jobs whose worker is gone are put back."""
    sweep_requests_s: float = Field(default=600, gt=0)
    """How often old requests are removed."""
    sweep_failures_s: float = Field(default=1800, gt=0)
    """How often old failed jobs are removed."""
    sweep_results_s: float = Field(default=1800, gt=0)
    """How often old results are removed."""
    poll_s: float = Field(default=0.1, ge=0.01)
    """How often a worker with a free slot looks for a job."""
    connection_limit: int = Field(default=64, ge=4)
    """Connections of this instance to Redis."""
    timeout_s: float = Field(default=5, gt=0)
    """How long Redis may take to accept a connection or to answer."""

    def slots_of(self, total_memory_gib: float) -> int:
        """Jobs of each lane proved at once, with 0 resolved by the reference's rule; 0 GiB is unknown."""
        return self.slots or min(100, max(1, int((total_memory_gib - 20) // 15 // 3)))

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.heartbeat_s * 2 > self.lease_s:
            raise ValueError("heartbeat_s must be at most half of lease_s")
        if not self.http and not self.url:
            raise ValueError("an instance without the API needs a queue: give --redis-url or set REDIS_URL")
        if not self.http and not self.workers:
            raise ValueError("an instance without the API and without workers would do nothing")
        return self


class LogSettings(_Group):
    """Logs."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe level that is written."""
    json_lines: bool | None = None
    """True writes JSON lines, False columns; unset means columns on a terminal, JSON elsewhere."""


class DeviceSettings(_Group):
    """What makes proofs. The variables have no group: PROVER_DEVICE, PROVER_CUDA_LIBRARY and so on."""

    device: str = "cpu"
    """cpu; cuda, which refuses to start without a GPU; cuda:N, one GPU; or auto: a GPU if one can be used, else cpu."""
    cuda_devices: str = ""
    """Indices of the GPUs that make proofs, separated by commas; empty is all of them."""
    cuda_library: Path | None = None
    """The CUDA library; unset: libgroth16_cuda.so beside the kernel."""
    cuda_memory_gib: float = Field(default=0, ge=0, le=_MOST_GIB)
    """Memory of each GPU for keys and proofs; 0 means nine tenths of what is free at the start."""
    cuda_batch: int = Field(default=64, ge=1, le=1024)
    """Proofs of one small circuit that a GPU makes together at most; 1 makes each alone."""

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
            raise ValueError(f"{text!r} names a GPU twice")
        if indices and ":" in info.data.get("device", ""):
            raise ValueError(f"--device {info.data['device']} names its GPU already")
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
    nobody else sets such, and one that was to restrict access must not be ignored.
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
    """Make the settings of what makes proofs, None for what is not given; raises SettingsInvalid."""
    with _explained():
        return DeviceSettings.model_validate({name: value for name, value in values.items() if value is not None})


@contextmanager
def _explained() -> Iterator[None]:
    """Turn what does not validate into SettingsInvalid."""
    try:
        yield
    except ValidationError as error:
        problems = "; ".join(
            f"{PREFIX}{'__'.join(str(part) for part in item['loc']).upper()}: {item['msg']}" for item in error.errors()
        )
        raise SettingsInvalid(problems) from error
    except SettingsError as error:  # tells the group only
        group = re.search(r'field "(\w+)"', str(error))
        raise SettingsInvalid(
            f'{PREFIX}{group[1].upper() if group else ""}…: a value is not JSON; write a list as ["a", "b"]'
        ) from error


def unknown_variables() -> list[str]:
    """Return one sentence per environment variable with our prefix that means nothing and is of no group."""
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
