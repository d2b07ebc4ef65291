"""The hub asks each callback back, and subscribes only one that confirms."""

import urllib.parse

import pytest

from tidings_test import callbacks as cb
from tidings_test import hub
from tidings_test.http import FORM

pytestmark = pytest.mark.broker(*hub.QUICK)

CHALLENGE_MIN = 32  # hex digits of 128 bits
TRIES_MAX = 3  # of one verification (W-056)


def filled_in(form, news, callback):
    """A form with TOPIC, CALLBACK, and UNKNOWN: a topic of ours that is not there."""
    unknown = f"{news.broker.url}/sets/unknown/notifications"
    words = {"TOPIC": news.topic, "CALLBACK": callback.url, "UNKNOWN": unknown}
    for word, value in words.items():
        form = form.replace(word, urllib.parse.quote(value, safe=""))
    return form


def check_nobody_called(news, callbacks, callback):
    """The hub kept no request, and did not call the callback."""
    assert not hub.subscriptions(news)
    hub.fence(news, callbacks.join(news))
    assert not len(callback.verifications)


# W-031, R-298: at once, for any result.
def test_a_request_is_answered_before_it_is_verified(news, callbacks):
    one = callbacks.add()
    one.hold()
    hub.check_taken(hub.subscribe(news, one))
    one.verifications.wait(1)
    one.release()
    hub.wait_active(news, one)


# W-050, W-053, W-054, W-070, R-299; W-162: nothing of ours goes with it.
def test_the_callback_is_asked_with_a_challenge(news, callbacks):
    one = callbacks.add()
    challenges = set()
    for mode in ["subscribe", "subscribe", "subscribe", "unsubscribe"]:
        hub.check_taken(hub.request(mode, news, one))
        asked = one.verifications.next()
        assert cb.parameter(asked, "hub.mode") == mode
        assert cb.parameter(asked, "hub.topic") == news.topic
        if mode == "subscribe":
            assert cb.parameter(asked, "hub.lease_seconds") == "864000"
        assert asked.body == b""
        assert asked["Authorization"] is asked["Cookie"] is None
        challenges.add(cb.parameter(asked, "hub.challenge"))
        (hub.wait_active if mode == "subscribe" else hub.wait_gone)(news, one)
    assert len(challenges) == 4
    assert all(len(challenge) >= CHALLENGE_MIN for challenge in challenges)


# W-026, W-034, W-051, W-052, R-299: byte for byte; a stray would say so.
def test_what_a_callback_s_url_has_of_its_own_is_kept(news, callbacks):
    targets = [
        "/cb/1",
        "/cb/2?",
        "/cb/2?a=b",
        "/cb/3?a=b&",
        "/cb/3?hub.mode=denied&hub.challenge=mine&hub.topic=",
        "/cb/%7e/%7E/~?x=%7E+%20&y&&z=%2526;=",
        "/cb//../a/./b?(a)=1&b='2'!$*,@:/?",
        "/?//cb",
    ]
    each = [callbacks.add(target) for target in targets]
    for one in each:
        hub.check_taken(hub.subscribe(news, one))
    for one in each:
        assert cb.parameter(one.verifications.wait(1), "hub.mode") == "subscribe"
        hub.wait_active(news, one)
    news.post()
    for one in each:
        assert one.deliveries.wait(1).target == one.target
    assert len(hub.subscriptions(news)) == len(targets)


SUBSCRIBE = "hub.mode=subscribe&"
TO_CALLBACK = "&hub.callback=CALLBACK"
GOOD = f"{SUBSCRIBE}hub.topic=TOPIC{TO_CALLBACK}"
CALL = f"{SUBSCRIBE}hub.topic=TOPIC&hub.callback="
ABOUT = f"{SUBSCRIBE}hub.callback=CALLBACK&hub.topic="

