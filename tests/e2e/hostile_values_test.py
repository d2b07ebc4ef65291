"""What others give is data. Each row of VALUES has bytes that mean something in a header,
JSON, XML, HTML, SQL, a path, a shell or a log; a publisher gives all of them in every
place of an entry, with content. Each row of PLACES is a place to which the broker or the
client writes them, and its reader: a reader of that language finds the values as they
were given, and nothing more."""

import html.parser
import json
import os
import re
import urllib.parse
import xml.etree.ElementTree

import pytest

from tidings_test import hub
from tidings_test.content import hashes, multipart
from tidings_test.documents import Document
from tidings_test.http import JSON, XML
from tidings_test.mqtt import QUICK
from tidings_test.sets import change
from tidings_test.waiting import wait_for

VALUES = [
    '"quote"',
    "back\\slash\\",
    'a>;rel="x",<http://evil.example/>;rel="hub',
    "'x';DROP/**/TABLE/**/entries;--",
    "</loc></url><url><loc>http://evil.example/",
    "<script>alert(1)</script>",
    '"onmouseover="alert(1)',
    "&amp;&lt;&#10;]]>",
    "$(touch${IFS}evil)`touch${IFS}evil`;touch${IFS}evil|&",
    "%0d%0aX-Evil:%201",
    "../../../../evil",
    "%2e%2e/%2e%2e/%2fevil",
    "\u202egpj.exe\u2028\ufeff",
    "{evil}^|%25",
    '%22%5C%3E"',
    "\u00e9\U0001f600",
    "-rf",
    ",evil=1&x=y#z?",
]
LOCS = [f"http://example.com/{value}" for value in VALUES]
LOGS = ("--log-level", "debug", "--log-format", "json")
CONTENT = [f"content {i}\n".encode() for i in range(len(VALUES))]


def entry(i):
    text = f"{VALUES[i]} and more: {VALUES[i]}"
    return change(
        LOCS[i],
        type="text/plain",
        tags=[f"t{i}"],
        title=text,
        summary=text,
        author=text,
        data={VALUES[i]: [VALUES[i]]},
        attributes=[{"ns": "urn:example", "name": "a", "value": text}],
        links=[{"rel": "describedby", "href": LOCS[i]}],
        **hashes(CONTENT[i]),
    )


@pytest.fixture(scope="module")
def told(_shared_brokers, module_path):
    """A broker of which one set has the values: shared, for no test changes it."""
    from tidings_test.broker import Broker

    directory = module_path / "told"
    directory.mkdir()
    broker = Broker(directory, ("--access-log", directory / "access", *LOGS))
    news = broker.set("news").create(content="inline")
    changes = [entry(i) for i in range(len(VALUES))]
    parts = [(loc, "text/plain", body) for loc, body in zip(LOCS, CONTENT)]
    assert news.receipt(news.send(*multipart(changes, parts))).last == len(VALUES)
    wait_for("all entries", lambda: news.state()["content"]["last"] == len(VALUES))
    yield news
    broker.end()


# Readers: the locs of an answer


def locs_of_json(answer):
    facts = answer.json()
    return locs_of_changes(facts.get("changes", facts.get("resources")))


def locs_of_changes(found):
    for one in found:
        i = LOCS.index(one["loc"])
        text = f"{VALUES[i]} and more: {VALUES[i]}"
        assert one.get("title", text) == text
        assert one.get("data", {VALUES[i]: [VALUES[i]]}) == {VALUES[i]: [VALUES[i]]}
        assert [link["href"] for link in one["links"] if link["rel"] == "describedby"] == [
            LOCS[i]
        ]
    return [one["loc"] for one in found]


def locs_of_xml(answer):
    document = answer.document()
    document.check_valid()
    return document.locs()


def locs_of_lines(answer):
    lines = [json.loads(line) for line in answer.text.splitlines()]
    return [one["loc"] for one in lines if "loc" in one]


def locs_of_oai(answer):
    root = xml.etree.ElementTree.fromstring(answer.body)
    return [e.text for e in root.iter("{http://purl.org/dc/elements/1.1/}identifier")]


