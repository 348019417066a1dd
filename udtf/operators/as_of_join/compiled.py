"""The loops of AS OF joins, compiled by numba on first use. Imported late: numba costs a second to import."""

from __future__ import annotations

from typing import Any

from udtf.numba_cache import compiled, inlined
from udtf.operators.as_of_join import loops, rules

inlined(
    rules.first_not_before,
    rules.first_after,
    rules.last_known,
    rules.first_known,
    rules.pick,
    rules.match_outcome,
    rules.reason_without_pick,
    rules.look_up,
    loops.last_before,
    loops.known_versions,
    loops.reason_of,
    loops.copy_version,
    loops.put_version,
    loops.put_versions,
    loops.expire_key,
)


def _compiled(function: Any) -> Any:
    return compiled(function, rules, loops)


join_rows = _compiled(loops.join_rows)
find_causes = _compiled(loops.find_causes)
join_stream = _compiled(loops.join_stream)
make_coming = _compiled(loops.make_coming)
make_room = _compiled(loops.make_room)
put_versions = _compiled(loops.put_versions)
pack = _compiled(loops.pack)
places_of_equal_time = _compiled(loops.places_of_equal_time)
