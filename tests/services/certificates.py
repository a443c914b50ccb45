"""Certificates for tests: an authority of one's own, and what it signs, good and bad."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

DAY: Final = timedelta(days=1)


class Authority:
    """Signs certificates of servers; its own is in `ca`."""

    def __init__(self, folder: Path, *, name: str = "an authority") -> None:
        self.ca = folder / f"{name}.pem"
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        basic = x509.BasicConstraints(ca=True, path_length=None)
        made = self._draft(self._name, self._key, expires=30 * DAY).add_extension(basic, critical=True)
        self.ca.write_bytes(made.sign(self._key, SHA256()).public_bytes(Encoding.PEM))

    def issue(self, folder: Path, *, names: Sequence[str], expires: timedelta = DAY) -> None:
        """Write `server.pem` and `server.key` for these hosts and addresses into a folder, over what is there."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a server")])
        alternatives = x509.SubjectAlternativeName([_general(name) for name in names])
        made = self._draft(subject, key, expires=expires).add_extension(alternatives, critical=False)
        (folder / "server.pem").write_bytes(made.sign(self._key, SHA256()).public_bytes(Encoding.PEM))
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (folder / "server.key").write_bytes(private)

    def _draft(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, expires: timedelta
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 30 * DAY)
            .not_valid_after(now + expires)
        )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
