"""The keys that decrypt messages of a capture, of all keys that were given, without what decryption does not need."""

from typing import Final

from msgspec.structs import replace

from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage, DecodedMessages
from ikeanalyze.analysis.decryption.rekey_exchanges import read_rekey_exchanges
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.buffers import MessageBytes
from ikeanalyze.crypto.algorithms import IkeSuite, get_suite
from ikeanalyze.keys.key_set import KeySet, Origin
from ikeanalyze.wire.header import SPI_BYTES
from ikeanalyze.wire.ikev2.proposals import parse_sa
from ikeanalyze.wire.registries.ikev2 import ExchangeType, PayloadType

#: Origin of keys that are written for others, in place of the path of a file.
ORIGIN: Final = Origin("used keys", None)


class SuiteLookup:
    """The algorithms that the IKE SAs of a capture negotiated."""

    def __init__(self, contents: DecodedMessages) -> None:
        groups = contents.group_by_handshake()
        self._suites = {handshake: _find_suite(messages) for handshake, messages in groups.items()}
        self._rekeyed = {
            (sa.spi_i, sa.spi_r): get_suite(sa.chosen)
            for messages in groups.values()
            for sa in read_rekey_exchanges(messages)
        }

    def find(self, message: DecodedMessage) -> IkeSuite | None:
        """The suite of a message; None: its negotiation is not in the capture."""
        header = message.header
        spis = int.from_bytes(header[:SPI_BYTES], "big"), int.from_bytes(header[SPI_BYTES : 2 * SPI_BYTES], "big")
        return self._rekeyed.get(spis) or self._suites.get(message.handshake)


def _find_suite(messages: list[DecodedMessage]) -> IkeSuite | None:
    """The suite that the last response to IKE_SA_INIT chose; None: it is not in the capture."""
    suite = None
    for message in messages:
        if message.exchange_type == ExchangeType.IKE_SA_INIT and message.response:
            for body in message.get_bodies(PayloadType.SA):
                proposals = parse_sa(body).proposals
                suite = get_suite(proposals[0]) if proposals else suite
    return suite


class UsedKeyCollector:
    """Collects the keys that decrypt messages.

    The key sets name their IKE SA and its algorithms. They lack the keys of AUTH and of Child SAs, and the values that
    they were derived from.
    """

    def __init__(self) -> None:
        self.key_sets: list[KeySet] = []  # in the order in which they are used
        self.spis: set[bytes] = set()  # of the initiators of all IKE SAs (IKEv1: cookies) with decrypted messages
        self._listed: set[tuple[bytes, int]] = set()

    def take(self, state: AnalysisState, encrypted: MessageBytes, contents: DecodedMessages) -> None:  # noqa: ARG002
        """Collect the keys of a capture (`ReadOptions.on_contents`)."""
        suites = SuiteLookup(contents)
        for message in contents.all:
            self.add(message, suites)

    def add(self, message: DecodedMessage, suites: SuiteLookup) -> None:
        """Add the keys of one message, if it was decrypted."""
        if not message.encrypted:
            return
        spis = message.header[: 2 * SPI_BYTES]
        self.spis.add(spis[:SPI_BYTES])
        keys = message.keys
        if keys is None or (spis, id(keys)) in self._listed:
            return
        self._listed.add((spis, id(keys)))
        suite = suites.find(message)
        encryption, integrity = keys.encryption, keys.integrity
        if suite is not None:
            encryption = suite.encryption if encryption is None else encryption
            integrity = suite.integrity if integrity is None else integrity
        named = replace(keys, origin=ORIGIN, spi_i=spis[:SPI_BYTES], spi_r=spis[SPI_BYTES:])
        bare = replace(named, sk_d=None, sk_pi=None, sk_pr=None, derivation=None)
        self.key_sets.append(replace(bare, encryption=encryption, integrity=integrity))
