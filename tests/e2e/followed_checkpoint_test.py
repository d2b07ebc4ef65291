"""Followers in Python and JavaScript check the checkpoints of a set: behind a proxy that
answers some requests itself, each lie is refused by its name, and nothing is delivered."""

import asyncio
import base64
import json
import pathlib
import re
import shutil
import tempfile
import time

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tidings_test import npm
from tidings_test.broker import ROOT
from tidings_test.content import multipart
from tidings_test.layouts import urlset
from tidings_test.middle import HABITS, Exchange
from tidings_test.servers import Server
from tidings_test.sets import change
from tidings_test.tlog import Key, kept_by_command, root_of, sha256
from tidings_test.waiting import wait_for

try:
    from tidings_test.python import tidings
except ImportError:  # builds with a sanitizer have no package
    tidings = None

needs_python = pytest.mark.skipif(not tidings, reason="there is no Python package")

NODE = shutil.which("node")


class Liar(Server):
    """A proxy before the broker that answers the paths of `lies` itself: path -> bytes, None
    for 404, or the next answers, each a status or bytes. `asked`: the paths of all requests."""

    habit = HABITS["drops Upgrade"]

    def __init__(self, broker):
        self.broker, self.lies, self.asked = broker, {}, []
        super().__init__()

    async def serve(self, peer):
        request = await peer.head()
        if not request:
            return
        path = request.target.partition("?")[0]
        self.asked.append(path)
        body = self.lies.get(request.target, self.lies.get(path, []))
        if body == []:
            await Exchange(self, peer, request).run()
            return
        body = body.pop(0) if isinstance(body, list) else body
        status = b"404 Not Found" if body is None else b"200 OK"
        if isinstance(body, int):
            status, body = b"%d Away" % body, b""
        head = b"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
        of_type = {b"<": b"application/xml", b"{": b"application/json", b"e": b"text/event-stream"}
        its_type = of_type.get((body or b"")[:1], b"text/plain")
        await peer.send(head % (status, its_type, len(body or b"")) + (body or b""))


class Scene:
    """A broker behind a Liar; its set has `n` entries. `hashes`: of the leaves, as its tiles
    have them."""

    def __init__(self, broker, n):
        self.liar = Liar(broker)
        broker.stop()
        broker.options += ["--public-url", self.liar.url]
        broker.restart()
        self.set = broker.set("news")
        self.set.post(n)
        self.url = f"{self.liar.url}/sets/news"
        self.epoch = self.set.state()["epoch"]
        text = (pathlib.Path(broker.data) / "checkpoint.keys").read_text()
        (secret,) = [line for line in text.split("\n") if line and line[0] != "#"]
        self.key = Key(base64.b64decode(secret))
        self.origin = f"{self.liar.url.partition('//')[2]}/sets/news/{self.epoch}"
        self.verifier = self.key.verifier(self.origin)
        self.hashes = self.leaves(self.set, n)
        self.at = int(time.time()) + 60  # the broker's own are of now

    @staticmethod
    def leaves(news, n):
        hashes = []
        for first in range(0, n, 256):
            width = min(256, n - first)
            path = f"tile/0/{first // 256:03}" + (f".p/{width}" if width < 256 else "")
            tile = news.get(path).body
            hashes += [tile[i : i + 32] for i in range(0, 32 * width, 32)]
        return hashes

    def checkpoint(self, hashes, key=None, origin=None, at=None):
        """Signed, of a tree with these leaves; `at` is its time: 0: none; None: later than all
        before."""
        origin, key = origin or self.origin, key or self.key
        body = f"{origin}\n{len(hashes)}\n{base64.b64encode(root_of(hashes)).decode()}\n"
        self.at += 1
        at = self.at if at is None else at
        return f"{body}\n{key.sign(origin, body)}{key.cosign(origin, body, at) if at else ''}"

    def lie(self, path, body):
        body = body.encode() if isinstance(body, str) else body
        self.liar.lies[f"/sets/news/{path}"] = body


@pytest.fixture
def scene(start_broker):
    made = []

    def make(n):
        made.append(Scene(start_broker("--insecure-open", "--checkpoint-every", 0.1), n))
        return made[-1]

    yield make
    for one in made:
        one.liar.end()


class Refused(Exception):
    """As tidings.CheckpointError, of another follower."""

    def __init__(self, why, fault, evidence):
        super().__init__(why)
        self.fault, self.evidence = fault, evidence


class Outcome:
    """What a follower did: `seqs` came, `checkpoints` have these sizes, `error` ended it;
    `kept` is the checkpoint that it keeps."""

    def __init__(self):
        self.seqs, self.checkpoints, self.notes = [], [], []
        self.error, self.kept = None, None


def follow_python(scene, run, last, kept=None, witnesses=None, required=0, verifier=None):
    outcome = Outcome()
    follower = tidings.follow(
        *[scene.url],
        **{"position": "0", "verifier_key": verifier or scene.verifier, "checkpoint": kept},
        **{"witnesses": witnesses, "require_witnesses": required},
        **{"on_checkpoint": lambda found: outcome.notes.append(found)},
    )
    try:
        with follower:
            for change in follower:
                outcome.seqs.append(change.seq)
                if change.seq == last:
                    break
    except tidings.CheckpointError as error:
        outcome.error = error
        assert list(follower) == []  # it has stopped
    outcome.checkpoints = [found.size for found in outcome.notes]
    outcome.kept = outcome.notes[-1].text if outcome.notes else None
    return outcome


def follow_js(scene, run, last, kept=None, witnesses=None, required=0, verifier=None, without=None):
    options = {"verifierKey": verifier or scene.verifier, "kept": kept, "last": last}
    if witnesses:
        options["witnesses"] = witnesses
    if required:
        options["requireWitnesses"] = required
    program = ROOT / "tests/followers/check.mjs"
    done = run(NODE, program, scene.url, json.dumps(options), *([without] if without else []))
    outcome = Outcome()
    *lines, end = done.output().strip().split("\n")
    facts = json.loads(end)
    for line in lines:
        if line.isdigit():
            outcome.seqs.append(int(line))
        elif line.startswith("checkpoint "):
            outcome.checkpoints.append(int(line.split(" ")[1]))
        elif not line.startswith("trouble: "):
            outcome.notes.append(line)
    outcome.kept = facts.get("kept")
    if "kept" not in facts:
        assert facts["isOwn"] and facts["code"] == "checkpoint", facts
        outcome.error = Refused(facts["message"], facts["fault"], tuple(facts["evidence"]))
    return outcome


