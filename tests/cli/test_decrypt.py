"""`ikeanalyze decrypt`: what is written, and that other programs read it."""

import gzip
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random

import dpkt
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ikeanalyze.analysis.decryption.export import plan_decryption_edits
from ikeanalyze.capture.write.rewrite import rewrite_capture
from tests.analysis.decrypt_captures import look
from tests.analysis.encrypted_handshakes import Sa, table
from tests.analysis.recorded_captures import LOGGED, followup_keys, log_of, xauth_keys
from tests.craft import Trace, checksum, ike
from tests.paths import CAPTURES

KEYS = {
    **dict.fromkeys(LOGGED, log_of),
    "pq-followup-ke": lambda name: followup_keys(),
    "ikev1-xauth": lambda name: xauth_keys(),
}


def packets(path):
    """Time in microseconds and bytes of each packet, read by dpkt."""
    with Path(path).open("rb") as file:
        kind = dpkt.pcapng if file.read(4) == b"\n\r\r\n" else dpkt.pcap
        file.seek(0)
        return [(round(float(time) * 1e6), bytes(data)) for time, data in kind.Reader(file)]


@pytest.fixture
def decrypt(run, tmp_path):
    """Decrypts a capture with the texts of key files; the result and the path that was written."""

    def invoke(capture, *texts, out=None, more=()):
        keys = []
        for number, text in enumerate(texts):
            path = tmp_path / f"keys{number}"
            path.write_text(text)
            keys += ["--keys", str(path)]
        target = tmp_path / "out.pcapng" if out is None else out
        return run("decrypt", str(capture), *keys, "-o", str(target), *more), target

    return invoke


def capture_of(name):
    (path,) = CAPTURES.glob(f"{name}.pcap*")
    return path


@pytest.mark.parametrize("name", KEYS)
def test_recorded_captures(decrypt, name):
    """Packets out are packets in, less those whose message went into another; what is not decrypted is as it was."""
    path, text = capture_of(name), KEYS[name](name)
    done, out = decrypt(path, text)
    assert done.exit_code == 0, done.stderr
    before, after = packets(path), packets(out)
    result = look(path, text, cleartext=True)
    frames = result.analysis.frames
    clear = frames.filter(frames["message"].is_in(list(result.analysis.cleartexts)))
    changed = {number - 1 for number in clear["number"]}
    kept = [packet for number, packet in enumerate(before) if number not in changed]
    messages = clear["message"].n_unique()
    assert len(after) == len(before) - (len(changed) - messages)
    assert f"{messages} of {messages} encrypted messages decrypted; {len(after)} packets" in done.stderr
    # what stays is the same bytes at the same times, in the same order
    left = iter(after)
    assert all(any(item == other for other in left) for item in kept)
    # what was decrypted is there, at the time of its last frame
    inside = {text.message for text in result.analysis.cleartexts.values()}
    written = [data for _, data in after if any(data.endswith(message) for message in inside)]
    assert len(written) >= messages


@pytest.mark.parametrize(
    "name", ["pq-mlkem768-psk", "eap-md5-radius", "loss20-classic", "pq-followup-ke", "ikev1-xauth"]
)
def test_any_tshark_reads_the_payloads(decrypt, tshark, name):
    """Without keys: the payloads that it lists for each packet are those that we list for its message."""
    path, text = capture_of(name), KEYS[name](name)
    _, out = decrypt(path, text)
    fields = (
        "frame.number",
        "frame.comment",
        "isakmp.messageid",
        "isakmp.typepayload",
        "_ws.malformed",
        "udp.checksum.status",
    )
    done = tshark.run(
        "-n", "-oudp.check_checksum:TRUE", "-oip.check_checksum:TRUE", "-Tfields", *(f"-e{field}" for field in fields),
        "-Yisakmp", "-Eaggregator=;", capture=out,
    )  # fmt: skip
    assert done.status == 0, done.stderr
    rows = [line.split("\t") for line in done.lines]
    clear = [row for row in rows if row[1]]
    contents = [item for item in look(path, text).contents.all if item.encrypted]
    assert all(row[4] == "" for row in rows)
    assert {row[5] for row in clear} <= {"1"}  # good
    seen = sorted((int(row[2], 16), _outer(row[3])) for row in clear)
    types = [(content.message_id, tuple(payload.type for payload in content.payloads)) for content in contents]
    # each is in the capture at least once, and nothing else is
    assert set(types) == set(seen)


