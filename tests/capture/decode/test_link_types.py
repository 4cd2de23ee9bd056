import dpkt
import pytest

from ikeanalyze.capture.decode.link import OTHER_LINK_TYPES, LinkType, get_link_type_name


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (0, "LINKTYPE_NULL"),
        (1, "LINKTYPE_ETHERNET"),
        (12, "LINKTYPE_RAW"),
        (101, "LINKTYPE_RAW"),
        (113, "LINKTYPE_LINUX_SLL"),
        (127, "LINKTYPE_IEEE802_11_RADIOTAP"),
        (162, "LINKTYPE_USER15"),
        (228, "LINKTYPE_IPV4"),
        (276, "LINKTYPE_LINUX_SLL2"),
        (208, "208"),
        (65535, "65535"),
        (-1, "-1"),
    ],
)
def test_link_types_have_names(number: int, name: str) -> None:
    assert get_link_type_name(number) == name


def test_names_of_link_types_agree_with_dpkt() -> None:
    # From 105 on DLT_* and LINKTYPE_* are one number, but for the first two; dpkt has the third wrong.
    differing = {"PFSYNC", "PKTAP", "BLUETOOTH_LINUX_MONITOR"}
    theirs = {n[4:]: v for n, v in vars(dpkt.pcap).items() if n.startswith("DLT_") and isinstance(v, int) and v > 104}
    ours = {name: int(number) for name, number in (LinkType.__members__ | OTHER_LINK_TYPES).items() if name in theirs}
    assert len(ours) > 50
    assert {n: v for n, v in ours.items() if v != theirs[n]}.keys() <= differing
