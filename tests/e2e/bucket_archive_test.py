"""Old files of the archive in a bucket (--archive), and the disk as a cache: nothing goes
from the disk before the bucket has it, and whoever reads gets the same bytes."""

import contextlib
import gzip
import hashlib
import itertools
import os
import re
import time
import urllib.error
import urllib.request
from datetime import datetime

import pytest

from tidings_test import npm
from tidings_test.backups import Backups
from tidings_test.content import multipart
from tidings_test.http import check_refused
from tidings_test.sets import change
from tidings_test.waiting import wait_for

LISTS = 8  # closed ones
EACH = 5


@pytest.fixture
def archived(start_broker, bucket, tmp_path):
    """A broker whose closed lists are in the bucket as soon as they have files."""

    def start(*options, cache="0", env=None):
        return start_broker(
            *("--rotate-entries", EACH, "--remove-grace", "0", "--local-days", "0"),
            *("--archive", bucket.address(), "--archive-cache", cache),
            *("--s3-credentials", bucket.credentials(tmp_path), *options),
            env=env,
        )

    return start


def stub(news, number):
    path = news.list_file(number)
    return path.with_name(path.name + ".bucket")


def copies(news):
    return [path for path in news.list_files() if path.suffix == ".gz"]


def wait_moved(news, first=1, last=LISTS):
    """Wait until these lists are in the bucket alone."""

    def are_moved():
        numbers = range(first, last + 1)
        return all(stub(news, n).exists() and not news.list_file(n).exists() for n in numbers)

    wait_for("lists in the bucket alone", are_moved)


def keys_of(news, numbers=range(1, LISTS + 1)):
    return {"archive/" + stub(news, number).read_text().split()[0] for number in numbers}


def check_read(news, run):
    """A follower from the start, all documents with every rule, and each list's gzip."""
    history = news.changelists().read().history
    assert history.last == LISTS * EACH
    for number in range(1, LISTS + 1):
        plain = news.get(news.list_path(number))
        packed = news.get(news.list_path(number), accept_encoding="gzip")
        assert plain.status == 200 and gzip.decompress(packed.body) == plain.body
    followed = run("tidings", "follow", news.url, "--from-start", "--count", history.last)
    assert [line.split()[-1] for line in followed.out] == [e.loc for e in history.entries]
    return history


def test_closed_lists_go_into_the_bucket_and_are_read_from_there(archived, bucket, run):
    broker = archived()
    news = broker.set()
    news.post(LISTS * EACH)
    wait_moved(news)
    size = news.state()["lists"]["fileBytes"]
    assert set(bucket.objects) == keys_of(news)
    for key, data in bucket.objects.items():
        assert key == "archive/" + hashlib.sha256(data).hexdigest()
    assert size == sum(map(len, bucket.objects.values()))
    check_read(news, run)
    metrics = broker.metrics()
    assert metrics["tidings_bucket_stored_total"] == LISTS
    assert metrics["tidings_bucket_fetched_total"] >= LISTS
    assert metrics["tidings_bucket_failed_total"] == metrics["tidings_bucket_lost_total"] == 0
    wait_moved(news)  # a limit of 0 bytes
    broker.stop()
    broker.restart()
    check_read(news, run)
    assert not bucket.refused


def test_the_cache_has_a_limit(archived, bucket, run):
    broker = archived(cache="1K")
    news = broker.set()
    news.post(LISTS * EACH)
    wait_for("stubs", lambda: all(stub(news, n).exists() for n in range(1, LISTS + 1)))
    check_read(news, run)
    wait_for("the limit", lambda: sum(len(f.read_bytes()) for f in copies(news)) <= 1024)
    assert copies(news)
    gets = sum(request.startswith("GET") for request in bucket.requests)
    last = copies(news)[-1]
    assert news.get("changes/" + last.name.removesuffix(".gz")).status == 200
    assert sum(request.startswith("GET") for request in bucket.requests) == gets


# Each step may be the last one before a kill.
@pytest.mark.parametrize("kind", (None, "mute", "500"))
def test_a_kill_at_any_moment_loses_nothing(archived, bucket, run, kind):
    broker = archived()
    news = broker.set()
    news.post(LISTS * EACH)
    if kind:
        bucket.fault("PUT", kind, times=3)
    for n in (1, 3, 5):
        wait_for("requests", lambda n=n: len(bucket.requests) >= n)
        broker.kill()
        for number in range(1, LISTS + 1):
            if stub(news, number).exists():
                assert keys_of(news, [number]) <= set(bucket.objects)
        broker.restart()
    bucket.mend()
    wait_moved(news)
    assert set(bucket.objects) == keys_of(news)
    check_read(news, run)


