"""Posted values come out unchanged, in list, message and change memory; and the times
that the broker gives."""

import collections

from tidings_test.sets import change


def read_message(news, form):
    follower = news.websocket("after=0", form)
    message = follower.news().raw
    follower.leave()
    return message


class Views:
    """The history of a set, read in every way there is, which agree."""

    def __init__(self, news):
        self.list = news.changelist()
        self.memory = news.page("after=0").raw
        self.message = read_message(news, "xml")
        self.json_message = read_message(news, "json")
        self.list.check_valid()
        self.message.check_valid()

    def xml(self, n, what):
        """A value of entry `n`, counted from 1, in both XML views."""
        value = self.list.text(f"/s:urlset/s:url[{n}]/{what}")
        assert self.message.text(f"/s:urlset/s:url[{n}]/{what}") == value
        return value

    def json(self, n):
        """Entry `n` in both JSON views."""
        entry = self.memory["changes"][n - 1]
        assert self.json_message["changes"][n - 1] == entry
        return entry

    def check(self, n, **values):
        """These members of entry `n`; the attributes of its md have the same names
        in XML."""
        for name, value in values.items():
            assert self.json(n)[name] == value
            assert self.xml(n, f"rs:md/@{name}") == str(value)

    def check_loc(self, n, loc):
        assert self.xml(n, "s:loc") == self.json(n)["loc"] == loc


LOCS = [
    "http://example.com/r?a=1&b=2&amp;c",
    "http://example.com/r?q='x'&range=%3C5%3E5",
    "http://example.com/ålesund-潮.csv",
    "http://example.com/%C3%A5%26%3C%22%27%25",
    "http://example.com/r?<a>\"b\"'c'&lt;>",
    "http://example.com/📣#f",
]


# nothing is lost or doubled in escaping.
def test_a_loc_comes_back_as_it_was_posted(news):
    for loc in LOCS:
        news.post_change(loc)
    views = Views(news)
    for n, loc in enumerate(LOCS, 1):
        views.check_loc(n, loc)


# R-024, from XML, with values that JSON would write otherwise.
def test_the_escaped_examples_come_back_as_they_were_posted(news):
    news.receipt(news.send_example("foreign-and-escaped.xml"))
    views = Views(news)
    gauges = "http://example.com/gauges/r"
    views.check_loc(1, f"{gauges}?place=a&kind=b&q='x'&range=<5>5")
    views.check(1, type="application/vnd.example+json; charset=utf-8")
    terms = "http://example.com/terms/"
    tags = f"rs:md/@*[local-name()='tags' and namespace-uri()='{terms}']"
    assert views.xml(1, tags) == "estuary spring-tide"
    id_, tags = views.json(1)["attributes"][:2]
    assert id_ == {"ns": terms, "name": "id", "value": "4711"}
    assert tags["name"] == "tags"
    sha_1 = "3ac63f2b416dfd4bfdaa1ab1ddabdc83bfc9226c"
    assert views.json(1)["hash"]["sha-1"] == sha_1
    views.check_loc(2, f"{gauges}/%C3%A5lesund%20%28old%29.csv")
    views.check_loc(3, f"{gauges}/ålesund-潮.csv")
    views.check(3, length=0)


LINKS = [
    {"rel": "via"},
    {"rel": "duplicate", "pri": 2},
    {"rel": "duplicate", "pri": 1},
    {"rel": "alternate", "type": "text/html"},
    {"rel": "canonical"},
    {"rel": "describedby"},
    {"rel": "memento", "modified": "2026-04-05T09:59:00Z"},
    {"rel": "timegate"},
    {"rel": "timemap", "type": "application/link-format"},
    {"rel": "collection"},
    {"rel": "profile"},
    {"rel": "http://example.org/rel/z"},
    {"rel": "http://www.openarchives.org/rs/terms/patch", "length": 3},
]


