"""Three brokers of one cluster, and the three PostgreSQL servers that have its journal.

    cluster = start_cluster("--rotate-entries", 50)
    a, b, c = cluster.members               each is a Broker (broker.py)
    a.set("news").post(3)
    cluster.wait_same()                     all have the same records
    a.cut_off(UP), a.reconnect()            the network between it and PostgreSQL
    b.front                                 a bad network between it and its clients
    cluster.add_reader("r")                 a broker that only reads
    cluster.owner("hub/0")                  the member that has that lease
    cluster.end_leases(a)                   a has no lease any more
    cluster.balancer.point(c.port)          the public URL leads there
    cluster.trio.lose_primary()             failover.py

All members have one public URL. Each reaches each server by a proxy of its own.
"""

import itertools
import re
import subprocess

from tidings_test import http
from tidings_test.broker import PROGRAMS, Broker
from tidings_test.postgresql_proxy import PostgresqlProxy
from tidings_test.proxy import DOWN, RESET, UP, Proxy
from tidings_test.waiting import wait_for

NAMES = ("a", "b", "c")
DISK = ("--cluster-durable-by", "disk")  # of a server without standbys
NUMBERS = itertools.count()  # of clusters: some tests share their servers


class Leases:
    """Which of `members` owns what, by the journal that query() asks."""

    def owner(self, lease="hub/0"):
        """The member that has the lease now; waits for one."""
        look = (
            "SELECT broker FROM tidings_leases"
            f" WHERE name = '{lease}' AND until > now()"
        )
        name = wait_for(f"an owner of {lease}", lambda: self.query(look))[0]
        return next(member for member in self.members if member.name == name)

    def owner_of(self, number):
        """The member that delivers to the subscription: its number names its part."""
        return self.owner(f"hub/{number % 16}")

    def wait_shares(self):
        """Wait until each of three has its share of the hub, so no part moves."""
        rows = (
            "SELECT count(*) FROM tidings_leases WHERE name LIKE 'hub/%'"
            " AND until > now() GROUP BY broker"
        )
        wait_for("the shares", lambda: sorted(self.query(rows)) == ["5", "5", "6"])

    def term(self, lease="hub/0"):
        """How many owners it had."""
        look = f"SELECT term FROM tidings_leases WHERE name = '{lease}'"
        return int(self.query(look)[0])

    def others(self, owner):
        return [member for member in self.members if member is not owner]

    def end_leases(self, owner):
        """Let its leases be given back: 10 s are long for a test."""
        self.query(
            "UPDATE tidings_leases SET until = '-infinity'"
            f" WHERE broker = '{owner.name}'"
        )


class Member(Broker):
    """A broker of a cluster. `ways` are its proxies, by the name of the server."""

    def __init__(self, name, trio, database, directory, url, options, env=None):
        self.name = name
        self.ways = {
            server: PostgresqlProxy(lambda server=server: _socket_of(trio, server))
            for server in trio.servers
        }
        hosts = ",".join(["127.0.0.1"] * len(self.ways))
        ports = ",".join(str(way.port) for way in self.ways.values())
        self.journal = (
            f"host={hosts} port={ports} dbname={database} user=postgres"
            " sslmode=disable gssencmode=disable"
        )
        given = ("--cluster", self.journal, "--cluster-name", name)
        super().__init__(directory, (*given, "--public-url", url, *options), env)
        self.url = url
        self.front = Proxy(self.port)

    def client_in_front(self):
        """A client that comes by the bad network in front of the broker."""
        client = http.Client(self.front.port)
        client.url, client.data = self.url, self.data
        client.authority = f"127.0.0.1:{self.port}"  # it is open to this machine
        return client

    def cut_off(self, *directions):
        """Nothing passes between it and PostgreSQL in these directions (all, if none
        is given), on no connection, until reconnect()."""
        for way in self.ways.values():
            for direction in directions or (UP, DOWN):
                way.stall(direction)

    def reconnect(self):
        for way in self.ways.values():
            way.go()

    def narrow(self, rate):
        """At most so many bytes a second pass between it and PostgreSQL, each way; None:
        as many as there are."""
        for way in self.ways.values():
            way.narrow(rate)

    def delay(self, seconds):
        """So long a new connection takes to reach PostgreSQL, as at a busy server."""
        for way in self.ways.values():
            way.delay = seconds

    def reset_connections(self):
        """End its connections to PostgreSQL, and let it make new ones."""
        for way in self.ways.values():
            way.end_all(RESET)

    def end(self):
        try:
            if self.process and self.process.popen.returncode is None:
                self.reconnect()
                self.process.go_on()
            super().end()
        finally:
            for proxy in (*self.ways.values(), self.front):
                proxy.end()

    def __repr__(self):
        return f"<member {self.name} at {self.address}>"


