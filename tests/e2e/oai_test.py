"""A set as a data provider of OAI-PMH 2.0 (/sets/NAME/oai)."""

import collections
import datetime
import itertools
import pathlib
import shutil
import subprocess
import time
import urllib.parse

import pytest
from lxml import etree

from tidings_test.http import FORM, JSON, check_refused
from tidings_test.sets import change
from tidings_test.waiting import wait_for

NS = {
    "o": "http://www.openarchives.org/OAI/2.0/",
    "oai_dc": "http://www.openarchives.org/OAI/2.0/oai_dc/",
    "dc": "http://purl.org/dc/elements/1.1/",
}
DC = {"metadataPrefix": "oai_dc"}
PAGE = 100  # records of a page
A, B, C, D = (f"http://example.com/{name}" for name in "abcd")
DAY = 86400
PARTS = "~74776F2F7061727473"  # the tag two/parts: no setSpec has a slash


# What OAI-PMH.xsd and oai_dc.xsd ask for, in words of our own.
SCHEMA = etree.RelaxNG(etree.parse(pathlib.Path(__file__).with_name("oai.rng")))


class Reply:
    """An answer of a provider, which has to be well-formed XML with status 200."""

    def __init__(self, answer):
        assert answer.status == 200, answer
        assert answer["Content-Type"] == "text/xml; charset=utf-8"
        self.root = etree.fromstring(answer.body)
        SCHEMA.assertValid(self.root)

    def find(self, path):
        return self.root.xpath(path, namespaces=NS)

    def texts(self, path):
        return [element.text for element in self.find(path)]

    @property
    def error(self):
        return "".join(self.find("o:error/@code"))

    @property
    def headers(self):
        """Identifier, status and sets of each."""
        return [
            (
                header.findtext("o:identifier", namespaces=NS),
                header.get("status"),
                {e.text for e in header.findall("o:setSpec", NS)},
            )
            for header in self.find("//o:header")
        ]

    @property
    def identifiers(self):
        return self.texts("//o:header/o:identifier")

    @property
    def stamps(self):
        return self.texts("//o:header/o:datestamp")

    @property
    def token(self):
        """The resumptionToken, "" where the list is at its end."""
        return "".join(filter(None, self.texts("//o:resumptionToken")))


def ask(news, verb=None, **arguments):
    """GET; `from_` is from."""
    if verb:
        arguments = {"verb": verb, **arguments}
    pairs = [(name.rstrip("_"), value) for name, value in arguments.items()]
    query = urllib.parse.urlencode(pairs)
    answer = wait_for(
        "the records", lambda: ready(news.get(f"oai?{query}" if query else "oai"))
    )
    reply = Reply(answer)
    posted = Reply(news.broker.post(f"{news.path}/oai", query, FORM))
    assert posted.error == reply.error
    assert posted.identifiers == reply.identifiers
    return reply


def ready(answer):
    """False: the broker has more to do before it answers."""
    return answer.status != 503 and answer


def pages(news, verb="ListRecords", between=None, **window):
    """All pages of a list; `between` is called after each."""
    reply = ask(news, verb, **({} if verb == "ListSets" else DC), **window)
    yield reply
    while reply.token:
        if between:
            between()
        reply = ask(news, verb, resumptionToken=reply.token)
        assert not reply.error, reply.error
        yield reply


def listed(news, **more):
    return [loc for page in pages(news, **more) for loc in page.identifiers]


def post(news, *changes):
    return news.receipt(news.send(list(changes)))


@pytest.fixture
def library(news):
    """Two resources, one of them changed since, and a deletion."""
    post(
        news,
        change(A, tags=["x", "former"], title="Old"),
        change(B, tags=["x", "two/parts"]),
        change(C),
    )
    post(
        news,
        change(
            *(A, "updated"),
            title="Title & <more>",
            summary="What it is",
            author="Somebody",
            tags=["y"],
            type="text/html",
            lastmod="2020-02-29",
            data={"price": 3, "publisher": ["P", '"Q" & <R>'], "language": "en"},
        ),
        change(B, "deleted"),
    )
    return news


