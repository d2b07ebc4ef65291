"""Combinations: removal, settings and retention meet keys, waiting requests, event
streams, arriving posts, documents that are read slowly, archives, times and filters."""

import gzip
import json

import pytest

from tidings_test.http import JSON, XML, Connection, check_refused
from tidings_test.sets import change, entries
from tidings_test.waiting import wait_for

# Removal meets keys


def post_with_key(news, key):
    """Post one entry with a key; the position that comes back."""
    answer = news.send(entries(1), idempotency_key=f'"{key}"')
    return news.receipt(answer).position


def remove(news):
    assert news.delete().status == 204


# A key belongs to the log that its post is in: a repeat after the set was made again is
# a post, also after a restart that finds nothing of the old one.
def test_a_key_of_a_removed_set_is_new_to_the_next_one(start_broker):
    broker = start_broker("--remove-grace", "0")
    news = broker.set()
    before = post_with_key(news, "k")
    for again in range(3):
        remove(news)
        if again:
            wait_for("the set's folder to go", lambda: not news.folder.exists())
            broker.kill()
            broker.restart()
        position = post_with_key(news, "k")
        assert position != before
        assert position.endswith("-1")
        assert post_with_key(news, "k") == position == news.state()["position"]
        before = position


# A post with a key and a removal in one round of the log, in either order: an answered
# post is there, or went with the set as a whole.
def test_a_key_that_waits_behind_a_removal_is_kept_once(broker):
    news = broker.set()
    for i in range(40):
        headers = {"content_type": JSON, "idempotency_key": f'"k{i}"'}
        news.post()
        with broker.connect() as removal, broker.connect() as post:
            if i % 4 != 3:
                removal.ask(news.path, "DELETE")
            post.ask(news.changes, "POST", entries(1), **headers)
            if i % 4 == 3:
                removal.ask(news.path, "DELETE")
            assert removal.answer().status == 204
            told = news.receipt(post.answer()).position
        answer = news.get()
        if answer.status == 410:  # the removal was later
            assert post_with_key(news, f"k{i}") != told
        else:
            assert answer.json()["position"] == told
            assert told.endswith("-1")
            assert post_with_key(news, f"k{i}") == told


# Removal meets those who wait


def ask_all(broker, paths):
    """Send these requests at once; the connections, on which answers will come."""
    waiting = [broker.connect() for _ in paths]
    for connection, path in zip(waiting, paths):
        connection.ask(path)
    return waiting


# Filtered or not, behind a position or a time. Requests that come too late to wait get
# the same status.
def test_requests_that_wait_on_a_removed_set_are_answered(broker):
    news = broker.set()
    queries = (
        "after=3&wait=60",
        "after=0&wait=60&prefix=http://nobody/",
        "since=2100-01-01&wait=60&tag=x",
    )
    news.post(3)
    waiting = ask_all(broker, [f"{news.changes}?{query}" for query in queries])
    broker.wait_threads()
    remove(news)
    for connection in waiting:
        with connection:
            check_refused(connection.answer(), 410, "was removed")

    # There is a set of that name again before they look.
    for _ in range(20):
        news.post(3)
        path = f"{news.changes}?after={news.state()['position']}&wait=60"
        waiting = ask_all(broker, [path] * 3)
        broker.wait_threads()
        remove(news)
        news.post(3)
        for connection in waiting:
            with connection:
                assert connection.answer().status == 410


# An EventSource gets the reason, comes back by itself, and is refused; if there is a
# set of that name again, it gets one event that its position is gone.
def test_event_streams_of_a_removed_set_end_and_are_not_taken_up(broker):
    news = broker.set()
    news.post(3)
    plain = news.events()
    filtered = news.events("prefix=http://nobody/")
    plain.next()
    filtered.next()
    news.post()
    plain.until(4)
    remove(news)
    plain.wait_end("removed")
    filtered.wait_end("removed")
    assert plain.last_id != "gone"

    answer = news.get("stream", accept="text/event-stream")
    check_refused(answer, 410, "was removed")
    news.post()
    plain.again()
    assert '"earliest":' in plain.wait_end("gone")
    assert plain.last_id == "gone"


