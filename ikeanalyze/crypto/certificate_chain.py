"""Whether a peer's certificate is to be trusted: its chain up to an authority, and whose it is (RFC 5280; RFC 4945, section 3).

Paths are built and checked by `cryptography.x509.verification`. Its own rules for extensions are those of the web; IKE has
fewer (RFC 4945, section 5.1.3), so authorities must say that they are some, and nothing more is asked for.

Distinguished names: from a text as strongSwan writes them, and whether two are the same name.

strongSwan writes the parts in the order in which they are encoded, C=CH, O=Lab, CN=gw; RFC 4514, which our reports
follow, has the last one first. A text says not which of the two it means, so here it is always strongSwan's order.
"""

import datetime as dt
import re
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID
from cryptography.x509.verification import (
    Criticality,
    ExtensionPolicy,
    PolicyBuilder,
    Store,
    VerificationError,
)

from ikeanalyze.wire.identification import format_identity
from ikeanalyze.wire.ikev2.payloads import Identification
from ikeanalyze.wire.registries.ikev2 import IdType

#: strongSwan's words for attributes that RFC 4514 has no word for.
_WORDS: Final = {
    "E": NameOID.EMAIL_ADDRESS,
    "SN": NameOID.SERIAL_NUMBER,
    "S": NameOID.SURNAME,
    "G": NameOID.GIVEN_NAME,
    "T": NameOID.TITLE,
}
#: A comma that parts attributes, and the spaces around it; those that are escaped belong to a value.
_COMMA: Final = re.compile(r"(\\.)| *, *", re.DOTALL)


def encode_distinguished_name(text: str) -> x509.Name:
    """A distinguished name from "C=CH, O=Lab, CN=gw"; escapes are those of RFC 4514. `ValueError` if it is none."""
    plain = _COMMA.sub(lambda found: found[1] or ",", text.strip(" "))
    return x509.Name(reversed(x509.Name.from_rfc4514_string(plain, _WORDS).rdns))


def format_distinguished_name(data: bytes) -> str | None:
    """A DER distinguished name as `encode_distinguished_name` takes it; None if it is none."""
    name = _name(data)
    if name is None:
        return None
    words = {kind: word for word, kind in _WORDS.items()}
    return ", ".join(part.rfc4514_string(words) for part in name.rdns)


def names_equal(one: bytes, other: bytes) -> bool:
    """Whether two DER names have the same attributes in the same order, of whatever string types (RFC 5280, section 7.1).

    Upper and lower case count, which is stricter than the RFC.
    """
    if one == other:
        return True
    first, second = _name(one), _name(other)
    return first is not None and first == second


def _name(data: bytes) -> x509.Name | None:
    try:
        return x509.Name.from_bytes(data)
    except ValueError:
        return None


pass


def check_certificate_chain(
    certificates: Sequence[bytes], anchors: Sequence[x509.Certificate], time: dt.datetime | None = None
) -> str | None:
    """What is wrong with a peer's chain; None: it leads to an anchor, each certificate signed by the next and valid now.

    `certificates`: DER, the peer's own first, the others in any order. `time`: another than now, with its time zone.
    """
    if not certificates:
        return "there is no certificate"
    if not anchors:
        return "no authority is trusted"
    try:
        _verify(certificates, anchors, time)
    except VerificationError as problem:
        # what it says in parentheses is the certificate as Python shows it
        return " ".join(str(problem).partition(" (encountered")[0].split())
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as problem:  # the library's panics are no Exception
        return f"a certificate cannot be read ({type(problem).__name__})"
    return None


def _verify(certificates: Sequence[bytes], anchors: Sequence[x509.Certificate], time: dt.datetime | None) -> None:
    end, *between = (x509.load_der_x509_certificate(certificate) for certificate in certificates)
    if any(end == anchor for anchor in anchors):
        return  # trusted itself, not as an authority
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
    """Why an IDi or IDr payload is not of a certificate's owner; None: the certificate names it (RFC 4945, section 3.1).

    A distinguished name has to be the subject, the others are among its alternative names.
    """
    owner = x509.load_der_x509_certificate(certificate)
    kind, data = identification.type, identification.data
    if kind == IdType.ID_DER_ASN1_DN:
        named = names_equal(data, owner.subject.public_bytes())
    else:
        named = (kind, data) in _alternative_names(owner)
    if named:
        return None
    text = format_identity(kind, data) or data.hex()
    return f"the certificate is not that of {text}"


def _alternative_names(owner: x509.Certificate) -> set[tuple[int, bytes]]:
    """The names in the form of identities."""
    try:
        names = owner.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return set()
    found = {(int(IdType.ID_FQDN), value.encode()) for value in names.get_values_for_type(x509.DNSName)}
    found |= {(int(IdType.ID_RFC822_ADDR), value.encode()) for value in names.get_values_for_type(x509.RFC822Name)}
    for value in names.get_values_for_type(x509.IPAddress):
        address = ip_address(str(value))
        kind = IdType.ID_IPV4_ADDR if address.version == 4 else IdType.ID_IPV6_ADDR
        found.add((int(kind), address.packed))
    return found