@pytest.mark.parametrize("kind", ("500", "403", "cut", "mute", "lost"))
def test_no_file_goes_before_the_bucket_has_it(archived, bucket, run, kind):
    bucket.fault("HEAD" if kind == "lost" else "PUT", kind, times=10**6)
    broker = archived()
    news = broker.set()
    news.post(LISTS * EACH)
    broker.wait_said("stay on the disk until the bucket takes them")
    wait_for("the files", lambda: len(copies(news)) == LISTS)
    assert not any(stub(news, number).exists() for number in range(1, LISTS + 1))
    check_read(news, run)
    assert broker.metrics()["tidings_bucket_failed_total"] > 0
    bucket.mend()
    broker.wait_said("the bucket takes files again")
    wait_moved(news)
    check_read(news, run)


def warnings(broker):
    return [line for line in broker.get("/readyz").text.splitlines() if "bucket" in line]


# It is said at the start, before there is a file; and nobody stores behind the back of an
# operator.
def test_a_bucket_without_conditions_is_named_at_the_start(archived, bucket, run):
    bucket.knows_condition = False
    broker = archived()
    said = broker.wait_said("does not know If-None-Match: its answer is 501 NotImplemented")
    assert "--bucket-overwrite" in said
    (warned,) = warnings(broker)
    assert "warning: the bucket fails" in warned and "--bucket-overwrite" in warned
    news = broker.set()
    news.post(LISTS * EACH)
    wait_for("waiting files", lambda: broker.metrics()["tidings_bucket_waiting_bytes"] > 0)
    assert not bucket.objects and len(copies(news)) > 0
    broker.stop()
    broker.options += ("--bucket-overwrite",)
    broker.restart()
    wait_moved(news)
    assert set(bucket.objects) == keys_of(news)
    check_read(news, run)
    wait_for("waiting files", lambda: broker.metrics()["tidings_bucket_waiting_bytes"] == 0)
    assert not warnings(broker)


# Rounds go on, and ask nothing.
def test_a_bucket_that_asks_for_a_pause_gets_it(archived, bucket):
    bucket.retry_after = 3600
    bucket.fault("PUT", "503", times=10**6)
    broker = archived()
    news = broker.set()
    news.post(LISTS * EACH)
    wait_for("rounds", lambda: broker.metrics()["tidings_bucket_failed_total"] >= 3)
    assert len(bucket.requests) == 1
    (warned,) = warnings(broker)
    assert "asked for a pause" in warned


# A bucket that takes nothing more must not fill the disk with what it has.
def test_copies_have_a_limit_also_if_the_bucket_takes_nothing(archived, bucket, run):
    broker = archived(cache="1K")
    news = broker.set()
    news.post(LISTS * EACH)
    wait_for("stubs", lambda: all(stub(news, n).exists() for n in range(1, LISTS + 1)))
    bucket.fault("PUT", "403", times=10**6)
    first = broker.set("a")  # its files come first
    first.post(2 * EACH)
    broker.wait_said("stay on the disk until the bucket takes them")
    check_read(news, run)
    wait_for("the limit", lambda: sum(len(f.read_bytes()) for f in copies(news)) <= 1024)
    assert len(copies(first)) == 2


# Nobody waits for a bucket that does not answer: not posts, not other readers.
def test_a_bucket_that_is_silent_stops_nobody_else(archived, bucket, background):
    broker = archived()
    news, other = broker.set(), broker.set()
    news.post(LISTS * EACH)
    wait_moved(news)
    broker.stop()
    broker.restart()  # nothing is in memory
    bucket.fault("GET", "late", times=10**6)
    bucket.fault("PUT", "late", times=10**6)
    reads = [
        background(read_alone, f"{news.url}/changes/{n:012}.xml") for n in range(1, LISTS + 1)
    ]
    wait_for("a read", lambda: any(request.startswith("GET") for request in bucket.requests))
    other.post(2 * EACH)
    assert other.get("changelist.xml").status == 200
    assert other.page("after=0").seqs == list(range(1, 2 * EACH + 1))
    bucket.mend()
    bucket.release()
    for read in reads:
        status, headers = read.join()
        assert status == 200 or (status == 503 and headers["Retry-After"])

    def are_all_read():
        return all(news.get(news.list_path(n)).status == 200 for n in range(1, LISTS + 1))

    wait_for("all lists", are_all_read)


