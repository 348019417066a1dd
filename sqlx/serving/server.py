"""One process that serves JDBC/ODBC and Spark Connect: how it starts, what it does meanwhile, how it ends."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sqlx.failures import CommandError
from sqlx.serving.clients import Audit, Owners
from sqlx.serving.connect import ConnectServer, TimeLimit, connect_conf, too_many_rows
from sqlx.serving.guard import guard, mark_own_code
from sqlx.serving.health import HealthServer
from sqlx.serving.java_side import compile_into
from sqlx.serving.kept import KeptQueries, Restarted
from sqlx.serving.login import LdapUsers, LoginCheck
from sqlx.serving.metrics import MetricsServer
from sqlx.serving.options import ServeOptions
from sqlx.serving.thrift import ThriftServer, login_properties, new_secret, thrift_conf
from sqlx.serving.tls import make_keystore
from sqlx.serving.users import UsersFile
from sqlx.sessions.classic import front_of
from sqlx.streaming.registry import registry
from udtf.engine.java import Py4JError, Py4JJavaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Sessions of clients: what is kept for them in Python goes when they have gone.


#: The ids of the Spark sessions that clients have open.

Open = Callable[[], "Iterable[str]"]


class ClientSessions:
    """Lets go of what belongs to sessions that have ended: neither Thrift nor Spark Connect says so to a parser.

    Args:
        spark: the session that clients' sessions are made from.
        servers: what lists the open sessions, for each server.
    """

    def __init__(self, spark: SparkSession, servers: Iterable[Open]) -> None:
        self._front, self._servers = front_of(spark), tuple(servers)
        self._own = self._front.known()

    @property
    def count(self) -> int:
        """How many clients' sessions are open."""
        return len(self._open())

    def sweep(self) -> int:
        """Forget the sessions that have ended; how many there were."""
        before = self._front.known()  # a session that is made from here on is none of those
        ended = before - self._own - self._open()
        for session in ended:
            self._front.forget(session)
        return len(ended)

    def _open(self) -> set[str]:
        return {session for listed in self._servers for session in listed()}


_log = logging.getLogger("sqlx")
_SWEEP_SECONDS = 10.0
_KEPT_FOLDER = "_queries"


class Setting:
    """What has to be known before Spark starts.

    Args:
        options: what was asked for.
        scratch: a private folder that lives as long as the server.
    """

    def __init__(self, options: ServeOptions, scratch: Path) -> None:
        self.options = options
        self.classes, self.keystore, self.secret = scratch / "classes", scratch / "keys.p12", new_secret()
        self.classes.mkdir()

    def conf(self) -> dict[str, str]:
        """Spark's configuration."""
        # Spark's own ports, for its workers, are for this machine alone.
        conf = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
        conf["spark.driver.extraClassPath"] = str(self.classes)
        if self.options.thrift is not None:
            conf |= thrift_conf(self.options, self.keystore, self.secret)
        if self.options.connect is not None:
            conf |= connect_conf(self.options)
        return conf


