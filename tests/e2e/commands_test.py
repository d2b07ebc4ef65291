"""The commands of an operator and of a subscriber: sets, their documents,
subscriptions, bridges, the state of a mirror, the last changes."""

import json
import os
import shutil

import pytest

from tidings_test import hub
from tidings_test.command_table import commands_of
from tidings_test.layouts import Sitemap
from tidings_test.mqtt import wait_half
from tidings_test.sets import change
from tidings_test.waiting import wait_for

# Text of a stranger that would move a cursor, or begin a line. A broker's JSON has no
# other controls: no XML could carry them.
HOSTILE = "\u009b31mevil\r\nset\t\x7f\u0085text"
CONTROLS = [chr(n) for n in (*range(0x20), *range(0x7F, 0xA0)) if chr(n) != "\n"]


def columns(done):
    """The rows of a table, each a list of its cells."""
    rows = [line.split() for line in done.out]
    assert rows[0] == [word for word in rows[0] if word == word.upper()]
    return rows[1:]


def objects(done):
    """The objects of --json, one a line."""
    return [json.loads(line) for line in done.out]


def check_harmless(done):
    """Nothing of what the program has said controls a terminal."""
    said = done.output() + done.errors()
    assert not [each for each in CONTROLS if each in said], repr(said)


# Sets


def test_sets_are_listed(start_broker, run):
    broker = start_broker()
    assert "no sets" in run("tidings", "set", "list", broker.url).errors()
    demo = broker.set("demo").create(title="The demo")
    broker.set("other").create()
    receipt = demo.post(3)
    listed = columns(run("tidings", "set", "list", broker.url))
    changed = f"{receipt.datetime.partition('.')[0]}Z"
    assert listed[0] == ["demo", receipt.position, changed, "3", "The", "demo"]
    assert (listed[1][0], listed[1][3:]) == ("other", ["0", "-"])
    one, other = objects(run("tidings", "set", "list", f"{broker.url}/", "--json"))
    assert (one["name"], one["position"]) == ("demo", receipt.position)
    assert one["href"] == demo.url and sum(one["rate"]) == 3
    assert other["name"] == "other"
    named = run("tidings", "set", "list", env={"TIDINGS_URL": broker.url})
    assert len(columns(named)) == 2


# One page has a thousand.
def test_all_pages_of_sets_are_listed(start_broker, run):
    broker = start_broker()
    names = [f"s{i:04}" for i in range(1500)]
    for name in names:
        broker.put(f"/sets/{name}", {})
    listed = run("tidings", "set", "list", broker.url)
    assert [row[0] for row in columns(listed)] == names
    assert len({line.index(" ") for line in listed.out[1:]}) == 1
    in_json = objects(run("tidings", "set", "list", broker.url, "--json"))
    assert [each["name"] for each in in_json] == names


def test_lists_show_what_the_token_may_see(start_broker, run):
    broker = start_broker()
    broker.add_token("root", admin=True)
    reader = broker.add_token("reader", subscribe=["open"])
    manager = broker.add_token("manager", manage=["*"])
    for name in ("open", "plans"):
        run("tidings", "set", "create", f"{broker.url}/sets/{name}",
            *(["--private"] if name == "plans" else []),
            env={"TIDINGS_TOKEN": manager})  # fmt: skip

    def said(*command, token, status):
        env = {"TIDINGS_TOKEN": token} if token else {}
        return run("tidings", *command, env=env, status=status)

    listed = said("set", "list", broker.url, token=reader, status=0)
    assert [row[0] for row in columns(listed)] == ["open"]
    for command, refused in (
        (("set", "list", broker.url), "401"),
        (("bridges", broker.url), "401"),
        (("relays", broker.url), "401"),
        (("subscriptions", "list", f"{broker.url}/sets/open"), "401"),
        (("set", "rotate", f"{broker.url}/sets/open"), "401"),
        (("set", "build", "resourcelist", f"{broker.url}/sets/open"), "401"),
        (("tail", f"{broker.url}/sets/open"), "401"),
    ):
        assert refused in said(*command, token=None, status=1).errors(), command
    for command in (
        ("bridges", broker.url),
        ("subscriptions", "list", f"{broker.url}/sets/open"),
        ("subscriptions", "end", f"{broker.url}/sets/open", "1", "--yes"),
        ("set", "rotate", f"{broker.url}/sets/open"),
        ("set", "build", "resourcedump", f"{broker.url}/sets/open"),
    ):
        assert "403" in said(*command, token=reader, status=1).errors(), command
    assert "404" in said("tail", f"{broker.url}/sets/plans", token=reader, status=1).errors()


