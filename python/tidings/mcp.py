"""A server of the Model Context Protocol: a language model asks it what has changed.

    python3 -m tidings.mcp [SOURCE] [--http HOST:PORT] [--token-file FILE]

SOURCE is a broker, a set, or any document of a ResourceSync source (default:
http://127.0.0.1:8787/). The server speaks on standard input and output, a message a
line, or by HTTP at /mcp. It reads only. Each answer names the position behind it, which
the next question takes: so a model that was away misses nothing, or is told that it did.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import http.server
import json
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn
from urllib.parse import urlsplit

import tidings

Json = dict[str, Any]

PROTOCOLS = ("2025-06-18", "2025-03-26", "2024-11-05")
# Entries of an answer; seconds; bytes of a request by HTTP.
ENTRIES_MAX, WAIT_MAX, BODY_MAX = 1000, 600, 1 << 20

_SET: Json = {"type": "string", "description": "URL of a set, as list_sets gives it, or its name"}
_POSITION: Json = {"type": "string", "description": "of an earlier answer; 0: the beginning"}
_LIMIT: Json = {"type": "integer", "minimum": 1, "maximum": ENTRIES_MAX, "default": 100}
_FILTERS: Json = {
    "change": {"enum": ["created", "updated", "deleted"]},
    "prefix": {"type": "string", "description": "of the URLs of resources"},
    "tag": {"type": "string"},
}
TOOLS: dict[str, tuple[str, Json, list[str]]] = {
    "list_sets": ("Lists the sets of the source.", {}, []),
    "changes_since": (
        "Reads the changes of a set behind a position, in order.",
        {"set": _SET, "position": _POSITION, "limit": _LIMIT, **_FILTERS},
        ["set", "position"],
    ),
    "wait_for_change": (
        "Waits for the next changes of a set: those behind the position or, without one, "
        "from now on.",
        {
            **{"set": _SET, "position": _POSITION, **_FILTERS},
            "seconds": {"type": "number", "minimum": 0, "maximum": WAIT_MAX, "default": 60},
        },
        ["set"],
    ),
    "what_did_i_miss": (
        "Sums up what has changed in a set behind a position, by resource, and proves that "
        "nothing is left out: each entry was checked against the digest of the log.",
        {"set": _SET, "position": _POSITION, "limit": _LIMIT},
        ["set", "position"],
    ),
}


class Refusal(Exception):
    """A request that has no result: an error of JSON-RPC."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


class _Request:
    """One that is being answered; it may be cancelled from another thread."""

    def __init__(self) -> None:
        self.follower: tidings.Follower | None = None
        self.is_cancelled = False
        self._lock = threading.Lock()

    def cancel(self) -> None:
        with self._lock:
            self.is_cancelled = True
            if self.follower:
                self.follower.stop()

    def messages(self, url: str, how: Json) -> Iterator[tidings.Message]:
        with tidings.follow(url, **how) as follower:
            with self._lock:
                self.follower = follower
                if self.is_cancelled:
                    follower.stop()
            yield from follower.messages()


def _name(url: str) -> str:
    return url.rstrip("/").rpartition("/")[2]


def _entry(change: tidings.Change) -> Json:
    """What it has, without what is not given."""
    fields = dataclasses.asdict(change)
    del fields["text"], fields["links"]
    return {name: value for name, value in fields.items() if value not in (None, ())}


