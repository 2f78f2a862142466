# On a machine with CPython 3.11 to 3.13 and make:  make serve | make test
PYTHON ?= python3
PORT ?= 8000
VENV := .venv
BIN := $(VENV)/bin
CORPUS ?= ../shared/data/corpora
DATA ?= ../shared/data/eval

.PHONY: serve test check format model image docs clean

serve: $(VENV)/.installed
	exec $(BIN)/polyseme serve --port $(PORT)

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest $(ARGS)

check: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Trains the bundled model anew from the Wikipedia text in CORPUS (about an hour).
model: $(VENV)/.installed-test
	PYTHONHASHSEED=0 $(BIN)/python models/build_wiki_en.py --corpus $(CORPUS) --data $(DATA)

# Writes the pages and snapshots that are made from the code: settings, errors, OpenAPI.
docs: $(VENV)/.installed-test
	$(BIN)/python docs/generate.py

image:
	./containers/build

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.installed-test: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
