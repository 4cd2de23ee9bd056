"""Lab: runs real IKE daemons in network namespaces of this machine, over emulated links, and captures their traffic.

`scenario` describes the cases and `machine` the requirements; `campaign` runs all cases, `run` one of them; `network`
and `daemons` provide hosts, links and daemons, `actions` are done after a handshake, `recording`, `logs`, `host_info`
and `manifest` store the results.
"""


class LabError(Exception):
    """The lab cannot do what was requested. The text has the problem and the remedy, without secrets."""