class Page(html.parser.HTMLParser):
    """The links of a page, and its elements."""

    def __init__(self, answer):
        super().__init__(convert_charrefs=True)
        self.hrefs, self.names, self.attributes, self.text = [], set(), set(), ""
        self.feed(answer.body.decode())
        self.close()

    def handle_starttag(self, name, attributes):
        self.names.add(name)
        self.attributes |= {name for name, _ in attributes}
        self.hrefs += [value for name, value in attributes if name == "href"]

    def handle_data(self, data):
        self.text += data


def locs_of_page(answer):
    page = Page(answer)
    assert "script" not in page.names, page.names
    assert not any(name.startswith("on") for name in page.attributes)
    assert all(not href.startswith(("javascript:", "data:")) for href in page.hrefs)
    return [loc for loc in LOCS if loc in page.hrefs or loc in page.text]


PLACES = [
    ("changes?after=0", JSON, locs_of_json),
    ("changes?after=0", XML, locs_of_xml),
    ("changelist.xml", None, locs_of_xml),
    ("changelist.xml", "text/html", locs_of_page),
    ("resources", JSON, locs_of_json),
    ("resources", XML, locs_of_xml),
    ("oai?verb=ListRecords&metadataPrefix=oai_dc", None, locs_of_oai),
]


@pytest.mark.parametrize("path, accept, read", PLACES)
def test_documents_have_the_values_as_they_are(told, path, accept, read):
    answer = wait_for(
        "an answer",
        lambda: (a := told.get(path, **({"accept": accept} if accept else {}))).status != 503
        and a,
    )
    assert answer.status == 200, answer
    check_head(answer)
    assert sorted(set(read(answer)) & set(LOCS)) == sorted(LOCS)
    assert len(read(answer)) == len(LOCS)


def check_head(answer):
    """No field is there that a value has made, and each link is one of the broker's."""
    assert not answer["X-Evil"]
    for relations, target in links(answer["Link"] or ""):
        assert "evil" not in urllib.parse.urlsplit(target).netloc
        assert not relations & {"hub", "x"} or "/hub" in target


LINK = re.compile(r' *<([^<>"\\]*)>((?: *; *\w+ *= *"[^"\\]*")*) *(?:,|$)')


def links(text):
    """[(relations, target)]; the text has to be nothing else."""
    found, at = [], 0
    while at < len(text.rstrip()):
        match = LINK.match(text, at)
        assert match, text[at:]
        relations = re.findall(r'rel *= *"([^"]*)"', match[2])
        assert len(relations) == 1
        found.append((set(relations[0].split()), match[1]))
        at = match.end()
    return found


def original(loc):
    """The URI of a loc, with what no URI has as escapes (RFC 3987, section 3.1)."""
    return urllib.parse.quote(loc, safe="!#$%&'()*+,/:;=?@[]~")


# RFC 7089, RFC 8288: what a memento, its TimeGate and its TimeMaps say is theirs, and
# each address in them leads back to the resource.
@pytest.mark.parametrize("i", range(len(VALUES)), ids=range(len(VALUES)))
def test_versions_have_links_of_the_broker_alone(told, i):
    quoted = urllib.parse.quote(LOCS[i], safe="")
    as_json = told.get(f"timemap/json/{quoted}")
    facts = as_json.json()
    assert facts["original_uri"] == LOCS[i]
    [memento] = [one["uri"] for one in facts["mementos"]["list"]]
    gate, maps = facts["timegate_uri"], facts["timemap_uri"]
    expected = {
        ("original", original(LOCS[i])),
        ("timegate", gate),
        ("timemap", maps["link_format"]),
    }
    content, redirect = told.get_url(memento), told.get(f"timegate/{quoted}")
    assert content.body == CONTENT[i]
    for answer in (content, redirect):
        check_head(answer)
        said = {
            (relation, target)
            for relations, target in links(answer["Link"])
            for relation in relations - {"first", "last"}
        }
        assert said - {("memento", memento)} - of_set(told, said) == expected
    assert redirect["Location"] == memento
    body = told.get_url(maps["link_format"]).body.decode()
    found = {(" ".join(sorted(rel)), to) for rel, to in links(body)}
    assert found == {
        ("original", original(LOCS[i])),
        ("timegate", gate),
        ("self", maps["link_format"]),
        ("first last memento", memento),
    }
    for url in (gate, maps["link_format"], maps["json_format"]):
        assert url.isascii() and "#" not in url
        assert told.get_url(url).status in (200, 302), url
    assert told.get_url(maps["json_format"]).json() == facts


