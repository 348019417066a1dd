"""The compiled loop of Spark's hash over strings."""

from __future__ import annotations

from udtf.columns import hash_loops
from udtf.numba_cache import compiled, inlined

inlined(hash_loops.rotate, hash_loops.word, hash_loops.one_round, hash_loops.merged, hash_loops.mixed)
hash_texts = compiled(hash_loops.hash_texts, hash_loops)
