"""tidings verify, against the real broker and against copies of its data."""

import gzip
import itertools
import shutil
import signal
import threading

import pytest

from tidings_test.soak import soak
from tidings_test.waiting import wait_for


@pytest.fixture
def verify(run):
    """verify(url, "--json"): the output of tidings verify, which ends with that
    status."""

    def verify(*arguments, status=0):
        return run("tidings", "verify", *arguments, status=status)

    return verify


def alter(path):
    """An entry of the list is another one."""
    text = gzip.decompress(path.read_bytes())
    altered = text.replace(b"/r/35<", b"/r/53<")
    assert altered != text
    path.write_bytes(gzip.compress(altered))


@pytest.fixture
def kept(start_broker):
    """A set of ten closed lists, which have ten entries each and are all files."""
    news = start_broker("--rotate-entries", "10").set("news")
    for _ in range(10):
        news.post(10)
    news.wait_list_files(10)
    return news


# many rotations, an archive of several parts, an index of
# few lists.
@pytest.mark.broker("--rotate-entries", "7", "--index-lists", "4")
def test_proves_the_history_of_a_set(broker, verify):
    news = broker.set()
    news.post()
    said = verify(news.url).output()  # the open list is all there is
    assert ": proven from the beginning to entry 1 lists=1 " in said
    news.post(6)
    assert " to entry 7 lists=2 " in verify(news.url).output()

    for _ in range(12):
        news.post(41)
    said = verify(news.url).output()
    assert ": proven from the beginning to entry 499 lists=72 position=" in said
    said = verify(news.url, "--json", "--verbose").output()
    assert '/changes/000000000072.xml","last":499,"digest":"sha-256:' in said
    assert '"proven":true,"first":1,"last":499,"lists":72,' in said
    assert '"lists":72,"fromStart":true,"position":"' in said


# retention took the oldest lists.
@pytest.mark.broker(
    *("--rotate-entries", "10", "--index-lists", "3", "--retain-lists", "5")
)
def test_proves_what_is_retained(broker, verify):
    news = broker.set()
    for _ in range(20):
        news.post(10)
    news.post(3)

    def look():
        done = verify(news.url)
        assert not done.errors()
        proven = ": proven from entry 151 on to entry 203 lists=6 "
        return proven in done.output()

    wait_for("a proof from what is retained on", look)


# While lists close all the time, every list that is read is complete.
@pytest.mark.broker("--rotate-entries", "3", "--index-lists", "2")
def test_proves_a_set_that_grows(broker, start):
    news = broker.set()
    news.post(50)
    for _ in range(soak(5, 20)):
        verifying = start("tidings", "verify", news.url)
        for _ in range(10):
            news.post(5)
        assert verifying.wait() == 0, verifying.err
        assert ": proven from the beginning to entry " in verifying.output()


# The data directory, copied, is proven offline; and after damage it is not.
def test_proves_a_copy_of_the_data_directory(kept, verify, tmp_path):
    kept.broker.stop()
    copy = shutil.copytree(kept.broker.data, tmp_path / "copy")
    said = verify(copy).output()
    proven = "/sets/news/changes: proven from the beginning to entry 100 lists=10 "
    assert proven in said

    lists = copy / "sets/news/changes"
    fourth = lists / "000000000004.xml.gz"
    gone = fourth.rename(f"{fourth}.gone")
    said = verify(copy, status=1).output()
    assert "breaks after entry 30: " in said
    assert "000000000005.xml.gz: entries 31 to 40 are missing" in said
    assert ": proven from the beginning to entry 30 lists=3 " in said

    gone.rename(fourth)
    verify(lists, "--json")
    alter(fourth)
    said = verify(lists, "--json", status=1).output()
    assert '"proven":false,"first":1,"last":30,"lists":3' in said
    assert '"broken":{"in":"' in said
    assert "an entry from 31 to 40 was altered" in said


# The command detects a broker whose files were altered behind its back.
def test_finds_out_a_broker_whose_files_were_altered(kept, verify):
    verify(kept.url)
    kept.broker.stop()
    alter(kept.list_file(4))
    kept.broker.restart()
    said = verify(kept.url, status=1).output()
    assert "breaks after entry " in said
    assert "000000000004.xml: " in said
    assert ": proven from the beginning to entry 30 lists=3 " in said


# Two sets, under a name so long that a line for each list of one is more than a pipe
# and stdio's buffer hold.
def test_one_signal_ends_it_for_all_sets(start_broker, start, tmp_path):
    news = start_broker("--rotate-entries", "10").set()
    for _ in range(50):
        news.post(10)
    news.wait_list_files(50)
    news.broker.stop()
    data = tmp_path.joinpath(*(f"{i:0250}" for i in range(8)))
    for name in ("a", "b"):
        shutil.copytree(news.folder / "changes", data / "sets" / name / "changes")
    verifying = start("tidings", "verify", data, "--verbose", reads_output=False)

    # Its first line is read: there is no room yet for all of the first set.
    said = verifying.popen.stdout.readline()
    verifying.signal(signal.SIGTERM)
    said += verifying.popen.stdout.read()
    assert verifying.wait() == 1
    assert b"/sets/a/changes/" in said
    assert b"/sets/b/changes" not in said
    assert "stopped" in verifying.errors()


# A set that cannot be read is not proven.
def test_a_set_that_cannot_be_read_is_told(start_broker, verify, tmp_path):
    news = start_broker("--rotate-entries", "10").set("news")
    news.post(10)
    news.wait_list_files(1)
    news.broker.stop()
    copy = shutil.copytree(news.broker.data, tmp_path / "copy")
    verify(copy)

    (copy / "sets/loop").symlink_to("loop")
    done = verify(copy, status=1)
    proven = "/sets/news/changes: proven from the beginning to entry 10 "
    assert proven in done.output()
    assert "/sets/loop/changes" in done.errors()

    (copy / "sets").rename(copy / "old")
    (copy / "sets").symlink_to("sets")
    done = verify(copy, status=1)
    assert not done.output()
    assert "/sets: " in done.errors()


def test_tells_bad_usage_and_what_is_not_there(broker, verify):
    url = f"{broker.url}/sets/none"
    for arguments in ((), (url, url), ("--other", url)):
        verify(*arguments, status=2)
    assert "404" in verify(url, status=1).errors()
    assert "/proc/nowhere" in verify("/proc/nowhere", status=1).errors()


# A broker that runs renames each list when it has written it.
def test_files_that_come_and_go_do_not_count(run, tmp_path):
    is_over = threading.Event()

    def churn():
        for n in itertools.cycle(range(50)):
            if is_over.is_set():
                return
            file = tmp_path / f"{n:012}.xml.gz.new"
            file.touch()
            file.unlink()

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(150):
            said = run("tidings", "verify", tmp_path, status=1).errors()
            assert "there are no Change Lists" in said, said
    finally:
        is_over.set()
        thread.join()
