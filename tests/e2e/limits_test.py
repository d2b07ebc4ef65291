"""Very many connections, and more than there are descriptors."""

import resource
import time

import pytest

from tidings_test.broker import is_sanitized
from tidings_test.http import ConnectionEnded
from tidings_test.soak import soak

IDLE = soak(1500, 10000)
FIRST = 500  # come before them, so that the broker has what any number needs
CLIENT_ADDRESSES = 4  # none has more than half of the descriptors
IDLE_KIB = 4  # of a connection that is kept and asks for nothing


@pytest.fixture
def many_files():
    """The test and its brokers may have as many files open as may be."""
    usual, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < FIRST + IDLE + 100:
        pytest.skip(f"there may be {most} open files only")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (usual, most))


def ask(connection):
    """Ask, and read the answer: from then on the connection is idle."""
    assert connection.request("/healthz", "HEAD").status == 200


# Each takes bounded memory, the broker serves others, and each still works when it asks
# again.
def test_thousands_of_idle_connections_cost_little(many_files, start_broker):
    broker = start_broker("--threads", "2")
    news = broker.set()
    news.post()
    follower = news.websocket("after=0").until(1)
    idle = []
    for n in (FIRST, IDLE):
        before = broker.process.memory_kib()
        for i in range(n):
            idle.append(broker.connect(client=f"127.0.0.{1 + i % CLIENT_ADDRESSES}"))
            ask(idle[-1])
    if not is_sanitized():
        assert broker.process.memory_kib() <= before + IDLE * IDLE_KIB

    news.post()
    follower.until(2)
    for connection in idle[::100]:
        ask(connection)
    for connection in idle:
        connection.close()
    news.post()
    follower.until(3)


# So many filters may be in use at a time, and a quarter of them by one client.
FILTERS_MAX = 2048  # sets/filters.h


# Rule 6: streams of one client, each with a filter of its own, cost others nothing, nor
# its own pulls.
def test_one_client_does_not_take_all_filters(many_files, start_broker):
    broker = start_broker("--threads", "2", "--client-share", "25")
    news = broker.set()
    news.post()
    events = "text/event-stream"

    def begin(tag, client=None):
        streams.append(broker.connect(client=client))
        asked = streams[-1].request_bytes(f"{news.stream}?tag={tag}", accept=events)
        streams[-1].send(asked)
        return streams[-1].answer_head().status

    streams = []
    while (status := begin(len(streams))) == 200:
        pass
    assert (status, len(streams)) == (429, FILTERS_MAX // 4 + 1)
    assert begin("7") == 200  # in use already
    assert begin("other", "127.0.0.9") == 200
    for tag in ("a", "b"):
        assert news.get(f"changes?tag={tag}").status == 200
    for stream in streams:
        stream.close()


FILES = 120  # what a broker may have open, and how many come then
CLIENTS = 300
BEATS = 8  # heartbeats during which the broker is looked at


# io.md, trap 3: at the limit of descriptors nothing spins, the broker serves open
# connections, and waiting ones when there is room again. No stream is closed to make
# room.
def test_the_limit_of_descriptors_stops_nobody_who_is_in(faults, start_broker):
    faults.limit_files(FILES)
    options = ("--threads", "2", "--heartbeat", "0.1", "--rotate-entries", "10")
    broker = start_broker(*options, env=faults.env)
    news = broker.set()
    news.post()
    follower = news.websocket("after=0").until(1)

    def begin(i):
        stream = broker.connect(client=f"127.0.0.{2 + i % CLIENT_ADDRESSES}")
        stream.ask(news.stream, accept="text/event-stream")
        return stream

    clients = [begin(i) for i in range(CLIENTS)]
    start, busy = time.monotonic(), broker.process.cpu_seconds()
    for _ in range(BEATS):
        news.post(3)
        follower.news()
        while follower.next().entries:
            pass
    busy = broker.process.cpu_seconds() - busy
    assert broker.has_said("descriptors")
    if not is_sanitized():  # a loop that spins has all of it
        assert busy < (time.monotonic() - start) / 2
    assert follower.message.last == 1 + 3 * BEATS

    # The first half goes: the others get their turn, or were hung up on. The kernel
    # distributes them to the threads. The thread with the test's idle connection hangs
    # up on them, because their clients have more. The other thread lets them wait: some
    # 75 of 150, and hardly ever so few as 30.
    for connection in clients[: CLIENTS // 2]:
        connection.close()
    served = 0
    for connection in clients[CLIENTS // 2 :]:
        with connection:
            try:
                assert connection.answer_head().status == 200
                served += 1
            except ConnectionEnded:
                assert connection.read_all() == b""
    assert served > FILES / 4

    # The broker makes up for operations that need descriptors themselves: files, and
    # reads.
    last = news.post(20).last
    follower.until(last)
    assert last == 1 + 3 * BEATS + 20
    for number in (1, 3):
        assert news.get(news.list_path(number)).status == 200


# Too few for a start: the program reports that at once, for any descriptor that would
# have run out first.
def test_a_start_with_too_few_descriptors_says_so(faults, run, tmp_path):
    data = tmp_path / "data"
    options = ("--listen", "127.0.0.1:0", "--data", data, "--threads", "2")
    for n in range(10, 71, 6):
        faults.limit_files(n)
        failed = run("tidingsd", *options, status=1, env=faults.env)
        assert "files may be open" in failed.errors()
    assert not data.exists()
