"""POST /sets/NAME/reconcile: a reader finds out how its copy differs from a set, by
Negentropy (tidings_test.negentropy, and another implementation that is not ours)."""

import hashlib
import json
import random

import pytest

from tidings_test import npm
from tidings_test.http import check_refused
from tidings_test.mirrored import entry
from tidings_test.negentropy import id_sum, reconcile, resource_id
from tidings_test.sets import change
from tidings_test.waiting import wait_for

BYTES = "application/octet-stream"


class Copied:
    """What a set has, as a reader knows it: the id of each loc."""

    def __init__(self, news):
        self.news = news
        self.ids = {}

    def post(self, *numbers, text="text", kind="updated"):
        changes = []
        for n in numbers:
            loc, body = f"http://example.com/r?n={n}&x='\"<>", f"{text} {n}"
            if kind == "deleted":
                changes.append(change(loc, kind))
                self.ids.pop(loc)
            else:
                changes.append(entry(loc, body, kind))
                sha256 = hashlib.sha256(body.encode()).hexdigest()
                self.ids[loc] = resource_id(loc, sha256)
        return self.news.receipt(self.news.send(changes))

    def ask(self, body, query=""):
        """The answer to a message, which has to come soon."""
        path = f"{self.news.path}/reconcile{query}"
        answers = []

        def is_ready():
            answers.append(self.news.broker.post(path, body, BYTES))
            if answers[-1].status == 503:
                check_refused(answers[-1], 503, "still counting")
                assert answers[-1]["Retry-After"] == "1"
            return answers[-1].status != 503

        wait_for("the state", is_ready)
        return answers[-1]

    def check(self, ids, position):
        """A copy with these ids finds out how it differs from the state at that
        position. Returns the number of rounds."""

        def ask(message):
            answer = self.ask(message, f"?after={position}")
            assert answer.status == 200, answer
            assert answer["Tidings-Position"] == position
            assert answer["Content-Type"] == BYTES
            return answer.body

        theirs = set(self.ids.values())
        have, need, rounds = reconcile(ids, ask)
        assert (have, need) == (set(ids) - theirs, theirs - set(ids))
        return rounds


@pytest.fixture
def copied(broker):
    return Copied(broker.set())


def foreign(n):
    return [hashlib.sha256(b"%d" % i).digest() for i in range(n)]


# Its state is its log.
def test_a_small_set(copied):
    position = copied.post(*range(20)).position
    position = copied.post(3, 7, kind="deleted").position
    position = copied.post(5, text="other").position
    ids = list(copied.ids.values())
    assert copied.check(ids, position) == 1
    copied.check(ids[3:] + foreign(2), position)
    copied.check([], position)


def wait_for_sum(copied):
    """The archive thread notes the sum a moment after its state has the ids."""
    wanted = id_sum(list(copied.ids.values()))
    wait_for("the sum", lambda: copied.news.state().get("sum") == wanted)


def test_a_set_with_a_state(copied):
    position = copied.post(*range(3000)).position
    ids = list(copied.ids.values())
    assert copied.check(ids, position) == 1
    wait_for_sum(copied)
    assert copied.news.state()["sumPosition"] == position

    # The fold keeps the ids.
    for n, (numbers, how) in enumerate(
        [
            (range(0, 40), {"text": "other"}),
            (range(20, 60), {"kind": "deleted"}),
            (range(3000, 3100), {}),
            (range(30, 50), {"kind": "created"}),
        ]
    ):
        position = copied.post(*numbers, **how).position
        sample = random.Random(n).sample(ids, len(ids) - n)
        copied.check(sample + foreign(n), position)
    wait_for_sum(copied)

    # A stream says it beside the checkpoint of that position.
    follower = copied.news.events("checkpoints=yes")
    while follower.event != "checkpoint":
        assert follower.read_event()
    said = json.loads(follower.data)
    follower.leave()
    assert said["sum"] == id_sum(list(copied.ids.values()))
    assert copied.news.state()["sumPosition"].endswith(f"-{said['last']}")

    # A Resource List says it, too.
    built = copied.news.build("resourcelist")
    text = copied.news.get("resourcelist.xml").text
    assert f' td:sum="{id_sum(list(copied.ids.values()))}"' in text
    assert built


