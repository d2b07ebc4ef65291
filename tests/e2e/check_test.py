"""`tidingsd check`: every planted damage is found and named, and a sound directory has
none, beside a broker, stopped or killed. Each finding says what, where, what it means
and what to do; nothing is written."""

import contextlib
import functools
import gzip
import os
import re
import shutil
import sqlite3
import struct
import subprocess
import zlib

import pytest

from data import kept
from tidings_test.broker import PROGRAMS
from tidings_test.snapshots import snapshot
from tidings_test.soak import soak

LISTS = "sets/news/changes"
CONTENT = "sets/files/content/34/3413f4b92c7f23570f361554a730712d65f3092f3e12f5a2f76721dee4fde772"
DUMP = "sets/files/resourcedump/000000000002"
PACKS = "sets/files/changedump/000000000001"
STOCK = "sets/stock/resourcelist/000000000004"


@pytest.fixture(scope="module")
def sound(module_path):
    """The data directory of a stopped broker with a little of everything."""
    (archive,) = [path for path in kept.archives() if "store8/stopped" in str(path)]
    return kept.Kept(archive, module_path).directory / "data"


@pytest.fixture
def data(sound, tmp_path):
    """A copy of it."""
    return shutil.copytree(sound, tmp_path / "data")


# Ways to do damage


def sql(name, *statements):
    """Run statements in a database."""

    def damage(data):
        with contextlib.closing(sqlite3.connect(data / name)) as database, database:
            database.execute("PRAGMA synchronous=OFF")
            for statement in statements:
                assert database.execute(statement).rowcount != 0, statement

    return damage


def remove(name):
    def damage(data):
        path = data / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return damage


def remove_database(name):
    def damage(data):
        for path in data.glob(f"{name}*"):
            path.unlink()

    return damage


def make(name, text="x"):
    def damage(data):
        path = data / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o600)

    return damage


def make_folder(name):
    return lambda data: (data / name).mkdir(0o700)


def edit(name, function):
    """Replace the bytes of a file by function(bytes)."""

    def damage(data):
        path = data / name
        before = path.read_bytes()
        after = function(before)
        assert after != before
        path.write_bytes(after)

    return damage


def flip(at):
    """Change one byte; `at`: a part of the length, from 0 to 1."""

    def function(text):
        n = int(len(text) * at)
        return text[:n] + bytes([text[n] ^ 0x55]) + text[n + 1 :]

    return function


