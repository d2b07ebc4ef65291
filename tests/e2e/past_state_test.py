"""GET /sets/{set}/resources?as-of=T: a set as it was then."""

import datetime
import random
import xml.etree.ElementTree as ET

import pytest

from tidings_test.http import check_refused
from tidings_test.sets import change

pytestmark = pytest.mark.broker("--resource-list-entries", "3")

SITEMAP = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
JSON, XML = "application/json", "application/xml"


def pages(one, as_of, accept=JSON):
    """The pages of a state, as each names the next one."""
    url = f"{one.url}/resources?as-of={as_of}"
    while url:
        answer = one.get_url(url, accept=accept)
        assert answer.status == 200, answer.text
        assert answer["Content-Type"] == accept
        page = answer.json() if accept == JSON else ET.fromstring(answer.text)
        yield page
        if accept == JSON:
            url = page.get("next")
        else:
            links = {one.get("rel"): one.get("href") for one in page}
            url = links.get("next")


def listed(one, as_of, accept=JSON):
    """The locs of a state, in order."""
    if accept == JSON:
        found = [r["loc"] for page in pages(one, as_of) for r in page["resources"]]
    else:
        found = [
            loc.text
            for page in pages(one, as_of, XML)
            for loc in page.iterfind(f"{SITEMAP}url/{SITEMAP}loc")
        ]
    assert len(set(found)) == len(found)
    return sorted(found)


def followed(one, upto):
    """What a reader of all changes has that stopped at an entry."""
    there = set()
    page = one.page("after=0")
    assert page.last >= upto
    for entry in page.entries[:upto]:
        there.add(entry.loc)
        if entry.change == "deleted":
            there.remove(entry.loc)
    return sorted(there)


def post_random(one, rng):
    """Some changes; deletions are frequent."""
    kinds = ("created", "updated", "deleted")
    locs = rng.sample(range(12), 4)
    body = [change(f"http://a.example/{n}", rng.choice(kinds)) for n in locs]
    answer = one.send(body)
    assert answer.status == 200
    return answer.json()


#
def test_a_state_is_what_a_reader_has_that_stopped_then(news):
    rng = random.Random(5)
    moments = []
    for n in range(12):
        moments.append(post_random(news, rng))
        if n % 5 == 3:
            news.build("resourcelist")
    for posted in moments:
        expected = followed(news, posted["last"])
        for accept in (JSON, XML):
            assert listed(news, posted["datetime"], accept) == expected
        (first, *_) = pages(news, posted["datetime"])
        assert first["position"] == posted["position"]
    # Without a time: now.
    assert news.get("resources").json()["position"] == moments[-1]["position"]
    assert listed(news, moments[-1]["datetime"]) == followed(news, moments[-1]["last"])


# lists and changes that come meanwhile change nothing.
def test_pages_are_of_one_state(news):
    news.post(20)
    news.build("resourcelist")
    posted = news.post_change("http://a.example/new")
    found = []
    for page in pages(news, posted.datetime):
        found += [resource["loc"] for resource in page["resources"]]
        news.post(1, first=100)
        news.build("resourcelist")
    assert sorted(found) == followed(news, 21)


def test_the_present_state_is_equal_until_the_next_change(news):
    last = news.post_change("http://example.com/now")
    first = news.get("resources", accept=JSON)
    assert first.json()["as_of"] == last.datetime
    assert news.get("resources", accept=JSON).body == first.body


def test_what_is_not_known_is_refused_with_the_range(news):
    news.post(3)
    created = news.get().json()["created"]
    before = datetime.datetime.fromisoformat(created.replace("Z", "+00:00"))
    before -= datetime.timedelta(microseconds=1)
    query = f"resources?as-of={before.isoformat().replace('+00:00', 'Z')}"
    check_refused(news.get(query), 410, "states from 20")
    for query, reason in (
        ("as-of=yesterday", "as-of: not a W3C Datetime"),
        ("as-of=2999-01-01", "as-of: later than now"),
        ("list=x", "list: not a number"),
        ("page=0", "page: not a number"),
    ):
        check_refused(news.get(f"resources?{query}"), 400, reason)
    check_refused(news.get("resources?page=2"), 410)
    # A zone, and the other forms of a time.
    assert news.get("resources?as-of=2001-01-01T00:00:00+02:00").status == 410


# A set of that name before is another one.
def test_a_set_made_again_has_no_past(news):
    posted = news.post(3)
    assert news.delete().status == 204
    check_refused(news.get(f"resources?as-of={posted.datetime}"), 410)
    news.create()
    check_refused(news.get(f"resources?as-of={posted.datetime}"), 410, "states from")


# Rights are those of the set.
def test_a_private_set_has_no_past_for_others(start_broker):
    broker = start_broker()
    broker.add_token("root", admin=True)
    one = broker.set("secret").create(private=True)
    one.post(3)
    path = "/sets/secret/resources"
    assert broker.get(path, authorization=None).status in (401, 404)
    other = broker.add_token("other", subscribe=["news"])
    assert broker.get(path, authorization=f"Bearer {other}").status == 404
    answer = broker.get(path)
    assert answer.status == 200
    assert answer["Cache-Control"].startswith("private")
