"""The temporal operators. The only file that imports all of them."""

from __future__ import annotations

from sqlx.operators.as_of_join import AsOfJoinBuilder
from sqlx.operators.table_lookup import TableLookupBuilder
from sqlx.structure import Join

OPERATORS = ("as_of_join", "table_lookup")


Builder = AsOfJoinBuilder | TableLookupBuilder


def builders(join: Join) -> type[Builder]:
    """The builder of the operator that a join is."""
    return AsOfJoinBuilder if join.as_of is not None else TableLookupBuilder
