"""Where states are named, with a coordinator and a scheduler of the test's own in place of Spark's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from udtf.engine.placement import StatePlacement

WAIT, NODE = "spark.locality.wait", "spark.locality.wait.node"


@dataclass
class Executor:
    name: str
    cores: int = 1

    def id(self) -> str:
        return self.name

    def totalCores(self) -> int:
        return self.cores

    def hostPort(self) -> str:
        return f"host-{self.name}:1"

    def isExcluded(self) -> bool:
        return False


class Location(SimpleNamespace):
    """Scala's Option."""

    def isDefined(self) -> bool:
        return self.executor is not None

    def get(self) -> str:
        return f"executor_host_{self.executor}"


@dataclass
class Cluster:
    """What the placement asks of Spark, and what it tells it.

    Attributes:
        places: partition to the executor that the coordinator names.
        conf: of the application.
        told: set when a place was named.
    """

    executors: list[str]
    places: dict[int, str]
    batch: int = 5
    conf: dict[str, str] = field(default_factory=lambda: {WAIT: "500ms"})
    told: Event = field(default_factory=Event)
    is_active: bool = True

    def lose(self, executor: str) -> None:
        self.executors = [one for one in self.executors if one != executor]

    def name(self, partition: int, executor: str) -> None:
        self.places[partition] = executor
        if all(where in self.executors for where in self.places.values()):
            self.told.set()

    @property
    def spark(self) -> Any:
        """A session, as far as it is asked."""
        scheduler = SimpleNamespace(
            getExecutorIds=lambda: SimpleNamespace(mkString=lambda between: between.join(self.executors)),
            isExecutorActive=lambda name: name in self.executors,
        )
        context = SimpleNamespace(
            env=lambda: None,
            conf=lambda: SimpleNamespace(
                get=self.conf.get, set=self.conf.__setitem__, setIfMissing=self.conf.setdefault
            ),
            schedulerBackend=lambda: scheduler,
            statusStore=lambda: SimpleNamespace(executorList=lambda _: self._listed()),
        )
        state = SimpleNamespace(
            StateStoreId=lambda _folder, _operator, partition, _name: partition,
            StateStoreProviderId=lambda partition, _run: partition,
            StateStoreCoordinatorRef=SimpleNamespace(forExecutor=lambda _: self._coordinator()),
        )
        streaming = SimpleNamespace(streaming=SimpleNamespace(state=state))
        spark = SimpleNamespace(spark=SimpleNamespace(sql=SimpleNamespace(execution=streaming)))
        jvm = SimpleNamespace(
            org=SimpleNamespace(apache=spark),
            PythonUtils=SimpleNamespace(toSeq=lambda found: found),
            java=SimpleNamespace(util=SimpleNamespace(ArrayList=list)),
        )
        return SimpleNamespace(sparkContext=SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: context), _jvm=jvm))

    @property
    def query(self) -> Any:
        """A streaming query, as far as it is asked."""
        operator = SimpleNamespace(numShufflePartitions=lambda: len(self.places))
        progress = SimpleNamespace(batchId=lambda: self.batch, stateOperators=lambda: [operator])
        execution = SimpleNamespace(checkpointLocation=lambda: "state")
        java = SimpleNamespace(
            isActive=lambda: self.is_active,
            lastProgress=lambda: progress,
            runId=lambda: "run",
            streamingQuery=lambda: SimpleNamespace(lastExecution=lambda: execution),
        )
        return SimpleNamespace(_jsq=java)

    def _listed(self) -> Any:
        listed = [Executor("driver", 0), *map(Executor, self.executors)]
        return SimpleNamespace(size=lambda: len(listed), apply=listed.__getitem__)

    def _coordinator(self) -> Any:
        def report(partition: int, host: str, executor: str, _others: Mapping[str, str]) -> None:
            assert host == f"host-{executor}"
            self.name(partition, executor)

        return SimpleNamespace(
            getLocation=lambda partition: Location(executor=self.places.get(partition)), reportActiveInstance=report
        )


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    found = Cluster(["1", "2", "3"], {0: "1", 1: "2", 2: "3", 3: "1", 4: "2", 5: "3"})
    yield found
    found.is_active = False


def placement(cluster: Cluster) -> StatePlacement:
    """One that looks after each micro-batch, however soon it comes."""
    found = StatePlacement(cluster.spark, cluster.query)
    assert found.even_out(1_200) == 0
    return found


def after_batch(found: StatePlacement) -> int:
    found._looked = 0.0
    return found.even_out(1_200)


def test_tasks_of_a_lost_executor_get_other_places_before_the_micro_batch_ends(cluster: Cluster) -> None:
    found = placement(cluster)
    cluster.lose("2")
    assert cluster.told.wait(10)
    assert {task: cluster.places[task] for task in (0, 2, 3, 5)} == {0: "1", 2: "3", 3: "1", 5: "3"}
    assert sorted(cluster.places[task] for task in (1, 4)) == ["1", "3"]
    assert after_batch(found) == 2
    assert after_batch(found) == 0


def test_a_task_that_a_running_stage_took_elsewhere_stays_and_one_on_its_way_moves(cluster: Cluster) -> None:
    found = placement(cluster)
    cluster.lose("2")
    assert cluster.told.wait(10)
    named = {task: cluster.places[task] for task in (1, 4)}
    (taken,) = (task for task, executor in named.items() if executor == "1")
    (on_its_way,) = named.keys() - {taken}
    cluster.places[taken] = "3"  # where the other one is to go
    cluster.batch += 1
    after_batch(found)
    assert cluster.places[taken] == "3"
    assert cluster.places[on_its_way] == "1"
    assert {task: cluster.places[task] for task in (0, 2, 3, 5)} == {0: "1", 2: "3", 3: "1", 5: "3"}


def test_after_a_loss_tasks_wait_longer_until_lost_states_were_read(cluster: Cluster) -> None:
    found = placement(cluster)
    assert (cluster.conf[WAIT], cluster.conf[NODE]) == ("600ms", "0s")
    cluster.lose("2")
    assert cluster.told.wait(10)
    waits = []
    for _ in range(3):
        cluster.batch += 1
        after_batch(found)
        waits.append(cluster.conf[WAIT])
    assert waits == ["2400ms", "600ms", "600ms"]


def test_an_executor_that_comes_gets_its_share(cluster: Cluster) -> None:
    found = placement(cluster)
    cluster.executors.append("4")
    cluster.executors.append("5")
    assert after_batch(found) == 2
    assert {"4", "5"} < set(cluster.places.values())
    assert cluster.conf[WAIT] == "600ms"


def test_what_a_user_has_set_stays(cluster: Cluster) -> None:
    cluster.conf |= {WAIT: "7s", NODE: "2s"}
    placement(cluster)
    assert (cluster.conf[WAIT], cluster.conf[NODE]) == ("7s", "2s")
    del cluster.conf[NODE]
    cluster.conf[WAIT] = "500ms"
    placement(cluster)
    assert (cluster.conf[WAIT], cluster.conf[NODE]) == ("600ms", "0s")
