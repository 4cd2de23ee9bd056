"""The keys for a capture. They are needed to read it, while the modules that decrypt are still being loaded."""

from collections.abc import Sequence

from msgspec import Struct

from ikeanalyze.keys.key_set import KeySet, Phase1Key
from ikeanalyze.keys.key_table import KeySetTable


class CaptureKeys(Struct, frozen=True):
    """The keys for one capture, in the order of the key files."""

    sets: Sequence[KeySet] = ()
    phase1: Sequence[Phase1Key] = ()

    def __bool__(self) -> bool:
        return bool(self.sets or self.phase1)

    def get_spis(self) -> frozenset[int] | None:
        """Initiators' SPIs of the IKE SAs that the keys are for; None: unknown for some keys."""
        cookies = [int.from_bytes(key.cookie_i) for key in self.phase1]
        if isinstance(self.sets, KeySetTable):
            return frozenset(self.sets.spi_i.tolist() + cookies)
        spis = [keys.spi_i for keys in self.sets]
        if None in spis:
            return None
        return frozenset([int.from_bytes(spi) for spi in spis if spi is not None] + cookies)


NO_KEYS = CaptureKeys()
