"""PUT resources among others: posts to the same set, uploads to other sets, a removal,
or a client that goes away; and a lost state and a full disk."""

import errno

import pytest

from tidings_test.http import NDJSON, XML, check_refused
from tidings_test.sets import change, told, uploads
from tidings_test.waiting import wait_for

pytestmark = pytest.mark.broker("--tail-bytes", "4M")


def sitemap(*names, **lastmods):
    """A sitemap of http://example.com/NAME; keywords say when it was modified."""
    urls = "".join(
        f"<url><loc>http://example.com/{name}</loc>"
        + (f"<lastmod>{lastmod}</lastmod>" if lastmod else "")
        + "</url>"
        for name, lastmod in [*lastmods.items(), *((name, "") for name in names)]
    )
    return (
        f"<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>{urls}</urlset>"
    )


class Upload:
    """A PUT whose body is still to come: the broker has seen its head."""

    def __init__(self, news, body):
        self.body = body.encode() if isinstance(body, str) else body
        self.connection = c = news.broker.connect()
        c.send(
            f"PUT {news.path}/resources HTTP/1.1\r\n"
            f"Host: {c.host}\r\n"
            f"Content-Type: {XML}\r\n"
            f"Content-Length: {len(self.body)}\r\n"
            "Expect: 100-continue\r\n\r\n"
        )
        assert c.answer_head().status == 100

    def send(self, size):
        self.connection.send(self.body[:size])
        self.body = self.body[size:]

    def finish(self):
        """Send the rest; the answer."""
        self.connection.send(self.body)
        with self.connection as connection:
            return connection.answer()


def test_what_others_tell_meanwhile_is_newer(broker):
    news = broker.set()
    assert told(news.put_resources(sitemap("both", "gone", "kept"))) == (3, 0, 0, 0, 0)
    upload = Upload(news, sitemap("gone", "mine", "kept", both="2020-01-01"))
    upload.send(100)
    changes = [
        change("http://example.com/both", "updated", length=7),
        change("http://example.com/gone", "deleted"),
        change("http://example.com/theirs"),
    ]
    assert news.send(changes).status == 200
    # It is in the state when that is compared: the count of newer ones is complete
    # then.
    news.build("resourcelist")

    answer = upload.finish()
    assert told(answer) == (1, 0, 0, 1, 3)
    assert (answer.json()["first"], answer.json()["last"]) == (7, 7)
    locs = news.changelist().locs()
    assert (len(locs), locs[6]) == (7, "http://example.com/mine")


def test_one_at_a_time_of_a_set(broker):
    news = broker.set()
    upload = Upload(news, sitemap("a"))
    second = news.put_resources(sitemap("a"))
    check_refused(second, 409, "puts the resources of")
    assert second["Retry-After"] == "1"
    assert broker.set().put_resources(sitemap("a")).status == 200

    assert upload.finish().status == 200
    assert told(news.put_resources(sitemap("a"))) == (0, 0, 0, 1, 0)


# Whose upload is refused in its middle may begin the next one as soon as the answer can
# be read.
def test_a_refused_upload_holds_nothing(broker):
    news = broker.set()
    chunked = {"content_type": XML, "transfer_encoding": "chunked"}
    for _ in range(5):
        with broker.connect() as connection:
            connection.ask(f"{news.path}/resources", "PUT", **chunked)
            connection.send("8\r\n<urlset \r\nx\r\n")
            check_refused(connection.answer(), 400, "chunk")
        assert news.put_resources(sitemap("a")).status == 200
    rejected = broker.metrics()['tidings_uploads_rejected_total{code="400"}']
    assert rejected == 5


def test_a_client_that_goes_away_leaves_nothing(start_broker):
    broker = start_broker("--tail-bytes", "4M")
    news = broker.set()
    upload = Upload(news, sitemap("a") + " " * 100000)
    upload.send(len(sitemap("a")) - len("</urlset>"))
    upload.connection.abort()

    def put():  # what the end of a connection takes along goes on the worker pool
        answer = news.put_resources(sitemap("b"))
        return answer.status != 409 and answer

    assert told(wait_for("the set to be free again", put)) == (1, 0, 0, 0, 0)
    assert not uploads(broker)
    assert news.last() == 1


def test_a_set_that_is_removed_meanwhile_stays_removed(start_broker):
    broker = start_broker("--tail-bytes", "4M")
    news = broker.set()
    news.put_resources(sitemap("a"))
    upload = Upload(news, sitemap("a", "b"))
    assert news.delete().status == 204
    check_refused(upload.finish(), 410, "the set was removed meanwhile")
    assert news.get().status == 410
    assert not uploads(broker)