BUILDS = ("resourcelist", "resourcedump", "changedump")
BUILT = ("--content", "inline", "--resource-list-keep", "1", "--resource-dump-keep", "1")


def builds(news, stubs=False):
    """The files of lists and dumps that are on the disk, or their stubs."""
    files = itertools.chain(*((news.folder / kind).glob("*/*") for kind in BUILDS))
    return {path for path in files if (path.suffix == ".bucket") == stubs}


def documents(news):
    """All lists, dumps and packages, by address: tag and bytes."""
    found, links = {}, {f"{kind}{end}.xml" for kind in BUILDS for end in ("", "-archive")}
    while links:
        link = links.pop()
        answer = news.get(link)
        if answer.status == 200:
            found[link] = (answer["ETag"], answer.body)
        pattern = rf"/sets/{news.name}/((?:{'|'.join(BUILDS)})/[^<\"]*)[<\"]"
        if link.endswith(".xml"):
            links |= set(re.findall(pattern, answer.text)) - set(found)
    return found


def move_builds(broker, news):
    """Let some hours pass, and wait until all files of builds are in the bucket alone."""
    broker.stop()
    files = builds(news)
    for path in files:
        os.utime(path, (0, int(path.stat().st_mtime) - 7200))
    before = {path: path.stat().st_mtime for path in files}
    broker.restart()
    tagged = documents(news)
    wait_for("builds in the bucket", lambda: len(builds(news, stubs=True)) == len(files))
    wait_for("no copies", lambda: not builds(news))
    return before, tagged


# Addresses, bytes and tags stay, also of packages, whose tags have the time of the file.
def test_lists_and_dumps_go_into_the_bucket(archived, bucket, run, tmp_path):
    broker = archived(*BUILT)
    news = broker.set()
    for text in (b"first", b"second"):
        locs = [f"http://example.com/{text.decode()}{i}" for i in range(EACH)]
        parts = [(loc, None, text) for loc in locs]
        news.receipt(news.send(*multipart([change(loc) for loc in locs], parts)))
        news.build("resourcelist")
        news.build("resourcedump")
    news.wait_dumps(2 * EACH)
    times, before = move_builds(broker, news)
    assert {"resourcelist.xml", "resourcedump.xml", "changedump.xml"} <= set(before)
    assert sum(address.endswith(".zip") for address in before) >= 4
    assert documents(news) == before
    fetched = {}
    for path in builds(news):
        with contextlib.suppress(FileNotFoundError):  # a copy may go at any moment
            fetched[path] = path.stat().st_mtime
    assert all(times[path] == at for path, at in fetched.items())
    check = ("tidingsd", "check", "--data", broker.data)
    deep = (*check, "--deep", "--archive", bucket.address())
    deep += ("--s3-credentials", bucket.credentials(tmp_path))
    wait_for("no copies", lambda: not builds(news))
    assert "nothing found" in run(*check).output()
    assert "nothing found" in run(*deep).output()
    backups = Backups(run, tmp_path / "backup")
    backups.make(broker)
    backups.check_whole()
    lost = next(iter(builds(news, stubs=True)))
    data = bucket.objects.pop("archive/" + lost.read_text().split()[0])
    found = run(*deep, status=1).output()
    assert lost.name.removesuffix(".bucket") in found and "the bucket has lost it" in found
    bucket.objects["archive/" + lost.read_text().split()[0]] = data
    broker.stop()
    backups.restore(broker, "--same-log")
    broker.restart()
    news = broker.set(news.name)
    assert {a: body for a, (_, body) in documents(news).items()} == {
        a: body for a, (_, body) in before.items()
    }
    news.delete()
    wait_for("an empty bucket", lambda: not bucket.objects)
    wait_for("no folder", lambda: not news.folder.exists())


# What is there already need not be stored again, in whichever words a server says so.
@pytest.mark.parametrize("taken", (412, 304))
def test_an_object_that_is_there_is_as_good_as_a_new_one(archived, bucket, run, taken):
    bucket.taken = taken
    broker = archived(cache="1G")
    news = broker.set()
    news.post(LISTS * EACH)
    wait_for("stubs", lambda: all(stub(news, n).exists() for n in range(1, LISTS + 1)))
    stub(news, 3).unlink()
    wait_for("the stub", lambda: stub(news, 3).exists())
    assert broker.metrics()["tidings_bucket_failed_total"] == 0
    check_read(news, run)


