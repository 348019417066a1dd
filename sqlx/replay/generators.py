"""Rows made of the elements of an array: LATERAL VIEW and LATERAL over explode and posexplode, in DuckDB's words.

DuckDB has UNNEST for both, but hands the elements on in any order where the array comes from the row, and has no word
for OUTER. Spark's order is that of the elements, and later operators go by it.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from sqlx.errors import BindError

_PLACE = "__sqlx_place"
_OUTER = (exp.ExplodeOuter, exp.PosexplodeOuter)


def check_generators(tree: exp.Expr) -> None:
    """Refuse generators that DuckDB answers in another way than Spark.

    Raises:
        BindError: `REPLAY.QUERY_REFUSED`.
    """
    for reason, node in _otherwise(tree):
        name = node.sql_name() if isinstance(node, exp.Func) and not isinstance(node, exp.Anonymous) else node.name
        raise BindError("REPLAY.QUERY_REFUSED", reason=reason, written=f"{name}(")


def _otherwise(tree: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
    for select in tree.find_all(exp.Select):
        found = [node for item in select.expressions for node in item.find_all(exp.Explode)]
        if len(found) > 1:
            yield "several generators make rows of one SELECT", found[1]
        for node in found:
            if not isinstance(node.parent, (exp.Select, exp.Alias, exp.Aliases)):
                yield "it calculates with what a generator makes", node
            if isinstance(node, exp.PosexplodeOuter):
                yield "it has no function `posexplode_outer`, but for LATERAL VIEW", node
    for lateral in tree.find_all(exp.Lateral):
        is_left = isinstance(lateral.parent, exp.Join) and lateral.parent.side
        if not isinstance(lateral.this, (exp.Explode, exp.Subquery)):
            yield "LATERAL VIEW is of explode and posexplode", lateral.this
        elif is_left and isinstance(lateral.this, exp.Explode):  # of no elements Spark makes no row here
            yield "LEFT JOIN of a generator; LATERAL VIEW OUTER keeps rows without elements", lateral.this


def generators_of(select: exp.Select) -> Iterator[exp.Lateral]:
    """The generators among the relations of a query, in order."""
    joined = (join.this for join in select.args.get("joins") or [])
    for relation in (*joined, *(select.args.get("laterals") or [])):
        if isinstance(relation, exp.Lateral) and isinstance(relation.this, exp.Explode):
            yield relation


def unnested(tree: exp.Expr) -> exp.Expr:
    """A query in which DuckDB makes the rows of generators, in the order of their elements; a copy if it has some."""
    if not any(True for select in tree.find_all(exp.Select) for _ in generators_of(select)):
        return tree
    tree = tree.copy()
    for select in list(tree.find_all(exp.Select)):
        found = list(generators_of(select))
        if found:
            names = [_join(select, lateral, number) for number, lateral in enumerate(found)]
            select.set("laterals", None)
            _hide(select, names)
            _sort(select, names)
    return tree


def _join(select: exp.Select, lateral: exp.Lateral, number: int) -> tuple[str, str]:
    """Put a generator among the joins of its query; its name, and that of the element's place."""
    name, place = lateral.alias or f"__sqlx_elements{number}", f"{_PLACE}{number}"
    relation = exp.Lateral(
        this=_elements(lateral, place).subquery(),
        alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True)),
    )
    is_outer = lateral.args.get("outer") or isinstance(lateral.this, _OUTER)
    join = exp.Join(this=relation, side="LEFT" if is_outer else None, on=exp.true())
    if isinstance(lateral.parent, exp.Join):
        lateral.parent.replace(join)
    else:
        select.append("joins", join)
    return name, place


def _elements(lateral: exp.Lateral, place: str) -> exp.Select:
    """The elements of a generator under the names of its columns, each with its place."""
    alias = lateral.args.get("alias")
    columns = [column.name for column in (alias.columns if alias is not None else ())]
    value = exp.to_identifier((columns or ["col"])[-1], quoted=True)
    items: list[exp.Expr] = [exp.column(value.copy()), exp.column(place)]
    if isinstance(lateral.this, exp.Posexplode):
        position = exp.cast(exp.Sub(this=exp.column(place), expression=exp.Literal.number(1)), "int")
        items.insert(0, exp.alias_(position, (columns or ["pos"])[0], quoted=True))
    array = exp.Unnest(
        expressions=[lateral.this.this.copy()],
        alias=exp.TableAlias(this=exp.to_identifier("__sqlx_array"), columns=[value]),
        offset=exp.to_identifier(place),
    )
    return exp.Select(expressions=items).from_(array)


def _hide(select: exp.Select, names: list[tuple[str, str]]) -> None:
    """Leave the places out of what a star stands for."""
    for item in select.expressions:
        star = item.this if isinstance(item, exp.Column) else item
        if isinstance(star, exp.Star):
            mine = [place for name, place in names if star is item or item.table.lower() == name.lower()]
            if mine:
                star.set("except_", [*(star.args.get("except_") or []), *(exp.to_identifier(p) for p in mine)])


def _sort(select: exp.Select, names: list[tuple[str, str]]) -> None:
    """Order the rows of a query that only picks and filters; others have an order of their own, or none."""
    if any(select.args.get(part) for part in ("order", "group", "distinct", "limit", "having")):
        return
    if any(item.find(exp.AggFunc) for item in select.expressions):
        return
    select.set("order", exp.Order(expressions=[exp.Ordered(this=exp.column(place)) for _, place in names]))
    if isinstance(select.parent, exp.SetOperation):  # there ORDER BY would be of all branches
        around = exp.Select(expressions=[exp.Star()])
        select.replace(around)
        around.set("from_", exp.From(this=select.subquery("__sqlx_branch", copy=False)))
