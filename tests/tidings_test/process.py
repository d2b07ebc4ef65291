"""Programs that a test runs: they die with it, and their output is kept."""

import os
import pathlib
import signal
import subprocess
import threading
import time

from tidings_test import fork_server
from tidings_test.waiting import Arrivals, waiting_for

# All that were started since the beginning of the test, for reports of failures.
started = []

# What starts a program so that it is killed when the thread that started it ends.
_ISOLATED = pathlib.Path(os.environ.get("TIDINGS_BIN", "/nonexistent")).parent / "tests/isolated"
LEASH = (_ISOLATED.absolute(), "--leashed")
if not _ISOLATED.exists():
    LEASH = ("/usr/bin/setpriv", "--pdeathsig", "KILL")

SANITIZERS = ("AddressSanitizer", "LeakSanitizer", "ThreadSanitizer", "runtime error:")


def forget_ended():
    """A test begins: earlier ones are only worth a report if they still run."""
    started[:] = [process for process in started if process.is_running]


class Process:
    """A running program.

    `out` and `err` are the lines of its standard output and standard error, as
    they come (Arrivals). With reads_output=False nobody reads standard output:
    popen.stdout is the test's. `errors`, a descriptor, replaces standard error; `err`
    is empty then. `terminal` replaces standard input and standard error. Start programs on the main thread only: the kernel kills them when
    the thread that started them ends.
    """

    def __init__(
        self, *argv, env=None, cwd=None, reads_output=True, errors=None, terminal=None
    ):
        errors = terminal if errors is None else errors
        self.argv = [str(argument) for argument in argv]
        self.name = os.path.basename(self.argv[0])
        self.popen = fork_server.start(
            LEASH,
            self.argv,
            env,
            cwd=cwd,
            stdin=subprocess.PIPE if terminal is None else terminal,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if errors is None else errors,
        )
        self.pid = self.popen.pid
        self._status = None
        self.out = Arrivals(f"the output of {self.name}")
        self.err = Arrivals(f"the errors of {self.name}")
        self._readers = []
        if errors is None:
            self._readers.append(_read_lines(self.popen.stderr, self.err))
        if reads_output:
            self._readers.append(_read_lines(self.popen.stdout, self.out))
        started.append(self)

    @property
    def is_running(self):
        return self.popen.poll() is None

    def give(self, text):
        """Write to its standard input; a program that does not read it is no error."""
        try:
            self.popen.stdin.write(text.encode())
            self.popen.stdin.flush()
        except BrokenPipeError:
            pass

    def end_input(self):
        try:
            if self.popen.stdin:
                self.popen.stdin.close()
        except BrokenPipeError:
            pass

    def signal(self, number):
        self.popen.send_signal(number)

    def kill(self):
        """SIGKILL: no chance to write another byte."""
        self.signal(signal.SIGKILL)
        self.wait()

    def kill_tree(self, *others):
        """Kill it and all its descendants at once: none finishes anything, or sees
        another one end. `others`: processes that it has started and let go."""
        found, roots = [], (self.pid, *others)
        # A stopped one makes no more.
        while (tree := [pid for root in roots for pid in _descendants(root)]) != found:
            for pid in tree:
                _send(pid, signal.SIGSTOP)
            found = tree
        for pid in found:
            _send(pid, signal.SIGKILL)
        self.wait()

    def halt(self):
        """No thread of it does anything until go_on()."""
        self.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def go_on(self):
        self.signal(signal.SIGCONT)

    def wait(self):
        """Wait for its end, and return its status: 128 and the signal's number if
        one killed it."""
        if self._status is not None:
            return self._status
        with waiting_for(f"the end of {self.name}"):
            self.end_input()
            status = self.popen.wait()
            for reader in self._readers:
                reader.join()
            for pipe in filter(None, (self.popen.stderr, self.popen.stdout)):
                pipe.close()
        complaints = [
            line for line in self.err if any(mark in line for mark in SANITIZERS)
        ]
        assert not complaints, f"{self.name}: {complaints}"
        self._status = status if status >= 0 else 128 - status
        return self._status

    def stop(self):
        """SIGTERM, which has to end it well."""
        if self.is_running:
            self.signal(signal.SIGTERM)
        status = self.wait()
        assert status == 0, f"{self.name} ended with {status}"

    def end(self):
        """Kill it if it still runs; at the end of the test."""
        if self.popen.returncode is None:
            self.signal(signal.SIGKILL)
            self.wait()

    @property
    def status(self):
        """How it ended, as wait() said; None: it runs."""
        return self._status

    def errors(self):
        return "\n".join(self.err)

    def output(self):
        return "\n".join(self.out)

    def memory_kib(self, of="VmRSS"):
        """Resident memory; of "VmHWM", the most that there ever was."""
        with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
            for line in status:
                if line.startswith(f"{of}:"):
                    return int(line.split()[1])
        raise AssertionError(f"{self.name} has no memory")

    def cpu_seconds(self):
        """CPU time so far, of user and system, to the nanosecond: clock_getcpuclockid(3), which
        Python lacks."""
        return time.clock_gettime(~self.pid << 3 | 2)

    def __repr__(self):
        return f"<{' '.join(self.argv)}, pid {self.pid}>"


def _descendants(pid):
    """The process and all below it."""
    found = [pid]
    for parent in found:
        tasks = pathlib.Path(f"/proc/{parent}/task/{parent}/children")
        try:
            found += map(int, tasks.read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has ended meanwhile
    return found


def _send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # it has ended meanwhile


def _read_lines(pipe, lines):
    def read():
        for line in pipe:
            lines.add(line.decode("utf-8", "backslashreplace").rstrip("\n"))
        lines.close("the program has ended")

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread
