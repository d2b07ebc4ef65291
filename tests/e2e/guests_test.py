"""Requests as others send them: their libraries, proxies, crawlers and plugins.

tests/abroad/guests.json has a row for each. `send` are the lines of the request, byte for
byte; in them HOST is the broker, LENGTH that of the body, BASE a site whose /feed the hub
relays, `s` a set with five changes and this EPOCH, and `t` a set that is not there yet.
`right` is what has to come:

    status   of the answer
    type     its media type
    body     a text in it, or several; `not`: one that is not
    changes  the entries of the event stream, from its beginning
    kept     how many entries the set `s` or `t` gets
    fetched  what the site is asked for, once the answer is there
"""

import json

import pytest

from tidings_test import hub
from tidings_test.broker import ROOT
from tidings_test.waiting import wait_for

pytestmark = pytest.mark.broker(*hub.LOOPBACK)

GUESTS = json.loads((ROOT / "tests/abroad/guests.json").read_text())
MEMBERS = {"name", "what", "send", "right"}
RIGHT = {"status", "type", "body", "not", "changes", "kept", "fetched"}

ENTRIES = 5


class Host:
    """What a guest's request is about."""

    def __init__(self, broker, site):
        self.broker = broker
        self.site = site
        self.old, self.new = broker.set().create(), broker.set()
        self.epoch = self.old.post(ENTRIES).epoch

    def relay(self, path):
        """Let the hub know that topic of the site; the relay."""
        self.site.put(path, "news")
        relay = f"/relays/of-{self.old.name}"
        made = self.broker.put(relay, {"topic": self.site.link(path)})
        assert made.status == 201, made
        return relay

    def fill(self, text):
        base = self.site.link("")
        for name, value in (
            ("EPOCH", self.epoch),
            ("BASE%2F", base.replace("/", "%2F").replace(":", "%3A") + "%2F"),
            ("BASE", base),
            ("/sets/s", self.old.path),
            ("/sets/t", self.new.path),
            ("set=s", f"set={self.old.name}"),
            ('"set":"s"', f'"set":"{self.old.name}"'),
        ):
            text = text.replace(name, value)
        return text

    def request(self, lines, host):
        *head, body = (self.fill(line) for line in lines)
        head = "\r\n".join(head).replace("HOST", host)
        return head.replace("LENGTH", str(len(body.encode()))) + "\r\n" + body

    def entries(self):
        """How many entries both sets have got."""
        return self.old.last() - ENTRIES + self.new.last()


def read_changes(connection, n):
    """The first `n` entries of an event stream in chunks."""
    text, seqs = "", []
    while len(seqs) < n:
        text += connection.read_chunk().decode()
        *lines, text = text.split("\n")
        for line in lines:
            if line.startswith("data: "):
                changes = json.loads(line[6:]).get("changes", [])
                seqs += [change["seq"] for change in changes]
    return seqs


@pytest.mark.parametrize("guest", GUESTS, ids=lambda guest: guest["name"])
def test_a_guest_gets_what_is_right(guest, broker, site):
    right = guest["right"]
    assert guest.keys() <= MEMBERS and right.keys() <= RIGHT
    host = Host(broker, site)
    relay = "fetched" in right and host.relay("/feed")
    with broker.connect() as connection:
        connection.send(host.request(guest["send"], connection.host))
        answer = connection.answer(is_head=right["status"] == 101)
        assert answer.status == right["status"], answer
        if "type" in right:
            assert answer["Content-Type"].split(";")[0] == right["type"]
        if "changes" in right:
            seqs = read_changes(connection, len(right["changes"]))
            assert seqs == right["changes"]
        if "body" in right:
            parts = right["body"]
            for part in [parts] if isinstance(parts, str) else parts:
                assert host.fill(part) in answer.text
            assert right.get("not", "\0") not in answer.text
    if "kept" in right:
        assert host.entries() == right["kept"]
    for path in right.get("fetched", []):
        wait_for(path, lambda: any(r.method == "GET" for r in site.asked(path)))
    if relay:  # another test's site may have the same port
        assert broker.delete(relay).status == 204
