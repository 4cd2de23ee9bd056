"""Encrypted messages and the keys that fit: what comes out is what was put in, whatever happened on the way."""

import json
from dataclasses import replace
from random import Random

import polars as pl
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec import structs

import ikeanalyze
from ikeanalyze.keys.key_set import KeySet, Origin, Phase1Key
from ikeanalyze.keys.key_table import NO_KEYS, CaptureKeys
from tests.analysis.daemon_log_payloads import differences, generated, looked_into
from tests.analysis.decrypt_captures import is_what_was_encrypted, look, make_trace
from tests.analysis.encrypted_handshakes import CHILD, ENCR_AES_CTR, IDENTITIES, PSK, Sa, nameless, table
from tests.analysis.recorded_captures import LOGGED, log_of
from tests.craft import MS, SECOND, Trace, ike
from tests.paths import CAPTURES

#: Two additional key exchanges, so three epochs.
NONE_FITS = "none of the keys fits any of its encrypted messages"
TWICE = ike.Proposal([*ike.HYBRID.transforms, ike.Transform(ike.ADDKE2, ike.ML_KEM_512)])


# ---- against what daemons say


@pytest.mark.parametrize("name", LOGGED)
def test_payloads_are_those_of_the_daemons_log(name):
    """The log of one side has what it made and what it read; of each message the one or the other."""
    (path,) = CAPTURES.glob(f"{name}.pcap*")
    analysis = ikeanalyze.read(path, keys=CAPTURES / f"{name}.charon.log.gz")
    assert not analysis.warnings
    assert not analysis.messages.filter(pl.col("decrypted").not_()).height
    ours, theirs = looked_into(analysis.messages), generated(log_of(name), also="parsed")
    alone, unseen = differences(ours, theirs)
    # retransmissions are parsed again, and the initiator's last words are not always in the capture
    assert not [message for message in alone if message not in LOST.get(name, ())]
    assert {message[0] for message in set(unseen) - set(ours)} <= {"INFORMATIONAL"}


#: Responses that never reached the daemon whose log there is: it did not parse them.
LOST = {
    "loss20-classic": [("INFORMATIONAL", "response", 2, ())] * 25,
}


def test_25_handshakes_have_keys_of_their_own():
    analysis = ikeanalyze.read(CAPTURES / "loss20-classic.pcap", keys=CAPTURES / "loss20-classic.charon.log.gz")
    assert analysis.handshakes["outcome"].to_list() == ["established"] * 25
    assert analysis.messages["decrypted"].drop_nulls().all()
    assert set(analysis.handshakes["auth_initiator"]) == {"ecdsa-384"}


@pytest.mark.parametrize("form", [table, nameless])
def test_messages_of_both_epochs_are_decrypted(form):
    sa = Sa(proposals=(TWICE,))
    result = look(make_trace(*sa.whole()), form(*sa.key_sets))
    is_what_was_encrypted(result, [sa])
    epochs = result.analysis.messages.select("type", "epoch").unique(maintain_order=True).rows()
    assert epochs == [
        ("IKE_SA_INIT", None),
        ("IKE_INTERMEDIATE", 0),
        ("IKE_INTERMEDIATE", 1),
        ("IKE_AUTH", 2),
    ]
    assert result.analysis.exchanges["epoch"].to_list() == [None, 0, 1, 2]
    assert result.outcomes == [("established", None)]
    assert not result.findings


# ---- laws


