"""Readers that were away: stopped, or cut off by the broker's end, all at once."""

import signal

import pytest

from tidings_test.soak import soak

SUBSCRIBERS = soak(30, 500)
FORMS = ("json", "xml")


# all clients come back at once, each with a position of its own, some far
# behind; none misses a change or gets one twice. Their changes are no longer in memory,
# and partly in closed lists.
@pytest.mark.parametrize("ending", ["kill", "stop"])
def test_all_come_back_at_once_after_a_restart(start_broker, ending):
    broker = start_broker("--heartbeat", "3600", "--rotate-entries", "150")
    news = broker.set()
    epoch = news.post().epoch
    followers = [
        news.websocket("after=0", FORMS[i % 2]).until(1) for i in range(SUBSCRIBERS)
    ]
    # Of every ten, one less goes on each time.
    for step in range(10):
        last = news.post(30, size=500).last
        for i, follower in enumerate(followers):
            if i % 10 >= step:
                follower.until(last)
    getattr(broker, ending)()
    broker.restart()
    last = news.post(40, size=500).last
    again = []
    for follower in followers:
        position = f"{epoch}-{follower.message.last}"
        again.append(news.websocket(f"after={position}", follower.form))
        again[-1].history = follower.history
        again[-1].message = follower.message  # which the first one has to follow
    for follower in again:
        follower.until(last)
        assert follower.history.repeats == 0

    # All clients got exactly the entries of the lists.
    lists = news.changelists().read()
    assert lists.history.last == last
    for follower in again:
        assert follower.history.after == 0
        lists.history.check_same(follower.history)
        if follower.form == "xml":  # of which the digest has each byte
            assert follower.history.digests[last] == lists.history.digests[last]


# a process that was stopped, and goes on, gets everything; nobody waits for it
# meanwhile.
def test_a_reader_that_was_stopped_gets_everything(news, start):
    news.post()
    follows = ("tidings", "follow", news.url, "--from-start", "--format", "text")
    reader = start(*follows)
    assert reader.out.wait(1).startswith("1 ")
    reader.halt()
    for _ in range(8):  # more than all buffers between broker and reader take
        last = news.post(100, size=12000).last
    reader.go_on()
    reader.out.wait(last)
    for seq, line in enumerate(reader.out, 1):
        assert line.startswith(f"{seq} ")
        assert f" created http://example.com/r/{seq}" in line
    reader.signal(signal.SIGTERM)
    assert reader.wait() == 0
    assert len(reader.out) == last
