"""A lease on a folder, such as a checkpoint: of several drivers one writes, and the others stand by until it is silent.

Each holder has a number, greater than all before it, as a file of that name; beside it a file that it writes again and
again. Who stands by looks whether that file changes, by its own clock alone, and whether a connection to its driver
breaks. That no row is written twice does not hang on this: Spark's own logs refuse a micro-batch that somebody else has
committed. The lease decides who tries.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

from catalog.statements import absolute
from sqlx.errors import RunError
from sqlx.streaming.liveness import Address, Connection, address_of
from udtf.engine.folders import LEASE, HadoopFolder, last_number
from udtf.engine.java import Py4JJavaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: How often its holder writes, and after how long a silence it counts as gone.
BEAT_SECONDS: Final = 0.5
SILENCE_SECONDS: Final = 2.0
_BEAT, _END = "beat", "end"


@dataclass(frozen=True)
class Holder:
    """Who has a lease.

    Attributes:
        number: greater than that of everybody before.
        host, pid: the process.
        key: tells it from any other process.
        driver: where its JVM listens.
    """

    number: int
    host: str
    pid: int
    key: str
    driver: Address = field(default_factory=Address)

    @property
    def shown(self) -> str:
        """For people."""
        return f"process {self.pid} on {self.host}"


@dataclass
class Lease:
    """The lease on one folder, as one process sees it.

    Args:
        spark: the session.
        place: the folder: a checkpoint, or a warehouse.
    """

    spark: SparkSession
    place: str
    own: Holder | None = field(default=None, init=False)
    _stopped: threading.Event = field(default_factory=threading.Event, init=False, repr=False)
    _key: str = field(default_factory=lambda: uuid.uuid4().hex, init=False, repr=False)

    def __post_init__(self) -> None:
        self._folder = HadoopFolder(self.spark, f"{absolute(self.place)}/{LEASE}")

    def wait(self, tell: Callable[[Holder], None], given_up: threading.Event | None = None) -> Holder | None:
        """Wait until nobody else has the lease, and take it.

        Args:
            tell: hears of each process for which this one stands by.
            given_up: nobody wants it any more.

        Returns:
            What this process holds from now on; None where it was given up.
        """
        given_up = given_up or threading.Event()
        while self.own is None:
            holder = self._holder()
            if holder is None or self._is_gone(holder, tell, given_up):
                self._take(0 if holder is None else holder.number)
            if given_up.is_set():
                return None
        threading.Thread(target=self._hold, args=(self.own,), name="sqlx lease", daemon=True).start()
        return self.own

    def release(self) -> None:
        """Give it back, so that nobody has to wait for a silence."""
        self._stopped.set()
        if self.own is not None and not self._is_taken(self.own):
            self._folder.touch(f"{self.own.number}.{_END}")

    def check(self) -> None:
        """Refuse to go on where another process has taken it.

        Raises:
            RunError: `LEASE.LOST`.
        """
        if self.own is not None and self._is_taken(self.own):
            raise RunError("LEASE.LOST", path=self.place, holder=getattr(self._holder(), "shown", "another process"))

    # reading

    def _holder(self) -> Holder | None:
        """Who has the lease, dead or alive; None where nobody had it yet."""
        number = last_number(self._folder.names())
        if number < 0:
            return None
        try:
            facts = json.loads(self._folder.read(str(number)) or "{}")
        except (ValueError, Py4JJavaError):  # it is being written
            facts = {}
        driver = Address(**facts.get("driver", {}))
        return Holder(number, facts.get("host", "?"), facts.get("pid", 0), facts.get("key", ""), driver)

    def _is_gone(self, holder: Holder, tell: Callable[[Holder], None], given_up: threading.Event) -> bool:
        """Watch a holder until it is gone, or another one has come."""
        seen, since, told = -1, time.monotonic(), False
        with closing(Connection(holder.driver)) as connection:
            while True:
                names = self._folder.names()
                if f"{holder.number}.{_END}" in names:
                    return True
                if given_up.is_set() or last_number(names) > holder.number:
                    return False
                if not told:
                    tell(holder)
                    told = True
                beat = self._folder.modified_ms(f"{holder.number}.{_BEAT}")
                if beat != seen:
                    seen, since = beat, time.monotonic()
                # After a look: this process may have slept, or have waited for a name or a disk.
                elif time.monotonic() - since >= SILENCE_SECONDS:
                    return True
                if connection.ends_within(BEAT_SECONDS / 2):
                    return True

    def _is_taken(self, holder: Holder) -> bool:
        return last_number(self._folder.names()) > holder.number

    # writing

    def _take(self, before: int) -> None:
        """Write the next number, and look whose it is: two may have written it at once, and the later one has it."""
        wanted = Holder(before + 1, socket.gethostname(), os.getpid(), self._key, address_of(self.spark))
        if not self._folder.create(str(wanted.number), json.dumps(asdict(wanted))):
            return
        self._beat(wanted)
        threading.Event().wait(BEAT_SECONDS / 2)
        if self._holder() == wanted:
            self.own = wanted

    def _beat(self, own: Holder) -> None:
        self._folder.touch(f"{own.number}.{_BEAT}")

    def _hold(self, own: Holder) -> None:
        while not self._stopped.wait(BEAT_SECONDS):
            if self._is_taken(own):
                return
            self._beat(own)
