"""`tidings sync --filter`: a mirror of a part of its source, which is wider or narrower
after the next sync, and says what it is complete for."""

import io
import json
import zipfile

import pytest

from tidings_test.layouts import urlset
from tidings_test.waiting import wait_for

pytestmark = pytest.mark.broker("--heartbeat", "0.2")

AT = "2026-01-01T00:00:00Z"

# What each has, and how the filter sees it.
TYPES = {"/a/1.png": "image/png", "/a/2.txt": "text/plain", "/b/3.png": "image/png"}
TAGS = {"/a/1.png": ["x", "y"], "/a/2.txt": ["x"], "/b/3.png": []}


class Part:
    """A mirror with a filter; `all` are the texts of all resources of its source."""

    def __init__(self, mirrored):
        self.mirrored = mirrored
        self.site = mirrored.site
        self.all = {}
        self.is_listed = False
        for path in TYPES:
            self.change(path, "text of " + path)
        mirrored.post()

    def change(self, path, text, **more):
        mirrored = self.mirrored
        mirrored.change(path, text)
        if text is None:
            self.all.pop(path)
            return
        self.all[path] = text
        last = {"type": TYPES.get(path), "tags": TAGS.get(path, []), **more}
        mirrored._post[-1].update({k: v for k, v in last.items() if v})

    def sync(self, paths, *options, **more):
        """The mirror has these resources after the sync."""
        done = self.mirrored.sync(*options, is_same=False, **more)
        self.check(paths)
        return done

    def check(self, paths):
        files, mirrored = self.mirrored.files, self.mirrored
        mirrored.files = {path: self.all[path] for path in paths}
        mirrored.check_same()
        mirrored.files = files

    def post(self):
        """Post the changes; the list has them, if there is one."""
        self.mirrored.post()
        if self.is_listed:
            self.mirrored.set.build("resourcelist")

    def asked(self, *paths):
        return [len(self.site.asked(path)) for path in paths]


@pytest.fixture
def part(mirrored):
    return Part(mirrored)


@pytest.fixture(params=["by its history", "by its list"])
def either(request, mirrored):
    """A part of a source that hands over its whole history, or of one whose history is
    cut: it has a list of its resources and the changes since."""
    if request.param == "by its history":
        return Part(mirrored)
    news = mirrored.set.create(rotate_entries=5, retain_lists=1)
    for text in ("before", None):
        mirrored.change_many(1, 9, text)
        mirrored.post()
    part = Part(mirrored)
    news.build("resourcelist")
    wait_for("the oldest lists to go", lambda: news.state()["lists"]["closed"] == 1)
    part.is_listed = True
    return part


FILTERS = {
    "tag=x": ["/a/1.png", "/a/2.txt"],
    "tag=y": ["/a/1.png"],
    "tag=y&tag=x": ["/a/1.png", "/a/2.txt"],
    "type=image/*": ["/a/1.png", "/b/3.png"],
    "type=image/png&tag=x": ["/a/1.png"],
    "prefix={}/a/": ["/a/1.png", "/a/2.txt"],
    "prefix={}/b/&type=text/plain": [],
    "all": [*TYPES],
}


@pytest.mark.parametrize("text", FILTERS)
def test_a_filter_selects_resources(part, text):
    part.sync(FILTERS[text], "--filter", text.format(part.site.url))
    others = [path for path in TYPES if path not in FILTERS[text]]
    assert part.asked(*others) == [0] * len(others)
    # Later syncs and audits keep it.
    part.sync(FILTERS[text])
    part.mirrored.audit()


@pytest.mark.parametrize(
    "text", ["tags=a", "a", "change=deleted", "data=no", "tag=a&x=b", "type=image", ""]
)
def test_a_wrong_filter_is_refused(part, text):
    if not text:
        part.sync([*TYPES], "--filter", text)
        return
    done = part.mirrored.sync("--filter", text, status=2, is_same=False)
    assert "filter" in done.errors() or "type" in done.errors()
    assert not part.mirrored.directory.exists() or not part.asked("/a/1.png")[0]


# the state says what it is complete for, in every place.
def test_the_state_names_the_filter(part, run):
    mirrored = part.mirrored
    said = part.sync(["/a/1.png"], "--filter", "tag=y", "--json")
    assert json.loads(said.out[-1])["filter"] == "tag=y"
    status = run("tidings", "status", mirrored.directory)
    assert "complete for tag=y as of 20" in status.output()
    assert "filter                     tag=y" in status.output()
    status = run("tidings", "status", mirrored.directory, "--json")
    assert json.loads(status.output())["filter"] == "tag=y"
    assert "complete for tag=y as of 20" in mirrored.audit().errors()
    part.sync([*TYPES], "--filter", "all")
    status = run("tidings", "status", mirrored.directory)
    assert "complete as of 20" in status.output() and "filter" not in status.output()


# A wider filter fetches what is new to it alone, a narrower one removes what does not
# pass it any more; changes of before count.
def test_it_can_be_widened_and_narrowed(either):
    part = either
    part.sync(["/a/1.png"], "--filter", "tag=y")
    part.change("/b/3.png", "newer", tags=["x"])
    part.change("/a/4.txt", "new", tags=["x"])
    part.sync(["/a/1.png"])
    wide = ["/a/1.png", "/a/2.txt", "/a/4.txt", "/b/3.png"]
    part.sync(wide, "--filter", "tag=x")
    said = part.sync(["/a/1.png", "/b/3.png"], "--filter", "type=image/*")
    assert ("takes a baseline: " in said.errors()) == part.is_listed
    part.mirrored.audit()
    part.sync(wide, "--filter", "all")
    assert part.asked("/a/1.png", "/b/3.png", "/a/4.txt") == [1, 1, 2]