def _outer(listed):
    """Types of a message's own payloads: tshark lists proposals and transforms (2, 3) of an SA with them."""
    return tuple(int(part) for part in listed.split(";") if part and int(part) not in (2, 3))


def test_a_name_of_pcap_files_is_mentioned(decrypt, tmp_path):
    done, out = decrypt(capture_of("psk-classic"), log_of("psk-classic"), out=tmp_path / "out.pcap")
    assert f"ikeanalyze: {out}: written as pcapng, despite its name. editcap -F pcap converts it" in done.stderr
    assert out.read_bytes()[:4] == bytes.fromhex("0a0d0d0a")  # of a section header block
    done, _ = decrypt(capture_of("psk-classic"), log_of("psk-classic"))
    assert "despite its name" not in done.stderr


@pytest.mark.tshark
def test_capinfos_reads_the_output(decrypt):
    path = capture_of("pq-mlkem768-psk")
    _, out = decrypt(path, log_of("pq-mlkem768-psk"))
    done = subprocess.run(["capinfos", "-Mcu", str(out)], capture_output=True, text=True, check=True)
    # two fragments became one message
    assert f"Number of packets:   {len(packets(path)) - 1}" in done.stdout


def test_the_comment_names_the_frames(decrypt, tshark):
    path = capture_of("pq-mlkem768-psk")
    _, out = decrypt(path, log_of("pq-mlkem768-psk"))
    done = tshark.run("-n", "-Tfields", "-eframe.comment", "-Yframe.comment", capture=out)
    assert done.lines == [
        "decrypted by ikeanalyze from frames 4, 5 of the capture; 2 fragments; epoch 0; ICV verified",
        "decrypted by ikeanalyze from frame 6 of the capture; epoch 0; ICV verified",
        "decrypted by ikeanalyze from frame 7 of the capture; epoch 1; ICV verified",
        "decrypted by ikeanalyze from frame 8 of the capture; epoch 1; ICV verified",
    ]


@settings(max_examples=8, phases=(Phase.generate,))
@given(st.integers(0, 2**32), st.floats(0, 0.3))
def test_a_decrypted_capture_agrees_whatever_is_lost(seed, lost):
    """`written == packets - removed + inserted`, and each message in clear is one that was encrypted."""

    rng = Random(seed)
    sas = [Sa(rng, proposals=(proposal,)) for proposal in (ike.HYBRID, ike.CLASSIC)]
    trace = Trace()
    for sa in sas:
        for number, message in enumerate(sa.whole(auth=(3, 2))):
            for again in range(rng.randrange(1, 3)):
                trace.message((number * 100 + again * 40 + rng.randrange(30)) * 10**6, message)
    trace.drop([packet for packet in trace.packets if rng.random() < lost])
    if not trace.packets:
        return
    found = look(trace, table(*(keys for sa in sas for keys in sa.key_sets)), cleartext=True)
    edits = plan_decryption_edits(found.analysis.frames, found.analysis.cleartexts)
    with tempfile.TemporaryDirectory() as directory:
        path, out = trace.write(Path(directory) / "in.pcap"), Path(directory) / "out.pcapng"
        result = rewrite_capture(str(path), str(out), edits.edits)
        before, after = packets(path), packets(out)
    assert result.written == result.packets - result.removed + result.inserted == len(after)
    assert (result.packets, result.unchanged, result.warnings) == (len(before), 0, [])
    untouched = [packet for number, packet in enumerate(before, 1) if number not in edits.edits]
    left = iter(after)
    assert all(any(item == other for other in left) for item in untouched)
    encrypted = {sa.spi_i: sa for sa in sas}
    new = [data[14 + 20 + 8 + 4 :] for _, data in after if (0, data) not in [(0, value) for _, value in untouched]]
    assert len(new) == edits.messages
    for message in new:
        flags, ident = message[19], int.from_bytes(message[20:24], "big")
        put = encrypted[message[:8]].inside[ident, message[18], bool(flags & 8), bool(flags & 0x20)]
        assert (message[16], message[28:]) == (put.first, put.plaintext)


# ---- the command


def test_keys_that_do_not_fit_are_reported(decrypt):
    sa = Sa(1)
    done, out = decrypt(capture_of("psk-classic"), table(*sa.key_sets))
    assert done.exit_code == 1
    assert "the keys decrypt no message, so nothing was written" in done.stderr
    assert not out.exists()


