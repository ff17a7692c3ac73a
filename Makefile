# Two commands do everything: `make study` and `make test`. Both set up .venv first.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
comma := ,
ON_TWO := -n 2 --dist loadgroup --no-loadscope-reorder
.PHONY: study test compiled checks nightly lint docs clean help

help:
	@echo "make study   install into $(VENV) and run the airline study; the report is study/report.html"
	@echo "make test    install and run everything that CI runs"
	@echo "make nightly install and compare the planes in random jobs with fresh seeds, and try all random examples"
	@echo "make docs    write docs/reference again"

# Python compiles what is imported when it is; pip would compile all there is, which takes half of its time. It must be
# kept then: each process that compiled all of it again would begin two to three seconds later.
unexport PYTHONDONTWRITEBYTECODE
define install
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "holdfast needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt --editable ".[$(1)]"
endef

$(VENV)/.installed: setup.cfg pyproject.toml constraints.txt
	$(call install,spark)
	@touch $@

$(VENV)/.installed-dev: setup.cfg pyproject.toml constraints.txt
	$(call install,spark$(comma)dev)
	@touch $(VENV)/.installed $@

study: $(VENV)/.installed
	$(BIN)/holdfast study examples/airline.toml --out study --force

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Types are checked on one core while the engine is compiled on the other; the tests find it compiled.
test: $(VENV)/.installed-dev
	@$(MAKE) --no-print-directory --jobs=2 lint checks

compiled: $(VENV)/.installed-dev
	PYTHONPATH=tests $(BIN)/python -m compile_first

checks: compiled
	$(BIN)/python -m pytest $(ON_TWO) -m "not slow and not nightly"

# Jobs with fresh seeds; a failure names the seed with which HOLDFAST_SEED repeats it.
nightly: $(VENV)/.installed-dev
	HOLDFAST_EXAMPLES=all $(BIN)/python -m pytest $(ON_TWO) -m "nightly or (hypothesis and not slow)"

docs: $(VENV)/.installed-dev
	$(BIN)/python -m holdfast.reference

clean:
	rm -rf $(VENV) study study.unfinished build dist *.egg-info
