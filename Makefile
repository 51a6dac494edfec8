# Two commands on a fresh machine: `make` builds the whole suite at scale quick, `make test` runs every test.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := all

PYTHON ?= python3
SCALE ?= quick
CORES ?= $(shell nproc)
FIG ?= all
TESTS ?= tests

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# not what an editable install leaves there
NATIVE_SOURCES = $(shell find src/native -name CMakeFiles -prune -o -name '*.[ch]pp' -print)
NATIVE_TESTS := -DTANGENTBENCH_TESTS=ON -DTANGENTBENCH_OPTIMISATION=-O1
SANITIZE := -DTANGENTBENCH_SANITIZE=ON -DTANGENTBENCH_OPENMP=OFF -DTANGENTBENCH_OPTIMISATION=-O0
# Tests that share something costly (an image; a Slurm, a browser) run in a row; they wait more than they compute.
IMAGE := image
SERVICES := slurm or dvc or reliability or browser or wheel
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
LOCKED := $(PIP) install --no-deps --require-hashes

export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: all setup figures pull test test-containers test-services test-rest native-test native-sanitize lint format bench costs
.PHONY: docs lock wheel generate image-test clean help

all: setup ## build the whole suite at SCALE (quick) and say where the gallery is
	tangentbench run all --scale $(SCALE) --cores $(CORES)

setup: $(STAMP) ## make .venv from the lock and install the package

# Every file is compared with the locks' sums, and pip resolves nothing. A build of torch with CUDA (what the public index
# has) needs CUDA's libraries even without a GPU: the GPU's lock has them. A build without (+cpu) needs none and is taken
# where pip finds it, as with PIP_EXTRA_INDEX_URL set to torch's own index.
$(STAMP): requirements.lock requirements-build.lock requirements-torch-cpu.lock requirements-gpu.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the locked packages into $(VENV) (two to three minutes) ..."
	$(LOCKED) --only-binary :all: --requirement requirements-build.lock
	awk '/^[^ ]/ { torch = /^torch==/ } !torch' requirements.lock >$(VENV)/common.lock
	$(LOCKED) --no-build-isolation --requirement $(VENV)/common.lock
	if $(LOCKED) --requirement requirements-torch-cpu.lock 2>$(VENV)/torch.log; then :; \
	elif grep -q "No matching distribution" $(VENV)/torch.log; then \
	    $(LOCKED) --no-build-isolation --requirement requirements.lock --requirement requirements-gpu.lock; \
	else cat $(VENV)/torch.log >&2; exit 1; fi
	$(PIP) install --no-deps --no-build-isolation --editable .
	touch $@

figures: setup ## build one artifact or study: make figures FIG=npk_fig6 SCALE=cpu
	tangentbench run $(FIG) --scale $(SCALE) --cores $(CORES)

pull: setup ## fetch shared results from the DVC remote; then there is nothing left to build
	tangentbench pull --scale $(SCALE)

test: setup ## run every test on CORES cores (TESTS=tests/theory for some)
	$(MAKE) --no-print-directory --keep-going --jobs 3 --output-sync=line test-containers test-services test-rest

# pytest's 5 means that none of TESTS is of this kind
test-containers:
	python -m pytest -m "$(IMAGE)" $(TESTS) || test $$? -eq 5

test-services:
	python -m pytest -m "$(SERVICES)" $(TESTS) || test $$? -eq 5

test-rest:
	python -m pytest -n $(CORES) --dist worksteal -m "not ($(IMAGE) or $(SERVICES))" $(TESTS) || test $$? -eq 5

native-test: setup ## build the C++ tests and run them for every instruction set
	cmake -S src/native -B build/native-tests -G Ninja $(NATIVE_TESTS)
	cmake --build build/native-tests
	ctest --test-dir build/native-tests --output-on-failure

# Without OpenMP, whose threads the sanitizers do not know, and at -O0: with both sanitizers -O1 compiles for ages.
native-sanitize: setup ## the same with the address and undefined-behaviour sanitizers
	cmake -S src/native -B build/native-sanitize -G Ninja $(NATIVE_TESTS) $(SANITIZE)
	cmake --build build/native-sanitize
	ctest --test-dir build/native-sanitize --output-on-failure

lint: setup ## ruff, mypy, import-linter, snakefmt, snakemake --lint, hadolint, clang-format
	ruff check .
	ruff format --check .
	mypy
	lint-imports --no-cache
	snakefmt --check Snakefile workflow
	snakemake --lint
	hadolint Dockerfile
	clang-format --dry-run -Werror $(NATIVE_SOURCES)

format: setup ## let ruff, snakefmt and clang-format format the code
	ruff check --fix .
	ruff format .
	snakefmt Snakefile workflow
	clang-format -i $(NATIVE_SOURCES)

bench: setup ## run the benchmarks side by side with their peers
	for script in benchmarks/*.py; do echo "== $$script"; python "$$script"; done

docs: setup ## build the documentation site into build/docs; a warning is an error
	sphinx-build -q -W --keep-going -b html docs build/docs
	@echo "documentation: $(CURDIR)/build/docs/index.html"

lock: setup ## resolve requirements.lock and requirements-gpu.lock anew from pyproject.toml
	python tools/lock.py

wheel: setup ## build the wheel with the native core into dist/
	$(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist/*.whl

generate: setup ## write dvc.yaml, the README's table of artifacts and envs/ from the catalogue and the lock
	python -m tangentbench.suite.generate

image-test: setup ## build the CPU image, run it, compare its numbers with ours; check the recipes
	hadolint Dockerfile
	python -m pytest -rs tests/containers

clean: ## remove results and logs (not data, not .venv)
	rm -rf results/*/ logs .snakemake

help: ## this text
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12