MISSING = (
    (("set", "rotate", "/sets/none"), 1, "404"),
    (("set", "build", "resourcelist", "/sets/none"), 1, "404"),
    (("subscriptions", "list", "/sets/none"), 1, "404"),
    (("subscriptions", "list", "/relays/none"), 1, "404"),
    (("subscriptions", "show", "/sets/demo", "7"), 1, "404"),
    (("subscriptions", "redeliver", "/sets/demo", "7", "--after", "0"), 1, "404"),
    (("subscriptions", "end", "/sets/demo", "7", "--yes"), 1, "404"),
    (("subscriptions", "show", "/sets/demo", "7/.."), 2, "a number"),
    (("tail", "/sets/none"), 1, "404"),
    (("tail", "/sets/gone"), 3, "410"),
    (("set", "rotate", "/sets/gone"), 3, "410"),
    (("bridges", "/sets"), 1, "404"),
)


@pytest.mark.parametrize("command, status, part", MISSING, ids=lambda value: str(value)[:40])
def test_what_is_not_there_is_said(broker, run, command, status, part):
    for name in ("demo", "gone"):
        broker.put(f"/sets/{name}", {})
    broker.delete("/sets/gone")
    whole = [broker.url + each if each[0] == "/" else each for each in command]
    failed = run("tidings", *whole, status=status)
    assert part in failed.errors() and len(failed.err) == 1
    assert not failed.out[:]
    broker.delete("/sets/demo")


def test_a_broker_that_is_down_is_said(start_broker, run):
    broker = start_broker()
    broker.stop()
    for command in (
        ("set", "list", broker.url),
        ("bridges", broker.url),
        ("subscriptions", "list", f"{broker.url}/sets/demo"),
        ("tail", f"{broker.url}/sets/demo"),
        ("status", broker.url),
    ):
        assert len(run("tidings", *command, status=1).err) == 1


def raw(value):
    """JSON whose strings have every character as it is."""
    return json.dumps(value, ensure_ascii=False)


def sets_page(*names, **more):
    return raw({"sets": [{"name": name, "title": HOSTILE} for name in names], **more})


def test_a_page_of_a_stranger_does_no_harm(site, run):
    command = ("tidings", "set", "list", site.url)
    first, second = "/sets?rate=yes", "/sets?after=b&rate=yes"
    # The next page is asked of the user's server, whatever server is named.
    site.put(first, sets_page(HOSTILE, "b", next="http://127.0.0.9:1/x?after=b&rate=yes"))
    site.put(second, sets_page("c"))
    listed = run(*command)
    check_harmless(listed)
    assert [line.split()[0] for line in listed.out[2:]] == ["b", "c"]
    in_json = run(*command, "--json")
    check_harmless(in_json)
    assert objects(in_json)[1]["title"] == HOSTILE

    for page, part in (
        (sets_page("c", next="?after=b&rate=yes"), "is its own next one"),
        (sets_page(next="?after=c"), "empty"),
        ('{"sets":{}', "no JSON of a broker"),
        ('{"subscriptions":[]}', 'no "sets"'),
        ("<html>", "no JSON of a broker"),
        (sets_page("\x1b[2J"), "no JSON of a broker"),
        (raw({"sets": [], "next": HOSTILE}), "empty"),
    ):
        site.put(second, page)
        failed = run(*command, status=1)
        check_harmless(failed)
        assert part in failed.errors() and "not complete" in failed.errors(), page
        assert "b" in [line.split()[0] for line in failed.out]
    site.status(second, 503)
    failed = run(*command, "--json", status=1)
    assert "503" in failed.errors() and "not complete" in failed.errors()
    assert len(objects(failed)) == 2


