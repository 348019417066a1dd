from __future__ import annotations

from pathlib import Path

import pytest

from sqlx.failures import CommandError
from sqlx.serving.tls import private_key

PEM = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n-----BEGIN {}PRIVATE KEY-----\nAAAA\n-----END"


def test_a_key_is_found_behind_a_certificate() -> None:
    assert private_key(PEM.format(""), Path("k")).strip() == "AAAA"


@pytest.mark.parametrize("kind", ["RSA ", "EC ", "ENCRYPTED "])
def test_a_key_of_another_kind_is_named_with_its_cure(kind: str) -> None:
    with pytest.raises(CommandError, match=rf"BEGIN {kind}PRIVATE KEY[^$]*openssl pkcs8 -topk8"):
        private_key(PEM.format(kind), Path("k"))


def test_a_file_without_a_key_is_named() -> None:
    with pytest.raises(CommandError, match="there is no private key in it"):
        private_key("-----BEGIN CERTIFICATE-----", Path("k"))