class Cluster(Leases):
    """Members that run: three, or those of `names`. `url`: the public one, if it is not
    the balancer's."""

    def __init__(self, trio, directory, options=(), names=NAMES, url=None, env=None):
        self.trio = trio
        self.directory = directory
        self.options = options
        self.env = env
        self.balancer = Proxy()
        self.url = url or self.balancer.url
        self.database = trio.make_database(f"tidings_{next(NUMBERS)}")
        self.begin("init", self.directory / names[0] / "data")
        self.members, self.readers = [], []
        for name in names:
            self.add_member(name)

    def add_member(self, name):
        """Start another member, whose directory is new unless the test has made it."""
        self.members.append(self._start(name))
        return self.members[-1]

    def add_reader(self, name):
        """Start a broker that only reads: it is none of the members."""
        self.readers.append(self._start(name, "--cluster-read-only"))
        return self.readers[-1]

    def _start(self, name, *more):
        where = self.directory / name
        options = (*self.options, *more)
        return Member(name, self.trio, self.database, where, self.url, options, self.env)

    def begin(self, how, data):
        """Make the tables, by "init" or "mend", with that data directory."""
        primary = self.trio.servers[self.trio.primary]
        address = f"host={primary.directory} port={primary.port} user=postgres"
        address += f" dbname={self.database}"
        init = ("cluster", how, "--data", data)
        options = ("--cluster", address, "--public-url", self.url)
        done = subprocess.run(
            [PROGRAMS["tidingsd"], *map(str, (*init, *options))],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr

    def query(self, text):
        return self.trio.query(text, self.database)

    def sets(self, name):
        """The set as each member sees it."""
        return [member.set(name) for member in self.members]

    def wait_same(self, *members):
        """Wait until these members (or all) have what the first one has."""
        first, *others = (one.set("wait-same") for one in members or self.members)
        last = first.post().last
        for one in others:
            one.wait_last(last)

    def end(self):
        failures = []
        for server in (*self.members, *self.readers, self.balancer):
            try:
                server.end()
            except AssertionError as failure:
                failures.append(failure)
        if failures:
            raise failures[0]


def _socket_of(trio, name):
    server = trio.servers.get(name)
    return server and server.socket


def served(broker):
    """All documents that lead on from the Source Description and the description of the
    sets, as everybody gets them: by path and encoding, status, validators and bytes. An
    error has its status alone: its text names the request. Streams are none: each would
    count as a subscriber, which the description of a set shows; nor are checkpoints and
    the answers of OAI-PMH, which have the time of the request."""
    found = {}
    left_out = ("/stream", "/oai", "/checkpoint")
    paths = ["/.well-known/resourcesync", "/sets"]
    link = re.compile(re.escape(broker.url) + r"(/[^\"<& ]*)")
    while paths:
        path = paths.pop()
        if (path, "gzip") in found:
            continue
        for encoding in ("gzip", "identity"):
            answer = broker.get(path, accept_encoding=encoding)
            names = ("ETag", "Last-Modified", "Content-Encoding", "Content-Type")
            facts = [answer[name] for name in names]
            if answer.status >= 400:
                found[path, encoding] = (answer.status,)
            else:
                found[path, encoding] = (answer.status, *facts, answer.body)
        if answer.status == 200:
            links = link.findall(answer.body.decode("utf-8", "replace"))
            paths += [path for path in links if not path.endswith(left_out)]
    return found


def wait_same_documents(cluster):
    """Wait until all documents are the same: archive threads write the files of closed
    lists, and dates come when their second is over."""
    brokers = [*cluster.members, *cluster.readers]
    shown = None

    def look():
        nonlocal shown
        found = _differing([served(broker) for broker in brokers])
        if found != shown:
            shown = found
            print(f"{len(found)} documents differ: {found[:3]}")
        return not found

    wait_for("the same documents", look)


def _differing(all_served):
    """The documents that are not everywhere the same, and what of them differs."""
    first = all_served[0]
    found = []
    for what in sorted(set().union(*all_served)):
        answers = [other.get(what) for other in all_served]
        if any(answer != first.get(what) for answer in answers):
            found.append((*what, [str(answer)[:120] for answer in answers]))
    return found