@st.composite
def conversations(draw):
    """A few IKE SAs of the same hosts, interleaved, in fragments that are lost, repeated and reordered."""
    rng = Random(draw(st.integers(0, 2**32)))
    sas = [
        Sa(rng, proposals=(draw(st.sampled_from([ike.HYBRID, ike.CLASSIC, TWICE])),))
        for _ in range(draw(st.integers(1, 3)))
    ]
    trace = Trace()
    for sa in sas:
        time = draw(st.integers(0, 50)) * MS
        count = draw(st.integers(1, 4))
        for message in [
            *sa.whole(fragments=(2, 1), auth=(count, draw(st.integers(1, 4)))),
            *sa.swap(ike.INFORMATIONAL, [ike.delete()], []),
        ]:
            time += draw(st.integers(1, 30)) * MS
            trace.message(time, message)
            for _ in range(draw(st.integers(0, 2))):
                time += draw(st.integers(100, 900)) * MS
                trace.message(time, message)
    lost = draw(st.floats(0, 0.4))
    trace.drop([packet for packet in trace.packets if rng.random() < lost])
    swapped = trace.packets
    for at in range(0, len(swapped) - 1, 2):
        if draw(st.booleans()):
            swapped[at], swapped[at + 1] = swapped[at + 1], swapped[at]
    return sas, trace


@settings(max_examples=20, phases=(Phase.generate,))  # making it smaller would take minutes
@given(conversations(), st.randoms(use_true_random=False))
def test_what_is_open_is_what_was_encrypted(conversation, rng):
    sas, trace = conversation
    known = [keys for sa in sas for keys in sa.key_sets if rng.random() < 0.8]
    wrong = [keys for sa in (Sa(99), Sa(98, proposals=(ike.CLASSIC,))) for keys in sa.key_sets]
    mixed = [*known, *wrong]
    if not trace.packets or not mixed:
        return
    result = look(trace, table(*mixed), nameless(*wrong))
    is_what_was_encrypted(result, sas, known)
    _all_that_is_there_is_open(result, sas, known)


def _all_that_is_there_is_open(found, sas, known):
    """A message is open if the capture has all of it, in however many transmissions, and the keys are there."""
    usable = {(keys.spi_i, keys.sk_ei) for keys in known}
    ours = found.analysis.messages.filter(pl.col("type") != "IKE_SA_INIT")
    handshakes = dict(found.analysis.handshakes.select("handshake", "spi_i").rows())
    spis = {sa.spi_i.hex(): sa for sa in sas}
    frames = found.analysis.frames
    for row in ours.filter(pl.col("transmission") == 1).iter_rows(named=True):
        sa = spis[handshakes[row["handshake"]]]
        same = ours.filter(
            pl.col("handshake") == row["handshake"], pl.col("exchange") == row["exchange"],
            pl.col("kind") == row["kind"],
        )["message"]  # fmt: skip
        there = frames.filter(pl.col("message").is_in(same.implode()))["fragment"].unique()
        whole = row["fragments"] is None or len(there) == row["fragments"]
        put = next(
            put
            for (ident, _, initiator, response), put in sa.inside.items()
            if ident == row["message_id"]
            and initiator == (row["sender"] == "initiator")
            and response == (row["kind"] == "response")
        )
        keys = sa.key_sets[put.epoch]
        assert row["decrypted"] == (whole and (keys.spi_i, keys.sk_ei) in usable)


@settings(max_examples=10)
@given(st.permutations(range(4)), st.integers(0, 3))
def test_fragments_in_any_order(order, again):
    sa = Sa(proposals=(ike.CLASSIC,))
    *inits, request, response = sa.whole(auth=(4, 1))
    trace = make_trace(*inits)
    for step, number in enumerate([*order, again]):
        trace.message(SECOND + step * 20 * MS, request, only=[number + 1], gap=0)
    trace.message(2 * SECOND, response)
    result = look(trace, table(*sa.key_sets))
    is_what_was_encrypted(result, [sa])
    assert len(result.opened()) == 2


def test_fragments_of_several_transmissions_make_one_message():
    sa = Sa(proposals=(ike.CLASSIC,))
    *inits, request, response = sa.whole(auth=(4, 1))
    trace = make_trace(*inits)
    trace.message(SECOND, request, only=[1, 2, 4])
    trace.message(2 * SECOND, request, only=[2, 3])
    trace.message(3 * SECOND, response)
    result = look(trace, table(*sa.key_sets))
    is_what_was_encrypted(result, [sa])
    assert result.analysis.messages["decrypted"].to_list() == [None, None, True, True, True]
    content = result.opened()[sa.spi_i.hex(), (1, ike.IKE_AUTH, True, False)]
    datagrams = result.conversation.datagrams
    assert [int(datagrams.fragment[row]) for row in content.datagrams] == [1, 2, 3, 4]
    # the third fragment, which came last, is the seventh frame
    assert content.frame == 7


