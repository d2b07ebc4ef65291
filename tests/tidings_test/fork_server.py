"""Programs of this build that are loaded once for all their starts (fork_server.c)."""

import os
import resource
import socket
import subprocess
import sys

LIBRARY = os.environ.get("TIDINGS_FORK_LIBRARY")  # of builds without a sanitizer
REQUEST_MAX = 1 << 20

# What is read from the environment before the server has it.
_LOADED = ("LD_", "GLIBC_", "MALLOC_", "OPENSSL_", "GNUTLS_")

_servers = {}  # by program, and what a fork has of its server


def of(program, leash=None):
    """The server of a program; begins with the leash. There is another one after a test
    has changed what processes inherit."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    key = (str(program), os.readlink("/proc/self/ns/mnt"), limits)
    if leash and key not in _servers:
        _servers[key] = _Server(leash, key[0])
    return _servers[key]


def forget():
    """A process that has forked gets servers of its own."""
    _servers.clear()


def is_ours(program):
    return os.path.dirname(program) == os.path.abspath(os.environ.get("TIDINGS_BIN", ""))


def start(leash, argv, env, **how):
    """A Popen of `argv`, with the variables `env` besides this process's."""
    whole = {**os.environ, **(env or {})}
    program = argv[0]
    if LIBRARY and is_ours(program) and not any(name.startswith(_LOADED) for name in env or ()):
        server = of(program, leash)
        if server.is_ready:
            return _Fork(server, argv, env=whole, **how)
    return subprocess.Popen([*leash, *argv], env=whole, **how)


class _Server:
    def __init__(self, leash, program):
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, REQUEST_MAX)
        # Symbols are looked up once, not in each fork.
        own = {"LD_PRELOAD": LIBRARY, "LD_BIND_NOW": "1", "TIDINGS_FORK_SERVER": str(theirs.fileno())}
        with theirs:
            self._popen = subprocess.Popen(
                [*leash, program],
                env={**os.environ, **own},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        self.is_ready = self._receive() == 0
        self.n_forks = 0

    def _receive(self):
        answer = self._socket.recv(4)
        return int.from_bytes(answer, sys.byteorder, signed=True) if answer else None

    def fork(self, argv, cwd, env, files):
        words = [cwd or os.getcwd(), len(argv), *argv]
        words += [f"{name}={value}" for name, value in env.items()]
        text = "".join(f"{word}\0" for word in words)
        socket.send_fds(self._socket, [text.encode("utf-8", "surrogateescape")], files)
        pid = self._receive()
        if pid is None or pid < 0:
            raise OSError(-(pid or 0), f"the fork server of {argv[0]} gives no process")
        self.n_forks += 1
        return pid

    def end(self):
        """Ends it, and returns its status."""
        self._socket.close()
        return self._popen.wait()


class _Fork(subprocess.Popen):
    """Differs from other processes in how it begins."""

    def __init__(self, server, argv, **how):
        self._server = server
        super().__init__(argv, **how)

    def _execute_child(self, argv, *words):
        cwd, env = words[4:6]
        ends = words[9:15]  # of the pipes: what is read, what is written
        self.pid = self._server.fork(argv, cwd, env, (ends[0], ends[3], ends[5]))
        self._child_created = True
        self._closed_child_pipe_fds = True
        pipes = (ends[0], ends[1]), (ends[3], ends[2]), (ends[5], ends[4])
        for theirs, ours in pipes:
            if ours != -1:
                os.close(theirs)