# Documents


def test_documents_are_made_now(broker, run):
    demo = broker.set().create(content="fetch")
    assert "is empty" in run("tidings", "set", "rotate", demo.url).errors()
    demo.post(2)
    rotated = run("tidings", "set", "rotate", demo.url).output()
    assert rotated == f"{demo.url}/changes/000000000001.xml"
    assert len(broker.get(broker.path_of(rotated)).document().entries) == 2
    built = run("tidings", "set", "build", "resourcelist", demo.url).output()
    assert built == f"{demo.url}/resourcelist/000000000001.xml"
    assert len(broker.get(broker.path_of(built)).document().entries) == 2
    (facts,) = objects(run("tidings", "set", "build", "resourcelist", demo.url, "--json"))
    assert facts["resources"] == 2
    missing = run("tidings", "set", "build", "resourcedump", demo.url, status=1)
    assert "409" in missing.errors()
    empty = broker.set().create(content="fetch")
    built = run("tidings", "set", "build", "resourcedump", empty.url).output()
    assert built.startswith(f"{empty.url}/resourcedump/")


# 202: the broker builds on, and is asked again.
def test_a_build_is_waited_for(site, start):
    site.put("/sets/demo/resourcelist", '{"list":"http://a.example/list.xml"}')
    site.status("/sets/demo/resourcelist", 202, times=2)
    building = start("tidings", "set", "build", "resourcelist", site.link("/sets/demo"))
    site.asked("/sets/demo/resourcelist").wait(3)
    assert building.wait() == 0
    assert building.output() == "http://a.example/list.xml"
    site.status("/sets/demo/resourcelist", 202)
    building = start("tidings", "set", "build", "resourcelist", site.link("/sets/demo"))
    building.err.wait(1)
    building.signal(15)
    assert building.wait() == 1
    assert not building.out[:]


# Subscriptions


def test_subscriptions_are_managed(broker, callbacks, run):
    demo = broker.set()
    demo.post(3)
    first, second = callbacks.add(), callbacks.add()
    hub.join(demo, first)
    hub.join(hub.framework(demo), second)
    hub.fence(demo, first)
    one, other = columns(run("tidings", "subscriptions", "list", demo.url))
    assert one[1:4] == ["active", "0", "changes"] and other[3] == "framework"
    assert callbacks.url in one
    found = run("tidings", "subscriptions", "list", demo.url, "--callback", second.url)
    assert columns(found) == [other]
    (in_json,) = objects(
        run("tidings", "subscriptions", "list", demo.url, "--callback", first.url, "--json")
    )
    assert str(in_json["id"]) == one[0] and in_json["hasSecret"] is False
    shown = run("tidings", "subscriptions", "show", demo.url, one[0])
    assert ["state", "active"] in [line.split() for line in shown.out]

    n = len(first.deliveries)
    again = ("tidings", "subscriptions", "redeliver", demo.url, one[0], "--after")
    assert run(*again, "0").output() == "moved"
    assert first.deliveries.wait(n + 1).after == 0
    hub.wait_head(demo, first)
    first.faults.clear()  # the callback takes it for a fault
    assert "400" in run(*again, "0&after=1", status=1).errors()
    end = ("tidings", "subscriptions", "end", demo.url, one[0])
    assert "--yes" in run(*end, status=2).errors()
    assert run(*end, "--yes").output() == "ended"
    assert "404" in run(*end, "--yes", status=1).errors()
    assert len(columns(run("tidings", "subscriptions", "list", demo.url))) == 1


