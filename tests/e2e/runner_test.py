"""What runs the tests: it ends what it started, leaves nothing, and counts what did not
run. tests/isolated, tests/run, the watchdogs, and what CI says of a late step."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import pytest

from tidings_test import fork_server
from tidings_test.broker import BIN, is_sanitized
from tidings_test.waiting import wait_for

TESTS = pathlib.Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
ISOLATED = BIN.parent / "tests/isolated"

# It starts a process that leaves its session, and writes a file.
LEAVES = 'setsid sleep 900 & echo "$TMPDIR"; echo "$!"; : >"$TMPDIR/left"; '


@pytest.fixture
def isolated(start, tmp_path):
    """isolated(seconds, script): starts it; its files are in a directory of tmp_path."""

    def run(seconds, script, **env):
        where = {"TMPDIR": str(tmp_path), **env}
        return start(ISOLATED, seconds, "/bin/sh", "-c", script, env=where)

    return run


@pytest.fixture(autouse=True)
def has_namespaces():
    if subprocess.run(["unshare", "--pid", "--mount", "true"], check=False).returncode:
        pytest.skip("this machine gives nobody namespaces")


def left_in(path):
    return [found.name for found in path.iterdir()]


ENDS = (
    ("exit 7", 7, None),
    ("kill -SEGV $$", 128 + signal.SIGSEGV, None),
    ("kill $PPID; kill -9 $PPID; exit 3", 3, None),  # process 1 is not to be killed
    ("sleep 900", 124, "did not end within 1 s of the time in which it could run"),
)


@pytest.mark.parametrize("script, status, said", ENDS)
def test_leaves_nothing_however_a_test_ends(isolated, tmp_path, script, status, said):
    ended = isolated(1 if said else 900, LEAVES + script)
    assert ended.wait() == status
    directory = pathlib.Path(ended.out[0])
    assert directory.parent == tmp_path
    assert left_in(tmp_path) == []
    assert [said in line for line in ended.out[2:]] == [True] * bool(said)
    assert not sleeping()


def test_leaves_nothing_when_it_is_killed(isolated, tmp_path):
    killed = isolated(900, LEAVES + "sleep 900")
    killed.out.wait(2)
    killed.kill()
    wait_for("the end of all that it started", lambda: not left_in(tmp_path))
    wait_for("the end of all that it started", lambda: not sleeping())


def sleeping():
    return subprocess.run(["pgrep", "-f", "^sleep 900"], check=False).returncode == 0


def test_gives_a_test_shared_memory_of_its_own(isolated):
    inside = isolated(900, "df --output=source /dev/shm | tail -n 1; ls /dev/shm", TMPDIR="/dev/shm")
    assert inside.wait() == 0
    assert list(inside.out) == ["tidings-test"]


# The watchdog of tests in Python

HANGS = """
import time
import pytest

@pytest.fixture
def closes_never():
    yield
    time.sleep(900)

@pytest.fixture(scope="module")
def opened():
    yield
    time.sleep(900)

