# Needs Python 3.11 or later and make; everything else goes into .venv.
#
#   make ablation              the main job: sweep heads, depth and LayerNorm placement, print the table
#   make test                  the tests, but for the slow ones
#   make test-slow             the slow ones: many processes, the benchmark; CI runs both
#   make lint, make format     what CI checks of the style; put it right
#   make clean                 remove .venv and caches; results in runs/ stay
#
#   PYTHON=python3.12          the Python that .venv is made from
#   EXTRA=cuda | EXTRA=tpu     the accelerator that .venv can use
# Both choices are remembered until they are given anew (EXTRA= for none) or `make clean`.

SHELL = /bin/sh
VENV = .venv
BIN = $(VENV)/bin

PYTHON ?= $(shell cat $(VENV)/choice.python 2>/dev/null)
EXTRA ?= $(shell cat $(VENV)/choice.extra 2>/dev/null)
CHOICE = $(strip $(PYTHON)):$(strip $(EXTRA))
CHOSEN := $(shell cat $(VENV)/choice.python 2>/dev/null):$(shell cat $(VENV)/choice.extra 2>/dev/null)

.PHONY: ablation test test-slow lint format clean env again

ablation: env
	$(BIN)/python -m experiments.sweep --sweep=configs/sweeps/quickstart.py --workdir=runs/quickstart

test: env
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-slow: env
	$(BIN)/python -m pytest -n 2 --dist loadfile -m slow

lint: env
	$(BIN)/ruff check
	$(BIN)/ruff format --check

format: env
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	rm -rf $(VENV) build dist txf.egg-info .pytest_cache .ruff_cache .hypothesis
	find txf experiments configs tests -name __pycache__ -prune -exec rm -rf {} +

env: $(VENV)/ready

# The stamp is written last, so an interrupted installation starts over, from nothing. The base executable
# is asked for because `python3` may be the one in the very .venv that is about to be replaced.
$(VENV)/ready: setup.cfg constraints.txt $(if $(filter-out $(CHOICE),$(CHOSEN)),again)
	@case "$(strip $(EXTRA))" in ''|cuda|tpu) ;; \
	  *) echo "EXTRA=$(EXTRA) is not known: give cuda, tpu or nothing" >&2; exit 2 ;; esac; \
	found=; bare=; \
	for candidate in $(if $(strip $(PYTHON)),"$(strip $(PYTHON))",python3 python3.13 python3.12 python3.11 python); do \
	  "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || continue; \
	  if "$$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1; then found=$$candidate; break; fi; \
	  bare=$${bare:-$$candidate}; \
	done; \
	if [ -z "$$found" ]; then \
	  if [ -n "$$bare" ]; then \
	    echo "$$bare cannot make environments, it lacks the venv module: install that (Debian, Ubuntu: apt install python3-venv) or name another Python, as in make PYTHON=/path/to/python" >&2; \
	  else \
	    echo "txf needs Python 3.11 or later$(if $(strip $(PYTHON)),$(,) and $(strip $(PYTHON)) is none): install one, or name it, as in make PYTHON=/path/to/python" >&2; \
	  fi; \
	  exit 2; \
	fi; \
	found=$$("$$found" -c 'import sys; print(sys._base_executable)'); \
	echo "making $(VENV) with $$("$$found" -V 2>&1)$(if $(strip $(EXTRA)), for $(strip $(EXTRA))): takes a minute or two"; \
	rm -rf $(VENV) && "$$found" -m venv $(VENV) && \
	$(BIN)/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt \
	  --editable '.[test$(if $(strip $(EXTRA)),$(,)$(strip $(EXTRA)))]' && \
	printf '%s\n' "$(strip $(PYTHON))" > $(VENV)/choice.python && \
	printf '%s\n' "$(strip $(EXTRA))" > $(VENV)/choice.extra && \
	touch $@

again:

# A comma that $(if) does not take for its own.
, := ,
