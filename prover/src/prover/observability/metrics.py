"""Every metric of the prover, declared once. Names, labels and buckets are a contract (contracts/metrics.json)."""

from collections.abc import Iterable
from functools import partial
from itertools import product

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from shared.requests.circuit_id import CircuitKind

UNKNOWN_CIRCUIT = "unknown"
CIRCUIT_TYPES = (*(kind.value for kind in CircuitKind), UNKNOWN_CIRCUIT)
BATCH_TYPES = tuple(kind.value for kind in CircuitKind if kind.is_batch)
QUEUES = tuple(
    f"zk_{circuit}_{network}queue"
    for network in ("", "mainnet_", "devnet_")
    for circuit in ("update", "append", "address_append")
)
STATUSES = ("ok", "client_error", "error", "timeout", "rejected", "queued")
JOB_STATUSES = ("completed", "failed")
SUBMISSIONS = ("new", "duplicate", "refused")
RETRY_REASONS = ("lease_ended", "fault", "handed_back")
"""Reasons to requeue a job: its worker died, the attempt failed but the request is valid, or its worker stopped."""

CPU = "cpu"
"""Device label of the CPU; GPUs have ``cuda:0`` and so on."""
DEVICE_FAILURES = ("out_of_memory", "lost", "wrong_proof", "unavailable", "too_large", "unsupported")
"""Reasons why a GPU did not make a proof; the last two apply as long as the key is loaded."""

STORED_RESULTS = ("verified", "rejected", "unverified")
REMOVALS = ("job", "wake_up")
SWEEPS = ("stuck", "old_requests", "failed", "results")

_FAST = (0.005, 0.01, 0.025, 0.05)
DURATION_BUCKETS = (*_FAST, *(0.1 * 2**k for k in range(15)))
"""The reference's buckets, from 0.1 to 1638.4 seconds, and four below them."""

STAGE_BUCKETS = (0.0005, 0.001, 0.0025, *_FAST, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100)
INPUT_SIZE_BUCKETS = tuple(1024 * 2**k for k in range(15))
PROOF_SIZE_BUCKETS = tuple(256 * 2**k for k in range(10))
QUEUE_WAIT_BUCKETS = tuple(0.1 * 2**k for k in range(12))
LAUNCH_BUCKETS = tuple(2**k for k in range(7))
MEMORY_BUCKETS = tuple(104_857_600 * 2**k for k in range(12))


