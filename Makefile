# make run     grade a sample on whatever this machine has
# make test    lint, types, tests
#
# Both set up all they need in $(VENV) first. Another Python: make PYTHON=python3.12. No network, and an interpreter that
# has the packages already: make VENV= PYTHON=/path/to/python

PYTHON ?= python3
VENV ?= .venv
ARGS ?=

PY := $(if $(strip $(VENV)),$(VENV)/bin/python,$(PYTHON))

.PHONY: run test lint ready

run: ready
	@$(PY) -m scripts.first_run

test: lint
	@$(PY) -m pytest $(ARGS)

lint: ready
	@$(PY) -m ruff check .
	@$(PY) -m mypy

ready:
	@command -v $(PYTHON) >/dev/null || { echo "make: there is no $(PYTHON); install Python 3.11 or newer, or name one: make PYTHON=..." >&2; exit 1; }
	@$(PYTHON) scripts/prepare.py $(VENV)
