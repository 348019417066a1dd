"""Compiles loops with numba on first use and caches them on disk, so that a machine compiles once.

Imported late and only where loops run: numba costs a second to import.
"""

from __future__ import annotations

import inspect
import os
import stat
import sys
import tempfile
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numba
from numba import njit
from numba.core.caching import FunctionCache
from numba.extending import register_jitable

from udtf import rules

_RULES = inspect.getsource(rules) + inspect.getsource(sys.modules[__name__])


def inlined(*functions: Callable[..., Any]) -> None:
    """Let compiled functions call these, and put their code in place of the calls.

    Args:
        functions: plain Python over numbers and arrays; they stay callable as they are.
    """
    for function in functions:
        register_jitable(forceinline=True)(function)


inlined(
    rules.distance,
    rules.is_behind,
    rules.is_ahead,
    rules.outcome_at_sight,
    rules.outcome_of_left,
    rules.outcome_of_right,
    rules.due_until,
    rules.horizon,
)


class _Cache(FunctionCache):
    """Numba's cache, keyed by the text of the rules too: they are compiled into functions of other files."""

    def __init__(self, function: Any, text: str) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._text = text

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled function, or None where there is none that this version can read: it is compiled anew then."""
        try:
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except Exception:  # noqa: BLE001  # whatever a file that is damaged, or of another version, makes pickle raise
            self.flush()  # type: ignore[no-untyped-call]
            return None

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
        modules: whose functions are compiled into it, beside its own and `udtf.rules`.
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