# The state says what the hub does now; the error, why.
@pytest.mark.broker(*hub.QUICK)
def test_a_failing_subscription_says_why(broker, callbacks, run):
    demo = broker.set().create()
    callback = callbacks.join(demo)
    callback.always(500)
    demo.post(2)
    hub.wait(demo, callback, "failing", lambda s: "lastError" in s and "nextTry" in s)

    def listed():
        (row,) = run("tidings", "subscriptions", "list", demo.url).out[1:]
        return row.split()[1:3] == ["active", "2"] and "500" in row

    wait_for("the error in the list", listed)
    callback.always(None)


def test_subscriptions_of_a_relay_are_managed(broker, site, callbacks, run):
    topic = {"topic": site.link("/feed"), "hub": site.link("/hub")}
    assert broker.put("/relays/feed", topic).status == 201
    url = f"{broker.url}/relays/feed"
    (relay,) = columns(run("tidings", "relays", broker.url))
    assert relay == ["feed", "0", "0", "-", topic["topic"]]
    (relay,) = objects(run("tidings", "relays", broker.url, "--json"))
    assert relay["hub"] == topic["hub"]
    assert "no subscriptions" in run("tidings", "subscriptions", "list", url).errors()
    callback = callbacks.add()
    form = {"hub.mode": "subscribe", "hub.topic": topic["topic"]}
    hub.check_taken(hub.send(broker, {**form, "hub.callback": callback.url}))
    callback.verifications.wait(1)
    listing = ("tidings", "subscriptions", "list", url)
    wait_for("the subscription", lambda: "active" in run(*listing).output())
    (row,) = columns(run(*listing))
    assert run("tidings", "subscriptions", "end", url, row[0], "--yes").output() == "ended"
    broker.delete("/relays/feed")


def test_a_subscription_of_a_stranger_does_no_harm(site, run):
    hostile = {"id": 1, "state": HOSTILE, "callback": HOSTILE, "lastError": HOSTILE}
    at = "/sets/demo/subscriptions"
    site.put(at, raw({"subscriptions": [hostile]}))
    site.put(f"{at}/1", raw(hostile))
    url = site.link("/sets/demo")
    for command in (("list", url), ("show", url, "1")):
        for more in ((), ("--json",)):
            check_harmless(run("tidings", "subscriptions", *command, *more))
    site.put(f"{at}/1", raw({HOSTILE: {HOSTILE: HOSTILE}}))
    check_harmless(run("tidings", "subscriptions", "show", url, "1"))


def ask(start, answer, *command):
    """Run a command on a terminal that answers its question; what it has said, and
    its end."""
    side, terminal = os.openpty()
    asking = start(*command, terminal=terminal)
    os.close(terminal)
    said = b""
    while b"yes: " not in said:
        said += os.read(side, 65536)
    os.write(side, answer)
    status = asking.wait()
    os.close(side)
    return said.decode(), status


def test_the_end_of_a_subscription_is_confirmed(broker, callbacks, start, run):
    demo = broker.set().create()
    callback = callbacks.join(demo)
    number = str(hub.find(demo, callback)["id"])
    command = ("tidings", "subscriptions", "end", demo.url, number)
    said, status = ask(start, b"no\n", *command)
    assert callbacks.url in said and status == 1
    assert hub.find(demo, callback)
    said, status = ask(start, b"yes\n", *command)
    assert status == 0
    assert callback.denials.wait(1)
    assert hub.find(demo, callback) is None


# Bridges


