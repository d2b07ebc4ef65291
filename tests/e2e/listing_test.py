"""Sources without a history, which have a list of their resources alone: followed,
mirrored and audited by reading that again and again (tidings_test/layouts.py)."""

import pytest

from tidings_test.broker import is_sanitized
from tidings_test.layouts import LAYOUTS, Paged, Resync, Sitemap, sitemapindex, urlset
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

FILES = {f"/files/{name}.txt": name for name in "abcde"}


def many(n):
    return {f"/files/{i:04}.txt": str(i) for i in range(n)}


@pytest.fixture(params=LAYOUTS, ids=lambda layout: layout.__name__)
def layout(request, site):
    return request.param(site)


@pytest.fixture
def sitemap(site):
    return Sitemap(site)


@pytest.fixture
def paged(site):
    return Paged(site)


def mirror_of(directory, site):
    """The files of the mirror, by the paths of the site."""
    top = directory / site.url.removeprefix("http://")
    return {
        "/" + str(path.relative_to(top)): path.read_text()
        for path in top.rglob("*")
        if path.is_file()
    }


def words(lines):
    """Lines of `tidings follow` as "KIND NAME", sorted: the order is the list's."""
    return sorted(
        f"{line.split()[2]} {line.rpartition('/')[2].removesuffix('.txt')}"
        for line in lines
    )


# for every layout a mirror becomes equal to the source, and an audit
# confirms that; then again, after files came, changed and went.
def test_a_list_is_mirrored_again_and_again(layout, site, run, tmp_path):
    mirror = tmp_path / "mirror"
    layout.publish(FILES)
    run("tidings", "sync", layout.url, mirror, "--until-caught-up")
    assert mirror_of(mirror, site) == FILES
    run("tidings", "audit", mirror)
    assert "\ncomplete as of 20" in run("tidings", "status", mirror).output()
    assert '"complete_as_of":"20' in run("tidings", "status", mirror, "--json").output()

    layout.publish({"/files/b.txt": "b", "/files/c.txt": "C", "/files/f.txt": "f"})
    assert run("tidings", "audit", mirror, status=1).out
    run("tidings", "sync", layout.url, mirror, "--until-caught-up")
    assert mirror_of(mirror, site) == layout.files
    run("tidings", "audit", mirror)


# the differences are handed over as changes, numbered, each once over ends and
# starts; those of a first list only from the start.
def test_differences_of_a_list_are_followed(layout, start, run, tmp_path):
    state = ("--state", tmp_path / "state")
    layout.publish(FILES)
    followed = run("tidings", "follow", layout.url, *state, "--until-caught-up")
    assert followed.out[:] == []
    layout.publish({"/files/b.txt": "b", "/files/c.txt": "C", "/files/f.txt": "f"})
    followed = start("tidings", "follow", layout.url, *state, "--poll", "0.1")
    expected = ["created f", "deleted a", "deleted d", "deleted e", "updated c"]
    followed.out.wait(5)
    assert words(followed.out) == expected
    assert [line.split()[0] for line in followed.out] == list("12345")
    layout.publish({"/files/b.txt": "B"})
    followed.out.wait(8)
    assert words(followed.out[5:]) == ["deleted c", "deleted f", "updated b"]
    followed.stop()
    followed = run("tidings", "follow", layout.url, *state, "--until-caught-up")
    assert followed.out[:] == []

    from_start = ("--from-start", "--until-caught-up")
    followed = run("tidings", "follow", layout.url, *from_start)
    assert words(followed.out) == ["created b"]
    followed = run(
        "tidings", "follow", layout.url, "--baseline", "first", "--until-caught-up"
    )
    assert [line.split()[2] for line in followed.out] == [
        "baseline-begin",
        "resource",
        "baseline-end",
    ]


def cut_xml(layout):
    """The list ends in the middle of an entry."""
    body = layout.site._page(layout.lists[-1]).body
    layout.site.put(layout.lists[-1], body[: body.rindex(b"<loc>") + 12])


