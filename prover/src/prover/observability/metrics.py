"""Every metric of the prover, declared once. Names, labels and buckets are a contract (contracts/metrics.json)."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from shared.circuit_id import CircuitKind

UNKNOWN_CIRCUIT = "unknown"
CIRCUIT_TYPES = (*(kind.value for kind in CircuitKind), UNKNOWN_CIRCUIT)
BATCH_TYPES = tuple(kind.value for kind in CircuitKind if kind.is_batch)
QUEUES = ("zk_update_queue", "zk_append_queue", "zk_address_append_queue")
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
        circuit = ("circuit_type",)
        self.requests = Counter(
            "prover_proof_requests_total",
            "Proof requests answered, by circuit and outcome.",
            (*circuit, "status"),
            registry=registry,
        )
        self.generation_seconds = Histogram(
            "prover_proof_generation_duration_seconds",
            "Time from a granted permit to a verified proof.",
            circuit,
            buckets=DURATION_BUCKETS,
            registry=registry,
        )
        self.generation_errors = Counter(
            "prover_proof_generation_errors_total",
            "Proof requests that ended without a proof, by circuit and error code.",
            (*circuit, "error_type"),
            registry=registry,
        )
        self.panics = Counter(
            "prover_proof_panics_total",
            "Unexpected exceptions; each is a defect.",
            circuit,
            registry=registry,
        )
        self.active_jobs = Gauge("prover_active_jobs", "Proofs being computed now.", registry=registry)
        self.active_threads = Gauge(
            "prover_active_threads",
            "Kernel threads that proofs may use at once.",
            registry=registry,
        )
        self.input_bytes = Histogram(
            "prover_circuit_input_size_bytes",
            "Size of request bodies.",
            circuit,
            buckets=INPUT_SIZE_BUCKETS,
            registry=registry,
        )
        self.proof_bytes = Histogram(
            "prover_circuit_proof_size_bytes",
            "Size of proof bodies.",
            circuit,
            buckets=PROOF_SIZE_BUCKETS,
            registry=registry,
        )
        self.memory_bytes = Histogram(
            "prover_proof_memory_usage_bytes",
            "Working memory of proofs.",
            circuit,
            buckets=MEMORY_BUCKETS,
            registry=registry,
        )
        self.peak_memory_bytes = Gauge(
            "prover_proof_peak_memory_bytes",
            "Maximum working memory of a proof since the start.",
            circuit,
            registry=registry,
        )
        self.stage_seconds = Histogram(
            "prover_proof_stage_seconds",
            "Time of each stage of a proof, summed over threads; elapsed time for the witness.",
            (*circuit, "stage"),
            buckets=STAGE_BUCKETS,
            registry=registry,
        )
        self.admission_wait_seconds = Histogram(
            "prover_admission_wait_seconds",
            "Time a proof waited for a permit.",
            circuit,
            buckets=DURATION_BUCKETS,
            registry=registry,
        )
        self.waiting = Gauge("prover_admission_waiting", "Proofs waiting for a permit.", registry=registry)
        self.working_memory_bytes = Gauge(
            "prover_admission_memory_bytes",
            "Working memory of proofs in progress (lent), and its limit (budget).",
            ("part",),
            registry=registry,
        )
        self.rejected = Counter(
            "prover_rejected_requests_total",
            "Requests refused because of load or configuration, by error code.",
            ("reason",),
            registry=registry,
        )
        self.shared_proofs = Counter(
            "prover_shared_proofs_total",
            "Requests answered by the proof of an identical request, in progress (joined) or earlier (replayed).",
            ("way",),
            registry=registry,
        )
        self.responses = Counter(
            "prover_http_responses_total",
            "Responses of the API address, by status; 0 is a client that disconnected.",
            ("status",),
            registry=registry,
        )
        self.connections = Gauge("prover_http_connections", "Open connections of the API address.", registry=registry)
        self.closed_connections = Counter(
            "prover_http_connections_closed_total",
            "Connections of the API address closed for a limit, by the setting of the limit.",
            ("reason",),
            registry=registry,
        )
        self.suppressed_log_lines = Counter(
            "prover_log_lines_suppressed_total",
            "Log lines about refused requests that were suppressed, by reason.",
            ("reason",),
            registry=registry,
        )
        self.key_load_seconds = Histogram(
            "prover_key_load_duration_seconds",
            "Time to load and check a proving key.",
            circuit,
            buckets=DURATION_BUCKETS,
            registry=registry,
        )
        self.keys_loaded = Gauge("prover_keys_loaded", "Proving keys in memory.", registry=registry)
        self.key_bytes = Gauge("prover_key_store_bytes", "Memory of loaded proving keys.", registry=registry)
        self.build_info = Gauge(
            "prover_build_info",
            "Always 1; the labels are versions and the backend of the kernel.",
            ("version", "interface", "kernel", "backend"),
            registry=registry,
        )
        self._declare_queue(registry)
        self._declare_devices(registry)
        self.key_budget_bytes = Gauge(
            "prover_key_store_budget_bytes",
            "Limit of the memory of all loaded proving keys; 0 without a limit.",
            registry=registry,
        )
        self.key_evictions = Counter(
            "prover_key_evictions_total",
            "Proving keys unloaded to free memory for others.",
            circuit,
            registry=registry,
        )
        for kind in CIRCUIT_TYPES:
            for status in STATUSES:
                self.requests.labels(kind, status)

    def count_sweep(self, kind: str, jobs: int) -> None:
        """Count a sweep, one of SWEEPS, and the jobs that it changed."""
        self.sweeps.labels(kind).inc()
        self.swept_jobs.labels(kind).inc(jobs)

    def _declare_devices(self, registry: CollectorRegistry) -> None:
        """Declare the metrics of devices; the label ``device`` is cpu, or cuda:0 and so on."""
        device = ("device",)
        self.device_info = Gauge(
            "prover_device_info",
            "Always 1; the labels are the requested policy (cpu, cuda, auto), the device (cpu, cuda) and the cause.",
            ("asked", "chosen", "cause"),
            registry=registry,
        )
        self.device_up = Gauge("prover_device_up", "1 if a GPU is open, else 0.", device, registry=registry)
        self.device_keys = Gauge("prover_device_keys", "Proving keys on a GPU.", device, registry=registry)
        self.device_memory_bytes = Gauge(
            "prover_device_memory_bytes",
            "Memory of a GPU: that of keys, the budget of this process, and the total.",
            (*device, "part"),
            registry=registry,
        )
        self.device_proofs = Counter(
            "prover_device_proofs_total", "Proofs made and verified, by device.", device, registry=registry
        )
        self.device_launch_proofs = Histogram(
            "prover_device_launch_proofs",
            "Proofs made by one call of a GPU.",
            device,
            buckets=LAUNCH_BUCKETS,
            registry=registry,
        )
        self.device_faults = Counter(
            "prover_device_faults_total",
            "Proofs that a GPU could not make, by reason.",
            (*device, "reason"),
            registry=registry,
        )
        self.device_fallbacks = Counter(
            "prover_device_fallbacks_total",
            "Proofs made on the CPU because no GPU could make them, by reason.",
            ("reason",),
            registry=registry,
        )
        self.device_proofs.labels(CPU)
        for reason in DEVICE_FAILURES:
            self.device_fallbacks.labels(reason)

    def _declare_queue(self, registry: CollectorRegistry) -> None:
        """Declare the metrics of jobs, zero without a queue. Gauges count all instances, counters this one."""
        by_queue = ("queue",)
        self.queue_depth = Gauge(
            "prover_queue_depth", "Jobs waiting in the queue.", ("circuit_type",), registry=registry
        )
        self.queue_processing = Gauge(
            "prover_queue_processing_jobs", "Jobs running on any instance.", by_queue, registry=registry
        )
        self.queue_oldest_age_seconds = Gauge(
            "prover_queue_oldest_age_seconds", "Age of the oldest waiting job.", by_queue, registry=registry
        )
        self.queue_trees = Gauge("prover_queue_trees", "Trees with waiting jobs.", by_queue, registry=registry)
        self.queue_bytes = Gauge(
            "prover_queue_payload_bytes", "Bodies of waiting and running jobs.", by_queue, registry=registry
        )
        self.queue_stuck = Gauge(
            "prover_queue_stuck_jobs", "Jobs running for more than two minutes.", registry=registry
        )
        self.queue_kept = Gauge(
            "prover_queue_kept_jobs", "Ended jobs whose outcome is stored, by outcome.", ("status",), registry=registry
        )
        self.queue_wait_seconds = Histogram(
            "prover_queue_wait_time_seconds",
            "Time from the submission of a job to its start.",
            ("circuit_type",),
            buckets=QUEUE_WAIT_BUCKETS,
            registry=registry,
        )
        self.jobs_submitted = Counter(
            "prover_jobs_submitted_total",
            "Submissions to the queue: new jobs, duplicates of known jobs, and refusals.",
            (*by_queue, "outcome"),
            registry=registry,
        )
        self.jobs_processed = Counter(
            "prover_jobs_processed_total", "Jobs that ended, by outcome.", ("status",), registry=registry
        )
        self.expired_jobs = Counter(
            "prover_expired_jobs_total", "Jobs that expired before they were started.", by_queue, registry=registry
        )
        self.job_retries = Counter(
            "prover_job_retries_total", "Jobs requeued, by reason.", ("reason",), registry=registry
        )
        self.quarantined_jobs = Counter(
            "prover_quarantined_jobs_total", "Jobs that failed after the maximum of attempts.", registry=registry
        )
        self.lease_losses = Counter(
            "prover_lease_losses_total",
            "Leases that this instance lost because it sent no heartbeat in time.",
            by_queue,
            registry=registry,
        )
        self.sweeps = Counter("prover_queue_sweeps_total", "Sweeps of the queue.", ("kind",), registry=registry)
        self.swept_jobs = Counter(
            "prover_queue_swept_jobs_total", "Jobs requeued or removed by sweeps.", ("kind",), registry=registry
        )
        self.sweeps_here = Gauge(
            "prover_queue_sweeper", "1 on the instance that ran the latest sweep of a timer.", registry=registry
        )
        self.redis_up = Gauge(
            "prover_redis_up", "1 if Redis answered the last request, else 0; 0 without a queue.", registry=registry
        )
        self.worker_restarts = Counter(
            "prover_queue_worker_restarts_total", "Workers restarted after a failure.", by_queue, registry=registry
        )
        self.stored_results = Counter(
            "prover_stored_results_total",
            "Proofs from Redis verified before they were answered, by outcome.",
            ("outcome",),
            registry=registry,
        )
        self.queue_removals = Counter(
            "prover_queue_removals_total",
            "Invalid jobs and wake-ups removed from Redis.",
            ("kind",),
            registry=registry,
        )
        for outcome in STORED_RESULTS:
            self.stored_results.labels(outcome)
        for kind in REMOVALS:
            self.queue_removals.labels(kind)
        for kind in CIRCUIT_TYPES:
            self.queue_depth.labels(kind)
        for kind in BATCH_TYPES:
            self.queue_wait_seconds.labels(kind)
        for status in JOB_STATUSES:
            self.jobs_processed.labels(status)
            self.queue_kept.labels(status)
        for reason in RETRY_REASONS:
            self.job_retries.labels(reason)
        for kind in SWEEPS:
            self.sweeps.labels(kind)
            self.swept_jobs.labels(kind)
        for queue in QUEUES:
            for gauge in (self.queue_processing, self.queue_oldest_age_seconds, self.queue_trees, self.queue_bytes):
                gauge.labels(queue)
            for counter in (self.expired_jobs, self.lease_losses, self.worker_restarts):
                counter.labels(queue)
            for outcome in SUBMISSIONS:
                self.jobs_submitted.labels(queue, outcome)
