"""A terminal as the standard error of a program."""

import fcntl
import os
import re
import select
import struct
import termios


class Terminal:
    """`tidings ARGUMENTS`, whose standard error is a terminal of so many columns."""

    def __init__(self, start, columns, *arguments, **options):
        self.said = ""
        self._master, terminal = os.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
        self.process = start("tidings", *arguments, errors=terminal, **options)
        os.close(terminal)

    def read(self):
        """Wait for more; false: the program has closed the terminal."""
        try:
            self.said += os.read(self._master, 65536).decode()
        except OSError:  # EIO
            return False
        return True

    def read_until(self, part):
        while part not in self.said:
            assert self.read(), self.said

    def read_what_is_there(self):
        while select.select([self._master], [], [], 0)[0] and self.read():
            pass
        return self.said

    def read_all(self, status=0):
        while self.read():
            pass
        os.close(self._master)
        assert self.process.wait() == status
        return self.said


def bars_of(said):
    """The lines that were drawn over each other, without those that erase."""
    lines = re.findall(r"\r([^\r\n]*)", said)
    return [line.rstrip(" ") for line in lines if line.strip(" ")]
