"""PostgreSQL servers of a test's own: a directory, a unix socket, no port.

    database = Postgresql()
    database.query("SELECT 1")              rows, each the text of its columns
    run("psql", ..., env=database.env)      its clients find it by these variables
    database.end()

Several servers that copy each other: failover.py, and with a manager of others
auto_failover.py and patroni.py. PostgreSQL does not run as root: then it is the user
postgres, whom the package creates.
"""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile
import threading

import psycopg2
import psycopg2.extensions
import psycopg2.extras

from tidings_test.http import keep_port
from tidings_test.process import Process

FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
PROGRAMS = pathlib.Path("/usr/lib/postgresql/15/bin")
USER = "postgres"

# bool, bytea, "char", int8, int2, int4, oid, json, float4, float8, date, timestamp,
# timestamptz, interval, numeric: as the server writes them.
TYPES = (16, 17, 18, 20, 21, 23, 26, 114, 700, 701, 1082, 1114, 1184, 1186, 1700)
# libpq's own wait goes on behind a signal: the watchdog would not end a query that waits
# for a lock or for a standby.
psycopg2.extensions.set_wait_callback(psycopg2.extras.wait_select)
AS_TEXT = psycopg2.extensions.new_type(TYPES, "AS_TEXT", lambda value, cursor: value)


