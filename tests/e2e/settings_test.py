"""The effect of a file of settings on the broker, and the report of --check on it."""

import contextlib
import sqlite3

import pytest

from tidings_test.broker import PROGRAMS
from tidings_test.snapshots import snapshot

GOOD = "tidingsd: settings are good"


@pytest.fixture
def ini(tmp_path):
    """The place of a file of settings, which does not exist yet."""
    return tmp_path / "tidingsd.ini"


@pytest.fixture
def data(tmp_path):
    """The path of a data directory that does not exist."""
    return tmp_path / "data"


@pytest.fixture
def check(run):
    """check(...): runs tidingsd --check, and returns all that it printed."""
    return lambda *options, status=0: printed(run, "--check", *options, status=status)


def printed(run, *options, status=0):
    """The output of tidingsd, which ends with that status."""
    done = run("tidingsd", *options, status=status)
    return "\n".join([*done.out, *done.err])


def test_a_file_is_read_and_the_command_line_wins(ini, data, start_broker):
    ini.write_text(
        "# of this test\n"
        "listen = 192.0.2.1:1\n"
        "rotate-entries = 1 ; each entry a list\n"
        f"data = {data}\n"
    )
    news = start_broker("--config", ini).set()
    news.post(2)
    assert news.get(news.list_path(2)).status == 200
    assert not data.exists()


ERRORS = [
    ("\nheartbeat = 0\nDATA\n", "2: heartbeat: 0 is not between 0.1 and 3600"),
    (
        "DATA\nrotat-age = 5\n",
        "2: rotat-age: there is no such option; did you mean rotate-age?",
    ),
    (
        "DATA\n[tidingsd]\n",
        "2: [tidingsd]: there is no such section; a bridge to an MQTT broker is "
        "[mqtt NAME]",
    ),
    (
        "DATA\n[mqtt a]\nurl = mqtt://a.org\nout = *\nrotate-age = 5\n",
        "5: rotate-age: is the broker's, not the bridge's: it has to stand before the "
        "first section",
    ),
    ("DATA\ndata = x\n", "2: data: is there twice, first in line 1"),
    (
        "DATA\nlog-level = loud\n",
        '2: log-level: "loud" is not error, warning, info or debug',
    ),
]


def test_an_error_names_file_line_key_and_what_is_allowed(ini, data, run, check):
    for text, error in ERRORS:
        ini.write_text(text.replace("DATA", f"data = {data}"))
        expected = f"tidingsd: {ini}:{error}"
        assert printed(run, "--config", ini, status=2) == expected
        assert check("--config", ini, status=2) == expected
    assert printed(run, "--lsten", "a:1", status=2) == (
        "tidingsd: --lsten: there is no such option; did you mean --listen?"
    )


BRIDGE_ERRORS = [
    (
        "user = me\npassword-file = /proc/nowhere/password\n",
        "cannot read the password file /proc/nowhere/password: No such file or directory",
    ),
    (
        "ca = /proc/nowhere/ca.pem\n",
        "cannot use the CA certificates /proc/nowhere/ca.pem: No such file or directory",
    ),
    (
        "cert = /dev/null\nkey = /dev/null\n",
        "cannot use the certificate /dev/null: no start line",
    ),
]


# The broker reads the password and the certificates before the bridge needs them.
def test_check_reads_the_files_of_bridges(ini, data, run, check):
    for keys, error in BRIDGE_ERRORS:
        bridge = "[mqtt plant]\nurl = mqtts://a.org\nout = *\n"
        ini.write_text(f"data = {data}\n{bridge}{keys}")
        expected = f"tidingsd: [mqtt plant]: {error}"
        assert check("--config", ini, status=2) == expected
        settings = ("--check-settings", "--config", ini)
        assert printed(run, *settings, status=2) == expected


def test_check_accepts_good_settings_and_makes_no_file(ini, data, check):
    ini.write_text(f"data = {data}\n")
    assert check("--config", ini) == GOOD
    assert check("--listen", "localhost:0", "--data", data / "a/b/") == GOOD
    assert list(ini.parent.iterdir()) == [ini]


# A start with the settings of a running broker would fail; that broker could reload
# them. The broker is halted, as it writes files of its own.
def test_check_finds_the_broker_that_runs_and_leaves_it_alone(
    start_broker, data, run, check
):
    broker = start_broker()
    address = f"127.0.0.1:{broker.port}"
    listen = ("--listen", address, "--data", broker.data)
    broker.process.halt()
    before = snapshot(broker.directory)
    assert printed(run, "--check-settings", *listen) == GOOD
    assert check(*listen, status=1) == (
        f"tidingsd: --listen: cannot listen on 127.0.0.1 port {broker.port}: "
        "Address already in use"
    )
    assert check("--listen", "127.0.0.1:0", "--data", broker.data, status=1) == (
        f"tidingsd: --data: {broker.data} is in use by process {broker.process.pid}"
    )
    assert snapshot(broker.directory) == before
    broker.process.go_on()
    broker.stop()
    assert check(*listen) == GOOD


