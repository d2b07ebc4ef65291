"""Many subscriptions, one in twenty of them sick, very many changes, and a kill in the
middle.

The sick callbacks have hosts of their own: the hub's limits go by host.
"""

from tidings_test import callbacks as cb
from tidings_test import hub
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

POST_ENTRIES = 100  # of a post in the crowd of them

OPTIONS = [
    *("--hub-retry-first", "0.1", "--hub-retry-max", "0.5", "--hub-timeout", "2"),
    *("--hub-connections", "400", "--hub-host-connections", "64"),
]


def subscribe(news, callback):
    def ask():  # 429: too many wait for their verification
        answer = hub.subscribe(news, callback)
        return answer.status != 429 and answer

    hub.check_taken(wait_for("the hub to take a subscription", ask))


def wait_all_active(news, n):
    def look():
        states = [each["state"] for each in hub.subscriptions(news)]
        return states == ["active"] * n

    wait_for(f"{n} active subscriptions", look)


def entries_of(callback):
    """The bytes of all entries that it has accepted, one after the other."""
    lists = []
    for delivery in callback.accepted:
        head, _, rest = delivery.body.partition(b"<rs:md ")
        _, _, entries = rest.partition(b"/>\n")
        lists.append(entries.removesuffix(b"</urlset>\n"))
    return b"".join(lists)


def check_got_all(news, callbacks, last):
    """Each has got every entry from the first to the last once, and the same bytes. One
    callback is checked closely: its entries have the digest that the topic states."""
    one = callbacks[0]
    history = one.history()
    topic = news.get("notifications").document()
    assert topic.digest == f"sha-256:{history.digests[last].hex()}"
    text = b"".join(entry.line for entry in history.entries)
    for callback in callbacks:
        assert (callback.accepted[0].after, callback.last) == (0, last)
        assert not callback.holes
        assert entries_of(callback) == text


# W-074, W-091, W-092, W-093, R-291, R-306, R-310
def test_the_healthy_get_everything_whatever_the_sick_do(start_broker, start_callbacks):
    broker = start_broker(*OPTIONS)
    news = broker.set().create()
    n = soak(200, 500)
    n_sick = n // 20
    hosts = [start_callbacks(host) for host in ("127.0.0.2", "127.0.0.3")]
    dead, hanging, slow = sick_hosts = [
        start_callbacks(host) for host in ("127.0.0.4", "127.0.0.5", "127.0.0.6")
    ]
    healthy = [hosts[i % 2].add(f"/cb/{i}?of=many") for i in range(n - n_sick)]
    sick = [sick_hosts[i % 3].add(f"/cb/{i}?of=many") for i in range(n_sick)]
    for callback in healthy + sick:
        subscribe(news, callback)
    wait_all_active(news, n)
    first = news.post(5).last
    for callback in healthy + sick:
        callback.wait_last(first)

    dead.go_down()
    for callback in hanging.each.values():
        callback.always(cb.hang)
    for callback in slow.each.values():
        callback.always(cb.trickle(pause=0.01))
    for _ in range(5):
        last = news.post(5).last
        for callback in healthy:
            callback.wait_last(last)
    n_posts = soak(30, 200)
    for i in range(n_posts):
        last = news.post(POST_ENTRIES).last
        if i == n_posts // 2:
            broker.kill()
            broker.restart()
    for callback in healthy:
        callback.wait_last(last)
    check_got_all(news, healthy, last)
    for callback in [*hanging.each.values(), *slow.each.values()]:
        callback.deliveries.wait(2)  # they were sick, and called
    for callback in [*dead.each.values(), *hanging.each.values()]:
        assert callback.last == first

    # Recovered callbacks get everything, too.
    hanging.go_down()  # what hangs so far ends
    for callback in sick:
        callback.always(200)
    for server in (dead, hanging):
        server.listen()
    for callback in sick:
        callback.wait_last(last)
    check_got_all(news, sick, last)
    broker.stop()
