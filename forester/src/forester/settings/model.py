"""All settings with their defaults; ``sources`` reads their values."""

from collections.abc import Callable, Mapping
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator
from solders.pubkey import Pubkey

from forester.settings.keys import SigningKey, parse_key_text, parse_pubkey, parse_signing_key
from forester.settings.light_programs import LightProgram, parse_light_program
from forester.units import LAMPORTS_PER_BYTE_YEAR

ProcessorMode = Literal["v1", "v2", "all"]
ProverNetwork = Literal["mainnet", "devnet", "none"]

WORDS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
"""Words for true and false."""


def _word(value: object) -> object:
    if isinstance(value, str):
        if value.strip().lower() not in WORDS:
            raise ValueError("expected true or false")
        return WORDS[value.strip().lower()]
    return value


def _url(*schemes: str) -> AfterValidator:
    expected = f"expected a URL that begins with {' or '.join(f'{scheme}://' for scheme in schemes)}"

    def check(value: SecretStr) -> SecretStr:
        text = value.get_secret_value().strip()
        try:
            parts = urlsplit(text)
            host, _ = parts.hostname or "", parts.port  # reading the port checks it
            host.encode("idna")  # as a resolver of the name does
            if any(letter.isspace() or letter == "\\" for letter in parts.netloc):
                raise ValueError
        except ValueError:
            raise ValueError(f"{expected}; this one's host or port is invalid") from None
        if parts.scheme not in schemes or not host:
            raise ValueError(expected)
        return SecretStr(text)

    return AfterValidator(check)


def _signing_key(value: object) -> object:
    """Read a key pair; a SecretStr is the content of a file, which is never a path again."""
    if isinstance(value, SecretStr):
        return parse_key_text(value.get_secret_value())
    return parse_signing_key(value) if isinstance(value, str) else value


def _pubkey(value: object) -> object:
    return parse_pubkey(value) if isinstance(value, str) else value


