"""IKE_SA_INIT in masses: one parsed stands for all of its form, and each keeps what is its own."""

from tests.analysis.analyse_captures import Handshake, analyse, only
from tests.craft import MS, Trace, ike


def many(*handshakes):
    trace = Trace()
    for place, handshake in enumerate(handshakes):
        trace.play(handshake.setup(), at=place * 100 * MS)
    return analyse(trace).handshakes


def test_messages_of_one_length_and_different_content():
    """AES-128 or AES-256: equal length, another proposal; NAT or none: equal length, other hashes."""
    strong = ike.Proposal([ike.Transform(ike.ENCR, ike.ENCR_AES_CBC, 256), *ike.CLASSIC.transforms[1:]])
    handshakes = [
        Handshake(seed, proposals=[strong if seed % 3 == 0 else ike.CLASSIC], nat=seed % 2 == 0) for seed in range(30)
    ]
    result = many(*handshakes)
    assert result["encryption"].str.contains("256").to_list() == [seed % 3 == 0 for seed in range(30)]
    assert result["nat"].to_list() == ["initiator" if seed % 2 == 0 else "none" for seed in range(30)]
    assert result["spi_r"].to_list() == [handshake.spi_r.hex() for handshake in handshakes]


def test_more_forms_than_are_compared():
    """A hundred notifies of one length: each is a form of its own."""
    result = many(*(Handshake(seed, notifies=[ike.notify(40960 + seed)]) for seed in range(100)))
    for seed, supports in enumerate(result["initiator_supports"].to_list()):
        named = [name for name in supports if any(str(40960 + item) in name for item in range(100))]
        assert len(named) == 1
        assert str(40960 + seed) in named[0]


def test_a_message_that_the_snapshot_length_cut():
    trace = Trace()
    trace.play(Handshake(1).setup())
    # SA payload and KE payload's beginning are there, the notifies are not
    row = only(analyse(trace.pcap(snaplen=14 + 20 + 8 + 28 + 60)))
    assert row["outcome"] == "completed"
    assert row["nat"] is None
    assert row["key_exchange"] == "ECP-256"
    # a non-ESP marker and the IKE header: the least that counts
    row = only(analyse(trace.pcap(snaplen=14 + 20 + 8 + 4 + 28)))
    assert row["encryption"] is None
    assert (row["outcome"], row["initiator_messages"]) == ("completed", 2)


def test_an_ike_sa_init_that_cannot_be_read():
    """Its only payload says that it is encrypted, which it cannot be."""
    handshake = Handshake(1)
    handshake.message_id[True] = 0
    strange = handshake.encrypted(ike.IKE_SA_INIT, 40, message_id=0)
    trace = Trace()
    trace.message(0, strange)
    row = only(analyse(trace))
    assert (row["initiator_messages"], row["nat"], row["offered"]) == (1, None, [])
