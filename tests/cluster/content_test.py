"""The bytes of resources in a cluster: whichever broker gets them, all have the same
files and the same rows, and no broker decides by what its own disk has."""

import contextlib
import hashlib
import itertools
import json
import os
import re
import shutil
import sqlite3
import time

import pytest

from tidings_test.backups import Backups
from tidings_test.cluster import wait_same_documents
from tidings_test.content import Package, contents, digest, hashes, held, kept, multipart
from tidings_test.http import NDJSON, Client
from tidings_test.hub import LOOPBACK
from tidings_test.sets import change
from tidings_test.soak import choices, soak
from tidings_test.waiting import wait_for

POSTS = soak(12, 300)
RESOURCES = 8
KILLS = soak(2, 20)
RETAINED = ("--rotate-entries", 10, "--retain-lists", 2, "--remove-grace", 0)
FETCH = ("--content", "fetch", "--fetch-retry-first", "0.01", *LOOPBACK)


@pytest.fixture
def in_bucket(start_cluster, bucket, tmp_path):
    """A cluster whose content goes into the bucket. `cache`: at each broker."""

    def start(*options, cache="1G", **how):
        return start_cluster(
            *("--cluster-bytes", bucket.address("bytes"), "--archive-cache", cache),
            *("--s3-credentials", bucket.credentials(tmp_path), *options),
            **how,
        )

    return start


@pytest.fixture(params=("journal", "s3"))
def start_any(request):
    """A cluster whose content travels either way."""
    return request.getfixturevalue({"journal": "start_cluster", "s3": "in_bucket"}[request.param])


def loc(n):
    return f"http://example.com/{n}"


def post(one, *texts, name=None):
    """Post an update of a resource for each text, with its bytes."""
    changes = [change(name or loc(i), "updated") for i in range(len(texts))]
    parts = [(each["loc"], None, text) for each, text in zip(changes, texts)]
    return one.receipt(one.send(*multipart(changes, parts)))


def facts(one):
    """What a broker says of the content of a set, once it has the set."""
    return wait_for(f"content of {one.name}", lambda: (one.state() or {}).get("content"))


def wait_content(brokers, last, *texts, name="news"):
    """Wait until each broker has folded the content up to that entry, and keeps exactly
    these texts."""
    for broker in brokers:
        one = broker.set(name)

        def look(one=one):
            content = facts(one)
            wanted = {hashlib.sha256(text).hexdigest() for text in texts}
            return content["last"] >= last and not content["missing"] and held(one) == wanted

        wait_for(f"the content of {broker}", look)
        assert contents(one) <= set(texts)


def rows(broker, name="news"):
    """The rows of its content.db, of a broker that has stopped."""
    path = broker.data / "sets" / name / "content.db"
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        select = "SELECT * FROM {} ORDER BY 1"
        columns = ("entries", "current", "files WHERE n > 0")
        found = [db.execute(select.format(columns_)).fetchall() for columns_ in columns]
        return [*found, db.execute("SELECT seq, tries FROM missing").fetchall()]


def wait_same_files(brokers, name="news"):
    """Wait until all have the files of the first one, and the same figures."""
    seen = Files()

    def look():
        seen.of_all = [(held(b.set(name)), facts(b.set(name))) for b in brokers]
        first = seen.of_all[0]
        return all(each == first for each in seen.of_all) and first[0]

    return wait_for(seen, look)


class Files:
    """The files and the figures of each broker, as they were last seen."""

    def __str__(self):
        every = set.intersection(*(files for files, _ in self.of_all))
        more = [(sorted(files - every), facts_) for files, facts_ in self.of_all]
        return f"the same files, besides {len(every)} of all: {more}"


def check_versions(cluster, *contents):
    """Each broker gives the same answers about the versions of resources."""
    sets = cluster.sets("news")
    for content in contents:
        path = "content/" + digest(content).removeprefix("sha-256:")
        answers = [each.get(path) for each in sets]
        assert {answer.body for answer in answers} == {content}
        assert len({answer["Memento-Datetime"] for answer in answers}) == 1
        gates = [each.get("timegate/" + loc(0)) for each in sets]
        assert len({(gate.status, gate["Location"]) for gate in gates}) == 1
        assert gates[0].status == 302
        assert len({each.get("timemap/link/" + loc(0)).text for each in sets}) == 1


