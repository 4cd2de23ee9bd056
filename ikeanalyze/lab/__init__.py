"""The lab: real daemons in network namespaces of this machine, links as bad as wished, and captures of what they say.

`scenario` is what is asked for, `machine` what there is; `run` puts the rest together: `space` (namespaces and what must
not outlive us), `network` and `emulation` (hosts and links), `pki`, `strongswan` and `freeradius` (who speaks), `recording`,
`daemonlog` (what the daemons say they did) and `manifest` (what is kept of it).
"""


class LabError(Exception):
    """The lab cannot do what it is asked; the text says what is wrong and what to do. Never with a secret in it."""
