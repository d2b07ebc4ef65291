"""Resource Lists of the real broker: the offer, their contents; and a list stays the
same while everything changes."""

import gzip
import random

import pytest

from tidings_test.changelists import BYTES_MAX, ENTRIES_MAX
from tidings_test.http import PAGE_VARY, PERSON, check_refused
from tidings_test.sets import change
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

LOC = "http://example.com/r/"


class ResourceList:
    """The Resource List of a set, as a stranger reads it: from the Capability List to
    the list, or to its index; read_parts() reads the parts of an index. `seqs` are the
    seqs of its resources by their numbers.

    Each document is checked on the way: it is valid, within limits (R-026, R-027), of
    the state that the first one states (R-095), linked (R-082, R-083, R-090), and has
    no resource twice (R-084).
    """

    def __init__(self, news, url=None):
        self.set = news
        self.index = index = self._document(url or news.offered("resourcelist"))
        assert index.at
        assert "index" not in index.links
        self.last = index.last
        self.archive = index.links["archives"].href if "archives" in index.links else ""
        self.seqs = {}
        self.generation = 0  # as the parts' links to their index tell
        self.parts = len(index.entries) if index.is_index else 1
        if not index.is_index:
            self._take(index)

    def read_parts(self):
        """Read the parts that an index names."""
        if not self.index.is_index:
            return self
        for md in self.index.all("/*/s:sitemap/rs:md"):
            assert md.get("at") == self.index.at
        for entry in self.index.entries:
            part = self._document(entry.loc)
            assert not part.is_index
            assert (part.at, part.epoch) == (self.index.at, self.index.epoch)
            assert part.last == self.last
            folder = part.links["index"].href.removesuffix(".xml")
            assert entry.loc.startswith(f"{folder}/")
            generation = int(folder.rpartition("/")[2])
            assert self.generation in (0, generation)
            self.generation = generation
            self._take(part)
        return self

    def _document(self, url):
        document = self.set.get_url(url).document()
        document.check_valid()
        assert len(document.bytes) <= BYTES_MAX
        assert document.capability == "resourcelist"
        assert document.links["up"].href == f"{self.set.url}/capabilitylist.xml"
        return document

    def _take(self, part):
        assert len(part.entries) <= ENTRIES_MAX
        for entry in part.entries:
            assert entry.loc.startswith(LOC)
            number = int(entry.loc.removeprefix(LOC))
            assert number not in self.seqs, f"{entry.loc} is there twice"
            assert 1 <= entry.seq <= self.last
            assert (entry.change, entry.datetime) == ("", "")
            self.seqs[number] = entry.seq


def change_one(news, number, kind):
    return news.post_change(f"{LOC}{number}", kind)


def check_offers(news, **offers):
    """The Capability List and the set have those documents; None: they have not."""
    for capability, path in offers.items():
        capability = capability.replace("_", "-")
        expected = path and f"{news.url}/{path}"
        assert news.offered(capability) == expected
        assert (f'"rel":"{capability}"' in news.get().text) == bool(path)


# nothing is offered before it is there, and
# then everywhere.
def test_is_offered_from_the_first_one_on(start_broker):
    broker = start_broker("--resource-list-keep", "2")
    news = broker.set()
    news.post(3)
    check_offers(news, resourcelist=None, resourcelist_archive=None)
    list_url = f"{news.url}/resourcelist.xml"
    assert news.get("resourcelist.xml").status == 404
    assert f'href="{list_url}' not in broker.get("/").text
    assert "Sitemap" not in broker.get("/robots.txt").text

    news.build("resourcelist")
    check_offers(news, resourcelist="resourcelist.xml", resourcelist_archive=None)
    assert news.get("resourcelist-archive.xml").status == 404
    assert f'href="{list_url}' in broker.get("/").text
    assert f"Sitemap: {list_url}" in broker.get("/robots.txt").text
    first = ResourceList(news)
    assert (len(first.seqs), first.archive) == (3, "")

    change_one(news, 4, "created")
    news.build("resourcelist")
    check_offers(news, resourcelist_archive="resourcelist-archive.xml")
    second = ResourceList(news)
    assert len(second.seqs) == 4
    news.get_url(second.archive).document().check_valid()


# Design section 4: an ordered list exists when the order is answered.
@pytest.mark.broker("--resource-list-keep", "none")
def test_is_built_on_demand(broker):
    news = broker.set()
    assert broker.post(f"{news.path}/resourcelist").status == 404
    receipt = news.post(3)
    said = news.build("resourcelist").json()
    assert (said["generation"], said["resources"]) == (1, 3)
    assert said["position"] == receipt.position
    assert news.build("resourcelist").json()["generation"] == 1  # nothing has changed
    change_one(news, 1, "deleted")
    said = news.build("resourcelist").json()
    assert (said["generation"], said["resources"]) == (2, 2)

    refused = broker.post(f"{news.path}/resourcelist", "x" * 2048, "text/plain")
    check_refused(refused, 413)
    assert news.get("resourcelist").status == 405

    # A set without anything has a list without anything.
    empty = broker.set().create()
    assert empty.build("resourcelist").json()["resources"] == 0
    assert empty.get("resourcelist.xml").status == 200


