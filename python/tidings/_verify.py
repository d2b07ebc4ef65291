"""The sets of a source, and the proof of their histories."""

import dataclasses
import os
from collections.abc import Callable
from typing import Any

from tidings._checkpoint import Keys, trust, trust_of
from tidings._errors import Error, text
from tidings._handle import Access, Call, Handle, Limits, Path, fail
from tidings._libtidings import ffi, lib

OnUnreadable = Callable[[str, str], object]
"""Gets the URL of a document that the source names, and why it cannot be read."""


@dataclasses.dataclass(frozen=True, slots=True)
class Proof:
    """How much of a history is right: the entries from `first` to `last`, which `lists`
    Change Lists have; 0: none.

    position, digest  of `last`; None if there is none.
    since, until      event times, W3C Datetime.
    is_from_start     the history begins with entry 1.
    """

    lists: int
    first: int
    last: int
    position: str | None
    digest: str | None
    since: str | None
    until: str | None
    is_from_start: bool


OnList = Callable[[str, Proof], object]


def _proof(c: Any) -> Proof:
    return Proof(
        lists=c.n_lists,
        first=c.first,
        last=c.last,
        position=text(c.position) or None,
        digest=text(c.digest) or None,
        since=text(getattr(c, "from")) or None,
        until=text(c.until) or None,
        is_from_start=bool(c.is_from_start),
    )


class _Sets(Call):
    def __init__(self, handle: Handle, on_unreadable: OnUnreadable | None) -> None:
        super().__init__(handle)
        self.urls: list[str] = []
        self.has_missed = False
        self._on_unreadable = on_unreadable

    def found(self, url: str, why: str | None) -> None:
        if why is None:
            self.urls.append(url)
        elif self._on_unreadable:
            self.has_missed = True
            self.report(self._on_unreadable, url, why)


class _Verify(Call):
    def __init__(self, handle: Handle, on_list: OnList | None) -> None:
        super().__init__(handle)
        self._on_list = on_list

    def is_right(self, name: str, proof: Proof) -> None:
        if self._on_list:
            self.report(self._on_list, name, proof)


def sets(
    url: str,
    *,
    on_unreadable: OnUnreadable | None = None,
    access: Access | None = None,
    limits: Limits | None = None,
) -> list[str]:
    """The URLs of all sets of a source, from any of its documents; follow() and verify()
    take them. The URL of a set gives that set.

    on_unreadable  called for each document that the source names and that cannot be
                   read: there may be more sets. Without it that is an exception.

    Raises Refused, Unreachable, Broken (no set, or not all), Invalid, Memory.
    """
    call = _Sets(Handle(url, access, limits), on_unreadable)
    user = ffi.new_handle(call)
    address = url.encode()
    try:
        call.run(
            lambda: int(lib.td_sets(call.handle.client, address, lib.sets_on_set, user))
        )
    except Error:
        if not (call.has_missed and call.urls):
            raise
    return call.urls


def verify(
    where: str | Path,
    *,
    on_list: OnList | None = None,
    verifier_key: Keys = None,
    witnesses: Keys = None,
    require_witnesses: int = 0,
    access: Access | None = None,
    limits: Limits | None = None,
) -> Proof:
    """Walk the Change Lists of a set of Tidings, oldest first, and check that every entry
    is there and that the digests lead from each list to the next.

    where         the URL of a set, a directory with a copy of its lists, or a file with
                  the proof of an entry (`tidings prove`).
    on_list       called after each list that is right, with its URL or file.
    verifier_key  as in follow(): then the entries have to be those that were signed;
                  likewise witnesses and require_witnesses.

    Raises Different (the history breaks; its text says where), IO, Gone, Refused,
    Unreachable, Broken, Invalid, Memory.
    """
    call = _Verify(Handle(os.fsdecode(where), access, limits), on_list)
    keys = trust_of(verifier_key, witnesses, require_witnesses)
    if keys:
        call.handle.check(trust(call.handle.client, keys))
    user = ffi.new_handle(call)
    proof = ffi.new("struct td_proof *")
    arguments = (os.fsencode(where), lib.verify_on_list, user, proof)
    call.run(lambda: int(lib.td_verify(call.handle.client, *arguments)))
    return _proof(proof)


@ffi.def_extern(onerror=fail)
def sets_on_set(url: Any, why: Any, user: Any) -> None:
    ffi.from_handle(user).found(text(url), text(why))


@ffi.def_extern(onerror=fail)
def verify_on_list(name: Any, proof: Any, user: Any) -> None:
    ffi.from_handle(user).is_right(text(name), _proof(proof))
