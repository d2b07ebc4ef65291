"""tidings harvest from a provider of OAI-PMH: every record counts once, as held, deleted
or one that could not be read, and the sum is what the provider counts; a second look asks
for what is new; what a hostile provider does costs no resource."""

import gzip
import hashlib
import json
import re

import pytest
from lxml import etree

from tidings_test.content import multipart
from tidings_test.http import JSON
from tidings_test.oai import NS, PerlProvider, Provider, envelope
from tidings_test.sets import change


def at(day):
    return f"2026-09-{day:02}T00:00:00Z"


@pytest.fixture
def provider():
    provider = Provider()
    for n in range(1, 8):
        provider.put(n, at(n))
    yield provider
    provider.end()


@pytest.fixture
def target(broker):
    return broker.set()


@pytest.fixture
def harvest(provider, target, run, tmp_path):
    """harvest(option...): a look; the program that has ended."""

    def harvest(*words, url=None, status=0):
        earliest = provider.earliest
        if "--full" in words:  # it begins later than the last look: it is read whole
            words = [word for word in words if word != "--full"]
            provider.earliest = "9000-01-01T00:00:00Z"
        command = ("tidings", "harvest", url or provider.link(), target.url, "--once")
        ended = run(*command, "--state", tmp_path / "state", *words, status=status)
        provider.earliest = earliest
        return ended

    return harvest


def told(target):
    """The changes of the set, as (kind, loc)."""
    if target.get().status == 404:
        return []
    page = target.get("changes?after=0", accept=JSON).json()
    return [(c["change"], c["loc"].removeprefix("http://r.example/")) for c in page["changes"]]


def held(target):
    """The resources that the changes lead to."""
    now = set()
    for kind, loc in told(target):
        assert (kind == "created") == (loc not in now), told(target)
        (now.discard if kind == "deleted" else now.add)(loc)
    return now


# all records of all answers; then those that are new, changed or deleted alone.
def test_a_second_look_asks_for_what_is_new(provider, target, harvest):
    provider.delete(8, at(8))
    line = harvest().output()
    assert ": OAI-PMH, complete as of 20" in line
    assert "7 added, 0 changed, 0 deleted" in line
    assert line.endswith(
        "7 held + 1 deleted + 0 could not be read = 8; the provider counts 8"
    )
    assert [kind for kind, _ in told(target)] == ["created"] * 7
    assert "from" not in provider.last_list()

    provider.put(2, "2026-10-01T01:00:00Z", title="Another")
    provider.put(9, "2026-10-01T01:00:00Z")
    provider.delete(3, "2026-10-01T01:00:00Z")
    provider.date = "2026-10-01T02:00:00Z"
    line = harvest("--json").output()
    look = json.loads(line)
    assert (look["added"], look["changed"], look["deleted"]) == (1, 1, 1)
    assert provider.last_list()["from"] == ["2026-09-30T00:00:00Z"]
    assert "2 held + 1 deleted + 0 could not be read = 3 since" in look["records"]
    assert held(target) == set("1245679")
    assert "0 added, 0 changed, 0 deleted" in harvest().output()
    assert target.last() == 10


# Whatever a user pastes is the same provider: its base URL, and requests of it.
@pytest.mark.parametrize(
    "path",
    ["oai", "records", "oai?verb=Identify", "oai?verb=ListIdentifiers&metadataPrefix=oai_dc",
     "oai?verb=ListRecords", "oai?verb=GetRecord&metadataPrefix=oai_dc&identifier=oai%3Ap.example%3A3",
     "oai?page=oai&verb=ListSets#top", "oai?verb=ListRecords&resumptionToken=%210"],
)  # fmt: skip
def test_any_request_names_the_provider(path, provider, target, harvest):
    loc = ("--loc", "http://r.example/{id}")
    url = f"{provider.url}/{path}"
    output = harvest(*loc, url=url).output()
    assert "7 held + 0 deleted + 0 could not be read = 7" in output
    assert held(target) == set("1234567")
    provider.delete(3, "2026-10-01T00:00:00Z")
    assert "1 deleted" in harvest(*loc, url=url).output()
    assert held(target) == set("124567")
    assert provider.last_list()["metadataPrefix"] == ["oai_dc"]


# A name makes no provider; and who cannot read one says what it is.
def test_a_source_is_what_it_answers(provider, target, harvest, site, run):
    site.put("/oai/list.txt", "http://r.example/x\n")
    assert ": text, " in harvest(url=site.link("/oai/list.txt")).output()
    assert held(target) == {"x"}
    errors = run("tidings", "get", f"{provider.url}/records", status=1).errors()
    assert "a provider of OAI-PMH: `tidings harvest` reads it" in errors


# What a base URL answers without a verb may be a source of another kind.
def test_a_base_url_is_asked_first(provider, harvest):
    provider.tricks = [lambda asked, answer: answer if asked else "http://r.example/y\n"]
    assert "7 held + 0 deleted" in harvest("--dry-run", url=f"{provider.url}/oai").output()
    assert ": text, " in harvest("--dry-run", url=f"{provider.url}/records").output()


# The record as it stands, with those namespaces that it has from what is around it.
XSI = "http://www.w3.org/2001/XMLSchema-instance"


