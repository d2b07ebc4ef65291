"""Files of the data directory that are damaged, missing or somebody else's: the broker
finds them before it overwrites anything, and names them."""

import gzip
import os
import re
import shutil
import sqlite3

import pytest

from tidings_test.http import ConnectionEnded, check_refused
from tidings_test.waiting import wait_for

DB = "tidings.db"
PAGE = 2048
OPTIONS = ("--rotate-entries", "100", "--tail-bytes", "1M")


@pytest.fixture
def news(start_broker):
    """A set with three closed lists with files, and entries that are in the database
    alone: the posts are too small for segments."""
    news = start_broker(*OPTIONS).set()
    for _ in range(35):
        news.post(10, size=3000)
    news.wait_list_files(3)
    return news


def contents(data):
    """The files of a data directory with their bytes, but for the lock, which a start
    takes."""
    return {
        path: path.read_bytes()
        for path in data.rglob("*")
        if path.is_file() and path.name != "lock"
    }


def check_not_started(run, broker, reason):
    """A start ends with 1, names the database, says why and changes nothing; so does
    --check."""
    before = contents(broker.data)
    options = ("--listen", "127.0.0.1:0", "--data", broker.data)
    for check in ((), ("--check",)):
        done = run("tidingsd", *options, *check, status=1)
        said = done.output() + done.errors()
        assert str(broker.data / DB) in said and reason in said and "ready" not in said
        assert contents(broker.data) == before


def check_last(news, last):
    """Started again, it has everything up to `last`."""
    news.broker.restart()
    assert news.changelists().read().history.last == last


# Ways to damage a file


def overwrite(path, at, data):
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


def write_garbage(path):
    overwrite(path, 0, b"x" * 100)


