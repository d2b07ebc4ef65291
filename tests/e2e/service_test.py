"""The unit of systemd: what systemd-analyze says of it, where it is installed, a broker
behind its filter of system calls, and what a broker tells the service manager.

systemd does not run in these tests: nothing starts the unit itself.
"""

import re
import shutil
import signal
import socket
import subprocess
import threading

import pytest

from tidings_test.broker import BIN, PROGRAMS, ROOT, is_sanitized
from tidings_test.waiting import Arrivals

UNIT = ROOT / "packaging/tidingsd.service"
HARVEST_UNIT = ROOT / "packaging/tidings-harvest@.service"
EXPOSURE_MAX = 2.0

pytestmark = pytest.mark.skipif(
    not shutil.which("systemd-analyze"), reason="systemd-analyze is missing"
)


def values_of(key, unit=UNIT):
    return re.findall(rf"^{key}=(.*)$", unit.read_text(), re.M)


def expand(name):
    """The system calls of a set."""
    command = ("systemd-analyze", "--no-pager", "syscall-filter", name)
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    calls = set()
    for line in done.stdout.splitlines()[1:]:
        word = line.strip()
        if not word.startswith("#"):
            calls |= expand(word) if word.startswith("@") else {word}
    return calls


def allowed_calls():
    """As systemd reads SystemCallFilter=: each line adds, or with ~ takes away."""
    calls = set()
    for line in values_of("SystemCallFilter"):
        named = set()
        for word in line.lstrip("~").split():
            named |= expand(word) if word.startswith("@") else {word}
        calls = calls - named if line.startswith("~") else calls | named
    return calls