@pytest.mark.parametrize(
    "around, record, declared",
    [("", """<a:x xmlns:a="urn:a" b='>"'\n><!-- </a:x> --><a:y/><![CDATA[</a:x>]]>\u00fc<?p ?>
</a:x >""", ""),
     ("", "<x/>", f' xmlns="{NS}"'),
     ("", '<x xmlns=""><y xmlns="urn:y"/></x>', ""),
     ("", '<x xmlns="urn:x" y="xsi:z"/>', f' xmlns:xsi="{XSI}"'),
     (' xmlns:a="urn:a" xmlns:b="urn:&amp;b"', "<b:x/>", ' xmlns:b="urn:&#38;b"'),
     (' xmlns:a="urn:out"', '<a:x xmlns:a="urn:in"/>', ""),
     (' xmlns="urn:inner" xmlns:xsi="urn:xsi"', "<x>xsi:</x>", ' xmlns="urn:inner" xmlns:xsi="urn:xsi"')],
    ids=["whole", "default", "none", "value", "prefix", "own", "nearest"],
)  # fmt: skip
def test_a_record_is_stored_as_it_stands(around, record, declared, provider, target, harvest):
    target.create(content="inline")

    def trick(_, answer):
        answer = answer.replace("<OAI-PMH", f'<OAI-PMH xmlns:xsi="{XSI}"')
        record_of = f"<metadata{around}><!-- <x> --> {record} </metadata><about><y xmlns='urn:no'/></about>"
        return re.sub("<metadata>.*?</metadata>", lambda _: record_of, answer)

    provider.tricks = [trick]
    loc = ("--loc", "http://r.example/{id}")
    assert "7 added" in harvest("--records", *loc).output()
    name = re.match("<[a-z:]*", record)[0]
    stored = record.replace(name, name + declared, 1).encode()
    assert records(target) == {str(n): stored for n in range(1, 8)}
    etree.fromstring(stored)
    assert "0 added, 0 changed" in harvest("--records", *loc, "--compare", "0.1").output()


def records(target):
    """The bytes of each resource that is there, by its loc."""
    page = target.get("changes?after=0", accept=JSON).json()["changes"]
    last = {change["loc"].removeprefix("http://r.example/"): change for change in page}
    stored = {}
    for loc, entry in last.items():
        if entry["change"] != "deleted":
            answer = target.get(f"content/{entry['hash']['sha-256']}")
            assert (answer.status, answer["Content-Type"]) == (200, "application/xml")
            assert entry["type"] == "application/xml"
            assert entry["length"] == len(answer.body)
            assert entry["hash"]["sha-256"] == hashlib.sha256(answer.body).hexdigest()
            stored[loc] = answer.body
    return stored


# A change of its markup alone is one, whoever posts into the set meanwhile.
def test_stored_records_follow(provider, target, harvest):
    target.create(content="inline")
    harvest("--records", "--dry-run")
    assert told(target) == []
    harvest("--records")
    before = records(target)
    provider.more = "<x/>"
    provider.put(4, "2026-10-01T00:00:00Z")
    provider.delete(5, "2026-10-01T00:00:00Z")
    other = change("http://r.example/o")
    target.broker.post(f"{target.path}/changes", *multipart([other], [(other["loc"], "application/xml", b"o")]))
    assert "0 added, 1 changed, 1 deleted" in harvest("--records").output()
    after = records(target)
    assert after.pop("o") == b"o"
    assert after.pop("4") == before.pop("4").replace(b"</oai_dc", b"<x/></oai_dc")
    assert before.pop("5") and after == before
    assert "0 added, 0 changed, 0 deleted" in harvest("--records").output()


# one that cannot be stored is named and counted; the others are stored.
@pytest.mark.parametrize(
    "old, new, options, why",
    [("<oai_dc:dc .*?3</dc.*?</oai_dc:dc>", "", (), "metadata without a record"),
     ("(<oai_dc:dc .*?3</dc.*?</oai_dc:dc>)", r"\1\1", (), "metadata without a record"),
     ("</dc:title>", "</dc:title>", ("--max-file", "256"), "a record longer than --max-file")],
    ids=["empty", "two", "long"],
)  # fmt: skip
def test_a_record_that_cannot_be_stored_is_named(old, new, options, why, provider, target, harvest):
    target.create(content="inline")
    provider.put(3, at(3), title="long " * 30)
    provider.size, provider.deleted = 1, "no"
    provider.tricks = [lambda _, answer: re.sub(old, new, answer)]
    ended = harvest("--records", *options, status=1)
    assert "6 held + 0 deleted + 1 could not be read = 7" in ended.output()
    assert f'left out: 1 row: {why}: "oai:p.example:3"' in ended.errors()
    assert records(target).keys() == set("124567")
    provider.tricks = []
    harvest("--records")
    assert records(target).keys() == set("1234567")


@pytest.mark.parametrize(
    "path, status, why",
    [("/oai?verb=ListIdentifiers", 2, "--records needs ListRecords"),
     ("/list.txt", 1, "/list.txt: no provider of OAI-PMH: not XML"),
     ("/missing", 1, "404"),
     ("/oai?verb=ListRecords", 1, 'its setting "content" is not "inline"')],
)  # fmt: skip
def test_records_need_a_provider_and_a_set_that_stores_them(path, status, why, provider, target, harvest, site):
    site.put("/list.txt", "http://r.example/x\n")
    target.create()
    url = f"{provider.url if 'oai' in path else site.url}{path}"
    assert why in harvest("--records", url=url, status=status).errors()