# A removal meets a post that is arriving: the post goes, when it is complete, to the
# set that exists then.
def test_a_post_that_arrives_during_a_removal_begins_the_next_set(broker):
    news = broker.set()
    news.post(3)
    body = gzip.compress(json.dumps(entries(500, 10, size=100)).encode())
    with broker.connect() as connection:
        request = connection.request_bytes(
            news.changes,
            "POST",
            body,
            content_type=JSON,
            content_encoding="gzip",
            idempotency_key='"g"',
        )
        half = len(request) - len(body) // 2
        connection.send(request[:half])
        broker.wait_threads()
        remove(news)
        check_refused(news.get("changes"), 410, "was removed")
        connection.send(request[half:])
        receipt = news.receipt(connection.answer())
    assert (receipt.first, receipt.last) == (1, 500)
    assert len(news.page("after=0").entries) == 500


# Settings and removal meet documents


def begin_reading(broker, path):
    """Ask for a document of some megabytes, and read no more than its head; the
    connection and the size."""
    connection = Connection(broker.port, narrow=True)
    connection.ask(path, connection="close")
    head = connection.answer_head()
    assert head.status == 200
    return connection, int(head["Content-Length"])


# A client that reads a list when its set is removed gets the rest of it during the
# grace period; after that it is cut off. It never gets bytes of the set that has the
# name then.
@pytest.mark.parametrize("is_closed", [False, True])
@pytest.mark.parametrize("grace", ["3600", "0"])
def test_a_list_of_a_removed_set_is_read_to_its_end_or_cut_off(
    start_broker, grace, is_closed
):
    broker = start_broker("--remove-grace", grace, "--tail-bytes", "1M")
    news = broker.set()
    path = f"{news.path}/{news.list_path(1)}"
    for _ in range(7):
        news.post(10, size=100000)  # 7 MB in all
    if is_closed:
        news.rotate()
        wait_for(
            "the list to come from its file",
            lambda: broker.get(path, accept_encoding="gzip")["Content-Encoding"],
        )
    before = broker.get(path)
    connection, size = begin_reading(broker, path)
    assert size == len(before.body)
    remove(news)
    for _ in range(4):
        news.post(10, first=500, size=50000)
    answer = broker.get(path, if_none_match=before["ETag"])
    check_refused(answer, 410, "no longer kept")
    if grace == "0" and is_closed:
        # The purge has begun then; files go first, rows by slices.
        wait_for("the list's file to go", lambda: not news.list_file(1).exists())

    with connection:
        got = connection.read_all()
    assert before.body.startswith(got)
    if grace != "0":
        assert len(got) == size


SLOW_SETS = 2048
SLOW_PUTS = 8  # connections on which the sets are made


def make_sets(broker, description):
    """Make so many sets with that description, some requests at a time."""
    body = {"description": description}
    connections = [broker.connect() for _ in range(SLOW_PUTS)]
    for i in range(0, SLOW_SETS, SLOW_PUTS):
        for k, connection in enumerate(connections):
            path = f"/sets/s{i + k:05}"
            connection.ask(path, "PUT", body, content_type=JSON)
        for connection in connections:
            assert connection.answer().status == 201
    for connection in connections:
        connection.close()


# The Source Description names where each set is described. A slow client gets
# the announced bytes, or a visibly incomplete answer: never others, and none too many.
def test_a_description_that_changes_while_it_is_read_is_cut_off(start_broker):
    broker = start_broker()
    # "&amp;" makes 5 MB of it, which no buffer of the system takes.
    make_sets(broker, f"http://example.com/{'&' * 450}")
    last, last_but_one = (f"/sets/s{SLOW_SETS - n:05}" for n in (1, 2))
    longer = {"description": f"http://example.com/longer{'&' * 450}"}
    for is_whole, alter, status in (
        (True, lambda: broker.get("/healthz"), 200),
        (False, lambda: broker.put(last, longer), 200),
        (False, lambda: broker.put(last, {}), 200),
        (False, lambda: broker.delete(last_but_one), 204),
    ):
        connection, size = begin_reading(broker, "/.well-known/resourcesync")
        assert alter().status == status
        with connection:
            got = connection.read_all()
        if is_whole:
            assert len(got) == size
            assert got.endswith(b"</urlset>\n")
        else:
            assert len(got) < size
            assert b"</urlset>" not in got
    assert broker.get("/.well-known/resourcesync").status == 200


