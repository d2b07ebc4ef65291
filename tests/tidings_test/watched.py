"""A directory, a `tidings watch` of it, and the set that it posts to.

    watched = Watched(broker.set(), tmp_path, start)
    watched.write("a.csv", "some text")
    watching = watched.start()          it watches
    watched.wait_same()                 the set says what the directory holds
    assert watched.fold.count("a.csv") == 1
    watching.stop()

Paths are relative to the directory; "../x" is beside it and not watched.
"""

import hashlib
import os
import urllib.parse

from tidings_test.broker import PROGRAMS
from tidings_test.waiting import wait_for

BASE = "http://example.com/files/"


class Fold:
    """The resources of a set, folded from its entries: `changes` are the last ones by
    their locs, `counts` how many there were.

    Each is checked against the earlier ones: "created" if the resource was missing,
    "updated" if it existed and differs now, "deleted" if it existed. So a lost entry,
    or one that was posted twice, fails the test.
    """

    def __init__(self, of_set, base=BASE):
        self.set = of_set
        self.base = base
        self.forget()

    def forget(self):
        """Begin again with the first entry: the set is another one."""
        self.last = 0  # entries read so far
        self.changes = {}
        self.counts = {}

    def read(self):
        """Read what is new. A set that is not there yet has nothing. How many entries
        there are."""
        while True:
            answer = self.set.get(f"changes?after={self.last}")
            if answer.status == 404 and not self.last:
                return 0
            assert answer.status == 200, answer
            changes = answer.json()["changes"]
            if not changes:
                return self.last
            for change in changes:
                self._take(change)

    def _take(self, change):
        loc = change["loc"]
        before = self.changes.get(loc)
        is_there = before and before["change"] != "deleted"
        if change["change"] == "created":
            assert not is_there, (before, change)
        else:
            assert is_there, (before, change)
        if change["change"] == "updated":
            assert change["hash"]["sha-256"] != before["hash"]["sha-256"]
        self.last += 1
        assert change["seq"] == self.last
        self.changes[loc] = change
        self.counts[loc] = self.counts.get(loc, 0) + 1

    def loc(self, path):
        return self.base + urllib.parse.quote(os.fsencode(path))

    def of(self, path):
        """The last change of that file; None: no entry was about it."""
        return self.changes.get(self.loc(path))

    def count(self, path):
        """How many entries were about it."""
        return self.counts.get(self.loc(path), 0)

    def there(self):
        """The length and the SHA-256 of each resource that is there."""
        return {
            loc: (change["length"], change["hash"]["sha-256"])
            for loc, change in self.changes.items()
            if change["change"] != "deleted"
        }

    def wait_change(self, path, kind):
        """Wait until the last entry about that file is of that kind; the change."""

        def look():
            self.read()
            change = self.of(path)
            return change and change["change"] == kind and change

        return wait_for(f"{path} to be {kind}", look)

    def wait_same(self, directory):
        """Wait until the resources that are there are the files below the directory,
        symbolic links and folders called .tidings excepted, and with these digests."""

        def look():
            self.read()
            return self.there() == self._files(directory)

        wait_for(f"the set to say what is in {directory}", look)

    def _files(self, directory):
        found = {}
        for folder, folders, names in os.walk(os.fsencode(directory)):
            folders[:] = [name for name in folders if name != b".tidings"]
            for name in names:
                path = os.path.join(folder, name)
                if os.path.islink(path) or not os.path.isfile(path):
                    continue
                with open(path, "rb") as file:
                    content = file.read()
                loc = self.loc(os.path.relpath(path, os.fsencode(directory)))
                found[loc] = len(content), hashlib.sha256(content).hexdigest()
        return found


class Watched:
    """`directory` is the watched one, in `home`; start is the fixture. `root` is where
    a test finds it, in another place than the watch if need be."""

    def __init__(self, of_set, home, start):
        self.set = of_set
        self.broker = of_set.broker
        self.home = home
        self.directory = home / "files"
        self.directory.mkdir()
        self.root = self.directory
        self.fold = Fold(of_set)
        self._start = start
        self._marks = 0

    # The directory

    def path(self, path):
        return self.root / path

    def write(self, path, text):
        self.path(path).write_text(text)

    def mkdir(self, path):
        self.path(path).mkdir()

    def unlink(self, path):
        self.path(path).unlink()

    def move(self, path, to):
        self.path(path).rename(self.path(to))

    # The watch

    def begin(self, *more, base=BASE, within=()):
        """Start a watch with more options; `within` is a command that starts it."""
        arguments = ("watch", self.directory, self.set.url, "--base-uri", base, *more)
        return self._start(*within, PROGRAMS["tidings"], *arguments)

    def start(self, *more, **options):
        """Start a watch, and return it when it watches."""
        watching = self.begin(*more, **options)
        assert watching.out.wait(1).startswith("tidings: watching ")
        return watching

    def run(self, *more, status=0, **options):
        """Run one to its end, which is of that status."""
        watching = self.begin(*more, **options)
        assert watching.wait() == status, watching.err
        return watching

    def mark(self):
        """Everything that was done before this is posted when it returns: the watch
        looks at paths in the order in which it heard of them."""
        self._marks += 1
        self.write(f"mark-{self._marks}", str(self._marks))
        self.fold.wait_change(f"mark-{self._marks}", "created")

    def wait_same(self):
        """Wait until the set says what the directory holds."""
        self.fold.wait_same(self.root)
