"""--access-log and --log-format: a line for each request, which costs and shows nothing
that it should not."""

import json
import os
import re
import signal
import threading

import pytest

from tidings_test.http import JSON
from tidings_test.sets import change
from tidings_test.waiting import wait_for

ID = re.compile(r"[0-9a-f]{24}")


@pytest.fixture
def log(tmp_path):
    return tmp_path / "access.log"


@pytest.fixture
def logged(start_broker, log):
    return start_broker("--access-log", log, "--log-format", "json")


def lines_of(log):
    """The lines that the file has so far; the last one may be half written."""
    return [json.loads(line) for line in log.read_bytes().split(b"\n")[:-1]]


def line_of(log, id):
    """The line of one request, as soon as it is there."""
    return wait_for(
        f"the line of {id}",
        lambda: next((one for one in lines_of(log) if one["id"] == id), None),
    )


def test_each_answer_has_its_line(logged, log):
    news = logged.set()
    posted = news.send(json.dumps(change("http://a.example/1")), JSON)
    line = line_of(log, posted["X-Request-Id"])
    time, duration = line.pop("time"), line.pop("duration")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", time)
    assert 0 < duration < 300
    assert line == {
        "id": posted["X-Request-Id"],
        "client": "127.0.0.1",
        "method": "POST",
        "route": "/sets/{set}/changes",
        "status": 200,
        "in": len(json.dumps(change("http://a.example/1"))),
        "out": len(posted.head) + len(posted.body),
        "complete": True,
        "path": news.changes,
    }
    for path, status, route in (
        (f"/sets/{news.name}/changelist.xml", 200, "/sets/{set}/changelist.xml"),
        ("/nothing", 404, None),
        ("/tokens/self", 200, "/tokens/self"),
    ):
        answer = logged.get(path)
        line = line_of(log, answer["X-Request-Id"])
        assert (answer.status, line["status"]) == (status, status)
        assert (line.get("route"), line["path"]) == (route, path)


# A ticket, a token or a secret is none of the parameters that the route names.
@pytest.mark.parametrize(
    "query, shown",
    [
        ("after=0&change=created", "after=0&change=created"),
        ("after=0&ticket=SECRET", "after=0&..."),
        ("ticket=SECRET", "..."),
        ("hub.secret=SECRET&after=0&token=SECRET", "after=0&..."),
        ("SECRET", "..."),
        ("xafter=SECRET&after", "after&..."),
        ("callback=SECRET&after=0", "after=0&..."),
    ],
)
def test_a_query_shows_no_secrets(logged, log, query, shown):
    news = logged.set()
    news.post()
    for path in (f"{news.changes}?{query}", f"/nothing?{query}"):
        answer = logged.get(path)
        line = line_of(log, answer["X-Request-Id"])
        assert line["query"] == (shown if answer.status != 404 else "...")
    assert b"SECRET" not in log.read_bytes()


def test_a_token_has_its_name_there_and_nothing_else(logged, log):
    root = logged.add_token("root", admin=True)
    press = logged.add_token("press-office", subscribe=["*"])
    for who, token, name in (("root", root, "root"), ("press", press, "press-office")):
        answer = logged.holder(token).get("/tokens/self")
        assert answer.status == 200
        assert line_of(log, answer["X-Request-Id"])["token"] == name
    answer = logged.holder(press + "x").get("/sets")
    assert answer.status == 401
    assert "token" not in line_of(log, answer["X-Request-Id"])
    for secret in (root, press):
        assert secret.encode() not in log.read_bytes()


# Each line is valid, whatever a client sends.
def test_hostile_bytes_stay_in_their_field(logged, log):
    for agent in (
        b'"},{"x":"',
        b"\\",
        b"\xff\xfe\xc0\xaf\xed\xa0\x80",
        b"\xe2\x80\xa8\xe2\x80\xae",
        b"\xc2\x9b2J",
        "\U0001f600".encode(),
        b"x" * 5000,
    ):
        with logged.connect() as connection:
            connection.send(
                b"GET /sets HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: "
                + agent
                + b"\r\n\r\n"
            )
            answer = connection.answer()
        line = line_of(log, answer["X-Request-Id"])
        assert set(line) > {"time", "id", "client", "status"}, line
        if answer.status == 200:
            wanted = agent.decode(errors="replace")
            assert line["agent"][:3] == wanted[:3] or "\ufffd" in line["agent"]
    for one in lines_of(log):
        assert len(json.dumps(one)) < 4000


def test_a_stream_has_a_line_at_its_end(logged, log):
    news = logged.set()
    news.post()
    follower = news.websocket("after=0").until(1)
    news.post()
    follower.until(2)
    follower.leave()
    line = wait_for(
        "the line of the stream",
        lambda: next((one for one in lines_of(log) if one["status"] == 101), None),
    )
    assert (line["method"], line["route"]) == ("GET", "/sets/{set}/stream")
    assert line["path"] == f"/sets/{news.name}/stream" and line["query"] == "after=0"
    assert line["messages"] >= 2 and line["out"] > 200
    assert ID.fullmatch(line["id"]) and "complete" not in line


