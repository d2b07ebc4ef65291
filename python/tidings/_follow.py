"""Following a source: every change once, in order, in spite of failures."""

import asyncio
import collections
import contextlib
import dataclasses
import enum
import json
import os
import select
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any, Literal

from tidings._checkpoint import (
    CheckpointError,
    Keys,
    OnCheckpoint,
    Trust,
    checkpoint_of,
    keep,
    read_kept,
    trust,
    trust_of,
)
from tidings._errors import Invalid, error_of, text
from tidings._handle import LOOK_AGAIN_S, Access, Handle, Limits, OnTrouble, Path, fail
from tidings._libtidings import ffi, lib

Transport = Literal["websocket", "events", "longpoll", "poll"]
Form = Literal["json", "xml"]
Baseline = Literal["no", "gone", "first"]
Texts = str | Iterable[str] | None

_TRANSPORTS: dict[str, int] = {
    "websocket": lib.TD_WEBSOCKET,
    "events": lib.TD_EVENTS,
    "longpoll": lib.TD_LONG_POLL,
    "poll": lib.TD_POLL,
}
_FORMS: dict[str, int] = {"json": lib.TD_JSON, "xml": lib.TD_XML}
_BASELINES: dict[str, int] = {
    "no": lib.TD_NO_BASELINE,
    "gone": lib.TD_BASELINE_GONE,
    "first": lib.TD_BASELINE_FIRST,
}
_UNKNOWN_LENGTH = 2**64 - 1


class Kind(enum.Enum):
    """What a message has."""

    CHANGES = lib.TD_CHANGES
    """The next changes; none: a heartbeat."""
    BASELINE_BEGIN = lib.TD_BASELINE_BEGIN
    """Known resources are void; `reason` says why."""
    BASELINE = lib.TD_BASELINE
    """Resources that the source has."""
    BASELINE_END = lib.TD_BASELINE_END
    """It has no others; changes follow."""


@dataclasses.dataclass(frozen=True, slots=True)
class Link:
    """A link of an entry (rs:ln). None: not given."""

    rel: str
    href: str
    type: str | None
    hash: str | None
    length: int | None
    pri: int | None
    modified: str | None
    path: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """A change or, in a baseline, a resource (`change` is None). None: not given.

    loc       URL of the resource.
    change    "created", "updated" or "deleted".
    seq       its number in the set; 0: the source has none.
    datetime  event time; lastmod: of the resource; both W3C Datetime.
    hash      "sha-256:... md5:...".
    length    bytes.
    text      the entry: a JSON object, or, as the log has it, the element <url>.
    title     words of the change, not of the resource; likewise summary and author.
    data      any value of JSON that came with the change.
    """

    loc: str
    change: str | None
    seq: int
    datetime: str | None
    lastmod: str | None
    hash: str | None
    length: int | None
    type: str | None
    encoding: str | None
    tags: tuple[str, ...]
    links: tuple[Link, ...]
    text: str
    title: str | None = None
    summary: str | None = None
    author: str | None = None
    data: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class Message:
    """Changes that came together.

    position     to be stored when they are applied, also when there are none; None
                 within a baseline: a program that stops there begins the baseline again.
    after, last  seqs: it covers the entries after the one up to the other; 0 if the
                 source has none.
    set          the name of the set, or its URL; set_url, its URL.
    digest       of the log up to `last`; None: unknown.
    reason       of a baseline.
    is_unsigned  no signed tree is known to have all that came up to here (key_lag).
    is_unproven  not each of its changes was hashed into the position: a broker filtered them,
                 or they came by Change Lists that are polled. Never so with verifier_key.
    """

    kind: Kind
    changes: tuple[Change, ...]
    position: str | None
    after: int
    last: int
    set: str
    set_url: str
    digest: str | None
    reason: str | None
    is_unsigned: bool = False
    is_unproven: bool = False


def _length(of: int) -> int | None:
    return None if of == _UNKNOWN_LENGTH else of


def _link(c: Any) -> Link:
    return Link(
        rel=text(c.rel) or "",
        href=text(c.href) or "",
        type=text(c.type),
        hash=text(c.hash),
        length=_length(c.length),
        pri=c.pri or None,
        modified=text(c.modified),
        path=text(c.path),
    )


