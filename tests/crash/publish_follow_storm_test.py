"""tidings publish --follow is killed again and again, while the file that it follows
grows and is renamed, and the broker is killed: the set has each line once, in order."""

import json

from tidings_test.sets import change
from tidings_test.soak import choices, soak
from tidings_test.waiting import wait_for

KILLS = soak(20, 200)
BROKER_KILLS = soak(3, 30)
RENAMES = soak(4, 40)
LINES = soak(150, 1000)  # between two kills


def all_numbers(news):
    numbers, after = [], 0
    while True:
        page = json.loads(news.get(f"changes?after={after}").body)
        if not page["changes"]:
            return numbers
        numbers += [int(e["loc"].rpartition("/")[2]) for e in page["changes"]]
        after = page["last"]


def test_each_line_is_posted_once_and_in_order(start_broker, start, tmp_path):
    chance = choices()
    broker = start_broker()
    news = broker.set()
    path = tmp_path / "feed"
    publish = ("tidings", "publish", news.url, "--follow", path, "--state", tmp_path)
    # The spool is full now and then.
    publish += ("--spool-bytes", "20K")
    path.touch()
    written = 0
    renames = set(chance.sample(range(1, KILLS), RENAMES))
    broker_kills = set(chance.sample(range(1, KILLS), BROKER_KILLS))
    for i in range(KILLS):
        process = start(*publish)
        if i in renames:
            news.wait_last(written)  # a file that is renamed twice would be refused
            path.rename(tmp_path / f"feed.{i}")
        with open(path, "a", encoding="utf-8") as file:
            for _ in range(LINES):
                written += 1
                file.write(json.dumps(change(f"http://example.com/{written}")) + "\n")
                if chance.random() < 0.1:
                    file.flush()
        # Somewhere in the lines, or before the first one of them.
        seen = written - chance.randrange(LINES + 1)
        if i in broker_kills:
            broker.kill()
            process.kill()
            broker.restart()
        else:
            wait_for(f"line {seen}", lambda seen=seen: news.last() >= seen)
            process.kill()
    process = start(*publish)
    news.wait_last(written)
    process.stop()
    assert all_numbers(news) == list(range(1, written + 1))