def cut_in_half(path):
    os.truncate(path, path.stat().st_size // PAGE // 2 * PAGE)


def cut_to_nothing(path):
    os.truncate(path, 0)


def take_away(path):
    path.unlink()


def put_a_directory(path):
    path.unlink()
    path.mkdir()


def put_a_text(path):
    path.write_text("<html>this is not what you are looking for</html>\n")


def run_sql(*statements):
    def spoil(path):
        with sqlite3.connect(path, isolation_level=None) as database:
            for statement in statements:
                database.execute(statement)
        database.close()

    return spoil


def put_another(*pragmas):
    """Somebody else's database."""

    def spoil(path):
        path.unlink()
        run_sql(
            *(f"PRAGMA {pragma}" for pragma in pragmas),
            "CREATE TABLE sets (a, b)",
            "INSERT INTO sets VALUES (1, 2)",
        )(path)

    return spoil


def is_in_chain(page, pages):
    """True for an overflow page in the middle of a chain: it begins with the number of
    the next one, and a page of a tree with its kind."""
    return page[0] == 0 and 0 < int.from_bytes(page[:4], "big") <= pages


def zero_a_page(path):
    """One with the old entries of the set, which the WAL does not have."""
    data = path.read_bytes()
    at = len(data) - PAGE
    while not (
        is_in_chain(page := data[at : at + PAGE], len(data) // PAGE)
        and re.search(rb"example\.com/r/3[1-4]\d", page)
    ):
        at -= PAGE
        assert at > 0
    overwrite(path, at, bytes(PAGE))


def check_refused_starts(run, broker, cases):
    """A start with each damage is refused, for its reason."""
    path, kept = broker.data / DB, broker.directory / "kept"
    for spoil, reason in cases:
        shutil.copy2(path, kept)
        spoil(path)
        check_not_started(run, broker, reason)
        if path.is_dir():
            path.rmdir()
        kept.replace(path)


# The database


# a start does not change a damaged database: somebody may rescue the rest.
def test_a_start_refuses_a_damaged_database_and_leaves_it(news, run):
    news.broker.stop()
    cases = [
        (write_garbage, "not a database"),
        (cut_in_half, "malformed"),
        (cut_to_nothing, "missing or empty"),
        (take_away, "missing or empty"),
        (put_a_directory, "Is a directory"),
        (put_a_text, "not a database"),
        (put_another("journal_mode=DELETE"), "another program"),
        (put_another("journal_mode=WAL"), "another program"),
        (put_another("journal_mode=WAL", "user_version=2"), "another program"),
        (run_sql("PRAGMA user_version=4711"), "version 4711"),
    ]
    check_refused_starts(run, news.broker, cases)
    check_last(news, 350)


# The same after a crash, before SQLite has copied the WAL into the database: an
# unreadable database must not cost the WAL.
def test_a_start_after_a_crash_leaves_the_log_of_a_damaged_database(news, run):
    news.broker.stop()
    news.broker.restart()
    for _ in range(2):
        news.post(10, size=3000)
    news.broker.kill()
    assert (news.broker.data / "tidings.db-wal").stat().st_size > 20 * 3000
    cases = [
        (cut_to_nothing, "missing or empty"),
        (take_away, "missing or empty"),
        (put_a_directory, "Is a directory"),
        (zero_a_page, "damaged"),
    ]
    check_refused_starts(run, news.broker, cases)
    check_last(news, 370)


# The same for pages that hold nothing but zeros now; of those of a chain, some.
def test_a_start_misses_every_page_of_the_database(start_broker, run):
    broker = start_broker("--rotate-age", 0)
    news = broker.set()
    for _ in range(30):
        news.post(10, size=3000)
    broker.stop()
    path = broker.data / DB
    data = path.read_bytes()
    trees = chains = 0
    for at in range(PAGE, len(data), PAGE):
        page = data[at : at + PAGE]
        if page[0] == 0:
            if not is_in_chain(page, len(data) // PAGE):
                continue
            chains += 1
            if chains % 10 != 1:
                continue
        else:
            trees += 1
        overwrite(path, at, bytes(PAGE))
        check_not_started(run, broker, "")
        overwrite(path, at, page)
    assert trees >= 4 and chains >= 20
    check_last(news, 300)


# The first start may end anywhere: there is nothing to be lost yet.
def test_a_directory_that_never_had_a_database_is_no_damage(start_broker):
    broker = start_broker()
    broker.stop()
    cut_to_nothing(broker.data / DB)
    broker.restart()
    assert broker.set().post(3).first == 1


# The bytes of an entry have changed, but SQLite finds no damaged page. The broker
# neither serves such entries as history nor files them; it serves everything else.
@pytest.mark.parametrize("size, place", [(300, DB), (3000, "segments/0000000001")])
def test_entries_that_are_damaged_are_not_served_nor_filed(start_broker, size, place):
    broker = start_broker(*OPTIONS)
    news, other = broker.set(), broker.set()
    news.post(50, size=size)
    other.post(20)
    broker.stop()
    at = (broker.data / place).read_bytes().index(b"example.com/r/30<")
    overwrite(broker.data / place, at + len("example.com/r/"), b"99")
    broker.restart()
    assert news.get("changes?after=0").status != 200
    broker.wait_said("damaged")
    news.rotate()
    other.rotate()
    assert news.post().last == 51
    assert other.get("changes?after=0").status == 200
    wait_for("the list of the other set", other.list_file(1).exists)
    assert not news.list_file(1).exists()


# Nobody can tell a missing segment from one that was never written: so the start says
# which, before it changes anything.
def test_a_start_misses_a_segment(start_broker, run):
    broker = start_broker(*OPTIONS)
    news = broker.set()
    news.post(50, size=3000)
    broker.stop()
    segment, kept = broker.data / "segments" / "0000000001", broker.directory / "kept"
    segment.rename(kept)
    check_not_started(run, broker, "the file segments/0000000001, which has entries")
    kept.rename(segment)
    check_last(news, 50)


# Files of closed lists


def spoil_middle(path):
    overwrite(path, path.stat().st_size // 2, b"\xff" * 8)


def spoil_end(path):
    os.truncate(path, path.stat().st_size - 20)


def put_another_list(path):
    path.write_bytes(gzip.compress(b"<urlset/>\n"))


# The broker logs a clear diagnostic and answers requests for that list with an error.
# It serves other lists and accepts changes, overwrites no file, and serves the list
# again when its file is back. R-139
def test_a_list_whose_file_is_damaged_is_missing_alone(news):
    broker = news.broker
    other = broker.set()
    lists = {n: news.get(news.list_path(n)).body for n in (1, 2, 3)}
    path, kept = news.list_file(2), broker.directory / "kept"
    shutil.copy2(path, kept)
    # Status None: the answer breaks off. Where the broker sends the file unchanged, the
    # client finds the fault by gzip's own check.
    for spoil, status, is_packed in [
        (take_away, 500, False),
        (put_a_directory, 500, False),
        (cut_in_half, 500, False),
        (cut_to_nothing, 500, False),
        (put_another_list, 500, False),
        (spoil_end, 200, False),
        (spoil_middle, None, True),
    ]:
        broker.stop()
        spoil(path)
        broker.restart()
        if status is None:
            with pytest.raises(ConnectionEnded):
                news.get(news.list_path(2))
            broker.wait_said("damaged")  # the list, or the entry where it shows
        elif status == 200:
            assert news.get(news.list_path(2)).body == lists[2]
        else:
            check_refused(news.get(news.list_path(2)), status)
            check_refused(news.get("changes?after=100"), status)
            broker.wait_said("000000000002.xml.gz")
        packed = news.get(news.list_path(2), accept_encoding="gzip")
        assert (packed["Content-Encoding"] is not None) == is_packed

        # The other lists are as before.
        for n in (1, 3):
            assert news.get(news.list_path(n)).body == lists[n]
        for document in ("changelist.xml", "changelist-archive.xml"):
            assert news.get(document).status == 200
        assert news.get("changes?after=200").status == 200
        other.post()

        if path.is_dir():
            path.rmdir()
        shutil.copy2(kept, path)
        assert news.get(news.list_path(2)).body == lists[2]