def test_without_any_keys_nothing_is_said_of_those_that_do_not_fit(decrypt):
    done, out = decrypt(capture_of("psk-classic"), "nothing\n", "nothing else\n")
    assert (done.exit_code, out.exists()) == (1, False)
    *files, last = done.stderr.splitlines()
    assert ["contains no key" in line for line in files] == [True, True]
    assert last.endswith(": no file of --keys has usable keys, so nothing was written")


def test_a_key_file_that_is_none(decrypt):
    done, out = decrypt(capture_of("psk-classic"), log_of("psk-classic"), "nothing\n")
    assert done.exit_code == 3
    assert "contains no key" in done.stderr
    assert out.exists()


def test_a_missing_capture_is_an_error(decrypt, tmp_path):
    done, out = decrypt(tmp_path / "none.pcap", log_of("psk-classic"))
    assert done.exit_code == 1
    assert "none.pcap" in done.stderr
    assert not out.exists()


@pytest.mark.parametrize("target", ["capture", "keys"])
def test_an_input_is_not_overwritten(decrypt, tmp_path, target):
    copy = tmp_path / "capture.pcap"
    copy.write_bytes(capture_of("psk-classic").read_bytes())
    done, _ = decrypt(copy, log_of("psk-classic"), out=copy if target == "capture" else tmp_path / "keys0")
    assert done.exit_code == 2
    assert copy.read_bytes() == capture_of("psk-classic").read_bytes()
    assert (tmp_path / "keys0").read_text() == log_of("psk-classic")


def test_standard_input_is_read_once_only(run, tmp_path):
    done = run("decrypt", "-", "--keys", "x", "-o", str(tmp_path / "out"))
    assert done.exit_code == 2
    assert "read twice" in done.stderr


def test_keys_are_required(run, tmp_path):
    assert run("decrypt", "x.pcap", "-o", str(tmp_path / "out")).exit_code == 2


def test_a_missing_output_folder_is_an_error(decrypt, tmp_path):
    done, _ = decrypt(capture_of("psk-classic"), log_of("psk-classic"), out=tmp_path / "none" / "out.pcapng")
    assert done.exit_code in (1, 2)
    assert "Traceback" not in done.stderr


def test_quiet_prints_nothing(decrypt):
    done, _ = decrypt(capture_of("psk-classic"), log_of("psk-classic"), more=["--quiet"])
    assert (done.exit_code, done.stderr, done.stdout) == (0, "", "")


def test_compressed_and_to_standard_output(tmp_path):
    path = tmp_path / "in.pcap.gz"
    path.write_bytes(gzip.compress(capture_of("psk-classic").read_bytes()))
    (tmp_path / "keys").write_text(log_of("psk-classic"))
    command = [
        sys.executable,
        "-m",
        "ikeanalyze",
        "decrypt",
        str(path),
        "--keys",
        str(tmp_path / "keys"),
        "-o",
        "-",
    ]
    done = subprocess.run(command, capture_output=True, check=True)
    (tmp_path / "out").write_bytes(done.stdout)
    assert len(packets(tmp_path / "out")) == len(packets(capture_of("psk-classic")))


def test_seen_in_two_places_is_one_message(decrypt, tmp_path):
    """A capture before and behind a router, as with tcpdump -i any: what is counted are messages, and not sightings."""
    sa = Sa(proposals=(ike.CLASSIC,))
    trace = Trace()
    for number, message in enumerate(sa.whole()):
        for packet in trace.message(number * 10**9, message):
            trace.add(packet.time_ns - trace.start_ns + 50_000, _forwarded(packet.data))
    path = trace.write(tmp_path / "twice.pcap")
    done, out = decrypt(path, table(*sa.key_sets))
    assert "2 of 2 encrypted messages decrypted; 8 packets written of 8" in done.stderr
    # each of the four frames has its message in clear
    changed = [new for old, new in zip(packets(path), packets(out), strict=True) if old != new]
    assert len(changed) == 4


def test_doubled_fragments_are_decrypted(decrypt, tmp_path):
    """1, 1, 2, 2: a receiver needs each fragment once (RFC 7383, section 2.6). Of the response, one copy is cut off."""
    sa = Sa(proposals=(ike.CLASSIC,))
    *inits, request, response = sa.whole(auth=(2, 2))
    trace = Trace()
    trace.play(inits)
    for copy, (message, number) in enumerate(
        [(message, number) for message in (request, response) for number in (1, 2)]
    ):
        for again in range(1 if (message, number) == (response, 2) else 2):
            trace.message((200 + copy * 20 + again * 5) * 10**6, message, only=[number])
    done, _ = decrypt(trace.write(tmp_path / "doubled.pcap"), table(*sa.key_sets))
    # the two whole messages of the request, and one of the response; the seven fragments are five transmissions
    assert " 5 of 5 encrypted messages decrypted; 6 packets written of 9\n" in done.stderr
    assert "1 repeated fragment is left encrypted: other packets have the decrypted messages" in done.stderr


