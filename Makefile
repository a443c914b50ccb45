# Every target builds its own virtual environment in .venv first; nothing has to be installed before.
SHELL := /bin/bash
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
MINIO := v0.0.0-20260212201848-7aac2a2c5b7c
SELECTED ?= not long and not slow
export HYPOTHESIS_STORAGE_DIRECTORY ?= .cache/hypothesis

.PHONY: help setup demo check test test-all test-services test-stage test-sessions test-long test-live bench-watermarks bench-sandbox bench-standin bench-extract bench-start bench-load bench-convert bench-daemon bench-latency bench-status bench-verify tour life docs reference real-mysql format schema man constraints clean

help:           ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 20

setup: $(READY) ## build the virtual environment

$(READY): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "error: $(PYTHON) is not on PATH"; echo "hint: install Python 3.11 or newer, or name another: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	@if command -v uv >/dev/null; then \
	  uv venv --quiet --allow-existing --python $(PYTHON) $(VENV) && \
	  uv pip install --quiet --compile-bytecode --python $(BIN)/python -c constraints.txt -e '.[sandbox,dev,docs]'; \
	else \
	  $(PYTHON) -m venv $(VENV) && \
	  $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[sandbox,dev,docs]'; \
	fi
	@touch $@

demo: $(READY)  ## the whole system on this machine, proven equal at the end; FOR=60s ends by itself
	@$(BIN)/syncd demo $(if $(FOR),--for $(FOR))

check: $(READY) ## format, lint, types, direction of imports, links of the docs
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	@$(MAKE) --no-print-directory docs

test: $(READY)  ## what every change must pass, under ten minutes
	$(BIN)/pytest -n 2 --dist worksteal --cov --cov-report= -m 'not long and not simulation' tests/unit/watermarks tests/contracts
	$(BIN)/coverage report --fail-under=95
	$(BIN)/pytest -n 2 --dist worksteal -m 'not long and not simulation' --ignore=tests/unit/watermarks --ignore=tests/contracts --ignore=tests/standin --ignore=tests/live --ignore=tests/integration --ignore=tests/journeys
	$(BIN)/pytest -m 'simulation and not long' -n 2 --dist worksteal tests/property

test-services: $(READY) ## the sandbox and the Redshift stand-in, through their own servers
	$(BIN)/pytest -n 2 --dist loadfile -m '$(SELECTED)' tests/standin tests/live tests/integration --ignore=tests/integration/stage --ignore=tests/integration/parallel --ignore=tests/integration/demo
	@$(MAKE) --no-print-directory -j2 -O test-stage test-sessions

test-stage: $(READY)  # a process has one session of Spark, as PySpark has one context
	$(BIN)/pytest -m '$(SELECTED)' tests/integration/stage

test-sessions: $(READY)  # whole sessions, as users have them, each a process of its own
	$(BIN)/pytest -m '$(SELECTED)' tests/journeys
	$(BIN)/pytest -m '$(SELECTED)' tests/integration/demo
	$(BIN)/pytest -m '$(SELECTED)' tests/integration/parallel

test-all: $(READY) ## what CI runs, and the slow tests that it leaves out: before an issue is resolved
	@$(MAKE) --no-print-directory check test
	@$(MAKE) --no-print-directory test-services SELECTED='not long'

test-long: $(READY) ## the long proofs: ten thousand lives of the protocol, every planted fault, MinIO, each benchmark
	@if command -v go >/dev/null; then $(MAKE) .cache/bin/minio; else echo 'no Go here: the races on MinIO are skipped'; fi
	$(BIN)/pytest -m 'simulation or long' -n 2 --dist worksteal tests/property
	PATH="$(CURDIR)/.cache/bin:$$PATH" $(BIN)/pytest -m 'not simulation' tests/contracts
	$(BIN)/pytest -m long -n 2 tests/unit tests/cli
	$(BIN)/pytest -m long tests/integration --ignore=tests/integration/stage --ignore=tests/integration/parallel
	$(BIN)/pytest -m long tests/integration/parallel  # as below
	$(BIN)/pytest -m long tests/integration/stage  # a process has one session of Spark
	$(BIN)/pytest -m long tests/benchmarks  # each comes to its end; what they say of speed, they say alone

