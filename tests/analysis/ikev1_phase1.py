"""IKEv1 IKE SAs of which the test has the key of phase 1."""

from ikeanalyze.wire.registries.ikev1_phase1 import Phase1Hash
from tests.craft import MS, Trace, ikev1
from tests.crypto.test_ikev1 import COOKIE_I, COOKIE_R, PUBLIC_I, PUBLIC_R, Sender

NAME = ikev1.ID, b"\x02\0\0\0gateway.example"


class Phase:
    """Main mode; `sender` encrypts what follows."""

    def __init__(self) -> None:
        self.sender = Sender()  # AES-256-CBC, SHA-1
        proposal = [ikev1.sa([(1, 7), (14, 256), (2, Phase1Hash.SHA1), (4, 14), (3, 1)])]
        mode = ikev1.MAIN_MODE
        self.clear = [
            ikev1.message(COOKIE_I, bytes(8), mode, proposal),
            ikev1.message(COOKIE_I, COOKIE_R, mode, proposal),
            *(
                ikev1.message(COOKIE_I, COOKIE_R, mode, [(ikev1.KE, public), (ikev1.NONCE, bytes(16))])
                for public in (PUBLIC_I, PUBLIC_R)
            ),
        ]
        self.encrypted = [self.sender.send(mode, 0, [NAME, self.sender.hash_payload()]) for _ in range(2)]

    def trace(self) -> Trace:
        """The six messages of main mode, 10 ms apart."""
        trace = Trace()
        for number, message in enumerate([*self.clear, *self.encrypted]):
            trace.send(number * 10 * MS, message, from_initiator=number % 2 == 0)
        return trace

    def table(self, key: bytes | None = None) -> str:
        """Wireshark's ikev1_decryption_table."""
        return f"{COOKIE_I.hex()},{(self.sender.key if key is None else key).hex()}\n"