# The bytes of a post to any broker are in the folder of each, also those that a change
# names by their digest, and no bytes at all.
def test_all_brokers_have_what_is_posted_to_one(start_cluster):
    cluster = start_cluster("--content", "inline")
    a, b, c = cluster.sets("news")
    post(a, b"one", b"two\0\xff")
    post(b, b"")
    wait_content(cluster.members, 3, b"one", b"two\0\xff", b"")
    assert c.post_change(loc(7), **hashes(b"one")).last == 4
    body = [{"loc": loc(i), **hashes(text)} for i, text in enumerate((b"", b"one"))]
    lines = "".join(json.dumps(each) + "\n" for each in body)
    answer = b.put_resources(lines, NDJSON, "max-delete=100")
    assert answer.status == 200, answer
    wait_content(cluster.members, answer.json()["last"], b"one", b"two\0\xff", b"")
    wait_same_documents(cluster)
    check_versions(cluster, b"one", b"two\0\xff", b"")


# A record is in memory as a whole.
def test_too_many_bytes_are_refused(start_cluster):
    cluster = start_cluster("--content", "inline")
    a, b, _ = cluster.sets("news")
    most = bytes(1 << 20)
    assert post(a, most).last == 1
    answer = a.send(*multipart([change(loc(1))], [(loc(1), None, most + b"1")]))
    assert answer.status == 413
    assert str(1 << 20) in answer.text
    locs = [loc(i) for i in range(17)]
    parts = [(each, None, most) for each in locs]
    answer = b.send(*multipart([change(each) for each in locs], parts))
    assert answer.status == 413
    wait_content(cluster.members, 1, most)


# Killed at any moment: what the others have is here in the end, and nothing else.
def test_brokers_that_were_killed_or_away_have_all(start_any):
    cluster = start_any("--content", "inline", *RETAINED)
    chosen = choices()
    posted = 0
    for _ in range(KILLS):
        victim, *others = chosen.sample(cluster.members, 3)
        for n in range(POSTS):
            if n == POSTS // 3:
                victim.kill()
            texts = [f"{posted} {i}".encode() for i in range(chosen.randint(1, 4))]
            post(chosen.choice(others).set("news"), *texts)
            posted += len(texts)
        victim.disconnect()
        victim.restart()
    files = wait_same_files(cluster.members)
    assert wait_for("retention", lambda: len(held(cluster.members[0].set("news"))) < 40)
    assert files
    wait_same_files(cluster.members)
    wait_same_documents(cluster)
    for member in cluster.members:
        member.stop()
    same = [rows(member) for member in cluster.members]
    assert same[0] == same[1] == same[2]


# A copy has the bytes of its entries, also of a broker that had not yet written a file.
def test_a_joined_broker_and_a_reader_have_all(start_any, run, tmp_path):
    cluster = start_any("--content", "inline")
    reader = cluster.add_reader("r")
    a, b, _ = cluster.sets("news")
    texts = [f"text {i}".encode() for i in range(20)]
    post(a, *texts)
    wait_content(cluster.members, 20, *texts)
    backups = Backups(run, tmp_path / "backup")
    lost = cluster.members[2]
    lost.kill()
    shutil.rmtree(lost.data)
    post(b, b"later")
    wait_content(cluster.members[:2], 21, *texts, b"later")
    backups.make(cluster.members[0])
    post(b, b"last")
    backups.restore(lost)
    lost.disconnect()
    lost.restart()
    expected = [*texts, b"later", b"last"]
    wait_content([*cluster.members, reader], 22, *expected)


# One broker fetches, and another one when that is gone; what comes of it is everywhere.
def test_the_owner_fetches_for_all(start_any, site):
    cluster = start_any(*FETCH)
    owner = cluster.owner()
    others = cluster.others(owner)
    one = others[0].set("news")
    site.put("/a", "first")
    one.post_change(site.link("/a"), **hashes(b"first"))
    one.post_change(site.link("/gone"), **hashes(b"gone"))
    one.post_change(loc("nowhere"), "deleted")

    def look(brokers, kept_, missing):
        return all(
            (f := facts(b.set("news")))["last"] == b.set("news").last()
            and (len(held(b.set("news"))), f["missing"]) == (kept_, missing)
            for b in brokers
        )

    wait_for("the first text", lambda: look(cluster.members, 1, 1))
    assert len(site.asked("/a")) == 1
    owner.kill()
    cluster.end_leases(owner)
    site.put("/b", "second")
    one.post_change(site.link("/b"), **hashes(b"second"))
    wait_for("the second text", lambda: look(others, 2, 1))
    owner.disconnect()
    owner.restart()
    wait_for("the same", lambda: look(cluster.members, 2, 1))
    assert len(site.asked("/a")) == 1
    for member in cluster.members:
        member.stop()
    same = [rows(member) for member in cluster.members]
    assert same[0] == same[1] == same[2]


