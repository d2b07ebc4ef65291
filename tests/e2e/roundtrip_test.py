"""Everything that an entry can say (Z39.99-2017 sections 7 and 14, foreign attributes,
tags), posted in every format, is the same in everything that can be read; and each of
these, posted again, is the same entries. The unit test proto/roundtrip has all the
spellings of each format."""

import gzip
import json

import pytest
from lxml import etree

from tidings_test.documents import NAMESPACES, RS, TD, Document, S
from tidings_test.http import JSON, NDJSON, XML, check_refused

MD5 = "d41d8cd98f00b204e9800998ecf8427e"
SHA1 = "da39a3ee5e6b4b0d3255bfef95601890afd80709"
SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
HASHES = {"sha-256": SHA256, "md5": MD5, "sha-1": SHA1}

X = "urn:foreign:x"
Y = "http://example.org/y?a=1&b=%20#f"
LANG = "http://www.w3.org/XML/1998/namespace"

EXAMPLE = "http://example.com"

# Members of JSON that are elements in XML, or attributes of ours.
ELEMENTS = ("loc", "lastmod", "changefreq", "priority")
SAID = ("title", "summary", "author", "data")
OURS = {"seq": TD + "seq", "sourceDatetime": TD + "datetime"}


def foreign(*attributes):
    names = ("ns", "name", "value")
    return {"attributes": [dict(zip(names, values)) for values in attributes]}


def link(rel, href, **more):
    return {"rel": rel, "href": href, **more}


# Posted members in JSON, and the members that are read, if they differ.
TERMS = [({"change": kind}, None) for kind in ("created", "updated", "deleted")]

# Every precision of W3C Datetime; the broker serves dates as dates, and times complete
# and in UTC.
LASTMODS = {
    "2000": "2000-01-01",
    "2000-02": "2000-02-01",
    "2000-02-29": "2000-02-29",
    "2000-02-29T23:59Z": "2000-02-29T23:59:00Z",
    "2000-02-29T23:59-00:30": "2000-03-01T00:29:00Z",
    "2000-02-29T23:59:58Z": "2000-02-29T23:59:58Z",
    "2000-03-01T05:29:58+05:30": "2000-02-29T23:59:58Z",
    "2000-02-29T23:59:58.5Z": "2000-02-29T23:59:58.5Z",
    "2000-02-29T23:59:58.123456Z": "2000-02-29T23:59:58.123456Z",
    "2000-02-29T23:59:58.1000000Z": "2000-02-29T23:59:58.1Z",
    "0000-01-01T00:00:00Z": "0000-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999Z": "9999-12-31T23:59:59.999999Z",
}
TERMS += [({"lastmod": given}, {"lastmod": read}) for given, read in LASTMODS.items()]

WORDS = ("always", "hourly", "daily", "weekly", "monthly", "yearly", "never")
TERMS += [({"changefreq": word}, None) for word in WORDS]
TERMS += [({"priority": number}, None) for number in (0.0, 0.5, 0.125, 1.0, 1)]

TERMS += [
    ({"hash": {"md5": MD5}}, None),
    ({"hash": {"sha-1": SHA1}}, None),
    ({"hash": {"sha-256": SHA256}}, None),
    ({"hash": HASHES}, None),
    ({"hash": {"sha256": SHA256}}, {"hash": {"sha-256": SHA256}}),
    ({"hash": {"sha1": SHA1}}, {"hash": {"sha-1": SHA1}}),
    ({"length": 0}, None),
    ({"length": 9223372036854775807}, None),
    ({"type": 'application/vnd.api+json; charset="utf-8"'}, None),
    ({"encoding": "gzip"}, None),
    ({"encoding": "br, gzip"}, None),
    # Foreign attributes, in order
    (foreign((X, "one", "1"), (Y, "one", "2"), (LANG, "lang", "sv")), None),
    (foreign((X, "two", ""), ("urn:foreign:ns1", "one", "3")), None),
    # Characters to be escaped in XML or JSON; white space and line ends, which readers
    # of XML replace; characters beyond the BMP
    (foreign((X, "v", "&<>\"'&amp; \\ /")), None),
    (foreign((X, "v", " \t\n\r  \x7f\x85\u2028 ")), None),
    (foreign((X, "v", "🌊🌊\ufffd\U0010fffd\ufeff")), None),
    # Of our own namespace, tags alone are taken.
    ({"tags": ["tide", "north-sea", "&å"]}, None),
    ({"seq": 9, "sourceDatetime": "2001-01-01T00:00:00Z"}, {}),
    (foreign((NAMESPACES["td"], "new", "?")), {}),
]

# Words of the event, and data
TERMS += [
    ({"title": "&<>\"'&amp; ]]> \\", "summary": "1\n2\r\t🌊", "author": "å"}, None),
    ({"title": " a\n", "summary": "", "author": None}, {"title": "a"}),
    ({"data": {"b": [1.5, -0.0, "]]>&\n", {}], "a": None}}, None),
    ({"change": "deleted", "data": False, "title": "gone"}, None),
    ({"data": None}, {}),
]

