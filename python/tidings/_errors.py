"""Exceptions: one class for each status of libtidings (enum td_status)."""

from typing import Any

from tidings._libtidings import ffi, lib


class Error(Exception):
    """A call of libtidings failed. Its text is the library's sentence.

    http_status  of the answer to publish(); 0: there was none, or another call failed.
    retry_after  seconds, of that answer's Retry-After; 0: it had none.
    """

    def __init__(self, why: str, http_status: int = 0, retry_after: int = 0) -> None:
        super().__init__(why)
        self.http_status = http_status
        self.retry_after = retry_after


class Stopped(Error):
    """stop() ended the call."""


class Invalid(Error, ValueError):
    """An argument is malformed; nothing was sent."""


class Refused(Error):
    """The server refuses (4xx), or a limit is exceeded."""


class Gone(Error):
    """The source no longer retains the position, or the set was removed."""


class Rewound(Error):
    """The history of the source went back in the same epoch, or is another one than
    before: nothing was taken from it."""


class Unreachable(Error):
    """No connection, it broke, or the server is busy: try again later."""


class Broken(Error):
    """The server's answer is wrong."""


class Memory(Error, MemoryError):
    """No memory, or no descriptors."""


class IO(Error):
    """A file or directory of this machine is unreadable, unwritable, full, or in use by
    another process."""


class Different(Error):
    """sync() could not get some resources."""


_CLASSES: dict[int, type[Error]] = {
    lib.TD_STOPPED: Stopped,
    lib.TD_INVALID: Invalid,
    lib.TD_REFUSED: Refused,
    lib.TD_GONE: Gone,
    lib.TD_REWOUND: Rewound,
    lib.TD_UNREACHABLE: Unreachable,
    lib.TD_BROKEN: Broken,
    lib.TD_MEMORY: Memory,
    lib.TD_IO: IO,
    lib.TD_DIFFERENT: Different,
}


def error_of(client: Any, status: int, why: str | None = None) -> Error:
    """The exception for a status of the handle's last call; or of a follower, which has
    ended with that text."""
    exception = _CLASSES.get(status, Error)
    if why is not None:
        return exception(why)
    retry_after = ffi.new("unsigned *")
    http_status = lib.td_answered(client, retry_after)
    return exception(text(lib.td_problem(client)) or "", http_status, retry_after[0])


def text(pointer: Any) -> str | None:
    """The string at a char pointer; None for NULL."""
    return None if pointer == ffi.NULL else ffi.string(pointer).decode()
