"""A closed list keeps its bytes and its place."""

import pytest

from tidings_test.changelists import ChangeLists


# few lists in the index, all of them in the archive.
@pytest.mark.broker("--rotate-entries", "2", "--index-lists", "3")
def test_the_index_stays_small_and_the_archive_has_every_closed_list(news):
    lists = news.changelists()
    for i in range(1, 11):
        news.post(2)
        lists.read()
        assert len(lists) == i + 1
        assert lists.indexed == min(i + 1, 4)


# the same bytes from the log, the file, and by a broker that now
# has another name.
def test_a_closed_list_keeps_its_bytes_whoever_serves_them(start_broker):
    old, new = "http://old.example:81", "http://new.example:82"
    options = ("--rotate-entries", "50", "--insecure-open", "--public-url", old)
    broker = start_broker(*options)
    news = broker.set()
    lists = ChangeLists(news, urls=[old, new])
    in_the_way = news.obstruct_files()
    news.post(70)
    closed = news.get(news.list_path(1)).body
    assert old.encode() + b"/" in closed
    lists.read()
    assert not news.list_file(1).exists()  # it came from the log

    in_the_way.unlink()
    news.wait_list_files(1)
    assert news.get(news.list_path(1)).body == closed

    broker.options[broker.options.index(old)] = new
    broker.stop()
    broker.restart()
    assert news.get(news.list_path(1)).body == closed
    news.post(30)
    assert news.get(news.list_path(1)).body == closed
    assert len(lists.read()) == 3
    assert new.encode() + b"/" in news.get(news.list_path(2)).body


# a list that closed before its file could be written is the same after a
# crash, and gets its file then.
def test_a_closed_list_without_its_file_survives_a_crash(start_broker):
    broker = start_broker("--rotate-entries", "50")
    news = broker.set()
    in_the_way = news.obstruct_files()
    news.post(170)
    closed = news.get(news.list_path(2)).body
    lists = news.changelists().read()

    broker.kill()
    broker.restart()
    assert news.get(news.list_path(2)).body == closed
    lists.read()
    in_the_way.unlink()
    news.wait_list_files(3)
    assert news.get(news.list_path(2)).body == closed
    assert len(lists.read()) == 4