def test_bridges_are_listed(start_bridge, mosquitto, broker, run):
    assert "no bridges" in run("tidings", "bridges", broker.url).errors()
    bridged = start_bridge(mosquitto, "out = news", "in = feed -> news")
    wait_half(bridged, "out", state="connected")
    wait_half(bridged, "in", state="connected")
    way_out, way_in = columns(run("tidings", "bridges", bridged.url))
    assert way_out[1:3] == ["out", "connected"] and way_out[4:] == ["0", "0", "-"]
    assert way_in[1:3] == ["in", "connected"] and way_in[5:] == ["-", "-"]
    (bridge,) = objects(run("tidings", "bridges", bridged.url, "--json"))
    assert bridge["url"] == mosquitto.url
    mosquitto.end()

    def says_why():
        rows = run("tidings", "bridges", bridged.url).out[1:]
        return all(row.split()[2] != "connected" and len(row.split()) > 7 for row in rows)

    wait_for("why the bridge is not connected", says_why)


# The last changes


def seqs(lines):
    return [int(line.split()[0]) for line in lines]


def test_the_last_changes_are_printed(news, run):
    assert not run("tidings", "tail", news.url).out[:]
    news.post(15)
    followed = run("tidings", "follow", news.url, "--from-start", "--count", "15")
    for n, more in ((10, ()), (3, ("--count", "3")), (15, ("--count", "99"))):
        assert run("tidings", "tail", news.url, *more).out[:] == followed.out[-n:]
    (entry,) = objects(run("tidings", "tail", news.url, "--count", "1", "--format", "json"))
    assert entry["seq"] == 15
    (xml,) = run("tidings", "tail", news.url, "--count", "1", "--format", "xml").out
    assert xml.startswith("<url>")


# What is no longer retained cannot be printed; the rest is.
@pytest.mark.broker("--rotate-entries", "2", "--retain-lists", "1")
def test_the_last_changes_that_are_retained_are_printed(news, run):
    news.post(9)

    def printed():
        return seqs(run("tidings", "tail", news.url).out) == [7, 8, 9]

    wait_for("the retained changes", printed)


def test_new_changes_follow_the_last_ones(start_broker, start):
    broker = start_broker()
    news = broker.set("news").create()
    news.post(4)
    tail = start("tidings", "tail", news.url, "--count", "2", "--follow")
    tail.out.wait(2)
    news.post(1)
    tail.out.wait(3)
    broker.stop()
    broker.restart()
    news.post(1)
    tail.out.wait(4)
    assert seqs(tail.out) == [3, 4, 5, 6]
    tail.stop()


def test_other_servers_have_no_last_changes(site, run):
    site.put("/sets/demo", '{"name":"demo"}')
    failed = run("tidings", "tail", site.link("/sets/demo"), status=1)
    assert "not a set of a Tidings broker" in failed.errors()


# Mirrors


def facts_of(run, directory, **expected):
    (facts,) = objects(run("tidings", "status", directory, "--json"))
    assert {name: facts.get(name) for name in expected} == expected
    return facts


def test_a_mirror_says_its_state(mirrored, run):
    mirrored.change("/a.txt", "aa")
    mirrored.change("/b.txt", "b")
    mirrored.sync()
    done = {"files": 2, "bytes": 3, "fetch": 0, "remove": 0, "failed": 0, "atWork": False}
    facts = facts_of(run, mirrored.directory, sources=[mirrored.url], **done)
    (of_set,) = facts["sets"]
    state = mirrored.set.state()
    assert (of_set["set"], of_set["position"]) == (mirrored.url, state["position"])
    assert of_set["caughtUp"] >= state["datetime"].partition(".")[0]
    text = run("tidings", "status", mirrored.directory).output()
    assert f"mirror of                  {mirrored.url}\n" in text
    assert "\nfiles                      2, 3 B\n" in text
    assert "nobody" in text and state["position"] in text

    # The source is not asked.
    mirrored.change("/c.txt", "c")
    mirrored.post()
    facts_of(run, mirrored.directory, **done)

    # What cannot be had was given up, and an earlier time stays.
    mirrored.site.status("/c.txt", 404)
    mirrored.sync(status=1)
    failed = facts_of(run, mirrored.directory, files=2, fetch=0, failed=1)
    assert failed["sets"][0]["caughtUp"] == of_set["caughtUp"]
    assert "1, which the next run tries again" in run(
        "tidings", "status", mirrored.directory
    ).output()


