"""Provers of the circuits."""

from collections.abc import Mapping
from dataclasses import dataclass

from yarl import URL

from forester.urls import shown, under
from shared.requests.circuit_id import CircuitKind


@dataclass(frozen=True)
class ProverEndpoints:
    """Base URLs of the provers by circuit."""

    by_circuit: Mapping[CircuitKind, str]

    def prove_url(self, kind: CircuitKind) -> URL:
        """Return the URL for requests of a circuit."""
        return self._under(kind, "prove")

    def status_url(self, kind: CircuitKind, job_id: str, wait_s: float | None = None) -> URL:
        """Return the URL of a job's status; only the prover that accepted a job knows it.

        Our prover answers when the job changes, or after ``wait_s`` seconds; others ignore that and answer at once.
        """
        url = self._under(kind, "prove/status").update_query(job_id=job_id)
        return url if wait_s is None else url.update_query(wait=f"{wait_s:.3f}")

    def shown(self, kind: CircuitKind) -> str:
        """Return the prover's URL without credentials and query, for messages."""
        return shown(self.by_circuit[kind])

    def _under(self, kind: CircuitKind, path: str) -> URL:
        return under(self.by_circuit[kind], path)