def cut_connection(layout):
    body = layout.site._page(layout.lists[-1]).body
    layout.site.put(layout.lists[-1], body + b"<!-- another version -->")
    layout.site.cut(layout.lists[-1], 200, times=None)


def drop_part(layout):
    layout.site.delete(layout.lists[-1])


def break_part(layout):
    layout.site.status(layout.lists[-1], 500, "Retry-After: 3600")


def put_page(layout):
    layout.site.put(layout.lists[-1], "<html><body>Under construction</body></html>")


DAMAGES = [cut_xml, cut_connection, drop_part, break_part, put_page]


# if a list cannot be read to its end, the sync deletes no resource that is
# missing in it, nor those of an index's other parts; and it reports that to the user.
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_list_that_is_not_whole_deletes_nothing(
    damage, paged, site, run, start, tmp_path
):
    mirror = tmp_path / "mirror"
    follow = ("follow", paged.url, "--state", tmp_path / "state")
    paged.publish(FILES)
    run("tidings", "sync", paged.url, mirror, "--until-caught-up")
    run("tidings", *follow, "--until-caught-up")

    damage(paged)
    name = paged.lists[-1].rpartition("/")[2]
    if damage is not cut_connection:  # which is tried again for a minute
        for command in (("sync", paged.url, mirror), follow):
            failed = run("tidings", *command, "--until-caught-up", status=1)
            assert name in failed.errors()
            assert not failed.out[:]
        assert name in run("tidings", "audit", mirror, "--repair", status=1).errors()
    if damage is break_part:  # an hour is long
        site.status(paged.lists[-1], 500)
    for command in (("sync", paged.url, mirror, "--poll", "1"), follow):
        going_on = start("tidings", *command, "--verbose")
        going_on.err.find(lambda line: name in line)
        going_on.stop()
    assert mirror_of(mirror, site) == FILES

    followed = start("tidings", *follow, "--poll", "0.1", "--verbose")
    followed.err.find(lambda line: name in line)
    site.heal(paged.lists[-1])
    paged.publish({path: FILES[path] for path in FILES if path[7] in "abcd"})
    assert words([followed.out.wait(1)]) == ["deleted e"]
    followed.stop()


# a source that goes mad does not empty a mirror, nor what a follower has. What came
# is applied; --accept-deletions confirms as many as were told.
def test_too_many_deletions_of_a_list_are_held_back(sitemap, site, run, tmp_path):
    mirror = tmp_path / "mirror"
    sync = ("sync", sitemap.url, mirror, "--until-caught-up")
    follow = ("follow", sitemap.url, "--state", tmp_path / "state", "--until-caught-up")
    files = many(400)
    new = {"/files/new.txt": "new"}
    left = dict(list(files.items())[:300]) | new
    sitemap.publish(files)
    run("tidings", *sync)
    run("tidings", *follow)
    sitemap.publish(left)
    for consent in ((), ("--accept-deletions", "99")):
        for command in (sync, follow):
            held = run("tidings", *command, *consent, status=1)
            assert "held back: 100 of 400 resources would be deleted" in held.errors()
        assert mirror_of(mirror, site) == files | new
    held = run("tidings", "status", mirror).output()
    assert "held back: 100 of 400" in held
    assert "not known to be complete: 100 deletions are held back (since 20" in held
    run("tidings", *sync, "--accept-deletions", "100")
    assert mirror_of(mirror, site) == left
    assert "held back" not in run("tidings", "status", mirror).output()
    assert len(run("tidings", *follow, "--accept-deletions", "100").out) == 100


# 99 resources are never too many.
def test_a_small_list_may_lose_most(sitemap, site, run, tmp_path):
    mirror = tmp_path / "mirror"
    sync = ("sync", sitemap.url, mirror, "--until-caught-up")
    files = many(120)
    sitemap.publish(files)
    run("tidings", *sync)
    sitemap.publish(dict(list(files.items())[:21]))
    run("tidings", *sync)
    assert mirror_of(mirror, site) == sitemap.files


