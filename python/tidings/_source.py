"""Following all sets of a source, on one connection where its broker has that."""

import asyncio
import collections
import functools
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any

from tidings._errors import Error, error_of, text
from tidings._follow import Baseline, Form, Message, Texts, Transport, chars, message_of
from tidings._follow import fill_filters, fill_pace, fill_ways
from tidings._handle import LOOK_AGAIN_S, Access, Handle, Limits, OnTrouble, fail
from tidings._libtidings import ffi, lib

OnMissed = Callable[[str, str], object]
"""Gets the URL of a set or document, and why it cannot be followed or read."""

# Calls that wait for the loop; then td_follow_source waits.
_CALLS_MAX = 64

_Call = Callable[[], object]


class _Feed(Handle):
    """td_follow_source, on a thread of its own. It waits while the loop is at work: what
    is not asked for stays at the server."""

    def __init__(
        self,
        url: str,
        positions: Mapping[str, str],
        on_missed: OnMissed | None,
        on_trouble: OnTrouble | None,
        access: Access | None,
        limits: Limits | None,
    ) -> None:
        super().__init__(url, access, limits)
        self.positions = dict(positions)  # where sets begin
        self.is_stopping = False
        self.wake: Callable[[], None] = lambda: None  # called when something has come
        self._on_missed = on_missed
        self._on_trouble = on_trouble
        self._items: collections.deque[Message | _Call] = collections.deque()
        self._changed = threading.Condition()  # reentrant: signal handlers call stop()
        self._is_over = False
        self._error: Error | None = None

    # On the thread

    def work(self, url: bytes, options: Any, user: Any, kept: list[Any]) -> None:
        """`kept`: what `options` points at."""
        status = lib.td_follow_source(
            self.client, url, options, lib.source_on_message, user
        )
        if status != lib.TD_OK:
            self._error = error_of(self.client, status)
        self.close()
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        self.wake()

    def put(self, item: Message | _Call, most: int) -> None:
        """Hand it to the loop, where fewer than `most` wait."""
        with self._changed:
            self._changed.wait_for(
                lambda: self.is_stopping or len(self._items) < most
            )
            self._items.append(item)
            self._changed.notify_all()
        self.wake()

    def trouble(self, why: str, pause_s: float) -> None:
        if self._on_trouble:
            call = functools.partial(self._on_trouble, why, pause_s)
            self.put(call, _CALLS_MAX)

    def missed(self, url: str, why: str) -> None:
        if self._on_missed:
            self.put(functools.partial(self._on_missed, url, why), _CALLS_MAX)

    # Of the loop

    def next(self) -> Message | None:
        """The next message; None: it is still to come. Raises StopIteration at the
        end, and what callbacks raise."""
        while not self.is_stopping:
            self.check(lib.TD_OK)
            with self._changed:
                is_over = self._is_over
                item = self._items.popleft() if self._items else None
                self._changed.notify_all()
            if isinstance(item, Message):
                return item
            if item:
                self.guard(item)
            elif self._error:
                raise self._error
            elif is_over:
                break
            else:
                return None
        raise StopIteration

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until next() has something; at once with a timeout of 0."""
        with self._changed:
            return self._changed.wait_for(
                lambda: bool(self._items) or self._is_over or self.is_stopping,
                timeout_s,
            )

    def stop(self) -> None:
        self.is_stopping = True
        with self._changed:
            self._changed.notify_all()
        super().stop()
        self.wake()


class _Followed:
    """What SourceFollower and AsyncSourceFollower have in common."""

    def __init__(
        self,
        url: str,
        *,
        positions: Mapping[str, str] | None = None,
        position: str | None = None,
        since: str | None = None,
        change: Texts = None,
        prefix: Texts = None,
        type: Texts = None,
        tag: Texts = None,
        data: bool = True,
        until_caught_up: bool = False,
        patience: float = 60.0,
        baseline: Baseline = "no",
        form: Form = "json",
        transports: Iterable[Transport] = (),
        idle: float = 0.0,
        poll: float = 60.0,
        max_delete_percent: int = 20,
        on_missed: OnMissed | None = None,
        on_trouble: OnTrouble | None = None,
        access: Access | None = None,
        limits: Limits | None = None,
    ) -> None:
        options = ffi.new("struct td_source_options *")
        how = options.follow
        kept = fill_filters(how, change, prefix, type, tag, data)
        fill_ways(how, baseline, form, transports)
        fill_pace(how, until_caught_up, patience, idle, poll, max_delete_percent)
        kept += [chars(position), chars(since)]
        how.after, how.since = kept[-2:]
        options.on_start = lib.source_on_start
        options.on_missed = lib.source_on_missed
        feed = _Feed(url, positions or {}, on_missed, on_trouble, access, limits)
        kept.append(ffi.new_handle(feed))
        self._feed = feed
        self._positions = dict(feed.positions)
        self._message: Message | None = None  # handed over, perhaps not applied yet

        arguments = (url.encode(), options, kept[-1], kept)
        self._thread = threading.Thread(target=feed.work, args=arguments, daemon=True)
        self._thread.start()

    @property
    def positions(self) -> dict[str, str]:
        """The position of each set, by its URL, behind the last message of it that the
        loop has done with: for `positions` of the next run."""
        return dict(self._positions)

    def stop(self) -> None:
        """End the iteration: the loop ends as if there were no more. From any thread,
        and from a signal handler."""
        self._feed.stop()

    def close(self) -> None:
        """End the connections. The end of a with statement does so, and so does the
        garbage collector."""
        self._feed.stop()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _take(self) -> Message | None:
        """The next message; None: it is still to come. The one before is applied."""
        done, self._message = self._message, None
        if done and done.position:
            self._positions[done.set_url] = done.position
        self._message = self._feed.next()
        return self._message

    def __del__(self) -> None:
        if hasattr(self, "_thread"):
            self._feed.stop()


class SourceFollower(_Followed):
    """Iterates over the messages of all sets of a source, and of those that it gets
    later: the changes of each set in order, each once; those of different sets in no
    order. All sets share one connection if their broker has a stream of many sets.

        for message in tidings.follow_source("http://127.0.0.1:8787/", position="0"):
            for change in message.changes:
                print(message.set, change.change, change.loc)

    url         any address of a source; or of one set.
    positions   where to begin, by the URL of each set (`message.set_url`):
                load_positions(), or `positions` of an earlier follower.
    position    of the other sets: "0", the beginning; None: from now on.
    on_missed   called with the URL of a set that has failed, or of a document that the
                source names and that cannot be read, and the reason, while the others
                go on.

    The other arguments, and the exceptions, are those of Follower; of several sets that
    have failed, the first one is raised when all have ended. Store message.position
    under message.set_url, also of messages without changes.
    """

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        while (message := self._take()) is None:
            self._feed.wait(LOOK_AGAIN_S)
        return message

    def __enter__(self) -> "SourceFollower":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncSourceFollower(_Followed):
    """SourceFollower for asyncio.

        async for message in tidings.afollow_source(url, position="0"):
            ...

    Cancelling the task ends the wait at once, and loses nothing: the loop may go on.
    """

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        try:
            await asyncio.sleep(0)  # other tasks go on while messages are at hand
            while (message := self._take()) is None:
                await self._wait()
        except StopIteration:
            raise StopAsyncIteration from None
        return message

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        work = asyncio.Event()
        self._feed.wake = lambda: _call_soon(loop, work.set)
        try:
            if not self._feed.wait(0):
                await work.wait()
        finally:
            self._feed.wake = lambda: None

    async def __aenter__(self) -> "AsyncSourceFollower":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


def _call_soon(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(callback)


follow_source = SourceFollower
afollow_source = AsyncSourceFollower


# Called by C


@ffi.def_extern(onerror=fail, error=1)
def source_on_message(message: Any, user: Any) -> int:
    feed = ffi.from_handle(user)
    feed.put(message_of(message), 1)
    return int(feed.is_stopping)


@ffi.def_extern(onerror=fail, error=1)
def source_on_start(start: Any, user: Any) -> int:
    position = ffi.from_handle(user).positions.get(text(start.set_url))
    if position:
        start.after = position.encode()
    return 0


@ffi.def_extern(onerror=fail)
def source_on_missed(url: Any, why: Any, user: Any) -> None:
    ffi.from_handle(user).missed(text(url), text(why) or "")