# Settings that come between posts change where later lists end, and nothing else; the
# last ones hold after a crash.
def test_limits_of_a_set_hold_while_it_is_posted_to(start_broker):
    broker = start_broker()
    news = broker.set()
    closed = lambda: news.state()["lists"]["closed"]  # noqa: E731
    connections = [broker.connect() for _ in range(9)]
    for i in range(30):
        for k, connection in enumerate(connections):
            if k == i % 9:
                body = {"rotateEntries": 2 + i % 2}
                connection.ask(news.path, "PUT", body, content_type=JSON)
            else:
                connection.ask(news.changes, "POST", entries(1), content_type=JSON)
        for connection in connections:
            assert connection.answer().status in ((200,) if i else (200, 201))
    for connection in connections:
        connection.close()
    assert news.last() == 8 * 30
    for number in range(2, closed() + 1):  # the first had no limit
        assert len(news.changelist(number).entries) in (2, 3)

    assert news.put(rotate_entries=2).status == 200
    assert broker.post(f"{news.path}/rotate").status == 200
    before = closed()
    broker.kill()
    broker.restart()
    news.post(7)
    assert closed() == before + 3
    assert len(news.get("changes/latest.xml").document().entries) == 1


# the Source, a set and its Capability List lead to the page for
# people; a set without such a page names its own.
def test_descriptions_are_named_wherever_a_set_is(start_broker):
    about = "http://example.com/about?a=1&b=2"
    described = "rs:ln[@rel='describedby']"
    broker = start_broker()
    plain = broker.set("plain")
    demo = broker.set("demo").create(description=about)
    plain.post()
    for _ in range(2):
        answer = broker.get("/.well-known/resourcesync")
        source = answer.document()
        assert source.count(f"/s:urlset/{described}") == 1
        assert demo.get_url(source.links["describedby"].href).status == 200
        of_set = "/s:urlset/s:url[contains(s:loc, '/{}/')]".format
        assert source.text(f"{of_set('demo')}/{described}/@href") == about
        assert source.text(f"{of_set('plain')}/{described}/@href") == plain.url
        assert about.replace("&", "&amp;") in answer.text
        offers = demo.get("capabilitylist.xml").document()
        assert offers.text(f"/s:urlset/{described}/@href") == about
        offers = plain.get("capabilitylist.xml").document()
        assert offers.text(f"/s:urlset/{described}/@href") == plain.url
        broker.kill()
        broker.restart()


# Retention meets archives


def check_archived(news, first, last, n_parts):
    """The archive names the lists `first` to `last`, each once, in order, and each
    address leads to one with entries; through parts if there are `n_parts`."""
    document = news.get("changelist-archive.xml").document()
    assert document.is_index == bool(n_parts)
    parts = [document]
    if n_parts:
        assert len(document.entries) == n_parts
        parts = [news.get_url(entry.loc).document() for entry in document.entries]
    assert all(part.entries for part in parts)
    locs = [loc for part in parts for loc in part.locs()]
    numbers = range(first, last + 1)
    assert locs == [f"{news.url}/{news.list_path(number)}" for number in numbers]
    assert all(news.get_url(loc).document().entries for loc in locs)


def wait_closed(news, n):
    """Wait until it has so many closed lists."""
    wait_for(f"{n} closed lists", lambda: news.state()["lists"]["closed"] == n)


