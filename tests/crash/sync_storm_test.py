"""`tidings sync` is killed again and again while the resources of its source change all
the time. In the end the mirror equals the source.

The source is either a set of a broker, which is killed as well, with bad networks
before it and before the site of its resources; or a web site without Tidings that
rewrites its lists while the mirror reads them."""

import contextlib
import datetime
import hashlib
import random
import sqlite3

import pytest

from tidings_test.mirrored import entry
from tidings_test.proxy import Fates
from tidings_test.publishers import post_until_accepted
from tidings_test.sets import change
from tidings_test.soak import choices, soak

CALM = ("--max-delete", "none")


class Resources:
    """The resources of a source, at `site`, which are called `url` and a path. Change
    number N, from 1 on, is changes[N - 1], the number of its resource and its kind; and
    makes a content of its own. `now` has the latest change of each resource that is
    there."""

    def __init__(self, site, url, n, chosen):
        self.site = site
        self.url = url
        self.n = n
        self.chosen = chosen
        self.changes = []
        self.now = {}

    def path(self, id):
        return f"/files/{id % 37}/{id}.txt"

    def content(self, n):
        """The content that change number `n` gives its resource: most are small, one of
        32 is large, one of 64 empty."""
        chosen = random.Random(n)
        kind = chosen.randrange(64)
        size = 0 if kind == 0 else chosen.randint(20, 3000)
        if kind in (1, 2):
            size = chosen.randint(40000, 200000)
        return chosen.randbytes(size)

    def change(self):
        """Change a resource, or delete it in one of ten cases if it exists. Returns its
        number."""
        id = self.chosen.randrange(self.n)
        if id in self.now and self.chosen.randrange(10) == 0:
            self.changes.append((id, "deleted"))
            del self.now[id]
            self.site.delete(self.path(id))
            return id
        self.changes.append((id, "updated" if id in self.now else "created"))
        self.now[id] = len(self.changes)
        self.site.put(self.path(id), self.content(len(self.changes)))
        return id

    def check_same(self, directory):
        """The mirror has every resource, byte for byte, and no other file; nor was one
        of the user's found."""
        place = directory / self.url.removeprefix("http://")
        wanted = {
            place / self.path(id)[1:]: self.content(n) for id, n in self.now.items()
        }
        files = [path for path in directory.rglob("*") if not path.is_dir()]
        own = directory / ".tidings"
        state = [own / "lock", *own.glob("mirror.db*"), *own.glob("list-*.db-read*")]
        found = {path: path.read_bytes() for path in files if path not in state}
        assert sorted(found) == sorted(wanted)
        for path, content in wanted.items():
            assert found[path] == content, path


class Mirror:
    """A mirror that lives several times; `lives` are its processes."""

    def __init__(self, start, run, url, directory):
        self._start = start
        self._run = run
        self.url = url
        self.directory = directory
        self.lives = []

    @contextlib.contextmanager
    def life(self, *options):
        """A life, which ends by SIGKILL when the block ends."""
        arguments = (self.url, self.directory, "--json", *CALM, *options)
        process = self._start("tidings", "sync", *arguments)
        self.lives.append(process)
        yield process
        assert process.is_running, "the mirror ended by itself"
        process.kill()

    def catch_up(self):
        arguments = (self.url, self.directory, "--until-caught-up", *CALM)
        self.lives.append(self._run("tidings", "sync", *arguments))

    def check_same(self, resources):
        self.catch_up()
        resources.check_same(self.directory)
        self._run("tidings", "audit", self.directory)

    def book(self):
        """The database of the mirror, while it does not live."""
        path = self.directory / ".tidings/mirror.db"
        return contextlib.closing(sqlite3.connect(path))


# A set of a broker

LIVES = soak(4, 24)
CHANGES = soak(600, 6000)
POST = 40  # entries, at most

# The broker retains more than the mirror may be behind.
LIST = soak(60, 200)  # entries
RETAINED = 5  # lists
BEHIND_MAX = LIST * 9 // 2

