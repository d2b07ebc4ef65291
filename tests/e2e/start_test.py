"""Starts that fail because another broker has the directory or the address. And the
effect of a start on lists that are old enough to be closed."""

import pytest

from tidings_test.http import Client
from tidings_test.soak import soak
from tidings_test.waiting import wait_for


def files_of(broker):
    """The bytes of a broker's files by their paths."""
    paths = [path for path in broker.data.rglob("*") if path.is_file()]
    return {path: path.read_bytes() for path in paths}


@pytest.fixture
def crashed(start_broker):
    """A broker that was killed, its latest posts in the WAL alone."""
    broker = start_broker()
    news = broker.set("news")
    news.post(10)
    broker.stop()
    broker.restart()
    news.post(10)
    broker.kill()
    return broker


def start_in_vain(run, port, data, *options):
    """Start a broker there, which has to end with 1; its errors."""
    where = ("--listen", f"127.0.0.1:{port}", "--data", data)
    return run("tidingsd", *where, *options, status=1).errors()


def test_an_address_in_use_leaves_the_directory_as_it_was(broker, crashed, run):
    before = files_of(crashed)
    said = start_in_vain(run, broker.port, crashed.data)
    for part in ("127.0.0.1", f"port {broker.port}", "in use"):
        assert part in said
    assert files_of(crashed) == before

    none = crashed.directory / "none"
    start_in_vain(run, broker.port, none)
    assert not none.exists()
    crashed.restart()


# The first broker is halted meanwhile, as it has files of its own to write.
def test_a_second_broker_does_not_get_the_directory(start_broker, run):
    broker = start_broker()
    news = broker.set()
    news.post(10)
    news.build("resourcelist")
    broker.process.halt()
    before = files_of(broker)
    said = [start_in_vain(run, 0, broker.data) for _ in range(3)]
    after = files_of(broker)
    broker.process.go_on()
    for line in said:
        assert str(broker.data) in line
        assert f"in use by process {broker.process.pid}" in line
    assert after == before
    assert news.post().last == 11

    broker.kill()  # the lock ends with its owner, whatever ended that
    broker.restart()
    assert news.post().last == 12


# Lists that are old enough to be closed

SETS = 20  # so many that one is sure to be closed as early as it can be
STARTS = soak(10, 40)  # that fail
THREADS = ("--threads", "32")  # many, so that a start takes its time
OLD = ("--rotate-age", "0.001", "--resource-list-every", "0")


@pytest.fixture
def left(start_broker):
    """A broker that closes no list by age, and has ended; each set has a list."""
    broker = start_broker("--rotate-age", "0", *THREADS)
    for i in range(SETS):
        broker.set(f"s{i}").post(2)
    broker.stop()
    return broker


def get_list(client, i, number):
    """The answer to a GET of list `number` of set `i`."""
    return client.get(f"/sets/s{i}/changes/{number:012}.xml")


# the header of a closed list is for ever, so a broker closes none before
# it knows its public URL, on any port.
def test_a_start_closes_old_lists_with_its_own_public_url(left, start):
    where = ("--listen", "127.0.0.1:0", "--data", left.data)
    process = start("tidingsd", *where, *THREADS, *OLD)
    url = process.out.wait(1).removeprefix("tidingsd: ready at ").rstrip("/")
    client = Client(int(url.rpartition(":")[2]))
    for i in range(SETS):
        wait_for("list 2", lambda: get_list(client, i, 2).status == 200)
        closed = get_list(client, i, 1).document()
        assert closed.until
        for rel, path in (
            ("up", "capabilitylist.xml"),
            ("index", "changelist.xml"),
            ("next", "changes/000000000002.xml"),
        ):
            assert closed.links[rel].href == f"{url}/sets/s{i}/{path}"
    client.disconnect()
    process.stop()


# a broker that cannot start leaves everything as it was.
def test_a_start_that_fails_closes_no_list(left, broker, run):
    for _ in range(STARTS):
        said = start_in_vain(run, broker.port, left.data, *THREADS, *OLD)
        assert "in use" in said
    left.restart()
    for i in range(SETS):
        assert get_list(left, i, 2).status == 404
        still_open = get_list(left, i, 1).document()
        assert not still_open.until
        assert len(still_open.entries) == 2
