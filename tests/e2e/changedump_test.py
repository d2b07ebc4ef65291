"""Change Dumps of the real broker: the documents on offer, the contents of the
packages; none is ever missing, and a package is a file like any other."""

import collections
import random

import pytest

from tidings_test.content import Package, multipart
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

RESOURCES = 12
TYPE = "application/octet-stream"

Told = collections.namedtuple("Told", "loc kind content")


class Source:
    """A set that keeps content inline, and all posted changes, by seq."""

    def __init__(self, news):
        self.set = news
        self.told = [None]
        self._there = set()
        self._random = random.Random(11)
        assert news.put(content="inline").status == 201

    @property
    def last(self):
        return len(self.told) - 1

    def change(self, n, most):
        """Post `n` changes at once, with their bytes, of `most` each at most."""
        told = [self._next(most) for _ in range(n)]
        self.told += told
        changes = [{"loc": each.loc, "change": each.kind} for each in told]
        kept = [each for each in told if each.kind != "deleted"]
        parts = [(each.loc, TYPE, each.content) for each in kept]
        assert self.set.send(*multipart(changes, parts)).status == 200

    def change_some(self, most_changes, most):
        self.change(self._random.randint(1, most_changes), most)

    def _next(self, most):
        loc = f"http://example.com/r/{self._random.randrange(RESOURCES)}.bin"
        if loc in self._there and self._random.randrange(4) == 0:
            self._there.remove(loc)
            return Told(loc, "deleted", None)
        kind = "updated" if loc in self._there else "created"
        self._there.add(loc)
        size = self._random.randrange(most)
        return Told(loc, kind, bytes([self._random.choice(b"abcdefgh")]) * size)

    def wait_dumps(self):
        """Wait until they reach the last entry."""
        self.set.wait_dumps(self.last)

    def document(self, url):
        document = self.set.get_url(url).document()
        document.check_valid()
        return document

    def wait_told(self, path, capability, change):
        """Wait until the latest framework notification reports that change of a
        document."""
        url = f"/*/s:url[s:loc='{self.set.url}/{path}']"
        xpath = f"{url}/rs:md[@capability='{capability}' and @change='{change}']"

        def look():
            latest = self.set.get("framework-notifications").document()
            latest.check_valid()
            return latest.count(xpath) == 1

        wait_for(f"news of {path}", look)


class Walk:
    """All dumps that a document names, or the documents that it names, read in
    order."""

    def __init__(self, source, url):
        self.source = source
        self.seq = 0  # read so far
        self.until = ""  # of what was read last
        self.packages = self.gaps = 0
        self._read(url)

    def _read(self, url):
        document = self.source.document(url)
        if document.capability == "changedump" and not document.is_index:
            self._read_dump(document)
        else:
            for entry in document.entries:
                self._read(entry.loc)

    def _read_dump(self, dump):
        """A dump that goes on where the last one ended, or behind a gap."""
        assert dump.after >= self.seq
        is_gap = dump.after > self.seq
        self.gaps += is_gap
        if is_gap or not self.until:
            self.until = dump.from_
        self.seq = dump.after
        for url in dump.all("/*/s:url"):
            self._read_package(url)
        assert dump.until == self.until

    # the statements of the package's entry in the
    # dump.
    def _read_package(self, url):
        md = url.find("rs:md", url.nsmap).attrib
        assert md["from"] == self.until
        answer = self.source.set.get_url(url.findtext("loc", namespaces=url.nsmap))
        assert answer.status == 200
        assert answer["Content-Type"] == md["type"]
        assert int(md["length"]) == len(answer.body)
        package = Package(answer.body)
        package.check()
        contents = url.find("rs:ln[@rel='contents']", url.nsmap).get("href")
        manifest = self.source.document(contents)
        assert manifest.bytes == package.members["manifest.xml"]
        assert manifest.capability == "changedump-manifest"
        for entry in manifest.entries:
            self._check_entry(entry, package)
        self.until = md["until"]
        assert manifest.until == self.until
        self.packages += 1

    # it is the next posted change, with the bytes that were
    # posted with it.
    def _check_entry(self, entry, package):
        self.seq += 1
        told = self.source.told[self.seq]
        assert (entry.seq, entry.loc, entry.change) == (self.seq, told.loc, told.kind)
        (md,) = package.manifest.all(f"/*/s:url/rs:md[@td:seq='{self.seq}']")
        assert ("path" in md.attrib) == (told.kind != "deleted")
        if "path" in md.attrib:
            assert md.get("type") == TYPE
            assert package.at(md.get("path")) == told.content


@pytest.fixture
def source(broker):
    return Source(broker.set())


