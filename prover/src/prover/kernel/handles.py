"""Owners of C handles: a handle is destroyed once, after its last running call."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from prover.errors import KernelMisused
from prover.kernel._native import ffi

T = TypeVar("T")


class Owner(ABC):
    """Base of objects that hold handles until ``close``, or the end of a context."""

    @abstractmethod
    def close(self) -> None:
        """Release the handles. Idempotent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Handle:
    """One C handle. Several threads may use it at once; a use after close raises KernelMisused.

    The garbage collector destroys a handle that was not closed.
    """

    def __init__(self, noun: str, pointer: Any, destroy: Callable[[Any], None]) -> None:
        self._noun = noun
        self._pointer = ffi.gc(pointer, destroy)
        self._lock = threading.Lock()
        self._users = 0
        self._closed = False
        self._on_close: list[Callable[[], None]] = []

    @contextmanager
    def use(self) -> Iterator[Any]:
        """Yield the C pointer for the duration of a call."""
        with self._lock:
            if self._closed:
                raise KernelMisused(f"the {self._noun} is closed")
            self._users += 1
        try:
            yield self._pointer
        finally:
            self._leave()

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` on close, before the handle is destroyed; at once if it is closed."""
        with self._lock:
            if not self._closed:
                self._on_close.append(callback)
                return
        callback()

    def close(self) -> None:
        """Destroy the handle now, or when the last running call returns. Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._users += 1
            callbacks, self._on_close = self._on_close, []
        try:
            for callback in callbacks:
                callback()
        finally:
            self._leave()

    def _leave(self) -> None:
        with self._lock:
            self._users -= 1
            last = self._closed and self._users == 0
        if last:
            ffi.release(self._pointer)


def end_all(end: Callable[[T], None], items: Iterable[T]) -> None:
    """End every item, although some fail, then raise the first error."""
    errors: list[BaseException] = []
    for item in items:
        try:
            end(item)
        except BaseException as error:  # noqa: BLE001 - raised below, once the others have ended
            errors.append(error)
    if errors:
        raise errors[0]
