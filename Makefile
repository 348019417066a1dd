# Every target sets up what it needs. `make` alone lists them.
.DEFAULT_GOAL := help
.PHONY: help setup demo dbt test test-all fast check choose environments jars types contracts lint spark compat connect test-compat test-connect test-wheel kafka lakehouse docs complete bench-connect bench-as-of bench-as-of-stream bench-deduplicate bench-kafka bench-latency bench-peers bench-standby bench-lost-worker bench-cluster bench-places bench-rescale bench-windows bench-tables bench-serving clean

BIN := .venv/bin
# As many sessions at once as cores and memory allow (tests/conftest.py).
AT_ONCE := -n auto --dist loadscope --no-loadscope-reorder
GATE := not full and not dbt
# The tests that need Spark, and no connector's jars.
SPARK := spark and not kafka and not delta and not iceberg
# The PySpark that runs is the one in .venv, whatever else the machine has.
unexport SPARK_HOME PYTHONPATH PYTHONHOME VIRTUAL_ENV
export PYTHON

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' Makefile

setup: ## make .venv, install, find or bring a Java; nothing to do when up to date
	@.ci/setup

demo: setup ## the main job on real data: flights joined with the weather as of their departure
	@$(BIN)/sqlx demo

test: setup ## all that CI checks, in 9 to 25 minutes on 2 cores
	@$(MAKE) --jobs 3 --output-sync=target check environments
	@$(MAKE) fast spark kafka compat connect

test-all: export HYPOTHESIS_PROFILE = all
test-all: check docs test-compat test-connect test-wheel ## all there is, hours: docs/contributing.md lists what only this runs
	$(MAKE) fast GATE="not dbt"
	SQLX_ALL_ORDERS=1 $(BIN)/pytest tests/properties/test_corrections.py
	@$(BIN)/python .ci/compile_pyspark.py
	SQLX_ALL_CUTS=1 $(BIN)/pytest $(AT_ONCE) -m "$(SPARK)"
	SQLX_TEST_STATE_BACKEND=store $(BIN)/pytest $(AT_ONCE) -m spark tests/semantics -k test_live
	$(MAKE) kafka GATE="not dbt"
	$(MAKE) lakehouse GATE="not dbt"
	$(MAKE) dbt demo

environments: jars ## what tests of other releases and of connectors need beside .venv: fetched while checks run
	@.ci/setup-compat 4.0
	@.ci/setup-connect

jars: setup ## those of Kafka, Avro and Delta, and a broker; once, into .cache
	@SQLX_JARS=.cache/jars $(BIN)/sqlx connectors fetch kafka avro delta
	@$(BIN)/python -m benchmarks.kafka_broker

check: types lint contracts ## ruff, mypy, the import contracts, and code that nothing calls

choose: export SQLX_REACH_FOLDER = .cache/reach
choose: setup ## measure what each test reaches (half an hour), and write which of Spark's the gate leaves out
	@rm -rf .cache/reach && mkdir -p .cache/reach
	SQLX_REACH_RUN=fast $(BIN)/pytest -m "not spark and $(GATE)"
	@$(BIN)/python .ci/compile_pyspark.py
	SQLX_REACH_RUN=spark $(BIN)/pytest $(AT_ONCE) -m "$(SPARK) and $(GATE)"
	$(BIN)/python -m tests.harness.reach .cache/reach

types: setup
	$(BIN)/mypy

contracts: setup
	$(BIN)/lint-imports --no-logo
	$(BIN)/vulture

lint: setup ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

fast: setup ## the tests and doctests that need no Spark
	$(BIN)/pytest -m "not spark and $(GATE)"

spark: setup ## the tests that need Spark (ARGS="-n 0" in one process)
	@$(BIN)/python .ci/compile_pyspark.py
	$(BIN)/pytest $(AT_ONCE) -m "$(SPARK) and $(GATE)" $(ARGS)

compat: setup ## a part of them on PySpark 4.0: the hook, the hosts of state, a live case of each operator
	@.ci/setup-compat 4.0
	SQLX_TEST_STATE_BACKEND=store .venv-4.0/bin/python -m pytest -n 2 --dist loadscope -m "compat and $(GATE)" $(ARGS) tests/spark tests/semantics

CONNECT := tests/connect -n 1
connect: setup ## a client of Spark Connect without Java, and a stock server of 4.2: bounded and live, definitions, errors
	@.ci/setup-connect
	SQLX_TEST_REMOTE=1 .venv-connect/bin/python -m pytest -m "$(GATE)" $(ARGS) $(CONNECT)

test-connect: GATE = not dbt
test-connect: CONNECT = -n 2 --dist load tests/connect tests/semantics -k "connect or test_batch or test_live"
test-connect: connect ## all of it, with every semantic case, bounded and live

RELEASES := 4.0 4.1 4.2
test-compat: $(addprefix test-compat-,$(RELEASES)) ## all of them on PySpark 4.0, 4.1 and 4.2, those of connectors too