class Server:
    """Answers messages of any number of clients, and keeps nothing of them."""

    def __init__(self, source: str, access: tidings.Access | None = None) -> None:
        self.source = source
        self.access = access
        self._requests: dict[Any, _Request] = {}  # of one client: by their ids

    # Tools

    def list_sets(self) -> Json:
        wrong: list[str] = []

        def on_unreadable(url: str, why: str) -> None:
            wrong.append(f"{url}: {why}")

        sets = tidings.sets(self.source, on_unreadable=on_unreadable, access=self.access)
        return {"sets": sets, "unreadable": wrong, "is_complete": not wrong}

    def _messages(self, request: _Request, set: str, how: Json) -> Iterator[tidings.Message]:
        """Of a set of the source: a model cannot have other servers asked. The token is
        for the server of the source alone."""
        sets = self.list_sets()["sets"]
        found = [url for url in sets if set in (url, _name(url))]
        if len(found) != 1:
            raise tidings.Invalid(f"the source has {len(found)} sets {set}: see list_sets")
        is_same = urlsplit(found[0])[:2] == urlsplit(self.source)[:2]
        access = {"access": self.access} if is_same else {}
        return request.messages(found[0], {**access, **how})

    def changes_since(
        self, request: _Request, set: str, position: str, limit: int = 100, **filters: str
    ) -> Json:
        changes: list[Json] = []
        how = {"position": position, "until_caught_up": True, **filters}
        is_all = True
        for message in self._messages(request, set, how):
            is_all = not changes or len(changes) + len(message.changes) <= limit
            if not is_all:
                break
            changes += [_entry(change) for change in message.changes]
            position = message.position or position
        is_all = is_all and not request.is_cancelled
        return {"changes": changes, "position": position, "is_all": is_all}

    def wait_for_change(
        self,
        request: _Request,
        set: str,
        position: str | None = None,
        seconds: float = 60,
        **filters: str,
    ) -> Json:
        troubles: list[str] = []
        how = {"position": position, "on_trouble": lambda why, _: troubles.append(why)}
        timer = threading.Timer(min(seconds, WAIT_MAX), request.cancel)
        timer.daemon = True
        timer.start()
        changes: list[Json] = []
        try:
            for message in self._messages(request, set, {**how, **filters}):
                troubles.clear()
                position = message.position or position
                changes = [_entry(change) for change in message.changes]
                if changes:
                    break
        finally:
            timer.cancel()
        trouble = {"trouble": troubles[-1]} if troubles else {}
        return {"changes": changes, "position": position, "has_changed": bool(changes), **trouble}

    def what_did_i_miss(
        self, request: _Request, set: str, position: str, limit: int = 100
    ) -> Json:
        last: dict[str, tidings.Change] = {}
        kinds: collections.Counter[str | None] = collections.Counter()
        proof: Json = {"from": position, "entries": 0, "digest": None}
        how = {"position": position, "until_caught_up": True, "form": "xml"}
        for message in self._messages(request, set, how):
            for change in message.changes:
                kinds[change.change] += 1
                last.pop(change.loc, None)
                last[change.loc] = change
            proof["entries"] += message.last - message.after
            proof["digest"] = message.digest or proof["digest"]
            position = message.position or position
        proof.update(to=position, is_checked=proof["digest"] is not None)
        newest = [_entry(change) for change in list(last.values())[-limit:]]
        answer = {"changes": dict(kinds), "resources": newest, "left_out": len(last) - len(newest)}
        return {**answer, "position": position, "proof": proof}

    # The protocol

    def initialize(self, given: Json) -> Json:
        asked = given.get("protocolVersion")
        return {
            "protocolVersion": asked if asked in PROTOCOLS else PROTOCOLS[0],
            "capabilities": {"tools": {}, "resources": {}},
            "serverInfo": {"name": "tidings", "version": tidings.__version__},
            "instructions": f"Changes of the ResourceSync source {self.source}. Keep the "
            "position of each answer, and give it with the next question.",
        }

    def list_tools(self) -> Json:
        tools = []
        for name, (does, has, needs) in TOOLS.items():
            form: Json = {"type": "object", "properties": has, "required": needs}
            hints = {"readOnlyHint": True, "openWorldHint": True}
            tool: Json = {"name": name, "description": does, "annotations": hints}
            tools.append({**tool, "inputSchema": {**form, "additionalProperties": False}})
        return {"tools": tools}

    def call_tool(self, request: _Request, given: Json) -> Json:
        name, arguments = given.get("name"), given.get("arguments") or {}
        if name not in TOOLS:
            raise Refusal(-32602, f"there is no tool {name}")
        _, has, needs = TOOLS[name]
        for wrong in [*(set(arguments) - set(has)), *(set(needs) - set(arguments))]:
            raise Refusal(-32602, f"{name}: the argument {wrong} is unknown, or missing")
        try:
            if "limit" in arguments:
                arguments["limit"] = max(1, min(int(arguments["limit"]), ENTRIES_MAX))
            more = {} if name == "list_sets" else {"request": request}
            result = getattr(self, name)(**more, **arguments)
        except (tidings.Error, TypeError, ValueError, AttributeError) as error:
            return {"content": [{"type": "text", "text": str(error)}], "isError": True}
        text = json.dumps(result, ensure_ascii=False)
        return {"content": [{"type": "text", "text": text}], "structuredContent": result}

    def list_resources(self) -> Json:
        form = {"mimeType": "application/json"}
        sets = self.list_sets()["sets"]
        return {"resources": [{"uri": url, "name": _name(url), **form} for url in sets]}

    def read_resource(self, request: _Request, given: Json) -> Json:
        """Where the history of a set ends now."""
        uri = str(given.get("uri"))
        try:
            message = next(self._messages(request, uri, {}))
        except tidings.Invalid as error:
            raise Refusal(-32002, str(error)) from None
        facts = json.dumps({"set": uri, "position": message.position, "digest": message.digest})
        return {"contents": [{"uri": uri, "mimeType": "application/json", "text": facts}]}

    def _result(self, request: _Request, method: str, given: Json) -> Json:
        methods: dict[str, Callable[[], Json]] = {
            "initialize": lambda: self.initialize(given),
            "ping": dict,
            "tools/list": self.list_tools,
            "tools/call": lambda: self.call_tool(request, given),
            "resources/list": self.list_resources,
            "resources/templates/list": lambda: {"resourceTemplates": []},
            "resources/read": lambda: self.read_resource(request, given),
        }
        if method in methods:
            return methods[method]()
        raise Refusal(-32601, f"there is no method {method}")

    def expect(self, message: Any) -> bool:
        """Know of a request before its thread begins, so that it can be cancelled. False:
        the message is none, and waits for no thread."""
        id = message.get("id") if isinstance(message, dict) else None
        if is_request := isinstance(id, (int, str)):
            self._requests[id] = _Request()
        return is_request

    def answer(self, message: Any) -> Json | None:
        """The answer to a message; None: it wants none. Any thread."""
        id = message.get("id") if isinstance(message, dict) else None
        try:
            if not isinstance(message, dict) or not isinstance(message.get("method"), str):
                raise Refusal(-32600, "a message is an object with a method")
            given = message.get("params") or {}
            if id is None:
                request = self._requests.get(given.get("requestId"))
                if message["method"] == "notifications/cancelled" and request:
                    request.cancel()
                return None
            request = self._requests.setdefault(id, _Request())
            body = {"result": self._result(request, message["method"], given)}
        except Refusal as refusal:
            body = {"error": {"code": refusal.code, "message": str(refusal)}}
        except (tidings.Error, AttributeError, TypeError) as error:
            body = {"error": {"code": -32603, "message": str(error)}}
        finally:
            self._requests.pop(id, None)
        return {"jsonrpc": "2.0", "id": id, **body}


