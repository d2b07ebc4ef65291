"""The outbox and the pump of doc/from_postgresql.md: each committed change is published once,
in the order of the commits, although the pump is killed at each of its steps."""

import hashlib
import re

import pytest

from tidings_test.broker import BIN, ROOT
from tidings_test.documentation import Page
from tidings_test.postgresql import PROGRAMS
from tidings_test.soak import choices, soak

SITE = "https://shop.example/"

# Transactions of one or two changes. Rows are locked in the order of their names.
TRANSACTION = """
\\set first random(1, 8)
\\set second random(9, 16)
\\set fate random(1, 8)
BEGIN;
INSERT INTO pages VALUES ('p' || :first, 'body ' || nextval('bodies'))
    ON CONFLICT (path) DO UPDATE SET body = excluded.body;
SELECT pg_sleep(random() * 0.002);
\\if :fate = 1
ROLLBACK;
\\elif :fate = 2
DELETE FROM pages WHERE path = 'p' || :second;
COMMIT;
\\elif :fate = 3
UPDATE pages SET path = path || 'x' WHERE path = 'p' || :first;
UPDATE pages SET path = 'p' || :first WHERE path = 'p' || :first || 'x';
COMMIT;
\\elif :fate = 4
COMMIT;
\\else
INSERT INTO pages VALUES ('p' || :second, 'body ' || nextval('bodies'))
    ON CONFLICT (path) DO UPDATE SET body = excluded.body;
COMMIT;
\\endif
"""

# Stands for a program that the pump runs. It kills the pump, all of its process group,
# before, during or after the call whose number $KILL_AT has. A program that is called
# "during" that goes on, beside the next pump.
WRAPPER = """#!/bin/sh
echo >> "$CALLS"
now=$(wc -l < "$CALLS")
case $KILL_AT in
$now-before) kill -9 0 ;;
$now-during) setsid {program} "$@" < /dev/null & kill -9 0 ;;
$now-after) {program} "$@"; kill -9 0 ;;
esac
exec {program} "$@"
"""


class Pump:
    """The pump of the page, with wrappers about the programs that it calls. Batches are
    small, so that there are many."""

    def __init__(self, folder, database, url, start):
        self.folder, self.url, self.start = folder, url, start
        text = PAGE.file("pump.sh")
        assert "LIMIT 1000" in text
        (folder / "pump.sh").write_text(text.replace("LIMIT 1000", "LIMIT 20"))
        for program in (PROGRAMS / "psql", BIN / "tidings"):
            name = program.name
            (folder / name).write_text(WRAPPER.format(program=program))
            (folder / name).chmod(0o755)
        self.env = {
            **database.env,
            "PATH": f"{folder}:/usr/bin:/bin",
            "CALLS": str(folder / "calls"),
            "TMPDIR": str(folder),
        }

    def begin(self, kill_at="never"):
        (self.folder / "calls").write_text("")
        argv = ("/usr/bin/setsid", "--wait", "/bin/sh", "pump.sh", self.url)
        return self.start(*argv, cwd=self.folder, env={**self.env, "KILL_AT": kill_at})

    def was_killed(self, kill_at):
        done = self.begin(kill_at)
        assert done.wait() in (0, 137), done.errors()
        return done.status == 137


PAGE = Page(ROOT / "doc/from_postgresql.md")


@pytest.fixture
def shop(start_postgresql, tmp_path, run):
    """A database with the outbox of the page."""
    database = start_postgresql()
    database.query("CREATE TABLE pages (path text PRIMARY KEY, body text NOT NULL)")
    database.query("CREATE SEQUENCE bodies")
    (tmp_path / "outbox.sql").write_text(PAGE.file("outbox.sql"))
    (tmp_path / "transaction.sql").write_text(TRANSACTION)
    run(PROGRAMS / "psql", "-Xqf", tmp_path / "outbox.sql", env=database.env)
    # Keeps every later commit, in order.
    database.query("SELECT pg_create_logical_replication_slot('all', 'test_decoding')")
    return database


def committed(database):
    """All changes of the table in the order of their commits, by PostgreSQL's log: the
    path, the change, and the digest of the body."""
    row = re.compile(r"table public\.pages: ([A-Z]+): (.*)")
    found = []
    for line in database.query("SELECT data FROM pg_logical_slot_peek_changes('all', NULL, NULL)"):
        if not (match := row.match(line)):
            continue
        operation, columns = match.groups()
        paths = re.findall(r"path\[text\]:'([^']*)'", columns)
        body = re.search(r"body\[text\]:'([^']*)'", columns)
        digest = body and hashlib.sha256(body[1].encode()).hexdigest()
        if operation == "DELETE":
            found.append((paths[0], "deleted", None))
        elif len(paths) == 2:  # old-key: and new-tuple:
            found += [(paths[0], "deleted", None), (paths[1], "created", digest)]
        else:
            found.append((paths[0], "created" if operation == "INSERT" else "updated", digest))
    return found


def published(pages):
    """The same, of all changes of the set."""
    found = []
    while (page := pages.get(f"changes?after={len(found)}").json())["changes"]:
        assert page["after"] == len(found)
        for entry in page["changes"]:
            digest = entry.get("hash", {}).get("sha-256")
            found.append((entry["loc"].removeprefix(SITE), entry["change"], digest))
    return found


def test_each_commit_is_published_once_and_in_order(
    shop, start_broker, start, run, tmp_path
):
    chance = choices()
    broker = start_broker()
    pages = broker.set("pages")
    pump = Pump(tmp_path, shop, pages.url, start)
    points = [f"{call}-{when}" for call in range(1, 5) for when in ("before", "during", "after")]
    left = points * soak(1, 20)
    chance.shuffle(left)
    n_kills = len(left)
    n_broker_kills = 0
    while left:
        pgbench = (PROGRAMS / "pgbench", "-n", "-c", "6", "-j", "2", "-t", "10")
        writers = start(*pgbench, "-f", tmp_path / "transaction.sql", env=shop.env)
        while writers.is_running and left:
            if pump.was_killed(left[-1]):
                left.pop()
        if n_broker_kills < soak(1, 20):
            running = pump.begin()
            broker.kill()
            broker.restart()
            # A pump that finds no broker ends, and the next one goes on.
            assert running.wait() in (0, 1), running.errors()
            n_broker_kills += 1
        assert writers.wait() == 0, writers.errors()
    assert n_kills == len(points) * soak(1, 20) and n_broker_kills
    assert pump.begin().wait() == 0
    assert shop.query("SELECT count(*) FROM outbox") == ["0"]
    assert len(committed(shop)) > n_kills
    assert published(pages) == committed(shop)


def test_an_entry_that_the_broker_refuses_holds_up_the_later_ones(
    shop, start_broker, start, tmp_path
):
    pages = start_broker().set("pages")
    pump = Pump(tmp_path, shop, pages.url, start)
    shop.query("INSERT INTO pages VALUES ('a', 'A')")
    assert pump.begin().wait() == 0
    shop.query("INSERT INTO pages VALUES ('b c', 'B')")
    shop.query("INSERT INTO pages VALUES ('d', 'D')")
    for _ in range(2):
        refused = pump.begin()
        assert refused.wait() == 1
        assert any("line 1: loc: white space" in line for line in refused.err)
        assert [path for path, *_ in published(pages)] == ["a"]
    shop.query("UPDATE outbox SET entry = replace(entry::text, 'b c', 'b%20c')::json")
    assert pump.begin().wait() == 0
    assert [path for path, *_ in published(pages)] == ["a", "b%20c", "d"]
