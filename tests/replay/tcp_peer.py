"""A responder on a TCP port of the loopback interface, with the framing of RFC 9329 written here."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

NON_ESP_MARKER = bytes(4)


def framed(body: bytes) -> bytes:
    """RFC 9329, section 3.1: the length counts itself."""
    return (2 + len(body)).to_bytes(2) + body


class TcpPeer(threading.Thread):
    """`behave` gets an IKE message and returns the bytes of the stream to send, in pieces."""

    def __init__(self, behave: Callable[[bytes], list[bytes]]) -> None:
        super().__init__(daemon=True)
        self.behave = behave
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.prefix = b""
        self.got: list[bytes] = []

    def run(self) -> None:
        with suppress(OSError), self.listener.accept()[0] as stream, stream.makefile("rb") as reader:
            self.prefix = reader.read(6)
            while len(head := reader.read(2)) == 2:
                body = reader.read(int.from_bytes(head) - 2)
                assert body.startswith(NON_ESP_MARKER)
                self.got.append(body[4:])
                for piece in self.behave(body[4:]):
                    stream.sendall(piece)


@contextmanager
def tcp_peer(behave: Callable[[bytes], list[bytes]]) -> Iterator[TcpPeer]:
    one = TcpPeer(behave)
    one.start()
    try:
        yield one
    finally:
        one.listener.close()
        one.join(5)
