"""The Wireshark plugin on this machine: what belongs to it, where it goes, whether it works there.

The plugin itself is Lua, in `dissectors/` of the repository; here is what puts it in place and takes it away
again. Nothing here knows captures. `source` has the files, `folders` the places, `probe` asks a tshark,
`manifest` remembers what was installed, `files` installs and uninstalls.
"""


class PluginError(Exception):
    """It cannot be done: a line for the user that says what is wrong and what to do."""
