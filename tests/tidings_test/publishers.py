"""Several sources that post to one set at once until the broker ends for any reason,
and a check of the set afterwards.

    publishers = Publishers(news, choices())
    with publishers.posting():
        publishers.wait_answers(20)
        broker.kill()
    broker.restart()
    publishers.check(lists.read().history)

In as many rounds as the test wants. An acknowledged post is there, a post without an
answer is there whole or not at all, and nothing else is there.
"""

import contextlib
import random
import threading

from tidings_test.background import Background
from tidings_test.http import JSON, XML, ConnectionEnded
from tidings_test.sets import change
from tidings_test.waiting import Arrivals, wait_for

N = 4
POST_MAX = 60  # entries of one post

DOCUMENT = (
    '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
    ' xmlns:rs="http://www.openarchives.org/rs/terms/">\n'
    '<rs:md capability="changelist"/>\n%s</urlset>\n'
)
URL = '<url><loc>%s</loc><rs:md change="created"/></url>\n'


class Publishers:
    """Entry K of N of post P of publisher W is http://example.com/W/P/K/N. Even
    publishers post XML, odd ones JSON. `doubts` are the posts that were not answered
    in the latest round, as lists of locs."""

    def __init__(self, of_set, choices):
        self.set = of_set
        self.acknowledged = {}  # locs by seq
        self.doubts = []
        self._last = 0  # of the history that was checked
        self._random = [random.Random(choices.random()) for _ in range(N)]
        self._posts = [0] * N
        self._answers = None
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def posting(self):
        """All of them post within this block, which has to end the broker."""
        self.doubts = []
        self._answers = Arrivals("the answers to publishers")
        self._running = N
        threads = [Background(self._post_all, who) for who in range(N)]
        yield
        for thread in threads:
            thread.join()

    def wait_answers(self, n):
        """Wait for `n` answers of this round, or until nobody posts any more."""
        self._answers.find(lambda number: number >= n, f"answer {n}")

    def check(self, history):
        """Compare them with the history that there is after the round. How many of the
        posts without an answer are there; from now on they are acknowledged."""
        for seq, loc in self.acknowledged.items():
            assert history[seq].loc == loc
        first = {posted[0]: posted for posted in self.doubts}
        kept = 0
        seq = self._last + 1
        while seq <= history.last:  # whole posts follow each other
            n = int(history[seq].loc.rpartition("/")[2])
            locs = [history[i].loc for i in range(seq, seq + n)]
            who, post = locs[0].split("/")[3:5]
            assert locs == _locs(who, post, n)
            if locs[0] in first:
                assert seq not in self.acknowledged
                self._note(seq, locs)
                kept += 1
            seq += n
        assert len(self.acknowledged) == history.last
        self._last = history.last
        return kept

    def _note(self, first, locs):
        for seq, loc in enumerate(locs, first):
            assert seq not in self.acknowledged
            self.acknowledged[seq] = loc

    def _post_all(self, who):
        client = self.set.broker.client()
        answers = 0
        try:
            while self._post(client, who):
                with self._lock:
                    answers = len(self._answers) + 1
                    self._answers.add(answers)
        finally:
            client.disconnect()
            with self._lock:
                self._running -= 1
                if not self._running:
                    self._answers.add(1 << 30)

    def _post(self, client, who):
        """Post once. False: there was no answer."""
        self._posts[who] += 1
        n = self._random[who].randint(1, POST_MAX)
        locs = _locs(who, self._posts[who], n)
        if who % 2 == 0:
            body, type = DOCUMENT % "".join(URL % loc for loc in locs), XML
        else:
            body, type = [change(loc) for loc in locs], JSON
        try:
            answer = client.post(self.set.changes, body, type)
        except (ConnectionEnded, ConnectionError):
            self.doubts.append(locs)
            return False
        receipt = self.set.receipt(answer)
        assert receipt.last - receipt.first + 1 == n
        with self._lock:
            self._note(receipt.first, locs)
        return True


def post_until_accepted(client, of_set, body, key):
    """Post to a set whose broker may be away, or ending, until the post is accepted;
    the Idempotency-Key makes all tries one post."""

    def look():
        try:
            answer = client.post(of_set.changes, body, JSON, idempotency_key=key)
        except (ConnectionEnded, ConnectionError):
            return None
        return answer.status != 503 and of_set.receipt(answer)

    return wait_for(f"post {key} to be accepted", look)


def _locs(who, post, n):
    return [f"http://example.com/{who}/{post}/{i}/{n}" for i in range(n)]
