"""`tidings sync --as-of`: a directory as its source was at a past time. R-435."""

import hashlib
import io
import os
import re
import zipfile

import pytest

from tidings_test.content import multipart
from tidings_test.layouts import sitemapindex, urlset
from tidings_test.sets import change

DAY = "2026-01-01T"


def zipped(members):
    """A package with these members."""
    bytes = io.BytesIO()
    with zipfile.ZipFile(bytes, "w") as package:
        for name, text in members.items():
            package.writestr(name, text)
    return bytes.getvalue()


class Archives:
    """A source without Tidings: files on a site, with archives as the standard's
    examples have them. The texts of its resources by time: `story`."""

    story = (
        ("01:00", {"a": "a one", "b": "b one"}),
        ("01:30", {"a": "a two"}),
        ("01:40", {"c": "c one"}),
        ("01:50", {"d": "d one"}),
        ("02:30", {"b": None}),
        ("03:30", {"a": "a 333"}),
        ("04:40", {"d": "d more"}),
    )

    def __init__(self, site, run, home):
        self.site = site
        self.run = run
        self.home = home
        self.n = 0
        self.has_hash = self.has_length = self.has_memento = True
        self.has_at = True  # in the archive
        self.dumps = None  # Resource Dumps in place of its lists, of this kind
        self.offers = {}

    def state(self, time):
        """The texts at that time, as the story has them."""
        texts = {}
        for when, changes in self.story:
            if when <= time:
                texts.update(changes)
        return {name: text for name, text in texts.items() if text is not None}

    # The documents

    def entry(self, name, text, time, kind=None):
        md = f'change="{kind}" datetime="{DAY}{time}:00Z"' if kind else ""
        links = ""
        if text is not None:
            if self.has_hash:
                md += f' hash="md5:{hashlib.md5(text.encode()).hexdigest()}"'
            md += f' type="text/{text[2:]}"'
            if self.has_length:
                md += f' length="{len(text)}"'
            if self.has_memento:
                memento = self.site.link(f"/versions/{text.replace(' ', '/')}")
                links = f'<rs:ln rel="memento" href="{memento}"/>'
        loc = self.site.link(f"/{name}.txt")
        changed = [t for t, changes in self.story if name in changes and t <= time]
        lastmod = f"<lastmod>{DAY}{changed[-1]}:00Z</lastmod>"
        return f"<url><loc>{loc}</loc>{lastmod}<rs:md {md}/>{links}</url>\n"

    def put(self, path, capability, entries, md="", before=""):
        md = f'{before}<rs:md capability="{capability}" {md}/>\n'
        self.site.put(path, urlset(entries, md), "application/xml")

    @property
    def capability(self):
        return "resourcedump" if self.dumps else "resourcelist"

    def put_list(self, path, time):
        at = f'at="{DAY}{time}:00Z"'
        if self.dumps:
            told = [(time, *item) for item in self.state(time).items()]
            package = self.package(path[:-4], told, "resourcedump", self.dumps == "contents")
            self.put(path, "resourcedump", [package], at)
            return
        entries = [self.entry(*item, time) for item in self.state(time).items()]
        self.put(path, "resourcelist", entries, at)

    def put_changes(self, path, begin, end=None):
        entries = []
        for when, changes in self.story:
            if begin <= when < (end or "24") and when > self.story[0][0]:
                for name, text in changes.items():
                    kind = "deleted" if text is None else "updated"
                    entries.append(self.entry(name, text, when, kind))
        md = f'from="{DAY}{begin}:00Z"'
        md += f' until="{DAY}{end}:00Z"' if end else ""
        self.put(path, "changelist", entries, md)

    def listed(self, path, **md):
        times = "".join(f' {name}="{DAY}{time}:00Z"' for name, time in md.items())
        return f"<url><loc>{self.site.link(path)}</loc><rs:md{times}/></url>\n"

    def offer(self, **offers):
        """The Capability List, and the Source Description, which names it."""
        self.offers = offers
        entries = [
            f"<url><loc>{self.site.link(path)}</loc>"
            f'<rs:md capability="{name.replace("_", "-")}"/></url>\n'
            for name, path in offers.items()
        ]
        up = f'<rs:ln rel="up" href="{self.site.link("/source.xml")}"/>'
        self.put("/capability.xml", "capabilitylist", entries, before=up)
        caps = self.site.link("/capability.xml")
        entry = f'<url><loc>{caps}</loc><rs:md capability="capabilitylist"/></url>'
        self.put("/source.xml", "description", [entry])

    def publish(self):
        """All documents; the resources as they are now, and their versions."""
        for when, changes in self.story:
            for name, text in changes.items():
                if text is None:
                    self.site.delete(f"/{name}.txt")
                else:
                    self.site.put(f"/{name}.txt", text)
                    self.site.put(f"/versions/{text.replace(' ', '/')}", text)
        self.put_list("/old/list-1.xml", "01:00")
        self.put_list("/old/list-3.xml", "03:00")
        self.put_list("/list.xml", "04:00")
        self.put_changes("/old/changes-1.xml", "01:00", "02:00")
        self.put_changes("/old/changes-2.xml", "02:00", "03:00")
        self.put_changes("/changes.xml", "03:00")
        at = [{"at": f"0{n}:00"} if self.has_at else {} for n in (1, 3)]
        lists = [self.listed(f"/old/list-{n}.xml", **md) for n, md in zip((1, 3), at)]
        self.put("/lists.xml", f"{self.capability}-archive", lists)
        ends = {n: {"from": f"0{n}:00", "until": f"0{n + 1}:00"} for n in (1, 2)}
        old = [self.listed(f"/old/changes-{n}.xml", **ends[n]) for n in ends]
        self.put("/changelists.xml", "changelist-archive", old)
        self.offer_lists(changelist="/changes.xml", changelist_archive="/changelists.xml")

    def offer_lists(self, **more):
        lists = {self.capability: "/list.xml", f"{self.capability}_archive": "/lists.xml"}
        self.offer(**lists, **more)

    def pack(self, n, begin, end, has_contents, of="changedump"):
        """The package of the changes of that time, and its entry in a Change Dump; or
        that of a Resource Dump of the first of them."""
        told = [(when, *item) for when, c in self.story for item in c.items()]
        told = [change for change in told if begin < change[0] <= end]
        entry = self.package(f"/package-{n}", told, of, has_contents)
        return entry.replace("<rs:md", f'<rs:md from="{DAY}{begin}:00Z" until="{DAY}{end}:00Z"')

    def package(self, path, told, of, has_contents):
        kind = "updated" if of == "changedump" else None
        entries = [
            self.entry(name, text, when, kind).replace("<rs:md ", f'<rs:md path="/{i}" ')
            for i, (when, name, text) in enumerate(told)
        ]
        manifest = urlset(entries, f'<rs:md capability="{of}-manifest"/>\n')
        members = {str(i): text for i, (_, _, text) in enumerate(told)}
        members["manifest.xml"] = manifest
        self.site.put(f"{path}.zip", zipped(members), "application/zip")
        self.site.put(f"{path}-manifest.xml", manifest)
        link = self.site.link(f"{path}-manifest.xml")
        contents = f'<rs:ln rel="contents" href="{link}"/>' if has_contents else ""
        return self.listed(f"{path}.zip").replace("</url>", f"{contents}</url>")

    # The past

    def sync(self, time, *more, status=0, directory=None):
        """Run `tidings sync --as-of`, into a new directory; `done.texts` has what it
        holds, by the names of the story."""
        self.n += 1
        directory = directory or self.home / f"past-{self.n}"
        when = time if "T" in time or len(time) != 5 else f"{DAY}{time}:00Z"
        url = self.site.link("/source.xml")
        done = self.run(
            "tidings", "sync", url, directory, "--as-of", when, *more, status=status
        )
        done.directory = directory
        done.texts = {}
        for folder, folders, names in os.walk(directory):
            folders[:] = [name for name in folders if name != ".tidings"]
            for name in names:
                with open(f"{folder}/{name}", encoding="utf-8") as file:
                    done.texts[name.removesuffix(".txt")] = file.read()
        return done


