"""The owner of the hub or of the bridges is killed, or stands still, and another broker
takes over: callbacks, subscribers of a relay and an MQTT broker get everything in
order, and twice only what was under way at a takeover."""

import itertools
import json
import re
import signal

from tidings_test import hub, mqtt
from tidings_test.broker import BIN
from tidings_test.documents import Document
from tidings_test.failover import FOLLOWERS
from tidings_test.feed import Feed
from tidings_test.harms import restart_with_clock
from tidings_test.history import History
from tidings_test.sets import Set, change
from tidings_test.soak import choices, soak
from tidings_test.storm import Storm
from tidings_test.waiting import wait_for



def post(member):
    return Set(member, "news").send(change("http://example.com/"))


CALLBACKS = soak(20, 500)
TAKEOVERS = soak(3, 15)
ANSWERS_MAX = soak(20, 100)  # before a takeover


def names(said, lease, term):
    """A line of the log names that lease and its term."""
    return f"{lease}:{term}" in re.split(r'[ ="]', said)


def wait_at_work(cluster, lease):
    """Wait for an owner that works under its lease; the owner, and the term. A broker
    that does not know whether PostgreSQL gave it the lease does not work: after 10 s
    there is another term."""

    def look():
        owner, term = cluster.owner(lease), cluster.term(lease)
        return any(
            'msg="this broker owns"' in said and names(said, lease, term)
            for said in owner.process.err
        ) and (owner, term)

    return wait_for(f"an owner of {lease} at work", look)


def kill(member, lease, term):
    member.kill()
    yield
    member.disconnect()
    member.restart()


def stop(member, lease, term):
    """It does not know that it is no owner any more, and learns it when it goes on."""
    member.process.halt()
    member.front.go_down()
    yield
    member.process.go_on()
    member.front.listen()
    member.process.err.find(
        lambda said: 'msg="this broker no longer owns"' in said
        and names(said, lease, term),
        f"the end of {lease}:{term}",
    )


def take_over(cluster, lease, harm):
    """Harm an owner at work, and yield it when there is another one; repair it then."""
    owner, term = wait_at_work(cluster, lease)
    repairing = harm(owner, lease, term)
    next(repairing)
    cluster.end_leases(owner)
    wait_for("another owner", lambda: cluster.owner(lease) is not owner)
    yield owner
    next(repairing, None)


def takeovers(cluster, lease):
    """So many, by turns of both kinds."""
    for harm in itertools.islice(itertools.cycle((kill, stop)), TAKEOVERS):
        yield take_over(cluster, lease, harm)


def check_repeats(cluster, callback, number):
    """Each next owner of the subscription's part repeated what was under way at most."""
    assert callback.repeats < cluster.term(f"hub/{number % 16}")


def check_deliveries(callback, history, known):
    """It has every entry up to the end. `known`: what was delivered to others."""
    assert callback.holes == 0 and not callback.faults
    after = callback.accepted[0].after
    for delivery in callback.accepted:
        assert delivery.after == after
        after = delivery.last
        body = known.setdefault((delivery.after, delivery.last), delivery.body)
        assert delivery.body == body
    assert after == history.last


def check_bodies(known, history):
    for body in known.values():
        document = Document(body)
        delivered = History(document.after)
        delivered.add_delivery(document)
        for seq in range(document.after + 1, document.last + 1):
            assert delivered[seq].loc == history[seq].loc
            assert delivered[seq].datetime == history[seq].datetime


def test_callbacks_get_every_change_in_order(start_cluster, callbacks):
    chosen = choices()
    cluster = start_cluster("--rotate-entries", 500, *hub.QUICK)
    # Each callback gets all entries: few, lest the test keep gigabytes.
    storm = Storm(cluster, "news", chosen, publishers=2, post_max=3)
    joined = [callbacks.add() for _ in range(CALLBACKS)]
    for callback in joined:
        hub.subscribe_sometime(Set(chosen.choice(cluster.members), "news"), callback)
    for callback in joined:
        hub.wait_active(Set(chosen.choice(cluster.members), "news"), callback)
    for takeover in takeovers(cluster, "hub/0"):
        storm.wait_answers(chosen.randint(1, ANSWERS_MAX))
        next(takeover)
        storm.wait_answers(10)
        next(takeover, None)
    storm.wait_answers(10)
    history = storm.end()
    known = {}
    news = Set(cluster.members[0], "news")
    for callback in joined:
        callback.wait_last(history.last)
        check_deliveries(callback, history, known)
        check_repeats(cluster, callback, hub.find(news, callback)["id"])
    check_bodies(known, history)