# The relations of Z39.99 and others
RELATIONS = (
    *("duplicate", "canonical", "describedby", "describes", "profile", "timegate"),
    *("collection", "via", "hosts", f"{EXAMPLE}/relation#own"),
)
LINKS = [link(rel, f"http://a.example/{rel}") for rel in RELATIONS]
LINKS += [
    link("duplicate", "http://example.org/1", pri=1),
    link("duplicate", "http://example.org/2", pri=999999),
    link("duplicate", "ftp://example.org/3", pri=2),
    link("alternate", f"{EXAMPLE}/a.pdf", type="application/pdf"),
    link(f"{NAMESPACES['rs']}patch", f"{EXAMPLE}/p", type="application/patch-ops+json"),
    link("timemap", "urn:isbn:9780201633610", type="application/link-format"),
    link("memento", f"{EXAMPLE}/v/1", modified="2013-01-02T18:00:00Z"),
    link("alternate", "urn:b", pri=7, hash=HASHES, length=8876, encoding="gzip"),
    link("via", "tag:example.com,2026:a", **foreign((Y, "b", "2"), (X, "a", "1"))),
    link("via", "urn:b", **foreign((X, "å", "ä"))),
    link("via", f"{EXAMPLE}/?a=1&b=\"<'>%26å🌊"),
]
TERMS += [({"links": [one]}, None) for one in LINKS] + [({"links": LINKS}, None)]
OLD = link("a", "urn:b", modified="2013-01-02T18:00:00+01:00", hash={"sha1": SHA1})
NEW = link("a", "urn:b", modified="2013-01-02T17:00:00Z", hash={"sha-1": SHA1})
TERMS += [({"links": [OLD]}, {"links": [NEW]})]

# All at once, in an order of its own
WHOLE = {
    "change": "created",
    "priority": 0.9,
    "lastmod": "2026-04-01",
    "changefreq": "daily",
    "links": [
        link("via", f"{EXAMPLE}/z"),
        link("describedby", f"{EXAMPLE}/y"),
        link("via", f"{EXAMPLE}/x", **foreign((X, "c", "3"))),
    ],
    **foreign((X, "a", "1"), (Y, "b", "2")),
    "encoding": "gzip",
    "tags": ["t"],
    "type": "text/csv",
    "hash": {"md5": MD5},
    "length": 3,
    "data": [{}],
    "title": "t",
}
TERMS += [(WHOLE, None)]


# Posts


def entry(i, members):
    return {"loc": f"{EXAMPLE}/term/{i}", "change": "updated", **members}


POSTED = [entry(i, posted) for i, (posted, read) in enumerate(TERMS)]


def write_json():
    """JSON in which everything is escaped that may be."""
    return json.dumps(POSTED).replace("/", "\\/")


def write_ndjson():
    """JSON in which nothing is escaped that need not be."""
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in POSTED)


def write_attributes(element, members):
    """Give an element its attributes, in the order of the members."""
    for name, value in members.items():
        if name == "attributes":
            for one in value:
                element.set(f"{{{one['ns']}}}{one['name']}", one["value"])
        elif name == "hash":
            element.set(name, "\n\t".join(f"{k}:{v}" for k, v in value.items()))
        elif name == "tags":
            element.set(TD + name, "  \n ".join(value))
        else:
            element.set(OURS.get(name, name), str(value))


def write_xml():
    root = etree.Element(S + "urlset", nsmap={None: NAMESPACES["s"]})
    etree.SubElement(root, RS + "md", capability="changelist")
    for members in POSTED:
        url = etree.SubElement(root, S + "url")
        for name in [name for name in members if name in ELEMENTS]:
            etree.SubElement(url, S + name).text = str(members[name])
        for name in [name for name in members if name in SAID]:
            value = members[name]
            text = json.dumps(value, indent=1) if name == "data" else value
            # lxml writes a carriage return as it is.
            etree.SubElement(url, TD + name).text = text and text.replace("\r", "RETURN")
        more = {k: v for k, v in members.items() if k not in (*ELEMENTS, *SAID, "links")}
        write_attributes(etree.SubElement(url, RS + "md"), more)
        for one in members.get("links", []):
            write_attributes(etree.SubElement(url, RS + "ln"), one)
    # libxml2 does not escape URIs of namespaces.
    text = etree.tostring(root, encoding="unicode").replace("RETURN", "&#13;")
    return text.replace(Y, Y.replace("&", "&amp;"))


# Reading: an entry as members, all of them texts. Times and numbers are the broker's.


def plain(members):
    """Members of JSON as texts."""
    read = {}
    for name, value in members.items():
        if name == "hash":
            value = " ".join(f"{k}:{v}" for k, v in value.items())
        elif name == "tags":
            value = " ".join(value)
        elif name == "links":
            value = [plain(link) for link in value]
        elif name == "data":
            value = json.loads(json.dumps(value), parse_int=str, parse_float=str)
            value = json.dumps(value)
        if name not in ("datetime", "sourceDatetime", "seq"):
            read[name] = value if isinstance(value, list) else str(value)
    return read


