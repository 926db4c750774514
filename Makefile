# The front door. `make` alone lists what there is. A fresh clone needs Python 3.11 or newer, git and make; every target
# sets up what it needs (tools/set_up.py) and a second run finds it there.

PYTHON ?=
BIN := .venv/bin
DATA := examples/data/cpu_hours
OUT := examples/out
# The sample data ends on this day, so the demo reads the same files on every day.
TODAY := 2025-06-30

RUN := $(BIN)/python -m
# Two processes, a file's tests in one of them, files in the order of tests/conftest.py.
IN_TWO := -n 2 --dist loadfile --no-loadscope-reorder
# The tests of what touches Spark's internals, and other Sparks to run them on than the newest.
SPARK_VERSIONS := 4.1 4.2
SPARK_TESTS := tests/spark/reader/test_dataframes.py tests/spark/lowering/test_lowering.py tests/spark/lowering/test_aggregation_trees.py tests/spark/lowering/test_partial_aggregates_below_joins.py tests/spark/execution/test_session_settings.py tests/spark/execution/test_query_session.py tests/spark/execution/test_metrics.py tests/spark/execution/test_replanning.py tests/spark/execution/test_cluster.py tests/spark/shims tests/spark/test_optimize.py tests/spark/test_user_sessions.py tests/spark/test_shared_session.py
BENCHMARKS := benchmarks/properties.py benchmarks/connection_maps.py benchmarks/part_matching.py benchmarks/partitioned_tables.py benchmarks/partitioned_tpch.py benchmarks/planning_parts.py benchmarks/optimize.py benchmarks/execute.py benchmarks/scales.py benchmarks/streams.py benchmarks/super_operators.py benchmarks/partition_writing.py benchmarks/cluster.py benchmarks/wrong_estimates.py benchmarks/skew.py benchmarks/estimates.py benchmarks/calibrate.py

.DEFAULT_GOAL := help
.PHONY: help setup venv java demo demo-data test test-fast test-spark-versions plans check format docs bench soak completeness mutants hunt load clean
MAKEFLAGS += --no-print-directory
.SILENT:

help: ## List the targets
	echo "unshuffle: a partition-aware query optimizer for Spark"
	echo
	sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-26s %s\n", $$1, $$2 }'

setup: venv java ## Make .venv, install unshuffle into it, see to Java (the other targets do this by themselves)
	echo "ready: $(BIN)/unshuffle --help"

venv:
	PYTHON='$(PYTHON)' tools/setup.sh venv

java:
	PYTHON='$(PYTHON)' tools/setup.sh java

demo: venv java demo-data ## Run the CPU-hours script on sample data and explain its plan
	echo "==> unshuffle run examples/cpu_hours/cpu_hours.scope"
	$(BIN)/unshuffle run examples/cpu_hours/cpu_hours.scope \
		--param data=$(DATA) --param out=$(OUT) --param Today=$(TODAY)
	echo
	echo "==> unshuffle explain examples/cpu_hours/cpu_hours.scope"
	$(BIN)/unshuffle explain examples/cpu_hours/cpu_hours.scope \
		--param data=$(DATA) --param out=$(OUT) --param Today=$(TODAY)

demo-data: venv
	test -d $(DATA) || $(BIN)/python examples/cpu_hours/generate.py --out $(DATA) --processes 20000 --end-date $(TODAY)

test: venv java ## Run all tests, in two processes
	$(RUN) pytest $(IN_TWO)

test-fast: venv ## Run the tests that need no JVM, generated ones with fewer examples (under a minute)
	UNSHUFFLE_QUICK=1 PYTHONDONTWRITEBYTECODE= $(RUN) pytest $(IN_TWO) -m "not spark"

test-spark-versions: venv java ## Test what touches Spark's internals on Spark 4.1 and 4.2
	for version in $(SPARK_VERSIONS); do \
		place=.cache/spark-versions/$$version; \
		if ! test $$place/.installed -nt pyproject.toml; then \
			echo "==> installing Spark $$version into $$place"; \
			$(RUN) venv --clear $$place && \
			$$place/bin/python -m pip install -qq --disable-pip-version-check -e ".[dev]" "pyspark[connect]==$$version.*" && \
			touch $$place/.installed || exit 1; \
		fi; \
		echo "==> Spark $$($$place/bin/python -c 'import pyspark; print(pyspark.__version__)')"; \
		$$place/bin/python -m pytest $(SPARK_TESTS) || exit 1; \
	done

plans: venv ## Expect in tests/plans what the plans are now; review it as a diff
	$(RUN) pytest tests/plans --rewrite-plans

check: venv ## Lint, formatting, types and the direction of imports
	$(RUN) ruff check --quiet --output-format concise .
	$(RUN) ruff format --check --quiet . || { echo "not formatted as ruff does; run: make format"; exit 1; }
	$(RUN) mypy --no-error-summary
	answer=$$($(BIN)/lint-imports --no-cache --no-logo 2>&1) || { echo "$$answer"; exit 1; }

format: venv ## Format the code and mend what the linter can mend
	$(RUN) ruff format .
	$(RUN) ruff check --fix .

docs: venv ## Build the documentation site into site/
	$(RUN) pip install -qq --disable-pip-version-check -e ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build --strict --quiet
	echo "built: site/index.html; to search it, run $(BIN)/python -m http.server --directory site"

bench: venv java ## Run the benchmarks, both sides in one run, and make README's table of what they found (hours)
	$(RUN) pip install -qq --disable-pip-version-check -e ".[bench]"
	for program in $(BENCHMARKS); do echo "==> $$program"; $(BIN)/python "$$program" || exit; done
	$(BIN)/python benchmarks/super_operators.py --suites
	$(BIN)/python benchmarks/super_operators.py --tuned
	$(BIN)/python tools/measured.py

soak: venv ## Try many more generated properties and scripts (hours)
	UNSHUFFLE_SOAK=1 $(RUN) pytest -m "not spark" tests/properties tests/partitions tests/language/test_generated.py tests/normalize tests/explore tests/search tests/cardinality tests/cost tests/catalog

completeness: venv ## Hold the algebra of properties against brute force (some minutes)
	$(BIN)/python tools/completeness.py

mutants: venv ## Break the code in small ways and see that a test notices each
	$(BIN)/python tools/mutants.py

MINUTES ?= 10
QUERIES ?= 5000
hunt: venv java ## Hunt for wrong answers with random tables, queries and settings, for MINUTES=10
	$(BIN)/python tools/hunt.py --minutes $(MINUTES)

load: venv java ## Put one session under load: 16 threads for MINUTES=10, then a long life of QUERIES=5000
	$(BIN)/python tools/load.py --threads 16 --minutes $(MINUTES)
	$(BIN)/python tools/load.py --queries $(QUERIES)

clean: ## Remove .venv, caches and what the examples wrote
	rm -rf .venv site .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist src/*.egg-info \
		examples/data examples/out spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
