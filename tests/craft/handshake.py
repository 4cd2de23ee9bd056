"""The messages of an IKE SA, as both sides send them: what is clear is real, ciphertext is random."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from . import ike
from .transport import NON_ESP_MARKER

NAMES = {
    ike.IKE_SA_INIT: "IKE_SA_INIT",
    ike.IKE_AUTH: "IKE_AUTH",
    ike.CREATE_CHILD_SA: "CREATE_CHILD_SA",
    ike.INFORMATIONAL: "INFORMATIONAL",
    ike.IKE_INTERMEDIATE: "IKE_INTERMEDIATE",
    ike.IKE_FOLLOWUP_KE: "IKE_FOLLOWUP_KE",
}


@dataclass(frozen=True, slots=True)
class Message:
    """One IKE message: the datagrams that one transmission of it takes."""

    source: str
    sport: int
    destination: str
    dport: int
    datagrams: tuple[bytes, ...]  # UDP payloads: on port 4500 with the non-ESP marker
    exchange_type: int
    message_id: int
    from_initiator: bool  # of the IKE SA
    response: bool

    @property
    def ike(self) -> tuple[bytes, ...]:
        """The datagrams without non-ESP marker."""
        if 4500 in (self.sport, self.dport):
            return tuple(data[4:] for data in self.datagrams)
        return self.datagrams

    @property
    def name(self) -> str:
        kind = "response" if self.response else "request"
        return f"{NAMES.get(self.exchange_type, self.exchange_type)} {kind} {self.message_id}"


class Handshake:
    """An IKE SA under way: each method gives the messages that follow and counts on.

    `switch`: both sides go over to port 4500 after IKE_SA_INIT. `nat`: the initiator is behind a NAT, which
    gave it `nat_ports` (for 500 and 4500); its own address is 10.0.0.1. `proposals`: what the initiator
    offers; the responder takes the first.
    """

    def __init__(
        self,
        rng: Random | int = 1,
        *,
        initiator: str = "192.0.2.1",
        responder: str = "192.0.2.2",
        switch: bool = True,
        nat: bool = False,
        nat_ports: tuple[int, int] = (61500, 61501),
        proposals: Sequence[ike.Proposal] = (ike.CLASSIC,),
        notifies: Sequence[ike.Payload] = (),
        encryptor: ike.Encryptor | None = None,
    ) -> None:
        self.rng = Random(rng) if isinstance(rng, int) else rng
        self.initiator, self.responder = initiator, responder
        self.switch, self.nat, self.nat_ports = switch, nat, nat_ports
        self.proposals = proposals
        self.notifies = notifies
        self.encryptor = ike.Encryptor(self.rng) if encryptor is None else encryptor
        self.spi_i, self.spi_r = self.rng.randbytes(8), self.rng.randbytes(8)
        self.message_id = {True: 0, False: 0}  # of the next request of the initiator, of the responder
        self.moved = False

    # ---- messages

    def _message(
        self, datagrams: Sequence[bytes], exchange_type: int, ident: int, from_initiator: bool, response: bool
    ) -> Message:
        port = 4500 if self.moved else 500
        own = self.nat_ports[self.moved] if self.nat else port
        ends = [(self.initiator, own), (self.responder, port)]
        (source, sport), (destination, dport) = ends if from_initiator else reversed(ends)
        if self.moved:
            datagrams = [NON_ESP_MARKER + data for data in datagrams]
        return Message(
            source,
            sport,
            destination,
            dport,
            tuple(datagrams),
            exchange_type,
            ident,
            from_initiator,
            response,
        )

    def clear(
        self,
        exchange_type: int,
        payloads: Sequence[ike.Payload],
        *,
        from_initiator: bool = True,
        response: bool = False,
        message_id: int = 0,
        spi_r: bytes | None = None,
    ) -> Message:
        """Any message in the clear."""
        flags = ike.INITIATOR * from_initiator | ike.RESPONSE * response
        responder = self.spi_r if spi_r is None else spi_r
        data = ike.message(self.spi_i, responder, exchange_type, flags, message_id, payloads)
        return self._message([data], exchange_type, message_id, from_initiator, response)

    def encrypted(
        self,
        exchange_type: int,
        size: int,
        *,
        from_initiator: bool = True,
        response: bool = False,
        message_id: int | None = None,
        fragments: int = 1,
        first: int = ike.NOTIFY,
    ) -> Message:
        """Any encrypted message: `size` bytes of payloads in so many fragments."""
        ident = self.message_id[from_initiator] if message_id is None else message_id
        flags = ike.INITIATOR * from_initiator | ike.RESPONSE * response
        if fragments == 1:
            body = self.encryptor.body(size)
            datagrams = [ike.encrypted(self.spi_i, self.spi_r, exchange_type, flags, ident, first, body)]
        else:
            bodies = self.encryptor.bodies(size, fragments)
            datagrams = ike.skf(self.spi_i, self.spi_r, exchange_type, flags, ident, first, bodies)
        return self._message(datagrams, exchange_type, ident, from_initiator, response)

    def exchange(
        self,
        exchange_type: int,
        sizes: tuple[int, int],
        *,
        fragments: tuple[int, int] = (1, 1),
        by_initiator: bool = True,
        first: tuple[int, int] = (ike.NOTIFY, ike.NOTIFY),
    ) -> list[Message]:
        """An encrypted request and its response; `sizes`, `fragments`, `first`: of the one, of the other."""
        ident = self.message_id[by_initiator]
        self.message_id[by_initiator] += 1
        return [
            self.encrypted(
                exchange_type,
                size,
                from_initiator=by_initiator != response,
                response=response,
                message_id=ident,
                fragments=count,
                first=inner,
            )
            for response, size, count, inner in zip((False, True), sizes, fragments, first, strict=True)
        ]

    # ---- IKE_SA_INIT

    def _group(self) -> int:
        return next(t.number for t in self.proposals[0].transforms if t.kind == ike.DH)

    def _nat_detection(self, from_initiator: bool, spi_r: bytes) -> list[ike.Payload]:
        seen = self.initiator, self.nat_ports[0] if self.nat else 500  # the initiator by the responder
        own = ("10.0.0.1" if "." in self.initiator else "fd00::1", 500) if self.nat else seen
        other = self.responder, 500
        source, destination = (own, other) if from_initiator else (other, seen)
        return [
            ike.notify(ike.NAT_DETECTION_SOURCE_IP, ike.nat_hash(self.spi_i, spi_r, *source)),
            ike.notify(ike.NAT_DETECTION_DESTINATION_IP, ike.nat_hash(self.spi_i, spi_r, *destination)),
        ]

    def _init_payloads(self, from_initiator: bool, group: int, nonce: bytes) -> list[ike.Payload]:
        proposals = self.proposals if from_initiator else self.proposals[:1]
        spi_r = bytes(8) if from_initiator else self.spi_r
        kinds = {t.kind for p in self.proposals for t in p.transforms}
        more = []
        if kinds & set(range(ike.ADDKE1, ike.ADDKE7 + 1)):
            more.append(ike.notify(ike.INTERMEDIATE_EXCHANGE_SUPPORTED))
        return [
            ike.sa(proposals),
            ike.ke(group, self.rng.randbytes(ike.KE_BYTES[group][not from_initiator])),
            ike.nonce(nonce),
            *self._nat_detection(from_initiator, spi_r),
            ike.notify(ike.FRAGMENTATION_SUPPORTED),
            ike.notify(ike.SIGNATURE_HASH_ALGORITHMS, bytes([0, 2, 0, 3, 0, 4])),
            *more,
            *self.notifies,
        ]

    def init(
        self, *, before: Literal["COOKIE", "INVALID_KE_PAYLOAD", "both"] | None = None, tried: int = 14
    ) -> list[Message]:
        """Two messages; with `before`, the refused attempts first. `tried`: the group that gets refused."""
        if self.message_id[True] != 0:
            raise ValueError("IKE_SA_INIT comes first")
        cookie: list[ike.Payload] = []
        nonce = self.rng.randbytes(32)
        group = self._group()

        def request(method: int) -> Message:
            payloads = [*cookie, *self._init_payloads(True, method, nonce)]
            return self.clear(ike.IKE_SA_INIT, payloads, spi_r=bytes(8))

        def refusal(payload: ike.Payload) -> Message:
            return self.clear(ike.IKE_SA_INIT, [payload], from_initiator=False, response=True, spi_r=bytes(8))

        result = []
        wrong = tried if before in ("INVALID_KE_PAYLOAD", "both") else group
        if before in ("COOKIE", "both"):
            requested = ike.notify(ike.COOKIE, self.rng.randbytes(24))
            result += [request(wrong), refusal(requested)]
            cookie = [requested]
        if wrong != group:
            hint = ike.notify(ike.INVALID_KE_PAYLOAD, group.to_bytes(2, "big"))
            result += [request(wrong), refusal(hint)]
        result.append(request(group))
        answer = self._init_payloads(False, group, self.rng.randbytes(32))
        result.append(self.clear(ike.IKE_SA_INIT, answer, from_initiator=False, response=True))
        self.message_id[True] = 1
        self.moved = self.switch
        return result

    def refused(self, notify: int = ike.NO_PROPOSAL_CHOSEN) -> list[Message]:
        """An IKE_SA_INIT that an error ends."""
        payloads = self._init_payloads(True, self._group(), self.rng.randbytes(32))
        error = [ike.notify(notify)]
        return [
            self.clear(ike.IKE_SA_INIT, payloads, spi_r=bytes(8)),
            self.clear(ike.IKE_SA_INIT, error, from_initiator=False, response=True, spi_r=bytes(8)),
        ]

    # ---- the rest of the set-up

    def intermediate(self, method: int = ike.ML_KEM_768, *, fragments: tuple[int, int] = (2, 1)) -> list[Message]:
        """An additional key exchange (RFC 9242 and 9370)."""
        to, back = ike.KE_BYTES[method]
        return self.exchange(ike.IKE_INTERMEDIATE, (8 + to, 8 + back), fragments=fragments, first=(ike.KE, ike.KE))

    def auth(self, *, fragments: tuple[int, int] = (1, 1), sizes: tuple[int, int] | None = None) -> list[Message]:
        """One exchange. `sizes`: of the payloads; by default some 200 bytes, and 1,100 a fragment."""
        if sizes is None:
            request, response = (200 if count == 1 else 1100 * count - 150 for count in fragments)
            sizes = request, response
        return self.exchange(ike.IKE_AUTH, sizes, fragments=fragments, first=(ike.ID_I, ike.ID_R))

    def eap(self, rounds: int, *, sizes: tuple[int, int] = (60, 70)) -> list[Message]:
        """IKE_AUTH with EAP: first exchange without AUTH, `rounds` of EAP, then one with AUTH."""
        result = self.exchange(ike.IKE_AUTH, (180, 900), first=(ike.ID_I, ike.ID_R))
        for _ in range(rounds):
            result += self.exchange(ike.IKE_AUTH, sizes, first=(ike.EAP, ike.EAP))
        return result + self.exchange(ike.IKE_AUTH, (36, 180), first=(ike.AUTH, ike.AUTH))

    # ---- afterwards

    def informational(self, *, by_initiator: bool = True, size: int = 8) -> list[Message]:
        return self.exchange(ike.INFORMATIONAL, (size, 0), by_initiator=by_initiator, first=(ike.DELETE, 0))

    def create_child_sa(self, *, by_initiator: bool = True, size: int = 180) -> list[Message]:
        return self.exchange(ike.CREATE_CHILD_SA, (size, size), by_initiator=by_initiator, first=(ike.SA, ike.SA))

    def followup_ke(self, method: int = ike.ML_KEM_768, *, by_initiator: bool = True) -> list[Message]:
        """After a CREATE_CHILD_SA (RFC 9370, section 2.2.4)."""
        to, back = ike.KE_BYTES[method]
        sizes = 28 + to, 28 + back
        return self.exchange(ike.IKE_FOLLOWUP_KE, sizes, by_initiator=by_initiator, first=(ike.KE, ike.KE))

    def setup(
        self,
        *,
        before: Literal["COOKIE", "INVALID_KE_PAYLOAD", "both"] | None = None,
        intermediate: Sequence[tuple[int, int]] = (),
        auth: tuple[int, int] = (1, 1),
        eap: int | None = None,
    ) -> list[Message]:
        """All messages of a set-up: by default the four of one with a shared key.

        `intermediate`: for each additional key exchange the fragments of its request and response; `auth`:
        those of IKE_AUTH; `eap`: rounds of EAP.
        """
        result = self.init(before=before)
        for fragments in intermediate:
            result += self.intermediate(fragments=fragments)
        return result + (self.auth(fragments=auth) if eap is None else self.eap(eap))


def redirected(
    seed: int = 1,
    *,
    same_spi: bool = False,
    nat_ports: tuple[int, int] | None = None,
    next_nat_ports: tuple[int, int] | None = None,
) -> tuple[Handshake, Handshake, list[Message]]:
    """A handshake that one gateway redirects to another (RFC 5685, section 3), the one there, and their messages.

    Two messages are at the first gateway, 192.0.2.2, and four at the second one, 192.0.2.9. `nat_ports`: those that a
    NAT gave the initiator at both gateways, unless `next_nat_ports` are those at the second one.
    """
    old, new = "192.0.2.2", "192.0.2.9"
    ipv4, nat = 1, nat_ports is not None
    notifies = [ike.notify(ike.REDIRECT_SUPPORTED)]
    ports = nat_ports or (0, 0)
    first = Handshake(seed, responder=old, notifies=notifies, nat=nat, nat_ports=ports)
    request = first.init()[0]
    first.moved = False
    gateway = bytes([ipv4, 4, *map(int, new.split("."))]) + bytes(32)  # with the nonce of the request
    refusal = first.clear(
        ike.IKE_SA_INIT, [ike.notify(ike.REDIRECT, gateway)], from_initiator=False, response=True, spi_r=bytes(8)
    )
    notifies = [ike.notify(ike.REDIRECTED_FROM, bytes([ipv4, 4, *map(int, old.split("."))]))]
    second = Handshake(100 + seed, responder=new, notifies=notifies, nat=nat, nat_ports=next_nat_ports or ports)
    if same_spi:
        second.spi_i = first.spi_i
    return first, second, [request, refusal, *second.setup()]