class Any:
    """Equal to all evidence."""

    def __getitem__(self, key):
        return self

    def __eq__(self, other):
        return True


# What the command says of each fault.
SENTENCES = {
    "smaller": "it had ",
    "root": "another root than before",
    "inconsistent": "do not continue the first",
    "digest": "is not the one that came",
    "origin": "and not of the epoch",
    "witnesses": "itness",
    "malformed": "it is no ",
    "signature": "sign",
}
REWOUND = 4
CONTRADICTIONS = ("smaller", "root", "inconsistent", "digest")


def texts_of(evidence):
    """What came before, the checkpoint, and the proof, if it has one."""
    parts = evidence.split("\n\n")
    n = 1 if " sha-256:" in parts[0] else 2
    before, note, proof = ("\n\n".join(of) for of in (parts[:n], parts[n : n + 2], parts[n + 2 :]))
    return (f"{before}\n", f"{note}\n", proof) if proof else (f"{before}\n", note)


def follow_command(scene, run, last, kept=None, witnesses=None, required=0, verifier=None):
    del last  # it ends where the set does
    with tempfile.TemporaryDirectory() as directory:
        state = pathlib.Path(directory, "state")
        checkpoint = kept_by_command(scene.url, "checkpoint", state)
        evidence = kept_by_command(scene.url, "evidence", state)
        if kept:
            checkpoint.write_text(kept)
        keys = [verifier or scene.verifier] if not isinstance(verifier, list) else verifier
        options = ["--from-start", "--until-caught-up", "--state", state]
        for name, given in (("key", keys), ("witness", witnesses)):
            if given:
                file = pathlib.Path(directory, name)
                file.write_text("".join(f"{key}\n" for key in given))
                options += [f"--{name}", file]
        if required:
            options += ["--require-witnesses", required]
        done = run("tidings", "follow", scene.url, *options, status=None)
        ended, outcome = done.wait(), Outcome()
        outcome.seqs = [int(line.split(" ")[0]) for line in done.out]
        if checkpoint.exists():
            outcome.kept = checkpoint.read_text()
            outcome.checkpoints = [int(outcome.kept.split("\n")[1])]
        if ended == 0:
            return outcome
        said = done.errors()
        fault = next(of for of, text in SENTENCES.items() if text in said)
        is_history = fault in CONTRADICTIONS
        assert ended == (REWOUND if is_history else 1), said
        assert evidence.exists() == is_history, said
        texts = Any()
        if is_history:
            assert evidence.name in said
            texts = texts_of(evidence.read_text())
        outcome.error = Refused(said, fault, texts)
        return outcome


@pytest.fixture(params=["python", "javascript", "command"])
def follow(request, run):
    if request.param == "javascript" and not NODE:
        pytest.skip("there is no Node")
    if request.param == "python" and not tidings:
        pytest.skip("there is no Python package")
    players = {"python": follow_python, "javascript": follow_js, "command": follow_command}
    return lambda scene, last, **how: players[request.param](scene, run, last, **how)


def is_refused(follow, scene, fault, *evidence, **how):
    outcome = follow(scene, len(scene.hashes), **how)
    assert outcome.seqs == []
    assert outcome.error, fault
    known = outcome.error.evidence[: len(evidence)]
    assert (outcome.error.fault, known) == (fault, evidence), outcome.error


def flipped(data, at, bit=1):
    return data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]


@pytest.mark.parametrize("n", [1, 3, 300])
def test_a_right_checkpoint_lets_changes_pass(scene, follow, n):
    one = scene(n)
    outcome = follow(one, n)
    assert (outcome.error, outcome.checkpoints[-1]) == (None, n)
    assert outcome.seqs == list(range(1, n + 1))
    assert outcome.kept.startswith(f"{one.origin}\n{n}\n")
    one.set.post(2)
    outcome = follow(one, n + 2, kept=outcome.kept)
    assert (outcome.error, outcome.checkpoints[-1]) == (None, n + 2)


# Every earlier size of a tree with two levels of tiles.
def test_a_checkpoint_continues_each_earlier_one(scene, follow):
    one = scene(517)
    for size in (1, 2, 3, 255, 256, 257, 511, 512, 513, 516, 517):
        outcome = follow(one, 517, kept=one.checkpoint(one.hashes[:size]))
        assert outcome.error is None, (size, outcome.error)
        wrong = one.checkpoint([*one.hashes[: size - 1], bytes(32)])
        fault = "root" if size == 517 else "inconsistent"
        error = follow(one, 517, kept=wrong).error
        assert error and error.fault == fault, size


# Of brokers behind one address, one may be some seconds behind another.
def test_an_older_checkpoint_is_no_contradiction(scene, follow):
    one, at = scene(3), 1_700_000_000
    kept = one.checkpoint(one.hashes, at=at)
    one.lie("checkpoint", [one.checkpoint(one.hashes[:2], at=at).encode()])
    outcome = follow(one, 3, kept=kept)
    assert (outcome.error, outcome.seqs, outcome.checkpoints[-1]) == (None, [1, 2, 3], 3)
    later = one.checkpoint(one.hashes[:2], at=at + 1)
    one.lie("checkpoint", later)
    is_refused(follow, one, "smaller", kept, later, kept=kept)


def test_the_checkpoint_of_another_set_is_refused(scene, follow):
    one = scene(3)
    other = one.set.broker.set("other")
    other.post(3)
    text = other.get("checkpoint").text
    keys = [one.verifier, one.key.verifier(text.partition("\n")[0])]
    one.lie("checkpoint", text)
    error = follow(one, 3, verifier=keys).error
    assert error and (error.fault, error.evidence) == ("origin", (text,))


# A cache, or a disk, may be broken: what leads to no other tree is asked for again. R-455
@pytest.mark.parametrize("at", [0, 40, 95])
def test_a_tile_with_another_bit_accuses_nobody(scene, follow, at):
    one = scene(3)
    one.lie("checkpoint", one.checkpoint(one.hashes))
    tile = "/sets/news/tile/0/000.p/3"
    one.liar.lies[tile] = [flipped(b"".join(one.hashes), at)]
    outcome = follow(one, 3, kept=one.checkpoint(one.hashes[:1]))
    assert (outcome.error, outcome.seqs) == (None, [1, 2, 3])
    assert one.liar.asked.count(tile) >= 2


