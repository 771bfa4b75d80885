"""TLS certificates of tests."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Certificates:
    """A certificate authority made for a test, and what it issued for 127.0.0.1 and localhost, in files of a folder."""

    folder: Path

    @property
    def authority(self) -> Path:
        """The authority's certificate."""
        return self.folder / "ca.crt"

    @property
    def certificate(self) -> Path:
        """The issued certificate."""
        return self.folder / "tls.crt"

    @property
    def key(self) -> Path:
        """The key of the issued certificate; RSA, which signs the tokens of a Kubernetes API server, too."""
        return self.folder / "tls.key"

    @classmethod
    def make(cls, folder: Path) -> Certificates:
        """Make both certificates with the openssl command, in a folder that is made if missing."""
        made = cls(folder)
        folder.mkdir(parents=True, exist_ok=True)
        authority_key, request, names = (folder / name for name in ("ca.key", "tls.csr", "names"))
        names.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        new_key = ("-newkey", "rsa:2048", "-nodes")
        _openssl("req", "-x509", *new_key, "-keyout", authority_key, "-out", made.authority, "-subj", "/CN=test CA")
        _openssl("req", *new_key, "-keyout", made.key, "-out", request, "-subj", "/CN=localhost")
        signing = ("-CA", made.authority, "-CAkey", authority_key, "-CAcreateserial", "-extfile", names)
        _openssl("x509", "-req", "-in", request, *signing, "-out", made.certificate, "-days", "2")
        return made


def _openssl(*words: str | Path) -> None:
    answer = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