def accept(feed, member, document):
    """Post it to that broker until the hub has it: a Source repeats what was not
    answered."""
    feed.broker = member

    def look():
        answer = feed.post(document)
        assert answer.status in (200, 503), answer
        return answer.status == 200

    wait_for(f"{document} to be accepted", look)


def test_a_relay_delivers_every_document_in_order(start_cluster, site, callbacks):
    chosen = choices()
    cluster = start_cluster(*hub.QUICK, *hub.LOOPBACK, "--relay-documents", "10000")
    feed = Feed(cluster.members[0], site, callbacks).register()
    joined = [feed.join() for _ in range(5)]
    documents = [f"document {n}" for n in range(TAKEOVERS * 12)]
    posted = iter(documents)

    def post(n, members):
        for document in itertools.islice(posted, n):
            accept(feed, chosen.choice(members), document)

    for takeover in takeovers(cluster, "hub/0"):
        post(4, cluster.members)
        owner = next(takeover)
        post(4, cluster.others(owner))
        next(takeover, None)
        post(4, cluster.members)
    for callback in joined:
        callback.accepted.wait(len(documents))
        delivered = [delivery.body.decode() for delivery in callback.accepted]
        assert delivered == documents
        check_repeats(cluster, callback, 0)  # all relays are of part 0


def first_of(locs):
    """Each once, where it came first."""
    return list(dict.fromkeys(locs))


# The session at the MQTT broker is the cluster's, with all that came for it
# while nobody owned the bridge.
def test_a_bridge_loses_no_message_either_way(
    start_cluster, start_mosquitto, tmp_path
):
    chosen = choices()
    mosquitto = start_mosquitto()
    config = tmp_path / "bridges.ini"
    lines = ("out = news", "begin = start", "in = feed -> feed", mqtt.QUICK)
    config.write_text(mqtt.bridge_config(mosquitto, *lines))
    hearer = mosquitto.hear("a/news/notifications")
    reader = mqtt.Reader(hearer, "a/news/notifications")
    cluster = start_cluster("--rotate-entries", 500, "--config", config)
    mosquitto.wait_subscription("feed")
    teller = mosquitto.tell()
    storm = Storm(cluster, "news", chosen, publishers=2)
    said = []

    def say(n):
        for _ in range(n):
            said.append(f"http://example.com/said/{len(said)}")
            teller.say("feed", json.dumps(change(said[-1])))

    for takeover in takeovers(cluster, "bridges/a"):
        say(10)
        storm.wait_answers(chosen.randint(1, ANSWERS_MAX))
        say(10)
        next(takeover)
        say(10)
        storm.wait_answers(10)
        next(takeover, None)
    storm.wait_answers(10)
    history = storm.end()
    reader.until(history.last)
    reader.history.check_same(history)
    for member in cluster.members:
        feed = Set(member, "feed")

        def heard():
            if not feed.state():
                return []
            return first_of(feed.changelists().read().history.locs())

        wait_for(f"all messages at {member}", lambda: len(heard()) == len(said))
        assert heard() == said


N_BRIDGES = 8


# Each bridge has a lease, and each broker its share of them. What moves in
# order is not repeated.
def test_brokers_share_the_bridges(start_cluster, start_mosquitto, tmp_path):
    chosen = choices()
    mosquitto = start_mosquitto()
    names = [f"w{n}" for n in range(N_BRIDGES)]
    config = tmp_path / "bridges.ini"

    def write_config(names):
        lines = []
        for name in names:
            lines += (f"[mqtt {name}]", f"prefix = {name}", "out = news", mqtt.QUICK)
        config.write_text(mqtt.bridge_config(mosquitto, *lines))

    write_config(names)
    topics = [f"{name}/news/notifications" for name in names]
    cluster = start_cluster("--rotate-entries", 500, "--config", config)
    a, b, c = cluster.members

    def leases(work="bridges"):
        rows = cluster.query(
            "SELECT broker || ' ' || name FROM tidings_leases"
            f" WHERE name LIKE '{work}/%' AND until > clock_timestamp()"
        )
        return [row.split(f" {work}/") for row in rows]

    def wait_shares(*shares):
        def look():
            owners = [owner for owner, _ in leases()]
            owners_of_hub = [owner for owner, _ in leases("hub")]
            found = tuple(owners.count(one.name) for one in cluster.members)
            return found == shares and all(
                one.metrics()["tidings_cluster_leases"]
                == share + sum(owner == one.name for owner in owners_of_hub)
                for one, share in zip(cluster.members, shares)
                if share > 0
            )

        wait_for(f"the shares {shares}", look)

    wait_shares(3, 3, 2)
    readers = [mqtt.Reader(mosquitto.hear(topic), topic) for topic in topics]
    storm = Storm(cluster, "news", chosen, publishers=2, post_max=3)

    def post_more():
        storm.wait_answers(20)

    post_more()
    a.stop()
    wait_shares(0, 4, 4)
    post_more()
    a.restart()
    wait_shares(3, 3, 2)
    post_more()
    begun = [name for owner, name in leases() if owner == b.name]
    b.kill()
    wait_shares(4, 0, 4)
    post_more()
    b.disconnect()
    b.restart()
    wait_shares(3, 3, 2)
    post_more()
    # A reload: one is gone, and the shares are those of seven; and it returns.
    for former, shares in ((names[:-1], (3, 2, 2)), (names, (3, 3, 2))):
        write_config(former)
        for member in cluster.members:
            member.process.signal(signal.SIGHUP)
        wait_shares(*shares)
        post_more()
    history = storm.end()
    for name, reader in zip(names, readers):
        reader.until(history.last)
        reader.history.check_same(history)
        assert reader.repeats == 0 or name in begun


