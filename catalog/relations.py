"""What a definition reads as, in plain Spark SQL: its versions, current rows, history, and rows as of a time.

Every function returns a query. The rules are those of KIP-914: a version is valid from its time to the next version's;
the last of equal times wins; a tombstone ends validity and is not shown; rows without key or time are never stored.

How a query finds the last of equal times: by SEQUENCE BY where the definition has one, then by ``arrival``, expressions
over the rows of the relation. In an SCD2 table the end of a row is before the beginning of another at that time.
"""

from __future__ import annotations

from collections.abc import Mapping

from catalog.definitions import part_text
from catalog.entries import Entry

#: How rows arrived, where nothing better is known: the order in which Spark reads them.
AS_READ = ("monotonically_increasing_id()",)
#: How rows of Parquet files arrived (docs/streaming.md).
PARQUET_ARRIVAL = ("_metadata.file_modification_time", "_metadata.file_path", "_metadata.row_index")
#: The same of other files, whose rows have no numbers: by block, and within a block as read.
FILE_ARRIVAL = (
    "_metadata.file_modification_time",
    "_metadata.file_path",
    "_metadata.file_block_start",
    "monotonically_increasing_id()",
)
# Some SCD2 tables write the end of a row that is valid still as the last day there is.
_OPEN_END = "DATE'9999-01-01'"


def columns_text(entry: Entry, without: frozenset[str] = frozenset()) -> str:
    """The select list of the columns that a read of the relation shows."""
    return ", ".join(part_text(c.name) for c in entry.columns if c.name.lower() not in without)


def alias_text(entry: Entry) -> str:
    """The name by which the expressions of a definition may qualify its columns."""
    return part_text(entry.alias or entry.name.split(".")[-1].strip("`"))


def source_query(entry: Entry) -> str:
    """The query behind a definition: that of its rows as they arrived.

    >>> [source_query(Entry("stream", "s", (), relation, "ts")) for relation in ("`db`.`t`", "(SELECT 1)")]
    ['SELECT * FROM `db`.`t`', 'SELECT 1']
    """
    return entry.relation[1:-1] if entry.relation.startswith("(") else f"SELECT * FROM {entry.relation}"


def versions_sql(
    entry: Entry,
    arrival: tuple[str, ...] = (),
    further: Mapping[str, str] | None = None,
    *,
    in_one_scan: bool = False,
) -> str:
    """One row per version as it arrived; tombstones are rows.

    Args:
        entry: a versioned or upsert table.
        arrival: ORDER BY expressions over the rows of its relation; they become ``__order0``, ``__order1`` ….
        further: name to expression of columns that the rows are to show besides.
        in_one_scan: what an SCD2 row becomes comes one behind the other; else all beginnings come before all ends.

    Returns:
        A query with the entry's columns, ``__time``, ``__seq`` (with SEQUENCE BY), ``__deleted`` (where rows can be
        tombstones), ``__arrival`` (SCD2: 0 for the end of a row, 1 for a row) and the order columns.
    """
    if entry.valid_from is not None:
        return _scd2_rows_sql(entry, arrival) if in_one_scan else _scd2_versions_sql(entry)
    pieces = [columns_text(entry), f"({entry.timestamp_by}) AS __time"]
    pieces += [f"({entry.sequence_by}) AS __seq"] if entry.sequence_by else []
    pieces += [f"coalesce({entry.delete_when}, false) AS __deleted"] if entry.delete_when else []
    pieces += [f"{expression} AS __order{n}" for n, expression in enumerate(arrival)]
    pieces += [f"{expression} AS {name}" for name, expression in (further or {}).items()]
    return f"SELECT {', '.join(pieces)} FROM {entry.relation} AS {alias_text(entry)}"


def _scd2_versions_sql(entry: Entry) -> str:
    """A row becomes a version at its first column of VALID, and a tombstone at the second, where it has an end."""
    start, end, begins, ends = _validity(entry)
    columns, alias = columns_text(entry), alias_text(entry)
    return (
        f"SELECT {columns}, {start} AS __time, false AS __deleted, CAST(1 AS BIGINT) AS __arrival"
        f" FROM {entry.relation} AS {alias} WHERE {begins}"
        f" UNION ALL SELECT {columns}, {end} AS __time, true AS __deleted, CAST(0 AS BIGINT) AS __arrival"
        f" FROM {entry.relation} AS {alias} WHERE {ends}"
    )


