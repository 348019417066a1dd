"""The two inputs of a join by key as queries, and the names under which its operator and the query see them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from catalog.entries import Column
from sqlx.arrival import Arrival, is_carried, is_order
from sqlx.dialect import quoted
from sqlx.plan import Fragment
from sqlx.right_side import RightSide
from sqlx.scope import Visible


@dataclass(frozen=True)
class Inputs:
    """The two sides of a join as text.

    Attributes:
        left_with: the WITH clause that the left side needs, or "".
        left_from: what stands behind FROM for the left side.
        left: what the left side shows.
        left_needed: its columns that the query can read.
        right: the rows of the right side.
        right_name: its name in the query.
        right_needed: its columns that the query can read.
        arrival: what live rows of the left side carry along on Spark; None everywhere else.
    """

    left_with: str
    left_from: str
    left: tuple[Visible, ...]
    left_needed: tuple[tuple[Visible, Column], ...]
    right: RightSide
    right_name: str
    right_needed: tuple[Column, ...]
    arrival: Arrival | None = None

    def left_query(self, items: str) -> str:
        """The left side as a query of these items."""
        return f"{self.left_with}SELECT {items} FROM {self.left_from}"

    def right_query(self, items: str) -> str:
        """The right side as a query of these items."""
        return f"SELECT {items} FROM ({self.right.sql}) AS {quoted(self.right_name)}"

    def payload_items(self) -> tuple[list[str], list[str]]:
        """The payload columns of both sides."""
        name = quoted(self.right_name)
        left = [f"{quoted(v.name)}.{quoted(c.name)} AS _l{n}" for n, (v, c) in enumerate(self.left_needed)]
        return left, [f"{name}.{quoted(c.name)} AS _r{n}" for n, c in enumerate(self.right_needed)]

    def hidden_items(self, *names: str) -> list[str]:
        """Those of the hidden columns that the right side has."""
        name = quoted(self.right_name)
        shown = {"__order0": "__arrival"}
        return [f"{name}.{h} AS {shown.get(h, h)}" for h in names if h in self.right.hidden]

    def payload_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of the payload columns of both sides."""
        left, right = len(self.left_needed), len(self.right_needed)
        carried = () if self.arrival is None else ("__event_time",)
        return (*(f"_l{n}" for n in range(left)), *carried), tuple(f"_r{n}" for n in range(right))

    def shown_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names that the query knows the payload columns of both sides by."""
        return tuple(c.name for _, c in self.left_needed), tuple(c.name for c in self.right_needed)

    # live rows

    def arrival_items(self, otherwise: str) -> tuple[list[str], list[str]]:
        """What live rows of both sides carry along; the left side's time is ``otherwise`` where nothing shows it."""
        arrival = self.arrival
        if arrival is None:
            return [], []
        orders = [h for h in self.right.hidden if h.startswith("__order")]
        name = quoted(self.right_name)
        right = [f"{name}.{h} AS __o{n}" for n, h in enumerate(orders)]
        return replace(arrival, time=arrival.time or otherwise).items, right

    def arrival_behind(self, alias: str) -> Arrival | None:
        """What the rows of the result carry along: in the order of the left rows that caused them, then numbered."""
        return None if self.arrival is None else self.arrival.behind(alias)

    def is_common(self, left: Fragment, right: Fragment) -> bool:
        """Whether both inputs have a SEQUENCE BY of one type, by which they interleave."""
        entry, arrival = self.right.entry, self.arrival
        if arrival is None or entry is None or entry.sequence_by is None or not arrival.is_sequence:
            return False
        types = [{c.name: c.type for c in side.columns}.get("__o0") for side in (left, right)]
        return types[0] == types[1]


def result_columns(left: Fragment, right: Fragment, with_reason: bool) -> tuple[Column, ...]:
    """The columns of the result: the payloads of both sides, the reason, and what live rows carry along."""
    shown = [c for c in (*left.columns, *right.columns) if not c.name.startswith("__")]
    reason = [Column("__reason", "string")] if with_reason else []
    return with_carried((*shown, *reason), left.columns)


def with_carried(shown: tuple[Column, ...], columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """The columns of a result and behind them what live rows of the input carry along."""
    carried = [c for c in columns if is_carried(c.name)]
    count = sum(1 for c in carried if is_order(c.name))
    carried += [Column(f"__o{count}", "bigint")] if count else []
    return (*shown, *carried)