def test_missing_fragments_are_named():
    sa = Sa(proposals=(ike.CLASSIC,))
    *inits, request, response = sa.whole(auth=(8, 1))
    trace = make_trace(*inits)
    trace.message(SECOND, request, only=[1, 3, 4, 8])
    trace.message(3 * SECOND, response)
    result = look(trace, table(*sa.key_sets))
    what = "fragments 2, 5 to 7 of 8 are missing: the message cannot be reassembled"
    assert (3, what) in result.findings
    assert result.analysis.messages["decrypted"].to_list() == [None, None, False, True]
    # the response is enough of a proof
    assert result.outcomes == [("established", None)]


def test_the_longest_runs_of_missing_fragments():
    sa = Sa(proposals=(ike.CLASSIC,))
    *inits, request, response = sa.whole(auth=(20, 1))
    trace = make_trace(*inits)
    trace.message(SECOND, request, only=range(2, 21, 2))
    trace.message(3 * SECOND, response)
    result = look(trace, table(*sa.key_sets))
    (what,) = [value for _, value in result.findings if "reassembled" in value]
    assert what.startswith("fragments 1, 3, 5, 7, 9 and 5 more ranges of 20 are missing")


def test_a_message_that_is_cut_anew():
    """RFC 7383, section 2.5.1: smaller fragments, of which one of the larger ones comes late."""
    sa = Sa(proposals=(ike.CLASSIC,))
    inits = sa.init()
    inside = [IDENTITIES[True], PSK, *CHILD]
    larger, smaller = (sa.put(ike.IKE_AUTH, inside, fragments=count) for count in (2, 4))
    response = sa.put(ike.IKE_AUTH, [IDENTITIES[False], PSK, *CHILD], from_initiator=False, response=True,
                      message_id=1)  # fmt: skip
    trace = make_trace(*inits)
    trace.message(SECOND, larger, only=[1])
    trace.message(2 * SECOND, smaller, only=[1, 2, 3])
    trace.message(2 * SECOND + 50 * MS, larger, only=[2])
    trace.message(2 * SECOND + 90 * MS, smaller, only=[4])
    trace.message(3 * SECOND, response)
    result = look(trace, table(*sa.key_sets))
    is_what_was_encrypted(result, [sa])
    content = result.opened()[sa.spi_i.hex(), (1, ike.IKE_AUTH, True, False)]
    datagrams = result.conversation.datagrams
    assert [int(datagrams.fragment[row]) for row in content.datagrams] == [1, 2, 3, 4]
    assert {int(datagrams.fragments[row]) for row in content.datagrams} == {4}


def test_clear_payloads_before_the_encrypted_one():
    sa = Sa(proposals=(ike.CLASSIC,))
    notify = ike.notify(ike.COOKIE, b"clear")
    messages = [
        *sa.init(),
        sa.put(ike.IKE_AUTH, [IDENTITIES[True], PSK, *CHILD], clear=[notify, notify]),
        sa.put(ike.IKE_AUTH, [IDENTITIES[False], PSK], from_initiator=False, response=True, message_id=1),
        # this one is clear altogether
        sa.clear(ike.INFORMATIONAL, [notify], message_id=2),
    ]
    result = look(make_trace(*messages), table(*sa.key_sets))
    is_what_was_encrypted(result, [sa])
    assert [item.clear for item in result.contents.all if item.encrypted] == [2, 0]
    assert result.contents.encrypted.tolist() == [False, False, True, True, False]
    assert not result.findings


# ---- some keys, wrong keys, no keys


