"""Installs the Wireshark plugin of `dissectors/` on this machine, uninstalls it, and checks that it is loaded."""


class PluginError(Exception):
    """The operation failed; the message is one line with the reason and the remedy."""
