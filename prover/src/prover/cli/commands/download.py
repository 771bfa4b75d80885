"""``prover download`` and ``prover keys download``: published keys into a folder."""

from pathlib import Path

import click

from prover.cli.commands.keys.verify import show_reports, verify_selection
from prover.cli.download_display import download_display
from prover.cli.options.flag_words import FlagWords
from prover.cli.options.keys import (
    circuit_option,
    download_url_option,
    keys_dir_option,
    manifest_option,
    run_mode_option,
    selection_from,
    set_option,
)
from prover.cli.options.settings import SettingOption
from prover.cli.work import run_cancellable
from prover.kernel.cancellation import CancelFlag
from prover.keys.catalogue.selection import CircuitSelection
from prover.keys.download.download import download_keys
from prover.keys.download.source import DownloadSource


@click.command(
    cls=FlagWords,
    examples=(
        "prover download --run-mode rpc",
        "prover download --circuit update,append --keys-dir /var/lib/prover/keys",
        "prover download --run-mode forester --set reference --download-url https://mirror.example/keys",
    ),
    epilog="Exit codes: 0 all keys are installed, 1 --verify-only found a bad key, 2 usage, 69 a download failed, "
    "78 configuration, 130 and 143 stopped by a signal.",
)
@run_mode_option(what="Keys to download, by role.")
@circuit_option(what="Keys to download,")
@set_option()
@keys_dir_option
@download_url_option
@SettingOption(
    "keys.download_max_retries",
    "--max-retries",
    type=click.IntRange(1, 1000),
    default=10,
    show_default=True,
    help="Maximum attempts per file.",
)
@SettingOption(
    "keys.download_parallel",
    "--parallel",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    help="Maximum files downloaded at once.",
)
@manifest_option
@click.option("--verify-only", is_flag=True, help="Only check the keys, as `prover keys verify` does.")
def download(
    run_mode: str | None,
    circuits: tuple[str, ...],
    key_set: str,
    keys_dir: Path,
    download_url: str,
    max_retries: int,
    parallel: int,
    manifest: Path | None,
    verify_only: bool,
) -> None:
    """Download the keys of a run mode, of circuits, or of both together.

    Installed keys stay as they are. Each file is compared with the published SHA-256 before it gets its name. A stopped
    run resumes where it ended. HTTP_PROXY, HTTPS_PROXY and NO_PROXY apply.
    """
    if run_mode is None and not circuits:
        raise click.UsageError("no keys selected; pass --run-mode or --circuit")
    selection = selection_from(run_mode, circuits, key_set)
    if verify_only:
        show_reports(verify_selection(keys_dir, selection, manifest), "text")
        return
    source = DownloadSource(download_url, attempts=max_retries, parallel=parallel, manifest=manifest)
    _download(keys_dir, selection, source)


def _download(keys_dir: Path, selection: CircuitSelection, source: DownloadSource) -> None:
    circuits = selection.published()

    def work(cancel: CancelFlag) -> int:
        with download_display() as watcher:
            return download_keys(keys_dir, circuits, source, cancel, watcher)

    downloaded = run_cancellable(work)
    click.echo(f"{downloaded} keys downloaded, {len(circuits) - downloaded} already present in {keys_dir}")