class Server:
    """A server that has a directory and no data yet: make() or copy(), then start()."""

    def __init__(self, **settings):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="tidings-postgresql-"))
        self.data = self.directory / "data"
        self.port = 5432
        self.socket = self.directory / ".s.PGSQL.5432"
        self.settings = {
            "dynamic_shared_memory_type": "mmap",  # a killed one leaves no segments
            "listen_addresses": "",
            "unix_socket_directories": self.directory,
            **settings,
        }
        self.env = {
            "PGHOST": str(self.directory),
            "PGPORT": str(self.port),
            "PGUSER": USER,
            "PGDATABASE": "postgres",
            "PGOPTIONS": "--client-min-messages=warning",
        }
        self.address = f"host={self.directory} user={USER}"  # without a database
        self.process = None
        self._connections = {}  # by thread and database
        self.clock_s = 0  # how far its clock is from the truth, after the next start
        self.as_user = []
        if os.getuid() == 0:
            user = pwd.getpwnam(USER)
            os.chown(self.directory, user.pw_uid, user.pw_gid)
            self.directory.chmod(0o755)
            self.as_user = ["/usr/bin/setpriv", "--reuid", USER]
            self.as_user += ["--regid", str(user.pw_gid), "--clear-groups"]
            self.as_user += ["--pdeathsig", "KILL"]

    def make(self, *options):
        """Make its data, with these options of initdb: a copy of what initdb once made
        for all tests of a build, where they have a place for it. It takes a second of
        CPU."""
        options = ("-A", "trust", "-U", USER, "-N", *options)
        if not (place := os.environ.get("TIDINGS_MADE")):
            self._run("initdb", "-D", self.data, *options)
            return
        name = hashlib.sha256("\0".join(options).encode()).hexdigest()[:16]
        made = pathlib.Path(place) / f"postgresql-{name}.tar"
        made.parent.mkdir(exist_ok=True)
        with open(made.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not made.exists():
                self._run("initdb", "-D", self.data, *options)
                part = made.with_suffix(".part")
                subprocess.run(["tar", "-cf", part, "-C", self.directory, "data"], check=True)
                part.rename(made)
                return
        subprocess.run(["tar", "-xpf", made, "-C", self.directory], check=True)

    def copy(self, primary):
        """Make its data a copy of that running server, whose standby it will be."""
        source = ("-h", primary.directory, "-U", USER)
        self._run("pg_basebackup", *source, "-D", self.data, "-R", "-c", "fast", "-N")

    def start(self):
        """Start it, also again after a kill, and wait until it takes connections."""
        self.forget_kill()
        options = [
            word for pair in self.settings.items() for word in ("-c", "%s=%s" % pair)
        ]
        wrong = ()
        if self.clock_s:
            wrong = ("/usr/bin/env", f"LD_PRELOAD={FAKETIME}", "FAKETIME_DISABLE_SHM=1")
            wrong += (f"FAKETIME={self.clock_s:+}s", "FAKETIME_DONT_FAKE_MONOTONIC=1")
        program = (*self.as_user, *wrong, PROGRAMS / "postgres")
        command = [*program, "-D", self.data, *options]
        self.process = Process(*command, cwd="/")
        self.process.err.find(
            lambda line: "ready to accept" in line, "line that it is ready"
        )

    def kill(self):
        """Kill all its processes at once, as a loss of power does; its data stay."""
        self._forget_connections()
        if self.process.is_running:
            self.process.kill_tree()

    def forget_kill(self):
        """Remove the number of a process that has been killed, or it does not start."""
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def query(self, text, database="postgres"):
        """The rows of its answer; of several statements, of the last one."""
        try:
            rows = self._ask(text, database)
        except psycopg2.Error as failure:
            raise AssertionError(f"{self}: {failure}") from failure
        return ["|".join("" if column is None else column for column in row) for row in rows]

    def _ask(self, text, database):
        """A SELECT goes by a connection that is kept, since waiting asks often and a
        server starts a process for each connection. It may have been ended meanwhile.
        Anything else may concern who is connected."""
        if not text.lstrip().startswith("SELECT"):
            self._forget_connections()
            with contextlib.closing(self._connect(database)) as connection:
                return self._rows(connection, text)
        key = threading.get_ident(), database
        connection = self._connections.pop(key, None)
        if connection:
            try:
                rows = self._rows(connection, text)
                self._connections[key] = connection
                return rows
            except (psycopg2.OperationalError, psycopg2.InterfaceError):
                connection.close()
        connection = self._connect(database)
        try:
            rows = self._rows(connection, text)
        except BaseException:
            connection.close()
            raise
        self._connections[key] = connection
        return rows

    @staticmethod
    def _rows(connection, text):
        connection.autocommit = True
        psycopg2.extensions.register_type(AS_TEXT, connection)
        with connection.cursor() as cursor:
            cursor.execute(text)
            return cursor.fetchall() if cursor.description else []

    def _connect(self, database):
        names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER"}
        where = {name: self.env[variable] for name, variable in names.items()}
        return psycopg2.connect(dbname=database, **where)

    def _forget_connections(self):
        while self._connections:
            self._connections.popitem()[1].close()

    def end(self):
        self._forget_connections()
        if self.process and self.process.is_running:
            self.process.signal(2)  # a fast shutdown
            self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _run(self, program, *arguments):
        done = subprocess.run(
            [*self.as_user, PROGRAMS / program, *map(str, arguments)],
            cwd="/",
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr

    def __repr__(self):
        return f"<PostgreSQL in {self.directory}>"


class Postgresql(Server):
    """A server that runs. Its log has what logical decoding needs."""

    def __init__(self, syncs=False):
        # No test crashes the machine.
        how = {} if syncs else {"fsync": "off"}
        super().__init__(wal_level="logical", **how)
        self.make("-E", "UTF8", "--no-locale")
        self.start()


class Managed(Server):
    """A server under a program that starts it, at the first of so many ports that nobody
    else gets."""

    def __init__(self, name, n_ports=1):
        super().__init__()
        self.name = name
        self.ports, self._keepers = zip(*(keep_port() for _ in range(n_ports)))
        self.port = self.ports[0]
        self.socket = self.directory / f".s.PGSQL.{self.port}"
        self.env["PGPORT"] = str(self.port)

    def manage(self, *command, env):
        """Start that program."""
        self.forget_kill()
        self.process = Process(*self.as_user, *command, env=env, cwd=self.directory)

    def end(self):
        if self.process:
            self.kill()
        for keeper in self._keepers:
            keeper.close()
        shutil.rmtree(self.directory, ignore_errors=True)


class Group:
    """Servers that copy each other: `servers` has all by name, `primary` is the name of the
    one that takes commits."""

    def query(self, text, database="postgres"):
        return self.servers[self.primary].query(text, database)

    def make_database(self, name):
        self.query(f"CREATE DATABASE {name}")
        return name

    def kill_primary(self):
        """Kill it, with the program that manages it; its data stay. Its name."""
        lost = self.primary
        self.servers[lost].kill()
        return lost

    def end(self):
        for server in self.servers.values():
            server.end()
