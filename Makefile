# Every target makes the environment it needs, once. Needs Python 3.11 or newer, git and make.
PYTHON ?= python3
VENV   := .venv
PEERS  := .venv-peers
BIN    := $(VENV)/bin
PIP    := -m pip --disable-pip-version-check install --quiet

.PHONY: help run test lint format bench paper clean
.DEFAULT_GOAL := help

help:
	@echo "make run     choose a pool and draw it (out/first_pool.png)"
	@echo "make test    format, lint, types and tests"
	@echo "make bench   speed beside BoTorch, in an environment of its own"
	@echo "make paper   the figures of the paper"

$(VENV)/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Poolwise needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/run: $(VENV)/made pyproject.toml constraints.txt
	$(BIN)/python $(PIP) --constraint constraints.txt --editable '.[plot]'
	@touch $@

$(VENV)/dev: $(VENV)/made pyproject.toml constraints.txt
	$(BIN)/python $(PIP) --constraint constraints.txt --editable '.[dev]'
	@touch $@ $(VENV)/run

# The CPU build of torch first: a plain `torch` would bring gigabytes of CUDA.
$(PEERS)/made: constraints.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python $(PIP) torch==2.13.0
	$(PEERS)/bin/python $(PIP) --constraint constraints.txt --editable . botorch pytest beartype hypothesis
	@touch $@

run: $(VENV)/run
	$(BIN)/poolwise demo

lint: $(VENV)/dev
	$(BIN)/ruff format --check src tests
	$(BIN)/ruff check src tests
	$(BIN)/mypy

format: $(VENV)/dev
	$(BIN)/ruff check --fix src tests
	$(BIN)/ruff format src tests

test: lint
	$(BIN)/python -m pytest -n 2 --dist loadfile -m 'not slow'

bench: $(VENV)/run $(PEERS)/made
	$(BIN)/python bench/speed.py

paper: $(VENV)/run
	$(BIN)/poolwise paper figure1

clean:
	rm -rf $(VENV) $(PEERS) out .mypy_cache .pytest_cache .ruff_cache .hypothesis
