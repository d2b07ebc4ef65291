"""What makes a fault harder to exploit: options of compiler and linker (the checks of
Debian's hardening-check, with binutils alone, for the files of this build), the filter
of system calls and memory that no other process reads.

unit/base/syscall_filter tries the calls; all end-to-end tests run under the filter.

(hardening-check finds stack clash protection only where a function allocates by
alloca(), which no function of ours does: it says "unknown".)
"""

import json
import os
import pathlib
import platform
import re
import resource
import shlex
import signal
import subprocess

import pytest

from tidings_test.broker import BIN, PROGRAMS, ROOT, is_sanitized

LIBRARY = BIN.parent / "lib/libtidings.so"
IS_X86 = platform.machine() == "x86_64"

pytestmark = pytest.mark.skipif(
    is_sanitized(), reason="sanitizers look for such faults themselves"
)


def tell(*command, cwd=None):
    return subprocess.run(
        command, cwd=cwd, check=True, capture_output=True, text=True
    ).stdout


def is_optimised():
    cache = (BIN.parent / "CMakeCache.txt").read_text()
    return re.search(r"^CMAKE_BUILD_TYPE:\w+=Rel", cache, re.M)


@pytest.mark.parametrize("file", [*PROGRAMS.values(), LIBRARY], ids=lambda p: p.name)
def test_programs_and_library_are_hardened(file):
    headers = tell("readelf", "--wide", "--file-header", "--program-headers", file)
    dynamic = tell("readelf", "--wide", "--dynamic", file)
    functions = tell("nm", "--dynamic", "--undefined-only", file)
    assert re.search(r"Type: +DYN", headers)
    assert "GNU_RELRO" in headers
    assert not re.search(r"GNU_STACK.* RWE ", headers)
    assert "(BIND_NOW)" in dynamic or re.search(r"FLAGS\).* BIND_NOW", dynamic)
    if file != LIBRARY:
        assert re.search(r"FLAGS_1\).* PIE", dynamic)
    assert "__stack_chk_fail" in functions
    assert bool(re.search(r"__\w+_chk@", functions)) == bool(is_optimised())
    if IS_X86:
        notes = tell("readelf", "--notes", file)
        assert "x86 feature: IBT, SHSTK" in notes
        # It touches each page of a large frame.
        code = tell("objdump", "-d", "--no-show-raw-insn", file)
        assert re.search(r"sub +\$0x1000,%rsp\n.*(or|mov)q +\$0x0,.*\(%rsp\)", code)


# A file of the users' build: the release preset compiles it, even if this build is
# another one.
def test_a_release_checks_the_sizes_of_buffers(tmp_path):
    tell("cmake", "--preset", "release", "-B", tmp_path, "-DTIDINGS_TESTS=OFF", cwd=ROOT)
    for one in json.loads((tmp_path / "compile_commands.json").read_text()):
        if one["file"].endswith("base/file.c"):
            command = shlex.split(one["command"])
    command[command.index("-o") + 1] = str(tmp_path / "file.o")
    tell(*command, "-fno-lto", cwd=tmp_path)
    functions = tell("nm", "--undefined-only", tmp_path / "file.o")
    assert re.search(r"__\w+_chk$", functions, re.M)


def statuses(process):
    """What the kernel says of each thread: its fields."""
    for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
        lines = (task / "status").read_text().splitlines()
        yield dict(line.split(":\t", 1) for line in lines)


# Also threads that the libraries began, and those of an MQTT bridge.
def test_system_calls_of_every_thread_are_filtered(start_bridge, mosquitto):
    broker = start_bridge(mosquitto, "out = *")
    broker.set().post()
    threads = list(statuses(broker.process))
    assert len(threads) > 5
    assert {thread["Seccomp"] for thread in threads} == {"2"}
    assert {thread["NoNewPrivs"] for thread in threads} == {"1"}
    broker.wait_said(' part=broker msg="system calls are filtered"')


def test_a_broker_without_a_filter_says_so(start_broker):
    broker = start_broker("--seccomp", "off")
    assert {thread["Seccomp"] for thread in statuses(broker.process)} == {"0"}
    broker.wait_said('"system calls are not filtered" reason="--seccomp off"')


def without_seccomp(*command):
    """A parent that lets nobody have a filter, as some containers do."""
    code = (
        "import ctypes, os, struct, sys\n"
        # ERRNO(EINVAL) for seccomp(), ALLOW for other calls
        "ops = [(0x20, 0, 0, 0), (0x15, 0, 1, int(sys.argv[1])), (6, 0, 0, 0x50016),"
        " (6, 0, 0, 0x7fff0000)]\n"
        "code = b''.join(struct.pack('HBBI', *op) for op in ops)\n"
        "text = ctypes.create_string_buffer(code, len(code))\n"
        "program = struct.pack('HxxxxxxQ', len(ops), ctypes.addressof(text))\n"
        "libc = ctypes.CDLL(None)\n"
        "assert libc.prctl(38, 1, 0, 0, 0) == 0\n"
        "assert libc.prctl(22, 2, program, 0, 0) == 0\n"
        "os.execv(sys.argv[2], sys.argv[2:])\n"
    )
    return ("/usr/bin/python3", "-c", code, SECCOMP, *command)


SECCOMP = {"x86_64": "317", "aarch64": "277"}[platform.machine()]


def test_a_kernel_without_filters_is_reported(run, start, tmp_path):
    options = ("--listen", "127.0.0.1:0", "--data", tmp_path / "data")
    refused = without_seccomp(PROGRAMS["tidingsd"], *options)
    done = run(*refused, "--check")
    assert list(done.out) == ["tidingsd: settings are good"]
    (line,) = done.err
    assert line.startswith("tidingsd: --seccomp: the kernel takes no filter of ")
    broker = start(*refused)
    broker.out.wait(1)
    line = broker.err.find(lambda line: "not filtered" in line, "the line")
    assert " level=warning " in line
    broker.stop()


@pytest.mark.parametrize(
    "options, ending",
    [((), os.CLD_KILLED), (("--core-dumps", "on"), os.CLD_DUMPED)],
    ids=["hidden", "dumped"],
)
def test_a_crash_writes_no_memory_unless_that_is_wanted(
    start, tmp_path, options, ending
):
    where = ("--listen", "127.0.0.1:0", "--data", tmp_path / "data")
    broker = start("tidingsd", *where, *options, cwd=tmp_path)
    broker.out.wait(1)
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    resource.prlimit(broker.pid, resource.RLIMIT_CORE, unlimited)
    broker.signal(signal.SIGSEGV)
    ended = os.waitid(os.P_PID, broker.pid, os.WEXITED | os.WNOWAIT)
    assert ended.si_code == ending
    assert broker.wait() == 128 + signal.SIGSEGV
