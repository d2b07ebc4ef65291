"""Parts of documents: put together they are the document, wherever its bytes are kept
at the moment (R-034, R-139)."""

import pytest


@pytest.fixture
def ahead(faults):
    """The environment of a broker whose clock is an hour ahead, so that it states the
    dates of new files at once."""
    faults.set_clock(3600)
    return faults.env


def ask(news, path, part, **headers):
    """Ask for a part of a document of the set."""
    return news.get(path, range=f"bytes={part}", **headers)


def check_part(answer, whole, first, size):
    assert answer.status == 206
    last = first + size - 1
    assert answer["Content-Range"] == f"bytes {first}-{last}/{len(whole)}"
    assert answer.body == whole[first : first + size]
    assert answer["Content-Encoding"] is None


def check_parts(news, path, whole):
    """Every part is what stands there: small ones at every edge, large ones, and one
    after the other the whole."""
    for size in (1, 700, 65536, 100003):
        step = size if size >= 65536 else len(whole) // 40
        for at in range(0, len(whole), step):
            size_at = min(size, len(whole) - at)
            answer = ask(news, path, f"{at}-{at + size_at - 1}")
            check_part(answer, whole, at, size_at)
    end = len(whole)
    for part, first in (("-1", end - 1), ("-300", end - 300), ("10-", 10)):
        check_part(ask(news, path, part), whole, first, end - first)


#
def test_parts_of_a_list_are_the_list_wherever_it_is_kept(start_broker, ahead):
    broker = start_broker("--tail-bytes", "1M", env=ahead)
    news = broker.set()
    in_the_way = news.obstruct_files()
    for _ in range(20):  # batches in the log, and blocks of the file
        news.post(100, size=300)
    path = news.list_path(1)
    opened = news.get(path).body
    assert len(opened) > 600000
    check_parts(news, path, opened)  # in memory
    broker.kill()
    broker.restart()
    check_parts(news, path, opened)  # in the store

    news.rotate()
    closed = news.get(path).body
    check_parts(news, path, closed)  # without a file
    in_the_way.unlink()
    news.wait_dated(1)
    check_parts(news, path, closed)
    broker.stop()
    broker.restart()
    check_parts(news, path, closed)  # in the file


# documents that the broker generates as it sends them.
@pytest.mark.broker("--rotate-entries", "1")
def test_parts_of_an_archive_are_the_archive(news):
    news.post(600)
    path = "changelist-archive.xml"
    check_parts(news, path, news.get(path).body)


# RFC 9110 sections 14.2 and 15.5.17
def test_ranges_that_make_no_part_are_refused_or_get_the_whole(news):
    news.post(10)
    path = news.list_path(1)
    whole = news.get(path).body
    for part in ("0-1,3-4", "5-2", "x", "-", "0-1x"):
        answer = ask(news, path, part)
        assert (answer.status, answer["Content-Range"]) == (200, None)
        assert answer.body == whole
    for part in ("1000000-", "1000000-2000000", "-0"):
        answer = ask(news, path, part)
        assert answer.status == 416
        assert answer["Content-Range"] == f"bytes */{len(whole)}"


# R-034, RFC 9110 section 13.1.5: a client that resumes a download gets the rest of its
# bytes, or all of the new ones.
def test_a_part_continues_the_bytes_that_the_client_has(start_broker, ahead):
    news = start_broker(env=ahead).set()
    news.post(10)
    path = news.list_path(1)

    def check_continued(validator, whole):
        answer = ask(news, path, "100-", if_range=validator)
        check_part(answer, whole, 100, len(whole) - 100)

    opened = news.get(path)
    check_continued(opened["ETag"], opened.body)
    news.post()
    assert ask(news, path, "100-", if_range=opened["ETag"]).status == 200

    news.rotate()
    closed = news.get(path)
    check_continued(closed["ETag"], closed.body)
    check_continued(news.wait_dated(1)["Last-Modified"], closed.body)
    old = "Sun, 06 Nov 1994 08:49:37 GMT"
    assert ask(news, path, "100-", if_range=old).status == 200
    path = f"{news.path}/{path}"
    assert news.broker.head(path, range="bytes=0-1").status == 200


# By raw bytes: a part is as long as it says, and the next answer comes behind it.
def test_a_connection_goes_on_after_a_part(news, broker):
    news.post(1000, size=300)
    whole = news.get(news.list_path(1)).body
    with broker.connect() as c:
        for i in range(3):
            part = f"bytes={1000 * i}-{100000 + i}"
            c.ask(f"{news.path}/{news.list_path(1)}", range=part)
        for i in range(3):
            answer = c.answer()
            assert answer.status == 206
            assert answer.body == whole[1000 * i : 100001 + i]


# curl is a client that is not ours: two parts and a resumed download.
def test_curl_puts_parts_together(start_broker, ahead, run, tmp_path):
    news = start_broker(env=ahead).set()
    news.post(1000, size=300)
    news.rotate()
    news.wait_dated(1)
    whole = news.get(news.list_path(1)).body
    url = f"{news.url}/{news.list_path(1)}"

    def curl(*options):
        run("/usr/bin/curl", "-sS", "--noproxy", "*", *options, url)

    first, second, all_ = (tmp_path / name for name in ("first", "second", "all"))
    curl("-o", all_)
    curl("-r", "0-99999", "-o", first)
    curl("--compressed", "-r", "100000-200000", "-o", second)
    first.write_bytes(first.read_bytes() + second.read_bytes())
    assert first.read_bytes() == whole[:200001]
    curl("-C", "-", "-o", first)
    assert first.read_bytes() == all_.read_bytes() == whole
