PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Tests run on the CPU unless the environment says otherwise.
JAX_PLATFORMS ?= cpu

# What an installed package has to be built again for.
SOURCES := pyproject.toml jaxmatch/_library/abi.py jaxmatch/_common/status.py $(shell find ffi -type f)

# What `make test` lints again for.
LINTED := .ci/smoke.py .clang-format pyproject.toml $(shell find benchmarks docs examples ffi \
	jaxmatch packaging tests -type f -not -path '*/__pycache__/*')

# Of the slow tests, `make test` runs one in so many, others each day; `SHARE=3/8` names them.
SHARE ?= 64

SANITIZERS ?= address thread

# Of `make campaign`, which ends after so many problems, or after MINUTES of them if that is set; a
# seed repeats one, today's date is the default.
PROBLEMS ?= 100000
WORKERS ?= 2

# Of `make wheels`, a choice such as WHEELS="cpu cuda13".
WHEELS ?=
DIST ?= dist

.PHONY: help demo test test-all test-examples campaign scaled sanitize lint format build wheels bench docs check-docs clean

help:
	@echo "make demo    install into $(VENV) and run an example"
	@echo "make test    lint, quick tests and doctests, and a 64th of the slow tests: others each day"
	@echo "make test-all   every test, those of examples and benchmarks too"
	@echo "make test-examples   tests of examples and benchmarks: they train and measure"
	@echo "make campaign PROBLEMS=100000 MINUTES=5 SEED=1   hostile problems for every solver"
	@echo "make scaled  every solver at every power of two of every dtype"
	@echo "make sanitize SEED=1   the CPU library under sanitizers: hostile problems, wrong calls"
	@echo "make lint    ruff, pyright, clang-format"
	@echo "make format  rewrite the files as lint wants them"
	@echo "make build   build a wheel for this machine into dist/"
	@echo "make wheels WHEELS=\"cpu aarch64 cuda12 cuda13 sdist\"   a release, into dist/"
	@echo "make bench   measure against other solvers"
	@echo "make docs    build the documentation into build/site"
	@echo "make check-docs   look at every page in a browser: needs chromium and chromedriver"
	@echo "make clean   remove what was built"
	@echo "PYTHON=python3.12 picks another Python (3.11 or later)."

demo: $(VENV)/.examples
	$(BIN)/python examples/digits_detection.py

# A module stays with one worker, so that it compiles its programs once.
PYTEST = JAX_PLATFORMS=$(JAX_PLATFORMS) \
	XLA_FLAGS="--xla_force_host_platform_device_count=4 $(XLA_FLAGS)" \
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder --share $(SHARE)

test: $(VENV)/.dev $(VENV)/.linted
	$(PYTEST) -m "not examples" --doctest-modules tests jaxmatch $(PYTEST_ARGS)

test-all:
	$(MAKE) test test-examples SHARE=1

test-examples: $(VENV)/.dev
	$(PYTEST) tests/examples $(PYTEST_ARGS)

campaign: $(VENV)/.dev
	cd tests && JAX_PLATFORMS=$(JAX_PLATFORMS) ../$(BIN)/python -m campaign \
	  --problems $(PROBLEMS) --workers $(WORKERS) \
	  $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED))

scaled: $(VENV)/.dev
	cd tests && JAX_PLATFORMS=$(JAX_PLATFORMS) ../$(BIN)/python -m scaled

sanitize: $(VENV)/.dev
	cd tests && for kind in $(SANITIZERS); do \
	  ../$(BIN)/python -m sanitize $$kind $(if $(SEED),--seed $(SEED)) $(SANITIZE_ARGS) || exit 1; \
	done

lint: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright --pythonpath $(BIN)/python
	find ffi tests -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \
	  | xargs $(BIN)/clang-format --dry-run -Werror
	@touch $(VENV)/.linted

$(VENV)/.linted: $(LINTED)
	$(MAKE) lint

format: $(VENV)/.dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	find ffi tests -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \
	  | xargs $(BIN)/clang-format -i

build: $(VENV)/.python
	$(BIN)/pip wheel . --no-deps --wheel-dir dist

wheels: $(VENV)/.wheels
	$(BIN)/python packaging/build.py --out $(DIST) $(WHEELS)
	$(BIN)/twine check --strict $(DIST)/*

bench: $(VENV)/.benchmarks
	$(BIN)/python -m benchmarks.assignment.cpu

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

check-docs: docs
	$(BIN)/python docs/check_site.py

clean:
	rm -rf build dist $(VENV) .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "jaxmatch needs Python 3.11 or later, but $(PYTHON) is $$($(PYTHON) -V 2>&1)." \
	       "Name another one: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	touch $@

# Editable: Python files need no reinstall. What comes on top of it compiles nothing again.
$(VENV)/.native: $(VENV)/.python $(SOURCES)
	$(BIN)/pip install -e .
	touch $@

# Of pyproject.toml's optional dependencies, those of the groups named.
install = $(BIN)/python -c 'import sys, tomllib; \
	groups = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; \
	print(*(x for name in sys.argv[1:] for x in groups[name]), sep="\n")' $(1) \
	| xargs $(BIN)/pip install

$(VENV)/.examples: $(VENV)/.native
	$(call install,examples)
	touch $@

$(VENV)/.dev: $(VENV)/.native
	$(call install,dev examples)
	touch $@

$(VENV)/.wheels: $(VENV)/.python pyproject.toml
	$(call install,wheels)
	touch $@

# Nothing is compiled: the pages are made from the sources.
$(VENV)/.docs: $(VENV)/.python pyproject.toml
	$(call install,docs)
	touch $@

$(VENV)/.benchmarks: $(VENV)/.native
	$(call install,benchmarks)
	touch $@