@pytest.fixture
def archives(site, run, tmp_path):
    return Archives(site, run, tmp_path)


TIMES = ("01:00", "01:29", "01:30", "01:59", "02:00", "02:30", "03:00", "03:30", "05:00")


# Where each Resource List is one, or a Resource Dump.
each_kind = pytest.mark.parametrize("dumps", (None, "packages", "contents"))


# The nearest list, then the changes; the bytes by digests and links `memento`.
@each_kind
def test_makes_every_past_state(archives, dumps):
    archives.dumps = dumps
    archives.publish()
    for time in TIMES:
        assert archives.sync(time).texts == archives.state(time), time


# Archives need not say the times of their lists, nor be one document.
def test_looks_into_lists_whose_archive_has_no_times(archives, site):
    archives.has_at = False
    archives.publish()
    assert archives.sync("02:30").texts == archives.state("02:30")

    up = '<rs:md capability="resourcelist-archive"/>'
    site.put("/index.xml", sitemapindex([site.link("/lists.xml")], up))
    archives.offer(**{**archives.offers, "resourcelist_archive": "/index.xml"})
    assert archives.sync("02:30").texts == archives.state("02:30")
    # The archives may stand at the lists alone (R-221).
    link = f'<rs:ln rel="archives" href="{site.link("/index.xml")}"/>'
    archives.put("/list.xml", "resourcelist", [], 'at="2026-01-01T04:00:00Z"', link)
    archives.offer(resourcelist="/list.xml", changelist="/changes.xml")
    done = archives.sync("03:30")
    assert done.texts == archives.state("03:30")


