"""The last attempts of a subscription, tests, and deliveries again: what a subscriber
sees of a callback that fails, and what the broker never shows."""

import json

import pytest

from tidings_test import hub
from tidings_test.callbacks import Held, answer, check_signature, close, endless_body
from tidings_test.documents import Document
from tidings_test.http import FORM, check_refused
from tidings_test.waiting import wait_for

SLOW = ("--hub-retry-first", "3600", "--hub-retry-max", "3600")


def path_of(news, callback):
    return f"{news.path}/subscriptions/{hub.wait_active(news, callback)['id']}"


def attempts(news, callback):
    """Its last attempts, the newest first."""
    listed = news.broker.get(f"{path_of(news, callback)}/attempts")
    assert (listed.status, listed["Cache-Control"]) == (200, "no-cache")
    return listed.json()["attempts"]


def wait_attempts(news, callback, n):
    return wait_for(
        f"{n} attempts", lambda: (a := attempts(news, callback)) and len(a) == n and a
    )


def send(news, callback, action):
    """Ask for a test, or a delivery again; the attempt."""
    done = news.broker.post(f"{path_of(news, callback)}/{action}")
    assert done.status == 200, done
    return done.json()


# What a callback answers, and the row that shows it. The text of a stranger is shown as
# text: U+FFFD stands for what no page and no terminal should get.
ANSWERS = [
    (answer(200, body="thanks"), "thanks", False),
    (answer(500, body='<h1 class="a">No</h1>\r\n'), '<h1 class="a">No</h1>  ', False),
    (answer(503, "Retry-After: 7000\r\n", body=""), None, False),
    (answer(302, body="\x1b[2J\x00\x7f\t"), "\ufffd[2J\ufffd\ufffd ", False),
    (answer(400, body="\u009b\u00e4" * 90), "\ufffd\u00e4" * 50, True),
    (answer(404, body="\u00e9" * 99 + "x" + "\u20ac"), "\u00e9" * 99 + "x", True),
    (answer(404, body="x" * 200), "x" * 200, False),
    (endless_body, "X-Filler", True),
]


@pytest.mark.broker(*SLOW)
@pytest.mark.parametrize("behaviour, text, is_cut", ANSWERS)
def test_an_attempt_has_what_the_callback_answered(news, callbacks, behaviour, text, is_cut):
    one = callbacks.join(news)
    one.next(behaviour)
    news.post(3)
    (row,) = wait_attempts(news, one, 1)
    is_good = row["status"] == 200
    assert row["status"] in (200, 302, 400, 404, 500, 503)
    assert row["outcome"] == ("delivered" if is_good else "failed")
    assert (row.get("answer") or "").startswith(text or "")
    assert text is None or behaviour is endless_body or row["answer"] == text
    assert row.get("answerCut", False) == is_cut
    assert (row["kind"], row["first"], row["last"], row["entries"]) == ("delivery", 1, 3, 3)
    assert row["delivery"] == one.deliveries.wait(1).id
    assert row["ms"] >= 0 and row["try"] == 1
    assert ("nextTry" in row) != is_good


# Without an answer there is the reason.
@pytest.mark.broker(*SLOW)
def test_an_attempt_without_an_answer_has_its_reason(news, callbacks):
    one = callbacks.join(news)
    one.always(close)
    news.post()
    (row,) = wait_attempts(news, one, 1)
    assert row["outcome"] == "failed"
    assert row["error"] == hub.find(news, one)["lastError"]
    assert "status" not in row and "answer" not in row


@pytest.mark.broker(*hub.QUICK, "--hub-give-up", "0.3")
def test_tries_of_a_delivery_are_counted(news, callbacks):
    one = callbacks.join(news)
    one.always(500)
    news.post()
    hub.wait(news, one, "skipped", lambda s: s["skipped"] == 1)
    rows = attempts(news, one)
    assert [row["try"] for row in rows] == list(range(len(rows), 0, -1))
    assert len({row["delivery"] for row in rows}) == 1
    assert [row["outcome"] for row in rows] == ["skipped"] + ["failed"] * (len(rows) - 1)
    assert ["nextTry" in row for row in rows] == [False] + [True] * (len(rows) - 1)


def test_fifty_attempts_are_kept(news, callbacks):
    one = callbacks.join(news)
    for n in range(1, 54):
        one.wait_last(news.post().last)
        hub.wait_head(news, one)
    rows = attempts(news, one)
    assert [row["last"] for row in rows] == list(range(53, 3, -1))
    report = news.broker.get(f"{path_of(news, one)}/attempts").json()
    assert report["since"] == rows[-1]["time"]


# They are in memory: a restart begins anew, and says since when.
def test_a_restart_says_since_when(start_broker, callbacks):
    broker = start_broker()
    news = broker.set("news").create()
    one = callbacks.join(news)
    one.wait_last(news.post().last)
    before = wait_attempts(news, one, 1)[0]["time"]
    broker.stop()
    broker.restart()
    report = broker.get(f"{path_of(news, one)}/attempts").json()
    assert report["attempts"] == [] and report["since"] > before


# With a filter an attempt covers more entries than it has.
def test_an_attempt_counts_the_entries_that_pass(news, callbacks):
    one = callbacks.join(news, change="deleted")
    two = callbacks.join(news)
    news.post_change("http://example.com/a", change="created")
    news.post_change("http://example.com/a", change="deleted")
    two.wait_last(2)
    one.wait_last(2)
    (row,) = wait_attempts(news, one, 1)
    assert (row["entries"], row["last"]) == (1, 2)


# Tests


