"""Nobody gets in without credentials at another address than loopback, and no password travels unencrypted."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from sqlx.serving.health import ask
from sqlx.serving.users import add_user
from tests.spark.ldap_server import ldap_server
from tests.spark.server import ServerProcess, java, java_tool, refusal, rows

CERTIFICATE, KEY = (Path(__file__).parent / "tls" / name for name in ("cert.pem", "key.pem"))
PASSWORD = "a long: secret"
WITHOUT_SPACE = "another-one"  # beeline cuts what it is given at spaces, a password in a file as well
LONG = "SELECT count(*) FROM range(1000000000000) WHERE id % 3 = hash(id)"
CLIENT = f"""
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
print(spark.sql("SELECT 6 * 7 AS n").collect())
try:
    spark.sql("{LONG}").collect()
except Exception as error:
    print("CANCEL" in str(error).upper())
spark.stop()
"""

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of impyla and Thrift
    # impyla leaves the socket of a login that was refused to the collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """What a client leaves behind is collected here, and not in some later test."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    home = tmp_path_factory.mktemp("doors")
    add_user(home / "users", "anna", PASSWORD)
    add_user(home / "users", "berta", WITHOUT_SPACE)
    tls = ["--tls-cert", str(CERTIFICATE), "--tls-key", str(KEY)]
    found = ServerProcess(home, "--host", "0.0.0.0", "--users", str(home / "users"), *tls, "--statement-timeout", "8s")
    yield found
    found.stop()


def jdbc(server: ServerProcess, user: str, password: str, use_ssl: bool = True) -> Any:
    from impala import dbapi

    return dbapi.connect(
        "localhost", server.thrift, auth_mechanism="PLAIN", user=user, password=password,
        use_ssl=use_ssl, ca_cert=str(CERTIFICATE), timeout=60,
    )  # fmt: skip


def call(server: ServerProcess, token: str, tls: bool = True) -> str:
    """How a call to Spark Connect ends: the name of its status."""
    import grpc

    target = f"localhost:{server.connect}"
    if tls:
        channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(CERTIFICATE.read_bytes()))
    else:
        channel = grpc.insecure_channel(target)
    with channel:
        method = channel.unary_unary("/spark.connect.SparkConnectService/Config")
        try:
            method(b"", timeout=20, metadata=[("authorization", f"Bearer {token}")] if token else [])
        except grpc.RpcError as error:
            return str(error.code().name)
    return "OK"


def test_server_says_that_it_asks_for_users(server: ServerProcess) -> None:
    assert f"who may in the users of {server.home / 'users'}" in server.said
    assert f"JDBC, ODBC jdbc:hive2://0.0.0.0:{server.thrift}/default (TLS)" in server.said


@pytest.mark.full
def test_a_user_comes_in_by_jdbc_and_statements_end_in_time(server: ServerProcess) -> None:
    with closing(jdbc(server, "anna", PASSWORD)) as client:
        assert rows(client, "SELECT 6 * 7") == [(42,)]
        refusal(rows, client, LONG)  # impyla does not know this state and says its number only
        assert rows(client, "SELECT 6 * 7") == [(42,)]


@pytest.mark.parametrize(("user", "password"), [("anna", "a long: Secret"), ("otto", PASSWORD), ("anna", "x")])
def test_a_wrong_login_is_refused_by_jdbc(server: ServerProcess, user: str, password: str) -> None:
    assert "Error validating the login" in refusal(jdbc, server, user, password)


