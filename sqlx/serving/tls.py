"""The server's certificate as a keystore of its own: Hive and gRPC read that, and the password is nobody's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlx.failures import CommandError
from sqlx.serving.options import Tls

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KEY = re.compile(r"-----BEGIN ((?:[A-Z]+ )*)PRIVATE KEY-----(.*?)-----END", re.DOTALL)


def private_key(text: str, path: Path) -> str:
    """The base64 text of an unencrypted PKCS#8 key in a PEM file.

    Args:
        text: the file.
        path: its name, for messages.

    Raises:
        CommandError: there is none, or one of another kind.
    """
    found = _KEY.search(text)
    if found is None:
        msg = f"--tls-key {path}: there is no private key in it."
        raise CommandError(msg, "A PEM file with BEGIN PRIVATE KEY is needed.")
    if found[1]:
        msg = f"--tls-key {path}: its key is of the kind BEGIN {found[1]}PRIVATE KEY."
        raise CommandError(msg, f"`openssl pkcs8 -topk8 -nocrypt -in {path} -out key.pem` writes what can be read.")
    return found[2]


def make_keystore(spark: SparkSession, tls: Tls, path: Path, secret: str) -> None:
    """Write the server's keys.

    Args:
        spark: the session, for its Java.
        tls: where the certificate is.
        path: the keystore to write.
        secret: its password.

    Raises:
        CommandError: the files do not hold a certificate and its key.
    """
    from udtf.engine.java import Py4JJavaError

    keys: Any = spark.sparkContext._jvm.sqlx.serving.Keys  # type: ignore[union-attr]
    try:
        if tls.keystore is not None:
            keys.fromStore(str(tls.keystore), tls.password, str(path), secret)
        elif tls.cert is not None and tls.key is not None:
            key = private_key(tls.key.read_text(encoding="utf-8", errors="replace"), tls.key)
            keys.fromPem(tls.cert.read_text(encoding="utf-8", errors="replace"), key, str(path), secret)
    except Py4JJavaError as error:
        given = f"--tls-keystore {tls.keystore}" if tls.keystore else f"--tls-cert {tls.cert}, --tls-key {tls.key}"
        msg = f"{given}: this is no certificate with its key: {error.java_exception.getMessage()}."
        hint = "SQLX_KEYSTORE_PASSWORD holds its password." if tls.keystore else "Both are PEM files of one server."
        raise CommandError(msg, hint) from None
    path.chmod(0o600)
