"""`tidings sync` and `tidings audit` of a ResourceSync site that has no Tidings in it:
files, served by a web server."""

import json
import zipfile

import pytest

DAY = "2026-01-01T00"


def document(capability, *entries, md="", before=""):
    """A document of that capability; `md` are more attributes of rs:md."""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" '
        'xmlns:rs="http://www.openarchives.org/rs/terms/">\n'
        f'{before}<rs:md capability="{capability}" {md}/>\n'
        f"{''.join(entries)}</urlset>"
    )


def entry(loc, md="", minute=None):
    """An entry; `md` are attributes of rs:md, `minute` of a day that of lastmod."""
    lastmod = f"<lastmod>{DAY}:{minute:02}:00Z</lastmod>" if minute else ""
    md = md and f"<rs:md {md}/>"
    return f"<url><loc>{loc}</loc>{lastmod}{md}</url>\n"


class Static:
    """The documents of a mirror's source, all of them on its site."""

    def __init__(self, mirrored):
        self.link = mirrored.site.link
        self.put = mirrored.site.put
        mirrored.url = self.link("/resourcesync.xml")
        self.offer(resourcelist="/resources.xml", changelist="/changes.xml")
        self.put_changes()

    def offer(self, **offers):
        listed = entry(self.link("/capability.xml"), 'capability="capabilitylist"')
        self.put("/resourcesync.xml", document("description", listed))
        up = f'<rs:ln rel="up" href="{self.link("/resourcesync.xml")}"/>'
        offered = [
            entry(self.link(path), f'capability="{name}"')
            for name, path in offers.items()
        ]
        self.put("/capability.xml", document("capabilitylist", *offered, before=up))

    def put_resources(self, minutes, at=10):
        """The Resource List of that minute: the minutes of resources by their paths."""
        listed = [entry(self.link(path), "", minutes[path]) for path in minutes]
        md = f'at="{DAY}:{at}:00Z"'
        self.put("/resources.xml", document("resourcelist", *listed, md=md))

    def put_changes(self, *changes, since="00"):
        """The Change List: (path, minute, kind)."""
        listed = [
            entry(self.link(path), f'change="{kind}"', minute)
            for path, minute, kind in changes
        ]
        md = f'from="{DAY}:{since}:00Z"'
        self.put("/changes.xml", document("changelist", *listed, md=md))


@pytest.fixture
def static(mirrored):
    """A site with two resources and no change since."""
    static = Static(mirrored)
    static.put_resources({"/a.txt": 1, "/b.txt": 2})
    change(mirrored, {"/a.txt": "a", "/b.txt": "b"})
    return static


def change(mirrored, texts):
    """Give the site these texts from now on, without posting the changes."""
    for path, text in texts.items():
        mirrored.change(path, text)
    mirrored.forget_changes()


# baseline from the list, then the changes since; deletions, too.
def test_mirrors_a_site_without_tidings(mirrored, static, site):
    mirrored.sync()
    mirrored.audit()

    change(mirrored, {"/a.txt": "A!", "/b.txt": None, "/d.txt": "new"})
    static.put_changes(
        ("/a.txt", 11, "updated"), ("/b.txt", 12, "deleted"), ("/d.txt", 13, "created")
    )
    mirrored.audit(status=1)
    mirrored.sync()
    assert len(site.asked("/a.txt")) == 2

    # Nothing has changed since: the next sync fetches no file.
    mirrored.sync()
    assert (len(site.asked("/a.txt")), len(site.asked("/d.txt"))) == (2, 1)
    mirrored.audit()


# The changes do not reach back to the mirror's position: the sync reads the list anew,
# and removes the files that are not in it.
def test_begins_anew_where_the_changes_do_not_reach_back(mirrored, static, site):
    # While they do, it goes on from its position, and compares once.
    mirrored.sync()
    compared = mirrored.sync()
    assert "takes a baseline: " not in compared.errors()
    assert len(site.asked("/resources.xml")) == 2

    change(mirrored, {"/b.txt": None, "/c.txt": "c"})
    static.put_resources({"/a.txt": 1, "/c.txt": 40}, at=50)
    static.put_changes(since=45)
    assert "takes a baseline: " in mirrored.sync().errors()
    assert len(site.asked("/a.txt")) == 1


# the changes begin anew behind the older list: what they told before stays, and
# nothing is complete until a list is newer than the gap.
def test_an_older_list_deletes_nothing_that_came_later(mirrored, static):
    mirrored.sync()
    change(mirrored, {"/d.txt": "d"})
    static.put_changes(("/d.txt", 12, "created"))
    mirrored.sync()
    static.put_changes(since=45)
    for _ in range(2):
        said = mirrored.sync(status=1).errors()
        assert "not known to be complete" in said and "complete as of" not in said
        mirrored.check_same()
    change(mirrored, {"/d.txt": None})
    static.put_resources({"/a.txt": 1, "/b.txt": 2}, at=50)
    mirrored.sync()


