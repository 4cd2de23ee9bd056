"""What the logs among some key files say beside keys, to be found by the keys that it was made with."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ikeanalyze.analysis.verification.ike_sas import Values, get_key_values
from ikeanalyze.keys.charon.model import LoggedAuth, LoggedIntAuth, PpkKeys
from ikeanalyze.keys.detect import KeyFile


@dataclass(slots=True)
class DaemonLogIndex:
    """Of all logs together."""

    int_auths: dict[bytes, list[LoggedIntAuth]] = field(default_factory=dict, repr=False)  # by SK_pi or SK_pr
    auths: dict[bytes, list[LoggedAuth]] = field(default_factory=dict, repr=False)  # by SK_pi or SK_pr
    ppks: dict[Values, list[PpkKeys]] = field(default_factory=dict, repr=False)  # by the keys that they replace
    msks: list[bytes] = field(default_factory=list, repr=False)  # each once

    def find_sk_p(self, keys: Values, sk_p: bytes | None, *, initiator: bool) -> Sequence[bytes]:
        """What SK_pi or SK_pr may be in IKE_AUTH: made with a PPK, and without (RFC 8784, section 3)."""
        mixed = [ppk.sk_pi if initiator else ppk.sk_pr for ppk in self.ppks.get(keys, ())]
        return list(dict.fromkeys([*mixed, *([] if sk_p is None else [sk_p])]))


def index_daemon_logs(files: Iterable[KeyFile]) -> DaemonLogIndex:
    """Gather it."""
    found = DaemonLogIndex()
    msks: dict[bytes, None] = {}
    for file in files:
        if file.log is None:
            continue
        for int_auth in file.log.int_auths:
            found.int_auths.setdefault(int_auth.sk_p, []).append(int_auth)
        for auth in file.log.auths:
            found.auths.setdefault(auth.sk_p, []).append(auth)
        for ppk in file.log.ppks:
            if ppk.key_set is not None:
                found.ppks.setdefault(get_key_values(ppk.key_set), []).append(ppk)
        msks.update(dict.fromkeys(msk.value for msk in file.log.msks))
    found.msks = list(msks)
    return found
