"""Which handshake of a capture has which figures of the lab's manifest: made of a few SPIs each."""

import numpy as np

from ikeanalyze.analysis.handshakes.lab_handshakes import match_lab_handshakes
from ikeanalyze.io.lab_manifest import LabHandshake, LabManifest


def manifest(*spis):
    handshakes = [
        LabHandshake(number, spi_i, spi_r, False, None, None, {}, {}) for number, (spi_i, spi_r) in enumerate(spis, 1)
    ]
    return LabManifest("x", {}, handshakes=tuple(handshakes))


def match(manifests, *rows):
    """`rows`: capture, initiator and responder SPI of each handshake. Returns the numbers by row, and the warnings."""
    capture, spi_i, spi_r = (np.array(column) for column in zip(*rows, strict=True))
    matches = match_lab_handshakes(manifests, capture, spi_i.astype(np.uint64), spi_r.astype(np.uint64))
    return {row: handshake.number for row, handshake in matches.handshakes.items()}, matches.missing


def test_handshakes_are_found_by_both_spis():
    assert match([manifest((1, 11), (2, 22))], (0, 2, 22), (0, 3, 33), (0, 1, 11)) == ({0: 2, 2: 1}, [])


def test_large_spis():
    assert match([manifest((2**64 - 1, 2**64 - 2))], (0, 2**64 - 1, 2**64 - 2)) == ({0: 1}, [])


def test_an_unknown_responder_spi_fits_any():
    """The capture has no response, or the manifest only the initiator's SPI."""
    assert match([manifest((1, 11), (2, None))], (0, 1, 0), (0, 2, 22)) == ({0: 1, 1: 2}, [])
    assert match([manifest((1, 11))], (0, 1, 0), (0, 1, 11)) == ({1: 1}, []), "the same SPI is better"
    assert match([manifest((1, 11))], (0, 1, 12))[0] == {}


def test_equal_spis_are_not_doubled():
    assert match([manifest((1, 11), (1, 11))], (0, 1, 11)) == ({0: 1}, [])
    assert match([manifest((1, 11))], (0, 1, 11), (0, 1, 11)) == ({0: 1}, [])


def test_each_capture_has_its_own_manifest():
    both = [manifest((1, 11)), None, manifest((1, 11), (2, 22))]
    assert match(both, (0, 1, 11), (0, 2, 22), (1, 1, 11), (2, 2, 22), (2, 1, 11)) == ({0: 1, 3: 2, 4: 1}, [])


def test_handshakes_that_the_capture_lacks_are_named():
    _, missing = match([None, manifest((1, 11), (2, 22), (3, 33))], (0, 1, 11), (1, 2, 22))
    assert missing == [(1, "2 of 3 handshakes of the lab's manifest are not in the capture (numbers 1, 3)")]
    _, ((_, text),) = match([manifest(*((spi, spi) for spi in range(1, 9)))], (0, 1, 1))
    assert text == "7 of 8 handshakes of the lab's manifest are not in the capture (numbers 2, 3, 4, 5, 6, ...)"
