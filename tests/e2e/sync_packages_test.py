"""`tidings sync` after an absence, from a ResourceSync site with a Change Dump: packages
replace single downloads where they cost less (R-422)."""

import dataclasses
import hashlib
import json
import zipfile

import pytest

from tidings_test.content import multipart

XML = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" '
    'xmlns:rs="http://www.openarchives.org/rs/terms/">\n'
    "{}</urlset>"
)
PATHS = [f"/r/{n}.txt" for n in range(6)]
LENGTH = 'length="{}"'


def at(minute):
    return f"2026-01-01T00:{minute:02}:00Z"


def span(first, last):
    return f'from="{at(first)}" until="{at(last)}"'


def element(loc, md, more=""):
    return f"<url><loc>{loc}</loc><rs:md {md}/>{more}</url>\n"


class Away:
    """A source whose six resources change at the minutes 11 to 16, while the mirror is
    away, and the documents of it."""

    def __init__(self, mirrored):
        self.mirrored = mirrored
        self.told = []  # entries of the Change List
        self.has_hash = self.has_length = True  # these entries
        self.site = mirrored.site
        self.site.folder("/dumps/", mirrored.home)
        mirrored.url = self.put("/cap.xml", "capabilitylist", self.offers("/cd.xml"))
        self.give("old")
        self.told = []
        listed = [element(self.link(p), f'length="{len("old") + 2}"') for p in PATHS]
        self.put("/list.xml", "resourcelist", listed, f'at="{at(10)}"')
        self.put("/changes.xml", "changelist", [], f'from="{at(10)}"')
        self.put("/cd.xml", "changedump", [])
        mirrored.sync()
        self.give("new")
        self.forget()

    def link(self, path):
        return self.site.link(path)

    def offers(self, dump, kind="changedump"):
        offers = {"resourcelist": "/list.xml", "changelist": "/changes.xml", kind: dump}
        return [element(self.link(p), f'capability="{c}"') for c, p in offers.items()]

    def put(self, path, capability, entries, md=""):
        head = f'<rs:md capability="{capability}" {md}/>\n'
        if path == "/cap.xml":
            head = f'<rs:ln rel="up" href="{self.link(path)}"/>' + head
        self.site.put(path, XML.format(head + "".join(entries)))
        return self.link(path)

    def give(self, text, n=len(PATHS), minute=11):
        """The first `n` resources change from that minute on, and the Change List says
        so."""
        for i, path in enumerate(PATHS[:n]):
            self.mirrored.change(path, f"{text} {i}")
        self.mirrored.forget_changes()
        self.told += [self.change(p, minute + i) for i, p in enumerate(PATHS[:n])]
        self.put("/changes.xml", "changelist", self.told, f'from="{at(10)}"')

    def change(self, path, minute, text=None, member=None):
        """The entry of that change; `member`: its path in a package."""
        text = (text or self.mirrored.files[path]).encode()
        md = f'change="updated" datetime="{at(minute)}"'
        if self.has_hash:
            md += f' hash="sha-256:{hashlib.sha256(text).hexdigest()}"'
        if member or self.has_length:
            md += f' length="{len(text)}"'
        return element(self.link(path), md + (f' path="{member}"' if member else ""))

    def pack(self, name, entries, members, form):
        """Write a package, and return its entry of the Change Dump."""
        manifest = XML.format(
            '<rs:md capability="changedump-manifest"/>\n' + "".join(entries)
        )
        path = self.mirrored.home / name
        with zipfile.ZipFile(path, "w") as package:
            package.writestr("manifest.xml", manifest)
            for member, text in members.items():
                package.writestr(member, text)
        if form.damage:
            path.write_bytes(form.damage(path.read_bytes()))
        contents = ""
        if form.contents:
            self.site.put(f"/{name}.xml", manifest)
            contents = f'<rs:ln rel="contents" href="{self.link(f"/{name}.xml")}"/>'
        size = form.length.format(path.stat().st_size)
        return element(self.link(f"/dumps/{name}"), f"{form.span} {size}", contents)

    def pack_all(self, form, **texts):
        """One package with all changes; `texts` are members of other content."""
        paths = PATHS[: form.packed]
        entries = [self.change(p, 11 + i, None, f"/{i}") for i, p in enumerate(paths)]
        members = {str(i): self.mirrored.files[p] for i, p in enumerate(paths)}
        members.update(texts)
        return self.pack("p.zip", entries, members, form)

    def forget(self):
        """Forget the requests until now."""
        self.asked_before = len(self.site.requests)

    def asked(self):
        """The resources and packages that were asked for since, in order."""
        new = [one.target for one in list(self.site.requests)[self.asked_before :]]
        return sorted(path for path in new if path.startswith(("/r/", "/dumps/")))


