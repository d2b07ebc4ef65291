"""Signed checkpoints of a set (C2SP tlog-checkpoint), which a follower checks."""

import dataclasses
import os
import time
from collections.abc import Callable, Iterable
from typing import Any

from tidings._errors import Different, Error, Unreachable, text
from tidings._handle import Access, Call, Handle, fail
from tidings._libtidings import ffi, lib

Keys = str | Iterable[str] | None

CHECK_S = 300.0  # between two looks at a checkpoint
_PAUSE_MAX_S = 30.0


@dataclasses.dataclass(frozen=True, slots=True)
class Checkpoint:
    """A signed checkpoint: the first `size` entries of the log `origin` have that root.

    text       the signed note.
    time       POSIX: when the log had no other entries, as its key says; 0: unknown.
    witnesses  so many known ones have cosigned it.
    """

    text: str
    origin: str
    size: int
    root: str
    time: int
    witnesses: int


OnCheckpoint = Callable[[Checkpoint], object]


class CheckpointError(Different):
    """A checkpoint cannot be believed.

    fault     "malformed"; "origin", of another log; "signature"; "witnesses", too few
              or wrong; "smaller" than the last one; "root", another one of the same
              size; "inconsistent", it does not continue the last one; "digest", it has
              another history.
    evidence  the texts that contradict each other: the last checkpoint, or the position
              with its digest, and this checkpoint.
    """

    def __init__(self, why: str, fault: str, evidence: tuple[str, ...]) -> None:
        super().__init__(why)
        self.fault = fault
        self.evidence = evidence


Trust = tuple[bytes | None, bytes | None, int]  # keys, witnesses, so many of these


def trust_of(keys: Keys, witnesses: Keys, required: int) -> Trust | None:
    """What td_trust takes, of arguments that may be read once; None: nothing was given."""
    texts = [of if of is None or isinstance(of, str) else "\n".join(of) for of in (keys, witnesses)]
    log, others = (None if text is None else text.encode() for text in texts)
    return None if log is None and others is None and not required else (log, others, required)


def trust(client: Any, keys: Trust) -> int:
    """td_trust."""
    *texts, required = keys
    return int(lib.td_trust(client, *(ffi.NULL if of is None else of for of in texts), required))


class Check(Call):
    """td_check_checkpoint, whose callback fills `note` and `fault`."""

    note = ""
    fault = ""
    checkpoint: Checkpoint | None = None

    def work(self, keys: Trust, *texts: bytes | None) -> int:
        client, user = self.handle.client, ffi.new_handle(self)
        given = [ffi.NULL if of is None else of for of in texts]
        how = (*given, lib.checkpoint_on_text, user)
        status = trust(client, keys) or lib.td_check_checkpoint(client, *how)
        c = lib.td_checkpoint(client)
        if c:
            texts_of = (self.note, text(c.origin) or "", c.size, text(c.root) or "")
            self.checkpoint = Checkpoint(*texts_of, c.time_s, c.n_witnesses)
        return int(status)


class Checker:
    """Says when a checkpoint is to be checked, and keeps the last one."""

    def __init__(
        self,
        access: Access | None,
        keys: Trust,
        kept: str | None,
        file: str | None,
        on_checkpoint: OnCheckpoint | None,
    ) -> None:
        self._access, self._keys, self._kept = access, keys, kept
        self._file, self._on_checkpoint = file, on_checkpoint
        self.due_s = 0.0  # at once
        self._pause_s = 1.0
        self._own: tuple[str, str | None] = ("", None)  # position and digest
        self._lags = False  # no tree has had that yet
        if file and os.path.exists(file):
            with open(file, encoding="utf-8", newline="") as source:
                self._kept = source.read()

    def begin(
        self, set_url: str, position: str, digest: str | None
    ) -> tuple[Check, Callable[[], int]]:
        """A call, and the function to run."""
        check = Check(Handle(set_url, self._access))
        is_same_log = self._own[0].partition("-")[0] == position.partition("-")[0]
        if not self._lags or not is_same_log:
            self._own = (position, digest)
        given = (set_url, self._kept, *self._own)
        texts = [of.encode() if of else None for of in given]
        return check, lambda: check.work(self._keys, *texts)

    def end(self, check: Check, error: Error | None) -> float:
        """Returns the seconds until another attempt; 0: it is right. Raises others."""
        if isinstance(error, Unreachable):
            self._pause_s = min(2 * self._pause_s, _PAUSE_MAX_S)
            return self._pause_s
        if isinstance(error, Different):
            is_of_two = check.fault in ("smaller", "root", "inconsistent")
            own = " ".join(map(str, self._own))
            before = own if check.fault == "digest" else is_of_two and self._kept
            evidence = (before, check.note) if before else (check.note,)
            raise CheckpointError(str(error), check.fault, evidence) from None
        if error:
            raise error
        assert check.checkpoint
        self._kept, self._pause_s = check.note, 1.0
        self._lags = int(self._own[0].rpartition("-")[2]) > check.checkpoint.size
        self.due_s = time.monotonic() + CHECK_S
        if self._file:
            with open(f"{self._file}.new", "w", encoding="utf-8", newline="") as to:
                to.write(check.note)
                to.flush()
                os.fsync(to.fileno())
            os.replace(f"{self._file}.new", self._file)
        if self._on_checkpoint:
            self._on_checkpoint(check.checkpoint)
        return 0.0


@ffi.def_extern(onerror=fail)
def checkpoint_on_text(note: Any, fault: Any, user: Any) -> None:
    check = ffi.from_handle(user)
    check.note, check.fault = text(note), text(fault) or ""
