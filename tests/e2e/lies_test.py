"""The corpus of lies (tests/lies/make.py): the command, the Python package and tidings.js judge
each vector alike."""

import contextlib
import json
import re
import runpy
import shutil

import pytest

from tidings_test.broker import ROOT
from tidings_test.process import Process
from tidings_test.servers import Server
from tidings_test.tlog import kept_by_command

try:
    from tidings_test.python import tidings
except ImportError:  # builds with a sanitizer have no package
    tidings = None

NODE = shutil.which("node")
LIES = ROOT / "tests/lies"
PLACE, EPOCH = "http://broker.example", "9f2c5b7d01e4a683"
XML = "Content-Type: application/xml"
TRIES_AGAIN = "; again in "


def text_of(text):
    return "".join(f"{line}\n" for line in text) if isinstance(text, list) else text


class Vector:
    def __init__(self, kind, own):
        self.name, self.exempt = own["name"], own.get("not", {})
        self.verdicts = {"c": own["verdict"], "js": own["verdict"] | own["verdict"].get("js", {})}
        self.reader = kind["reader"] | own.get("reader", {})
        self.source = {**kind.get("source", {})}
        for name, of in own.get("source", {}).items():
            is_table = name in ("changes", "tiles")
            self.source[name] = {**self.source.get(name, {}), **of} if is_table else of
        self.last = own.get("last", kind.get("last"))
        self.file = text_of(own.get("file"))

    def words(self, reader):
        words = self.verdicts[reader].get("words", [])
        return words.get(reader, []) if isinstance(words, dict) else words

    def place(self):
        """What a file of a position has; None: the reader begins at the beginning."""
        parts = (self.reader["position"], self.reader.get("digest"))
        return None if parts[0] == "0" else " ".join(part for part in parts if part)


def read_vectors():
    for file in sorted(LIES.glob("*.json")):
        kind = json.loads(file.read_text(encoding="utf-8"))
        yield from (Vector(kind, own) for own in kind["vectors"])


VECTORS = {vector.name: vector for vector in read_vectors()}


class Source(Server):
    """Has a set for each vector and reader, at READER/NAME/sets/news."""

    async def serve(self, peer):
        while request := await peer.head():
            path, _, query = request.target.partition("?")
            _, reader, name, _, _, rest = f"{path}/".split("/", 5)
            base = f"{self.url}/{reader}/{name}"
            rest = rest.rstrip("/")
            found = self.find(base, VECTORS[name], rest, query)
            status, body, headers = found if found else (404, b"", [])
            head = [f"HTTP/1.1 {status} Answer", f"Content-Length: {len(body)}", *headers]
            await peer.send("\r\n".join([*head, "\r\n"]).encode() + body)

    def find(self, base, vector, path, query):
        """The status, the body and the headers of an answer; None: there is none."""
        source = vector.source
        if path in ("", "capabilitylist.xml"):
            return self.describe(f"{base}/sets/news", vector, path)
        if path == "changes":
            after = dict(pair.split("=") for pair in query.split("&"))["after"].rpartition("-")[2]
            answer = source["changes"].get(after)
            if not answer:
                return None
            digest = answer.get("before")
            headers = [f"Tidings-After-Digest: {digest}"] if digest else []
            return 200, text_of(answer["text"]).replace(PLACE, base).encode(), [XML, *headers]
        if path == "checkpoint" and query != "witnessed" and source["checkpoint"] is not None:
            return 200, text_of(source["checkpoint"]).encode(), ["Content-Type: text/plain"]
        tile = source["tiles"].get(path.removeprefix("tile/"))
        return None if tile is None else (200, bytes.fromhex("".join(tile)), [])

    @staticmethod
    def describe(url, vector, path):
        rels = {"memory": "changes", "stream": "stream", "checkpoint": "checkpoint", "set": ""}
        links = {f"urn:tidings:1:{rel}": f"{url}/{name}".rstrip("/") for rel, name in rels.items()}
        if not path:
            links["capabilitylist"] = f"{url}/capabilitylist.xml"
            rows = [{"rel": rel, "href": href} for rel, href in links.items()]
            body = json.dumps({"name": "news", "last": vector.last, "links": rows})
            return 200, body.encode(), ["Content-Type: application/json"]
        body = (
            '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
            ' xmlns:rs="http://www.openarchives.org/rs/terms/" xmlns:td="urn:tidings:1">\n'
            f'<rs:ln rel="up" href="{url}"/>\n'
            + "".join(f'<rs:ln rel="{rel}" href="{href}"/>\n' for rel, href in links.items())
            + '<rs:md capability="capabilitylist"/>\n</urlset>\n'
        )
        return 200, body.encode(), [XML]


