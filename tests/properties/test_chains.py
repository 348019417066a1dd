"""Every operator behind every other, with options drawn at random: live on Spark answers as replay does.

The gate runs some seeds, `make test-all` five hundred. Source: the law of the house; semantics.md 1.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.harness.chains import GATE, program, program_of_groups
from tests.harness.marks import gated
from tests.harness.slt_live import check_live

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEEDS = 500


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", gated(range(SEEDS), GATE))
def test_live_is_replay(spark: SparkSession, seed: int) -> None:
    chain = program(seed)
    check_live(spark, chain.text, chain.records, chain.sizes)


#: One for each first operator; both kinds of windows are final results, each in its own way.
THROUGH_DEFINITIONS = (3, 6, 12, 15, 24)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", gated(range(SEEDS), THROUGH_DEFINITIONS))
def test_a_definition_hands_on_what_its_query_does(spark: SparkSession, seed: int) -> None:
    chain = program(seed, defined=True)
    check_live(spark, chain.text, chain.records, chain.sizes)


#: One for each operator that reads groups, of windows and without, and one for each that looks them up.
OF_GROUPS = (0, 1, 2, 5, 23, 74)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", gated(range(SEEDS), OF_GROUPS))
def test_groups_of_a_stream_are_a_table(spark: SparkSession, seed: int) -> None:
    chain = program_of_groups(seed)
    check_live(spark, chain.text, chain.records, chain.sizes)
