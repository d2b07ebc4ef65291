"""`tidings audit` reads only what differs, where the set offers comparisons."""

import json
import re
import sqlite3

import pytest

from tidings_test.middle import Exchange, Habit, Middle
from tidings_test.mirrored import Mirrored
from tidings_test.negentropy import END, FINGERPRINT, LIST, write
from tidings_test.waiting import wait_for

pytestmark = pytest.mark.broker("--heartbeat", "0.2")

N = 300  # more than a small set has


@pytest.fixture
def mirrored(mirrored):
    mirrored.change_many(1, N, "text")
    mirrored.sync()
    return mirrored


def told(done):
    """The numbers of the last line: by what name the audit says them."""
    return dict(re.findall(r"(\w+)=(\S+)", done.output().splitlines()[-1]))


def check(done, requests=None, differing=None, **counts):
    """The audit has found so many; with `requests` or `differing`: it has compared by so
    many, 0: it has read all."""
    facts = told(done)
    for name in ("missing", "stale", "extra", "corrupt"):
        assert int(facts[name]) == counts.get(name, 0), done.output()
    found = re.search(r"compared at (\S+): requests: (\d+), differing ids: (\d+)", done.errors())
    if requests == 0:
        assert not found
        return
    assert found[1] == facts["position"]
    assert requests in (None, int(found[2]))
    assert differing in (None, int(found[3]))


def lines(log):
    """The lines of an access log; the last one may be half written."""
    return [json.loads(line) for line in log.read_bytes().split(b"\n")[:-1]]


def spoil_database(mirrored, sql):
    """Change what the mirror knows behind its back."""
    db = sqlite3.connect(mirrored.directory / ".tidings/mirror.db")
    db.execute(sql)
    db.commit()
    db.close()


# A copy that is equal costs one message; before that the broker may have to count.
def test_an_equal_mirror(mirrored):
    check(mirrored.audit())
    assert "complete as of 20" in mirrored.audit().errors()
    done = mirrored.audit()
    check(done, requests=1)
    check(mirrored.audit("--full"), requests=0)
    assert '"event":"compared","set":"' in mirrored.audit("--json").output()


# What the mirror has not followed yet is stale, as ever, but no difference.
def test_lag_is_no_difference(mirrored):
    mirrored.audit()
    mirrored.change_many(1, 5, "new")
    mirrored.change_many(6, 8, None)
    mirrored.change_many(N + 1, N + 4, "text")
    done = mirrored.audit(status=1)
    check(done, stale=5, extra=3, missing=4)
    assert told(done)["position"].endswith(f"-{N + 12}")
    full = mirrored.audit("--full", status=1)
    assert sorted(done.output().splitlines()[:-1]) == sorted(full.output().splitlines()[:-1])
    mirrored.sync()
    check(mirrored.audit())


# What the mirror has lost, or never heard, or made up.
@pytest.mark.parametrize("how", ((), ("--full",)))
def test_finds_and_mends_what_differs(mirrored, how):
    spoil_database(mirrored, "DELETE FROM members WHERE resource IN (3, 4)")
    spoil_database(mirrored, "DELETE FROM resources WHERE id IN (3, 4)")
    spoil_database(
        mirrored,
        "UPDATE members SET hash = CAST('sha-256:' || hex(zeroblob(32)) AS BLOB) WHERE resource = 7",
    )
    spoil_database(mirrored, "UPDATE resources SET have_hash = x'' WHERE id = 7")
    place = mirrored.place("/made/up.txt")
    mirrored.write(place, "made up")
    spoil_database(
        mirrored,
        "INSERT INTO resources SELECT NULL, CAST(replace(CAST(loc AS TEXT), '/r/9.txt', '/made/up.txt')"
        f" AS BLOB), '{place}', todo, bytes, 0, 0, 0, have, have_version, have_hash, have_lastmod,"
        " have_size, have_mtime, 0 FROM resources WHERE id = 9",
    )
    spoil_database(
        mirrored,
        "INSERT INTO members SELECT (SELECT max(id) FROM resources), set_id, generation, version,"
        " when_us, lastmod, hash, length, type, encoding, links FROM members WHERE resource = 9",
    )
    done = mirrored.audit(*how, status=1)
    requests = 0 if how else None
    check(done, missing=2, extra=3, requests=requests, differing=5)
    assert f"extra   {mirrored.site.link('/made/up.txt')}" in done.output()
    done = mirrored.audit("--repair", *how)
    mirrored.check_same()
    check(mirrored.audit(*how), requests=requests, differing=0)


