"""Compiles loops with numba on first use and caches them on disk, so that a machine compiles once.

What is compiled may also come along with the source: in the archive that workers get, or in an image whose folders
they cannot write to. It is copied to where this user's cache is, and a fresh container compiles nothing.

Imported late and only where loops run: numba costs a second to import.
"""

# ruff: noqa: SLF001  # numba has no public way to say where a cache is, and what is in it
from __future__ import annotations

import hashlib
import inspect
import io
import os
import pickle
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

    Each session has the archive elsewhere: the place is by what is in it, so that a machine compiles once all the same,
    and jobs of two versions do not write over each other's.
    """

    def __init__(self, function: Any, file: str) -> None:
        self._line = function.__code__.co_firstlineno
        self._stamp: str = function.stamp
        self._place = os.path.join(file.partition(".zip")[2].strip(os.sep).replace(os.sep, "."), self._stamp[:16])

    def get_cache_path(self) -> str:
        return os.path.join(numba.config.CACHE_DIR or _own_folder(), self._place)  # type: ignore[attr-defined]

    def get_source_stamp(self) -> str:
        return self._stamp

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

    _locator_classes = [_ShippedLocator, *CompileResultCacheImpl._locator_classes]  # noqa: RUF012  # numba's way


class _Cache(FunctionCache):
    """Numba's cache, by the stamp of a function: it knows the rules that are compiled into it, too."""

    _impl_class = _Place

    def __init__(self, function: Any) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._files: Any = self._cache_file
        self._files._source_stamp = function.stamp

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled function, from here or from what came along; None where neither has it: it is compiled then."""
        found = self._loaded(sig, target_context)
        if found is None and not self._files._load_index() and _bring(self._py_func, self._files):
            found = self._loaded(sig, target_context)
        return found

    def _loaded(self, sig: Any, target_context: Any) -> Any:
        """What is here, or None where there is none that this version can read.

        Two processes that compile at once for arguments of different types may give both files the same name.
        """
        try:
            found: Any = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except Exception:  # noqa: BLE001  # whatever a file that is damaged, or of another version, makes pickle raise
            found = None
        else:
            if found is None or tuple(found.signature.args) == tuple(sig):
                return found
        self.flush()  # type: ignore[no-untyped-call]
        return None


def _bring(function: Any, files: Any) -> bool:
    """Copy what came along compiled with the source of a function; whether it was of this source and this numba."""
    folder = os.path.join(os.path.dirname(inspect.getfile(function)), "__pycache__")
    loader: Any = sys.modules[function.__module__].__loader__
    try:
        index: bytes = loader.get_data(os.path.join(folder, files._index_name))
        reading = io.BytesIO(index)
        if pickle.load(reading) != files._version:
            return False
        stamp, overloads = pickle.load(reading)
        if stamp != files._source_stamp:
            return False
        for name in {*overloads.values()}:
            _save(files, name, loader.get_data(os.path.join(folder, name)))
        _save(files, files._index_name, index)
    except Exception:  # noqa: BLE001  # nothing came along, or it is damaged: the function is compiled
        return False
    return True


def _save(files: Any, name: str, content: bytes) -> None:
    with files._open_for_write(files._data_path(name)) as out:
        out.write(content)


def _cached(function: Any) -> Any:
    dispatcher: Any = njit(nogil=True)(function)
    dispatcher._cache = _Cache(function)  # what cache=True sets
    return dispatcher


def compiled(function: Any, *modules: ModuleType) -> Any:
    """Compile on first call with the cache beside the source or in the user's cache directory; else in our own.

    An installation that cannot be written to (and a user without a home) must not fail: numba says so with a
    RuntimeError when it finds no place. Where our own is not ours alone, or cannot be made, each process compiles.
    `NUMBA_CACHE_DIR` wins over all of this, as always with numba.

    Args:
        function: plain Python over numbers and arrays.
        modules: whose functions are compiled into it, beside its own and `udtf.rules`.
    """
    sources = [sys.modules[function.__module__], *modules]
    text = _RULES + "".join(inspect.getsource(module) for module in sources)
    function.stamp = hashlib.sha256(text.encode()).hexdigest()
    try:
        return _cached(function)
    except (RuntimeError, OSError):
        pass
    try:
        numba.config.CACHE_DIR = _own_folder()  # type: ignore[attr-defined]
        return _cached(function)
    except (RuntimeError, OSError):
        return njit(nogil=True)(function)  # compiled once per process


def _own_folder() -> str:
    """A cache directory of this user alone: compiled code is trusted when it is loaded."""
    return private_folder(f"sqlx-numba-{os.getuid()}")
