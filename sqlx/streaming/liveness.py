"""Whether another driver lives, by a connection to its JVM: the kernel of its machine closes it when it dies.

Spark's driver listens for its executors, in local mode too. Nothing is said on the connection. It tells of a death
within milliseconds; of a machine that is lost, a process that sleeps, or a port that a firewall guards it tells
nothing, so there a silence has to be waited for.
"""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: How long a machine has to take a connection.
_CONNECT_SECONDS: Final = 0.5


@dataclass(frozen=True)
class Address:
    """Where a driver listens.

    Attributes:
        host, port: of its JVM; port 0 where that is not known.
    """

    host: str = ""
    port: int = 0


def address_of(spark: SparkSession) -> Address:
    """Where the driver of a session listens for its executors."""
    settings = spark.sparkContext.getConf()
    return Address(settings.get("spark.driver.host", ""), int(settings.get("spark.driver.port", "0")))


@dataclass
class Connection:
    """A connection to a driver, made when it is asked for first, and again where it breaks.

    Args:
        address: of the driver.
    """

    address: Address
    _socket: socket.socket | None = field(default=None, init=False)
    _was_reached: bool = field(default=False, init=False)
    _is_tried: bool = field(default=False, init=False)

    def ends_within(self, seconds: float) -> bool:
        """Wait so long, or until the driver is dead, whichever is first.

        Returns:
            Whether it is: what it had taken it has closed, and its port is refused. False says nothing.
        """
        if self._socket is None and self._may_answer and self._connect() and self._was_reached:
            return True
        if self._socket is None:  # others may stand between
            threading.Event().wait(seconds)
            return False
        if not self._breaks_within(seconds):
            return False
        self.close()
        return self._connect()

    def close(self) -> None:
        """The driver need not be watched any more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    @property
    def _may_answer(self) -> bool:
        """What was never reached is tried once: a name that nobody knows may take seconds each time."""
        return self._was_reached or not self._is_tried

    def _connect(self) -> bool:
        """Connect where that goes; whether the port is refused."""
        self._is_tried = True
        try:
            if self.address.port:
                self._socket = socket.create_connection((self.address.host, self.address.port), _CONNECT_SECONDS)
                self._was_reached = True
        except ConnectionRefusedError:
            return True
        except OSError:  # no such host, no way to it, no answer
            pass
        return False

    def _breaks_within(self, seconds: float) -> bool:
        assert self._socket is not None
        self._socket.settimeout(seconds)
        try:
            return not self._socket.recv(1)
        except TimeoutError:
            return False
        except OSError:
            return True