# the parts of an archive begin at fixed numbers; a set that was
# made again, and one whose oldest lists are gone, begin within a part.
@pytest.mark.broker(
    *("--rotate-entries", "1", "--index-lists", "4", "--remove-grace", "0")
)
def test_an_archive_that_begins_within_a_part_names_every_list_once(broker):
    news = broker.set()
    news.post(5)
    check_archived(news, 1, 5, 2)
    remove(news)
    for number in range(7, 21):
        news.post()  # 6 was open; 7 begins
        check_archived(news, 7, number, (number - 1) // 4 if number >= 11 else 0)
    gone = news.get("changelist-archive/000000000001-000000000004.xml")
    check_refused(gone, 410, "no longer kept")
    early = news.get("changelist-archive/000000000021-000000000024.xml")
    check_refused(early, 404, "there and closed")

    for left in (13, 7, 4):
        first = 21 - left
        assert news.change(discard=True, retain_lists=left, rotate_entries=1).status == 200
        wait_closed(news, left)
        check_archived(news, first, 20, 5 - (first - 1) // 4 if left > 4 else 0)


# an archive is named while it is there: in the index, the Capability List and
# the set's own description alike.
@pytest.mark.broker("--remove-grace", "0")
def test_an_archive_without_lists_is_not_named(broker):
    news = broker.set()
    news.post()
    news.rotate()
    for n in (1, 0):
        if n == 0:
            assert news.change(discard=True, retain_age=0.001).status == 200
            wait_closed(news, 0)
        assert news.get("changelist-archive.xml").status == (200 if n else 404)
        assert news.changelist().count("//rs:ln[@rel='archives']") == n
        offers = news.get("capabilitylist.xml").document()
        assert offers.count("//rs:md[@capability='changelist-archive']") == n
        assert ("changelist-archive" in news.get().text) == bool(n)


# a time is refused like a position if its entries are no longer all retained,
# also when no list is left and nothing is in memory. A time with all entries is served.
def test_a_time_before_the_earliest_is_gone(start_broker):
    broker = start_broker("--remove-grace", "0")
    news = broker.set()
    _, before, last = (news.post().datetime for _ in range(3))
    news.rotate()
    assert news.change(discard=True, retain_age=0.001).status == 200
    wait_closed(news, 0)
    wait_for("the list's file to go", lambda: not news.list_file(1).exists())
    for again in range(3):
        for accept in (JSON, XML):
            answer = news.get(f"changes?since={before}", accept=accept)
            check_refused(answer, 410, "no longer retained")
            problem = answer.json()
            assert problem["earliest"].endswith("-3")
            assert "last" in problem
            assert "restart" in problem
            answer = news.get(f"changes?since={last}", accept=accept)
            assert answer.status == 200
        answer = news.get("changes?since=2001-01-01")
        check_refused(answer, 410, "no longer retained")
        events = news.events(f"since={before}")
        events.wait_end("gone")
        assert events.last_id == "gone"
        if again == 1:
            news.post()
        broker.stop()
        broker.restart()


# Retention goes past the last message of streams with filters that pass nothing. They
# have looked at what went, and miss nothing: they stay.
@pytest.mark.broker("--rotate-entries", "2", "--heartbeat", "3600")
def test_who_gets_nothing_is_not_left_behind(news, broker):
    prefix = "prefix=http://example.com/x/"
    news.post()
    follower = news.websocket(prefix)
    assert follower.next().last == 1
    with broker.connect() as waiting:
        waiting.ask(f"{news.changes}?after=1&wait=60&{prefix}")
        broker.wait_threads()  # it waits
        for _ in range(12):
            news.post()
        broker.wait_threads()  # both have seen them
        assert news.change(discard=True, retain_lists=1).status == 200
        wait_closed(news, 1)
        check_refused(news.get("changes?after=1"), 410, "no longer retained")
        news.receipt(news.send([change("http://example.com/x/1")]))
        for message in (follower.next(), waiting.answer().message()):
            assert (message.after, message.last) == (1, 14)
            assert message.seqs == [14]
