# Everything that a newcomer needs: `make demo` and `make test`. Both do their own set-up in .venv.
PYTHON ?= python3
BIN := .venv/bin
RUN := $(BIN)/python -m

.DEFAULT_GOAL := help
.PHONY: help setup demo lab test unit lint format proof bench requirements clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' Makefile

setup: .venv/ready ## Make .venv with the pinned dependencies, fetch the jars, prepare Spark's classes

.venv/ready: requirements.txt requirements-java.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Fencepost needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv --clear .venv
	$(RUN) pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	$(RUN) pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(RUN) fencepost.machine.java --check || $(RUN) pip install --quiet --disable-pip-version-check --require-hashes -r requirements-java.txt
	$(RUN) fencepost.machine.jars
	-$(RUN) fencepost.engines.spark.class_recording
	@touch .venv/ready

demo: .venv/ready ## Run the main job on a stack of its own, break it, and show the proof
	@$(RUN) fencepost demo

lab: .venv/ready ## Play every scenario of the lab, and write its report
	@$(BIN)/fencepost lab run --all; code=$$?; $(BIN)/fencepost lab report; exit $$code

test: .venv/ready ## Lint, and run every test that fits in the gate
	@$(BIN)/python tests/gate.py

unit: .venv/ready ## Run the tests that need no broker and no database
	@$(RUN) pytest -q tests/unit

lint: .venv/ready ## Check format, lint and types
	@$(RUN) ruff format --check .
	@$(RUN) ruff check .
	@$(RUN) mypy

format: .venv/ready ## Format and fix what can be fixed
	@$(RUN) ruff format .
	@$(RUN) ruff check --fix .

proof: .venv/ready ## Lint, and run everything, the long proofs too
	@$(BIN)/python tests/gate.py --proof

bench: .venv/ready ## Measure; QUICK=1 for a short run
	@for file in bench/*.py; do echo "== $$file"; $(BIN)/python "$$file" $(if $(QUICK),--quick) || exit 1; done

requirements: .venv/ready ## Pin the dependencies of pyproject.toml, with hashes, anew
	$(RUN) pip install --quiet uv
	$(RUN) uv pip compile pyproject.toml --extra all --group dev --universal --python-version 3.11 --generate-hashes --upgrade --no-emit-index-url --no-emit-find-links --custom-compile-command "make requirements" --quiet -o requirements.txt
	$(RUN) uv pip compile pyproject.toml --extra java --universal --python-version 3.11 --generate-hashes --upgrade --no-emit-index-url --no-emit-find-links --custom-compile-command "make requirements" --quiet -o requirements-java.txt -c requirements.txt

clean: ## Stop the local stack of this folder and remove what was made here
	@if [ -x $(BIN)/python ] && [ -d .fencepost ]; then $(RUN) fencepost stack down --wipe; fi
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