def test_first(opened): pass
def test_hangs(): time.sleep(900)
def test_closes_never(closes_never): pass
@pytest.mark.parametrize("n", range(5))
def test_behind(n): pass
"""


def test_a_hanging_end_fails_one_row(tmp_path, run):
    (tmp_path / "hangs_test.py").write_text(HANGS)
    shutil.copy(TESTS / "conftest.py", tmp_path)
    env = {"PYTHONPATH": str(TESTS), "TIDINGS_TEST_SECONDS": "1", "TIDINGS_TEST_END_SECONDS": "1"}
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path)
    ended = run(*command, env=env, cwd=tmp_path, status=1)
    assert ended.out[-1].startswith("1 failed, 7 passed, 2 errors in"), ended.output()


# The time of a unit test stands still; that of its watchdog does not.
# Each test of this file waits until a thread waits with a limit, which here none ever does.
def test_a_unit_test_that_hangs_is_killed(run):
    if is_sanitized():
        pytest.skip("the unit tests of sanitizers are others")
    env = {"TEST_LATE_WAITS_MS": "900000", "TEST_WATCHDOG_S": "1"}
    said = run(BIN.parent / "tests/unit_mqtt", "mqtt_patience/", env=env, status=1).output()
    assert "mqtt_patience_test.c: killed, for it did not end within 1 s" in said


# A program that is loaded once for all its starts: each is as any other start, also for
# who looks at it from outside.
def test_a_fork_is_a_start(start, tmp_path):
    def look(**env):
        one = start("tidings", "follow", "http://127.0.0.1:1/", cwd=tmp_path, env=env)
        one.err.wait(1)
        proc = pathlib.Path(f"/proc/{one.pid}")
        seen = [(proc / name).read_bytes().split(b"\0") for name in ("cmdline", "environ")]
        seen += [os.readlink(proc / name) for name in ("cwd", "exe")]
        seen += [len(list((proc / "task").iterdir())), sorted(os.listdir(proc / "fd"))]
        seen.append(re.search("^PPid:.*", (proc / "status").read_text(), re.M)[0])
        one.kill()
        assert one.wait() == 128 + signal.SIGKILL
        assert not one.out
        return seen

    forked, started = look(OWN="1"), look(OWN="1", LD_OWN="1")
    started[1].remove(b"LD_OWN=1")
    assert forked == started
    if fork_server.LIBRARY:
        server = fork_server.of(BIN / "tidings")
        assert server.end() == 0  # also where the kernel lacks what it needs
        assert server.n_forks == 1 or not server.is_ready


# tests/run, in a tree whose cmake and ctest are scripts

STUBS = {
    "cmake": "exit 0",
    "ctest": 'case " $* " in *" -N "*) echo "Total Tests: 1"; exit ;; esac; '
    f'exec "{ISOLATED}" 900 /bin/sh -c \'{LEAVES} echo started; sleep 900\'',
}


@pytest.fixture
def tree(tmp_path):
    """A tree with tests/run."""
    for name in ("tests/run", "tests/pytest_server", "tools/packages.sh"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "packages.txt").write_text("")
    (tmp_path / "tests/npm").mkdir()
    stubs = {"tests/npm/install": "exit 0", **{f"bin/{name}": text for name, text in STUBS.items()}}
    for name, text in stubs.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "files").mkdir()
    return tmp_path


def in_tree(tree):
    """The environment of its programs: no pass is kept there, although CI keeps some."""
    path = f"{tree}/bin:{os.environ['PATH']}"
    return {"PATH": path, "TMPDIR": str(tree / "files"), "TIDINGS_PASSED": ""}


@pytest.mark.parametrize("number", (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL))
def test_a_signal_ends_all_that_a_run_has_started(tree, start, number):
    env = in_tree(tree)
    running = start(tree / "tests/run", env=env)
    running.out.find(lambda line: line == "started")
    running.signal(number)
    assert running.wait() == 128 + number
    if number == signal.SIGKILL:  # it had no time to wait for them
        wait_for("the end of the tests", lambda: not sleeping())
    assert not sleeping()
    made = [name for name in left_in(tree / "files") if name.startswith("td-")]
    assert made == []


HALTS = """
import os, signal, subprocess

def test_halts_a_program_while_another_one_that_was_let_go_ends():
    halted = subprocess.Popen(("sleep", "900"))
    halted.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, halted.pid, os.WSTOPPED)
    reads, holds = os.pipe()
    shell = ("sh", "-c", f"cat <&{reads} &")
    with subprocess.Popen(shell, stdout=subprocess.PIPE, pass_fds=(reads,)) as let_go:
        let_go.wait()
        os.close(holds)  # which ends it
        let_go.stdout.read()
    halted.kill()