BAD = [
    (400, "hub.mode", "", [
        "",
        "hub.topic=TOPIC" + TO_CALLBACK,
        "hub.mode=&hub.topic=TOPIC" + TO_CALLBACK,
        "hub.mode=subscribes&hub.topic=TOPIC" + TO_CALLBACK,
        "hub.mode=denied&hub.topic=TOPIC" + TO_CALLBACK,
        GOOD + "&hub.mode=unsubscribe",
    ]),
    (400, "hub.topic", "", [
        SUBSCRIBE + TO_CALLBACK,
        SUBSCRIBE + "hub.topic=" + TO_CALLBACK,
    ]),
    (400, "hub.callback", "", [
        SUBSCRIBE + "hub.topic=TOPIC",
        GOOD + "&hub.callback=http://127.0.0.2/other",
        "hub.mode=unsubscribe&hub.topic=TOPIC",
    ]),
    (400, "hub.callback", CALL, [
        "",
        "/cb/1",
        "127.0.0.2/cb/1",
        "ftp://127.0.0.2/cb/1",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "http:///cb/1",
        "http://",
        "http://me@127.0.0.2/cb/1",
        "http://me:it@127.0.0.2/cb/1",
        "http://127.0.0.2:0/cb/1",
        "http://127.0.0.2:65536/cb/1",
        "http://127.0.0.2:8x/cb/1",
        "http://127.0.0.2/cb/1%23fragment",
        "http://127.0.0.2/cb%201",
        "http://127.0.0.2/cb%0d%0aX-Injected:%20yes",
        "http://127.0.0.2/cb%7f",
    ]),
    (400, "", CALL, [
        "http://127.0.0.2/cb%00/1",
        "http://127.0.0.2/%ff",
        "http://127.0.0.2/%zz",
        "http://127.0.0.2/%2",
    ]),
    (400, "hub.topic", ABOUT, [
        "notifications",
        "urn:example:topic",
        "http://127.0.0.1/a%0ab",
    ]),
    (404, "", ABOUT, [
        "UNKNOWN",
        "http://example.com/sets/news/notifications",
    ]),
    (404, "", "", ["hub.mode=unsubscribe&hub.topic=UNKNOWN" + TO_CALLBACK]),
    (422, "hub.secret", GOOD + "&hub.secret=", ["abcd" * 50, "%C3%A9" * 100]),
    (400, "hub.lease_seconds", GOOD + "&hub.lease_seconds=", [
        "0", "-1", "1.5", "1e3", "ten", "0x10",
    ]),
    (400, "", GOOD, ["&a=b" * 50 + "&c=d" * 10 + "&e=f" * 10]),
]  # fmt: skip


# W-021, W-022, W-023, W-024, W-026, W-027, W-028, W-032, W-044, W-163, W-165, R-298
def test_a_bad_request_is_refused_and_says_why(news, callbacks, broker):
    one = callbacks.add()
    for status, part, beginning, forms in BAD:
        for form in forms:
            answer = hub.send(broker, filled_in(beginning + form, news, one))
            hub.check_refused(answer, status, part)
    check_nobody_called(news, callbacks, one)


# W-038
def test_what_is_no_form_is_refused_too(news, callbacks, broker):
    one = callbacks.add()
    form = filled_in(GOOD, news, one)
    for type in ("text/plain", "multipart/form-data; boundary=x"):
        hub.check_refused(broker.post("/hub", form, type), 415, "")
    answer = broker.get("/hub")
    assert "POST" in answer["Allow"]
    for answer in (answer, broker.put("/hub", b"x"), broker.delete("/hub")):
        hub.check_refused(answer, 405, "POST")
    large = broker.post("/hub", f"{form}&padding={'x' * 100000}", FORM)
    hub.check_refused(large, 413, "")
    for chunk, status, part in (
        (f"4001\r\n{'x' * 0x4001}\r\n", 413, "at most 16384 bytes"),
        ("x\r\n", 400, "chunk"),
    ):
        with broker.connect() as connection:
            chunked = {"content_type": FORM, "transfer_encoding": "chunked"}
            connection.ask("/hub", "POST", **chunked)
            connection.send(chunk)
            hub.check_refused(connection.answer(), status, part)
    check_nobody_called(news, callbacks, one)


# W-023, W-025, W-026, W-050, R-298: good though odd.
def test_what_is_good_is_taken(news, callbacks, broker):
    forms = [
        GOOD + "&foo=bar&hub.foo=bar&=&a",
        GOOD + "&hub.secret=" + "s" * 199,
        GOOD + "&hub.secret=a" + "%C3%A9" * 99,
        GOOD + "&hub.secret=",
        GOOD + "&hub.lease_seconds=99999999999999999999999999",
        GOOD + "&hub.mode=subscribe",
        "hub.callback=CALLBACK&hub.topic=TOPIC&%68ub.mode=%73ubscribe",
    ]
    each = [callbacks.add(f"/cb?%2B={i}") for i in range(len(forms))]
    for one, form in zip(each, forms):
        hub.check_taken(hub.send(broker, filled_in(form, news, one)))
        hub.wait_active(news, one)
    news.post()
    for one in each:
        one.wait_last(1)
    # W-024: the lease of an unsubscription is nobody's business.
    hub.check_taken(hub.unsubscribe(news, each[0], lease="forever"))
    hub.wait_gone(news, each[0])


# W-026, W-050: the hub compares the meaning, and repeats the given spelling.
def test_a_topic_may_be_spelt_in_several_ways(news, callbacks, broker):
    one = callbacks.add()
    name = f"%{ord(news.name[0]):02x}{news.name[1:]}"
    topic = f"HTTP{broker.url[4:]}/sets/{name}/n%6Ftifications"
    hub.check_taken(hub.subscribe(hub.Topic(news, topic), one))
    assert cb.parameter(one.verifications.wait(1), "hub.topic") == topic
    hub.wait_active(news, one)

    # It is the same subscription.
    hub.join(news, one)
    one.verifications.wait(2)
    hub.wait_count(news, 1)