# The file is enough for whoever has the key, without the broker and the reader. R-455
@pytest.mark.parametrize("fault", ["root", "inconsistent", "smaller", "digest"])
def test_evidence_convinces_a_stranger(scene, follow, run, keys, tmp_path, fault):
    one = scene(3)
    hashes, other = one.hashes, bytes(32)
    kept, now = {
        "root": ([hashes[0], other, hashes[2]], hashes),
        "inconsistent": ([hashes[0], other], hashes),
        "smaller": (hashes, hashes[:2]),
        "digest": (None, [*hashes[:2], other]),
    }[fault]
    before = kept and one.checkpoint(kept)
    one.lie("checkpoint", one.checkpoint(now))
    one.lie(f"tile/0/000.p/{len(now)}", b"".join(now))
    error = follow(one, 3, kept=before).error
    one.set.broker.stop()
    file = tmp_path / "evidence"
    file.write_text("\n".join(error.evidence))
    key = ["--key", keys(one.verifier)]
    said = run("tidings", "verify", file, *key, status=REWOUND).errors()
    sentence = {"digest": "signed another entry 3 than"}.get(fault, "has signed two histories")
    assert f"{file}: the holder of the key of {one.origin} has" in said and sentence in said
    assert "--key names it" in run("tidings", "verify", file, status=2).errors()
    stranger = keys(Key().verifier(one.origin))
    run("tidings", "verify", file, "--key", stranger, status=1)
    text = file.read_text()
    parts = texts_of(text)
    assert "\n".join(parts) == text
    lies = [(parts[1], *parts[1:]), (*parts[:-1], "x\n")]
    if fault in ("inconsistent", "digest"):
        lies += [parts[:2], (*parts[:2], parts[2].replace("\n", "\n" + parts[2].split("\n")[0] + "\n", 1))]
    for lie in lies:
        file.write_text("\n".join(lie))
        run("tidings", "verify", file, "--key", keys(one.verifier), status=1)


# A server that does not answer is no liar: the follower asks again, and delivers nothing before.
def test_a_checkpoint_that_is_away_holds_changes_back(scene, follow):
    one = scene(3)
    one.liar.lies["/sets/news/checkpoint"] = [503, 503]
    outcome = follow(one, 3)
    assert (outcome.error, outcome.seqs, outcome.checkpoints[-1]) == (None, [1, 2, 3], 3)
    assert one.liar.asked.count("/sets/news/checkpoint") >= 2 + len(outcome.checkpoints)


# What has come since waits for the next one.
@needs_python
def test_a_checkpoint_is_checked_again(scene):
    one = scene(3)
    found = []
    how = {"position": "0", "verifier_key": one.verifier, "on_checkpoint": found.append}
    with tidings.follow(one.url, **how) as follower:
        assert [next(follower).seq for _ in range(3)] == [1, 2, 3]
        assert {checkpoint.size for checkpoint in found} == {3}
        one.set.post(1)
        assert next(follower).seq == 4
        assert found[-1].size == 4
        one.lie("checkpoint", one.checkpoint(one.hashes[:2]))
        one.set.post(1)
        with pytest.raises(tidings.CheckpointError, match="it had 4 entries, and has 2"):
            next(follower)


# A tree may lag behind: the next one that is large enough has to have what came.
@needs_python
def test_a_history_waits_for_a_tree_that_is_large_enough(scene):
    one = scene(3)
    one.lie("checkpoint", one.checkpoint(one.hashes[:2]))
    hashes = [*one.hashes[:2], bytes(32)]
    troubles = []

    def lie(why, pause):
        if "signs 2 entries" in why:
            troubles.append(why)
            one.lie("checkpoint", one.checkpoint(hashes))
            one.lie("tile/0/000.p/3", b"".join(hashes))

    how = {"position": "0", "verifier_key": one.verifier, "on_trouble": lie}
    with tidings.follow(one.url, **how) as follower:
        assert [next(follower).seq for _ in range(2)] == [1, 2]
        with pytest.raises(tidings.CheckpointError) as refused:
            next(follower)
    assert refused.value.fault == "digest" and troubles
    assert refused.value.evidence[0].startswith(f"{one.epoch}-3 sha-256:")


@pytest.fixture
def keys(tmp_path):
    """keys(text, ...): a file with these verifier keys."""

    def write(*texts):
        file = tmp_path / "keys"
        file.write_text("".join(f"{text}\n" for text in texts))
        return file

    return write


# what the tree that is to be believed does not have yet is held back, and said. Witnesses
# cosign a checkpoint some time after the broker has signed it.
@pytest.mark.parametrize("reader", ["command", "javascript"])
@pytest.mark.parametrize("by", ["signature", "witness"])
def test_what_is_not_signed_yet_is_held_back(scene, start, keys, tmp_path, by, reader):
    one, witness = scene(3), Key()
    what = {"signature": "checkpoint", "witness": "checkpoint?witnessed"}[by]

    def sign(n):
        text = one.checkpoint(one.hashes[:n])
        body = text.partition("\n\n")[0] + "\n"
        one.lie(what, text + witness.cosign("w.example", body))

    sign(2)
    said = "signs 2 entries: later ones are held back until it does"
    if reader == "javascript":
        held_back_in_javascript(one, start, said, sign, by == "witness" and witness)
        return
    options = ["--from-start", "--verbose", "--key", keys(one.verifier)]
    if by == "witness":
        witnesses = tmp_path / "witnesses"
        witnesses.write_text(witness.verifier("w.example", 4) + "\n")
        options += ["--witness", witnesses]
    following = start("tidings", "follow", one.url, *options)
    following.err.find(lambda line: said in line)
    following.out.wait(2)
    assert len(following.out) == 2
    sign(3)
    following.out.wait(3)


def held_back_in_javascript(one, start, said, sign, witness):
    if not NODE:
        pytest.skip("there is no Node")
    options = {"verifierKey": one.verifier, "last": 3}
    if witness:
        options["witnesses"] = witness.verifier("w.example", 4)
    program = ROOT / "tests/followers/check.mjs"
    following = start(NODE, program, one.url, json.dumps(options))
    following.out.find(lambda line: said in line)
    assert [line for line in following.out if line.isdigit()] == ["1", "2"]
    sign(3)
    following.out.find(lambda line: line == "3")
    assert one.liar.asked.count("/sets/news/checkpoint") >= 2