# Triggers in the mirror's own database record all changes of its book, in the book's
# transactions. A new INSERT of a member replaces its row, and fires no trigger of
# DELETE.
BOOKED = """
    CREATE TABLE booked (n INTEGER PRIMARY KEY, loc TEXT, hash TEXT, position TEXT);
    CREATE TRIGGER booked_told AFTER INSERT ON members BEGIN
        INSERT INTO booked SELECT NULL, CAST(loc AS TEXT), CAST(new.hash AS TEXT), NULL
            FROM resources WHERE id = new.resource;
    END;
    CREATE TRIGGER booked_deleted AFTER DELETE ON members BEGIN
        INSERT INTO booked SELECT NULL, CAST(loc AS TEXT), NULL, NULL
            FROM resources WHERE id = old.resource;
    END;
    CREATE TRIGGER booked_reached AFTER UPDATE OF position ON sets BEGIN
        INSERT INTO booked VALUES (NULL, NULL, NULL, new.position);
    END;
"""


def last_of(position):
    return int(position.partition(" ")[0].rpartition("-")[2])  # a digest may follow


def reached(mirror):
    """The last entry that it has got to."""
    with mirror.book() as book:
        return last_of(book.execute("SELECT position FROM sets").fetchone()[0])


def check_booked(mirror, resources):
    """The book recorded the changes behind the first, each once, in order."""
    n = 1
    with mirror.book() as book:
        told = book.execute("SELECT loc, hash, position FROM booked ORDER BY n")
        for loc, digest, position in told.fetchall():
            if loc is None:
                assert last_of(position) == n
                continue
            id, kind = resources.changes[n]
            n += 1
            assert loc == resources.url + resources.path(id)
            if kind == "deleted":
                assert digest is None
            else:
                content = hashlib.sha256(resources.content(n)).hexdigest()
                assert digest == f"sha-256:{content}"
    assert n == len(resources.changes) == reached(mirror)


def change_many(news, resources, n):
    """Resources change, then these changes are posted; the next requests of some
    resources fail, or yield wrong bytes. The broker answers all posts in the end."""
    while n:
        size = min(n, resources.chosen.randint(1, POST))
        n -= size
        first = len(resources.changes)
        body = []
        for _ in range(size):
            id = resources.change()
            path, (_, kind) = resources.path(id), resources.changes[-1]
            loc = resources.url + path
            if kind == "deleted":
                body.append(change(loc, kind))
            else:
                body.append(entry(loc, resources.content(len(resources.changes)), kind))
            match resources.chosen.randrange(60):
                case 0:
                    resources.site.status(path, 503, times=1)
                case 1 | 2 | 3:
                    resources.site.spoil(path, 1)
        post_until_accepted(news.broker, news, body, f"storm-{first}")


def wait_work(process, n):
    """Wait until it has done something `n` times."""
    for _ in range(n):
        process.out.next(lambda line: '"event":"progress"' not in line)


