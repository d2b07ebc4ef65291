"""`tidings follow` of a ResourceSync site without Tidings: baselines, and changes from
lists, which are printed like those of a broker's stream."""

import signal

import pytest

from tidings_test.sets import change

NS = (
    'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
    ' xmlns:rs="http://www.openarchives.org/rs/terms/"'
)


def at(day):
    return f"2026-09-{day:02}T00:00:00Z"


def md(capability, **times):
    times = "".join(f' {name.rstrip("_")}="{at(day)}"' for name, day in times.items())
    return f'<rs:md capability="{capability}"{times}/>'


def urlset(entries, capability, head="", **times):
    """A document of `entries`; `times` are attributes of its rs:md."""
    return f"<urlset {NS}>\n{head}{md(capability, **times)}{''.join(entries)}</urlset>"


def changelist(days, head="", **times):
    """A Change List; `days` has names of resources, and when each was updated."""
    entries = [
        f"<url><loc>http://r.example/{name}</loc>"
        f'<rs:md change="updated" datetime="{at(day)}"/></url>'
        for name, day in days.items()
    ]
    return urlset(entries, "changelist", head, **times)


class Source:
    """A site with a Capability List, a Resource List and a Change List."""

    def __init__(self, site):
        self.site = site
        self.url = site.link("/caps.xml")
        self.put_capabilities(resourcelist="/resources.xml", changelist="/changes.xml")

    def put_capabilities(self, **paths):
        entries = [
            f"<url><loc>{self.site.link(path)}</loc>{md(capability)}</url>"
            for capability, path in paths.items()
        ]
        self.site.put("/caps.xml", urlset(entries, "capabilitylist"))

    def put_resources(self, day, names):
        entries = [f"<url><loc>http://r.example/{name}</loc></url>" for name in names]
        self.site.put("/resources.xml", urlset(entries, "resourcelist", at=day))

    def put_changes(self, begin, **days):
        self.site.put("/changes.xml", changelist(days, from_=begin))


@pytest.fixture
def source(site):
    return Source(site)


@pytest.fixture
def follow(source, start, tmp_path):
    """follow("--poll", "0.1"): follows the source with a state file."""
    state = ("--state", tmp_path / "state")
    return lambda *options: start("tidings", "follow", source.url, *state, *options)


def check_next(followed, words):
    """The next lines: "begin" and "end" of a baseline, "+a" for a resource of it, "a"
    for a change of that resource."""
    for word in words.split():
        ends = {"begin": "- - baseline-begin -", "end": "- - baseline-end -"}
        kind = "resource" if word[0] == "+" else "updated"
        url = f" {kind} http://r.example/{word.lstrip('+')}"
        assert followed.out.next().endswith(ends.get(word, url))


def stop(followed, printed):
    """End it with SIGTERM; it has printed so many lines."""
    followed.signal(signal.SIGTERM)
    assert followed.wait() == 0
    assert len(followed.out) == printed


FIRST = ("--baseline", "first", "--poll", "0.1")


# the state file keeps the position, so no change is printed twice.
def test_prints_a_baseline_and_then_later_changes(source, follow):
    source.put_resources(3, "ab")
    source.put_changes(1, a=2, b=4)
    followed = follow(*FIRST)
    check_next(followed, "begin +a +b end b")
    source.put_changes(1, a=2, b=4, c=5)
    check_next(followed, "c")
    stop(followed, 6)

    source.put_changes(1, a=2, b=4, c=5, d=5)
    followed = follow(*FIRST)
    check_next(followed, "d")
    stop(followed, 1)


# the Change List begins after the position. Without --baseline that ends
# the command; with it the command prints all resources again.
def test_prints_a_baseline_where_changes_are_gone(source, follow):
    source.put_resources(3, "a")
    source.put_changes(1, a=2)
    followed = follow("--since", at(1), "--until-caught-up")
    check_next(followed, "a")
    assert followed.wait() == 0

    source.put_resources(8, "bc")
    source.put_changes(7, c=9)
    followed = follow("--until-caught-up")
    assert (followed.wait(), followed.output()) == (3, "")

    followed = follow("--baseline", "gone", "--poll", "0.1")
    check_next(followed, "begin +b +c end c")
    stop(followed, 5)


# It waits for a source that answers 503, and ends at a 404. A source that is another
# one later begins with its baseline.
def test_a_source_that_is_gone_may_come_back(source, site, follow):
    source.put_resources(3, "a")
    source.put_changes(1, a=4)
    followed = follow(*FIRST, "--verbose")
    check_next(followed, "begin +a end a")

    site.status(None, 503)
    followed.err.find(lambda line: "503" in line)
    source.put_changes(1, a=4, b=5)
    site.status(None, None)
    check_next(followed, "b")

    site.status(None, 404)
    assert followed.wait() == 1
    assert len(followed.out) == 5
    assert "404" in followed.errors()

    site.status(None, None)
    source.put_resources(12, "z")
    source.put_changes(12, z=13)
    followed = follow(*FIRST)
    check_next(followed, "begin +z end z")
    stop(followed, 4)


# the list is closed, and an index elsewhere has it and the next one.
def test_a_source_may_continue_at_another_address(source, site, start):
    source.put_changes(1, a=4)
    options = ("--after", f"@{at(2)}", "--poll", "0.1")
    followed = start("tidings", "follow", source.url, *options)
    check_next(followed, "a")

    lists = {"/changes.xml": {"from_": 1, "until": 5}, "/2.xml": {"from_": 5}}
    index = "".join(
        f"<sitemap><loc>{site.link(path)}</loc>{md('changelist', **times)}</sitemap>"
        for path, times in lists.items()
    )
    index = f"<sitemapindex {NS}>{md('changelist', from_=1)}{index}</sitemapindex>"
    link = f'<rs:ln rel="index" href="{site.link("/index.xml")}"/>'
    site.put("/index.xml", index)
    site.put("/2.xml", changelist({"b": 6}, from_=5))
    source.put_capabilities(changelist="/index.xml")
    site.put("/changes.xml", changelist({"a": 4}, link, from_=1, until=5))
    check_next(followed, "b")
    stop(followed, 2)