# A broker that signs two of three entries, and a reader that need not wait for the third.
@pytest.fixture
def lagging(scene, start, keys, tmp_path):
    one = scene(3)
    one.state = tmp_path / "state"

    def sign(n):
        one.lie("checkpoint", one.checkpoint(Scene.leaves(one.set, n)))

    def follow(lag, *options, env=None):
        command = ["tidings", "follow", one.url, "--from-start", "--verbose", "--state", one.state]
        return start(*command, "--key", keys(one.verifier), "--key-lag", lag, *options, env=env)

    one.lie("checkpoint", one.checkpoint(one.hashes[:2]))
    one.sign, one.follow = sign, follow
    return one


UNSIGNED = " (not signed yet)"
HELD = "signs 2 entries: later ones are held back until it does"


# A person may ask for changes before they are signed: their lines say so. R-452
def test_a_lag_hands_changes_over_before_they_are_signed(lagging):
    following = lagging.follow(600)
    following.out.wait(3)
    assert [line[0] for line in following.out if line.endswith(UNSIGNED)] == ["1", "2", "3"]
    kept = kept_by_command(lagging.url, "checkpoint", lagging.state)
    assert kept.read_text().split("\n")[1] == "2"
    lagging.set.post(1)
    following.out.wait(4)
    asked = lagging.liar.asked
    n = asked.count("/sets/news/checkpoint")
    wait_for("a look that finds nothing", lambda: asked.count("/sets/news/checkpoint") > n)
    lagging.sign(4)
    wait_for("the check", lambda: kept.read_text().split("\n")[1] == "4")
    del lagging.liar.lies["/sets/news/checkpoint"]
    following.stop()
    assert HELD not in following.errors()


# The same reader waits without a lag, and once the first change has waited too long.
def test_a_lag_that_is_over_holds_changes_back(lagging, faults):
    following = lagging.follow(0)
    following.err.find(lambda line: HELD in line)
    following.out.wait(2)
    following.stop()
    assert [line[0] for line in following.out] == ["1", "2"] and UNSIGNED not in following.output()
    lagging.state.unlink()
    following = lagging.follow(600, env=faults.env)
    following.out.wait(3)
    faults.pass_time(599)
    lagging.set.post(1)
    following.out.wait(4)
    faults.pass_time(1)
    lagging.set.post(1)
    following.err.find(lambda line: HELD in line)
    assert len(following.out) == 4
    del lagging.liar.lies["/sets/news/checkpoint"]
    following.out.wait(5)
    assert not following.out[4].endswith(UNSIGNED)


# Each change has its own time: a checkpoint ends that of those that it has.
def test_a_lag_counts_from_the_oldest_change_that_is_not_signed(lagging, faults):
    following = lagging.follow(600, env=faults.env)
    following.out.wait(3)
    asked = lagging.liar.asked
    wait_for("the check of entry 3", lambda: asked.count("/sets/news/checkpoint") >= 2)
    lagging.set.post(1)
    following.out.wait(4)
    faults.pass_time(300)
    lagging.set.post(1)
    following.out.wait(5)
    lagging.sign(4)
    kept = kept_by_command(lagging.url, "checkpoint", lagging.state)
    wait_for("the check", lambda: kept.read_text().split("\n")[1] == "4")
    faults.pass_time(500)
    lagging.set.post(1)
    following.out.wait(6)
    assert following.out[5].endswith(UNSIGNED)
    following.stop()
    assert "held back" not in following.errors()


# What came unsigned has to be in each later tree, in this run and in the next one.
@pytest.mark.parametrize("reader", ["same", "next", "python"])
def test_a_checkpoint_that_contradicts_what_came_unsigned_is_refused(lagging, run, keys, reader):
    one, key = lagging, ["--key", keys(lagging.verifier)]
    if reader == "python":
        contradict_python(one)
        return
    following = one.follow(600)
    following.out.wait(3)
    if reader == "next":
        text = lambda: one.state.exists() and one.state.read_text()
        wait_for("the position", lambda: f"{one.epoch}-3" in (text() or ""))
        assert " sha-256:" in text()
        following.kill()
        one.state.with_name("state.digest").unlink(missing_ok=True)
    lie_about_the_last(one)
    if reader == "next":
        following = one.follow(0)
    assert following.wait() == REWOUND
    assert "its entry 3 is not the one that came" in following.errors()
    evidence = kept_by_command(one.url, "evidence", one.state)
    said = run("tidings", "verify", evidence, *key, status=REWOUND).errors()
    assert "signed another entry 3 than" in said


def contradict_python(one):
    if not tidings:
        pytest.skip("there is no Python package")
    how = {"position": "0", "state": one.state, "verifier_key": one.verifier}
    with tidings.follow(one.url, key_lag=600, **how) as follower:
        assert [next(follower).seq for _ in range(3)] == [1, 2, 3]
        one.set.post(1)
        message = next(follower.messages())
        assert message.is_unsigned and message.last == 4
        assert follower.position == f"{one.epoch}-3"
    assert " sha-256:" in one.state.read_text()
    lie_about_the_last(one)
    with pytest.raises(tidings.CheckpointError) as refused:
        next(tidings.follow(one.url, **how))
    assert refused.value.fault == "digest"
    with pytest.raises(tidings.Invalid, match="key_lag needs verifier_key"):
        tidings.follow(one.url, key_lag=1)


# The end says that all that was handed over is signed, by whichever run.
def test_the_end_waits_for_the_signature_of_what_came(lagging, faults):
    following = lagging.follow(600, "--until-caught-up")
    following.err.find(lambda line: HELD in line)
    following.out.wait(3)
    following.kill()
    for lag in (600, 0):
        faults.pass_time(1)
        following = lagging.follow(lag, "--until-caught-up", env=faults.env)
        following.err.find(lambda line: HELD in line)
        faults.pass_time(61)
        assert following.wait() == 1
        assert HELD in following.err[-1]
    following = lagging.follow(600, "--until-caught-up")
    following.err.find(lambda line: HELD in line)
    lagging.sign(3)
    assert following.wait() == 0
    assert not following.out


