"""Three PostgreSQL servers, of which two have each commit before it is answered, and the
manager that promotes a standby when the primary is lost.

    trio = Trio()
    trio.query("SELECT 1")              by the primary
    lost = trio.lose_primary()          killed; its directory is deleted
    trio.promote()                      the standby that has most; the other follows it
    trio.repair()                       lost servers are copies of the primary again

PostgreSQL answers a commit when it is on the disks of the primary and of one standby:
whichever single server is lost, one with all answered commits is left. So a manager has
to ask both standbys how much they have.
"""

import shutil

from tidings_test.postgresql import Group, Server
from tidings_test.waiting import wait_for

NAMES = ("one", "two", "three")

# As doc/cluster.md has them, and what makes a small server quick.
SETTINGS = """
synchronous_standby_names = 'ANY 1 (one, two, three)'
wal_keep_size = 64MB
max_wal_senders = 10
max_connections = 60
shared_buffers = 16MB
wal_receiver_status_interval = 1s
wal_retrieve_retry_interval = 100ms
"""

RECEIVED = "SELECT pg_wal_lsn_diff(pg_last_wal_receive_lsn(), '0/0')"
IS_ALONE = "SELECT count(*) = 0 FROM pg_stat_wal_receiver"
FOLLOWERS = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"


class Trio(Group):
    """Three, of which `primary` is None while there is none."""

    def __init__(self, more="", segment_mb=4):
        """`more`: lines of postgresql.conf behind SETTINGS; `segment_mb`: size of a
        file of WAL."""
        self.servers = {}
        self.primary = NAMES[0]
        first = self._new(self.primary)
        first.make("-E", "UTF8", "--no-locale", f"--wal-segsize={segment_mb}")
        with (first.data / "postgresql.conf").open("a") as settings:
            settings.write(SETTINGS + more)
        first.start()
        self.repair()

    @property
    def standbys(self):
        """The names of those that run and are not the primary."""
        return [
            name
            for name, server in self.servers.items()
            if name != self.primary and server.process.is_running
        ]

    # Losing servers

    def lose_primary(self):
        lost, self.primary = self.primary, None
        self._lose(lost)
        return lost

    def lose_standby(self, name):
        assert name != self.primary
        self._lose(name)

    def starve(self, name):
        """Let that standby receive nothing any more."""
        self._follow(name, "")
        wait_for(
            f"{name} to receive nothing any more",
            lambda: self.servers[name].query(IS_ALONE) == ["t"],
        )

    # The manager

    def promote(self, name=None):
        """Promote the standby that has received most, or that one, and let the other
        follow it."""
        standbys = self.standbys
        for standby in standbys:
            self.starve(standby)
        received = {
            standby: int(self.servers[standby].query(RECEIVED)[0])
            for standby in standbys
        }
        best = name or max(standbys, key=received.get)
        assert self.servers[best].query("SELECT pg_promote(true, 600)") == ["t"]
        self.primary = best
        for standby in standbys:
            if standby != best:
                self._follow(standby, f"host={self.servers[best].directory} user=postgres")
        return best

    def repair(self):
        """Make the lost servers copies of the primary, and wait until both standbys
        have all that it has."""
        primary = self.servers[self.primary]
        for name in NAMES:
            if name not in self.servers:
                server = self._new(name)
                server.copy(primary)
                server.start()
        wait_for(f"followers of {self.primary}", lambda: primary.query(FOLLOWERS) == ["2"])

    def _new(self, name):
        self.servers[name] = Server(cluster_name=name)
        return self.servers[name]

    def _lose(self, name):
        server = self.servers.pop(name)
        server.kill()
        shutil.rmtree(server.directory)

    def _follow(self, name, address):
        server = self.servers[name]
        server.query(f"ALTER SYSTEM SET primary_conninfo = '{address}'")
        server.query("SELECT pg_reload_conf()")
