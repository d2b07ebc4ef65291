"""The handle of libtidings, and calls that block.

The kernel gives a signal to Python, but Python's handlers run between two lines of the
main thread: not during a call of C. So a call that blocks runs on a thread of its own,
while the caller waits for it in Python. KeyboardInterrupt or task.cancel() stops the
call (td_stop), waits for its end, which comes soon, and is raised then.
"""

import asyncio
import contextlib
import dataclasses
import os
import queue
import threading
from collections.abc import Callable, Mapping
from typing import Any

from tidings._errors import Memory, Stopped, error_of, text
from tidings._libtidings import ffi, lib

Path = str | os.PathLike[str]
OnTrouble = Callable[[str, float], None]
"""Gets a sentence, and the seconds until the next attempt."""

# A signal may come after Python's last look for signals and before the system call that
# waits: that call does not end then. So each wait of a main thread looks again.
LOOK_AGAIN_S = 0.1

# A thread whose start a signal has interrupted begins within this time, or never.
_BEGIN_S = 1.0

# Callbacks that may wait for the caller of a call that blocks; the call waits then.
_CALLBACKS_MAX = 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class Access:
    """What a handle shows to the server of the URL that it is opened for, and which
    servers it may ask.

    token          a bearer token.
    token_file     a file with one, which no other user can read; read again when the
                   server refuses the token.
    certificate    PEM file with a certificate and its chain (mutual TLS), and its key,
                   unless `key` is the file of that.
    headers        more fields of each request.
    allow_private  True: the source may name addresses nearer than its own.
    """

    token: str | None = dataclasses.field(default=None, repr=False)
    token_file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    allow_private: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """What a source can make a handle read and write at most; 0: no limit.

    file_bytes   of a resource that sync() fetches.
    total_bytes  of all files of a mirror and its downloads.
    free_bytes   that stay free on each file system.
    resources    of a list, and of a mirror.
    """

    file_bytes: int = 0
    total_bytes: int = 0
    free_bytes: int = 0
    resources: int = 0


class Handle:
    """A td_client. One thread at a time uses it; stop() and close() may be called from
    any, from callbacks and from signal handlers.

    `failure` is the first exception of a callback: the function that called C raises
    it, for none may pass through C.
    """

    def __init__(
        self, url: str, access: Access | None = None, limits: Limits | None = None
    ) -> None:
        client = lib.td_open()
        if client == ffi.NULL:
            raise Memory("no memory, or no descriptors")
        self.client = ffi.gc(client, lib.td_close)
        self.failure: BaseException | None = None
        self._lock = threading.RLock()  # a signal handler may come in between
        self.is_open = True
        self._is_turning = False
        try:
            self._show(url.encode(), access or Access())
        except BaseException:
            self.close()
            raise
        if limits:
            bounds = ffi.new("struct td_limits *")
            bounds.max_file_bytes = limits.file_bytes
            bounds.max_total_bytes = limits.total_bytes
            bounds.min_free_bytes = limits.free_bytes
            bounds.max_resources = limits.resources
            lib.td_limit(self.client, bounds)

    def _show(self, url: bytes, access: Access) -> None:
        client = self.client
        if access.token is not None:
            self.check(lib.td_client_set_token(client, url, access.token.encode()))
        if access.token_file is not None:
            path = os.fsencode(access.token_file)
            self.check(lib.td_client_set_token_file(client, url, path))
        if access.certificate is not None:
            paths = (path_or_null(access.certificate), path_or_null(access.key))
            self.check(lib.td_client_set_certificate(client, url, *paths))
        for name, value in access.headers.items():
            self.check(lib.td_header(client, url, f"{name}: {value}".encode()))
        if access.allow_private:
            lib.td_allow_private(client)

    def check(self, status: int) -> None:
        """Raise the failure of a callback, or the exception of the status."""
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        if status != lib.TD_OK:
            with self._lock:
                if not self.is_open:
                    raise Stopped("it is closed")
                raise error_of(self.client, status)

    def fail(self, failure: BaseException) -> None:
        """Keep the exception of a callback for check()."""
        if self.failure is None:
            self.failure = failure

    def guard(
        self, callback: Callable[..., object] | None, *arguments: object
    ) -> None:
        """Call back, if there is a callback; an exception is kept for check()."""
        try:
            if callback:
                callback(*arguments)
        except BaseException as failure:
            self.fail(failure)

    def turn(self) -> int:
        """td_service. A close() meanwhile takes effect at its end."""
        with self._lock:
            if not self.is_open:
                return int(lib.TD_STOPPED)
            if self._is_turning:
                raise RuntimeError("called from a callback, or by two threads")
            self._is_turning = True
        try:
            return int(lib.td_service(self.client))
        finally:
            with self._lock:
                self._is_turning = False
                if not self.is_open:
                    ffi.release(self.client)

    def stop(self) -> None:
        """End the call that runs, or the next one."""
        with self._lock:
            if self.is_open:
                lib.td_stop(self.client)

    def close(self) -> None:
        with self._lock:
            if not self.is_open:
                return
            self.is_open = False
            if self._is_turning:
                lib.td_stop(self.client)
            else:
                ffi.release(self.client)