DUMPS = ("--resource-dump-every", 1, "--resource-dump-keep", 1)
DUMPS += ("--resource-list-every", 1, "--rotate-entries", 10, "--package-bytes", 2000)


def dumps(one, kinds):
    """All dumps that a broker has of a set: the addresses and bytes of documents,
    packages and manifests, by kind; those that it has not yet are None."""
    found = {}
    for kind in kinds:
        documents = [f"{kind}.xml", f"{kind}-archive.xml"]
        for name in documents:
            answer = one.get(name)
            found[name] = answer.status == 200 and (answer["ETag"], answer.body)
            if found[name]:
                link = f"/sets/{one.name}/({kind}/[^<\"]*)[<\"]"
                text = answer.body.decode("utf-8", "replace")
                documents += sorted(set(re.findall(link, text)) - set(documents))
    return found


def packed(found):
    """The bytes of all resources in the packages."""
    packages = [Package(body) for name, (_, body) in found.items() if "zip" in name]
    assert packages
    for package in packages:
        package.check()
    texts = [package.members.values() for package in packages]
    return set(itertools.chain(*texts))


def wait_same_dumps(members, last, kinds=("resourcedump", "changedump")):
    """Wait until the Resource Dump of that entry and all dumps before it are the same
    everywhere; they are returned."""

    def look():
        of_all = [dumps(member.set("news"), kinds) for member in members]
        first = of_all[0]
        is_there = all(first.values()) and f'td:last="{last}"' in str(first)
        return is_there and all(each == first for each in of_all) and first

    return wait_for(f"the same dumps up to {last}", look)


# any broker gives out what all have built, with the same tags: the Resource List
# and Dump of one moment, and the Change Dump of each list. Nobody waits for a broker that
# is away; it builds what it lacks when it comes back.
def test_all_brokers_build_the_same_dumps(start_any):
    cluster = start_any("--content", "inline", *DUMPS)
    reader = cluster.add_reader("r")
    chosen = choices()
    last = 0
    texts = set()
    for _ in range(KILLS):
        away, other, _ = chosen.sample(cluster.members, 3)
        for n in range(5):
            if n == 2:
                away.kill()
            more = {f"text {last} {i} ".encode() * 40 for i in range(7)}
            last = post(other.set("news"), *more).last
            texts |= more
            other.set("news").build("resourcedump")
        away.disconnect()
        away.restart()
    found = wait_same_dumps([*cluster.members, reader], last)
    in_changes = {k: v for k, v in found.items() if k.startswith("changedump/")}
    assert len(packed(in_changes) & texts) >= last - 10
    assert len(packed(found) & texts) == len(texts)


# a dump waits for content; the state goes on all the same.
def test_a_dump_waits_for_what_is_fetched(start_cluster, site):
    cluster = start_cluster(*FETCH, *DUMPS)
    a, b, _ = cluster.sets("news")
    site.put("/a", "first")
    a.post_change(site.link("/a"), **hashes(b"first"))
    a.post_change(site.link("/gone"), **hashes(b"gone"))
    b.wait_last(2)
    wait_for("the first text", lambda: facts(b)["missing"] == 1 and kept(b))
    answer = b.broker.post(f"{b.path}/resourcedump")
    assert answer.status == 409, answer
    last = a.post_change(site.link("/gone"), "deleted").last
    wait_for("the fold", lambda: facts(b)["last"] == last)
    b.build("resourcedump")
    found = wait_same_dumps(cluster.members, last, ("resourcedump",))
    assert b"first" in packed(found)


# A broker that has lost bytes says so, serves no dump with them, and goes on.
def test_a_broker_that_has_lost_bytes_goes_on(start_cluster, run):
    cluster = start_cluster("--content", "inline", "--resource-dump-keep", 1)
    a, _, c = cluster.sets("news")
    post(a, b"one", b"two")
    wait_content(cluster.members, 2, b"one", b"two")
    kept(c)[0].unlink()
    a.build("resourcedump")
    c.broker.wait_said("is not there")
    assert c.get("resourcedump.xml").status == 503
    last = post(a, b"three", name=loc(7)).last
    a.build("resourcelist")
    wait_for("the list", lambda: f'td:last="{last}"' in c.get("resourcelist.xml").text)
    c.broker.stop()
    done = run("tidingsd", "check", "--deep", "--data", c.broker.data, status=1)
    assert "it is missing" in done.output() + done.errors()


