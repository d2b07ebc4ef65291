"""Words and data of a change: by every way out as they were posted, left out where a
reader or a set wants no data, and never in what describes a resource."""

import json

import pytest

from tidings_test import hub
from tidings_test.broker import is_sanitized
from tidings_test.content import multipart
from tidings_test.documents import TD, Document
from tidings_test.http import JSON, NDJSON, XML, check_refused
from tidings_test.mqtt import bridge_config
from tidings_test.sets import change

LOC = "http://example.com/tides"
WORDS = {
    "title": 'High <tide> at "6"',
    "summary": "Two metres & more\nuntil noon",
    "author": "Åsa",
    "data": {"b": 3.50, "a": [1e3, -0.0, [], {"é": '<"&\\'}], "when": None},
}
NAMES = ("title", "summary", "author", "data")
GIVEN = change(LOC, "updated", **WORDS)


def words_of(members):
    return {name: members[name] for name in NAMES if name in members}


def words_in(document):
    """Those of its only entry, by the XML."""
    (url,) = document.all("/s:urlset/s:url")
    found = {name: url.findtext(TD + name) for name in NAMES if url.find(TD + name) is not None}
    if "data" in found:
        found["data"] = json.loads(found["data"])
    return found


def words_read(text, type):
    if type == JSON:
        (one,) = json.loads(text)["changes"]
        return words_of(one)
    document = Document(text)
    document.check_valid()
    return words_in(document)


def read_ways(news, query=""):
    """The words as each way of a reader has them."""
    for type, form in ((XML, "xml"), (JSON, "json")):
        stream = news.websocket(f"after=0&{query}", form)
        stream.news()
        stream.leave()
        yield f"WebSocket {form}", words_read(stream.text, type)
        for wait in ("", "&wait=1"):
            page = news.get(f"changes?after=0{wait}&{query}", accept=type)
            yield f"memory {form}{wait}", words_read(page.body, type)
    events = news.events(f"after=0&{query}")
    yield "events", words_of(events.news().raw["changes"][0])
    events.leave()


def check_python(news):
    from tidings_test.python import tidings

    (taken,) = tidings.follow(news.url, position="0", until_caught_up=True)
    assert (taken.title, taken.summary, taken.author) == tuple(WORDS[n] for n in NAMES[:3])
    assert taken.data == WORDS["data"]
    (taken,) = tidings.follow(news.url, position="0", until_caught_up=True, data=False)
    assert (taken.title, taken.data) == (WORDS["title"], None)


# One entry, by all ways out.
def test_words_come_out_by_every_way(start_broker, mosquitto, callbacks, tmp_path, run):
    config = bridge_config(mosquitto, "[mqtt a]", "out = news", "[mqtt b]", "out = news", "form = xml", "prefix = xml")
    (tmp_path / "tidingsd.ini").write_text(config)
    heard = mosquitto.hear("#")
    broker = start_broker("--config", tmp_path / "tidingsd.ini", *hub.QUICK, *hub.LOOPBACK)
    news = broker.set("news")
    assert news.put(content="inline").status == 201
    callback = callbacks.join(news)
    bare = callbacks.join(news, data="no")
    events = callbacks.join(news, form="cloudevents", data="no")
    content = [(LOC, "text/plain", b"2.10 m")]
    news.receipt(news.send(*multipart([GIVEN], content)))

    assert words_in(Document(callback.deliveries.wait(1).body)) == WORDS
    assert words_in(Document(bare.deliveries.wait(1).body)) == {
        name: WORDS[name] for name in NAMES[:3]
    }
    (event,) = json.loads(events.deliveries.wait(1).body)
    assert words_of(event["data"]) == {name: WORDS[name] for name in NAMES[:3]}
    for topic, type in (("tidings/news/notifications", JSON), ("xml/news/notifications", XML)):
        assert words_read(heard.wait(topic).payload, type) == WORDS, topic
    for way, words in read_ways(news):
        assert words == WORDS, way
    for way, words in read_ways(news, "data=no"):
        assert words == {name: WORDS[name] for name in NAMES[:3]}, way
    assert words_in(news.changelist()) == WORDS

    follow = ("tidings", "follow", news.url, "--from-start", "--count", "1")
    assert words_of(json.loads(run(*follow, "--format", "json").output())) == WORDS
    assert "<td:title>High &lt;tide&gt;" in run(*follow, "--format", "xml").output()
    (line,) = run(*follow).out
    assert line.endswith(f"updated {LOC}")
    told = run(*follow, "--format", "json", "--data", "no", "--transport", "poll")
    assert "data" not in json.loads(told.output())
    if not is_sanitized():  # where there is no package for Python
        check_python(news)

    page = news.get("changelist.xml", accept="text/html").text
    assert "Title High &lt;tide&gt; at &quot;6&quot;" in page
    assert "Data {&quot;b&quot;:3.5,&quot;a&quot;:[1000.0,-0.0,[],{&quot;é&quot;:" in page

    # They are of the event: what describes the resource has none.
    news.rotate()
    news.wait_dumps(1)
    assert words_in(news.changelist(1)) == WORDS
    package = news.get_url(news.get("changedump.xml").document().entries[0].loc)
    manifest = news.get_url(
        news.get("changedump.xml").document().all("//s:url/rs:ln[@rel='contents']")[0].get("href")
    ).document()
    assert package.status == 200 and words_in(manifest) == WORDS
    news.build("resourcelist")
    news.build("resourcedump")
    for path in ("resourcelist.xml", "resourcedump.xml"):
        document = news.get(path).document()
        document.check_valid()
        assert TD not in str(document.all("/s:urlset/s:url/*")) and "tide&gt;" not in document.bytes.decode()