# A small set is compared as well.
def test_a_small_set(start_broker, site, tmp_path, run, start):
    mirrored = Mirrored(start_broker().set(), site, tmp_path, run, start)
    mirrored.change_many(1, 9, "text & more")
    mirrored.sync()
    spoil_database(mirrored, "DELETE FROM members WHERE resource = 3")
    check(mirrored.audit(), requests=2, differing=1)


# Nothing is read that grows with the set: no list, and nothing is asked for twice.
def test_what_ten_differences_cost(start_broker, site, tmp_path, run, start):
    log = tmp_path / "access.log"
    broker = start_broker("--access-log", log, "--log-format", "json")
    mirrored = Mirrored(broker.set(), site, tmp_path, run, start)
    mirrored.change_many(1, N, "text")
    mirrored.sync()
    compared = lambda: [one for one in lines(log) if one["path"].endswith("/reconcile") and one["status"] == 200]
    mirrored.audit()  # the broker counts
    wait_for("the line of the last request", compared)
    begin = len(lines(log))
    spoil_database(mirrored, "DELETE FROM members WHERE resource BETWEEN 3 AND 12")
    check(mirrored.audit(), requests=2, differing=10)
    wait_for("those of the second audit", lambda: len(compared()) == 3)
    cost = lines(log)[begin:]
    routes = sorted(one["route"].removeprefix("/sets/{set}") for one in cost)
    assert routes == ["", "", "/capabilitylist.xml", "/reconcile", "/reconcile"]
    assert sum(one["in"] + one["out"] for one in cost) < 100_000


class Liar(Middle):
    """Answers comparisons itself: `lie` gets the query and the number of the request."""

    def __init__(self):
        super().__init__(None, Habit(upgrades=True))
        self.lie = None
        self.asked = 0

    async def serve(self, peer):
        request = await peer.head()
        if not request:
            return
        if self.lie and "/reconcile?" in request.target:
            await peer.body(request)
            self.asked += 1
            status, body = self.lie(request.target, self.asked)
            head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            await peer.send(head.encode() + body)
            return
        await Exchange(self, peer, request).run()


@pytest.fixture
def lied_to(start_broker, site, tmp_path, run, start):
    liar = Liar()
    liar.broker = start_broker("--public-url", liar.url, "--heartbeat", "0.2")
    mirrored = Mirrored(liar.broker.set(), site, tmp_path, run, start)
    mirrored.url = f"{liar.url}{mirrored.set.path}"
    mirrored.change_many(1, N, "text")
    mirrored.sync()
    mirrored.liar = liar
    yield mirrored
    liar.end()


def endless(target, n):
    return 200, write([(END, FINGERPRINT, b"%016d" % n)])


def made_up(target, n):
    ids = [bytes([7, n]) * 16]
    return 200, b"<x/>" if "entries" in target else write([(END, LIST, ids)])


LIES = {
    "empty": (lambda *_: (200, b""), "not of version 1"),
    "other version": (lambda *_: (200, b"b"), "not of version 1"),
    "cut off": (lambda *_: (200, b"a\0\0\1abc"), "cut off"),
    "long": (lambda *_: (200, b"a" + bytes(1 << 20)), "longer than"),
    "many": (lambda *_: (200, b"a" + b"\1\0\0" * 100000), "more than 65536 ranges"),
    "refused": (lambda *_: (403, b""), "403"),
    "endless": (endless, "the comparison has no end"),
    "made up": (made_up, ""),
}


# Whatever the server answers, the audit ends, says why, and reads all.
@pytest.mark.parametrize("name", LIES)
def test_a_server_that_lies(lied_to, name):
    lied_to.liar.lie, part = LIES[name]
    done = lied_to.audit()
    assert f"{part}" in done.errors() and ": all is read instead" in done.errors()
    check(done, requests=0)
    assert 1 <= lied_to.liar.asked <= 64


# A lie that nobody can see without reading: the text of doc/reconcile.md says so.
def test_a_server_that_claims_equality(lied_to):
    lied_to.liar.lie = lambda *_: (200, b"a")
    check(lied_to.audit(), requests=1)
