"""Stands in for Linux's espintcp, which this kernel may lack: the framing of RFC 9329 for a daemon that leaves it out.

libreswan reads and writes whole messages on its TCP sockets and lets the kernel add and remove their lengths. With
`--impair tcp_skip_setsockopt_espintcp`, it does so without the kernel's help. `python -m tests.replay.espintcp PORT
ADDRESS DAEMON_PORT` accepts connections as on the wire, and connects to the daemon with messages without lengths.
"""

import asyncio
import socket
import sys

PREFIX_BYTES = 6
#: Of our connections to the daemon: another than its own.
LOCAL = ("127.0.0.1", 0)


async def unframe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """From the wire to the daemon."""
    try:
        writer.write(await reader.readexactly(PREFIX_BYTES))
        while True:
            length = int.from_bytes(await reader.readexactly(2))
            writer.write(await reader.readexactly(length - 2))
            await writer.drain()
    except asyncio.IncompleteReadError:
        writer.close()


async def frame(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """From the daemon to the wire; each read has one message, because the daemon sends one and waits."""
    while data := await reader.read(65_533):
        writer.write((2 + len(data)).to_bytes(2) + data)
        await writer.drain()
    writer.close()


async def main(port: int, address: str, daemon_port: int) -> None:
    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_daemon, to_daemon = await asyncio.open_connection(address, daemon_port, local_addr=LOCAL)
        to_daemon.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.gather(unframe(reader, to_daemon), frame(from_daemon, writer))

    server = await asyncio.start_server(connect, "0.0.0.0", port)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