# The ids are part of the state, on the disk.
def test_ids_outlive_the_broker(start_broker):
    copied = Copied(start_broker().set())
    position = copied.post(*range(300)).position
    copied.check([], position)
    copied.news.broker.stop()
    copied.news.broker.start()
    path = f"{copied.news.path}/reconcile"
    assert copied.news.broker.post(path, b"\x61", BYTES).status == 200
    position = copied.post(*range(100), text="other").position
    copied.check(foreign(3), position)


def test_entries_of_ids(copied):
    ids = foreign(3)
    for n in (20, 300):  # of a log, of a state
        position = copied.post(*range(n)).position
        asked = b"".join(ids + list(copied.ids.values())[:7])
        answer = copied.ask(asked, f"?entries=yes&after={position}")
        assert answer["Tidings-Position"] == position
        document = answer.document()
        assert {e.loc for e in document.entries} == set(list(copied.ids)[:7])
        assert f'td:last="{n if n == 20 else 320}"' in answer.text
    assert copied.ask(b"", "?entries=yes").document().entries == []


def test_refuses_what_is_malformed(copied):
    copied.post(1)

    def refuse(body, status, part, query=""):
        path = f"{copied.news.path}/reconcile{query}"
        check_refused(copied.news.broker.post(path, body, BYTES), status, part)

    refuse(b"", 400, "the message is empty")
    refuse(b"\x61\0\0", 400, "the mode of a range")
    refuse(b"\x61" + b"\1\0\0" * 20000, 400, "more than 16384 ranges")
    refuse(bytes(256 * 1024 + 1), 413, "")
    refuse(bytes(33), 400, "ids of 32 bytes", "?entries=yes")
    refuse(bytes(32 * 1001), 400, "at most 1000", "?entries=yes")
    refuse(b"\x61", 400, "yes or no", "?entries=maybe")
    refuse(b"\x61", 410, "", "?after=0123456789abcdef-1")
    assert copied.ask(b"\x62\0").body == b"\x61"
    path = f"{copied.news.path}/reconcile"
    assert copied.news.broker.post(path, b"{}", "application/json").status == 415
    assert copied.news.broker.post("/sets/none/reconcile", b"a", BYTES).status == 404


# The set names it.
def test_the_set_names_it(copied):
    copied.post(1)
    links = {link["rel"]: link for link in copied.news.state()["links"]}
    assert links["urn:tidings:1:reconcile"] == {
        "rel": "urn:tidings:1:reconcile",
        "href": f"{copied.news.url}/reconcile",
        "type": BYTES,
    }
    assert f'href="{copied.news.url}/reconcile"' in copied.news.get("capabilitylist.xml").text


# An implementation that is not ours

PROGRAM = """
import { Negentropy, NegentropyStorageVector } from './node_modules/nostr-tools/lib/esm/nip77.js';
import { readFileSync } from 'fs';

const [url, file, limit] = process.argv.slice(2);
const storage = new NegentropyStorageVector();
for (const id of readFileSync(file, 'utf8').split('\\n').filter(Boolean)) storage.insert(0, id);
storage.seal();
const side = new Negentropy(storage, Number(limit));
const have = [], need = [];
let message = side.initiate(), rounds = 0;
while (message && message.length > 2) {
    const body = Buffer.from(message, 'hex');
    const answer = await fetch(url, { method: 'POST', body, headers: { 'Content-Type': 'application/octet-stream' } });
    if (answer.status !== 200) throw new Error(`${answer.status} ${await answer.text()}`);
    const bytes = Buffer.from(await answer.arrayBuffer());
    message = side.reconcile(bytes.toString('hex'), id => have.push(id), id => need.push(id));
    rounds++;
}
console.log(JSON.stringify({ have, need, rounds }));
"""


@pytest.mark.parametrize("limit", (60000, 4096))
def test_an_implementation_that_is_not_ours(copied, run, tmp_path, limit):
    npm.install(tmp_path)
    (tmp_path / "program.mjs").write_text(PROGRAM)
    for n in (30, 5000):
        position = copied.post(*range(n)).position
        copied.check([], position)
        theirs = set(copied.ids.values())
        ids = set(foreign(10)) | set(random.Random(n).sample(sorted(theirs), n - 25))
        (tmp_path / "ids").write_text("".join(f"{i.hex()}\n" for i in sorted(ids)))
        url = f"{copied.news.url}/reconcile"
        done = run(npm.node(), tmp_path / "program.mjs", url, tmp_path / "ids", str(limit))
        found = json.loads(done.output())
        assert set(found["have"]) == {i.hex() for i in ids - theirs}
        assert set(found["need"]) == {i.hex() for i in theirs - ids}