def _forwarded(frame):
    """With a lower TTL, as a router sends it on."""

    head = frame[14:22] + bytes([frame[22] - 1]) + frame[23:24] + b"\0\0" + frame[26:34]
    total = checksum.internet(head).to_bytes(2, "big")
    return frame[:14] + head[:10] + total + head[12:] + frame[34:]


def test_only_the_owner_can_read_a_new_copy(decrypt, tmp_path):
    """It has what was encrypted. A file that is replaced keeps its permissions."""
    capture, log = CAPTURES / "psk-classic.pcap", log_of("psk-classic")
    done, out = decrypt(capture, log)
    assert (done.exit_code, stat.S_IMODE(out.stat().st_mode)) == (0, 0o600)
    existing = tmp_path / "existing.pcapng"
    existing.touch()
    existing.chmod(0o640)
    done, out = decrypt(capture, log, out=existing)
    assert (done.exit_code, stat.S_IMODE(out.stat().st_mode)) == (0, 0o640)
    assert out.stat().st_size > 0


@pytest.mark.parametrize("name", ["loss20-classic", "psk-classic", "tcp-psk"])
def test_a_report_of_the_copy_says_that_it_does_not_read_the_contents(run, tmp_path, name, tshark):
    """tshark counts the IKE_AUTH requests (exchange type 35) without SK (46) and SKF (53) payload."""
    copy = tmp_path / "clear.pcapng"
    keys = CAPTURES / f"{name}.keys.json"
    assert run("decrypt", str(CAPTURES / f"{name}.pcap"), "--keys", str(keys), "-o", str(copy)).exit_code == 0
    requests = "isakmp.exchangetype == 35 && isakmp.flag_r == 0 && !(isakmp.typepayload in {46, 53})"
    frames = tshark.run("-n", "-Y", requests, "-Tfields", "-eframe.number", capture=copy).lines
    subject = f"{len(frames)} IKE_AUTH requests are" if len(frames) > 1 else "an IKE_AUTH request is"
    warning = f"packet {frames[0]}: {subject} not encrypted, as in a decrypted copy of a capture: outcome and"
    for more in ((), ("--max-memory", "1M", "--jobs", "1")):
        done = run("report", str(copy), *more)
        assert warning in done.stderr
        assert "(guess" not in done.stdout
        assert " a guess" not in done.stdout
    assert "not encrypted" not in run("report", str(CAPTURES / f"{name}.pcap")).stderr


@pytest.mark.turns
@pytest.mark.parametrize(
    "name", ["faults/ikev1-wrong-network", "faults/ikev1-other-esp-proposal", "lab/ikev1_mode-aggressive"]
)
def test_a_report_of_a_copy_of_ikev1_says_that_it_is_one(run, tmp_path, name, tshark):
    """tshark counts messages without the flag E: of Quick Mode (32), and of Main Mode (2) if they begin with ID (5).

    They must be encrypted: RFC 2409, 5.1, 5.4 and 5.5.
    """
    copy, capture = tmp_path / "clear.pcapng", CAPTURES / f"{name}.pcapng"
    keys = capture.with_suffix(".keys.json")
    assert run("decrypt", str(capture), "--keys", str(keys), "-o", str(copy)).exit_code == 0
    clear = "isakmp.version == 0x10 && isakmp.flag_e == 0"
    wanted = f"{clear} && (isakmp.exchangetype == 32 || (isakmp.exchangetype == 2 && isakmp.nextpayload == 5))"
    frames = tshark.run("-n", "-Y", wanted, "-Tfields", "-eframe.number", capture=copy).lines
    assert len(frames) > 1
    warning = f"packet {frames[0]}: {len(frames)} messages of IKEv1 that must be encrypted are not encrypted"
    for more in ((), ("--max-memory", "1M", "--jobs", "1")):
        assert warning in run("report", str(copy), *more).stderr
    assert "not encrypted" not in run("report", str(capture)).stderr
