"""Sources as other programs make them: a table of answers for each, and a server that
gives them. tests/abroad/README.md describes the form of a source's file.

    source = Source.named("pages-by-next")
    server = Abroad(source)
    server.begin_look(0)
    ... the command under test asks for server.link(source.start) ...
    server.asked                    the paths of this look's requests, in order
    server.content("/a.txt")        the bytes of that resource as it is now

A source is data; what is right for it is data, too. looks.py runs the commands.
"""

import datetime
import functools
import gzip
import io
import json
import pathlib
import re
import signal
import time
import urllib.parse
import zipfile
import zlib

from tidings_test.servers import Server, call
from tidings_test.site import TYPES

SOURCES = pathlib.Path(__file__).resolve().parent.parent / "abroad" / "sources"

# A command that asks for one path so often in one look does not come to an end: a
# list that changes may be read three times, by each of a few readers.
TOO_OFTEN = 40

# A command may go on asking for what fails: it has been told so often.
FAILED_OFTEN = 3


COMMANDS = ("follow", "sync", "audit", "relay", "full", "harvest")

MEMBERS = set(
    "rule what thread start list answers after then right follow early waits".split()
)
MEMBERS_OF_RIGHT = set("has changes exit tells tells_not asks_not asks_first spoil".split())
MEMBERS_OF_ANSWERS = set(
    "status type headers body gzip deflate cut zip encoding mark".split()
)


class Source:
    """The file of a source. Members that it lacks have the defaults of the form."""

    def __init__(self, name, data):
        self.name = name
        self.data = data
        self.rule = data["rule"]
        self.what = data["what"]
        self.thread = data.get("thread", "")
        self.start = data["start"]
        self.list = data.get("list", self.start)
        self.follow = data.get("follow", ["--from-start"])
        self.is_early = data.get("early", False)
        self.may_wait = data.get("waits", False)
        self.then = data.get("then", [])
        self.right = data["right"]

    @staticmethod
    def named(name):
        text = (SOURCES / f"{name}.json").read_text(encoding="utf-8")
        return Source(name, json.loads(text))

    @property
    def n_looks(self):
        """The looks of which the file says something."""
        return max(len(self.then) + 1, len(self.right))

    def says_of(self, command):
        """True if the case says something about that command."""
        if command == "harvest" and "harvest" not in self.data:
            return self.says_of("relay") or self.says_of("full")
        if command == "full" and self.list is None:
            return False
        return self.data.get(command, "") is not None

    def right_at(self, look, command):
        """The members of `right` after that look, for that command."""
        row = self.right[min(look, len(self.right) - 1)]
        return {**row, **row.get(command, {})}

    def resources(self):
        """All paths that `right` names in `has`."""
        rows = [row for right in self.right for row in _with_inner(right)]
        return {path for row in rows for path in spread(row.get("has", []))}

    def unknown_members(self):
        """The members of the file that have no meaning."""
        unknown = self.data.keys() - MEMBERS - set(COMMANDS)
        for row in self.right:
            unknown |= row.keys() - MEMBERS_OF_RIGHT - set(COMMANDS)
            for inner in _with_inner(row)[1:]:
                unknown |= inner.keys() - MEMBERS_OF_RIGHT
        tables = [self.data["answers"], *self.then, *self.data.get("after", {}).values()]
        for answer in [answer for table in tables for answer in table.values()]:
            for one in answer if isinstance(answer, list) else [answer]:
                if isinstance(one, dict):
                    unknown |= one.keys() - MEMBERS_OF_ANSWERS
        return unknown

    def __repr__(self):
        return self.name


@functools.cache
def all_sources():
    """Every source of tests/abroad/sources, by name."""
    return [Source.named(path.stem) for path in sorted(SOURCES.glob("*.json"))]


def spread(paths):
    """The paths, with /r/{0..19}.txt as twenty."""
    return [one for path in paths for one in _spread_path(path)]


def _spread_path(path):
    match = re.search(r"\{(\d+)\.\.(\d+)\}", path)
    if not match:
        return [path]
    first, last = map(int, match.groups())
    before, after = path[: match.start()], path[match.end() :]
    return [f"{before}{n}{after}" for n in range(first, last + 1)]


def _with_inner(row):
    """The row, and the members of it that hold for one command."""
    return [row, *(value for value in row.values() if isinstance(value, dict))]