@pytest.mark.broker("--max-content", "1024")
def test_a_broker_takes_a_post_of_so_many_bytes(target, harvest):
    target.create(content="inline")
    errors = harvest("--records", status=1).errors()
    assert "(--max-content)" in errors
    assert "the set refuses what begins with" in errors and "r.example/1" in errors


# The loc has the identifier, escaped, or its local part.
@pytest.mark.parametrize(
    "template, expected",
    [("{id}", "a%2Fb%20%C3%A4"), ("{identifier}", "oai%3Ap.example%3Aa%2Fb%20%C3%A4"),
     ("x?id={id}&v=1", "x?id=a%2Fb%20%C3%A4&v=1")],
)  # fmt: skip
def test_a_template_makes_the_loc(template, expected, provider, target, harvest):
    provider.records.clear()
    provider.put("a/b ä", at(1), urls=[])
    harvest("--loc", f"http://r.example/{template}")
    assert told(target) == [("created", expected)]
    provider.delete("a/b ä", "2026-10-01T00:00:00Z")
    harvest("--loc", f"http://r.example/{template}")
    assert told(target)[1:] == [("deleted", expected)]


def test_a_template_without_a_place_is_refused(harvest):
    for loc in ("http://r.example/", "http://r.example/{name}", "{id"):
        assert "--loc has no {id}" in harvest("--loc", loc, status=2).errors()


# The record's address may be any of its identifiers; a record without one is named.
def test_a_record_without_an_address_is_left_out(provider, target, harvest):
    provider.put(1, at(1), urls=["doi:10.1/x", "http://r.example/1", "http://r.example/x"])
    provider.put(2, at(2), urls=["doi:10.1/x"])
    ended = harvest(status=1)
    assert "6 held + 0 deleted + 1 could not be read = 7" in ended.output()
    assert ': left out: 1 row: no loc' in ended.errors()
    assert '"oai:p.example:2"' in ended.errors()
    assert held(target) == set("134567")
    harvest("--skip-bad")
    # One that had an address keeps it.
    provider.put(3, "2026-10-01T00:00:00Z", urls=[])
    harvest("--skip-bad")
    provider.deleted = "no"
    harvest("--skip-bad")
    assert held(target) == set("134567")


def words(target):
    """Title, summary and author of the last change."""
    entry = target.get("changes?after=0", accept=JSON).json()["changes"][-1]
    return [entry.get(name) for name in ("title", "summary", "author")]


# A set shows names, and not addresses alone: of each the first counts, without the white
# space around it, cut between two characters.
@pytest.mark.parametrize(
    "title, more, expected",
    [("A <b> & \"ü\"", "", ["A <b> & \"ü\"", None, None]),
     ("", "<dc:title>Later</dc:title>", ["Later", None, None]),
     ("A", "<dc:title>B</dc:title><dc:creator> \nX\ty </dc:creator><dc:creator>Z</dc:creator>"
      "<dc:description><![CDATA[<p>]]>&#10;c</dc:description>", ["A", "<p>\nc", "X\ty"]),
     ("A", "<dc:creator>a<dc:title>T</dc:title></dc:creator><x><dc:creator>b</dc:creator></x>",
      ["A", None, None]),
     ("A", "<record><metadata><dc><creator>no</creator></dc></metadata></record>",
      ["A", None, None])],
)  # fmt: skip
def test_a_record_has_words(title, more, expected, provider, target, harvest):
    provider.records.clear()
    provider.more = more
    provider.put(1, at(1), title=title)
    assert "mended" not in harvest().errors()
    assert words(target) == expected
    provider.put(1, "2026-10-01T00:00:00Z", title="New")
    harvest()
    assert words(target)[0] == "New"
    provider.delete(1, "2026-10-01T00:00:01Z")
    harvest()
    assert words(target) == [None] * 3


@pytest.mark.parametrize("name, n, max_bytes", [("title", 0, 500), ("description", 1, 4096), ("creator", 2, 500)])
@pytest.mark.parametrize("letter", ["a", "ü", "€", "😀"])
def test_words_too_long_are_cut(name, n, max_bytes, letter, provider, target, harvest):
    size = max_bytes // len(letter.encode())
    for length in (size, size + 1, 100_000):
        provider.records.clear()
        provider.more = f"<dc:{name}>{letter * length}</dc:{name}>"
        provider.put(length, "2026-10-01T00:00:00Z", title="")
        ended = harvest()
        assert words(target)[n] == letter * size
        row = f'mended: 1 row: title, description or creator too long, cut: "oai:p.example:{length}"'
        assert (row in ended.errors()) == (length > size)
    assert json.loads(harvest("--json").output())["mended"] == 1


