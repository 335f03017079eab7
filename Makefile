# Each target sets itself up: a virtual environment in .venv with the versions of constraints.txt (scripts/setup).
# PYTHON=python3.12 chooses the interpreter; QUICK=1 makes `make bench` a trial run that keeps no results.

.DEFAULT_GOAL := help
PYTHON ?=
export PYTHON
BENCHMARKS = $(sort $(shell grep -l '^if __name__' benchmarks/*.py))

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: ## Watch Cluster-Margin, Margin and Random label a pool of digits; writes a report
	@scripts/setup sklearn
	@.venv/bin/hedgerow demo

.PHONY: test
test: setup ## Run every test, in as many processes as there are cores, and name the slowest
	@scripts/setup-browser >/dev/null || test -z "$$CI"
	@.venv/bin/python -m pytest --numprocesses auto --dist worksteal --durations 25

.PHONY: lint
lint: ## Check style (ruff) and types (mypy strict on src)
	@scripts/setup lint
	@.venv/bin/python -m ruff check .
	@.venv/bin/python -m ruff format --check .
	@.venv/bin/python -m mypy

.PHONY: bench
bench: ## Run every benchmark and rewrite docs/benchmarks.md (QUICK=1: a trial run)
	@scripts/setup dev,bench
	@set -e; for script in $(BENCHMARKS); do \
		echo "== $$script"; .venv/bin/python $$script $(if $(QUICK),--quick); \
	done
	@$(if $(QUICK),true,.venv/bin/python docs/make_benchmarks.py)

.PHONY: docs
docs: setup ## Refresh the generated parts of the pages: command line, benchmarks, results, figures
	@set -e; for script in docs/make_*.py; do .venv/bin/python $$script; done

.PHONY: site
site: ## Build the documentation as a website into site/
	@scripts/setup site
	@.venv/bin/python -m sphinx -q -W --keep-going -d site/.doctrees docs site
	@echo "Open site/index.html"

.PHONY: lock
lock: ## Resolve the newest allowed versions into constraints.txt
	@scripts/lock

.PHONY: setup
setup: ## Install what the tests need into the virtual environment
	@scripts/setup dev

.PHONY: clean
clean: ## Remove the virtual environment and every cache
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis hedgerow-demo.html site
	find src tests benchmarks docs examples -name __pycache__ -type d -prune -exec rm -rf {} +
