"""`tidings harvest --filter` and `tidings diff --filter`: a part of a source, which is
wider or narrower after the next run."""

import pytest

from tidings_test.http import JSON
from tidings_test.layouts import urlset

A, B, C = (f"http://r.example/{name}" for name in ("a/1", "a/2", "b/3"))


class Log:
    """A set of Tidings that hands over its whole history."""

    def __init__(self, broker, site):
        self.set = broker.set("source")
        self.url = self.set.url
        self.resources = set()

    def apply(self, loc, kind):
        self.set.post_change(loc, kind)

    def publish(self):
        pass

    def change(self, loc, kind="created"):
        self.resources.add(loc)
        if kind == "deleted":
            self.resources.remove(loc)
        self.apply(loc, kind)
        self.publish()


class Listed(Log):
    """The same, with a list of its resources."""

    def publish(self):
        self.set.build("resourcelist")


class Sitemap(Log):
    """Another one's Sitemap: what it lacks is gone."""

    def __init__(self, broker, site):
        self.site = site
        self.url = site.link("/sitemap.xml")
        self.resources = {}
        self.n = 0

    def change(self, loc, kind="created"):
        self.n += 1
        self.resources[loc] = f"2026-09-01T00:00:{self.n:02}Z"
        if kind == "deleted":
            del self.resources[loc]
        entries = [
            f"<url><loc>{loc}</loc><lastmod>{time}</lastmod></url>"
            for loc, time in self.resources.items()
        ]
        self.put(entries)

    def put(self, entries):
        self.site.put("/sitemap.xml", urlset(entries))


class Dumped(Sitemap):
    """A source that has a Resource Dump alone: its manifest has an address."""

    def __init__(self, broker, site):
        super().__init__(broker, site)
        self.url = self.place("/cap.xml", "capabilitylist", "/dump.xml", 'capability="resourcedump"')

    def place(self, path, capability, named, md, link=""):
        entry = f"<url><loc>{self.site.link(named)}</loc><rs:md {md}/>{link}</url>"
        self.site.put(path, urlset([entry], f'<rs:md capability="{capability}"/>'))
        return self.site.link(path)

    def put(self, entries):
        md = '<rs:md capability="resourcedump-manifest"/>'
        self.site.put("/manifest.xml", urlset(entries, md))
        link = f'<rs:ln rel="contents" href="{self.site.link("/manifest.xml")}"/>'
        self.place("/dump.xml", "resourcedump", "/none.zip", 'type="application/zip"', link)


class Harvest:
    def __init__(self, source, target, state, run):
        self.target = target
        self.arguments = ("tidings", "harvest", source.url, target.url, "--state", state)
        self._run = run
        self.seen = 0

    def run(self, *more, status=0):
        return self._run(*self.arguments, "--once", *more, status=status).errors()

    def told(self, *more, status=0):
        """Run; the changes that came to the set, in order of loc."""
        self.run(*more, status=status)
        page = self.target.get(f"changes?after={self.seen}", accept=JSON).json()
        self.seen = page["last"]
        return sorted((entry["loc"], entry["change"]) for entry in page["changes"])


@pytest.fixture(params=[Log, Listed, Sitemap, Dumped], ids=lambda kind: kind.__name__)
def source(request, broker, site):
    return request.param(broker, site)


@pytest.fixture
def harvest(source, broker, tmp_path, run):
    return Harvest(source, broker.set("target"), tmp_path / "harvest", run)


def test_a_part_is_harvested_wider_and_narrower(source, harvest):
    for loc in (A, B, C):
        source.change(loc)
    part = ("--filter", "prefix=http://r.example/a/")
    assert harvest.told(*part) == [(A, "created"), (B, "created")]
    source.change(C, "updated")
    source.change(A, "updated")
    assert harvest.told() == [(A, "updated")]  # the state keeps the filter
    source.change(C, "deleted")
    assert harvest.told() == []
    source.change(C, "created")
    assert harvest.told("--filter", "all") == [(C, "created")]
    # What is out of the part is deleted, within the limits of deletions.
    narrow = ("--filter", "prefix=http://r.example/b/")
    assert harvest.told(*narrow) == [(A, "deleted"), (B, "deleted")]
    source.change(A, "deleted")
    assert harvest.told() == []


def test_a_resource_enters_and_leaves_the_part(broker, tmp_path, run):
    news = broker.set("news")
    rows = (
        ("created", ["x"], "created"),
        ("updated", ["x", "y"], "updated"),
        ("updated", ["y"], "deleted"),
        ("updated", [], None),
        ("updated", ["x"], "created"),
        ("deleted", [], "deleted"),
        ("deleted", [], None),
    )

    class Source:
        url = news.url

    harvest = Harvest(Source, broker.set("target"), tmp_path / "harvest", run)
    for kind, tags, expected in rows:
        news.post_change(A, kind, **({"tags": tags} if tags else {}))
        told = harvest.told("--filter", "tag=x")
        assert told == ([(A, expected)] if expected else []), (kind, tags)


@pytest.mark.parametrize("text", ["tags=a", "a", "change=deleted", "data=no", "type=image"])
def test_a_wrong_filter_is_refused(broker, tmp_path, run, text):
    news = broker.set("news")
    news.post()

    class Source:
        url = news.url

    harvest = Harvest(Source, broker.set("target"), tmp_path / "harvest", run)
    diff = run("tidings", "diff", news.url, "2026-09-01T00:00:00Z", "--filter", text, status=2)
    for told in (harvest.run("--filter", text, status=2), diff.errors()):
        assert "filter" in told or "type" in told
    assert harvest.target.get().status in (404, 410)


def test_a_part_of_two_states_is_compared(broker, tmp_path, run):
    news = broker.set("news")
    news.post_change(A, tags=["x"])
    news.post_change(C)
    news.post_change(B, tags=["x"])
    mirror = tmp_path / "mirror"

    def differences(*arguments, status):
        done = run("tidings", "diff", *arguments, status=status)
        return [line for line in done.output().splitlines() if "compared=" not in line]

    times = [entry["datetime"] for entry in news.get("changes?after=0", accept=JSON).json()["changes"]]
    assert len(differences(news.url, times[0], times[2], status=1)) == 2
    (line,) = differences(news.url, times[0], times[2], "--filter", "tag=x", status=1)
    assert B in line
    assert differences(news.url, times[1], times[2], "--filter", "prefix=http://r.example/b/", status=0) == []
    run("tidings", "sync", news.url, mirror, "--until-caught-up", "--filter", "tag=x", status=None)
    done = run("tidings", "diff", mirror, news.url, "--filter", "tag=y", status=2)
    assert "is the mirror of another part: tag=x" in done.errors()