test-compat-%: setup # one of them
	@.ci/setup-compat $*
	@$(BIN)/python -m benchmarks.kafka_broker
	.venv-$*/bin/python -m pytest $(AT_ONCE) -m "$(SPARK)" $(ARGS)
	.venv-$*/bin/python -m pytest -m "kafka or delta$(if $(filter 4.2,$*),, or iceberg)" $(ARGS) tests/connectors
	SQLX_TEST_REMOTE=1 SQLX_TEST_SERVER_PYTHON=.venv-$*/bin/python .venv-$*/bin/python -m pytest -n 2 --dist load $(ARGS) tests/connect

lakehouse: setup ## tables of Delta and Iceberg on PySpark 4.1, the newest that Iceberg has a jar for
	@.ci/setup-compat 4.1
	.venv-4.1/bin/python -m pytest -n 2 --dist load -m "(delta or iceberg) and $(GATE)" $(ARGS) tests/connectors/test_lakehouse.py

test-wheel: setup ## the wheel in an empty environment: the doctor and the demo (installs 1 GB)
	.ci/test-wheel

kafka: jars ## the tests of Kafka and Delta, with a real broker
	$(BIN)/pytest -n 2 --dist loadfile -m "(kafka or delta) and $(GATE)" tests/connectors

dbt: setup ## the project in sql_examples/dbt through stock dbt: in process, and over Thrift against `sqlx serve`
	@.ci/dbt
	$(BIN)/pytest -m dbt tests/spark/test_dbt.py

docs: setup ## the documentation as a site, in site/; broken links, pages not listed and names that are not in the code fail
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@$(BIN)/pytest --quiet tests/test_docs.py -m "not spark"
	@echo "site/index.html"

complete: setup ## write what golden tests got into their files; review the diff
	$(BIN)/pytest --complete $(TESTS)

bench-connect: setup ## AS OF joins from a client of Spark Connect beside a session with a JVM (ARGS=--quick)
	@.ci/setup-connect
	$(BIN)/python -m benchmarks.connect $(ARGS)

bench-as-of: setup ## AS OF joins side by side with other ways (long; ARGS="--help" lists its options)
	$(BIN)/python -m benchmarks.as_of_join $(ARGS)

bench-as-of-stream: setup ## live AS OF joins side by side with other ways (long; ARGS="--help" lists its options)
	$(BIN)/python -m benchmarks.as_of_stream $(ARGS)

bench-deduplicate: setup ## deduplication in batch and live side by side with other ways (long; ARGS="--help" lists its options)
	$(BIN)/python -m benchmarks.deduplicate $(ARGS)

bench-kafka: setup ## a million records through a real broker, with crashes on the way (ARGS="--rows 50000")
	$(BIN)/python -m benchmarks.kafka $(ARGS)

bench-latency: setup ## from a record in Kafka through a live AS OF join to its result in Kafka (ARGS="--rows 1000 --seconds 30")
	$(BIN)/python -m benchmarks.kafka_latency $(ARGS)

bench-peers: setup ## the live AS OF join beside Flink and Kafka Streams (needs Maven; ARGS="--rounds 3", ARGS=--quick)
	$(BIN)/python -m benchmarks.peers_stream $(ARGS)

bench-standby: setup ## kills the driver of a stream again and again while another one stands by (ARGS="--keys 2000000 --kills 20")
	$(BIN)/python -m benchmarks.standby $(ARGS)

bench-lost-worker: setup ## kills workers of a small cluster under a live join (long; ARGS="--kills 5 --keys 100000")
	$(BIN)/python -m benchmarks.lost_worker $(ARGS)

bench-cluster: setup ## what a live join costs on three workers beside one machine (ARGS="--keys 100000 --batches 5")
	$(BIN)/python -m benchmarks.cluster $(ARGS)

bench-places: setup ## a live join's micro-batch with its checkpoint on a disk, on HDFS, and where renames copy
	$(BIN)/python -m benchmarks.places $(ARGS)

bench-rescale: setup ## a running live join goes from 2 to 16 partitions and back (ARGS="--keys 100000 --times 1")
	$(BIN)/python -m benchmarks.rescale $(ARGS)

bench-windows: setup ## windows in batch and live side by side with other ways (long; ARGS="--help" lists its options)
	$(BIN)/python -m benchmarks.window_aggregate $(ARGS)

bench-tables: setup ## live joins and groups of tables beside the live AS OF join (ten minutes; ARGS="--help" lists its options)
	$(BIN)/python -m benchmarks.tables $(ARGS)

bench-serving: setup ## JDBC sessions at once against `sqlx serve` (five minutes; ARGS="--seconds 60")
	$(BIN)/python -m benchmarks.serving $(ARGS)

clean: ## remove .venv and all caches
	rm -rf .venv .venv-4.* .venv-connect .venv-server-4.* .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache site spark-warehouse metastore_db derby.log
