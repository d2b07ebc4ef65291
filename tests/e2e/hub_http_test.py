"""Requests to POST /hub: which are accepted, and how the others are refused. No
delivery is needed."""

import urllib.parse

import pytest

from tidings_test import callbacks as cb
from tidings_test import hub
from tidings_test.hub import check_refused, check_taken
from tidings_test.http import FORM, JSON
from tidings_test.waiting import wait_for

# Verifications that are under way stay so.
pytestmark = pytest.mark.broker("--hub-timeout", "60", "--max-body", "64K")

# Nobody listens there: the hub accepts a request all the same (W-031).
NOBODY = "http://127.0.0.1:1/cb"


def ask(news, form):
    """Send a form in which TOPIC and NOBODY stand for those."""
    topic = urllib.parse.quote(news.topic, safe="")
    form = form.replace("TOPIC", topic).replace("NOBODY", NOBODY)
    return hub.send(news.broker, form)


def subscribe(news, more, beginning="hub.mode=subscribe"):
    return ask(news, f"{beginning}&hub.topic=TOPIC&hub.callback=NOBODY{more}")


# W-021: callback, mode and topic are required, and not empty.
def test_a_request_without_mode_topic_or_callback_is_refused(news):
    for form, missing in [
        ("hub.topic=TOPIC&hub.callback=NOBODY", "hub.mode"),
        ("hub.mode=&hub.topic=TOPIC&hub.callback=NOBODY", "hub.mode"),
        ("hub.mode=subscribe&hub.callback=NOBODY", "hub.topic"),
        ("hub.mode=unsubscribe&hub.topic=&hub.callback=NOBODY", "hub.topic"),
        ("hub.mode=subscribe&hub.topic=TOPIC", "hub.callback"),
        ("hub.mode=unsubscribe&hub.topic=TOPIC&hub.callback=", "hub.callback"),
        ("", "hub.mode"),
    ]:
        check_refused(ask(news, form), 400, f"{missing}: missing or empty")


# W-022
def test_another_mode_is_refused(news):
    for mode in ("Subscribe", "denied", "sub", "%20", "subscribe%00"):
        check_refused(subscribe(news, "", f"hub.mode={mode}"), 400, "")


# W-023: 199 bytes are accepted, 200 are not; bytes, not characters.
def test_a_secret_of_200_bytes_is_refused(news):
    check_refused(subscribe(news, "&hub.secret=" + "s" * 200), 422, "hub.secret")
    check_taken(subscribe(news, "&hub.secret=" + "s" * 199))
    answer = subscribe(news, "&hub.secret=" + "%C3%A9" * 100)
    check_refused(answer, 422, "hub.secret")
    assert "é" not in answer.text  # W-166: not even a wrong one is told


# W-024: a wrong lease is a 4xx, never a 5xx; the hub cuts one that is too long, and
# ignores that of an unsubscription.
def test_what_is_no_lease_is_refused(news):
    for bad in ("0", "-1", "abc", "1.5", "1e3", "%2B1"):
        lease = f"&hub.lease_seconds={bad}"
        check_refused(subscribe(news, lease), 400, "hub.lease_seconds")
        check_taken(subscribe(news, lease, "hub.mode=unsubscribe"))
    for good in ("1", "864000", "2678401", "99999999999999999999999999"):
        check_taken(subscribe(news, f"&hub.lease_seconds={good}"))


# W-025, W-026
def test_unknown_parameters_are_left_alone_and_bad_escapes_refused(news):
    known = "foo=1&hub.foo=2&hub.mode=subscribe"
    check_taken(subscribe(news, "&hub.verify=async", known))
    for escape in ("%2", "%FF"):
        check_refused(subscribe(news, escape), 400, "hub.callback")


# W-027, W-163: nothing but an absolute http or https URL without user info, with a
# good port, and without what could end a line.
def test_what_is_no_url_is_no_callback_and_no_topic(news):
    for bad in [
        "ftp%3A%2F%2Fexample.org%2F",
        "javascript%3Aalert(1)",
        "%2Fcb",
        "example.org%2Fcb",
        "http%3A%2F%2F%2Fcb",
        "http%3A%2F%2Fu%3Ap%40example.org%2Fcb",
        "http%3A%2F%2Fu%40example.org%2Fcb",
        "http%3A%2F%2Fexample.org%3A0%2Fcb",
        "http%3A%2F%2Fexample.org%3A65536%2Fcb",
        "http%3A%2F%2Fexample.org%3Ax%2Fcb",
        "http%3A%2F%2Fexample.org%2Fc%20b",
        "http%3A%2F%2Fexample.org%2Fcb%0D%0AX-A%3A%20b",
        "http%3A%2F%2Fexample.org%2Fcb%0A",
        "http%3A%2F%2Fexample.org%2Fcb%00",
        "http%3A%2F%2Fexample.org%2Fcb%7F",
        "http%3A%2F%2Fexample.org%2Fcb%09",
    ]:
        form = f"hub.mode=subscribe&hub.topic=TOPIC&hub.callback={bad}"
        check_refused(ask(news, form), 400, "hub.callback")
        form = f"hub.mode=subscribe&hub.topic={bad}&hub.callback=NOBODY"
        check_refused(ask(news, form), 400, "hub.topic")
    longer = "http://" + "a" * 2042
    form = f"hub.mode=subscribe&hub.topic=TOPIC&hub.callback={longer}"
    check_refused(ask(news, form), 400, "hub.callback: longer than 2048 bytes")


