"""Negentropy v1 (https://github.com/hoytech/negentropy) and the ids of resources, after
their descriptions: independent of the program, to judge it.

    messages of one side: parse(message), write(ranges)
    ids of resources:     resource_id(loc, sha256), id_sum(ids)
    client:               reconcile(ids, ask) asks until it knows all differences
"""

import hashlib
from xml.sax.saxutils import escape

VERSION = 0x61
INFINITY = 2**64 - 1
SKIP, FINGERPRINT, LIST = range(3)
END = (INFINITY, b"")


def resource_id(loc, sha256=None, others="-", length="-", lastmod="-"):
    """The 32 bytes that stand for a resource (doc/reconcile.md)."""
    loc = escape(loc, {'"': "&quot;"})
    what = f"sha-256:{sha256}" if sha256 else f"{others} {length} {lastmod}"
    first = hashlib.sha256(loc.encode()).digest()[:16]
    return first + hashlib.sha256(f"{loc}\n{what}".encode()).digest()[:16]


def total(ids):
    return sum(int.from_bytes(i, "little") for i in ids) % 2**256


def id_sum(ids):
    return f"{len(ids)}-{total(ids).to_bytes(32, 'little').hex()}"


def varint(number):
    digits = [number & 127]
    while number := number >> 7:
        digits.insert(0, number & 127 | 128)
    return bytes(digits)


def fingerprint(ids):
    text = total(ids).to_bytes(32, "little") + varint(len(ids))
    return hashlib.sha256(text).digest()[:16]


class Reader:
    def __init__(self, data):
        self.rest = data

    def take(self, size):
        assert len(self.rest) >= size
        data, self.rest = self.rest[:size], self.rest[size:]
        return data

    def varint(self):
        number = 0
        while True:
            byte = self.take(1)[0]
            number = number << 7 | byte & 127
            if byte < 128:
                return number


def parse(message):
    """Return the ranges of a message: (upper bound, mode, payload)."""
    reader = Reader(message)
    assert reader.take(1)[0] == VERSION
    ranges, time = [], 0
    while reader.rest:
        offset = reader.varint()
        time = INFINITY if offset == 0 else time + offset - 1
        bound = (time, reader.take(reader.varint()))
        mode = reader.varint()
        payload = None
        if mode == FINGERPRINT:
            payload = reader.take(16)
        elif mode == LIST:
            payload = [reader.take(32) for _ in range(reader.varint())]
        ranges.append((bound, mode, payload))
    return ranges


def write(ranges):
    message, last = bytes([VERSION]), 0
    for (time, prefix), mode, payload in ranges:
        message += varint(0 if time == INFINITY else 1 + time - last)
        message += varint(len(prefix)) + prefix + varint(mode)
        last = time
        if mode == FINGERPRINT:
            message += payload
        elif mode == LIST:
            message += varint(len(payload)) + b"".join(payload)
    return message


def within(ids, low, high):
    return [i for i in ids if low <= (0, i) < high]


def split(ids, high):
    """Cut the ids of a range as the reference does: 16 parts, or a list."""
    if len(ids) < 32:
        return [(high, LIST, ids)]
    ranges, begin = [], 0
    for n in range(16):
        end = len(ids) * (n + 1) // 16
        bound = high if n == 15 else (0, ids[end])
        ranges.append((bound, FINGERPRINT, fingerprint(ids[begin:end])))
        begin = end
    return ranges


def answer(ids, message, differences=None):
    """Return the answer to a message of a side that has these ids. A client gives a
    pair of sets, which get what it has alone, and what it needs."""
    out, low, skips = [], (0, b""), False
    for high, mode, payload in parse(message):
        own = within(ids, low, high)
        more = []
        if mode == FINGERPRINT and fingerprint(own) != payload:
            more = split(own, high)
        elif mode == LIST and differences:
            differences[0].update(set(own) - set(payload))
            differences[1].update(set(payload) - set(own))
        elif mode == LIST:
            more = [(high, LIST, own)]
        if more and skips:
            out.append((low, SKIP, None))
        out += more
        skips, low = not more and (skips or not more), high
    return write(out)


def reconcile(ids, ask):
    """Return what this side has alone, what it needs, and the number of rounds."""
    ids = sorted(ids)
    differences = set(), set()
    message, rounds = write(split(ids, END)), 0
    while len(message) > 1:
        rounds += 1
        message = answer(ids, ask(message), differences)
    return *differences, rounds