def test_a_lag_needs_a_key_and_positions_with_digests(scene, run, keys, tmp_path):
    url = scene(1).url
    for lag in (1, 0):
        assert "--key-lag needs --key" in run("tidings", "follow", url, "--key-lag", lag, status=2).errors()
    key = ["--key", keys(Key().verifier("a")), "--key-lag", 1]
    done = run("tidings", "follow", url, *key, "--count", 1, "--state", tmp_path / "state", status=2)
    assert "a position within a message has no digest" in done.errors()
    for command in (["sync", url, tmp_path / "mirror"], ["harvest", url, url]):
        assert "--key-lag" in run("tidings", *command, *key, status=2).errors()


def lie_about_the_last(one):
    hashes = [*one.hashes[:-1], bytes(32)]
    one.lie("checkpoint", one.checkpoint(hashes))
    one.lie(f"tile/0/000.p/{len(hashes)}", b"".join(hashes))


# At the beginning there is no digest to compare; the first message brings it, and waits.
def test_a_command_that_goes_on_ends_at_the_first_contradiction(scene, run, keys):
    one = scene(3)
    lie_about_the_last(one)
    options = ["--from-start", "--key", keys(one.verifier)]
    done = run("tidings", "follow", one.url, *options, status=REWOUND)
    assert "is not the one that came; nothing more is taken" in done.errors()
    assert not done.out


# While changes come, one checkpoint a second is asked for, and the tiles that are at hand do.
def test_proofs_cost_little_while_changes_come(scene, start, keys):
    one = scene(300)
    following = start("tidings", "follow", one.url, "--from-start", "--key", keys(one.verifier))
    following.out.wait(300)
    began = time.monotonic()
    for _ in range(200):
        one.set.post(1)
    following.out.wait(500)
    asked = [path.rpartition("/sets/news/")[2] for path in one.liar.asked]
    n = asked.count("checkpoint")
    assert n <= 3 + time.monotonic() - began
    assert len([path for path in asked if path.startswith("tile/")]) <= 3 * n


# The tree of 700 entries is known by its last tiles, each asked for once.
def test_each_tile_is_asked_for_once(scene, follow):
    one = scene(700)
    one.liar.asked.clear()
    outcome = follow(one, 700)
    assert (outcome.error, len(outcome.seqs)) == (None, 700)
    asked = [path.rpartition("/sets/news/")[2] for path in one.liar.asked]
    tiles = [path for path in asked if path.startswith("tile/")]
    assert sorted(tiles) == ["tile/0/002.p/188", "tile/1/000.p/2"], asked
    assert asked.count("checkpoint") == 1


def test_a_mirror_takes_nothing_from_a_split_view(scene, run, keys, tmp_path):
    one = scene(3)
    state = tmp_path / "mirror/.tidings"
    options = ["--until-caught-up", "--key", keys(one.verifier)]
    sync = ["tidings", "sync", one.url, tmp_path / "mirror", *options]
    for i in (1, 2, 3):  # nothing is to be fetched
        one.set.post_change(f"http://example.com/r/{i}", "deleted")
    run(*sync)
    (kept,) = state.glob("set.checkpoint-*")
    one.set.post_change("http://example.com/new", "deleted")
    before = kept.read_text()
    assert before.startswith(f"{one.origin}\n6\n")
    other = one.checkpoint([bytes(32)] * 6)
    one.lie("checkpoint", other)
    done = run(*sync, status=REWOUND)
    assert "it has another root than before for the same 6 entries" in done.errors()
    (evidence,) = state.glob("set.evidence-*")
    assert evidence.read_text() == f"{before}\n{other}"
    assert kept.read_text() == before
    assert f"{one.epoch}-6" in run("tidings", "status", tmp_path / "mirror").output()
    del one.liar.lies["/sets/news/checkpoint"]
    run(*sync)
    assert kept.read_text().startswith(f"{one.origin}\n7\n")
    # The user may accept the history that contradicts the one before.
    kept.write_text(one.checkpoint([bytes(32)] * 7))
    done = run(*sync, status=REWOUND)
    mark = done.errors().rpartition("accept-history ")[2].split()[0]
    run(*sync, "--accept-history", mark)
    assert kept.read_text().startswith(f"{one.origin}\n7\n")
    run(*sync)


# A dump saves many requests, and no key signs it: with a key the history is read. R-450
def test_a_mirror_with_a_key_takes_no_dump_for_the_history(start_broker, run, keys, tmp_path):
    one = Scene(start_broker("--resource-dump-every", 1), 1)
    one.set.post_change("http://example.com/r/1", "deleted")
    assert one.set.put(content="inline").status == 200
    loc = f"{one.liar.url}/one.txt"
    one.liar.lies["/one.txt"] = b"one"
    one.set.receipt(one.set.send(*multipart([change(loc)], [(loc, None, b"one")])))
    dump = f"/sets/{one.set.name}/resourcedump.xml"
    wait_for("the dump", lambda: one.set.broker.get(dump).status == 200)
    for name, key in ("signed", ["--key", keys(one.verifier)]), ("unsigned", []):
        one.liar.asked.clear()
        run("tidings", "sync", one.url, tmp_path / name, "--until-caught-up", *key)
        (file,) = (tmp_path / name).rglob("one.txt")
        assert file.read_bytes() == b"one"
        assert (dump in one.liar.asked) == (not key), one.liar.asked


# A cache, a broker that is cut off and witnesses that are away hand on an old checkpoint.
# It is right; but what came later may be missing, and the reader says since when.
OLD = 1_700_000_000
AS_OF = "2023-11-14T22:13:20Z"


def test_readers_say_of_when_the_checkpoint_is(scene, run, keys, tmp_path):
    one = scene(2)
    for i in (1, 2):
        one.set.post_change(f"http://example.com/r/{i}", "deleted")
    hashes = Scene.leaves(one.set, 4)
    one.lie("checkpoint", one.checkpoint(hashes, at=OLD))
    key = ["--key", keys(one.verifier)]
    stale = f"the newest checkpoint is of {AS_OF}; changes after that may be missing"
    done = run("tidings", "follow", one.url, "--from-start", "--until-caught-up", *key)
    assert stale in done.errors()
    done = run("tidings", "sync", one.url, tmp_path / "mirror", "--until-caught-up", *key)
    assert stale in done.errors()
    assert f"complete as of {AS_OF}" in run("tidings", "status", tmp_path / "mirror").output()
    copy = one.set.broker.set("copy")
    state = ["--state", tmp_path / "harvest"]
    done = run("tidings", "harvest", one.url, copy.url, "--once", *state, *key)
    assert f"complete as of {AS_OF}" in done.output()
    assert copy.state()["harvest"]["complete_as_of"].startswith(AS_OF[:-1])