.cache/bin/minio:
	GOBIN=$(CURDIR)/.cache/bin go install github.com/minio/minio@$(MINIO)

bench-watermarks: $(READY) ## what an advance costs, how large a document grows
	$(BIN)/python -m benchmarks.watermarks

bench-sandbox: $(READY) ## what `sandbox up` takes with everything fetched, how fast the shop is filled
	$(BIN)/python -m benchmarks.sandbox_up
	$(BIN)/python -m benchmarks.seed_shop

real-mysql: $(READY) ## build MySQL itself for the tests, beside MariaDB (as root, a minute)
	$(BIN)/python -m tests.services.real_mysql

test-live: $(READY) ## the stand-in's cases against a real Redshift: SYNCD_LIVE_REDSHIFT, SYNCD_LIVE_S3
	$(BIN)/pytest tests/live -s

bench-standin: $(READY) ## COPY in the Redshift stand-in: rows a second, and memory as files grow
	$(BIN)/python -m benchmarks.standin_copy

bench-extract: $(READY) ## MySQL to Parquet on S3 beside six other tools; ARGS='--tools none --memory 2000000' for memory
	$(BIN)/python -m benchmarks.extract $(ARGS)

bench-start: $(READY) ## a run that finds nothing, a cold and a warm one of 1,000 rows, an idle cycle
	$(BIN)/python -m benchmarks.start_up

bench-load: $(READY) ## COPYs, commits and requests of many small batches; 2,000,000 rows against the same statements by hand; ARGS='large'
	$(BIN)/python -m benchmarks.load $(ARGS)

bench-daemon: $(READY) ## what 500 idle streams cost the daemon: processor time and memory
	$(BIN)/python -m benchmarks.idle_daemon $(ARGS)

bench-latency: $(READY) ## from a commit in MySQL to its sight in the warehouse, 1,000 changed rows a second
	$(BIN)/python -m benchmarks.latency $(ARGS)

bench-convert: $(READY) ## travelled batches to Parquet on one core: rows a second, zstd against snappy
	$(BIN)/python -m benchmarks.convert

bench-status: $(READY) ## `syncd status` over 500 streams, the whole command
	$(BIN)/python -m benchmarks.status

bench-verify: $(READY) ## `syncd verify` of 2,000,000 equal orders, the whole command
	$(BIN)/python -m benchmarks.verify

format: $(READY) ## lay the code out and mend what can be mended
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

docs: $(READY)  ## build the site of docs/ into .cache/site; a dead link or anchor is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

reference: $(READY) ## renew the parts of docs/ that are generated from code
	$(BIN)/python -m docs.generate.reference

schema: $(READY) ## renew the JSON Schema of the configuration from its model and its documentation
	$(BIN)/python -m syncd.config.json_schema docs/reference/configuration.md > schema.new
	@mv schema.new syncd/config/syncd.schema.json

man: $(READY)   ## renew the manual page from the commands
	@mkdir -p docs/man
	$(BIN)/python -m docs.generate.manual > man.new
	@mv man.new docs/man/syncd.1

tour: $(READY)  ## play the first hour on the sandbox, and renew the page that shows it
	$(BIN)/python -m tests.journeys.tour > tour.new
	@mv tour.new docs/tutorial/tour.md

life: $(READY)  ## trace one row from the source to the warehouse, and renew the page that lists the calls
	$(BIN)/python -m tests.journeys.life_of_a_row > life.new
	@mv life.new docs/explanation/life-of-a-row.md

constraints:    ## renew constraints.txt from pyproject.toml (needs uv)
	@{ head -1 constraints.txt; uv pip compile --quiet --upgrade --all-extras --python-version 3.11 --no-header --no-annotate pyproject.toml; } > constraints.new
	@mv constraints.new constraints.txt

clean:          ## remove what these targets built
	rm -rf $(VENV) .cache .coverage* .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
