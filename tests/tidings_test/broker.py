"""The broker under test: the program tidingsd, on a port and in a directory of its
own.

    def test_something(broker):            shared by the tests of the file
        news = broker.set()                a set of this test's own

    @pytest.mark.broker("--threads", "2")  with these options
    def test_something(broker): ...

    def test_something(start_broker):      brokers of this test's own
        one = start_broker("--rotate-age", "0.3")
        one.kill()
        one.restart()                      same port, directory and options
"""

import contextlib
import functools
import os
import pathlib

from tidings_test import http
from tidings_test.process import Process
from tidings_test.sets import Set
from tidings_test.waiting import wait_for

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = pathlib.Path(os.environ.get("TIDINGS_BIN", ROOT / "build/dev/bin")).absolute()
PROGRAMS = {name: BIN / name for name in ("tidings", "tidingsd")}


@functools.cache
def is_sanitized():
    """True if it was built with a sanitizer, which keeps freed memory and shadows all
    of it: such a figure says nothing of the broker."""
    program = PROGRAMS["tidingsd"].read_bytes()
    return b"__asan_init" in program or b"__tsan_init" in program


@functools.cache
def has_own_allocator():
    """True if malloc is part of the program (ThreadSanitizer): no fault replaces it."""
    return b"__tsan_init" in PROGRAMS["tidingsd"].read_bytes()


# Lists that are built by themselves would come in between, a client of a test may read
# as late as it likes, and most tests have all their clients at one address.
DEFAULTS = {
    "--resource-list-every": "0",
    "--min-rate": "0",
    "--client-connections": "1000000",
    "--client-half-heads": "1000000",
    "--client-streams": "1000000",
    "--client-sets": "1000000",
    "--client-share": "100",
}


class Broker(http.Client):
    """A broker that runs, unless the test has stopped or killed it.

    --listen and --data are given, and DEFAULTS unless they are among the options.
    """

    def __init__(self, directory, options=(), env=None, tls=None, data="data"):
        self.directory = pathlib.Path(directory)
        self.data = self.directory / data
        self.set_options(*options)
        self.env = env or {}
        self._earlier = []  # the log of the processes before this one
        self._sets = []
        port, self._keeper = http.keep_port()
        super().__init__(port, tls=tls)
        # Where it listens; and the URL of its documents, which may be another.
        self.address = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        self.url = self.address
        self.process = None
        self.start()

    # The process

    def set_options(self, *options):
        """Choose the options of the next start."""
        self.options = [str(option) for option in options]
        for name, value in DEFAULTS.items():
            if name not in self.options:
                self.options += [name, value]

    def start(self):
        """Start it again after a stop or a kill."""
        if self.process:
            self._earlier += self.process.err
        self.process = self.start_process()
        ready = self.process.out.wait(1)
        assert ready == f"tidingsd: ready at {self.address}/"

    restart = start

    def start_process(self):
        """Start it without waiting until it is ready."""
        return Process(
            PROGRAMS["tidingsd"],
            "--listen",
            f"127.0.0.1:{self.port}",
            "--data",
            self.data,
            *self.options,
            env=self.env,
        )

    @property
    def is_running(self):
        return self.process.is_running

    def stop(self):
        """SIGTERM; it has to end with 0."""
        self.disconnect()
        self.process.stop()

    def kill(self):
        """SIGKILL: no chance to write another byte."""
        self.process.kill()

    def terminate(self):
        """SIGTERM, without waiting for the end: wait() does."""
        self.process.signal(15)

    def wait(self):
        """Wait for its end, and return its exit status."""
        return self.process.wait()

    def has_said(self, part):
        """True if it has logged a line with `part` in it, before restarts too."""
        return any(part in line for line in [*self._earlier, *self.process.err])

    def wait_said(self, part):
        """Wait until it logs a line with `part`, and return the line."""
        return self.process.err.find(lambda line: part in line, repr(part))

    def end(self):
        """Stop it if it runs, and free its port; at the end of the test."""
        try:
            if self.process and self.process.popen.returncode is None:
                self.stop()
        finally:
            self._keeper.close()

    # Sets

    def set(self, name=None):
        """A new set, with a name of its own if none is given; it does not exist yet."""
        made = Set(self, name or f"s{len(self._sets) + 1}")
        self._sets.append(made)
        return made

    def remove_sets(self):
        """Remove the sets that set() has given; the test is over."""
        for gone in self._sets:
            if not gone.is_removed:
                gone.delete()
                gone.is_removed = True

    def path_of(self, url):
        """R-264: the path of one of its URLs, which begins with its public URL."""
        assert url.startswith(self.url + "/"), url
        return url.removeprefix(self.url)

    def client(self):
        """Another client, for another thread."""
        return http.Client(self.port, tls=self.tls)

    def client_at(self, socket):
        """A client that asks by a unix socket, at its path. Set(client, "news") is the
        set as it sees it."""
        client = http.Client(self.port, unix=socket)
        client.url, client.data = self.url, self.data
        return client

    def holder(self, token):
        """A client with that token; None: without one. Set(client, "news") is the set
        as it sees it."""
        client = self.client()
        client.token, client.url, client.data = token, self.url, self.data
        return client

    @property
    def control(self):
        """The path of its control socket."""
        return self.data / "control.sock"

    @property
    def operator(self):
        """Its operator, who may do everything without a token: a client by the control
        socket."""
        return self.client_at(self.control)

    @property
    def administrator(self):
        """A client of an administrator: of the first one's token, else the operator."""
        return self if self.token else self.operator

    def wait_threads(self):
        """Return when each of its threads has done its earlier work: so many new
        connections are answered that each thread has had one."""
        for _ in range(20):
            with self.connect() as connection:
                assert connection.request("/healthz").status == 200

    def wait_answer(self):
        """Wait until it answers a request: where it gives requests little time, a slow
        machine may need several."""
        wait_for(f"an answer of {self}", self.is_answering)

    def is_answering(self):
        try:
            return self.get("/healthz").status == 200
        except (http.ConnectionEnded, OSError):
            return False

    def start_post(self, path, type, begin):
        """A connection that has sent a post of which nothing follows `begin`."""
        connection = self.connect()
        token = f"Authorization: Bearer {self.token}\r\n" if self.token else ""
        connection.send(
            f"POST {path} HTTP/1.1\r\nHost: {connection.host}\r\n{token}"
            f"Content-Type: {type}\r\nContent-Length: 100\r\n\r\n{begin}"
        )
        return connection

    def post_too_slowly(self, *half):
        """The answer to start_post(*half), by a broker that gives requests little time:
        it may end a connection before a slow machine has sent a head; then the post is
        sent again."""

        def send():
            ended = http.ConnectionEnded, OSError
            with contextlib.suppress(*ended), self.start_post(*half) as connection:
                return connection.answer()

        return wait_for(f"a post that {self} cuts off", send)

    def add_token(self, name, **terms):
        """Make a token with these members of its JSON; its text. The first
        administrator's is that of all later requests; before it the operator makes
        tokens."""
        made = self.administrator.post("/tokens", {"name": name, **terms})
        assert made.status == 201, made
        text = made.json().get("token")
        if terms.get("admin") and not self.token:
            self.disconnect()
            self.token = text
        return text

    def metrics(self):
        """The current answer to GET /metrics (metrics.py)."""
        from tidings_test.metrics import Metrics

        return Metrics(self.get("/metrics"))

    def __repr__(self):
        return f"<broker at {self.address}>"
