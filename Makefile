# What a person does here. Every target makes its own .venv first; `make help` lists them.

PYTHON ?= python3
# Passed on to the command of a target: make demo ARGS="--seed 3"
ARGS ?=
# Where `make demo` puts its agent.
DEMO ?= $(if $(findstring --shuffle-answers,$(ARGS)),demo-shuffled,demo)
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
BIN := .venv/bin
# A checkout that was moved needs its .venv anew: scripts and the editable install hold its path.
MOVED := $(shell [ ! -e .venv/.made-in ] || [ "$$(cat .venv/.made-in)" = "$$(pwd)" ] || echo moved)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test test-fast test-frameworks check faults bench docs serve constraints clean moved
moved: ;

help:  ## List what can be done here
	@echo 'make TARGET [ARGS="..."] [PYTHON=python3.12]'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' Makefile

setup: .venv/.dev  ## Install Ratchet and all that developing it needs into .venv
	@echo 'Ready: $(BIN)/ratchet'

demo: .venv/.core  ## Watch a real agent get better, from baseline to git branch (in ./demo)
	@$(BIN)/python -m ratchet demo $(DEMO) $(ARGS)

test: .venv/.dev  ## Run the tests on all cores
	$(BIN)/python -m pytest -n $$(($(CORES) + 1)) --dist loadgroup $(ARGS)  # one more: many wait

test-fast: .venv/.dev  ## Run the tests that start no process and no server: a minute
	$(BIN)/python -m pytest --fast -n $(CORES) $(ARGS)

test-frameworks: .venv/.dev  ## Try every agent framework, each in an environment of its own
	$(BIN)/python -m tests.frameworks $(ARGS)

check: .venv/.dev  ## Check format, lint, types and the floors of the house
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m ruff check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports

faults: .venv/.dev  ## Run the tests that kill, starve, corrupt and try examples, for longer
	RATCHET_LONG_FAULTS=1 $(BIN)/python -m pytest -n $(CORES) tests/faults tests/sandbox \
		tests/autopilot/test_code_by_itself.py tests/cli/test_demo.py \
		tests/server/test_schema.py $(ARGS)
	RATCHET_LONG_FAULTS=1 $(BIN)/python -m pytest -n $(CORES) -m hypothesis $(ARGS)

bench: .venv/.dev  ## Run the benchmarks; ARGS=--quick for smaller ones
	@failed=; for file in benchmarks/*.py; do \
		echo "$(BIN)/python $$file $(ARGS)"; \
		$(BIN)/python "$$file" $(ARGS) || failed="$$failed $$file"; \
	done; \
	if [ -n "$$failed" ]; then echo "These failed:$$failed" >&2; exit 1; fi

docs: .venv/.docs  ## Build the handbook into docs/_build/html
	$(BIN)/python -m sphinx -q -W --keep-going -b html -d docs/_build/doctrees docs docs/_build/html
	@echo 'Built: docs/_build/html/index.html'

serve: .venv/.core  ## Serve API, gateway and traces at http://127.0.0.1:8765
	@$(BIN)/ratchet serve $(ARGS) || [ $$? -eq 130 ]

constraints: .venv/.dev  ## Pin the newest versions of all dependencies anew
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip -q
	$(BIN)/python -m pip install -q uv
	$(BIN)/python -m uv pip compile pyproject.toml --extra dev --extra docs --extra postgres \
		--universal --python-version 3.11 --upgrade --quiet \
		--no-header --no-annotate --no-emit-index-url --no-emit-find-links -o constraints.txt

clean:  ## Delete .venv, caches and builds; ./demo stays
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .bench dist docs/_build
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

# Installation. What is installed is pinned by constraints.txt. Each stamp is as old as the last
# installation; it is made anew when what it was made from changed. All paths are relative, so the
# checkout may stand in a folder whose name holds spaces.

.venv/.core: pyproject.toml constraints.txt $(MOVED)
	$(call install,.)

.venv/.dev: pyproject.toml constraints.txt $(MOVED)
	$(call install,.[dev$(comma)postgres])
	@touch .venv/.core

.venv/.docs: pyproject.toml constraints.txt $(MOVED)
	$(call install,.[docs])
	@touch .venv/.core

comma := ,

# $(1): what to install.
define install
@$(VENV)
@echo 'Installing $(1)'
@if command -v uv >/dev/null; then \
	VIRTUAL_ENV= uv pip install -q --python $(BIN)/python -c constraints.txt -e '$(1)'; \
else \
	{ $(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip -q; } && \
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '$(1)'; \
fi
@touch $@
endef

# A .venv that was made elsewhere, or whose Python is gone, is made anew.
define VENV
if [ ! -e .venv/.made-in ] || [ "$$(cat .venv/.made-in)" = "$$(pwd)" ]; then \
	$(BIN)/python -c '' 2>/dev/null && exit 0; fi; \
command -v '$(PYTHON)' >/dev/null || { echo "There is no $(PYTHON) here. Name another: make PYTHON=python3.12" >&2; exit 1; }; \
'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	echo "Ratchet needs Python 3.11 or newer; $(PYTHON) is $$('$(PYTHON)' -V 2>&1). Name another: make PYTHON=python3.12" >&2; exit 1; }; \
echo "Making .venv with $$('$(PYTHON)' -V)"; \
rm -rf .venv; \
if command -v uv >/dev/null; then \
	uv venv -q --python "$$('$(PYTHON)' -c 'import sys; print(sys.executable)')" .venv; \
else '$(PYTHON)' -m venv .venv; fi && pwd > .venv/.made-in
endef
