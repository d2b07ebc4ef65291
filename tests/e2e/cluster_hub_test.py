"""The hub and the bridges of a cluster: requests at any broker, deliveries by one, which
may die, stand still, or lose the journal. Every change comes in order, without a hole,
and a repeated delivery is the same byte for byte (callbacks.py checks that). Many
takeovers: cluster/takeover."""

import contextlib
import json
import sqlite3

import pytest

from tidings_test import hub, mqtt
from tidings_test.cluster import DISK, NAMES, Leases
from tidings_test.postgresql import Postgresql
from tidings_test.sets import Set, change
from tidings_test.waiting import wait_for

PUBLIC = "http://127.0.0.1:8787"


class Cluster(Leases):
    """Brokers of one database."""

    def __init__(self, start_broker, run, path, *more):
        self.server = Postgresql(syncs=True)
        self.address = f"host={self.server.directory} user=postgres dbname=postgres"
        here = ("--cluster", self.address, *DISK, "--public-url", PUBLIC)
        run("tidingsd", "cluster", "init", "--data", path / "a" / "data", *here)
        options = (*here, *hub.QUICK, *more)
        self.members = []
        for name in NAMES:
            given = (*options, "--cluster-name", name)
            self.members.append(start_broker(*given, directory=path / name))
            self.members[-1].name = name

    def query(self, text):
        return self.server.query(text)

    def set(self, broker, name="news"):
        """The set at that broker, with the topic that all have."""
        one = Set(broker, name)
        one.topic = f"{PUBLIC}{one.path}/notifications"
        return one

    def end(self):
        for broker in self.members:
            if broker.is_running:
                broker.stop()
        self.server.end()


@pytest.fixture
def cluster(start_broker, run, tmp_path):
    started = Cluster(start_broker, run, tmp_path)
    yield started
    started.end()


@pytest.fixture
def bridged(start_broker, run, start_mosquitto, tmp_path):
    """A cluster with a bridge, and its MQTT broker."""
    mosquitto = start_mosquitto()
    config = tmp_path / "bridges.ini"
    lines = ("out = news", "in = feed -> feed", mqtt.QUICK)
    config.write_text(mqtt.bridge_config(mosquitto, *lines))
    started = Cluster(start_broker, run, tmp_path, "--config", config)
    yield started, mosquitto
    started.end()


def wait_known(one):
    wait_for(f"{one} at {one.broker}", lambda: one.broker.get(one.path).status == 200)


def test_any_broker_takes_requests_and_delivers_its_share(cluster, callbacks):
    cluster.wait_shares()
    sets = [cluster.set(broker) for broker in cluster.members]
    sets[0].create()
    joined = []
    for one in sets:
        wait_known(one)
        joined.append(callbacks.add())
        hub.join(one, joined[-1])
    for one in sets:
        listed = hub.subscriptions(one)
        assert [s["state"] for s in listed] == ["active"] * 3
    for one in sets * 2:
        one.post(2)
    for callback in joined:
        callback.wait_last(12)
        assert callback.holes == callback.repeats == 0
    numbers = [hub.find(sets[0], callback)["id"] for callback in joined]

    # W-109: one set of keys, which any broker shows and renews.
    assert cluster.members[0].operator.post("/hub/keys").status == 200
    keys = [broker.get("/hub/keys").json()["keys"] for broker in cluster.members]
    assert keys[0] == keys[1] == keys[2] and len(keys[0]) == 2

    owner = cluster.owner_of(numbers[1])
    other = cluster.set(cluster.others(owner)[0])
    answer = hub.subscribe(other, "nonsense")
    hub.check_refused(answer, 400, "hub.callback")
    assert other.get("subscriptions/99").status == 404
    # The owner makes the attempts, and keeps them, whoever is asked.
    path = f"{other.path}/subscriptions/{numbers[1]}"
    first = joined[1].deliveries[0]
    for action in ("test", f"attempts?delivery={first.id}"):
        made = other.broker.post(f"{path}/{action}")
        assert (made.status, made.json()["outcome"]) == (200, "delivered"), made
    made = other.broker.get(f"{path}/attempts").json()
    assert [one["kind"] for one in made["attempts"][:3]] == ["again", "test", "delivery"]
    assert owner.get(f"{path}/attempts").json() == made
    joined[1].faults.clear()  # a callback takes a repeat for a fault
    assert other.broker.delete(f"{other.path}/subscriptions/{numbers[0]}").status == 204
    joined[0].denials.wait(1)
    hub.wait_count(sets[0], 2)


def deliver_two(cluster, callbacks):
    """A callback that has two changes, the broker that delivers to it, and the set
    there."""
    cluster.wait_shares()
    first = cluster.set(cluster.members[0]).create()
    callback = callbacks.add()
    hub.join(first, callback)
    owner = cluster.owner_of(hub.find(first, callback)["id"])
    one = cluster.set(owner)
    wait_known(one)
    one.post(2)
    callback.wait_last(2)
    return owner, one, callback


