"""The schemas of the OpenAPI description, and what the broker really takes and writes;
clients that generators make of it."""

import json
import re

import pytest

from tidings_test import npm
from tidings_test.http import JSON
from tidings_test.openapi import DESCRIPTION, STREAMS, STREAMS_FILE
from tidings_test.sets import change
from tidings_test.stream import WebSocket

WHEN = "2026-04-01T18:10:00Z"
HASH = {"sha-256": "0" * 64}
ATTRIBUTES = [{"ns": "urn:example", "name": "place", "value": "here"}]
ABOUT = {"hash": HASH, "length": 3, "type": "text/csv", "encoding": "gzip"}
LINK = {"rel": "alternate", "href": "http://example.com/b", "pri": 1, "modified": WHEN}

# Each member of a change, with a value.
MEMBERS = {
    **change("http://example.com/a", datetime=WHEN, sourceDatetime=WHEN, lastmod=WHEN),
    **ABOUT,
    "attributes": ATTRIBUTES,
    "changefreq": "daily",
    "priority": 0.5,
    "tags": ["a", "b"],
    "links": [{**LINK, **ABOUT, "attributes": ATTRIBUTES}],
    "title": "A title",
    "summary": "A summary",
    "author": "An author",
    "data": {"price": [1, None]},
    "traceparent": f"00-{'a' * 32}-{'b' * 16}-01",
    "seq": 1,
}
REQUIRED = {"loc", "change"}


def test_the_schema_of_a_change_has_the_members_that_a_post_may_have(news):
    schema = DESCRIPTION.all["components"]["schemas"]["Change"]
    assert schema["properties"].keys() == MEMBERS.keys()
    assert set(schema["required"]) == REQUIRED
    for name, value in MEMBERS.items():
        one = change("http://example.com/a")
        one[name] = value
        DESCRIPTION.check_json(one, "Post")
        news.receipt(news.send(one))
    for name in REQUIRED:
        without = {**MEMBERS}
        del without[name]
        assert not DESCRIPTION.is_valid(without, "Change")
        assert news.send(without).status == 422
    assert not DESCRIPTION.is_valid({**MEMBERS, "colour": "red"}, "Change")
    assert news.send({**MEMBERS, "colour": "red"}).status == 422


def test_the_schema_of_a_resource_has_the_members_that_it_may_have(news):
    schema = DESCRIPTION.all["components"]["schemas"]["Resource"]
    of_event = {"change", "sourceDatetime", "seq", "title", "summary", "author"}
    of_event |= {"data", "traceparent"}
    assert schema["properties"].keys() == MEMBERS.keys() - of_event
    body = [{name: MEMBERS[name] for name in schema["properties"]}]
    DESCRIPTION.check_json(body, "Resources")
    answer = news.put_resources(json.dumps(body), JSON)
    DESCRIPTION.check(answer, "PUT", "/sets/{set}/resources")
    assert answer.status == 200 and answer.json()["created"] == 1


# What comes back has no member that the schema lacks, and all of them are in use.
def test_an_entry_with_every_member_is_described(news):
    news.send([MEMBERS])
    page = news.get("changes?after=0", accept=JSON)
    DESCRIPTION.check(page, "GET", "/sets/{set}/changes")
    schemas = DESCRIPTION.all["components"]["schemas"]
    entry = page.json()["changes"][0]
    missing = schemas["Entry"]["properties"].keys() - entry.keys()
    assert missing <= {"sourceDatetime"}
    assert schemas["Link"]["properties"].keys() == entry["links"][0].keys()
    # A page is posted again as it is.
    DESCRIPTION.check_json(page.json(), "Post")
    assert news.send(page.body).status == 200


def test_settings_have_their_schemas(broker):
    news = broker.set().create()
    schemas = DESCRIPTION.all["components"]["schemas"]
    settings = {
        "title": "A title",
        "description": "http://example.org/about",
        "content": "inline",
        "private": False,
        "upstreamTopic": "http://a.example/topic",
        "hubs": ["http://hub.example/"],
        "resourceListKeep": "daily",
    }
    for name, schema in schemas["Settings"]["properties"].items():
        settings.setdefault(name, schema.get("type") != "boolean" and 100)
    settings["rotateBytes"] = 1 << 20
    for name, value in settings.items():
        DESCRIPTION.check_json({name: value}, "SettingsChange")
        DESCRIPTION.check_json({name: None}, "SettingsChange")
        patch = json.dumps({name: value})
        answer = broker.patch(f"{news.path}?discard=yes", patch, JSON)
        DESCRIPTION.check(answer, "PATCH", "/sets/{set}")
        assert answer.status == 200, answer
    DESCRIPTION.check_json(news.state()["settings"], "Settings")
    for bad in ({"content": "all"}, {"rotate": 1}, {"private": "yes"}):
        assert not DESCRIPTION.is_valid(bad, "SettingsChange")
        assert broker.patch(news.path, json.dumps(bad), JSON).status == 422


