"""Requests of a subscriber to a broker's hub, and the broker's reports on
subscriptions.

    hub.check_taken(hub.subscribe(news, cb, secret="s3cr3t"))
    hub.wait_active(news, cb)
    hub.wait_head(news, cb)
    hub.find(news, cb)["lag"]

A topic is that of a set, or a Topic; a callback is one of callbacks.py or a URL.
"""

import collections
import urllib.parse

from tidings_test.http import FORM
from tidings_test.openapi import DESCRIPTION
from tidings_test.waiting import wait_for

# Options that let a hub call and fetch on this machine; callbacks that a client of this
# machine subscribes need none.
LOOPBACK = ("--allow-callbacks", "127.0.0.0/8")

# Options for retries that a test can wait for.
QUICK = ("--hub-retry-first", "0.05", "--hub-retry-max", "0.2")

# A topic that is not the notifications of the set that lists its subscriptions.
Topic = collections.namedtuple("Topic", "set topic")


def framework(of_set):
    """The topic of the events of a set's documents."""
    return Topic(of_set, of_set.framework_topic)


def url(broker):
    """The URL of the hub."""
    return f"{broker.url}/hub"


def send(broker, form, **headers):
    """Post a form, as text or parameters, to the hub; a list is a parameter that
    stands there several times."""
    if not isinstance(form, str):
        form = urllib.parse.urlencode(form, doseq=True, quote_via=urllib.parse.quote)
    return broker.post("/hub", form, FORM, **headers)


def request(mode, topic, callback, secret=None, lease=None, **more):
    """Ask the hub for that; `lease` is hub.lease_seconds."""
    form = {
        "hub.mode": mode,
        "hub.topic": topic.topic,
        "hub.callback": _url(callback),
        "hub.secret": secret,
        "hub.lease_seconds": lease,
        **more,
    }
    form = {name: value for name, value in form.items() if value is not None}
    return send(_set(topic).broker, form)


def subscribe(topic, callback, **form):
    return request("subscribe", topic, callback, **form)


def unsubscribe(topic, callback, **form):
    return request("unsubscribe", topic, callback, **form)


def join(topic, callback, **form):
    """Subscribe, and wait until the subscription is active: it gets all later posts."""
    check_taken(subscribe(topic, callback, **form))
    wait_active(topic, callback)


def subscribe_sometime(topic, callback):
    """Ask until the hub takes it: that of a cluster has an owner some time after the
    start."""

    def look():
        answer = subscribe(topic, callback)
        assert answer.status in (202, 503), answer
        return answer.status == 202

    wait_for(f"the subscription of {callback} to be taken", look)


def check_taken(answer):
    """The answer is 202 without a body (W-031)."""
    assert (answer.status, answer.body) == (202, b""), answer


def check_refused(answer, status, part):
    """The answer is that status, and a text/plain body says why (W-032)."""
    assert answer.status == status, answer
    assert answer["Content-Type"].startswith("text/plain"), answer
    assert part in answer.text, answer


# The broker's report on the subscriptions of a set


def subscriptions(of_set):
    answer = of_set.get("subscriptions")
    DESCRIPTION.check(answer, "GET", "/sets/{set}/subscriptions")
    assert answer.status == 200, answer
    return answer.json()["subscriptions"]


def find(topic, callback):
    """That of a callback, as a dictionary; None: there is none."""
    query = urllib.parse.urlencode({"callback": _url(callback)})
    answer = _set(topic).get(f"subscriptions?{query}")
    DESCRIPTION.check(answer, "GET", "/sets/{set}/subscriptions")
    assert answer.status == 200, answer
    return next(iter(answer.json()["subscriptions"]), None)


def wait(topic, callback, what, is_so):
    """Wait until is_so(subscription); the subscription."""

    def look():
        subscription = find(topic, callback)
        return subscription and is_so(subscription) and subscription

    return wait_for(f"{callback} to be {what}", look)


def wait_active(topic, callback):
    return wait(topic, callback, "active", lambda s: s["state"] == "active")


def wait_pending(topic, callback):
    return wait(topic, callback, "pending", lambda s: s["state"] == "pending")


def wait_gone(topic, callback):
    """Wait until it is neither pending nor active; not there is fine."""

    def look():
        subscription = find(topic, callback)
        return not subscription or subscription["state"] not in ("active", "pending")

    wait_for(f"{callback} to be gone", look)


def wait_head(topic, callback):
    """Wait until it lags by nothing."""
    return wait(
        topic,
        callback,
        "at the head",
        lambda s: s["state"] == "active" and s["lag"] == 0,
    )


def wait_count(of_set, n):
    wait_for(f"{n} subscriptions", lambda: len(subscriptions(of_set)) == n)


def fence(of_set, callback):
    """Wait until the hub has delivered everything that was posted so far: `callback` is
    one that joined and answers well."""
    callback.wait_last(of_set.post().last)
    wait_head(of_set, callback)


def settle(of_set, callback, n):
    """Wait until the hub has judged the answer to the callback's n-th verification: the
    answer came before that of a callback that subscribes now, and one thread of the hub
    reads both."""
    callback.verifications.wait(n)
    callback.server.join(of_set)


def _url(callback):
    return callback if isinstance(callback, str) else callback.url


def _set(topic):
    return topic.set if isinstance(topic, Topic) else topic
