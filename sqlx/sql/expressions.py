"""Whether two pieces of SQL are the same expression, token by token: what GROUP BY has, and what is elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NoReturn

from sqlx.errors import BindError, TemporalParseError, UnsupportedError
from sqlx.sql.cursor import Cursor
from sqlx.sql.precedence import conjunctions, stands_alone, top_level
from sqlx.sql.tokens import Span, Token

# Finds the aggregate calls of an expression, and says what each needs: its arguments, its filter, its type.


#: Spark's aggregate functions (its SQL reference, "Aggregate functions").
AGGREGATES = frozenset(
    "any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate "
    "approx_top_k_combine array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg "
    "bitmap_or_agg bool_and bool_or collect_list collect_set collect_union corr count count_if "
    "count_min_sketch covar_pop covar_samp every first first_value grouping grouping_id histogram_numeric "
    "hll_sketch_agg hll_union_agg kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float "
    "kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float kurtosis last last_value listagg max "
    "max_by mean median min min_by mode percentile percentile_approx percentile_cont percentile_disc product "
    "regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy "
    "schema_of_json_agg schema_of_variant_agg skewness some std stddev stddev_pop stddev_samp string_agg sum "
    "theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum tuple_intersection_agg_double "
    "tuple_intersection_agg_integer tuple_sketch_agg_double tuple_sketch_agg_integer tuple_union_agg_double "
    "tuple_union_agg_integer var_pop var_samp variance".split()
)
#: Those that keep a partial state, and what they are called in the plan.
KEPT = {
    "count": "count", "count_if": "count_if", "sum": "sum", "avg": "avg", "mean": "avg", "min": "min", "max": "max",
    "std": "stddev", "stddev": "stddev", "stddev_samp": "stddev", "stddev_pop": "stddev_pop", "variance": "variance",
    "var_samp": "variance", "var_pop": "var_pop", "first": "first", "first_value": "first", "any_value": "first",
    "last": "last", "last_value": "last", "collect_list": "collect_list", "array_agg": "collect_list",
    "collect_set": "collect_set", "bool_and": "bool_and", "every": "bool_and", "bool_or": "bool_or", "some": "bool_or",
    "any": "bool_or", "bit_and": "bit_and", "bit_or": "bit_or", "bit_xor": "bit_xor", "max_by": "max_by",
    "min_by": "min_by",
}  # fmt: skip
_DISTINCT = frozenset({"count", "sum", "avg", "collect_set", "min", "max", "collect_list"})
_INTEGRAL = frozenset({"tinyint", "smallint", "int", "bigint"})
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_MOST_DIGITS = 38
_QUERY = frozenset({"SELECT", "WITH", "FROM"})
_TWO = frozenset({"max_by", "min_by"})
_PICKS = frozenset({"first", "last"})
#: What the argument of a kept aggregate must be, and the types of that kind; a type may go on, as decimal(10,2) does.
_NUMBER = ("a number", (*_INTEGRAL, "float", "double", "decimal", "string", "void"))
_CONDITION = ("a condition", ("boolean", "void"))
_AMOUNT = ("a number or an interval", (*_NUMBER[1], "interval"))
_WANTED = {
    **dict.fromkeys(("sum", "avg"), _AMOUNT),
    **dict.fromkeys(("stddev", "stddev_pop", "variance", "var_pop"), _NUMBER),
    **dict.fromkeys(("count_if", "bool_and", "bool_or"), _CONDITION),
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor"), ("a whole number", (*_INTEGRAL, "void"))),
}


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate call as it was written.

    Attributes:
        span: all of it, with FILTER and WITHIN GROUP.
        name: of the function, lower case.
        arguments: spans of the arguments; `*` has none.
        distinct, ignore_nulls: what was written.
        filter: the condition of FILTER (WHERE …).
        is_plain: nothing else is in it, so that a partial state can be kept for it.
        is_star: its argument is `*`.
    """

    span: Span
    name: str
    arguments: tuple[Span, ...] = ()
    distinct: bool = False
    ignore_nulls: bool = False
    filter: Span | None = None
    is_plain: bool = True
    is_star: bool = False

    @property
    def name_span(self) -> Span:
        """Where the name of its function is."""
        return Span(self.span.start, self.span.start + len(self.name))

    @property
    def function(self) -> str:
        """What the plan calls it: 'rows' where its rows are kept and it is computed from them."""
        kept = KEPT.get(self.name, "rows")
        allows = not self.distinct or kept in _DISTINCT
        return kept if self.is_plain and allows else "rows"


