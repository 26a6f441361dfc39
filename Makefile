# Recipes of millstream; `make help` lists them. The environment is .venv in the checkout.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
NATIVE := $(VENV)/.compiled
PYTEST_ARGS ?=
DEMO_ARGS ?=
BENCH_ARGS ?=

.PHONY: help setup demo test test-all lint bench docs

help:  ## list the recipes
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 10

setup: $(STAMP) $(NATIVE)  ## make .venv with millstream (editable), Java and all tools; what is compiled, where Rust is

# A version manager may put an interpreter on the path that it then refuses to run, so each is tried.
$(STAMP): pyproject.toml Makefile
	@python=""; \
	for candidate in $${PYTHON:-} python3.11 python3.12 python3.13 python3.14 python3 python; do \
	  if "$$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
	  then python="$$candidate"; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "make: no Python of version 3.11 or newer with venv was found on the path" >&2; \
	  echo "Detail: Looked for python3.11, python3.12, python3.13, python3.14, python3 and python." >&2; \
	  echo "Hint: Install one (with its venv package), or name it: make PYTHON=/path/to/python3.11 setup" >&2; \
	  exit 1; \
	fi; \
	if ! "$(BIN)/python" -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	  echo "making $(VENV) with $$("$$python" --version)"; \
	  "$$python" -m venv --clear "$(VENV)"; \
	fi; \
	echo "installing millstream and what it needs (once; a few minutes the first time)"; \
	"$(BIN)/python" -m pip install --quiet --disable-pip-version-check -e '.[demo,java,dev]'
	@touch $@

# Everything runs without it, JSON lines slower.
$(NATIVE): native/Cargo.toml native/Cargo.lock native/pyproject.toml $(wildcard native/src/*.rs) | $(STAMP)
	@if ! command -v cargo >/dev/null; then \
	  echo "no Rust here (cargo): millstream's compiled parts are left out (native/README.md)"; \
	elif ! CARGO_TARGET_DIR="$(abspath $(VENV))/native" "$(BIN)/python" -m pip install --quiet --disable-pip-version-check --force-reinstall ./native; then \
	  echo "make: millstream's compiled parts were not built (native/README.md); all runs without them, JSON slower" >&2; \
	fi
	@touch $@

demo: $(STAMP)  ## run the main job: all flights that left New York in 2013
	@$(BIN)/millstream demo flights $(DEMO_ARGS)

# Compiled once: the tests start some thousand processes, and PYTHONDONTWRITEBYTECODE would have each compile anew.
# Two workers, each with a Spark session of its own; what is left of one worker's share goes to the other.
test: lint  ## run lint, then the tests
	@$(BIN)/python -m compileall -q -j 0 src
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m "not long" $(PYTEST_ARGS)

test-all: lint  ## run lint, then the tests, also those that take minutes
	@$(BIN)/python -m compileall -q -j 0 src
	@$(BIN)/python -m pytest -n 2 --dist worksteal $(PYTEST_ARGS)

lint: $(STAMP) $(NATIVE)  ## run ruff, mypy and import-linter
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(STAMP) $(NATIVE)  ## measure what README and docs quote, beside what is committed; BENCH_ARGS="--only flights", --update
	@$(BIN)/python benchmarks/bench.py $(BENCH_ARGS)

docs: $(STAMP)  ## write the reference pages that are generated from the code, and build the site
	@$(BIN)/millstream config --markdown > docs/options.md
	@$(BIN)/python -m millstream.rest.reference docs/rest.md
	@$(BIN)/python -m millstream.table.functions.reference docs/sql/functions.md
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --site-dir site
	@echo "docs/options.md docs/rest.md docs/sql/functions.md; the site: site/index.html"