# Another server of the protocol, which has no If-None-Match.
def test_s3rver_keeps_an_archive(start_broker, start, run, tmp_path):
    server = start(
        *(npm.node(), npm.command("s3rver"), "-d", tmp_path / "s3", "-a", "127.0.0.1"),
        *("-p", "0", "--configure-bucket", "tidings"),
    )
    port = server.out.find(lambda line: "listening" in line, "its port").split(":")[-1]
    credentials = tmp_path / "s3-credentials"
    credentials.write_text("S3RVER\nS3RVER\n")
    credentials.chmod(0o600)
    address = f"s3://tidings/a?endpoint=http://127.0.0.1:{port.strip()}"
    tried = run("tidingsd", "bucket", "check", address, "--s3-credentials", credentials)
    assert "stores, returns and deletes objects" in tried.output()
    broker = start_broker(
        *("--rotate-entries", EACH, "--remove-grace", "0", "--local-days", "0"),
        *("--archive", address, "--archive-cache", "0", "--s3-credentials", credentials),
    )
    news = broker.set()
    news.post(LISTS * EACH)
    wait_moved(news)
    check_read(news, run)
    news.delete()
    wait_for("an empty bucket", lambda: not any((tmp_path / "s3/tidings").glob("a/*")))


# A kill may leave a file that was being written, under the name of no list.
def test_what_a_kill_left_half_written_goes(archived, bucket):
    broker = archived()
    news = broker.set()
    news.post(LISTS * EACH)
    wait_moved(news)
    broker.kill()
    left = [stub(news, 3), news.list_file(4), stub(news, 5)]
    left = [path.with_name(path.name + ".new") for path in left]
    for path in left:
        path.write_text("0123")
    for path in left[:2]:
        os.utime(path, (0, time.time() - 4000))
    broker.restart()
    wait_for("the old ones", lambda: not any(path.exists() for path in left[:2]))
    assert left[2].exists()  # another thread may be at it


# A bucket that has failed is asked for nothing in half a minute.
PATIENCE_S = 31


# One line, and not one each second.
def test_deletions_that_are_refused_are_said_ever_less(archived, bucket, faults):
    broker = archived("--retain-lists", "3", env=faults.env)
    bucket.fault("DELETE", "403", times=10**6)
    news = broker.set()
    news.post(LISTS * EACH)
    said = "removed files are still on the disk"

    def times():
        lines = [line for line in broker.process.err if said in line]
        return [datetime.fromisoformat(line[5:28]) for line in lines]

    wait_for("more tries", lambda: len(times()) >= 4)
    first, second, third, fourth = times()[:4]
    assert fourth - third > 1.5 * (second - first)
    bucket.mend()
    faults.pass_time(PATIENCE_S)
    wait_for("deletions", lambda: len(bucket.objects) == 3)


def read_alone(url):
    """The status and headers of an answer, by a connection of its own."""
    try:
        with urllib.request.urlopen(url) as answer:
            return answer.status, answer.headers
    except urllib.error.HTTPError as refused:
        return refused.code, refused.headers


LOST = (
    ("lost", "the answer is 404 NoSuchKey"),
    ("short", "has other bytes"),
    ("body", "has other bytes"),
)


# A client gets no wrong byte: 503 with the reason, a line of the log, a metric.
@pytest.mark.parametrize("kind,words", LOST)
def test_a_bucket_that_lost_an_object_is_named(archived, bucket, run, kind, words):
    broker = archived()
    news = broker.set()
    news.post(LISTS * EACH)
    wait_moved(news)
    (key,) = keys_of(news, [3])
    data = bucket.objects.pop(key)
    broker.stop()
    broker.restart()  # nothing is in memory
    if kind != "lost":
        bucket.objects[key] = data[:-1] if kind == "short" else b"x" + data[1:]
    refused = news.get(news.list_path(3))
    check_refused(refused, 503, words)
    assert refused["Retry-After"]
    broker.wait_said("the bucket has lost a file")
    assert broker.metrics()["tidings_bucket_lost_total"] >= 1
    assert news.get(news.list_path(4)).status == 200
    bucket.objects[key] = data
    wait_for("the list", lambda: news.get(news.list_path(3)).status == 200)
    check_read(news, run)


