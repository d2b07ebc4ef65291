"""CloudEvents come in, by HTTP and MQTT, in three modes: each event is kept once, and its
attributes with it."""

import json

import pytest

from tidings_test.http import JSON, NDJSON, XML
from tidings_test.mqtt import QUICK, wait_half
from tidings_test.sets import Set
from tidings_test.soak import soak

CE = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
NS = "http://cloudevents.io/xmlformat/V1"
LOC = "http://example.org/1"
CHANGE = {"loc": LOC, "change": "updated"}
TIME = "2026-11-01T10:00:00Z"


def event(id="1", data=CHANGE, **more):
    """An event in structured mode; data None: it has none."""
    attributes = {
        "specversion": "1.0",
        "id": id,
        "source": "/shop",
        "type": "org.example.changed",
        **more,
    }
    if data is not None:
        attributes["data"] = data
    return attributes


def fields(attributes):
    """The same in binary mode: the fields of a request, without the data."""
    return {
        f"ce_{name}": value for name, value in attributes.items() if name != "data"
    }


def kept(news):
    """The changes of the set, as they stand in JSON."""
    return news.broker.get(f"{news.changes}?after=0", accept=JSON).json()["changes"]


def attributes_of(entry):
    """What an entry has of its event."""
    return {a["name"]: a["value"] for a in entry["attributes"] if a["ns"] == NS}


# The same event three times in each mode: it is kept once, and its attributes stand in
# every form.
@pytest.mark.parametrize("way", ["structured", "binary", "batch"])
def test_an_event_is_kept_once(broker, way):
    news = broker.set("news")
    sent = event(subject="item-7", time=TIME, sequence="17")
    if way == "binary":
        post = lambda: news.send(json.dumps(CHANGE), JSON, **fields(sent))
    elif way == "batch":
        post = lambda: news.send(json.dumps([sent]), BATCH)
    else:
        post = lambda: news.send(json.dumps(sent), CE)
    first, *repeats = [post() for _ in range(3)]
    assert first.status == 200, first
    assert first["Idempotent-Replayed"] is None
    for answer in repeats:
        assert answer["Idempotent-Replayed"] == "true"
        assert answer.body == first.body
    (entry,) = kept(news)
    assert (entry["loc"], entry["change"]) == (LOC, "updated")
    assert entry["sourceDatetime"] == TIME
    assert attributes_of(entry) == {
        "id": "1",
        "sequence": "17",
        "source": "/shop",
        "subject": "item-7",
        "type": "org.example.changed",
    }
    lines = broker.get(f"{news.changes}?after=0", accept=XML).text
    assert f'xmlns:ce="{NS}" ce:id="1" ce:sequence="17" ce:source="/shop"' in lines


# The modes are ways of one event.
def test_the_modes_have_the_same_keys(broker):
    news = broker.set("news")
    sent = event(subject="ü 7", time=TIME)
    assert news.send(json.dumps(sent), CE).status == 200
    coded = fields({**sent, "subject": "%C3%BC 7"})
    quoted = fields({**sent, "subject": '"%C3%BC 7"'})
    for headers in coded, quoted:
        answer = news.send(json.dumps(CHANGE), f"{JSON}; charset=utf-8", **headers)
        assert answer["Idempotent-Replayed"] == "true", answer
    answer = news.send(json.dumps([sent, sent]), BATCH)
    assert answer["Idempotent-Replayed"] == "true"
    assert len(kept(news)) == 1


# A batch adds the events that were not there, and says how many were; or nothing, if one
# of them has other contents.
def test_a_batch_adds_what_is_new(broker):
    news = broker.set("news")
    assert news.send(json.dumps(event("1")), CE).status == 200
    batch = [event("1"), event("2"), event("2"), event("3", [CHANGE, CHANGE])]
    answer = news.send(json.dumps(batch), BATCH).json()
    assert (answer["first"], answer["last"], answer["known"]) == (2, 4, 2)
    answer = news.send(json.dumps(batch), BATCH)
    assert answer["Idempotent-Replayed"] == "true"
    assert (answer.json()["first"], answer.json()["last"]) == (1, 4)

    for bad in event("1", type="other"), event("4", [CHANGE, {"loc": LOC}]):
        answer = news.send(json.dumps([event("5"), bad]), BATCH)
        assert (answer.status, answer.json()["entry"]) == (422, 2 + (bad["id"] == "4"))
    answer = news.send(json.dumps([event("5"), event("5", time=TIME)]), BATCH)
    assert (answer.status, answer.json()["entry"]) == (422, 2)
    many = [event(f"m{n}") for n in range(1001)]
    assert news.send(json.dumps(many), BATCH).status == 413
    assert len(kept(news)) == 4
    n = soak(200, 1000)
    assert news.send(json.dumps(many[:n]), BATCH).json()["last"] == 4 + n


# Keys of events are on the disk.
def test_an_event_is_kept_once_over_a_crash(start_broker):
    broker = start_broker()
    news = broker.set("news")
    batch = json.dumps([event("1"), event("2")])
    first = news.send(batch, BATCH)
    broker.kill()
    broker.restart()
    again = news.send(batch, BATCH)
    assert again["Idempotent-Replayed"] == "true"
    assert again.body == first.body
    assert news.last() == 2


# Two tokens can post the same event: it belongs to each.
def test_an_event_belongs_to_its_token(start_broker):
    broker = start_broker()
    broker.add_token("root", admin=True)
    news = Set(broker, "news").create()
    for last, name in (1, "press"), (2, "wire"):
        token = broker.add_token(name, publish=["news"])
        for _ in range(2):
            Set(broker.holder(token), "news").send(json.dumps(event()), CE)
            assert news.last() == last


