"""Two brokers, chained: the changes of a set of one are taken in by a set of the
other, through an external hub and an upstream topic."""

import collections
import contextlib
import sqlite3

import pytest

from tidings_test import hub
from tidings_test.http import JSON
from tidings_test.sets import entries
from tidings_test.waiting import wait_for

Chain = collections.namedtuple("Chain", "up down news mirror")


@pytest.fixture
def chain(start_broker):
    """`up` publishes to `down`: a post to `news` arrives in `mirror`."""
    retries = ("--hub-retry-first", "0.02", "--hub-retry-max", "0.2")
    up = start_broker(*retries, *hub.LOOPBACK)
    down = start_broker(*hub.LOOPBACK)
    news = up.set("news")
    mirror = down.set("mirror").create(upstream_topic=news.topic)
    news.create(hubs=[hub.url(down)])
    # Where it begins is kept then.
    wait_for("the hub of the set", lambda: has_hub(news))
    return Chain(up, down, news, mirror)


def has_hub(news):
    return any(one["kind"] == "hub" for one in hub.subscriptions(news))


def check_mirrors(mirror, n):
    """The mirror has the entries 1 to `n` of post(), each once, in order."""
    wait_for(f"{n} entries", lambda: mirror.last() >= n)
    found = []
    while len(found) < n:
        page = mirror.page(f"after={len(found)}", accept=JSON).entries
        assert page
        found += [entry.loc for entry in page]
    assert found == [entry["loc"] for entry in entries(n)]
    assert mirror.last() == n


# R-293, W-013, W-142
def test_every_change_arrives_once(chain):
    for _ in range(50):
        chain.news.post(3)
    check_mirrors(chain.mirror, 150)


# R-293, W-142
@pytest.mark.parametrize("killed", ["up", "down"])
def test_every_change_arrives_once_though_one_is_killed(chain, killed):
    victim = getattr(chain, killed)
    for _ in range(4):
        for _ in range(20):
            chain.news.post()
        victim.kill()
        if victim is chain.down:
            for _ in range(5):
                chain.news.post()
        victim.restart()
    chain.news.post()
    check_mirrors(chain.mirror, chain.news.posted)


# W-001, W-013: a discovery of the topic finds both hubs.
def test_the_topic_names_both_hubs(chain):
    answer = chain.up.head(f"{chain.news.path}/notifications")
    assert answer.status == 200
    for broker in (chain.up, chain.down):
        assert f'<{hub.url(broker)}>; rel="hub"' in answer["Link"]
    capabilities = chain.news.get("capabilitylist.xml").document()
    named = f'<rs:ln rel="hub" href="{hub.url(chain.down)}"/>'
    assert named.encode() in capabilities.bytes


# The longest ones that a set can have.
def test_all_hubs_of_a_set_fit_into_the_header(chain):
    hubs = [f"http://127.0.0.1:1/{i}/{0:0491}" for i in range(8)]
    assert len(hubs[0]) == 512
    assert chain.news.put(hubs=hubs).status == 200
    answer = chain.up.head(f"{chain.news.path}/notifications")
    assert answer.status == 200
    links = ", ".join(answer.all("Link"))
    for url in hubs:
        assert f'<{url}>; rel="hub"' in links
    assert 'rel="self"' in links


# A hub that is taken off the settings hears no more.
def test_a_hub_that_is_not_named_any_more_is_told_nothing(chain, callbacks):
    fence = callbacks.join(chain.news)
    chain.news.post()
    check_mirrors(chain.mirror, 1)
    assert chain.news.put().status == 200
    # Its subscription ends when the hub's thread has heard of it.
    wait_for("the end of the hub's subscription", lambda: not has_hub(chain.news))
    hub.fence(chain.news, fence)
    assert chain.mirror.last() == 1


NOTICE = (
    '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" '
    'xmlns:rs="http://www.openarchives.org/rs/terms/">'
    '<rs:md capability="change-notification"/>'
    "<url><loc>http://example.com/r/1</loc>"
    '<rs:md change="created"/></url></urlset>'
)


# The settings of a second set name the topic, too, as by a restored database.
def test_a_topic_of_two_sets_goes_to_the_first(chain):
    down = chain.down
    down.set("second").create()
    down.stop()
    with contextlib.closing(sqlite3.connect(down.data / "tidings.db")) as db, db:
        db.execute(
            "UPDATE sets SET settings ="
            " (SELECT settings FROM sets WHERE name = 'mirror') WHERE name = 'second'"
        )
    down.restart()
    down.wait_said("the set second gets no changes of its topic")
    chain.news.post(3)
    check_mirrors(chain.mirror, 3)
    assert down.set("second").last() == 0


# W-123: a Source that only pings.
def test_a_ping_makes_the_taker_fetch(chain, site):
    site.put("/topic", NOTICE, "application/xml")
    topic = site.link("/topic")
    assert chain.mirror.put(upstream_topic=topic).status == 200
    for _ in range(3):
        ping = {"hub.mode": "publish", "hub.url": topic}
        assert hub.send(chain.down, ping).status == 204
    check_mirrors(chain.mirror, 1)
