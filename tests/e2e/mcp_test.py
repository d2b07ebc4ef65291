"""tidings mcp: a server of the Model Context Protocol, asked by the client of that
protocol's own project."""

import contextlib
import http.client
import json
import os

import pytest

from tidings_test import npm
from tidings_test.broker import BIN
from tidings_test.layouts import urlset
from tidings_test.python import ENV
from tidings_test.site import Site

# Prints the result of each request: {"list": ...}, then those of its argument.
PROGRAM = """
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [server, source, requests] = process.argv.slice(2);
const transport = server.startsWith("http:")
  ? new StreamableHTTPClientTransport(new URL(server))
  : new StdioClientTransport({ command: server, args: ["mcp", source], env: process.env });
const client = new Client({ name: "test", version: "1" });
await client.connect(transport);
const { tools } = await client.listTools();
const { resources } = await client.listResources();
const read = await client.readResource({ uri: resources[0].uri });
console.log(JSON.stringify({ tools, resources, read, ping: await client.ping() }));
for (const [name, args] of JSON.parse(requests))
  console.log(JSON.stringify(await client.callTool({ name, arguments: args })));
await client.close();
"""
PYTHON = {**ENV, "PATH": f"/usr/bin:{os.environ['PATH']}"}  # Debian's has cffi


@pytest.fixture
def served(broker, start):
    """A server of this broker's source, by HTTP: its address."""
    server = start("tidings", "mcp", f"{broker.url}/", "--http", "127.0.0.1:0", env=PYTHON)
    return server.out.wait(1)


@pytest.fixture(params=["stdio", "http"])
def ask(request, broker, run, tmp_path):
    """The results of requests: [[tool, arguments], ...]."""
    (npm.install(tmp_path) / "program.mjs").write_text(PROGRAM)

    def ask(*requests):
        way = BIN / "tidings"
        if request.param == "http":
            way = request.getfixturevalue("served")
        program = (npm.node(), "program.mjs", way, f"{broker.url}/", json.dumps(requests))
        first, *results = [json.loads(line) for line in run(*program, cwd=tmp_path, env=PYTHON).out]
        for result in results:
            if not result.get("isError"):
                assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        return first, [each.get("structuredContent") or each["content"][0]["text"] for each in results]

    return ask


def test_a_model_learns_what_has_changed(ask, broker):
    news = broker.set("news")
    first, last = news.post(3), news.post_change("http://example.com/r/1", "deleted")
    offered, results = ask(
        ["list_sets", {}],
        ["changes_since", {"set": "news", "position": first.position}],
        ["changes_since", {"set": news.url, "position": "0", "limit": 3}],
        ["changes_since", {"set": "news", "position": "0", "change": "deleted"}],
        ["what_did_i_miss", {"set": "news", "position": first.position}],
        ["what_did_i_miss", {"set": "news", "position": last.position}],
        ["what_did_i_miss", {"set": "news", "position": "0", "limit": 1}],
        ["wait_for_change", {"set": "news", "position": first.position}],
        ["wait_for_change", {"set": "news", "seconds": 0}],
    )
    names = {"list_sets", "changes_since", "wait_for_change", "what_did_i_miss"}
    assert {tool["name"] for tool in offered["tools"]} == names
    assert [one["uri"] for one in offered["resources"]] == [news.url]
    (read,) = offered["read"]["contents"]
    assert json.loads(read["text"])["position"] == last.position
    sets, since, all_, deleted, missed, nothing, summed, came, none = results
    assert sets == {"sets": [news.url], "unreadable": [], "is_complete": True}
    assert [change["seq"] for change in since["changes"]] == [4]
    assert (since["position"], since["is_all"]) == (last.position, True)
    assert [change["seq"] for change in all_["changes"]] in ([1, 2, 3], [1, 2, 3, 4])
    assert all_["is_all"] == (len(all_["changes"]) == 4)
    assert [change["loc"] for change in deleted["changes"]] == ["http://example.com/r/1"]
    assert missed["changes"] == {"deleted": 1}
    assert missed["proof"]["entries"] == 1 and missed["proof"]["is_checked"]
    assert missed["proof"]["digest"] == news.state()["digest"]
    assert nothing["changes"] == {} and nothing["proof"]["entries"] == 0
    assert summed["changes"] == {"created": 3, "deleted": 1}
    assert [one["change"] for one in summed["resources"]] == ["deleted"]
    assert summed["left_out"] == 2
    assert came["has_changed"] and came["position"] == last.position
    assert not none["has_changed"] and none["changes"] == []


# Each kind of wrong request is answered, with what is wrong.
def test_a_wrong_request_says_what_is_wrong(ask, broker):
    broker.set("news").post(1)
    _, results = ask(
        ["changes_since", {"set": "none", "position": "0"}],
        ["changes_since", {"set": "http://127.0.0.1:1/sets/news", "position": "0"}],
        ["changes_since", {"set": "news", "position": "wrong"}],
        ["changes_since", {"set": "news", "position": "0123456789abcdef-1"}],
        ["changes_since", {"set": "news", "position": "0", "limit": "many"}],
        ["changes_since", {"set": 3, "position": "0"}],
    )
    wants = ("0 sets none", "see list_sets", "wrong", "another log", "many", "0 sets 3")
    for result, want in zip(results, wants, strict=True):
        assert want in result, (result, want)