# RFC 9110 section 13: the server does not send an unchanged list again, nor an
# unchanged part of an index; the sync notices a change whatever versions the server
# states.
def test_lists_are_asked_for_by_their_versions(site, start, run, tmp_path):
    resync = Resync(site)
    resync.publish(FILES)
    state = ("--state", tmp_path / "state")
    run("tidings", "follow", resync.url, *state, "--until-caught-up")
    followed = start("tidings", "follow", resync.url, *state, "--poll", "0.1")
    first, second = resync.lists
    for path in (first, second):
        wait_for("a second look", lambda: len(site.asked(path)) > 2)
        statuses = [request.status for request in site.asked(path)]
        assert statuses[0] == 200 and set(statuses[1:-1]) == {304}
    resync.publish({**FILES, "/files/e.txt": "E"})
    assert words([followed.out.wait(1)]) == ["updated e"]
    site.does(None, etag=False)
    resync.publish({**FILES, "/files/e.txt": "EE"})
    assert words([followed.out.wait(2)]) == ["updated e"]
    followed.stop()


# A follower that is killed at any moment, between readings and in them, has each
# difference once and in the order of its positions.
def test_kills_lose_and_repeat_no_difference(paged, start, tmp_path):
    state = tmp_path / "state"
    files = many(50)
    seen = {}
    follow = ("follow", paged.url, "--state", state, "--poll", "0.1")

    def note(followed):
        for line in followed.out:
            if not line.endswith(".txt"):  # killed in the middle of a line
                continue
            number, _, kind, loc = line.split()
            assert seen.setdefault(int(number), (kind, loc)) == (kind, loc)

    paged.publish(files)
    run_once = start("tidings", *follow, "--from-start", "--count", "50")
    assert run_once.wait() == 0
    for round in range(soak(8, 100)):
        gone, changed = f"/files/{round:04}.txt", f"/files/{round + 20:04}.txt"
        files.pop(gone, None)
        files |= {changed: f"{round}", f"/files/new-{round}.txt": "new"}
        paged.publish(files)
        followed = start("tidings", *follow)
        followed.out.wait(1 + round % 3)
        followed.kill()
        note(followed)
    paged.publish({**files, "/files/last.txt": "last"})
    followed = start("tidings", *follow)
    followed.out.find(lambda line: line.endswith("/last.txt"))
    followed.stop()
    note(followed)
    numbers = sorted(seen)
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    now = {path: 1 for path in many(50)}
    for number in numbers:
        kind, loc = seen[number]
        path = loc.removeprefix(paged.site.url)
        assert (path in now) == (kind != "created")
        now.pop(path) if kind == "deleted" else now.update({path: 1})
    assert now.keys() == paged.files.keys()


# A mirror that is killed at any moment, while it reads the list, compares it or fetches
# files, becomes equal to the source.
def test_kills_do_no_harm_to_a_mirror(paged, site, start, run, tmp_path):
    mirror = tmp_path / "mirror"
    sync = ("sync", paged.url, mirror)
    files = many(60)
    for round in range(soak(10, 200)):
        files.pop(f"/files/{round:04}.txt", None)
        files |= {f"/files/{round + 30:04}.txt": f"{round}", f"/{round}.txt": "new"}
        paged.publish(files)
        asked = len(site.requests)
        syncing = start("tidings", *sync, "--poll", "1")
        site.requests.wait(asked + 1 + 7 * round % 50)
        syncing.kill()
    paged.publish({**files, "/last.txt": "last"})
    run("tidings", *sync, "--until-caught-up", "--max-delete", "none")
    assert mirror_of(mirror, site) == paged.files
    run("tidings", "audit", mirror)


