"""Three PostgreSQL servers with pg_auto_failover, which promotes a standby when the
primary is lost; a stand-in for failover.py's Trio.

    managed = ManagedTrio()
    managed.query("SELECT 1")           by the primary
    lost = managed.kill_primary()       its manager is killed, too
    managed.primary                     another one, once it takes commits
    managed.start(lost)                 it becomes a standby
    managed.wait_whole()                a primary and two standbys

A monitor, a server of its own, decides; each server has a keeper (`pg_autoctl`) beside
it. All of them listen on ports that the kernel chose.
"""

import os
import pathlib
import pwd

from tidings_test.postgresql import PROGRAMS, USER, Group, Managed
from tidings_test.waiting import wait_for

PROGRAM = pathlib.Path("/usr/bin/pg_autoctl")
EXTENSION = pathlib.Path("/usr/lib/postgresql/15/lib/pgautofailover.so")
PACKAGES = "pg-auto-failover-cli postgresql-15-auto-failover"

NAMES = ("one", "two", "three")

# The defaults wait for 20 s until a node is dead, and 30 s more for a primary that may
# live: doc/cluster.md. Here it is dead.
QUICK = """
pgautofailover.health_check_period = 500
pgautofailover.health_check_retry_delay = 100
pgautofailover.node_considered_unhealthy_timeout = 1000
pgautofailover.primary_demote_timeout = 1000
pgautofailover.startup_grace_period = 1000
"""

MEMORY = "dynamic_shared_memory_type = mmap\n"  # a killed server leaves no segments

STATES = "SELECT reportedstate || ' ' || goalstate FROM pgautofailover.node"


def is_installed():
    return PROGRAM.exists() and EXTENSION.exists()


class Node(Managed):
    """A server under pg_autoctl, all of which share a directory."""

    def __init__(self, name):
        super().__init__(name)
        if not self.as_user:  # the account that makes a server here owns it
            self.env["PGUSER"] = pwd.getpwuid(os.getuid()).pw_name
        self._keeper_env = {
            "PATH": f"{PROGRAMS}:/usr/bin:/bin",
            "HOME": str(self.directory),
            "XDG_CONFIG_HOME": str(self.directory / "config"),
            "XDG_DATA_HOME": str(self.directory / "share"),
            "XDG_RUNTIME_DIR": str(self.directory),
            "PG_REGRESS_SOCK_DIR": str(self.directory),
        }

    def create(self, kind, *options):
        """Make its data: a "monitor", or a "postgres" of one."""
        here = ("--hostname", "127.0.0.1", "--pgport", self.port)
        self._call("create", kind, *here, "--auth", "trust", "--no-ssl", *options)
        created = self.process.wait()
        assert created == 0, self.process.errors()
        with (self.data / "postgresql.conf").open("a") as settings:
            settings.write((QUICK if kind == "monitor" else "") + MEMORY)

    def run(self):
        """Start it with its keeper."""
        self._call("run")

    def _call(self, *arguments):
        self.manage(PROGRAM, *arguments, "--pgdata", self.data, env=self._keeper_env)


class ManagedTrio(Group):
    """`servers` has all three by name (or those of `names`); `primary` is the name of the
    one that the monitor calls so."""

    def __init__(self, names=NAMES):
        self.monitor = Node("monitor")
        self.servers = {name: Node(name) for name in names}
        try:
            self._begin()
        except BaseException:
            self.end()
            raise

    def _begin(self):
        self.monitor.create("monitor")
        self.monitor.run()
        address = f"postgres://autoctl_node@127.0.0.1:{self.monitor.port}"
        address += "/pg_auto_failover?sslmode=disable"
        wait_for("the monitor", lambda: self._ask("SELECT 1"))
        for name, server in self.servers.items():
            where = ("--pghost", server.directory, "--monitor", address)
            server.create("postgres", "--name", name, *where)
            server.run()
        self.wait_whole()
        if self.monitor.env["PGUSER"] != USER:
            self.query(f"CREATE ROLE {USER} SUPERUSER LOGIN")

    @property
    def primary(self):
        """Waits for one."""
        look = (
            "SELECT nodename FROM pgautofailover.node"
            " WHERE reportedstate IN ('single', 'wait_primary', 'primary')"
            " AND goalstate IN ('single', 'wait_primary', 'primary')"
        )
        return wait_for("a primary", lambda: self._ask(look))[0]

    def wait_whole(self):
        """Wait for a primary and all standbys."""
        n = len(self.servers) - 1
        whole = ["primary primary", *["secondary secondary"] * n]
        wait_for("all servers", lambda: sorted(self._ask(STATES)) == whole)

    def start(self, name):
        """Start it again after a kill."""
        self.servers[name].run()

    def end(self):
        super().end()
        self.monitor.end()

    def _ask(self, text):
        """The rows of the monitor's answer; none while it does not answer."""
        try:
            return self.monitor.query(text, "pg_auto_failover")
        except AssertionError:
            return []