# Beside a process that works on it, and after it was killed.
def test_a_mirror_at_work_says_its_state(mirrored, run):
    mirrored.change("/a.txt", "a")
    mirrored.change("/b.txt", "b")
    mirrored.site.hold("/b.txt")
    syncing = mirrored.start()
    mirrored.site.asked("/b.txt").wait(1)
    facts = {"fetch": 1, "fetchBytes": 1, "atWork": True}

    def is_seen():
        (now,) = objects(run("tidings", "status", mirrored.directory, "--json"))
        return all(now[name] == fact for name, fact in facts.items()) and now

    assert "caughtUp" not in wait_for("the file that is pending", is_seen)["sets"][0]
    mirrored.site.release("/b.txt")
    mirrored.wait("caught-up")
    facts = {"files": 2, "fetch": 0, "atWork": True}
    assert "caughtUp" in wait_for("the end", is_seen)["sets"][0]
    assert "at work                    process " in run(
        "tidings", "status", mirrored.directory
    ).output()
    syncing.kill()
    facts_of(run, mirrored.directory, files=2, atWork=False)
    mirrored.sync()
    mirrored.check_same()


def test_what_is_no_mirror_is_said(run, tmp_path):
    assert "is no mirror" in run("tidings", "status", tmp_path, status=1).errors()
    (tmp_path / ".tidings").mkdir()
    (tmp_path / ".tidings/mirror.db").write_text("no database" * 1000)
    assert "not a database" in run("tidings", "status", tmp_path, status=1).errors()


# Options


# Each option whose value is refused as bad usage is refused before a file is made and before
# the source is asked. The rows that the table of the program does not lead to are named.
@pytest.mark.parametrize(
    "name, words, more",
    [
        ("sync", "URL DIR --until-caught-up", ["--as-of 2026-01-01 --key KEY", "--cosign x --key KEY --filter x"]),
        ("follow", "URL --until-caught-up --state STATE", ["--after 1 --since 2026-01-01"]),
        ("harvest", "URL SET --once", ["--loc x --after 1", "--cosign x", "--header x"]),
        ("audit", "MIRROR", ["--original --repair --json"]),
        ("diff", "MIRROR MIRROR", []),
        ("diff", "URL nonsense", []),
        ("verify", "URL", []),
        ("witness", "URL --key KEY --state DIR --listen nonsense", [""]),
    ],
)
def test_an_option_that_is_refused_leaves_nothing(name, words, more, site, news, run, tmp_path):
    source = Sitemap(site)
    source.publish({"/files/a.txt": "a"})
    (command,) = [each for each in commands_of("tidings") if each.name == name]
    tempo = tmp_path / "temporary"
    names = {"URL": source.url, "SET": news.url, "DIR": tmp_path / "home/dir", "STATE": tmp_path / "home/state"}
    names.update(MIRROR=tmp_path / "mirror", KEY=tmp_path / "key")
    tempo.mkdir()
    names["KEY"].write_text(run("tidingsd", "key", "show", news.name, "--data", news.broker.data).output())
    run("tidings", "sync", source.url, names["MIRROR"], "--until-caught-up")
    asked = source.site.asked("/sitemap.xml")
    rows = [f"--{option}=nonsense" for option, argument in command.options.items() if argument]
    n_refused = 0
    for row in (*rows, *more):
        home = tmp_path / "home"
        home.mkdir()
        given = [str(names.get(word, word)) for word in f"{words} {row}".split()]
        env = {"HOME": str(home), "XDG_STATE_HOME": str(home / "states"), "TMPDIR": str(tempo)}
        n = len(asked)
        done = run("tidings", *command.words, *given, env=env, status=None, cwd=home)
        if done.status == 2:
            n_refused += 1
            assert len(asked) == n and [*home.rglob("*"), *tempo.iterdir()] == [], (row, done.errors())
        shutil.rmtree(home)
    assert n_refused > 0
