"""Further wishes of a subscriber: filters, a place in the past, an interval; and the
simple subscription of the 2012 draft."""

import json
import urllib.parse

import pytest

from tidings_test import callbacks as cb
from tidings_test import hub, mixture
from tidings_test.documents import Document
from tidings_test.http import FORM

pytestmark = pytest.mark.broker(*hub.QUICK)

IS_DELETED = mixture.FILTERS[0][1]


def parameters(query):
    """A query as parameters of a form: in a query a plus is a plus."""
    return urllib.parse.parse_qs(query.replace("+", "%2B"))


def renew(news, callback, **form):
    n = len(callback.verifications)
    hub.check_taken(hub.subscribe(news, callback, **form))
    hub.settle(news, callback, n + 1)


def post_mixture(news, first, last, callback):
    """Post these, and wait until the hub has delivered those that pass."""
    mixture.post(news, first, last)
    hub.wait_head(news, callback)


def collected(callback):
    """The entries of all its deliveries; each message is valid."""
    entries = []
    for delivery in callback.deliveries:
        message = Document(delivery.body)
        message.check_valid()
        assert message.capability == "change-notification"
        entries += message.entries
    return entries


def seqs(callback):
    return [entry.seq for entry in collected(callback)]


# the same entries, with the same seqs and bytes; a subscriber without a
# matching entry gets no call, but its position is the head.
def test_a_filter_is_a_grep_of_everything(news, callbacks):
    plain = callbacks.join(news)
    filtered = [callbacks.join(news, **parameters(q)) for q, _ in mixture.FILTERS]
    for first, last in [(1, 250), (251, 251), (252, 252), (253, 600), (601, 900)]:
        mixture.post(news, first, last)
    plain.wait_last(900)
    everything = collected(plain)
    assert len(everything) == 900
    for (query, passes), callback in zip(mixture.FILTERS, filtered):
        hub.wait_head(news, callback)
        passed = [entry for entry in everything if passes(entry.seq)]
        assert collected(callback) == passed, query
        assert callback.holes == 0


# the hub repeats filtered changes with the same bytes.
def test_a_filtered_delivery_that_failed_comes_again_the_same(news, callbacks):
    one = callbacks.join(news, change="deleted")
    held = cb.Held(500)
    one.next(held)
    mixture.post(news, 1, 30)
    first = one.deliveries.wait(1)
    mixture.post(news, 31, 60)
    held.release()
    hub.wait_head(news, one)
    assert (one.deliveries[1].id, one.deliveries[1].body) == (first.id, first.body)


# Through archived, closed and open lists, in a process whose memory has none of it: one
# history, whose digests are those of the lists.
def test_who_asks_for_the_past_gets_all_of_it(start_broker, callbacks):
    broker = start_broker(*hub.QUICK, "--rotate-entries", 10, "--index-lists", 3)
    news = broker.set().create()
    callbacks.join(news)
    for _ in range(19):
        news.post(5)
    assert news.get("changelist-archive.xml").status == 200
    broker.kill()
    broker.restart()

    whole = callbacks.join(news, after=0)
    epoch = hub.find(news, whole)["position"][:16]
    whole.wait_last(95)
    part = callbacks.join(news, after=f"{epoch}-37")
    part.wait_last(95)
    news.post(4)
    for one, after in ((whole, 0), (part, 37)):
        one.wait_last(99)
        history = one.history()
        assert (history.after, history.last) == (after, 99)
    assert 99 in whole.history().digests


# W-036: a renewal replaces the filter, with another, or with none.
def test_a_renewal_replaces_the_filter(news, callbacks):
    one = callbacks.join(news, change="deleted")
    post_mixture(news, 1, 30, one)
    one.next(404, of="verification")
    renew(news, one, change="created")  # nobody confirms that
    post_mixture(news, 31, 60, one)
    renew(news, one, change="created")
    post_mixture(news, 61, 90, one)
    renew(news, one)
    post_mixture(news, 91, 120, one)
    deleted = [n for n in range(1, 61) if IS_DELETED(n)]
    created = [n for n in range(61, 91) if mixture.kind(n) == "created"]
    assert seqs(one) == [*deleted, *created, *range(91, 121)]


# A bad renewal is 4xx, at once, and leaves the old one as it was.
def test_a_bad_renewal_changes_nothing(news, callbacks):
    one = callbacks.join(news, change="deleted")
    before = hub.find(news, one)
    for bad, status in [
        ({"change": "renamed"}, 400),
        ({"change": "created", "interval": "-1"}, 400),
        ({"interval": "1e9"}, 400),
        ({"after": "yesterday"}, 400),
        ({"after": "0123456789abcdef-0"}, 410),
        ({"type": ""}, 400),
    ]:
        assert hub.subscribe(news, one, **bad).status == status, bad
    hub.settle(news, one, 1)
    assert len(one.verifications) == 1
    assert hub.find(news, one)["leaseEnd"] == before["leaseEnd"]
    post_mixture(news, 1, 30, one)
    assert seqs(one) == [n for n in range(1, 31) if IS_DELETED(n)]


