"""The recorded captures, with the keys that there are to them."""

import gzip
import json
from pathlib import Path

from tests.keys.dumps import contents, excerpt, logged_keys
from tests.paths import CAPTURES

DATA = Path(__file__).parent / "data"
#: Those with the log of the initiator's daemon.
LOGGED = ("psk-classic", "pq-mlkem768-psk", "invalid-ke", "eap-md5-radius", "loss20-classic")


def log_of(name: str) -> str:
    """The daemon's log."""
    return gzip.decompress((CAPTURES / f"{name}.charon.log.gz").read_bytes()).decode()


def generated_of(name: str) -> str:
    """The lines of both daemons' logs that say what each message was made of, fragments left out."""
    return (DATA / f"{name}.generated.txt").read_text()


def followup_keys() -> str:
    """The key sets of pq-followup-ke as its log dumps them, three epochs and two rekeyed IKE SAs; they say no more."""
    return json.dumps(
        [
            {label.removesuffix(" secret"): value.hex() for label, value in keys.items() if label.startswith("Sk_")}
            for keys in logged_keys(excerpt("pq-followup-ke"))
        ]
    )


def xauth_keys() -> str:
    """Wireshark's ikev1_decryption_table for ikev1-xauth."""
    (key,) = contents(excerpt("ikev1-xauth"), "encryption key Ka")
    cookie = (CAPTURES / "ikev1-xauth.pcap").read_bytes()[24 + 16 + 42 :][:8]
    return f"{cookie.hex()},{key.hex()}\n"
