"""``prover start``: the HTTP service."""

import asyncio
import os
import sys
from collections.abc import Mapping
from typing import Any

import click

from prover.cli.command import Command
from prover.cli.http_options import http_options, http_overrides
from prover.errors import FeatureMissing
from prover.http.app import serve, start_metrics_server
from prover.http.state import ServerState
from prover.kernel.engine import Engine, kernel_version
from prover.keys.store import KeyStore
from prover.observability.metrics import Metrics
from prover.settings import Settings, load_settings, unknown_variables
from prover.versions import INTERFACE_VERSION, own_version
from shared.logs import configure_logs, get_logger
from shared.metrics import new_registry
from shared.shutdown import Shutdown, StopReason

_log = get_logger(__name__)

_TRUE = frozenset({"true", "1", "t"})
_FALSE = frozenset({"false", "0", "f"})

_NOT_BUILT = {
    "redis_url": "--redis-url: the Redis queue is not built yet; leave it out, or add --server-only",
    "queue_only": "--queue-only: queue workers are not built yet",
    "circuit": "--circuit: restricting circuits is not built yet; every key of the directory is served",
    "preload_keys": "--preload-keys: preloading is not built yet; keys are loaded on first use",
    "preload_circuits": "--preload-circuits: preloading is not built yet; keys are loaded on first use",
    "run_mode": "--run-mode: run modes are not built yet; every key of the directory is served",
}


class FlagWords(Command):
    """A command whose boolean flags also take a word: ``--flag true``, ``--flag=false``.

    The reference's launcher passes ``--auto-download true``; what follows the word still counts.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the words out, then parse as usual."""
        flags = {
            name
            for parameter in self.params
            if isinstance(parameter, click.Option) and parameter.is_flag
            for name in parameter.opts
        }
        return super().parse_args(ctx, _without_words(args, flags))


def _without_words(args: list[str], flags: set[str]) -> list[str]:
    kept: list[str] = []
    rest = iter(args)
    pending: str | None = None
    for word in rest:
        if pending is not None:
            flag, pending = pending, None
            if word.lower() in _FALSE:
                continue
            kept.append(flag)
            if word.lower() in _TRUE:
                continue
        name, equals, value = word.partition("=")
        if name in flags and equals and value.lower() in _TRUE | _FALSE:
            kept += [name] if value.lower() in _TRUE else []
        elif word in flags and word != "--help":
            pending = word
        else:
            kept.append(word)
    return kept if pending is None else [*kept, pending]