class Outcome:
    """What a reader made of a vector: the verdict, the entries, the reason and the texts that
    accuse the source."""

    def __init__(self, verdict, seqs, said="", fault=None, evidence=None):
        self.verdict, self.seqs, self.said = verdict, seqs, said
        self.fault, self.evidence = fault, evidence

    def __repr__(self):
        return f"{self.verdict} {self.seqs} {self.fault}: {self.said}"


@pytest.fixture(scope="module")
def source():
    server = Source()
    yield server
    server.end()


@pytest.fixture(params=["command", "python", "js"])
def read(request, source, tmp_path):
    """The name of the reader's words, and what reads a vector."""
    if request.param == "js":
        if not NODE:
            pytest.skip("there is no Node")
        outcomes = request.getfixturevalue("by_js")
        return "js", lambda vector: outcomes[vector.name]
    if request.param == "python":
        if not tidings:
            pytest.skip("there is no Python package")
        return "c", lambda vector: read_by_python(source, vector, tmp_path)
    start = request.getfixturevalue("start")
    return "c", lambda vector: read_by_command(source, vector, tmp_path, start)


# The command


def trouble_of(following):
    """The line that says why it tries again; None: it ends."""
    with contextlib.suppress(AssertionError):
        return following.err.find(lambda line: TRIES_AGAIN in line)


STATUS = {0: "accepted", 4: "rewound"}
FAULTS = {2: "usage"}


def read_by_command(source, vector, directory, start):
    url, state = f"{source.url}/command/{vector.name}/sets/news", directory / "state"
    options, evidence = [], kept_by_command(url, "evidence", state)
    for option, name in (("--key", "key"), ("--witness", "witnesses")):
        if vector.reader.get(name) is not None:
            (directory / name).write_text(text_of(vector.reader[name]))
            options += [option, directory / name]
    if "require" in vector.reader:
        options += ["--require-witnesses", vector.reader["require"]]
    if vector.file:
        file = directory / "file"
        file.write_text(vector.file)
        done = start("tidings", "verify", file, *options)
        ended = done.wait()
        is_evidence = {"evidence": vector.file} if ended == 4 else {}
        verdict = "evidence" if ended == 4 else STATUS.get(ended, "refused")
        return Outcome(verdict, [], done.errors(), **is_evidence)
    if "kept" in vector.reader:
        kept_by_command(url, "checkpoint", state).write_text(text_of(vector.reader["kept"]))
    if vector.place():
        state.write_text(vector.place())
    words = ["--from-start", "--until-caught-up", "--verbose", "--state", state, *options]
    done = start("tidings", "follow", url, *words)
    waits = trouble_of(done)
    if waits:
        done.kill()
    ended, seqs = done.wait(), [int(line.split(" ")[0]) for line in done.out]
    if waits:
        return Outcome("held back", seqs, waits)
    accuses = evidence.read_text() if evidence.exists() else None
    verdict = "evidence" if accuses and ended == 4 else STATUS.get(ended, "refused")
    return Outcome(verdict, seqs, done.errors(), FAULTS.get(ended), accuses)


# The Python package