def path_or_null(path: Path | None) -> Any:
    return ffi.NULL if path is None else os.fsencode(path)


class Call:
    """A call that blocks, on a thread of its own, which closes the handle at its end.

    Callbacks of C use report(): then the function given to it runs where run() or
    arun() waits. An exception of that function stops the call, and is raised there.
    """

    def __init__(self, handle: Handle, on_trouble: OnTrouble | None = None) -> None:
        self.handle = handle
        self._on_trouble = on_trouble
        self._slots = threading.Semaphore(_CALLBACKS_MAX)
        self._deliver: Callable[[Callable[[], None]], object]
        self._has_begun = threading.Event()
        self._is_over = False
        self._is_stopping = False
        self._failure: BaseException | None = None

    def report(self, callback: Callable[..., object], *arguments: object) -> None:
        """Have callback(*arguments) called by the waiting thread. Waits while many
        others are still to be called."""

        def act() -> None:
            self._slots.release()
            if not self._is_stopping:
                self.handle.guard(callback, *arguments)
            if self.handle.failure is not None:
                self._stop()

        if not self._is_stopping:
            self._slots.acquire()
            self._deliver(act)

    def trouble(self, why: str, pause_s: float) -> None:
        if self._on_trouble:
            self.report(self._on_trouble, why, pause_s)

    def fail(self, failure: BaseException) -> None:
        self.handle.fail(failure)
        self._stop()

    def _stop(self) -> None:
        self._is_stopping = True
        self._slots.release()
        self.handle.stop()

    def _work(self, function: Callable[[], int]) -> None:
        self._has_begun.set()
        try:
            try:
                self.handle.check(function())
            finally:
                self.handle.close()
        except BaseException as failure:
            self._failure = failure
        self._is_over = True
        self._deliver(lambda: None)

    def _start(
        self, function: Callable[[], int]
    ) -> tuple[threading.Thread, BaseException | None]:
        """The thread, and the exception of a signal that came meanwhile. Raises that if
        the thread does not begin."""
        thread = threading.Thread(target=self._work, args=(function,), daemon=True)
        try:
            thread.start()
        except BaseException as signal:
            self._stop()
            if not self._has_begun.wait(_BEGIN_S):
                raise
            return thread, signal
        return thread, None

    def _raise(self, interrupt: BaseException | None) -> None:
        for failure in (interrupt, self.handle.failure, self._failure):
            if failure is not None:
                raise failure

    def run(self, function: Callable[[], int]) -> None:
        """Wait for function(), which calls C and returns its status."""
        todo: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._deliver = todo.put
        thread, interrupt = self._start(function)

        def attend() -> None:
            while not self._is_over or not todo.empty():
                with contextlib.suppress(queue.Empty):
                    todo.get(timeout=LOOK_AGAIN_S)()
            thread.join()  # it has nothing left to do

        # A signal's exception may come at each jump of a loop: all are in attend().
        while True:
            try:
                attend()
                break
            except BaseException as signal:  # of a handler: KeyboardInterrupt
                interrupt = interrupt or signal
                self._stop()
        self._raise(interrupt)

    async def arun(self, function: Callable[[], int]) -> None:
        """The same, beside other tasks."""
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()

        def act(callback: Callable[[], None]) -> None:
            callback()
            if self._is_over and not over.done():
                over.set_result(None)

        self._deliver = lambda callback: loop.call_soon_threadsafe(act, callback)
        thread, interrupt = self._start(function)
        while not over.done():
            try:
                await asyncio.shield(over)
            except asyncio.CancelledError as cancel:
                interrupt = interrupt or cancel
                self._stop()
        thread.join()  # it has nothing left to do
        self._raise(interrupt)


def fail(_: object, failure: BaseException, traceback: Any) -> None:
    """Keep the exception of a function that C has called, for its caller."""
    ffi.from_handle(traceback.tb_frame.f_locals["user"]).fail(failure)


@ffi.def_extern(onerror=fail)
def handle_on_trouble(why: Any, pause_ms: int, user: Any) -> None:
    ffi.from_handle(user).trouble(text(why), pause_ms / 1000)
