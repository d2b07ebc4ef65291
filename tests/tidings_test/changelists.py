"""A pull client that trusts nobody: all of a set's history by its documents, from the
Capability List through index, archive and every Change List.

    lists = news.changelists()
    lists.read()
    assert [list.last for list in lists] == [3, 6, 7]
    lists.history.entries
    lists.read()            again: what was closed has the same bytes

Documents are found by their links only. To be used while nobody posts.
"""

import hashlib

from tidings_test.documents import Entry
from tidings_test.history import History

BYTES_MAX = 50 * 1024 * 1024
ENTRIES_MAX = 50000


class ChangeList:
    """A list: the facts in the index, and then its content."""

    def __init__(self, entry):
        self.url = entry.loc
        self.from_ = entry.from_
        self.until = entry.until  # "": it is open
        self.digest = entry.digest  # as an index has it; "": it is open
        self.after = self.last = self.size = self.sum = None  # not read yet

    @property
    def is_closed(self):
        return self.until != ""

    def __repr__(self):
        return f"<list {self.url}, {self.after} to {self.last}>"


class ChangeLists:
    """The lists of a set, oldest first; every rule of pull is checked on the way:
    R-130, R-131, R-132, R-133, R-134, R-135, R-136, R-137, R-138, R-143, R-160, R-161,
    R-162, R-163, R-164, R-165, R-166, R-167, R-168, R-169, R-210, R-211, R-212, R-213,
    R-214, R-215, R-216, R-217, R-218, R-225, the links between the lists and the
    digests in them. Documents may name other public URLs of the broker if `urls` has
    them."""

    def __init__(self, of_set, urls=()):
        self.set = of_set
        self.urls = [of_set.broker.url, *urls]
        self.lists = []
        self.indexed = 0  # how many of them the index names
        self.history = History()
        self._closed = {}  # as they were read before, by their places

    def __len__(self):
        return len(self.lists)

    def __getitem__(self, i):
        return self.lists[i]

    def read(self):
        """Read everything; compare the lists that were closed before with their bytes
        now."""
        self._closed = {i: l for i, l in enumerate(self.lists) if l.is_closed}
        self.lists = []
        self.indexed = 0
        changelist, archive = self._read_capabilities()
        if archive:
            self._read_archive(archive)
        # one address, for the list and then for the index.
        url = self.urls[0] + changelist
        document = self.get(url, "changelist")
        assert document.is_index == bool(archive)
        if document.is_index:
            self._read_index(document, archive)
        else:
            self._add(Entry(0, url, "", "", document.from_, "", "", "", b""))
        for i in range(len(self.lists)):
            self._read_list(i, changelist)
        return self

    def get(self, url, capability):
        """The document of that URL, which has to be there."""
        answer = self.set.broker.get(self._path(url))
        assert answer["Content-Type"] == "application/xml", answer
        document = answer.document()
        assert document.capability == capability, url
        assert len(document.bytes) <= BYTES_MAX
        assert len(document.entries) <= ENTRIES_MAX
        return document

    def _path(self, url):
        """The path of a public URL."""
        for base in self.urls:
            if url.startswith(base + "/"):
                return url[len(base) :]
        raise AssertionError(f"{url} is no address of this broker")

    def _check_link(self, document, rel, path):
        """Check that the root has that link, on any public URL; None: it has none."""
        link = document.links.get(rel)
        assert (link and self._path(link.href)) == path, (rel, document)

    @property
    def _capabilitylist(self):
        return f"{self.set.path}/capabilitylist.xml"

    def _read_capabilities(self):
        """Read the Capability List and its parents (R-031, R-131); return the paths of
        the Change List and of the archive, None if there is none."""
        document = self.get(self.urls[0] + self._capabilitylist, "capabilitylist")
        offered = {entry.capability: entry.loc for entry in document.entries}
        self._check_link(document, "up", "/.well-known/resourcesync")
        self.get(document.links["up"].href, "description")
        archive = offered.get("changelist-archive")
        return self._path(offered["changelist"]), archive and self._path(archive)

    # The order of the lists

    def _add(self, entry):
        known = self._closed.get(len(self.lists))
        if known:
            assert self._path(entry.loc) == self._path(known.url)
            assert entry.until == known.until
            assert entry.digest == known.digest
            assert entry.from_ == known.from_
        assert len(entry.from_) == 27
        if self.lists:  # the next one begins where this one ends.
            assert entry.from_ == self.lists[-1].until
        self.lists.append(known or ChangeList(entry))

    def _add_archived(self, document, index):
        """Add the lists of an archive, or of the part of one that `index` names."""
        assert not document.is_index
        self._check_link(document, "up", self._capabilitylist)
        self._check_link(document, "index", index)
        for entry in document.entries:
            assert entry.until
            self._add(entry)

    def _read_archive(self, path):
        """R-210, R-211, R-212, R-213, R-214, R-215, R-216, R-217, R-218, R-219: all
        closed lists, in order."""
        document = self.get(self.urls[0] + path, "changelist-archive")
        if not document.is_index:
            self._add_archived(document, None)
            return
        self._check_link(document, "up", self._capabilitylist)
        for entry in document.entries:
            first = len(self.lists)
            part = self.get(entry.loc, "changelist-archive")
            self._add_archived(part, path)
            assert self.lists[first].from_ == entry.from_
            if entry.until or entry is not document.entries[-1]:
                assert self.lists[-1].until == entry.until
                assert self.lists[-1].digest == entry.digest

    def _read_index(self, document, archive):
        """R-160, R-161, R-162, R-163, R-164, R-165, R-166, R-167, R-168, R-169: the
        latest closed lists, each in the archive as well, and the open one at the
        end."""
        entries = document.entries
        self._check_link(document, "up", self._capabilitylist)
        self._check_link(document, "archives", archive)
        assert 2 <= len(entries) <= len(self.lists) + 1
        assert document.from_ == entries[0].from_
        assert document.until == ""
        self.indexed = len(entries)
        archived = self.lists[len(self.lists) + 1 - len(entries) :]
        for entry, known in zip(entries, archived):
            assert entry.until
            assert self._path(entry.loc) == self._path(known.url)
            assert (entry.from_, entry.until) == (known.from_, known.until)
            assert entry.digest == known.digest
        assert not entries[-1].until
        self._add(entries[-1])

    # The lists

    def _read_list(self, i, changelist):
        known = self.lists[i]
        document = self.get(known.url, "changelist")
        sum_ = hashlib.sha256(document.bytes).digest()
        if i in self._closed:
            assert sum_ == known.sum, f"{known} has changed"
            return
        assert not document.is_index
        self._check_list(i, document, changelist)
        known.after = document.after
        known.last = document.last
        known.size = len(document.bytes)
        known.sum = sum_

    def _check_list(self, i, document, changelist):
        known = self.lists[i]
        before = self.lists[i - 1] if i else None
        #
        assert (document.from_, document.until) == (known.from_, known.until)
        if known.is_closed:
            assert document.digest == known.digest
        #
        behind = self._path(self.lists[i + 1].url) if known.is_closed else None
        self._check_link(document, "up", self._capabilitylist)
        self._check_link(document, "index", changelist if len(self) > 1 else None)
        self._check_link(document, "prev", before and self._path(before.url))
        self._check_link(document, "next", behind)
        assert "/changes/latest.xml" in document.links["last"].href
        if before:
            assert document.links["prev"].digest == before.digest
        assert document.after == (before.last if before else 0)
        # R-137, an entry at the boundary belonging to the earlier list; times within
        # grow, which the history checks.
        if document.entries:
            assert document.entries[0].datetime > document.from_
        if known.is_closed:
            assert document.entries[-1].datetime == document.until
        self.history.add_document(document)