# A record that gets another address leaves the old one.
def test_a_record_may_move(provider, target, harvest):
    harvest()
    provider.put(1, "2026-10-01T00:00:00Z", urls=["http://r.example/new"])
    harvest()
    assert told(target)[7:] == [("deleted", "1"), ("created", "new")]
    provider.delete(1, "2026-10-01T01:00:00Z")
    harvest()
    assert told(target)[9:] == [("deleted", "new")]


# Two records of one address do not take turns.
def test_two_records_of_one_address_are_told(provider, target, harvest):
    provider.deleted = "no"
    provider.put(2, at(2), urls=["http://r.example/1"], title="Twin")
    for _ in range(3):
        ended = harvest(status=1)
        assert "no loc, or that of another record" in ended.errors()
    assert told(target) == [("created", n) for n in "134567"]


# Several changes of a day have one stamp; and windows are days.
def test_stamps_of_days(provider, target, harvest):
    provider.granularity = "YYYY-MM-DD"
    for n in range(1, 8):
        provider.put(n, "2026-10-01")
    harvest()
    provider.put(4, "2026-10-01", title="Later on that day")
    harvest()
    assert provider.last_list()["from"] == ["2026-09-30"]
    assert told(target)[7:] == [("updated", "4")]


# A window of the user's is read whole at each look.
def test_a_window_of_the_user(provider, target, harvest):
    for _ in range(2):
        harvest(url=provider.link("verb=ListRecords&metadataPrefix=oai_dc&from=2026-09-05"))
        assert provider.last_list()["from"] == ["2026-09-05"]
    assert held(target) == set("567")


# A provider that keeps no deletions is compared at each look that ends.
@pytest.mark.parametrize("kept", ["no", "transient"])
def test_deletions_are_found_by_comparison(kept, provider, target, harvest):
    provider.deleted = kept
    harvest()
    del provider.records[5]
    assert "1 deleted" in harvest().output()
    assert held(target) == set("123467")


# A full pass finds what was stamped back.
def test_a_full_pass_at_an_interval(provider, target, harvest, start, tmp_path):
    harvest()
    provider.put(9, at(1))
    del provider.records[5]
    assert "0 added, 0 changed, 0 deleted" in harvest().output()
    state = ("--state", tmp_path / "state", "--every", "0.1", "--compare", "0.2")
    process = start("tidings", "harvest", provider.link(), target.url, *state)
    target.wait_last(8)
    process.stop()
    assert held(target) == set("12345679")


# too many at once wait for consent; those that the provider tells do not.
def test_too_many_deletions_are_held_back(provider, target, harvest):
    provider.size = 100
    for n in range(10, 160):
        provider.put(n, at(3))
    harvest()
    for n in range(10, 140):
        del provider.records[n]
    provider.delete(1, "2026-10-01T00:00:00Z")
    provider.deleted = "transient"
    ended = harvest(status=1)
    assert "1 deleted, 130 held back" in ended.output()
    assert "--accept-deletions 130" in ended.errors()
    harvest("--accept-deletions", "130")
    assert len(held(target)) == 157 - 131


# records that others replace wait at each look, however many came.
def test_all_records_are_replaced(provider, target, harvest):
    provider.deleted = "no"
    harvest()
    n = len(provider.records)
    old, provider.records = provider.records, {}
    for i in range(20, 20 + 2 * n):
        provider.put(i, at(3))
    for _ in range(2):
        assert f"0 deleted, {n} held back" in harvest("--full", status=1).output()
    assert len(held(target)) == 3 * n
    provider.records[1] = old[1]
    assert f"{n - 1} deleted" in harvest("--full").output()


# one identifier in two states: the later stamp counts, of equal ones the living
# record, in either order, at each look.
@pytest.mark.parametrize("kept, granularity", [("no", "YYYY-MM-DDThh:mm:ssZ"), ("persistent", "YYYY-MM-DD")])
@pytest.mark.parametrize(
    "states, lives",
    [("1- 2+", True), ("2+ 1-", True), ("2- 1+", False), ("1+ 2-", False), ("1- 1+", True), ("1+ 1-", True),
     ("1+ 2- 3+", True), ("3+ 2- 1+", True), ("2- 3+ 1-", True), ("1+ 3- 2+", False), ("1+ 2+", True),
     ("2+ 1+", True), ("1- 2-", False), ("x+ 1-", False), ("x- x+", True), ("x+ x-", True)],
)  # fmt: skip
def test_a_record_in_two_states(states, lives, granularity, kept, provider, target, harvest):
    provider.deleted, provider.granularity, provider.size = kept, granularity, 1
    if granularity == "YYYY-MM-DD":
        for n in range(1, 8):
            provider.put(n, at(n)[:10])
    states = states.split()

    def record(state):
        provider.records[4] = [at(int(state[0])) if state[0] != "x" else "x", [], f"T{state}", state[1] == "-"]
        if state[1] == "+":
            provider.records[4][1] = ["http://r.example/4"]
        text = provider.record(4)
        provider.put(4, at(4)[: len(granularity)])
        return re.sub("T00:00:00Z<", "<", text) if len(granularity) < 12 else text

    def trick(_, answer):
        one = re.search("<record><header><identifier>oai:p.example:4<.*?</record>", answer)
        return answer.replace(one[0], "".join(map(record, states))) if one else answer

    if not lives:
        harvest()
    provider.tricks = [trick]
    harvest("--full")
    first = told(target)
    for _ in range(2):
        ended = harvest("--full")
    assert held(target) == (set("1234567") if lives else set("123567"))
    assert told(target) == first  # nothing comes and goes
    assert "7 held" in ended.output() if lives else "6 held + 1 deleted" in ended.output()