def test_retention_deletes_in_the_bucket(archived, bucket, faults):
    broker = archived("--retain-lists", "3", env=faults.env)
    news = broker.set()
    news.post(LISTS * EACH)
    last = range(LISTS - 2, LISTS + 1)
    wait_for("the last lists", lambda: news.state()["lists"]["closed"] == 3)
    wait_moved(news, LISTS - 2)
    wait_for("deletions", lambda: set(bucket.objects) == keys_of(news, last))
    assert not stub(news, 1).exists()
    size = sum(map(len, bucket.objects.values()))
    wait_for("their size", lambda: news.state()["lists"]["fileBytes"] == size)
    bucket.fault("DELETE", "500", times=9)
    folder = news.list_file(1).parent
    news.delete()
    broker.wait_said("removed files are still on the disk")
    assert folder.exists()
    bucket.mend()
    faults.pass_time(PATIENCE_S)
    wait_for("an empty bucket", lambda: not bucket.objects)
    wait_for("no folder", lambda: not folder.exists())


def test_without_the_option_the_files_are_missed_by_name(archived, bucket, run):
    broker = archived()
    news = broker.set()
    news.post(LISTS * EACH)
    wait_moved(news)
    broker.stop()
    at = broker.options.index("--archive")
    del broker.options[at : at + 2]
    broker.restart()
    check_refused(news.get(news.list_path(3)), 503, "--archive is not given")


# The files of the bucket stay there: the backup has their stubs, and says so.
def test_a_backup_says_what_is_only_in_the_bucket(archived, bucket, run, tmp_path):
    broker = archived()
    news = broker.set()
    news.post(LISTS * EACH)
    wait_moved(news)
    backups = Backups(run, tmp_path / "backup")
    made = run("tidingsd", "backup", backups.directory, "--data", broker.data)
    backups.check_whole()
    assert f"{LISTS} files are in the bucket alone" in made.output()
    history = check_read(news, run)
    broker.stop()
    backups.restore(broker, "--same-log")
    broker.restart()
    restored = check_read(broker.set(news.name), run)
    assert [e.line for e in restored.entries] == [e.line for e in history.entries]


def test_check_asks_the_bucket(archived, bucket, run, tmp_path):
    broker = archived()
    news = broker.set()
    news.post(LISTS * EACH)
    wait_moved(news)
    check = ("tidingsd", "check", "--data", broker.data)
    deep = (*check, "--deep", "--archive", bucket.address())
    deep += ("--s3-credentials", bucket.credentials(tmp_path))
    unread = f"{LISTS} files in a bucket were not read"
    for asked, said in (
        (check, f"{unread}, nor asked for (--archive); nothing found"),
        ((*check, "--deep"), f"{unread}, nor asked for (--archive); nothing found"),
        (deep, f"{unread}; nothing found"),
    ):
        assert said in run(*asked).output()
    (key,) = keys_of(news, [3])
    del bucket.objects[key]
    found = run(*deep, status=1).output()
    assert f"{news.list_file(3).name}" in found and "the bucket has lost it" in found
    stub(news, 2).unlink()
    assert "it is missing" in run(*check, status=1).output()


def test_settings_are_checked_before_the_start(run, tmp_path):
    for options, words in (
        (("--archive", "s3://a"), "--archive: it is s3://BUCKET"),
        (("--archive", "s3://tidings?region=eu"), "no access key ID"),
    ):
        failed = run("tidingsd", "--check-settings", *options, status=None)
        assert words in failed.errors(), failed.errors()


# The last copy never goes: a bucket that has lost its object gets it again.
def test_a_copy_whose_object_is_lost_is_stored_again(archived, bucket, run):
    broker = archived(cache="1G")
    news = broker.set()
    news.post(LISTS * EACH)
    wait_for("stubs", lambda: all(stub(news, n).exists() for n in range(1, LISTS + 1)))
    wait_for("metrics", lambda: broker.metrics()["tidings_bucket_copies_bytes"] > 0)
    assert len(copies(news)) == LISTS
    broker.stop()
    bucket.objects.clear()
    broker.options[broker.options.index("1G")] = "0"
    broker.restart()
    wait_moved(news)
    assert set(bucket.objects) == keys_of(news)
    check_read(news, run)

