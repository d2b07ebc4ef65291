"""Posting changes: a document, or changes one by one, through a spool."""

import asyncio
import contextlib
import dataclasses
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tidings._errors import Error, error_of, text
from tidings._handle import LOOK_AGAIN_S, Access, Call, Handle, OnTrouble, Path
from tidings._handle import fail, path_or_null
from tidings._libtidings import ffi, lib

Changes = Mapping[str, object] | Iterable[Mapping[str, object]]

NDJSON = "application/x-ndjson"

# flush() tries a post again at once, add() interrupts it: so often at most.
_FLUSH_EVERY_S = 0.2


@dataclasses.dataclass(frozen=True, slots=True)
class Receipt:
    """The broker's answer: the changes are on its disk.

    first, last  seqs of the first and the last entry.
    position     of the last one.
    datetime     its event time, W3C Datetime.
    """

    first: int
    last: int
    position: str
    datetime: str


def _receipt(c: Any) -> Receipt:
    position, datetime = (ffi.string(of).decode() for of in (c.position, c.datetime))
    return Receipt(c.first, c.last, position, datetime)


def _prepare(
    url: str,
    changes: Changes | bytes,
    type: str,
    key: str | None,
    retry: float,
    on_trouble: OnTrouble | None,
    access: Access | None,
) -> tuple[Call, Callable[[], int], Any]:
    """A call, what it calls, and the td_receipt that this fills."""
    if isinstance(changes, Mapping):
        changes = [changes]
    if not isinstance(changes, bytes):
        changes = "".join(f"{json.dumps(change)}\n" for change in changes).encode()
    call = Call(Handle(url, access), on_trouble)
    user = ffi.new_handle(call)
    options = ffi.new("struct td_publish_options *")
    name = ffi.NULL if key is None else ffi.new("char[]", key.encode())
    options.key = name
    options.retry_ms = round(retry * 1000) or -1
    options.on_trouble = lib.handle_on_trouble
    options.user = user
    receipt = ffi.new("struct td_receipt *")
    arguments = (url.encode(), type.encode(), changes, len(changes))

    def function(_: tuple[Any, ...] = (user, name)) -> int:
        client = call.handle.client
        return int(lib.td_publish(client, *arguments, options, receipt))

    return call, function, receipt


def publish(
    url: str,
    changes: Changes | bytes,
    *,
    type: str = NDJSON,
    key: str | None = None,
    retry: float = 60.0,
    on_trouble: OnTrouble | None = None,
    access: Access | None = None,
) -> Receipt:
    """Post changes to a set; returns when they are on the broker's disk.

    url         of the set, "http(s)://host:port/sets/NAME".
    changes     mappings such as {"loc": "https://...", "change": "updated"}, or one; or
                a document, bytes of the media type `type`: "application/xml",
                "application/json" or "application/x-ndjson".
    key         names the post (Idempotency-Key): the broker keeps a repeated post with
                the same key and the same changes once, for 24 hours at least. None:
                128 random bits.
    retry       seconds in which a post whose answer was lost is repeated.
    on_trouble  called before each further attempt.

    Raises Refused, Unreachable, Invalid, Broken, Memory. Blocks without the GIL; a
    signal's exception (KeyboardInterrupt) ends the call: the broker may have kept the
    post. From any thread. Opens a connection of its own: for many posts use Publisher.
    """
    call, function, receipt = _prepare(
        url, changes, type, key, retry, on_trouble, access
    )
    call.run(function)
    return _receipt(receipt)


async def apublish(
    url: str,
    changes: Changes | bytes,
    *,
    type: str = NDJSON,
    key: str | None = None,
    retry: float = 60.0,
    on_trouble: OnTrouble | None = None,
    access: Access | None = None,
) -> Receipt:
    """publish() for asyncio. Cancelling the task ends the call: the broker may have
    kept the post."""
    call, function, receipt = _prepare(
        url, changes, type, key, retry, on_trouble, access
    )
    await call.arun(function)
    return _receipt(receipt)


