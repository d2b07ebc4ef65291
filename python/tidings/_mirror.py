"""Mirroring the resources of a source on disk."""

import dataclasses
import enum
import os
from collections.abc import Callable
from typing import Any

from tidings._errors import text
from tidings._handle import Access, Call, Handle, Limits, OnTrouble, Path, fail
from tidings._libtidings import ffi, lib


class What(enum.Enum):
    """What happened to a file of a mirror."""

    WRITTEN = lib.TD_SYNC_WRITTEN
    DELETED = lib.TD_SYNC_DELETED


@dataclasses.dataclass(frozen=True, slots=True)
class File:
    """A file that a mirror has written or deleted.

    loc    URL of the resource; path, relative to the mirror.
    bytes  its length, of a written one.
    """

    what: What
    loc: str
    path: str
    bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class Synced:
    """What a run has done: resources fetched, already right, or deleted; given up;
    bytes fetched; and the position that the mirror equals, None before it does."""

    n_done: int
    n_failed: int
    bytes_done: int
    position: str | None


OnChange = Callable[[File], object]

_TROUBLE = {lib.TD_SYNC_FAILED, lib.TD_SYNC_LEFT, lib.TD_SYNC_TROUBLE}


class _Sync(Call):
    """A call of td_sync, and what it has done so far."""

    def __init__(
        self, handle: Handle, on_change: OnChange | None, on_trouble: OnTrouble | None
    ) -> None:
        super().__init__(handle, on_trouble)
        self.synced = Synced(0, 0, 0, None)
        self._on_change = on_change

    def function(self, url: str, directory: Path, options: Any) -> Callable[[], int]:
        user = options.user = ffi.new_handle(self)
        arguments = (url.encode(), os.fsencode(directory), options)

        def function(_: Any = user) -> int:
            return int(lib.td_sync(self.handle.client, *arguments))

        return function

    def happened(self, event: Any) -> None:
        position = self.synced.position
        if event.what in (lib.TD_SYNC_BASELINED, lib.TD_SYNC_CAUGHT_UP):
            position = text(event.position)
        self.synced = Synced(event.n_done, event.n_failed, event.bytes_done, position)
        loc, why = text(event.loc), text(event.why) or ""
        if event.what in _TROUBLE:
            self.trouble(f"{loc}: {why}" if loc else why, 0.0)
        elif event.what in (lib.TD_SYNC_WRITTEN, lib.TD_SYNC_DELETED):
            path = os.fsdecode(ffi.string(event.path))
            file = File(What(event.what), loc or "", path, event.bytes)
            if self._on_change:
                self.report(self._on_change, file)


def _options(
    per_host: int, attempts: int, percent: int, until: bool, poll: float, patience: float
) -> Any:
    options = ffi.new("struct td_sync_options *")
    options.per_host = per_host
    options.attempts = attempts
    options.max_delete_percent = percent
    options.until_caught_up = until
    options.poll_ms = round(poll * 1000)
    options.patience_ms = round(patience * 1000)
    options.on_event = lib.sync_on_event
    return options


def sync(
    url: str,
    directory: Path,
    *,
    until_caught_up: bool = False,
    on_change: OnChange | None = None,
    on_trouble: OnTrouble | None = None,
    per_host: int = 4,
    attempts: int = 5,
    max_delete_percent: int = 20,
    poll: float = 60.0,
    patience: float = 60.0,
    access: Access | None = None,
    limits: Limits | None = None,
) -> Synced:
    """Mirror the resources of a set, or of all sets of a source, in a directory: all of
    them first, then each change. A process killed at any moment goes on from there.

    url                 a set, or any document of a ResourceSync source, or a Sitemap.
    directory           made if needed; each resource is a file below it. One process at
                        a time.
    until_caught_up     True: return when the mirror equals the source; else go on.
    on_change           called for each file that is written or deleted.
    on_trouble          called with what fails; the mirror tries again, or goes on with
                        the others.
    per_host            requests at a time at one host.
    attempts            for a resource.
    max_delete_percent  of the mirror's resources, in an hour; more are Refused, and not
                        deleted. 100: no limit.
    poll                seconds between two looks at lists, where nothing is pushed.
    patience            seconds without news after which until_caught_up fails.

    The callbacks run on the calling thread; what they raise ends the call, and is
    raised by it. Blocks without the GIL; a signal's exception (KeyboardInterrupt) ends
    the call, and what is done stays.

    Raises Different (some resources were given up), IO, Refused, Gone, Unreachable,
    Broken, Invalid, Memory.
    """
    options = _options(
        per_host, attempts, max_delete_percent, until_caught_up, poll, patience
    )
    call = _Sync(Handle(url, access, limits), on_change, on_trouble)
    call.run(call.function(url, directory, options))
    return call.synced


async def async_sync(
    url: str,
    directory: Path,
    *,
    until_caught_up: bool = False,
    on_change: OnChange | None = None,
    on_trouble: OnTrouble | None = None,
    per_host: int = 4,
    attempts: int = 5,
    max_delete_percent: int = 20,
    poll: float = 60.0,
    patience: float = 60.0,
    access: Access | None = None,
    limits: Limits | None = None,
) -> Synced:
    """sync() for asyncio; the callbacks run on the event loop. Cancelling the task ends
    the call, and what is done stays."""
    options = _options(
        per_host, attempts, max_delete_percent, until_caught_up, poll, patience
    )
    call = _Sync(Handle(url, access, limits), on_change, on_trouble)
    await call.arun(call.function(url, directory, options))
    return call.synced


@ffi.def_extern(onerror=fail)
def sync_on_event(event: Any, user: Any) -> None:
    ffi.from_handle(user).happened(event)
