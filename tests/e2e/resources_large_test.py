"""PUT resources with bodies as sources have them: a million resources, a crash in
their middle, two versions of Debian's index."""

import pytest

from tidings_test.broker import is_sanitized
from tidings_test.http import NDJSON, ConnectionEnded
from tidings_test.packages import packages
from tidings_test.sets import told, uploads
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

pytestmark = pytest.mark.broker("--tail-bytes", "4M")

# The caches of five databases, a part of 16 MiB, a fold of 4 MiB, and the reserve of
# malloc; 100 MB were measured.
MEMORY_KIB = 160 * 1024


def resources(n):
    return "".join(
        f'{{"loc":"http://example.com/resource/{i}","length":{i},'
        f'"hash":{{"md5":"{i:032x}"}}}}\n'
        for i in range(n)
    )


# R-026 is about documents: an upload of a source is one stream. Memory is that of a few
# blocks for any upload.
def test_a_million_resources_take_bounded_memory(start_broker):
    n = soak(25000, 1000000)
    broker = start_broker("--tail-bytes", "4M")
    news = broker.set()
    body = resources(n)
    assert told(news.put_resources(body, NDJSON)) == (n, 0, 0, 0, 0)
    assert told(news.put_resources(body, NDJSON)) == (0, 0, 0, n, 0)
    if not is_sanitized():
        assert broker.process.memory_kib() < MEMORY_KIB
    assert not uploads(broker)
    assert news.last() == n


# all of it, and nothing twice.
def test_a_crash_between_the_commits_is_gone_on_from(faults, start_broker):
    n = soak(4, 20) * 10000  # several commits
    broker = start_broker("--tail-bytes", "4M", env=faults.env)
    news = broker.set()
    body = resources(n)
    faults.arm(faults.SYNC, "tidings.db-wal", faults.KILL, after=1)
    with pytest.raises(ConnectionEnded):
        news.put_resources(body, NDJSON)
    assert broker.wait() == 128 + 9
    faults.disarm()
    assert len(uploads(broker)) == 2  # .taken, .work

    broker.restart()
    wait_for("the end of what was taken up again", lambda: not uploads(broker))
    assert news.last() == n

    def put_again():  # first its files go, then it is at work no more
        answer = news.put_resources(body, NDJSON)
        return answer.status != 409 and answer

    assert told(wait_for("a PUT", put_again)) == (0, 0, 0, n, 0)
    assert not uploads(broker)
    assert news.last() == n


# Real input


def resource_list(rows):
    lines = "".join(
        f"<url><loc>http://deb.example.org/debian/{name.replace('&', '&amp;')}</loc>"
        f'<rs:md hash="sha-256:{sum_}" length="{size}"/></url>\n'
        for name, sum_, size in rows
    )
    return (
        "<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'"
        " xmlns:rs='http://www.openarchives.org/rs/terms/'>"
        f"<rs:md capability='resourcelist'/>\n{lines}</urlset>"
    )


def test_two_versions_of_a_package_index_differ_in_what_differs(broker):
    """Every 10th package is another one in the second, every 17th has gone, every
    23rd is new."""
    before, after = [], []
    created = updated = deleted = 0
    for i, (name, (sum_, size)) in enumerate(packages()):
        is_new = i % 23 == 0
        is_gone = not is_new and i % 17 == 0
        is_updated = not is_new and not is_gone and i % 10 == 0
        if not is_new:
            before.append((name, sum_, size))
        if not is_gone:
            after.append((name, sum_, size + is_updated))
        created += is_new
        updated += is_updated
        deleted += is_gone
    kept = len(before) - updated - deleted
    news = broker.set()
    assert told(news.put_resources(resource_list(before))) == (len(before), 0, 0, 0, 0)
    second = resource_list(after)
    assert told(news.put_resources(second)) == (created, updated, deleted, kept, 0)
    assert told(news.put_resources(second)) == (0, 0, 0, len(after), 0)