# Servers are busy, documents missing, no archives, or lead in a circle.
def test_looks_into_odd_archives(archives, site):
    archives.publish()
    site.status("/lists.xml", 503, times=2)
    site.status("/old/list-1.xml", 503, times=1)
    assert archives.sync("02:30").texts == archives.state("02:30")
    paths = ("/lists.xml", "/none.xml", "/changes.xml", "/old/list-1.xml")
    archives.put("/lists.xml", "resourcelist-archive", map(archives.listed, paths))
    assert archives.sync("02:30").texts == archives.state("02:30")
    site.put("/lists.xml", "<html>nothing")
    assert archives.sync("04:40").texts == archives.state("04:40")


# The present bytes count where a digest proves that they are those of the time; else
# each resource is named. A length proves nothing: "a two" and "a 333" have the same.
@pytest.mark.parametrize("has_hash", (True, False))
def test_takes_no_bytes_of_another_time(archives, site, has_hash):
    archives.has_memento = False
    archives.has_hash = has_hash
    archives.publish()
    done = archives.sync("02:00", status=1)
    lost = {"a", "b", "d"} if has_hash else {"a", "b", "c", "d"}
    assert done.texts == ({"c": "c one"} if has_hash else {})
    named = re.findall(r"/(\w)\.txt: given up: ", done.errors())
    assert sorted(named) == sorted(lost)
    assert f"{len(lost)} resources of that time cannot be had" in done.errors()

    # Packages of a Change Dump may have them, as the changes were.
    if not has_hash:
        texts = {"a": ("a two", "01:30"), "c": ("c one", "01:40")}
        entries = [
            archives.entry(name, *told, "updated").replace("<rs:md", f'<rs:md path="/{name}"')
            for name, told in texts.items()
        ]
        manifest = '<rs:md capability="changedump-manifest"/>'
        members = {name: told[0] for name, told in texts.items()}
        members["manifest.xml"] = urlset(entries, manifest)
        site.put("/p.zip", zipped(members))
        archives.put("/dump.xml", "changedump", [archives.listed("/p.zip")])
        archives.offer(**archives.offers, changedump="/dump.xml")
        packed = archives.sync("02:00", status=1)
        assert packed.texts == {name: told[0] for name, told in texts.items()}

    # A memento needs no digest.
    archives.has_memento = True
    archives.publish()
    assert archives.sync("02:00", directory=done.directory).texts == archives.state(
        "02:00"
    )