def of_set(told, said):
    return {one for one in said if one[0] == "resourcesync"} | {
        one for one in said if one[0] in ("hub", "self") and one[1].startswith(told.broker.url)
    }


# A report is a harvester's, and all who read the set read it.
def test_a_report_has_its_texts_as_they_are(told):
    for value in VALUES:
        source, text = f"http://example.com/{value}", f"{value}\n{value}"
        report = {"source": source, "not_complete": text, "left_out_example": text}
        assert told.put_harvest(**report).status == 204
        for answer in (told.get("harvest"), told.get(accept=JSON)):
            facts = answer.json().get("harvest", answer.json())
            assert [facts[name] for name in report] == list(report.values())
        told.broker.metrics()


# Each value is in requests that are refused, and in those that are logged.
def test_refusals_and_logs_stay_what_they_are(told):
    for value in VALUES:
        quoted = urllib.parse.quote(value, safe="")
        for path in (f"timegate/{quoted}", f"changes?after={quoted}", f"content/{quoted}"):
            answer = told.get(path, user_agent=quoted)
            assert 400 <= answer.status < 500
            check_head(answer)
            assert answer.json()["status"] == answer.status
        for body in ([{"loc": value}], [{"loc": "http://e.example/", value: 1}]):
            answer = told.send(body)
            assert answer.status == 422 and answer.json()["detail"]
    lines = list(told.broker.process.err) + (told.broker.directory / "access").read_text().split("\n")
    for line in filter(None, lines):
        assert isinstance(json.loads(line)["time"], str)


# Server-sent events end at a line end, frames of a WebSocket do not: both have JSON or XML.
@pytest.mark.parametrize("way", ["websocket json", "websocket xml", "events"])
def test_streams_have_the_values_as_they_are(told, way):
    way, _, form = way.partition(" ")
    stream = told.websocket("after=0", form) if form else told.events("after=0")
    text = stream.read_text()
    while b"example.com" not in text:  # a heartbeat
        text = stream.read_text()
    stream.leave()
    if form == "xml":
        found = Document(text.decode()).locs()
    else:
        found = [one["loc"] for one in json.loads(text)["changes"]]
    assert found == LOCS


# Messages to others: MQTT and webhooks


def locs_of_events(text):
    """Of one event of CloudEvents, or of an array of them."""
    events = json.loads(text)
    events = events if isinstance(events, list) else [events]
    locs = locs_of_changes([event["data"] for event in events])
    assert [event["subject"] for event in events] == locs
    return locs


MESSAGES = {
    "json": (JSON, lambda text: locs_of_changes(json.loads(text)["changes"])),
    "xml": (XML, lambda text: Document(text.decode()).locs()),
    "cloudevent": ("application/cloudevents+json", locs_of_events),
    "cloudevents": ("application/cloudevents-batch+json", locs_of_events),
}


def test_mqtt_publishes_the_values_as_they_are(mosquitto, start_bridge):
    hearer = mosquitto.hear("#")
    broker = start_bridge(
        mosquitto,
        "[mqtt json]\nout = *\nprefix = json\npublish = both",
        "[mqtt xml]\nout = *\nprefix = xml\npublish = both\nform = xml",
    )
    news = broker.set("news").create()
    news.receipt(news.send([entry(i) for i in range(len(VALUES))]))
    for form in ("json", "xml"):
        type, read = MESSAGES[form]
        hearer.wait(f"{form}/news/changes/created", len(VALUES))
        for topic in (f"{form}/news/notifications", f"{form}/news/changes/created"):
            heard = hearer.on(topic)
            assert [loc for one in heard for loc in read(one.payload)] == LOCS
            for one in heard:
                assert one.type == type
                assert set(one.properties) == {"set", "epoch", "after", "last", "from", "until"}
    topics = {message.topic.partition("/")[2] for message in hearer.messages}
    assert topics <= {"news/notifications", "news/changes/created", "news/position", "status"}