class Server:
    """A server that runs; leaving the block ends it.

    Args:
        spark: a session with a warehouse, made with the settings of ``setting``.
        setting: what was asked for.

    Attributes:
        restarted: the streaming queries that were to come back.
        sessions: those of clients.

    Raises:
        CommandError: a server does not start.
    """

    def __init__(self, spark: SparkSession, setting: Setting) -> None:
        self._spark, self._options = spark, setting.options
        self.thrift: ThriftServer | None = None
        self.connect: ConnectServer | None = None
        self._ending = ExitStack()
        self.restarted: list[Restarted] = []
        try:
            self._start(setting)
        except BaseException:
            self._ending.close()
            raise

    def _start(self, setting: Setting) -> None:
        options, spark = self._options, self._spark
        jvm: Any = spark.sparkContext._jvm
        compile_into(jvm, setting.classes)
        self._secret = mark_own_code(spark)
        for name, value in login_properties(options).items():
            jvm.java.lang.System.setProperty(name, value)
        login = self._login(jvm)
        if options.tls is not None:
            make_keystore(spark, options.tls, setting.keystore, setting.secret)
        kept = KeptQueries(options.warehouse / _KEPT_FOLDER, spark)
        registry(spark.sparkContext).keeper = kept
        self._ending.callback(self._stop_queries)
        self.restarted = kept.restart()
        self._open(setting, login)

    def _open(self, setting: Setting, login: LoginCheck | None) -> None:
        """Begin to take clients."""
        options, spark = self._options, self._spark
        context: Any = spark.sparkContext
        audit = Audit(options.audit, context._jvm.sqlx.serving.ConnectLogin.userOf)
        self._ending.callback(audit.close)
        context._jvm.sqlx.serving.Heard.listen(context._jsc.sc(), audit)
        if not options.trust_users:
            guard(spark, options, self._secret)
        if options.most_rows:
            java: Any = spark._jsparkSession
            refusal = str(too_many_rows(options.most_rows))
            jvm: Any = spark.sparkContext._jvm
            jvm.sqlx.serving.RowLimit.inject(java.extensions(), options.most_rows, refusal)
        if options.thrift is not None:
            with _naming("--thrift", options.thrift):
                self.thrift = ThriftServer(spark, login)
            self._ending.callback(self.thrift.stop)
        if options.connect is not None:
            with _naming("--connect", options.connect):
                self.connect = ConnectServer(spark, options, login, setting.keystore, setting.secret)
            self._ending.callback(self.connect.stop)
        servers = [server for server in (self.thrift, self.connect) if server is not None]
        if options.has_users and not options.trust_users:
            registry(spark.sparkContext).owners = Owners([server.user_of for server in servers], options.admins)
        self.sessions = ClientSessions(spark, [server.sessions for server in servers])
        self._limit = None
        if self.connect is not None and options.timeout_seconds:
            self._limit = TimeLimit(self.connect.executions, options.timeout_seconds)
        self._swept = time.monotonic()
        if options.health is not None:
            health = HealthServer(options.host, options.health, self.down)
            self._ending.callback(health.stop)
        if options.metrics is not None:
            metrics = MetricsServer(options.metrics, registry(spark.sparkContext))
            self._ending.callback(metrics.stop)

    def _login(self, jvm: Any) -> LoginCheck | None:
        if self._options.users is not None:
            users = UsersFile(self._options.users)
            if not users.users:
                msg = f"--users {users.path} holds no user: nobody could come in."
                raise CommandError(msg, f"`sqlx serve --users {users.path} --add-user NAME` adds one.")
            return LoginCheck(users)
        return LoginCheck(LdapUsers(jvm)) if self._options.ldap else None

    def look(self) -> None:
        """What has to be done now and then: end what takes too long, let go of sessions that have ended.

        Raises:
            CommandError: Spark has ended by itself.
        """
        try:
            if self._limit is not None:
                self._limit.enforce()
            if time.monotonic() - self._swept > _SWEEP_SECONDS:
                self._swept = time.monotonic()
                self.sessions.sweep()
        except (Py4JError, OSError) as error:
            if self.down().startswith("Spark"):
                msg = "Spark has stopped: its process does not answer any more."
                raise CommandError(msg, "SQLX_DEBUG=1 shows its log; --memory gives it more memory.") from None
            _log.warning("Sessions could not be looked at: %s", error)

    def down(self) -> str:
        """What does not work, in words; "" where all is well."""
        try:
            if self._spark.sparkContext._jsc.sc().isStopped():
                return "Spark has stopped"
            for name, server, port in self._served():
                if not server.is_up or not answers(self._options.host, port):
                    return f"{name} takes no connections"
        except (Py4JError, OSError) as error:
            return f"Spark does not answer: {type(error).__name__}"
        return ""

    def _served(self) -> list[tuple[str, ThriftServer | ConnectServer, int]]:
        found = (("Thrift", self.thrift, self._options.thrift), ("Spark Connect", self.connect, self._options.connect))
        return [(name, server, port) for name, server, port in found if server is not None and port is not None]

    def _stop_queries(self) -> None:
        """Let the running micro-batches end; the queries stay kept."""
        for query in registry(self._spark.sparkContext).all():
            if query.query.isActive:
                query.stop()

    def __enter__(self) -> Server:
        """The server."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take no more clients, end their sessions, let micro-batches end."""
        self._ending.close()


@contextmanager
def _naming(option: str, port: int) -> Iterator[None]:
    """Java's refusal to listen, in words."""
    try:
        yield
    except Py4JJavaError as error:
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        msg = f"{option} {port} does not start: {cause.getMessage() or cause}."
        raise CommandError(msg, "SQLX_DEBUG=1 shows Spark's log.") from None


def answers(host: str, port: int) -> bool:
    """Whether something takes connections at a port; an address that means all of them is asked at loopback."""
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    try:
        with socket.create_connection((reached, port), timeout=5):
            return True
    except OSError:
        return False


def conf_with(setting: Setting, further: Mapping[str, str], memory: str) -> dict[str, str]:
    """Spark's configuration for a server; what the user says wins.

    Args:
        setting: what was asked for.
        further: of ``--conf``.
        memory: of ``--memory``.
    """
    return {"spark.driver.memory": memory, **setting.conf(), **further}
