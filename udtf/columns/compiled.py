"""The loops over key codes, compiled by numba on first use. Imported late: numba costs a second to import."""

from __future__ import annotations

from udtf.columns import key_loops
from udtf.columns import key_loops as outcomes
from udtf.numba_cache import compiled

count_codes = compiled(key_loops.count_codes)
place_by_code = compiled(key_loops.place_by_code)
sort_each_key = compiled(key_loops.sort_each_key)
dense_codes = compiled(key_loops.dense_codes)
find_codes = compiled(key_loops.find_codes)
place_codes = compiled(key_loops.place_codes)
move_slots = compiled(key_loops.move_slots)
decide_left = compiled(outcomes.decide_left)
decide_right = compiled(outcomes.decide_right)