# Both ways back: a renewal with a place, and the operator's redelivery.
def test_a_subscription_can_be_sent_back(news, callbacks, broker):
    one = callbacks.join(news)
    for _ in range(4):
        one.wait_last(news.post(5).last)
    hub.wait_head(news, one)

    def check_sent_back(after, n):
        again = one.deliveries.wait(n)
        hub.wait_head(news, one)
        assert (again.after, again.last) == (after, 20)
        assert len(one.deliveries) == n

    n = len(one.deliveries)
    renew(news, one, after=7)
    check_sent_back(7, n + 1)
    told = hub.find(news, one)
    path = f"{news.path}/subscriptions/{told['id']}/redeliver"
    answer = broker.post(f"{path}?after={told['position'][:16]}-11")
    assert answer.status // 100 == 2
    check_sent_back(11, n + 2)

    # From there on as ever.
    news.post()
    assert one.deliveries.wait(n + 3).after == 20
    # A callback takes it for a fault.
    assert len(one.faults) == 2 and all("goes back" in fault for fault in one.faults)
    one.faults.clear()


# the changes of an interval go out at its end, together.
def test_an_interval_gathers_changes(news, callbacks):
    one = callbacks.join(news, interval=2)
    news.post()
    first = one.deliveries.wait(1)
    for _ in range(5):
        news.post(2)
    second = one.deliveries.wait(2)
    assert second.at - first.at > 1.9  # it begins a moment before
    assert (second.after, second.last) == (1, 11)


# a renewal replaces it, also during a wait for one.
def test_a_renewal_ends_an_interval(news, callbacks):
    one = callbacks.join(news, interval=86400)
    hub.fence(news, one)
    news.post(3)
    hub.settle(news, one, 1)
    assert len(one.deliveries) == 1
    renew(news, one)
    one.wait_last(4)


def subscribe_simply(news, callback, **form):
    form = urllib.parse.urlencode({"callbackURI": callback.url, **form}, doseq=True)
    hub.check_taken(news.broker.post(f"{news.path}/subscribe", form, FORM))


def check_plain(delivery, full):
    """R-351: the entries of a notification, and nothing to navigate by."""
    plain, links = Document(delivery.body), Document(full.body)
    plain.check_valid()
    assert plain.count("/s:urlset/rs:ln") == 0
    assert links.count("/s:urlset/rs:ln[@rel='up']") == 1  # that has some
    assert (plain.from_, plain.until) == (links.from_, links.until)
    assert (plain.after, plain.last) == (links.after, links.last)
    assert plain.entries == links.entries


# behind verification of intent.
def test_a_simple_subscription_is_verified(news, callbacks):
    full = callbacks.join(news)
    one = callbacks.add("/cb/simple?a=b")
    no = callbacks.add()
    no.always(404, of="verification")
    subscribe_simply(news, no)
    subscribe_simply(news, one, change=["created", "updated"])
    asked = one.verifications.wait(1)
    assert cb.parameter(asked, "hub.mode") == "subscribe"
    assert cb.parameter(asked, "hub.topic") == news.topic
    hub.wait_active(news, one)
    hub.wait_gone(news, no)

    full.wait_last(news.post(3).last)
    one.wait_last(3)
    check_plain(one.deliveries[0], full.deliveries[0])
    assert one.deliveries[0].all("Content-Type") == ["application/xml"]
    assert not len(no.deliveries)


# with an operator's trust the subscription exists with its 202, and the hub
# calls nobody.
@pytest.mark.broker(*hub.QUICK, "--hub-trust-simple")
def test_a_trusted_simple_subscription_is_not_verified(news, callbacks):
    full = callbacks.join(news)
    one = callbacks.add()
    subscribe_simply(news, one, interval=0.1)
    assert hub.find(news, one)["state"] == "active"
    full.wait_last(news.post(3).last)
    one.wait_last(3)
    check_plain(one.deliveries[0], full.deliveries[0])
    assert not len(one.verifications)
    assert len(full.verifications) == 1


FORMS = {
    "xml": "application/xml",
    "json": "application/json",
    "cloudevents": "application/cloudevents-batch+json",
    "cloudevent": "application/cloudevents+json",
}


def collected_json(callback):
    """The bodies of the deliveries that it has accepted."""
    return [json.loads(delivery.body) for delivery in callback.accepted]


