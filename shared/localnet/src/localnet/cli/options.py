"""Options of ``localnet up``."""

from dataclasses import dataclass
from pathlib import Path

from localnet.access import AccessRules


@dataclass(frozen=True)
class Options:
    """Options of ``up``."""

    host: str
    rpc_port: int
    prover_port: int | None
    indexer_port: int
    indexer_db: Path | None
    slot_ms: float
    first_slot: int
    keys_dir: Path | None
    prover_url: str
    restore: Path | None
    states_dir: Path | None
    allow_host: tuple[str, ...]
    allow_origin: tuple[str, ...]
    as_json: bool
    programs: tuple[tuple[str, Path], ...]
    accounts: tuple[tuple[str, Path], ...]
    clones: tuple[Path, ...]
    key_file: Path | None

    @property
    def access(self) -> AccessRules:
        """Return the host names and origins that are accepted."""
        hosts = frozenset(name.lower() for name in (self.host, *self.allow_host))
        return AccessRules(hosts, frozenset(self.allow_origin))
