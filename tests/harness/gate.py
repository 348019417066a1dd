"""Which semantic cases the gate runs on Spark: of each operator and option at least one, chosen by what they reach.

A case reaches what its plan says: operators, which feeds which, every field of their configurations, the facts of the
definitions that they read, and the shape of the result. The cases chosen cover all of that; `make test-all` runs the
others too. The choice is kept in `tests/semantics/gate.json`, so that no run has to compile all cases to know it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from sqlx.plan.nodes import Aggregation, Operator, Plan, Source
from sqlx.replay.script import read_script
from tests.harness import chains

GATE = Path(__file__).parents[1] / "semantics" / "gate.json"


#: Over bounded rows these play no part, and Spark runs all windows but sliding ones.
_LIVE_ONLY = re.compile(
    r"grace|retention|max_future|emit|max_rows|max_bytes|when_full|nets_updates|late_to|idle|result"
    r"|^upsert|^stream|^versioned"
)


def reached_in_batch(plan: Plan) -> set[str]:
    """What a plan reaches where its rows are bounded."""
    slides = any(isinstance(node, Aggregation) and node.config.window.kind == "sliding" for node in plan.operators())
    plain = () if slides else ("Aggregation", "Suppress", "TableChanges")  # Spark's own windows answer those in batch
    return {word for word in reached(plan) if not _LIVE_ONLY.search(word) and not word.startswith(plain)}


def reached(plan: Plan) -> set[str]:
    """What a plan reaches live, as words."""
    found = {f"result {plan.result.shape}", f"filters {plan.result.filters}"}
    operators = plan.operators()
    for node in operators:
        name = type(node).__name__
        found |= {f"{name} {word}" for word in _words("config", node.config)}
        found |= {f"{name} late_to {node.late_to is not None}", f"{name} idle {node.idle_us is not None}"}
        found |= {f"{type(below).__name__} feeds {name}" for below in operators if _feeds(below, node)}
    for source in {node.entry for node in plan.root.walk() if isinstance(node, Source)}:
        facts = {"sequence": source.sequence_by, "scd2": source.valid_from, "delete": source.delete_when}
        facts |= {"retention": source.retention_us, "max_future": source.max_future_us, "late_to": source.late_to}
        found |= {f"{source.kind} {fact} {value is not None}" for fact, value in facts.items()}
        found |= {f"{source.kind} keys {min(len(source.keys), 2)}"}
    return found


def _feeds(below: Operator, node: Operator) -> bool:
    return below is not node and any(below in side.walk() for side in node.inputs)


def _words(name: str, value: Any) -> Iterator[str]:
    """A configuration as words: whether numbers are set, the words themselves, and each part of what has parts."""
    if is_dataclass(value):
        for part in fields(value):
            yield from _words(f"{name}.{part.name}", getattr(value, part.name))
    elif isinstance(value, (tuple, list)):
        yield f"{name} {bool(value)}"
        for part in value if name.endswith(("aggregates", "ties")) else ():
            yield from _words(f"{name}[]", part)
    elif isinstance(value, bool) or value is None or (isinstance(value, str) and "type" not in name):
        yield f"{name} {value}"
    elif isinstance(value, int):
        yield f"{name} {'set' if value else 'zero'}"


def reached_by_chains() -> set[str]:
    """What the programs of `tests/properties/test_chains.py` that the gate runs live reach."""
    return set().union(*(reached(read_script(chains.program(seed).text).plan) for seed in chains.GATE))


def chosen(
    scripts: Mapping[str, str], reach_of: Callable[[Plan], set[str]], others: Set[str] = frozenset()
) -> list[str]:
    """The fewest cases, greedily, that reach all that any of them does; of equals the first by name.

    Args:
        scripts: name of the case to its definitions and query.
        reach_of: from a plan to what it reaches.
        others: what other tests of the gate reach.
    """
    reach = {name: reach_of(read_script(script).plan) for name, script in sorted(scripts.items())}
    left = set().union(*reach.values()) - others
    found: list[str] = []
    while left:
        best = max(reach, key=lambda name: len(reach[name] & left))
        left -= reach[best]
        found.append(best)
    return sorted(found)


def in_gate(mode: str) -> frozenset[str]:
    """The names of the cases that the gate runs in a mode, 'batch' or 'live'."""
    return frozenset(json.loads(GATE.read_text(encoding="utf-8"))[mode])