def test_each_set_of_a_source_has_its_checkpoint(scene, run, keys, tmp_path):
    one = scene(3)
    other = one.set.broker.set("other")
    other.post(2)
    origin = other.get("checkpoint").text.partition("\n")[0]
    state = tmp_path / "state"
    options = ["--from-start", "--until-caught-up", "--state", state, "--key"]
    follow = ["tidings", "follow", f"{one.liar.url}/", *options]
    done = run(*follow, keys(one.verifier, one.key.verifier(origin)))
    assert len(done.out) == 5
    assert len(list(tmp_path.glob("state.checkpoint-*"))) == 2
    one.set.post(1)
    other.post(1)
    done = run(*follow, keys(one.verifier), status=1)
    assert f"no known key has signed the checkpoint of {origin}" in done.errors()
    assert len(done.out) == 1


def test_a_source_that_nobody_signs_is_refused(site, run, keys):
    site.put("/sitemap.xml", urlset([f"<url><loc>{site.link('/a')}</loc></url>"]))
    options = ["--baseline", "first", "--key", keys(Key().verifier("a.example/sets/a/0123"))]
    done = run("tidings", "follow", site.link("/sitemap.xml"), *options, status=1)
    assert "has no checkpoints: nobody signs its history" in done.errors()
    assert not done.out  # not even its baseline


# Lies of a broker about the lines of a message, beside its true checkpoint and tiles.
# `lines` are the true ones.

LIES = {
    "altered": lambda lines: [lines[0], lines[1].replace(b"/r/", b"/x/"), lines[2]],
    "swapped": lambda lines: [lines[1], lines[0], lines[2]],
    "renumbered": lambda lines: [numbered(lines[1], 1), numbered(lines[0], 2), lines[2]],
    "omitted": lambda lines: [lines[0], lines[2]],
    "closed up": lambda lines: [lines[0], numbered(lines[2], 2)],
    "doubled": lambda lines: [lines[0], lines[0], lines[1], lines[2]],
    "replaced": lambda lines: [lines[0], numbered(lines[0], 2), lines[2]],
    "beside": lambda lines: [lines[0], lines[1].replace(b"</url>", b"</url><url></url>"), lines[2]],
    # The true line is there, and the element that a parser sees is another: the line counts.
    "commented": lambda lines: [lines[0], b"<!--\n" + lines[1] + b"--> " + lines[1].replace(b"/r/", b"/x/"), lines[2]],
}


def numbered(line, seq):
    return re.sub(rb'td:seq="\d+"', b'td:seq="%d"' % seq, line)


def without_digest(text):
    return re.sub(rb' td:digest="[^"]*"', b"", text)


def with_own_digest(text, digest):
    """The digest is that of the false lines, behind `digest`."""
    for line in text.split(b"\n"):
        if line.startswith(b"<url>"):
            digest = sha256(digest + line + b"\n")
    return re.sub(rb'td:digest="[^"]*"', b'td:digest="sha-256:%s"' % digest.hex().encode(), text)


def upto(text, last):
    return re.sub(rb'td:last="\d+"', b'td:last="%d"' % last, text)


def last_of(news):
    return (news.state() or {"last": 0})["last"]


def lying_page(one, after, lie, *changes):
    """A page of the change memory of three entries after `after`, with that lie."""
    text = one.set.get(f"changes?after={after}", accept="application/xml").body
    lines = [line + b"\n" for line in text.split(b"\n") if line.startswith(b"<url>")]
    head, _, rest = text.partition(lines[0])
    tail = rest.rpartition(lines[-1])[2]
    false = LIES[lie](lines)
    page = head + b"".join(false) + tail
    for change in changes:
        page = change(page)
    assert page != text
    return page


# What is hashed is what is handed over: each message has the lines of the log, in XML, and with
# a key no other way is taken. Without one a broker may leave out all digests.
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("digest", ["true", "none", "own", "true, and no key"])
@pytest.mark.parametrize("place", ["fresh", "resumed"])
def test_a_lie_in_a_message_is_refused(scene, run, keys, tmp_path, lie, digest, place):
    one = scene(3)
    copy = one.set.broker.set("copy")
    has_key = "no key" not in digest
    key = ["--key", keys(one.verifier)] if has_key else []
    digest = digest.partition(",")[0]
    words = {
        "follow": [one.url, "--from-start", "--state", tmp_path / "position"],
        "sync": [one.url, tmp_path / "mirror"],
        "harvest": [one.url, copy.url, "--state", tmp_path / "harvest"],
    }
    ends = {"harvest": "--once"}
    seq = 0
    is_true = lie == "commented" and digest != "none"  # to who cuts lines out
    before = sha256(one.epoch.encode())
    if is_true:
        del words["sync"]  # it would wait for files
    if place == "resumed":
        words.pop("sync", None)
        for command, of in words.items():
            run("tidings", command, *of, ends.get(command, "--until-caught-up"), *key)
        seq = 3
        before = bytes.fromhex(one.set.get("changes?after=0").json()["digest"].partition(":")[2])
        one.set.post(3)
    n = last_of(copy)
    changes = [without_digest] if digest == "none" else []
    if lie == "closed up":
        changes.append(lambda text: upto(text, seq + 2))
    if digest == "own":
        changes.append(lambda text: with_own_digest(text, before))
    one.lie("changes", lying_page(one, f"{one.epoch}-{seq}", lie, *changes))
    for command, of in words.items():
        done = run("tidings", command, *of, ends.get(command, "--until-caught-up"), *key, status=None)
        assert not [line for line in done.out if "/x/" in line], done.out
        if is_true:
            assert done.wait() == 0
            continue
        assert done.wait() in (1, REWOUND), (command, done.errors())
        assert command != "follow" or not done.out
    assert "/x/" not in copy.get("changelist.xml").text
    assert last_of(copy) == n or is_true
    assert [path for path in sorted((tmp_path / "mirror").rglob("*")) if "/x/" in str(path)] == []