def find_aggregates(text: str, tokens: tuple[Token, ...]) -> list[AggregateCall]:
    """The aggregate calls among the tokens, in order.

    Raises:
        TemporalParseError: one is inside another.
        UnsupportedError: one is a window function: OVER follows.
    """
    cursor = Cursor(text, tokens)
    found: list[AggregateCall] = []
    while not cursor.done:
        if _is_aggregate(cursor):
            found.append(_call(cursor))
        else:
            _step(cursor)
    return found


def check_no_aggregate(text: str, tokens: tuple[Token, ...], clause: str) -> None:
    """Refuse aggregates where rows are not grouped yet.

    Raises:
        TemporalParseError: one is there.
    """
    found = find_aggregates(text, tokens)
    if found:
        raise TemporalParseError("AGGREGATE.PLACE", text, found[0].span.pair, function=found[0].name, clause=clause)


def _step(cursor: Cursor) -> None:
    """Over a token, or over a subquery: its aggregates are its own."""
    if cursor.symbol() == "(" and cursor.word(1) in _QUERY:
        cursor.skip_group()
    else:
        cursor.step()


def _is_aggregate(cursor: Cursor) -> bool:
    token, before = cursor.peek(), cursor.tokens[cursor.index - 1] if cursor.index else None
    if token is None or not token.is_name or cursor.symbol(1) != "(" or token.name.lower() not in AGGREGATES:
        return False
    is_field = before is not None and before.text == "."
    is_pattern = before is not None and before.word in ("LIKE", "ILIKE") and token.word in ("ANY", "SOME")
    return not is_field and not is_pattern


def _call(cursor: Cursor) -> AggregateCall:
    start = cursor.index
    name = cursor.next().name.lower()
    inner = Cursor(cursor.text, cursor.tokens, cursor.index + 1, cursor.closing())
    cursor.skip_group()
    distinct = inner.take("DISTINCT")
    inner.take("ALL")
    _check_inner(inner)
    is_star = inner.symbol() == "*"
    arguments = _arguments(inner)
    ignores = inner.take("IGNORE", "NULLS")
    respects = inner.take("RESPECT", "NULLS")
    is_plain = inner.done
    condition: Span | None = None
    while not cursor.done:
        if cursor.take("IGNORE", "NULLS"):
            ignores = True
        elif cursor.take("RESPECT", "NULLS"):
            respects = True
        elif cursor.at("WITHIN", "GROUP"):
            cursor.step(2)
            cursor.skip_group()
            is_plain = False
        elif cursor.at("FILTER") and cursor.symbol(1) == "(":
            cursor.step()
            condition = _filter(cursor)
        else:
            break
    span = cursor.span_from(start)
    if cursor.at("OVER"):
        raise UnsupportedError("AGGREGATE.WINDOW_FUNCTION", cursor.text, span.pair, function=name)
    if KEPT.get(name) in _PICKS and len(arguments) > 1:  # first(x, true) is first(x) IGNORE NULLS
        flag = arguments[1].of(cursor.text).upper()
        ignores, is_plain = ignores or flag == "TRUE", is_plain and len(arguments) == 2 and flag in ("TRUE", "FALSE")
        arguments = arguments[:1] if is_plain else arguments
    is_plain = is_plain and not (respects and KEPT.get(name, "").startswith("collect"))
    return AggregateCall(span, name, arguments, distinct, ignores, condition, is_plain, is_star)


def _filter(cursor: Cursor) -> Span:
    """The condition of FILTER (WHERE …); the position is at its parenthesis, and after it afterwards.

    Raises:
        TemporalParseError: there is no condition, or it holds an aggregate.
    """
    inner = Cursor(cursor.text, cursor.tokens, cursor.index + 1, cursor.closing())
    if not inner.take("WHERE"):
        inner.fail("WHERE")
    if inner.done:
        inner.fail("a condition")
    _check_inner(inner)
    condition = Span(inner.tokens[inner.index].start, inner.tokens[inner.stop - 1].end)
    cursor.skip_group()
    return condition


def _check_inner(inner: Cursor) -> None:
    """Refuse an aggregate from the position on.

    Raises:
        TemporalParseError: one is there.
    """
    nested = find_inner(inner, inner.index)
    if nested is not None:
        function = inner.tokens[nested].name.lower()
        token = inner.tokens[nested]
        raise TemporalParseError("AGGREGATE.NESTED", inner.text, (token.start, token.end), function=function)


def find_inner(inner: Cursor, first: int) -> int | None:
    """Index of an aggregate call from a position on, or None."""
    probe = Cursor(inner.text, inner.tokens, first, inner.stop)
    while not probe.done:
        if _is_aggregate(probe):
            return probe.index
        _step(probe)
    return None


