"""One owner's callbacks hang, by whatever right: its subscriptions, its requests and
its turns cost the others nothing.

The hub waits for an answer longer than anybody waits here: a delivery that waits for a
call of the greedy owner never comes."""

import pytest

from tidings_test import callbacks as cb
from tidings_test import hub
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

OTHERS = 20
CONNECTIONS = 16
MANY = soak(64, 1000)  # callbacks of the greedy owner
HOSTS = 8

OPTIONS = (
    *hub.QUICK,
    *hub.LOOPBACK,
    *("--hub-timeout", "600", "--client-share", "25"),
    *("--hub-connections", str(CONNECTIONS), "--hub-host-connections", "8"),
)


class Owners:
    """A set, and a token for each owner."""

    def __init__(self, broker):
        self.broker = broker
        broker.add_token("root", admin=True)
        self.others = [f"other{i}" for i in range(OTHERS)]
        self.fields = {
            name: f"Bearer {broker.add_token(name, subscribe=['*'])}"
            for name in ("greedy", *self.others)
        }
        self.set = broker.set().create()

    def subscribe(self, name, callback):
        """Ask for it until there is room for one more verification; the answer."""
        form = {
            "hub.mode": "subscribe",
            "hub.topic": self.set.topic,
            "hub.callback": callback.url,
        }

        def ask():
            answer = hub.send(self.broker, form, authorization=self.fields[name])
            return answer if b"wait for" not in answer.body else None

        return wait_for("the hub to take a request", ask)

    def join(self, name, callback):
        assert self.subscribe(name, callback).status == 202
        callback.verifications.wait(1)
        return callback


@pytest.fixture
def owners(start_broker):
    return Owners(start_broker(*OPTIONS))


@pytest.fixture
def hosts(start_callbacks):
    return [start_callbacks(f"127.0.1.{i + 1}") for i in range(HOSTS)]


def join_others(owners, hosts, start_callbacks):
    """A callback of each other owner: at hosts of the greedy one, and at its own."""
    own = start_callbacks("127.0.2.1")
    return [
        owners.join(name, (hosts[0] if i % 2 else own).add())
        for i, name in enumerate(owners.others)
    ]


def wait_free(owners):
    """Nothing of the greedy owner is left once its token has ended."""
    assert owners.broker.request("DELETE", "/tokens/greedy").status == 204
    hub.wait_count(owners.set, OTHERS)

    def look():
        return owners.broker.metrics()["tidings_hub_in_flight"] == 0

    wait_for("no call under way", look)


# W-092: callbacks of one owner answer, and then all hang at once, when each has a good
# history; then they answer and hang by turns.
def test_callbacks_of_one_owner_that_hang_delay_nobody(owners, hosts, start_callbacks):
    others = join_others(owners, hosts, start_callbacks)
    greedy = [owners.join("greedy", hosts[i % HOSTS].add()) for i in range(MANY)]
    hub.wait_count(owners.set, OTHERS + MANY)
    first = owners.set.post().last
    for each in greedy:
        each.wait_last(first)
        each.always(cb.hang)
    for _ in range(5):
        last = owners.set.post().last
        for each in others:
            each.wait_last(last)
    wait_free(owners)
    hung = sum(len(each.deliveries) - len(each.accepted) for each in greedy)
    assert CONNECTIONS // 2 < hung < CONNECTIONS


# W-164, W-056: one owner asks for callbacks that are silent. Others get their
# subscriptions, and renew them, also at the same hosts.
def test_requests_of_one_owner_delay_no_verification(owners, hosts, start_callbacks):
    others = join_others(owners, hosts, start_callbacks)
    hub.wait_count(owners.set, OTHERS)
    for i in range(MANY):
        silent = hosts[i % HOSTS].add()
        silent.always(cb.hang, of="verification")
        assert owners.subscribe("greedy", silent).status == 202
    for i, name in enumerate(owners.others):
        owners.join(name, hosts[i % HOSTS].add())
        assert owners.subscribe(name, others[i]).status == 202
        others[i].verifications.wait(2)
    hub.wait_count(owners.set, 2 * OTHERS + MANY)
    last = owners.set.post().last
    for each in others:
        each.wait_last(last)


# One owner takes all subscriptions that it can get, also across a restart: the others
# have theirs.
def test_one_owner_has_its_share_of_subscriptions(start_broker, start_callbacks):
    owners = Owners(start_broker(*OPTIONS, "--hub-subscriptions", "40"))
    host = start_callbacks("127.0.1.1")
    # Active: a request alone takes no share, and a kill may bring it back.
    for each in [owners.join("greedy", host.add()) for _ in range(10)]:
        hub.wait_active(owners.set, each)
    for again in range(2):
        answer = owners.subscribe("greedy", host.add())
        hub.check_refused(answer, 429, "your token has as many subscriptions")
        if not again:
            owners.broker.kill()
            owners.broker.start()
    metrics = owners.broker.get("/metrics").text
    assert 'tidings_client_refusals_total{limit="subscriptions"} 1' in metrics
    others = [owners.join(name, host.add()) for name in owners.others]
    hub.wait_count(owners.set, 10 + OTHERS)
    last = owners.set.post().last
    for each in others:
        each.wait_last(last)


CHANGE = (
    '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
    ' xmlns:rs="http://www.openarchives.org/rs/terms/">'
    '<rs:md capability="changelist"/>'
    '<url><loc>http://example.com/a</loc><rs:md change="updated"/></url></urlset>'
)


# The topics that feed the sets of one owner are silent when the hub fetches them.
def test_topics_of_one_owner_leave_a_fetch_to_others(start_broker, site):
    broker = start_broker(*OPTIONS)
    broker.add_token("root", admin=True)

    def ping(owner, *names):
        bearer = broker.add_token(owner, publish=["*"], manage=["*"])
        field = {"authorization": f"Bearer {bearer}"}
        for name in names:
            topic = site.link(f"/{name}.xml")
            site.put(f"/{name}.xml", CHANGE)
            wish = {"upstreamTopic": topic}
            assert broker.put(f"/sets/{name}", wish, **field).status == 201
            form = {"hub.mode": "publish", "hub.url": topic}
            assert hub.send(broker, form, **field).status == 204

    silent = [f"silent{i}" for i in range(8)]
    for name in silent:
        site.hold(f"/{name}.xml")
    ping("greedy", *silent)
    site.requests.wait(3)
    ping("other", "news")
    broker.set("news").wait_last(1)
    assert site.most_parallel == 4
    for name in silent:
        site.release(f"/{name}.xml")
    broker.set(silent[-1]).wait_last(1)