def _change(c: Any) -> Change:
    return Change(
        loc=text(c.loc) or "",
        change=text(c.change),
        seq=c.seq,
        datetime=text(c.datetime),
        lastmod=text(c.lastmod),
        hash=text(c.hash),
        length=_length(c.length),
        type=text(c.type),
        encoding=text(c.encoding),
        tags=tuple((text(c.tags) or "").split()),
        links=tuple(_link(c.links[i]) for i in range(c.n_links)),
        text=ffi.unpack(c.text, c.text_size).decode() if c.text_size else "",
        title=text(c.title),
        summary=text(c.summary),
        author=text(c.author),
        data=json.loads(ffi.string(c.data)) if c.data else None,
    )


def message_of(c: Any) -> Message:
    return Message(
        kind=Kind(c.kind),
        changes=tuple(_change(c.changes[i]) for i in range(c.n_changes)),
        position=text(c.position),
        after=c.after,
        last=c.last,
        set=text(c.set) or "",
        set_url=text(c.set_url) or "",
        digest=text(c.digest),
        reason=text(c.reason),
        is_unsigned=bool(c.is_unsigned),
        is_unproven=bool(c.is_unproven),
    )


class _Feed(Handle):
    """A handle with a follower, which rests from each message until the next is asked
    for: what is not asked for stays at the server."""

    def __init__(
        self,
        url: str,
        access: Access | None,
        limits: Limits | None,
        on_trouble: OnTrouble | None,
    ) -> None:
        super().__init__(url, access, limits)
        self.descriptor = int(lib.td_fd(self.client))
        self.follower: Any = ffi.NULL
        self.messages: collections.deque[Message] = collections.deque()
        self.end: tuple[int, str] | None = None
        self.checkpoint_file: str | None = None
        self.on_checkpoint: OnCheckpoint | None = None
        self.fault: tuple[str, tuple[str, ...]] | None = None  # of a checkpoint
        self.is_stopping = False
        self._on_trouble = on_trouble

    def trouble(self, why: str, pause_s: float) -> None:
        self.guard(self._on_trouble, why, pause_s)

    def next(self) -> Message | None:
        """The next message; None: it is still to come. Raises StopIteration at the
        end."""
        if self.is_open and not self.is_stopping and self.end is None:
            if not self.messages:
                with self._lock:
                    if self.is_open:
                        lib.td_follower_resume(self.follower)
                status = self.turn()
                if status != lib.TD_STOPPED:
                    self.check(status)
        self.check(lib.TD_OK)
        if self.is_stopping or not self.is_open:
            raise StopIteration
        if self.messages:
            return self.messages.popleft()
        if self.end is not None:
            status, why = self.end
            if status == lib.TD_OK:
                raise StopIteration
            error = error_of(self.client, status, why)
            if self.fault:
                self.close()
                error = CheckpointError(str(error), *self.fault)
            raise error
        return None

    def checked(self, note: str, fault: str | None, *others: str | None) -> None:
        """A checkpoint has come, which is right without a fault; what it contradicts, and
        the proof."""
        if fault:
            evidence, proof = others
            self.fault = fault, tuple(one for one in (evidence, note, proof) if one is not None)
            return
        if self.checkpoint_file:
            keep(self.checkpoint_file, note)
        if self.on_checkpoint:
            self.on_checkpoint(checkpoint_of(self.client, note))

    def timeout_ms(self) -> int:
        """As of poll(2): until there may be work."""
        with self._lock:
            return int(lib.td_timeout_ms(self.client)) if self.is_open else 0

    def write_position(self, path: bytes, position: bytes) -> None:
        with self._lock:
            if self.is_open:
                self.check(lib.td_position_write(self.client, path, position))


def chars(of: str | bytes | None) -> Any:
    if isinstance(of, str):
        of = of.encode()
    return ffi.NULL if of is None else ffi.new("char[]", of)