def _texts(value: object) -> object:
    """Split texts given by repetition or with commas."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple):
        return value
    return tuple(dict.fromkeys(part.strip() for item in texts for part in str(item).split(",") if part.strip()))


def _each(parse: Callable[[str], object], report: Callable[[Mapping[str, ValueError]], str]) -> BeforeValidator:
    """Read values given by repetition or with commas; ``report`` says which are invalid, all of them together."""

    def read(value: object) -> object:
        texts = _texts(value)
        if not isinstance(texts, tuple):
            return value
        found, wrong = [], {}
        for text in texts:
            try:
                found.append(parse(text))
            except ValueError as error:
                wrong[text] = error
        if wrong:
            raise ValueError(report(wrong))
        return tuple(dict.fromkeys(found))

    return BeforeValidator(read)


def _one(value: int) -> int:
    if value != 1:
        raise ValueError("only 1: two nullify instructions exceed a transaction, and the program accepts one leaf each")
    return value


HttpUrl = Annotated[SecretStr, _url("http", "https")]
HttpUrls = Annotated[tuple[HttpUrl, ...], BeforeValidator(_texts)]
WebSocketUrl = Annotated[SecretStr, _url("ws", "wss")]
Flag = Annotated[bool, BeforeValidator(_word)]
OneOnly = Annotated[int, AfterValidator(_one)]
Count = Annotated[int, Field(ge=1)]
Sol = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
Key = Annotated[Pubkey, BeforeValidator(_pubkey)]
Keys = Annotated[tuple[Pubkey, ...], _each(parse_pubkey, lambda wrong: f"not public keys: {', '.join(wrong)}")]
LightPrograms = Annotated[
    tuple[LightProgram, ...], _each(parse_light_program, lambda wrong: "; ".join(map(str, wrong.values())))
]
Payer = Annotated[SigningKey, BeforeValidator(_signing_key)]


class Settings(BaseModel):
    """Settings of all commands; frozen. Commands require those that they need with ``sources.require``."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        arbitrary_types_allowed=True,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
    )

    rpc_url: HttpUrl | None = None
    """RPC node for reads and transactions."""
    ws_rpc_url: WebSocketUrl | None = None
    """WebSocket of the RPC node, for subscriptions."""
    indexer_url: HttpUrl | None = None
    """Indexer (Photon) for queues and Merkle proofs; a key is its query parameter api-key."""
    fallback_rpc_url: HttpUrl | None = None
    """RPC node while the first one fails."""
    fallback_indexer_url: HttpUrl | None = None
    """Indexer while the first one fails."""
    prover_url: HttpUrl | None = None
    """Prover, for circuits without a URL of their own."""
    prover_append_url: HttpUrl | None = None
    """Prover of the append circuit."""
    prover_update_url: HttpUrl | None = None
    """Prover of the update (nullify) circuit."""
    prover_address_append_url: HttpUrl | None = None
    """Prover of the address-append circuit."""
    prover_api_key: SecretStr | None = None
    """API key of the prover, sent as X-API-Key."""
    prover_network: ProverNetwork | None = None
    """Network that proof requests name, for provers of several networks; unset is that of the genesis hash."""
    prover_polling_interval_ms: Count = 1000
    """Interval of queries for a queued proof."""
    prover_max_wait_time_secs: Count = 600
    """Maximum time of a proof, after which it fails with `proof generation timed out`."""
    payer: Payer | None = None
    """Key pair that signs and pays: JSON array of 64 bytes, base58, or path of a key file."""
    derivation: Key | None = None
    """Public key that the forester is registered under: JSON array of 32 bytes or base58."""
    push_gateway_url: HttpUrl | None = None
    """Push gateway for metrics."""
    pagerduty_routing_key: SecretStr | None = None
    """Routing key of incident alerts."""
    indexer_batch_size: Count = 50
    """V1 elements per request to the indexer; V2 queues are read by five batches."""
    indexer_max_concurrent_batches: Count = 10
    """Maximum concurrent requests to the indexer for a V1 tree."""
    legacy_ixs_per_tx: OneOnly = 1
    """V1 instructions per transaction; two never fit."""
    transaction_max_concurrent_batches: Count = 20
    """Maximum batches of one tree proved at once."""
    max_concurrent_sends: Count = 12
    """Maximum transactions in flight at once."""
    max_batches_per_tree: Annotated[int, Field(ge=1, le=20)] = 4
    """Maximum batches of one tree per round."""
    tx_cache_ttl_seconds: Count = 180
    """Time for which sent work is not sent again; with less than 90, work that may still land can be paid twice."""
    ops_cache_ttl_seconds: Count = 180
    """Time for which a completed operation is not prepared again."""
    confirmation_max_attempts: Count = 60
    """Number of status queries after which a transaction is abandoned for the time being."""
    confirmation_poll_interval_ms: Count = 500
    """Interval of status queries for transactions."""
    enable_compressible: Flag = False
    """Compress accounts whose prepaid rent has run out; needs --ws-rpc-url."""
    light_pda_programs: LightPrograms = ()
    """Programs whose accounts are compressed too, program_id:discriminator in base58; repeatable, or with commas."""
    helius_rpc: Flag = False
    """Read compressible accounts in pages by getProgramAccountsV2, which nodes of Helius offer."""
    claim_min_lamports: Annotated[int, Field(ge=0)] = 0
    """Minimum rent that a transaction must claim for the rent sponsor before accounts are closed; 0 claims none."""
    cu_limit: Annotated[int, Field(ge=1, le=1_400_000)] = 1_000_000
    """Maximum compute units of a transaction."""
    enable_priority_fees: Flag = False
    """Let the price of compute units follow recent fees."""
    priority_fee_microlamports: Count | None = None
    """Fixed price of a compute unit."""
    priority_fee_max_microlamports: Count = 1_000_000
    """Maximum price of a compute unit, of estimates and of a fixed price; 1000000 is one lamport."""
    spending_budget_sol_per_hour: Sol = 60.0
    """Maximum SOL that transactions may spend within an hour: fees, priority fees and rent."""
    rollover_max_sol: Sol | None = None
    """Maximum SOL that one rollover may spend; unset is a little above the cost of a public tree of its kind."""
    rent_lamports_per_byte_year: Count = LAMPORTS_PER_BYTE_YEAR
    """Maximum rent of an account in lamports per byte and year; raise it for a more expensive cluster."""
    rpc_pool_size: Count = 100
    """Maximum connections to the RPC node."""
    rpc_pool_connection_timeout_secs: Count = 15
    """Timeout of connecting to the RPC node."""
    rpc_pool_idle_timeout_secs: Count = 300
    """Time for which an unused connection stays open."""
    rpc_pool_max_retries: Annotated[int, Field(ge=0)] = 100
    """Maximum retries of a read."""
    rpc_pool_initial_retry_delay_ms: Count = 1000
    """Longest pause before the first retry; it doubles."""
    rpc_pool_max_retry_delay_ms: Count = 16_000
    """Longest pause between retries."""
    rpc_pool_failure_threshold: Count = 3
    """Consecutive failures that switch to the fallback."""
    rpc_pool_primary_probe_interval_secs: Count = 30
    """Interval of attempts to return to the failed first node."""
    rpc_rate_limit: Count | None = None
    """Maximum reads per second sent to the RPC node."""
    send_tx_rate_limit: Count | None = None
    """Maximum transactions per second sent to the RPC node."""
    photon_rate_limit: Count | None = None
    """Maximum requests per second sent to the indexer."""
    slot_update_interval_seconds: Count = 10
    """Interval of slot reads without a subscription."""
    tree_discovery_interval_seconds: Annotated[int, Field(ge=0)] = 60
    """Interval of searches for new trees; 0 only at the start, and while no tree is chosen."""
    state_queue_start_index: Annotated[int, Field(ge=0, le=65_535)] = 0
    """First cell of V1 nullifier queues that is considered."""
    address_queue_start_index: Annotated[int, Field(ge=0, le=65_535)] = 0
    """First cell of V1 address queues that is considered."""
    queue_poll_interval_seconds: Count = 10
    """Interval of reads of an idle queue; subscriptions report changes sooner."""
    journal_path: str | None = None
    """File of proofs and signatures for the next start; unset is forester/journal.sqlite in XDG_STATE_HOME."""
    processor_mode: ProcessorMode = "all"
    """Versions of trees that are processed."""
    tree_ids: Keys = ()
    """Only these trees; repeatable, or several with commas."""
    group_authority: Key | None = None
    """Only trees of this owner; unset is the group that the registry is in."""
    lookup_table_address: Key | None = None
    """Address lookup table for smaller transactions."""
    api_server_port: Annotated[int, Field(ge=0, le=65_535)] | None = None
    """Port of the monitoring API; unset is no API."""
    api_server_public_bind: Flag = False
    """Let the monitoring API listen on all interfaces instead of 127.0.0.1."""
    forester_api_urls: HttpUrls = ()
    """Monitoring APIs of foresters that `dashboard` merges; repeatable, or several with commas."""
    prometheus_url: HttpUrl | None = None
    """Source of /metrics/json while the process has counted nothing."""

    @property
    def compresses_accounts(self) -> bool:
        """Return whether compressible accounts are tracked: naming a program is enough."""
        return self.enable_compressible or bool(self.light_pda_programs)

    @property
    def longest_in_flight_s(self) -> float:
        """Maximum of seconds for which the status of one transaction is read."""
        return self.confirmation_max_attempts * self.confirmation_poll_interval_ms / 1000

    @model_validator(mode="after")
    def _one_kind_of_fee(self) -> Self:
        if self.enable_priority_fees and self.priority_fee_microlamports is not None:
            raise ValueError("priority_fee: --enable-priority-fees and --priority-fee-microlamports exclude each other")
        return self

    @model_validator(mode="after")
    def _fixed_price_within_maximum(self) -> Self:
        fixed, maximum = self.priority_fee_microlamports, self.priority_fee_max_microlamports
        if fixed is not None and fixed > maximum:
            raise ValueError(
                f"priority_fee_microlamports: {fixed} exceeds --priority-fee-max-microlamports ({maximum}; "
                "1000000 is one lamport per compute unit); lower the price or raise the maximum"
            )
        return self


def is_secret(name: str) -> bool:
    """Return whether values of a setting may grant access: they can also come from files, and are shown masked."""
    return "SecretStr" in str(Settings.model_fields[name].annotation) or is_key_pair(name)


def is_key_pair(name: str) -> bool:
    """Return whether a setting is a key pair, whose files nobody else should reach."""
    return "SigningKey" in str(Settings.model_fields[name].annotation)


def is_in_files(name: str) -> bool:
    """Return whether a setting can be read from files: secrets, and the public key next to the payer's."""
    return is_secret(name) or name == "derivation"