# A change may lead into the part and out of it. A deletion says neither tags nor type.
def test_changes_lead_into_the_part_and_out_of_it(part):
    part.sync(["/a/1.png", "/a/2.txt"], "--filter", "tag=x")
    part.change("/a/1.png", "other", tags=["z"])
    part.change("/b/3.png", "other", tags=["x"])
    part.sync(["/a/2.txt", "/b/3.png"])
    part.change("/b/3.png", None)
    part.change("/a/1.png", None)
    said = part.sync(["/a/2.txt"])
    assert "not known" not in said.errors()
    part.mirrored.audit()


# what a narrower filter would remove is held back like any deletions.
def test_a_narrower_filter_needs_consent(either):
    part = either
    for n in range(120):
        part.change(f"/r/{n}.txt", f"text {n}")
    part.post()
    part.sync([*part.all])
    said = part.sync([*part.all], "--filter", "tag=x", status=1)
    assert "121 of 123 resources would be deleted" in said.errors()
    part.sync(FILTERS["tag=x"], "--accept-deletions", "121")
    part.mirrored.audit()


# An audit compares the part, and mends it alone.
def test_an_audit_compares_the_part(part):
    part.sync(["/a/1.png", "/a/2.txt"], "--filter", "tag=x")
    part.change("/b/3.png", "newer")
    part.mirrored.audit()
    part.change("/a/2.txt", "newer")
    assert "stale" in part.mirrored.audit(status=1).output()
    part.mirrored.audit("--repair")
    part.check(["/a/1.png", "/a/2.txt"])


# A sync that is killed after the filter has changed goes on with it.
def test_a_change_of_the_filter_survives_a_kill(either):
    part, mirrored = either, either.mirrored
    part.sync([*TYPES])
    part.site.hold("/a/2.txt")
    part.change("/a/2.txt", "newer")
    syncing = mirrored.start("--filter", "tag=x")
    part.site.asked("/a/2.txt").wait(2)
    syncing.kill()
    part.site.release("/a/2.txt")
    part.sync(["/a/1.png", "/a/2.txt"])
    mirrored.audit()


# A site without Tidings: types and prefixes select, and times say what is new. Of one
# that has a Resource Dump alone, the files come out of its package.
@pytest.mark.parametrize("has_contents", [True, False])
@pytest.mark.parametrize("has_changes", [True, False])
@pytest.mark.parametrize("by", ["resourcelist", "resourcedump"])
def test_a_part_of_a_site(mirrored, site, by, has_changes, has_contents):
    types = {"/a/1.png": "image/png", "/a/2.txt": "text/plain", "/b/3.png": "image/png"}

    def document(path, capability, paths, md=""):
        entries = "".join(
            f"<url><loc>{site.link(p)}</loc><lastmod>2025-12-31T00:00:00Z</lastmod>"
            f'<rs:md {how} type="{types.get(p, "")}" length="{len(mirrored.files[p])}"/>'
            "</url>\n"
            for p, how in paths
        )
        head = f'<rs:md capability="{capability}" {md}/>\n'
        site.put(path, urlset(entries, head), "application/xml")
        return urlset(entries, head)

    def dump(path, md):
        listed = [(p, f'path="{p}"') for p in types]
        manifest = document("/m.xml", "resourcedump-manifest", listed, md)
        package = io.BytesIO()
        with zipfile.ZipFile(package, "w") as file:
            file.writestr("manifest.xml", manifest)
            for p in types:
                file.writestr(p[1:], mirrored.files[p])
        site.put("/p.zip", package.getvalue(), "application/zip")
        link = f'<rs:ln rel="contents" href="{site.link("/m.xml")}"/>' * has_contents
        entry = f"<url><loc>{site.link('/p.zip')}</loc>{link}</url>"
        head = f'<rs:md capability="resourcedump" {md}/>\n'
        site.put(path, urlset([entry], head), "application/xml")

    for path in types:
        mirrored.change(path, f"text of {path}")
    mirrored.forget_changes()
    offers = [
        f'<url><loc>{site.link(p)}</loc><rs:md capability="{c}"/></url>'
        for c, p in ((by, "/list.xml"), ("changelist", "/changes.xml"))
    ]
    up = f'<rs:ln rel="up" href="{site.link("/cap.xml")}"/>'
    head = f'{up}<rs:md capability="capabilitylist"/>'
    offers = offers[: 1 + has_changes]
    site.put("/cap.xml", urlset(offers, head), "application/xml")
    if by == "resourcedump":
        dump("/list.xml", f'at="{AT}"')
    else:
        document("/list.xml", by, [(p, "") for p in types], f'at="{AT}"')
    changed = [("/b/3.png", 'change="updated" datetime="2026-01-02T00:00:00Z"')]
    document("/changes.xml", "changelist", changed, f'from="{AT}"')
    mirrored.url = site.link("/cap.xml")
    everything = mirrored.files

    def sync(paths, *options):
        mirrored.files = {path: everything[path] for path in paths}
        mirrored.sync(*options)
        mirrored.audit()

    sync(["/a/1.png", "/b/3.png"], "--filter", "type=image/*")
    sync(["/a/1.png", "/a/2.txt"], "--filter", f"prefix={site.url}/a/")
    sync([*types], "--filter", "all")
    n = 1 if by == "resourcelist" else 0
    assert [len(site.asked(path)) for path in ("/a/1.png", "/a/2.txt")] == [n, n]