def fill_filters(
    options: Any, change: Texts, prefix: Texts, type: Texts, tag: Texts, data: bool
) -> list[Any]:
    """Fill the filters of a td_follow_options. Returns what it points at."""
    no = None if data else "no"
    given = {"change": change, "prefix": prefix, "type": type, "tag": tag, "data": no}
    pairs = [
        (chars(name), chars(value))
        for name, values in given.items()
        for value in ([values] if isinstance(values, str) else values or ())
    ]
    filters = ffi.new("struct td_filter[]", pairs)
    options.filters = filters
    options.n_filters = len(pairs)
    return [filters, *(of for pair in pairs for of in pair)]


def fill_ways(
    options: Any, baseline: Baseline, form: Form, transports: Iterable[Transport]
) -> None:
    options.form = _known(_FORMS, form)
    options.baseline = _known(_BASELINES, baseline)
    for way in transports:
        options.transports |= _known(_TRANSPORTS, way)
    options.on_trouble = lib.handle_on_trouble


def fill_pace(
    options: Any, caught_up: bool, patience: float, idle: float, poll: float, most: int
) -> None:
    options.until_caught_up = caught_up
    options.patience_ms = round(patience * 1000)
    options.idle_ms = round(idle * 1000)
    options.poll_ms = round(poll * 1000)
    options.max_delete_percent = most


class _Followed:
    """What Follower and AsyncFollower have in common."""

    def __init__(
        self,
        url: str,
        *,
        position: str | None = None,
        since: str | None = None,
        state: Path | None = None,
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
        listing: Path | None = None,
        max_delete_percent: int = 20,
        verifier_key: Keys = None,
        witnesses: Keys = None,
        require_witnesses: int = 0,
        key_lag: float = 0.0,
        checkpoint: str | None = None,
        on_checkpoint: OnCheckpoint | None = None,
        on_trouble: OnTrouble | None = None,
        access: Access | None = None,
        limits: Limits | None = None,
    ) -> None:
        feed = self._feed = _Feed(url, access, limits, on_trouble)
        self._user = ffi.new_handle(feed)
        self._state = None if state is None else os.fsencode(state)
        self._has_baseline = baseline != "no"
        self._changes: Iterator[Change] = iter(())
        self._message: Message | None = None  # handed over, perhaps not applied yet
        self._position: str | None = position
        try:
            keys = trust_of(verifier_key, witnesses, require_witnesses)
            if keys:
                self._trust(keys, checkpoint, on_checkpoint)
            elif key_lag:
                raise Invalid("key_lag needs verifier_key")
            lib.td_key_lag(feed.client, round(key_lag * 1000))
            if self._state is not None:
                kept = ffi.new("char[]", lib.TD_POSITION_SIZE)
                feed.check(lib.td_position_read(feed.client, self._state, kept))
                if kept[0] != b"\0":
                    self._position, since = ffi.string(kept).decode(), None
            file = None if listing is None else os.fsencode(listing)
            texts = [chars(of) for of in (self._position, since, file)]
            options = ffi.new("struct td_follow_options *")
            filled = fill_filters(options, change, prefix, type, tag, data)
            fill_ways(options, baseline, form, transports)
            fill_pace(options, until_caught_up, patience, idle, poll, max_delete_percent)
            options.after, options.since, options.listing = texts
            options.on_end = lib.follower_on_end
            follower = ffi.new("struct td_follower **")
            how = (options, lib.follower_on_message, self._user, follower)
            feed.check(lib.td_follower_open(feed.client, url.encode(), *how))
            feed.follower = follower[0]
            del filled  # td_follower_open has copied it
        except BaseException:
            feed.close()
            raise

    def _trust(self, keys: Trust, kept: str | None, on_checkpoint: OnCheckpoint | None) -> None:
        feed = self._feed
        if self._state is not None:
            feed.checkpoint_file = f"{os.fsdecode(self._state)}.checkpoint"
            kept = read_kept(feed.checkpoint_file) or kept
        feed.on_checkpoint = on_checkpoint
        how = (chars(kept), lib.feed_on_checkpoint, self._user)
        feed.check(trust(feed.client, keys))
        feed.check(lib.td_keep_checkpoints(feed.client, ffi.NULL))
        feed.check(lib.td_on_checkpoint(feed.client, *how))

    @property
    def position(self) -> str | None:
        """The position behind the last message that the loop has done with: it has
        asked for another one."""
        return self._position and self._position.partition(" ")[0]

    def stop(self) -> None:
        """End the iteration: the loop ends as if there were no more. From any thread,
        and from a signal handler."""
        self._feed.is_stopping = True
        self._feed.stop()

    def close(self) -> None:
        """End the connection. The end of a with statement does so, and so does the
        garbage collector."""
        self._feed.close()

    def _take(self) -> Message | None:
        """The next message; None: it is still to come. The one before is applied."""
        done, self._message = self._message, None
        if done and done.position:
            # With its digest: the next checkpoint has to have what came unsigned.
            is_open = done.is_unsigned and done.digest
            self._position = f"{done.position} {done.digest}" if is_open else done.position
            if self._state is not None:
                self._feed.write_position(self._state, self._position.encode())
        self._message = self._feed.next()
        if self._message:
            self._changes = iter(self._message.changes)
        return self._message

    def _refuse_baselines(self) -> None:
        """A loop over changes would not see that a baseline begins."""
        if self._has_baseline:
            raise TypeError("a baseline comes as messages: iterate over messages()")

    def __del__(self) -> None:
        if hasattr(self, "_feed"):
            self._feed.close()


