# One command a wish. A fresh machine needs Python 3.11 or newer, make and git; the rest is made here, inside .venv.
SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
# Where the surroundings forbid it, every start of a program would compile it anew, and take more than twice as long.
export PYTHONDONTWRITEBYTECODE :=

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Files are compiled when they are first imported: installing is a third faster, and most are never imported.
INSTALL := $(BIN)/python -m pip --disable-pip-version-check install -qq --no-compile
# Debian packages that tests use: the browser of the console, and a broker.
PACKAGES := chromium rabbitmq-server
LOCK := $(VENV)-lock/bin/uv pip compile pyproject.toml --quiet --no-config --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"

.PHONY: help setup setup-dev packages up test lint bench chaos demo ci lock

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-7s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

up: setup ## start everything on this machine and print a link to sign in (ARGS="--bind ... --data-dir ...")
	@exec $(BIN)/soonish up $(ARGS)

test: setup-dev packages ## run all tests (ARGS="tests/due -k bell" for some of them)
	@$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder $(ARGS)

lint: setup-dev ## check style, types, imports and layout, and print the style figures
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -m tests.rules.layout
	@$(BIN)/python -m tests.rules.figures

bench: setup-dev ## measure the speed goals, each beside its peers (ARGS="s1 s3" for some of them)
	@$(BIN)/python -m bench $(ARGS)

chaos: setup-dev ## run the long reliability tests and print their counts
	@$(BIN)/python -m pytest tests/chaos -m chaos -n 0 -s $(ARGS)

# In a group of processes of its own, so that Ctrl-C is one request to end, and the folder goes when all has ended.
demo: setup ## look around: start everything in a fresh folder that is removed at the end (ARGS="--bind ...")
	@set -m; dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && trap 'kill -TERM $$pid' TERM INT; \
	$(BIN)/soonish up --data-dir "$$dir" $(ARGS) & pid=$$!; set +m; \
	while kill -0 $$pid 2>/dev/null; do wait $$pid; done

ci: ## do what the build does: lint, then test
	@.ci/run

lock: ## pin the dependencies again (ARGS="--upgrade" to take newer versions)
	@$(PYTHON) -m venv $(VENV)-lock && $(VENV)-lock/bin/python -m pip --disable-pip-version-check install -qq uv
	@$(LOCK) --group build --extra amqp --extra aws --output-file requirements.lock $(ARGS)
	@$(LOCK) --group build --extra amqp --extra aws --extra dev --extra bench --constraint requirements.lock --output-file requirements-dev.lock $(ARGS)
	@rm -rf $(VENV)-lock

# What the program needs, and itself.
setup: $(VENV)/.run
# The same and what its developers need.
setup-dev: $(VENV)/.dev

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Soonish needs Python 3.11 or newer; name one with: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.run: requirements.lock pyproject.toml | $(BIN)/pip
	@echo "Installing into $(VENV) (about half a minute) ..."
	@$(INSTALL) --require-hashes --requirement requirements.lock
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: requirements-dev.lock pyproject.toml | $(BIN)/pip
	@echo "Installing into $(VENV), tools for development included (about a minute) ..."
	@$(INSTALL) --require-hashes --requirement requirements-dev.lock
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $(VENV)/.run $@

packages:
	@for package in $(PACKAGES); do \
		command -v $$package >/dev/null && continue; \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo "Installing the Debian package $$package, which tests use ..."; \
			{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$package; } >/dev/null 2>&1; \
		fi; \
		command -v $$package >/dev/null || echo "$$package is not here and could not be installed: tests that need it are skipped (as root: apt-get install $$package)"; \
	done