def keys(*texts):
    return {"bytes/content/" + hashlib.sha256(text).hexdigest() for text in texts}


def stubs(one):
    """The digests of which the bucket has the bytes, as a broker knows."""
    folder = one.broker.data / "sets" / one.name / "content"
    return {path.name[:64] for path in folder.glob("??/*.bucket")}


def wait_stubs(cluster, *texts, members=None):
    wanted = {hashlib.sha256(text).hexdigest() for text in texts}
    for member in members or cluster.members:
        one = member.set("news")
        wait_for(f"stubs of {member}", lambda one=one: stubs(one) == wanted)
        wait_for("no lag", lambda one=one: facts(one)["last"] == one.last())


def stored(bucket):
    """The methods of requests for content: not of the trial at a start."""
    return [request.split()[0] for request in bucket.requests if "/content/" in request]


# Any size, by whichever broker; the journal has none of the bytes, and a broker that only
# builds a dump gets them from the bucket.
def test_content_of_any_size_goes_by_the_bucket(in_bucket, bucket):
    cluster = in_bucket("--content", "inline", "--resource-dump-keep", 1)
    reader = cluster.add_reader("r")
    a, b, c = cluster.sets("news")
    large = bytes(3 << 20)
    post(a, large, b"two")
    post(b, b"")
    wait_stubs(cluster, large, b"two")
    assert c.post_change(loc(7), **hashes(large)).last == 4
    answer = b.put_resources(
        "".join(json.dumps({"loc": loc(i), **hashes(b"two")}) + "\n" for i in range(3)),
        NDJSON,
        "max-delete=100",
    )
    assert answer.status == 200, answer
    assert set(bucket.objects) == keys(large, b"two")
    assert stored(bucket).count("PUT") == 2
    bytes_ = cluster.query("SELECT max(octet_length(record)) FROM tidings_records")
    assert int(bytes_[0]) < 4096
    post(a, large, name=loc(9))
    a.build("resourcedump")
    found = wait_same_dumps([*cluster.members, reader], c.last(), ("resourcedump",))
    assert {large, b"two"} <= packed(found)
    check_versions(cluster, large, b"two")
    assert not bucket.refused


# More than 64 MB go up in parts.
def test_large_content_goes_up_in_parts(in_bucket, bucket):
    cluster = in_bucket("--content", "inline", names="a")
    (a,) = cluster.sets("news")
    large = bytes(65 << 20)
    bucket.fault("PART", "500")
    post(a, large)
    assert set(bucket.objects) == keys(large)
    made = stored(bucket)
    assert (made.count("PART"), made.count("PUT")) == (3, 0)
    assert not bucket.uploads


DAY = 25 * 3600
SWEPT = ("--content", "inline", *RETAINED, "--local-days", 0)


def loose(members):
    """The files of content that a set has let go, of all brokers."""
    return [path for m in members for path in (m.data / "loose").glob("*.bucket")]


def replace_all(one, n=40):
    """Post so much that retention lets go of all earlier content; the texts that stay."""
    for i in range(n):
        post(one, f"text {i}".encode(), name=loc("often"))
    wait_for("retention", lambda: len(held(one)) < 25)


def pass_day(members, bucket):
    """Make all that is in the bucket, or loose, a day older."""
    with bucket.lock:
        for key in bucket.times:
            bucket.times[key] -= DAY
    for path in loose(members):
        with contextlib.suppress(FileNotFoundError):
            before = path.stat().st_mtime - DAY
            os.utime(path, (before, before))


def wait_swept(members, bucket, also=frozenset()):
    """Wait until the bucket has what the set has, and these, and no mark."""

    def look():
        wanted = {f"bytes/content/{hex_}" for m in members for hex_ in stubs(m.set("news"))}
        wanted |= also
        if set(bucket.objects) - wanted:
            pass_day(members, bucket)
        return set(bucket.objects) == wanted

    wait_for("the bucket", look)