# W-070, W-071, W-024, R-300
def test_a_lease_has_its_limits(news, callbacks):
    one = callbacks.add()
    for wish, granted in [
        (1, 300),
        (300, 300),
        (301, 301),
        (86400, 86400),
        (2678400, 2678400),
        (2678401, 2678400),
        (None, 864000),
        (315360000, 2678400),
        (18446744073709551615, 2678400),
        (99999999999999999999999, 2678400),
    ]:
        hub.check_taken(hub.subscribe(news, one, lease=wish))
        asked = one.verifications.next()
        assert cb.parameter(asked, "hub.lease_seconds") == str(granted)


# W-055: any 2xx, and exactly the challenge.
def test_every_2xx_with_the_challenge_confirms(news, callbacks):
    for status in (200, 201, 202, 203, 226, 299):
        one = callbacks.add()
        one.always(status, of="verification")
        hub.join(news, one)


def check_unconfirmed(news, fence, each, tries):
    """The hub asked each, at most so often, and subscribed none."""
    for one in each:
        one.verifications.wait(1)
        hub.wait_gone(news, one)
        assert len(one.verifications) <= tries
    hub.fence(news, fence)
    assert len(hub.subscriptions(news)) == 1
    assert not any(len(one.deliveries) for one in each)


def keep_connections(news, callbacks, n):
    """Make the hub keep `n` connections to the callbacks' host, and leave no
    subscription."""
    held = [cb.Held(404) for _ in range(n)]
    each = [callbacks.add() for _ in held]
    for one, behaviour in zip(each, held):
        one.always(behaviour, of="verification")
        hub.check_taken(hub.subscribe(news, one))
    for one in each:
        one.verifications.wait(1)
    for behaviour in held:
        behaviour.release()
    for one in each:
        hub.wait_gone(news, one)


# W-055, W-056, W-057, R-299
def test_another_answer_does_not_confirm(news, callbacks):
    elsewhere = callbacks.add()
    fence = callbacks.join(news)
    location = f"Location: {elsewhere.url}\r\n"
    each = []
    for behaviour in [
        cb.answer(behind="\n"),
        cb.answer(body=""),
        cb.answer(body="subscribe"),
        *(cb.answer(status, location) for status in (301, 302, 303, 304, 307, 308)),
        *(204, 400, 404, 410, 500),
        cb.answer(503, "Retry-After: 1\r\n"),
    ]:
        each.append(callbacks.add(f"/cb/{len(each)}?a=b"))
        each[-1].always(behaviour, of="verification")
        hub.check_taken(hub.subscribe(news, each[-1]))
    check_unconfirmed(news, fence, each, tries=1)
    assert not len(elsewhere.verifications)


# W-055, W-056, W-057, R-299: the hub tries a few times after a failure that the network
# may have caused, also if it keeps connections to the callback's host, and they close.
@pytest.mark.broker(*hub.QUICK, "--hub-timeout", "0.5")
def test_who_does_not_answer_does_not_confirm(news, callbacks):
    fence = callbacks.join(news)
    keep_connections(news, callbacks, 4)
    each = []
    for behaviour in [
        cb.reset,
        cb.close,
        cb.hang,
        cb.trickle(pause=0.1),
        cb.reset_middle,
        cb.close_middle,
        cb.garbage,
        cb.endless_body,
        cb.endless_head,
    ]:
        each.append(callbacks.add(f"/cb/{len(each)}?a=b"))
        each[-1].always(behaviour, of="verification")
        hub.check_taken(hub.subscribe(news, each[-1]))
    check_unconfirmed(news, fence, each, tries=TRIES_MAX)


# W-057: they hang as long as the test lasts.
@pytest.mark.broker(
    *hub.QUICK, "--hub-timeout", "600", "--hub-host-connections", "120"
)
def test_a_callback_that_hangs_delays_nobody(news, callbacks, start_callbacks):
    sick = start_callbacks("127.0.0.3")
    hanging = [sick.add() for _ in range(30)]
    for one in hanging:
        one.always(cb.hang, of="verification")
        hub.check_taken(hub.subscribe(news, one))
    for one in hanging:
        one.verifications.wait(1)
    hub.fence(news, callbacks.join(news))
    assert [len(one.verifications) for one in hanging] == [1] * 30


# W-164: the hub asks requests above the limit of a host to come later, and nobody else
# notices.
@pytest.mark.broker(*hub.QUICK, "--hub-timeout", "600")
def test_a_flood_of_requests_is_told_to_wait(news, callbacks, start_callbacks):
    fence = callbacks.join(news)
    flooded = start_callbacks("127.0.0.3")
    taken, status = -1, 202
    while status == 202 and taken < 5000:
        taken += 1
        one = flooded.add()
        one.always(cb.hang, of="verification")
        answer = hub.subscribe(news, one)
        status = answer.status
    hub.check_refused(answer, 429, "")
    assert taken >= 1

    hub.fence(news, fence)
    hub.fence(news, callbacks.join(news))


# W-165: the broker serves others while a form does not come.
def test_a_form_that_does_not_come_is_not_waited_for(news, callbacks, broker):
    with broker.start_post("/hub", FORM, "hub.mode="):
        hub.fence(news, callbacks.join(news))
