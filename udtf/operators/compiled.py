"""The kernels, compiled by numba on first use and cached on disk, so that a machine compiles once.

Imported late and only where whole tables are joined: numba costs a second to import.
"""

from __future__ import annotations

import inspect
import os
import stat
import sys
import tempfile
from types import ModuleType
from typing import Any

import numba
from numba import njit
from numba.core.caching import FunctionCache
from numba.extending import register_jitable

from udtf.operators import as_of_kernel, as_of_table_loop, code_loops

_RULES = inspect.getsource(as_of_kernel) + inspect.getsource(sys.modules[__name__])

for _part in (
    as_of_kernel.first_not_before,
    as_of_kernel.first_after,
    as_of_kernel.last_known,
    as_of_kernel.first_known,
    as_of_kernel.distance,
    as_of_kernel.pick,
    as_of_kernel.verdict,
    as_of_kernel.reason_without_pick,
    as_of_kernel.is_behind,
    as_of_kernel.is_ahead,
    as_of_kernel.fate_at_sight,
    as_of_kernel.fate_of_left,
    as_of_kernel.fate_of_right,
    as_of_kernel.due_until,
    as_of_kernel.look_up,
):
    register_jitable(forceinline=True)(_part)


class _Cache(FunctionCache):
    """Numba's cache, keyed by the text of the rules too: they are compiled into functions of other files."""

    def __init__(self, function: Any, text: str) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._text = text

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return (*super()._index_key(sig, codegen), self._text)  # type: ignore[no-untyped-call]


def _cached(function: Any, text: str) -> Any:
    dispatcher: Any = njit(nogil=True)(function)
    dispatcher._cache = _Cache(function, text)  # noqa: SLF001  # what cache=True sets
    return dispatcher


def compiled(function: Any, *modules: ModuleType) -> Any:
    """Compile on first call with the cache beside the source or in the user's cache directory; else in our own.

    An installation that cannot be written to (and a user without a home) must not fail: numba says so with a
    RuntimeError when it finds no place. `NUMBA_CACHE_DIR` wins over all of this, as always with numba.

    Args:
        function: plain Python over numbers and arrays.
        modules: whose functions are compiled into it, beside its own and the rules.
    """
    text = _RULES + "".join(inspect.getsource(module) for module in modules)
    try:
        return _cached(function, text)
    except RuntimeError:
        pass
    try:
        numba.config.CACHE_DIR = _private_directory()  # type: ignore[attr-defined]
        return _cached(function, text)
    except (RuntimeError, OSError):
        return njit(nogil=True)(function)  # compiled once per process


def _private_directory() -> str:
    """A cache directory of this user alone: compiled code is trusted when it is loaded."""
    path = os.path.join(tempfile.gettempdir(), f"sqlx-numba-{os.getuid()}")
    os.makedirs(path, mode=0o700, exist_ok=True)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        message = f"{path} is not a private directory of this user"
        raise OSError(message)
    return path


join_rows = compiled(as_of_table_loop.join_rows)
count_codes = compiled(code_loops.count_codes)
place_by_code = compiled(code_loops.place_by_code)
sort_each_key = compiled(code_loops.sort_each_key)
dense_codes = compiled(code_loops.dense_codes)