# What no set has any more leaves the bucket after a day: what retention lets go of, also
# of two sets, and a removed set.
def test_content_that_no_set_has_leaves_the_bucket(in_bucket, bucket):
    cluster = in_bucket(*SWEPT)
    members = cluster.members
    a, b, c = cluster.sets("news")
    other = cluster.sets("other")[1]
    post(a, b"both")
    post(other, b"both")
    replace_all(b)
    for one in (a, b, c):
        wait_for("the fold", lambda one=one: len(held(one)) < 25)
    wait_for("loose content", lambda: len(loose(members)) > 45)
    assert len(bucket.objects) == 41
    wait_for("the first deletion", lambda: pass_day(members, bucket) or len(bucket.objects) < 25)
    assert keys(b"both") <= set(bucket.objects)
    other.delete()
    wait_swept(members, bucket)
    wait_for("no list of them", lambda: pass_day(members, bucket) or not loose(members))
    n = 41 - len(bucket.objects)
    wait_for(
        "the metric",
        lambda: sum(m.metrics()["tidings_bucket_swept_total"] for m in members) == n,
    )
    assert not bucket.refused


# Nothing goes while a broker is away, or by one that has lost rows, or if the bucket
# forbids it; and then it does.
@pytest.mark.parametrize("kind", ("away", "lost", "forbidden"))
def test_content_stays_while_a_broker_may_need_it(in_bucket, bucket, kind):
    cluster = in_bucket(*SWEPT, cache="0")
    members = cluster.members
    a, _, _ = cluster.sets("news")
    replace_all(a)
    wait_for("loose content", lambda: len(loose(members)) > 45)
    if kind == "away":
        members[2].stop()
    elif kind == "lost":
        for member in members:
            (member.data / "loose" / "lost").touch()
    else:
        bucket.fault("DELETE", "403", times=10**6)
    for i in range(10):  # each needs a round to go from the disk
        post(a, f"more {i}".encode())
        pass_day(members, bucket)
        wait_for("a round", lambda: not kept(a))
    assert not [key for key in bucket.objects if key.endswith("going")]
    assert {path.name for path in loose(members)} <= {
        key.removeprefix("bytes/content/") + ".bucket" for key in bucket.objects
    }
    if kind == "away":
        members[2].disconnect()
        members[2].restart()
    elif kind == "lost":
        for member in members:
            (member.data / "loose" / "lost").unlink()
    else:
        bucket.mend()
    wait_swept(members, bucket)


# A post that finds bytes in the bucket stores them anew, and not while they go; those that
# have come anew stay.
def test_a_post_never_rests_on_content_that_goes(in_bucket, bucket):
    cluster = in_bucket(*SWEPT)
    members = cluster.members
    a, b, _ = cluster.sets("news")
    post(a, b"again", b"gone")
    a.post_change(loc(0), "deleted")
    a.post_change(loc(1), "deleted")
    replace_all(a)
    (again, gone) = (keys(text).pop() for text in (b"again", b"gone"))
    names = [path.rsplit("/", 1)[1] + ".bucket" for path in (again, gone)]
    wait_for(
        "loose content",
        lambda: all((m.data / "loose" / name).exists() for m in members for name in names),
    )
    bucket.objects[again + ".going"] = b""
    message = multipart([change(loc(1))], [(loc(1), None, b"again")])
    answer = b.send(*message)
    assert answer.status == 503 and answer["Retry-After"], answer
    assert "being deleted" in answer.text
    del bucket.objects[again + ".going"]
    wait_for("the post", lambda: b.send(*message).status == 200)
    for member in members:  # all know before a day has passed
        wait_for("no loss", lambda m=member: not (m.data / "loose" / names[0]).exists())

    # As if another post came between the look at its age and the deletion.
    begin, met = bucket.begin, []

    def meet(method, key):
        if (method, key) == ("PUT", gone + ".going"):
            with bucket.lock:  # a day may be passing
                bucket.times[gone] = time.time() + 10**9
            met.append(key)
        return begin(method, key)

    bucket.begin = meet
    # Until then another broker may still hold all the texts: the bucket looks swept.
    wait_for("the deletion", lambda: met or pass_day(members, bucket))
    wait_swept(members, bucket, also={gone})
    assert again in bucket.objects
    bucket.begin = begin
    bucket.times[gone] = 0
    wait_swept(members, bucket)


