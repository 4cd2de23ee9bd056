import pytest

from ikeanalyze.render.report import selection
from tests.render.analysis_examples import analysis


def test_one_handshake_is_selected():
    a = analysis()
    handshake = selection.select_handshake(a, 3)
    assert handshake.handshakes["handshake"].to_list() == [3]
    for table in (handshake.frames, handshake.messages, handshake.exchanges):
        assert table["handshake"].unique().to_list() == [3]
    assert handshake.captures == a.captures


def test_the_range_of_ids_is_unknown_without_handshakes():
    assert selection.get_id_range(analysis()) == (1, 5)
    assert selection.get_id_range(analysis([])) is None


def test_an_unknown_handshake_is_an_error():
    with pytest.raises(LookupError, match="there is no handshake 6: they are numbered 1 to 5"):
        selection.select_handshake(analysis(), 6)
    with pytest.raises(LookupError, match=r"there is no handshake 6: there is only handshake 1$"):
        selection.select_handshake(analysis([1]), 6)
    with pytest.raises(LookupError, match="no handshake in what was read"):
        selection.select_handshake(analysis([]), 1)