def cut(text):
    return text[: len(text) // 2]


def pack(text):
    """As gzip, with the head that the broker writes."""
    deflate = zlib.compressobj(wbits=-15)
    packed = deflate.compress(text) + deflate.flush()
    sums = struct.pack("<II", zlib.crc32(text), len(text))
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + packed + sums


def edit_list(old, new):
    """Change the plain text of list 2 of "news", and write it again as gzip."""

    def function(packed):
        text = gzip.decompress(packed)
        after, n = re.subn(old, new, text, count=1, flags=re.DOTALL)
        assert n == 1
        return pack(after)

    return edit(f"{LISTS}/000000000002.xml.gz", function)


def repack(packed):
    return pack(gzip.decompress(packed))


def copy(old, new):
    return lambda data: shutil.copy(data / old, data / new) and None


def chmod(name, mode):
    return lambda data: (data / name).chmod(mode)


def both(*damages):
    def damage(data):
        for one in damages:
            one(data)

    return damage


def spoil_pages(name):
    """Write zeros over the pages behind the first one."""

    def function(text):
        return text[:4096] + bytes(len(text) // 2) + text[4096 + len(text) // 2 :]

    return both(sql(name, "PRAGMA user_version"), edit(name, function))


def token(name):
    """Make a token."""

    def damage(data):
        options = ["--subscribe", "*", "--data", data]
        command = [PROGRAMS["tidingsd"], "token", "add", name, *options]
        subprocess.run(command, capture_output=True, check=True)

    return damage


def spoil_text(name):
    return both(remove_database(name), make(name, "this is no database\n" * 50))


def entry(seq):
    return rb'<url>(?:(?!</url>).)*td:seq="%d".*?</url>\n' % seq


STORE = functools.partial(sql, "tidings.db")
HUB = functools.partial(sql, "hub.db")
MQTT = functools.partial(sql, "mqtt.db")
STATE = functools.partial(sql, "sets/stock/resources.db")
FILES = functools.partial(sql, "sets/files/content.db")

LIST_2 = f"{LISTS}/000000000002.xml.gz"

# Name, damage, the file that a finding names, and a part of what it says. A name that
# ends with "deep" needs --deep, and is not found without.
DAMAGES = [
    # Files of closed lists
    ("list missing", remove(LIST_2), LIST_2, "it is missing"),
    ("list cut", edit(LIST_2, cut), LIST_2, ""),
    ("list empty", edit(LIST_2, lambda text: b""), LIST_2, ""),
    ("list flipped", edit(LIST_2, flip(0.5)), LIST_2, ""),
    ("list checksum", edit(LIST_2, flip(0.999)), LIST_2, ""),
    ("list no gzip", edit(LIST_2, gzip.decompress), LIST_2, "not gzip"),
    ("list appended", edit(LIST_2, lambda text: text + b"more"), LIST_2, ""),
    (
        "list of another number",
        copy(f"{LISTS}/000000000003.xml.gz", LIST_2),
        LIST_2,
        "its header is not the one in tidings.db",
    ),
    ("list header", edit_list(b"<urlset", b"<Urlset"), LIST_2, 'expected "<urlset'),
    (
        "list entry missing",
        edit_list(entry(10), b""),
        LIST_2,
        "line 11: expected entry 10, found entry 11",
    ),
    (
        "list entry twice",
        edit_list(b"(" + entry(10) + b")", rb"\1\1"),
        LIST_2,
        "line 12: expected entry 11, found entry 10",
    ),
    (
        "list entry changed",
        edit_list(b"example.com/", b"example.net/"),
        LIST_2,
        "an entry from 8 to 14 was altered: expected td:digest sha-256:",
    ),
    (
        "list time",
        edit_list(rb'datetime="\d{4}(-\S+ td:seq="10")', rb'datetime="1999\1'),
        LIST_2,
        "line 11: the time of entry 10: expected one after 2026-",
    ),
    ("list no entry", edit_list(entry(10), b"<u></u>\n"), LIST_2, "neither an entry nor"),
    ("list end", edit_list(b"</urlset>", b"</urlSet>"), LIST_2, "neither an entry nor"),
    ("list packed again", edit(LIST_2, repack), LIST_2, "the marks in tidings.db"),
    (
        "list marks",
        STORE("UPDATE lists SET marks=zeroblob(128) WHERE set_id=2 AND number=2"),
        LIST_2,
        "the marks in tidings.db",
    ),
    # The log in tidings.db
    (
        "list row",
        STORE("DELETE FROM lists WHERE set_id=2 AND number=3"),
        "tidings.db",
        "list 3 of set 2 is missing",
    ),
    (
        "list chain",
        STORE("UPDATE lists SET digest=zeroblob(32) WHERE set_id=2 AND number=3"),
        "tidings.db",
        "list 4 of set 2 does not go on where list 3 ends",
    ),
    (
        "list range",
        STORE("UPDATE lists SET until_us=from_us WHERE set_id=2 AND number=6"),
        "tidings.db",
        "list 6 of set 2 has the entries 36 to 42, from",
    ),
    (
        "no marks",
        STORE("UPDATE lists SET marks=NULL WHERE set_id=2 AND number=3"),
        "tidings.db",
        "list 3 of set 2 has a file, and no marks",
    ),
    ("store missing", remove("tidings.db"), "tidings.db", "it is missing or empty"),
    ("store text", spoil_text("tidings.db"), "tidings.db", "not a database"),
    ("store pages", spoil_pages("tidings.db"), "tidings.db", ""),
    (
        "store newer",
        STORE("PRAGMA user_version=99"),
        "tidings.db",
        "of version 99, and this program knows versions up to",
    ),
    (
        "store older",
        STORE("PRAGMA user_version=3"),
        "tidings.db",
        "of version 3, and this program checks versions from 7 on",
    ),
    (
        "batch missing",
        STORE("DELETE FROM batches WHERE set_id=4 AND first=5"),
        "tidings.db",
        "set large: entries 5 to 8 are missing",
    ),
    (
        "batch changed",
        STORE(
            "UPDATE batches SET body=replace(CAST(body AS TEXT), 'example.com',"
            " 'example.net') WHERE set_id=4 AND first=5"
        ),
        "tidings.db",
        "set large: entries 5 to 8 are not those that were stored",
    ),
    (
        "batch no entry",
        STORE("UPDATE batches SET body=zeroblob(length(body)) WHERE set_id=9"),
        "tidings.db",
        "set stock: what follows entry 0 is no entry",
    ),
    (
        "batch digest",
        STORE("UPDATE batches SET digest=zeroblob(32) WHERE set_id=4 AND first=5"),
        "tidings.db",
        "entries 9 to 12 of set 4 do not go on where entry 8 ends",
    ),
    (
        "batch set",
        STORE("UPDATE batches SET set_id=99 WHERE set_id=14"),
        "tidings.db",
        "belong to set 99, which does not exist",
    ),
    (
        "batch list",
        STORE("UPDATE batches SET list=9 WHERE set_id=2 AND first=43"),
        "tidings.db",
        "entries 43 to 43 of set 2 name list 9, and the open list is 7",
    ),
    (
        "batch bytes",
        STORE("UPDATE batches SET list_bytes=7 WHERE set_id=4 AND first=9"),
        "tidings.db",
        "list 1 of set 4 has",
    ),
    (
        "set settings",
        STORE("UPDATE sets SET settings='{' WHERE name='news'"),
        "tidings.db",
        "the settings of set news are no JSON",
    ),
    (
        "set epoch",
        STORE("UPDATE sets SET epoch='x' WHERE name='news'"),
        "tidings.db",
        'set news has the epoch "x"',
    ),
    (
        "set another epoch",
        STORE("UPDATE sets SET epoch='0123456789abcdef' WHERE name='news'"),
        LIST_2,
        "it is of another history: expected epoch 0123456789abcdef",
    ),
    (
        "set first list",
        STORE("UPDATE sets SET earliest=1 WHERE name='books'"),
        "tidings.db",
        "set books begins behind entry 1, and its first list behind entry 3",
    ),
    (
        "set bytes",
        STORE("UPDATE sets SET file_bytes=1 WHERE name='news'"),
        "tidings.db",
        "bytes, and 1 are stored",
    ),
    (
        "set numbers",
        STORE("UPDATE sets SET start_list=1 WHERE name='again'"),
        "tidings.db",
        "set again begins with list 1, and an earlier set of that name",
    ),
    (
        "keys state",
        STORE("DELETE FROM keys_state"),
        "tidings.db",
        "keys_state has 0 rows",
    ),
    (
        "keys missing",
        STORE("DELETE FROM keys_1 WHERE id=2"),
        "tidings.db",
        "1 of 6 keys of a table are missing",
    ),
    (
        "keys digest",
        STORE("UPDATE keys_1 SET key='short' WHERE id=2"),
        "tidings.db",
        "key 2 is no digest",
    ),
    # Builds
    (
        "build row",
        STORE("UPDATE generations SET seq=99 WHERE set_id=9 AND number=4"),
        "tidings.db",
        "build 4 of kind 0 of set stock stands for entry 99",
    ),
    (
        "build time",
        STORE("UPDATE generations SET at_us=9 WHERE set_id=9 AND number=4"),
        "tidings.db",
        "set 9: build 4 of kind 0 has another time than in the log",
    ),
    (
        "build set",
        STORE("UPDATE generations SET set_id=98 WHERE set_id=9 AND number=4"),
        "tidings.db",
        "Resource List 4 belongs to set 98, which does not exist",
    ),
    (
        "build bytes",
        STORE("UPDATE generations SET bytes=7 WHERE set_id=9 AND number=4"),
        STOCK,
        "bytes, and 7 are stored",
    ),
    ("build missing", remove(STOCK), STOCK, "it is missing"),
    (
        "part missing",
        remove(f"{STOCK}/000000000002.xml.gz"),
        f"{STOCK}/000000000002.xml.gz",
        "it is missing",
    ),
    (
        "index missing",
        remove(f"{STOCK}/000000000000.xml.gz"),
        f"{STOCK}/000000000000.xml.gz",
        "it is missing",
    ),
    (
        "part no gzip",
        make(f"{STOCK}/000000000002.xml.gz", "text"),
        f"{STOCK}/000000000002.xml.gz",
        "",
    ),
    (
        "part flipped deep",
        edit(f"{STOCK}/000000000002.xml.gz", flip(0.95)),
        f"{STOCK}/000000000002.xml.gz",
        "",
    ),
    (
        "package missing",
        remove(f"{DUMP}/000000000003.zip"),
        f"{DUMP}/000000000003.zip",
        "it is missing",
    ),
    (
        "package cut",
        edit(f"{DUMP}/000000000003.zip", cut),
        f"{DUMP}/000000000003.zip",
        "bytes, and the dump announces",
    ),
    (
        "package flipped deep",
        edit(f"{DUMP}/000000000003.zip", flip(0.5)),
        f"{DUMP}/000000000003.zip",
        "sha-256",
    ),
    (
        "manifest missing",
        remove(f"{DUMP}/000000000003-manifest.xml.gz"),
        f"{DUMP}/000000000003-manifest.xml.gz",
        "it is missing",
    ),
    (
        "dump packages",
        STORE("UPDATE generations SET parts=4 WHERE set_id=10 AND kind=1 AND number=2"),
        DUMP,
        "its document names 5 packages, and it has 4",
    ),
    (
        "index of another list deep",
        copy(
            "sets/stock/resourcelist/000000000003/000000000000.xml.gz",
            f"{STOCK}/000000000000.xml.gz",
        ),
        f"{STOCK}/000000000000.xml.gz",
        "it is not of the entries 1 to 25 that the row in tidings.db names",
    ),
    (
        "part of the same list deep",
        copy(f"{STOCK}/000000000001.xml.gz", f"{STOCK}/000000000003.xml.gz"),
        STOCK,
        "its documents have 9 entries and end with entry 25, and its row has 8 and 25",
    ),
    (
        "manifest of another package deep",
        copy(f"{DUMP}/000000000003-manifest.xml.gz", f"{DUMP}/000000000004-manifest.xml.gz"),
        f"{DUMP}/000000000004.zip",
        "the source announced",
    ),
    (
        "manifest of other entries deep",
        copy(f"{PACKS}/000000000002-manifest.xml.gz", f"{PACKS}/000000000003-manifest.xml.gz"),
        f"{PACKS}/000000000003-manifest.xml.gz",
        "it is not of the entries 3 to 5 that the row in tidings.db names",
    ),
    # The resources of a set
    (
        "state missing",
        remove_database("sets/books/resources.db"),
        "sets/books/resources.db",
        "it is missing, and the log no longer has the first 3 entries",
    ),
    ("state text", spoil_text("sets/stock/resources.db"), "sets/stock/resources.db", ""),
    (
        "state epoch",
        STATE("UPDATE state SET epoch='0123456789abcdef'"),
        "sets/stock/resources.db",
        "it is of the epoch 0123456789abcdef",
    ),
    (
        "state digest",
        STATE("UPDATE state SET digest=zeroblob(32)"),
        "sets/stock/resources.db",
        "its entry 26 has another digest than in the log",
    ),
    (
        "state ahead",
        STATE("UPDATE state SET seq=99"),
        "sets/stock/resources.db",
        "it was computed up to entry 99, and the log ends with entry 26",
    ),
    (
        "resource missing deep",
        STATE(
            "DELETE FROM keys WHERE id=(SELECT id FROM resources WHERE seq=18)",
            "DELETE FROM resources WHERE seq=18",
        ),
        "sets/stock/resources.db",
        "the resource of entry 18 has no row",
    ),
    (
        "resource changed deep",
        STATE(
            "UPDATE resources SET entry=CAST(replace(CAST(entry AS TEXT),"
            " 'length', 'Length') AS BLOB) WHERE seq=18"
        ),
        "sets/stock/resources.db",
        "the resource of entry 18 has a row that differs from the entry",
    ),
    (
        "resource old deep",
        STATE("UPDATE resources SET seq=2 WHERE seq=18"),
        "sets/stock/resources.db",
        "the resource of entry 18 has a row of an earlier entry",
    ),
    (
        "resource key deep",
        STATE("DELETE FROM keys WHERE id=(SELECT id FROM resources WHERE seq=18)"),
        "sets/stock/resources.db",
        "1 resources have no key",
    ),
    (
        "resource added deep",
        STATE("INSERT INTO resources(seq, entry) VALUES(20, '<url></url>')"),
        "sets/stock/resources.db",
        "1 resources are of entries that the log does not have",
    ),
    (
        "resource count deep",
        STATE("UPDATE state SET n=99"),
        "sets/stock/resources.db",
        "and counts 99 in",
    ),
    # Content
    ("content missing", remove(CONTENT), CONTENT, "it is missing"),
    ("content cut", edit(CONTENT, cut), CONTENT, "it has 1500 bytes, and 3000 are"),
    (
        "content flipped deep",
        edit(CONTENT, flip(0.5)),
        CONTENT,
        "its bytes are not those of its name",
    ),
    (
        "content index",
        remove_database("sets/files/content.db"),
        "sets/files/content.db",
        "it cannot be read, and there are 6 files of bytes",
    ),
    (
        "content count",
        FILES("UPDATE files SET n=7 WHERE length=3000"),
        "sets/files/content.db",
        "entries, and counts 7",
    ),
    (
        "content row",
        FILES("DELETE FROM files WHERE length=5000"),
        "sets/files/content.db",
        "entry 3 has the digest 7929",
    ),
    (
        "content orphan",
        FILES("DELETE FROM files WHERE length=3000"),
        CONTENT,
        "the file is of no use here",
    ),
    (
        "content lost",
        FILES("UPDATE entries SET digest=NULL WHERE seq=6"),
        "sets/files/content.db",
        "entry 6 has no bytes, and is not listed as missing",
    ),
    (
        "content current",
        FILES("UPDATE entries SET until=9 WHERE seq=8"),
        "sets/files/content.db",
        "entry 8 is current, and has no row or a later entry",
    ),
    (
        "content digest",
        FILES("UPDATE state SET digest=zeroblob(32)"),
        "sets/files/content.db",
        "has another digest than in the log",
    ),
    # The hub
    (
        "hub missing",
        remove("hub.db"),
        "hub.db",
        "it is missing, and with it all subscriptions and relays",
    ),
    ("hub pages", spoil_pages("hub.db"), "hub.db", ""),
    (
        "cursor missing",
        HUB("DELETE FROM cursors WHERE id=6"),
        "hub.db",
        "subscription 6 has no position",
    ),
    (
        "cursor alone",
        HUB("DELETE FROM subscriptions WHERE id=6"),
        "hub.db",
        "position 6 has no subscription",
    ),
    (
        "cursor ahead",
        HUB("UPDATE cursors SET after=99 WHERE id=6"),
        "hub.db",
        "subscription 6 has got the entries of news up to 99, and the log ends with "
        "entry 43",
    ),
    (
        "cursor behind",
        STORE("UPDATE sets SET earliest=42, first_list=7 WHERE name='news'"),
        "hub.db",
        "subscription 20 has got the entries of news up to 41, and the log begins "
        "behind entry 42",
    ),
    (
        "subscription stale",
        HUB("UPDATE subscriptions SET epoch='0123456789abcdef' WHERE id=6"),
        "hub.db",
        "subscription 6 is to news, which does not exist",
    ),
    (
        "request stale",
        HUB("UPDATE requests SET name='gone'"),
        "hub.db",
        "request 23 is to gone, which does not exist",
    ),
    (
        "subscription kind",
        HUB("UPDATE subscriptions SET topic_kind=7 WHERE id=6"),
        "hub.db",
        "subscription 6 is of kind 0, to a topic of kind 7",
    ),
    (
        "document changed",
        HUB("UPDATE documents SET body=zeroblob(size) WHERE id=2"),
        "hub.db",
        "document 2 is not the one that was stored",
    ),
    (
        "document size",
        HUB("UPDATE documents SET size=9 WHERE id=2"),
        "hub.db",
        "document 2 has 7 bytes, and counts 9",
    ),
    (
        "document number",
        HUB("UPDATE documents SET seq=9 WHERE id=2"),
        "hub.db",
        "relay blog ends with document 2, and has document 9",
    ),
    # Bridges
    (
        "lane ahead",
        MQTT("UPDATE lanes SET acked=99 WHERE name='news'"),
        "mqtt.db",
        "bridge hall has published the entries of set news up to 99, and the log ends "
        "with entry 43",
    ),
    (
        "lane messages",
        MQTT("UPDATE lanes SET ends=x'80' WHERE name='news'"),
        "mqtt.db",
        "bridge hall: the messages of set news are damaged",
    ),
    (
        "lane message ahead",
        MQTT("UPDATE lanes SET ends=x'7f' WHERE name='news'"),
        "mqtt.db",
        "bridge hall has begun messages of set news up to entry",
    ),
    (
        "lane stale",
        MQTT("UPDATE lanes SET name='gone' WHERE name='news'"),
        "mqtt.db",
        "bridge hall has a lane of set gone, which does not exist",
    ),
    (
        "lane alone",
        MQTT("DELETE FROM bridges"),
        "mqtt.db",
        "the lane of set news is of bridge hall, which does not exist",
    ),
    # Tokens
    (
        "token digest",
        both(
            token("reader"),
            sql("tokens.db", "UPDATE tokens SET digest='short' WHERE name='reader'"),
        ),
        "tokens.db",
        "token reader has an id, a salt or a digest that is damaged",
    ),
    ("token pages", both(token("reader"), spoil_pages("tokens.db")), "tokens.db", ""),
    # Names and permissions
    (
        "list of no row",
        copy(LIST_2, f"{LISTS}/000000000009.xml.gz"),
        f"{LISTS}/000000000009.xml.gz",
        "the file is of no use here",
    ),
    (
        "build of no row",
        STORE("DELETE FROM generations WHERE set_id=9 AND number=2"),
        "sets/stock/resourcelist/000000000002",
        "the folder is of no use here",
    ),
    (
        "build half written",
        make_folder("sets/stock/resourcelist/000000000009"),
        "sets/stock/resourcelist/000000000009",
        "the folder is not complete",
    ),
    (
        "part of no build",
        make(f"{STOCK}/000000000007.xml.gz"),
        f"{STOCK}/000000000007.xml.gz",
        "the file is of no use here",
    ),
    (
        "set of no row",
        make_folder("sets/nobody"),
        "sets/nobody",
        "the folder is of no use here",
    ),
    ("restore cut off", make("restoring"), "restoring", "was cut off"),
    ("file of nobody", make("tidings.db.old"), "tidings.db.old", "of no use here"),
    (
        "list half written",
        make(f"{LISTS}/000000000007.xml.gz.new"),
        f"{LISTS}/000000000007.xml.gz.new",
        "the file is not complete",
    ),
    ("bytes arriving", make("arriving/AbCdEf"), "arriving/AbCdEf", "not complete"),
    ("upload arriving", make("uploads/news.new"), "uploads/news.new", "not complete"),
    ("upload text", make("uploads/news.whole", "x" * 999), "uploads/news.whole", ""),
    (
        "mode file",
        chmod("hub.db", 0o644),
        "hub.db",
        "its mode is 0644, and should be 0600",
    ),
    (
        "mode list",
        chmod(LIST_2, 0o400),
        LIST_2,
        "its mode is 0400, and should be 0600",
    ),
    (
        "mode folder",
        chmod("sets/news", 0o755),
        "sets/news",
        "its mode is 0755, and should be 0700",
    ),
    ("mode data", chmod("", 0o777), "", "its mode is 0777, and should be 0711"),
]


def check(data, *options):
    """Run the check: its status, its findings, and its summary."""
    command = [PROGRAMS["tidingsd"], "check", "--data", data, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    *findings, summary = done.stdout.splitlines()
    assert summary.startswith(f"checked {data}")
    return done.returncode, findings, summary


def names(findings, path, what):
    """True if a finding is about that file."""
    return any(line.startswith(f"{path}: ") and what in line for line in findings)


def test_there_are_enough_damages():
    assert len({name for name, *_ in DAMAGES}) == len(DAMAGES) >= 50


@pytest.mark.parametrize("row", DAMAGES, ids=lambda row: row[0].replace(" ", "-"))
def test_a_planted_damage_is_found_and_named(data, row):
    name, damage, place, what = row
    damage(data)
    before = snapshot(data)
    path = data / place if place else data
    if name.endswith("deep"):
        assert not names(check(data)[1], path, what)
    status, findings, summary = check(data, "--deep")
    assert status == 1
    assert names(findings, path, what), findings
    assert all(line.count("; ") >= 2 for line in findings)
    assert f"{len(findings)} finding" in summary
    assert snapshot(data) == before


@pytest.mark.parametrize(
    "name",
    [
        LIST_2,
        f"{STOCK}/000000000000.xml.gz",
        f"{STOCK}/000000000002.xml.gz",
        f"{DUMP}/000000000001.xml.gz",
        f"{DUMP}/000000000003-manifest.xml.gz",
        f"{DUMP}/000000000003.zip",
        f"{PACKS}/000000000001.xml.gz",
        f"{PACKS}/000000000003-manifest.xml.gz",
        f"{PACKS}/000000000003.zip",
        CONTENT,
    ],
)
def test_a_flipped_bit_is_found_and_named(data, name):
    """Anywhere in a file, whether or not a reader looks at that bit."""
    path = data / name
    whole = path.read_bytes()
    places = soak(6, 400)
    for i in range(places):
        at = i * (len(whole) - 1) // (places - 1)
        flipped = bytearray(whole)
        flipped[at] ^= 1 << i % 8
        path.write_bytes(flipped)
        status, findings, _ = check(data, "--deep")
        assert status == 1 and names(findings, path, ""), (at, i % 8)
    path.write_bytes(whole)
    assert check(data, "--deep")[:2] == (0, [])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_is_found(data):
    os.chown(data / "hub.db", 12345, -1)
    status, findings, _ = check(data)
    assert status == 1
    assert names(findings, data / "hub.db", "it belongs to user 12345")


@pytest.mark.parametrize("archive", kept.archives(), ids=kept.name)
def test_the_directories_of_all_versions_are_sound(archive, tmp_path):
    data = kept.Kept(archive, tmp_path).directory / "data"
    for path in [data, *data.rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)
    before = snapshot(data)
    _, findings, _ = check(data, "--deep")
    # Nobody reads this file of a killed broker: the next start makes it anew.
    assert [line for line in findings if "uploads/told.work" not in line] == []
    assert snapshot(data) == before


# Beside a broker; a set that was removed and made again has lists of two epochs.
@pytest.mark.parametrize("options", [(), ("--deep",)])
def test_a_broker_is_sound_running_stopped_and_killed(start_broker, options):
    broker = start_broker("--remove-grace", 3600)
    news = broker.set("news")
    news.create(content="inline", retainLists=2)
    again = broker.set("again")
    for one in (news, again):
        for i in range(4):
            change = {"loc": f"http://example.com/{i}", "change": "created"}
            one.receipt(one.send(*kept.with_content(change, "text/plain", b"Hi.\n"))
                        if one is news else one.send(change))
            one.rotate()
        one.build("resourcelist")
    news.build("resourcedump")
    empty = broker.set("empty")
    empty.create(content="inline")
    empty.receipt(empty.send({"loc": "http://example.com/gone", "change": "deleted"}))
    for kind in ("resourcelist", "resourcedump"):
        empty.build(kind)
    again.wait_list_files(4)  # a removed set gets no more
    again.delete()
    again.post()
    again.rotate()
    again.wait_list_files(5)
    status, findings, summary = check(broker.data, *options)
    assert (status, findings) == (0, [])
    assert "beside a running broker" in summary
    assert news.last() == 4
    broker.kill()
    _, findings, _ = check(broker.data, *options)
    # A build that the end cut off, and that the next one clears.
    assert [line for line in findings if "is not complete" not in line] == []
    broker.start()
    again.post()
    news.wait_dumps(4)
    broker.stop()
    status, findings, summary = check(broker.data, *options)
    assert (status, findings) == (0, [])
    assert ": 4 sets, " in summary


def test_a_restored_directory_is_sound(sound, tmp_path, run):
    run("tidingsd", "backup", tmp_path / "backup", "--data", sound)
    data = tmp_path / "data"
    run("tidingsd", "restore", tmp_path / "backup", "--data", data)
    assert check(data, "--deep")[:2] == (0, [])


# Of a cluster: the list before it is the current one, archived or not.
def test_an_order_of_a_list_that_waits_is_sound(data):
    columns = "set_id, name, kind, after, seq, from_us, at_us, completed_us"
    STORE(
        "UPDATE generations SET is_archived=0 WHERE set_id=9 AND kind=0 AND number=4",
        f"INSERT INTO generations({columns}, number, n, parts, bytes, is_archived)"
        f" SELECT {columns}, 5, 0, 0, 0, 1 FROM generations"
        " WHERE set_id=9 AND kind=0 AND number=4",
    )(data)
    assert check(data)[:2] == (0, [])


def test_damage_is_found_beside_a_broker(start_broker):
    broker = start_broker()
    news = broker.set("news")
    news.post(3)
    news.rotate()
    # The file has its row, too. While it has none, both looks find a different fault.
    news.wait_list_files(1)
    path = news.list_file(1)
    path.write_bytes(path.read_bytes()[:-20])
    status, findings, _ = check(broker.data)
    assert status == 1
    assert names(findings, path, "")


def test_no_broker_starts_during_a_check(data, run):
    """The check holds the directory's lock, here for as long as a FIFO is not read."""
    # A list that never ends: the check waits for its bytes.
    path = data / LIST_2
    path.unlink()
    os.mkfifo(path, 0o600)
    command = [PROGRAMS["tidingsd"], "check", "--data", data]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as checking:
        with path.open("wb"):  # the check has opened it
            refused = run(
                "tidingsd", "--listen", "127.0.0.1:0", "--data", data, status=1
            )
            assert f"{data} is in use by" in "\n".join(refused.err)
        checking.communicate()
    assert checking.returncode == 1


def test_bad_usage_and_help(tmp_path, run):
    refused = run("tidingsd", "check", "--data", tmp_path / "none", status=2)
    assert "cannot open the data directory" in refused.err[0]
    assert "--deap" in run("tidingsd", "check", "--deap", status=2).err[0]
    assert "tidingsd --check" in " ".join(run("tidingsd", "check", "--help").out)
    assert "(tidingsd check" in " ".join(
        " ".join(run("tidingsd", "--help").out).split()
    )
