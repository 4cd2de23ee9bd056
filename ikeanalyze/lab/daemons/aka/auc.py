"""Authentication centre of the lab: gives hostapd the vectors of EAP-AKA, as hostapd's own hlr_auc_gw does.

Debian does not build hlr_auc_gw. Runs as `python -m ikeanalyze.lab.daemons.aka.auc FOLDER SUBSCRIBERS`: answers
datagrams at the Unix socket `auc` in FOLDER, from the lines "IMSI Ki OPc" (in hex digits) of the file SUBSCRIBERS.
"""

import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ikeanalyze.crypto.aka.milenage import AMF_BYTES, BLOCK_BYTES, SQN_BYTES, Milenage

#: The socket in the folder.
SOCKET: Final = "auc"
_MAX_BYTES: Final = 1024
_AMF: Final = bytes(AMF_BYTES)
#: The last five bits of SQN are an index that a USIM ignores here (3GPP TS 33.102, annex C.1.1.1).
_SQN_STEP: Final = 32


@dataclass(slots=True)
class AuthenticationCentre:
    """Makes authentication vectors. `answer` is without I/O except for random challenges."""

    subscribers: Mapping[str, Milenage] = field(repr=False)  # by IMSI
    _sqn: int = 0  # the last one used, of all subscribers

    def answer(self, request: str) -> str | None:
        """Return the response to a request of hostapd; None: it does not expect any.

        AKA-REQ-AUTH IMSI: RAND AUTN IK CK RES in hex digits, or FAILURE for an unknown IMSI.
        """
        command, _, imsi = request.partition(" ")
        if command != "AKA-REQ-AUTH":
            return None
        milenage = self.subscribers.get(imsi)
        if milenage is None:
            return f"AKA-RESP-AUTH {imsi} FAILURE"
        self._sqn += _SQN_STEP
        rand = os.urandom(BLOCK_BYTES)
        vector = milenage.compute_vector(rand)
        autn = milenage.build_autn(rand, self._sqn.to_bytes(SQN_BYTES), _AMF)
        values = (rand, autn, vector.ik, vector.ck, vector.res)
        return " ".join(("AKA-RESP-AUTH", imsi, *(value.hex() for value in values)))


def read_subscribers(text: str) -> dict[str, Milenage]:
    """Read the lines "IMSI Ki OPc"."""
    fields = (line.split() for line in text.splitlines())
    return {imsi: Milenage(bytes.fromhex(ki), bytes.fromhex(opc)) for imsi, ki, opc in fields}


def serve(folder: Path, centre: AuthenticationCentre) -> None:
    """Answer requests until the process is ended."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(folder / SOCKET))
        while True:
            request, address = server.recvfrom(_MAX_BYTES)
            answer = centre.answer(request.decode(errors="replace").strip("\0\n "))
            if answer is not None and address:
                # hostapd binds its own socket in its /tmp, which is this folder
                server.sendto(answer.encode(), str(folder / Path(address).name))


def main(arguments: list[str]) -> None:
    """Read the options and answer requests."""
    folder, subscribers = map(Path, arguments)
    serve(folder, AuthenticationCentre(read_subscribers(subscribers.read_text())))


if __name__ == "__main__":
    main(sys.argv[1:])
