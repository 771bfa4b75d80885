# Front page for developers. Each target is a line over a short script; `make` prints them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

PYTHON_BIN := .venv/bin/python
MEMBER_FILES := shared/pyproject.toml shared/CMakeLists.txt forester/pyproject.toml \
	$(wildcard shared/native/*/*.[ch]) shared/src/shared/_native.c

# A stamp counts only while its environment exists.
.PHONY: FORCE
.state/environment: requirements.lock shared/scripts/make-environment $(if $(wildcard $(PYTHON_BIN)),,FORCE)
	@shared/scripts/make-environment
	@touch $@

.state/members: .state/environment $(MEMBER_FILES)
	@shared/scripts/install-members
	@touch $@

LOCALNET := shared/localnet
.state/localnet: .state/members $(LOCALNET)/requirements.lock $(LOCALNET)/pyproject.toml $(LOCALNET)/scripts/make-environment \
		$(if $(wildcard $(LOCALNET)/.venv/bin/python),,FORCE)
	@$(LOCALNET)/scripts/make-environment
	@touch $@

##@ Start

.PHONY: help setup up down demo localnet browser redis-server reference-fixtures reference-batch-keys
help: ## Print this list
	@awk -f shared/scripts/help.awk $(firstword $(MAKEFILE_LIST))

setup: .state/members .state/localnet ## Make the environments from the locks and install the members

PROFILE ?= standalone
up: reference-fixtures ## Start the prover with the published keys on ports 3001 and 9998 (Docker; PROFILE=cuda, queue, forester, monitoring or localnet)
	@recreate=$$($(PYTHON_BIN) shared/scripts/compose_secrets.py $(PROFILE)); \
	version=$$($(PYTHON_BIN) shared/scripts/release_version.py); \
	VERSION=$$version REVISION=$$(git describe --always --abbrev=40 --dirty --match '') \
	docker compose --profile $(PROFILE) up --build --detach $$recreate

down: ## Stop what `up` started (PROFILE=)
	@docker compose --profile $(PROFILE) down

demo: native reference-fixtures ## Prove with published keys; then run a local network, a prover and a forester that empties its queues
	@PYTHONPATH=shared/bench:prover/scripts/reference $(PYTHON_BIN) prover/scripts/demo.py
	@PYTHONPATH=shared/bench:forester/bench:forester/tests/support/network $(PYTHON_BIN) forester/scripts/demo.py

localnet: setup reference-fixtures ## Start a local network with the real programs; Ctrl-C stops it (LOCALNET_OPTIONS=--help)
	@exec $(LOCALNET)/.venv/bin/localnet up $(LOCALNET_OPTIONS)

browser: ## Install Chromium for the tests of the dashboard if missing (as root on Debian; else print how)
	@forester/scripts/provide-browser

redis-server: ## Install redis-server, openssl and curl if missing (as root on Debian; else print the command)
	@prover/scripts/provide-redis

reference-fixtures: setup ## Fetch the reference's published keys, prover, programs and accounts into keys-cache/
	@$(PYTHON_BIN) prover/scripts/reference/reference_fixtures.py

reference-batch-keys: reference-fixtures ## Make the size-10 batch keys with the reference's own setup (minutes; SAMPLE=1 makes a small one)
	@$(PYTHON_BIN) prover/scripts/reference/reference_batch_keys.py $(if $(SAMPLE),--sample)

##@ Build

.PHONY: native native-tests native-cuda native-checked native-compilers images image-cuda move-images regenerate regenerate-check lock
native: .state/members ## Build the kernel and install the prover, editable
	@prover/scripts/native dev

native-tests: native ## Build the kernel's test library
	@prover/scripts/native tests

native-cuda: native ## Build the library that proves on GPUs and put it next to the kernel (nvcc, or packages; minutes)
	@prover/scripts/native cuda-library "$$($(PYTHON_BIN) -c 'from prover.kernel.device import installed_library as f; print(f())')"

native-checked: .state/members ## Build the test library with invariants, ASan and UBSan
	@prover/scripts/native checked

native-compilers: .state/members ## Build with gcc and clang, and for aarch64, warnings as errors
	@prover/scripts/native compilers

images: ## Build the container images, also tagged with the version (Docker)
	@shared/scripts/build-image zkc-prover prover/Dockerfile
	@shared/scripts/build-image zkc-forester forester/Dockerfile

move-images: ## Pin base images to the digests that their tags name now (Docker; shared/docs/base-images.md)
	@shared/scripts/move-images

image-cuda: ## Build the image of the prover for GPUs (Docker; gigabytes of compiler, minutes)
	@shared/scripts/build-image zkc-prover-cuda prover/Dockerfile.cuda

regenerate: native ## Rewrite generated files (not published_verifying_keys.json, which needs downloads: prover/scripts/regenerate_verifying_keys.py)
	@PYTHONPATH=shared/scripts $(PYTHON_BIN) prover/scripts/regenerate_glue.py
	@PYTHONPATH=shared/scripts $(PYTHON_BIN) prover/scripts/regenerate_reference.py
	@PYTHONPATH=shared/scripts $(PYTHON_BIN) forester/scripts/regenerate_reference.py
	@$(PYTHON_BIN) shared/native/tools/generate_poseidon_constants.py

regenerate-check: native ## Fail when a file that `regenerate` writes differs from its inputs
	@PYTHONPATH=shared/scripts $(PYTHON_BIN) prover/scripts/regenerate_glue.py --check
	@PYTHONPATH=shared/scripts $(PYTHON_BIN) prover/scripts/regenerate_reference.py --check
	@PYTHONPATH=shared/scripts $(PYTHON_BIN) forester/scripts/regenerate_reference.py --check
	@made=$$(mktemp -d); trap 'rm -r "$$made"' EXIT; $(PYTHON_BIN) shared/native/tools/generate_poseidon_constants.py "$$made"; \
	for file in "$$made"/*; do diff --brief "$$file" shared/native/poseidon/; done

lock: .state/environment ## Resolve requirements.lock again (UPGRADE=1 or UPGRADE=<package> updates versions)
	@shared/scripts/lock

##@ Check

.PHONY: test coverage check lint test-unit test-integration test-acceptance test-emulated test-images test-gpu sanitize fuzz
test: native-tests reference-fixtures redis-server browser lint ## Run lint, unit, integration and localnet tests (T=path or -k expression selects tests)
	@shared/scripts/run-tests test

coverage: native-tests reference-fixtures redis-server browser ## Measure the lines and branches that the tests reach
	@shared/scripts/run-tests coverage

check: regenerate-check test ## Check generated files, then run lint, unit, integration and localnet tests (T=, as for `test`)

lint: native .state/localnet ## Check format, types, layers, shell, YAML, generated files, citations, words
	@shared/scripts/lint

test-unit: native-tests ## Run the unit tests
	@shared/scripts/run-tests unit

test-integration: native-tests reference-fixtures redis-server browser ## Test against published keys, the reference prover and real sockets
	@shared/scripts/run-tests integration

test-acceptance: export EMULATE_AVX512=1
test-acceptance: native-tests native-compilers reference-batch-keys redis-server browser ## Test whole services, and run in full the tests that `test` samples
	@shared/scripts/run-tests acceptance

test-emulated: export EMULATE_AVX512=1
test-emulated: native-tests ## Test the backends for AVX-512 on a CPU with AVX2 only, with emulated instructions
	@T="avx512 or ifma" shared/scripts/run-tests unit

test-images: native-tests reference-fixtures images ## Build the container images and run them, confined: health, a proof, stops (Docker)
	@T=prover/tests/acceptance/test_images.py shared/scripts/run-tests acceptance

test-gpu: ## Compare the CUDA code and a prover on a GPU with the CPU (prover/bench/gpu.sh); skipped without a GPU
	@prover/scripts/test-gpu

sanitize: native native-checked ## Run the native tests against the checked build
	@shared/scripts/run-tests sanitize

fuzz: native ## Run the fuzz targets for a bounded time (FUZZ_SECONDS=30 each)
	@prover/scripts/fuzz

##@ Measure

.PHONY: bench bench-kernel bench-circuits bench-compare bench-service bench-queue bench-forester bench-bootstrap soak
.PHONY: forester-soak forester-shared forester-faults forester-lies forester-day forester-compressible
bench: native reference-fixtures ## Measure proofs of small circuits, alternately with the reference (a part of bench-compare)
	@$(PYTHON_BIN) shared/bench/bench.py compare --small --only latency $(OPTIONS)

bench-kernel: native ## Measure products, additions, multi-scalar multiplications and transforms (OPTIONS=--help)
	@$(PYTHON_BIN) shared/bench/bench.py kernel $(OPTIONS)

bench-circuits: native reference-fixtures ## Measure each circuit alone: witness, latency by threads, throughput, loading, memory (OPTIONS="--only load", backends or growth; --help)
	@$(PYTHON_BIN) shared/bench/bench.py circuits $(OPTIONS)

bench-compare: native reference-fixtures reference-batch-keys ## Run all comparisons with the reference, and draw the chart of the history (an hour; OPTIONS=--help)
	@$(PYTHON_BIN) shared/bench/bench.py compare $(OPTIONS)

bench-service: native reference-fixtures ## Measure throughput of 1 to 8 clients, alternately with the reference (OPTIONS=--help)
	@$(PYTHON_BIN) shared/bench/bench.py compare --small --only throughput --clients 1 2 4 8 --proofs 16 $(OPTIONS)

bench-queue: native reference-fixtures redis-server ## Measure the queue with 10,000 waiting jobs and 64 clients: latency, memory of Redis, load of the API (OPTIONS=--help)
	@$(PYTHON_BIN) shared/bench/bench.py queue $(OPTIONS)

bench-forester: setup reference-fixtures ## Measure planning and staging at 10^8 leaves, RPC calls per light slot of a forester (OPTIONS=--help)
	@$(PYTHON_BIN) shared/bench/bench.py forester scale $(OPTIONS)

bench-bootstrap: setup ## Measure the first scan of 1,000,000 compressible accounts: time, memory, disk (OPTIONS=--help)
	@$(PYTHON_BIN) shared/bench/bench.py forester bootstrap $(OPTIONS)

soak: native reference-batch-keys redis-server ## Send 10,000 good and broken requests, requests of hostile clients, 200 jobs through a failing queue, 2,000 through 220 simulated workers, and 300 in bursts through a cluster whose workers scale from zero (minutes; the cluster needs a Go compiler, and ten minutes more to build it once)
	@$(PYTHON_BIN) shared/bench/bench.py soak http
	@$(PYTHON_BIN) shared/bench/bench.py soak hostile
	@$(PYTHON_BIN) shared/bench/bench.py soak queue
	@$(PYTHON_BIN) shared/bench/bench.py soak fleet
	@$(PYTHON_BIN) shared/bench/bench.py soak cluster

forester-soak: native reference-fixtures ## Run three foresters with 100 kills, one forester with every fault, one for a simulated day, and two on compressible accounts (50 minutes)
	@$(PYTHON_BIN) shared/bench/bench.py forester shared --kills 100 --epochs 8
	@$(PYTHON_BIN) shared/bench/bench.py forester faults
	@$(PYTHON_BIN) shared/bench/bench.py forester lies
	@$(PYTHON_BIN) shared/bench/bench.py forester day
	@$(PYTHON_BIN) shared/bench/bench.py forester compressible

forester-shared: native reference-fixtures ## Run three foresters on one network under traffic, kills and faults, and check their work (OPTIONS=--help)
	@$(PYTHON_BIN) shared/bench/bench.py forester shared $(OPTIONS)

forester-faults: native reference-fixtures ## Inject one fault after another into a forester's services: calls, log lines, recovery (OPTIONS=--help)
	@$(PYTHON_BIN) shared/bench/bench.py forester faults $(OPTIONS)

forester-lies: native reference-fixtures ## Measure what a node that lies about fees, rent, expiry and heights costs a forester (OPTIONS=--help)
	@$(PYTHON_BIN) shared/bench/bench.py forester lies $(OPTIONS)

forester-compressible: native reference-fixtures ## Let foresters close 340 compressible accounts under kills, cuts and dropped transactions (OPTIONS=--help)
	@$(PYTHON_BIN) shared/bench/bench.py forester compressible $(OPTIONS)

forester-day: native reference-fixtures ## Run a forester for 24 simulated hours: memory, threads, files, journal (OPTIONS="--chart memory.svg")
	@$(PYTHON_BIN) shared/bench/bench.py forester day $(OPTIONS)

##@ Keys

KEYS_DIR ?= keys-cache/published

.PHONY: keys-list keys-download keys-verify keys-dev
keys-list: native ## List the known keys and which of them are in KEYS_DIR=keys-cache/published (MODE=)
	@.venv/bin/prover keys list --keys-dir $(KEYS_DIR) $(if $(MODE),--run-mode $(MODE))

keys-download: native ## Download the keys of a run mode into KEYS_DIR=keys-cache/published (MODE=local-rpc)
	@.venv/bin/prover keys download --keys-dir $(KEYS_DIR) --run-mode $(or $(MODE),local-rpc)

keys-verify: native ## Verify the keys in KEYS_DIR=keys-cache/published by digest, structure and a proof each (MODE=)
	@.venv/bin/prover keys verify --deep --keys-dir $(KEYS_DIR) $(if $(MODE),--run-mode $(MODE))

keys-dev: native ## Make development keys of a run mode in keys-cache/development (MODE=local-rpc)
	@.venv/bin/prover keys dev --run-mode $(or $(MODE),local-rpc) --keys-dir keys-cache/development

##@ Ship

.PHONY: docs changelog release release-check sbom manifests
docs: .state/environment ## Build the documentation site from the pages of the workspace into shared/build/docs
	@shared/scripts/build-docs shared/build/docs

release: .state/environment ## Build wheels, source archives, charts, bills of materials and checksums in dist/VERSION (shared/docs/release.md)
	@$(PYTHON_BIN) shared/scripts/release.py

release-check: native reference-fixtures ## Install the wheels into an empty environment without a compiler, and prove there (SPEED=1 compares times)
	@$(PYTHON_BIN) shared/scripts/release_check.py $(if $(SPEED),speed)

changelog: .state/environment ## Date the section of this version in CHANGELOG.md; NEXT=VERSION begins the next version in all files
	@$(PYTHON_BIN) shared/scripts/release_version.py $(if $(NEXT),next $(NEXT),close)

sbom: .state/environment ## Write a bill of materials (CycloneDX) of each service to dist/sbom
	@$(PYTHON_BIN) shared/scripts/release.py sbom

manifests: setup ## Write what the charts' presets render to */deploy/manifests, for clusters without Helm (NAMESPACE=default)
	@$(PYTHON_BIN) shared/scripts/render_manifests.py --namespace $(or $(NAMESPACE),default)
