"""Index of the values in daemons' logs other than keys, by the keys that they were computed with."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ikeanalyze.analysis.verification.ike_sas import Values, get_key_values
from ikeanalyze.keys.charon.model import LoggedAuth, LoggedIntAuth, PpkKeys
from ikeanalyze.keys.detect import KeyFile


@dataclass(slots=True)
class DaemonLogIndex:
    """The values of all logs."""

    int_auths: dict[bytes, list[LoggedIntAuth]] = field(default_factory=dict, repr=False)  # by SK_pi or SK_pr
    auths: dict[bytes, list[LoggedAuth]] = field(default_factory=dict, repr=False)  # by SK_pi or SK_pr
    ppks: dict[Values, list[PpkKeys]] = field(default_factory=dict, repr=False)  # by the keys that they replace
    msks: list[bytes] = field(default_factory=list, repr=False)  # without duplicates

    def find_sk_p(self, keys: Values, sk_p: bytes | None, *, initiator: bool) -> Sequence[bytes]:
        """Candidates for SK_pi or SK_pr in IKE_AUTH: with a PPK first, then without (RFC 8784, section 3)."""
        mixed = [ppk.sk_pi if initiator else ppk.sk_pr for ppk in self.ppks.get(keys, ())]
        return list(dict.fromkeys([*mixed, *([] if sk_p is None else [sk_p])]))


def index_daemon_logs(files: Iterable[KeyFile]) -> DaemonLogIndex:
    """Index the entries of all logs."""
    index = DaemonLogIndex()
    msks: dict[bytes, None] = {}
    for file in files:
        if file.log is None:
            continue
        for int_auth in file.log.int_auths:
            index.int_auths.setdefault(int_auth.sk_p, []).append(int_auth)
        for auth in file.log.auths:
            index.auths.setdefault(auth.sk_p, []).append(auth)
        for ppk in file.log.ppks:
            if ppk.key_set is not None:
                index.ppks.setdefault(get_key_values(ppk.key_set), []).append(ppk)
        msks.update(dict.fromkeys(file.log.msks))
    index.msks = list(msks)
    return index
