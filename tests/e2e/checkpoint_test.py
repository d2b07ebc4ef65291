"""Checkpoints of sets: signed, in tiles, proven; kept by backups and clusters; read by
golang.org/x/mod/sumdb, and by independent code here."""

import base64
import contextlib
import datetime
import hashlib
import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import time

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tidings_test import messages
from tidings_test.backups import Backups
from tidings_test.http import JSON, check_refused
from tidings_test.sets import Set
from tidings_test.stream import UPGRADE
from tidings_test.waiting import wait_for

JUDGE = pathlib.Path(__file__).parent.parent / "tlog/judge.go"


# RFC 6962, section 2.1.
def leaf(data):
    return hashlib.sha256(b"\0" + data).digest()


def mth(hashes):
    if len(hashes) == 1:
        return hashes[0]
    k = 1 << (len(hashes) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + mth(hashes[:k]) + mth(hashes[k:])).digest()


def digests(of_set):
    """d(1) ... of all entries, from the lists."""
    d, found = None, []
    numbers = of_set.state()["lists"]
    for number in range(1, numbers["open"] + 1):
        text = of_set.broker.get(f"/sets/{of_set.name}/changes/{number:012}.xml").body
        d = d or hashlib.sha256(re.search(rb'td:epoch="(.*?)"', text)[1]).digest()
        for line in re.findall(rb"<url>.*</url>\n", text):
            d = hashlib.sha256(d + line).digest()
            found.append(d)
    return found