# The bytes of Change Dumps, also of few resources and of packages in the archive.
@pytest.mark.parametrize("has_contents", (True, False))
def test_takes_bytes_of_change_dumps(archives, has_contents):
    archives.has_memento = False
    archives.publish()
    old = [archives.pack(1, "01:00", "01:45", has_contents)]
    new = [archives.pack(2, "01:45", "02:00", has_contents)]
    archives.put("/old/dump.xml", "changedump", old)
    listed = archives.listed("/old/dump.xml", **{"from": "01:00", "until": "01:45"})
    archives.put("/dumps.xml", "changedump-archive", [listed])
    archives.put("/dump.xml", "changedump", new)
    archives.offer(
        **archives.offers, changedump="/dump.xml", changedump_archive="/dumps.xml"
    )
    done = archives.sync("02:00", status=1)
    state = archives.state("02:00")
    assert state.pop("b")  # it was in the list, and has changed since
    assert done.texts == state
    assert re.findall(r"/(\w)\.txt: given up: ", done.errors()) == ["b"]


# A Resource Dump of the archive is better than a list of the same time: it has the bytes.
def test_begins_with_a_dump(archives):
    archives.has_memento = False
    archives.publish()
    package = archives.pack(1, "", "01:00", False, of="resourcedump")
    archives.put("/dump.xml", "resourcedump", [package], f'at="{DAY}01:00:00Z"')
    listed = archives.listed("/dump.xml", at="01:00")
    archives.put("/dumps.xml", "resourcedump-archive", [listed])
    archives.offer(**archives.offers, resourcedump_archive="/dumps.xml")
    assert archives.sync("01:00").texts == archives.state("01:00")
    done = archives.sync("02:00", status=1)
    assert done.texts == {"b": "b one", "c": "c one"}
    # Without it the list is as good, but for the bytes.
    assert archives.sync("01:00", "--no-dumps", status=1).texts == {}


# What can be had in no other way is searched for in the Resource Dumps, the nearest
# first; only a digest proves that bytes are of the time.
@pytest.mark.parametrize("has_contents", (True, False))
def test_searches_other_dumps(archives, site, has_contents):
    archives.has_memento = False
    archives.publish()

    def put_dump(n, time, names="abcd"):
        told = [(time, *item) for item in archives.state(time).items() if item[0] in names]
        package = archives.package(f"/dump-{n}", told, "resourcedump", has_contents)
        archives.put(f"/dump-{n}.xml", "resourcedump", [package], f'at="{DAY}{time}:00Z"')
        return archives.listed(f"/dump-{n}.xml", at=time)

    listed = [put_dump(1, "01:00"), put_dump(2, "02:00"), put_dump(3, "04:40")]
    archives.put("/dumps.xml", "resourcedump-archive", listed)
    archives.offer(**archives.offers, resourcedump_archive="/dumps.xml")
    done = archives.sync("03:00")
    assert done.texts == archives.state("03:00")
    assert "given up" not in done.errors()
    assert [len(site.asked(f"/dump-{n}.xml")) for n in (1, 2, 3)] == [0, 1, 0]

    put_dump(2, "02:00", "abc")
    done = archives.sync("03:00", status=1)
    assert re.findall(r"/(\w)\.txt: given up: ", done.errors()) == ["d"]
    assert "1 resources of that time cannot be had" in done.errors()
    assert [len(site.asked(f"/dump-{n}.xml")) for n in (1, 2, 3)] == [1, 2, 1]
    assert len(site.asked("/dump-1.zip")) == (0 if has_contents else 1)

    archives.has_hash = False
    archives.publish()
    archives.offer(**archives.offers, resourcedump_archive="/dumps.xml")
    assert archives.sync("03:00", status=1).texts == {}


# A time without a state: the message says which there are.
@pytest.mark.parametrize(
    "time, status, text",
    (
        ("2026-01-01T00:59:59Z", 3, "those from 2026-01-01T01:00:00Z on"),
        ("2999-01-01T00:00:00Z", 2, "those from 2026-01-01T01:00:00Z on"),
        ("yesterday", 2, 'not a W3C Datetime, such as 2026-11-20T21:00:00Z: "yester'),
    ),
)
def test_says_which_states_there_are(archives, time, status, text):
    archives.publish()
    done = archives.sync(time, status=status)
    assert text in done.errors()
    assert done.texts == {}


