"""The lab: real daemons in network namespaces of this machine, links as bad as wished, and captures of what they say.

`scenario` is what is asked for, `machine` and `tree` what there is; `run` puts the rest together: `output` (where it goes),
`space` (namespaces and what must not outlive us), `network` and `emulation` (hosts and links), `pki` and `sides` (what they
know), `strongswan`, `libreswan` and `freeradius` (who speaks; the first two behind `peer`), `steps` (what follows a handshake),
`recording`, `daemonlog`, `plutolog` and `radiuslog` (what the daemons say they did) and `manifest` (what is kept of it).
"""


class LabError(Exception):
    """The lab cannot do what it is asked; the text says what is wrong and what to do. Never with a secret in it."""
