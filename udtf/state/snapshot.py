"""Snapshots as sealed bytes: magic, format number, kind, length and checksum in front of the state.

The body is a pickle, since values may be any Python object and C speed matters; it is only read after the seal has
proved that these are the bytes we wrote. A snapshot comes from the query's own checkpoint: keep it as safe as that.
"""

from __future__ import annotations

import pickle
import struct
import zlib
from typing import Any, Final

from udtf.errors import StateError

_MAGIC: Final = b"SQLXST"
_FORMAT: Final = 1
_HEADER: Final = struct.Struct(">6sHHQL")  # magic, format, length of kind, length of body, checksum of kind and body


def seal(kind: str, state: Any) -> bytes:
    """Write `state` with its seal.

    Raises:
        StateError: `STATE.NOT_SERIALIZABLE`, a value cannot be written.
    """
    try:
        body = pickle.dumps(state, protocol=5)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise StateError.not_serializable(kind, error) from error
    name = kind.encode()
    return _HEADER.pack(_MAGIC, _FORMAT, len(name), len(body), zlib.crc32(name + body)) + name + body


def opened(data: bytes) -> Any:
    """Read what `seal` wrote, of whatever kind.

    Raises:
        StateError: as `unseal`.
    """
    name_length = _HEADER.unpack_from(data)[2] if len(data) >= _HEADER.size else 0
    return unseal(bytes(data[_HEADER.size : _HEADER.size + name_length]).decode(errors="replace"), data)


def unseal(kind: str, data: bytes) -> Any:
    """Read what `seal` wrote for the same kind.

    Raises:
        StateError: `STATE.CORRUPT_SNAPSHOT`, `STATE.SNAPSHOT_FORMAT`, `STATE.SNAPSHOT_KIND`.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)) or len(data) < _HEADER.size:
        raise StateError.corrupt_snapshot(kind, "it is too short or not bytes")
    data = bytes(data)
    magic, format_number, name_length, body_length, checksum = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise StateError.corrupt_snapshot(kind, "it does not begin as a snapshot does")
    if format_number != _FORMAT:
        raise StateError.snapshot_format(format_number, _FORMAT)
    if len(data) != _HEADER.size + name_length + body_length:
        raise StateError.corrupt_snapshot(kind, "its length is not the one written")
    if zlib.crc32(data[_HEADER.size :]) != checksum:
        raise StateError.corrupt_snapshot(kind, "the checksum differs")
    name = data[_HEADER.size : _HEADER.size + name_length].decode()
    if name != kind:
        raise StateError.snapshot_kind(name, kind)
    return pickle.loads(data[_HEADER.size + name_length :])  # sealed by us, see the module
