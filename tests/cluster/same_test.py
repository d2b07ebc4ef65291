"""Posts at any broker of a cluster have one order, and every document of every broker
has the same bytes."""

import random
import re

from tidings_test.cluster import served, wait_same_documents
from tidings_test.http import JSON
from tidings_test.sets import Set, change
from tidings_test.soak import choices, soak
from tidings_test.storm import Storm
from tidings_test.waiting import wait_for

SETS = soak(12, 40)
ENTRIES = soak(6000, 100000)
POST_MAX = soak(60, 100)
THREADS = 4
KILLS = soak(3, 30)

OPTIONS = ("--rotate-entries", 150, "--index-lists", 5, "--remove-grace", 0)
OPTIONS += ("--resource-list-every", 1, "--resource-list-entries", 100)


def act(one, chosen, name):
    """One request: a post most of the time. How many entries it made."""
    what = chosen.randrange(100)
    if what < 5:
        assert one.broker.post(f"{one.path}/rotate").status in (200, 404, 409, 410)
    elif what < 9:
        answer = one.put(rotate_entries=chosen.randint(50, 200))
        assert answer.status in (200, 201, 204), answer
    elif what < 11:
        assert one.delete().status in (204, 404, 410)
    else:
        n = chosen.randint(1, POST_MAX)
        body = [change(f"http://example.com/{name}/{i}") for i in range(n)]
        one.receipt(one.send(body, JSON))
        return n
    return 0


def post_at_random(cluster, seed):
    """Make a thread's part of the entries, each request at any broker."""
    chosen = random.Random(seed)
    clients = [member.client_in_front() for member in cluster.members]
    entries = requests = 0
    while entries < ENTRIES // THREADS:
        requests += 1
        one = Set(chosen.choice(clients), f"s{chosen.randrange(SETS)}")
        entries += act(one, chosen, f"{seed}/{requests}")
    for client in clients:
        client.disconnect()


def order_lists(cluster, chosen):
    """Have a Resource List of each set built, ordered at any broker."""
    for n in range(SETS):
        one = chosen.choice(cluster.members).set(f"s{n}")
        answer = one.broker.post(f"{one.path}/resourcelist")
        assert answer.status in (200, 202, 404, 410), answer


def test_all_documents_are_the_same_at_all_brokers(start_cluster, run, background):
    cluster = start_cluster(*OPTIONS)
    chosen = choices()
    posting = [
        background(post_at_random, cluster, chosen.random()) for _ in range(THREADS)
    ]
    for thread in posting:
        thread.join()
    cluster.wait_same()
    order_lists(cluster, chosen)
    wait_same_documents(cluster)
    found = served(cluster.members[0])
    assert len(found) > 4 * SETS
    assert sum("/changes/" in path for path, _ in found) > ENTRIES // 200
    parts = [path for path, _ in found if re.search(r"/resourcelist/\d+/\d+", path)]
    assert len(parts) > ENTRIES // 200
    assert any("/resourcelist-archive.xml" in path for path, _ in found)
    names = [set["name"] for set in cluster.members[0].get("/sets").json()["sets"]]
    assert len(names) > SETS / 2
    for member in cluster.members:
        cluster.balancer.point(member.port)
        for name in names:
            done = run("tidings", "verify", f"{cluster.balancer.url}/sets/{name}")
            assert "proven from the beginning" in done.output()


def test_a_reader_has_what_the_members_have_and_adds_nothing(start_cluster):
    cluster = start_cluster(*OPTIONS)
    reader = cluster.add_reader("r")
    storm = Storm(cluster, "news", choices())
    storm.wait_answers(20)
    reader.cut_off()
    storm.wait_answers(20)
    reader.reconnect()
    storm.wait_answers(20)
    cluster.trio.lose_primary()
    cluster.trio.promote()
    storm.wait_answers(20)
    cluster.trio.repair()
    history = storm.end()
    news = reader.set("news")
    news.wait_last(history.last)
    news.changelists().read().history.check_same(history)
    wait_same_documents(cluster)
    assert cluster.query("SELECT FROM tidings_records WHERE broker = 'r'") == []
    assert cluster.query("SELECT FROM tidings_leases WHERE broker = 'r'") == []


def archived(news):
    """The archive of a set's Resource Lists, and the lists that it names."""
    archive = news.get("resourcelist-archive.xml")
    paths = re.findall(r"<loc>[^<]*/sets/news/([^<]*)</loc>", archive.text)
    return [archive.body, *(news.get(path).body for path in paths)]


# They have the lists that they were building, and those that others archived meanwhile.
def test_killed_brokers_have_all_archived_lists(start_cluster):
    cluster = start_cluster("--resource-list-every", 1, "--resource-list-keep", 1)
    chosen = choices()
    storm = Storm(cluster, "news", chosen)
    for _ in range(KILLS):
        killed, other, _ = chosen.sample(cluster.members, 3)
        killed.kill()
        storm.wait_answers(20)
        other.set("news").build("resourcelist")
        killed.disconnect()
        killed.restart()
        storm.wait_answers(20)
    storm.end()

    def look():
        first, *others = [archived(news) for news in cluster.sets("news")]
        return all(other == first for other in others) and len(first)

    assert wait_for("the same archives", look) > KILLS
