"""Whichever way changes come, they are the same."""

from tidings_test.mqtt import Reader

SIZES = [1, 1, 7, 40, 1, 300, 2]


# the same payload, order and intervals by WebSocket in both forms, as
# server-sent events, by WebSub, and by MQTT in both forms and versions; and they are
# those of the Change Lists.
def test_all_ways_have_the_same_history(start_bridge, mosquitto, callbacks):
    hearer = mosquitto.hear("#")
    broker = start_bridge(
        mosquitto,
        *("[mqtt json]", "out = *", "prefix = json"),
        *("[mqtt xml]", "out = *", "prefix = xml", "form = xml"),
        *("[mqtt old]", "out = *", "prefix = old", "form = xml"),
        *("version = 3.1.1", "qos = 2"),
        options=("--rotate-entries", "500"),
    )
    news = broker.set("news").create()
    callback = callbacks.join(news)
    followers = [
        news.websocket("after=0"),
        news.websocket("after=0", form="xml"),
        news.events("after=0"),
    ]
    readers = [
        Reader(hearer, "json/news/notifications"),
        Reader(hearer, "xml/news/notifications", "xml"),
        Reader(hearer, "old/news/notifications", "xml", is_311=True),
    ]
    for i in range(120):
        news.post(SIZES[i % len(SIZES)])
        if i % 10 == 9:
            for follower in followers:
                follower.until(news.posted)
    callback.wait_last(news.posted)
    for reader in readers:
        reader.until(news.posted)

    history = news.changelists().read().history
    assert history.last == news.posted
    history.check_same(callback.history())
    for one in (*followers, *readers):
        history.check_same(one.history)
    for reader in readers[1:]:
        assert reader.history.digests[news.posted] == history.digests[news.posted]