# More waits than the server has threads, each cancelled: none lasts its ten minutes.
def test_a_cancelled_request_ends(broker, run):
    broker.set("news").post(1)
    wait = {"name": "wait_for_change", "arguments": {"set": "news", "seconds": 600}}
    lines = [{"id": n, "method": "tools/call", "params": wait} for n in range(20)]
    lines += [
        {"method": "notifications/cancelled", "params": {"requestId": n}} for n in range(20)
    ]
    given = "".join(json.dumps(line) + "\n" for line in lines)
    done = run("tidings", "mcp", f"{broker.url}/", input=given, env=PYTHON)
    answers = [json.loads(line)["result"]["structuredContent"] for line in done.out]
    assert [answer["has_changed"] for answer in answers] == [False] * 20


# What lies in the directory in which it is started is anybody's.
@pytest.mark.parametrize("python_path", [PYTHON["PYTHONPATH"], "", None])
def test_nothing_of_the_current_directory_runs(python_path, run, tmp_path):
    for name in ("tidings/__init__", "tidings/mcp", "json", "os", "re", "select", "cffi", "http"):
        path = tmp_path / "here" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write(__name__)")
    env = {"PATH": PYTHON["PATH"]} | ({} if python_path is None else {"PYTHONPATH": python_path})
    command = ("tidings", "mcp", "http://127.0.0.1:1/")
    run(*command, cwd=tmp_path / "here", env=env, status=None)
    assert not (tmp_path / "ran").exists()


LINES = [
    ("nothing", -32600),
    ("[]", -32600),
    ('{"id":1}', -32600),
    ('{"id":1,"method":3}', -32600),
    ('{"id":1,"method":"sets/list"}', -32601),
    ('{"id":1,"method":"tools/call","params":{"name":"list"}}', -32602),
    ('{"id":1,"method":"tools/call","params":{"name":"_result"}}', -32602),
    ('{"id":1,"method":"tools/call","params":{"name":"changes_since"}}', -32602),
    ('{"id":1,"method":"tools/call","params":{"name":"list_sets","arguments":{"a":1}}}', -32602),
    ('{"id":1,"method":"tools/call","params":[3]}', -32603),
    ('{"id":[],"method":"ping"}', -32603),
    ('{"id":1,"method":"resources/read","params":{"uri":"file:///etc/passwd"}}', -32002),
]


@pytest.mark.parametrize("line, code", LINES)
def test_a_wrong_message_is_refused(broker, run, line, code):
    broker.set("news").post(1)
    (answer,) = run("tidings", "mcp", f"{broker.url}/", input=line + "\n", env=PYTHON).out
    assert json.loads(answer)["error"]["code"] == code


def test_only_programs_of_this_machine_are_answered(broker, served):
    """Another site's page could send a request here, by the address or by a name."""
    port = int(served.rpartition(":")[2].partition("/")[0])
    body = '{"jsonrpc":"2.0","id":1,"method":"ping"}'

    def status(method="POST", path="/mcp", body=body, **headers):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as client:
            client.request(method, path, body, headers)
            return client.getresponse().status

    assert status() == status(Host=f"localhost:{port}") == 200
    assert status(Origin=f"http://127.0.0.1:{port}") == 200
    assert status(Origin="https://example.org") == 403
    assert status(Host="example.org") == 403
    assert status(path="/") == 404
    assert status("GET") == 405
    assert status(body="", **{"Content-Length": str(1 << 30)}) == 413
    assert status(body='{"method":"notifications/initialized"}') == 202


# The token is for the server of the source: not for a set that it names elsewhere.
def test_a_token_stays_at_the_source(site, run, tmp_path):
    token = tmp_path / "token"
    token.write_text("0123456789abcdef\n")
    token.chmod(0o600)
    call = {"name": "changes_since", "arguments": {"set": "2.xml", "position": "0"}}
    message = json.dumps({"id": 1, "method": "tools/call", "params": call})
    with contextlib.closing(Site()) as other:
        for path, capability, of in (
            ("/source.xml", "description", other.link("/2.xml")),
            ("/2.xml", "capabilitylist", other.link("/list.xml")),
        ):
            md, of_it = (f'<rs:md capability="{name}"/>' for name in (capability, "changelist"))
            for each in (site, other):
                each.put(path, urlset([f"<url><loc>{of}</loc>{of_it}</url>"], md))
        options = (site.link("/source.xml"), "--token-file", token)
        run("tidings", "mcp", *options, input=message + "\n", env=PYTHON)
        assert {each["Authorization"] for each in site.requests} == {"Bearer 0123456789abcdef"}
        assert {each["Authorization"] for each in other.requests} == {None}


def test_no_package_is_said(run):
    failed = run("tidings", "mcp", env={"PATH": "/usr/bin", "PYTHONPATH": "/proc/nowhere"}, status=1)
    assert "python3-tidings" in failed.errors()
