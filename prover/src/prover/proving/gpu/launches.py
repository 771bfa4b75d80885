"""Proofs of one GPU: at once and alone where it is free, those that came meanwhile together.

A request that finds the GPU free waits for nobody. While it is busy others gather, and the next launch takes the one
that came first with all of the same key, as many as the library makes in one call. So no key is forgotten, and nothing
is delayed in the hope of company. Keys of which one proof fills the GPU are not gathered: permits bound their proofs.
Where GPU memory turns out to be short, the library makes the proofs of a call in smaller parts.
"""

import threading
import time
from functools import partial
from itertools import islice

from prover.errors import Cancelled
from prover.kernel.cancellation import CancelFlag
from prover.kernel.device import DeviceKey
from prover.kernel.engine import KernelProof
from prover.observability.metrics import Metrics
from prover.proving.admission import AdmissionRequest
from prover.proving.gpu.driver_calls import GpuCalls
from prover.proving.proof_making import UnverifiedProof

LAUNCHES_AT_ONCE = 2
"""Of keys that are gathered: the processor solves witnesses for one while the GPU computes the other."""


class _Order:
    """One proof that is wanted. What changes is under the lock of its Launches."""

    def __init__(self, key: DeviceKey, inputs: bytes, turn: AdmissionRequest, most: int) -> None:
        self.key = key
        self.inputs = inputs
        self.turn = turn
        self.most = most
        """How many may be made in one call, this one included."""
        self.asked = time.perf_counter()
        self.wait_s = 0.0
        self.launch: _Launch | None = None
        self.ended = threading.Event()
        self._outcome: UnverifiedProof | BaseException = Cancelled()

    def goes_with(self, other: "_Order") -> bool:
        """Whether one call can make both."""
        return self.key is other.key and len(self.inputs) == len(other.inputs)

    def end(self, outcome: UnverifiedProof | BaseException) -> None:
        """Tell whoever waits for it. The first outcome counts."""
        if not self.ended.is_set():
            self._outcome = outcome
            self.ended.set()

    def made(self) -> UnverifiedProof:
        """Return the proof, or raise why there is none."""
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome


class _Launch:
    """Proofs that one call makes. Its flag is raised when nobody wants any of them."""

    def __init__(self, orders: list[_Order], *, has_waited: bool) -> None:
        self.orders = orders
        self.has_waited = has_waited
        """Whether its orders were counted among those that wait."""
        self.is_counted = orders[0].most > 1
        """Whether it is one of LAUNCHES_AT_ONCE."""
        self.wanted = set(orders)
        self.is_begun = False
        self.cancel = CancelFlag()


