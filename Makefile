# `make demo` and `make test` do all set-up themselves. `make help` lists the rest.
#
#   PYTHON=python3.12      the Python that .venv is made with (3.11 to 3.13)
#   TORCH_INDEX=URL        another package index for torch, e.g. one with a CPU-only or CUDA build
#   MINUTES=3 SEED=7       how long `make faults` and `make soak` take; where the chance of `make faults` comes from
#   WORKERS=1              processes that share the tests; otherwise one more than cores, up to five
#   MINUTES=20 TURN=3      of test-TIER: begin no test later than that; with another file at each turn

PYTHON ?= python3
TORCH_INDEX ?=

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input -q
# The environment is ready when the file named by the hash of what it was made from exists.
READY := $(VENV)/.ready-$(shell cat constraints.txt pyproject.toml hatch_build.py | sha256sum | cut -c1-16)

# One more than cores: some tests wait for engines and other programs.
WORKERS ?= $(shell cores=$$(env -u OMP_NUM_THREADS nproc); echo $$((cores < 4 ? cores + 1 : 5)))
PYTEST := $(BIN)/python -m pytest -q -n $(WORKERS)
# Tests outside the default suite, by marker.
TIERS := $(shell sed -n 's/^  "\([a-z]*\): tier .*/\1/p' pyproject.toml)
ANY_TIER := $(shell echo $(TIERS) | sed 's/ / or /g')

.DEFAULT_GOAL := help
.PHONY: help setup programs demo test test-fast lint format docs bench faults soak clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-zA-Z%-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY)  ## make .venv and install everything, if that is not done yet

demo: $(READY)  ## a tour in six parts: encode, stream, see and act, on one page to look at
	@$(BIN)/reel demo

# Types are checked beside the tests, and heard of only where something is wrong: the last line is that of the tests.
test: $(READY) programs  ## style, types and the default tests: some minutes
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@said=$$(mktemp); trap 'rm -f "$$said"' EXIT; \
	$(BIN)/mypy >"$$said" 2>&1 & types=$$!; \
	$(PYTEST) -m "not ($(ANY_TIER))"; tests=$$?; \
	wait $$types || { cat "$$said" >&2; exit 1; }; \
	exit $$tests

test-fast: $(READY)  ## style and the quick ones of the default tests: about a minute
	@$(BIN)/ruff check
	@$(PYTEST) -m "not (slow or $(ANY_TIER))"

# pytest ends with 5 where a tier has no test yet.
test-%: $(READY) programs  ## the tests of one tier, e.g. test-long; pyproject.toml lists the tiers
	@$(if $(filter $*,$(TIERS)),,echo "error  no tier '$*' of tests; use one of: $(TIERS)" >&2; exit 2)
	@$(PYTEST) -m $* $(if $(MINUTES),--minutes $(MINUTES)) $(if $(TURN),--turn $(TURN)) || [ $$? = 5 ]

programs:
	@missing=""; \
	command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
	  missing="$$missing chromium"; \
	command -v ffprobe >/dev/null || missing="$$missing ffmpeg"; \
	command -v SvtAv1EncApp >/dev/null || missing="$$missing svt-av1"; \
	[ -z "$$missing" ] || { $(install_programs); }

lint: $(READY)  ## style and types, as CI checks them
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

format: $(READY)  ## put the code into shape
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

# -E reads every page anew: the reference is written from the code, whose changes Sphinx does not see. -W: a warning fails.
docs: $(READY)  ## build the pages and the reference as one site: docs/_build/index.html
	@$(BIN)/python -m sphinx -E -q -W --keep-going -b html docs docs/_build
	@echo "docs   docs/_build/index.html"

# Every part of a campaign can be repeated: make faults SEED=7 ONLY=videos TRIAL=17
faults: $(READY)  ## break inputs, saves, disks and players: an hour, or MINUTES=3
	@$(BIN)/python -m tests.campaign --minutes $(or $(MINUTES),60) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY)) \
	  $(if $(TRIAL),--trial $(TRIAL))

soak: $(READY)  ## mixed work for an hour, or MINUTES=5: whether what is held stays flat
	@$(BIN)/python -m tests.campaign.soak --minutes $(or $(MINUTES),60)

bench: $(READY)  ## speed, as ratios in one run
	@set -e; for file in benchmarks/[!_]*.py; do echo "bench  $$file"; $(BIN)/python "$$file"; done

clean:  ## remove caches and what the demo left; .venv and runs/ stay
	@rm -rf demo dist build faults docs/_build docs/reference .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Torch goes first, so that TORCH_INDEX decides its build before anything else pulls one in. BenchMARL goes last and
# without what it asks for (an old av, torchvision), which it does not need.
$(READY): constraints.txt pyproject.toml hatch_build.py
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null || { \
	  found=$$($(PYTHON) --version 2>/dev/null || echo missing); \
	  echo "error  $(PYTHON) is $$found; Python 3.11 to 3.13 is needed: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { $(install_venv); }
	@$(BIN)/python -c '' 2>/dev/null || { echo "setup  $(VENV) (some minutes, 3 to 7 GB)"; $(PYTHON) -m venv --clear $(VENV); }
	@echo "setup  torch"
	@$(PIP) install -c constraints.txt $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) torch
	@echo "setup  reelrl and what it needs"
	@$(PIP) install -c constraints.txt -e '.[dev]'
	@$(PIP) install -c constraints.txt --no-deps benchmarl
	@$(BIN)/python hatch_build.py || echo "skip   players' libraries; \`reel play\` and its tests need them: $(BIN)/python hatch_build.py" >&2
	@rm -f $(VENV)/.ready-*
	@touch $@

# Debian and Ubuntu split venv off Python. Root may install it; others are told the line.
define install_venv
package=$$($(PYTHON) -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'); \
if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
  echo "setup  $$package"; \
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$$package" >/dev/null; \
else \
  echo "error  $(PYTHON) cannot make virtual environments; run: sudo apt-get install -y $$package" >&2; exit 1; \
fi
endef

# What tests look through: pages in a real browser, files in readers and an encoder that are not ours. Root may install
# them; for others those tests are left out, and that is said.
define install_programs
if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
  echo "setup $$missing"; \
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$missing >/dev/null; \
else \
  echo "skip   tests that need$$missing; to run them: sudo apt-get install -y$$missing" >&2; \
fi
endef