def test_identifies_the_repository(library):
    library.change(title="Books & more")
    reply = ask(library, "Identify")
    assert [(e.tag.partition("}")[2], e.text) for e in reply.find("o:Identify/*")] == [
        ("repositoryName", "Books & more"),
        ("baseURL", f"{library.url}/oai"),
        ("protocolVersion", "2.0"),
        ("adminEmail", "postmaster@127.0.0.1"),
        ("earliestDatestamp", min(ask(library, "ListRecords", **DC).stamps)),
        ("deletedRecord", "persistent"),
        ("granularity", "YYYY-MM-DDThh:mm:ssZ"),
    ]
    assert reply.texts("o:request") == [f"{library.url}/oai"]
    library.change(retainLists=3)
    assert ask(library, "Identify").texts("//o:deletedRecord") == ["transient"]


def test_a_set_names_its_base_url(library):
    (link,) = [e for e in library.state()["links"] if e["rel"] == "urn:tidings:1:oai"]
    assert link["href"] == f"{library.url}/oai"
    assert link["href"] in library.get("capabilitylist.xml").text


# Each resource once, in the order of its last change.
def test_lists_the_last_change_of_each_resource(library):
    headers = [(C, None, set()), (A, None, {"y"}), (B, "deleted", {"x", PARTS})]
    reply = ask(library, "ListRecords", **DC)
    assert reply.headers == headers
    assert ask(library, "ListIdentifiers", **DC).headers == headers
    assert len(reply.find("//o:metadata")) == 2  # a deletion has none
    texts = [
        (element.tag.partition("}")[2], element.text)
        for element in reply.find("//o:record[2]/o:metadata/oai_dc:dc/*")
    ]
    assert texts == [
        ("title", "Title & <more>"),
        ("creator", "Somebody"),
        ("subject", "y"),
        ("description", "What it is"),
        ("date", "2020-02-29"),
        ("format", "text/html"),
        ("identifier", A),
        ("publisher", "P"),
        ("publisher", '"Q" & <R>'),
        ("language", "en"),
    ]


def test_lists_sets_of_tags(library):
    reply = ask(library, "ListSets")
    sets = dict(zip(reply.texts("//o:setSpec"), reply.texts("//o:setName")))
    assert sets == {"x": "x", "y": "y", PARTS: "two/parts"}
    for spec, identifiers in (("x", [B]), ("y", [A]), (PARTS, [B])):
        reply = ask(library, "ListIdentifiers", **DC, set=spec)
        assert reply.identifiers == identifiers
    assert ask(library, "ListRecords", **DC, set="z").error == "noRecordsMatch"


# What a deletion without tags has deleted was in no set that anybody knows.
def test_a_deletion_without_sets_is_in_each(news):
    post(news, change(A, tags=["x"]), change(B, "deleted"))
    assert ask(news, "ListIdentifiers", **DC, set="x").identifiers == [A, B]


def test_gets_single_records(library):
    for loc, status in ((A, None), (B, "deleted"), (C, None)):
        reply = ask(library, "GetRecord", identifier=loc, **DC)
        assert [header[:2] for header in reply.headers] == [(loc, status)]
        assert len(reply.find("//o:metadata")) == (not status)


