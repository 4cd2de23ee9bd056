"""The test vectors of key_changes.toml: Python, the compiled core and the plugin give each message the same epoch."""

import json
import tomllib
from pathlib import Path
from random import Random

import pytest

import ikeanalyze
from ikeanalyze.analysis.verification.verify import verify_capture
from tests.craft import Handshake, ike
from tests.dissectors.encryption import AUTH, AUTH_RESPONSE, EncryptedSa, captured, init
from tests.dissectors.run_plugin import fields

CASES = tomllib.loads((Path(__file__).parent / "key_changes.toml").read_text())["case"]
NOTIFIES = {"USE_PPK_INT": 16445, "50209": 50209, "USE_PPK": 16435}
PPK_IDENTITY, PPK_IDENTITY_KEY = 16436, 16446
#: PPK_ID_FIXED and the identity; in PPK_IDENTITY_KEY, 8 bytes of confirmation follow.
PPK_ID = b"\2ppk"
MISSING = "the keys from {} its last IKE_INTERMEDIATE exchange are missing or wrong"


#: Each case with the epochs whose keys are known, and which keys are missing.
RUNS = [(case, run["known"], run["text"]) for case in CASES for run in case["missing"]]
each_run = pytest.mark.parametrize(
    ("case", "known", "missing"), RUNS, ids=[f"{case['name']}: keys {known}" for case, known, _ in RUNS]
)


def build(case, seed=0):
    """The datagrams of the capture, the key sets by epoch, and the message IDs of the encrypted exchanges."""
    rng = Random(f"{case['name']} {seed}")
    sa = EncryptedSa(rng, handshake=OfferedPpk(rng, NOTIFIES.get(case["ppk"])))
    count = sum("KE" in exchange for exchange in case["exchanges"])
    datagrams = init(sa, *(ike.Transform(ike.ADDKE1 + number, ike.ML_KEM_768) for number in range(count)))
    numbers = []
    sa.next_epoch()
    for number, exchange in enumerate([*case["exchanges"], "IKE_AUTH"], 1):
        kind = ike.IKE_AUTH if exchange == "IKE_AUTH" else ike.IKE_INTERMEDIATE
        pair = [sa.message(kind, payloads_of(exchange, answers), number, response=answers) for answers in (False, True)]
        if number not in case.get("lost", ()):
            datagrams += [(pair[0], True), (pair[1], False)]
            numbers.append(number)
        if exchange in ("KE", "PPK", "KE PPK", "KE declined"):
            sa.next_epoch()
    return datagrams, sa.sets, numbers


class OfferedPpk(Handshake):
    """The initiator announces each kind of PPK, the responder one of them or none."""

    def __init__(self, rng, accepted):
        super().__init__(rng, switch=False)
        self.accepted = accepted

    def _init_payloads(self, from_initiator, group, nonce):
        kinds = NOTIFIES.values() if from_initiator else [self.accepted] if self.accepted else []
        supported = [ike.notify(ike.INTERMEDIATE_EXCHANGE_SUPPORTED)]
        return [*super()._init_payloads(from_initiator, group, nonce), *supported, *map(ike.notify, kinds)]


def payloads_of(exchange, response):
    if exchange == "IKE_AUTH":
        return AUTH_RESPONSE if response else AUTH
    words, payloads = exchange.split(), []
    if "KE" in words:
        payloads.append(ike.ke(ike.ML_KEM_768, bytes(ike.KE_BYTES[ike.ML_KEM_768][response])))
    if not response and ("PPK" in words or "declined" in words):
        payloads.append(ike.notify(PPK_IDENTITY_KEY, PPK_ID + bytes(8)))
    elif response and "PPK" in words:
        payloads.append(ike.notify(PPK_IDENTITY, PPK_ID))
    return payloads


def write(case, known, folder):
    """A capture of a case, a key file with the keys of these epochs, and the message IDs of the encrypted exchanges."""
    datagrams, sets, numbers = build(case)
    (folder / "capture.pcap").write_bytes(captured(*datagrams))
    (folder / "keys").write_text(key_file([sets[epoch] for epoch in known]))
    return folder / "capture.pcap", folder / "keys", numbers


def key_file(sets):
    return json.dumps({"schema": "ikeanalyze.keys/1", "key_sets": sets})


def decrypted_epochs(case, known):
    """Expected for each exchange; None: it is not decrypted."""
    return [epoch if epoch in known else None for epoch in case["epochs"]]


@pytest.mark.usefixtures("implementation")
@each_run
def test_epochs_and_missing_keys(case, known, missing, tmp_path):
    capture, keys, _ = write(case, known, tmp_path)
    analysis = ikeanalyze.read(capture, keys=keys)
    epochs = decrypted_epochs(case, known)
    assert analysis.exchanges["epoch"].to_list() == [None, *epochs]
    text = f"{2 * epochs.count(None)} messages could not be decrypted, although other messages of this IKE SA were: "
    found = [warning.message for warning in analysis.warnings]
    assert found == ([text + MISSING.format(missing)] if missing else [])


@pytest.mark.usefixtures("implementation")
@each_run
def test_verification_names_the_epoch_of_missing_keys(case, known, missing, tmp_path):
    capture, keys, numbers = write(case, known, tmp_path)
    icvs = [check for check in verify_capture(capture, keys).checks if check.what == "ICV"]
    expected = [
        ("passed", epoch, None)
        if epoch in known
        else ("not made", None, f"no key file has the SK_e{side} of epoch {epoch}")
        for epoch in case["epochs"]
        for side in "ir"
    ]
    assert [(check.outcome, check.epoch, check.why) for check in icvs] == expected
    assert [int(check.exchange.split()[1]) for check in icvs] == [number for number in numbers for _ in "ir"]


def test_the_plugin_agrees(tshark):
    """All cases are in one capture."""
    datagrams, key_sets, expected = [], [], []
    for handshake, (case, known, _) in enumerate(RUNS, 1):
        own, sets, _ = build(case, seed=handshake)
        datagrams += own
        key_sets += [sets[epoch] for epoch in known]
        for epoch in case["epochs"]:
            missing = MISSING.format("before" if epoch < case["epochs"][-1] else "after")
            shown = (
                [str(epoch), "decrypted, integrity checked"] if epoch in known else ["", f"no matching key: {missing}"]
            )
            expected += [[str(handshake), *shown]] * 2
    names = "ikex.handshake", "ikex.epoch", "ikex.decryption"
    found = fields(tshark, captured(*datagrams), *names, only="ikex.decryption", keys=key_file(key_sets))
    assert found == expected