# `cluster mend`: the first owner brings the rows of its copy. In a new epoch what comes again
# would have another id; all brokers have ended, so the log may go on as the same one.
def test_the_hub_goes_on_when_the_journal_begins_again(cluster, run, callbacks):
    owner, one, callback = deliver_two(cluster, callbacks)
    for broker in cluster.members:
        broker.stop()
    cluster.server.query("CREATE DATABASE again")
    again = cluster.address.replace("dbname=postgres", "dbname=again")
    owner.options[owner.options.index(cluster.address)] = again
    where = ("--data", owner.data, "--cluster", again, *DISK)
    run("tidingsd", "cluster", "mend", *where, "--public-url", PUBLIC, "--same-log")
    owner.restart()
    wait_for("a turn of the log", lambda: one.send(change("http://e.org/")).status == 200)
    callback.wait_last(3)
    hub.join(one, callbacks.add())
    # The owner may have ended before it knew the answer to the last delivery.
    assert callback.holes == 0
    owner.stop()
    assert owner.has_said("this broker owns")


# The streams of the hub may have lost rows, too: they begin again with those of a copy.
def test_the_hub_goes_on_when_the_journal_gets_records_back(cluster, run, callbacks):
    owner, one, callback = deliver_two(cluster, callbacks)
    for broker in [*cluster.others(owner), owner]:
        broker.stop()
    cluster.query(
        "DELETE FROM tidings_records WHERE n = (SELECT max(n) FROM tidings_records);"
        "DELETE FROM tidings_rows; UPDATE tidings_streams SET n = 1"
    )
    where = ("--data", owner.data, "--cluster", cluster.address, *DISK)
    run("tidingsd", "cluster", "mend", *where, "--public-url", PUBLIC)
    owner.restart()
    assert cluster.owner() is owner
    for broker in cluster.others(owner):
        broker.restart()
    one.post(1)
    callback.wait_last(3)
    assert callback.holes == 0
    other = cluster.set(cluster.others(owner)[0])
    assert [s["state"] for s in hub.subscriptions(other)] == ["active"]


# A reader delivers nothing, and its backup has all that a new broker needs.
def test_a_reader_follows_the_hub_and_never_owns_it(
    cluster, start_broker, callbacks, tmp_path
):
    owner = cluster.owner()
    one = cluster.set(owner).create()
    hub.join(one, callbacks.add())
    options = owner.options[: owner.options.index("--cluster-name")]
    name = ("--cluster-name", "r", "--cluster-read-only")
    reader = start_broker(*options, *name, directory=tmp_path / "r")

    def look():
        with sqlite3.connect(f"file:{reader.data}/hub.db?mode=ro", uri=True) as db:
            return db.execute("SELECT count(*) FROM subscriptions").fetchone() == (1,)

    wait_for("the subscription at the reader", look)
    for broker in cluster.members:
        broker.stop()
    cluster.members[0].restart()
    assert cluster.owner() is cluster.members[0]
    assert not reader.has_said("this broker owns")


# Its rows are not those of the cluster, and would be mixed with them.
def test_a_broker_with_subscriptions_of_its_own_owns_nothing(cluster, callbacks):
    cluster.wait_shares()
    a, _, c = cluster.members
    hub.join(cluster.set(a).create(), callbacks.add())

    def has_row():
        with sqlite3.connect(f"file:{c.data}/hub.db?mode=ro", uri=True) as db:
            return db.execute("SELECT count(*) FROM subscriptions").fetchone() == (1,)

    wait_for("the subscription at c", has_row)
    c.stop()
    with contextlib.closing(sqlite3.connect(c.data / "hub.db")) as db, db:
        db.execute("UPDATE journal_place SET n = 0, stream = 0")
    c.restart()
    c.wait_said("hub.db does not follow the cluster")
    look = "SELECT FROM tidings_leases WHERE broker = 'c' AND until > now()"
    wait_for("c to own nothing", lambda: cluster.query(look) == [])
    assert c.has_said("it has rows from before this broker was in the cluster")


