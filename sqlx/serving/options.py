"""What a server is asked for, and what is wrong with that before anything starts."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path

from sqlx.failures import CommandError


@dataclass(frozen=True)
class Tls:
    """Where the certificate of the server is.

    Attributes:
        cert, key: PEM files: the chain, the server's certificate first, and its private key (PKCS#8, no passphrase).
        keystore: a Java keystore (PKCS12 or JKS) in their place.
        password: the keystore's.
    """

    cert: Path | None = None
    key: Path | None = None
    keystore: Path | None = None
    password: str = ""


@dataclass(frozen=True)
class ServeOptions:
    """What a server is asked for.

    Attributes:
        host: the address to listen at.
        thrift, connect, health, metrics: ports; None where one is not wanted.
        warehouse: the folder of the catalog.
        users: the file of users and hashed passwords.
        ldap: the URL of an LDAP server that knows the users.
        ldap_base: below which DN they are (``uid=NAME,BASE``).
        ldap_domain: the domain of an Active Directory (``NAME@DOMAIN``).
        tls: the certificate; None is plain text.
        plain_text: whether passwords may travel unencrypted to other addresses than loopback.
        timeout_seconds: the longest that a statement may take; 0 is for ever.
        most_rows: the most rows that a statement may return; 0 is any number.
        folders: whose files clients may read and write besides the warehouse's.
        trust_users: clients may do whatever the process may: programs, code, files anywhere.
        admins: users who may stop the streaming queries of others.
        audit: the file of who did what; None is standard error.
        standby: wait until no other process with this warehouse serves.
    """

    host: str
    thrift: int | None
    connect: int | None
    warehouse: Path
    health: int | None = None
    metrics: int | None = None
    users: Path | None = None
    ldap: str = ""
    ldap_base: str = ""
    ldap_domain: str = ""
    tls: Tls | None = None
    plain_text: bool = False
    timeout_seconds: int = 0
    most_rows: int = 0
    folders: tuple[str, ...] = ()
    trust_users: bool = False
    admins: tuple[str, ...] = ()
    audit: Path | None = None
    standby: bool = False

    @property
    def has_users(self) -> bool:
        """Whether a name and a password are asked for."""
        return self.users is not None or bool(self.ldap)

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)

    @property
    def ports(self) -> dict[str, int]:
        """The ports that are wanted, by option."""
        wanted = {name: getattr(self, name) for name in ("thrift", "connect", "health", "metrics")}
        return {f"--{name}": port for name, port in wanted.items() if port is not None}


def is_loopback(host: str) -> bool:
    """Whether every address of a host is one that only this machine reaches.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0"), is_loopback("")
    (True, True, False, False)
    """
    addresses = _addresses(host)
    return bool(addresses) and all(ipaddress.ip_address(address).is_loopback for address in addresses)


def _addresses(host: str) -> list[str]:
    """The addresses of a host, without the zone that IPv6 may put after; none where nobody knows it."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM) if host else []
    except OSError:
        return []
    return [str(address[0]).split("%")[0] for *_, address in found]


def check(options: ServeOptions) -> None:
    """Refuse what must not start, or cannot.

    Raises:
        CommandError: what is wrong, and what to do.
    """
    if options.thrift is None and options.connect is None:
        msg = "There is nothing to serve."
        raise CommandError(msg, "Name a port: --thrift 10000, --connect 15002, or both.")
    if not _addresses(options.host):
        msg = f"--host {options.host}: there is no such address."
        raise CommandError(msg, "127.0.0.1 is this machine alone, 0.0.0.0 all of its addresses.")
    _check_login(options)
    _check_files(options)
    _check_ports(options)
    if not options.standby:  # else the active one may listen there
        check_free(options)


def _check_login(options: ServeOptions) -> None:
    if options.users is not None and options.ldap:
        msg = "--users and --ldap both say who may come in."
        raise CommandError(msg, "Give one of them.")
    if options.is_local:
        return
    if not options.has_users:
        msg = f"{options.host} can be reached from other machines, and nothing says who may come in."
        raise CommandError(
            msg,
            "Give --users FILE (`--users FILE --add-user NAME` makes it) or --ldap URL, or keep to loopback.",
        )
    if options.tls is None and not options.plain_text:
        msg = f"{options.host} can be reached from other machines, and passwords would travel there unencrypted."
        raise CommandError(
            msg, "Give --tls-cert and --tls-key, or --tls-keystore; --plain-text if something before it does TLS."
        )


def _check_files(options: ServeOptions) -> None:
    tls = options.tls or Tls()
    if (tls.cert is None) != (tls.key is None):
        msg = "--tls-cert and --tls-key belong together."
        raise CommandError(msg, "Name both PEM files, or a --tls-keystore.")
    wanted = {"--users": options.users, "--tls-cert": tls.cert, "--tls-key": tls.key, "--tls-keystore": tls.keystore}
    for option, file in wanted.items():
        if file is not None and not file.is_file():
            msg = f"{option} {file}: there is no such file."
            hint = f"`sqlx serve --users {file} --add-user NAME` makes one." if option == "--users" else ""
            raise CommandError(msg, hint)


def _check_ports(options: ServeOptions) -> None:
    ports = options.ports
    for option, port in ports.items():
        same = [other for other, taken in ports.items() if taken == port and other != option]
        if same:
            msg = f"{option} and {same[0]} are both {port}."
            raise CommandError(msg, "Give each a port of its own.")


def check_free(options: ServeOptions) -> None:
    """Refuse ports that cannot be listened at.

    Raises:
        CommandError: one cannot be had.
    """
    for option, port in options.ports.items():
        error = refusal(options.host, port)
        if error is not None:
            reason = str(error.strerror or error).lower()
            msg = f"{option} {port}: {options.host}:{port} cannot be had: {reason}."
            raise CommandError(msg, f"End what listens there, or give another port to {option}.")


def refusal(host: str, port: int) -> OSError | None:
    """Why a port cannot be listened at; None where it can."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        return error
    return None
