"""Send the frames of a pcap file on an interface at their times: python -m benchmarks.live.send FILE INTERFACE

Times are multiplied by --slower. Prints a line when the first frame is sent, and the number of frames and seconds at
the end. Needs the right to open packet sockets.
"""

import argparse
import socket
import sys
import time
from pathlib import Path

import dpkt

#: ETH_P_ALL, and the option that hands frames to the driver without a queue (packet(7)).
_SOL_PACKET, _PACKET_QDISC_BYPASS = 263, 20
#: Sleeping for less takes longer than it should.
_LEAST_SLEEP = 0.0005


def send(path: Path, interface: str, slower: float) -> tuple[int, float]:
    """Send all frames; return how many, and the seconds that it took."""
    with path.open("rb") as file, socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
        sock.setsockopt(_SOL_PACKET, _PACKET_QDISC_BYPASS, 1)
        sock.bind((interface, 0))
        frames = [(float(seconds), frame) for seconds, frame in dpkt.pcap.Reader(file)]
        sys.stdout.write("sending\n")
        sys.stdout.flush()
        first, start = frames[0][0], time.monotonic()
        for seconds, frame in frames:
            wait = start + (seconds - first) * slower - time.monotonic()
            if wait > _LEAST_SLEEP:
                time.sleep(wait)
            sock.send(frame)
    return len(frames), time.monotonic() - start


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live.send", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("interface")
    parser.add_argument("--slower", type=float, default=1)
    options = parser.parse_args()
    count, seconds = send(options.file, options.interface, options.slower)
    sys.stdout.write(f"{count} {seconds:.1f}\n")


if __name__ == "__main__":
    main()
