"""tidingsd token: beside a running broker, and without one, with the same output."""

import contextlib
import errno
import json
import re
import sqlite3

import pytest

from tidings_test.waiting import wait_for

TOKEN = re.compile(r"td_[0-9a-f]{12}_[0-9a-f]{64}")


@pytest.fixture
def token(run, start_broker):
    """token("add", "press", ...): runs the command; token.broker is its broker."""
    broker = start_broker()

    def call(*arguments, status=0):
        return run("tidingsd", "token", *arguments, "--data", broker.data, status=status)

    call.broker = broker
    return call


@pytest.fixture(params=["beside a broker", "without one"])
def anywhere(request, token):
    if request.param == "without one":
        token.broker.stop()
    return token


def names(token):
    listed = json.loads(token("list", "--json").output())["tokens"]
    return [one["name"] for one in listed]


def test_it_adds_lists_rotates_and_revokes(anywhere):
    token = anywhere
    assert "There is no token:" in token("list").output()
    made = token("add", "press", "--publish", "news-*,!news-x", "--expires", "90d")
    assert TOKEN.fullmatch(made.output())
    assert "press may now: publish news-* !news-x" in made.errors()
    everyone = token("add", "everyone", "--subscribe", "*")
    assert everyone.output() == ""
    assert names(token) == ["press", "everyone"]
    assert "publish news-* !news-x" in token("show", "press").output()
    again = token("rotate", "press", "--grace", "1h").output()
    assert TOKEN.fullmatch(again) and again != made.output()
    assert names(token) == ["press", "everyone", "press"]
    token("revoke", "press")
    assert names(token) == ["everyone"]
    assert made.output()[16:] not in token("list", "--json").output()


ERRORS = (
    (("show", "none"), 1, 'there is no token "none"'),
    (("show", "../sets"), 1, 'there is no token "../sets"'),
    (("revoke", "none"), 1, 'there is no token "none"'),
    (("add", "press", "--observe"), 1, 'there is a token "press"'),
    (("add", "none"), 2, "no right"),
    (("add", "A b", "--observe"), 2, "A b"),
    (("add", "self", "--observe"), 2, "self"),
    (("add", "a" * 65, "--observe"), 2, "64"),
    (("add", "none", "--publish", "A/b"), 2, "publish"),
    (("add", "none", "--observe", "--expires", "soon"), 2, "--expires"),
    (("add", "none", "--observe", "--expires", "99999999w"), 2, "--expires"),
    (("add", "everyone", "--admin"), 2, "everyone"),
    (("add",), 2, "NAME"),
    (("add", "a", "b"), 2, '"b"'),
    (("rotate", "everyone"), 2, "secret"),
    (("check", "/dev/null", "a", "publish"), 2, "/dev/null"),
    (("check", "none", "a", "publish"), 1, "none"),
    (("check", "none", "a", "read"), 2, "read"),
)


def test_errors_name_what_is_wrong(anywhere):
    token = anywhere
    token("add", "press", "--observe")
    token("add", "everyone", "--subscribe", "*")
    for arguments, status, word in ERRORS:
        said = token(*arguments, status=status).errors()
        assert word in said and said.startswith("tidingsd token"), (arguments, said)
    assert names(token) == ["press", "everyone"]


def test_it_says_what_a_token_may_do(anywhere, tmp_path):
    token = anywhere
    file = tmp_path / "token"
    file.write_text(token("add", "press", "--publish", "news-*").output())
    assert token("check", file, "news-1", "publish").output() == "yes"
    assert token("check", file, "news", "publish", status=1).output() == "no"
    assert token("check", file, "news-1", "manage", status=1).output() == "no"
    token("revoke", "press")
    token("check", file, "news-1", "publish", status=1)


# A token that the command made holds at once, and after a restart.
def test_the_broker_knows_it_at_once(token):
    broker = token.broker
    admin = token("add", "root", "--admin").output()
    assert broker.get("/sets").status == 401
    broker.disconnect()
    broker.token = admin
    assert broker.get("/sets").status == 200
    broker.stop()
    token("add", "press", "--observe")
    broker.start()
    assert [one["name"] for one in broker.get("/tokens").json()["tokens"]] == [
        "root",
        "press",
    ]


# Only the broker's user may open the socket and the database.
def test_other_users_have_no_part_in_it(token):
    token("add", "root", "--admin")
    for name in ("control.sock", "tokens.db"):
        assert (token.broker.data / name).stat().st_mode & 0o777 == 0o600, name


def test_a_listener_elsewhere_needs_a_token(run, start_broker):
    broker = start_broker()
    broker.stop()
    listen = ("--listen", "0.0.0.0:0", "--public-url", "http://broker.example")
    check = ("tidingsd", *listen, "--data", broker.data, "--check")
    assert "token" in run(*check, status=2).errors()
    run("tidingsd", "token", "add", "root", "--admin", "--data", broker.data)
    run(*check)


def test_an_unknown_command_is_named(run):
    assert "\n  token add " in run("tidingsd", "help").output()
    for arguments in (["tokn"], ["token"], ["token", "ad"]):
        assert arguments[0] in run("tidingsd", *arguments, status=2).errors()
    assert "--publish" in run("tidingsd", "token", "add", "--help").output()


def use_on_disk(broker, name):
    """When the token was used, as tokens.db has it; 0: never."""
    uri = f"file:{broker.data / 'tokens.db'}?mode=ro"
    with contextlib.closing(sqlite3.connect(uri, uri=True)) as db:
        query = "SELECT used_us FROM tokens WHERE name = ?"
        return db.execute(query, (name,)).fetchone()[0]


def shown(broker, name):
    return broker.get(f"/tokens/{name}").json()["tokens"][0]


# The broker saves uses while it runs.
def test_the_last_use_outlives_a_kill(start_broker):
    broker = start_broker()
    broker.add_token("root", admin=True)
    holder = broker.holder(broker.add_token("one", observe=True))
    assert "used" not in shown(broker, "one")
    assert holder.get("/tokens/self").status == 200
    wait_for("the use of the token", lambda: use_on_disk(broker, "one"))
    before = shown(broker, "one")["used"]
    broker.kill()
    broker.restart()
    assert shown(broker, "one")["used"] == before


# A disk that fails costs the last use, not the request; the next look saves it.
def test_a_use_that_cannot_be_saved_is_saved_later(start_broker, faults):
    broker = start_broker(env=faults.env)
    broker.add_token("root", admin=True)
    holder = broker.holder(broker.add_token("one", observe=True))
    faults.arm(faults.WRITE, "tokens.db-wal", errno.EIO)
    assert holder.get("/tokens/self").status == 200
    broker.wait_said("the last uses of tokens are not saved")
    assert use_on_disk(broker, "one") == 0
    assert holder.get("/tokens/self").status == 200
    faults.disarm()
    wait_for("the use of the token", lambda: use_on_disk(broker, "one"))
