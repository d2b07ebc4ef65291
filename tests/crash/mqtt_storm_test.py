"""Changes go through a bridge, while Mosquitto is restarted again and again, and the
broker is killed: every one arrives, in order, and none twice for a receiver that can
recognize repeats."""

import json

from tidings_test.http import ConnectionEnded
from tidings_test.mqtt import QUICK, Reader, half
from tidings_test.sets import change, entries
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

ENTRIES = soak(6000, 100000)  # in all
EACH = ENTRIES // 2  # of a set outwards, of a publisher inwards
ROUNDS = soak(3, 10)
POST = 100  # entries of a post
MESSAGE = 50  # changes of a message


def rage(mosquitto, broker, progress):
    """Restart the one, kill the other, in turns and every third time both at once. The
    moments are evenly spread over all entries, of which progress() got through."""

    def wait_part(part):
        least = part * ENTRIES // (2 * ROUNDS + 1)
        wait_for(f"{least} entries", lambda: progress() >= least)

    def kill():
        broker.kill()
        broker.restart()

    for i in range(ROUNDS):
        wait_part(2 * i + 1)
        mosquitto.stop()
        if i % 3 == 2:
            kill()
        mosquitto.restart()
        wait_part(2 * i + 2)
        if i % 3 != 2:
            kill()


def post_all(client, news, posted):
    """Post all entries to a set, in order, each post until it is answered."""

    def is_posted():
        try:
            answer = client.post(news.changes, body, idempotency_key=key)
        except (ConnectionEnded, ConnectionError):
            return False
        assert answer.status in (200, 503), answer  # 503: it is ending
        return answer.status == 200

    for first in range(1, EACH + 1, POST):
        body = entries(POST, first)
        key = f"{news.name}-{first}"
        wait_for("an answer", is_posted)
        posted[news.name] += POST


# A repeat is the same message once more, with the same ends: the Reader sees to that,
# and to the digests.
def test_every_change_goes_out_through_the_storm(start_bridge, mosquitto, background):
    topics = "a/+/notifications"
    hearer = mosquitto.hear(topics, client_id="hearer", keeps_session=True)
    keys = ("out = left,right", "form = xml", "packet-bytes = 16K", QUICK)
    broker = start_bridge(mosquitto, *keys)
    sets = [broker.set("left"), broker.set("right")]
    posted = {each.name: 0 for each in sets}
    posting = [background(post_all, broker.client(), each, posted) for each in sets]
    rage(mosquitto, broker, lambda: sum(posted.values()))
    for one in posting:
        one.join()

    locs = [entry["loc"] for entry in entries(EACH)]
    for each in sets:
        reader = Reader(hearer, f"a/{each.name}/notifications", "xml")
        reader.until(EACH)
        assert reader.history.digests[EACH]
        assert reader.history.locs() == locs
    assert half(broker, "out")["leftOut"] == 0


# The messages have keys of all three kinds.
def test_every_change_comes_in_through_the_storm_and_none_twice(
    start_bridge, mosquitto
):
    broker = start_bridge(mosquitto, "in = feed/+ -> storm", QUICK)
    storm = broker.set("storm")
    mosquitto.wait_subscription("feed/+")
    tellers = [mosquitto.tell(), mosquitto.tell()]
    for m in range(EACH // MESSAGE):
        for who, teller in enumerate(tellers):
            numbers = range(m * MESSAGE, (m + 1) * MESSAGE)
            locs = [f"http://example.com/{who}/{n}" for n in numbers]
            message = {"changes": [change(loc, "updated") for loc in locs]}
            key = f"{who}-{m}"
            more = [{}, {"key": key}, {"correlation": key.encode()}][m % 3]
            if not more:
                message = {"id": key, **message}
            teller.say(f"feed/{who}", json.dumps(message), **more)
    rage(mosquitto, broker, storm.last)
    for teller in tellers:
        teller.wait_said()
    storm.wait_last(ENTRIES)

    # The entries of each publisher are there once, in its order.
    found = storm.changelists().read().history.locs()
    for who in range(2):
        head = f"http://example.com/{who}/"
        numbers = [int(loc[len(head) :]) for loc in found if loc.startswith(head)]
        assert numbers == list(range(EACH))
    assert len(found) == ENTRIES
    assert half(broker, "in")["rejected"] == 0