# Polled lists are read as those of any source: a key refuses them.
def test_a_way_without_the_lines_of_the_log_is_refused_with_a_key(scene, run, keys):
    one = scene(2)
    follow = ["tidings", "follow", one.url, "--from-start", "--until-caught-up", "--transport", "poll"]
    assert len(run(*follow).out) == 2
    done = run(*follow, "--key", keys(one.verifier), status=1)
    assert "its checkpoints prove what comes by WebSocket, server-sent events or long poll" in done.errors()
    assert not done.out


def eventful(text):
    """An event of that message, and no more."""
    data = b"".join(b"data: %s\n" % line for line in text.rstrip(b"\n").split(b"\n"))
    return b"event: changes\n" + data + b"\n"


# Events have the lines of the log, if the reader asks.
@pytest.mark.parametrize("has_key", [True, False])
def test_events_are_hashed(scene, start, run, keys, has_key):
    one = scene(2)
    key = ["--key", keys(one.verifier)] if has_key else []
    follow = ["tidings", "follow", one.url, "--transport", "events", *key]
    following = start(*follow, "--from-start", "--format", "xml")
    following.out.wait(2)
    one.set.post(1)
    following.out.wait(3)
    text = one.set.get("changes?after=0", accept="application/xml").text
    assert [f"{line}\n" in text for line in following.out] == [True] * 3
    for lie in ("altered", "replaced"):
        one.lie("stream", eventful(lying_page(one, f"{one.epoch}-0", lie)))
        done = run(*follow, "--from-start", status=None)
        assert done.wait() in (1, REWOUND) and not done.out, done.errors()


# Its changes come from lists, and its baseline from no log.
def test_a_past_state_is_refused_with_a_key(scene, run, keys, tmp_path):
    one = scene(2)
    sync = ["tidings", "sync", one.url, tmp_path / "mirror", "--as-of", "2026-01-01T00:00:00Z"]
    done = run(*sync, "--key", keys(one.verifier), status=2)
    assert "no checkpoint proves the state of a past time" in done.errors()


# Who filters leaves lines out, which the digest covers: with a key the reader filters.
def test_with_a_key_the_reader_filters(scene, run, keys):
    one = scene(2)
    one.set.post_change("http://example.com/other", "created")
    follow = ["tidings", "follow", one.url, "--from-start", "--until-caught-up", "--prefix"]
    for prefix, seqs in (("http://example.com/r/", ["1", "2"]), ("http://example.com/o", ["3"])):
        done = run(*follow, prefix, "--key", keys(one.verifier))
        assert [line.split(" ")[0] for line in done.out] == seqs
    true = one.set.get("changes?after=0", accept="application/xml").body
    one.lie("changes", true.replace(b"/r/1", b"/o/1"))
    assert not run(*follow, "http://example.com/o", "--key", keys(one.verifier), status=REWOUND).out


@needs_python
def test_asyncio_checks_too(scene):
    one = scene(3)

    async def play():
        how = {"position": "0", "verifier_key": one.verifier}
        async with tidings.afollow(one.url, **how) as follower:
            return [(await anext(follower)).seq for _ in range(3)]

    assert asyncio.run(play()) == [1, 2, 3]
    one.lie("checkpoint", one.checkpoint(one.hashes, key=Key()))
    with pytest.raises(tidings.CheckpointError) as refused:
        asyncio.run(play())
    assert refused.value.fault == "signature"


# The last checkpoint lies beside the position; a position without one is as good.
@needs_python
def test_the_last_checkpoint_is_kept_with_the_position(scene, tmp_path):
    one = scene(3)
    state = tmp_path / "position"
    how = {"state": state, "position": "0", "until_caught_up": True}
    assert len(list(tidings.follow(one.url, **how))) == 3
    one.set.post(1)
    assert len(list(tidings.follow(one.url, **how, verifier_key=one.verifier))) == 1
    kept = (tmp_path / "position.checkpoint").read_text()
    assert kept.startswith(f"{one.origin}\n4\n")
    one.set.post(1)
    one.lie("checkpoint", one.checkpoint([bytes(32)] * 4))
    with pytest.raises(tidings.CheckpointError) as refused:
        list(tidings.follow(one.url, **how, verifier_key=one.verifier))
    assert (refused.value.fault, refused.value.evidence[0]) == ("root", kept)
    (tmp_path / "position.checkpoint").write_text("?")
    with pytest.raises(tidings.Invalid, match="the last checkpoint"):
        list(tidings.follow(one.url, **how, verifier_key=one.verifier))