@pytest.mark.parametrize(
    "error, arguments",
    [
        ("badVerb", {}),
        ("badVerb", {"verb": ""}),
        ("badVerb", {"verb": "identify"}),
        ("badVerb", {"verb": "</x>"}),
        ("badArgument", {"verb": "Identify", "set": "x"}),
        ("badArgument", {"verb": "Identify", "<b>": "x"}),
        ("badArgument", {"verb": "ListRecords"}),
        ("badArgument", {"verb": "ListIdentifiers", "from": "2020-01-01"}),
        ("badArgument", {"verb": "GetRecord", **DC}),
        ("badArgument", {"verb": "GetRecord", "identifier": A}),
        ("badArgument", {"verb": "ListSets", "set": "x"}),
        ("badArgument", {"verb": "ListRecords", **DC, "set": ""}),
        ("badArgument", {"verb": "ListRecords", **DC, "set": "a b"}),
        ("badArgument", {"verb": "ListRecords", **DC, "resumptionToken": "x"}),
        *(
            ("badArgument", {"verb": "ListRecords", **DC, name: text})
            for name in ("from", "until")
            for text in (
                *("", "yesterday", "2020", "2020-02", "2020-02-30", "20200201"),
                *("2020-02-01T10:00:00", "2020-02-01T10:00:00.5Z"),
                *("2020-02-01T10:00:00+01:00", "2020-02-01 10:00:00Z"),
                *("2020-02-01T25:00:00Z", "2458849", "now", "2020-02-01T10:00Z"),
            )
        ),
        (
            "badArgument",
            {
                "verb": "ListRecords",
                **DC,
                "from": "2020-01-01",
                "until": "2021-01-01T00:00:00Z",
            },
        ),
        (
            "badArgument",
            {"verb": "ListRecords", **DC, "from": "2021-01-01", "until": "2020-01-01"},
        ),
        ("cannotDisseminateFormat", {"verb": "ListRecords", "metadataPrefix": "marc"}),
        *(
            ("badArgument", {"verb": "ListRecords", "metadataPrefix": text})
            for text in ("", "a b", "oai_dc:", "ä", "&", "/")
        ),
        *(
            ("badArgument", {"verb": "ListRecords", **DC, "set": text})
            for text in (":", ":a", "a:", "a::b", "ä")
        ),
        ("badArgument", {"verb": "ListMetadataFormats", "identifier": ""}),
        (
            "cannotDisseminateFormat",
            {"verb": "GetRecord", "identifier": A, "metadataPrefix": "marc"},
        ),
        ("idDoesNotExist", {"verb": "GetRecord", "identifier": f"{A}/", **DC}),
        ("idDoesNotExist", {"verb": "GetRecord", "identifier": "<&\"'>", **DC}),
        ("noMetadataFormats", {"verb": "ListMetadataFormats", "identifier": B}),
        ("noRecordsMatch", {"verb": "ListRecords", **DC, "from": "9998-12-31"}),
        ("noRecordsMatch", {"verb": "ListRecords", **DC, "until": "1960-01-01"}),
        ("noRecordsMatch", {"verb": "ListRecords", **DC, "set": "unknown"}),
        ("badResumptionToken", {"verb": "ListRecords", "resumptionToken": ""}),
        ("badResumptionToken", {"verb": "ListRecords", "resumptionToken": 'a"],\\'}),
        ("badResumptionToken", {"verb": "ListSets", "resumptionToken": "1/2/3"}),
        ("", {"verb": "ListMetadataFormats"}),
        ("", {"verb": "ListMetadataFormats", "identifier": A}),
        ("", {"verb": "ListRecords", **DC, "from": "2020-02-29"}),
        ("", {"verb": "ListRecords", **DC, "from": "0000-01-01"}),
        ("", {"verb": "ListRecords", **DC, "until": "9999-12-31T23:59:59Z"}),
    ],
)
def test_errors_are_those_of_the_protocol(library, error, arguments):
    reply = ask(library, **arguments)
    assert reply.error == error
    # A request that is not understood is not repeated.
    repeated = dict(reply.find("o:request")[0].attrib)
    is_bad = error in ("badVerb", "badArgument")
    assert repeated == ({} if is_bad else arguments)
    assert reply.texts("o:request") == [f"{library.url}/oai"]


def test_an_argument_that_comes_twice_is_bad(library):
    for query, error in (
        ("verb=Identify&verb=Identify", "badVerb"),
        ("verb=GetRecord&identifier=a&identifier=a&metadataPrefix=oai_dc", "badArgument"),
    ):
        assert Reply(library.get(f"oai?{query}")).error == error


