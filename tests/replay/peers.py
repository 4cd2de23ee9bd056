"""Targets on this machine's loopback interface: real sockets, good and bad behaviour."""

import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ikeanalyze.replay.transport.target import Target

NON_ESP_MARKER = bytes(4)


class Peer(threading.Thread):
    """Answers on two UDP ports of an address. `behave` gets (data without marker, role) and gives the answers, each
    bytes, or (bytes, address to send from).
    """

    def __init__(self, behave: Callable, address: str = "127.0.0.1") -> None:
        super().__init__(daemon=True)
        self.behave = behave
        self.family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.sockets = {}
        for role in (500, 4500):
            opened = socket.socket(self.family, socket.SOCK_DGRAM)
            opened.bind((address, 0))
            self.sockets[role] = opened
        self.target = Target(address, *(self.sockets[role].getsockname()[1] for role in (500, 4500)))
        self.got: list[tuple[int, bytes, tuple]] = []
        self.done = False

    def run(self) -> None:
        with selectors.DefaultSelector() as selector:
            for role, opened in self.sockets.items():
                selector.register(opened, selectors.EVENT_READ, role)
            while not self.done:
                for key, _ in selector.select(0.02):
                    self.serve(key.data, self.sockets[key.data])

    def serve(self, role: int, opened: socket.socket) -> None:
        data, where = opened.recvfrom(65535)
        if role == 4500:
            assert data[:4] == NON_ESP_MARKER
            data = data[4:]
        self.got.append((role, data, where))
        for answer in self.behave(data, role):
            self.answer(answer, role, where)

    def answer(self, answer, role: int, where: tuple) -> None:
        source = None
        if isinstance(answer, tuple):
            answer, source = answer
        if role == 4500:
            answer = NON_ESP_MARKER + answer
        if source is None:
            self.sockets[role].sendto(answer, where)
            return
        with socket.socket(self.family, socket.SOCK_DGRAM) as other:
            other.bind((source, 0))
            other.sendto(answer, where)


@contextmanager
def peer(behave: Callable, address: str = "127.0.0.1") -> Iterator[Peer]:
    one = Peer(behave, address)
    one.start()
    try:
        yield one
    finally:
        one.done = True
        one.join(5)
        for opened in one.sockets.values():
            opened.close()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
