"""What the compiler has to say: why a query cannot be bound, and the defaults that could surprise."""

from __future__ import annotations

from pyspark.errors import PySparkException

from sqlx.bind import Binder
from sqlx.edits import Edits
from sqlx.errors import BindError, RefusedBySpark, TemporalSqlError, did_you_mean
from sqlx.plan import AsOfJoin, TableLookup
from sqlx.right_side import RightSide
from sqlx.structure import Join, Relation


def refused(binder: Binder, text: str, edits: Edits | None) -> Exception:
    """The engine's error; about a text that was rewritten by ``edits`` with a caret in the text as it was written."""
    error = binder.refusal()
    if not isinstance(error, PySparkException) or isinstance(error, TemporalSqlError) or edits is None:
        return error or AssertionError("refused without a reason")
    return RefusedBySpark(error, text, _origin(error, edits, text))


def _origin(error: PySparkException, edits: Edits, text: str) -> tuple[int, int] | None:
    """Where the refused fragment stands in the text; by its offset where the text holds it more than once."""
    contexts, length = error.getQueryContext(), len(text)
    if not contexts:
        return None
    fragment = contexts[0].fragment()
    if fragment and text.count(fragment) == 1:
        at = text.index(fragment)
        return at, at + len(fragment)
    first = edits.origin(contexts[0].startIndex())
    return first, max(first + 1, min(edits.origin(contexts[0].stopIndex()) + 1, length))


def check_relation(binder: Binder, text: str, relation: Relation, body: str) -> None:
    """A name that the engine does not know, said with a caret.

    Raises:
        BindError: there is no such relation.
    """
    if relation.kind != "name" or binder.columns(f"SELECT * FROM {body}") is not None:
        return
    name = ".".join(relation.parts)
    suggestion = did_you_mean(name, binder.names())
    raise BindError("BIND.UNKNOWN_RELATION", text, relation.body.pair, name=name, suggestion=suggestion)


def check_names(text: str, relations: list[tuple[str, Relation | None]]) -> None:
    """Every relation of a join has a name of its own: the last is the right side.

    Raises:
        BindError: two have the same.
    """
    seen: set[str] = set()
    for name, relation in relations:
        if name.lower() in seen:
            place = relation or next(r for _, r in reversed(relations) if r is not None)
            span = place.alias or place.body
            raise BindError("KEYED_JOIN.DUPLICATE_NAME", text, (span.start, span.end), name=name)
        seen.add(name.lower())


def notes(join: Join, node: AsOfJoin | TableLookup, right: RightSide, streaming: bool) -> list[str]:
    """Defaults and options of a join that could surprise, each said once by name."""
    clause = join.as_of
    if not isinstance(node, AsOfJoin) or clause is None:
        return []
    found = []
    if streaming and right.entry is not None and right.entry.retention_us is None:
        found.append(f"`{right.name}` keeps its history for 1 day: HISTORY RETENTION was not given.")
    if clause.reason and node.config.join == "inner":
        found.append("WITH REASON on an INNER join is NULL throughout: only matches are kept.")
    if clause.late_to and not streaming:
        found.append("LATE TO plays no part in a batch query: over bounded inputs nothing is late.")
    if clause.grace_us is not None and not streaming:
        found.append("GRACE PERIOD plays no part in a batch query: every version is there.")
    return found