# A Sitemap is a set with a list.
def test_a_sitemap_is_described(sitemap, run):
    sitemap.publish(FILES)
    said = run("tidings", "get", sitemap.url)
    assert [line.split() for line in said.out] == [
        ["set", sitemap.url],
        ["resourcelist", sitemap.url],
    ]


def add_set(resync):
    """The source has another set, with one resource."""
    site, names = resync.site, ("/resync/capabilitylist.xml", "/other/caps.xml")
    entry = '<url><loc>{}</loc><rs:md capability="{}"/></url>'.format
    md = '<rs:md capability="{}"/>'.format
    caps = [entry(site.link(name), "capabilitylist") for name in names]
    site.put(resync.start, urlset(caps, md("description")), "application/xml")
    up = f'<rs:ln rel="up" href="{resync.url}"/>'
    listed = entry(site.link("/other/list.xml"), "resourcelist")
    site.put("/other/caps.xml", urlset([listed], up + md("capabilitylist")))
    other = f"<url><loc>{site.link('/other/one.txt')}</loc></url>"
    site.put("/other/list.xml", urlset([other], md("resourcelist")))


# The state becomes a database while the only set of the source is followed; that set
# goes on from its list.
def test_a_list_is_kept_when_the_source_gets_another_set(site, start, run, tmp_path):
    resync = Resync(site)
    resync.publish(FILES)
    follow = ("follow", resync.url, "--state", tmp_path / "state", "--poll", "0.1")
    followed = start("tidings", *follow, "--from-start")
    followed.out.wait(len(FILES))
    add_set(resync)
    followed.out.wait(len(FILES) + 1)
    followed.stop()
    resync.publish({**FILES, "/files/e.txt": "E"})
    add_set(resync)
    for told in (["updated e"], []):
        done = run("tidings", *follow, "--until-caught-up")
        assert words(done.out) == told
        assert done.errors() == ""


# A position without its list is no place to go on from.
def test_what_is_not_kept_is_told(sitemap, run, tmp_path):
    state = tmp_path / "state"
    follow = ("follow", sitemap.url, "--until-caught-up")
    sitemap.publish(FILES)
    run("tidings", *follow, "--state", state)
    (tmp_path / "state.list").unlink()
    gone = run("tidings", *follow, "--state", state, status=3)
    assert "is not kept" in gone.errors()
    done = run("tidings", *follow, "--state", state, "--baseline", "gone")
    assert len(done.out) == 2 + len(FILES)
    gone = run("tidings", *follow, "--since", "2026-01-01", status=3)
    assert "only a list of its resources" in gone.errors()
    other = run(
        "tidings",
        "follow",
        sitemap.url + "?",
        "--state",
        state,
        "--until-caught-up",
        status=2,
    )
    assert "the last list of another source" in other.errors()


# 200,000 resources within 200 MB of memory, of which the list is no part.
def test_a_long_list_takes_little_memory(paged, site, start, tmp_path):
    n = soak(20000, 200000)
    size = n // 4

    def publish(lastmod):
        links = []
        for page in range(4):
            path = f"/sitemap?map={page}"
            entries = (
                f"<url><loc>{site.link(f'/items/{i:06}/and-what-a-title-says.html')}"
                f"</loc><lastmod>{lastmod}</lastmod></url>\n"
                for i in range(page * size, (page + 1) * size)
            )
            site.put(path, urlset(entries))
            links.append(site.link(path))
        site.put("/sitemap", sitemapindex(links), "application/xml")

    publish("2026-01-01")
    state = ("--state", tmp_path / "state", "--poll", "0.1")
    followed = start("tidings", "follow", paged.url, "--from-start", *state)
    followed.out.wait(n)
    publish("2026-01-02")
    assert followed.out.wait(2 * n).split()[0] == str(2 * n)
    if not is_sanitized():
        assert followed.memory_kib("VmHWM") < soak(60, 200) * 1024
    followed.stop()
