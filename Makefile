# Everything runs from a fresh clone, without root and without an active virtual environment.
# PYTHON names the interpreter for .venv; HANGLAB the folder of the real engines with planted faults.
PYTHON ?=
HANGLAB ?= ../shared/hanglab
SCENARIOS ?= all
FROM ?=
ARGS ?=

BIN := .venv/bin
STAMP := .venv/installed
PACK := src/hangdoc/shipped.pack
SOURCES := $(shell find src -name '*.py') $(shell find baselines src/hangdoc/engines/data src/hangdoc/rules/catalogue)

.PHONY: demo test unit lint engines plants bench docs clean

demo: $(PACK)  ## a miniature server that really hangs, and its diagnosis
	@$(BIN)/hangdoc demo $(ARGS)

test: lint unit  ## everything that must hold

unit: $(PACK)
	@$(BIN)/python -m pytest --numprocesses 6 --dist worksteal $(ARGS)

lint: $(STAMP)  ## style, types, and which part may import which
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet || { echo "not formatted: $(BIN)/ruff format"; exit 1; }
	@$(BIN)/mypy
	@$(BIN)/lint-imports > .venv/imports.txt || { cat .venv/imports.txt; exit 1; }

engines: $(PACK)  ## real vLLM and SGLang with planted faults; SCENARIOS="id id" for some of them, FROM=FILE for others
	@test -f $(HANGLAB)/hanglab.py || { echo "no hanglab in $(HANGLAB): make engines HANGLAB=FOLDER"; exit 2; }
	@$(BIN)/python $(HANGLAB)/hanglab.py $(if $(FROM),--scenarios $(FROM)) run $(SCENARIOS) -- $(CURDIR)/$(BIN)/hangdoc diagnose --pid {pid} --json

plants: $(PACK)  ## real starts with something planted at random; ARGS="sglang harmless 1 2 3" or "vllm hang 7"
	@test -f $(HANGLAB)/hanglab.py || { echo "no hanglab in $(HANGLAB): make plants HANGLAB=FOLDER"; exit 2; }
	@HANGLAB=$(HANGLAB) $(BIN)/python tests/engines/plants.py $(ARGS)

bench: $(PACK)  ## numbers to reach, measured beside their peers
	@$(BIN)/python tests/bench $(ARGS)

docs: $(STAMP)  ## write the documents that are generated from the code
	@$(BIN)/python tools/generate_docs.py

$(STAMP): pyproject.toml tools/find-python
	@python=$$(tools/find-python $(PYTHON)) && echo "making .venv with $$python …" && "$$python" -m venv --clear .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	@$(BIN)/python -m pip install --quiet --editable . --group dev
	@touch $@

$(PACK): $(STAMP) $(SOURCES)  # and byte code; both count only while they are of these very files
	@$(BIN)/python tools/prepare.py

clean:
	rm -rf $(PACK) .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
