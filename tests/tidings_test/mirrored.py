"""A source with a set for its changes and a web site for its resources, and a mirror
of it.

    def test_something(mirrored):
        mirrored.change("/a.txt", "a")      on the site at once
        done = mirrored.sync()              posts it to the set first
        assert "done=1 failed=0" in done.output()

Resources are called by their path on the site, "/a.txt". The source's files are
remembered, and check_same() holds the mirror against them, as sync() does.
"""

import hashlib
import os

from tidings_test.sets import change


class Mirrored:
    """`directory` is the mirror, which is not there before the first sync; `url` is
    what it mirrors, the set's; run and start are the fixtures."""

    def __init__(self, of_set, site, home, run, start):
        self.set = of_set
        self.broker = of_set.broker
        self.site = site
        self.home = home
        self.directory = home / "m"
        self.url = of_set.url
        self.files = {}  # the text of each resource that is there
        self.syncing = None
        self._post = []  # changes that are not posted yet
        self._run = run
        self._start = start

    # The source

    def change(self, path, text):
        """Give the resource that text; None: delete it."""
        if text is None:
            self.files.pop(path, None)
            self.site.delete(path)
        else:
            self.files[path] = text
            self.site.put(path, text)
        self.tell(path, is_deleted=text is None)

    def change_many(self, first, last, text):
        """The resources /r/FIRST.txt to /r/LAST.txt get that text and their number;
        None: they are deleted."""
        for n in range(first, last + 1):
            self.change(f"/r/{n}.txt", None if text is None else f"{text} {n}")

    def tell(self, path, is_deleted=False):
        """Put the resource into the next post, as it is or as deleted."""
        if is_deleted:
            self._post.append(change(self.site.link(path), "deleted"))
        else:
            self._post.append(entry(self.site.link(path), self.files[path]))

    def post(self, to=None):
        """Post the changes to the set, or to another one; sync(), audit() and start()
        do if there are some."""
        to = to or self.set
        to.receipt(to.send(self._post))
        self._post = []

    def forget_changes(self):
        """Drop the changes without posting them: the source announces them by other
        ways."""
        self._post = []

    # The mirror

    def sync(self, *more, status=0, is_same=True, **options):
        """Run `tidings sync` until it has caught up; the mirror is the same as the
        source then if the status is 0, unless is_same is false."""
        arguments = (self.url, self.directory, "--until-caught-up", *more)
        done = self._run_program("sync", *arguments, status=status, **options)
        if status == 0 and is_same:
            self.check_same()
        return done

    def audit(self, *more, status=0):
        """Run `tidings audit`; a URL may be among `more`."""
        return self._run_program("audit", *more, self.directory, status=status)

    def _run_program(self, *arguments, **options):
        if self._post:
            self.post()
        return self._run("tidings", *arguments, **options)

    def start(self, *more, **options):
        """Start a sync that goes on, `syncing`; wait() reads its lines."""
        if self._post:
            self.post()
        arguments = (self.url, self.directory, "--json", *more)
        self.syncing = self._start("tidings", "sync", *arguments, **options)
        return self.syncing

    def wait(self, event, part=""):
        """Wait for its next line of that event with `part` in it."""
        start = f'{{"event":"{event}"'
        return self.syncing.out.next(
            lambda line: line.startswith(start) and part in line, f"{event} {part}"
        )

    def place(self, path):
        """The path of a resource's file below the mirror."""
        return self.site.link(path).removeprefix("http://")

    def file(self, path):
        """The path of a resource's file."""
        return self.directory / self.place(path)

    def write(self, place, text):
        """Write a file of the user's own there, below the mirror."""
        path = self.directory / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def text(self, place):
        """The text of a file below the mirror; None: there is none, or no plain
        one."""
        path = self.directory / place
        if path.is_symlink() or not path.is_file():
            return None
        return path.read_text()

    def check_same(self):
        """The mirror has every resource of the source, as it is there, and no other
        file."""
        found = {}
        for folder, folders, names in os.walk(self.directory):
            folders[:] = [name for name in folders if name != ".tidings"]
            links = [name for name in folders if os.path.islink(f"{folder}/{name}")]
            for name in [*names, *links]:
                place = os.path.relpath(f"{folder}/{name}", self.directory)
                found[place] = self.text(place)
        assert found == {self.place(path): text for path, text in self.files.items()}


def entry(loc, content, kind="updated", **more):
    """A change of a resource that has this content: its length and SHA-256."""
    content = content.encode() if isinstance(content, str) else content
    digest = {"sha-256": hashlib.sha256(content).hexdigest()}
    return change(loc, kind, length=len(content), hash=digest, **more)