@pytest.mark.full
def test_beeline_comes_in_over_tls(server: ServerProcess, tmp_path: Path) -> None:
    trusted = tmp_path / "trusted.p12"
    store = ["-keystore", str(trusted), "-storetype", "PKCS12", "-storepass", "changeit"]
    keytool = [java_tool("keytool"), "-importcert", "-noprompt"]
    subprocess.run([*keytool, "-file", str(CERTIFICATE), *store], check=True, timeout=60)
    url = f"jdbc:hive2://localhost:{server.thrift}/default;ssl=true;sslTrustStore={trusted};trustStorePassword=changeit"
    beeline = java("org.apache.hive.beeline.BeeLine", "-u", url, "-n", "berta", "-e", "SELECT 6 * 7 AS n")
    for password, is_right in ((WITHOUT_SPACE, True), ("Another-one", False)):
        command = [*beeline, "-p", password, "--outputformat=tsv2"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert ("42" in done.stdout.split()) == is_right, (done.stdout, done.stderr)
        assert ("Error validating the login" in done.stderr) != is_right, done.stderr


def test_plain_text_is_refused_by_jdbc(server: ServerProcess) -> None:
    refusal(jdbc, server, "anna", PASSWORD, False)


@pytest.mark.parametrize("port", ["thrift", "connect"])
def test_a_port_with_tls_answers_nothing_in_plain_text(server: ServerProcess, port: str) -> None:
    with socket.create_connection(("127.0.0.1", getattr(server, port)), timeout=20) as plain:
        plain.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(64))
        answer = b""
        try:
            while more := plain.recv(1024):
                answer += more
        except OSError:
            pass
    assert answer == b"" or answer[0] == 0x15  # an alert of TLS, then the end


@pytest.mark.full
def test_a_user_comes_in_by_connect_and_statements_end_in_time(server: ServerProcess) -> None:
    token = f"anna:{PASSWORD}".replace(" ", "%20")
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, f"sc://localhost:{server.connect}/;use_ssl=true;token={token}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env={**os.environ, "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(CERTIFICATE)},
    )
    assert done.stdout.splitlines() == ["[Row(n=42)]", "True"], (done.stdout, done.stderr)


@pytest.mark.parametrize("token", ["", "anna", "anna:", "anna:a long: Secret", f"otto:{PASSWORD}", ":"])
def test_a_wrong_login_is_refused_by_connect(server: ServerProcess, token: str) -> None:
    assert call(server, token) == "UNAUTHENTICATED"
    assert call(server, f"anna:{PASSWORD}") != "UNAUTHENTICATED"


def test_plain_text_is_refused_by_connect(server: ServerProcess) -> None:
    assert call(server, f"anna:{PASSWORD}", tls=False) == "UNAVAILABLE"


def test_health_tells_strangers_nothing_but_that_it_is_well(server: ServerProcess) -> None:
    assert ask("127.0.0.1", server.health) == ""


def test_nothing_else_listens_to_other_machines(server: ServerProcess) -> None:
    process = psutil.Process(server.pid)
    family = [process, *process.children(recursive=True)]
    listening = {
        found.laddr for one in family for found in one.net_connections("tcp") if found.status == psutil.CONN_LISTEN
    }
    local = ("127.0.0.1", "::1", "::ffff:127.0.0.1")
    assert {port for address, port in listening if address not in local} == {
        server.thrift,
        server.connect,
        server.health,
    }


@pytest.mark.full
def test_an_ldap_server_says_who_may_in(tmp_path: Path) -> None:
    from pyhive import hive

    def bound(user: str, password: str) -> list[tuple[Any, ...]]:
        with closing(hive.connect("127.0.0.1", server.thrift, auth="LDAP", username=user, password=password)) as client:
            return rows(client, "SELECT 6 * 7")

    with ldap_server({"uid=anna,ou=people,dc=example,dc=org": PASSWORD}) as url:
        server = ServerProcess(tmp_path, "--ldap", url, "--ldap-base", "ou=people,dc=example,dc=org")
        try:
            assert f"who may in whom {url} lets in" in server.said
            assert bound("anna", PASSWORD) == [(42,)]
            for user, password in (("anna", "a long: Secret"), ("otto", PASSWORD)):
                assert "Error validating the login" in refusal(bound, user, password)
                assert call(server, f"{user}:{password}", tls=False) == "UNAUTHENTICATED"
            assert call(server, "", tls=False) == "UNAUTHENTICATED"
            assert call(server, f"anna:{PASSWORD}", tls=False) != "UNAUTHENTICATED"
        finally:
            server.stop()
