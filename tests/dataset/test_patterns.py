import pytest

from ikeanalyze.dataset.patterns import PatternError, read_pattern


def labels(pattern, path):
    return read_pattern(pattern).labels(path)


def test_the_contract():
    found = labels("{config}/loss{loss:float}/{run:int}.pcapng", "/srv/runs/psk/loss2.5/0017.pcapng")
    assert found == {"config": "psk", "loss": 2.5, "run": 17}
    assert [type(value) for value in found.values()] == [str, float, int]


@pytest.mark.parametrize(
    ("pattern", "path", "found"),
    [
        ("{x}.pcap", "/a/b.pcap", {"x": "b"}),
        ("{x}-{run:int}.pcap", "/a/pq-768-12.pcap", {"x": "pq-768", "run": 12}),
        ("{a}-{b}.pcap", "/x-y-z.pcap", {"a": "x", "b": "y-z"}),
        ("{}/{run:int}.pcap", "/eap/4.pcap", {"run": 4}),
        ("{a}/{b}/{c}.pcap", "/r/s/t/u.pcap", {"a": "s", "b": "t", "c": "u"}),
        ("loss{l:float}.pcap", "/loss1e-3.pcap", {"l": 0.001}),
        ("loss{l:float}.pcap", "/loss-.5.pcap", {"l": -0.5}),
        ("{{{x}}}.pcap", "/{y}.pcap", {"x": "y"}),
        # what does not fit
        ("{run:int}.pcap", "/4a.pcap", None),
        ("{run:int}.pcap", "/4.5.pcap", None),
        ("{run:int}.pcap", "/99999999999999999999.pcap", None),
        ("{l:float}.pcap", "/nan.pcap", None),
        ("{l:float}.pcap", "/1e999.pcap", None),
        ("{x}.pcap", "/b.pcapng", None),
        ("{x}/b.pcap", "b.pcap", None),
        ("x{x}.pcap", "/x.pcap", None),
        ("a.c.{x}", "/abc.pcap", None),
    ],
)
def test_paths(pattern, path, found):
    assert labels(pattern, path) == found


def test_a_field_does_not_reach_over_folders():
    assert labels("runs/{x}.pcap", "/runs/a/b.pcap") is None


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("{config", "expected '}' before end of string"),
        ("{run:number}.pcap", "there is no 'number'; a label is int, float or str"),
        ("{run!r}.pcap", "!r means nothing behind 'run'; a label is int, float or str"),
        ("{a b}.pcap", "'a b' is no name"),
        ("{0}.pcap", "'0' is no name"),
        ("{größe}.pcap", "'größe' is no name"),
        ("{a}/{a}.pcap", "a stands in it twice"),
        ("*.pcap", "no label in it"),
        ("{}.pcap", "no label in it"),
    ],
)
def test_what_is_no_pattern(pattern, why):
    with pytest.raises(PatternError) as raised:
        read_pattern(pattern)
    assert str(raised.value).startswith(repr(pattern))
    assert why in str(raised.value)
    assert "\n" not in str(raised.value)
