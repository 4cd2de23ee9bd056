"""Numbers of handshakes and packets, and message IDs, are written as commands and Wireshark's filters take them."""

import re
from pathlib import Path
from random import Random

import pytest

from tests.craft import MS, Handshake, Trace, ikev1

COUNT = 1001


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """More than 1,000 refused handshakes, of two packets each."""
    trace = Trace()
    for seed in range(COUNT):
        trace.play(Handshake(seed).refused(), at=seed * 50 * MS)
    return str(trace.write(tmp_path_factory.mktemp("many") / "many.pcap"))


def test_the_number_of_a_handshake_is_that_of_every_command(run, many, tmp_path):
    report = run("report", many, "--no-limit").stdout
    number = re.findall(r"^ +(\S+) .* failed: NO_PROPOSAL", report, re.MULTILINE)[-1]
    assert number == str(COUNT)
    for command in ("report", "ladder"):
        done = run(command, many, "--handshake", number)
        assert (done.exit_code, f"Handshake {number}: failed: NO_PROPOSAL_CHOSEN\n" in done.stdout) == (0, True)
    assert f"Handshake {number}: failed" in run("report", many, "--filter", f"#={number}").stdout
    done = run("extract", many, "--handshake", number, "-o", str(tmp_path / "one.pcapng"))
    assert done.exit_code == 0


def test_the_number_of_a_packet_is_that_of_wireshark(run, many, tmp_path, tshark):
    report = run("report", many, "--handshake", str(COUNT)).stdout
    (number,) = re.findall(r"IKE_SA_INIT 0 response of the responder, packet (\S+): certain", report)
    (spi,) = re.findall(r"SPIi, SPIr +(\w+),", report)
    fields = ("-n", "-Tfields", "-eisakmp.ispi")
    assert tshark.run("-Y", f"frame.number == {number}", *fields, capture=Path(many)).lines == [spi]
    one = tmp_path / "one.pcapng"
    run("extract", many, "--handshake", str(COUNT), "--annotate", "-o", str(one))
    comments = tshark.run("-n", "-Tfields", "-eframe.comment", capture=one).lines
    assert comments[-1].endswith(f"packet {number} of the capture")


def test_message_ids_are_the_same_in_report_and_ladder_as_in_wireshark(run, tmp_path, tshark):
    rng, trace = Random(1), Trace()
    phase1 = ikev1.main_mode(rng)
    for index, message in enumerate([*phase1, *ikev1.quick_mode(rng, phase1[1][:16])]):
        trace.send(index * 20 * MS, message, from_initiator=index % 2 == 0)
    capture = str(trace.write(tmp_path / "ikev1.pcap"))
    fields = ("-n", "-Y", "isakmp.exchangetype == 32", "-Tfields", "-eisakmp.messageid")
    (message_id,) = {int(line, 16) for line in tshark.run(*fields, capture=Path(capture)).lines}
    assert re.findall(r"Quick Mode +(\S+) .* in ", run("report", capture).stdout) == [str(message_id)] * 2
    assert re.findall(r"Quick Mode (\S+)", run("ladder", capture).stdout) == [str(message_id)] * 3
