"""A metrics registry without globals."""

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)


def new_registry() -> CollectorRegistry:
    """Return a registry with metrics of the process, the interpreter and its garbage collector."""
    disable_created_metrics()  # type: ignore[no-untyped-call]  # creation times double the series and help nobody
    registry = CollectorRegistry(auto_describe=True)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry
