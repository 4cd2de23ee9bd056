"""Check a peer's certificate chain and identity, and convert distinguished names (RFC 5280; RFC 4945, section 3).

Paths are built and checked by `cryptography.x509.verification`. Its default rules for extensions are those of the web.
IKE has fewer (RFC 4945, section 5.1.3): only BasicConstraints of authorities are required.

Text of distinguished names is in strongSwan's order, which is the order of the encoding: C=CH, O=Lab, CN=gw. RFC 4514,
which the reports follow, reverses it; a text does not tell which of the two it uses.
"""

import datetime as dt
import re
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID
from cryptography.x509.verification import Criticality, ExtensionPolicy, PolicyBuilder, Store, VerificationError

from ikeanalyze.wire.identification import format_identity
from ikeanalyze.wire.ikev2.payloads import Identification
from ikeanalyze.wire.registries.ikev2 import IdType

#: strongSwan's keywords of attributes for which RFC 4514 has none.
_KEYWORDS: Final = {
    "E": NameOID.EMAIL_ADDRESS,
    "SN": NameOID.SERIAL_NUMBER,
    "S": NameOID.SURNAME,
    "G": NameOID.GIVEN_NAME,
    "T": NameOID.TITLE,
}
#: A comma between attributes and the spaces around it, or an escaped character of a value.
_SEPARATOR: Final = re.compile(r"(\\.)| *, *", re.DOTALL)


def encode_distinguished_name(text: str) -> x509.Name:
    """Parse a distinguished name such as "C=CH, O=Lab, CN=gw", with the escapes of RFC 4514.

    Raises:
        ValueError: not a distinguished name.
    """
    compact = _SEPARATOR.sub(lambda match: match[1] or ",", text.strip(" "))
    return x509.Name(reversed(x509.Name.from_rfc4514_string(compact, _KEYWORDS).rdns))


def format_distinguished_name(data: bytes) -> str | None:
    """Format a DER distinguished name as `encode_distinguished_name` parses it; None if it is invalid."""
    name = _parse_name(data)
    if name is None:
        return None
    keywords = {oid: keyword for keyword, oid in _KEYWORDS.items()}
    return ", ".join(part.rfc4514_string(keywords) for part in name.rdns)


def names_equal(first: bytes, second: bytes) -> bool:
    """Whether two DER names have the same attributes in the same order (RFC 5280, section 7.1).

    String types may differ. The comparison is case-sensitive, which is stricter than the RFC.
    """
    if first == second:
        return True
    name = _parse_name(first)
    return name is not None and name == _parse_name(second)


def _parse_name(data: bytes) -> x509.Name | None:
    try:
        return x509.Name.from_bytes(data)
    except (ValueError, TypeError):  # TypeError: a value of a string type that its attribute may not have
        return None


def check_certificate_chain(
    certificates: Sequence[bytes], anchors: Sequence[x509.Certificate], time: dt.datetime | None = None
) -> str | None:
    """Return the reason why a peer's chain is invalid; None: it leads to an anchor and every certificate is valid.

    `certificates`: DER, the peer's first, the others in any order. `time`: aware; None: now.
    """
    if not certificates:
        return "the peer sent no certificate"
    if not anchors:
        return "no authority is trusted"
    try:
        _verify(certificates, anchors, time)
    except VerificationError as error:
        # The text in parentheses is the repr of the certificate.
        return " ".join(str(error).partition(" (encountered")[0].split())
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the library's panics do not derive from Exception
        return f"a certificate cannot be read ({type(error).__name__})"
    return None


def _verify(certificates: Sequence[bytes], anchors: Sequence[x509.Certificate], time: dt.datetime | None) -> None:
    end, *between = (x509.load_der_x509_certificate(certificate) for certificate in certificates)
    if any(end == anchor for anchor in anchors):
        return  # the certificate itself is trusted, without an authority
    authority = ExtensionPolicy.permit_all().require_present(x509.BasicConstraints, Criticality.AGNOSTIC, None)
    builder = (
        PolicyBuilder()
        .store(Store(list(anchors)))
        .extension_policies(ca_policy=authority, ee_policy=ExtensionPolicy.permit_all())
    )
    if time is not None:
        builder = builder.time(time)
    builder.build_client_verifier().verify(end, between)


def check_identity(certificate: bytes, identification: Identification) -> str | None:
    """Return the reason why an IDi or IDr payload does not match a certificate; None: it does (RFC 4945, section 3.1).

    A distinguished name must be the subject, other identities must be among the subject alternative names.
    """
    decoded = x509.load_der_x509_certificate(certificate)
    id_type, data = identification.type, identification.data
    if id_type == IdType.ID_DER_ASN1_DN:
        matches = names_equal(data, decoded.subject.public_bytes())
    else:
        matches = (id_type, data) in _get_alternative_names(decoded)
    if matches:
        return None
    text = format_identity(id_type, data) or data.hex()
    return f"the certificate does not name {text}"


def _get_alternative_names(certificate: x509.Certificate) -> set[tuple[int, bytes]]:
    """Subject alternative names as type and data of identification payloads."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return set()
    identities = {(int(IdType.ID_FQDN), value.encode()) for value in names.get_values_for_type(x509.DNSName)}
    identities |= {(int(IdType.ID_RFC822_ADDR), value.encode()) for value in names.get_values_for_type(x509.RFC822Name)}
    for value in names.get_values_for_type(x509.IPAddress):
        address = ip_address(str(value))
        kind = IdType.ID_IPV4_ADDR if address.version == 4 else IdType.ID_IPV6_ADDR
        identities.add((int(kind), address.packed))
    return identities
