"""Options of the reference without effect here, each with the reason and the remedy.

Source: forester/docs/reference/behaviour.md, "Options of the reference".

On the command line they are refused, because their user expects an effect. Their variables, which an environment for
the reference may contain, are logged and change nothing.
"""

from collections.abc import Iterator, Mapping

from forester.settings.model import WORDS

_RETRIES = "failures are retried with growing pauses during the phase or window; leave it out"
_WHOLE_QUEUE = "a queue is considered up to its end; leave it out"

REFERENCE_ONLY: Mapping[str, str] = {
    "--photon-grpc-url": "the indexer is queried over HTTP; leave it out, and pass --indexer-url",
    "--max-retries": _RETRIES,
    "--retry-delay": f"{_RETRIES}; pauses of reads are set by --rpc-pool-initial-retry-delay-ms",
    "--retry-timeout": "the time of a batch follows from the remaining slots of its window; leave it out",
    "--state-queue-processing-length": f"{_WHOLE_QUEUE} (see --state-queue-start-index)",
    "--address-queue-processing-length": f"{_WHOLE_QUEUE} (see --address-queue-start-index)",
    "--queue-polling-mode": "ready work is always read from the chain, its elements from the indexer; leave it out",
}

_OTHER_VARIABLES = {
    "--state-queue-processing-length": "STATE_PROCESSING_LENGTH",
    "--address-queue-processing-length": "ADDRESS_PROCESSING_LENGTH",
}


def variable_of(option: str) -> str:
    """Return the environment variable of an option of the reference."""
    return _OTHER_VARIABLES.get(option, option.removeprefix("--").replace("-", "_").upper())


def ignored_variables(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield one sentence per variable of the reference that is set and changes nothing; a false one counts as unset."""
    for option, reason in REFERENCE_ONLY.items():
        name = variable_of(option)
        if environment.get(name) and WORDS.get(environment[name].strip().lower(), True):
            yield f"{name} changes nothing: {reason}"
