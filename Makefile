# Two commands do everything: `make study` and `make test`. Both set up .venv first.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
.PHONY: study test lint docs clean help

help:
	@echo "make study   install into $(VENV) and run the airline study; the report is study/report.html"
	@echo "make test    install and run everything that CI runs"
	@echo "make docs    write docs/reference again"

$(VENV)/.installed: setup.cfg pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "holdfast needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --editable ".[spark]"
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --editable ".[spark,dev]"
	@touch $@

study: $(VENV)/.installed
	$(BIN)/holdfast study examples/airline.toml --out study --force

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not slow"

docs: $(VENV)/.installed-dev
	$(BIN)/python -m holdfast.reference

clean:
	rm -rf $(VENV) study study.unfinished build dist *.egg-info