def _known(values: dict[str, int], name: str) -> int:
    if name not in values:
        raise Invalid(f'"{name}" is none of {", ".join(values)}')
    return values[name]


class Follower(_Followed):
    """Iterates over the changes of a source: those after `position`, then each new one,
    in order, each once. It goes on for ever: it reconnects by itself with growing
    pauses, and pulls what it has missed.

        for change in tidings.follow(url, position="0", until_caught_up=True):
            print(change.change, change.loc)

    url                 of a set, "http(s)://host:port/sets/NAME", or any document of a
                        ResourceSync source, a Sitemap, or a site.
    position            of a message; "0": the beginning; None: from now on.
    since               W3C Datetime: begin with later changes.
    state               a file that keeps the position of each message when the loop has
                        done with it, and begins there the next time: each change at
                        least once. Then `position` and `since` mean the first time.
    change, prefix,     only these changes ("deleted", ...), resources that begin so,
    type, tag           media types, tags. Several values are alternatives.
    data                False: changes come without their data.
    until_caught_up     True: end when everything up to the start is handed over; raises
                        Unreachable if nothing new comes for `patience` seconds.
    baseline            "gone": all resources come where the history does not reach
                        back, instead of Gone; "first": and in the beginning. For
                        messages() alone.
    form                of Change.text: "json" or "xml".
    transports          some of "websocket", "events", "longpoll", "poll"; (): all.
    idle                seconds of silence after which a connection is dead; 0: three
                        heartbeats.
    poll                seconds between two looks at lists, where nothing is pushed.
    listing             a file that keeps the last list of a source that has only a list
                        (a Sitemap); positions are of that file.
    max_delete_percent  of such a list; more are Refused; 100: no limit.
    verifier_key        the verifier keys of the set: lines of `tidingsd key show`.
                        Then changes come once a checkpoint that is right has them;
                        while some wait, one is read each second.
    witnesses,          likewise the keys of those who have to cosign it: so many of
    require_witnesses   them; 0: all.
    key_lag             so many seconds a change may come before it is signed
                        (Message.is_unsigned); then further ones wait. 0: all wait.
    checkpoint          the text of the last one; `state` keeps it in STATE.checkpoint.
    on_checkpoint       called with each Checkpoint that is right.
    on_trouble          called when there is no connection, with the reason and the
                        seconds until the next attempt.

    The loop takes one message at a time; the others wait at the server. A follower is
    of one thread at a time; different threads have different ones. stop() ends the loop
    from any thread. A signal's exception (KeyboardInterrupt) ends a wait at once: go
    on with another follower, from the position that is stored.

    Raises Gone, Refused, Unreachable, Broken, IO, Memory, Invalid, CheckpointError.
    """

    def messages(self) -> Iterator[Message]:
        """Iterate over messages, also those without changes: store the position of each
        together with its effects, and every change takes effect exactly once."""
        with contextlib.suppress(StopIteration):
            while True:
                yield self._next_message()

    def _next_message(self) -> Message:
        watch = select.poll()
        watch.register(self._feed.descriptor, select.POLLIN)
        while (message := self._take()) is None:
            timeout_ms, most_ms = self._feed.timeout_ms(), round(LOOK_AGAIN_S * 1000)
            watch.poll(min(timeout_ms, most_ms) if timeout_ms >= 0 else most_ms)
        return message

    def __iter__(self) -> "Follower":
        self._refuse_baselines()
        return self

    def __next__(self) -> Change:
        while (change := next(self._changes, None)) is None:
            self._next_message()
        return change

    def __enter__(self) -> "Follower":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncFollower(_Followed):
    """Follower for asyncio, on the running event loop, without a thread.

        async for change in tidings.afollow(url, position="0"):
            ...

    Arguments and exceptions are those of Follower. Cancelling the task ends the wait at
    once, and loses nothing: the loop may go on.
    """

    _wake: Callable[[], None] | None = None  # ends _wait

    def close(self) -> None:
        """End the connection, and a loop that waits in another task."""
        super().close()
        if self._wake:
            self._wake()

    async def messages(self) -> AsyncIterator[Message]:
        """Iterate over messages: Follower.messages()."""
        while (message := await self._next_message()) is not None:
            yield message

    async def _next_message(self) -> Message | None:
        """None: there are no more."""
        try:
            await asyncio.sleep(0)  # other tasks go on while messages are at hand
            while (message := self._take()) is None:
                await self._wait()
        except StopIteration:
            return None
        return message

    async def _wait(self) -> None:
        """Wait until there may be work. Nothing stays with the event loop."""
        loop = asyncio.get_running_loop()
        work: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not work.done():
                work.set_result(None)

        descriptor = self._feed.descriptor
        timeout_ms = self._feed.timeout_ms()
        timer = loop.call_later(timeout_ms / 1000, wake) if timeout_ms >= 0 else None
        loop.add_reader(descriptor, wake)
        self._wake = wake
        try:
            await work
        finally:
            self._wake = None
            loop.remove_reader(descriptor)
            if timer:
                timer.cancel()

    def __aiter__(self) -> "AsyncFollower":
        self._refuse_baselines()
        return self

    async def __anext__(self) -> Change:
        while (change := next(self._changes, None)) is None:
            if await self._next_message() is None:
                raise StopAsyncIteration
        return change

    async def __aenter__(self) -> "AsyncFollower":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