def test_keys_of_one_of_several_ike_sas():
    sas = [Sa(number) for number in (1, 2, 3)]
    trace = Trace()
    for number, sa in enumerate(sas):
        trace.play(sa.whole(), at=number * 5 * MS)
    result = look(trace, table(*sas[1].key_sets))
    is_what_was_encrypted(result, sas[1:2])
    assert result.outcomes == [("completed", None), ("established", None), ("completed", None)]
    assert result.analysis.handshakes["payload_bytes"].is_null().to_list() == [True, False, True]
    assert not result.findings
    # the clear messages of those that nothing is open of are not looked into
    looked = result.analysis.messages.filter(pl.col("payloads").is_not_null())
    assert looked["handshake"].unique().to_list() == [2]
    every = look(trace, table(*sas[1].key_sets), payloads=True)
    assert every.analysis.messages.filter(pl.col("payloads").is_not_null()).height == 6 + 2 * 2


def test_a_wrong_file_among_right_ones():
    sa, other = Sa(1), Sa(2)
    found = look(make_trace(*sa.whole()), nameless(*other.key_sets), table(*sa.key_sets), "no key at all\n")
    is_what_was_encrypted(found, [sa])
    assert found.outcomes == [("established", None)]
    (skipped,) = found.analysis.skipped
    assert skipped.reason.startswith("contains no key")


@pytest.mark.parametrize("named", [True, False])
def test_wrong_keys_decrypt_nothing(named):
    sa, other = Sa(1), Sa(2)
    text = table(*other.key_sets) if named else nameless(*other.key_sets)
    result = look(make_trace(*sa.whole()), text)
    [(frame, text)] = result.findings
    assert (frame, text.startswith(NONE_FITS)) == (None, True)
    assert result.outcomes == [("completed", None)]
    assert set(result.analysis.messages["decrypted"]) == {None, False}


def test_wrong_keys_with_the_right_names_open_nothing():
    sa, other = Sa(1), Sa(2)
    text = table(*other.key_sets).replace(other.spi_i.hex(), sa.spi_i.hex())
    result = look(make_trace(*sa.whole()), text.replace(other.spi_r.hex(), sa.spi_r.hex()))
    assert not result.opened()
    [(frame, text)] = result.findings
    assert (frame, text.startswith(NONE_FITS)) == (None, True)


@pytest.mark.parametrize("cipher", [ike.ENCR_AES_CBC, ENCR_AES_CTR])
@pytest.mark.parametrize("fragments", [1, 3])
@pytest.mark.parametrize(("wrong", "right"), [("sk_ei", "sk_ai"), ("sk_er", "sk_ar")])
def test_a_wrong_encryption_key_with_the_right_integrity_key_is_named(cipher, fragments, wrong, right):
    proposal = ike.Proposal([ike.Transform(ike.ENCR, cipher, 128), *ike.CLASSIC.transforms[1:]])
    sa = Sa(proposals=(proposal,))
    messages = sa.whole(auth=(fragments, fragments))
    (keys,) = sa.key_sets
    changed = bytes(byte ^ 0x55 for byte in getattr(keys, wrong))
    result = look(make_trace(*messages), table(structs.replace(keys, **{wrong: changed})))
    ((frame, text),) = result.findings
    assert frame == (3 if wrong == "sk_ei" else 3 + fragments)
    name, integrity = ("SK_" + key[3:] for key in (wrong, right))
    assert f":1: {name} of IKE SA {sa.spi_i.hex()}:{sa.spi_r.hex()} is wrong: the integrity check of 1 message" in text
    assert f"passes with {integrity}, but decryption gives no valid padding or payloads" in text
    assert not any(key.hex() in text for key in (changed, keys.sk_ei, keys.sk_er, keys.sk_ai, keys.sk_ar))
    # the other side's message is decrypted, and what the wrong key gives decides nothing
    assert len(result.opened()) == 1
    assert result.outcomes == [("established" if wrong == "sk_ei" else "completed", None)]