UPLOADS_MAX = 16


# Each upload takes some memory, so their number is limited; a later one is asked to
# come again, and succeeds when another is done.
def test_sixteen_sets_are_told_at_once_and_no_more(start_broker):
    broker = start_broker("--tail-bytes", "4M")
    all_uploads = [Upload(broker.set(), sitemap("a")) for _ in range(UPLOADS_MAX)]
    one_more = broker.set()
    answer = one_more.put_resources(sitemap("a"))
    check_refused(answer, 503, "requests put the resources of too many sets")
    assert answer["Retry-After"]
    metrics = broker.metrics()
    assert metrics["tidings_uploads_at_work"] == UPLOADS_MAX
    assert metrics['tidings_uploads_rejected_total{code="503"}'] == 1

    # The place of an upload is free as soon as its answer can be read, whichever
    # thread reads the next one.
    for upload in all_uploads:
        assert upload.finish().status == 200
        for _ in range(2):
            assert one_more.put_resources(sitemap("a")).status == 200
    metrics = broker.metrics()
    assert metrics["tidings_uploads_at_work"] == 0
    assert metrics["tidings_uploads_total"] == 3 * UPLOADS_MAX


# Lost states, and full disks


# retention deletes the entries before the last list, then the state is
# lost, as by somebody who cleans up. After an upload of its source the set has a
# Resource List again.
def test_a_set_without_its_history_is_whole_when_it_was_told(start_broker):
    broker = start_broker(
        *("--rotate-entries", "3", "--retain-lists", "1", "--remove-grace", "0")
    )
    news = broker.set()
    for _ in range(9):
        news.post()
    first = news.list_path(1)
    wait_for("the first list to go", lambda: news.get(first).status == 410)
    broker.stop()
    for path in news.folder.glob("resources.db*"):
        path.unlink()
    broker.restart()
    answer = broker.post(f"{news.path}/resourcelist")
    check_refused(answer, 410, "when its source puts all resources again")

    answer = news.put_resources(sitemap("a", "b"), query="max-delete=100")
    assert answer.status == 200
    broker.kill()
    broker.restart()
    news.build("resourcelist")
    assert len(news.get("resourcelist.xml").document().entries) == 2


RESOURCES = 12000  # writing, comparing and telling them take several steps


# The disk is full while the body arrives, while it is compared, while the differences
# are posted: the upload leaves nothing, or its posted part counts as unchanged the next
# time.
def test_a_full_disk_is_told_and_the_same_request_repeated(faults, start_broker):
    broker = start_broker("--tail-bytes", "4M", env=faults.env)
    news = broker.set("demo")
    # fmt: off
    cases = [
        ("uploads/demo.new", 0), ("uploads/demo.new", 20), ("uploads/demo.work", 0),
        ("tidings.db-wal", 0), ("tidings.db-wal", 30),
    ]
    # fmt: on
    for i, (name, after) in enumerate(cases):
        before = news.last()
        body = "".join(
            f'{{"loc":"http://example.com/r/{n}","length":{i}}}\n'
            for n in range(RESOURCES)
        )
        faults.arm(faults.WRITE, name, errno.ENOSPC, after)
        answer = news.put_resources(body, NDJSON)
        assert answer.status == 503
        assert answer["Retry-After"]
        assert faults.disarm() > 0
        last = news.last()
        assert not uploads(broker)

        answer = news.put_resources(body, NDJSON)
        assert answer.status == 200
        assert answer.json()["unchanged"] == last - before
        assert not uploads(broker)
        assert news.last() == before + RESOURCES

    faults.set_disk(1 << 20)

    def put():  # the log looks once a second
        answer = news.put_resources(sitemap())
        return answer.status != 409 and answer

    check_refused(wait_for("a full disk", put), 503, "the disk is nearly full")


def test_all_of_it_comes_by_tls_as_well(start_broker, certificate):
    tls = certificate.trust()
    news = start_broker("--tail-bytes", "4M", *certificate.options, tls=tls).set()
    assert told(news.put_resources(sitemap("a", "b"))) == (2, 0, 0, 0, 0)
    answer = news.put_resources(sitemap("b", "c"), query="max-delete=50")
    assert told(answer) == (1, 0, 1, 1, 0)
