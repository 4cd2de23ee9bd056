"""Disables checksum offload: `python -m ikeanalyze.lab.network.offload INTERFACE...`, in the interfaces' namespace.

A veth interface leaves UDP checksums to hardware that does not exist. Captures would have invalid checksums, and hosts
would drop frames from a user-space relay.
"""

import array
import fcntl
import socket
import struct
import sys
from typing import Final

_SIOCETHTOOL: Final = 0x8946
_ETHTOOL_STXCSUM: Final = 0x17
_ETHTOOL_SGSO: Final = 0x24


def disable_offload(interface: str) -> None:
    """Let the kernel compute checksums and segment frames for this interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for command in (_ETHTOOL_STXCSUM, _ETHTOOL_SGSO):
            value = array.array("B", struct.pack("II", command, 0))
            address, _ = value.buffer_info()
            fcntl.ioctl(sock, _SIOCETHTOOL, struct.pack("16sP", interface.encode(), address))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        disable_offload(name)