@pytest.mark.broker(*SLOW)
def test_a_test_is_an_empty_message_with_a_mark(news, callbacks, broker):
    one = callbacks.join(news, secret="s3cr3t")
    one.wait_last(news.post(4).last)
    hub.wait_head(news, one)
    before = hub.find(news, one)
    one.next(answer(202, body="got it"))
    row = send(news, one, "test")
    assert (row["kind"], row["status"], row["outcome"]) == ("test", 202, "delivered")
    assert (row["answer"], row["entries"]) == ("got it", 0)
    test = one.deliveries.wait(2)
    assert test["Tidings-Test"] == "1" and one.deliveries[0]["Tidings-Test"] is None
    assert test.id == row["delivery"] != one.deliveries[0].id
    check_signature(test, "s3cr3t")
    document = Document(test.body)
    assert (test.after, test.last, document.entries) == (4, 4, [])
    # Nothing else has changed, not even after a failure or 410.
    for status in (500, 410):
        one.next(status)
        assert send(news, one, "test")["outcome"] == "failed"
    assert hub.find(news, one) == before
    assert [row["kind"] for row in attempts(news, one)] == ["test"] * 3 + ["delivery"]
    assert one.denials[:] == []


# In each form a receiver gets what its parser takes.
@pytest.mark.parametrize("form", ["xml", "json", "cloudevents", "cloudevent"])
def test_a_test_has_the_form_of_the_subscription(news, callbacks, form):
    news.post(2)
    one = callbacks.join(news, form=form)
    send(news, one, "test")
    body = one.deliveries.wait(1).body
    if form == "xml":
        assert Document(body).entries == []
        return
    message = json.loads(body)
    if form == "json":
        assert (message["changes"], message["after"], message["last"]) == ([], 2, 2)
    elif form == "cloudevents":
        assert message == []
    else:
        assert message["type"] == "org.resourcesync.heartbeat"
        assert message["source"] == news.url and message["specversion"] == "1.0"


def test_tests_have_a_pace(news, callbacks, broker, background):
    one = callbacks.join(news)
    path = path_of(news, one)
    held = Held()
    one.next(held)
    testing = background(broker.client().post, f"{path}/test")
    one.deliveries.wait(1)
    check_refused(broker.post(f"{path}/test"), 429, "under way")
    held.release()
    assert testing.join().status == 200
    while broker.post(f"{path}/test").status == 200:
        pass
    check_refused(broker.post(f"{path}/test"), 429, "one test or repeat a second")
    assert 10 <= len(one.deliveries) < 20


# No test, and no repeat, to a callback that has not confirmed.
def test_only_an_active_subscription_gets_a_test(news, callbacks, broker):
    one = callbacks.add()
    held = Held()
    one.next(held, of="verification")
    hub.check_taken(hub.subscribe(news, one))
    one.verifications.wait(1)
    path = f"{news.path}/subscriptions/{hub.wait_pending(news, one)['id']}"
    check_refused(broker.post(f"{path}/test"), 422, "not active")
    check_refused(broker.post(f"{path}/attempts?delivery=x"), 422, "not active")
    assert broker.get(f"{path}/attempts").json()["attempts"] == []
    held.release()
    hub.wait_active(news, one)
    assert not len(one.deliveries)


# It ends while its test is under way.
def test_a_test_ends_with_its_subscription(news, callbacks, broker, background):
    one = callbacks.join(news)
    path = path_of(news, one)
    one.next(Held())
    testing = background(broker.client().post, f"{path}/test")
    one.deliveries.wait(1)
    assert broker.delete(path).status == 204
    check_refused(testing.join(), 503, "has ended")


def test_a_broker_stops_while_it_tests(start_broker, callbacks, background):
    broker = start_broker()
    news = broker.set("news").create()
    one = callbacks.join(news)
    one.next(Held())
    testing = background(broker.client().post, f"{path_of(news, one)}/test")
    one.deliveries.wait(1)
    broker.stop()
    check_refused(testing.join(), 503, "or the hub")


# Again


@pytest.mark.broker(*SLOW)
def test_a_delivery_is_sent_again(news, callbacks, broker):
    one = callbacks.join(news)
    for _ in range(3):
        one.wait_last(news.post(2).last)
        hub.wait_head(news, one)
    before = hub.find(news, one)
    first = one.deliveries[0]
    row = send(news, one, f"attempts?delivery={first.id}")
    assert (row["kind"], row["first"], row["last"]) == ("again", 1, 2)
    again = one.deliveries.wait(4)
    assert again.body == first.body and again.id != first.id
    assert hub.find(news, one) == before
    # A repeat of the repeat, too; and a test has nothing to repeat.
    assert send(news, one, f"attempts?delivery={again.id}")["last"] == 2
    test = send(news, one, "test")["delivery"]
    path = f"{path_of(news, one)}/attempts"
    check_refused(broker.post(f"{path}?delivery={test}"), 422, "a test")
    check_refused(broker.post(f"{path}?delivery=x"), 404, "x")
    check_refused(broker.post(path), 400, "delivery is missing")
    # A callback takes both for faults.
    assert all("goes back" in fault for fault in one.faults)
    one.faults.clear()


# A trusted callback has never confirmed: it may be any address that somebody named. The
# broker reads for nobody what is there.
@pytest.mark.broker("--hub-trust-simple")
def test_the_answer_of_a_trusted_callback_is_not_shown(news, callbacks, broker):
    one = callbacks.add()
    one.always(answer(200, body="internal"))
    form = f"callbackURI={one.url}"
    hub.check_taken(broker.post(f"{news.path}/subscribe", form, FORM))
    one.wait_last(news.post().last)
    (row,) = wait_attempts(news, one, 1)
    assert row["status"] == 200 and "answer" not in row
    assert "answer" not in send(news, one, "test")
