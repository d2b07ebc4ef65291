"""What befalls a cluster (cluster.py) while it takes posts (storm.py).

    repairing = kill_broker(cluster, choices())
    next(repairing)             the harm is done; posts go on
    next(repairing, None)       and it is repaired

Each needs a cluster without harm.
"""

from tidings_test.content import multipart
from tidings_test.faults import Faults
from tidings_test.publishers import post_until_accepted
from tidings_test.sets import Set, change
from tidings_test.waiting import wait_for

HOUR = 3600


def post(client):
    """Post to a set of the harms' own, whatever comes of it."""
    return Set(client, "other").send([change("http://example.com/")])


# Brokers


def kill_broker(cluster, chosen):
    """The others take posts; the next life goes on where this one ended."""
    member = chosen.choice(cluster.members)
    member.kill()
    yield
    member.disconnect()
    member.restart()


def narrow(cluster, chosen):
    member = chosen.choice(cluster.members)
    member.narrow(chosen.choice((100000, 1000000)))
    yield
    member.narrow(None)


def set_clock_of_broker(cluster, chosen):
    """An hour from the truth: it stops itself alone."""
    member = chosen.choice(cluster.members)
    faults = Faults(member.directory)
    faults.set_clock(chosen.choice((-HOUR, HOUR)))
    member.stop()
    member.env = faults.env
    member.restart()
    wait_reasons([member], "clock")
    yield
    faults.set_clock(0)
    wait_for(f"{member} to be ready", lambda: member.get("/readyz").status == 200)


# The bucket of the content of `cluster.bucket` (s3.py)


def trouble_bucket(cluster, chosen):
    """It takes nothing for a while: nothing of the posts is recorded meanwhile."""
    name = "tidings_bucket_failed_total"

    def failures():
        return sum(member.metrics()[name] for member in cluster.members)

    def is_noticed():
        """Publishers may be far enough ahead to post nothing now."""
        text = str(chosen.random()).encode()
        loc = "http://example.com/"
        one.send(*multipart([change(loc)], [(loc, None, text)]))
        return failures() > before

    one = Set(chosen.choice(cluster.members), "troubled")
    assert one.put(content="inline").status in (200, 201)
    before = failures()
    kind = chosen.choice(("500", "cut", "mute"))
    cluster.bucket.fault(chosen.choice(("PUT", "HEAD")), kind, times=10**6)
    wait_for("failures of the bucket", is_noticed)
    cluster.bucket.mend()
    yield


# Servers


def lose_primary(cluster, chosen):
    """Its directory is deleted, as if the machine had burnt."""
    cluster.trio.lose_primary()
    cluster.trio.promote()
    yield
    cluster.trio.repair()


def lose_standby(cluster, chosen):
    cluster.trio.lose_standby(chosen.choice(cluster.trio.standbys))
    yield
    cluster.trio.repair()


def lose_both(cluster, chosen):
    """A broker and the primary at once."""
    member = chosen.choice(cluster.members)
    member.kill()
    cluster.trio.lose_primary()
    cluster.trio.promote()
    yield
    member.disconnect()
    member.restart()
    cluster.trio.repair()


def set_clock_of_server(cluster, chosen):
    """The primary starts again an hour from the truth, and no broker takes posts. Half a
    minute is none of their business."""
    trio, name = cluster.trio, cluster.trio.primary
    restart_with_clock(trio, name, chosen.choice((-HOUR, HOUR)))
    wait_reasons(cluster.members, "clock")
    restart_with_clock(trio, name, chosen.choice((-HOUR // 120, HOUR // 120)))
    yield
    restart_with_clock(trio, name, 0)


def restart_with_clock(trio, name, clock_s):
    server = trio.servers[name]
    server.kill()
    server.clock_s = clock_s
    server.start()


# Managers that err


def set_names(trio, names):
    """Set synchronous_standby_names; None: as they were."""
    how = "RESET {0}" if names is None else "SET {0} = '{1}'"
    trio.query("ALTER SYSTEM " + how.format("synchronous_standby_names", names))
    trio.query("SELECT pg_reload_conf()")


def stop_standbys(trio):
    """Let no standby receive anything any more."""
    for name in trio.standbys:
        trio.starve(name)


def forget_standbys(cluster, chosen):
    """The primary loses its standbys, answers alone for a while, and is lost."""
    trio = cluster.trio
    stop_standbys(trio)
    set_names(trio, "")
    for member in cluster.members * 3:
        post(member.client_in_front())
    trio.lose_primary()
    trio.promote()
    yield
    trio.repair()


def promote_wrongly(cluster, chosen):
    """A standby is promoted that lacks what was acknowledged. No broker takes posts,
    until somebody mends the journal with the copy that has most."""
    trio = cluster.trio
    good, bad = chosen.sample(trio.standbys, 2)
    trio.starve(bad)
    for member in cluster.members:
        body = [change("http://example.com/")]
        post_until_accepted(member.client(), Set(member, "other"), body, member.name)
    trio.lose_primary()
    trio.lose_standby(good)
    trio.promote(bad)
    trio.repair()
    wait_reasons(cluster.members, "has lost records", "ends before record")
    for member in cluster.members:
        member.stop()
    (name,) = cluster.query("SELECT name FROM tidings_brokers ORDER BY n DESC LIMIT 1")
    most = next(member for member in cluster.members if member.name == name)
    cluster.begin("mend", most.data)
    for member in (most, *cluster.others(most)):
        member.restart()
    yield


def wait_reasons(members, *words):
    """Wait until each of them takes no posts for one of these reasons."""

    def look(member):
        answer = member.get("/readyz")
        return answer.status == 503 and any(word in answer.text for word in words)

    for member in members:
        wait_for(f"{words} of {member}", lambda member=member: look(member))