follow = Follower
afollow = AsyncFollower


# Positions in a database


def load_position(connection: sqlite3.Connection, name: str) -> str | None:
    """The position kept under `name`, the caller's name of the source; None: none."""
    _make_table(connection)
    query = "SELECT position FROM td_position WHERE name = ?"
    row = connection.execute(query, (name,)).fetchone()
    return row[0] if row else None


def load_positions(connection: sqlite3.Connection) -> dict[str, str]:
    """All positions that are kept, by their names: for follow_source(), where the names
    are the URLs of sets."""
    _make_table(connection)
    return dict(connection.execute("SELECT name, position FROM td_position"))


def save_position(connection: sqlite3.Connection, name: str, position: str) -> None:
    """Keep the position in the transaction that is open, or begins now: it is committed
    together with the caller's other changes, or not at all. The table is that of
    td_position_save, which C programs use."""
    _make_table(connection)
    connection.execute(
        "INSERT INTO td_position (name, position) VALUES (?, ?)"
        " ON CONFLICT (name) DO UPDATE SET position = excluded.position",
        (name, position),
    )


def _make_table(connection: sqlite3.Connection) -> None:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS td_position"
        " (name TEXT PRIMARY KEY, position TEXT)"
    )


# Called by C


@ffi.def_extern(onerror=fail)
def feed_on_checkpoint(note: Any, fault: Any, evidence: Any, proof: Any, user: Any) -> None:
    others = (text(of) for of in (fault, evidence, proof))
    ffi.from_handle(user).checked(text(note) or "", *others)


@ffi.def_extern(onerror=fail, error=1)
def follower_on_message(message: Any, user: Any) -> int:
    feed = ffi.from_handle(user)
    feed.messages.append(message_of(message))
    lib.td_follower_pause(feed.follower)
    return 0


@ffi.def_extern(onerror=fail)
def follower_on_end(status: int, why: Any, user: Any) -> None:
    ffi.from_handle(user).end = (status, text(why) or "")