def test_a_set_without_tags_has_no_sets(news):
    post(news, change(A), change(B, "deleted"))
    assert ask(news, "ListSets").error == "noSetHierarchy"
    assert ask(news, "ListRecords", **DC, set="x").error == "noSetHierarchy"


def test_an_empty_set_has_no_records(news):
    assert ask(news, "ListRecords", **DC).error == "noRecordsMatch"
    assert not ask(news, "Identify").error
    post(news, change(A))
    assert listed(news) == [A]


# What XML cannot carry is no argument.
def test_arguments_are_text(news, broker):
    news.post()
    for query in ("verb=%01", "verb=Identify&set=%EF%BF%BE"):
        check_refused(news.get(f"oai?{query}"), 400, "no text of XML")
    check_refused(broker.post(f"{news.path}/oai", "verb=%zz", FORM), 400)


def later(stamp, seconds):
    at = datetime.datetime.fromisoformat(stamp) + datetime.timedelta(seconds=seconds)
    return at.isoformat().replace("+00:00", "Z")


# Both granularities include both ends. The source gives the times.
def test_windows_select_by_the_time_of_the_last_change(start_broker, faults):
    news = start_broker(env=faults.env).set()
    faults.set_clock(10 * DAY)
    news.post_change(A)
    first = ask(news, "GetRecord", identifier=A, **DC).stamps[0]
    stamps = [first, *(later(first, seconds) for seconds in (1, DAY, 2 * DAY))]
    faults.set_clock(20 * DAY)
    for loc, stamp in zip((B, C, D), stamps[1:]):
        news.post_change(loc, datetime=stamp)
    assert ask(news, "ListIdentifiers", **DC).stamps == stamps
    ends = ["", *(later(stamp, by) for stamp in stamps for by in (-1, 0, 1))]
    pairs = itertools.combinations_with_replacement(ends, 2)
    days = {(since[:10], until[:10]) for since, until in pairs}
    for since, until in [*days, *itertools.pairwise(ends), *zip(ends, ends)]:
        size = max(len(since), len(until))
        window = {"from_": since, "until": until}
        reply = ask(news, "ListIdentifiers", **DC, **{k: v for k, v in window.items() if v})
        expected = [
            loc
            for loc, stamp in zip((A, B, C, D), stamps)
            if since <= stamp[:size] <= (until or "9999")
        ]
        assert reply.identifiers == expected, window


# A resource that changes between two pages moves to the end of the list.
def test_a_list_meets_what_changes_meanwhile(news):
    news.post(3 * PAGE)
    changed = iter(
        [
            change("http://example.com/r/1", "updated"),  # it was listed
            change(f"http://example.com/r/{3 * PAGE}", "updated"),  # it was not
            change(f"http://example.com/r/{3 * PAGE - 1}", "deleted"),
        ]
    )
    names = listed(news, between=lambda: [post(news, one) for one in changed])
    assert len(names) == 3 * PAGE + 1
    last = [f"http://example.com/r/{i}" for i in (1, 3 * PAGE, 3 * PAGE - 1)]
    assert names[-3:] == last
    assert len(set(names)) == 3 * PAGE


def test_tokens_say_where_the_list_is(news):
    news.post(2 * PAGE + 1)
    replies = list(pages(news))
    assert [len(reply.identifiers) for reply in replies] == [PAGE, PAGE, 1]
    tokens = [reply.find("//o:resumptionToken")[0] for reply in replies]
    assert [token.get("cursor") for token in tokens] == ["0", str(PAGE), str(2 * PAGE)]
    assert tokens[-1].get("completeListSize") == str(2 * PAGE + 1)
    # It is a place, which does not expire.
    news.broker.stop()
    news.broker.restart()
    again = ask(news, "ListRecords", resumptionToken=replies[0].token)
    assert again.identifiers == replies[1].identifiers
    for verb in ("ListIdentifiers", "ListSets"):
        reply = ask(news, verb, resumptionToken=replies[0].token)
        assert reply.error == "badResumptionToken"


