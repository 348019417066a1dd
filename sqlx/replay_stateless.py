"""What a fragment over a live stream may do: whatever can be said of one row, without remembering others.

Source: semantics.md A, "Mode"; aggregation, DISTINCT, window functions, sorting, LIMIT and joins of live relations need
state that no fragment has, and come as operators of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from sqlglot import exp

from sqlx.errors import UnsupportedError

_HINT = "Replay runs projections, filters, UNION ALL and the temporal operators; ask for the rest over bounded tables."
_PARTS = {"group": "GROUP BY", "distinct": "DISTINCT", "having": "HAVING", "qualify": "QUALIFY", "order": "ORDER BY",
          "sort": "SORT BY", "limit": "LIMIT", "offset": "OFFSET", "windows": "WINDOW"}  # fmt: skip

IsLive = Callable[[exp.Table], bool]


def check_stateless(tree: exp.Expr, is_live: IsLive) -> None:
    """Refuse what needs memory.

    Args:
        tree: a query.
        is_live: whether a table of the tree yields live rows.

    Raises:
        UnsupportedError: `UNSUPPORTED.STREAM_FRAGMENT`.
    """
    for node in tree.walk():
        if isinstance(node, exp.SetOperation) and _reads_live(node, is_live):
            if not isinstance(node, exp.Union) or node.args.get("distinct"):
                refuse(f"{node.key.upper()} of distinct rows")
            _check_parts(node)
        elif isinstance(node, exp.Select) and _sources_live(node, is_live):
            _check_select(node, is_live)


def refuse(what: str) -> NoReturn:
    """Raise the error for something that needs memory.

    Raises:
        UnsupportedError: always.
    """
    raise UnsupportedError("UNSUPPORTED.STREAM_FRAGMENT", what=what, hint=_HINT)


def _reads_live(node: exp.Expr, is_live: IsLive) -> bool:
    return any(is_live(table) or _live_cte(table, is_live) for table in node.find_all(exp.Table))


def _live_cte(table: exp.Table, is_live: IsLive) -> bool:
    cte = cte_of(table)
    return cte is not None and cte.this is not table.find_ancestor(exp.CTE) and _reads_live(cte.this, is_live)


def cte_of(table: exp.Table) -> exp.CTE | None:
    """The common table expression that a name means, if it means one."""
    if table.db or not table.name:
        return None
    inside: exp.Expr | None = table
    while inside is not None:
        with_clause = inside.args.get("with_") or inside.args.get("with")
        for cte in reversed(with_clause.expressions if with_clause else []):
            if isinstance(cte, exp.CTE) and cte.alias.lower() == table.name.lower() and not _is_within(table, cte):
                return cte
        inside = inside.parent
    return None


def drop_unused_ctes(tree: exp.Expr) -> None:
    """Take out the common table expressions that nothing reads: the sides of an operator are cut out of the text."""
    unused: list[exp.CTE] | None = None
    while unused is None or unused:
        used = {id(cte_of(table)) for table in tree.find_all(exp.Table)}
        unused = [cte for cte in tree.find_all(exp.CTE) if id(cte) not in used]
        for cte in unused:
            with_clause = cte.parent
            cte.pop()
            if isinstance(with_clause, exp.With) and not with_clause.expressions:
                with_clause.pop()


def _is_within(node: exp.Expr, ancestor: exp.Expr) -> bool:
    above: exp.Expr | None = node
    while above is not None and above is not ancestor:
        above = above.parent
    return above is ancestor


def _sources_live(select: exp.Select, is_live: IsLive) -> list[exp.Expr]:
    """The relations of a FROM clause that yield live rows."""
    from_clause = select.args.get("from_") or select.args.get("from")
    relations = [from_clause.this] if from_clause else []
    relations += [join.this for join in select.args.get("joins") or []]
    return [r for r in relations if _reads_live(r, is_live)]


def _check_select(select: exp.Select, is_live: IsLive) -> None:
    live = _sources_live(select, is_live)
    if len(live) > 1:
        refuse("A join of two sources")
    for join in select.args.get("joins") or []:
        is_kept = join.side in ("", "LEFT") and join.this is not live[0]
        if not is_kept and join.side:
            refuse(f"A {join.side} JOIN that keeps rows of the other side")
    _check_parts(select)
    for expression in (*select.expressions, *filter(None, [select.args.get("where")])):
        _check_expression(expression, is_live)


def _check_parts(node: exp.Expr) -> None:
    for name, what in _PARTS.items():
        if node.args.get(name):
            refuse(what)


def _check_expression(expression: exp.Expr, is_live: IsLive) -> None:
    for node in expression.walk(prune=lambda n: isinstance(n, exp.Query)):
        if isinstance(node, exp.Window):
            refuse("A window function")
        if isinstance(node, exp.AggFunc):
            refuse(f"The aggregate {node.sql_name()}")
        if isinstance(node, exp.Query) and _reads_live(node, is_live):
            refuse("A subquery in an expression")