# W-081, W-094, W-100, W-106: the same changes in the form that was asked for; signatures
# are those of the bytes that come.
def test_a_subscriber_chooses_the_form(news, callbacks, broker):
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    mixture.post(news, 1, 40)
    asks = {"secret": secret, "after": 0}
    each = {form: callbacks.join(news, form=form, **asks) for form in FORMS}
    for form, one in each.items():
        one.wait_last(40)
        hub.wait_head(news, one)
        assert hub.find(news, one)["form"] == form
        for delivery in one.deliveries:
            assert delivery.all("Content-Type") == [FORMS[form]]
            cb.check_signature(delivery, secret)
            cb.check_webhook(delivery, secret)
            cb.check_links(delivery, news.topic, hub.url(broker))
        assert one.holes == 0

    page = news.get("changes?after=0", accept="application/json").json()
    (message,) = collected_json(each["json"])
    assert message == {name: page[name] for name in page if name != "next"}
    (batch,) = collected_json(each["cloudevents"])
    assert collected_json(each["cloudevent"]) == batch
    assert [event["data"] for event in batch] == page["changes"]
    for event in batch:
        change = event["data"]
        assert {name: event[name] for name in event if name != "data"} == {
            "specversion": "1.0",
            "id": f"{page['epoch']}-{change['seq']}",
            "source": news.url,
            "type": f"org.resourcesync.change.{change['change']}",
            "subject": change["loc"],
            "time": change["datetime"],
            "datacontenttype": "application/json",
        }


# W-094: what came as an event goes out as that event.
def test_an_event_that_came_goes_out_as_it_came(news, callbacks):
    one = callbacks.join(news, form="cloudevent")
    event = {
        "specversion": "1.0",
        "type": "org.example.sold",
        "source": "/shop",
        "id": "7",
        "subject": "a b",
        "time": "2026-11-01T10:00:00.000000Z",
        "partitionkey": "x",
    }
    changes = [{"loc": f"http://a.org/{n}", "change": "updated"} for n in range(3)]
    type = "application/cloudevents+json"
    assert news.send({**event, "data": changes[0]}, type).status == 200
    event["id"] = "8"
    assert news.send({**event, "data": changes}, type).status == 200
    one.wait_last(4)
    delivered = collected_json(one)
    for given, (id, n) in zip(delivered, [("7", 0), ("8", 0), ("8/2", 1), ("8/3", 2)]):
        assert {**event, "id": id}.items() <= given.items()
        assert changes[n].items() <= given["data"].items()


# W-094, R-306, R-349: of a filter, one by one; the same bytes again after a failure and a
# crash.
def test_a_form_has_filters_and_repeats(news, callbacks, broker):
    single = callbacks.join(news, form="cloudevent", change="deleted")
    batch = callbacks.join(news, form="cloudevents", change="deleted")
    for one in (single, batch):
        one.always(503)
    mixture.post(news, 1, 60)
    first = [one.deliveries.wait(1) for one in (single, batch)]
    broker.kill()
    broker.restart()
    for one in (single, batch):
        one.always(None)
        hub.wait_head(news, one)
    for one, before in zip((single, batch), first):
        assert (one.accepted[0].id, one.accepted[0].body) == (before.id, before.body)
    events = [event for events in collected_json(batch) for event in events]
    assert collected_json(single) == events
    seqs_of = [event["data"]["seq"] for event in events]
    assert seqs_of == [n for n in range(1, 61) if IS_DELETED(n)]


# W-036, W-094: the form is a term: a renewal replaces it, when it is verified.
def test_a_renewal_replaces_the_form(news, callbacks):
    one = callbacks.join(news, form="json")
    renew(news, one, form="cloudevents")
    one.next(404, of="verification")
    renew(news, one, form="xml")
    news.post()
    one.wait_last(1)
    renew(news, one)
    news.post()
    one.wait_last(2)
    types = [delivery["Content-Type"] for delivery in one.deliveries]
    assert types == [FORMS["cloudevents"], FORMS["xml"]]


# W-094, R-350: also of a simple subscription, and only of a set's changes.
def test_a_form_is_for_changes_and_known(news, callbacks, broker):
    simple = callbacks.add("/simple")
    form = urllib.parse.urlencode({"callbackURI": simple.url, "form": "json"})
    answer = broker.post(f"{news.path}/subscribe", form, FORM)
    hub.check_taken(answer)
    hub.wait_active(news, simple)
    news.post()
    simple.wait_last(1)
    (message,) = collected_json(simple)
    assert len(message["changes"]) == 1

    nobody = "http://127.0.0.1:1/cb"
    refused = hub.subscribe(hub.framework(news), nobody, form="json")
    hub.check_refused(refused, 422, "form")
    refused = hub.subscribe(news, nobody, form="atom")
    hub.check_refused(refused, 400, "cloudevents")
    refused = hub.subscribe(news, nobody, signature="v1")
    hub.check_refused(refused, 400, "v1a")
