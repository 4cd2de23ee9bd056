"""Read the decrypted CREATE_CHILD_SA exchanges that rekey an IKE SA (RFC 7296, section 2.18).

`handshakes.rekeyed` finds the IKE SAs that replaced another one also without keys.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage
from ikeanalyze.wire.header import SPI_BYTES
from ikeanalyze.wire.ikev2.proposals import Proposal, parse_sa
from ikeanalyze.wire.registries.ikev2 import ExchangeType, PayloadType, ProtocolId


class RekeyedSa(Struct, frozen=True):
    """The IKE SA that a CREATE_CHILD_SA exchange made."""

    spi_i: int  # chosen by the peer that asked for the rekeying, the initiator of the new IKE SA
    spi_r: int
    chosen: Proposal
    offered: tuple[Proposal, ...]
    nonces: bytes | None  # Ni | Nr; None: one of them is missing
    exchange: int  # row in the capture's exchanges


def read_rekey_exchanges(contents: Sequence[DecodedMessage]) -> Iterator[RekeyedSa]:
    """The IKE SAs that replaced the one whose messages are `contents`, in order of their exchanges."""
    requests: dict[int, DecodedMessage] = {}
    for content in contents:
        if content.exchange_type != ExchangeType.CREATE_CHILD_SA or not content.encrypted:
            continue
        if not content.response:
            requests[content.exchange] = content
            continue
        request = requests.get(content.exchange)
        chosen = _list_ike_proposals(content)
        offered = () if request is None else _list_ike_proposals(request)
        if request is None or not chosen or not offered:
            continue
        nonces = [*request.get_bodies(PayloadType.NONCE), *content.get_bodies(PayloadType.NONCE)]
        yield RekeyedSa(
            int.from_bytes(offered[0].spi, "big"),
            int.from_bytes(chosen[0].spi, "big"),
            chosen[0],
            offered,
            b"".join(nonces) if len(nonces) == 2 else None,
            content.exchange,
        )


def _list_ike_proposals(content: DecodedMessage) -> tuple[Proposal, ...]:
    """Proposals for an IKE SA, each with its sender's SPI."""
    for body in content.get_bodies(PayloadType.SA):
        return tuple(
            proposal
            for proposal in parse_sa(body).proposals
            if proposal.protocol == ProtocolId.IKE and len(proposal.spi) == SPI_BYTES
        )
    return ()
