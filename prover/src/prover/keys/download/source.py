"""Server of published keys, limits of a download, and the observer of its progress."""

from dataclasses import dataclass
from pathlib import Path

from yarl import URL

from prover.errors import SettingsInvalid


@dataclass(frozen=True)
class DownloadSource:
    """Server of keys, and limits of the download."""

    url: str
    """Folder of the key files and of their CHECKSUM list."""
    attempts: int = 10
    """Maximum attempts per file."""
    parallel: int = 4
    """Maximum files downloaded at once."""
    manifest: Path | None = None
    """File with pinned names, sizes and digests; replaces the CHECKSUM list and the built-in digests."""
    silence_s: float = 60.0
    """Maximum time in which the server sends less than 64 KiB of a file."""
    list_within_s: float = 900.0
    """Maximum time of the CHECKSUM list with all its attempts."""
    backoff_s: float = 1.0
    """First pause between attempts; each later one is twice as long, up to a minute."""

    def base(self) -> URL:
        """Return the address as a URL; raises SettingsInvalid."""
        try:
            url = URL(self.url)
        except ValueError as error:
            raise SettingsInvalid(f"--download-url: {error}", names=("--download-url",)) from error
        if url.scheme not in ("http", "https") or not url.host:
            reason = f"{self.url!r} is not an address such as https://host/folder"
            raise SettingsInvalid(f"--download-url: {reason}", names=("--download-url",))
        return url


class DownloadWatcher:
    """Observer of the progress of a download, which ignores it. The downloading thread calls it."""

    def planned(self, files: int, size: int | None) -> None:
        """Report the number of missing files and their size in bytes, None if the server does not give all sizes."""

    def advanced(self, name: str, done: int, total: int | None) -> None:
        """Report the bytes present of a file, and its size, None if unknown."""

    def finished(self, name: str) -> None:
        """Report that a file is complete, verified and published."""
