"""A set of a broker: its source, which posts changes, and its readers.

    news = broker.set()
    receipt = news.post(3)
    assert receipt.last == 3
    news.get("changelist.xml").document().entries
    news.page("after=1").last
"""

import collections
import pathlib

from tidings_test.http import JSON, XML
from tidings_test.openapi import DESCRIPTION
from tidings_test.waiting import wait_for

MERGE_PATCH = "application/merge-patch+json"  # RFC 7396

# The least that a harvester reports
HARVEST = {
    "source": "http://example.com/sitemap.xml",
    "kind": "sitemap",
    "last_look": "2026-04-01T18:10:00.000000Z",
}

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "spec" / "examples"

Receipt = collections.namedtuple("Receipt", "set first last position datetime epoch")


def entries(n, first=1, size=0):
    """`n` changes, of http://example.com/r/FIRST and so on, each "created" and, by
    foreign attributes, at least `size` bytes long; to be sent as JSON."""
    filling = {"ns": "urn:example", "name": "filling", "value": "x" * size}
    more = {"attributes": [filling]} if size else {}
    return [change(f"http://example.com/r/{first + i}", **more) for i in range(n)]


def change(loc, kind="created", **more):
    return {"loc": loc, "change": kind, **more}


def told(answer):
    """The results of an upload of all resources (put_resources): how many were created,
    updated, deleted, unchanged, and newer than stated."""
    assert answer.status == 200, answer
    facts = answer.json()
    kinds = ("created", "updated", "deleted", "unchanged", "newer")
    return tuple(facts[kind] for kind in kinds)


def uploads(broker):
    """The files of uploads that are under way; before the first large one there is no
    folder for them."""
    return list(broker.data.glob("uploads/[!.]*"))


def example(name):
    """A file of tests/spec/examples."""
    return (EXAMPLES / name).read_bytes()