def test_a_wrong_key_of_an_aead_cipher_fails_the_integrity_check():
    """It has one key for both: nothing shows which part is wrong."""
    gcm = [ike.Transform(ike.ENCR, ike.ENCR_AES_GCM_16, 256), *ike.CLASSIC.transforms[2:]]
    sa = Sa(proposals=(ike.Proposal(gcm),))
    messages = sa.whole()
    (keys,) = sa.key_sets
    result = look(make_trace(*messages), table(structs.replace(keys, sk_ei=bytes(36))))
    assert result.findings == [(3, "1 message could not be decrypted, although other messages of this IKE SA were")]


def test_a_message_that_no_key_fits_is_told_of():
    sa, other = Sa(1), Sa(2)
    messages = sa.whole()
    sa.message_id[True] = 9
    strange = sa.put(ike.INFORMATIONAL, [ike.delete()], keys=other.key_sets[0])
    result = look(make_trace(*messages, strange), table(*sa.key_sets))
    assert (8, "1 message could not be decrypted, although other messages of this IKE SA were") in result.findings


BEFORE, AFTER = "the keys from before its last", "the keys from after its last"


@pytest.mark.parametrize(
    ("known", "frame", "count", "missing"),
    [
        ({1, 2}, 3, 2, BEFORE),
        ({0, 2}, 6, 2, BEFORE),
        ({2}, 3, 4, BEFORE),
        ({0, 1}, 9, 2, AFTER),
        ({0}, 6, 4, "the keys from before and after its last"),
    ],
)
def test_the_missing_keys_of_an_ike_sa_whose_keys_change_are_named(known, frame, count, missing):
    """As with Wireshark's table, which often has one key set for each IKE SA."""
    sa = Sa(proposals=(TWICE,))
    messages = sa.whole()  # IKE_SA_INIT: frames 1, 2; IKE_INTERMEDIATE: 3 to 5 and 6 to 8; IKE_AUTH: from 9
    assert [len(message.datagrams) for message in messages[:6]] == [1, 1, 2, 1, 2, 1]
    result = look(make_trace(*messages), table(*(sa.key_sets[epoch] for epoch in known)))
    text = f"{count} messages could not be decrypted, although other messages of this IKE SA were"
    assert result.findings == [(frame, f"{text}: {missing} IKE_INTERMEDIATE exchange are missing or wrong")]


def test_no_keys_are_missing_if_others_of_the_same_were_decrypted():
    sa, other = Sa(1, proposals=(TWICE,)), Sa(2)
    messages = sa.whole()
    strange = sa.put(ike.INFORMATIONAL, [ike.delete()], keys=other.key_sets[0])
    result = look(make_trace(*messages, strange), table(*sa.key_sets))
    assert [text for _, text in result.findings] == [
        "1 message could not be decrypted, although other messages of this IKE SA were"
    ]


@pytest.mark.parametrize(("missing", "epochs"), [(0, {2}), (1, {0, 2}), (2, {0, 1})])
def test_the_epoch_does_not_depend_on_the_key_sets_that_are_there(missing, epochs):
    sa = Sa(proposals=(TWICE,))
    messages = sa.whole()
    if missing == 0:
        epochs = {1, 2}
    known = [keys for epoch, keys in enumerate(sa.key_sets) if epoch != missing]
    for form in (table, nameless):
        result = look(make_trace(*messages), form(*known))
        is_what_was_encrypted(result, [sa])
        assert {item.epoch for item in result.opened().values()} == epochs


def test_the_epoch_where_exchanges_are_not_in_the_capture():
    sa = Sa(proposals=(TWICE,))
    messages = sa.whole()
    # the first IKE_INTERMEDIATE exchange was lost by the capture
    result = look(make_trace(*messages[:2], *messages[4:]), table(*sa.key_sets))
    is_what_was_encrypted(result, [sa])
    # nor is IKE_SA_INIT there: the place in the file tells, if the file says of which IKE SA the keys are
    result = look(make_trace(*messages[4:]), table(*sa.key_sets))
    is_what_was_encrypted(result, [sa])
    rest = look(make_trace(*messages[4:]), _ours(sa.key_sets))
    assert {item.epoch for item in rest.opened().values()} == {1, None}
    assert rest.analysis.exchanges["epoch"].to_list() == [1, None]


