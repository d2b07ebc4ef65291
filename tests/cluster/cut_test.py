"""Brokers lose their connection to PostgreSQL, or stand still: they take no posts
meanwhile, forget none, and go on afterwards."""

import pytest

from tidings_test.background import Background
from tidings_test.http import JSON, check_refused
from tidings_test.postgresql_proxy import CUT, PASSED, PRESUMED, TURN
from tidings_test.proxy import DOWN, UP
from tidings_test.sets import Set, entries
from tidings_test.soak import choices, soak
from tidings_test.storm import Storm
from tidings_test.waiting import wait_for

ROUNDS = soak(1, 10)

# A turn that appends has fewer messages than this, all of both ways.
MESSAGES_MAX = 120


def cut(*directions):
    def harm(member):
        member.cut_off(*directions)
        yield
        member.reconnect()

    return harm


def reset(member):
    member.reset_connections()
    yield


def stop(member):
    """It may have the turn: the server takes that away from it. Its clients give up."""
    member.process.halt()
    member.front.go_down()
    yield
    member.process.go_on()
    member.front.listen()


@pytest.mark.parametrize(
    "harm",
    [cut(), cut(UP), cut(DOWN), reset, stop],
    ids=["both ways", "up", "down", "reset", "stopped"],
)
def test_the_others_go_on_without_a_broker_that_is_cut_off(start_cluster, harm):
    chosen = choices()
    cluster = start_cluster("--rotate-entries", 500)
    storm = Storm(cluster, "news", chosen)
    for _ in range(ROUNDS):
        storm.wait_answers(chosen.randint(1, 60))
        repairing = harm(chosen.choice(cluster.members))
        next(repairing)
        storm.wait_answers(60)
        next(repairing, None)
    storm.wait_answers(20)
    storm.end()


def brokers_of(member):
    """The brokers of the cluster as a member knows them."""
    return member.get("/cluster").json().get("brokers", [])


# Packets are lost, and no connection ends; the patience of the broker does.
@pytest.mark.parametrize(
    "directions", [(), (UP,), (DOWN,)], ids=["both ways", "up", "down"]
)
def test_a_broker_that_hears_nothing_refuses_posts(start_cluster, directions):
    cluster = start_cluster()
    member, other = cluster.members[:2]
    news, elsewhere = Set(member, "news"), Set(other, "news")
    last = news.post(1).last
    follower = news.events("after=0").until(last)
    wait_for(
        "all brokers at one of them",
        lambda: [x["state"] for x in brokers_of(member)] == ["runs"] * 3,
    )
    for n in range(soak(1, 20)):
        member.cut_off(*directions)
        keys = {"idempotency_key": f"lost-{n}"}
        refused = news.send(entries(1), **keys)
        check_refused(refused, 503, "PostgreSQL")
        assert refused["Retry-After"] == "1"
        assert member.get("/readyz").status == 503
        assert member.get("/readyz?for=reads").status == 200
        cut = member.get("/cluster").json()
        assert cut["state"] == "cut-off" and cut["why"], cut
        assert [x["name"] for x in cut["brokers"]] == ["a", "b", "c"]  # as they were
        if not directions:
            wait_for(
                "a broker that reports nothing, at another one",
                lambda: brokers_of(other)[0]["state"] == "stands-still",
            )
        answer = news.get("changelist.xml")
        assert answer.status == 200 and answer["Tidings-As-Of"]
        assert news.events(f"after={last - 1}").until(last)
        elsewhere.post(1)

        member.reconnect()
        wait_for("a post", lambda: news.send(entries(1), **keys).status == 200)
        last += 2
        follower.until(last)
        wait_for("a broker in time", lambda: member.get("/readyz").status == 200)
        back = member.get("/cluster").json()
        assert back["state"] == "connected" and back["since"] >= cut["since"]
        assert news.get("changelist.xml")["Tidings-As-Of"] is None
    cluster.wait_same()
    follower.leave()


def post_through_cuts(member, begin, first, step, size):
    """Cut the connection at message `first` of a turn that begins so, `first` + `step`
    and so on, and post two entries of `size` bytes until the post is acknowledged. The
    locs of all posts; how many messages a turn has, about."""
    of_set = Set(member.client_in_front(), "news")
    locs = []

    def post_once(n):
        """What became of the turn; None: the post took another way."""
        key = f"{member.name}-{len(locs)}"
        body = entries(2, 10000 * first + 2 * len(locs), size)
        locs.append([entry["loc"] for entry in body])
        for way in member.ways.values():
            way.cut_turn(begin, n)

        def look():
            answer = of_set.broker.post(of_set.changes, body, JSON, idempotency_key=key)
            return answer.status != 503 and of_set.receipt(answer)

        receipt = wait_for(f"post {key} to be accepted", look)
        assert receipt.last == receipt.first + 1
        ends = [way.spare_turns() for way in member.ways.values()]
        return CUT if CUT in ends else PASSED if PASSED in ends else None

    for n in range(first, MESSAGES_MAX, step):
        if wait_for(f"a turn of {member.name}", lambda: post_once(n)) == PASSED:
            return locs, n
    raise AssertionError(f"a turn has more than {MESSAGES_MAX} messages")


# A connection that ends at any message of a commit leaves its outcome
# unknown. The post is repeated with its key, and is there once. A broker presumes its
# turns while the others do not post.
@pytest.mark.parametrize("size", [0, 20000], ids=["in rows", "in segments"])
@pytest.mark.parametrize(
    "begin, n_posting, n_messages, step",
    [(TURN, 3, 30, 3), (PRESUMED, 1, 20, soak(4, 1))],
    ids=["with the turn", "presumed"],
)
def test_a_cut_at_any_message_of_a_commit_does_no_harm(
    start_cluster, begin, n_posting, n_messages, step, size
):
    cluster = start_cluster()
    news = cluster.sets("news")
    news[0].create()
    cluster.wait_same()
    posting = [
        Background(post_through_cuts, member, begin, i, step, size)
        for i, member in enumerate(cluster.members[:n_posting])
    ]
    done = [thread.join() for thread in posting]
    posted = [tuple(locs) for all_locs, _ in done for locs in all_locs]
    assert all(n > n_messages for _, n in done), done
    last = 2 * len(posted)
    for one in news:
        one.wait_last(last)
        history = one.changelists().read().history
        found = [(history[i].loc, history[i + 1].loc) for i in range(1, last, 2)]
        assert sorted(found) == sorted(posted)