# W-044: an unknown topic is refused at once.
def test_what_is_no_topic_of_ours_is_refused(news, broker):
    def answer_of(topic):
        return hub.subscribe(hub.Topic(news, topic), NOBODY)

    answer = answer_of("http://example.org/")
    check_refused(answer, 404, "example.org")
    check_refused(answer, 404, "those of sets begin with http://127.")
    none = answer_of(f"{broker.url}/sets/none/notifications")
    check_refused(none, 404, "none")
    check_refused(answer_of(f"{news.url}/changelist.xml"), 422, "notifications")


# Further parameters of a subscription: a bad one is a 4xx, also at a renewal.
def test_a_bad_filter_position_or_interval_is_refused(news):
    for bad, why in [
        ("change=renamed", "change"),
        ("prefix=", "prefix"),
        ("after=3-x", '"3-x" is not a position'),
        ("after=", "is not a position"),
        ("interval=-1", "interval"),
        ("interval=x", "interval"),
        ("interval=86401", "interval"),
    ]:
        check_refused(subscribe(news, f"&{bad}"), 400, why)
    # A position of another epoch: where to go on is elsewhere.
    check_refused(subscribe(news, "&after=0123456789abcdef-3"), 410, "")
    good = "&change=created&change=updated&prefix=http%3A%2F%2Fa%2F&interval=0.5"
    check_taken(subscribe(news, good))


# W-038: wrong methods, types and sizes.
def test_other_methods_types_and_sizes_are_refused(broker):
    for method in ("GET", "PUT", "DELETE", "PATCH"):
        answer = broker.request(method, "/hub", "x" if method == "PUT" else None)
        check_refused(answer, 405, "POST")
        assert answer["Allow"] == "POST"
    assert broker.head("/hub").status == 405

    for type in (JSON, "multipart/form-data; boundary=a"):
        check_refused(broker.post("/hub", "--a--", type), 415, FORM)
    zipped = broker.post("/hub", "x", FORM, content_encoding="gzip")
    check_refused(zipped, 415, "Content-Encoding")

    check_refused(broker.post("/hub", "a" * 16385, FORM), 413, "16384")
    check_refused(broker.post("/hub", "a" * 16384, FORM), 400, "hub.mode")
    # The type is a word in any case, with parameters.
    odd = "Application/X-WWW-Form-URLencoded; charset=UTF-8"
    check_refused(broker.post("/hub", "a=b", odd), 400, "hub.mode")


# W-165: a limit on parameters, and a deadline for a client that sends them slowly.
def test_too_many_parameters_and_slow_senders_are_refused(news, start_broker):
    check_refused(ask(news, "a=b&" * 65), 400, "more than 64")
    hasty = start_broker("--request-timeout", "0.5", "--min-rate", "1K")
    assert hasty.post_too_slowly("/hub", FORM, "hub.mode=s").status == 408


# W-164: the hub answers a flood of requests for one host with 429; others have room,
# and the flood's limit ends with its verifications.
def test_too_many_requests_for_one_host_are_429(news, callbacks, start_callbacks):
    taken = 0
    while taken < 1000:
        one = callbacks.add()
        one.always(cb.hang, of="verification")
        answer = hub.subscribe(news, one)
        if answer.status != 202:
            break
        taken += 1
    check_refused(answer, 429, "")
    assert taken == 100
    assert answer["Retry-After"]

    other = start_callbacks("127.0.0.3").add()
    check_taken(hub.subscribe(news, other))
    other.verifications.wait(1)


# Notifications (W-142, W-146)

SELF = '<http://example.org/t>; rel="self"'
HUB = '<http://example.org/h>; rel="hub"'
BOTH = "<http://example.org/t>; rel=self, <http://example.org/h>; rel=hub"


def notify(broker, link=BOTH, body="<a/>", type="text/xml", **headers):
    return broker.post("/hub", body, type, link=link, **headers)


# W-146: 400 without usable links or body, 403 for a topic not served here, 413, 415.
def test_a_notification_says_what_it_is_of(broker):
    check_refused(notify(broker, SELF), 400, 'rel="hub"')
    check_refused(notify(broker, HUB), 400, 'rel="self"')
    check_refused(notify(broker, "nonsense"), 400, 'rel="self"')
    check_refused(notify(broker, body=""), 400, "body")
    check_refused(notify(broker, body="a" * 65537), 413, "65536")
    zipped = notify(broker, body="x", content_encoding="gzip")
    check_refused(zipped, 415, "Content-Encoding")
    check_refused(notify(broker, type=None), 415, "Content-Type")
    check_refused(notify(broker), 403, "http://example.org/t")


# Notifications and posts have one budget (--ingest-bytes), which is given back also
# when a sender breaks off.
@pytest.mark.broker("--ingest-bytes", "1M")
def test_memory_of_notifications_is_bounded(broker):
    def taken():
        return broker.metrics()["tidings_ingest_bytes"]

    body = b"a" * 700000
    held = broker.connect()
    headers = {"content_type": "text/xml", "link": BOTH}
    held.send(held.request_bytes("/hub", "POST", body, **headers)[:-1])
    wait_for("memory to be taken", lambda: taken() >= len(body) - 1)  # of 1 MiB
    answer = notify(broker, body=body)
    check_refused(answer, 503, "too much is being posted")
    assert answer["Retry-After"]

    held.abort()
    wait_for("memory to be given back", lambda: taken() == 0)
    check_refused(notify(broker, body=body), 403, "http://example.org/t")
    wait_for("memory to be given back", lambda: taken() == 0)


# W-122: a ping names a topic.
def test_a_ping_names_a_topic(news):
    for form in ("", "&hub.url=", "&hub.url=nonsense"):
        check_refused(ask(news, f"hub.mode=publish{form}"), 400, "hub.url")
    # One of our own: there is nothing to be fetched.
    answer = ask(news, "hub.mode=publish&hub.topic=TOPIC")
    assert (answer.status, answer.body) == (204, b"")