def _arguments(inner: Cursor) -> tuple[Span, ...]:
    if inner.symbol() == "*" or inner.done:
        inner.step()
        return ()
    return tuple(inner.expressions())


def check_arguments(text: str, call: AggregateCall, types: list[str], filter_type: str | None) -> None:
    """Refuse a kept aggregate whose arguments do not fit it; of the others the engine computes it judges itself.

    Args:
        text: the statement.
        call: the aggregate.
        types: of its arguments.
        filter_type: of the condition of its FILTER, or None.

    Raises:
        BindError: there are too many or too few, or one has a type that the aggregate does not take.
    """
    if filter_type not in (None, *_CONDITION[1]):
        _refuse_type(text, call, "FILTER (WHERE …)", _CONDITION[0], str(filter_type))
    if call.function == "rows":
        return
    count = len(call.arguments)
    wanted = 2 if call.function in _TWO else 1
    fits = count > 0 or call.is_star if call.function == "count" else count == wanted
    if not fits:
        parameters = {"function": call.name, "found": "`*`" if call.is_star else str(count)}
        parameters["wanted"] = "2 arguments" if wanted == 2 else "1 argument"
        raise BindError("AGGREGATE.ARGUMENT_COUNT", text, call.span.pair, **parameters)
    what, allowed = _WANTED.get(call.function, ("", ()))
    if allowed and not types[0].startswith(allowed):
        _refuse_type(text, call, call.name, what, types[0])


def compared_arguments(call: AggregateCall) -> Sequence[int]:
    """The arguments of a kept aggregate whose values are compared with each other, by their places."""
    if call.function != "rows" and (call.distinct or call.function == "collect_set"):
        return range(len(call.arguments))
    return {"min": (0,), "max": (0,), "min_by": (1,), "max_by": (1,)}.get(call.function, ())


def _refuse_type(text: str, call: AggregateCall, function: str, wanted: str, found: str) -> NoReturn:
    is_filter = function != call.name
    span = call.filter if is_filter and call.filter is not None else call.arguments[0]
    parameters = {"function": function, "wanted": wanted, "found": span.of(text), "type": found.upper()}
    raise BindError("AGGREGATE.ARGUMENT_TYPE", text, span.pair, **parameters)


def result_type(function: str, arguments: list[str], bound: str) -> str:
    """The type of a kept aggregate in Spark, from the types of its arguments.

    >>> result_type("sum", ["int"], ""), result_type("avg", ["decimal(10,2)"], "")
    ('bigint', 'decimal(14,6)')
    >>> result_type("avg", ["interval hour"], "")
    'interval day to second'
    """
    first = arguments[0] if arguments else ""
    if function in ("count", "count_if"):
        return "bigint"
    if function in ("sum", "avg"):
        return _arithmetic(function, first, bound)
    if function in ("stddev", "stddev_pop", "variance", "var_pop"):
        return "double"
    if function in ("collect_list", "collect_set"):
        return f"array<{first}>"
    if function in ("min", "max", "first", "last", "bit_and", "bit_or", "bit_xor", "max_by", "min_by"):
        return first
    return "boolean" if function in ("bool_and", "bool_or") else bound


def _arithmetic(function: str, argument: str, bound: str) -> str:
    decimal = _DECIMAL.fullmatch(argument)
    if decimal is not None:
        precision, scale = int(decimal[1]), int(decimal[2])
        if function == "sum":
            return f"decimal({min(_MOST_DIGITS, precision + 10)},{scale})"
        return _bounded(precision + 4, scale + 4)
    if function == "sum" and argument in _INTEGRAL:
        return "bigint"
    if argument.startswith("interval"):  # of days to seconds: no worker gets one of years and months
        return "interval day to second"
    is_number = argument in _INTEGRAL or argument in ("float", "double", "string")
    return "double" if is_number else bound


def _bounded(precision: int, scale: int) -> str:
    """Spark's limit of a decimal's digits; what is before the point is kept first."""
    if precision > _MOST_DIGITS:
        before = precision - scale
        precision, scale = _MOST_DIGITS, max(_MOST_DIGITS - before, min(scale, 6))
    return f"decimal({precision},{scale})"