def _scd2_rows_sql(entry: Entry, arrival: tuple[str, ...]) -> str:
    """The same of live rows: UNION ALL would read the source twice, and all ends after all beginnings."""
    start, end, begins, ends = _validity(entry)
    version = f"named_struct('__time', {start}, '__deleted', false, '__arrival', CAST(1 AS BIGINT))"
    tombstone = f"named_struct('__time', {end}, '__deleted', true, '__arrival', CAST(0 AS BIGINT))"
    versions = f"CASE WHEN {ends} THEN array({version}, {tombstone}) WHEN {begins} THEN array({version}) END"
    orders = "".join(f", {expression} AS __order{n}" for n, expression in enumerate(arrival))
    shown = f"{columns_text(entry)}, __time, __deleted, __arrival{orders}"
    return (
        f"SELECT {shown} FROM {entry.relation} AS {alias_text(entry)}"
        f" LATERAL VIEW inline({versions}) __validity AS __time, __deleted, __arrival"
    )


def _validity(entry: Entry) -> tuple[str, str, str, str]:
    """Of an SCD2 row when it begins and ends, and the conditions that it is a version, and that it has an end."""
    start, end = part_text(entry.valid_from or ""), part_text(entry.valid_to or "")
    has_end = f"{end} IS NOT NULL AND {end} < {_OPEN_END}"
    return start, end, f"{end} IS NULL OR {start} < {end}", f"{has_end} AND {start} < {end}"


def current_rows_sql(entry: Entry, arrival: tuple[str, ...] | None = None) -> str:
    """What a plain batch read shows.

    Returns:
        Of a versioned table the row of the greatest time per key, of an upsert table the row that arrived last (both
        without tombstones), of a stream its rows so far.
    """
    if entry.kind == "stream":
        return f"SELECT {columns_text(entry)} FROM {entry.relation} AS {alias_text(entry)}"
    return _last_rows_sql(entry, _arrival(entry, arrival))


def as_of_sql(entry: Entry, time: str, arrival: tuple[str, ...] | None = None) -> str:
    """The rows of a versioned table as of a time: per key the version of the greatest time that is not above it.

    Args:
        entry: a versioned table.
        time: a constant SQL expression.
        arrival: as in :func:`versions_sql`; None = what the entry knows.
    """
    return _last_rows_sql(entry, _arrival(entry, arrival), f" AND __time <= ({time})")


def history_sql(entry: Entry, arrival: tuple[str, ...] | None = None) -> str:
    """All versions of a versioned table with the times between which each was valid.

    Returns:
        A query with the entry's columns (one that is called ``valid_from`` or ``valid_to`` gives way), ``valid_from``
        and ``valid_to`` (exclusive; NULL where the version is valid still).
    """
    keys, arrival = _keys(entry), _arrival(entry, arrival)
    columns = columns_text(entry, without=frozenset({"valid_from", "valid_to"}))
    order = ", ".join(["__time", *(f"{column} ASC NULLS FIRST" for column in _tie_columns(entry, arrival))])
    return (
        f"SELECT {columns}, __time AS valid_from, __next AS valid_to FROM ("
        f"SELECT *, lead(__time) OVER (PARTITION BY {keys} ORDER BY {order}) AS __next"
        f" FROM ({versions_sql(entry, arrival)}) AS __versions WHERE {_is_stored(entry)}) AS __validity"
        f" WHERE (__next IS NULL OR __next > __time){_not_deleted(entry)}"
    )


def _last_rows_sql(entry: Entry, arrival: tuple[str, ...], condition: str = "") -> str:
    ties = [f"{column} DESC NULLS LAST" for column in _tie_columns(entry, arrival)]
    order = ", ".join(ties if entry.kind == "upsert" else ["__time DESC", *ties])
    return (
        f"SELECT {columns_text(entry)} FROM ("
        f"SELECT *, row_number() OVER (PARTITION BY {_keys(entry)} ORDER BY {order}) AS __rank"
        f" FROM ({versions_sql(entry, arrival)}) AS __versions WHERE {_is_stored(entry)}{condition}) AS __ranked"
        f" WHERE __rank = 1{_not_deleted(entry)}"
    )


def _arrival(entry: Entry, arrival: tuple[str, ...] | None) -> tuple[str, ...]:
    return (entry.arrival or AS_READ) if arrival is None else arrival


def _keys(entry: Entry) -> str:
    return ", ".join(part_text(key) for key in entry.keys)


def _tie_columns(entry: Entry, arrival: tuple[str, ...]) -> list[str]:
    if entry.valid_from is not None:
        return ["__arrival"]
    return [*(["__seq"] if entry.sequence_by else []), *(f"__order{n}" for n in range(len(arrival)))]


def _is_stored(entry: Entry) -> str:
    return " AND ".join(f"{column} IS NOT NULL" for column in ["__time", *(part_text(key) for key in entry.keys)])


def _not_deleted(entry: Entry) -> str:
    return " AND NOT __deleted" if entry.delete_when or entry.valid_from else ""