# A provider that was set back: what it has now counts, and that is said.
def test_stamps_that_went_back(provider, target, harvest):
    harvest()
    provider.put(5, at(1), title="As it was")
    ended = harvest("--full")
    assert "records with earlier stamps than before; reading all once more" in ended.errors()
    assert "0 added, 1 changed, 0 deleted" in ended.output()
    ended = harvest("--full")
    assert "once more" not in ended.errors() and "0 changed" in ended.output()
    provider.delete(6, at(1))
    assert "1 deleted" in harvest("--full").output()
    assert held(target) == set("123457")


# one that keeps all deletions deletes by them alone: what vanishes is held
# back, however little it is, until it is there again or somebody consents.
def test_what_vanishes_from_a_provider_with_tombstones(provider, target, harvest):
    harvest()
    del provider.records[5]
    for _ in range(2):
        ended = harvest("--full", status=1)
        assert "0 deleted, 1 held back" in ended.output()
        assert "missing without a tombstone" in ended.errors()
    # As long as it waits, each look reads all.
    provider.put(5, at(5))
    assert "held back" not in harvest().output()
    del provider.records[5]
    harvest("--full", status=1)
    assert "1 deleted" in harvest("--accept-deletions", "1").output()
    assert held(target) == set("123467")


# an empty answer for one look deletes nothing.
@pytest.mark.parametrize("kept", ["no", "transient", "persistent"])
@pytest.mark.parametrize("n", [4, 7])
def test_no_records_for_one_look(n, kept, provider, target, harvest):
    provider.deleted = kept
    provider.records = {i: provider.records[i] for i in range(1, n + 1)}
    harvest()
    records, provider.records = provider.records, {}
    for _ in range(2):
        assert f"0 deleted, {n} held back" in harvest("--full", status=1).output()
    provider.records = records
    assert "held back" not in harvest().output()
    assert told(target) == [("created", str(i)) for i in range(1, n + 1)]


def test_few_records_may_go_at_once(provider, target, harvest):
    provider.deleted = "no"
    provider.records = {i: provider.records[i] for i in range(1, 4)}
    harvest()
    provider.records = {}
    assert "3 deleted" in harvest().output()


# The provider has begun anew.
def test_a_provider_that_begins_later_is_read_whole(provider, target, harvest):
    provider.deleted = "transient"
    harvest()
    provider.earliest = "2026-10-02T00:00:00Z"
    provider.records = {}
    provider.put(1, "2026-10-02T00:00:00Z")
    assert "1 changed, 6 deleted" in harvest().output()


# It goes on by itself.
def test_a_harvest_goes_on(provider, target, start, tmp_path):
    state = ("--state", tmp_path / "state")
    command = ("tidings", "harvest", provider.link(), target.url, *state, "--every", "0.1")
    process = start(*command)
    target.wait_last(7)
    provider.delete(1, "2026-10-01T00:00:00Z")
    target.wait_last(8)
    process.stop()
    assert held(target) == set("234567")


# Nothing is posted, and the state stays as it is.
def test_a_dry_run_shows_what_would_change(provider, target, harvest):
    for _ in range(2):
        assert "7 added" in harvest("--dry-run").output()
    assert told(target) == []
    harvest()
    provider.delete(7, "2026-10-01T00:00:00Z")
    for _ in range(2):
        assert "0 added, 0 changed, 1 deleted" in harvest("--dry-run").output()
    assert len(told(target)) == 7


@pytest.fixture
def begin(provider, target, start, tmp_path):
    """begin(source...): a harvest that goes on, with the state of `harvest`."""

    def begin(*sources):
        options = ("--state", tmp_path / "state", "--every", "0.1")
        return start("tidings", "harvest", *sources, target.url, *options)

    return begin


# it is killed in the middle of the list, and reads it once more.
def test_a_harvest_that_is_killed(provider, target, harvest, begin):
    def trick(asked, answer):
        if "resumptionToken" in asked:
            provider.is_free.clear()
        return answer

    provider.tricks = [trick]
    process = begin(provider.link())
    provider.asked.find(lambda asked: asked.get("resumptionToken") == ["!6"])
    process.kill()
    provider.tricks = []
    provider.release()
    harvest()
    assert told(target) == [("created", str(n)) for n in range(1, 8)]


# A provider that is silent, or asks to be left alone, holds up no other source; and the
# harvest ends when it is told to.
@pytest.mark.parametrize("query", ["", "verb=ListRecords"])
@pytest.mark.parametrize("is_silent", [True, False], ids=["silent", "busy"])
def test_a_provider_that_makes_wait(is_silent, query, provider, target, site, begin):
    site.put("/list.txt", "http://r.example/x\n")
    if is_silent:
        provider.hold()
    else:
        provider.tricks = [lambda *_: (503, ["Retry-After: 30"], "")]
    process = begin(provider.link(query), site.link("/list.txt"))
    target.wait_last(1)
    assert told(target) == [("created", "x")]
    site.put("/list.txt", "http://r.example/x\nhttp://r.example/y\n")
    target.wait_last(2)
    process.stop()


