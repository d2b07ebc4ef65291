"""The last hour of a set and of the broker, minute by minute (GET /status,
/sets/{set}/rate), and the sets that have changed lately (GET /sets?since=)."""

import datetime
import json

import pytest

from tidings_test.http import check_refused
from tidings_test.waiting import wait_for


def rate(broker, path):
    answer = broker.get(path)
    assert (answer.status, answer["Cache-Control"]) == (200, "no-store"), answer
    found = answer.json()
    assert found["minutes"] == len(found["entries"]) == len(found["lags"]) == 60
    return found


# The minute may end between two posts.
def test_entries_are_counted_by_set_and_minute(start_broker):
    broker = start_broker()
    news, other = broker.set("news").create(), broker.set("other").create()
    news.post(3)
    news.post(2)
    other.post(4)
    found = rate(broker, "/sets/news/rate")
    assert (found["set"], sum(found["entries"])) == ("news", 5)
    assert sum(found["entries"][-3:]) == 5
    status = rate(broker, "/status")
    assert (sum(status["entries"]), status["sets"]) == (9, 2)
    assert 0 < status["disk"]["free"] <= status["disk"]["total"]


# Made with a reader that reads nothing.
def test_readers_have_a_lag(news, broker):
    follower = news.websocket("after=0", narrow=True)
    for _ in range(30):
        news.post(200, size=1000)

    def lag():
        found = rate(broker, f"{news.path}/rate")
        return found["readers"]["websocket-json"]["lag"] > 0 and max(found["lags"]) > 0

    wait_for("a lag", lag)
    readers = rate(broker, f"{news.path}/rate")["readers"]
    assert readers["websocket-json"]["connected"] == 1
    assert readers["eventsource"] == {"connected": 0, "lag": 0}
    assert max(rate(broker, "/status")["lags"]) > 0
    follower.leave()


def names(answer):
    assert answer.status == 200, answer
    return [each["name"] for each in answer.json()["sets"]]


def test_only_the_sets_that_have_changed_since(start_broker):
    broker = start_broker()
    for name in ("a", "b", "c"):
        broker.set(name).create()
    broker.set("b").post(2)
    since = broker.get("/sets/b").json()["datetime"]
    assert names(broker.get(f"/sets?since={since}")) == ["b"]
    broker.set("c").post(1)
    assert names(broker.get(f"/sets?since={since}")) == ["b", "c"]
    assert names(broker.get(f"/sets?since={since}&after=b")) == ["c"]
    assert names(broker.get("/sets?since=2000")) == ["a", "b", "c"]
    # A + is no space: it begins a time zone.
    assert names(broker.get("/sets?since=2000-01-01T02:00:00+02:00")) == ["a", "b", "c"]
    next_year = datetime.datetime.now().year + 1
    assert names(broker.get(f"/sets?since={next_year}")) == []
    check_refused(broker.get("/sets?since=soon"), 400, "since")


def test_a_page_of_sets_has_their_rates(start_broker):
    broker = start_broker()
    broker.set("a").create()
    broker.set("b").post(2)
    a, b = broker.get("/sets?rate=yes").json()["sets"]
    assert "rate" not in a
    assert (len(b["rate"]), sum(b["rate"])) == (60, 2)
    assert all("rate" not in each for each in broker.get("/sets").json()["sets"])
    check_refused(broker.get("/sets?rate=often"), 400, "rate")


# Each page names the next, with the same parameters.
def test_the_next_page_keeps_the_wish(start_broker):
    broker = start_broker()
    for i in range(1001):
        broker.put(f"/sets/s{i:04}", {})
    broker.set("s1000").post(1)
    first = broker.get("/sets?since=2000&rate=yes").json()
    assert len(first["sets"]) == 1000
    last = broker.get(broker.path_of(first["next"])).json()
    assert [each["name"] for each in last["sets"]] == ["s1000"]
    assert sum(last["sets"][0]["rate"]) == 1
    # One request looks at several pages for the few that have changed.
    since = broker.get("/sets/s1000").json()["datetime"]
    assert names(broker.get(f"/sets?since={since}")) == ["s1000"]


# tidings status


def plotted(run, *arguments, locale):
    """The lines of `tidings status --plot`, none too wide for a terminal."""
    done = run("tidings", "status", "--plot", *arguments, env={"LC_ALL": locale})
    lines = done.output().split("\n")
    assert all(len(line) <= 80 for line in lines)
    return lines


@pytest.mark.parametrize("locale, top", (("C", "#"), ("C.UTF-8", "█")))
def test_the_command_line_draws_the_last_hour(start_broker, faults, run, locale, top):
    faults.set_clock(-3600)
    broker = start_broker(env=faults.env)
    news = broker.set("news").create()
    for minute, n in ((-58, 12), (-30, 6), (-29, 1)):
        faults.set_clock(60 * minute)
        news.post(n)
    faults.set_clock(0)
    for url in (broker.url, f"{broker.url}/", news.url, f"{news.url}/"):
        lines = plotted(run, url, locale=locale)
        at = lines.index("entries in the last hour   19, at most 12 in a minute")
        picture = [line[14:] for line in lines[at + 1 : at + 7]]
        assert lines[at + 1].startswith("          12 |")
        columns = ["".join(row[i : i + 1] for row in picture).strip() for i in range(60)]
        heights = [len(column) for column in columns if column]
        assert heights == [6, 3, 1]
        assert picture[0].strip() == top
        assert lines[at + 8].endswith("now") and "60 min ago" in lines[at + 8]
        assert "lag in the last hour       at most 0 entries" in lines
        assert "counted since" not in "".join(lines)  # the hour is over
    assert "sets                       1" in plotted(run, broker.url, locale=locale)


def test_the_command_line_tells_the_status(news, broker, run):
    news.post(3)
    plain = run("tidings", "status", news.url).output()
    assert plain.startswith("entries in the last hour   3, at most 3 in a minute\n")
    assert "\nlag in the last hour       at most 0 entries\n" in plain
    # An hour that has only begun.
    facts = json.loads(run("tidings", "status", broker.url, "--json").output())
    assert (facts["minutes"], len(facts["entries"])) == (60, 60)
    since = datetime.datetime.fromisoformat(facts["since"])
    assert since < datetime.datetime.now(datetime.timezone.utc)
    start = f"counted since              {facts['since']}, the start of the broker"
    assert plain.endswith(f"\n{start}")


def test_the_command_line_says_why_it_has_no_status(start_broker, site, run):
    broker = start_broker()
    broker.add_token("root", admin=True)
    reader = broker.add_token("reader", subscribe=["*"])
    refused = run("tidings", "status", broker.url, env={"TIDINGS_TOKEN": reader}, status=1)
    assert "no right to observe" in refused.errors()
    assert "401" in run("tidings", "status", broker.url, status=1).errors()
    site.put("/status", b'{"entries":[1]}')
    other = run("tidings", "status", site.link(""), status=1)
    assert "not the status of a broker" in other.errors()
