from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from sqlx.failures import CommandError
from sqlx.serving.options import ServeOptions, Tls, check, is_loopback
from tests.harness.ports import free_port

LOCAL = ServeOptions(host="127.0.0.1", thrift=None, connect=None, warehouse=Path("warehouse"))


@pytest.fixture
def local() -> ServeOptions:
    return replace(LOCAL, thrift=free_port())


@pytest.fixture
def users(tmp_path: Path) -> Path:
    path = tmp_path / "users"
    path.write_text("")
    return path


def test_loopback_needs_nothing_but_a_port(local: ServeOptions) -> None:
    check(local)
    with pytest.raises(CommandError, match=r"nothing to serve[^$]*--thrift 10000"):
        check(LOCAL)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7"])
def test_other_addresses_need_users(local: ServeOptions, host: str) -> None:
    with pytest.raises(CommandError, match="nothing says who may come in") as refused:
        check(replace(local, host=host))
    assert "--users FILE" in str(refused.value)
    assert "--ldap URL" in str(refused.value)


def test_plain_text_does_not_excuse_from_users(local: ServeOptions) -> None:
    with pytest.raises(CommandError, match="nothing says who may come in"):
        check(replace(local, host="0.0.0.0", plain_text=True))


def test_other_addresses_need_tls(local: ServeOptions, users: Path) -> None:
    with pytest.raises(CommandError, match="passwords would travel there unencrypted"):
        check(replace(local, host="0.0.0.0", users=users))
    check(replace(local, host="0.0.0.0", users=users, plain_text=True))
    check(replace(local, host="0.0.0.0", users=users, tls=Tls(keystore=users)))


def test_a_name_counts_as_loopback_only_when_all_its_addresses_do() -> None:
    assert is_loopback("localhost")
    assert not is_loopback("no.such.host.invalid")


def test_a_host_that_is_not_there_is_named(local: ServeOptions) -> None:
    with pytest.raises(CommandError, match=r"--host no.such.host.invalid: there is no such address"):
        check(replace(local, host="no.such.host.invalid"))


def test_an_address_of_another_machine_is_named(local: ServeOptions, users: Path) -> None:
    with pytest.raises(CommandError, match=r"192.0.2.7:\d+ cannot be had: cannot assign requested address"):
        check(replace(local, host="192.0.2.7", users=users, plain_text=True))


def test_a_port_in_use_is_named(local: ServeOptions) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(CommandError, match=rf"--connect {port}: 127.0.0.1:{port} cannot be had: address already"):
            check(replace(local, connect=port))


def test_two_servers_need_two_ports(local: ServeOptions) -> None:
    with pytest.raises(CommandError, match="are both"):
        check(replace(local, connect=local.thrift))


def test_users_come_from_one_place(local: ServeOptions, users: Path) -> None:
    with pytest.raises(CommandError, match="both say who may come in"):
        check(replace(local, users=users, ldap="ldap://x"))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"users": Path("nope")}, "--users nope: there is no such file"),
        ({"tls": Tls(cert=Path("c"))}, "belong together"),
        ({"tls": Tls(cert=Path("c"), key=Path("k"))}, "--tls-cert c: there is no such file"),
        ({"tls": Tls(keystore=Path("k"))}, "--tls-keystore k: there is no such file"),
    ],
)
def test_files_that_are_missing_are_named(local: ServeOptions, changed: dict[str, object], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        check(replace(local, **changed))  # type: ignore[arg-type]