# rows that came after the list by their place, whatever their times say, are
# neither extra nor missing, nor are they after a repair and the comparison behind it.
def test_a_repair_keeps_what_came_later_by_its_place(mirrored, static, run):
    mirrored.sync()
    change(mirrored, {"/a.txt": "A", "/b.txt": None, "/d.txt": "d"})
    late = (("/a.txt", 5, "updated"), ("/b.txt", 6, "deleted"), ("/d.txt", 7, "created"))
    static.put_changes(*late)
    mirrored.sync()
    mirrored.audit()
    run("tidings", "diff", mirrored.directory, mirrored.url)  # as the audit
    mirrored.write(mirrored.place("/a.txt"), "x")
    assert "extra=0 corrupt=1 repaired=1" in mirrored.audit("--repair").output()
    mirrored.check_same()
    mirrored.sync()
    mirrored.audit()

    # A change that nobody else knows overrules what the mirror knows.
    change(mirrored, {"/d.txt": None, "/b.txt": "b again"})
    static.put_changes(*late, ("/d.txt", 20, "deleted"), ("/b.txt", 21, "created"))
    assert "missing=1 stale=0 extra=1 " in mirrored.audit(status=1).output()
    assert "repaired=2" in mirrored.audit("--repair").output()
    mirrored.sync()


# a mirror that lacks files is not complete, and nothing is as of the future.
def test_says_complete_of_what_it_has_now(mirrored, static, site, run):
    def status():
        shown = [run("tidings", "status", mirrored.directory, *more).output()
                 for more in ((), ("--json",))]
        return "\n".join(shown)

    site.delete("/a.txt")
    mirrored.sync(status=1)
    assert "not known to be complete: 1 resources are still to be fetched\n" in status()
    assert "\ncomplete as of" not in status()
    assert '"not_complete":"1 resources are' in status()
    mirrored.audit(status=1)
    site.put("/a.txt", "a")
    mirrored.sync()
    assert "\ncomplete as of 2026-01-01T00:10" in status()
    listed = [entry(site.link(path)) for path in ("/a.txt", "/b.txt")]
    at = 'at="2199-01-01T00:00:00Z"'
    site.put("/resources.xml", document("resourcelist", *listed, md=at))
    mirrored.sync()
    said = mirrored.audit().errors()
    assert "complete as of 20" in said and "\ncomplete as of 20" in status()
    assert "2199" not in said + status().replace("@2199", "")


# So is the event: it comes when the files are there, not when the list was read.
def test_is_complete_when_its_files_are_there(mirrored, static, site, run):
    site.hold("/b.txt")
    mirrored.start("--until-caught-up")
    mirrored.wait("written", "/a.txt")
    status = run("tidings", "status", mirrored.directory, "--json").output()
    assert " resources are still to be fetched" in status
    site.release("/b.txt")
    assert mirrored.syncing.wait() == 0
    events = [json.loads(line)["event"] for line in mirrored.syncing.output().splitlines()]
    assert events.count("complete") == events.count("caught-up") == 1
    assert "written" not in events[events.index("complete") :]


# the sync does not fetch a file that the dump has; without dumps it does.
def test_takes_files_from_a_dump(mirrored, static, site):
    names = ("a.txt", "b.txt")
    at = f'at="{DAY}:10:00Z"'
    listed = [entry(site.link(f"/{n}"), f'path="/r/{n}" length="1"') for n in names]
    with zipfile.ZipFile(mirrored.home / "package.zip", "w") as package:
        manifest = document("resourcedump-manifest", *listed, md=at)
        package.writestr("manifest.xml", manifest)
        for name in names:
            package.writestr(f"r/{name}", mirrored.files[f"/{name}"])
    site.folder("/dumps/", mirrored.home)
    packages = entry(site.link("/dumps/package.zip"))
    site.put("/dump.xml", document("resourcedump", packages, md=at))
    lists = {"resourcelist": "/resources.xml", "changelist": "/changes.xml"}
    static.offer(**lists, resourcedump="/dump.xml")

    def asked():
        paths = ("/dumps/package.zip", "/a.txt", "/b.txt")
        return [len(site.asked(path)) for path in paths]

    mirrored.sync()
    assert asked() == [1, 0, 0]
    mirrored.directory = mirrored.home / "other"
    mirrored.sync("--no-dumps")
    assert asked() == [1, 1, 1]

    # A mirror of a part takes the list, for the dump has everything.
    mirrored.directory = mirrored.home / "part"
    mirrored.sync("--filter", f"prefix={site.link('/a')}", is_same=False)
    assert asked() == [1, 2, 1]

    # Of a source without anything else, later looks read what names the packages alone.
    static.offer(resourcedump="/dump.xml")
    mirrored.directory = mirrored.home / "alone"
    syncing = mirrored.start("--poll", "1")
    mirrored.wait("caught-up")
    site.asked("/dump.xml").wait(len(site.asked("/dump.xml")) + 2)
    assert asked() == [2, 2, 1]
    assert syncing.is_running
    syncing.kill()
    mirrored.check_same()
    mirrored.audit()