def live(life, news, resources, mirror):
    """A life of the mirror; one in three is short, and in some the broker is killed."""
    chosen = resources.chosen
    n = CHANGES // LIVES
    work = n // 8 if life % 3 else 2
    with mirror.life() as process:
        change_many(news, resources, n // 2)
        wait_work(process, chosen.randint(0, work))
        if life % 4 == 1:
            news.broker.kill()
            news.broker.restart()
        change_many(news, resources, n - n // 2)
        wait_work(process, chosen.randint(0, work))


# connections are cut, reset, stalled and
# reordered, lists rotated and old ones removed. Every change is applied once.
def test_the_mirror_of_a_set_is_what_its_source_is(
    start_broker, start_proxy, site, start, run, tmp_path
):
    chosen = choices()
    proxy, site_proxy = start_proxy(), start_proxy(site.port)
    broker = start_broker(
        *("--public-url", proxy.url),  # what the broker tells leads there, too
        *("--rotate-entries", LIST, "--retain-lists", RETAINED, "--heartbeat", 0.5),
    )
    proxy.point(broker.port)
    news = broker.set("storm")
    resources = Resources(site, site_proxy.url, soak(300, 700), chosen)
    mirror = Mirror(start, run, f"{proxy.url}{news.path}", tmp_path / "m")
    # The first one, in all peace: from there on everything is kept.
    change_many(news, resources, 1)
    mirror.catch_up()
    with mirror.book() as book:
        book.executescript(BOOKED)

    def rage():
        # Bytes, and percents: closes, resets, stalls, and holds.
        fates = [
            (proxy, soak(40000, 200000), 20, 20, 5, 20),
            (site_proxy, soak(40000, 500000), 15, 15, 5, 10),
        ]
        for one, *fate in fates:
            one.plan(Fates(random.Random(chosen.random()), *fate))

    def calm():
        proxy.plan(None)
        site_proxy.plan(None)
        for id in range(resources.n):
            site.status(resources.path(id), None)
            site.spoil(resources.path(id), 0)

    for life in range(LIVES):
        rage()
        live(life, news, resources, mirror)
        if len(resources.changes) > reached(mirror) + BEHIND_MAX - CHANGES // LIVES:
            calm()
            mirror.catch_up()
    calm()
    mirror.check_same(resources)
    check_booked(mirror, resources)
    for each in (proxy, site_proxy):
        print(f"{len(each.connections)} connections, {len(each.ends)} ended")
    assert len(proxy.ends) + len(site_proxy.ends)


# A web site without Tidings

STATIC_LIVES = soak(4, 14)
REQUESTS = 60  # of a life, at most
TURN = 5  # changes before an answer, at most

# The source retains the changes that the mirror has missed for some lives; then it does
# not.
WINDOW = soak(400, 1500)
FULL_LIST = soak(20, 50)
AWAY = soak(900, 4000)
IN_INDEX = 5  # closed lists
KEPT = 20

BEGIN = datetime.datetime(2026, 1, 1)


def document(root, capability, lines, **times):
    times = "".join(f' {name.rstrip("_")}="{at(s)}"' for name, s in times.items())
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<{root} xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
        f' xmlns:rs="http://www.openarchives.org/rs/terms/">\n'
        f'<rs:md capability="{capability}"{times}/>\n{"".join(lines)}</{root}>\n'
    )


def at(seconds):
    return (BEGIN + datetime.timedelta(seconds=seconds)).isoformat() + "Z"


class Lists:
    """The documents of a source without Tidings, as such sources make them: times are
    to the second, entries have a lastmod and nothing else. No resource changes twice in
    a second of its clock.

    description.xml, capabilities.xml, and a Resource List Index of three lists. With
    `is_index` a Change List Index; the last of its lists is latest.xml; when that is
    full it gets an address of its own, later it goes to archive.xml, later away.
    Otherwise a Change List of the latest changes, without `from`."""

    def __init__(self, resources, is_index):
        self.resources = resources
        self.site = resources.site
        self.is_index = is_index
        self.clock = 0
        self.when = [None]  # of each change
        self.lines = [None]  # its entries
        self.last = {}  # when each resource changed
        self.closed = []  # the number of the last change of each closed list
        self._put_capabilities("description.xml", "description", "capabilitylist")
        more = ["changelist-archive"] if is_index else []
        offers = ("resourcelist", "changelist", *more)
        self._put_capabilities("capabilities.xml", "capabilitylist", *offers)

    def link(self, name):
        return f"{self.resources.url}/rs/{name}"

    def put(self, name, text):
        self.site.put(f"/rs/{name}", text)

    def _put_capabilities(self, name, capability, *offers):
        names = {
            "capabilitylist": "capabilities.xml",
            "resourcelist": "resources.xml",
            "changelist": "changes.xml",
            "changelist-archive": "archive.xml",
        }
        lines = [
            f"<url><loc>{self.link(names[offer])}</loc>"
            f'<rs:md capability="{offer}"/></url>\n'
            for offer in offers
        ]
        self.put(name, document("urlset", capability, lines))

    def change(self, n):
        """So many changes, up to some seconds later."""
        resources, chosen = self.resources, self.resources.chosen
        for _ in range(n):
            id = resources.change()
            if chosen.randrange(4) == 0 or self.last.get(id) == self.clock:
                self.clock += chosen.randint(1, 2)
            self.when.append(self.clock)
            self.last[id] = self.clock
            md = f'<rs:md change="{resources.changes[-1][1]}"/>'
            self.lines.append(self._entry(id, self.clock, md))

    def _entry(self, id, time, md=""):
        loc = self.resources.url + self.resources.path(id)
        return f"<url><loc>{loc}</loc><lastmod>{at(time)}</lastmod>{md}</url>\n"

    def write(self, with_resources):
        """Rewrite the Change Lists, and the Resource Lists."""
        if self.is_index:
            self._write_lists()
        else:
            lines = self.lines[1:][-WINDOW:]
            self.put("changes.xml", document("urlset", "changelist", lines))
        if with_resources:
            self._write_resources()

    def _write_resources(self):
        now = sorted(self.resources.now.items())
        parts = []
        for part in range(3):
            name = f"resources-{part}.xml"
            lines = [self._entry(id, self.when[n]) for id, n in now if id % 3 == part]
            self.put(name, document("urlset", "resourcelist", lines, at=self.clock))
            parts.append(f"<sitemap><loc>{self.link(name)}</loc></sitemap>\n")
        index = document("sitemapindex", "resourcelist", parts, at=self.clock)
        self.put("resources.xml", index)

    def _name(self, i):
        return f"changes-{i}.xml" if i < len(self.closed) else "latest.xml"

    def _times(self, i):
        """A list begins where the one before ends; an open one has no end."""
        times = {"from_": self.when[self.closed[i - 1]] + 1 if i else 0}
        if i < len(self.closed):
            times["until"] = self.when[self.closed[i]] + 1
        return times

    def _write_list(self, i):
        first = self.closed[i - 1] + 1 if i else 1
        last = self.closed[i] if i < len(self.closed) else len(self.lines)
        lines = self.lines[first : last + 1]
        text = document("urlset", "changelist", lines, **self._times(i))
        self.put(self._name(i), text)

    def _write_index(self, name, root, capability, attribute, lists):
        """An index of Change Lists, or an archive, which is a list itself."""
        entry = "sitemap" if root == "sitemapindex" else "url"
        lines = []
        for i in lists:
            times = "".join(
                f' {name.rstrip("_")}="{at(s)}"' for name, s in self._times(i).items()
            )
            lines.append(
                f"<{entry}><loc>{self.link(self._name(i))}</loc>"
                f"<rs:md{attribute}{times}/></{entry}>\n"
            )
        times = {"from_": self._times(lists.start)["from_"]}
        self.put(name, document(root, capability, lines, **times))

    def _write_lists(self):
        """The open list is closed when it is full, at the end of a second."""
        changes = len(self.lines) - 1
        if changes - (self.closed[-1] if self.closed else 0) >= FULL_LIST:
            self.closed.append(changes)
            self._write_list(len(self.closed) - 1)
            self.clock = self.when[changes] + 1
        n = len(self.closed)
        self._write_list(n)
        first, middle = max(0, n - KEPT), max(0, n - IN_INDEX)
        is_list = ' capability="changelist"'
        archived = range(first, middle)
        archive = ("archive.xml", "urlset", "changelist-archive", is_list, archived)
        self._write_index(*archive)
        indexed = range(middle, n + 1)
        self._write_index("changes.xml", "sitemapindex", "changelist", "", indexed)
        if first:
            self.site.delete(f"/rs/{self._name(first - 1)}")

    def turn(self):
        """Resources change, and the lists are rewritten; sometimes the next request of
        a resource fails."""
        chosen = self.resources.chosen
        if chosen.randrange(2):
            self.change(chosen.randint(1, TURN))
            self.write(chosen.randrange(10) == 0)
            if chosen.randrange(10) == 0:
                id = chosen.randrange(self.resources.n)
                self.site.status(self.resources.path(id), 500, times=1)


# The latest changes in one list, a window that slides; an index, its lists, and
# an archive of the earlier ones. Once the mirror is away until the changes no longer
# reach back to its position, and it notices that.
@pytest.mark.parametrize("is_index", [False, True], ids=["window", "index"])
def test_the_mirror_of_a_static_site_is_what_its_source_is(
    site, start, run, tmp_path, is_index
):
    chosen = choices()
    resources = Resources(site, site.url, soak(120, 300), chosen)
    lists = Lists(resources, is_index)
    lists.change(resources.n)
    lists.write(True)
    mirror = Mirror(start, run, lists.link("description.xml"), tmp_path / "m")
    for life in range(STATIC_LIVES):
        with mirror.life("--poll", "1"):
            # One life in three ends early, and each wherever it is then.
            site.turn(lists.turn)
            requests = chosen.randint(1, REQUESTS if life % 3 else 4)
            site.requests.wait(len(site.requests) + requests)
            site.turn(None)
        if life == STATIC_LIVES // 2:
            mirror.catch_up()
            for _ in range(AWAY // FULL_LIST):
                lists.change(FULL_LIST)
                lists.write(True)
    mirror.check_same(resources)
    said = [line for life in mirror.lives for line in [*life.out, *life.err]]
    assert any("do not reach back that far" in line for line in said)
    print(f"{len(resources.changes)} changes, {len(site.requests)} requests")