# The disk is a cache: of no bytes, and of few.
@pytest.mark.parametrize("cache", ("0", "4K"))
def test_the_disk_is_a_cache_of_content(in_bucket, bucket, cache, run, tmp_path):
    cluster = in_bucket("--content", "inline", *DUMPS, cache=cache)
    a, b, c = cluster.sets("news")
    texts = {f"text {i} ".encode() * 100 for i in range(15)}
    last = post(a, *texts).last
    a.build("resourcedump")
    found = wait_same_dumps(cluster.members, last)
    assert texts <= packed(found)

    def size(one):
        return sum(path.stat().st_size for path in kept(one))

    for one in (a, b, c):
        wait_for("the limit", lambda one=one: size(one) <= (4096 if cache == "4K" else 0))
    deep = ("tidingsd", "check", "--deep", "--data", c.broker.data)
    deep += ("--archive", bucket.address("bytes"), "--s3-credentials")
    deep += (bucket.credentials(tmp_path),)
    c.broker.stop()
    assert "nothing found" in run(*deep).output()
    bucket.objects.clear()
    assert "the bucket has lost it" in run(*deep, status=1).output()


# Nothing is recorded before the bucket has the bytes; what needs no bytes goes on.
@pytest.mark.parametrize("kind", ("500", "403", "503", "cut", "mute", "late", "lost"))
def test_no_post_is_half_recorded(in_bucket, bucket, faults, kind):
    cluster = in_bucket("--content", "inline", names="a", env=faults.env)
    (a,) = cluster.sets("news")
    (plain,) = cluster.sets("plain")
    plain.put(content="none")
    post(a, b"first")
    bucket.fault("HEAD" if kind == "lost" else "PUT", kind, times=10**6)
    answer = a.send(*multipart([change(loc(1))], [(loc(1), None, b"second")]))
    assert answer.status == 503 and answer["Retry-After"], answer
    assert "cannot be stored now" in answer.text
    assert a.last() == 1
    asked = len(bucket.requests)
    assert plain.post(3).last == 3
    assert a.post_change(loc(2), **hashes(b"first")).last == 2
    assert len(bucket.requests) == asked
    assert a.broker.metrics()["tidings_bucket_failed_total"] > 0
    bucket.mend()
    bucket.release()
    faults.pass_time(6)  # for 5 s it gives nothing more to a bucket that has failed
    wait_for(
        "the bucket",
        lambda: a.send(*multipart([change(loc(1))], [(loc(1), None, b"second")])).status
        == 200,
    )
    assert a.last() == 3
    wait_stubs(cluster, b"first", b"second")


# The other posts and all reads go on beside a bucket that takes its time: it has no
# thread that they need.
def test_a_slow_bucket_delays_only_posts_with_content(in_bucket, bucket, background):
    cluster = in_bucket("--content", "inline", "--rotate-entries", 1, names="a")
    (a,), (plain,) = cluster.sets("news"), cluster.sets("plain")
    plain.put(content="none")
    plain.post(2)
    plain.wait_list_files(2)
    bucket.fault("PUT", "late", times=10**6)

    def post_alone(n):
        client = Client(a.broker.port)
        return client.post(a.changes, *multipart([change(loc(n))], [(loc(n), None, b"text")]))

    posts = [background(post_alone, n) for n in range(70)]
    wait_for("a PUT", lambda: any(request.startswith("PUT") for request in bucket.requests))
    assert plain.post(3).last == 5
    assert plain.get(plain.list_path(1)).status == 200
    assert len(plain.page("after=0").seqs) == 5
    assert all(each.is_running for each in posts)
    bucket.mend()
    bucket.release()
    for each in posts:
        answer = each.join()
        assert answer.status == 200 or (answer.status == 503 and answer["Retry-After"])


# What a broker cannot get it does not serve, and it goes on when the bucket does.
@pytest.mark.parametrize("kind", ("body", "late"))
def test_a_dump_waits_for_the_bucket(in_bucket, bucket, kind):
    cluster = in_bucket("--content", "inline", *DUMPS, cache="0")
    a, _, _ = cluster.sets("news")
    post(a, b"one", b"two")
    wait_stubs(cluster, b"one", b"two")
    for member in cluster.members:
        wait_for("no copies", lambda m=member: not kept(m.set("news")))
    bucket.fault("GET", kind, times=10**6)
    last = post(a, b"three").last  # a dump by the clock may be there, of those before
    a.broker.post(f"{a.path}/resourcedump")
    a.broker.wait_said("cannot be fetched now")
    bucket.mend()
    bucket.release()
    for member in cluster.members:  # they would pause for a minute
        member.stop()
        member.restart()
    found = wait_same_dumps(cluster.members, last, ("resourcedump",))
    assert {b"two", b"three"} <= packed(found)
