"""The answers of a broker to its readers: recorded once, compared ever after.

    answers.write(path, answers.crawl(broker, public_url, ["news", "books"]))
    for recorded in answers.read(path):
        difference = answers.difference(recorded, answers.ask(broker, recorded))

An answer is a dictionary, and one line of JSON in the file: `path`; `accept` and `gzip`
if the request had such headers; `status`; `headers`; `body` if it is a short text, else
its `size` and `sha256`. Answers leave out what may change: dates, pages for people, the
words of errors, and of a subscription its deliveries since the start of the broker.
"""

import hashlib
import html
import json
import os
import re
import urllib.parse

from tidings_test.http import JSON, XML

HEADERS = (
    "Content-Type",
    "Content-Encoding",
    "ETag",
    "Last-Modified",
    "Cache-Control",
    "Vary",
    "Link",
)

# Members of a subscription that hub.db has.
SUBSCRIPTION = (
    "id",
    "topic",
    "callback",
    "kind",
    "simple",
    "state",
    "mode",
    "created",
    "requested",
    "leaseEnd",
    "position",
    "lag",
    "filter",
    "interval",
    "hasSecret",
)

BODY_MAX = 65536

# Where readers begin.
ENTRANCES = ("/.well-known/resourcesync", "/robots.txt", "/sets", "/relays")

# Documents that a set may have, without a link to them from there.
OF_A_SET = (
    "",
    "/capabilitylist.xml",
    "/changelist.xml",
    "/changelist-archive.xml",
    "/changes/latest.xml",
    "/changes/000000000001.xml",
    "/resourcelist.xml",
    "/resourcelist-archive.xml",
    "/resourcedump.xml",
    "/resourcedump-archive.xml",
    "/changedump.xml",
    "/changedump-archive.xml",
    "/notifications",
    "/framework-notifications",
    "/subscriptions",
    "/changes?after=0",
    "/changes?after=0&change=deleted",
    "/changes?after=0&change=created&change=updated&type=text/*",
    "/changes?after=0&tag=tide&prefix=http%3A%2F%2Fexample.com%2F",
    "/changes?since=2026-01-01T00:00:00Z",
)

# Pages for people, addresses that have no document, and answers with a time in them.
LEFT_OUT = re.compile(r"/$|/hub$|/oai$|/stream|/subscribe$")

MEMORY = re.compile(r"/sets/[^/]+/changes(\?|$)")
SUBSCRIPTIONS = re.compile(r"/subscriptions(\?|$)")
RESOURCE_LIST = re.compile(r"/resourcelist[./]")


# Requests


def ask(client, request):
    """Send a request; the answer as it is recorded."""
    headers = {}
    if "accept" in request:
        headers["accept"] = request["accept"]
    if "gzip" in request:
        headers["accept_encoding"] = "gzip"
    answer = client.get(request["path"], **headers)
    asked = ("path", "accept", "gzip")
    recorded = {key: request[key] for key in asked if key in request}
    recorded["status"] = answer.status
    if answer.status == 200:
        recorded["headers"] = {key: answer[key] for key in HEADERS if answer[key]}
        recorded.update(_body(request["path"], answer.body))
    return recorded


def _body(path, body):
    if SUBSCRIPTIONS.search(path):
        body = _without_deliveries(body)
    if len(body) <= BODY_MAX:
        try:
            return {"body": body.decode()}
        except UnicodeDecodeError:
            pass
    return {"size": len(body), "sha256": hashlib.sha256(body).hexdigest()}


def _without_deliveries(body):
    page = json.loads(body)
    page["subscriptions"] = [
        {key: each[key] for key in SUBSCRIPTION if key in each}
        for each in page["subscriptions"]
    ]
    for each in page["subscriptions"]:
        _hide_path(each)
    return json.dumps(page, indent=1).encode()


def _hide_path(subscription):
    """Keep scheme and host of a callback. Version 0.1.0 showed the whole URL; with it
    others could post to the callback."""
    if subscription["kind"] == "callback":
        url = urllib.parse.urlsplit(subscription["callback"])
        subscription["callback"] = f"{url.scheme}://{url.netloc}"


def crawl(client, public_url, sets):
    """Ask for everything that links lead to from the entrances and from these sets;
    the answers. A set may have been removed."""
    link = re.compile(re.escape(public_url) + r"(/[^\s\"'<>]*)")
    due = [*ENTRANCES, *(f"/sets/{name}{path}" for name in sets for path in OF_A_SET)]
    seen = set()
    answers = []
    while due:
        path = due.pop(0).partition("#")[0]
        if path in seen or LEFT_OUT.search(path):
            continue
        seen.add(path)
        for request in _requests(path):
            answer = ask(client, request)
            if answer["status"] == 404:
                continue  # a later version may have it
            answers.append(answer)
            for text in (answer.get("body"), answer.get("headers", {}).get("Link")):
                due += [html.unescape(found) for found in link.findall(text or "")]
    return answers


