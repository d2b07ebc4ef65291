"""Sources without a history, which have a list of their resources alone: followed,
mirrored and audited by reading that again and again (tidings_test/layouts.py)."""

import signal

import pytest

from tidings_test.broker import is_sanitized
from tidings_test.layouts import LAYOUTS, Paged, Resync, Sitemap, urlset
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
    """What is there, by the paths of the site."""
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


# whatever the layout, a mirror becomes what the source is, and an audit
# finds it so; then again, when files came, changed and went.
def test_a_list_is_mirrored_again_and_again(layout, site, run, tmp_path):
    mirror = tmp_path / "mirror"
    layout.publish(FILES)
    run("tidings", "sync", layout.url, mirror, "--until-caught-up")
    assert mirror_of(mirror, site) == FILES
    run("tidings", "audit", mirror)

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
