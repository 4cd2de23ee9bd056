"""Run a command in a terminal until it shows a text: python -m benchmarks.speed.terminal TEXT COMMAND...

Then q is pressed, which should end it. The exit status is 0 if the text was shown.
"""

import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time
from typing import Final

_ROWS, _COLUMNS = 40, 160
_PATIENCE_S: Final = 600.0
_AT_ONCE: Final = 1 << 16
_ESCAPES: Final = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")


def run_until_shown(text: str, command: list[str]) -> bool:
    """Run the command; return whether it showed the text."""
    pid, terminal = pty.fork()
    if not pid:
        os.environ["TERM"] = "xterm-256color"
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    shown, deadline, pressed = b"", time.monotonic() + _PATIENCE_S, False
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            read = os.read(terminal, _AT_ONCE)
        except OSError:  # how Linux reports that the other end is closed
            break
        shown = (shown + read)[-_AT_ONCE:]
        if not pressed and text.encode() in _ESCAPES.sub(b"", shown):
            os.write(terminal, b"q")
            pressed = True
    else:
        os.kill(pid, 9)
    os.waitpid(pid, 0)
    return pressed


if __name__ == "__main__":
    sys.exit(0 if run_until_shown(sys.argv[1], sys.argv[2:]) else 1)
