"""The loops of live streams, compiled as `compiled` says."""

from __future__ import annotations

from numba.extending import register_jitable

from udtf.operators import as_of_stream_loops, as_of_stream_pool, stream_loops
from udtf.operators.compiled import compiled

for _part in (
    as_of_stream_loops.last_before,
    as_of_stream_loops.known_versions,
    as_of_stream_loops.judge,
    as_of_stream_pool.copy_version,
    as_of_stream_pool.put_version,
    as_of_stream_pool.put_versions,
    as_of_stream_pool.expire_key,
):
    register_jitable(forceinline=True)(_part)

find_codes = compiled(stream_loops.find_codes)
place_codes = compiled(stream_loops.place_codes)
move_slots = compiled(stream_loops.move_slots)
decide_left = compiled(as_of_stream_loops.decide_left)
decide_right = compiled(as_of_stream_loops.decide_right)
find_causes = compiled(as_of_stream_loops.find_causes)
join_stream = compiled(as_of_stream_loops.join_stream, as_of_stream_pool)
make_coming = compiled(as_of_stream_pool.make_coming)
make_room = compiled(as_of_stream_pool.make_room)
put_versions = compiled(as_of_stream_pool.put_versions)
pack = compiled(as_of_stream_pool.pack)
places_of_equal_time = compiled(as_of_stream_pool.places_of_equal_time)
