"""IKE SAs that replace others."""

import polars as pl
import pytest

import ikeanalyze
from ikeanalyze.analysis.decryption.rekey_exchanges import read_rekey_exchanges
from ikeanalyze.render.report.document import build_report
from tests.analysis.analyse_captures import analyse
from tests.analysis.daemon_log_payloads import differences, generated, looked_into
from tests.analysis.decrypt_captures import look
from tests.analysis.encrypted_handshakes import Sa, table
from tests.analysis.handshakes.contents.test_authenticated_outcome import content
from tests.analysis.recorded_captures import followup_keys, generated_of
from tests.craft import SECOND, Handshake, Trace, ike
from tests.paths import CAPTURES

SPI_I, SPI_R = bytes(range(8)), bytes(range(8, 16))


def offer(spi, nonce=b"n" * 32, transforms=ike.CLASSIC.transforms, protocol=1):
    return [ike.sa([ike.Proposal(transforms, protocol, spi)]), ike.nonce(nonce), ike.ke(19, bytes(64))]


def exchange(request, response, *, by_initiator=True, ident=5):
    pair = [(request, False), (response, True)]
    return [
        content(ike.CREATE_CHILD_SA, payloads, initiator=by_initiator != answers, response=answers, ident=ident)
        for payloads, answers in pair
        if payloads is not None
    ]


def test_recorded_rekeyings_link_the_ike_sas():
    """The daemons' log: IKE_SA c[2] replaces c[1], rekeyed by the initiator, then c[3] replaces c[2]."""
    result = look(CAPTURES / "pq-followup-ke.pcap", followup_keys())
    handshakes = result.analysis.handshakes
    assert result.outcomes == [("established", None), ("established", "REKEYED"), ("established", "REKEYED")]
    assert handshakes["replaces"].to_list() == [None, 1, 2]
    # selected proposal: IKE:AES_CBC_256/HMAC_SHA2_384_192/PRF_HMAC_SHA2_384/ECP_384/KE1_ML_KEM_1024/KE2_ML_KEM_768
    algorithms = handshakes.select("encryption", "integrity", "prf", "key_exchange").rows()
    assert algorithms == [("AES-CBC-256", "HMAC-SHA2-384-192", "HMAC-SHA2-384", "ECP-384")] * 3
    # the first CHILD_SA was rekeyed by the original initiator, the second IKE SA and CHILD_SA by the responder
    first = handshakes.row(0, named=True)
    third = handshakes.row(2, named=True)
    assert first["initiator_address"] == "10.1.0.2"
    assert third["initiator_address"] == "10.2.0.2"
    assert looked_into(result.analysis.messages).total() == 38


def test_recorded_rekeyings_are_recognised_without_keys():
    """As in the log: the IKE SA was rekeyed by its initiator, then by its responder."""
    analysis = ikeanalyze.read(CAPTURES / "pq-followup-ke.pcap")
    columns = analysis.handshakes.select("rekeyed", "outcome", "reason", "replaces")
    unknown = (True, None, "REKEYED", None)
    assert columns.rows() == [(False, "completed", None, None), unknown, unknown]


@pytest.mark.parametrize("asking", ["initiator", "responder"])
def test_ten_set_ups_and_ten_rekeyings(asking):
    """Whoever speaks first in the new IKE SA, without keys."""
    trace = Trace()
    for number in range(10):
        old, new = Handshake(2 * number + 1), Handshake(2 * number + 2)
        new.moved = True
        trace.play(
            [*old.setup(), *old.create_child_sa(), *new.informational(by_initiator=asking == "initiator")],
            at=10 * number * SECOND,
        )
    report = build_report(analyse(trace))
    totals = report["totals"]
    assert (totals["handshakes"], totals["rekeyed_ike_sas"]) == (10, 10)
    assert {outcome: count for outcome, count in totals["outcomes"].items() if count} == {"completed": 10}
    assert [row["outcome"] for row in report["handshakes"]] == ["completed"] * 10
    assert [(row["outcome"], row["reason"]) for row in report["rekeyed_ike_sas"]] == [(None, "REKEYED")] * 10


def test_a_responder_that_speaks_first_needs_a_rekeying_before():
    """Its requests count from 0 in every IKE SA: the set-up may have been before the capture."""
    handshake, other = Handshake(1), Handshake(2, initiator="192.0.2.9")
    handshake.moved = True
    trace = Trace()
    end = trace.play([*other.setup(), *other.create_child_sa()])  # of other hosts
    trace.play(handshake.informational(by_initiator=False), at=end)
    rows = analyse(trace).handshakes.select("rekeyed", "outcome", "reason").rows()
    assert rows == [(False, "completed", None), (False, "cut", None)]


