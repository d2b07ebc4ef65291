"""Three PostgreSQL servers with Patroni, which promotes a standby when the primary is lost;
a stand-in for failover.py's Trio.

    managed = PatroniTrio(settings)     `settings`: the part of doc/cluster_failover.md
    managed.query("SELECT 1")           by the primary
    lost = managed.kill_primary()       its Patroni is killed, too
    managed.start(lost)                 it becomes a standby
    managed.wait_whole()                a primary and two standbys
    managed.end()

They agree by Raft among themselves, so no etcd is here. All of them listen on ports that
the kernel chose.
"""

import pathlib

import yaml

from tidings_test.auto_failover import NAMES
from tidings_test.http import Client
from tidings_test.postgresql import PROGRAMS, USER, Group, Managed
from tidings_test.waiting import wait_for

PROGRAM = pathlib.Path("/usr/bin/patroni")
RAFT = pathlib.Path("/usr/lib/python3/dist-packages/pysyncobj")
PACKAGES = "patroni python3-pysyncobj"

# A primary counts as dead after 30 s by default. Here it is dead.
QUICK = {"ttl": 5, "loop_wait": 1, "retry_timeout": 2}


def is_installed():
    return PROGRAM.exists() and RAFT.exists()


class Node(Managed):
    """A server under Patroni."""

    def __init__(self, name):
        super().__init__(name, n_ports=3)
        _, self.rest, self.raft = self.ports
        self._home = {"HOME": str(self.directory)}

    def run(self, settings, others):
        """Start it with its Patroni."""
        at = "127.0.0.1:{}".format
        here = {"listen": at(self.rest), "connect_address": at(self.rest)}
        trusted = ("local all all", "host all all 127.0.0.1/32")
        trusted += ("host replication all 127.0.0.1/32",)
        everybody = {"username": USER}
        roles = ("superuser", "replication", "rewind")
        whole = {
            "scope": "tidings",
            "name": self.name,
            "restapi": here,
            "raft": {
                "data_dir": str(self.directory / "raft"),
                "self_addr": at(self.raft),
                "partner_addrs": [at(other.raft) for other in others],
            },
            "bootstrap": {
                "dcs": {**settings, **QUICK},
                "initdb": [{"encoding": "UTF8"}, "no-locale", {"auth": "trust"}],
                "pg_hba": [f"{rule} trust" for rule in trusted],
            },
            "postgresql": {
                "listen": at(self.port),
                "connect_address": at(self.port),
                "data_dir": str(self.data),
                "bin_dir": str(PROGRAMS),
                "authentication": {role: everybody for role in roles},
                "parameters": {
                    "unix_socket_directories": str(self.directory),
                    "dynamic_shared_memory_type": "mmap",
                },
            },
        }
        file = self.directory / "patroni.yml"
        file.write_text(yaml.safe_dump(whole))
        file.chmod(0o644)
        self.manage(PROGRAM, file, env=self._home)

    def is_primary(self):
        """True if Patroni says so to a balancer (HAProxy)."""
        try:
            return Client(self.rest).get("/primary").status == 200
        except ConnectionError:
            return False

    def members(self):
        """The roles and states that it knows; none while it does not answer."""
        try:
            answer = Client(self.rest).get("/cluster").json()
        except ConnectionError:
            return []
        return sorted(f"{m['role']} {m['state']}" for m in answer["members"])

    def kill(self):
        """Kill Patroni, the server and all their processes at once."""
        if self.process.is_running:
            file = self.data / "postmaster.pid"
            started = [int(file.read_text().split()[0])] if file.exists() else []
            self.process.kill_tree(*started)


class PatroniTrio(Group):
    """`servers` has all three by name; `primary` is the name of the one that Patroni
    calls so."""

    def __init__(self, settings):
        self.settings = settings
        self.servers = {name: Node(name) for name in NAMES}
        try:
            for name in NAMES:
                self.start(name)
            self.wait_whole()
        except BaseException:
            self.end()
            raise

    @property
    def primary(self):
        """Waits for one."""

        def look():
            return [n for n, s in self.servers.items() if s.process.is_running and s.is_primary()]

        return wait_for("a primary", look)[0]

    def wait_whole(self):
        """Wait for a primary, its synchronous standby, and another one."""
        whole = ["leader running", "replica running", "sync_standby running"]
        streams = ["leader running", "replica streaming", "sync_standby streaming"]
        wait_for(
            "all servers", lambda: self.servers[self.primary].members() in (whole, streams)
        )

    def start(self, name):
        """Start it, or start it again after a kill."""
        server = self.servers[name]
        server.run(self.settings, [o for o in self.servers.values() if o is not server])
