"""Compiles loops with numba on first use and caches them on disk, so that a machine compiles once.

Imported late and only where loops run: numba costs a second to import.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numba
from numba import njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.extending import register_jitable

from udtf import rules
from udtf.local_folder import private_folder

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


class _ShippedLocator(_CacheLocator):
    """Where the cache of a function is whose source came in an archive, with a job or a session.

    Each session has the archive elsewhere: the place is by what is in it, so that a machine compiles once all the same.
    """

    def __init__(self, function: Any, file: str) -> None:
        self._line = function.__code__.co_firstlineno
        self._source = inspect.getsource(sys.modules[function.__module__])
        self._place = file.partition(".zip")[2].strip(os.sep).replace(os.sep, ".")

    def get_cache_path(self) -> str:
        return os.path.join(numba.config.CACHE_DIR or _own_folder(), self._place)  # type: ignore[attr-defined]

    def get_source_stamp(self) -> str:
        return hashlib.sha256(self._source.encode()).hexdigest()

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, function: Any, file: str) -> _ShippedLocator | None:
        """None for a function in a file of its own."""
        if ".zip" not in file or os.path.exists(file):
            return None
        found = cls(function, file)
        found.ensure_cache_path()  # type: ignore[no-untyped-call]
        return found


class _Place(CompileResultCacheImpl):
    """Numba's own ways to a place, and ours before them."""

    _locator_classes = [_ShippedLocator, *CompileResultCacheImpl._locator_classes]  # noqa: RUF012, SLF001  # numba's way


class _Cache(FunctionCache):
    """Numba's cache, keyed by the text of the rules too: they are compiled into functions of other files."""

    _impl_class = _Place

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
        numba.config.CACHE_DIR = _own_folder()  # type: ignore[attr-defined]
        return _cached(function, text)
    except (RuntimeError, OSError):
        return njit(nogil=True)(function)  # compiled once per process


def _own_folder() -> str:
    """A cache directory of this user alone: compiled code is trusted when it is loaded."""
    return private_folder(f"sqlx-numba-{os.getuid()}")