class Launches:
    """All proofs of one GPU. ``prove`` blocks and may be called by several threads."""

    def __init__(self, name: str, calls: GpuCalls, metrics: Metrics, most: int) -> None:
        """Make at most ``most`` proofs in one call."""
        self.places = most * LAUNCHES_AT_ONCE if most > 1 else 0
        """How many requests may be in launches of several proofs, beside those that wait."""
        self._name = name
        self._calls = calls
        self._metrics = metrics
        self._most = most
        self._lock = threading.Lock()
        self._running = 0
        self._waiting: list[_Order] = []

    def prove(self, key: DeviceKey, inputs: bytes, cancel: CancelFlag, turn: AdmissionRequest) -> UnverifiedProof:
        """Prove, alone or with others; the proof is not verified here.

        A flag that is raised ends the wait for a launch; one that has begun goes on for its other requests, and until
        it has ended the caller is not back, whose key is in use. Raises what DeviceKey.prove and Admission.permit do.
        """
        order = _Order(key, inputs, turn, self._most_of(key, turn))
        with cancel.watch(partial(self._leave, order)):
            launch = self._enter(order, cancel)
            if launch is not None:
                self._run(launch)
            order.ended.wait()
        return order.made()

    # ---- who goes with whom ----------------------------------------------------------------------

    def _most_of(self, key: DeviceKey, turn: AdmissionRequest) -> int:
        """How many proofs of a key one call may make: those whose working memory can be lent, too."""
        most = min(self._most, key.batch_limit)
        while most > 1 and not turn.admission.can_lend(key.scratch_bytes_of(most)):
            most //= 2
        return most

    def _enter(self, order: _Order, cancel: CancelFlag) -> _Launch | None:
        """Return the launch that the caller is to run; None when it waits for one that another thread runs."""
        with self._lock:
            cancel.check()
            if order.most == 1 or self._running < LAUNCHES_AT_ONCE:
                return self._launch([order], has_waited=False)
            order.turn.admission.begin_waiting(order.turn.kind)
            self._waiting.append(order)
            return None

    def _leave(self, order: _Order) -> None:
        """Let an order go whose flag was raised."""
        with self._lock:
            launch = order.launch
            if launch is None:
                if order in self._waiting:
                    self._stop_waiting([order])
                    order.end(Cancelled())
                return
            launch.wanted.discard(order)
            if not launch.is_begun:
                order.end(Cancelled())
            is_wanted = bool(launch.wanted)
        if not is_wanted:
            launch.cancel.raise_flag()

    def _launch(self, orders: list[_Order], *, has_waited: bool) -> _Launch:
        """Make a launch of orders; the lock is held."""
        launch = _Launch(orders, has_waited=has_waited)
        for order in orders:
            order.launch = launch
        self._running += launch.is_counted
        return launch

    def _gather(self) -> list[_Launch]:
        """Make the launches that may begin now; the lock is held."""
        launches = []
        while self._waiting and self._running < LAUNCHES_AT_ONCE:
            first = self._waiting[0]
            orders = list(islice(filter(first.goes_with, self._waiting), first.most))
            self._stop_waiting(orders)
            launches.append(self._launch(orders, has_waited=True))
        return launches

    def _stop_waiting(self, orders: list[_Order]) -> None:
        """Take orders from those that wait; the lock is held."""
        self._waiting = [order for order in self._waiting if order not in orders]
        for order in orders:
            order.turn.admission.end_waiting(order.turn.kind)

    # ---- a launch --------------------------------------------------------------------------------

    def _run(self, launch: _Launch) -> None:
        """Make the proofs of a launch, then begin those for which its end makes room."""
        try:
            self._prove(launch)
        except BaseException as error:  # noqa: BLE001 - handed to all whose proof it was to make
            with self._lock:
                for order in launch.orders:
                    order.end(error)
        with self._lock:
            self._running -= launch.is_counted
            launches = self._gather()
        for following in launches:
            try:
                threading.Thread(target=self._run, args=(following,), name=f"{self._name} launch", daemon=True).start()
            except RuntimeError:  # the system has no thread left
                self._run(following)

    def _prove(self, launch: _Launch) -> None:
        key, turn = launch.orders[0].key, launch.orders[0].turn
        need_bytes = key.scratch_bytes_of(len(launch.orders))
        since = [order.asked for order in launch.orders] if launch.has_waited else []
        with turn.admission.permit(turn.kind, launch.cancel, need_bytes, since):
            orders = self._begin(launch)
            if orders:
                self._call(key, orders, launch.cancel)

    def _begin(self, launch: _Launch) -> list[_Order]:
        """Tell the orders that are wanted still, and return them."""
        now = time.perf_counter()
        with self._lock:
            launch.is_begun = True
            orders = [order for order in launch.orders if not order.ended.is_set()]
        for order in orders:
            order.wait_s = now - order.asked
            order.turn.begin()
        return orders

    def _call(self, key: DeviceKey, orders: list[_Order], cancel: CancelFlag) -> None:
        """Make proofs in one call."""
        with self._calls.proof(cancel):
            outcomes = key.prove_many([order.inputs for order in orders], cancel)
        self._metrics.device_launch_proofs.labels(self._name).observe(len(orders))
        with self._lock:
            for order, outcome in zip(orders, outcomes, strict=True):
                order.end(
                    UnverifiedProof(outcome, order.wait_s, len(orders)) if isinstance(outcome, KernelProof) else outcome
                )
