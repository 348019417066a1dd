"""Fragments that only pick, rename, compare or test columns, as Python functions: most are, and need no SQL engine.

Where a fragment holds anything else there is no function, and DuckDB runs it; the answers are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from sqlglot import exp

from catalog.entries import Column
from sqlx.replay_types import INTEGRAL, TypeTextError, parse_type

Values = tuple[Any, ...]
RowFunction = Callable[[Values], list[Values]]
Value = Callable[[Values], Any]


class Named(NamedTuple):
    """A value that an expression can name: ``relation.column``, its type's text, and how a row yields it."""

    relation: str
    column: str
    type: str
    value: Value


class Rowset(NamedTuple):
    """The columns of a FROM clause, and the tests that a row has to pass."""

    columns: list[Named]
    tests: list[Value]


class NotSimple(Exception):
    """The fragment holds something that is left to DuckDB."""


def row_function(tree: exp.Expr, read: str, columns: tuple[Column, ...], width: int) -> RowFunction | None:
    """The fragment as a function from a row of the relation ``read`` to its rows, or None.

    Args:
        tree: the fragment.
        read: the relation's name in the tree.
        columns: of the relation.
        width: how many columns the fragment has.
    """
    try:
        result = _query(tree, read, columns)
    except NotSimple:
        return None
    values = [column.value for column in result.columns]
    if len(values) != width:
        return None
    tests = result.tests
    if not tests:
        return lambda row: [tuple([value(row) for value in values])]
    return lambda row: [tuple([value(row) for value in values])] if all(test(row) is True for test in tests) else []


def _query(tree: exp.Expr | None, read: str, columns: tuple[Column, ...]) -> Rowset:
    if not isinstance(tree, exp.Select):
        raise NotSimple
    plain = {"expressions", "from_", "joins", "where"}
    if any(value for name, value in tree.args.items() if name not in plain) or tree.args.get("from_") is None:
        raise NotSimple
    scope = _relation(tree.args["from_"].this, read, columns)
    for join in tree.args.get("joins") or []:
        scope.columns.extend(_lateral(join, scope))
    where = tree.args.get("where")
    tests = [*scope.tests, *([_test(where.this, scope)] if where else [])]
    return Rowset([item for expression in tree.expressions for item in _items(expression, scope)], tests)


def _relation(relation: exp.Expr, read: str, columns: tuple[Column, ...]) -> Rowset:
    name = relation.alias_or_name.lower()
    if isinstance(relation, exp.Table) and relation.name == read and not relation.args.get("joins"):
        _only_alias(relation)
        found = [Named(name, c.name, c.type, _pick(n)) for n, c in enumerate(columns)]
        return Rowset(found, [])
    if isinstance(relation, exp.Subquery):
        _only_alias(relation)
        inner = _query(relation.this, read, columns)
        return Rowset([c._replace(relation=name) for c in inner.columns], inner.tests)
    raise NotSimple


def _only_alias(relation: exp.Expr) -> None:
    alias = relation.args.get("alias")
    others = [value for name, value in relation.args.items() if value and name not in ("this", "alias")]
    if others or (alias is not None and alias.args.get("columns")):
        raise NotSimple


def _lateral(join: exp.Join, scope: Rowset) -> list[Named]:
    """The columns of CROSS JOIN LATERAL (SELECT op._l0 AS id, …) AS o, which gives a result's columns their names."""
    lateral = join.this
    is_plain = isinstance(lateral, exp.Lateral) and isinstance(lateral.this, exp.Subquery) and join.kind == "CROSS"
    if not is_plain or lateral.args.get("view") or join.args.get("on") or join.args.get("using"):
        raise NotSimple
    select = lateral.this.this
    if not isinstance(select, exp.Select) or any(v for name, v in select.args.items() if name != "expressions"):
        raise NotSimple
    name = lateral.alias.lower()
    return [c._replace(relation=name) for item in select.expressions for c in _items(item, scope)]


def _items(expression: exp.Expr, scope: Rowset) -> list[Named]:
    if isinstance(expression, exp.Star):
        return _star(expression, scope.columns, scope)
    if isinstance(expression, exp.Column) and isinstance(expression.this, exp.Star):
        relation = expression.table.lower()
        return _star(expression.this, [c for c in scope.columns if c.relation == relation], scope)
    found = _value(expression.unalias(), scope)
    return [found._replace(column=expression.alias_or_name)]


