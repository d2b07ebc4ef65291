"""A broker refuses a data directory that a newer one has used: every database has a
version, and all of them are looked at before anything is written."""

import contextlib
import shutil
import sqlite3
import subprocess

import pytest

from data import kept
from tidings_test.broker import PROGRAMS, Broker
from tidings_test.snapshots import snapshot

NEWER = 99

# Each with the version that this program writes.
DATABASES = {
    "tidings.db": 15,
    "hub.db": 9,
    "mqtt.db": 2,
    "tokens.db": 2,
    "sets/files/resources.db": 3,
    "sets/news/resources.db": 3,
    "sets/files/content.db": 3,
    "uploads/news.whole": 0,
}


@pytest.fixture(scope="module")
def left(module_path):
    """A data directory with every database, which a broker has left."""
    broker = Broker(module_path, ["--mqtt", "mqtt://127.0.0.1:1"])
    for name, settings in (("news", {}), ("files", {"content": "inline"})):
        one = broker.set(name)
        one.create(**settings)
        entry = {"loc": f"http://example.com/{name}", "change": "created"}
        if settings:
            one.receipt(one.send(*kept.with_content(entry, "text/plain", b"Hi.\n")))
        else:
            one.receipt(one.send(entry))
        one.build("resourcelist")
    kept.wait_content(broker.set("files"), missing=0)
    broker.stop()
    token = ["token", "add", "reader", "--subscribe", "*", "--data", broker.data]
    subprocess.run([PROGRAMS["tidingsd"], *token], capture_output=True, check=True)
    (broker.data / "uploads").mkdir(exist_ok=True)
    with contextlib.closing(sqlite3.connect(broker.data / "uploads/news.whole")) as made:
        made.execute("CREATE TABLE staged(id INTEGER PRIMARY KEY)")
    broker.end()
    return broker.data


@pytest.fixture
def data(left, tmp_path):
    """A copy of it."""
    return shutil.copytree(left, tmp_path / "data")


def set_version(path, version, keep_wal=False):
    """Write another version into the file, or only into its WAL, as a crash leaves it."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        if keep_wal:
            database.execute("PRAGMA wal_autocheckpoint=0")
        database.execute(f"PRAGMA user_version={version}")
        database.commit()
        if keep_wal:
            copy = path.with_name("copy")
            wal = path.with_name(f"{path.name}-wal")
            shutil.copy(path, copy)
            saved = wal.read_bytes()
    if keep_wal:
        copy.rename(path)
        wal.write_bytes(saved)


def version_of(path):
    with contextlib.closing(sqlite3.connect(path)) as database:
        return database.execute("PRAGMA user_version").fetchone()[0]


def test_the_databases_have_the_versions_of_this_program(left, tmp_path):
    copy = shutil.copytree(left, tmp_path / "data")
    assert {name: version_of(copy / name) for name in DATABASES} == DATABASES


@pytest.mark.parametrize("options", [(), ("--check",)], ids=["start", "check"])
@pytest.mark.parametrize("name", DATABASES)
def test_a_newer_database_is_refused_before_anything_is_written(
    data, run, name, options
):
    path = data / name
    set_version(path, NEWER, keep_wal=name.endswith(".db"))
    before = snapshot(data)
    refused = run(
        "tidingsd", *options, "--listen", "127.0.0.1:0", "--data", data, status=1
    )
    sentence = (
        f"{path}: the database is of version {NEWER}, and this program knows "
        f"versions up to {DATABASES[name]}: a newer tidingsd has used the data "
        "directory; start that one, or restore an older backup"
    )
    said = "\n".join([*refused.out, *refused.err])
    assert sentence in said
    assert snapshot(data) == before


@pytest.mark.parametrize("name", DATABASES)
def test_a_check_names_a_newer_database(data, run, name):
    set_version(data / name, NEWER)
    before = snapshot(data)
    found = run("tidingsd", "check", "--data", data, status=1)
    sentence = (
        f"{data / name}: the database is of version {NEWER}, and this program knows "
        f"versions up to {DATABASES[name]}; this program can neither serve nor check "
        "it; start the newer tidingsd, or restore an older backup"
    )
    assert sentence in found.out
    assert snapshot(data) == before
