import numpy as np

from ikeanalyze.capture.decode.tunnel_book import TunnelBook

OUTSIDE = np.zeros(4, np.uint32)


def test_equal_identifiers_are_one_tunnel() -> None:
    book = TunnelBook()
    assert book.enter("vxlan", OUTSIDE, np.array([5, 9, 5, 7])).tolist() == [1, 3, 1, 2]
    assert book.enter("geneve", OUTSIDE[:2], np.array([5, 5])).tolist() == [4, 4]
    assert book.enter("vxlan", OUTSIDE[:1], np.array([7])).tolist() == [2]
    assert book.names == ["vxlan:5", "vxlan:7", "vxlan:9", "geneve:5"]


def test_tunnels_in_tunnels_and_without_identifier() -> None:
    book = TunnelBook()
    outer = book.enter("mpls", OUTSIDE, np.array([1, 1, 2, 2]))
    inner = book.enter("l2tp", outer, np.array([3, 3, 3, 3]), np.array([4, 5, 4, 5]))
    assert [book.names[number - 1] for number in inner.tolist()] == [
        "mpls:1/l2tp:3.4", "mpls:1/l2tp:3.5", "mpls:2/l2tp:3.4", "mpls:2/l2tp:3.5",
    ]  # fmt: skip
    assert book.get_kind(int(inner[0])) == "l2tp"
    (erspan,) = set(book.enter("erspan", OUTSIDE).tolist())
    assert book.names[erspan - 1] == "erspan"
    assert book.get_kind(erspan) == "erspan"


def test_numbers_of_another_book() -> None:
    book = TunnelBook()
    book.enter("vxlan", OUTSIDE[:1], np.array([1]))
    assert book.translation(["gre:4", "vxlan:1"]).tolist() == [0, 2, 1]


def test_entering_a_tunnel_without_rows_gives_no_numbers() -> None:
    assert TunnelBook().enter("vxlan", OUTSIDE[:0], np.zeros(0, np.int64)).tolist() == []
