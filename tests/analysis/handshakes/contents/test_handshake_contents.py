"""What the contents of a capture's messages tell of its handshakes."""

import tempfile

import numpy as np
import pytest

from ikeanalyze.analysis.handshakes.contents.handshake_contents import summarise_contents
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.crypto.sk_payload import MessageCipher, encrypt_message
from ikeanalyze.wire.header import Header
from tests.analysis.decrypt_captures import look, make_trace
from tests.analysis.encrypted_handshakes import CHILD, IDENTITIES, PSK, Sa, nameless, table
from tests.analysis.recorded_captures import LOGGED, followup_keys, log_of
from tests.craft import ike
from tests.paths import CAPTURES


@pytest.mark.parametrize("name", LOGGED)
def test_the_parts_add_up_to_the_bytes_of_the_link(name):
    """`look` holds the law; no recorded peer sent anything that there is something to say about."""
    (path,) = CAPTURES.glob(f"{name}.pcap*")
    result = look(path, log_of(name))
    assert not result.findings
    assert result.analysis.handshakes["payload_bytes"].null_count() == 0


def test_findings_have_the_frame_and_the_payload():
    sa = Sa(proposals=(ike.CLASSIC,))
    short = ike.nonce(bytes(5))
    unknown = 200, b"x"
    messages = [
        *sa.init(),
        *sa.authenticated(
            request=[IDENTITIES[True], PSK, *CHILD, short, unknown],
            response=[IDENTITIES[False], PSK, PSK, *CHILD, (ike.NOTIFY, b"\0")],
        ),
    ]
    result = look(make_trace(*messages), table(*sa.key_sets))
    assert result.outcomes == [("established", None)]
    frames = {value.partition(":")[0]: frame for frame, value in result.findings}
    assert frames == {"No": 3, "AUTH": 4, "N": 4}
    assert (3, "No: a nonce of 5 bytes instead of 16 to 256") in result.findings


def test_a_chain_that_breaks_off():
    sa = Sa(proposals=(ike.CLASSIC,))
    messages = sa.init()
    good = sa.authenticated()
    sa.message_id[True] = 2
    first, plaintext = ike.chain([(ike.VENDOR_ID, b"four"), (ike.VENDOR_ID, b"five")])
    for cut in (len(plaintext) - 1, 9):
        sa.inside.clear()
        broken = _encrypted(sa, first, plaintext[:cut])
        result = look(make_trace(*messages, *good, broken), table(*sa.key_sets))
        ((frame, finding),) = result.findings
        assert frame == 5
        assert finding.startswith("payloads: ")
        content = next(item for item in result.contents.all if item.frame == 5)
        assert [payload.body for payload in content.payloads] == [b"four"]


def _encrypted(sa, first, plaintext):

    header = Header(sa.spi_i, sa.spi_r, 0, 0x20, ike.INFORMATIONAL, ike.INITIATOR, 2, 0)
    data = encrypt_message(MessageCipher(sa.key_sets[0]), header, first, plaintext, bytes(16))
    return sa._message([data], ike.INFORMATIONAL, 2, True, False)


def test_successors_by_their_spis():
    seen = []
    with_keys = look(CAPTURES / "pq-followup-ke.pcap", followup_keys())
    handshakes = with_keys.analysis.handshakes

    with tempfile.NamedTemporaryFile("w") as file:
        file.write(followup_keys())
        file.flush()
        read_captures(
            CAPTURES / "pq-followup-ke.pcap",
            ReadOptions(keys=file.name, on_contents=lambda *all_: seen.append(summarise_contents(*all_))),
        )
    (insides,) = seen
    reported = insides.index_rekeyed_sas(np.zeros(len(handshakes), np.int64))
    assert {capture for capture, _, _ in reported} == {0}
    result = {f"{a:016x}{b:016x}": before for (_, a, b), (before, _) in reported.items()}
    spis = [row["spi_i"] + row["spi_r"] for row in handshakes.iter_rows(named=True)]
    assert result == {spis[1]: 0, spis[2]: 1}


def test_without_anything_open_nothing_is_told():
    sa, other = Sa(1), Sa(2)
    result = look(make_trace(*sa.whole()), nameless(*other.key_sets))
    handshakes = result.analysis.handshakes
    for column in ("payload_bytes", "key_exchanges", "certificates", "child_error"):
        assert handshakes[column].to_list() == [None]


def test_clear_messages_alone():
    sa = Sa(1)
    result = look(make_trace(*sa.whole()), payloads=True)
    parts = result.analysis.handshakes["payload_bytes"].to_list()[0]
    assert parts[0]["payload"] == "not read"
    assert result.outcomes == [("completed", None)]
    assert result.analysis.messages["decrypted"].drop_nulls().to_list() == [False] * 4