def struct_fields(tokens: tuple[Token, ...]) -> list[tuple[int, int, int]]:
    """What becomes a field of a struct that is named by it or by its place: arguments of `struct`, and of `(a, b)`.

    Args:
        tokens: of an expression.

    Returns:
        where each begins, where it ends, and its number from 1 on; those with an alias too.

    >>> from sqlx.sql.tokens import tokenize
    >>> struct_fields(tuple(tokenize("f(struct(a, max(b)), (c, 1), d IN (1, 2), (x, y) -> x)")))
    [(4, 5, 1), (6, 10, 2), (13, 14, 1), (15, 16, 2)]
    """
    found: list[tuple[int, int, int]] = []
    opened: list[list[int]] = []  # of each parenthesis that is open its place and those of its commas
    for at, token in enumerate(tokens):
        if token.symbol in _OPEN:
            opened.append([at])
        elif token.symbol == "," and opened:
            opened[-1].append(at)
        elif token.symbol in _CLOSE and opened:
            places = [*opened.pop(), at]
            if _makes_struct(tokens, places):
                found += [(one + 1, other, number) for number, (one, other) in enumerate(pairwise(places), 1)]
    return sorted(found)


def field_aliases(tokens: tuple[Token, ...]) -> set[int]:
    """Where the names of a struct's fields are that are written out, with AS or without: they are no columns.

    >>> from sqlx.sql.tokens import tokenize
    >>> sorted(field_aliases(tuple(tokenize("struct(max(v) AS v, a + b, ts t)"))))
    [7, 14]
    """
    ends = [(start, end, alias_at(tokens[start:end])) for start, end, _ in struct_fields(tokens)]
    return {end - 1 for start, end, name in ends if name < end - start}


def alias_at(tokens: tuple[Token, ...]) -> int:
    """Where the alias of an expression begins, at AS or at the name: behind its end where there is none.

    >>> from sqlx.sql.tokens import tokenize
    >>> [alias_at(tuple(tokenize(text))) for text in ("v AS x", "max(v) x", "v", "ts + INTERVAL 1 DAY", "a > b")]
    [1, 4, 1, 5, 3]
    >>> [alias_at(tuple(tokenize(text))) for text in ("v::date d", "v::array<map<int, date>> x", "v::int < b")]
    [3, 11, 5]
    """
    count = len(tokens)
    if count > 2 and tokens[-2].word == "AS" and tokens[-1].is_name:
        return count - 2
    if count < 2 or not tokens[-1].is_name or tokens[-1].word in ("END", "NULL", "TRUE", "FALSE"):
        return count
    before = tokens[-2]
    if (before.word in ("IGNORE", "RESPECT") and tokens[-1].word == "NULLS") or _is_interval(tokens):
        return count
    ends = before.text in (")", "]") or before.word == "END" or before.kind in ("quoted", "number", "string")
    is_word = before.kind == "word" and before.word not in _PREFIXES
    return count - 1 if ends or is_word or _ends_cast(tokens[:-1]) else count


def _ends_cast(tokens: tuple[Token, ...]) -> bool:
    """Whether the last word ends the type of a cast: `ts::date`."""
    return _ends_what_begins_at_last(tokens, "::", Cursor.skip_cast)


def _is_interval(tokens: tuple[Token, ...]) -> bool:
    """Whether the last word is a unit: `ts + INTERVAL 1 DAY`."""
    return _ends_what_begins_at_last(tokens, "INTERVAL", Cursor.skip_expression)


def _ends_what_begins_at_last(tokens: tuple[Token, ...], first: str, skip: Callable[[Cursor], object]) -> bool:
    """Whether what begins at the last place of a token reaches to the end of all."""
    last = max((n for n, token in enumerate(tokens) if first in (token.text, token.word)), default=None)
    if last is None:
        return False
    cursor = Cursor("", tokens, last)
    skip(cursor)
    return cursor.done


_PREFIXES = frozenset("NOT AND OR IS LIKE IN DIV BETWEEN DISTINCT INTERVAL DATE TIMESTAMP CASE WHEN THEN ELSE".split())


def _makes_struct(tokens: tuple[Token, ...], places: list[int]) -> bool:
    """Whether parentheses are those of `struct`, or of a row: of several values, of no call, no IN and no lambda."""
    first, last = places[0], places[-1]
    before = tokens[first - 1] if first else None
    if tokens[first].symbol != "(" or (last + 1 < len(tokens) and tokens[last + 1].symbol == "->"):
        return False
    if before is not None and before.word == "STRUCT":
        return True
    begins = before is None or before.word in ("THEN", "ELSE") or (before.kind == "op" and before.symbol not in _CLOSE)
    return begins and len(places) > 2


# Takes an ON condition apart: its conjuncts, and the comparison that each one is.


COMPARISONS = frozenset({"=", "==", "<=>", ">=", ">", "<=", "<"})
_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")
_NOT_COMPARED = frozenset({"OR", "NOT", "BETWEEN", "IN", "LIKE", "ILIKE", "RLIKE", "IS", "AND"})


