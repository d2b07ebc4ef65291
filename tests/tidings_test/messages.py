"""A message to a subscriber, in JSON or XML, or a page of the change memory: its range
and its entries.

    message = answer.message()
    assert (message.after, message.last) == (3, 5)
    assert [entry.change for entry in message.entries] == ["created", "deleted"]
    message.check()
    message.check_follows(earlier)
"""

import collections
import hashlib
import json
import re

from tidings_test.documents import TD, Document
from tidings_test.openapi import DESCRIPTION

CHECKED_MAX = 20000  # bytes of a message that is compared with its schema

MessageEntry = collections.namedtuple("MessageEntry", "seq loc change datetime")

# "2026-04-05T09:00:00.000001Z": so texts compare as the times do.
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
DIGEST = re.compile(r"sha-256:[0-9a-f]{64}")


class Message:
    """"" and None stand for missing values. `raw` is the JSON object or the
    Document."""

    def __init__(self, raw, entries, after, last, **facts):
        self.raw = raw
        self.entries = entries
        self.after = after
        self.last = last
        self.set = facts.get("set")  # in JSON only
        self.epoch = facts.get("epoch", "")
        self.from_ = facts.get("from", "")
        self.until = facts.get("until", "")
        self.digest = facts.get("digest", "")
        self.now = facts.get("now", "")  # of heartbeats
        self.heartbeat = facts.get("heartbeat", "")
        self.next = facts.get("next", "")  # of pages of the change memory

    @property
    def position(self):
        return f"{self.epoch}-{self.last}"

    @property
    def seqs(self):
        return [entry.seq for entry in self.entries]

    @property
    def locs(self):
        return [entry.loc for entry in self.entries]

    def check(self, filtered=False):
        """It holds together by itself: an entry for every seq that it covers, in order,
        with times after `from` and not after `until` that grow (R-286, R-290, R-292);
        the clock and the interval in heartbeats only. `filtered`: it has some of the
        entries in its range, or none (R-349)."""
        assert len(self.epoch) == 16, self
        assert DIGEST.fullmatch(self.digest), self
        if not filtered:
            assert self.seqs == list(range(self.after + 1, self.last + 1)), self
        seqs = [self.after, *self.seqs]
        assert all(a < b for a, b in zip(seqs, seqs[1:])), self
        assert seqs[-1] <= self.last, self
        times = [self.from_, *(entry.datetime for entry in self.entries)]
        assert all(TIME.fullmatch(time) for time in [*times, self.until]), self
        assert all(a < b for a, b in zip(times, times[1:])), self
        if seqs[-1] == self.last:
            assert times[-1] == self.until, self
        else:
            assert times[-1] < self.until, self
        if self.entries:
            assert not self.now and not self.heartbeat, self

    def check_follows(self, before):
        """It begins where `before` ends (R-287)."""
        assert self.epoch == before.epoch
        assert self.after == before.last
        assert self.from_ == before.until
        assert (self.digest == before.digest) == (self.last == before.last)

    def __repr__(self):
        text = str(self.raw)
        return f"<{self.after} to {self.last}, {self.seqs}: {text[:3000]}>"


def read_json(text):
    raw = json.loads(text)
    if len(text) <= CHECKED_MAX:
        DESCRIPTION.check_json(raw, "Message")
    entries = [
        MessageEntry(int(e["seq"]), e["loc"], e["change"], e["datetime"])
        for e in raw["changes"]
    ]
    return Message(raw, entries, **{k: v for k, v in raw.items() if k != "changes"})


def read_xml(text):
    document = Document(text)
    assert document.capability == "change-notification"
    facts = {name.removeprefix(TD): value for name, value in document.md.items()}
    facts.update(after=document.after, last=document.last)
    entries = [
        MessageEntry(e.seq, e.loc, e.change, e.datetime) for e in document.entries
    ]
    return Message(document, entries, **facts)


def read(text, form):
    """Read a message in that form, "json" or "xml"."""
    return {"json": read_json, "xml": read_xml}[form](text)


def first_digest(epoch):
    """The digest of a log before its first entry."""
    return hashlib.sha256(epoch.encode()).digest()


def next_digest(digest, line):
    """The digest after one more entry, of which `line` is the fragment."""
    return hashlib.sha256(digest + line).digest()