class Metrics:
    """The prover's metrics in one registry. Label values come from closed sets."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        gauge = partial(Gauge, registry=registry)
        histogram = partial(Histogram, registry=registry)
        circuit = ("circuit_type",)
        self.requests = counter(
            "prover_proof_requests_total", "Proof requests answered, by circuit and outcome.", (*circuit, "status")
        )
        self.generation_seconds = histogram(
            "prover_proof_generation_duration_seconds",
            "Time from a granted permit to a verified proof.",
            circuit,
            buckets=DURATION_BUCKETS,
        )
        self.generation_errors = counter(
            "prover_proof_generation_errors_total",
            "Proof requests that ended without a proof, by circuit and error code.",
            (*circuit, "error_type"),
        )
        self.panics = counter("prover_proof_panics_total", "Unexpected exceptions; each is a defect.", circuit)
        self.active_jobs = gauge("prover_active_jobs", "Proofs being computed now.")
        self.active_threads = gauge(
            "prover_active_threads",
            "Kernel threads that proofs may use at once.",
        )
        self.input_bytes = histogram(
            "prover_circuit_input_size_bytes", "Size of request bodies.", circuit, buckets=INPUT_SIZE_BUCKETS
        )
        self.proof_bytes = histogram(
            "prover_circuit_proof_size_bytes", "Size of proof bodies.", circuit, buckets=PROOF_SIZE_BUCKETS
        )
        self.memory_bytes = histogram(
            "prover_proof_memory_usage_bytes", "Working memory of proofs.", circuit, buckets=MEMORY_BUCKETS
        )
        self.peak_memory_bytes = gauge(
            "prover_proof_peak_memory_bytes", "Maximum working memory of a proof since the start.", circuit
        )
        self.stage_seconds = histogram(
            "prover_proof_stage_seconds",
            "Time of each stage of a proof, summed over threads; elapsed time for the witness.",
            (*circuit, "stage"),
            buckets=STAGE_BUCKETS,
        )
        self.admission_wait_seconds = histogram(
            "prover_admission_wait_seconds", "Time a proof waited for a permit.", circuit, buckets=DURATION_BUCKETS
        )
        self.waiting = gauge("prover_admission_waiting", "Proofs waiting for a permit.")
        self.working_memory_bytes = gauge(
            "prover_admission_memory_bytes",
            "Working memory of proofs in progress (lent), and its limit (budget).",
            ("part",),
        )
        self.rejected = counter(
            "prover_rejected_requests_total",
            "Requests refused because of load or configuration, by error code.",
            ("reason",),
        )
        self.shared_proofs = counter(
            "prover_shared_proofs_total",
            "Requests answered by the proof of an identical request, in progress (joined) or earlier (replayed).",
            ("way",),
        )
        self.responses = counter(
            "prover_http_responses_total",
            "Responses of the API address, by status; 0 is a client that disconnected.",
            ("status",),
        )
        self.connections = gauge("prover_http_connections", "Open connections of the API address.")
        self.closed_connections = counter(
            "prover_http_connections_closed_total",
            "Connections of the API address closed for a limit, by the setting of the limit.",
            ("reason",),
        )
        self.suppressed_log_lines = counter(
            "prover_log_lines_suppressed_total",
            "Log lines about refused requests that were suppressed, by reason.",
            ("reason",),
        )
        self.key_load_seconds = histogram(
            "prover_key_load_duration_seconds",
            "Time to load and check a proving key.",
            circuit,
            buckets=DURATION_BUCKETS,
        )
        self.keys_loaded = gauge("prover_keys_loaded", "Proving keys in memory.")
        self.key_bytes = gauge("prover_key_store_bytes", "Memory of loaded proving keys.")
        self.build_info = gauge(
            "prover_build_info",
            "Always 1; the labels are versions and the backend of the kernel.",
            ("version", "interface", "kernel", "backend"),
        )
        self._declare_queue(counter, gauge, histogram)
        self._declare_devices(counter, gauge, histogram)
        self.key_budget_bytes = gauge(
            "prover_key_store_budget_bytes", "Limit of the memory of all loaded proving keys; 0 without a limit."
        )
        self.key_evictions = counter(
            "prover_key_evictions_total", "Proving keys unloaded to free memory for others.", circuit
        )
        _expose([self.requests], CIRCUIT_TYPES, STATUSES)

    def count_sweep(self, kind: str, jobs: int) -> None:
        """Count a sweep, one of SWEEPS, and the jobs that it changed."""
        self.sweeps.labels(kind).inc()
        self.swept_jobs.labels(kind).inc(jobs)

    def _declare_devices(self, counter: partial[Counter], gauge: partial[Gauge], histogram: partial[Histogram]) -> None:
        """Declare the metrics of devices; the label ``device`` is cpu, or cuda:0 and so on."""
        device = ("device",)
        self.device_info = gauge(
            "prover_device_info",
            "Always 1; the labels are the requested policy (cpu, cuda, auto), the device (cpu, cuda) and the cause.",
            ("requested", "selected", "cause"),
        )
        self.device_up = gauge("prover_device_up", "1 if a GPU is open, else 0.", device)
        self.device_keys = gauge("prover_device_keys", "Proving keys on a GPU.", device)
        self.device_memory_bytes = gauge(
            "prover_device_memory_bytes",
            "Memory of a GPU: that of keys, the budget of this process, and the total.",
            (*device, "part"),
        )
        self.device_proofs = counter("prover_device_proofs_total", "Proofs made and verified, by device.", device)
        self.device_launch_proofs = histogram(
            "prover_device_launch_proofs", "Proofs of one launch.", device, buckets=LAUNCH_BUCKETS
        )
        self.device_faults = counter(
            "prover_device_faults_total", "Proofs that a GPU could not make, by reason.", (*device, "reason")
        )
        self.device_fallbacks = counter(
            "prover_device_fallbacks_total",
            "Proofs made on the CPU because no GPU could make them, by reason.",
            ("reason",),
        )
        self.device_proofs.labels(CPU)
        _expose([self.device_fallbacks], DEVICE_FAILURES)

    def _declare_queue(self, counter: partial[Counter], gauge: partial[Gauge], histogram: partial[Histogram]) -> None:
        """Declare the metrics of jobs, zero without a queue. Gauges count all instances, counters this one."""
        by_queue = ("queue",)
        self.queue_depth = gauge("prover_queue_depth", "Jobs waiting in the queue.", ("circuit_type",))
        self.queue_waiting = gauge("prover_queue_waiting_jobs", "Jobs waiting in each queue.", by_queue)
        self.queue_processing = gauge("prover_queue_processing_jobs", "Jobs running on any instance.", by_queue)
        self.queue_oldest_age_seconds = gauge(
            "prover_queue_oldest_age_seconds", "Age of the oldest waiting job.", by_queue
        )
        self.queue_bytes = gauge("prover_queue_payload_bytes", "Bodies of waiting and running jobs.", by_queue)
        self.queue_stuck = gauge("prover_queue_stuck_jobs", "Jobs running for more than two minutes.")
        self.queue_wait_seconds = histogram(
            "prover_queue_wait_time_seconds",
            "Time from the submission of a job to its start.",
            ("circuit_type",),
            buckets=QUEUE_WAIT_BUCKETS,
        )
        self.jobs_submitted = counter(
            "prover_jobs_submitted_total",
            "Submissions to the queue: new jobs, duplicates of known jobs, and refusals.",
            (*by_queue, "outcome"),
        )
        self.jobs_processed = counter("prover_jobs_processed_total", "Jobs that ended, by outcome.", ("status",))
        self.expired_jobs = counter(
            "prover_expired_jobs_total", "Jobs that expired before they were started.", by_queue
        )
        self.job_retries = counter("prover_job_retries_total", "Jobs requeued, by reason.", ("reason",))
        self.quarantined_jobs = counter(
            "prover_quarantined_jobs_total", "Jobs that failed after the maximum of attempts."
        )
        self.lease_losses = counter(
            "prover_lease_losses_total",
            "Leases that this instance lost because it sent no heartbeat in time.",
            by_queue,
        )
        self.sweeps = counter("prover_queue_sweeps_total", "Sweeps of the queue.", ("kind",))
        self.swept_jobs = counter("prover_queue_swept_jobs_total", "Jobs requeued or removed by sweeps.", ("kind",))
        self.sweeps_here = gauge("prover_queue_sweeper", "1 on the instance that ran the latest sweep of a timer.")
        self.queue_configured = gauge("prover_queue_configured", "1 on an instance with a queue, else 0.")
        self.redis_up = gauge("prover_redis_up", "1 if Redis answers and accepts writes, else 0; 0 without a queue.")
        self.worker_restarts = counter(
            "prover_queue_worker_restarts_total", "Workers restarted after a failure.", by_queue
        )
        self.stored_results = counter(
            "prover_stored_results_total",
            "Proofs from Redis verified before they were answered, by outcome.",
            ("outcome",),
        )
        self.queue_removals = counter(
            "prover_queue_removals_total", "Invalid jobs and wake-ups removed from Redis.", ("kind",)
        )
        _expose([self.stored_results], STORED_RESULTS)
        _expose([self.queue_removals], REMOVALS)
        _expose([self.queue_depth], CIRCUIT_TYPES)
        _expose([self.queue_wait_seconds], BATCH_TYPES)
        _expose([self.jobs_processed], JOB_STATUSES)
        _expose([self.job_retries], RETRY_REASONS)
        _expose([self.sweeps, self.swept_jobs], SWEEPS)
        states = [self.queue_waiting, self.queue_processing, self.queue_oldest_age_seconds]
        events = [self.expired_jobs, self.lease_losses, self.worker_restarts]
        _expose([*states, self.queue_bytes, *events], QUEUES)
        _expose([self.jobs_submitted], QUEUES, SUBMISSIONS)


def _expose(metrics: Iterable[Counter | Gauge | Histogram], *labels: Iterable[str]) -> None:
    """Expose metrics from the start, at zero, for all combinations of these values of their labels."""
    for metric, values in product(metrics, [*product(*labels)]):
        metric.labels(*values)