class Checkpoint:
    def __init__(self, text):
        self.text, _, signatures = text.partition("\n\n")
        self.origin, size, root, *more = self.text.split("\n")
        assert not more
        self.size, self.root = int(size), base64.b64decode(root)
        self.signatures = [line.split(" ")[1:] for line in signatures.splitlines()]
        self.cosigner = self.origin.rsplit("/", 3)[0]
        assert [name for name, _ in self.signatures] == [self.origin, self.cosigner] * (len(self.signatures) // 2)

    def times(self, keys):
        """Check all signatures; the times of the cosignatures."""
        body = (self.text + "\n").encode()
        times = []
        assert len(self.signatures) == 2 * len(keys)
        for key in keys:
            for kind, name in ((1, self.origin), (4, self.cosigner)):
                id = hashlib.sha256(f"{name}\n".encode() + bytes([kind]) + key).digest()[:4]
                mine = [base64.b64decode(s) for _, s in self.signatures]
                (signature,) = [s[4:] for s in mine if s[:4] == id]
                signed = body
                if kind == 4:
                    times.append(int.from_bytes(signature[:8], "big"))
                    signed = f"cosignature/v1\ntime {times[-1]}\n".encode() + body
                    signature = signature[8:]
                Ed25519PublicKey.from_public_bytes(key).verify(signature, signed)
        return times


def keys_of(run, of_set):
    """The verifier keys, and the bytes of each."""
    shown = run("tidingsd", "key", "show", of_set.name, "--data", of_set.broker.data).output()
    lines = shown.split()
    return lines, [base64.b64decode(line.split("+", 2)[2])[1:] for line in lines]


def checkpoint(of_set):
    answer = of_set.get("checkpoint")
    assert answer.status == 200, answer.text
    return Checkpoint(answer.text)


# W-numbers have none of this: C2SP tlog-checkpoint, tlog-tiles, tlog-cosignature.
@pytest.mark.parametrize("n", [1, 99, 256, 700])
def test_a_checkpoint_signs_all_entries(start_broker, run, n):
    news = start_broker("--rotate-entries", 300, "--checkpoint-every", 0.1).set("news")
    news.post(n)
    found = checkpoint(news)
    ds = digests(news)
    hashes = [leaf(d) for d in ds]
    lines, keys = keys_of(run, news)
    assert found.size == n == len(hashes)
    assert found.root == mth(hashes)
    assert found.origin == f"{news.broker.url.partition('//')[2]}/sets/news/{news.state()['epoch']}"
    assert lines[0].startswith(f"{found.origin}+")
    (at,) = found.times(keys)
    assert at > 1_700_000_000
    as_of = datetime.datetime.fromisoformat(news.get("checkpoint")["Tidings-As-Of"])
    assert at <= as_of.timestamp() < at + 60
    epoch = news.state()["epoch"]
    for level, size in ((0, n), (1, n // 256)):
        for number in range((size + 255) // 256):
            width = min(256, size - 256 * number)
            path = f"tile/{level}/{number:03}" + (f".p/{width}" if width < 256 else "")
            answer = news.get(path)
            assert answer["Cache-Control"] == "no-cache"
            step = 256**level
            wanted = [
                mth(hashes[i * step : (i + 1) * step])
                for i in range(256 * number, 256 * number + width)
            ]
            assert answer.body == b"".join(wanted)
            for lasting in (f"{path}?{epoch}", f"{epoch}/{path}"):
                answer = news.get(lasting)
                assert answer.body == b"".join(wanted) and "immutable" in answer["Cache-Control"]
    if n > 2 * 300:  # whole tiles that are folded come from their rows
        wait_for("the fold", lambda: (news.folder / "changes/checkpoint").exists())
        assert news.get("tile/0/001").body == b"".join(hashes[256:512])
    for path in ("tile/0/x001/000", "tile/9/000", "tile/0/000.p/0", f"tile/0/000.p/1?{'0' * 16}"):
        assert news.get(path).status == 404, path
    prefix = found.origin.removeprefix(f"{news.broker.url.partition('//')[2]}/sets/news/")
    signed = news.get(f"{prefix}/checkpoint").text.partition("\n\n")[0]
    assert f"\n\n{signed}\n\n" in news.get(f"{prefix}/proof?seq=1").text
    for path in ("checkpoint", "proof?seq=1", "tile/0/000.p/1"):
        assert news.get(f"{'0' * 16}/{path}").status == 404
    assert news.get(f"proof?seq={n + 1}").status == 404
    assert news.get("proof?seq=0").status == 400
    assert news.get("proof").status == 400
    assert news.get(f"checkpoint?old={n + 1}").status == 404


# Part 18: many who ask while a set grows cost few signatures, and soon have the newest.
def test_a_set_signs_few_checkpoints_a_second(news):
    began, found = time.monotonic(), []
    for _ in range(60):
        news.post(1)
        found.append(checkpoint(news).size)
    assert len(set(found)) <= 8 * (time.monotonic() - began + 2)
    assert found == sorted(found)
    wait_for("the newest checkpoint", lambda: checkpoint(news).size == 60)


# A set that was folded says the same as one whose log is read; and so after a restart.
def test_a_folded_tree_is_the_same(start_broker, run):
    broker = start_broker("--checkpoint-every", 86400, "--rotate-entries", 50000)
    news = broker.set("news")
    for _ in range(5):
        news.post(150)
    before = checkpoint(news)
    proof = news.get("proof?seq=300").text.partition("\n\n")[0]
    news.rotate()
    wait_for("the checkpoint of the list", lambda: (news.folder / "changes/checkpoint").exists())
    after = checkpoint(news)
    assert (before.size, before.root) == (after.size, after.root) == (750, after.root)
    assert news.get("proof?seq=300").text.partition("\n\n")[0] == proof
    assert Checkpoint((news.folder / "changes/checkpoint").read_text()).root == after.root
    news.post(300)
    broker.stop()
    broker.restart()
    assert checkpoint(news).root == mth([leaf(d) for d in digests(news)])
    assert checkpoint(news).size == 1050


# golang.org/x/mod/sumdb: note and tlog.
def test_a_go_program_checks_it(start_broker, run, tmp_path):
    news = start_broker("--checkpoint-every", 0.1).set("news")
    news.post(300)
    former = checkpoint(news)
    news.post(500)
    lines, _ = keys_of(run, news)
    env = {**os.environ, "GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOCACHE": str(tmp_path)}
    judge = tmp_path / "judge"
    subprocess.run(["go", "build", "-o", judge, JUDGE], env=env, check=True)
    index, ds = 413, digests(news)
    arguments = [news.url, lines[0], str(index), ds[index].hex(), "300", base64.b64encode(former.root).decode()]
    said = run(judge, *arguments).output()
    proof = news.get(f"proof?seq={index + 1}").text.split("\n\n")[0].split("\n")
    assert proof[0] == "c2sp.org/tlog-proof@v1"
    assert proof[2] == f"index {index}"
    assert said.split() == proof[3:]
    assert base64.b64decode(proof[1].partition(" ")[2])[:32] == ds[index - 1]
    for at, wrong in ((2, "412"), (3, ds[0].hex()), (4, "299"), (1, lines[0].replace("/news/", "/olds/"))):
        bad = [*arguments[:at], wrong, *arguments[at + 1 :]]
        run(judge, *bad, status=1)


# The former key signs beside the new one, until it is ended.
def test_a_key_is_changed(start_broker, run, tmp_path):
    news = start_broker().set("news")
    news.post(3)
    key_file = news.broker.data / "checkpoint.keys"
    assert key_file.stat().st_mode & 0o777 == 0o600
    old, (first,) = keys_of(run, news)
    known = tmp_path / "news.key"
    known.write_text(old[0])
    said = run("tidingsd", "key", "rotate", "--data", news.broker.data).output()
    assert "the former ones sign them, too" in said
    _, both = keys_of(run, news)
    assert both[1] == first != both[0]
    wait_for("both keys", lambda: len(checkpoint(news).signatures) == 4)
    assert len(set(checkpoint(news).times(both))) == 1
    run("tidings", "verify", news.url, "--key", known)
    run("tidingsd", "key", "rotate", "--only", "--data", news.broker.data)
    wait_for("the new key", lambda: len(checkpoint(news).signatures) == 2)
    said = run("tidings", "verify", news.url, "--key", known, status=1)
    assert "no known key has signed the checkpoint" in said.output()
    for _ in range(3):
        run("tidingsd", "key", "rotate", "--data", news.broker.data)
    said = run("tidingsd", "key", "rotate", "--data", news.broker.data, status=1).errors()
    assert "there are 4 keys already" in said
    key_file.write_text("no key\n")
    news.broker.wait_said("the keys of checkpoints have changed, the former ones stay")
    assert checkpoint(news).size == 3
    assert "no set olds" in run("tidingsd", "key", "show", "olds", "--data", news.broker.data, status=1).errors()


# Retention keeps the leaves; a set that had lost its first entries says so.
def test_retention_leaves_the_tree(start_broker, run, tmp_path):
    broker = start_broker("--rotate-entries", 200, "--retain-lists", 1, "--remove-grace", 0)
    news = broker.set("news")
    for _ in range(5):
        news.post(200)
    news.post(10)
    wait_for("one list", lambda: news.state()["lists"]["closed"] == 1)
    assert checkpoint(news).size == 1010
    lines, _ = keys_of(run, news)
    known = tmp_path / "news.key"
    known.write_text(lines[0])
    said = run("tidings", "verify", news.url, "--key", known).output()
    assert ": proven from entry 801 on to entry 1010 " in said
    assert ": signed up to entry 1010 by " in said
    proof = run("tidings", "prove", news.url, 1000).output()
    (tmp_path / "change.tlog-proof").write_text(f"{proof}\n")
    assert "entry 1000 " in run("tidings", "verify", tmp_path / "change.tlog-proof", "--key", known).output()
    broker.stop()
    broker.restart()
    said = run("tidings", "prove", news.url, 1, status=1).errors()
    assert "it lacks its entry" in said
    broker.stop()
    for path in news.folder.glob("tree.db*"):
        path.unlink()
    broker.restart()

    def refused():
        answer = news.get("checkpoint")
        return answer.status == 404 and answer

    answer = wait_for("the look at the log", refused)
    assert "had lost its first entries" in answer.text
    assert "had lost its first entries" in streamed(news.events("checkpoints=yes"))["detail"]
    said = run("tidings", "verify", news.url, "--key", known, status=1)
    assert "had lost its first entries" in said.errors() + said.output()


# A backup has the key and the tree; a set that is made again has another log.
def test_a_restored_broker_signs_on(start_broker, run, tmp_path):
    broker = start_broker("--rotate-entries", 200, "--remove-grace", 0)
    news = broker.set("news")
    news.post(450)
    before = checkpoint(news)
    _, keys = keys_of(run, news)
    backups = Backups(run, tmp_path / "backup")
    backups.make(broker)
    broker.stop()
    backups.restore(broker)
    broker.restart()
    assert (checkpoint(news).size, checkpoint(news).root) == (450, before.root)
    assert checkpoint(news).origin != before.origin
    assert keys_of(run, news)[1] == keys
    checkpoint(news).times(keys)
    assert not run("tidingsd", "check", "--deep", "--data", broker.data).errors()
    news = broker.set("news")  # its folder is another one now
    news.delete()
    news.wait_list_files(0)
    again = broker.set("news")
    again.post(2)
    assert checkpoint(again).origin != before.origin
    assert checkpoint(again).size == 2


# the log of a copy that ends earlier goes on in a new epoch, be it that a file has
# the newer checkpoint, or the tree alone is newer.
@pytest.mark.parametrize("has_file", [True, False])
def test_a_log_that_went_back_has_a_new_epoch(start_broker, tmp_path, has_file):
    broker = start_broker("--checkpoint-every", 0.1, "--rotate-entries", 100)
    news = broker.set("news")
    news.post(150)
    wait_for("the fold", lambda: (news.folder / "changes/checkpoint").exists())
    broker.stop()
    shutil.copytree(broker.data, tmp_path / "old")
    broker.restart()
    news.post(200)
    wait_for("the fold", lambda: "\n300\n" in (news.folder / "changes/checkpoint").read_text())
    epoch, origin = news.state()["epoch"], checkpoint(news).origin
    broker.stop()
    for name in ("tidings.db", "segments"):
        run = shutil.rmtree if (broker.data / name).is_dir() else os.unlink
        run(broker.data / name)
    for path in broker.data.glob("tidings.db-*"):
        path.unlink()
    for name in ("tidings.db", "segments"):
        copy = shutil.copytree if (tmp_path / "old" / name).is_dir() else shutil.copy
        copy(tmp_path / "old" / name, broker.data / name)
    if not has_file:
        (news.folder / "changes/checkpoint").unlink()
    broker.restart()
    broker.wait_said("a set goes on in a new epoch")
    wait_for("the tree", lambda: news.get("checkpoint").status == 200)
    assert checkpoint(news).origin == origin.replace(epoch, news.state()["epoch"]) != origin
    assert news.state()["follows"] == f"{epoch}-150"
    assert checkpoint(news).root == mth([leaf(d) for d in digests(news)])
    assert checkpoint(news).size == 150


# another key would sign in the place of one that readers know.
def test_a_lost_key_stops_the_start(start_broker, run):
    broker = start_broker("--rotate-entries", 100)
    news = broker.set("news")
    news.post(100)
    wait_for("the file", lambda: (news.folder / "changes/checkpoint").exists())
    broker.stop()
    key = (broker.data / "checkpoint.keys").read_bytes()
    for ways_back in (
        lambda: (broker.data / "checkpoint.keys").write_bytes(key),
        lambda: run("tidingsd", "key", "rotate", "--only", "--data", broker.data),
    ):
        (broker.data / "checkpoint.keys").unlink()
        start = ("tidingsd", "--listen", "127.0.0.1:0", "--data", broker.data)
        refused = run(*start, status=2).errors()
        assert "checkpoint.keys is not there, and its key has signed checkpoints of news" in refused
        ways_back()
        broker.restart()
        assert checkpoint(news).size == 100
        broker.stop()


def tile_name(level, number, width=256):
    """C2SP tlog-tiles."""
    groups = [f"{number % 1000:03}"]
    while number := number // 1000:
        groups.insert(0, f"x{number % 1000:03}")
    return "/".join([str(level), *groups]) + (f".p/{width}" if width < 256 else "")


def root_of_tiles(folder, size):
    """Read all tiles of a tree of that size from a folder; its root."""
    level, hashes = 0, None
    while size >> 8 * level:
        n, below = size >> 8 * level, hashes
        read = [(folder / tile_name(level, i, min(256, n - 256 * i))).read_bytes() for i in range(-(-n // 256))]
        hashes = [tile[at : at + 32] for tile in read for at in range(0, len(tile), 32)]
        assert len(hashes) == n
        if level > 0:
            assert hashes == [mth(below[256 * i : 256 * i + 256]) for i in range(n)]
        first, level = hashes if level == 0 else first, level + 1
    return mth(first)


def files_below(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def wait_signed(news, size):
    """Wait for the checkpoint beside the closed lists to be of that size."""
    file = news.folder / "changes/checkpoint"
    return wait_for("the file", lambda: file.exists() and f"\n{size}\n" in file.read_text() and Checkpoint(file.read_text()))


# the folder of a set has all tiles of the checkpoint beside its lists, and no others.
# The second list has two levels of full tiles.
def test_tiles_are_files_beside_the_lists(start_broker, run):
    broker = start_broker("--rotate-entries", 33_000, "--checkpoint-every", 0.1, "--lists-readable-by", "all")
    news = broker.set("news")
    for size in (33_000, 66_000):
        news.post(33_000)
        filed = wait_signed(news, size)
        assert root_of_tiles(news.folder / "tile", filed.size) == filed.root == checkpoint(news).root
    names = [tile_name(0, n) for n in range(257)] + [tile_name(1, 0), tile_name(2, 0, 1)]
    names += [tile_name(0, 257, 66_000 % 256), tile_name(1, 1, 1)]
    wait_for("the last tiles", lambda: files_below(news.folder / "tile") == set(names))
    for name in names:
        answer = news.get(f"{news.state()['epoch']}/tile/{name}")
        assert answer.body == (news.folder / "tile" / name).read_bytes()
        assert "immutable" in answer["Cache-Control"]
    assert not run("tidingsd", "check", "--deep", "--data", broker.data).errors()
    broker.stop()
    broker.restart()
    assert news.get("tile/1/000").body == (news.folder / "tile/1/000").read_bytes()


# A crash may leave a file for which no row counts yet.
def test_a_tile_that_was_cut_off_is_written_again(start_broker):
    broker = start_broker("--rotate-entries", 200, "--checkpoint-every", 0.1)
    news = broker.set("news")
    news.post(200)
    wait_signed(news, 200)
    broker.stop()
    (news.folder / "tile/0/000").write_bytes(bytes(8192))
    (news.folder / "tile/0/001.new").write_bytes(b"x")
    broker.restart()
    news.post(400)
    filed = wait_signed(news, 600)
    assert root_of_tiles(news.folder / "tile", 600) == filed.root == mth([leaf(d) for d in digests(news)])


# Version 1 of tree.db had full tiles, too, and the log may have lost their entries.
def test_tiles_of_an_earlier_version_become_files(start_broker):
    broker = start_broker("--rotate-entries", 200, "--retain-lists", 1, "--remove-grace", 0, "--checkpoint-every", 0.1)
    news = broker.set("news")
    for _ in range(4):
        news.post(200)
    wait_for("one list", lambda: news.state()["lists"]["closed"] == 1)
    filed = wait_signed(news, 800)
    broker.stop()
    tile = news.folder / "tile/0"
    with contextlib.closing(sqlite3.connect(news.folder / "tree.db", isolation_level=None)) as db:
        for n in range(3):
            db.execute("INSERT INTO tiles VALUES(0, ?, ?)", (n, (tile / f"00{n}").read_bytes()))
        db.execute("PRAGMA user_version = 1")
    before = files_below(tile.parent)
    shutil.rmtree(tile.parent)
    broker.restart()
    assert checkpoint(news).root == filed.root
    wait_for("the files", lambda: len(files_below(tile.parent)) == 3)
    with contextlib.closing(sqlite3.connect(news.folder / "tree.db")) as db:
        wait_for("the rows", lambda: db.execute("SELECT level, number FROM tiles ORDER BY 1").fetchall() == [(0, 3), (1, 0)])
    news.post(200)
    wait_signed(news, 1000)
    assert len(before) == 5
    assert root_of_tiles(tile.parent, 1000) == checkpoint(news).root


# tidingsd check sees tiles that were altered or lost.
def test_a_damaged_tree_is_found(start_broker, run):
    broker = start_broker("--rotate-entries", 700)
    news = broker.set("news")
    news.post(700)
    wait_signed(news, 700)
    broker.stop()
    tile = news.folder / "tile/0/001"
    whole = tile.read_bytes()

    def check(*options):
        return run("tidingsd", "check", *options, "--data", broker.data, status=1).output()

    tile.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert "tree.db: tile/0/001 has another root than the level above" in check("--deep")
    tile.write_bytes(whole[:-1])
    assert "tree.db: tile/0/001 is missing, or has another size" in check()
    tile.write_bytes(whole)
    (tile.parent / "junk").write_bytes(b"")
    assert "tile/0/junk: the file is of no use here" in check()
    (tile.parent / "junk").unlink()
    run("sqlite3", news.folder / "tree.db", "DELETE FROM tiles")
    run("sqlite3", news.folder / "tree.db", "INSERT INTO tiles VALUES(0, 2, zeroblob(64))")
    said = check()
    assert "tree.db: level 0 has 514 hashes, and 700 belong there" in said
    assert "tree.db: level 1 has 0 hashes, and 2 belong there" in said
    assert "checkpoints of the set are refused" in said


def test_a_set_without_entries_has_the_empty_tree(broker):
    empty = Set(broker, "empty").create()
    found = checkpoint(empty)
    assert (found.size, found.root) == (0, hashlib.sha256(b"").digest())


def streamed(follower):
    """Read on to the next checkpoint of a stream: it signs no entry that has not come."""
    while True:
        if hasattr(follower, "read_event"):
            assert follower.read_event()
            text, is_checkpoint = follower.data.encode(), follower.event == "checkpoint"
        else:
            text = follower.read_text()
            is_checkpoint = b'"checkpoint":' in text
        if is_checkpoint:
            found = json.loads(text)
            assert found["epoch"] == follower.message.epoch
            assert found.get("last", 0) <= follower.message.last
            assert not hasattr(follower, "read_event") or follower.last_id == follower.message.position
            return found
        follower.take(messages.read(text, getattr(follower, "form", "json")))


# A stream has them if it asks: behind the entries that they sign; also while nothing
# changes, then of a later time. The other messages are the same.
def test_a_stream_has_checkpoints_if_it_asks(start_broker, run):
    news = start_broker("--checkpoint-every", 0.1, "--heartbeat", 3600, "--insecure-open").set("news")
    news.post(3)
    _, keys = keys_of(run, news)
    asking, silent = (
        [
            news.events(query),
            news.events(query, version="1.0"),
            news.websocket(query),
            news.websocket(query, form="xml"),
            news.websocket(query, deflate=True),
        ]
        for query in ("after=0&checkpoints=yes", "after=0&checkpoints=no")
    )
    first = {}
    for follower in asking:
        said = streamed(follower)
        found = first[follower] = Checkpoint(said["checkpoint"])
        assert (said["set"], said["epoch"], said["last"]) == ("news", news.state()["epoch"], 3)
        assert (found.size, found.root) == (3, mth([leaf(d) for d in digests(news)]))
    for follower in asking:
        while (later := Checkpoint(streamed(follower)["checkpoint"])).times(keys) <= first[follower].times(keys):
            pass
        assert later.text == first[follower].text
    news.post(2)
    for follower in asking:
        while (last := Checkpoint(streamed(follower)["checkpoint"])).size == 3:
            pass
        last.times(keys)
        assert last.text == checkpoint(news).text
    for follower in silent:
        follower.until(5)  # takes nothing else
    for follower in asking + silent:
        follower.leave()


# One that is behind gets no checkpoint before the entries that it signs.
def test_a_slow_stream_gets_the_checkpoint_behind_its_entries(start_broker):
    news = start_broker("--checkpoint-every", 0.1, "--message-bytes", "512K").set("news").create()
    slow = news.websocket("checkpoints=yes&after=0", narrow=True)
    for _ in range(30):
        news.post(100, size=8000)
    fast = news.events("checkpoints=yes")
    while streamed(fast)["last"] < 3000:
        pass
    while streamed(slow)["last"] < 3000:
        pass
    assert slow.message.last == 3000


# A filter passes over the entries; a heartbeat covers them before the checkpoint does.
def test_a_filtered_stream_has_checkpoints(start_broker, run):
    news = start_broker("--checkpoint-every", 0.1, "--heartbeat", 0.2).set("news")
    news.post(3)
    follower = news.events("checkpoints=yes&after=0&prefix=http://other.example/")
    assert streamed(follower)["last"] == 3 == follower.message.last


def test_a_stream_refuses_what_it_cannot_carry(news):
    broker = news.broker
    check_refused(news.get("stream?checkpoints=maybe"), 400, 'checkpoints: "maybe" is not yes or no')
    check_refused(news.get("stream?checkpoints=maybe", **UPGRADE), 400, "checkpoints: ")
    for path in ("/stream?set=news&checkpoints=yes", "/stream?checkpoints=no"):
        for fields in ({}, UPGRADE):
            check_refused(broker.get(path, **fields), 400, "checkpoints: a stream of many sets has none")
    body = b'{"follow": [{"set": "news"}]}'
    answer = broker.post("/stream?checkpoints=yes", body, type=JSON)
    check_refused(answer, 400, "checkpoints: a stream of many sets has none")