def _ours(key_sets):
    """As `nameless`, with the algorithms, which the capture does not have."""

    return json.dumps(
        {
            "schema": "ikeanalyze.keys/1",
            "key_sets": [
                {
                    "encryption": "AES-GCM-16",
                    "integrity": "NONE",
                    "sk_ei": k.sk_ei.hex(),
                    "sk_er": k.sk_er.hex(),
                }
                for k in key_sets
            ],
        }
    )


def test_keys_that_can_open_nothing_are_told_of_once():
    sa = Sa(1, proposals=(ike.CLASSIC,))
    result = look(make_trace(*sa.whole()), _short(sa), table(*sa.key_sets))
    ((frame, finding),) = result.findings
    assert frame == 3
    assert finding.endswith("SK_a has 31 bytes, HMAC-SHA2-256-128 takes 32")
    assert result.outcomes == [("established", None)]


def _short(sa):

    (keys,) = sa.key_sets
    return json.dumps(
        {
            "schema": "ikeanalyze.keys/1",
            "key_sets": [
                {
                    "spi_i": keys.spi_i.hex(), "spi_r": keys.spi_r.hex(), "encryption": "AES-CBC",
                    "integrity": "HMAC-SHA2-256-128", "sk_ei": keys.sk_ei.hex(), "sk_er": keys.sk_er.hex(),
                    "sk_ai": keys.sk_ai.hex()[:-2], "sk_ar": keys.sk_ar.hex()[:-2],
                }
            ],
        }
    )  # fmt: skip


# ---- cut captures


def test_messages_that_the_capture_cut():
    sa = Sa(proposals=(ike.CLASSIC,))
    messages = [*sa.whole(), *sa.swap(ike.INFORMATIONAL, [ike.delete()], [])]
    result = look(make_trace(*messages).pcap(snaplen=150), table(*sa.key_sets))
    is_what_was_encrypted(result, [sa])
    assert result.analysis.messages["decrypted"].to_list() == [None, None, False, False, True, True]
    assert (
        3,
        "2 encrypted messages are truncated in the capture and cannot be decrypted",
    ) in result.findings
    init = len(messages[0].datagrams[0])
    assert (1, f"payloads: only {150 - 42} of {init} bytes are in the capture") in result.findings
    assert not [value for _, value in result.findings if "no key" in value]
    assert result.outcomes == [("completed", None)]


def test_keys_may_fit_messages_that_the_capture_cut():
    sa = Sa(proposals=(ike.CLASSIC,))
    result = look(make_trace(*sa.whole()).pcap(snaplen=150), table(*sa.key_sets))
    assert "2 encrypted messages are truncated in the capture and cannot be decrypted" in dict(result.findings).values()
    assert not [text for _, text in result.findings if text.startswith(NONE_FITS)]


def test_keys_may_fit_messages_that_lack_fragments():
    sa = Sa()
    trace = Trace()
    request, response, *later = sa.whole(auth=(3, 3))
    trace.play([request, response, *(replace(message, datagrams=message.datagrams[:-1]) for message in later)])
    assert [text for _, text in look(trace, table(*sa.key_sets)).findings if text.startswith(NONE_FITS)] == []


def send_fragments(order, *, other=None):
    """A request in three fragments, in this order; negative: the one of `other`, or a copy whose ICV is wrong."""
    sa = Sa(proposals=(ike.CLASSIC,))
    *inits, request, response = sa.whole(auth=(3, 1))
    forged = replace(request, datagrams=[data[:-1] + bytes([data[-1] ^ 1]) for data in request.datagrams])
    if other is not None:
        forged = other(sa)
    trace = make_trace(*inits)
    for step, number in enumerate(order):
        trace.message(SECOND + step * 5 * MS, request if number > 0 else forged, only=[abs(number)], gap=0)
    trace.message(2 * SECOND, response)
    return sa, trace


