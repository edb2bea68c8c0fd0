# Everything a person or CI runs. `make` alone lists the commands.
#
# PYTHON=python3.12   the interpreter that the environment is made from
# VENV=.venv          where the environment lies
# PORT=8000           where `make serve` listens
# ARGS="-k overlap"   passed on to pytest by `make test` and `make check`

PYTHON ?= python3
VENV ?= .venv
PORT ?= 8000
ARGS ?=

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:
.DEFAULT_GOAL := help

BIN := $(CURDIR)/$(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
STAMPS := $(VENV)/.stamps

# npm and the kernels find the environment's own programs first.
export PATH := $(BIN):$(PATH)
# A kernel of this name in the reader's home must not win over the environment's.
export JUPYTER_PREFER_ENV_PATH := 1
export PYTHONNOUSERSITE := 1

define stop
{ echo "make: $(1)" >&2; exit 1; }
endef

.PHONY: help book test serve lab check format outputs pins gpu torch clean

help:
	@echo "make book      set up the environment, run the labs, render the book to _build/html"
	@echo "make test      render the book, then run every test"
	@echo "make serve     show the book on 127.0.0.1 and render again when a file changes"
	@echo "make lab       open the labs in JupyterLab"
	@echo "make check     the tests alone, on the book as it was last rendered"
	@echo "make format    format the code and mend what ruff can mend"
	@echo "make outputs   run the labs and refresh the outputs that are committed"
	@echo "make gpu       add what measuring on an NVIDIA GPU needs"
	@echo "make torch     add torch alone, for the tests that use it without a GPU"
	@echo "make pins      resolve constraints.txt again (UPGRADE=1: to the newest versions)"
	@echo "make clean     remove what was built; the environment stays"

# --- environment -----------------------------------------------------------------------------

$(STAMPS)/venv:
	@command -v "$(PYTHON)" >/dev/null || $(call stop,$(PYTHON) not found; name another with PYTHON=...)
	@"$(PYTHON)" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
	  $(call stop,$(PYTHON) is $$("$(PYTHON)" -V 2>&1); Python 3.11 to 3.13 is needed; name one with PYTHON=...)
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || \
	  $(call stop,$(PYTHON) has no venv module; on Debian or Ubuntu: apt-get install python3-venv)
	@echo "environment: $(VENV) ($$("$(PYTHON)" -V 2>&1))"
	@"$(PYTHON)" -m venv "$(VENV)" || $(call stop,could not make the environment in $(VENV))
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/book: pyproject.toml constraints.txt | $(STAMPS)/venv
	@echo "environment: installing the package and what renders the book"
	@$(PIP) --editable '.[book]' || $(call stop,installing the book's packages failed; see above)
	@touch $@

$(STAMPS)/test: pyproject.toml constraints.txt | $(STAMPS)/book
	@echo "environment: installing what the tests need"
	@$(PIP) --editable '.[book,test]' || $(call stop,installing the tests' packages failed; see above)
	@touch $@

gpu: $(STAMPS)/book
	@$(PIP) --editable '.[book,gpu]' || $(call stop,installing the GPU packages failed; see above)

torch: $(STAMPS)/book
	@$(PIP) torch || $(call stop,installing torch failed; see above)

# Node and npm are packages of the environment; no script of a front-end package is run.
node_modules/.stamp: package.json package-lock.json .npmrc | $(STAMPS)/book
	@echo "front end: fetching MathJax"
	@$(BIN)/npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --silent || \
	  $(call stop,npm could not fetch the front-end files; is the registry reachable?)
	@touch $@

vendor/.stamp: node_modules/.stamp tools/vendor.py
	@$(BIN)/python tools/vendor.py node_modules vendor || $(call stop,copying the front-end files failed)
	@touch $@

# --- book ------------------------------------------------------------------------------------

# A page that left the contents, or a changed setting, must not leave its old HTML behind.
_build/.stamp: _toc.yml _config.yml $(wildcard book/*.py) vendor/.stamp
	@rm -rf _build/html _build/.doctrees
	@mkdir -p _build && touch $@

# After a failure the next build starts afresh: Sphinx repeats no warning of a page it has read.
book: $(STAMPS)/book vendor/.stamp _build/.stamp
	@$(BIN)/jupyter-book build . -W -n --keep-going --quiet || \
	  { rm -rf _build/.doctrees; echo "make: the book has errors or warnings; see above" >&2; exit 1; }
	@echo "book: $(CURDIR)/_build/html/index.html"
	@echo "      file://$(CURDIR)/_build/html/index.html"

serve: $(STAMPS)/book vendor/.stamp
	@$(BIN)/jupyter-book config sphinx . >/dev/null || $(call stop,_config.yml could not be read)
	@PYTHONPATH=$(CURDIR)/book $(BIN)/sphinx-autobuild --host 127.0.0.1 --port $(PORT) \
	  --watch ringi_lab \
	  --re-ignore '(^|/)(_build|\.venv|\.git|node_modules|vendor|tests|__pycache__|\.\w+_cache|\.ipynb_checkpoints)/' \
	  . _build/serve

lab: $(STAMPS)/test
	@$(BIN)/jupyter lab labs

# --- tests -----------------------------------------------------------------------------------

test: $(STAMPS)/test book
	@$(BIN)/python -m pytest $(ARGS)

check: $(STAMPS)/test
	@$(BIN)/python -m pytest $(ARGS)

format: $(STAMPS)/test
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

outputs: $(STAMPS)/test
	@$(BIN)/python tools/notebooks.py labs

# --- upkeep ----------------------------------------------------------------------------------

# Names, versions and markers for every supported Python; no hashes and no addresses.
pins: $(STAMPS)/book
	@$(PIP) uv || $(call stop,installing uv failed; see above)
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras $(if $(UPGRADE),--upgrade) \
	  --no-header --no-annotate --no-emit-index-url --output-file constraints.txt pyproject.toml || \
	  $(call stop,the versions that pyproject.toml asks for do not go together; see above)
	@echo "pins: constraints.txt"

clean:
	@rm -rf _build vendor node_modules conf.py
