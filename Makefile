# Each target makes its own virtual environment when there is none; nothing outside $(VENV) is touched.
PYTHON ?= python3
VENV ?= .venv
# Processes that share the tests. They mostly wait, so two do on two cores; more need more cores.
WORKERS ?= 2
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test check format bench clean

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.installed ## train CartPole to a mean return of 475, then play 20 episodes with the policy
	$(BIN)/tianjictl launch playbooks/train/cartpole-ppo.yaml --yes
	$(BIN)/tianjictl eval --episodes 20

test: $(VENV)/.installed-dev ## the whole test suite
	$(BIN)/pytest -n $(WORKERS)

check: $(VENV)/.installed-dev ## format, lint, types, import rules, house rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy runtime tianjictl
	$(BIN)/lint-imports
	$(BIN)/pytest tests/house

format: $(VENV)/.installed-dev ## rewrite the sources in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.installed ## time to reward, throughput and memory beside Stable-Baselines3, RLlib, Sample Factory
	$(BIN)/python benchmarks/time_to_reward.py

clean: ## remove what the targets above have made
	rm -rf $(VENV) benchmarks/.venvs benchmarks/results

# The stamps are written last, so an interrupted installation is done again; pip itself skips what is there.
$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tianjictl needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --editable '.[dev]'
	@touch $(VENV)/.installed $@
