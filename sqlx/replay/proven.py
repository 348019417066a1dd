"""What replay may calculate: functions and operators that were proven to answer on DuckDB as on Spark.

The two engines share most names and not all answers: casts of fractions, weekdays, divisions of decimals. So replay
calculates what `proven.json` lists, function by function and type by type, and refuses all else by name. The list is
made by `tests/spark/test_replay_functions.py`, which compares both engines over the edges of each type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import product
from pathlib import Path

from sqlglot import exp

from sqlx.errors import UnsupportedError
from sqlx.replay.functions import PREFIX, named

#: What has a value of its own, or only hands one on.
_TRANSPARENT = (
    exp.Column, exp.Identifier, exp.Literal, exp.Null, exp.Boolean, exp.Paren, exp.Alias, exp.Star, exp.DataType,
    exp.DataTypeParam, exp.Var, exp.Interval, exp.And, exp.Or, exp.Not, exp.Tuple, exp.Cast, exp.PropertyEQ,
    exp.Dot, exp.Struct, exp.IntervalSpan, exp.Lambda, exp.Distinct, exp.Order, exp.Ordered, exp.Explode,
    exp.Aliases,
)  # fmt: skip
_FAMILIES = (
    (r"(TINYINT|SMALLINT|INTEGER|BIGINT)", "int"), (r"(FLOAT|DOUBLE)", "float"),
    (r"DECIMAL\(1?\d,\d+\)", "decimal"), (r"DECIMAL\(\d+,\d+\)", "wide decimal"), (r"VARCHAR", "string"),
    (r"BOOLEAN", "boolean"), (r"DATE", "date"), (r"TIMESTAMP WITH TIME ZONE", "timestamp"),
    (r"TIMESTAMP", "timestamp_ntz"), (r"INTERVAL", "interval"), (r"BLOB", "binary"), (r'"?NULL"?', "null"),
    (r".*\[\]", "array"), (r"STRUCT\(.*\)", "struct"), (r"MAP\(.*\)", "map"),
)  # fmt: skip


def family(duckdb_type: str) -> str:
    """The family of a type: proofs hold for all types of one. A decimal is wide from 20 digits on.

    >>> family("BIGINT"), family("DECIMAL(10,2)"), family("INTEGER[]")
    ('int', 'decimal', 'array')
    """
    return next((name for pattern, name in _FAMILIES if re.fullmatch(pattern, duckdb_type, re.DOTALL)), "other")


@cache
def proven() -> frozenset[str]:
    """The signatures that are listed."""
    return frozenset(json.loads(Path(__file__).with_name("proven.json").read_text(encoding="utf-8")))


def calls(expression: exp.Expr) -> Iterator[exp.Expr]:
    """The calculations in an expression: functions, operators and casts; not those of subqueries."""
    for node in expression.walk(prune=lambda n: isinstance(n, exp.Query) and n is not expression):
        if isinstance(node, exp.Query) or (isinstance(node, _TRANSPARENT) and not isinstance(node, exp.Cast)):
            continue
        is_branch = isinstance(node, exp.If) and isinstance(node.parent, exp.Case)
        if not is_branch and not isinstance(node.parent, (exp.Interval, exp.DataType)):
            yield node


def operands(node: exp.Expr) -> list[exp.Expr]:
    """What a calculation is over, in order."""
    found: list[exp.Expr] = []
    for name, value in node.args.items():
        if name in ("to", "ifs"):
            continue
        found += [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, exp.Expr)]
    if isinstance(node, exp.Case):
        found += [part for branch in node.args["ifs"] for part in (branch.this, branch.args["true"])]
    return found


def signatures(node: exp.Expr, types: Sequence[str]) -> Iterator[str]:
    """The ways in which a calculation may be listed: with literals as they are, and by families alone.

    Args:
        node: the calculation.
        types: the families of its operands.
    """
    name = node.name.lower().removeprefix(PREFIX) if isinstance(node, exp.Anonymous) else type(node).__name__
    flags = [] if isinstance(node, exp.Anonymous) else _flags(node)
    target = f" to {_target(node)}" if isinstance(node, exp.Cast) else ""
    choices = [_descriptions(operand, kind) for operand, kind in zip(operands(node), types, strict=True)]
    for chosen in product(*choices):
        yield f"{name}({', '.join([*chosen, *flags])}){target}"


def _flags(node: exp.Expr) -> list[str]:
    return [f"{key}={value}" for key, value in sorted(node.args.items()) if isinstance(value, (bool, str)) and value]


def _target(node: exp.Cast) -> str:
    return str(node.to.sql(dialect="spark")).lower()


def _descriptions(operand: exp.Expr, kind: str) -> list[str]:
    plain = operand.this if isinstance(operand, exp.Paren) else operand
    if isinstance(plain, exp.Neg) and isinstance(plain.this, exp.Literal):
        return [f"-{plain.this.name}", kind]
    if isinstance(plain, (exp.Literal, exp.Var)):
        text = f"'{plain.name}'" if isinstance(plain, exp.Literal) and plain.is_string else plain.name
        return [text, kind]
    if isinstance(plain, exp.Interval):
        return [f"interval {plain.unit}".lower(), kind]
    return [kind]


def as_on_spark(tree: exp.Expr, types_of: Callable[[exp.Select, list[exp.Expr]], list[str]]) -> None:
    """Let a query calculate as Spark does: what goes by types is put right in its place, the rest is refused.

    Args:
        tree: a plain query; it is changed.
        types_of: from expressions in a SELECT of it to the names of their types.

    Raises:
        UnsupportedError: something in it is not listed.
    """
    for select in tree.find_all(exp.Select):
        where = select.args.get("where")
        parts = [*select.expressions, where and where.this, *(join.args.get("on") for join in _joins(select))]
        parts += _calculated(select)
        found = [node for part in parts if part is not None for node in reversed(list(calls(part)))]  # inner ones first
        values = [operand for node in found for operand in operands(node) if not isinstance(operand, _WORDLESS)]
        kinds = dict(zip(map(id, values), types_of(select, values) if values else (), strict=True))
        # Of all, before any is replaced: what takes its place would have no type.
        families = [[_family_of(operand, kinds) for operand in operands(node)] for node in found]
        for node, types in zip(found, families, strict=True):
            if not made_as_on_spark(node, types) and not is_proven(node, types):
                call, over = _as_written(node), ", ".join(types) or "nothing"
                raise UnsupportedError("REPLAY.NOT_PROVEN", call=call, over=over)


_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})
_DAYS = frozenset({"day", "days", "week", "weeks", "month", "months", "year", "years"})


def made_as_on_spark(node: exp.Expr, types: Sequence[str]) -> bool:
    """Put what answers as Spark in the place of a calculation whose answer goes by the types of its operands.

    A cast to an integer cuts fractions off and takes text of digits alone; a date and some days are a date; a double is
    rounded as it is written.

    Args:
        node: a calculation; it is changed in its place.
        types: the families of its operands.

    Returns:
        Whether it is one of these.
    """
    if isinstance(node, exp.Round) and types[0] == "float" and len(types) <= 2:
        digits = node.args.get("decimals") or exp.Literal.number(0)
        node.replace(named("round", [node.this.copy(), digits.copy()], node.sql(dialect="spark")))
        return True
    if isinstance(node, exp.Cast) and _target(node) == "date" and types == ["string"]:
        node.set("this", named("day", [node.this.copy()], node.sql(dialect="spark")))
        return True
    if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast) and _target(node) in _WHOLE:
        function = {"string": "__sqlx_whole", "float": "trunc", "decimal": "trunc"}.get(types[0])
        if function is not None:
            node.set("this", exp.Anonymous(this=function, expressions=[node.this.copy()]))
            return True
    if isinstance(node, exp.TryCast) and _target(node) in _WHOLE and types == ["string"]:
        node.set("this", exp.Anonymous(this="__sqlx_try_whole", expressions=[node.this.copy()]))
        return True
    if isinstance(node, (exp.Like, exp.ILike)) and types == ["string", "string"]:
        return _escaped(node)
    if isinstance(node, exp.Escape):  # of a LIKE, which was looked at before
        like, mark = node.this, node.text("expression")
        return isinstance(like, (exp.Like, exp.ILike)) and len(mark) == 1 and _is_plain_pattern(like.expression, mark)
    is_shift = isinstance(node, (exp.Add, exp.Sub)) and types[0] == "date" and isinstance(node.expression, exp.Interval)
    if is_shift and str(node.expression.unit).lower() in _DAYS:
        node.replace(exp.cast(node.copy(), "date"))
        return True
    return False


def _escaped(like: exp.Like | exp.ILike) -> bool:
    """Whether a pattern means the same in both engines, once it is said that a backslash escapes.

    Raises:
        UnsupportedError: it escapes what needs no escape, which Spark refuses.
    """
    pattern = like.expression
    if isinstance(like.parent, exp.Escape):
        return True
    is_text = isinstance(pattern, exp.Literal)
    if is_text and not _is_plain_pattern(pattern, "\\"):
        raise UnsupportedError("REPLAY.NOT_PROVEN", call=_as_written(like), over="string, string")
    if not is_text or "\\" in pattern.name:
        like.replace(exp.Escape(this=like.copy(), expression=exp.Literal.string("\\")))
    return True


def _as_written(node: exp.Expr) -> str:
    """What a user wrote, for what stands in its place."""
    above: exp.Expr | None = node
    while above is not None and not isinstance(above, exp.Select):
        if "spark" in above.meta:
            return str(above.meta["spark"])
        above = above.parent
    return str(node.sql(dialect="spark"))


_WORDLESS = (exp.Var, exp.Query, exp.Lambda, exp.Star, exp.IntervalSpan, exp.DataType, exp.Distinct, exp.Ordered)


def _joins(select: exp.Select) -> list[exp.Expr]:
    return select.args.get("joins") or []


def _calculated(select: exp.Select) -> Iterator[exp.Expr]:
    """What is calculated in the relations of a query: the arrays of generators, and the rows of VALUES."""
    joined = [relation.this for relation in (select.args.get("from_"), *_joins(select)) if relation is not None]
    for relation in (*joined, *(select.args.get("laterals") or [])):
        if isinstance(relation, (exp.Lateral, exp.Table)) and isinstance(relation.this, exp.Func):
            yield relation.this
        if isinstance(relation, (exp.Values, exp.Unnest)):
            yield from relation.expressions


def _family_of(operand: exp.Expr, kinds: dict[int, str]) -> str:
    return family(kinds[id(operand)]) if id(operand) in kinds else type(operand).__name__.lower()


def is_proven(node: exp.Expr, types: Sequence[str]) -> bool:
    """Whether a calculation over operands of these families answers as on Spark."""
    if isinstance(node, (exp.Case, exp.If, exp.Nvl2, exp.Coalesce)):  # a choice: no value is made
        tests = [kind for kind, operand in zip(types, operands(node), strict=True) if _is_test(node, operand)]
        results = {kind for kind, operand in zip(types, operands(node), strict=True) if not _is_test(node, operand)}
        alike = len(set(tests)) <= 1 or (isinstance(node, exp.Case) and node.this is None)
        is_one = (
            sum(1 for kind in types if kind != "null") == len(tests) + 1
        )  # of two decimals the scale may be another
        if alike and len(results - {"null"}) <= 1 and (is_one or not results & {"decimal", "wide decimal"}):
            return True
    if isinstance(node, exp.Cast) and (types == ["null"] or _is_literal_time(node)):
        return True
    if isinstance(node, _APPROXIMATE):
        return False
    if isinstance(node, (exp.RegexpLike, exp.RegexpExtract)) and types[0] == "string" and _is_plain_regexp(node):
        return True
    if isinstance(node, exp.TimeToStr) and _PLAIN_FORMAT.fullmatch(node.text("format")):
        return True
    if isinstance(node, (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)) and _compares_times(node, types):
        return True
    if any(signature in proven() for signature in signatures(node, types)):
        return True
    return _goes_on(node, types) or (isinstance(node, exp.Substring) and _is_plain_part(node, types))


#: What does with further operands what it did with the first two: the place of the first of these.
_GOES_ON: dict[type[exp.Expr], int] = {exp.Array: 0, exp.ConcatWs: 1, exp.Greatest: 0, exp.Least: 0}


def _goes_on(node: exp.Expr, types: Sequence[str]) -> bool:
    """Whether a calculation over many operands is proven by those over two of them.

    ``x IN (a, b)`` is ``x = a OR x = b``. To a text goes on what is written behind it.
    """
    if isinstance(node, exp.In) and node.expressions:
        items = [(item, kind) for item, kind in zip(node.expressions, types[1:], strict=True) if kind != "null"]
        pairs = [(exp.EQ(this=node.this.copy(), expression=item.copy()), kind) for item, kind in items]
        return len({kind for _, kind in items}) == 1 and all(is_proven(pair, [types[0], kind]) for pair, kind in pairs)
    if type(node) is exp.Concat:  # concat_ws is one too
        return "string" in types and all(_is_listed(node, ["string", part]) for part in types)
    first = _GOES_ON.get(type(node))
    if first is None or len(types) <= first + 2 or len(set(types[first:])) != 1:
        return False
    return _is_listed(node, types[: first + 2])


def _is_listed(node: exp.Expr, types: Sequence[str]) -> bool:
    """Whether the list has a calculation over operands of these families alone."""
    return f"{type(node).__name__}({', '.join([*types, *_flags(node)])})" in proven()


def _is_plain_part(node: exp.Substring, types: Sequence[str]) -> bool:
    """Whether a part is asked for by a place from 1 on and a length: only other ones are counted differently."""
    start, length = node.args.get("start"), node.args.get("length")
    are_numbers = all(isinstance(number, exp.Literal) and not number.is_string for number in (start, length))
    return types[0] == "string" and are_numbers and int(str(start)) >= 1 and "Substring(string, 2, 2)" in proven()


#: Their last digit goes by the library that calculates them: values that happen to agree prove nothing.
_APPROXIMATE = (
    exp.Acos, exp.Acosh, exp.Asin, exp.Asinh, exp.Atan, exp.Atan2, exp.Atanh, exp.Cbrt, exp.Cos, exp.Cosh, exp.Cot,
    exp.Exp, exp.Ln, exp.Log, exp.Pow, exp.Sin, exp.Sinh, exp.Tan, exp.Tanh,
)  # fmt: skip


def _is_plain_pattern(pattern: exp.Expr, escape: str) -> bool:
    """Whether a pattern of LIKE escapes only what needs it; Spark refuses others, DuckDB takes them as they are."""
    mark = re.escape(escape)
    text = pattern.name if isinstance(pattern, exp.Literal) else escape
    return re.fullmatch(f"(?:[^{mark}]|{mark}[%_{mark}])*", text, re.DOTALL) is not None


#: Both engines read such expressions alike: no classes with names or of classes, no escapes, no ends of lines.
_PLAIN_REGEXP = re.compile(r"(?!.*(?:\[\[|\[:|&&|\(\?|[*+?}]\+))[\w ,:/@#^|()\[\]*+?{}-]+", re.ASCII)
#: Digits of a time, and what stands between them.
_PLAIN_FORMAT = re.compile(r"(?:%(?:Y|(?:m|d|H|M|S)strict)|[-: /._,])+")


def _is_plain_regexp(node: exp.Expr) -> bool:
    """Whether a regular expression, and the group that is asked for, mean the same in both engines."""
    pattern, group = node.expression, node.args.get("group")
    if not isinstance(pattern, exp.Literal) or not pattern.is_string or not _PLAIN_REGEXP.fullmatch(pattern.name):
        return False
    if isinstance(node, exp.RegexpLike):
        return True
    return isinstance(group, exp.Literal) and int(group.name) <= pattern.name.count("(")


_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)?")


def _is_literal_time(node: exp.Cast) -> bool:
    """A date or a timestamp written out, as ``TIMESTAMP'2024-01-01 10:00'``."""
    text = node.this
    is_time = _target(node).startswith(("date", "timestamp"))
    return is_time and isinstance(text, exp.Literal) and text.is_string and bool(_TIME.fullmatch(text.name))


def _compares_times(node: exp.Expr, types: Sequence[str]) -> bool:
    """Whether a time is compared with one that is written out as text."""
    times = {"timestamp", "timestamp_ntz"}
    for kind, text in ((types[0], node.expression), (types[1], node.this)):
        if isinstance(text, exp.Literal) and text.is_string and _TIME.fullmatch(text.name):
            return kind in times or (kind == "date" and len(text.name) == len("2024-01-01"))
    return False


def _is_test(node: exp.Expr, operand: exp.Expr) -> bool:
    """Whether an operand decides which of the others is chosen."""
    if isinstance(node, (exp.If, exp.Nvl2)) or (isinstance(node, exp.Case) and node.this is operand):
        return node.this is operand
    if not isinstance(node, exp.Case):
        return False
    return any(branch.this is operand for branch in node.args["ifs"])
