"""The outbox of doc/from_postgresql.md: each committed change is published once, in the
order of the commits, although the broker is killed again and again."""

import hashlib
import re

import pytest

from tidings_test.broker import BIN, ROOT
from tidings_test.documentation import Page
from tidings_test.postgresql import PROGRAMS
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

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

PAGE = Page(ROOT / "doc/from_postgresql.md")


@pytest.fixture
def shop(start_postgresql, tmp_path, run):
    """A database with the function and the trigger of the page."""
    database = start_postgresql()
    database.query("CREATE TABLE pages (path text PRIMARY KEY, body text NOT NULL)")
    database.query("CREATE SEQUENCE bodies")
    for _ in range(2):  # the second time does no harm
        run(BIN / "tidingsd", "postgresql", "init", "--postgresql", address(database))
    (tmp_path / "trigger.sql").write_text(PAGE.file("trigger.sql"))
    (tmp_path / "transaction.sql").write_text(TRANSACTION)
    run(PROGRAMS / "psql", "-Xqf", tmp_path / "trigger.sql", env=database.env)
    # Keeps every later commit, in order.
    database.query("SELECT pg_create_logical_replication_slot('all', 'test_decoding')")
    return database


def address(database):
    return f"{database.address} dbname=postgres"


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


def last(pages):
    """The last number of the set; 0: there is no set yet."""
    answer = pages.broker.get(pages.path, Accept="application/json")
    return answer.json()["last"] if answer.status == 200 else 0


def wait_last(pages, n):
    wait_for(f"change {n}", lambda: last(pages) >= n)


def wait_warning(broker, text):
    wait_for(text, lambda: f"warning: outbox: {text}" in broker.get("/readyz").text)


def wait_empty(database):
    count = "SELECT count(*) FROM tidings_outbox"
    wait_for("an empty outbox", lambda: database.query(count) == ["0"])


def test_each_commit_is_published_once_and_in_order(shop, start_broker, start, tmp_path):
    broker = start_broker("--postgresql", address(shop))
    pages = broker.set("pages")
    n_kills = 0
    while n_kills < soak(4, 100):
        pgbench = (PROGRAMS / "pgbench", "-n", "-c", "6", "-j", "2", "-t", "50")
        writers = start(*pgbench, "-f", tmp_path / "transaction.sql", env=shop.env)
        while writers.is_running:
            seen = last(pages)
            wait_for("a batch", lambda: not writers.is_running or last(pages) > seen)
            broker.kill()
            broker.restart()
            n_kills += 1
        assert writers.wait() == 0, writers.errors()
    wait_empty(shop)
    assert published(pages) == committed(shop)


def test_an_entry_that_the_broker_refuses_holds_up_its_own_set(shop, start_broker):
    broker = start_broker("--postgresql", address(shop))
    pages, news = broker.set("pages"), broker.set("news")
    shop.query("INSERT INTO pages VALUES ('a', 'A')")
    wait_empty(shop)
    bad = f'{{"loc":"{SITE}b","change":"created","length":-1}}'
    shop.query(f"SELECT tidings_publish('pages', '{bad}')")
    shop.query("INSERT INTO pages VALUES ('d', 'D')")
    entry = '{"loc": "https://shop.example/1",\n "change": "created"}'
    shop.query(f"SELECT tidings_publish('news', '{entry}')")
    wait_last(news, 1)
    wait_warning(broker, "set pages: the entry with the id 2: length: ")
    assert [path for path, *_ in published(pages)] == ["a"]
    shop.query("UPDATE tidings_outbox SET entry = replace(entry::text, '-1', '1')::json")
    shop.query("UPDATE tidings_outbox_sets SET at = at - interval '1 hour'")
    wait_empty(shop)
    assert [path for path, *_ in published(pages)] == ["a", "b", "d"]
    wait_for("no warning", lambda: "outbox" not in broker.get("/readyz").text)


# A post is all or nothing, and so is what a commit publishes to a set.
def test_a_batch_ends_with_a_commit_unless_that_is_too_large(shop):
    entry = '{"loc":"http://example.com/1","change":"created"}'
    large = f"""json_build_object('loc', 'http://example.com/' || repeat('x', 60000),
        'change', 'created')"""
    for n, each in ((998, f"'{entry}'"), (5, f"'{entry}'"), (1200, f"'{entry}'"), (40, large),
                    (40, large)):
        shop.query(f"SELECT tidings_publish('news', {each}) FROM generate_series(1, {n})")
    found = []
    while rows := shop.query(
        "SELECT number, id, cardinality(string_to_array(lines, E'\\n'))"
        " FROM tidings_outbox_next('test', '')"
    ):
        number, id, n = map(int, rows[0].split("|"))
        found.append(n)
        shop.query(f"SELECT tidings_outbox_done('news', {number}, {id})")
    assert found == [998, 5, 1000, 240, 40]