# An order does not wait for ever: after ten seconds the answer is that the build goes
# on. Here a folder obstructs the set's state, until it is gone.
@pytest.mark.broker("--resource-list-keep", "none")
def test_is_told_of_later_when_it_takes_long(broker):
    news = broker.set()
    in_the_way = news.folder / "resources.db"
    in_the_way.mkdir(parents=True)
    news.post(3)
    assert broker.post(f"{news.path}/resourcelist").status == 202
    assert news.get("resourcelist.xml").status == 404

    in_the_way.rmdir()
    path = "resourcelist.xml"
    wait_for("the Resource List", lambda: news.get(path).status == 200)
    assert len(ResourceList(news).seqs) == 3


# By age: nobody asks, and the set has one, and another when it has changed.
@pytest.mark.broker("--resource-list-every", "0.1")
def test_is_built_by_itself(broker):
    news = broker.set()
    news.post(3)
    path = "resourcelist.xml"
    wait_for("the Resource List", lambda: news.get(path).status == 200)
    change_one(news, 4, "created")
    wait_for("the next one", lambda: ResourceList(news).last == 4)
    assert len(ResourceList(news).seqs) == 4


# A stranger that reads once finds the list of a set of few entries, which costs nothing
# on the disk, and follows the set from there.
@pytest.mark.broker("--resource-list-every", "0.1")
def test_a_small_set_has_one_without_a_file(broker):
    news = broker.set()
    news.post(99)
    change_one(news, 5, "deleted")
    small = broker.set()
    small.post(9)
    change_one(small, 3, "deleted")
    change_one(small, 4, "updated")
    wait_for("the offer", lambda: small.offered("resourcelist"))
    read = ResourceList(small)
    assert read.last == 11
    assert read.seqs == {1: 1, 2: 2, 4: 11, 5: 5, 6: 6, 7: 7, 8: 8, 9: 9}
    check_offers(small, resourcelist="resourcelist.xml", resourcelist_archive=None)
    path = "resourcelist.xml"
    got = small.get(path)
    head = broker.head(f"{small.path}/{path}")
    assert (head.status, head["ETag"]) == (200, got["ETag"])
    assert small.get(path, if_none_match=got["ETag"]).status == 304
    assert "rs:" not in small.get(f"{path}?plain").text
    assert small.get(path, **PERSON)["Content-Type"].startswith("text/html")

    # One with more entries has its files before the wait is over.
    wait_for("the files", lambda: (news.folder / "resourcelist").exists())
    assert not small.folder.exists()