# A broker of a cluster whose copy is older than that of the broker which began the list
# would end it too soon.
def test_a_list_waits_for_what_another_broker_had(news):
    news.post(PAGE + 1)
    fields = ask(news, "ListIdentifiers", **DC).token.split("/")
    fields[5] = str(int(fields[5]) + DAY * 1000000)
    query = f"verb=ListIdentifiers&resumptionToken={'/'.join(fields)}"
    check_refused(news.get(f"oai?{query}"), 503, "another broker")


# It would also pass over what it has from the state, if it took that earlier.
def test_a_list_goes_on_where_the_state_was_taken_later(start_broker):
    news = start_broker("--retain-lists", "1", "--remove-grace", "0").set()
    news.post(PAGE + 1)
    # No entry is lost before a request has seen it, so the records stay.
    ask(news, "Identify")
    earliest = wait_retired(news, lambda: ask(news, "Identify"))
    token = ask(news, "ListIdentifiers", **DC).token.split("/")
    assert int(token[6]) < earliest
    token[2], token[6] = "0", str(earliest)
    arguments = {"verb": "ListIdentifiers", "resumptionToken": "/".join(token)}
    check_refused(news.get(f"oai?{urllib.parse.urlencode(arguments)}"), 503)
    assert len(ask(news, **arguments).identifiers) == PAGE
    assert int(ask(news, "ListIdentifiers", **DC).token.split("/")[6]) >= earliest


def test_a_page_has_so_many_bytes(news):
    texts = [str(i) + "x" * 4000 for i in range(PAGE)]
    post(news, *(change(f"http://example.com/{i}", summary=t) for i, t in enumerate(texts)))
    replies = list(pages(news))
    sizes = [len(etree.tostring(reply.root)) for reply in replies]
    assert len(sizes) == 2 and max(sizes) < 300000
    assert len({loc for reply in replies for loc in reply.identifiers}) == PAGE


def test_a_whole_list_has_no_token(library):
    assert not ask(library, "ListRecords", **DC).find("//o:resumptionToken")


def test_pages_of_sets_and_of_one_set(news):
    n = 2 * PAGE + 1
    post(
        news,
        *(change(f"http://example.com/{i}", tags=["all", f"t{i}"]) for i in range(n)),
    )
    names = [
        spec
        for page in pages(news, "ListSets")
        for spec in page.texts("//o:setSpec")
    ]
    assert sorted(names) == sorted(["all", *(f"t{i}" for i in range(n))])
    assert len(listed(news, set="all")) == n
    assert listed(news, set="t7") == ["http://example.com/7"]


def wait_retired(news, after_post=lambda: None):
    """Post until the log has lost all that it has now; where it begins then."""
    last = news.last()
    earliest = lambda: int(news.state()["earliest"].partition("-")[2])
    for text in ("x", "y"):
        news.post_change(A, "updated", summary=text)
        after_post()
        news.rotate()
    wait_for("retention", lambda: earliest() > last)
    return earliest()


# What the log has lost comes from the state, whenever the first harvester comes, and
# after every pause.
def test_lists_what_the_log_no_longer_has(start_broker):
    news = start_broker("--retain-lists", "1", "--remove-grace", "0").set()
    post(news, change(B, title="Lost with the log", tags=["x"], lastmod="2020-02-29"))
    post(news, change(C), change(D, "deleted"))
    for n in range(2):
        assert wait_retired(news) > 3
        news.broker.stop()  # whose memory has the entries still
        news.broker.restart()
        assert listed(news) == [B, C, A]
        assert ask(news, "ListIdentifiers", **DC, set="x").identifiers == [B]
        first = ask(news, "GetRecord", identifier=B, **DC)
        assert first.texts("//dc:date") == ["2020-02-29"]
        reply = ask(news, "Identify")
        assert reply.texts("//o:earliestDatestamp") == first.stamps
        assert reply.texts("//o:deletedRecord") == ["transient"]
    # Without a pause the records stay as they were, and deletions, too.
    post(news, change(C, "deleted"))
    assert [header[:2] for header in ask(news, "ListRecords", **DC).headers] == [
        (B, None),
        (A, None),
        (C, "deleted"),
    ]