@dataclass(frozen=True)
class Conjunct:
    """One conjunct of a condition: its tokens, and its two sides where it is a single comparison."""

    tokens: tuple[Token, ...]
    operator: str = ""
    left: tuple[Token, ...] = ()
    right: tuple[Token, ...] = ()

    @property
    def span(self) -> Span:
        """Where it is in the text."""
        return span_of(self.tokens)


def span_of(tokens: tuple[Token, ...]) -> Span:
    """From the first to the last token."""
    return Span(tokens[0].start, tokens[-1].end)


def split_conjuncts(tokens: tuple[Token, ...]) -> list[Conjunct]:
    """The conjuncts of a condition; parentheses around all of it or around one conjunct are seen through.

    >>> from sqlx.sql.tokens import tokenize
    >>> [c.operator for c in split_conjuncts(tokenize("(a.x = b.x AND a.t >= b.t) AND a.y BETWEEN 1 AND 2"))]
    ['=', '>=', '']
    """
    tokens = unwrapped(tokens)
    parts = _split_and(tokens)
    if len(parts) > 1:
        return [conjunct for part in parts for conjunct in split_conjuncts(part)]
    return [_comparison(tokens)]


def unwrapped(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """The tokens without parentheses around all of them."""
    while (
        len(tokens) > 2
        and tokens[0].text == "("
        and tokens[1].word not in ("SELECT", "WITH")
        and _partner(tokens) == len(tokens) - 1
    ):
        tokens = tokens[1:-1]
    return tokens


def _partner(tokens: tuple[Token, ...]) -> int:
    depth = 0
    for index, token in enumerate(tokens):
        if token.kind == "op":
            depth += (token.text in _OPEN) - (token.text in _CLOSE)
        if depth == 0:
            return index
    return -1


def _split_and(tokens: tuple[Token, ...]) -> list[tuple[Token, ...]]:
    """Split at AND, leaving that of BETWEEN alone; a condition with OR is one piece."""
    top = top_level(tokens)
    if any(t.word == "OR" for _, t in top):
        return [tokens]
    parts: list[tuple[Token, ...]] = []
    start = 0
    for index in conjunctions(top):
        parts.append(tokens[start:index])
        start = index + 1
    return [*parts, tokens[start:]]


def _comparison(tokens: tuple[Token, ...]) -> Conjunct:
    top = top_level(tokens)
    operators = [(n, t) for n, t in top if t.kind == "op" and t.text in COMPARISONS | {"<>", "!="}]
    if len(operators) != 1 or any(t.word in _NOT_COMPARED or t.text == "!" for _, t in top):
        return Conjunct(tokens)
    at, operator = operators[0]
    if operator.text not in COMPARISONS or at == 0 or at == len(tokens) - 1:
        return Conjunct(tokens)
    symbol = "=" if operator.text == "==" else operator.text
    return Conjunct(tokens, symbol, tokens[:at], tokens[at + 1 :])


def normal(tokens: tuple[Token, ...]) -> tuple[str, ...]:
    """An expression as it can be compared with another: names and words whatever their case."""
    return tuple(t.name.lower() if t.is_name else t.text for t in tokens)


def match(tokens: tuple[Token, ...], at: int, key: tuple[str, ...], columns: Container[str]) -> int:
    """How many tokens spell the key from a position on; 0: they do not. `o.k` and `k` are the same column.

    Args:
        tokens: of an expression.
        at: the position.
        key: what `normal` makes of it.
        columns: lower-case names of the columns; what is before a dot is one of them, or a relation.
    """
    length = len(key)
    if not is_chain(key):
        return length if normal(tokens[at : at + length]) == key and stands_alone(tokens, at, at + length) else 0
    chain = 1
    while at + chain + 1 < len(tokens) and tokens[at + chain].text == "." and tokens[at + chain + 1].is_name:
        chain += 2
    own = normal(tokens[at : at + chain])
    follows = tokens[at + chain].text if at + chain < len(tokens) else ""
    if not tokens[at].is_name or follows == "(":
        return 0
    if own[:length] == key:
        return length  # what follows are fields of it
    path, name = (own, key) if len(own) > len(key) else (key, own)
    is_same = path[0] not in columns and path[len(path) - len(name) :] == name
    return chain if is_same else 0


def is_chain(key: tuple[str, ...]) -> bool:
    """Whether a key is a column: names with dots between them."""
    return all(part == "." if n % 2 else part.isidentifier() for n, part in enumerate(key)) and len(key) % 2 == 1