def read_attributes(element):
    members = {}
    attributes = []
    for name, value in element.attrib.items():
        name = etree.QName(name)
        if name == TD + "tags" or not name.namespace:
            members[name.localname] = value
        elif name not in OURS.values():
            attributes.append((name.namespace, name.localname, value))
    members.pop("datetime", None)
    return {**members, **(foreign(*attributes) if attributes else {})}


def read_xml(text):
    for url in Document(text).all("/s:urlset/s:url"):
        members = read_attributes(url.find(RS + "md"))
        for name in ELEMENTS:
            if url.find(S + name) is not None:
                members[name] = url.findtext(S + name)
        for name in SAID:
            if url.find(TD + name) is not None:
                members[name] = url.findtext(TD + name)
        if "data" in members:
            members.update(plain({"data": json.loads(members["data"])}))
        links = [read_attributes(ln) for ln in url.findall(RS + "ln")]
        yield {**members, **({"links": links} if links else {})}


def read_json(text):
    for one in json.loads(text, parse_int=str, parse_float=str)["changes"]:
        yield plain(one)


READ = [
    plain(entry(i, posted if read is None else read))
    for i, (posted, read) in enumerate(TERMS)
]


def check_says_all(text, type):
    """The document has the posted changes, in order."""
    found = list((read_xml if type == XML else read_json)(text))
    for one, posted in zip(found, READ):
        assert one == posted
    assert len(found) == len(READ)


# Where a set can be read: the path below it, by GET or else by WebSocket
CHANNELS = [
    ("stream?after=0", XML),
    ("stream?after=0", JSON),
    ("changes/000000000001.xml", XML),
    ("changes?after=0", XML),
    ("changes?after=0", JSON),
]


def fetch(news, path, type):
    if path.startswith("stream"):
        follower = news.websocket("after=0", "xml" if type == XML else "json")
        follower.news()
        follower.leave()
        return follower.text
    answer = news.get(path, accept=type)
    assert (answer.status, answer["Content-Type"]) == (200, type)
    return answer.body


def fetch_all(news):
    """Read the entries from all channels, with the types, before and after the list is
    closed."""
    channels = [("changelist.xml", XML), *CHANNELS]
    said = [(fetch(news, *channel), channel[1]) for channel in channels]
    news.rotate()
    return said + [(fetch(news, *channel), channel[1]) for channel in CHANNELS]


FORMATS = [(XML, write_xml), (JSON, write_json), (NDJSON, write_ndjson)]


#
#
# R-383, I-04
@pytest.mark.parametrize("type, write", FORMATS)
def test_everything_is_served_unchanged_whatever_it_came_in(broker, type, write):
    body = write().encode()
    for coding in (None, "gzip"):
        news = broker.set()
        sent = gzip.compress(body) if coding else body
        news.receipt(news.send(sent, type, content_encoding=coding))
        for text, type_ in fetch_all(news):
            check_says_all(text, type_)


# Design section 4: a broker's documents can be posted to another set: the same entries,
# of our namespace their tags alone.
def test_a_broker_takes_its_own_documents_again(news, broker):
    news.receipt(news.send(write_xml(), XML))
    for text, type in fetch_all(news):
        again = broker.set()
        again.receipt(again.send(text, type))
        for text_again, type_again in fetch_all(again):
            check_says_all(text_again, type_again)


# in another set the event times are that one's own; a heartbeat is a message,
# but no post.
def test_what_is_posted_again_gets_its_own_numbers_and_times(broker):
    one, two = broker.set(), broker.set()
    one.post(2)
    two.post(5)
    second = two.receipt(two.send(fetch(one, "stream?after=0", XML), XML))
    assert (second.first, second.last) == (6, 7)
    document = two.changelist()
    document.check_valid()
    assert document.last == 7
    assert document.entries[6].datetime == second.datetime
    assert document.entries[6].seq == 7
    assert document.count("//s:url[7]/rs:md/@td:datetime") == 1
    heartbeat = one.get("changes?after=2").body
    check_refused(two.send(heartbeat), 422)


# I-04, I-06: as older documents spell it; the broker serves the new spelling.
def test_old_spellings_are_taken_and_new_ones_served(news):
    body = (
        f"<urlset xmlns='{NAMESPACES['s']}' xmlns:rs='{NAMESPACES['rs']}'>"
        "<rs:md capability='changelist-notification' from='2013-01-01T00:00:00Z'"
        " until='2013-01-02T00:00:00Z'/><url><loc>http://example.com/old</loc>"
        f"<rs:md change='created' hash='sha256:{SHA256}'/></url></urlset>"
    )
    news.receipt(news.send(body, XML))
    document = Document(fetch(news, "stream?after=0", XML))
    assert not document.is_index and document.capability == "change-notification"
    assert document.text("//s:url/rs:md/@hash") == f"sha-256:{SHA256}"
