"""Attacks on the hub: calls to hosts that hang, to itself, to forbidden addresses, and
to hosts with a false certificate.

Requests to POST /hub: hub_http_test; answers of callbacks: websub_subscribe_test and
websub_deliver_test."""

import hashlib

import pytest

from tidings_test import callbacks as cb
from tidings_test import hub
from tidings_test.hub import check_refused, check_taken
from tidings_test.http import FORM, JSON, XML
from tidings_test.sets import change

FOREVER = ("--hub-timeout", "600")  # longer than anybody waits here

pytestmark = pytest.mark.broker(*hub.QUICK)


def wait_failed(news, url):
    """Wait until there is an error of that callback or hub; the error."""
    failed = hub.wait(news, url, "failing", lambda s: s.get("lastError"))
    return failed["lastError"]


# W-092, W-057, W-164: strangers name more callbacks that hang than there are
# connections, at hosts of their own and at the host of a healthy one. The healthy one
# gets all entries.
@pytest.mark.broker(
    *hub.QUICK, *FOREVER, "--hub-connections", "16", "--hub-host-connections", "4"
)
def test_callbacks_that_strangers_name_delay_no_delivery(
    news, callbacks, start_callbacks
):
    well = callbacks.join(news)
    hosts = [start_callbacks(f"127.0.1.{i + 1}") for i in range(8)]
    for i in range(64):
        one = (callbacks if i % 2 else hosts[i // 2 % 8]).add()
        one.always(cb.hang, of="verification")
        check_taken(hub.subscribe(news, one))
    for _ in range(10):
        well.wait_last(news.post().last)


# A delivery that comes back as a post would be delivered again, and so on for ever,
# under whichever name of this machine.
@pytest.mark.broker(*hub.QUICK, "--hub-trust-simple")
def test_what_is_delivered_is_not_taken_in_again(news, callbacks, broker):
    def subscribe_simply(url):
        return broker.post(f"{news.path}/subscribe", f"callbackURI={url}", FORM)

    one = callbacks.join(news)
    # By the broker's own name it is refused at once.
    url = f"{broker.url}{news.changes}"
    answer = hub.subscribe(news, url)
    check_refused(answer, answer.status, "is of this broker itself")
    assert answer.status // 100 == 4
    assert subscribe_simply(url).status == 422
    assert news.put(hubs=[url]).status == 422

    # Under another name the broker notices it when it comes.
    url = f"http://localhost:{broker.port}{news.changes}"
    assert subscribe_simply(url).status == 202
    news.post()
    assert "422" in wait_failed(news, url)
    delivered = {"tidings_delivery": "0123456789abcdef.1.0.1"}
    again = news.send(change("http://a.example/"), JSON, **delivered)
    assert again.status == 422
    one.wait_last(news.post().last)
    assert one.last == 2  # ours, and no more


# W-160, W-161: the address decides, in any spelling, and the hub connects to nobody.
# The hub accepts the request (W-031), and it fails.
@pytest.mark.broker(*hub.QUICK, "--insecure-open")
def test_addresses_that_are_not_for_strangers_are_not_called(news, callbacks):
    hosts = [
        *("127.0.0.2", "2130706434", "0x7f.2", "0177.0.0.2", "127.2"),
        *("[::ffff:127.0.0.2]", "[::ffff:7f00:2]", "localhost", "[64:ff9b::7f00:2]"),
        *("[2002:7f00:2::1]", "0.0.0.0", "[::]", "[::7f00:2]", "169.254.1.1"),
        *("[fe80::1]", "[64:ff9b:1::7f00:2]"),
    ]
    urls = [f"http://{host}:{callbacks.port}/cb/1" for host in hosts]
    for url in urls:
        check_taken(hub.subscribe(news, url))
    for url in urls:
        hub.wait_gone(news, url)
    assert not len(callbacks.connections)


# W-160: a broker on loopback calls loopback for a callback that a client of this
# machine subscribed, and for nothing else: neither for other hubs, topics and content,
# nor on a connection that it keeps to that callback.
@pytest.mark.broker(*hub.QUICK, "--content", "fetch", "--fetch-tries", "1")
def test_this_machine_is_called_for_callbacks_alone(news, callbacks, broker):
    one = callbacks.join(news)
    other = callbacks.add()
    assert news.put(hubs=[other.url], content="fetch").status == 200
    topic = other.url
    for path in ("/relays/feed", broker.set("copy").path):
        member = "topic" if "relays" in path else "upstreamTopic"
        assert broker.put(path, {member: topic}).status == 201
        links = f'<{topic}>; rel="self", <{hub.url(broker)}>; rel="hub"'
        answer = broker.post("/hub", b"<x/>", XML, link=links)
        check_refused(answer, 403, "its address 127.0.0.2 may not be called")
        broker.delete(f"{path}?confirm=copy")
    sum_ = {"sha-256": hashlib.sha256(b"").hexdigest()}
    news.post_change(f"{other.url}?admin", "updated", hash=sum_, length=0)
    one.wait_last(1)
    broker.wait_said("is given up")
    assert "127.0.0.2 may not be called" in wait_failed(news, other.url)
    assert not len(other.deliveries)  # any other request is a stray


# URLs that a library reads in another way than a person.
def test_urls_that_are_read_in_two_ways_are_refused(news):
    for bad in [
        "http://127.0.0.2\\@evil.example/",
        "http://127.0.0.2%09/",
        "http://evil.example%0d%0aHost:x/",
        "http://127.0.0.2%E3%80%820/",
        "http://\u246027.0.0.2/",
        "//127.0.0.2/cb",
        "http:127.0.0.2/cb",
        "http:///127.0.0.2/cb",
        "http://[::1%25lo]/cb",
        "http://127.0.0.2:80:81/",
        "http://127.0.0.2./cb",
        "file:///etc/passwd",
        "http://a@127.0.0.2/",
        "http://127.0.0.2:+80/",
        "gopher://127.0.0.2/",
        "http://127.0.0.2:65616/",
    ]:
        check_refused(hub.subscribe(news, bad), 400, "hub.callback")


# W-162: neither the environment nor a file of the user decides on the hub's targets and
# headers.
def test_proxies_and_passwords_of_the_environment_are_not_used(
    start_broker, callbacks, tmp_path
):
    (tmp_path / ".netrc").write_text("default login somebody password geheim\n")
    names = ("http_proxy", "all_proxy", "ALL_PROXY", "HTTPS_PROXY")
    env = {"HOME": str(tmp_path), **dict.fromkeys(names, "http://127.0.0.1:1/")}
    news = start_broker(*hub.QUICK, env=env).set().create()
    one = callbacks.join(news)
    asks_password = 'WWW-Authenticate: Basic realm="x"\r\nSet-Cookie: a=b; Path=/\r\n'
    elsewhere = 'Alt-Svc: h2="127.0.0.9:443"\r\n'
    one.next(cb.answer(401, asks_password + elsewhere))
    one.wait_last(news.post().last)
    assert len(one.deliveries) == 2
    for delivery in one.deliveries:
        for name in ("Authorization", "Cookie", "Accept-Encoding"):
            assert delivery[name] is None


# A callback by HTTPS is who its certificate says, or nobody: another broker, which
# nobody vouches for, is not spoken to.
def test_a_certificate_that_nobody_vouches_for_is_refused(start_broker, certificate):
    other = start_broker(*certificate.options, tls=certificate.trust())
    news = start_broker(*hub.LOOPBACK).set().create()
    assert news.put(hubs=[hub.url(other)]).status == 200
    news.post()
    assert "TLS: " in wait_failed(news, hub.url(other))


# Other sets' subscriptions and requests stand between those of a set, and of its two
# topics.
@pytest.mark.broker(*hub.QUICK, *FOREVER)
def test_a_list_has_the_set_s_own_in_order_of_their_ids(news, callbacks, broker):
    other = broker.set().create()
    for i in range(12):
        of_set = news if i % 3 else other
        topic = of_set if i % 2 else hub.framework(of_set)
        one = callbacks.add()
        if i % 4 == 3:
            one.always(cb.hang, of="verification")
        check_taken(hub.subscribe(topic, one))
        one.verifications.wait(1)
        if i % 4 != 3:
            hub.wait_active(topic, one)
    assert len(hub.subscriptions(news)) == 8
    assert len(hub.subscriptions(other)) == 4
    before = 0
    for _ in range(8):
        path = f"subscriptions?after={before}"
        found = int(news.get(path).json()["subscriptions"][0]["id"])
        assert found > before
        before = found
    assert news.get(f"subscriptions?after={before}").json() == {"subscriptions": []}
