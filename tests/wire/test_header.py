import pytest

from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.header import parse_header
from tests.craft import ike, ikev1
from tests.wire.recorded import NAMES, ike_messages

SPI_I, SPI_R = bytes(range(8)), bytes(range(8, 16))


def test_fields_of_a_response():
    header = parse_header(ike.ike_header(SPI_I, SPI_R, 46, 35, 0x20, 7, 1234))
    assert (header.spi_i, header.spi_r, header.next_payload, header.exchange_type) == (SPI_I, SPI_R, 46, 35)
    assert (header.major_version, header.minor_version) == (2, 0)
    assert (header.message_id, header.length) == (7, 1234)
    assert header.response
    assert not header.initiator
    assert not header.higher_version


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (0x08, {"initiator"}),
        (0x10, {"higher_version"}),
        (0x20, {"response"}),
        (0x01, {"encrypted"}),
        (0x28, {"initiator", "response"}),
    ],
)
def test_flags_are_decoded(flags, names):
    header = parse_header(ike.ike_header(SPI_I, SPI_R, 0, 37, flags, 0, 28))
    every = ("initiator", "higher_version", "response", "encrypted")
    assert {name for name in every if getattr(header, name)} == names


def test_version_of_ikev1():
    header = parse_header(ikev1.header(SPI_I, SPI_R, 1, 2, 0, 0, 28))
    assert header.major_version == 1


@pytest.mark.parametrize("name", NAMES)
def test_recorded_headers_tell_the_length(name):
    for message in ike_messages(name):
        assert parse_header(message).length == len(message)


def test_truncated_headers_raise():
    header = ike.ike_header(SPI_I, SPI_R, 0, 37, 0, 0, 28)
    for size in range(28):
        with pytest.raises(WireError):
            parse_header(header[:size])
