"""A broker of two sets with all that a set can have: so much of everything that it has
an index and an archive, and so many archives that they have indexes.

    broker = start_broker(*OPTIONS)
    fill(broker)
"""

from tidings_test.content import multipart
from tidings_test.sets import change
from tidings_test.waiting import wait_for

RESOURCES = 7
ALL = [
    *("capabilitylist", "changelist", "resourcelist", "resourcedump", "changedump"),
    *("changelist-archive", "resourcelist-archive"),
    *("resourcedump-archive", "changedump-archive"),
]
OPTIONS = [
    *("--content", "inline", "--index-lists", 2, "--resource-list-entries", 3),
    *("--resource-list-keep", 1, "--resource-dump-keep", 1),
]


def post_round(news, number):
    """Post a change of each resource with its bytes, and build what can be built."""
    kind = "updated" if number else "created"
    locs = [f"http://example.com/{i}" for i in range(RESOURCES)]
    changes = [change(loc, kind) for loc in locs]
    parts = [(loc, "text/plain", b"%d of %a" % (number, loc)) for loc in locs]
    news.receipt(news.send(*multipart(changes, parts)))
    news.rotate()
    news.build("resourcelist")
    news.build("resourcedump")


def fill(broker):
    """Make its two sets, "alpha" and "beta"."""
    for news in (broker.set("alpha"), broker.set("beta")):
        for number in range(4):
            post_round(news, number)
        last = "changedump/000000000004.xml"  # built after the lists
        wait_for("the Change Dumps", lambda: news.get(last).status == 200)