# Judges


# A provider that Debian's libhttp-oai-perl makes.
def test_a_provider_of_another_author(target, run, tmp_path):
    if not PerlProvider.is_installed():
        pytest.skip("libhttp-oai-perl is not installed")
    provider = PerlProvider()
    for n in range(1, 8):
        provider.put(n, at(n), title="Tïtle & more")
    provider.delete(3, at(9))
    command = ("tidings", "harvest", provider.link(), target.url, "--once")
    options = ("--state", tmp_path / "state")
    line = run(*command, *options).output()
    assert line.endswith("6 held + 1 deleted + 0 could not be read = 7; the provider counts 7")
    provider.delete(4, "2030-01-01T00:00:00Z")
    provider.put(5, "2030-01-01T00:00:00Z", title="Another")
    assert "0 added, 1 changed, 1 deleted" in run(*command, *options).output()
    assert held(target) == set("12567")
    headers = ("--loc", "http://r.example/{id}", "--state", tmp_path / "headers")
    command = ("tidings", "harvest", provider.link("verb=ListIdentifiers"), target.url)
    assert "= 7; the provider counts 7" in run(*command, "--once", *headers).output()
    provider.end()


# A set that the broker itself provides.
@pytest.mark.parametrize("query", ["", "?verb=ListRecords&metadataPrefix=oai_dc", "?verb=ListIdentifiers"])
def test_a_set_of_our_own(query, broker, target, run, tmp_path):
    source = broker.set()
    source.post(250)
    url = f"{source.url}/oai{query}"
    loc = ("--loc", "http://r.example/{id}") if "Identifiers" in query else ()
    command = ("tidings", "harvest", url, target.url, "--once", *loc)
    options = ("--state", tmp_path / "state")
    line = run(*command, *options).output()
    assert "250 held + 0 deleted + 0 could not be read = 250; the provider counts" in line
    source.post_change("http://example.com/r/1", "deleted")
    source.post_change("http://example.com/r/new", "created")
    assert "1 added, 0 changed, 1 deleted" in run(*command, *options).output()
    assert target.last() == 252


# What a provider does wrong. Each trick gets a request and the right answer.


def of_list(asked):
    return asked["verb"][0].startswith("List")


def replacing(old, new):
    return lambda asked, answer: answer.replace(old, new) if of_list(asked) else answer


def in_the_middle(instead):
    """Instead of the second answer of the list."""
    return lambda asked, answer: instead if "resumptionToken" in asked else answer


def once(trick):
    """The trick for the second answer of the list, the first time."""
    used = []

    def only_once(asked, answer):
        if "resumptionToken" not in asked or used:
            return answer
        used.append(True)
        return trick(asked, answer)

    return only_once


def error(code):
    return envelope(f'<error code="{code}">no reason</error>', "2026-10-01T00:00:00Z")


def token(text, records=""):
    body = f"<ListRecords>{records}<resumptionToken>{text}</resumptionToken></ListRecords>"
    return envelope(body, "2026-10-01T00:00:00Z")


def counting_up(asked, answer):
    """Empty answers, each with another token."""
    if not of_list(asked):
        return answer
    return token(int(asked.get("resumptionToken", ["0"])[0]) + 1)


def going_round(asked, answer):
    """Behind the last answer comes the first one."""
    return answer.replace("></resumptionToken>", ">!0</resumptionToken>")


def bombing(asked, answer):
    entities = "".join(
        f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10)
    )
    bomb = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e0 "x">{entities}]>'
    return answer.replace('<?xml version="1.0"?>', bomb).replace("A title", "&e9;")


def swelling(asked, answer):
    """A hundred megabytes of white space, packed."""
    return 200, ["Content-Encoding: gzip"], gzip.compress(b" " * 100_000_000)


def twice(asked, answer):
    return re.sub("(<record>.*?</record>)", r"\1\1", answer)


def expiring_for_all(asked, answer):
    if "from" in asked:
        return error("badArgument")
    return error("badResumptionToken") if "resumptionToken" in asked else answer


GOING_ON = "; going on from 2026-09-03T00:00:00Z"
OTHER = "<baseURL>http://10.0.0.1/oai</baseURL></OAI-PMH>"


def at_first(trick):
    return lambda asked, answer: trick(asked, answer) if of_list(asked) else answer