def test_another_broker_continues_when_the_owner_dies(cluster, callbacks):
    joined = [callbacks.add() for _ in range(5)]
    cluster.wait_shares()
    one = cluster.set(cluster.members[0]).create()
    for callback in joined:
        hub.join(one, callback)
    number = hub.find(one, joined[0])["id"]
    owner = cluster.owner_of(number)
    poster = cluster.set(cluster.others(owner)[0])
    wait_known(poster)
    for _ in range(10):
        poster.post(3)
    joined[0].wait_last(30)
    joined[0].hold()
    poster.post(3)
    joined[0].deliveries.find(lambda d: d.last == 33, "33")  # under way, not answered
    owner.kill()
    cluster.end_leases(owner)
    last = [poster.post(3).last for _ in range(10)][-1]
    joined[0].release()
    for callback in joined:
        callback.wait_last(last)
        assert callback.holes == 0
    assert len([d for d in joined[0].deliveries if d.last == 33]) > 1
    assert cluster.owner_of(number) is not owner
    hub.join(poster, callbacks.add())

    owner.restart()
    one = cluster.set(owner)
    last = poster.post(1).last
    for callback in joined:
        callback.wait_last(last)
    assert len(hub.subscriptions(one)) == 6
    cluster.owner_of(number).stop()  # gives its leases back
    last = cluster.set(cluster.owner_of(number)).post(1).last
    for callback in joined:
        callback.wait_last(last)
        assert callback.holes == 0


def test_an_owner_that_stood_still_delivers_nothing(cluster, callbacks):
    cluster.wait_shares()
    one = cluster.set(cluster.members[0]).create()
    callback = callbacks.add()
    hub.join(one, callback)
    number = hub.find(one, callback)["id"]
    owner = cluster.owner_of(number)
    poster = cluster.set(cluster.others(owner)[0])
    wait_known(poster)
    poster.post(3)
    callback.wait_last(3)
    owner.process.halt()
    cluster.end_leases(owner)
    last = poster.post(3).last
    callback.wait_last(last)
    assert cluster.owner_of(number) is not owner
    owner.process.go_on()
    owner.wait_said("this broker no longer owns")
    wait_for("the copy", lambda: cluster.set(owner).get().json()["last"] == last)
    for _ in range(5):
        last = poster.post(1).last
    callback.wait_last(last)
    assert callback.holes == 0
    assert len(hub.subscriptions(cluster.set(owner))) == 1


# A second request of a callback is of the same part, so of another broker's.
def test_requests_without_the_journal_are_refused(cluster, callbacks):
    cluster.wait_shares()
    first = cluster.set(cluster.members[0]).create()
    callback = callbacks.add()
    hub.join(first, callback)
    owner = cluster.owner_of(hub.find(first, callback)["id"])
    one = cluster.set(cluster.others(owner)[0])
    wait_known(one)
    cluster.server.query("ALTER TABLE tidings_orders RENAME TO away")
    answer = hub.subscribe(one, callback)
    assert answer.status == 503
    assert answer["Retry-After"]
    cluster.server.query("ALTER TABLE away RENAME TO tidings_orders")
    hub.check_taken(hub.subscribe(one, callback))
    callback.verifications.wait(2)


def change_text(n):
    return json.dumps(change(f"http://example.com/{n}"))


def wait_entries(one, n):
    def look():
        answer = one.broker.get(one.path)
        return answer.status == 200 and answer.json()["last"] >= n

    wait_for(f"{n} entries of {one}", look)


# Any broker lists all bridges, and names the broker that has the rest.
def wait_owner(broker, owner):
    def look():
        (bridge,) = broker.get("/bridges").json()["bridges"]
        states = {bridge[way]["state"] for way in ("out", "in")}
        if broker is owner:
            return "owner" not in bridge and "elsewhere" not in states
        return states == {"elsewhere"} and bridge.get("owner") == owner.name

    wait_for(f"{owner} as the owner of bridges at {broker}", look)


def test_another_broker_takes_over_the_bridges(bridged):
    cluster, mosquitto = bridged
    owner = cluster.owner("bridges/a")
    hearer = mosquitto.hear("a/news/notifications")
    teller = mosquitto.tell()
    mosquitto.wait_subscription("feed")
    poster = cluster.set(cluster.others(owner)[0])
    fed = cluster.set(poster.broker, "feed")
    reader = mqtt.Reader(hearer, "a/news/notifications")
    for n in range(5):
        poster.post(2)
        teller.say("feed", change_text(n))
    reader.until(10)
    wait_entries(fed, 5)
    wait_owner(poster.broker, owner)
    identity = mqtt.half(owner, "out")["state"]
    assert identity == "connected"

    owner.kill()
    cluster.end_leases(owner)
    for n in range(5, 10):
        last = poster.post(2).last
        teller.say("feed", change_text(n))
    reader.until(last)
    wait_entries(fed, 10)

    second = cluster.owner("bridges/a")
    second.process.halt()
    cluster.end_leases(second)
    poster = cluster.set(cluster.others(second)[0])
    if not poster.broker.is_running:
        poster = cluster.set(cluster.others(second)[1])
    for n in range(10, 15):
        last = poster.post(2).last
        teller.say("feed", change_text(n))
    reader.until(last)
    third = cluster.owner("bridges/a")
    wait_owner(poster.broker, third)
    assert third is not second
    second.process.go_on()
    second.wait_said("this broker no longer owns")
    for _ in range(5):
        last = poster.post(2).last
    reader.until(last)
    wait_entries(cluster.set(poster.broker, "feed"), 15)