def make_newer(path):
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA user_version=99")


def make_text(path):
    path.write_text("<html>this is not what you are looking for</html>\n")


@pytest.mark.parametrize("name", ["tidings.db", "hub.db", "mqtt.db"])
@pytest.mark.parametrize(
    "spoil, reason",
    [
        (
            make_newer,
            "the database is of version 99, and this program knows versions up to ",
        ),
        (make_text, "file is not a database"),
    ],
)
def test_check_finds_a_database_that_a_start_could_not_open(
    start_broker, check, name, spoil, reason
):
    broker = start_broker("--mqtt", "mqtt://127.0.0.1:1")
    broker.set().post()
    broker.stop()
    options = ("--mqtt", "mqtt://127.0.0.1:1", "--data", broker.data)
    before = snapshot(broker.data)
    assert check(*options) == GOOD
    assert snapshot(broker.data) == before

    spoil(broker.data / name)
    before = snapshot(broker.data)
    said = check(*options, status=1)
    assert said.startswith(f"tidingsd: --data: {broker.data / name}")
    assert reason in said
    assert snapshot(broker.data) == before


# The last commits of a killed broker are only in the WAL: --check reads it, and leaves
# it there.
def test_check_reads_the_latest_commits_of_a_crash(start_broker, check):
    broker = start_broker()
    broker.set().post(20)
    broker.kill()
    before = snapshot(broker.data)
    assert broker.data / "tidings.db-wal" in before
    assert check("--data", broker.data) == GOOD
    (broker.data / "tidings.db-shm").unlink()  # as in a copy of the directory
    before = snapshot(broker.data)
    assert check("--data", broker.data) == GOOD
    assert snapshot(broker.data) == before
    broker.restart()


def test_check_finds_directories_and_addresses_that_cannot_be_used(ini, data, check):
    ini.write_text(f"data = {data}\n")
    long = ini.parent / "none" / ("x" * 256)
    for directory, error in (
        (ini / "data", f"cannot use the directory {ini / 'data'}: Not a directory"),
        (ini, f"cannot use the directory {ini}: Not a directory"),
        ("/proc/none", "cannot use the directory /proc: "),  # root may write to it
        (long, f"cannot create the directory {long}: File name too long"),
    ):
        before = snapshot(ini.parent)
        said = check("--data", directory, status=1)
        assert said.startswith(f"tidingsd: --data: {error}")
        assert snapshot(ini.parent) == before
    # No name server is asked for a number that is not an address.
    listen = ("--insecure-open", "--data", data, "--listen", "[1:::2]:80")
    assert "--listen: cannot listen on 1:::2 " in check(*listen, status=1)


def test_the_example_is_a_file_for_config(ini, data, run, check):
    ini.write_text(run("tidingsd", "--example").output())
    assert check("--data", data, "--config", ini) == GOOD


# Diagnostics are logfmt, one line each, from the first to the last.
def test_diagnostics_report_the_start_and_the_end(start_broker, data, run):
    broker = start_broker()
    broker.stop()
    version = printed(run, "--version").removeprefix("tidingsd ")
    assert all(line.startswith("time=20") for line in broker.process.err)
    lines = iter(broker.process.err)
    for part in (
        f' level=info part=broker msg="starting" version={version} pid=',
        ' level=info part=broker msg="ready" url=http://127.0.0.1:',
        ' level=info part=broker msg="ending" signal=SIGTERM\n',
        ' level=info part=broker msg="ended"\n',
    ):
        assert any(part in f"{line}\n" for line in lines), part

    where = ("--listen", "127.0.0.1:0", "--data", "/proc/none")
    error = printed(run, "--log-level", "error", *where, status=1)
    assert error.startswith("time=20") and "\n" not in error
    assert (
        ' level=error part=broker msg="cannot start" error="cannot create the '
        "directory /proc/none: "
    ) in error


# A program that cannot print its answer has failed.
def test_output_that_cannot_be_written_is_a_failure(ini, data, run):
    ini.write_text(f"data = {data}\n")
    for wish in ("--help", "--version", "--example", "--check"):
        line = f"exec {PROGRAMS['tidingsd']} {wish} --config {ini} > /dev/full 2>&1"
        run("/bin/sh", "-c", line, status=1)