def _read(text: str | bytes) -> Any:
    """A message; None, which is none, if it is no JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def serve_lines(server: Server) -> None:
    """Answer a client at standard input, each request on a thread of its own."""
    lock = threading.Lock()

    def serve(message: Any) -> None:
        answer = server.answer(message)
        if answer:
            with lock:
                print(json.dumps(answer, ensure_ascii=False), flush=True)

    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        for line in sys.stdin:
            message = _read(line)
            if server.expect(message):
                threads.submit(serve, message)
            else:
                serve(message)


class _Handler(http.server.BaseHTTPRequestHandler):
    """Streamable HTTP without streams: a message is a POST, its answer the body."""

    protocol_version = "HTTP/1.1"
    timeout = 60
    bound: str
    make: Callable[[], Server]  # one for each request: ids are those of one client

    def _end(self, status: int, answer: Json | None = None) -> None:
        body = json.dumps(answer).encode() if answer else b""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _is_asked_from_a_page(self) -> bool:
        """Of another site, which has learned this address, or a name for it."""
        host = urlsplit("//" + self.headers.get("Host", "")).hostname
        origin = urlsplit(self.headers.get("Origin", f"//{host}")).hostname
        return host not in (self.bound, "localhost") or origin != host

    def do_POST(self) -> None:
        size = self.headers.get("Content-Length", "")
        if not size.isdigit() or int(size) > BODY_MAX:
            self.close_connection = True
            self._end(413 if size.isdigit() else 411)
            return
        body = self.rfile.read(int(size))
        if self._is_asked_from_a_page():
            self._end(403)
        elif self.path != "/mcp":
            self._end(404)
        else:
            answer = self.make().answer(_read(body))
            self._end(200 if answer else 202, answer)

    def do_GET(self) -> None:
        self._end(405 if self.path == "/mcp" else 404)

    def log_message(self, format: str, *arguments: Any) -> None:
        """No line for each request."""


def main() -> NoReturn:
    parser = argparse.ArgumentParser("tidings mcp", description=__doc__.split("\n")[0])
    parser.add_argument("source", nargs="?", default="http://127.0.0.1:8787/")
    parser.add_argument("--http", metavar="HOST:PORT", help="instead of standard input")
    parser.add_argument("--token-file", help="bearer token for the source")
    given = parser.parse_args()
    access = tidings.Access(token_file=given.token_file)
    if not given.http:
        serve_lines(Server(given.source, access))
        sys.exit()
    host, _, port = given.http.rpartition(":")
    _Handler.make = staticmethod(lambda: Server(given.source, access))
    _Handler.bound = host or "127.0.0.1"
    try:
        web = http.server.ThreadingHTTPServer((_Handler.bound, int(port)), _Handler)
    except (OSError, ValueError, OverflowError) as error:
        parser.error(f"--http {given.http}: {error}")
    print(f"http://{_Handler.bound}:{web.server_port}/mcp", flush=True)
    web.serve_forever()
    sys.exit()


if __name__ == "__main__":
    main()
