# RFT Studio's commands; `make help` lists them. Needs GNU make and Python 3.11 or newer with pip, nothing else.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
PY := .venv/bin/python

export UV_PYTHON_DOWNLOADS := never
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Variables given on the command line (make demo SERVE=0) reach the programs as environment.
# Numerical libraries start a thread per core each; several processes then stand in each other's way.
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: help setup setup-train setup-test demo serve test test-fast test-lane lint format bench lock

help: ## Show these commands.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: ## Make .venv from hashed requirements, and nothing else.
	@$(PYTHON) rftstudio/ops/make/setup.py base

setup-train: setup ## Add torch and TRL to .venv.
	@$(PYTHON) rftstudio/ops/make/setup.py train

setup-test: setup ## Add the test tools to .venv, and Chromium where it is missing and ours to install.
	@$(PYTHON) rftstudio/ops/make/setup.py test browser

demo: setup setup-train ## Walk the whole path with the example, then serve it. SERVE=0 stops after the walk; DEMO_SEED=1.
	@$(PY) manage.py demo

serve: setup ## Run web, workers, beat and broker as one group until Ctrl-C. STUDIO_PORT=8000.
	@$(PY) manage.py serve

test: setup-test setup-train ## Run every test lane.
	@$(PY) rftstudio/ops/make/lanes.py

test-fast: setup-test ## Run the tests that need no server, browser or torch.
	@$(PY) rftstudio/ops/make/lanes.py fast

test-lane: setup-test ## Run some lanes: make test-lane LANES="services browser".
	@$(PY) rftstudio/ops/make/lanes.py $(LANES)

lint: setup-test ## Check style, types, migrations, production settings and container files.
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@DJANGO_SETTINGS_MODULE=rftstudio.settings.test $(PY) manage.py makemigrations --check --dry-run
	@$(PY) rftstudio/ops/make/check_deploy.py
	@$(PY) rftstudio/ops/make/lint_docker.py

format: setup-test ## Lay out the source and sort its imports.
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

bench: setup ## Measure what the product promises and print it as JSON. BENCH=name picks one.
	@$(PY) -m rftstudio.bench $(BENCH)

lock: setup ## Resolve the requirements again into hashed files.
	@$(PY) rftstudio/ops/make/lock.py