# Forms of JSON that others have described.
FOREIGN = ("/openapi.json", "/asyncapi.json", "/sets/{set}/timemap/json/{uri}")


# No body is only "an object". A range of JSON is no JSON.
def test_every_body_of_json_has_a_schema():
    for key, operation in DESCRIPTION.operations.items():
        if key[1] in FOREIGN:
            continue
        answers = {**operation["responses"], "206": {}}
        bodies = [operation.get("requestBody", {}), *answers.values()]
        for body in bodies:
            content = DESCRIPTION.resolve(body).get("content", {})
            for type, one in content.items():
                if type.endswith(("/json", "+json")):
                    assert "$ref" in one.get("schema", {}), (key, type)


# Streams


PARSE = """
import { Parser } from "@asyncapi/parser";
import { readFileSync } from "node:fs";

const text = readFileSync("asyncapi.json", "utf8");
const { document, diagnostics } = await new Parser().parse(text);
for (const one of diagnostics.filter((each) => each.severity < 2))
  console.log(one.path.join("."), one.message);
for (const channel of document?.channels().all() ?? [])
  console.log(channel.address(), channel.messages().all().map((one) => one.id()).join());
"""


def test_the_description_of_the_streams_is_valid(run, broker, tmp_path):
    printed = "\n".join(run("tidingsd", "--asyncapi").out) + "\n"
    assert STREAMS_FILE.read_text() == printed, "tidingsd --asyncapi > asyncapi.json"
    assert broker.get("/asyncapi.json").text == printed
    npm.install(tmp_path)
    (tmp_path / "asyncapi.json").write_text(printed)
    (tmp_path / "parse.mjs").write_text(PARSE)
    channels = run(npm.node(), "parse.mjs", cwd=tmp_path).out
    assert [*channels][:2] == [
        "/sets/{set}/stream Message,XmlMessage,StreamEnd,StreamCheckpoint",
        "/stream Message,XmlMessage,StreamHeartbeat,Resume,SetEnd,StreamEnd,Follow",
    ]
    assert len(channels) == 8


# Both files begin with a part that is written by hand.
def test_the_parts_by_hand_are_true(run):
    version = run("tidingsd", "--version").output().split()[-1]
    assert DESCRIPTION.all["info"]["version"] == version
    assert STREAMS.all["info"]["version"] == version
    for channel in STREAMS.all["channels"].values():
        if "bindings" not in channel:
            continue
        bound = channel["bindings"]["ws"]["query"]["properties"]
        operation = DESCRIPTION.operations["GET", channel["address"]]
        parameters = [DESCRIPTION.resolve(each) for each in operation["parameters"]]
        assert bound == {
            each["name"]: {**each["schema"], "description": each["description"]}
            for each in parameters
            if each["in"] == "query"
        }


def test_every_schema_of_the_streams_is_there_and_in_use():
    text = STREAMS_FILE.read_text()
    used = set(re.findall(r'"#/components/schemas/(\w+)"', text))
    assert used == STREAMS.all["components"]["schemas"].keys()


def test_what_streams_say_is_described(broker, news):
    news.post(1)
    receipt = news.post(1)
    request = {"follow": [{"set": news.name, "after": "0"}, {"set": "none"}]}
    STREAMS.check_json(request, "Follow")
    kinds = ["StreamHeartbeat", "Resume", "SetEnd", "Message"]
    seen = set()
    stream = WebSocket(broker, "/stream")
    stream.protocol.send_text(json.dumps(request).encode())
    stream.flush()
    while seen < set(kinds):
        said = json.loads(stream.read_text())
        fit = [kind for kind in kinds if STREAMS.is_valid(said, kind)]
        assert len(fit) == 1, (said, fit)
        seen.update(fit)
    stream.leave()
    events = news.events("checkpoints=yes")
    while events.event != "checkpoint":
        assert events.read_event()
    STREAMS.check_json(json.loads(events.data), "StreamCheckpoint")
    gone = news.events(f"after={receipt.epoch}-99").wait_end("gone")
    STREAMS.check_json(json.loads(gone), "StreamEnd")