# As logrotate does it. Lines from then on are in the new file, also if the settings
# cannot be read.
def test_a_renamed_file_is_opened_again_at_a_reload(start_broker, tmp_path, log):
    ini = tmp_path / "tidingsd.ini"
    ini.write_text(f"access-log = {log}\nlog-format = json\n")
    broker = start_broker("--config", ini)
    for n, (settings, end) in enumerate(
        [(ini.read_text(), '"reloaded"'), ("nonsense\n", '"not reloaded')]
    ):
        before = broker.get("/healthz")["X-Request-Id"]
        line_of(log, before)
        old = log.rename(tmp_path / f"access.{n}")
        ini.write_text(settings)
        broker.process.signal(signal.SIGHUP)
        broker.wait_said(end)
        wait_for("the new file", log.exists)
        after = broker.get("/healthz")["X-Request-Id"]
        line_of(log, after)
        assert before.encode() in old.read_bytes()
        assert before.encode() not in log.read_bytes()


# A reload that fails opens the file again; where that fails, too, both are logged, and
# the former file goes on.
def test_a_file_that_cannot_be_opened_again_goes_on(start_broker, tmp_path):
    ini, folder = tmp_path / "tidingsd.ini", tmp_path / "logs"
    folder.mkdir()
    log = folder / "access.log"
    ini.write_text(f"access-log = {log}\nlog-format = json\n")
    broker = start_broker("--config", ini)
    folder.rename(tmp_path / "former")
    ini.write_text("nonsense\n")
    broker.process.signal(signal.SIGHUP)
    broker.wait_said("the access log is not reopened")
    broker.wait_said("not reloaded, the old settings stay")
    answer = broker.get("/healthz")["X-Request-Id"]
    line_of(tmp_path / "former/access.log", answer)


def test_a_reload_turns_it_on_and_off_and_changes_the_format(
    start_broker, tmp_path, log
):
    ini = tmp_path / "tidingsd.ini"
    ini.write_text("log-level = info\n")
    broker = start_broker("--config", ini)
    ini.write_text(f"access-log = {log}\nlog-format = json\nlog-level = debug\n")
    broker.process.signal(signal.SIGHUP)
    for option in ("access-log", "log-format", "log-level"):
        broker.wait_said(f"a setting has changed\" option={option}")
    broker.wait_said('"msg":"reloaded"')
    wait_for("the file", log.exists)
    line_of(log, broker.get("/healthz")["X-Request-Id"])

    ini.write_text("log-format = json\n")
    broker.process.signal(signal.SIGHUP)
    wait_for("the end of the log", lambda: said(broker, '"option":"access-log"'))
    wait_for("the reload", lambda: said(broker, '"msg":"reloaded"'))
    after = broker.get("/healthz")["X-Request-Id"]
    broker.stop()
    assert after.encode() not in log.read_bytes()


def said(broker, part):
    return broker.has_said(part)


# Nobody reads the pipe: the broker answers as ever, counts what it drops, and ends.
def test_a_slow_file_holds_up_nobody(start_broker, log):
    os.mkfifo(log)
    reader = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
    broker = start_broker("--access-log", log)
    name = "tidings_access_log_dropped_lines_total"
    agent = "x" * 190
    with broker.connect() as connection:
        request = (
            f"GET /healthz?{'y' * 900} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"User-Agent: {agent}\r\n\r\n"
        ).encode()
        while not broker.metrics()[name]:
            connection.send(request * 200)
            for _ in range(200):
                assert connection.answer().status == 200
    broker.wait_said("lines of the access log are dropped")
    broker.stop()
    os.close(reader)


def test_a_full_disk_holds_up_nobody(start_broker):
    broker = start_broker("--access-log", "/dev/full")
    assert broker.get("/healthz").status == 200
    broker.wait_said("No space left on device")
    assert broker.metrics()["tidings_access_log_dropped_lines_total"] >= 1
    assert broker.set().post().last == 1


def test_standard_output_may_be_the_file(start_broker):
    broker = start_broker("--access-log", "-", "--log-format", "json")
    id = broker.get("/healthz")["X-Request-Id"]
    line = broker.process.out.find(lambda line: id in line)
    assert json.loads(line)["path"] == "/healthz"


# Diagnostics in JSON: each line is an object with the same fields.
def test_diagnostics_may_be_json(logged):
    ready = json.loads(logged.wait_said('"msg":"ready"'))
    assert ready["level"] == "info" and ready["url"] == logged.url
    assert isinstance(ready["threads"], int)
    logged.stop()
    for line in logged.process.err:
        assert {"time", "level", "part", "msg"} <= json.loads(line).keys()