# links and foreign attributes, unchanged and in order.
def test_links_come_out_unchanged_and_in_order(news):
    news.receipt(news.send_example("odd/links.xml"))
    views = Views(news)
    links = views.json(1)["links"]
    assert len(links) == len(LINKS)
    assert views.list.count("/s:urlset/s:url/rs:ln") == len(LINKS)
    assert views.message.count("/s:urlset/s:url/rs:ln") == len(LINKS)
    for i, link in enumerate(LINKS):
        wanted = {**link, "href": f"http://example.com/l/{i}"}
        assert wanted.items() <= links[i].items()
        for name, value in wanted.items():
            assert views.xml(1, f"rs:ln[{i + 1}]/@{name}") == str(value)
    # b before a, as posted.
    terms = "rs:md/@*[namespace-uri()='http://example.org/terms/']"
    assert views.xml(1, terms) == "2"
    attributes = views.json(1)["attributes"]
    assert [(a["name"], a["value"]) for a in attributes] == [("b", "2"), ("a", "1")]
    (c,) = links[11]["attributes"]
    assert (c["name"], c["value"]) == ("c", "3")
    assert views.xml(1, "rs:ln[12]/@*[local-name()='c']") == "3"


# the metadata of a resource is served as posted; the tags are an
# attribute of ours.
def test_the_metadata_of_a_resource_is_served_as_posted(news):
    attributes = {"length": 9007199254740993, "type": "text/csv", "encoding": "gzip"}
    elements = {
        "lastmod": "2000-02-29T12:00:00Z",
        "changefreq": "daily",
        "priority": "0.5",
    }
    md5 = "0123456789abcdef0123456789abcdef"
    more = {"hash": {"md5": md5}, "tags": ["a", "b"]}
    old = change("http://example.com/old", "updated", **attributes, **elements, **more)
    news.receipt(news.send([old, change("http://example.com/gone", "deleted")]))
    views = Views(news)

    views.check(1, **attributes)
    assert views.json(1)["hash"] == {"md5": md5}
    assert views.xml(1, "rs:md/@hash") == f"md5:{md5}"
    assert views.json(1)["tags"] == ["a", "b"]
    assert views.xml(1, "rs:md/@td:tags") == "a b"
    for name, value in elements.items():
        assert views.xml(1, f"s:{name}") == str(views.json(1)[name]) == value
    views.check(2, change="deleted")
    assert views.xml(2, "rs:md/@*[namespace-uri()=''][3]") == ""
    assert not views.json(2).keys() & {"length", "lastmod"}


# R-133, I-13: a resource that changes five times is listed five times.
def test_repeated_changes_are_listed_one_by_one(news):
    news.receipt(news.send_example("odd/same-resource.xml"))
    views = Views(news)
    assert len(views.list.entries) == 5
    kinds = ["created", "updated", "updated", "deleted", "created"]
    for n, kind in enumerate(kinds, 1):
        views.check(n, change=kind)
        views.check_loc(n, "http://example.com/gauges/r/haven.csv")


# the broker gives a change that comes late, or from the future, a time
# that fits, and keeps the source's time beside it.
def test_a_late_datetime_does_not_disturb_the_order(news):
    times = ["", "2001-01-01T00:00:00Z", "2999-01-01T00:00:00.5Z"]
    for n, time in enumerate(times, 1):
        more = {"datetime": time} if time else {}
        news.post_change(f"http://example.com/r/{n}", **more)
    views = Views(news)
    for n, time in enumerate(times, 1):
        views.check_loc(n, f"http://example.com/r/{n}")
        assert views.xml(n, "rs:md/@td:datetime") == time
        assert views.json(n).get("sourceDatetime", "") == time
    given = [views.list.from_, *(entry.datetime for entry in views.list.entries)]
    assert given == sorted(set(given))
    assert given[-1] < "2999"


# posts from several clients at once.
def test_posts_of_several_clients_are_in_one_order(news, broker, background):
    def post_some(client, poster):
        for i in range(50):
            body = change(f"http://example.com/{poster}/{i}")
            assert client.post(news.changes, body).status == 200

    posters = [background(post_some, broker.client(), i) for i in range(4)]
    for poster in posters:
        poster.join()

    page = news.page()
    page.check()  # seqs without a hole, times that grow
    posted = collections.defaultdict(list)
    for loc in page.locs:
        *_, poster, i = loc.split("/")
        posted[poster].append(int(i))
    assert posted == {str(poster): list(range(50)) for poster in range(4)}