def test_what_a_bridge_says_is_described(mosquitto, start_broker):
    hearer = mosquitto.hear("tidings/#")
    broker = start_broker("--mqtt", mosquitto.url)
    broker.set("news").post(1)
    for topic, kind in (("notifications", "Message"), ("position", "BridgePosition")):
        said = hearer.wait(f"tidings/news/{topic}").payload
        STREAMS.check_json(json.loads(said), kind)
    status = hearer.wait("tidings/status").payload.decode()
    STREAMS.check_json(status, "BridgeStatus")


# Generated clients: a program posts a change and reads the set, and does not compile
# where it gives a wrong member.

BODY = """
  const posted = await POST([{ loc: "http://example.com/a", change: "created",
                               title: "A", data: { price: 3 } }]);
  const described = await DESCRIBE();
  const page = await PAGE();
  const entry = page.data?.changes[0];
  const last: number | undefined = described.data?.last;
  console.log(posted.data?.last, last, entry?.loc, entry?.title);
  const refused = await POST({
    loc: "http://example.com/a",
    // @ts-expect-error: no such kind
    change: "vanished",
  });
  console.log(refused.error?.status, refused.error?.entry);
"""

FETCH = """
import createClient from "openapi-fetch";
import type { components, paths } from "./client";

type Media = "application/json" | "application/problem+json";
type Post = components["schemas"]["Post"];
const [, , url = "", set = ""] = process.argv;
const client = createClient<paths, Media>({ baseUrl: url });
const params = { path: { set } };
const POST = (body: Post) => client.POST("/sets/{set}/changes", { params, body });
const DESCRIBE = () => client.GET("/sets/{set}", { params });
const PAGE = () => client.GET("/sets/{set}/changes", {
  params: { ...params, query: { after: "0" } },
});
"""

HEY = """
import { createClient } from "./client/client";
import { getSetsSet, getSetsSetChanges, postSetsSetChanges } from "./client/sdk.gen";
import type { Post } from "./client/types.gen";

const [, , url = "", set = ""] = process.argv;
const client = createClient({ baseUrl: url });
const path = { set };
const POST = (body: Post) => postSetsSetChanges({ client, path, body });
const DESCRIBE = () => getSetsSet({ client, path });
const PAGE = () => getSetsSetChanges({ client, path, query: { after: "0" } });
"""

GENERATORS = {
    "openapi-typescript": (("-o", "client.d.ts"), FETCH),
    "openapi-ts": (("-o", "client", "-c", "@hey-api/client-fetch", "-i"), HEY),
}

STRICT = (
    *("--strict", "--target", "es2022", "--module", "commonjs", "--skipLibCheck"),
    *("--moduleResolution", "node10", "--esModuleInterop", "--types", "node"),
)


# openapi-ts compares each type with each: half a minute of CPU for all of the
# description, on a quiet machine. It gets the paths that the program uses.
def description(name, broker):
    whole = broker.get("/openapi.json").json()
    if name == "openapi-ts":
        used = ("/sets/{set}", "/sets/{set}/changes")
        whole["paths"] = {path: whole["paths"][path] for path in used}
    return json.dumps(whole)


@pytest.mark.parametrize("name", GENERATORS)
def test_a_generated_client_posts_and_reads(name, broker, news, run, tmp_path):
    options, begin = GENERATORS[name]
    npm.install(tmp_path)
    (tmp_path / "openapi.json").write_text(description(name, broker))
    # The option for the input comes last, or there is none.
    run(npm.command(name), *options, "openapi.json", cwd=tmp_path)
    program = f"{begin}\nasync function main() {{{BODY}}}\nmain();\n"
    (tmp_path / "program.ts").write_text(program)
    run(npm.command("tsc"), *STRICT, "program.ts", cwd=tmp_path)
    done = run(npm.node(), "program.js", broker.url, news.name, cwd=tmp_path)
    assert [*done.out] == ["1 1 http://example.com/a A", "422 1"]
