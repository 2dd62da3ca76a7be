# Every target makes the environment it needs, once. Needs Python 3.11 or newer, git and make.
PYTHON ?= python3
VENV   := .venv
PEERS  := .venv-peers
BIN    := $(VENV)/bin
PIP    := -m pip --disable-pip-version-check install --quiet

.PHONY: help run test test-peers lint format bench bench-regret paper clean
.DEFAULT_GOAL := help

help:
	@echo "make run     tune a model that reads handwritten digits, four trials at a time (out/digits.db, out/digits)"
	@echo "make test    format, lint, types and tests"
	@echo "make bench   speed beside BoTorch, in an environment of its own"
	@echo "make bench-regret   regret beside BoTorch and Optuna; hours, resumable"
	@echo "make paper   the paper's figures, table and claims (out/paper); about two hours on two cores, resumable"

$(VENV)/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Poolwise needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/run: $(VENV)/made pyproject.toml constraints.txt
	$(BIN)/python $(PIP) --constraint constraints.txt --editable '.[plot,sklearn]'
	@touch $@

$(VENV)/dev: $(VENV)/made pyproject.toml constraints.txt
	$(BIN)/python $(PIP) --constraint constraints.txt --editable '.[dev]'
	@touch $@ $(VENV)/run

# torch by its version and first; take the CPU build where the index has one, for the other brings gigabytes of CUDA. Its
# own dependencies want an older mpmath than the tests run with.
$(PEERS)/made: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(PEERS)
	grep -v '^mpmath=' constraints.txt > $(PEERS)/constraints.txt
	$(PEERS)/bin/python $(PIP) --constraint $(PEERS)/constraints.txt torch==2.13.0
	$(PEERS)/bin/python $(PIP) --constraint $(PEERS)/constraints.txt --editable . \
		botorch optuna greenlet ioh jax pytest beartype hypothesis
	@touch $@

# A real study in parallel processes; started again it goes on, or says (exit code 3) that it is complete.
run: $(VENV)/run
	@mkdir -p out
	$(BIN)/poolwise run examples/digits/study.toml || test $$? -eq 3
	$(BIN)/poolwise plot --study examples/digits/study.toml --out out/digits
	@echo "go on with: $(BIN)/poolwise run examples/digits/study.toml --trials 64"

lint: $(VENV)/dev
	$(BIN)/ruff format --check src tests bench examples
	$(BIN)/ruff check src tests bench examples
	$(BIN)/mypy

format: $(VENV)/dev
	$(BIN)/ruff check --fix src tests bench examples
	$(BIN)/ruff format src tests bench examples

test: lint
	$(BIN)/python -m pytest -n 2 --dist loadfile -m 'not slow'

bench: $(VENV)/run $(PEERS)/made
	$(BIN)/python bench/speed.py
	$(BIN)/python bench/maximizers.py

# Regret at equal evaluations; start it again to go on where it was stopped.
bench-regret: $(VENV)/run $(PEERS)/made
	$(BIN)/python $(PIP) --constraint constraints.txt ioh
	$(BIN)/python bench/regret.py --processes 2

# Agreement with BoTorch on the same base samples, in the environment that has it.
test-peers: $(PEERS)/made
	$(PEERS)/bin/python -m pytest tests/peer

# Every figure, table and claim of the paper; start it again to go on where it was stopped.
paper: $(VENV)/run
	$(BIN)/poolwise paper figure1
	$(BIN)/poolwise paper figure2
	$(BIN)/poolwise paper table2
	$(BIN)/poolwise paper ablation
	$(BIN)/poolwise paper rivals
	$(BIN)/poolwise paper asynchronous
	$(BIN)/poolwise paper claims

clean:
	rm -rf $(VENV) $(PEERS) out .mypy_cache .pytest_cache .ruff_cache .hypothesis
