"""Who may come in: asked by Thrift at each login, and by Spark Connect at each call."""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, ClassVar, Protocol

from sqlx.failures import CommandError
from udtf.engine.java import Py4JError, Py4JJavaError

_log = logging.getLogger("sqlx")
_REMEMBERED_SECONDS = 300.0
_MOST = 1024


class Users(Protocol):
    """Who knows names and passwords."""

    def allows(self, name: str, password: str) -> bool:
        """Whether a user of that name and password may come in."""

    def state(self, name: str) -> str:
        """What is known of a user: when it changes, what was allowed before has to be asked again."""


class LdapUsers:
    """The users of an LDAP server, asked through Hive's own provider and its settings.

    Args:
        jvm: Spark's Java.
    """

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm

    def allows(self, name: str, password: str) -> bool:
        """Whether the LDAP server takes that name and password."""
        if not password:
            return False  # LDAP takes a bind without a password for one without a name
        try:
            self._jvm.sqlx.serving.Ldap.check(name, password)
        except Py4JJavaError:
            return False
        return True

    def state(self, name: str) -> str:
        """Nothing is known beforehand."""
        return name


class LoginCheck:
    """Asks for a name and a password; who was let in is remembered for some minutes, as a keyed hash.

    Args:
        users: who knows names and passwords.
        now: a clock in seconds.
    """

    def __init__(self, users: Users, now: Callable[[], float] = time.monotonic) -> None:
        self._users, self._now = users, now
        self._key = secrets.token_bytes(32)
        self._let_in: OrderedDict[bytes, float] = OrderedDict()
        self._lock = Lock()

    def test(self, name: Any, password: Any) -> bool:
        """Whether somebody may come in; called from Java. Who cannot be checked is not let in."""
        try:
            return self._is_known(str(name or ""), str(password or ""))
        except (CommandError, OSError, ValueError, Py4JError) as error:
            _log.warning("Nobody can log in: %s", str(error).splitlines()[0])
            return False

    def _is_known(self, name: str, password: str) -> bool:
        if not name or not password:
            return False
        text = "\0".join((name, password, self._users.state(name)))
        mark = hmac.digest(self._key, text.encode(), hashlib.sha256)
        with self._lock:
            if self._let_in.get(mark, 0.0) > self._now():
                return True
        if not self._users.allows(name, password):
            _log.warning("A login as %r was refused.", name)
            return False
        with self._lock:
            self._let_in[mark] = self._now() + _REMEMBERED_SECONDS
            if len(self._let_in) > _MOST:
                self._let_in.popitem(last=False)
        return True

    class Java:
        """What py4j is to implement."""

        implements: ClassVar[list[str]] = ["java.util.function.BiPredicate"]