def _requests(path):
    """All ways to ask for an address."""
    if MEMORY.search(path):
        return [{"path": path, "accept": accept} for accept in (JSON, XML)]
    requests = [{"path": path}]
    if path.endswith(".xml"):
        requests.append({"path": path, "gzip": True})
    if RESOURCE_LIST.search(path):
        requests.append({"path": f"{path}?plain"})
    return requests


# Comparing


def name(answer):
    """The request in one line."""
    how = [answer["path"], answer.get("accept"), "gzip" if "gzip" in answer else None]
    return " ".join(part for part in how if part)


def difference(recorded, answer):
    """The difference in words; None if the answers are equal."""
    recorded, answer = _without_later(recorded), _without_later(answer)
    if recorded == answer:
        return None
    said = [name(recorded)]
    for member in ("status", "headers", "size", "sha256"):
        one, other = recorded.get(member), answer.get(member)
        if one != other:
            said.append(f"  {member}: {one!r}\n  now: {other!r}")
    one, other = recorded.get("body", ""), answer.get("body", "")
    if one != other:
        said.append(f"  body: {_around(one, other)}\n  now: {_around(other, one)}")
    return "\n".join(said)


# Differences that later versions make on purpose. After 0.1.0 every set has a link to
# where it is described, its own page unless its settings say otherwise;
# and robots.txt names no Change Lists. The Source Description, the list of
# sets and each set name the stream of many sets. Each set names its provider of OAI-PMH,
# its checkpoint and the address of comparisons, and has the setting contentVersions. A set counts its subscribers by transport: later
# versions have more of these.
LATER = (
    (
        re.compile(r"/capabilitylist\.xml$|/\.well-known/resourcesync$|^/descriptions/"),
        re.compile(
            r'<rs:ln rel="(describedby" href="[^"]*/sets/[^"/]*|urn:tidings:1:streams'
            r'" href="[^"]*/stream|urn:tidings:1:oai" href="[^"]*/oai" type="text/xml'
            r'|urn:tidings:1:checkpoint" href="[^"]*/checkpoint" type="text/plain'
            r'|urn:tidings:1:reconcile" href="[^"]*/reconcile" type="application/octet-stream)"/>\n?'
        ),
    ),
    (re.compile(r"^/sets$"), re.compile(r',"stream":"[^"]*/stream"')),
    (re.compile(r"^/robots\.txt$"), re.compile(r"Sitemap: \S*/changelist\.xml\n")),
    (
        re.compile(r"^/sets/[^/?]+$"),
        re.compile(
            r'"subscribers":{[^}]*},|{"rel":"urn:tidings:1:streams","href":"[^"]*/stream"},'
            r'|{"rel":"urn:tidings:1:(oai|checkpoint)","href":"[^"]*","type":"text/(xml|plain)"},'
            r'|{"rel":"urn:tidings:1:reconcile","href":"[^"]*","type":"application/octet-stream"},'
            r'|"contentVersions":"all",'
        ),
    ),
)


# The fields by which later versions know whether a person asks.
PAGE = ("", "Accept", "Sec-Fetch-Dest", "Sec-Fetch-Mode", "Upgrade-Insecure-Requests")


def _without_page(headers):
    """Without what later versions say: that there is a page for people, too."""
    vary = (headers.get("Vary") or "").split(", ")
    rest = ", ".join(name for name in vary if name not in PAGE)
    return {**headers, "Vary": rest or None}


def _without_later(answer):
    """An answer without those, and without the ETag of such a document."""
    if "headers" in answer:
        answer = {**answer, "headers": _without_page(answer["headers"])}
    for paths, text in LATER:
        if paths.search(answer["path"]) and answer["status"] == 200:
            headers = {**answer["headers"], "ETag": None}
            body = text.sub("", answer["body"])
            return {**answer, "headers": headers, "body": body}
    return answer


def _around(text, other):
    """The part of a text in which it begins to differ from the other."""
    at = len(os.path.commonprefix([text, other]))
    return f"...{text[max(0, at - 200) : at + 300]!r} at {at} of {len(text)}"


# The file


def write(path, answers):
    path.write_text("".join(json.dumps(answer) + "\n" for answer in answers))


def read(path):
    answers = [json.loads(line) for line in path.read_text().splitlines()]
    for answer in answers:
        if SUBSCRIPTIONS.search(answer["path"]) and "body" in answer:
            answer["body"] = _without_deliveries(answer["body"]).decode()
    return answers