"""


# Else the kernel takes the group of all tests for one that has lost its terminal.
def test_a_test_may_halt_a_program(tree, run):
    (tree / "halts_test.py").write_text(HALTS)
    ctest = f'*) exec "{ISOLATED}" 900 "{tree}/tests/pytest_server" "{tree}/halts_test.py"; esac'
    looks = STUBS["ctest"].partition(" esac")[0]
    (tree / "bin/ctest").write_text(f"#!/bin/sh\n{looks} {ctest}\n")
    ended = run("setsid", "--wait", tree / "tests/run", env=in_tree(tree))
    assert any(line.startswith("1 passed in ") for line in ended.out), ended.output()
    assert ended.out[-1] == "0 passed, 0 failed"  # this ctest wrote no log


def test_names_its_short_form_first(tree, start):
    env = in_tree(tree)
    running = start(tree / "tests/run", env=env)
    assert "--smoke" in running.out.wait(1)
    assert start(tree / "tests/run", "--smoke", env=env).out.wait(1).startswith("tests/run --smoke: ")


# .ci/run, in that tree: what the steps do is the test's

RUNS = {
    "tests/run": 'case " $* " in *" --preset $BAD "*) eval "$DOES" ;; esac; echo "3 passed, 0 failed"',
    "packaging/release": "echo made",
    "broker/start": "trap 'exit 0' TERM; echo tidingsd: ready at http://127.0.0.1:1/; "
    "while :; do sleep 0.05; done",
    "bin/curl": "exit 0",
    "tools/circles.py": "exit 0",
    "tools/unused.py": "exit 0",
    "tools/size.py": "echo 0 figures",
    "tools/pictures.py": "exit 0",
    "bin/clang-format": "exit 0",
    "bin/shellcheck": "exit 0",
}
PASSED = "asan\t2026-01-01 00:00\tHEAD\t9\tok, 7 passed, 0 failed\t\n"

# What befalls a run; its status, and a line of its summary.
BEFALLS = (
    ({}, 0, "15 passed, 0 failed"),
    ({"BAD": "tsan", "DOES": "exit 3"}, 1, "tsan     partial"),
    ({"BAD": "tsan", "DOES": "echo 2 passed, 1 failed; exit 1"}, 1, "tsan     FAILED"),
    ({"TIDINGS_CI_SECONDS": "0"}, 1, "release  partial    0 s  not begun: "),
    ({}, 0, "nightly asan       2026-01-01 00:00 at HEAD: ok, 7 passed, 0 failed"),
    ({}, 0, "nightly soak       never ran"),
)


@pytest.fixture
def ci_tree(tree):
    for name, text in RUNS.items():
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_text(f"#!/bin/sh\n{text}\n")
        (tree / name).chmod(0o755)
    for name in (".ci/run", "tests/nightly"):
        (tree / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tree / name)
    for folder in ("base", "broker/cluster", "client", "proto"):
        (tree / folder).mkdir(parents=True, exist_ok=True)
    return tree


def keep_nights(tree, row):
    (tree / "tests/nightly.tsv").write_text(f"step\twhen\tcommit\tseconds\tresult\tfound\n{row}")


@pytest.mark.parametrize("env, status, line", BEFALLS)
def test_ci_is_green_if_nothing_was_left_out(ci_tree, run, env, status, line):
    keep_nights(ci_tree, PASSED)
    env = in_tree(ci_tree) | {"BAD": "none", "DOES": "true"} | env
    ended = run(ci_tree / ".ci/run", env=env, status=status)
    assert any(shown.startswith(line) for shown in ended.out), ended.output()
    assert re.fullmatch(r"\d+ passed, \d+ failed", ended.out[-1])


# What passed at night runs again once something that it reads has changed.
def test_ci_runs_what_the_night_ran_before_a_change(ci_tree, run):
    def git(*words):
        who = ("-c", "user.name=t", "-c", "user.email=t@example.com")
        return run("git", "-C", ci_tree, *who, *words).out

    env = in_tree(ci_tree) | {"BAD": "none", "DOES": "true"}
    git("init", "-q")
    builds = "tests/builds.txt"
    (ci_tree / builds).write_text("")
    for change, text, line in (
        ("base/a.c", "int a;", "same"),
        (builds, "e2e/a asan", "same"),
        (builds, "e2e/a nightly", "ok"),
        ("broker/cluster/a.c", "int a;", "ok"),
    ):
        git("add", "-A")
        git("commit", "-q", "--allow-empty", "-m", "one")
        (commit,) = git("rev-parse", "HEAD")
        keep_nights(ci_tree, f"rest\t2026-01-01 00:00\t{commit}\t9\tok, 7 passed, 0 failed\t\n")
        (ci_tree / change).write_text(f"{text}\n")
        git("add", change)
        ended = run(ci_tree / ".ci/run", env=env)
        assert any(shown.startswith(f"rest     {line} ") for shown in ended.out), ended.output()