# In every format; an entry of words alone is that entry, and one without has none.
@pytest.mark.parametrize("type", (JSON, NDJSON, XML))
def test_words_are_taken_in_every_format(news, type):
    body = json.dumps(GIVEN)
    if type == XML:
        news.receipt(news.send(GIVEN))
        body = news.get("changelist.xml").body
    news.receipt(news.send(body, type))
    (*_, last) = news.page("after=0").raw["changes"]
    assert words_of(last) == WORDS


# Stored as it was posted: members and numbers in their order and spelling.
def test_data_stays_as_it_was_posted(news):
    data = '{"z":1.50,"a":1E400,"z2":[true,false,null,"\\u00e5"],"n":12345678901234567890123}'
    news.receipt(news.send('{"loc":"%s","change":"created","data": %s }' % (LOC, data)))
    text = news.get("changes?after=0", accept=JSON).text
    assert '"data":' + data.replace("\\u00e5", "å") + ',"seq":1' in text


# Refusals name the member, the limit and what was found.
def test_words_are_refused_by_name(news):
    for words, part in (
        ({"title": "x" * 501}, "title: 501 bytes, more than 500"),
        ({"summary": "å" * 2049}, "summary: 4098 bytes, more than 4096"),
        ({"author": "x" * 501}, "author: 501 bytes, more than 500"),
        ({"data": "x" * 65535}, "data: 65537 bytes, more than 65536"),
        ({"title": "a\u0007"}, "title: a character that XML cannot carry"),
        ({"data": "\u0000"}, "data: a character that XML cannot carry"),
        ({"title": ["a"]}, "title: "),
        ({"data": "&" * 60000}, "bytes of XML, more than"),
    ):
        check_refused(news.send(change(LOC, **words)), 422, part)
    row = {"loc": LOC, "title": "a"}
    answer = news.put_resources(json.dumps(row), NDJSON)
    check_refused(answer, 422, "title: of a change, not of a resource")
    assert news.last() == 0


# A list closes by its bytes, data included, before it has its entries.
def test_data_counts_in_the_limits_of_a_list(broker):
    news = broker.set().create(rotate_bytes=524288)
    for _ in range(3):
        news.receipt(news.send([change(LOC, data="x" * 60000) for _ in range(6)]))
    assert news.state()["lists"]["closed"] == 2
    document = news.changelist(1)
    document.check_valid()
    assert 480000 < len(document.bytes) <= 524288


# A publisher who wants none: refused by the name of the setting, and only data.
def test_a_set_can_forbid_data(broker, run):
    news = broker.set()
    run("tidings", "set", "create", news.url, "--no-data")
    assert news.state()["settings"]["noData"] is True
    refused = news.send([change(LOC, title="a"), GIVEN])
    check_refused(refused, 422, f'the set "{news.name}" takes none, as its setting noData says')
    news.receipt(news.send(change(LOC, title="a")))
    assert news.change(no_data=None).status == 200
    news.receipt(news.send(GIVEN))
    assert [words_of(one) for one in news.page("after=0").raw["changes"]] == [
        {"title": "a"},
        WORDS,
    ]


# tidings publish makes them of options; a harvest carries them on.
def test_words_go_on_to_another_set(broker, run, tmp_path):
    one, two = broker.set(), broker.set()
    words = ("--title", "A", "--summary", "B", "--author", "C", "--data", '{"price": 3.50}')
    run("tidings", "publish", one.url, LOC, "--change", "created", *words)
    run("tidings", "harvest", one.url, two.url, "--once", "--state", tmp_path / "state")
    for news in (one, two):
        (told,) = json.loads(news.get("changes?after=0", accept=JSON).text)["changes"]
        assert words_of(told) == {"title": "A", "summary": "B", "author": "C", "data": {"price": 3.5}}
    bad = ("--change", "created", "--data", "{price:1}")
    assert "--data is JSON" in run("tidings", "publish", one.url, LOC, *bad, status=2).errors()


# A resource whose changes differ in words alone is the same resource to an upload.
def test_words_make_no_difference_to_an_upload(news):
    news.receipt(news.send(GIVEN))
    row = json.dumps({"loc": LOC}) + "\n"
    for _ in range(2):
        assert news.put_resources(row, NDJSON).status in (200, 202)
    news.build("resourcelist")
    assert news.last() == 1


def test_nobody_may_ask_for_half_of_the_data(news):
    check_refused(news.get("changes?after=0&data=yes"), 400, 'data: only "no" is known')
