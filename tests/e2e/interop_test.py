"""A broker's documents, read by the rules of the public reference client: its abilities
and its limits (requirements.md, part 15).

It finds the Capability List from the base URI if there is only one, takes the document
that the capability names without following `up`, `index` or `archives`, reads a
`urlset` and no `sitemapindex` of changes, gives up at a change without datetime, and
misreads times that do not end in Z.
"""

import pytest

from tidings_test.sets import change

DESCRIPTION = "/.well-known/resourcesync"


class ReferenceClient:
    def __init__(self, broker):
        self.broker = broker
        self.locs = []  # of the changes that it has read

    def get(self, url):
        """The document of that URL, which has a Content-Type (R-385)."""
        answer = self.broker.get(self.broker.path_of(url))
        assert answer["Content-Type"] == "application/xml"
        return answer.document()

    def find_capabilities(self):
        """The Capability Lists that the base URI leads to; a user has to name one if
        there are several."""
        description = self.get(self.broker.url + DESCRIPTION)
        assert not description.is_index and description.capability == "description"
        lists = "//s:url[rs:md/@capability='capabilitylist']"
        return description.all(f"{lists}/s:loc/text()")

    def find_changes(self, capabilities):
        """The Change List that the Capability List names."""
        document = self.get(capabilities)
        assert not document.is_index and document.capability == "capabilitylist"
        return document.text("//s:url[rs:md/@capability='changelist']/s:loc")

    def read(self, *urls):
        """Read Change Lists as an incremental run does."""
        for url in urls:
            document = self.get(url)
            assert not document.is_index and document.capability == "changelist"
            assert document.count("//s:url[not(rs:md/@change)]") == 0
            # it aborts at a change without.
            assert document.count("//s:url[not(rs:md/@datetime)]") == 0
            self.locs += document.locs()

    def check_read(self, n):
        """It has read the first `n` changes that the source posted, in order."""
        assert self.locs == [f"http://example.com/r/{i + 1}" for i in range(n)]


@pytest.fixture
def client(broker):
    return ReferenceClient(broker)


pytestmark = pytest.mark.broker("--rotate-entries", "3")


def capabilities(news):
    return f"{news.url}/capabilitylist.xml"


# while there is one list, the capability's address is it.
def test_the_base_uri_of_a_source_with_one_set_is_enough(client, news):
    # Elements of other namespaces are nothing to it.
    words = {"title": "a", "summary": "b", "author": "c", "data": ["http://example.com/r/9"]}
    first, second = (f"http://example.com/r/{i}" for i in (1, 2))
    news.receipt(news.send([change(first, **words), change(second, **words)]))
    (url,) = client.find_capabilities()
    client.read(client.find_changes(url))
    client.check_read(2)


#
def test_a_client_needs_the_capability_list_where_there_are_several_sets(
    client, news, broker
):
    news.post(2)
    broker.set().post(2, first=50)
    assert len(client.find_capabilities()) == 2
    client.read(client.find_changes(capabilities(news)))
    client.check_read(2)


# from the first rotation on the same address is an index, which it cannot
# read; but each list has an address from its first day on, which a user can give it,
# and the order of the addresses is that of time.
def test_each_list_can_be_read_by_its_own_address(client, news):
    news.post(31)
    index = client.get(client.find_changes(capabilities(news)))
    assert index.is_index and index.capability == "changelist"
    lists = index.locs()
    assert len(lists) == 11
    assert lists == sorted(set(lists))
    client.read(*lists)
    client.check_read(31)

    # The open one keeps its address when it closes.
    news.post(3)
    client.locs.clear()
    client.read(*lists)
    client.check_read(33)


# for all offsets and precisions of a source.
def test_all_times_are_in_utc(client, news):
    lastmod = "2016-02-03T04:05:06+02:00"
    memento = {"rel": "memento", "href": "http://example.com/b/1", "modified": lastmod}
    a = {"lastmod": lastmod, "datetime": "2016-02-03T04:05:06.123-11:30"}
    b = {"lastmod": "2016-02-03T04:05Z", "links": [memento]}
    changes = [change("http://example.com/a", "updated", **a)]
    changes += [change("http://example.com/b", **b)]
    news.receipt(news.send(changes))
    document = client.get(client.find_changes(capabilities(news)))
    posted = document.all("//s:lastmod/text() | //@datetime | //@modified")
    assert len(posted) == 5
    assert all(time.endswith("Z") for time in [*posted, *document.all("//@from")])
    assert document.count("//@until") == 0


#
def test_everything_has_a_content_type(broker, news):
    news.post(4)
    own = ["capabilitylist.xml", "changelist.xml", "changelist-archive.xml"]
    own += [news.list_path(1), news.list_path(2), "changes?after=0"]
    own += ["changes?after=x"]  # 400
    paths = [DESCRIPTION, *(f"{news.path}/{path}" for path in own), "/healthz"]
    paths += ["/sets/none/capabilitylist.xml", "/nowhere"]  # 404
    for path in paths:
        answer = broker.get(path)
        assert answer.body and answer["Content-Type"], path