# What is not known of a state is said, and the rest is there.
def test_says_what_is_not_known(archives):
    archives.publish()
    # No changes at all, or none after a time.
    archives.offer(resourcelist="/list.xml", resourcelist_archive="/lists.xml")
    assert archives.sync("03:00").texts == archives.state("03:00")
    done = archives.sync("02:30", status=1)
    assert done.texts == archives.state("01:00")
    assert "what changed after 2026-01-01T01:00:00Z is not known" in done.errors()
    archives.offer(
        resourcelist_archive="/lists.xml", changelist_archive="/changelists.xml"
    )
    assert archives.sync("02:59").texts == archives.state("02:59")
    done = archives.sync("03:30", status=1)
    assert done.texts == archives.state("03:00")
    assert "what changed after 2026-01-01T03:00:00Z is not known" in done.errors()
    # A change without a time.
    untimed = re.sub(r"<lastmod>.*?</lastmod>", "", archives.entry("a", "a two", "01:30"))
    untimed = untimed.replace("<rs:md", '<rs:md change="updated"')
    archives.put("/late.xml", "changelist", [untimed], 'from="2026-01-01T01:00:00Z"')
    archives.offer(resourcelist_archive="/lists.xml", changelist="/late.xml")
    done = archives.sync("02:00", status=1)
    assert done.texts == {"a": "a two", "b": "b one"}
    assert "a change has no time, and may be a later one" in done.errors()
    # A hole between the list and the first change.
    archives.offer(resourcelist_archive="/lists.xml", changelist="/old/changes-2.xml")
    done = archives.sync("02:30", status=1)
    assert done.texts == {"a": "a one"}
    assert "what changed between" in done.errors()


# A past state is no mirror of today, and a mirror of today is no past state.
def test_stays_what_it_is(archives, run):
    archives.publish()
    done = archives.sync("02:00")
    url = archives.site.link("/source.xml")
    refused = run("tidings", "sync", url, done.directory, status=2)
    assert "is of 2026-01-01T02:00:00Z" in refused.errors()
    archives.sync("02:01", directory=done.directory, status=2)
    archives.sync("02:00", directory=done.directory)
    assert len(archives.site.asked("/versions/c/one")) == 1  # it has not gone
    now = archives.home / "now"
    run("tidings", "sync", url, now, "--until-caught-up")
    refused = archives.sync("02:00", directory=now, status=2)
    assert "is of the present" in refused.errors()

    # An audit compares it with that time.
    run("tidings", "audit", done.directory)
    told = run("tidings", "status", done.directory).output()
    assert "complete as of 2026-01-01T02:00:00Z" in told
    assert re.search("^as it was +2026-01-01T02:00:00Z$", told, re.M)
    told = run("tidings", "status", done.directory, "--json").output()
    assert '"as_of":"2026-01-01T02:00:00Z"' in told
    assert "as it was" not in run("tidings", "status", now).output()
    assert '"as_of"' not in run("tidings", "status", now, "--json").output()
    (done.directory / archives.site.link("/a.txt")[7:]).write_text("a 333")
    assert "corrupt" in run("tidings", "audit", done.directory, status=1).output()


# Our own: the changes from the beginning suffice, or a list of the archive.
@pytest.mark.parametrize("has_list", (True, False))
def test_makes_past_states_of_a_set(mirrored, has_list):
    mirrored.set.create(rotate_entries=4, resource_list_keep=1)
    states = []
    for text in ("one", "two", "three"):
        mirrored.change_many(1, 5, text)
        mirrored.change("/r/4.txt", None)
        mirrored.post()
        states.append((mirrored.set.state()["datetime"], dict(mirrored.files)))
        if has_list:
            mirrored.set.build("resourcelist")
    for n, (time, files) in enumerate(states):
        mirrored.directory = mirrored.home / str(n)
        for path, text in files.items():
            mirrored.site.put(path, text)
        mirrored.files = files
        mirrored.sync("--as-of", time)
    mirrored.directory = mirrored.home / "none"
    done = mirrored.sync("--as-of", "2026-01-01", status=3)
    assert f"those from {states[0][0][:20]}" in done.errors()


