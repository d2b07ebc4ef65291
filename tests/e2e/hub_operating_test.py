"""The settings and tools of a hub's operator: options, permission to publish, lists and
ends of subscriptions, relays. No delivery is needed."""

import urllib.parse

import pytest

from tidings_test import hub
from tidings_test.hub import check_taken
from tidings_test.http import FORM, JSON, check_refused
from tidings_test.waiting import wait_for

# Nobody listens there: the hub accepts a request all the same (W-031).
NOBODY = "http://127.0.0.1:1/cb"


def subscribe_simply(news, form):
    return news.broker.post(f"{news.path}/subscribe", form, FORM)


# W-124: only who can reach an open broker may publish, and register relays.
@pytest.mark.broker("--insecure-open")
def test_publishing_is_for_an_open_broker(news, broker):
    why = "--insecure-open"
    topic = urllib.parse.quote(news.topic, safe="")
    ping = hub.send(broker, f"hub.mode=publish&hub.url={topic}")
    hub.check_refused(ping, 403, why)
    link = "<http://a.org/t>; rel=self, <http://a.org/h>; rel=hub"
    notification = broker.post("/hub", "<a/>", "text/xml", link=link)
    hub.check_refused(notification, 403, why)

    feed = {"topic": "http://a.org/t"}
    check_refused(broker.put("/relays/feed", feed), 403, why)
    check_refused(broker.delete("/relays/feed"), 403, why)
    check_refused(news.put(hubs=["http://a.org/hub"]), 403, why)
    check_refused(news.change(hubs=["http://a.org/hub"]), 403, why)

    # All else works.
    assert news.put(title="Demo").status == 200
    check_taken(hub.subscribe(news, NOBODY))
    assert broker.get("/relays").status == 200
    assert news.get("subscriptions").status == 200


#
def test_a_simple_subscription_has_a_callback(news, broker):
    for form, part in [
        ("interval=1", "callbackURI"),
        ("callbackURI=", "callbackURI"),
        ("callbackURI=ftp%3A%2F%2Fa%2F", "callbackURI"),
        (f"callbackURI={NOBODY}&change=renamed", "change"),
    ]:
        check_refused(subscribe_simply(news, form), 400, part)
    check_refused(broker.post(f"{news.path}/subscribe", {}), 415, FORM)
    none = broker.post("/sets/none/subscribe", f"callbackURI={NOBODY}", FORM)
    check_refused(none, 404, "none")
    check_refused(news.get("subscribe"), 405, "POST")
    check_taken(subscribe_simply(news, f"callbackURI={NOBODY}"))


def listed(news):
    """The subscriptions of the set, as they are listed."""
    answer = news.get("subscriptions")
    assert answer.status == 200
    assert answer["Content-Type"] == JSON
    assert answer["Cache-Control"] == "no-cache"
    return answer


# Trusted, a simple subscription is there with its 202.
@pytest.mark.broker("--hub-trust-simple")
def test_a_subscription_is_listed_shown_sent_back_and_ended(news, broker):
    check_taken(subscribe_simply(news, f"callbackURI={NOBODY}&interval=5"))
    (one,) = listed(news).json()["subscriptions"]
    host = NOBODY.removesuffix("/cb")
    assert (one["callback"], one["state"]) == (host, "active")
    assert hub.find(news, NOBODY) == one
    assert hub.find(news, host) is None
    check_refused(news.get("subscriptions?callback=cb"), 400, "callback")

    path = f"{news.path}/subscriptions/{one['id']}"
    shown = broker.get(path)
    assert (shown.status, shown.json()) == (200, one)
    assert broker.head(path).status == 200
    for query, status, part in [
        ("", 400, "after"),
        ("?after=x", 400, "x"),
        ("?after=0123456789abcdef-1", 410, ""),
    ]:
        check_refused(broker.post(f"{path}/redeliver{query}"), status, part)
    check_refused(broker.post(path), 405, "GET, HEAD, DELETE")

    assert broker.delete(path).status == 204
    check_refused(broker.get(path), 404, "subscription")
    assert listed(news).json()["subscriptions"] == []


