"""Posts as large as they may be."""

from tidings_test.broker import is_sanitized
from tidings_test.changelists import ENTRIES_MAX
from tidings_test.http import JSON, NDJSON, XML, check_refused
from tidings_test.soak import soak

PAGE_MAX = (1 << 20) + 5120  # with what stands around the entries (proto/resourcesync/document_write.h)


def read_pages(news, after):
    """Read the change memory, in which each page is within the limits; the last
    seq."""
    while True:
        answer = news.get(f"changes?after={after}")
        page = answer.message()
        page.check()
        assert len(answer.body) <= PAGE_MAX
        assert page.after == after
        assert len(page.entries) <= ENTRIES_MAX
        if not page.entries:
            return after
        after = page.last


# lists split where they are full, in the middle of a post;
# messages by entries and bytes; all of it in one answer.
def test_a_burst_of_sixty_thousand_is_split(start_broker):
    burst = soak(6000, 60000)
    full = soak(5000, ENTRIES_MAX)
    options = ("--heartbeat", "3600", "--rotate-entries", full)
    broker = start_broker(*options)
    news = broker.set()
    news.post()
    followers = [news.websocket("after=0", form=form) for form in ("json", "xml")]
    for follower in followers:
        follower.until(1)

    receipt = news.post(burst)
    assert (receipt.first, receipt.last) == (2, 1 + burst)
    lines = "".join(
        f'{{"loc":"http://example.com/r/{2 + burst + i}","change":"created"}}\n'
        for i in range(burst)
    )
    last = news.receipt(news.send(lines, NDJSON)).last
    assert last == 1 + 2 * burst

    for follower in followers:
        while follower.message.last < last:
            message = follower.next()
            assert 1 <= len(message.entries) <= ENTRIES_MAX
            assert follower.size <= 1 << 20
        assert follower.message.last == last
    assert read_pages(news, 0) == last

    lists = news.changelists().read()
    assert [each.last for each in lists] == [full, 2 * full, last]
    locs = [f"http://example.com/r/{seq}" for seq in range(1, last + 1)]
    assert lists.history.locs() == locs


# Bodies of many bytes

ENTRY_SIZE = 20000
ATTRIBUTE = '"change":"created","attributes":[{"ns":"urn:x","name":"f","value":"'
JSON_ENTRY = '{"loc":"http://example.com/%d",' + ATTRIBUTE + '%s"}]}'

# By type: the start, an entry, the separator of two, the end.
FORMS = {
    XML: (
        '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
        ' xmlns:rs="http://www.openarchives.org/rs/terms/" xmlns:x="urn:x">'
        '<rs:md capability="changelist"/>',
        '<url><loc>http://example.com/%d</loc><rs:md change="created" x:f="%s"/></url>',
        "",
        "</urlset>",
    ),
    JSON: ("[", JSON_ENTRY, ",", "]"),
    NDJSON: ("", JSON_ENTRY, "\n", "\n"),
}


def body_of(type, size):
    """A post of exactly that size, and how many entries are in it."""
    start, entry, between, end = FORMS[type]
    filling = "x" * ENTRY_SIZE
    n = (size - ENTRY_SIZE) // (ENTRY_SIZE + 200)
    body = start + between.join(entry % (i, filling) for i in range(n))
    body += " " * (size - len(body) - len(end)) + end
    assert len(body) == size
    return body, n


# the default of --max-body.
def test_fifty_megabytes_are_allowed_and_no_more(broker):
    for size, status in ((50 << 20, 100), ((50 << 20) + 1, 413)):
        with broker.connect() as connection:
            connection.send(
                f"POST {broker.set().changes} HTTP/1.1\r\nHost: {connection.host}\r\n"
                f"Content-Type: {JSON}\r\nContent-Length: {size}\r\n"
                "Expect: 100-continue\r\n\r\n"
            )
            answer = connection.answer()
            assert answer.status == status
    check_refused(answer, 413, "52428800")


# a body as large as allowed, in every format; one byte more is refused whole;
# memory is bounded.
def test_bodies_of_fifty_megabytes_are_taken(start_broker):
    size = soak(10, 50) << 20
    broker = start_broker("--heartbeat", "3600", "--max-body", f"{size >> 20}M")
    news = broker.set()
    last = 0
    for type in FORMS:
        body, n = body_of(type, size)
        receipt = news.receipt(news.send(body, type))
        assert (receipt.first, receipt.last) == (last + 1, last + n)
        last += n
        check_refused(news.send(body_of(type, size + 1)[0], type), 413, str(size))
    # The memory of such a post: its fragments, about as many bytes, and their products:
    # batches, their part of the tail (64 MB), pages of the database.
    if not is_sanitized():
        assert broker.process.memory_kib("VmHWM") < soak(150, 250) << 10
    assert news.changelists().read().history.last == last