DAMAGES = {
    "garbage": lambda text: "?",
    "empty": lambda text: "",
    "half": lambda text: text[: len(text) // 2],
    "altered": lambda text: text.replace("\n6\n", "\n5\n"),
    "a folder": None,
}


# A last checkpoint that cannot be read is named, and not replaced by the next one.
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("command", ["follow", "sync", "harvest"])
def test_a_kept_checkpoint_that_cannot_be_read_is_refused(scene, run, keys, tmp_path, command, damage):
    one = scene(3)
    copy = one.set.broker.set("copy")
    words = {
        "follow": ["--until-caught-up", "--from-start", "--state", tmp_path / "state"],
        "sync": [tmp_path / "mirror", "--until-caught-up"],
        "harvest": [copy.url, "--once", "--state", tmp_path / "state"],
    }[command]
    command = ["tidings", command, one.url, *words, "--key", keys(one.verifier)]
    for i in (1, 2, 3):  # nothing is to be fetched
        one.set.post_change(f"http://example.com/r/{i}", "deleted")
    run(*command)
    (kept,) = tmp_path.glob("**/*.checkpoint-*")
    text = kept.read_text()
    kept.unlink()
    if damage == "a folder":
        kept.mkdir()
        assert f"cannot read {kept}: Is a directory" in run(*command, status=1).errors()
        kept.rmdir()
    else:
        kept.write_text(DAMAGES[damage](text))
        assert f"{kept} holds no checkpoint" in run(*command, status=2).errors()
        assert kept.read_text() == DAMAGES[damage](text)
    kept.write_text(text)
    run(*command)


# A file without a key does not turn the checks off. R-453
@pytest.mark.parametrize("option", ["--key", "--witness"])
@pytest.mark.parametrize("command", ["follow", "sync", "harvest", "verify", "prove", "witness"])
def test_a_file_without_a_key_is_an_error_of_usage(scene, run, tmp_path, command, option):
    one = scene(1)
    copy = one.set.broker.set("copy")
    proof, good = tmp_path / "proof", tmp_path / "good"
    proof.write_text(one.set.get("proof?seq=1").text)
    good.write_text(one.verifier + "\n")
    words = {
        "follow": [one.url, "--from-start", "--until-caught-up"],
        "sync": [one.url, tmp_path / "mirror", "--until-caught-up"],
        "harvest": [one.url, copy.url, "--once", "--state", tmp_path / "harvest"],
        "verify": [one.url],
        "prove": [one.url, "1"],
        "witness": [one.url, "--listen", "127.0.0.1:0", "--state", tmp_path / "witness"],
    }[command]
    if command == "witness" and option == "--witness":
        pytest.skip("it has none")
    known = ["--key", good] if option == "--witness" else []
    for name, text in (("empty", ""), ("comments", "# one\n\n  # two\n"), ("missing", None)):
        file = tmp_path / name
        if text is not None:
            file.write_text(text)
        done = run("tidings", command, *words, *known, option, file, status=2)
        assert str(file) in done.errors(), done.errors()
        assert not done.out
    assert str(tmp_path) in run("tidings", command, *words, *known, option, tmp_path, status=2).errors()
    assert not (tmp_path / "mirror").exists()
    if option == "--witness":
        done = run("tidings", command, *words, "--require-witnesses", "1", status=2)
        assert "--require-witnesses: 1 witnesses are required" in done.errors()


@needs_python
def test_wrong_keys_are_said_at_once(scene):
    one = scene(1)
    for keys in ("", [], "# none", iter(())):
        with pytest.raises(tidings.Invalid, match="no key of a log"):
            tidings.follow(one.url, verifier_key=keys)
        with pytest.raises(tidings.Invalid, match="no key of a log"):
            tidings.verify(one.url, verifier_key=keys)
    with pytest.raises(tidings.Invalid, match="no key of a witness"):
        tidings.follow(one.url, witnesses="")
    for keys in ("x", one.verifier.replace("+", "+0", 1), Key().verifier("a", 4)):
        with pytest.raises(tidings.Invalid):
            tidings.follow(one.url, verifier_key=keys)
    with pytest.raises(tidings.Invalid, match="2 witnesses are required"):
        tidings.follow(one.url, verifier_key=one.verifier, require_witnesses=2)


# Of a proof, each hash and the number count.
@needs_python
def test_verify_checks_the_proof_of_an_entry(scene, tmp_path):
    one = scene(3)
    file = tmp_path / "change.tlog-proof"
    text = one.set.get("proof?seq=2").text
    file.write_text(text)
    assert tidings.verify(file, verifier_key=one.verifier).last == 2
    other = one.set.get("proof?seq=3").text
    for bad in (
        text.replace("\nindex 1\n", "\nindex 2\n"),
        other.replace("\nindex 2\n", "\nindex 1\n"),
        text.replace("\n3\n", "\n4\n"),
    ):
        assert bad not in (text, other)
        file.write_text(bad)
        with pytest.raises(tidings.Different):
            tidings.verify(file, verifier_key=one.verifier)
    file.write_text(text)
    with pytest.raises(tidings.Different):
        tidings.verify(file, verifier_key=Key().verifier(one.origin))
    assert tidings.verify(one.set.url, verifier_key=one.verifier).last == 3


# The verifier of Sigstore, which knows checkpoints that are signed by logs alone.
JUDGE = """
const { verifyCheckpoint } = require('@sigstore/verify/dist/timestamp/checkpoint');
const { createPublicKey } = require('node:crypto');
const [envelope, root, id, key] = process.argv.slice(1);
const tlog = {
    logID: Buffer.from(id, 'hex'), validFor: { start: new Date(0), end: new Date(8e15) },
    publicKey: createPublicKey({ key: Buffer.from(key, 'hex'), format: 'der', type: 'spki' }),
};
const inclusionProof = { checkpoint: { envelope }, rootHash: Buffer.from(root, 'hex') };
verifyCheckpoint({ integratedTime: '1800000000', inclusionProof }, [tlog]);
"""


def test_sigstore_takes_the_checkpoint_of_a_set(scene, run):
    one = scene(3)
    lines = one.set.get("checkpoint").text.rstrip("\n").split("\n")
    text = "\n".join(lines[:5]) + "\n"  # without the cosignature
    key = one.key.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    facts = [root_of(one.hashes).hex(), one.key.id(one.origin, 1).hex(), key.hex()]
    env = {"NODE_PATH": str(npm.modules())}
    run(npm.node(), "-e", JUDGE, text, *facts, env=env)
    run(npm.node(), "-e", JUDGE, text.replace("\n3\n", "\n4\n"), *facts, env=env, status=1)


# Never does it say that it has checked what it has not.
@pytest.mark.skipif(not NODE, reason="there is no Node")
@pytest.mark.parametrize("without", ["subtle", "ed25519", "warning"])
def test_without_webcrypto_a_sentence_says_so(scene, run, without):
    one = scene(3)
    head, _, signature = one.checkpoint(one.hashes).rstrip("\n").rpartition(" ")
    wrong = base64.b64encode(flipped(base64.b64decode(signature), 40)).decode()
    one.lie("checkpoint", f"{head} {wrong}\n")
    outcome = follow_js(one, run, 3, without=without)
    assert (outcome.seqs, outcome.checkpoints, outcome.error) == ([1, 2, 3], [], None)
    reason = "there is no WebCrypto" if without == "subtle" else "Unrecognized name"
    assert outcome.notes
    note = outcome.notes[-1]
    assert note.startswith(f"the signature of {one.origin} was NOT checked: {reason}"), note
    assert without == "warning" or note.endswith(" false")
    # What needs no signature is still demanded.
    kept = one.checkpoint([*one.hashes, bytes(32)])
    assert follow_js(one, run, 3, kept=kept, without=without).error.fault == "smaller"
    if without != "subtle":
        kept = one.checkpoint([bytes(32)])
        outcome = follow_js(one, run, 3, kept=kept, without=without)
        assert outcome.error.fault == "inconsistent"
