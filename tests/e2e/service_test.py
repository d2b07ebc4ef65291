"""The unit of systemd: what systemd-analyze says of it, where it is installed, and a
broker behind its filter of system calls.

systemd does not run in these tests: nothing starts the unit itself.
"""

import re
import shutil
import subprocess

import pytest

from tidings_test.broker import BIN, PROGRAMS, ROOT, is_sanitized

UNIT = ROOT / "packaging/tidingsd.service"
EXPOSURE_MAX = 2.0

pytestmark = pytest.mark.skipif(
    not shutil.which("systemd-analyze"), reason="systemd-analyze is missing"
)


def values_of(key):
    return re.findall(rf"^{key}=(.*)$", UNIT.read_text(), re.M)


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


def test_the_exposure_of_the_unit_is_small(run):
    command = ("systemd-analyze", "--no-pager", "security", "--offline=yes", UNIT)
    said = run(*command).output()
    (exposure,) = re.findall(r"exposure level for \S+: ([0-9.]+) ", said)
    assert float(exposure) <= EXPOSURE_MAX


# The broker of this build stands for the installed one.
def test_systemd_understands_every_line_of_the_unit(run, tmp_path):
    copy = tmp_path / UNIT.name
    text = UNIT.read_text()
    assert text.count("ExecStart=tidingsd ") == 1
    copy.write_text(text.replace("=tidingsd ", f"={PROGRAMS['tidingsd']} "))
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
