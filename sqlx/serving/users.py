"""The file of users: a name and a hashed password a line; the hash is scrypt, from the standard library."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import secrets
from pathlib import Path

from sqlx.failures import CommandError

_COST, _BLOCKS, _PARALLEL = 1 << 14, 8, 1
"""scrypt's n, r, p: 16 MB and some 50 ms a guess."""
_MEMORY = 64 << 20
_NAME = re.compile(r"[^\s:#;/][^\s:;/]*")
_LEAST = 8


def hashed(password: str) -> str:
    """A password as it is in the file; the salt is new each time."""
    salt = secrets.token_bytes(16)
    digest = _scrypt(password, salt, _COST, _BLOCKS, _PARALLEL)
    return f"scrypt${_COST}${_BLOCKS}${_PARALLEL}${_text(salt)}${_text(digest)}"


def matches(password: str, kept: str) -> bool:
    """Whether a password is the one that was hashed.

    Raises:
        ValueError: it is no hash of ours.

    >>> matches("correct horse", hashed("correct horse")), matches("wrong horse", hashed("correct horse"))
    (True, False)
    """
    kind, cost, blocks, parallel, salt, digest = kept.split("$")
    if kind != "scrypt":
        raise ValueError(kind)
    wanted = base64.b64decode(digest, validate=True)
    found = _scrypt(password, base64.b64decode(salt, validate=True), int(cost), int(blocks), int(parallel))
    return hmac.compare_digest(found, wanted)


def _scrypt(password: str, salt: bytes, cost: int, blocks: int, parallel: int) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=cost, r=blocks, p=parallel, maxmem=_MEMORY)


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()


class UsersFile:
    """The users of a file, as it is now: an edit counts from the next login on.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._nobody = hashed(secrets.token_hex(16))
        self._seen: tuple[int, int] | None = None
        self._users: dict[str, str] = {}

    @property
    def users(self) -> dict[str, str]:
        """Name to hash.

        Raises:
            CommandError: the file cannot be read, or a line is not a name, a colon and a hash.
        """
        try:
            state = self.path.stat()
            seen = state.st_mtime_ns, state.st_size
            if seen != self._seen:
                self._users, self._seen = _parsed(self.path), seen
        except OSError as error:
            msg = f"The users cannot be read: {self.path}: {error.strerror}."
            raise CommandError(msg) from error
        return self._users

    def allows(self, name: str, password: str) -> bool:
        """Whether the file has that user with that password; an unknown name takes as long as a wrong password."""
        kept = self.users.get(name)
        return matches(password, kept or self._nobody) and kept is not None

    def state(self, name: str) -> str:
        """What the file says of a user; "" where it does not know the name."""
        return self.users.get(name, "")


def _parsed(path: Path) -> dict[str, str]:
    users: dict[str, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, colon, kept = (part.strip() for part in line.partition(":"))
        try:
            if not colon or kept.count("$") != 5:
                raise ValueError(line)
            matches("", kept)
        except ValueError:
            msg = f"{path}, line {number}: this is not a name, a colon and a hashed password."
            raise CommandError(msg, f"`sqlx serve --users {path} --add-user NAME` writes such a line.") from None
        users[name] = kept
    return users


def add_user(path: Path, name: str, password: str) -> bool:
    """Write a user into the file, or a new password for one that is there; only its owner may read the file.

    Returns:
        Whether the user is new.

    Raises:
        CommandError: the name or the password cannot be taken.
    """
    if not _NAME.fullmatch(name):
        msg = f"`{name}` cannot be a user's name."
        raise CommandError(msg, "A name has no spaces, colons, semicolons and slashes, and does not begin with #.")
    if len(password) < _LEAST:
        msg = f"The password has {len(password)} characters."
        raise CommandError(msg, f"Take at least {_LEAST}.")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    kept = [line for line in lines if line.partition(":")[0].strip() != name]
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "w", encoding="utf-8") as out:
        out.write("\n".join([*kept, f"{name}:{hashed(password)}", ""]))
    draft.replace(path)
    return len(kept) == len(lines)
