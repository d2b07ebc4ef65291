"""Publishers and followers of a cluster, whatever happens to its brokers and servers.

    storm = Storm(cluster, "news", choices())
    storm.wait_answers(20)              so many more posts are acknowledged
    cluster.members[0].kill()           amid others: AHEAD
    storm.wait_answers(20)              posts continue
    history = storm.end()               nothing is lost, doubled or out of order

With `has_content` each change has bytes, those of its loc, and end() waits until all
members keep them, or know that the bucket does.

Each publisher posts to one broker until that fails it, and then to the next. Publishers
with even numbers repeat a post by its Idempotency-Key until it is acknowledged; the
others never repeat one: if it was not acknowledged, it is there whole or not at all.
"""

import hashlib
import random
import threading

from tidings_test.background import Background
from tidings_test.content import held, kept, multipart
from tidings_test.http import JSON, ConnectionEnded
from tidings_test.publishers import post_until_accepted
from tidings_test.sets import Set, change
from tidings_test.soak import soak
from tidings_test.waiting import Arrivals, wait_for

END = "http://example.com/end"
N = 6
POST_MAX = 40  # entries of one post

# Posts that may be acknowledged beyond those that the test waits for. So a test has the
# same work however long a broker or server is away.
AHEAD = soak(60, 1000)

FAILURES = (ConnectionEnded, ConnectionError, TimeoutError)


class Storm:
    """Posts and follows from its beginning to end()."""

    def __init__(
        self, cluster, name, choices, publishers=N, post_max=POST_MAX, has_content=False
    ):
        self.cluster = cluster
        self.has_content = has_content
        self.post_max = post_max
        self.name = name
        self.acknowledged = {}  # locs by the seq of the first one
        self.attempts = {}  # locs of each post by its first one
        self.answers = Arrivals("the acknowledged posts")
        self._lock = threading.Lock()
        self._may_go_on = threading.Condition()
        self._goal = AHEAD  # answers
        self._is_over = False
        sets = [Set(member, name) for member in cluster.members]
        if has_content:
            sets[0].create(content="inline")
        self.first = sets[0].post_change("http://example.com/", "deleted").last
        for one in sets:
            one.wait_last(self.first)
        self._followers = [
            Background(_follow, one.events("after=0")) for one in sets
        ]
        self._publishers = [
            Background(self._post_all, who, random.Random(choices.random()))
            for who in range(publishers)
        ]

    def wait_answers(self, n):
        """Wait until `n` more posts are acknowledged."""
        goal = len(self.answers) + n
        with self._may_go_on:
            self._goal = goal + AHEAD
            self._may_go_on.notify_all()
        self.answers.wait(goal)

    def end(self):
        """End publishers, and then followers, who have to reach the end. The history,
        which is the same at all members."""
        with self._may_go_on:
            self._is_over = True
            self._may_go_on.notify_all()
        for publisher in self._publishers:
            publisher.join()
        histories = self._read_histories()
        for history in histories[1:]:
            history.check_same(histories[0])
            assert history.digests[history.last] == histories[0].digests[history.last]
        for follower in self._followers:
            follower.join().check_same(histories[0])
        self._check(histories[0])
        if self.has_content:
            self._check_content(histories[0])
        return histories[0]

    def _read_histories(self):
        """The histories of all members; the last one has what others have."""
        sets = [Set(member, self.name) for member in self.cluster.members]
        # A post that nobody repeats may become known with the next turn.
        end = [change(END, "deleted")]
        last = post_until_accepted(sets[0].broker.client(), sets[0], end, "end").last
        for one in sets:
            one.wait_last(last)
        return [one.changelists().read().history for one in sets]

    def _check(self, history):
        seq, posts = self.first + 1, {}
        while seq < history.last:
            who, post, _, n = history[seq].loc.split("/")[3:]
            locs = [history[i].loc for i in range(seq, seq + int(n))]
            assert locs == _locs(who, post, int(n)), f"at {seq}: {locs}"
            assert self.attempts.pop(locs[0]) == locs, f"{locs[0]} is there twice"
            acknowledged = self.acknowledged.pop(seq, None)
            if acknowledged:
                assert acknowledged == locs
                assert int(post) > posts.get(who, 0), f"{locs[0]} is out of order"
                posts[who] = int(post)
            else:  # it may be late: its broker stood still
                assert int(who) % 2 == 1, f"{locs[0]} was repeated until its answer"
            seq += int(n)
        assert not self.acknowledged, "acknowledged posts are lost"

    def _check_content(self, history):
        texts = {history[i].loc.encode() for i in range(self.first + 1, history.last)}
        digests = {hashlib.sha256(text).hexdigest() for text in texts}
        for member in self.cluster.members:
            one = Set(member, self.name)
            wait_for(f"the bytes of {member}", lambda one=one: held(one) == digests)
            for path in kept(one):
                if path.suffix != ".new":  # it is being written
                    assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name

    # Publishers

    def _post_all(self, who, chosen):
        try:
            self._post_until_over(who, chosen)
        except BaseException as failure:
            self.answers.close(f"publisher {who} has failed: {failure!r}")
            raise

    def _post_until_over(self, who, chosen):
        clients = [member.client_in_front() for member in self.cluster.members]
        repeats = who % 2 == 0
        at, post, locs = who, 0, None

        def is_acknowledged():
            nonlocal at, post, locs
            if not locs or not repeats:
                post += 1
                locs = _locs(who, post, chosen.randint(1, self.post_max))
                with self._lock:
                    self.attempts[locs[0]] = locs
            headers = {"idempotency_key": f"{who}-{post}"} if repeats else {}
            if self._post(clients[at % len(clients)], locs, headers):
                locs = None
                return True
            at += 1
            return self._is_over and not repeats

        while self._is_on():
            wait_for(f"a post of publisher {who}", is_acknowledged)
        for client in clients:
            client.disconnect()

    def _is_on(self):
        """Wait until another post may be acknowledged; false at the end."""
        with self._may_go_on:
            self._may_go_on.wait_for(
                lambda: self._is_over or len(self.answers) < self._goal
            )
        return not self._is_over

    def _post(self, client, locs, headers):
        """True if it is acknowledged."""
        of_set = Set(client, self.name)
        body, type = [change(loc) for loc in locs], JSON
        if self.has_content:
            body, type = multipart(body, [(loc, None, loc.encode()) for loc in locs])
        try:
            answer = client.post(of_set.changes, body, type, **headers)
        except FAILURES:
            return False
        if answer.status == 503:
            return False
        receipt = of_set.receipt(answer)
        assert receipt.last - receipt.first + 1 == len(locs)
        with self._lock:
            assert receipt.first not in self.acknowledged
            self.acknowledged[receipt.first] = locs
        self.answers.add(receipt)
        return True


def _follow(follower):
    """Its history; it comes again after each end."""
    while not _is_at_end(follower.history):
        try:
            message = follower.read()
        except FAILURES:
            message = None
        if message:
            follower.take(message)
        else:
            wait_for("a stream", lambda: _is_open_again(follower))
    follower.leave()
    return follower.history


def _is_at_end(history):
    return history.entries and history.entries[-1].loc == END


def _is_open_again(follower):
    try:
        follower.again()
    except FAILURES:
        return False
    return True


def _locs(who, post, n):
    return [f"http://example.com/{who}/{post}/{i}/{n}" for i in range(n)]