# fmt: off
FAULTS = {
    # name: (trick, exit status, what it says, resources)
    "the same token for ever": (replacing('!6</', '!3</'), 1, "the list has no end", 6),
    "a list that goes round": (going_round, 1, "the list has no end", 7),
    "empty answers with tokens for ever": (counting_up, 1, "the list has no end", 0),
    "an empty answer with a token": (once(lambda *_: token("!3")), 0, "7 held", 7),
    "an end too early": (replacing("!3</", "</"), 1, "= 3; the provider counts 7", 3),
    "counts too many": (replacing('Size="7"', 'Size="9"'), 1, "= 7; the provider counts 9", 7),
    "counts too few": (replacing('Size="7"', 'Size="5"'), 1, "= 7; the provider counts 5", 7),
    "counts with words": (replacing('Size="7"', 'Size="many"'), 0, "counts none", 7),
    "counts beyond any number": (replacing('Size="7"', f'Size="{10**30}"'), 0, "counts none", 7),
    "XML that breaks off": (in_the_middle("<OAI-PMH><ListRecords>"), 0, GOING_ON, 7),
    "no XML": (in_the_middle("<p>Please log in<br></p>"), 0, GOING_ON, 7),
    "an empty answer": (in_the_middle(""), 0, GOING_ON, 7),
    "another document": (in_the_middle("<html/>"), 0, "no answer of OAI-PMH; going on", 7),
    "a bomb of entities": (bombing, 1, "DOCTYPE", 0),
    "an answer without end": (at_first(swelling), 1, "bytes", 0),
    "records twice": (twice, 0, "7 held + 0 deleted + 0 could not be read = 7", 7),
    "other addresses": (replacing("</OAI-PMH>", OTHER), 0, "7 held", 7),
    "the token has expired": (once(lambda *_: error("badResumptionToken")), 0, "7 held", 7),
    "tokens always expire": (in_the_middle(error("badResumptionToken")), 0, GOING_ON, 7),
    "tokens expire for users": (expiring_for_all, 1, "badArgument", 3),
    "a token of 20 KB": (replacing("!3</", "!" + "3" * 20000 + "</"), 0, "token is too long; going on", 7),
    "nothing in the middle": (in_the_middle(error("noRecordsMatch")), 0, GOING_ON, 7),
    "cannot disseminate": (at_first(lambda *_: error("cannotDisseminateFormat")), 1, "no reason", 0),
    "no such record": (at_first(lambda *_: error("idDoesNotExist")), 1, "idDoesNotExist", 0),
    "no sets": (at_first(lambda *_: error("noSetHierarchy")), 1, "noSetHierarchy", 0),
    "503 once": (once(lambda *_: (503, ["Retry-After: 1"], "")), 0, "again in 1", 7),
    "503 for ever": (in_the_middle((503, [], "")), 1, "503", 3),
    "503 until next year": (in_the_middle((503, ["Retry-After: 31536000"], "")), 1, "503", 3),
    "404 in the middle": (in_the_middle((404, [], "")), 0, GOING_ON, 7),
    "redirects for ever": (in_the_middle((302, ["Location: /oai"], "")), 0, GOING_ON, 7),
    "stamps of the future": (replacing("<datestamp>2026", "<datestamp>9026"), 0, "7 held", 7),
    "stamps of no time": (replacing("<datestamp>2026", "<datestamp>x"), 0, "7 held", 7),
    "a token that an author wrote": (
        replacing("<dc:title>", "<resumptionToken>x</resumptionToken><dc:title>"), 0, "7 held", 7),
    "a deletion that an author wrote": (
        replacing("<dc:title>", '<header status="deleted"/><dc:title>'), 0, "7 held", 7),
    "an address that is none": (
        replacing("http://r.example/3", "http://"), 1, "1 could not be read", 6),
    "an identifier of 5 KB": (
        replacing("p.example:3<", f"p.example:{'3' * 5000}<"), 1, "1 could not be read", 6),
}
# fmt: on


# nothing is deleted, all that was read is in the set, and the look says what is
# missing; with the provider healed it is complete.
@pytest.mark.parametrize("name", FAULTS)
def test_what_a_provider_does_wrong(name, provider, target, harvest):
    trick, status, said, n = FAULTS[name]
    provider.deleted = "no"
    provider.tricks = [trick]
    ended = harvest(status=status)
    assert said in ended.output() + ended.errors()
    assert len(held(target)) == n
    provider.tricks = []
    harvest()
    assert held(target) == set("1234567")
    # The same where the set has all.
    provider.tricks = [trick]
    harvest(status=None)
    assert held(target) >= set("124567")


# where a token does not hold, the list goes on from the last stamp, as often as that
# leads to something new.
@pytest.mark.parametrize("query", ["verb=ListRecords&set=x", "verb=ListIdentifiers&metadataPrefix=oai_dc"])
@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("granularity", ["YYYY-MM-DDThh:mm:ssZ", "YYYY-MM-DD"])
def test_tokens_that_never_hold(granularity, counts, query, provider, target, harvest):
    provider.granularity, provider.counts, provider.size = granularity, counts, 4
    for n in range(1, 29):
        provider.put(n, at(n)[: len(granularity)])
    provider.tricks = [in_the_middle(error("badResumptionToken"))]
    for _ in range(2):
        ended = harvest("--loc", "http://r.example/{id}", "--full", url=provider.link(query))
        assert "28 held + 0 deleted + 0 could not be read = 28" in ended.output()
        assert len(held(target)) == 28
        assert all(len(asked.get("from", [""])) == 1 for asked in provider.asked)