# A harvest reads and posts through the balancer.
def test_a_harvest_goes_on_at_another_broker(start_cluster, start, tmp_path):
    chosen = choices()
    cluster = start_cluster("--rotate-entries", 500)
    balancer = cluster.balancer
    balancer.point(cluster.members[0].port)
    storm = Storm(cluster, "news", chosen, publishers=2)
    urls = (f"{balancer.url}/sets/news", f"{balancer.url}/sets/copy")
    harvest = start("tidings", "harvest", *urls, "--state", tmp_path / "state")
    for n in range(TAKEOVERS):
        storm.wait_answers(chosen.randint(1, ANSWERS_MAX))
        former, later = (cluster.members[(n + i) % 3] for i in range(2))
        former.kill()
        balancer.point(later.port)
        storm.wait_answers(10)
        former.disconnect()
        former.restart()
    history = storm.end()
    for member in cluster.members:
        copy = Set(member, "copy")
        wait_for(f"all changes at {member}", lambda: copy.last() >= history.last)
        assert copy.changelists().read().history.locs() == history.locs()
    harvest.stop()


def test_an_outbox_is_drained_once_whoever_dies(start_cluster, start_postgresql, run):
    shop = start_postgresql()
    address = f"{shop.address} dbname=postgres"
    run(BIN / "tidingsd", "postgresql", "init", "--postgresql", address)
    cluster = start_cluster("--postgresql", address)
    n = 0
    for member in cluster.members:
        other = Set(next(m for m in cluster.members if m is not member), "pages")
        for _ in range(soak(20, 200)):
            n += 1
            entry = f'{{"loc":"http://example.com/r/{n}","change":"created"}}'
            shop.query(f"SELECT tidings_publish('pages', '{entry}')")
        member.kill()
        shop.query("UPDATE tidings_outbox_sets SET at = at - interval '1 hour'")
        wait_for("an empty outbox", lambda: shop.query("SELECT FROM tidings_outbox") == [])
        member.disconnect()
        member.restart()
        other.wait_last(n)
    found = [entry["loc"] for entry in other.get("changes?after=0").json()["changes"]]
    assert found == [f"http://example.com/r/{i}" for i in range(1, n + 1)]


# A lease ends by the clock of the broker that asks for it. The new primary
# says for an hour that the former owner still has it. The times of such a server would be
# kept for ever, so there are no posts.
def test_a_new_primary_an_hour_behind_has_an_owner_and_no_posts(start_cluster, trio):
    cluster = start_cluster()
    owner, term = wait_at_work(cluster, "hub/0")
    other = cluster.others(owner)[0]
    name = trio.standbys[0]
    restart_with_clock(trio, name, -3600)
    wait_for("two standbys", lambda: trio.query(FOLLOWERS) == ["2"])
    owner.kill()
    trio.lose_primary()
    trio.promote(name)
    wait_for("another owner", lambda: cluster.term("hub/0") > term)
    wait_at_work(cluster, "hub/0")
    answer = wait_for(
        "a refusal", lambda: "clock" in (told := post(other)).text and told
    )
    way = other.ways[name]
    assert answer.status == 503
    # A slow answer of the server looks like a clock that is some milliseconds ahead.
    said = rf"its server 127\.0\.0\.1:{way.port} is -3(600|599)\.\d+ s"
    assert re.search(said, answer.json()["detail"])
    assert other.get("/readyz").status == 503
    assert other.get("/readyz?for=reads").status == 200
    offset = other.metrics()["tidings_cluster_clock_offset_seconds"]
    assert 3590 < offset < 3610
    restart_with_clock(trio, name, 0)
    trio.repair()
    wait_for("a post", lambda: post(other).status == 200)
