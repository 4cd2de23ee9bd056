from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.cli.captures.report import drop_inferred_payloads
from ikeanalyze.render.report import document
from tests.paths import CAPTURES


def numbers(analysis):
    """The handshakes without the names of payloads, and without whether what nobody opened was opened."""
    handshakes = list(document.build_handshakes(analysis))
    for handshake in handshakes:
        for exchange in handshake["exchanges"]:
            del exchange["decrypted"]
            for side in ("request", "response"):
                if exchange[side]:
                    del exchange[side]["payloads"]
    return handshakes, document.compute_totals(analysis)


def test_numbers_are_those_of_a_plain_report():
    capture = CAPTURES / "pq-loss15.pcap"
    plain, named = read_captures(capture), drop_inferred_payloads(read_captures(capture, ReadOptions(payloads=True)))
    assert numbers(named) == numbers(plain)
    assert named.messages["payloads"].null_count() < plain.messages["payloads"].null_count()


def test_what_keys_tell_stays():
    capture, keys = CAPTURES / "pq-mlkem768-psk.pcap", CAPTURES / "pq-mlkem768-psk.keys.json"
    assert numbers(drop_inferred_payloads(read_captures(capture, ReadOptions(keys=keys, payloads=True)))) == numbers(
        read_captures(capture, ReadOptions(keys=keys))
    )