# An entry gets its time before a reader can see it: so responseDate, from which on a
# harvester asks the next time, is some seconds ago, but not before the last entry.
def test_the_response_is_as_of_some_seconds_ago(start_broker, faults):
    news = start_broker(env=faults.env).set()
    news.post_change(A)
    stamp = ask(news, "ListRecords", **DC).stamps[0]
    faults.set_clock(DAY)
    before = int(time.time()) + DAY - 10
    response = ask(news, "Identify").texts("o:responseDate")[0]
    after = int(time.time()) + DAY - 10
    assert before <= datetime.datetime.fromisoformat(response).timestamp() <= after
    faults.set_clock(-DAY)
    assert ask(news, "Identify").texts("o:responseDate") == [stamp]


# A set that was removed and made again has nothing of the former one.
def test_a_new_set_has_records_of_its_own(library):
    assert len(listed(library)) == 3
    token = f"{library.state()['epoch']}/ListRecords/0/1/0/0/"
    library.delete()
    check_refused(library.get("oai?verb=Identify"), 410)
    post(library, *(change(D) for _ in range(9)))  # more than the former one had
    assert listed(library) == [D]
    reply = ask(library, "ListRecords", resumptionToken=token)
    assert reply.error == "badResumptionToken"


# The records follow from the log: a damaged file is made again, a check knows the file.
def test_a_damaged_file_is_made_again(library, run):
    broker = library.broker
    assert len(listed(library)) == 3
    broker.stop()
    run("tidingsd", "check", "--data", broker.data)
    for name in ("oai.db-wal", "oai.db-shm"):
        (library.folder / name).unlink(missing_ok=True)
    (library.folder / "oai.db").write_bytes(b"no database at all" * 1000)
    broker.restart()
    assert len(listed(library)) == 3


# Judges

# HTTP::OAI of Debian's libhttp-oai-perl, as its manual shows it; it follows tokens by
# itself, and asks again after 503.
HARVESTER = r"""
use strict;
use HTTP::OAI;
binmode(STDOUT, ":utf8");
my ($url, @window) = @ARGV;
my $h = HTTP::OAI::Harvester->new(baseURL => $url);
sub done {
    my ($r) = @_;
    die $r->code, $r->message unless $r->can("errors");
    print "error|$_\n" for map { $_->code } $r->errors;
    die $r->message if $r->is_error;
}
my $i = $h->Identify;
done($i);
print join("|", "repository", $i->repositoryName, $i->deletedRecord), "\n";
my $f = $h->ListMetadataFormats;
done($f);
while (my $x = $f->next) { print "format|", $x->metadataPrefix, "\n"; }
done($h->ListSets(onRecord => sub { print "set|", $_[0]->setSpec, "\n"; }));
done($h->ListIdentifiers(metadataPrefix => "oai_dc", @window,
    onRecord => sub { print "identifier|", $_[0]->identifier, "\n"; }));
done($h->ListRecords(metadataPrefix => "oai_dc", @window, onRecord => sub {
    my ($x) = @_;
    my @titles = $x->metadata
        ? map { $_->textContent }
            $x->metadata->dom->findnodes('.//*[local-name() = "title"]') : ();
    print join("|", "record", $x->identifier, $x->header->status || "", @titles),
        "\n";
}));
my $g = $h->GetRecord(identifier => "http://example.com/1",
                      metadataPrefix => "oai_dc");
done($g);
print "got|", $g->next->identifier, "\n";
"""


def has_http_oai():
    perl = ["perl", "-MHTTP::OAI", "-e1"]
    return shutil.which("perl") and not subprocess.run(perl, capture_output=True).returncode