@pytest.fixture
def away(mirrored):
    return Away(mirrored)


@dataclasses.dataclass
class Form:
    """How the source offers its one package, and what the mirror asks for."""

    contents: bool = True  # the manifest has an address
    length: str = LENGTH  # of the package
    span: str = span(10, 20)
    damage: object = None  # of the package's bytes
    packed: int = len(PATHS)  # changes that are in it
    is_used: bool = True
    tells: str = ""
    options: tuple = ()

    def expected(self):
        if self.tells:
            return ["/dumps/p.zip", *PATHS]
        if not self.is_used:
            return PATHS
        return ["/dumps/p.zip", *PATHS[self.packed :]]


FORMS = {
    "with a manifest": Form(),
    "without one, by its length": Form(contents=False),
    "of no length, by its members": Form(length=""),
    "of which nothing is known": Form(contents=False, length="", is_used=False),
    "much too long": Form(length='length="10000000"', is_used=False),
    "much too long, without a manifest": Form(
        contents=False, length='length="10000000"', is_used=False
    ),
    "of no time": Form(span=""),
    "from before": Form(span=span(1, 9), is_used=False),
    "of later changes": Form(span=span(30, 40), contents=False, is_used=False),
    "with some changes": Form(packed=4),
    "with one change": Form(packed=1, is_used=False),
    "unwanted": Form(is_used=False, options=("--no-dumps",)),
    "that is no ZIP": Form(damage=lambda data: b"x" * len(data), tells="it is not a ZIP"),
    "cut short": Form(damage=lambda data: data[:-30], tells="p.zip"),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_package_is_fetched_where_it_costs_less(mirrored, away, form):
    away.put("/cd.xml", "changedump", [away.pack_all(form)], span(10, 20))
    done = mirrored.sync(*form.options)
    asked = away.asked()
    assert [p for p in dict.fromkeys(asked)] == form.expected()
    assert form.tells in done.errors()
    assert ("fetched one by one" in done.errors()) == bool(form.tells)
    is_used = form.is_used and not form.tells
    counts = f"packages=1 from_packages={form.packed} "
    assert (counts in done.output()) == is_used
    mirrored.audit()


# The counts of a run are in each line of JSON.
def test_the_counts_are_in_the_events(mirrored, away):
    away.put("/cd.xml", "changedump", [away.pack_all(Form())])
    done = mirrored.sync("--json")
    last = json.loads(done.out[-1])
    size = (mirrored.home / "p.zip").stat().st_size
    assert (last["packages"], last["fromPackages"], last["packageBytes"]) == (1, 6, size)


# Fewer changes than a look at the dump costs are fetched one by one.
def test_few_changes_are_not_worth_a_look(mirrored, away):
    mirrored.sync()
    before = len(away.site.asked("/cd.xml"))
    away.give("newer", 3, 21)
    mirrored.sync()
    assert len(away.site.asked("/cd.xml")) == before


# A member that is not what the manifest says is fetched by itself, and that is told.
def test_a_lying_member_is_fetched_by_itself(mirrored, away):
    away.put("/cd.xml", "changedump", [away.pack_all(Form(), **{"2": "lie 2"})])
    done = mirrored.sync()
    assert away.asked() == ["/dumps/p.zip", PATHS[2]]
    assert "not what the manifest says" in done.errors()
    assert "from_packages=5" in done.output()


# Without a digest the length and the time of the change say which version it is; with
# one, the list need not say the length.
@pytest.mark.parametrize("lacks", ["has_hash", "has_length"])
def test_versions_are_known_by_hash_or_by_time(mirrored, away, lacks):
    setattr(away, lacks, False)
    away.told = []
    away.give("new")
    away.forget()
    entries, members = [], {}
    for i, path in enumerate(PATHS):
        for name, minute in ((f"old{i}", 10), (f"new{i}", 11 + i)):
            text = f"{name[:3]} {i}"  # of the same length
            members[name] = text
            entries.append(away.change(path, minute, text, f"/{name}"))
    away.put("/cd.xml", "changedump", [away.pack("p.zip", entries, members, Form())])
    mirrored.sync()
    assert away.asked() == ["/dumps/p.zip"]


# Of a resource that changed twice the last bitstream counts; one that the package has
# only as it was is fetched by itself.
def test_the_last_bitstream_counts(mirrored, away):
    entries, members = [], {}
    for i, path in enumerate(PATHS):
        texts = {f"a{i}": "before", f"b{i}": mirrored.files[path]}
        if i == 5:
            del texts["b5"]
        members.update(texts)
        for name, text in texts.items():
            entries.append(away.change(path, 11 + i, text, f"/{name}"))
    away.put("/cd.xml", "changedump", [away.pack("p.zip", entries, members, Form())])
    mirrored.sync()
    assert away.asked() == ["/dumps/p.zip", PATHS[5]]


# The dump may be an index, or be in the archive; packages that have the same
# changes as another one are left alone.
@pytest.mark.parametrize("kind", ["changedump", "changedump-archive"])
def test_an_index_or_an_archive_leads_to_packages(mirrored, away, kind):
    package = away.pack_all(Form())
    again = away.pack_all(Form()).replace("/dumps/p.zip", "/dumps/q.zip")
    away.put("/one.xml", "changedump", [package, again], span(10, 20))
    away.put("/old.xml", "changedump", [package.replace("p.zip", "old.zip")], span(1, 9))
    dumps = [
        element(away.link(path), f'capability="changedump" {when}')
        for path, when in (("/old.xml", span(1, 9)), ("/one.xml", span(10, 20)))
    ]
    away.put("/cds.xml", kind, dumps)
    away.put("/cap.xml", "capabilitylist", away.offers("/cds.xml", kind))
    mirrored.sync()
    assert away.asked() == ["/dumps/p.zip"]
    assert not away.site.asked("/old.xml")


# A document that cannot be had is told, and holds up nothing.
@pytest.mark.parametrize("path", ["/cd.xml", "/p.zip.xml", "/dumps/p.zip"])
def test_what_cannot_be_had_is_told(mirrored, away, path):
    away.put("/cd.xml", "changedump", [away.pack_all(Form())])
    away.site.status(path, 404)
    done = mirrored.sync()
    assert "fetched one by one" in done.errors()
    assert [p for p in away.asked() if p.startswith("/r/")] == PATHS


# Of a set of Tidings that keeps content: what closed lists have comes from the packages
# of their dumps, what came later by itself.
@pytest.mark.broker("--heartbeat", "0.2")
def test_takes_the_packages_of_a_set(mirrored):
    def post(first, last, text):
        mirrored.change_many(first, last, text)
        parts = [
            (mirrored.site.link(path), "text/plain", mirrored.files[path].encode())
            for path in (f"/r/{n}.txt" for n in range(first, last + 1))
        ]
        changes, mirrored._post = mirrored._post, []
        assert mirrored.set.send(*multipart(changes, parts)).status == 200

    assert mirrored.set.put(content="inline").status == 201
    post(1, 8, "first")
    mirrored.sync()
    post(1, 8, "second")
    post(1, 2, "third")
    mirrored.set.rotate()
    mirrored.set.wait_dumps(18)
    post(8, 9, "fourth")
    asked = len(mirrored.site.requests)
    done = mirrored.sync()
    new = sorted(one.target for one in list(mirrored.site.requests)[asked:])
    assert new == ["/r/8.txt", "/r/9.txt"]
    assert "packages=1 from_packages=7 " in done.output()