# What is rejected is a stranger's text, and so are its topic and its key.
def test_mqtt_rejects_the_values_as_they_are(mosquitto, start_bridge):
    broker = start_bridge(mosquitto, QUICK, "in = feed/+ -> +", options=LOGS)
    mosquitto.wait_subscription("feed/+")
    rejected, teller = mosquitto.hear("a/rejected").messages, mosquitto.tell()
    for value in VALUES:
        name = re.sub("[/+#]", "|", value)
        teller.say(f"feed/{name}", json.dumps([{"loc": value}]), type=JSON, key=value)
        facts = json.loads(rejected.next().payload)
        assert (facts["topic"], facts["set"]) == (f"feed/{name}", name)
        assert facts.get("key", value) == value
    broker.wait_said("a message is rejected")
    for line in list(broker.process.err):
        assert isinstance(json.loads(line)["time"], str)


FIELDS = {
    *("host", "user-agent", "content-type", "content-length", "link", "tidings-delivery"),
    *("x-hub-signature", "accept", "accept-encoding", "connection"),
}


@pytest.mark.broker(*hub.QUICK)
@pytest.mark.parametrize("form", MESSAGES)
def test_deliveries_have_the_values_as_they_are(news, callbacks, form):
    type, read = MESSAGES[form]
    callback = callbacks.join(news, form=form, secret="secret")
    news.receipt(news.send([entry(i) for i in range(len(VALUES))]))
    hub.wait_head(news, callback)
    assert [loc for one in callback.deliveries for loc in read(one.body)] == LOCS
    for delivery in callback.deliveries:
        check_delivery(delivery, news)
        assert delivery["Content-Type"] == type


def check_delivery(delivery, of_set):
    assert {name.lower() for name, _ in delivery.headers} <= FIELDS
    said = {(" ".join(relations), to) for relations, to in links(delivery["Link"])}
    assert said == {("hub", hub.url(of_set.broker)), ("self", of_set.topic)}


# A subscriber gives a filter, and the query of its callback, which has escapes alone.
@pytest.mark.broker(*hub.QUICK)
def test_subscriptions_have_the_values_as_they_are(news, callbacks):
    each = []
    for i, loc in enumerate(LOCS):
        target = f"/cb/{i}?{urllib.parse.quote(VALUES[i], safe='&=%')}"
        each.append(callbacks.join(news, target, prefix=loc))
    news.receipt(news.send([entry(i) for i in range(len(VALUES))]))
    for loc, callback in zip(LOCS, each):
        hub.wait_head(news, callback)
        [delivery] = callback.deliveries
        assert MESSAGES["xml"][1](delivery.body) == [loc]
        assert delivery.target == callback.target
        check_delivery(delivery, news)


# The command-line client

PREFIXES = "<a xmlns:rs='urn:rs' xmlns:td='urn:td'>{}</a>"


def test_the_client_prints_values_as_data(told, run):
    lines = run("tidings", "follow", told.url, "--from-start", "--until-caught-up", "--format", "json").out
    found = [json.loads(line) for line in lines]
    assert [one["loc"] for one in found if "loc" in one] == LOCS
    text = run("tidings", "follow", told.url, "--from-start", "--until-caught-up").out
    assert len([line for line in text if "http://example.com/" in line]) == len(LOCS)
    lines = run(
        *("tidings", "follow", told.url, "--from-start", "--until-caught-up", "--format", "xml")
    ).out
    roots = [xml.etree.ElementTree.fromstring(PREFIXES.format(line)) for line in lines]
    assert [root.find("url/loc").text for root in roots] == LOCS


def test_the_client_runs_no_value(told, run, tmp_path):
    command = 'printf "%s\\n" "$TIDINGS_LOC" >> seen'
    run(
        *("tidings", "follow", told.url, "--from-start", "--until-caught-up"),
        *("--exec", command),
        cwd=tmp_path,
    )
    assert (tmp_path / "seen").read_text()[:-1].split("\n") == LOCS
    assert os.listdir(tmp_path) == ["seen"]


def test_a_mirror_stays_in_its_directory(told, run, tmp_path):
    mirror = tmp_path / "outer" / "mirror"
    mirror.parent.mkdir()
    run("tidings", "sync", told.url, mirror, "--until-caught-up", status=None)
    assert os.listdir(mirror.parent) == ["mirror"]
    assert not [path for path in tmp_path.rglob("evil*") if mirror not in path.parents]