# Our own with content: each version has an address of its own, and the resources
# themselves need not be anywhere.
def test_takes_the_versions_that_a_set_keeps(broker, run, tmp_path):
    news = broker.set().create(content="inline")
    states = []
    for text in (b"one", b"two", b"three"):
        locs = [f"http://nowhere.invalid/{name}.txt" for name in "ab"]
        news.receipt(
            news.send(
                *multipart(
                    [change(loc, "updated") for loc in locs],
                    [(loc, "text/plain", loc[-5:].encode() + text) for loc in locs],
                )
            )
        )
        states.append((news.state()["datetime"], text))
    for time, text in states:
        directory = tmp_path / text.decode()
        run("tidings", "sync", news.url, directory, "--as-of", time)
        for name in "ab":
            path = directory / "nowhere.invalid:80" / f"{name}.txt"
            assert path.read_bytes() == f"{name}.txt".encode() + text


# Two states of a source, of mirrors, of both. Packages are read for a manifest alone
# that has no address.
@each_kind
def test_compares_two_states(archives, run, site, dumps):
    archives.dumps = dumps
    archives.publish()
    url = archives.site.link("/source.xml")

    def diff(*sides, status=1):
        sides = [f"{DAY}{x}:00Z" if re.fullmatch(r"\d\d:\d\d", str(x)) else x for x in sides]
        done = run("tidings", "diff", *sides, status=status)
        *lines, last = done.output().split("\n")
        found = {}
        for line in lines:
            word, loc, *rest = line.split()
            found[loc.split("/")[-1].removesuffix(":")] = " ".join([word, *rest])
        return found, last

    counted = "compared={} added={} removed={} changed={} unchecked=0 complete={}"
    changed = "changed hash lastmod type"
    everything = {"a.txt": changed, "b.txt": "removed"}
    everything |= {"c.txt": "added", "d.txt": "added"}
    expected = (everything, counted.format(4, 2, 1, 1, "true"))
    assert diff(url, "01:00", "02:59") == expected
    assert diff(url, "02:30", "02:59", status=0)[0] == {}
    assert diff(url, "02:30") == (
        {"a.txt": changed, "d.txt": "changed hash length lastmod type"},
        counted.format(3, 0, 0, 2, "true"),
    )
    paths = ("/old/list-1.zip", "/old/list-3.zip", "/list.zip")
    assert any(len(site.asked(path)) for path in paths) == (dumps == "packages")
    temporary = archives.home / "temporary"
    temporary.mkdir()
    times = (f"{DAY}03:00:00Z", f"{DAY}03:30:00Z")
    one = run("tidings", "diff", url, *times, status=1, env={"TMPDIR": str(temporary)})
    assert not list(temporary.iterdir())
    assert one.errors().endswith("tidings: 1 difference")
    first = archives.sync("01:00").directory
    run("tidings", "audit", first)
    last = archives.sync("02:59").directory
    assert diff(first, last) == expected
    assert diff(first, url, "02:59") == expected
    assert diff(last, url, "02:30", status=0)[1].endswith("complete=true")

    # Of a mirror of a part, that part is compared.
    part = archives.home / "part"
    prefix = f"prefix={archives.site.link('/a')}"
    run("tidings", "sync", url, part, "--until-caught-up", "--filter", prefix)
    assert diff(part, url, status=0) == ({}, counted.format(1, 0, 0, 0, "true"))

    # A state that is not wholly known is told apart from one that is the same.
    archives.offer_lists()
    assert diff(url, "03:00", "03:01") == ({}, counted.format(3, 0, 0, 0, "false"))
    (first / archives.site.link("/b.txt")[7:]).unlink()
    assert diff(first, last)[1] == expected[1]  # it reads no files

    done = run("tidings", "diff", first, last, "--json", status=1)
    assert '"finding":"changed"' in done.output() and '"why":"hash lastmod type"' in done.output()
    assert '"complete":true' in done.output()
    run("tidings", "diff", first, last, "2026-01-01", status=2)
    run("tidings", "diff", url, "2026-01-01T00:00:00Z", "2026-01-02", status=3)
    run("tidings", "diff", archives.home / "nowhere", last, status=1)
