# make benchmark   from a fresh clone to a first result
# make bench       how much of the runtime's speed the harness leaves; ARGS="--model bert-99"
# make register    an environment in .venv and this checkout as a CM repository in .cm: needed before the first cm
# make docs        the documentation as a site in build/site, with a search; needs no network to read
# make quick       formatting, lint, types and unit tests, in a minute and 300 MB: before each commit
# make test        formatting, lint, types and all tests: what CI runs
# make coverage    unit and engine tests, and the lines of the engine that they leave out
# make format      rewrite the sources the way `make test` wants them
# make clean       remove what the other targets made, results and cache included

.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

PYTHON ?= python3
# Relative, because a path with a blank in it cannot be the name of a target.
VENV := .venv
BIN := $(VENV)/bin
export CM_REPOS ?= $(CURDIR)/.cm
# Thousands of processes of the tests import the same modules: they are compiled once.
unexport PYTHONDONTWRITEBYTECODE

INSTALLED := $(VENV)/.installed
# Formatting, lint, types and unit tests need a fifth of what all tests do: no browser, no runtime.
INSTALLED_FOR_QUICK := $(VENV)/.installed-for-quick
INSTALLED_FOR_TEST := $(VENV)/.installed-for-test
# A file of tests stays in one process: what it makes once is made once. `PARALLEL=` is serial.
PARALLEL ?= -n auto --dist loadfile --no-loadscope-reorder
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable

.PHONY: help benchmark bench docs quick test test-gpu format check lint types unit pytest coverage register clean

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

# The scripts find the Python of .venv first, as in an activated environment: what they install goes
# there and nothing on the machine outside this checkout changes. A terminal shows its progress.
benchmark: register
	@[ -t 2 ] || quiet=--quiet; PATH="$(CURDIR)/$(BIN):$$PATH" \
	  cm run script --tags=run-mlperf,inference,_tiny,_all-scenarios \
	  --model=resnet50 --backend=onnxruntime --device=cpu $${quiet-}

# Its environment is that of the tests: the runtimes are among their packages.
bench: $(INSTALLED_FOR_TEST) register
	$(BIN)/python benchmarks/harness.py $(ARGS)

docs: $(VENV)/.installed-for-docs
	$(BIN)/python docs/site/build_site.py

# mypy and the unit tests run at the same time: on two cores all this takes a minute.
quick: STARTED := $(shell date +%s)
quick: $(INSTALLED_FOR_QUICK)
	@$(MAKE) --no-print-directory --jobs=2 check unit
	@echo "make quick: $$(($$(date +%s) - $(STARTED))) s; .venv has $$(du -sm $(VENV) | cut -f1) MB"

test: check pytest

check: lint types

lint: $(INSTALLED_FOR_QUICK)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

# Every script has a customize.py: mypy sees each as a module of a package named after its script.
types: $(INSTALLED_FOR_QUICK)
	@rm -rf build/hooks && for path in script/*/*.py; do name="$${path#script/}"; \
	  name="build/hooks/$${name//-/_}"; mkdir -p "$${name%/*}"; ln -s "$(CURDIR)/$$path" "$$name"; done
	MYPYPATH=build/hooks $(BIN)/mypy
	MYPYPATH=build/hooks $(BIN)/mypy build/hooks

# The import contracts are one of these tests.
unit: $(INSTALLED_FOR_QUICK)
	$(BIN)/pytest -q $(PARALLEL) tests/unit

pytest: coverage
	$(BIN)/pytest $(PARALLEL) --ignore=tests/unit --ignore=tests/engine

# PYTHON of an environment with PyTorch for CUDA and this project: `make test-gpu BIN=PATH/bin`.
test-gpu:
	$(BIN)/python -m pytest -m gpu tests/script/app-mlperf-inference

coverage: $(INSTALLED_FOR_TEST)
	$(BIN)/pytest $(PARALLEL) tests/unit tests/engine --cov

format: $(INSTALLED_FOR_QUICK)
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

# The checkout itself is registered, not a copy of it, so that an edited script is the one that runs.
register: $(INSTALLED)
	@$(BIN)/python -c 'import json, sys; sys.exit(sys.argv[2] not in json.load(open(sys.argv[1])))' \
	  "$(CM_REPOS)/repos.json" "$(CURDIR)" 2>/dev/null || $(BIN)/cm init repo

# The installs are editable: only a change of what is installed beside the sources needs a new one.
$(INSTALLED): setup.py pyproject.toml | $(BIN)/python
	$(PIP_INSTALL) .
	@touch $@

# Of packages whose types are read and which are not run, bytecode would be a quarter of the size.
$(INSTALLED_FOR_QUICK): setup.py pyproject.toml | $(BIN)/python
	$(PIP_INSTALL) '.[quick]' --no-compile
	@touch $(INSTALLED) $@

$(INSTALLED_FOR_TEST): setup.py pyproject.toml | $(BIN)/python
	$(PIP_INSTALL) '.[test]'
	@$(BIN)/python -m compileall -q -j 0 $(VENV)/lib >/dev/null || true # templates are no Python
	@touch $(INSTALLED) $(INSTALLED_FOR_QUICK) $@

$(VENV)/.installed-for-docs: setup.py pyproject.toml | $(BIN)/python
	$(PIP_INSTALL) '.[docs]'
	@touch $(INSTALLED) $@

$(BIN)/python:
	@command -v "$(PYTHON)" >/dev/null || { \
	  echo "make: no $(PYTHON) found; name one of 3.10 or newer: make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "make: cmbench needs Python 3.10 or newer and $(PYTHON) is $$("$(PYTHON)" -V 2>&1);" \
	    "try: make PYTHON=python3.12" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "make: $(PYTHON) cannot make virtual environments;" \
	    "on Debian and Ubuntu: sudo apt-get install python3-venv" >&2; exit 1; }
	"$(PYTHON)" -m venv "$(VENV)" || { rm -rf "$(VENV)"; exit 1; }

clean:
	rm -rf .venv .cm build dist automation/*.egg-info automation/cmbench_crowd_server/{build,*.egg-info} .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
