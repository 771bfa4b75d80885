"""``prover start``: the HTTP service, and workers of the job queue."""

import asyncio
import os
import sys
from typing import Any

import click

from prover.cli.options.flag_words import FlagWords
from prover.cli.options.start import start_options, start_settings
from prover.cli.serving.server import run_server
from prover.settings import UNKNOWN_REMEDY, unknown_variables
from shared.process.logs import configure_logs, get_logger

_log = get_logger(__name__)


@click.command(
    cls=FlagWords,
    examples=(
        "prover start --keys-dir proving-keys/",
        "prover start --run-mode forester --preload-keys forester --auto-download",
        "REDIS_URL=redis://localhost:6379 prover start --keys-dir proving-keys/",
        "prover start --queue-only --circuit append --redis-url redis://localhost:6379",
        "prover start --device cuda --preload-keys forester",
        "prover start --prover-address 127.0.0.1:3001 --metrics-address 127.0.0.1:9998 --keys-dir keys/",
        "curl -s -d @request.json http://127.0.0.1:3001/prove",
    ),
)
@start_options
@click.pass_obj
def start(level: str, /, **options: Any) -> None:
    """Serve proofs over HTTP and prove the jobs of a queue.

    SIGTERM and SIGINT finish running proofs and end the process; a second signal ends it at once. Keys are found in
    the keys directory by circuit, under their current or earlier file names. They load on first use or, with
    --preload-keys, at the start.

    With --redis-url, batches (append, update, address-append) become jobs that all instances on the same Redis prove;
    other requests do so if the client requests it. --run-mode and --circuit select the circuits that this instance
    proves.
    """
    settings = start_settings(options, os.environ)
    configure_logs(
        stream=sys.stdout if options["json_logging"] else None,
        as_json=options["json_logging"] or settings.log.json_lines,
        level=level if level != "info" else settings.log.level,
    )
    if options["server_only"] and options["redis_url"]:
        _log.info("redis_url_unused", detail="--server-only serves without a queue; the Redis URL is not used")
    for sentence in unknown_variables():
        _log.warning("unknown_variable", detail=sentence, remedy=UNKNOWN_REMEDY)
    sys.exit(asyncio.run(run_server(settings)))