class Set:
    """A set, which need not exist: the first post makes it."""

    def __init__(self, broker, name):
        self.broker = broker
        self.name = name
        self.path = f"/sets/{name}"
        self.changes = f"{self.path}/changes"
        self.stream = f"{self.path}/stream"
        self.url = broker.url + self.path
        self.folder = broker.data / "sets" / name
        self.topic = f"{self.url}/notifications"
        self.framework_topic = f"{self.url}/framework-notifications"
        self.posted = 0
        self.is_removed = False  # the test is over

    # The source

    def send(self, body, type=None, **headers):
        """Post a document to the set; JSON unless `type` says so."""
        return self.broker.post(self.changes, body, type or JSON, **headers)

    def send_example(self, name):
        """Post a file of tests/spec/examples."""
        return self.send(example(name), XML)

    def post(self, n=1, first=None, size=0):
        """Post `n` changes at once, with numbers that go on from the last post unless
        `first` says so. The receipt."""
        first = self.posted + 1 if first is None else first
        self.posted = first + n - 1
        receipt = self.receipt(self.send(entries(n, first, size)))
        assert receipt.last - receipt.first + 1 == n
        return receipt

    def post_change(self, loc, kind="created", **more):
        """Post one change of `loc`."""
        return self.receipt(self.send(change(loc, kind, **more)))

    def start_post(self):
        """A connection that has sent only the first byte of a post."""
        return self.broker.start_post(self.changes, JSON, "[")

    def receipt(self, answer):
        """Read the answer to a post that has to be accepted."""
        assert answer.status == 200, answer
        facts = answer.json()
        epoch, dash, seq = facts["position"].rpartition("-")
        receipt = Receipt(
            facts["set"],
            facts["first"],
            facts["last"],
            facts["position"],
            facts["datetime"],
            epoch,
        )
        assert receipt.set == self.name
        assert dash and int(seq) == receipt.last
        assert 1 <= receipt.first <= receipt.last
        return receipt

    def rotate(self):
        """Close the open list, which has to have an entry; its number."""
        answer = self.broker.post(f"{self.path}/rotate")
        assert answer.status == 200, answer
        assert answer.json()["closed"] >= 1
        return answer.json()["closed"]

    def put(self, discard=False, **settings):
        """Make the set, or replace its settings: rotate_entries=10."""
        path = f"{self.path}?discard=yes" if discard else self.path
        return self.broker.put(path, _camel_cased(settings))

    def change(self, discard=False, **settings):
        """Change these settings of the set, and no others; None resets one. `discard`
        allows a change that deletes stored bytes."""
        path = f"{self.path}?discard=yes" if discard else self.path
        return self.broker.patch(path, _camel_cased(settings), MERGE_PATCH)

    def create(self, **settings):
        """Make the set, which must not be there yet; returns it."""
        answer = self.put(**settings)
        assert answer.status == 201, answer
        return self

    def delete(self):
        return self.broker.delete(self.path)

    def put_resources(self, body, type=XML, query="", **headers):
        """Upload all resources that the source has."""
        path = _with_query(f"{self.path}/resources", query)
        return self.broker.put(path, body, type, **headers)

    def put_harvest(self, **report):
        """Report on it as a harvester does; without arguments the least report."""
        return self.broker.put(f"{self.path}/harvest", {**HARVEST, **report})

    def build(self, what, status=200):
        """Build the "resourcelist" or "resourcedump" of what there is now; the
        answer, which has to be of that status."""
        answer = wait_for(f"the {what}", lambda: self._build(what))
        assert answer.status == status, answer
        return answer

    def _build(self, what):
        answer = self.broker.post(f"{self.path}/{what}")
        return answer.status != 202 and answer

    # The readers

    def get(self, path="", **headers):
        """GET what is below the set: get("changelist.xml")."""
        return self.broker.get(f"{self.path}/{path}" if path else self.path, **headers)

    def get_url(self, url, **headers):
        """GET an URL of this broker, as documents name them."""
        return self.broker.get(self.broker.path_of(url), **headers)

    def state(self):
        """The answer to GET of the set; None if there is none, or it was removed."""
        answer = self.get(accept=JSON)
        if answer.status in (404, 410):
            return None
        assert answer.status == 200, answer
        DESCRIPTION.check(answer, "GET", "/sets/{set}")
        return answer.json()

    def last(self):
        """The seq of the last entry; 0 if the set is not there."""
        state = self.state()
        return state["last"] if state else 0

    def wait_last(self, last):
        """Wait until the set has entry `last`; it may not have more."""
        wait_for(f"entry {last} of {self.name}", lambda: self.last() >= last)
        assert self.last() == last

    def list_path(self, number):
        """The path of Change List `number`, below the set."""
        return f"changes/{number:012}.xml"

    def offered(self, capability):
        """The URL of that capability in the Capability List; None: it has none."""
        offers = self.get("capabilitylist.xml").document()
        offers.check_valid()
        urls = [entry.loc for entry in offers.entries if entry.capability == capability]
        assert len(urls) <= 1
        return urls[0] if urls else None

    def changelist(self, number=None):
        """The Change List or its index; the list of that number."""
        path = self.list_path(number) if number else "changelist.xml"
        return self.get(path).document()

    def wait_dumps(self, last):
        """Wait until the Change Dumps reach entry `last`."""
        wait_for(f"a dump of entry {last}", lambda: self._dumped() >= last)

    def _dumped(self):
        url = self.offered("changedump")
        if not url:
            return 0
        document = self.get_url(url).document()
        if document.is_index:
            document = self.get_url(document.entries[-1].loc).document()
        return document.last

    def list_file(self, number):
        """The file of a closed list on the disk."""
        return self.folder / f"changes/{number:012}.xml.gz"

    def list_files(self):
        """The files of closed lists on the disk."""
        try:
            names = [*self.folder.glob("changes/*.xml.gz*")]
        except FileNotFoundError:  # the folder was removed meanwhile
            return []
        return [path for path in names if ".new" not in path.name]

    def wait_dated(self, number):
        """Wait until closed list `number` is served from its file, as gzip and with a
        Last-Modified; that answer. The date comes when its second is over: at once
        if the broker's clock is ahead (faults.set_clock)."""

        def look():
            answer = self.get(self.list_path(number), accept_encoding="gzip")
            assert answer.status == 200, answer
            return answer["Content-Encoding"] and answer["Last-Modified"] and answer

        return wait_for(f"list {number} as gzip, dated", look)

    def obstruct_files(self):
        """Put something where folders of sets belong, so that lists get no files until
        it is unlinked; before the first file only. It."""
        in_the_way = self.broker.data / "sets"
        in_the_way.write_text("in the way")
        return in_the_way

    def wait_list_files(self, n):
        """Wait until there are so many of them, each closed list has one, and the log
        knows of it: the file is there before the commit that records it."""
        wait_for(f"{n} files of lists", lambda: self._has_list_files(n))

    def _has_list_files(self, n):
        if len(self.list_files()) != n:
            return False
        state = self.state()
        if not state:
            return True  # removed
        lists = state["lists"]
        numbers = range(lists["open"] - lists["closed"], lists["open"])
        try:
            sizes = [self.list_file(number).stat().st_size for number in numbers]
        except FileNotFoundError:
            return False
        return lists["fileBytes"] == sum(sizes)

    def page(self, query="", **headers):
        """The change memory: page("after=3")."""
        return self.broker.get(f"{self.changes}?{query}", **headers).message()

    def websocket(self, query="", form="json", **options):
        """Follow the set by WebSocket (stream.py)."""
        from tidings_test.stream import WebSocket

        return WebSocket(self.broker, _with_query(self.stream, query), form, **options)

    def events(self, query="", **options):
        """Follow the set by server-sent events (stream.py)."""
        from tidings_test.stream import EventSource

        return EventSource(self.broker, _with_query(self.stream, query), **options)

    def changelists(self):
        """A reader of all Change Lists (changelists.py)."""
        from tidings_test.changelists import ChangeLists

        return ChangeLists(self)

    def __repr__(self):
        return f"<set {self.name}>"


def _camel_case(name):
    first, *more = name.split("_")
    return first + "".join(word.title() for word in more)


def _camel_cased(settings):
    return {_camel_case(name): value for name, value in settings.items()}


def _with_query(path, query):
    return f"{path}?{query}" if query else path
