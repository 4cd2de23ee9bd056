"""Makes docs/images/wireshark-*/*.png anew: Wireshark's windows with the plugin and its profile, on recorded captures.

    make windows    # installs the two versions of Wireshark, in Debian trees
    sudo .venv/bin/python -m docs.wireshark_pictures

Wireshark runs as an ordinary user with an empty home, on an X server without a screen. Look at the pictures before they
are committed. Names of pictures as arguments make only these.
"""

import gzip
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from tests.dissectors.windows import (
    PROFILE,
    TREES,
    Screen,
    feed_capture,
    find_wireshark,
    open_capture,
    open_expert_info,
    open_flow_graph,
    open_packet_menu,
    open_preferences,
    open_screen,
    open_statistics,
)
from tests.paths import CAPTURES, ROOT
from tests.tsharks import Tshark

POST_QUANTUM = CAPTURES / "pq-mlkem768-psk.pcap"
KEYS = CAPTURES / "pq-mlkem768-psk.charon.log.gz"
LOSSY = CAPTURES / "loss20-classic.pcap"
RECENT = ROOT / "dissectors/profiles/IKE/recent"


def open_window(tree: Tshark, *, keys: bool = False) -> AbstractContextManager[Screen]:
    """A screen, on which the personal folder has the keys of POST_QUANTUM."""
    return open_screen(tree, keys=gzip.decompress(KEYS.read_bytes()) if keys else None)


def set_list_height(screen: Screen, height: int) -> None:
    """Give the list of packets this height in px, as a user does by dragging."""
    text = f"{RECENT.read_text()}gui.geometry_main_upper_pane: {height}\ngui.geometry_main_lower_pane: 900\n"
    screen.room.put(f"{PROFILE}/IKE/recent", text)


def open_details(screen: Screen, y: int) -> None:
    """Open everything in the plugin's part of the details, whose first line is at this height of the screen."""
    screen.click(200, y)
    screen.press("shift+Right")
    time.sleep(1)


def is_old(tree: Tshark) -> bool:
    """Whether this Wireshark has larger lines, menus in one level, and no menus of packets for Lua."""
    return tree.version < (4, 2, 0)


def shoot_decrypted(tree: Tshark, target: Path) -> None:
    """A decrypted key exchange in the details, and its tab of bytes."""
    with open_window(tree, keys=True) as screen:
        set_list_height(screen, 160)
        open_capture(screen, POST_QUANTUM, "-g", "5")
        open_details(screen, 387 if is_old(tree) else 362)
        screen.press(*["Down"] * 18)  # to the payload, whose bytes are shown
        screen.shoot(target)


def shoot_retransmissions(tree: Tshark, target: Path) -> None:
    """The profile on a bad link."""
    with open_window(tree) as screen:
        open_capture(screen, LOSSY, "-g", "8")
        open_details(screen, 609 if is_old(tree) else 586)
        screen.shoot(target)


def shoot_handshakes(tree: Tshark, target: Path) -> None:
    """The list of handshakes, one of which is chosen."""
    with open_window(tree) as screen:
        open_capture(screen, LOSSY)
        open_statistics(screen, 0, "IKE handshakes")
        screen.press("Tab", "Tab", "Tab", "space", "space")  # Filter next, twice
        time.sleep(2)
        screen.shoot(target)


def shoot_diagnosis(tree: Tshark, target: Path) -> None:
    """The diagnosis of a handshake over a path that drops large packets."""
    with open_window(tree) as screen:
        open_capture(screen, CAPTURES / "faults/mtu-black-hole.pcapng")
        open_statistics(screen, 2, "IKE diagnosis")
        screen.shoot(target)


def shoot_menu(tree: Tshark, target: Path) -> None:
    """The menu of a packet, or Statistics where Lua has no menus of packets."""
    with open_window(tree) as screen:
        open_capture(screen, LOSSY)
        if not is_old(tree):
            open_packet_menu(screen, 0, choose=False)
        else:
            open_statistics(screen, 0, None)
        screen.shoot(target)


def shoot_followed(tree: Tshark, target: Path) -> None:
    """An IKE SA whose packets are filtered, and its messages."""
    with open_window(tree) as screen:
        open_capture(screen, LOSSY)
        if not is_old(tree):
            open_packet_menu(screen, 0)
            time.sleep(1)
            open_packet_menu(screen, 1)
        else:
            open_statistics(screen, 0, "IKE handshakes")
            screen.press("Tab", "Tab", "Tab", "space", "Tab", "Tab", "Tab", "space")  # Filter next, Show messages
        screen.wait_for(r"IKE handshake \d")
        screen.shoot(target)


def shoot_flow_graph(tree: Tshark, target: Path) -> None:
    """The ladder of Flow Graph."""
    with open_window(tree, keys=True) as screen:
        open_capture(screen, POST_QUANTUM, "-Y", "isakmp")
        open_flow_graph(screen)
        screen.shoot(target)


def shoot_expert_info(tree: Tshark, target: Path) -> None:
    """The expert infos of IKE in IP fragments on a bad link."""
    with open_window(tree) as screen:
        open_capture(screen, CAPTURES / "ip-fragments-loss10.pcap")
        open_expert_info(screen)
        time.sleep(2)
        screen.shoot(target, "842x880+268+0")


def shoot_preferences(tree: Tshark, target: Path) -> None:
    """The preferences of the plugin."""
    with open_window(tree, keys=True) as screen:
        open_capture(screen, POST_QUANTUM)
        open_preferences(screen)
        screen.shoot(target, "720x570+358+165" if is_old(tree) else "732x540+0+0")


def shoot_live(tree: Tshark, target: Path) -> None:
    """A running capture."""
    with open_window(tree) as screen:
        feed_capture(screen, CAPTURES / "pq-loss15.pcap", 18)
        target.write_bytes((screen.room.path / "live.png").read_bytes())


PICTURES: dict[str, Callable[[Tshark, Path], None]] = {
    "decrypted": shoot_decrypted,
    "retransmissions": shoot_retransmissions,
    "handshakes": shoot_handshakes,
    "diagnosis": shoot_diagnosis,
    "menu": shoot_menu,
    "followed": shoot_followed,
    "flow-graph": shoot_flow_graph,
    "expert-info": shoot_expert_info,
    "preferences": shoot_preferences,
    "live": shoot_live,
}


def main() -> None:
    """Make all of them, or the chosen ones."""
    for name in TREES:
        tree = find_wireshark(name)
        if not isinstance(tree, Tshark):
            sys.exit(tree)
        folder = ROOT / "docs/images" / f"wireshark-{tree.version[0]}.{tree.version[1]}"
        folder.mkdir(parents=True, exist_ok=True)
        for picture in sys.argv[1:] or PICTURES:
            PICTURES[picture](tree, folder / f"{picture}.png")


if __name__ == "__main__":
    main()
