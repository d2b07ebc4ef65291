"""A set's framework channel, as its topic shows it (R-320, R-321, R-322, R-323, R-324,
R-325, R-326, R-327, R-328, R-329)."""

from tidings_test.content import multipart
from tidings_test.sets import change
from tidings_test.waiting import wait_for

SOURCE = "updated description /.well-known/resourcesync"


def capabilities(kind, of_set):
    return f"{kind} capabilitylist {of_set.path}/capabilitylist.xml"


def change_list(kind, of_set, number):
    path = f"{of_set.path}/{of_set.list_path(number)}"
    return f"{kind} changelist {path} < {of_set.path}/changelist.xml"


def archive(of_set):
    return f"created changelist-archive {of_set.path}/changelist-archive.xml"


def part(of_set, first, last):
    folder = f"{of_set.path}/changelist-archive"
    path = f"{folder}/{first:012}-{last:012}.xml"
    return f"created changelist-archive {path} < {folder}.xml"


def description(kind, first, last):
    path = f"/descriptions/{first:012}-{last:012}.xml"
    return f"{kind} description {path} < /.well-known/resourcesync"


def rotated(of_set):
    """The events of the first rotation of a set."""
    return [
        change_list("updated", of_set, 1),
        change_list("created", of_set, 2),
        archive(of_set),
        capabilities("updated", of_set),
    ]


def lines(message, base):
    """The events of a notification, one a line, without the broker's URL."""
    message.check_valid()
    assert message.capability == "framework-notification"
    found = []
    for url in message.all("/s:urlset/s:url"):
        md = url.find("{*}md")
        line = f"{md.get('change')} {md.get('capability')} {url.findtext('{*}loc')}"
        for index in url.findall("{*}ln[@rel='index']"):
            line += f" < {index.get('href')}"
        found.append(line.replace(base, ""))
    return found


def wait_told(of_set, *told):
    """Wait until the topic of the set shows these events: a post is answered a moment
    before its events appear. Check that each document exists, and that each index names
    it (R-327)."""

    def look():
        answer = of_set.get("framework-notifications")
        assert answer.status == 200
        message = answer.body and answer.document()
        is_so = message and lines(message, of_set.broker.url) == list(told)
        return is_so and message

    message = wait_for(f"{told}", look)
    assert message.count("/s:urlset/rs:ln[@rel='up']") == 1
    for url in message.all("/s:urlset/s:url"):
        loc = url.findtext("{*}loc")
        # an index itself has no event.
        assert not of_set.get_url(loc).document().is_index, loc
        for link in url.findall("{*}ln[@rel='index']"):
            index = of_set.get_url(link.get("href")).document()
            assert index.is_index and loc in index.locs()


#
def test_a_rotation_is_told_when_all_of_it_can_be_had(start_broker):
    news = start_broker("--index-lists", "2").set()
    news.post(3)
    wait_told(news, capabilities("created", news), SOURCE)
    news.rotate()
    wait_told(news, *rotated(news))
    for _ in range(2):
        news.post()
        news.rotate()
    wait_told(
        news,
        change_list("updated", news, 3),
        change_list("created", news, 4),
        part(news, 1, 2),
        part(news, 3, 4),
    )


# each Resource Dump is a new document; its event leads to it for as long as it
# is kept.
def test_a_resource_dump_is_told_under_its_own_address(start_broker):
    news = start_broker("--resource-dump-keep", "1").set()
    news.create(content="inline")
    for n in (1, 2):
        loc = f"http://example.com/{n}"
        news.send(*multipart([change(loc)], [(loc, "text/plain", b"Text.")]))
        news.build("resourcedump")
        dump = f"{news.path}/resourcedump/{n:012}.xml"
        archive = f"resourcedump-archive {news.path}/resourcedump-archive.xml"
        told = [f"created resourcedump {dump}"]
        if n == 1:
            told += [f"created {archive}", capabilities("updated", news)]
        else:
            told += [f"updated {archive}"]
        wait_told(news, *told)
        assert news.broker.get(dump).body == news.get("resourcedump.xml").body


# every channel gets the creation and removal of a set; other
# events appear only in the set's own.
def test_the_source_is_told_on_all_channels(start_broker):
    broker = start_broker("--threads", "1")
    news, other, third = (broker.set() for _ in range(3))
    news.post(3)
    other.post(3)
    wait_told(other, capabilities("created", other), SOURCE)
    wait_told(news, SOURCE)
    other.rotate()
    wait_told(other, *rotated(other))
    wait_told(news, SOURCE)
    assert other.delete().status == 204
    third.post(3)
    wait_told(third, capabilities("created", third), SOURCE)
    wait_told(news, SOURCE)
    assert other.get("framework-notifications").status == 410


# where it has an index, its parts are.
def test_a_source_of_many_sets_is_told_by_its_parts(start_broker):
    broker = start_broker("--description-sets", "2")
    news, second, third, fourth = (broker.set() for _ in range(4))
    news.post(3)
    second.post(3)
    wait_told(news, SOURCE)
    third.post(3)
    wait_told(news, description("created", 1, 2), description("created", 3, 4))
    fourth.post(3)
    wait_told(news, description("created", 5, 6))
    assert second.delete().status == 204
    wait_told(news, description("updated", 3, 4))


# the latest is found again by the next process.
def test_what_was_told_is_there_after_a_restart(start_broker):
    broker = start_broker("--threads", "1")
    news = broker.set()
    news.post(3)
    news.rotate()
    wait_told(news, *rotated(news))
    broker.kill()
    broker.restart()
    wait_told(news, *rotated(news))