def harvest(news, *window):
    """What HTTP::OAI gets: the lines of each kind."""
    perl = ["perl", "-e", HARVESTER, f"{news.url}/oai", *window]
    ran = subprocess.run(perl, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    lines = collections.defaultdict(list)
    for line in ran.stdout.splitlines():
        kind, _, rest = line.partition("|")
        lines[kind].append(rest)
    return lines


@pytest.mark.skipif(not has_http_oai(), reason="libhttp-oai-perl is not installed")
def test_debians_harvester_gets_everything(news):
    n = 2 * PAGE + 7
    locs = [f"http://example.com/{i}" for i in range(1, n + 1)]
    news.change(title="B\u00fccher & mehr")
    post(
        news,
        *(change(loc, title=f"\u00e9 <{loc}>", tags=["x", "y"]) for loc in locs),
    )
    post(news, change(locs[0], "updated", title="Last", tags=["z"]))
    post(news, change(locs[1], "deleted"))
    order = [*locs[2:], *locs[:2]]
    lines = harvest(news)
    assert lines["repository"] == ["B\u00fccher & mehr|persistent"]
    assert lines["format"] == ["oai_dc"]
    assert lines["set"] == ["x", "y", "z"]
    assert lines["identifier"] == order
    assert lines["record"] == [
        *(f"{loc}||\u00e9 <{loc}>" for loc in locs[2:]),
        f"{locs[0]}||Last",
        f"{locs[1]}|deleted",
    ]
    assert lines["got"] == ["http://example.com/1"]
    assert not lines["error"]
    assert harvest(news, "set", "z")["identifier"] == [locs[0]]
    stamp = ask(news, "GetRecord", identifier=locs[0], **DC).stamps[0]
    assert harvest(news, "from", stamp)["identifier"][-2:] == locs[:2]
    # Nothing new is an error of the protocol, twice: of the two lists.
    assert harvest(news, "from", "9999-12-31")["error"] == ["noRecordsMatch"] * 2


# Ours, `tidings harvest`: every record counts, and the next look gets what is new.
def test_our_harvester_gets_everything(news, broker, run, tmp_path):
    target = broker.set()
    locs = [f"http://example.com/{i}" for i in range(2 * PAGE + 7)]
    post(news, *(change(loc, title="A title", tags=["x"]) for loc in locs))
    post(news, change(locs[0], "deleted"), change(locs[1], "updated"))

    def look():
        url = f"{news.url}/oai?verb=ListRecords"
        command = ("tidings", "harvest", url, target.url, "--once")
        return run(*command, "--state", tmp_path / "state").output()

    held = len(locs) - 1
    counted = f"{held} held + 1 deleted + 0 could not be read = {held + 1}"
    line = look()
    assert ": OAI-PMH, complete as of " in line
    assert line.endswith(f"{counted}; the provider counts {held + 1}")
    assert {e["loc"] for e in entries_of(target)} == set(locs[1:])
    assert target.last() == held

    post(news, change(A), change(locs[2], "deleted"), change(locs[3], "updated"))
    line = look()
    assert "1 added, 1 changed, 1 deleted" in line
    assert [(e["change"], e["loc"]) for e in entries_of(target)[held:]] == [
        ("created", A),
        ("updated", locs[3]),
        ("deleted", locs[2]),  # no later state came
    ]


def entries_of(target):
    return target.get("changes?after=0", accept=JSON).json()["changes"]


# The work that a large set is at first takes several turns of the harvester.
def test_a_large_set_is_answered_after_some_turns(news):
    n = 40000
    post(news, *(change(f"http://example.com/{i}") for i in range(n)))
    assert news.get("oai?verb=Identify").status == 200
    reply = ask(news, "ListIdentifiers", **DC)
    assert reply.identifiers[0] == "http://example.com/0"
    reply = ask(news, "GetRecord", identifier=f"http://example.com/{n - 1}", **DC)
    assert not reply.error