# the broker offers a dump when it exists, and announces it
# then.
def test_is_offered_from_the_first_one_on(source):
    news = source.set
    source.change(3, 100)
    assert not news.offered("changedump")
    assert not news.offered("changedump-archive")
    assert news.get("changedump.xml").status == 404
    assert news.get("changedump-archive.xml").status == 404

    news.rotate()
    source.wait_dumps()
    assert news.offered("changedump") == f"{news.url}/changedump.xml"
    archive = f"{news.url}/changedump-archive.xml"
    assert news.offered("changedump-archive") == archive
    assert '"rel":"changedump"' in news.get().text
    source.wait_told("changedump.xml", "changedump", "created")
    source.wait_told("changedump-archive.xml", "changedump-archive", "created")
    source.wait_told("capabilitylist.xml", "capabilitylist", "updated")
    assert Walk(source, archive).seq == 3

    source.change(2, 100)
    news.rotate()
    source.wait_dumps()
    source.wait_told("changedump/000000000002.xml", "changedump", "created")
    source.wait_told("changedump-archive.xml", "changedump-archive", "updated")


#
#
# all dumps together have all posted changes, in order, each with its bytes of
# that time, whatever came later.
@pytest.mark.broker(
    *("--rotate-entries", "20", "--package-bytes", "20000", "--index-lists", "4")
)
def test_all_dumps_are_the_history_with_its_content(source):
    entries = soak(200, 400)
    while source.last < entries:
        source.change_some(17, 3000)
    source.set.rotate()
    source.wait_dumps()
    all_dumps = Walk(source, source.set.offered("changedump-archive"))
    assert (all_dumps.seq, all_dumps.gaps) == (source.last, 0)
    assert entries / 20 < all_dumps.packages <= entries

    # The index has the last ones of these.
    latest = Walk(source, source.set.offered("changedump"))
    assert (latest.seq, latest.gaps) == (source.last, 1)


# a crash leaves no gap, and nothing half done.
def test_a_crash_leaves_no_gap(start_broker):
    broker = start_broker("--rotate-entries", "10", "--package-bytes", "20000")
    source = Source(broker.set())
    for _ in range(soak(2, 4)):
        for _ in range(soak(5, 10)):
            source.change(10, 4000)
        broker.kill()
        broker.restart()
    source.wait_dumps()
    walk = Walk(source, source.set.offered("changedump-archive"))
    assert (walk.seq, walk.gaps) == (source.last, 0)


# however short the history, each list has a dump before it goes; and the
# dumps go as the lists do.
@pytest.mark.broker("--rotate-entries", "10", "--retain-lists", "2")
def test_a_short_history_has_dumps_too(source):
    for _ in range(soak(2, 4)):
        for _ in range(3):
            source.change(10, 1000)
        source.wait_dumps()

    def look():
        walk = Walk(source, source.set.offered("changedump-archive"))
        assert walk.seq == source.last
        return walk.packages <= 2

    wait_for("the end of old dumps", look)


# a package is a file like any other, and stays what it is.
def test_a_package_is_served_for_ever(start_broker):
    broker = start_broker()
    source = Source(broker.set())
    news = source.set
    path = "changedump/000000000001/000000000001.zip"
    source.change(10, 5000)
    news.rotate()
    source.wait_dumps()
    whole = news.get(path, accept_encoding="gzip")
    assert whole.status == 200
    etag = whole["ETag"]
    assert etag.startswith('"')
    expected = {
        "Content-Type": "application/zip",
        "Content-Encoding": None,
        "Vary": None,
        "Accept-Ranges": "bytes",
        "Cache-Control": "public, max-age=31536000, immutable",
        "Link": f'<{news.url}/capabilitylist.xml>; rel="resourcesync"',
    }
    assert {name: whole[name] for name in expected} == expected

    part = news.get(path, range="bytes=100-199", if_range=etag)
    assert (part.status, part.body) == (206, whole.body[100:200])
    end = news.get(path, range="bytes=-5")
    assert (end.status, end.body) == (206, whole.body[-5:])
    assert news.get(path, range="bytes=99999999-").status == 416
    assert news.get(path, if_none_match=etag).status == 304
    head = broker.head(f"{news.path}/{path}")
    assert (head.status, head.body) == (200, b"")
    assert int(head["Content-Length"]) == len(whole.body)

    source.change(10, 5000)
    news.rotate()
    source.wait_dumps()
    broker.stop()
    broker.restart()
    again = news.get(path)
    assert (again.status, again["ETag"]) == (200, etag)
    assert again.body == whole.body
    assert news.get("changedump/000000000001/000000000002.zip").status == 404