def test_what_is_not_there_is_404(news, broker):
    gone = f"{news.path}/subscriptions/1000000"
    for method, path, part in [
        ("GET", "/sets/none/subscriptions", "none"),
        ("GET", gone, "subscription"),
        ("GET", f"{news.path}/subscriptions/x", 'subscription "x"'),
        ("GET", f"{news.path}/subscriptions/99999999999999999999", "subscription"),
        ("DELETE", gone, "subscription"),
        ("POST", f"{gone}/redeliver?after=0", "subscription"),
        ("GET", "/relays/none", "none"),
        ("GET", "/relays/none/subscriptions", "none"),
        ("GET", "/relays/No", "No"),
        ("DELETE", "/relays/none", "none"),
    ]:
        check_refused(broker.request(method, path), 404, part)
    check_refused(news.get("subscriptions?after=x"), 400, "after")


# W-166: the broker shows a secret to nobody.
def test_secrets_are_not_shown(news, callbacks, broker):
    secret = "tell-nobody-of-this"
    one = callbacks.add()
    check_taken(hub.subscribe(news, one, secret=secret))
    one.verifications.wait(1)

    def look():  # also while its answer is not judged
        answer = listed(news)
        assert secret not in answer.text
        (subscription,) = answer.json()["subscriptions"]
        return subscription["state"] == "active" and subscription

    active = wait_for("an active subscription", look)
    shown = news.get(f"subscriptions/{active['id']}")
    assert shown.status == 200 and secret not in shown.text
    assert not broker.has_said(secret)


# Relays: R-296 is tested where documents come.
def test_a_relay_is_made_shown_listed_and_removed(broker):
    feed = {"topic": "http://a.org/t"}
    check_refused(broker.put("/relays/feed", "{", JSON), 400)
    check_refused(broker.put("/relays/feed", {}), 422, "topic")
    check_refused(broker.put("/relays/feed", "{}", "text/plain"), 415, JSON)
    check_refused(broker.put("/relays/Feed", feed), 404, "Feed")

    made = broker.put("/relays/feed", feed)
    assert (made.status, made["Location"]) == (201, f"{broker.url}/relays/feed")
    assert broker.put("/relays/feed", feed).status == 200
    shown = broker.get("/relays/feed")
    assert (shown.status, shown.json()["topic"]) == (200, "http://a.org/t")
    listed = broker.get("/relays")
    assert (listed.status, listed.json()["relays"][0]["name"]) == (200, "feed")
    assert broker.get("/relays/feed/subscriptions").status == 200

    assert broker.delete("/relays/feed").status == 204
    check_refused(broker.get("/relays/feed"), 404, "feed")


def test_settings_that_do_not_go_together_are_bad_usage(run):
    for why, *options in [
        ("--hub-lease-default is shorter than --hub-lease-min",
         "--hub-lease-min=100", "--hub-lease-default=99.5"),
        ("--hub-lease-default is longer than --hub-lease-max: it is 864000 seconds",
         "--hub-lease-max=863999"),
        ("--hub-lease-min is longer than --hub-lease-max",
         "--hub-lease-min=1000", "--hub-lease-max=500"),
        ("--hub-retry-first is longer than --hub-retry-max",
         "--hub-retry-first=2", "--hub-retry-max=1"),
        ('--hub-signature: "md5" is not sha1, sha256, sha384 or sha512',
         "--hub-signature=md5"),
        ("10.0.0.0/33", "--allow-callbacks=127.0.0.1,10.0.0.0/33"),
        ("--allow-callbacks: ", "--allow-callbacks=localhost"),
    ]:  # fmt: skip
        data = "/nonexistent/tidings"
        done = run("tidingsd", "--data", data, *options, status=2)
        assert why in done.errors()


# W-029: a callback's URL is a capability. In every event others see only its host.
@pytest.mark.broker(*hub.QUICK, "--hub-give-up", "0.1", "--log-level", "debug")
def test_a_callback_is_shown_by_its_host_alone(news, broker, callbacks):
    refuses = callbacks.add("/cb/hidden?refuses")
    refuses.always(404, of="verification")
    check_taken(hub.subscribe(news, refuses))
    hub.wait_gone(news, refuses)
    away, leaves = callbacks.join(news, "/cb/hidden?away"), callbacks.join(news)
    away.always(500)
    check_taken(hub.unsubscribe(news, leaves))
    hub.wait_gone(news, leaves)
    news.post()
    skipped = hub.wait(news, away, "skipped", lambda s: s["skipped"] > 0)
    assert skipped["callback"] == callbacks.url
    assert "hidden" not in listed(news).text
    assert broker.delete(f"{news.path}/subscriptions/{skipped['id']}").status == 204
    for part in ("did not confirm", "given up", "has ended"):
        broker.wait_said(part)
    assert "/cb/" not in broker.process.errors()