NOON = "2026-01-01T12:00:00Z"
COPY = "http://m.example/a?x=1&y=2"
LINK = {"rel": "duplicate", "href": COPY, "pri": 1, "modified": NOON}
ENTRIES = [
    change(
        "http://r.example/a", lastmod=NOON, hash={"sha-256": "0123456789abcdef" * 4},
        length=3, type="text/plain", encoding="gzip", changefreq="daily",
        priority="0.5", tags=["x", "y"], links=[LINK],
    ),
    change("http://r.example/b?x=1&y=%3C%22", "deleted"),
]  # fmt: skip


def untimed(*names):
    """A Change List whose entries have no time at all."""
    entries = [
        f'<url><loc>http://r.example/{name}</loc><rs:md change="updated"/></url>'
        for name in names
    ]
    return urlset(entries, "changelist", from_=1)


# the place is the order of the list, in the state and beside it.
def test_prints_what_is_new_in_the_order_of_the_list(source, site, follow, tmp_path):
    look = ("--until-caught-up",)
    site.put("/changes.xml", untimed("a", "b"))
    assert follow(*look).wait() == 0
    site.put("/changes.xml", untimed("a", "b", "c", "b"))
    followed = follow(*look)
    check_next(followed, "c b")
    assert followed.wait() == 0

    # In a list that was written anew, by the marks beside the state.
    assert (tmp_path / "state.list-read").exists()
    site.put("/changes.xml", untimed("d", "c", "b", "e", "a", "b"))
    followed = follow(*look)
    check_next(followed, "d e")
    assert followed.wait() == 0
    assert len(followed.err) == 0

    # A state of an earlier version goes on, and says that it cannot know.
    (tmp_path / "state.list-read").unlink()
    (tmp_path / "state").write_text("@2026-09-02T00:00:00.000000Z+1~0123456789abcdef\n")
    source.put_changes(1, a=2, b=3)
    followed = follow(*look)
    check_next(followed, "a b")
    assert followed.wait() == 0
    assert "not known to be complete: the position is of" in followed.err.next()
    followed = follow(*look)
    assert followed.wait() == 0
    assert len(followed.out) == 0 and len(followed.err) == 0


# what happened between is told as unknown, once; nothing waits for it.
def test_prints_changes_behind_a_hole(source, follow):
    source.put_resources(3, "a")
    source.put_changes(5, b=6)
    followed = follow("--baseline", "first", "--until-caught-up")
    check_next(followed, "begin +a end b")
    assert followed.wait() == 0
    assert followed.errors().count("not known to be complete: ") == 1
    assert f"begin at {at(5)[:19]}" in followed.errors()
    source.put_changes(5, b=6, c=7)
    followed = follow("--baseline", "first", "--until-caught-up")
    check_next(followed, "c")
    assert followed.wait() == 0
    assert len(followed.err) == 0


#
@pytest.mark.parametrize("option", ["--as-far-back", "--baseline=first"])
def test_prints_all_changes_that_are_kept(source, follow, option):
    source.put_capabilities(changelist="/changes.xml")
    source.put_changes(3, a=4, b=5)
    followed = follow(*option.split("="), "--until-caught-up")
    check_next(followed, "a b")
    assert followed.wait() == 0
    assert f"begins at {at(3)[:19]}" in followed.err.next()
    followed = follow("--as-far-back", "--until-caught-up")
    assert followed.wait() == 0
    assert len(followed.out) == 0 and len(followed.err) == 0


# the same bytes in each format.
def test_prints_from_lists_what_it_prints_from_the_stream(news, run):
    assert news.send(ENTRIES).status == 200
    follow = ("tidings", "follow", news.url, "--from-start", "--until-caught-up")
    for form in ("text", "xml", "json"):
        stream = run(*follow, "--format", form).output()
        assert "http://r.example/b" in stream
        lists = run(*follow, "--format", form, "--transport", "poll").output()
        assert lists == stream


# rows that cannot be used are told, at each reading; the rest is followed.
def test_rows_left_out_are_told_and_fail_it(site, run):
    good, bad = "<url><loc>http://r.example/a</loc></url>", "<url><loc>http:///x</loc></url>"
    site.put("/map.xml", f"<urlset {NS}>\n{good}\n{bad}</urlset>")
    follow = ("tidings", "follow", site.link("/map.xml"), "--from-start", "--until-caught-up")
    done = run(*follow, status=1)
    assert done.output().endswith("created http://r.example/a")
    told = (
        "left out: 1 row: 1 with a loc that is no URL of http or https"
        ' ("http:///x", line 3)'
    )
    assert told in done.errors()
    done = run(*follow, "--skip-bad")
    assert told in done.errors()


# what is mended is told, and is no failure.
def test_values_that_are_mended_are_told(site, run):
    row = "<url><loc>/a b</loc><lastmod>2026-09-01 10:00</lastmod></url>"
    site.put("/map.xml", f"\n<?xml version='1.0'?><urlset {NS}>{row}</urlset>")
    follow = ("tidings", "follow", site.link("/map.xml"), "--from-start", "--until-caught-up")
    done = run(*follow)
    assert done.output().endswith(site.link("/a%20b"))
    mended = done.errors().partition("mended: ")[2]
    for part in ("white space", 'URLs ("/a b", line 2)', 'times ("2026-09-01 10:00"'):
        assert part in mended
