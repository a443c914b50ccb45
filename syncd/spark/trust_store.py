"""The file of authorities in the form that each JDBC driver reads."""

import hashlib
import secrets
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncd.errors import ConfigError
from syncd.spark.jdbc import KEY_STORE_PHRASE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def prepare_trust_store(spark: "SparkSession", ca: Path | None, *, driver: str) -> str | None:
    """Where the driver finds the authorities of `ca`; none where none is named.

    The MariaDB driver reads PEM. Connector/J wants a key store, which Java itself makes
    beside the session's other files.

    Raises:
        ConfigError: the file cannot be read, or holds no certificate.
    """
    if ca is None or driver == "mariadb":
        return str(ca.absolute()) if ca else None
    try:
        pem = ca.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"cannot read the authorities of the source: {error.strerror}: {ca}",
            hint="Mend `ca` of the source in the configuration.",
        ) from error
    return _write_key_store(spark, ca, pem)


def _write_key_store(spark: "SparkSession", ca: Path, pem: bytes) -> str:
    from py4j.protocol import Py4JJavaError

    java: Any = spark.sparkContext._jvm.java  # type: ignore[union-attr]  # noqa: SLF001  # there is no public way
    try:
        source = java.io.ByteArrayInputStream(bytearray(pem))
        found = java.security.cert.CertificateFactory.getInstance("X.509").generateCertificates(source).toArray()
        store = java.security.KeyStore.getInstance("PKCS12")
        # What is a String of Java's is a text of Python's on its way here, and has none of its methods.
        word = java.nio.CharBuffer.allocate(len(KEY_STORE_PHRASE)).put(KEY_STORE_PHRASE).array()
        store.load(None, word)
        for number, certificate in enumerate(found):
            store.setCertificateEntry(f"authority-{number}", certificate)
    except Py4JJavaError as error:
        raise ConfigError(f"{ca} holds no certificates that Java reads", hint="It has to be a PEM file.") from error
    if not len(found):
        raise ConfigError(f"{ca} holds no certificate", hint="It has to be a PEM file.")
    folder = Path(spark.conf.get("spark.local.dir") or tempfile.gettempdir())
    path = folder / f"authorities-{hashlib.sha256(pem).hexdigest()[:16]}.p12"
    # Another reading may be opening the file of the same authorities: it meets the whole one, before or after.
    draft = folder / f"{path.stem}-{secrets.token_hex(6)}"
    out = java.io.FileOutputStream(str(draft))
    try:
        store.store(out, word)
    finally:
        out.close()
    draft.replace(path)
    return str(path)
