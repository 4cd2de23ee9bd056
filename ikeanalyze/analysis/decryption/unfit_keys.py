"""Explains why none of the keys decrypts a message of a capture, and what to do."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ikeanalyze.analysis.decryption.decoded_messages import read_message_lengths
from ikeanalyze.analysis.decryption.negotiated_keys import NegotiatedKeysLookup
from ikeanalyze.analysis.grouping import find_group_starts
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt64Array
from ikeanalyze.capture.buffers import MessageBytes
from ikeanalyze.crypto.algorithms import ENCRYPTION, INTEGRITY, IkeSuite
from ikeanalyze.keys.key_set import KeySet
from ikeanalyze.keys.key_table import CaptureKeys, KeySetTable
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2_transforms import Encryption, Integrity

_UNKNOWN_SPI = 0  # no IKE SA has it


def describe_unfit_keys(
    state: AnalysisState, encrypted: MessageBytes, is_wanted: BoolArray, keys: CaptureKeys
) -> str | None:
    """The warning about keys of which none decrypts a message of a capture: why, as far as it is known, and what to do.

    The SPIs tell most: keys of another IKE SA are the usual reason. Keys with the right SPIs may be for another
    algorithm than the IKE SA negotiated, such as AES-GCM with an ICV of another length.

    Args:
        state: the analysis of the captures so far.
        encrypted: bytes of the encrypted messages.
        is_wanted: the encrypted messages of the capture. (messages,)
        keys: that were given for it.

    Returns:
        The warning; None: the capture has none of the messages whole that a key may be for, so that it may fit.
    """
    if not _shows_unfit_keys(state, encrypted, is_wanted):
        return None
    rows = np.flatnonzero(is_wanted[state.message_of_datagram])
    return f"none of the keys fits any of its encrypted messages{_explain_unfit_keys(state, rows, keys)}"


def _shows_unfit_keys(state: AnalysisState, encrypted: MessageBytes, is_wanted: BoolArray) -> bool:
    """Whether the capture shows that no key fits: by the SPIs, or by a message that it has whole.

    A message is whole if no snapshot length cuts one copy of each of its fragments. Messages are only stored if a key
    may be for them: none is if all keys name other IKE SAs.
    """
    messages, datagrams = state.messages, state.datagrams
    identity = np.cumsum(find_group_starts(messages.slot, messages.body)) - 1
    is_candidate = is_wanted & ~np.isin(identity, identity[state.lacking_fragments])
    rows = np.flatnonzero(is_candidate[state.message_of_datagram])
    stored, length = read_message_lengths(datagrams.datagram[rows], (state.clear, encrypted))
    if not stored.any():
        return bool(len(rows))
    rows = rows[(stored > 0) & (stored >= length)]
    total = datagrams.fragments[rows].astype(np.int64)
    place = identity[state.message_of_datagram[rows]] << 32 | total << 16 | datagrams.fragment[rows]
    message, seen = np.unique(np.unique(place) >> 16, return_counts=True)
    return bool((seen >= np.maximum(message & 0xFFFF, 1)).any())


class _Spis(NamedTuple):
    """SPIs of key sets, or of datagrams; `_UNKNOWN_SPI`: not known. (n,) each"""

    spi_i: UInt64Array
    spi_r: UInt64Array

    def format(self, place: int) -> str:
        """The IKE SA as other warnings name it."""
        return ":".join(f"{int(spi[place]):016x}" if spi[place] else "?" for spi in self)


def _explain_unfit_keys(state: AnalysisState, rows: Int64Array, keys: CaptureKeys) -> str:
    """The rest of the warning; `rows`: the encrypted datagrams of the capture."""
    captured = _Spis(state.datagrams.spi_i[rows], state.datagrams.spi_r[rows])
    for phase1 in keys.phase1:
        same = captured.spi_i == int.from_bytes(phase1.cookie_i)
        if same.any():
            from ikeanalyze.analysis.decryption.decrypt_ikev1 import find_unusable_reason  # few captures have IKEv1

            first = int(rows[np.flatnonzero(same)[0]])
            reason = find_unusable_reason(state, int(state.association.handshake[first]), phase1) or (
                "it may be wrong, or the capture may lack a message, without which the next one of phase 1 cannot be "
                "decrypted"
            )
            return f", although {phase1.origin} has a key for the initiator's cookie {phase1.cookie_i.hex()}: {reason}"
    given = _get_spis(keys.sets)
    for place in np.flatnonzero((given.spi_i != _UNKNOWN_SPI) & np.isin(given.spi_i, captured.spi_i)).tolist():
        same = captured.spi_i == given.spi_i[place]
        if given.spi_r[place] != _UNKNOWN_SPI:
            same &= captured.spi_r == given.spi_r[place]
        if same.any():
            first = int(rows[np.flatnonzero(same)[0]])
            negotiated = NegotiatedKeysLookup(state).get(
                int(state.association.handshake[first]), first, with_nonces=False
            )
            return _explain_named(keys.sets[place], given.format(place), negotiated.suite)
    if (given.spi_i == _UNKNOWN_SPI).any():
        return (
            ": those without SPIs were tried on all its IKE SAs. They may be of another IKE SA or epoch, or for another "
            "algorithm or length of the ICV"
        )
    other = given.format(0) if len(given.spi_i) else keys.phase1[0].cookie_i.hex()
    return f": they are of other IKE SAs, such as {other}. Give those of {captured.format(0)}"


def _get_spis(key_sets: Sequence[KeySet]) -> _Spis:
    if isinstance(key_sets, KeySetTable):
        return _Spis(key_sets.spi_i, key_sets.spi_r)
    spis = [[int.from_bytes(spi or b"") for spi in (keys.spi_i, keys.spi_r)] for keys in key_sets]
    return _Spis(*np.array(spis, np.uint64).reshape(-1, 2).T)


def _explain_named(keys: KeySet, ike_sa: str, suite: IkeSuite | None) -> str:
    """Why keys with the SPIs of an IKE SA do not fit; `suite`: what it negotiated."""
    has = f", although {keys.origin} has keys of IKE SA {ike_sa}"
    if keys.no_salt:  # as those in a log of libreswan
        return f"{has}: they lack the salt of its cipher. Give those of the other side's log, which may have it"
    if suite is not None:
        for registry, listed, negotiated, supported in (
            (Encryption, keys.encryption, suite.encryption, ENCRYPTION),
            (Integrity, keys.integrity, suite.integrity, (Integrity.NONE, *INTEGRITY)),
        ):
            if listed not in (None, negotiated):
                names = f"{get_name(registry, listed or 0)}, and it negotiated {get_name(registry, negotiated)}"
                return f"{has}: they are for {names}. Correct the algorithm in the key file"
            if negotiated not in supported:
                return f"{has}: it negotiated {get_name(registry, negotiated)}, which is not supported"
    algorithm = "" if suite is not None else ", or for another algorithm or length of the ICV"
    return f"{has}: they may be wrong, or of another epoch{algorithm}. Give those of all epochs, as a daemon's log has them"