class Publisher:
    """Takes changes one by one, and posts them in batches, in order, each once, until
    the broker has acknowledged them.

        with tidings.Publisher(url, spool="changes.spool") as publisher:
            publisher.add({"loc": "https://example.com/a", "change": "updated"})

    url         of the set.
    spool       a file that keeps changes until they are acknowledged: when add()
                returns, a change survives the process, and the next Publisher with this
                file posts it. One process at a time. None: changes are in memory alone.
    batch       most changes of a post.
    linger      seconds that a change waits for others.
    on_refused  called with a change's number, its JSON text and the broker's reason
                when the broker refuses it for good; the others are posted. None: the
                publisher stands still, and flush() raises Refused.
    on_durable  called with the number of the last durable change and the receipt.
    on_trouble  called before each further attempt.

    A thread of the publisher posts; the callbacks run on it, and must not call the
    publisher. flush() raises what they raise. All methods may be called from any
    thread.

    At its end the with statement waits until all changes are durable, unless an
    exception ends it. close() alone leaves them in the spool, or loses them without
    one.

    Raises Invalid, IO (the spool is of another set, in use, or the disk refuses).
    """

    def __init__(
        self,
        url: str,
        *,
        spool: Path | None = None,
        batch: int = 1000,
        linger: float = 0.0,
        spool_bytes: int = 0,
        queue_bytes: int = 0,
        on_refused: Callable[[int, str, str], object] | None = None,
        on_durable: Callable[[int, Receipt], object] | None = None,
        on_trouble: OnTrouble | None = None,
        access: Access | None = None,
    ) -> None:
        self._on_refused = on_refused
        self._on_durable = on_durable
        self._on_trouble = on_trouble
        self._handle = Handle(url, access)
        self.fail = self._handle.fail
        self._user = ffi.new_handle(self)
        options = ffi.new("struct td_publisher_options *")
        path = path_or_null(spool)
        kept = ffi.NULL if spool is None else ffi.new("char[]", path)
        options.spool = kept
        options.batch_changes = batch
        options.linger_ms = round(linger * 1000)
        options.spool_bytes = spool_bytes
        options.queue_bytes = queue_bytes
        options.on_durable = lib.publisher_on_durable
        options.on_trouble = lib.handle_on_trouble
        if on_refused:
            options.on_refused = lib.publisher_on_refused
        options.user = self._user
        publisher = ffi.new("struct td_publisher **")
        client = self._handle.client
        try:
            self._handle.check(
                lib.td_publisher_open(client, url.encode(), options, publisher)
            )
        except BaseException:
            self._handle.close()
            raise
        self._publisher = publisher[0]

        # The thread holds the handle while it `_is_posting`; each other user stops it,
        # and has the lock. They come first.
        self._changed = threading.Condition()
        self._is_posting = False
        self._n_users = 0
        self._n_flushing = 0
        self._refusal: Error | None = None
        self._flushed_s = 0.0
        self._added = int(lib.td_publisher_added(self._publisher))
        self._durable = int(lib.td_publisher_durable(self._publisher))
        self._settled = self._durable  # the last one durable or refused
        self._is_closed = False
        self._thread = threading.Thread(target=self._post, daemon=True)
        self._thread.start()

    # The thread

    def _post(self) -> None:
        """td_publisher_flush while somebody waits for it, for it tells refusals; else
        td_run."""
        while True:
            with self._changed:
                while not self._is_closed and not self._may_post():
                    self._changed.wait(self._pause_s())
                if self._is_closed:
                    return
                is_flush = self._n_flushing > 0
                if is_flush:
                    self._flushed_s = time.monotonic()
                self._is_posting = True
            if is_flush:
                status = lib.td_publisher_flush(self._publisher)
            else:
                status = lib.td_run(self._handle.client)
            with self._changed:
                self._is_posting = False
                self._durable = int(lib.td_publisher_durable(self._publisher))
                if status == lib.TD_OK:
                    self._settled = self._added
                elif status != lib.TD_STOPPED:
                    self._refusal = error_of(self._handle.client, status)
                self._changed.notify_all()

    def _may_post(self) -> bool:
        if self._n_users or self._settled >= self._added:
            return False
        return not self._n_flushing or (not self._refusal and not self._pause_s())

    def _pause_s(self) -> float | None:
        """Seconds until the next flush; None: it may begin."""
        if not self._n_flushing:
            return None
        pause_s = self._flushed_s + _FLUSH_EVERY_S - time.monotonic()
        return pause_s if pause_s > 0 else None

    # Its users

    @contextlib.contextmanager
    def _turn(self) -> Iterator[Any]:
        """The handle is the caller's."""
        if threading.current_thread() is self._thread:
            raise RuntimeError("called from a callback of the publisher")
        with self._changed:
            self._n_users += 1
            try:
                while self._is_posting:
                    self._handle.stop()
                    self._changed.wait(LOOK_AGAIN_S)
                if self._is_closed:
                    raise ValueError("the publisher is closed")
                yield self._publisher
            finally:
                self._n_users -= 1
                self._changed.notify_all()

    def add(self, change: Mapping[str, object]) -> int:
        """Add a change, and return its number: 1, 2, 3 ..., with a spool across
        processes. With a spool it is on the disk then.

        Raises Invalid (it is no change), Unreachable (the queue or the spool is full:
        nothing was added), IO.
        """
        return self.add_all([change])

    def add_all(
        self, changes: Iterable[Mapping[str, object]], *, note: str | None = None
    ) -> int:
        """Add several changes, all or none of them, and return the number of the last.

        note  up to 1,023 bytes of the caller's, which say, for example, how far it has
              read its input. A spool stores the note and the changes in one
              transaction: after a crash the caller reads on from `note`, and posts each
              change once. None: the former note stays.

        Raises what add() raises; Invalid, too, if the note is too long.
        """
        bodies = [json.dumps(change).encode() for change in changes]
        texts = [(ffi.from_buffer(body), len(body)) for body in bodies]
        kept = ffi.NULL if note is None else ffi.new("char[]", note.encode())
        number = ffi.new("uint64_t *")
        with self._turn() as publisher:
            array = ffi.new("struct td_change_text[]", texts)
            status = lib.td_publisher_add_all(
                publisher, array, len(texts), kept, number
            )
            if status != lib.TD_OK:
                raise error_of(self._handle.client, status)
            self._added = int(lib.td_publisher_added(publisher))
            return self._added

    @property
    def note(self) -> str:
        """The last note of add_all(), with a spool across processes; "": none."""
        with self._turn() as publisher:
            return text(lib.td_publisher_note(publisher)) or ""

    @property
    def added(self) -> int:
        """The number of the last change added; 0: none. With a spool, a process learns
        from it which of its changes an earlier one has added."""
        return self._added

    @property
    def durable(self) -> int:
        """The number of the last durable change; 0: none."""
        return self._durable

    def flush(self, timeout: float | None = None) -> None:
        """Wait until every change added before is durable at the broker, or refused.

        timeout  seconds; then TimeoutError. None: wait on.

        Raises Refused, Gone (a post is refused, and no on_refused can take a change out
        of it), IO (the spool), and what callbacks have raised.
        """
        deadline_s = None if timeout is None else time.monotonic() + timeout
        self._flush(deadline_s, threading.Event())

    def _flush(self, deadline_s: float | None, has_ended: threading.Event) -> None:
        with self._turn():
            target = self._added
            self._refusal = None
            self._flushed_s = 0.0
            self._n_flushing += 1
        try:
            with self._changed:
                while self._is_waiting(target) and not has_ended.is_set():
                    left_s = LOOK_AGAIN_S
                    if deadline_s is not None:
                        left_s = min(left_s, deadline_s - time.monotonic())
                    if left_s <= 0:
                        raise TimeoutError(f"change {target} is not durable yet")
                    self._changed.wait(left_s)
        finally:
            with self._changed:
                self._n_flushing -= 1
                self._changed.notify_all()

    def _is_waiting(self, target: int) -> bool:
        """True if that change is not durable yet. Raises why it will not be."""
        self._handle.check(lib.TD_OK)
        is_waiting = self._durable < target and self._settled < target
        if is_waiting and self._refusal:
            raise self._refusal
        if is_waiting and self._is_closed:
            raise ValueError("the publisher is closed")
        return is_waiting

    def close(self) -> None:
        """End the publisher at once. What is not durable stays in the spool."""
        if threading.current_thread() is self._thread:
            raise RuntimeError("called from a callback of the publisher")
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            while self._is_posting:
                self._handle.stop()
                self._changed.wait(LOOK_AGAIN_S)
        self._thread.join()
        self._handle.close()

    # asyncio

    async def aadd(self, change: Mapping[str, object]) -> int:
        """add() for asyncio: other tasks go on while the disk writes."""
        return await asyncio.to_thread(self.add, change)

    async def aflush(self) -> None:
        """flush() for asyncio. Cancelling the task ends the wait, no more."""
        has_ended = threading.Event()
        flushing = asyncio.ensure_future(
            asyncio.to_thread(self._flush, None, has_ended)
        )
        try:
            await asyncio.shield(flushing)
        except asyncio.CancelledError:
            has_ended.set()
            with self._changed:
                self._changed.notify_all()
            await asyncio.wait([flushing])
            raise

    # Ends

    def __enter__(self) -> "Publisher":
        return self

    def __exit__(self, type: type[BaseException] | None, *_: object) -> None:
        try:
            if type is None:
                self.flush()
        finally:
            self.close()

    # Called by C

    def trouble(self, why: str, pause_s: float) -> None:
        self._handle.guard(self._on_trouble, why, pause_s)

    def refused(self, number: int, change: str, why: str) -> None:
        self._handle.guard(self._on_refused, number, change, why)

    def made_durable(self, number: int, receipt: Receipt) -> None:
        self._durable = number
        self._handle.guard(self._on_durable, number, receipt)


@ffi.def_extern(onerror=fail)
def publisher_on_durable(number: int, receipt: Any, user: Any) -> None:
    ffi.from_handle(user).made_durable(number, _receipt(receipt))


@ffi.def_extern(onerror=fail)
def publisher_on_refused(number: int, change: Any, why: Any, user: Any) -> None:
    ffi.from_handle(user).refused(number, text(change), text(why))
