"""tidings subscriptions add, attempts, test, redeliver: what somebody types who runs a
callback."""

import json

import pytest

from tidings_test import hub
from tidings_test.callbacks import answer, check_signature, check_webhook
from tidings_test.feed import Feed

pytestmark = pytest.mark.broker(*hub.LOOPBACK, "--hub-retry-first", "3600")


@pytest.fixture
def tidings(run):
    def type_command(verb, of, *words, status=0, **more):
        return run("tidings", "subscriptions", verb, of.url, *words, status=status, **more)

    return type_command


def test_a_callback_is_added(news, callbacks, tidings, tmp_path):
    one = callbacks.add()
    secret = tmp_path / "secret"
    secret.write_text("whsec_c2VjcmV0LWtleQ==\n")
    secret.chmod(0o600)
    done = tidings("add", news, one.url, "--secret-file", secret, "--change", "deleted",
                   "--change", "updated", "--interval", "0.5", "--lease", "600")  # fmt: skip
    known = hub.find(news, one)
    assert done.output() == f"id={known['id']} leaseEnd={known['leaseEnd']}"
    assert known["hasSecret"] and known["interval"] == 0.5
    assert known["filter"] == "change=deleted&change=updated"
    news.post_change("http://example.com/a", kind="created")
    news.post_change("http://example.com/a", kind="deleted")
    delivery = one.deliveries.wait(1)
    check_signature(delivery, "whsec_c2VjcmV0LWtleQ==")
    check_webhook(delivery, "whsec_c2VjcmV0LWtleQ==")
    # Again: a renewal, which the callback confirms, too.
    again = tidings("add", news, one.url, "--json")
    assert json.loads(again.output())["subscriptions"][0]["leaseEnd"] > known["leaseEnd"]
    assert len(one.verifications) == 2 and hub.find(news, one)["id"] == known["id"]


@pytest.mark.parametrize("options, name", [((), "topic"), (("--framework",), "framework_topic")])
def test_the_topic_is_chosen(news, callbacks, tidings, options, name):
    one = callbacks.add()
    tidings("add", news, one.url, *options)
    assert hub.find(news, one)["topic"] == getattr(news, name)


def test_a_relay_has_subscribers_too(broker, site, callbacks, run):
    feed = Feed(broker, site, callbacks).register()
    one = callbacks.add()
    run("tidings", "subscriptions", "add", broker.url + feed.path, one.url)
    feed.accept("a document")
    assert one.deliveries.wait(1).body == b"a document"


def test_a_refusal_is_said(news, callbacks, tidings, broker):
    one = callbacks.add()
    one.always(404, of="verification")
    refused = tidings("add", news, one.url, status=1)
    assert "did not confirm" in refused.errors() and not refused.out[:]
    for words, status, part in [
        ((one.url, "--after", "0000000000000000-1"), 3, "410"),
        ((one.url, "--interval", "x"), 1, "interval"),
        ((one.url + "#a",), 2, "CALLBACK"),
        ((one.url, "--secret-file", "/nonexistent"), 1, "/nonexistent"),
    ]:
        assert part in tidings("add", news, *words, status=status).errors(), words
    # A renewal that is refused is no success, though the old subscription is there.
    joined = callbacks.join(news)
    joined.always(404, of="verification")
    assert "did not confirm" in tidings("add", news, joined.url, status=1).errors()
    assert hub.find(news, joined)["state"] == "active"


def test_a_token_may_not_see_the_outcome(start_broker, callbacks, run):
    broker = start_broker(*hub.LOOPBACK)
    broker.add_token("root", admin=True)
    news = broker.set("news").create()
    reader = broker.add_token("reader", subscribe=["news"])
    one = callbacks.add()
    env = {"TIDINGS_TOKEN": reader}
    done = run("tidings", "subscriptions", "add", news.url, one.url, env=env)
    assert "requested" in done.errors()
    assert hub.wait_active(news, one)["owner"] == "reader"


def test_attempts_are_listed(news, callbacks, tidings):
    one = callbacks.join(news)
    number = str(hub.find(news, one)["id"])
    empty = tidings("attempts", news, number)
    assert "no attempts" in empty.errors() and "since 20" in empty.errors()
    one.next(answer(500, body="down\x1b[2J \u20ac"))
    news.post(3)
    hub.wait(news, one, "failing", lambda s: s["failures"] == 1)
    listed = tidings("attempts", news, number)
    heads, row = listed.out[:]
    assert heads.split()[:4] == ["TIME", "KIND", "ENTRIES", "OUTCOME"]
    assert row.split()[1:5] == ["delivery", "1-3", "failed", "500"]
    assert "down\ufffd[2J \u20ac" in row and one.deliveries.wait(1).id in row
    (as_json,) = tidings("attempts", news, number, "--json").out
    assert json.loads(as_json)["status"] == 500


def test_a_test_and_a_repeat_say_what_came_back(news, callbacks, tidings):
    one = callbacks.join(news)
    number = str(hub.find(news, one)["id"])
    one.wait_last(news.post(2).last)
    hub.wait_head(news, one)
    one.next(answer(201, body="fine"))
    done = tidings("test", news, number)
    assert {"kind test", "status 201", "answer fine"} <= {" ".join(x.split()) for x in done.out}
    one.next(503)
    failed = tidings("test", news, number, "--json", status=1)
    assert json.loads(failed.output())["outcome"] == "failed"
    first = one.deliveries[0]
    tidings("redeliver", news, number, "--delivery", first.id)
    assert one.deliveries.wait(4).body == first.body
    gone = tidings("redeliver", news, number, "--delivery", "x", status=1)
    assert "404" in gone.errors()
    assert "--delivery" in tidings("redeliver", news, number, status=2).errors()
    both = ("--after", "0", "--delivery", first.id)
    assert "--delivery" in tidings("redeliver", news, number, *both, status=2).errors()
    assert "moved" in tidings("redeliver", news, number, "--after", "0").output()
    assert one.deliveries.wait(5).after == 0
    one.faults.clear()  # a callback takes them for faults
