# Each target installs what it needs into a virtual environment, with the versions of constraints.txt (scripts/setup).
# PYTHON=python3.12 chooses the interpreter and VENV=.venv-3.12 the folder of the environment; QUICK=1 makes `make bench`
# a trial run that keeps no results.

.DEFAULT_GOAL := help
PYTHON ?=
VENV ?= .venv
LOWEST = .venv-lowest
export PYTHON VENV
PYTEST = -m pytest --numprocesses auto --dist worksteal --durations 25
BENCHMARKS = $(sort $(shell grep -l '^if __name__' benchmarks/*.py))

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: ## Watch Hedge, Cluster-Margin, Margin and Random label a pool of digits; writes a report
	@scripts/setup sklearn
	@$(VENV)/bin/hedgerow demo

.PHONY: desk-demo
desk-demo: ## From a folder of images to a learning curve: a simulated annotator, three strategies, a page to open
	@scripts/setup sklearn,start
	@$(VENV)/bin/python examples/desk_demo.py

.PHONY: test
test: setup ## Run every test, in as many processes as there are cores, and name the slowest
	@scripts/setup-browser >/dev/null || test -z "$$CI"
	@$(VENV)/bin/hedgerow warm  # so that no two processes compile the same kernels
	@$(VENV)/bin/python $(PYTEST)

.PHONY: check
check: setup lint ## Check style, types and the tests of what changed since main
	@files=$$($(VENV)/bin/python scripts/changed.py); test -z "$$files" || $(VENV)/bin/python $(PYTEST) $$files

.PHONY: test-lowest
test-lowest: ## Run the tests with the lowest versions that pyproject.toml allows, without torch and the site
	@$(or $(PYTHON),python3) scripts/lowest.py >$(LOWEST).txt
	@VENV=$(LOWEST) PINS=$(LOWEST).txt scripts/setup sklearn,words,fsspec,dask,ray,desk,test
	@$(LOWEST)/bin/python $(PYTEST) tests/unit tests/oracle tests/properties tests/journeys

.PHONY: lint
lint: ## Check style (ruff) and types (mypy strict on src)
	@scripts/setup lint
	@$(VENV)/bin/python -m ruff check .
	@$(VENV)/bin/python -m ruff format --check .
	@$(VENV)/bin/python -m mypy

.PHONY: bench
bench: ## Run every benchmark and rewrite docs/benchmarks.md (QUICK=1: a trial run)
	@scripts/setup dev,bench
	@set -e; for script in $(BENCHMARKS); do \
		echo "== $$script"; $(VENV)/bin/python $$script $(if $(QUICK),--quick); \
	done
	@$(if $(QUICK),true,$(VENV)/bin/python docs/make_benchmarks.py)

.PHONY: docs
docs: setup ## Refresh the generated parts of the pages: command line, benchmarks, results, figures
	@set -e; for script in docs/make_*.py; do $(VENV)/bin/python $$script; done

.PHONY: site
site: ## Build the documentation as a website into site/
	@scripts/setup site
	@$(VENV)/bin/python -m sphinx -q -W --keep-going -d site/.doctrees docs site
	@echo "Open site/index.html"

.PHONY: lock
lock: ## Resolve the newest allowed versions into constraints.txt
	@scripts/lock

.PHONY: setup
setup: ## Install what the tests need into the virtual environment
	@scripts/setup dev

.PHONY: clean
clean: ## Remove the virtual environment and every cache
	rm -rf .venv .venv-* .pytest_cache .mypy_cache .ruff_cache .hypothesis hedgerow-demo.html desk-demo site
	find src tests benchmarks docs examples -name __pycache__ -type d -prune -exec rm -rf {} +