REFUSED = (
    ("'No Name', '{}'", 'no set can be called "No Name"'),
    ("NULL, '{}'", "no set can be called"),
    ("'news', '[]'", "an entry is an object with loc and change"),
    ("'news', '{\"loc\":1,\"change\":\"created\"}'", "an entry is an object"),
    ("'news', '{\"loc\":\"http://a/\"}'", "an entry is an object"),
    ("'news', NULL", "an entry is an object"),
    ("'news', '{\"loc\":\"http://a/b c\",\"change\":\"created\"}'", '"http://a/b c" is no URL: escape'),
    ("'news', '{\"loc\":\"/a\",\"change\":\"created\"}'", '"/a" is no URL'),
    ("'news', '{\"loc\":\"\",\"change\":\"created\"}'", '"" is no URL'),
)


def test_what_no_broker_would_take_is_an_error_of_the_transaction(shop):
    for arguments, text in REFUSED:
        with pytest.raises(AssertionError, match=text):
            shop.query(f"SELECT tidings_publish({arguments})")
        assert shop.query("SELECT count(*) FROM tidings_outbox") == ["0"]


ESCAPED = (
    ("", ""),
    ("a/b-c_d.e~9", "a/b-c_d.e~9"),
    ("green tea?x=1&y#z", "green%20tea%3Fx%3D1%26y%23z"),
    ("100%", "100%25"),
    ("Öl/日\U0001F375\n", "%C3%96l/%E6%97%A5%F0%9F%8D%B5%0A"),
)


def test_a_path_becomes_part_of_a_url(shop):
    for path, escaped in ESCAPED:
        assert shop.query(f"SELECT tidings_escape($x${path}$x$)") == [escaped]


# However it is written: a literal, and each type that a caller may have.
def test_an_entry_is_json_jsonb_or_text(shop, start_broker):
    news = start_broker("--postgresql", address(shop)).set("news")
    for n, entry in enumerate(
        (
            """'{"loc":"http://example.com/%d","change":"created"}'""",
            """json_build_object('loc', 'http://example.com/%d', 'change', 'created')""",
            """jsonb_build_object('loc', 'http://example.com/%d', 'change', 'created')""",
            """'{"loc":"http://example.com/%d","change":"created"}'::text""",
        )
    ):
        shop.query(f"SELECT tidings_publish('news', {entry % n})")
    wait_last(news, 4)
    locs = [entry["loc"] for entry in news.get("changes?after=0").json()["changes"]]
    assert locs == [f"http://example.com/{n}" for n in range(4)]


# PREPARE TRANSACTION keeps the place of its set until its second phase.
def test_a_prepared_transaction_holds_no_commit_for_ever(shop, start_broker):
    publish = """SELECT tidings_publish('%s', '{"loc":"http://example.com/1","change":"created"}')"""
    shop.kill()
    shop.settings["max_prepared_transactions"] = 2
    shop.start()
    shop.query("ALTER FUNCTION tidings_outbox_number() SET lock_timeout = '50ms'")
    shop.query(f"BEGIN; {publish % 'news'}; PREPARE TRANSACTION 'forgotten'")
    with pytest.raises(AssertionError, match="pg_prepared_xacts"):
        shop.query(publish % "news")
    shop.query(publish % "other")
    shop.query("COMMIT PREPARED 'forgotten'")
    shop.query(publish % "news")
    broker = start_broker("--postgresql", address(shop))
    wait_last(broker.set("news"), 2)
    wait_last(broker.set("other"), 1)


def test_others_need_the_right_to_publish_and_no_other(shop, start_broker):
    pages = start_broker("--postgresql", address(shop)).set("news")
    publish = """SELECT tidings_publish('news', '{"loc":"http://example.com/1","change":"created"}')"""
    shop.query("CREATE ROLE app")
    with pytest.raises(AssertionError, match="permission denied for function"):
        shop.query(f"SET ROLE app; {publish}")
    shop.query("GRANT EXECUTE ON FUNCTION tidings_publish(text, json) TO app")
    shop.query(f"SET ROLE app; {publish}")
    wait_last(pages, 1)


def test_a_database_that_is_away_is_a_warning(shop, start_broker):
    shop.process.signal(2)
    shop.process.wait()
    broker = start_broker("--postgresql", address(shop))
    wait_warning(broker, "PostgreSQL: ")
    shop.start()
    shop.query("INSERT INTO pages VALUES ('a', 'A')")
    wait_last(broker.set("pages"), 1)
    wait_for("no warning", lambda: "outbox" not in broker.get("/readyz").text)
