"""Programs whose log a reader follows: events as sentences."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def run_program(words: Sequence[str], sentences: Mapping[str, str], say: Callable[[str], None]) -> None:
    """Run a program, and ``say`` the sentence of each event in its log; other lines go to standard error unchanged.

    Sentences have names of fields in braces. Standard output is discarded. Raises CalledProcessError.
    """
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as program:
        for line in program.stderr or ():
            event = _event(line)
            sentence = sentences.get(str(event.get("event")))
            if sentence is None:
                sys.stderr.write(line)
                sys.stderr.flush()
            else:
                say(sentence.format_map(event))
    if program.returncode:
        raise subprocess.CalledProcessError(program.returncode, list(words))


def _event(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
