"""What an executor says of an operator that it does not have."""

from __future__ import annotations

import pytest

from sqlx.errors import UnsupportedError
from sqlx.plan.nodes import Fragment, TableLookup
from sqlx.plan.operators import function_of
from udtf.operators.table_lookup.logic import TableLookupConfig

NOTHING = Fragment("SELECT 1", ())
CONFIG = TableLookupConfig(join="inner", n_keys=1, left_columns=("_l0",), right_columns=("_r0",))
LOOKUP = TableLookup("__sqlx_rel1", NOTHING, NOTHING, CONFIG, (), "rates")


def test_an_operator_without_an_executor_says_why() -> None:
    with pytest.raises(UnsupportedError) as caught:
        function_of(LOOKUP, "batch")
    assert str(caught.value) == (
        "[UNSUPPORTED.EXECUTOR] `table_lookup` does not run in batch: bounded rows have one current state, which "
        "plain Spark SQL reads. SQLSTATE: 0A000\nHINT: EXPLAIN TEMPORAL shows which operators a statement has."
    )


def test_an_operator_with_an_executor_is_run_by_it() -> None:
    assert function_of(LOOKUP, "replay").__module__ == "sqlx.replay.hosts"
