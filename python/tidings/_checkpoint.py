"""Signed checkpoints of a set (C2SP tlog-checkpoint), which a follower checks."""

import dataclasses
import os
from collections.abc import Callable, Iterable
from typing import Any

from tidings._errors import Different, text
from tidings._libtidings import ffi, lib

Keys = str | Iterable[str] | None


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
              with its digest, this checkpoint, and the proof if one is needed. With an
              empty line between them they are a file that `verify` judges.
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


def checkpoint_of(client: Any, note: str) -> Checkpoint:
    """The checkpoint that the handle has checked."""
    c = lib.td_checkpoint(client)
    texts = (note, text(c.origin) or "", c.size, text(c.root) or "")
    return Checkpoint(*texts, c.time_s, c.n_witnesses)


def read_kept(file: str) -> str | None:
    """The checkpoint in the file; None: there is no file."""
    if not os.path.exists(file):
        return None
    with open(file, encoding="utf-8", newline="") as source:
        return source.read()


def keep(file: str, note: str) -> None:
    with open(f"{file}.new", "w", encoding="utf-8", newline="") as to:
        to.write(note)
        to.flush()
        os.fsync(to.fileno())
    os.replace(f"{file}.new", file)