# It is said if that may have left out some: the stamps are in no order, or all the same.
@pytest.mark.parametrize(
    "days, counts, why",
    [([1, 1, 1, 1, 1], True, "badResumptionToken"), ([1, 1, 1, 1, 1], False, "badResumptionToken"),
     ([5, 3, 4, 1, 2], False, "in no order"), ([5, 3, 4, 1, 2], True, "the provider counts 5")],
)  # fmt: skip
def test_tokens_that_leave_records_out(days, counts, why, provider, target, harvest):
    provider.counts, provider.deleted = counts, "no"
    provider.records = {}
    for i, day in enumerate(days):
        provider.put(i, at(day))

    def trick(asked, answer):
        if not of_list(asked):
            return answer
        if "resumptionToken" in asked:
            return error("badResumptionToken")
        order = [i for i, day in enumerate(days) if at(day) >= asked.get("from", [""])[0]]
        size = f' completeListSize="{len(order)}"' if counts else ""
        found = "".join(map(provider.record, order[:3]))
        return token("x" if len(order) > 3 else "", found).replace("Token>", f"Token{size}>", 1)

    harvest()
    before = told(target)
    provider.tricks = [trick]
    ended = harvest(status=1)
    assert "not known to be complete" in ended.output() + ended.errors()
    assert why in ended.output() + ended.errors()
    assert told(target) == before


# What is no XML
NO_XML = {
    "an ampersand": lambda record: record.replace("title>", "title>A & B", 1),
    "a character": lambda record: record.replace("title>", "title>\x0b", 1),
    "a number": lambda record: record.replace("title>", "title>&#1;", 1),
    "an entity": lambda record: record.replace("title>", "title>&nbsp;", 1),
    "an open tag": lambda record: record.replace("title>", "title><br>", 1),
    "no end": lambda record: record.replace("</record>", ""),
    "a cut tag": lambda record: record.replace("</dc:title>", "</dc:tit"),
    "another end": lambda record: record.replace("</metadata>", "</metadatum>"),
    "bytes": lambda record: record.replace("title>", "title>\udcff", 1),
    "no prefix": lambda record: record.replace("<dc:title>", "<no:title>").replace("</dc:title>", "</no:title>"),
    "twice": lambda record: record.replace("<record>", '<record a="1" a="2">'),
    "garbage": lambda record: "<record>&&&</record>",
    "nothing but garbage": lambda record: "<record><<<",
}


# a record that is no XML is gone round, counted and named if it can be; what it was
# stays.
@pytest.mark.parametrize("size, bad", [(1, [4]), (3, [1, 2, 6, 7]), (7, [4, 7])])
@pytest.mark.parametrize("name", NO_XML)
def test_a_record_that_is_no_xml(name, bad, size, provider, target, harvest):
    provider.size, provider.deleted = size, "no"

    def trick(_, answer):
        for n in bad:
            answer = answer.replace(provider.record(n), NO_XML[name](provider.record(n)))
        return answer.encode(errors="surrogateescape")

    provider.tricks = [trick]
    for _ in range(2):
        ended = harvest(status=1)
        counts = f"{7 - len(bad)} held + 0 deleted + {len(bad)} could not be read = 7; the provider"
        assert counts in ended.output()
        assert f"left out: {len(bad)} row" in ended.errors()
        if "garbage" not in name and name != "twice":
            assert f'"oai:p.example:{bad[0]}"' in ended.errors()
    assert held(target) == set("1234567") - set(map(str, bad))
    provider.tricks = []
    harvest()
    n = len(told(target))
    provider.tricks = [trick]
    harvest(status=1)
    assert len(told(target)) == n and held(target) == set("1234567")


def test_headers_and_stored_records_that_are_no_xml(provider, target, harvest):
    target.create(content="inline")
    provider.tricks = [lambda _, answer: answer.replace("example:4<", "example:4&<").replace("A title", "A title<x/>")]
    loc = ("--loc", "http://r.example/{id}")
    list_of_headers = provider.link("verb=ListIdentifiers")
    assert "6 held + 0 deleted + 1 could" in harvest(*loc, "--dry-run", url=list_of_headers, status=1).output()
    assert "6 held + 0 deleted + 1 could" in harvest(*loc, "--records", status=1).output()
    stored = records(target)
    assert stored.keys() == set("123567")
    for n, record in stored.items():
        assert etree.fromstring(record).findtext("{*}identifier") == f"http://r.example/{n}"


# A provider that cannot do windows, or that does not care.
@pytest.mark.parametrize("name", ["badArgument", "ignored"])
def test_a_provider_without_windows(name, provider, target, harvest):
    def trick(asked, answer):
        if "from" not in asked:
            return answer
        if name == "badArgument":
            return error(name)
        del asked["from"]
        return envelope(provider._list("ListRecords", asked), provider.date)

    harvest()
    provider.tricks = [trick]
    provider.put(9, "2026-10-01T00:00:00Z")
    assert "1 added, 0 changed, 0 deleted" in harvest().output()
    assert "= 8" in harvest().output()


# The clock of the provider may be wrong: the next window begins early enough.
@pytest.mark.parametrize("date", ["9999-12-31T23:59:59Z", "1970-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "soon"])
def test_a_clock_that_is_wrong(date, provider, target, harvest):
    provider.date = date
    harvest()
    provider.put(9, "2030-01-01T00:00:00Z")
    provider.date = at(1)
    harvest()
    assert held(target) == set("12345679")


# A list without end: the user's limit ends it.
def test_a_list_that_is_too_large(provider, target, harvest):
    assert "--max-entries" in harvest("--max-entries", "5", status=1).errors()
