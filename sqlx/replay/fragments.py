"""A fragment of the plan, run for one row at a time: the row is the only one of its relation, all others are empty."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import duckdb
from sqlglot import exp

from catalog.entries import Column
from sqlx.errors import RunError, UnsupportedError
from sqlx.plan.nodes import Fragment, Operator, PlanNode, Source
from sqlx.replay.duckdb import Engine, duckdb_text, parse_sql
from sqlx.replay.proven import as_on_spark
from sqlx.replay.types import INTEGRAL, SparkType, TypeTextError, Values, parse_type, reader_of

# Fragments that only pick, rename, compare or test columns, as Python functions: most are, and need no SQL engine.
#
# Where a fragment holds anything else there is no function, and DuckDB runs it; the answers are the same.


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


# What a fragment over a live stream may do: whatever can be said of one row, without remembering others.
#
# Source: semantics.md A, "Mode"; aggregation, DISTINCT, window functions, sorting, LIMIT and joins of live relations
# need state that no fragment has, and come as operators of their own.


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
        if isinstance(node, exp.TableSample):
            refuse("TABLESAMPLE", "TABLESAMPLE")
        if isinstance(node, exp.SetOperation) and _reads_live(node, is_live):
            if not isinstance(node, exp.Union) or node.args.get("distinct"):
                refuse(f"{node.key.upper()} of distinct rows", node.key)
            _check_parts(node)
        elif isinstance(node, exp.Select) and _sources_live(node, is_live):
            _check_select(node, is_live)


def refuse(what: str, written: str = "") -> NoReturn:
    """Raise the error for something that needs memory.

    Args:
        what: in words.
        written: how it begins in a statement.

    Raises:
        UnsupportedError: always.
    """
    raise UnsupportedError("UNSUPPORTED.STREAM_FRAGMENT", what=what, written=written, hint=_HINT)


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
        refuse("A join of two sources", "JOIN")
    for join in select.args.get("joins") or []:
        is_kept = join.side in ("", "LEFT") and join.this is not live[0]
        if not is_kept and join.side:
            refuse(f"A {join.side} JOIN that keeps rows of the other side", join.side)
    _check_parts(select)
    for expression in (*select.expressions, *filter(None, [select.args.get("where")])):
        _check_expression(expression, is_live)


def _check_parts(node: exp.Expr) -> None:
    for name, what in _PARTS.items():
        if node.args.get(name):
            refuse(what, what)


def _check_expression(expression: exp.Expr, is_live: IsLive) -> None:
    for node in expression.walk(prune=lambda n: isinstance(n, exp.Query)):
        if isinstance(node, exp.Window):
            refuse("A window function", "OVER")
        if isinstance(node, exp.AggFunc):
            refuse(f"The aggregate {node.sql_name()}", f"{node.sql_name()}(")
        if isinstance(node, exp.Query) and _reads_live(node, is_live):
            refuse("A subquery in an expression", "(SELECT")


def columns_of(node: PlanNode) -> tuple[Column, ...]:
    """The columns of a live relation: a source's, or an operator's result."""
    if isinstance(node, Source):
        return node.entry.columns
    assert isinstance(node, Operator), node
    return node.columns


class FragmentRunner:
    """Runs one fragment.

    Args:
        engine: where SQL runs that is more than picking columns.
        fragment: what to run.
        reads_table: whether it may read a table (the right side of an operator) rather than streams.
        is_bare: leave out its condition.

    Raises:
        UnsupportedError: it would need memory.
    """

    def __init__(self, engine: Engine, fragment: Fragment, reads_table: bool = False, is_bare: bool = False) -> None:
        self.engine, self.fragment = engine, fragment
        self.reads: dict[str, PlanNode] = {}
        self.tree = parse_sql(fragment.sql).copy()
        if is_bare:
            for where in list(self.tree.find_all(exp.Where)):
                where.pop()
        drop_unused_ctes(self.tree)
        self._name_reads(reads_table)
        check_stateless(self.tree, lambda table: table.name in self.reads)
        self._readers = [reader_of(parse_type(column.type)) for column in fragment.columns]
        self._queries: dict[str, tuple[str, list[int]]] = {}
        width = len(self._readers)
        self._functions = {r: row_function(self.tree, r, columns_of(node), width) for r, node in self.reads.items()}
        if None in self._functions.values():
            as_on_spark(self.tree, self._types)

    def _types(self, select: exp.Select, values: list[exp.Expr]) -> list[str]:
        """The types of expressions in a SELECT, as DuckDB names them.

        Raises:
            BindError: DuckDB refuses them.
        """
        ctes, _ = self._relations("")
        inside: exp.Expr | None = select
        while inside is not None:
            known = inside.args.get("with_")
            read = known.expressions if known is not None else ()
            ctes += [f"{cte.args['alias'].sql(dialect='duckdb')} AS ({duckdb_text(cte.this)})" for cte in read]
            inside = inside.parent
        bare = exp.Select(**{part: select.args.get(part) for part in ("from_", "joins", "laterals")}).copy()
        for join in bare.args.get("joins") or []:
            join.set("kind", None if join.kind in ("SEMI", "ANTI") else join.kind)  # their conditions see both sides
        named = [item.copy() for item in select.expressions if isinstance(item, exp.Alias)]  # others may refer to them
        bare.set("expressions", [*named, *(exp.alias_(value.copy(), f"__v{n}") for n, value in enumerate(values))])
        return self.engine.types(f"WITH {', '.join(ctes)} {duckdb_text(bare)}")[len(named) :]

    def run(self, read: str, values: Values) -> list[Values]:
        """The fragment's rows when ``values`` is the only row of the relation ``read``.

        Raises:
            RunError: an expression fails on these values.
        """
        function = self._functions[read]
        return function(values) if function is not None else self._run_sql(read, values)

    def _run_sql(self, read: str, values: Values) -> list[Values]:
        if read not in self._queries:
            self._queries[read] = self._query(read)
        query, used = self._queries[read]
        kinds = [parse_type(c.type) for c in columns_of(self.reads[read])]
        try:
            rows = self.engine.run(query, [_as_parameter(values[n], kinds[n]) for n in used])
        except duckdb.Error as error:
            raise RunError("REPLAY.CALCULATION", reason=" ".join(str(error).split()), sql=self.fragment.sql) from error
        return [tuple(read(value) for read, value in zip(self._readers, row, strict=True)) for row in rows]

    def _name_reads(self, reads_table: bool) -> None:
        """Give each live relation of the tree a name of its own; CTEs of the same name stay what they are."""
        names = {_path(name): node for name, node in self.fragment.reads}
        for table in list(self.tree.find_all(exp.Table)):
            node = names.get(".".join(part.name.lower() for part in table.parts))
            if node is None or cte_of(table) is not None:
                continue
            if isinstance(node, Source) and node.entry.is_table and not reads_table:
                refuse(f"A plain read of the table `{node.entry.name}`")
            self._replace(table, node)

    def _replace(self, table: exp.Table, node: PlanNode) -> None:
        known = next((name for name, other in self.reads.items() if other is node), None)
        name = known or f"__read{len(self.reads)}"
        self.reads[name] = node
        if not table.alias:
            table.set("alias", exp.TableAlias(this=table.this.copy()))
        for part in ("db", "catalog"):
            table.set(part, None)
        table.set("this", exp.to_identifier(name))

    def _query(self, active: str) -> tuple[str, list[int]]:
        """DuckDB's text, and which values of the row are its parameters."""
        ctes, used = self._relations(active)
        return f"WITH {', '.join(ctes)} SELECT * FROM ({duckdb_text(self.tree)})", used

    def _relations(self, active: str) -> tuple[list[str], list[int]]:
        """The relations as common table expressions: the active one has the row, all others are empty."""
        ctes, used = [], []
        for name, node in self.reads.items():
            columns = self._used_columns(columns_of(node))
            items = []
            for index, column in columns:
                kind = parse_type(column.type)
                used += [index] if name == active else []
                value = _parameter(len(used), kind) if name == active else f"CAST(NULL AS {kind.duckdb})"
                items.append(f'{value} AS "{column.name.replace(chr(34), chr(34) * 2)}"')
            empty = "" if name == active else " WHERE false"
            ctes.append(f"{name} AS (SELECT {', '.join(items) or '1 AS __none'}{empty})")
        return ctes, used

    def _used_columns(self, columns: tuple[Column, ...]) -> list[tuple[int, Column]]:
        """Those that the fragment can name: any with a star, else those whose name is in it."""
        numbered = list(enumerate(columns))
        if self.tree.find(exp.Star):
            return numbered
        named = {identifier.name.lower() for identifier in self.tree.find_all(exp.Identifier)}
        return [(n, c) for n, c in numbered if c.name.lower() in named]


def _path(name: str) -> str:
    return name.replace("`", "").lower()


def _parameter(number: int, kind: SparkType) -> str:
    if kind.name == "map":  # a dict becomes a struct, which loses keys that are no names
        key, value = (field.duckdb for _, field in kind.fields)
        return f"map_from_entries(CAST(${number} AS STRUCT(key {key}, value {value})[]))"
    return f"CAST(${number} AS {kind.duckdb})"


def _as_parameter(value: Any, kind: SparkType) -> Any:
    if kind.name == "map" and value is not None:
        return [{"key": key, "value": item} for key, item in value.items()]
    return value