def read_by_python(source, vector, directory):
    url, state = f"{source.url}/python/{vector.name}/sets/news", directory / "state"
    reader, seqs = vector.reader, []
    keys = {name: text_of(reader.get(of)) for name, of in (("verifier_key", "key"), ("witnesses", "witnesses"))}
    keys["require_witnesses"] = reader.get("require", 0)
    try:
        if vector.file:
            (directory / "file").write_text(vector.file)
            tidings.verify(directory / "file", **keys)
            return Outcome("accepted", [])
        if vector.place():
            state.write_text(vector.place())
        where = {"state": state} if vector.place() else {"position": reader["position"]}
        how = {"until_caught_up": True, "patience": 0.001, "checkpoint": text_of(reader.get("kept"))}
        with tidings.follow(url, **keys, **where, **how) as follower:
            seqs.extend(change.seq for change in follower)
        return Outcome("accepted", seqs)
    except tidings.CheckpointError as error:
        is_evidence = len(error.evidence) > 1
        accuses = "\n".join(error.evidence) if is_evidence else None
        return Outcome("evidence" if is_evidence else "refused", seqs, str(error), error.fault, accuses)
    except tidings.Error as error:
        verdict, fault = SAID_BY[type(error)]
        if vector.file and verdict == "rewound":
            return Outcome("evidence", seqs, str(error), fault, vector.file)
        return Outcome(verdict, seqs, str(error), fault)


SAID_BY = tidings and {
    tidings.Broken: ("refused", "malformed"),
    tidings.Different: ("refused", None),
    tidings.Gone: ("refused", "gone"),
    tidings.Invalid: ("refused", "usage"),
    tidings.Refused: ("refused", "refused"),
    tidings.Rewound: ("rewound", None),
    tidings.Unreachable: ("held back", None),
}

# tidings.js


@pytest.fixture(scope="module")
def by_js(source):
    node = Process(NODE, ROOT / "tests/followers/lies.mjs", f"{source.url}/js", LIES)
    assert node.wait() == 0, node.errors()
    return {fact["name"]: outcome_of(fact) for fact in map(json.loads, node.out)}


def outcome_of(fact):
    how = [fact["seqs"], fact.get("message", ""), fact.get("fault") or fact.get("code")]
    if "trouble" in fact:
        return Outcome("held back", fact["seqs"], fact["trouble"])
    if "message" not in fact:
        return Outcome("accepted", fact["seqs"])
    if len(fact.get("evidence") or []) > 1:
        return Outcome("evidence", *how, "\n".join(fact["evidence"]))
    return Outcome("rewound" if fact.get("code") == "rewound" else "refused", *how)


#
@pytest.mark.parametrize("vector", VECTORS.values(), ids=VECTORS)
def test_a_vector_has_its_verdict(read, vector, tmp_path):
    reader, judge = read
    if reader in vector.exempt:
        return
    outcome, wanted = judge(vector), vector.verdicts[reader]
    assert outcome.verdict == wanted["is"], outcome
    assert outcome.seqs == wanted.get("seqs", []), outcome
    if outcome.fault and "fault" in wanted and not vector.file:
        assert outcome.fault == wanted["fault"], outcome
    for word in vector.words(reader):
        assert word in outcome.said, outcome
    if outcome.evidence and tidings:
        (tmp_path / "evidence").write_text(outcome.evidence)
        with pytest.raises(tidings.Rewound):
            tidings.verify(tmp_path / "evidence", verifier_key=text_of(vector.reader["key"]))


def test_the_messages_are_those_of_a_broker(news):
    def plain(text):
        return re.sub(r"sha-256:[0-9a-f]{64}|\d{4}-\d\d-\d\dT[0-9:.]+Z", "?", text)

    news.post(3)
    renamed = {news.url: f"{PLACE}/sets/news", news.state()["epoch"]: EPOCH}
    for vector, after in (("entries", 0), ("entries", 3), ("entries-resumed", 1)):
        text = news.get(f"changes?after={after}", accept="application/xml").text
        for here, there in renamed.items():
            text = text.replace(here, there)
        assert plain(text) == plain(text_of(VECTORS[vector].source["changes"][str(after)]["text"]))


def test_the_corpus_is_what_its_program_makes():
    made = dict(runpy.run_path(str(LIES / "make.py"))["texts"]())
    assert made == {file.name: file.read_text(encoding="utf-8") for file in LIES.glob("*.json")}
