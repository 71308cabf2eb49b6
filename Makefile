# `make demo` and `make test` need Python 3.11 or newer and make; everything else they install into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: install demo docs test test-full integration integration-maxtext nightly traps fuzz soak lint format benchmarks clean

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=python3.12 test")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[train,dev]'
	touch $@

demo: install
	$(BIN)/steelyard demo

# The site, into site/: a broken link or an anchor that does not exist is an error.
docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --config layers.toml

# Worker processes, one per core; `worksteal` keeps the tests of a file together, and with them what they share.
PYTEST := $(BIN)/pytest --numprocesses logical --maxprocesses 8 --dist worksteal
FAST := quick or not (torch or processes or browser or tex or fuzz or integration)

# Every stage, in minutes: without most of what trains, starts programs, opens a browser or fuzzes. Two workers more than
# there are cores, since many of these tests wait.
test: lint
	$(PYTEST) --numprocesses $$(($$(nproc) + 2)) -m '$(FAST)'

# Everything that needs no lab.
test-full: lint
	$(PYTEST)

fuzz: install
	STEELYARD_FUZZ_EXAMPLES=20000 STEELYARD_FUZZ_LINES=1000000 STEELYARD_FUZZ_ANSWERS=100000 \
		$(PYTEST) -m fuzz --ignore tests/records
	STEELYARD_FUZZ_EXAMPLES=2000 $(PYTEST) -m fuzz tests/records

# The controller is killed at 50 random moments for each way a job is run (here, in a container here, and over ssh), and
# at 30 of a suite, which resumes.
soak: install
	if [ "$$(id -u)" = 0 ]; then sh tests/lab/install.sh; fi
	STEELYARD_KILLS=50 $(BIN)/pytest tests/processes/test_kill.py -k random
	STEELYARD_KILLS=30 $(BIN)/pytest tests/processes/test_suite_kill.py -k random
	STEELYARD_KILLS=50 $(BIN)/pytest -m integration tests/integration/test_kills.py
	$(BIN)/pytest -m 'integration and long' tests/integration

nightly: fuzz soak integration-maxtext

# A lab of three hosts on this machine: root and Debian's packages, which it installs. Without root it says what it skipped.
integration: install
	if [ "$$(id -u)" = 0 ]; then sh tests/lab/install.sh; fi
	$(BIN)/pytest -m 'integration and not long' tests/lab tests/integration

# Real MaxText on CPUs over two of those hosts: an environment of its own, 1.6 GB, of Python 3.12.
MAXTEXT := .maxtext

$(MAXTEXT)/.installed: tests/lab/maxtext/requirements.txt
	sh tests/lab/maxtext/install.sh $(MAXTEXT) $(MAXTEXT_PYTHON)
	touch $@

integration-maxtext: install $(MAXTEXT)/.installed
	if [ "$$(id -u)" = 0 ]; then sh tests/lab/install.sh; fi
	STEELYARD_MAXTEXT=$(MAXTEXT) $(BIN)/pytest tests/frameworks/test_maxtext_loader.py
	STEELYARD_MAXTEXT=$(MAXTEXT) $(BIN)/pytest -m integration tests/integration/test_maxtext.py

traps: install
	PYTHONPATH=tests $(BIN)/python tests/traps/score.py

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmarks: install
	$(BIN)/python benchmarks/help_start.py
	$(BIN)/python benchmarks/lint.py
	$(BIN)/python benchmarks/ingest.py --dialects
	$(BIN)/python benchmarks/long_lines.py
	$(BIN)/python benchmarks/fanout.py
	$(BIN)/python benchmarks/weights.py
	$(BIN)/python benchmarks/report.py
	$(BIN)/python benchmarks/check.py
	$(BIN)/python benchmarks/suite.py
	$(BIN)/python benchmarks/within_run.py
	$(BIN)/python benchmarks/intervals.py
	$(BIN)/python benchmarks/curves.py

clean:
	rm -rf $(VENV) $(MAXTEXT) site .mypy_cache .ruff_cache .pytest_cache