def test_every_message_of_it_is_what_the_daemons_made():
    result = look(CAPTURES / "pq-followup-ke.pcap", followup_keys())
    assert differences(looked_into(result.analysis.messages), generated(generated_of("pq-followup-ke"))) == (
        [],
        [],
    )
    assert result.analysis.messages.filter(pl.col("decrypted").not_()).is_empty()


@pytest.mark.parametrize("by_initiator", [True, False])
def test_the_asker_is_the_initiator_of_the_new_one(by_initiator):
    (rekeyed_sa,) = read_rekey_exchanges(
        exchange(offer(SPI_I, b"i" * 32), offer(SPI_R, b"r" * 16), by_initiator=by_initiator)
    )
    assert (rekeyed_sa.spi_i.to_bytes(8), rekeyed_sa.spi_r.to_bytes(8)) == (SPI_I, SPI_R)
    assert rekeyed_sa.nonces == b"i" * 32 + b"r" * 16
    assert rekeyed_sa.exchange == 5
    assert (rekeyed_sa.chosen.spi, rekeyed_sa.offered[0].spi) == (SPI_R, SPI_I)


@pytest.mark.parametrize(
    ("request_", "response"),
    [
        (None, offer(SPI_R)),  # not readable
        (offer(SPI_I), None),
        (offer(SPI_I), [ike.notify(ike.NO_PROPOSAL_CHOSEN)]),
        (offer(SPI_I), [ike.notify(43)]),  # TEMPORARY_FAILURE
        (offer(b"spi4", protocol=3), offer(b"spi4", protocol=3)),  # a CHILD_SA
        (offer(SPI_I[:4]), offer(SPI_R)),  # no SPI of an IKE SA
        ([(ike.SA, b"\xff")], [(ike.SA, b"")]),
    ],
)
def test_what_makes_no_ike_sa(request_, response):
    assert list(read_rekey_exchanges(exchange(request_, response))) == []


def test_a_nonce_that_is_missing():
    without = [payload for payload in offer(SPI_R) if payload[0] != ike.NONCE]
    (rekeyed_sa,) = read_rekey_exchanges(exchange(offer(SPI_I), without))
    assert rekeyed_sa.nonces is None


def test_simultaneous_rekeyings_replace_one_ike_sa_twice():
    """RFC 7296, section 2.25.1: two come of it, until one is deleted."""
    both = [
        *exchange(offer(SPI_I), offer(SPI_R), ident=5),
        *exchange(offer(SPI_R[::-1]), offer(SPI_I[::-1]), by_initiator=False, ident=6),
    ]
    result = [(rekeyed_sa.spi_i.to_bytes(8), rekeyed_sa.spi_r.to_bytes(8)) for rekeyed_sa in read_rekey_exchanges(both)]
    assert result == [(SPI_I, SPI_R), (SPI_R[::-1], SPI_I[::-1])]


def test_without_its_predecessors_keys_it_is_a_stranger():
    first, second = (Sa(number, proposals=(ike.CLASSIC,)) for number in (1, 2))
    offers = [offer(first.rng.randbytes(8)), offer(second.spi_r)]
    offers[0] = offer(second.spi_i)
    messages = [*first.whole(), *first.swap(ike.CREATE_CHILD_SA, *offers)]
    second.moved = True
    trace = Trace()
    trace.play(messages)
    trace.play(second.swap(ike.INFORMATIONAL, [ike.delete()], []), at=SECOND)
    result = look(trace, table(*second.key_sets))
    assert result.outcomes == [("completed", None), (None, "REKEYED")]
    assert result.analysis.handshakes["replaces"].to_list() == [None, None]
    result = look(trace, table(*first.key_sets))
    assert result.outcomes == [("established", None), ("established", "REKEYED")]
    assert result.analysis.handshakes["replaces"].to_list() == [None, 1]


def test_an_error_about_an_esp_packet_is_no_ike_sa():
    """INVALID_SPI (11) outside of an IKE SA: a request in the clear, message ID 0, any SPIs (RFC 7296, section 1.5)."""
    trace = Trace()
    notify = ike.notify(11, b"\1\2\3\4", protocol=3)
    for spi_i, spi_r in ((bytes(8), bytes(8)), (SPI_I, SPI_R)):
        trace.send(0, ike.message(spi_i, spi_r, ike.INFORMATIONAL, ike.INITIATOR, 0, [notify]))
    assert (
        analyse(trace).handshakes.select("rekeyed", "outcome", "reason").rows() == [(False, "cut", "INVALID_SPI")] * 2
    )
