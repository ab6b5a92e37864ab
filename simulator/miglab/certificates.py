"""Keys and certificates of the lab's API server. They lie in its directory and are good for nothing else."""

from __future__ import annotations

import datetime
import ipaddress
import os
import secrets
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_YEARS = datetime.timedelta(days=3650)


ADMINISTRATOR = "lab-admin"
CONTROLLER_MANAGER, SCHEDULER = "system:kube-controller-manager", "system:kube-scheduler"


class Credentials:
    """The files in ``directory``, made on first use and kept.

    ``server.crt`` and ``server.key`` serve both servers and let the API server into etcd.
    """

    def __init__(self, directory: Path) -> None:
        self.ca = directory / "ca.crt"
        self.certificate = directory / "server.crt"
        self.key = directory / "server.key"
        self.account_key = directory / "service-accounts.key"
        self.account_public_key = directory / "service-accounts.pub"
        self.tokens = directory / "tokens.csv"

    def ensure(self) -> None:
        """Make what is not there yet."""
        if not all(path.exists() for path in (self.ca, self.certificate, self.key)):
            self._make_certificates()
        if not all(path.exists() for path in (self.account_key, self.account_public_key)):
            key = ec.generate_private_key(ec.SECP256R1())
            _write(self.account_key, _private(key))
            public = serialization.PublicFormat.SubjectPublicKeyInfo
            _write(self.account_public_key, key.public_key().public_bytes(serialization.Encoding.PEM, public))
        self._ensure_tokens()

    def token(self, user: str = ADMINISTRATOR) -> str:
        """The user's bearer token."""
        return next(line[0] for line in self._token_lines() if line[1] == user)

    def _ensure_tokens(self) -> None:
        lines = self._token_lines()
        for user, group in ((ADMINISTRATOR, "system:masters"), (CONTROLLER_MANAGER, ""), (SCHEDULER, "")):
            if not any(line[1] == user for line in lines):
                lines.append([secrets.token_urlsafe(32), user, user, *filter(None, [group])])
        _write(self.tokens, "".join(f"{','.join(line)}\n" for line in lines).encode())

    def _token_lines(self) -> list[list[str]]:
        if not self.tokens.exists():
            return []
        return [line.split(",") for line in self.tokens.read_text().splitlines()]

    def _make_certificates(self) -> None:
        authority_key = ec.generate_private_key(ec.SECP256R1())
        authority = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mig-lab authority")])
        ca = (
            _certificate(authority, authority, authority_key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(sign_certificates=True), critical=True)
            .sign(authority_key, hashes.SHA256())
        )
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mig-lab server")])
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        names += [
            x509.DNSName(name) for name in ("kubernetes", "kubernetes.default", "kubernetes.default.svc")
        ]
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        certificate = (
            _certificate(subject, authority, key.public_key())
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(sign_certificates=False), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
            )
            .sign(authority_key, hashes.SHA256())
        )
        # The authority's key is not kept: nobody needs another certificate.
        _write(self.key, _private(key))
        _write(self.certificate, certificate.public_bytes(serialization.Encoding.PEM))
        _write(self.ca, ca.public_bytes(serialization.Encoding.PEM))


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + _YEARS)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not sign_certificates,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
