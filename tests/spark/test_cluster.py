"""A small cluster of this machine (local-cluster): what workers must have, and which of them answers.

Each test is a process of its own: the session of the other tests runs on one machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.harness import places

pytestmark = [pytest.mark.spark, pytest.mark.full]
ROOT = Path(__file__).parents[2]
LIVE = [[0, 0, 0], *[[8, 0, 0]] * 3]
#: Workers of a Python that has all but ours, unless a zip of it came along.
_WITHOUT = """
import sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name in ("sqlx", "udtf") and not any(place.endswith(".zip") and "udtf" in place for place in sys.path):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Without())
"""


def found(folder: Path, master: str, **conf: str) -> dict[str, object]:
    """What the script prints."""
    (folder / "warehouse").mkdir()
    settings = {
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **{k.replace("_", "."): v for k, v in conf.items()},
    }
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("cluster.py")), str(folder), master, json.dumps(settings)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    return places.found(done)


@pytest.fixture
def without(tmp_path: Path) -> str:
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "sitecustomize.py").write_text(_WITHOUT)
    return str(tmp_path / "without")


def test_our_code_is_brought_to_workers_that_lack_it(tmp_path: Path, without: str) -> None:
    answered = found(tmp_path, "local-cluster[1,2,1024]", spark_executorEnv_PYTHONPATH=without)
    assert answered == {"bounded": [[1, 5]], "live": LIVE, "partitions": "2"}


def test_what_came_with_the_job_is_enough(tmp_path: Path, without: str) -> None:
    with ZipFile(tmp_path / "our_udtf.zip", "w") as ours:
        for path in ROOT.glob("udtf/**/*.py"):
            ours.write(path, path.relative_to(ROOT))
    shipped = {"spark_submit_pyFiles": str(tmp_path / "our_udtf.zip"), "spark_executorEnv_PYTHONPATH": without}
    answered = found(tmp_path, "local-cluster[1,2,1024]", **shipped)
    assert answered == {"bounded": [[1, 5]], "live": LIVE, "partitions": "2"}


@pytest.mark.parametrize(("executors", "partitions"), [("1,1", "2"), ("1,4", "4"), ("2,2", "4")])
def test_tasks_answer_from_memory_from_the_second_micro_batch_on(
    tmp_path: Path, executors: str, partitions: str
) -> None:
    answered = found(tmp_path, f"local-cluster[{executors},1024]", spark_executorEnv_PYTHONPATH=str(ROOT))
    assert answered == {"bounded": [[1, 5]], "live": LIVE, "partitions": partitions}