# an index of three lists, which together are the
# set; and it is no less when it is read packed.
def test_the_parts_of_an_index_are_the_whole_set(start_broker):
    most = soak(12000, 120000)
    parts = () if most > 2 * ENTRIES_MAX else ("--resource-list-entries", "5000")
    news = start_broker("--rotate-entries", "10000", *parts).set()
    for _ in range(6):
        news.post(most // 6)
    step = most // 120
    gone = [step * i for i in range(1, 101)]
    news.send([change(f"{LOC}{number}", "deleted") for number in gone])
    assert news.build("resourcelist").json()["resources"] == most - 100
    read = ResourceList(news).read_parts()
    assert read.parts == 3
    assert read.last == most + 100
    assert read.seqs == {i: i for i in range(1, most + 1) if i not in set(gone)}

    path = "resourcelist/000000000001/000000000002.xml"
    packed = news.get(path, accept_encoding="gzip")
    assert packed.status == 200
    assert packed["Content-Encoding"] == "gzip"
    assert "immutable" in packed["Cache-Control"]
    up = f'{news.url}/capabilitylist.xml>; rel="resourcesync"'
    assert up in packed["Link"]
    assert gzip.decompress(packed.body) == news.get(path).body
    assert news.get("resourcelist/000000000001/000000000004.xml").status == 404


# the same address, with an answer for machines or for people on request;
# and caches know it.
@pytest.mark.broker("--resource-list-keep", "none")
def test_is_told_plainly_and_to_people(broker):
    news = broker.set()
    news.post(1500)
    news.build("resourcelist")
    path = "resourcelist.xml"
    told = news.get(path)
    assert told.status == 200
    assert told["Content-Type"] == "application/xml"
    assert told["Vary"] == f"{PAGE_VARY}, Accept-Encoding"

    plain = news.get(f"{path}?plain")
    assert plain.status == 200
    assert plain["ETag"] != told["ETag"]
    assert "rs:" not in plain.text
    part = news.get(f"{path}?plain", range="bytes=70000-70099")
    assert (part.status, part.body) == (206, plain.body[70000:70100])

    page = news.get(path, **PERSON)
    assert page.status == 200
    assert page["Content-Type"] == "text/html; charset=utf-8"
    assert page["Content-Security-Policy"]
    assert page["ETag"] != told["ETag"]
    assert '<link rel="resourcesync" href=' in page.text
    assert '?page=2">' in page.text
    for number, status in ((2, 200), (3, 404), (0, 400), (123456789, 400)):
        assert news.get(f"{path}?page={number}", **PERSON).status == status


# While everything changes


def change_next(news, n=1):
    """Post changes of which each, by its seq, is of resource seq % 50; every third
    deletes it."""
    for _ in range(n):
        news.posted = seq = news.posted + 1
        kind = "updated" if seq % 3 else "deleted"
        assert change_one(news, seq % 50 + 1, kind).last == seq


#
def check_state(read):
    """The list equals the fold of all changes up to its position."""
    state = {}
    for seq in range(1, read.last + 1):
        state[seq % 50 + 1] = seq
    assert read.seqs == {number: seq for number, seq in state.items() if seq % 3}


# an index that was read before the next one appeared leads to its own parts, and
# the current list shows one state at any time.
@pytest.mark.broker(
    *("--resource-list-entries", "7", "--resource-list-keep", "none"),
    *("--rotate-entries", "13", "--resource-list-every", "0.01"),
)
def test_generations_are_never_mixed(broker):
    news = broker.set()
    change_next(news, 60)
    news.build("resourcelist")
    generation = 0
    rounds = soak(20, 40)
    for i in range(rounds):
        read = ResourceList(news)
        change_next(news, i % 5)
        if i % 2:
            news.build("resourcelist")
        read.read_parts()
        assert read.generation >= generation
        generation = read.generation
        check_state(read)
    assert rounds / 2 <= generation <= 5 * rounds


# each list that was ever current is in the archive from
# then on, and stays what it was.
@pytest.mark.broker(
    *("--resource-list-entries", "7", "--resource-list-keep", "1"),
    *("--remove-grace", "0"),
)
def test_no_list_is_in_neither_place(broker):
    news = broker.set()
    change_next(news, 30)
    urls = []
    for i in range(1, 16):
        change_next(news)
        news.build("resourcelist")
        read = ResourceList(news).read_parts()
        assert read.generation == i
        urls.append(f"{news.url}/resourcelist/{i:012}.xml")
        archive = news.get_url(read.archive).document()
        archive.check_valid()
        assert [archive.locs().count(url) for url in urls] == [1] * i
    for i, url in enumerate(urls, 1):
        read = ResourceList(news, url).read_parts()
        assert read.last == 30 + i
        check_state(read)


# SIGKILL while lists are built: the current list stays, or the next one
# appears; nothing is lost, repeated, or left on the disk.
def test_survives_the_end_at_any_moment_of_a_build(start_broker):
    broker = start_broker(
        *("--resource-list-entries", "1", "--resource-list-keep", "none"),
        *("--resource-list-every", "0.001", "--remove-grace", "1"),
    )
    news = broker.set()
    change_next(news, 60)
    news.build("resourcelist")
    generation = 0
    moments = random.Random(7)
    for i in range(soak(6, 12)):
        change_next(news)
        # Some moment of the build that this begins: any will do.
        with broker.connect() as connection:
            connection.ask(f"{news.path}/resourcelist", "POST")
            for _ in range(moments.randrange(40)):
                assert broker.get("/healthz").status == 200
            broker.kill()
        broker.restart()
        assert 60 <= ResourceList(news).last <= news.posted
        if i % 3 == 0:
            said = news.build("resourcelist").json()
            assert ResourceList(news).last == news.posted
            assert said["generation"] > generation
            generation = said["generation"]
    news.build("resourcelist")
    check_state(ResourceList(news).read_parts())
    generations = news.folder / "resourcelist"
    wait_for("former lists to go", lambda: len(list(generations.glob("[!.]*"))) <= 1)


# an address means one list for ever, also if its set was removed and another one
# has its name.
def test_no_address_is_used_again(start_broker):
    broker = start_broker("--remove-grace", "0")
    news = broker.set()
    for i in range(1, 4):
        news.post(2)
        assert news.build("resourcelist").json()["generation"] == i
        path = f"resourcelist/{i:012}.xml"
        assert news.get(path).status == 200
        assert news.delete().status == 204
        assert news.get(path).status == 410
        if i == 2:
            broker.stop()
            broker.restart()
    news.post(2)
    for i in range(1, 5):
        assert news.get(f"resourcelist/{i:012}.xml").status == 404
