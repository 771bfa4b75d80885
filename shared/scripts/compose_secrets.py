"""Write the secrets of a profile of compose.yaml from the variables of the shell and of .env, as `make up` does.

A variable that is not set becomes an empty file, which the services read as not set; a secret of an earlier call is
kept, and reported on standard error. The password of Redis is made once. Prints --force-recreate if a secret changed,
which compose itself does not notice.
"""

import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path

from dotenv import dotenv_values

WORKSPACE = Path(__file__).resolve().parents[2]
FOLDER = WORKSPACE / ".state" / "secrets"
WITH_PROVERS = ("standalone", "cuda", "queue", "forester")
"""Profiles with provers or foresters; the others have no secrets."""
OF_FORESTERS = (
    *("RPC_URL", "WS_RPC_URL", "FALLBACK_RPC_URL", "INDEXER_URL", "FALLBACK_INDEXER_URL", "PROVER_URL"),
    *("PROVER_APPEND_URL", "PROVER_UPDATE_URL", "PROVER_ADDRESS_APPEND_URL"),
    *("PAYER", "DERIVATION_PUBKEY", "PUSH_GATEWAY_URL", "PAGERDUTY_ROUTING_KEY", "PROMETHEUS_URL"),
)
DEFAULTS = {"PROVER_URL": "http://prover:3001"}
_REQUIRE_PASSWORD = "requirepass "  # noqa: S105 - a directive of redis.conf


def secrets_of(profile: str, variables: Mapping[str, str | None], folder: Path) -> dict[str, str]:
    """Return the contents of a profile's secrets by file name; ``folder`` has those of earlier calls."""
    names: tuple[str, ...] = ("PROVER_API_KEY",) if profile in WITH_PROVERS else ()
    if profile == "forester":
        names += OF_FORESTERS
    found = {name.lower(): variables.get(name) or "" for name in names}
    for name, default in DEFAULTS.items():
        path = folder / name.lower()
        if found.get(path.name) == "" and (not _is_written(path) or path.read_text() == default):
            found[path.name] = default
    if profile == "queue":
        kept = folder / "redis_conf"
        text = kept.read_text() if kept.exists() else f"{_REQUIRE_PASSWORD}{secrets.token_hex(24)}\n"
        password = text.removeprefix(_REQUIRE_PASSWORD).strip()
        found |= {"redis_conf": text, "redis_url": f"redis://:{password}@redis:6379/0"}
    return found


def kept_secrets(contents: Mapping[str, str], folder: Path) -> list[Path]:
    """Return the files with a secret whose variable is not set now: without it, running services would lose it."""
    files = [folder / name for name, content in contents.items() if not content]
    return [path for path in files if _is_written(path)]


def _is_written(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def write_secrets(contents: Mapping[str, str], folder: Path) -> bool:
    """Write secrets to files; returns whether one that was there changed."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Containers read the files as users of their own; the folder keeps the other users of this machine out.
    folder.chmod(0o700)
    changed = False
    for name, content in contents.items():
        path, new = folder / name, folder / f".{name}.new"
        if path.exists():
            if path.read_text() == content:
                continue
            changed = True
        new.write_text(content)
        new.chmod(0o444)
        new.replace(path)
    return changed


def main() -> None:
    """Write the secrets of the profile that the first argument names; a second one is another folder."""
    profile, *others = sys.argv[1:]
    folder = Path(others[0]) if others else FOLDER
    variables = {**dotenv_values(WORKSPACE / ".env"), **os.environ}
    contents = secrets_of(profile, variables, folder)
    for path in kept_secrets(contents, folder):
        del contents[path.name]
        shown = path.relative_to(WORKSPACE) if path.is_relative_to(WORKSPACE) else path
        print(
            f"{shown} is kept, because {path.name.upper()} is not set; to remove it: make down PROFILE={profile}, "
            f"rm -f {shown}, make up PROFILE={profile}",
            file=sys.stderr,
        )
    if write_secrets(contents, folder):
        print("--force-recreate")


if __name__ == "__main__":
    main()