class Abroad(Server):
    """The server of a source. Its answers are those of one look until the next one
    begins; `asked` are the paths of the look's requests."""

    def __init__(self, source, host="127.0.0.1"):
        self.source = source
        self.asked = []
        self._answers = {}
        self._after = {}
        self._resources = source.resources()
        self._began = []
        self._failures = {}
        self._given = {}
        self._process = None
        self.is_enough = False
        # A look of an early source did not keep to its second, as this machine was slow:
        # what came of it says nothing.
        self.is_late = False
        super().__init__(host)

    def link(self, path):
        return self.url + path

    # Looks

    def begin_look(self, number):
        """The answers of that look hold from now on."""
        if self.source.is_early:
            time.sleep(1 - time.time() % 1)  # the second itself is what is waited for
        call(self._begin_look, number)

    def _begin_look(self, number):
        self.asked = []
        self._failures = {}
        self._process = None
        self.is_enough = False
        self._began.append(time.time())
        if number == 0:
            self._put(self.source.data["answers"])
            self._after = dict(self.source.data.get("after", {}))
        elif number <= len(self.source.then):
            self._put(self.source.then[number - 1])

    def stop_when_enough(self, process):
        """Interrupt the process as soon as it has shown that it goes on asking."""
        call(self._stop_when_enough, process)

    def _stop_when_enough(self, process):
        self._process = process
        if self.is_enough and process.is_running:
            process.signal(signal.SIGTERM)

    def _enough(self):
        self.is_enough = True
        if self._process:
            self._stop_when_enough(self._process)

    def _put(self, answers):
        for paths, answer in answers.items():
            for path in spread([paths]):
                self._answers[quoted(path)] = answer
                self._given[quoted(path)] = 0

    # Answers

    def content(self, path):
        """The bytes of that resource as it is now, without a content coding; None:
        there is none."""
        return call(self._content, path)

    def _content(self, path):
        answer = self._answer_of(path)
        if isinstance(answer, list) and answer and isinstance(answer[0], dict):
            answer = answer[-1]
        if isinstance(answer, dict):
            if answer.get("status", 200) != 200:
                return None
            if "Content-Encoding" in answer.get("headers", {}):
                answer = {**answer, "gzip": 0, "deflate": False}
        return None if answer is None else self._body(answer)

    def _answer_of(self, path):
        if path in self._answers:
            return self._answers[path]
        return f"text of {path}\n" if path in self._resources else None

    async def serve(self, peer):
        while request := await peer.request():
            head, body, is_cut = self._answer(request)
            await peer.send(head + body)
            if is_cut or request["Connection"] == "close":
                return

    def _answer(self, request):
        """The head and the body for a request, and whether the connection ends."""
        path = request.target
        self.asked.append(path)
        self.is_late |= self.source.is_early and int(time.time()) > int(self._began[-1])
        if self.asked.count(path) >= TOO_OFTEN:
            self._enough()
        if not path.isascii():
            return _head(400, {"Content-Length": 0}), b"", True
        answer = self._answer_of(path)
        if isinstance(answer, list) and answer and isinstance(answer[0], dict):
            n_given = self._given.get(path, 0)
            self._given[path] = n_given + 1
            answer = answer[min(n_given, len(answer) - 1)]
        if answer is None:
            answer = {"status": 404, "body": "not found\n"}
        elif not isinstance(answer, dict):
            answer = {"body": answer}
        body = self._body(answer)
        status, cut = answer.get("status", 200), answer.get("cut", 0)
        lines = {"Content-Length": len(body)}
        if type := answer.get("type", _type(path, answer)):
            lines["Content-Type"] = type
        for name, value in answer.get("headers", {}).items():
            lines[name] = self._filled(value)
        if cut or (status >= 400 and path in self._answers):
            self._failures[path] = self._failures.get(path, 0) + 1
            if self.source.may_wait and self._failures[path] >= FAILED_OFTEN:
                self._enough()
        if path in self._after:
            self._put(self._after.pop(path))
        if request.method == "HEAD" or status in (204, 304):
            body, cut = b"", 0
        return _head(status, lines), body[: len(body) - cut], bool(cut)

    def _body(self, answer):
        if not isinstance(answer, dict):
            answer = {"body": answer}
        if "zip" in answer:
            return self._zip(answer["zip"])
        body = self._text(answer.get("body", ""))
        if answer.get("mark"):
            body = "\ufeff" + body
        body = body.encode(answer.get("encoding", "utf-8"))
        for _ in range(answer.get("gzip", 0)):
            body = gzip.compress(body, mtime=0)
        if answer.get("deflate"):
            body = zlib.compress(body)
        return body

    def _zip(self, members):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as package:
            for name, text in members.items():
                package.writestr(name, self._text(text).encode())
        return file.getvalue()

    def _text(self, text):
        return self._filled("\n".join(text) if isinstance(text, list) else text)

    def _filled(self, text):
        """The text with its repetitions, times and addresses."""
        text = re.sub(r"\[\[(\d+)\.\.(\d+): (.*?)\]\]", _repeated, text, flags=re.S)
        text = re.sub(r"TIME(\d*)\((-?\d+)\)", self._time, text)
        return text.replace("BASE", self.url)

    def _time(self, match):
        look, seconds = match.groups()
        look = int(look) - 1 if look else len(self._began) - 1
        began = self._began[min(look, len(self._began) - 1)] + int(seconds)
        return datetime.datetime.utcfromtimestamp(int(began)).isoformat() + "Z"


def _repeated(match):
    first, last, text = match.groups()
    return "".join(
        text.replace("{n}", str(n)) for n in range(int(first), int(last) + 1)
    )


def quoted(path):
    """The path as ASCII, by RFC 3987, 3.1."""
    return urllib.parse.quote(path, safe="/?=&%;:@+,~!$'()*[]#")


def _type(path, answer):
    if "zip" in answer:
        return "application/zip"
    return TYPES.get(pathlib.PurePath(path.partition("?")[0]).suffix)


def _head(status, lines):
    lines = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status} So\r\n{lines}\r\n".encode()
