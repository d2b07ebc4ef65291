#!/usr/bin/env python3
"""Publishes a change and follows a set, from Python: follow.py SET-URL LOC...

Nothing has to be compiled: ctypes calls libtidings.so.0. Each LOC is published
as updated; then all changes of the set so far are printed, a line of JSON each.
"""
import ctypes
import json
import os
import sys
from ctypes import (CFUNCTYPE, POINTER, Structure, byref, c_char, c_char_p,
                    c_int, c_size_t, c_uint, c_uint64, c_void_p)

TD_OK = 0
TD_CHANGES = 0


class Receipt(Structure):
    _fields_ = [("first", c_uint64), ("last", c_uint64),
                ("position", c_char * 64), ("datetime", c_char * 32)]


class Link(Structure):
    _fields_ = [("rel", c_char_p), ("href", c_char_p), ("type", c_char_p),
                ("hash", c_char_p), ("length", c_uint64), ("pri", c_uint),
                ("modified", c_char_p), ("path", c_char_p)]


class Change(Structure):
    _fields_ = [("seq", c_uint64), ("datetime", c_char_p),
                ("change", c_char_p), ("loc", c_char_p),
                ("lastmod", c_char_p), ("hash", c_char_p),
                ("length", c_uint64), ("type", c_char_p),
                ("encoding", c_char_p), ("tags", c_char_p),
                ("links", POINTER(Link)), ("n_links", c_size_t),
                ("file", c_char_p), ("text", c_char_p),
                ("text_size", c_size_t)]


class Message(Structure):
    _fields_ = [("kind", c_int), ("set", c_char_p),
                ("set_url", c_char_p), ("after", c_uint64),
                ("last", c_uint64), ("position", c_char_p),
                ("digest", c_char_p), ("reason", c_char_p),
                ("n_changes", c_size_t), ("changes", POINTER(Change))]


ON_MESSAGE = CFUNCTYPE(c_int, POINTER(Message), c_void_p)
ON_TROUBLE = CFUNCTYPE(None, c_char_p, c_uint, c_void_p)
ON_PROGRESS = CFUNCTYPE(None, c_uint64, c_void_p)
ON_END = CFUNCTYPE(None, c_int, c_char_p, c_void_p)


class FollowOptions(Structure):
    _fields_ = [("after", c_char_p), ("since", c_char_p),
                ("filters", c_void_p), ("n_filters", c_size_t),
                ("form", c_int), ("idle_ms", c_uint),
                ("on_trouble", ON_TROUBLE), ("transports", c_uint),
                ("poll_ms", c_uint), ("baseline", c_int),
                ("scratch", c_char_p), ("until_caught_up", c_int),
                ("patience_ms", c_uint), ("listing", c_char_p),
                ("max_delete_percent", c_int), ("on_progress", ON_PROGRESS),
                ("on_end", ON_END)]


def library():
    td = ctypes.CDLL(os.environ.get("LIBTIDINGS", "libtidings.so.0"))
    td.td_open.restype = c_void_p
    td.td_close.argtypes = [c_void_p]
    td.td_problem.argtypes = [c_void_p]
    td.td_problem.restype = c_char_p
    td.td_publish.argtypes = [c_void_p, c_char_p, c_char_p, c_char_p,
                              c_size_t, c_void_p, POINTER(Receipt)]
    td.td_follow.argtypes = [c_void_p, c_char_p, POINTER(FollowOptions),
                             ON_MESSAGE, c_void_p]
    return td


def value(field):
    return field.decode() if isinstance(field, bytes) else field


def members(struct):
    """What was given: neither NULL nor UINT64_MAX, which says "untold"."""
    told = {name: value(getattr(struct, name)) for name, _ in struct._fields_
            if name not in ("links", "n_links", "text", "text_size")}
    return {n: v for n, v in told.items() if v not in (None, 2**64 - 1)}


@ON_MESSAGE
def on_message(message, _):
    m = message.contents
    for change in m.changes[:m.n_changes]:
        told = members(change)
        told["links"] = [members(l) for l in change.links[:change.n_links]]
        told["text"] = ctypes.string_at(change.text, change.text_size).decode()
        print(json.dumps(told))
    print(json.dumps({"set": value(m.set), "kind": m.kind, "after": m.after,
                      "last": m.last, "position": value(m.position),
                      "digest": value(m.digest)}), flush=True)
    return 0


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    td = library()
    client = td.td_open()
    url = sys.argv[1].encode()
    for loc in sys.argv[2:]:
        body = json.dumps({"loc": loc, "change": "updated"}).encode()
        receipt = Receipt()
        if td.td_publish(client, url, b"application/json", body, len(body),
                         None, byref(receipt)) != TD_OK:
            sys.exit(td.td_problem(client).decode())
        print(json.dumps({"published": receipt.last, "first": receipt.first,
                          "position": value(receipt.position),
                          "datetime": value(receipt.datetime)}), flush=True)
    options = FollowOptions(after=b"0", until_caught_up=1)
    rc = td.td_follow(client, url, byref(options), on_message, None)
    if rc != TD_OK:
        sys.exit(td.td_problem(client).decode())
    td.td_close(client)


def sizes():
    for struct in (Receipt, Link, Change, Message, FollowOptions):
        print(struct.__name__, ctypes.sizeof(struct), *(
            getattr(struct, name).offset for name, _ in struct._fields_))


if __name__ == "__main__":
    if sys.argv[1:] == ["--sizes"]:
        sizes()
    else:
        main()