@pytest.mark.parametrize(
    "order", [(1, -2, 2, 3), (1, -2, 3, 2), (-2, 1, 2, 3), (1, 2, -3, 3), (1, -1, 2, 3), (1, 1, -2, 2, 2, 3, 3)]
)
def test_forged_fragments_are_dropped(order):
    """RFC 7383, section 2.6: a fragment whose ICV is wrong is discarded, and the others make the message."""
    sa, trace = send_fragments(order)
    result = look(trace, table(*sa.key_sets))
    is_what_was_encrypted(result, [sa])
    assert sorted(len(content.datagrams) for content in result.opened().values()) == [1, 3]
    assert not [text for _, text in result.findings if "decrypted" in text or "reassembled" in text]


def test_fragments_of_other_contents_are_not_mixed():
    """The sender made another message with the same ID, as it must not (RFC 7296, section 2.1): no part tells which."""

    def make_other(sa):
        payloads = [IDENTITIES[True], ike.auth(2, bytes([1]) * 32), *CHILD]
        return sa.put(ike.IKE_AUTH, payloads, message_id=1, fragments=3)

    sa, trace = send_fragments((1, -2, 2, 3), other=make_other)
    result = look(trace, table(*sa.key_sets))
    assert [content.response for content in result.opened().values()] == [True]
    assert any("the message cannot be reassembled" in text for _, text in result.findings)


def test_one_missing_fragment_is_no_count():
    sa = Sa(proposals=(ike.CLASSIC,))
    *inits, request, response = sa.whole(auth=(3, 1))
    trace = make_trace(*inits)
    trace.message(SECOND, request, only=[1, 3])
    trace.message(3 * SECOND, response)
    what = "fragment 2 of 3 is missing: the message cannot be reassembled"
    assert (3, what) in look(trace, table(*sa.key_sets)).findings


@pytest.mark.parametrize("size", [60, 96, 128, 200, 400])
def test_whatever_the_capture_cut(size):
    sa = Sa()
    result = look(make_trace(*sa.whole(auth=(3, 2))).pcap(snaplen=size), table(*sa.key_sets))
    is_what_was_encrypted(result, [sa])


# ---- keys of rekeyed IKE SAs


def test_a_rekeyed_ike_sa_whose_keys_say_nothing():
    """Which algorithms the keys are for is in the CREATE_CHILD_SA exchange alone (RFC 7296, section 2.18)."""
    first = Sa(1, proposals=(ike.CLASSIC,))
    second = Sa(2, proposals=(ike.CLASSIC,))
    offer = [
        [ike.sa([ike.Proposal(ike.CLASSIC.transforms, spi=spi)]), ike.nonce(bytes(32)), ike.ke(19, bytes(64))]
        for spi in (second.spi_i, second.spi_r)
    ]
    messages = [*first.whole(), *first.swap(ike.CREATE_CHILD_SA, *offer)]
    second.moved = True
    trace = make_trace(*messages, *second.swap(ike.INFORMATIONAL, [ike.delete()], []))
    result = look(trace, nameless(*first.key_sets, *second.key_sets))
    is_what_was_encrypted(result, [first, second])
    assert result.analysis.messages["decrypted"].drop_nulls().all()
    assert result.outcomes == [("established", None), ("established", "REKEYED")]
    assert result.analysis.handshakes["replaces"].to_list() == [None, 1]


# ---- Keys


def test_the_spis_that_keys_are_for():
    named = KeySet(
        origin=Origin("x", 1), spi_i=bytes(7) + b"\1", spi_r=None, encryption=12, integrity=12, sk_ei=b"", sk_er=b""
    )
    phase1 = Phase1Key(Origin("x", 1), bytes(7) + b"\2", b"")
    assert CaptureKeys([named], [phase1]).get_spis() == {1, 2}
    assert CaptureKeys([named, structs.replace(named, spi_i=None)]).get_spis() is None
    assert NO_KEYS.get_spis() == frozenset()
    assert not NO_KEYS
    assert CaptureKeys([named])
    assert CaptureKeys((), [phase1])