@click.command(
    cls=FlagWords,
    examples=(
        "prover start --keys-dir proving-keys/",
        "prover start --prover-address 127.0.0.1:3001 --metrics-address 127.0.0.1:9998 --keys-dir keys/",
        "curl -s -d @request.json http://127.0.0.1:3001/prove",
    ),
)
@click.option(
    "--prover-address",
    metavar="HOST:PORT",
    envvar="PROVER_HTTP__ADDRESS",
    show_envvar=True,
    show_default="0.0.0.0:3001",
    help="Where the API listens.",
)
@click.option(
    "--metrics-address",
    metavar="HOST:PORT",
    envvar="PROVER_HTTP__METRICS_ADDRESS",
    show_envvar=True,
    show_default="0.0.0.0:9998",
    help="Where metrics, /livez and /readyz are served.",
)
@click.option(
    "--keys-dir",
    metavar="DIR",
    envvar="PROVER_KEYS__DIRECTORY",
    show_envvar=True,
    show_default="./proving-keys/",
    help="Folder with the proving keys.",
)
@click.option("--json-logging", is_flag=True, help="Write JSON lines to standard output, even on a terminal.")
@click.option(
    "--threads",
    type=click.IntRange(0, 1024),
    envvar="PROVER_PROVING__THREADS",
    show_envvar=True,
    show_default="one per processor",
    help="Kernel threads.",
)
@click.option(
    "--max-concurrency",
    type=click.IntRange(0, 1024),
    envvar="PROVER_PROVING__MAX_CONCURRENCY",
    show_envvar=True,
    show_default="one per two processors",
    help="Proofs computed at once.",
)
@http_options
@click.option("--server-only", is_flag=True, help="No queue, even when a Redis URL is given.")
@click.option("--auto-download", is_flag=True, help="Accepted; downloading is not built yet.")
@click.option("--download-url", metavar="URL", help="Accepted; downloading is not built yet.")
@click.option("--download-max-retries", type=int, help="Accepted; downloading is not built yet.")
@click.option("--redis-url", metavar="URL", envvar="REDIS_URL", help="Refused: the queue is not built yet.")
@click.option("--queue-only", is_flag=True, help="Refused: the queue is not built yet.")
@click.option("--circuit", multiple=True, metavar="NAME", help="Refused: not built yet.")
@click.option("--run-mode", metavar="MODE", help="Refused: not built yet.")
@click.option("--preload-keys", metavar="none|all|MODE", default="none", help="Refused unless none: not built yet.")
@click.option("--preload-circuits", multiple=True, metavar="NAME", help="Refused: not built yet.")
@click.pass_obj
def start(level: str, /, **options: Any) -> None:
    """Serve proofs over HTTP until SIGTERM or SIGINT, then finish what is running.

    Keys are found in the keys directory by circuit (current or earlier file names) and loaded on first use.
    A second signal ends the process at once.
    """
    settings = load_settings(_overrides(options))
    configure_logs(
        stream=sys.stdout if options["json_logging"] else None,
        as_json=options["json_logging"] or settings.log.json_lines,
        level=level if level != "info" else settings.log.level,
    )
    _refuse_missing_features(options, os.environ)
    for sentence in unknown_variables():
        _log.warning("unknown_variable", detail=sentence)
    if options["auto_download"]:
        _log.warning("auto_download_not_built", detail="missing keys are not downloaded; put them into --keys-dir")
    number = asyncio.run(_run(settings))
    sys.exit(number)


async def _run(settings: Settings) -> int:
    """Build the parts, serve, take them down in reverse; returns the exit code."""
    registry = new_registry()
    metrics = Metrics(registry)
    shutdown = Shutdown()
    shutdown.install()
    with Engine(settings.proving.threads) as engine:
        keys = KeyStore(settings.keys.directory, engine, metrics)
        state = ServerState.build(settings, keys, metrics)
        _log.info(
            "starting",
            kernel=kernel_version(),
            backend=engine.backend,
            threads=engine.threads,
            concurrency=settings.proving.permits,
            keys_dir=str(settings.keys.directory),
        )
        metrics.build_info.labels(own_version(), INTERFACE_VERSION, kernel_version(), engine.backend).set(1)
        metrics_server = start_metrics_server(state, registry)
        try:
            await serve(state, metrics_server, shutdown)
        finally:
            keys.close()
            state.close()
            metrics_server.close()
    _log.info("stopped")
    return 0 if shutdown.reason is StopReason.SIGNAL else 128 + shutdown.signal_number


def _overrides(options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    groups = {
        "http": {"address": options["prover_address"], "metrics_address": options["metrics_address"]},
        "keys": {"directory": options["keys_dir"]},
        "proving": {"threads": options["threads"], "max_concurrency": options["max_concurrency"]},
    }
    given = {
        group: {name: value for name, value in values.items() if value is not None} for group, values in groups.items()
    }
    for group, values in http_overrides(options, os.environ).items():
        given[group] |= values
    return given


def _refuse_missing_features(options: Mapping[str, Any], environment: Mapping[str, str]) -> None:
    asked = {name: options[name] for name in _NOT_BUILT if options[name]}
    if asked.get("preload_keys") == "none":
        del asked["preload_keys"]
    if options["server_only"]:
        asked.pop("redis_url", None)
    problems = [_NOT_BUILT[name] for name in asked]
    if environment.get("QUEUE_MODE") == "true" and not options["server_only"]:
        problems.append("QUEUE_MODE: the Redis queue is not built yet; unset it")
    if problems:
        raise FeatureMissing("; ".join(problems))
