"""Keys that a server loads in the background before requests arrive, and reports as missing until then."""

import threading
from collections.abc import Callable, Iterable

from prover.errors import Cancelled, ProverError, ShuttingDown
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import LoadedKey
from prover.keys.store.key_store import Fetch, KeyStore
from shared.process.logs import get_logger
from shared.requests.circuit_id import CircuitId

_log = get_logger(__name__)

_RETRY_S = 30.0
_MAX_NAMES = 8


class Preloader:
    """Loader of the required keys of a store, one after the other; the keys stay in memory.

    A key that cannot be loaded is logged and tried again every ``retry_s`` seconds, without delaying the others.
    """

    def __init__(
        self,
        keys: KeyStore,
        required: Iterable[CircuitId],
        fetch: Fetch | None = None,
        retry_s: float = _RETRY_S,
        on_loaded: Callable[[LoadedKey], None] = lambda _: None,
    ) -> None:
        """Prepare to load ``required``, in that order; ``fetch`` downloads missing files first, several at once.

        ``on_loaded`` is called with every key that is in memory; one for which it raises does not count as loaded.
        """
        self._keys = keys
        self._fetch = fetch
        self._required = tuple(required)
        self._retry_s = retry_s
        self._on_loaded = on_loaded
        self._failures: dict[CircuitId, str] = {}
        self._loaded: set[CircuitId] = set()
        self._stopping = CancelFlag()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="preload")

    @property
    def required(self) -> int:
        """Number of required keys."""
        return len(self._required)

    def start(self) -> None:
        """Start the thread and return at once."""
        self._thread.start()

    def close(self) -> None:
        """Stop before the next key; closing the store cancels a running load."""
        self._stopping.raise_flag()
        self._stopped.set()

    def missing_required(self) -> list[str]:
        """Return the reasons why required keys are not in memory; empty when all are loaded."""
        missing = [circuit for circuit in self._required if circuit not in self._loaded]
        named = [self._failures.get(circuit, f"{circuit}: not loaded yet") for circuit in missing[:_MAX_NAMES]]
        more = len(missing) - len(named)
        return [*named, f"{more} more keys"] if more else named

    def _run(self) -> None:
        if self._fetch is not None and self._required:
            try:
                self._fetch(self._required, self._stopping)
            except Cancelled:
                return
            # After any error downloaded keys are loaded; the others are tried again one by one.
            except ProverError as error:
                _log.error("keys_download_failed", error=error.detail)
            except Exception:  # noqa: BLE001 - logged with its traceback
                _log.exception("keys_download_failed")
        while True:
            for circuit in self._required:
                if circuit not in self._loaded and not self._load(circuit):
                    return
            if len(self._loaded) == len(self._required):
                _log.info("keys_preloaded", keys=len(self._loaded))
                return
            if self._stopped.wait(self._retry_s):
                return

    def _load(self, circuit: CircuitId) -> bool:
        """Load one key, and return whether to continue."""
        try:
            self._keys.get(circuit, self._stopping)
            with self._keys.lease(circuit, self._stopping) as key:
                self._on_loaded(key)
                key.release_pages()  # the load read all of them for checksums; pages in use are read again
        except (Cancelled, ShuttingDown):
            return False
        except ProverError as error:
            if self._is_new_failure(circuit, error.detail):
                _log.error("key_not_preloaded", circuit=circuit.name, error=error.detail)
        except Exception as error:  # noqa: BLE001 - logged with its traceback; the other keys are loaded
            reason = f"{type(error).__name__}: {error}"
            if self._is_new_failure(circuit, reason):
                _log.exception("key_not_preloaded", circuit=circuit.name, error=reason)
        else:
            self._loaded.add(circuit)
        return True

    def _is_new_failure(self, circuit: CircuitId, reason: str) -> bool:
        """Record why a key is not loaded, and return whether the reason is a new one."""
        known = self._failures.get(circuit)
        self._failures[circuit] = f"{circuit}: {reason}"
        return known != self._failures[circuit]