def _star(star: exp.Star, columns: list[Named], scope: Rowset) -> list[Named]:
    if star.args.get("replace") or star.args.get("rename"):
        raise NotSimple
    excepted = star.args.get("except_") or star.args.get("except") or []
    hidden = [_column(item if isinstance(item, exp.Column) else exp.column(item), scope) for item in excepted]
    return [c for c in columns if not any(c is other for other in hidden)]


def _column(column: exp.Column, scope: Rowset) -> Named:
    name, table = column.name.lower(), column.table.lower()
    if column.args.get("db"):
        raise NotSimple
    found = [c for c in scope.columns if c.column.lower() == name and (not table or c.relation == table)]
    if len(found) != 1:
        raise NotSimple
    return found[0]


def _pick(index: int) -> Value:
    return lambda row: row[index]


def _value(expression: exp.Expr, scope: Rowset) -> Named:
    if isinstance(expression, exp.Column):
        return _column(expression, scope)
    if isinstance(expression, exp.Paren):
        return _value(expression.this, scope)
    if isinstance(expression, exp.Cast):
        return _cast(expression, scope)
    if isinstance(expression, exp.Literal):
        return _literal(expression)
    return Named("", "", "boolean", _test(expression, scope))


def _literal(literal: exp.Literal) -> Named:
    text = literal.this
    if literal.is_string:
        return Named("", "", "string", lambda _: text)
    if not text.isdigit() or int(text) >= 2**31:
        raise NotSimple
    number = int(text)
    return Named("", "", "int", lambda _: number)


def _cast(cast: exp.Cast, scope: Rowset) -> Named:
    """A cast that changes nothing: to the same type, or to a wider integer."""
    found = _value(cast.this, scope)
    try:
        before, after = parse_type(found.type), parse_type(cast.to.sql(dialect="spark"))
    except TypeTextError:
        raise NotSimple from None
    names = [*INTEGRAL]
    widens = {before.name, after.name} <= {*names} and names.index(before.name) <= names.index(after.name)
    if isinstance(cast, exp.TryCast) or not (before == after or widens):
        raise NotSimple
    return found._replace(type=after.text)


def _test(expression: exp.Expr, scope: Rowset) -> Value:
    """A condition in SQL's three-valued logic: True, False or None."""
    if isinstance(expression, exp.Paren):
        return _test(expression.this, scope)
    if isinstance(expression, exp.Boolean):
        constant = bool(expression.this)
        return lambda _: constant
    if isinstance(expression, exp.Not):
        inner = _test(expression.this, scope)
        return lambda row: None if (value := inner(row)) is None else not value
    if isinstance(expression, (exp.And, exp.Or)):
        return _connected(expression, scope)
    if isinstance(expression, exp.Is) and isinstance(expression.expression, exp.Null):
        tested = _value(expression.this, scope).value
        return lambda row: tested(row) is None
    if isinstance(expression, exp.Coalesce):
        return _coalesce(expression, scope)
    if isinstance(expression, (exp.EQ, exp.NEQ)):
        return _compared(expression, scope)
    if isinstance(expression, exp.Column) and (column := _column(expression, scope)).type == "boolean":
        return column.value
    raise NotSimple


def _connected(expression: exp.And | exp.Or, scope: Rowset) -> Value:
    left, right = _test(expression.this, scope), _test(expression.expression, scope)
    decisive = isinstance(expression, exp.Or)

    def connected(row: Values) -> bool | None:
        values = (left(row), right(row))
        if decisive in values:
            return decisive
        return None if None in values else not decisive

    return connected


def _coalesce(expression: exp.Coalesce, scope: Rowset) -> Value:
    tests = [_test(item, scope) for item in (expression.this, *expression.expressions)]
    return lambda row: next((value for test in tests if (value := test(row)) is not None), None)


def _compared(expression: exp.EQ | exp.NEQ, scope: Rowset) -> Value:
    left, right = _value(expression.this, scope), _value(expression.expression, scope)
    same = left.type == right.type and left.type in ("string", "boolean")
    if not (same or {left.type, right.type} <= set(INTEGRAL)):
        raise NotSimple
    one, other, wanted = left.value, right.value, isinstance(expression, exp.EQ)

    def compared(row: Values) -> bool | None:
        first, second = one(row), other(row)
        return None if first is None or second is None else bool(first == second) is wanted

    return compared