# Becomes the program of its arguments, allowed the system calls of its standard input.
# The loader of a program needs execve, of systemd's own set @default.
FILTERED = """
import ctypes, os, sys
library = ctypes.CDLL("libseccomp.so.2")
library.seccomp_init.restype = ctypes.c_void_p
filter = ctypes.c_void_p(library.seccomp_init(0x50001))  # EPERM
for name in sys.stdin.read().split():
    number = library.seccomp_syscall_resolve_name(name.encode())
    if number >= 0:
        assert library.seccomp_rule_add(filter, 0x7FFF0000, number, 0) == 0, name
assert library.seccomp_load(filter) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("unit", [UNIT, HARVEST_UNIT], ids=lambda unit: unit.name)
def test_the_exposure_of_the_unit_is_small(unit, run, tmp_path):
    copy = tmp_path / unit.name.replace("@", "@x")
    copy.write_text(unit.read_text())
    command = ("systemd-analyze", "--no-pager", "security", "--offline=yes", copy)
    said = run(*command).output()
    (exposure,) = re.findall(r"exposure level for \S+: ([0-9.]+) ", said)
    assert float(exposure) <= EXPOSURE_MAX


# The program of this build stands for the installed one.
@pytest.mark.parametrize("unit", [UNIT, HARVEST_UNIT], ids=lambda unit: unit.name)
def test_systemd_understands_every_line_of_the_unit(unit, run, tmp_path):
    copy = tmp_path / unit.name.replace("@", "@x")
    text = unit.read_text()
    (name,) = re.findall("^ExecStart=(tidingsd?) ", text, re.M)
    copy.write_text(text.replace(f"={name} ", f"={PROGRAMS[name]} "))
    done = run("systemd-analyze", "verify", "--man=no", copy)
    assert (list(done.out), list(done.err)) == ([], [])


def test_the_unit_is_installed_with_the_programs(run, tmp_path):
    install = ("cmake", "--install", BIN.parent, "--component", "programs")
    run(*install, "--prefix", tmp_path)
    installed = tmp_path / "lib/systemd/system" / UNIT.name
    assert installed.read_bytes() == UNIT.read_bytes()
    (user,) = values_of("User")
    users = (tmp_path / "lib/sysusers.d/tidings.conf").read_text()
    assert re.search(rf"^u {user} ", users, re.M)
    (start,) = values_of("ExecStart")
    assert (tmp_path / "bin" / start.split()[0]).exists()
    (state,) = values_of("StateDirectory")
    assert f"--data /var/lib/{state} " in start
    assert values_of("StateDirectoryMode") == ["0700"]


# Its user, and its state; the harvester's options are those of the command.
def test_the_unit_of_a_harvest_is_installed(run, tmp_path):
    install = ("cmake", "--install", BIN.parent, "--component", "programs")
    run(*install, "--prefix", tmp_path)
    installed = tmp_path / "lib/systemd/system" / HARVEST_UNIT.name
    assert installed.read_bytes() == HARVEST_UNIT.read_bytes()
    (user,) = values_of("User", HARVEST_UNIT)
    users = (tmp_path / "lib/sysusers.d/tidings-harvest.conf").read_text()
    assert re.search(rf"^u {user} ", users, re.M)
    (start,) = values_of("ExecStart", HARVEST_UNIT)
    (state,) = values_of("StateDirectory", HARVEST_UNIT)
    assert f" --state /var/lib/{state}/%i " in start
    words = start.replace("$SOURCES", "http://a.example/").replace("$SET", "http://b/sets/x")
    words = words.replace("%i", str(tmp_path / "none/state")).replace("$OPTIONS", "--once")
    words = words.replace(f"/var/lib/{state}/", "").split()
    assert "unable to open" in run(*words, status=1).errors()


PRINTED = (
    *("man/man1/tidings.1", "man/man8/tidingsd.8"),
    *("bash-completion/completions/tidings", "bash-completion/completions/tidingsd"),
    *("fish/vendor_completions.d/tidings.fish", "fish/vendor_completions.d/tidingsd.fish"),
    *("zsh/vendor-completions/_tidings", "zsh/vendor-completions/_tidingsd"),
)


def test_all_that_was_installed_can_be_uninstalled(run, tmp_path):
    prefix, build = tmp_path / "prefix", tmp_path / "build"
    run("cmake", "--install", BIN.parent, "--prefix", prefix)
    share = prefix / "share"
    assert (share / "doc/tidings/LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert (share / "doc/tidings/examples/tidingsd.ini").exists()
    if not is_sanitized():
        assert [name for name in PRINTED if not (share / name).exists()] == []
    (share / "doc/tidings/mine").write_text("")
    files = [path for path in prefix.rglob("*") if not path.is_dir() and path.name != "mine"]
    build.mkdir()
    (build / "install_manifest.txt").write_text("\n".join(map(str, files)))
    uninstall = ("cmake", f"-DBUILD={build}", "-P", ROOT / "tools/uninstall.cmake")
    run(*uninstall)
    assert [path.name for path in prefix.rglob("*") if not path.is_dir()] == ["mine"]
    assert not (share / "doc/tidings/examples").exists()
    assert "nothing was installed" in run(*uninstall, status=1).errors()


@pytest.mark.skipif(is_sanitized(), reason="a sanitizer needs more calls")
def test_a_broker_serves_behind_the_filter_of_the_unit(run, start, tmp_path):
    listen = ("--listen", "127.0.0.1:0", "--data", tmp_path / "data")
    code = ("/usr/bin/python3", "-c", FILTERED)
    broker = start(*code, PROGRAMS["tidingsd"], *listen, "--threads", "1")
    broker.give(" ".join(allowed_calls()))
    broker.end_input()
    url = broker.out.wait(1).removeprefix("tidingsd: ready at ")
    news = f"{url}sets/news"
    run("tidings", "publish", news, "--change", "created", "http://example.com/a")
    run("/usr/bin/curl", "-sSf", "-X", "POST", f"{news}/rotate")
    followed = run("tidings", "follow", news, "--from-start", "--count", "1")
    assert followed.out[0].endswith(" created http://example.com/a")
    assert not [line for line in broker.err if "Operation not permitted" in line]
    assert [line for line in broker.err if '"system calls are filtered"' in line]
    broker.stop()


class Manager:
    """A service manager: `told` are the messages that a broker with `env` sends it.
    Each of them takes a list, the lines of the datagram."""

    def __init__(self, name, **env):
        self.told = Arrivals("the messages to the service manager")
        self.env = {"NOTIFY_SOCKET": name, **env}
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(name.replace("@", "\0", 1) if name[0] == "@" else name)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        while message := self._socket.recv(4096).decode():
            self.told.add(message.split("\n"))

    def next(self, first):
        """The next message that begins with that line."""
        return self.told.next(lambda lines: lines[0].startswith(first), first)


# The broker's own datagrams, from its start to its end; a reload is one that is refused,
# too.
@pytest.mark.parametrize("mark", ["", "@"], ids=["path", "abstract"])
def test_the_service_manager_follows_start_reload_and_end(start_broker, tmp_path, mark):
    manager = Manager(f"{mark}{tmp_path}/notify")
    ini = tmp_path / "tidingsd.ini"
    ini.write_text("")
    broker = start_broker("--config", ini, env=manager.env)
    serving = ["READY=1", f"STATUS=serving at {broker.url}/"]
    assert manager.told.wait(1) == serving
    for text in ("log-level = debug\n", "no-such-option = 1\n"):
        ini.write_text(text)
        broker.process.signal(signal.SIGHUP)
        (reloading, began) = manager.next("RELOADING=1")
        assert re.fullmatch(r"MONOTONIC_USEC=[0-9]+", began)
        assert manager.next("READY=1") == serving
    broker.stop()
    assert manager.next("STOPPING=1") == ["STOPPING=1"]
    assert [lines[0].partition("=")[0] for lines in manager.told] == [
        *("READY", "RELOADING", "READY", "RELOADING", "READY", "STOPPING")
    ]


# unit/base/supervisor: signs of life stop with that line, and come again with the other.
@pytest.mark.parametrize(
    ("call", "name", "thread"),
    [("SYNC", "tidings.db-wal", "log"), ("SEND", "socket:", "net")],
)
def test_a_hanging_thread_ends_the_signs_of_life(
    start_broker, faults, background, tmp_path, call, name, thread
):
    manager = Manager(f"@{tmp_path}/notify", WATCHDOG_USEC="4000000")
    env = {**manager.env, **faults.env}
    broker = start_broker("--threads", "1", env=env)
    manager.next("WATCHDOG=1")
    manager.next("WATCHDOG=1")
    faults.arm(getattr(faults, call), name, faults.HANG)
    posting = background(broker.client().put, "/sets/news", {})
    line = broker.process.err.next(lambda line: "a thread hangs" in line)
    assert f"thread={thread}" in line.replace('"', "")
    faults.disarm()
    assert posting.join().status == 201
    broker.process.err.next(lambda line: "no thread hangs" in line)
    manager.next("WATCHDOG=1")


def test_the_unit_waits_for_these_messages():
    assert values_of("Type") == ["notify"]
    (watchdog,) = values_of("WatchdogSec")
    assert int(watchdog.removesuffix("s")) >= 10
    assert values_of("ExecReload") == ["sh -c 'kill -HUP $MAINPID'"]