# Keys of events are apart from plain keys, which win.
def test_keys_of_events_and_of_posts(broker):
    news = broker.set("news")
    text = json.dumps(event())
    for key in "k", "l", "k":
        answer = news.send(text, CE, idempotency_key=key)
        assert answer.status == 200
    assert answer["Idempotent-Replayed"] == "true"
    assert news.send(text, CE)["Idempotent-Replayed"] is None
    assert len(kept(news)) == 3


# Data that is no change makes one of the attributes.
def test_the_event_of_a_stranger(broker):
    news = broker.set("news")
    shop = "http://example.org/shop"
    rows = [
        (event(data={"price": 3.5}, source=shop, subject="a 7", type="x.created"),
         f"{shop}/a%207", "created", {"price": 3.5}),
        (event("2", None, subject=LOC, type="x.deleted.v1"), LOC, "deleted", None),
        (event("3", "text", source=shop), shop, "updated", "text"),
    ]
    for sent, loc, kind, data in rows:
        assert news.send(json.dumps(sent), CE).status == 200
        entry = kept(news)[-1]
        assert (entry["loc"], entry["change"]) == (loc, kind)
        assert entry.get("data") == data
    more = fields(event("4", subject=LOC))
    for type, body, data in (
        ("text/csv", "a,b\r\n", "a,b\r\n"),
        (None, "", None),
        ("application/vnd.shop+json", '{"a":[]}', {"a": []}),
    ):
        more["ce_id"] += "x"
        answer = news.send(body, type, **more)
        assert answer.status == 200, answer
        assert kept(news)[-1].get("data") == data
    assert news.send(f"{json.dumps(CHANGE)}\n", NDJSON, **fields(event("5"))).status == 200
    assert kept(news)[-1]["loc"] == LOC


# A refusal names what is missing.
def test_bad_events_are_refused(broker):
    news = broker.set("news")
    rows = [
        (422, {"data": CHANGE}, "no specversion, id, source, type"),
        (422, event(specversion="0.3"), "specversion"),
        (422, event(data={"a": 1}), "no loc"),
        (422, event(Name="x"), "Name"),
    ]
    for status, sent, words in rows:
        answer = news.send(json.dumps(sent), CE)
        assert answer.status == status
        assert words in answer.json()["detail"]
    for headers, words in (
        ({"ce_id": "1"}, "no specversion, source, type"),
        (fields(event(subject="100%")), "ce-subject"),
        (fields(event(subject="%ff")), "subject: not UTF-8"),
        (fields(event(subject='"a')), "ce-subject"),
    ):
        answer = news.send(json.dumps(CHANGE), JSON, **headers)
        assert answer.status == 422
        assert words in answer.json()["detail"]
    answer = news.send(b"\x89PNG", "image/png", **fields(event(subject=LOC)))
    assert answer.status == 415
    assert "image/png" in answer.json()["detail"]
    form = "application/x-www-form-urlencoded"
    answer = news.send(json.dumps(CHANGE), form, **fields(event()))
    assert answer.status == 415
    assert "-H 'Content-Type: application/json'" in answer.json()["detail"]
    answer = news.send(json.dumps(event()), JSON)
    assert answer.status == 422
    assert CE in answer.json()["detail"]
    assert news.send("x", "multipart/related; boundary=x", ce_id="1").status == 422
    assert broker.get(f"{news.changes}?after=0", accept=JSON).status in (404, 410)


# MQTT: structured and batch in both versions, known by a content type or by the payload;
# in binary mode the attributes are user properties of MQTT 5.
def test_events_come_by_mqtt(mosquitto, start_bridge):
    broker = start_bridge(mosquitto, QUICK, "in = feed -> news")
    mosquitto.wait_subscription("feed")
    news = broker.set("news")
    five, three = mosquitto.tell(), mosquitto.tell(version="3.1.1")
    text = json.dumps(event(subject="item-7"))
    properties = [
        (name, value)
        for name, value in event("2", subject="item-7").items()
        if name != "data"
    ]
    binary = {"more": properties, "type": JSON}
    rows = [
        (five, text, {"type": CE}, 1),
        (three, text, {}, 1),
        (five, f"[{text}]", {"type": BATCH}, 1),
        (three, f"[{text}]", {}, 1),
        (five, json.dumps(CHANGE), binary, 2),
        (five, json.dumps(CHANGE), {"more": properties}, 2),
        (five, json.dumps(CHANGE), {**binary, "key": "k"}, 3),
        (five, json.dumps(CHANGE), {**binary, "key": "k"}, 3),
        (three, json.dumps([event("1", subject="item-7"), event("5")]), {}, 4),
    ]
    for n, (teller, payload, more, last) in enumerate(rows):
        teller.say("feed", payload, **more)
        teller.wait_said()
        wait_half(broker, "in", posted=n + 1)
        assert news.last() == last, (payload, more)
    first, second, *_ = kept(news)
    assert attributes_of(first)["subject"] == attributes_of(second)["subject"]
    assert attributes_of(second)["id"] == "2"

    rejected = mosquitto.hear("tidings/rejected", "a/rejected").messages
    five.say("feed", json.dumps(CHANGE), more=[("specversion", "1.0"), ("id", "1")])
    assert "no source, type" in rejected.next().payload.decode()
    long = [("specversion", "1.0"), *((f"x{n}", "v" * 60000) for n in range(4))]
    five.say("feed", json.dumps(CHANGE), more=long)
    assert "user properties" in rejected.next().payload.decode()
    assert news.last() == 4
