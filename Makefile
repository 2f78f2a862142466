# On a machine with CPython 3.11 to 3.13 and make:  make serve | make test
PYTHON ?= python3
PORT ?= $(or $(POLYSEME_PORT),8000)
VENV := .venv
BIN := $(VENV)/bin
CORPUS ?= ../shared/data/corpora
DATA ?= ../shared/data/eval
SENSES ?= ../shared/data/senses

.PHONY: serve test test-all reliability check format model results image lock sbom docs site release clean
.PHONY: $(addprefix results-,wic coarsewsd senses closed-form pipelines deep minilm)

serve: $(VENV)/.installed
	exec $(BIN)/polyseme serve --port $(PORT)

# One process more than processors, because tests wait for services, a browser and downloads.
PROCESSES ?= $(shell n=$$(getconf _NPROCESSORS_ONLN); echo $$((n < 8 ? n + 1 : 8)))
# Bytecode is kept even where the environment says otherwise: the tests start hundreds of processes,
# and compiling gensim and PyTorch takes each of them seconds.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses $(PROCESSES) \
	--dist loadfile --no-loadscope-reorder

# The tests that need only Python and a few minutes: `make test ARGS="tests/engine -k softmax"` runs
# some of them, `ARGS=-n0` runs them in one process.
test: $(VENV)/.installed-test
	$(PYTEST) -m "not (slow or container or wheel or clients)" $(ARGS)

# Every test: also the image, the wheel, third-party clients, the whole page in a browser, and long
# runs. Tests whose system packages are missing are skipped with the reason.
test-all: $(VENV)/.installed-test
	$(PYTEST) $(ARGS)

# Measures reliability in full (three quarters of an hour), and writes the reports.
reliability: $(VENV)/.installed-test
	$(BIN)/python benchmarks/reliability.py
	$(BIN)/python benchmarks/attack.py

check: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell
	$(BIN)/oxlint --deny-warnings service/polyseme/page
	$(BIN)/python .ci/audit.py

format: $(VENV)/.installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Trains the bundled model from the Wikipedia text in CORPUS and the sense tags in SENSES: about
# an hour and a half on two cores. Needs PyTorch (extra `train`).
model: $(VENV)/.installed-test
	PYTHONHASHSEED=0 $(BIN)/python lab/factory/build_wiki_en.py --corpus $(CORPUS) --data $(DATA) \
		--tags $(SENSES)/google_wsd.tar.xz

# Measures the bundled models (three quarters of an hour with -j2 on two cores). Each file of results
# has its report beside it.
MEASURED := wic coarsewsd senses closed-form pipelines deep
WHOLE := static,mean,parameter-free,random,closed-form,model
ALL := most-frequent,$(WHOLE)
# Runs `polyseme evaluate $(1)`, and writes its results and its report to $(2).
define EVALUATE
nice $(BIN)/polyseme evaluate $(1) --json lab/results/$(2).json
$(BIN)/python -m polyseme_lab.report --command "polyseme evaluate $(1)" lab/results/$(2).json
endef
results: $(MEASURED:%=results-%)
results-%: export OMP_NUM_THREADS := 1
results-wic: $(VENV)/.installed-test
	$(call EVALUATE,wic $(DATA) --systems $(WHOLE),wic)
results-coarsewsd: $(VENV)/.installed-test
	$(call EVALUATE,coarsewsd $(DATA) --systems $(ALL),coarsewsd)
results-senses: $(VENV)/.installed-test
	$(call EVALUATE,senses $(DATA),senses)
# The vectors of the bundled model with the attention weights of an import.
results-closed-form: $(VENV)/.installed-test
	mkdir -p build
	$(BIN)/polyseme models export wiki-en --output build/wiki-en.txt
	$(BIN)/polyseme models import build/wiki-en.txt --name closed-form --models-dir build/models --replace
	$(call EVALUATE,senses $(DATA) --models-dir build/models --model closed-form,senses-closed-form)

# Measures pseudo-words, sentences and tagging with the model $(1), into files with the prefix $(2).
SETS := build/downstream
define PIPELINES
$(call EVALUATE,pseudowords $(DATA)/pseudowords.jsonl.xz --model $(1),$(2)pseudowords)
$(call EVALUATE,sentences $(SETS)/sts/dev.tsv --model $(1),$(2)sentences)
$(call EVALUATE,tagging $(SETS)/pos --model $(1),$(2)tagging-pos)
$(call EVALUATE,tagging $(SETS)/pos --model $(1) --hidden,$(2)tagging-pos-hidden)
$(call EVALUATE,tagging $(SETS)/ner --model $(1),$(2)tagging-ner)
$(call EVALUATE,tagging $(SETS)/ner --model $(1) --hidden,$(2)tagging-ner-hidden)
endef
$(SETS):
	mkdir -p build && tar -xJf $(DATA)/downstream.tar.xz -C build
results-pipelines: $(VENV)/.installed-test $(SETS)
	$(call PIPELINES,wiki-en,)
results-deep: $(VENV)/.installed-test $(SETS)
	$(call EVALUATE,wic $(DATA) --systems model --model wiki-en-deep,deep-wic)
	$(call EVALUATE,coarsewsd $(DATA) --systems model --model wiki-en-deep,deep-coarsewsd)
	$(call EVALUATE,senses $(DATA) --model wiki-en-deep,deep-senses)
	$(call PIPELINES,wiki-en-deep,deep-)

# Measures a transformer on the same data sets. Needs the extra `compare`. The results do not depend
# on the bundled model.
results-minilm: $(VENV)/.installed-test
	$(call EVALUATE,wic $(DATA) --systems minilm,wic-minilm)
	$(call EVALUATE,coarsewsd $(DATA) --systems minilm,coarsewsd-minilm)

# Writes the tables of settings and errors, and the OpenAPI document.
docs: $(VENV)/.installed-test
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/openapi.py

# The documentation as a searchable site in build/site. A dead link is an error.
site: $(VENV)/.installed-test
	$(BIN)/python -m sphinx -q -n -W --keep-going -c docs -b html . build/site
	@echo 'Open build/site/index.html'

image:
	./containers/build

# Renews the lock files of the image: the newest versions that pyproject.toml allows, with hashes.
LOCK := $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	--only-binary :all: --emit-build-options --generate-hashes --custom-compile-command 'make lock'
lock: $(VENV)/.installed-test
	$(LOCK) --extra redis --extra telemetry --output-file containers/requirements.txt pyproject.toml
	$(LOCK) --group image --output-file containers/build-requirements.txt

# Wheel, source archive, images, bill of materials and checksums of the last commit, in build/release.
release: $(VENV)/.installed-test
	./containers/release

# Prints the bill of materials of the image: make sbom > sbom.cdx.json
sbom:
	@./containers/show-sbom

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
