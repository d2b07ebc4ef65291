"""Witnesses of checkpoints (C2SP tlog-witness, tlog-cosignature): what a broker asks of
them, and tidings witness, which cosigns what it has read itself."""

import base64
import hashlib
import json
import shutil
import time

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tidings_test.http import Client, keep_port
from tidings_test.servers import Server
from tidings_test.waiting import wait_for

OFTEN = ("--checkpoint-every", 0.1)
DASH = "\u2014"


def key_id(name, kind, public):
    return hashlib.sha256(f"{name}\n".encode() + bytes([kind]) + public).digest()[:4]


class Signer:
    """A witness's key, in Python."""

    def __init__(self, name="liar.example"):
        self.name = name
        self.key = Ed25519PrivateKey.generate()
        self.public = self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.verifier = f"{name}+{key_id(name, 4, self.public).hex()}+" + base64.b64encode(
            b"\4" + self.public
        ).decode()

    def cosign(self, text, at=None):
        at = int(time.time()) if at is None else at
        signed = self.key.sign(f"cosignature/v1\ntime {at}\n{text}".encode())
        data = key_id(self.name, 4, self.public) + at.to_bytes(8, "big") + signed
        return f"{DASH} {self.name} {base64.b64encode(data).decode()}\n"


def split(note):
    """The text of a signed note, and the signatures of each name."""
    text, _, signatures = note.partition("\n\n")
    rows = [line.split(" ") for line in signatures.splitlines()]
    return text + "\n", {
        name: [base64.b64decode(s) for _, n, s in rows if n == name] for _, name, _ in rows
    }


def check_cosigned(note, verifier):
    """True if the note has a right cosignature of that key."""
    name, _, public = verifier.split("+", 2)
    public = base64.b64decode(public)[1:]
    text, signatures = split(note)
    for data in signatures.get(name, []):
        assert data[:4] == key_id(name, 4, public)
        at = int.from_bytes(data[4:12], "big")
        assert at > 1_700_000_000
        signed = f"cosignature/v1\ntime {at}\n{text}".encode()
        Ed25519PublicKey.from_public_bytes(public).verify(data[12:], signed)
        return True
    return False


class Witness(Client):
    """tidings witness, at a port that it keeps; or tidings sync or harvest, of one set."""

    def __init__(self, start, directory, keys, *urls, command="witness"):
        port, self._keeper = keep_port()
        super().__init__(port)
        self.start_it, self.keys, self.urls = start, keys, urls
        self.state, self.command = directory, command
        self.start()

    def start(self):
        where = "--listen" if self.command == "witness" else "--cosign"
        options = [where, f"127.0.0.1:{self.port}", "--key", self.keys]
        if self.command == "sync":
            options += [*self.urls, self.state]
        else:
            options += ["--state", self.state, *self.urls]
        self.process = self.start_it("tidings", self.command, *options)
        lines = self.process.out if self.command == "witness" else self.process.err
        self.option = lines.wait(1).removeprefix("tidings: cosigns at ")
        self.url, self.verifier = self.option.split(" ")

    def kill(self):
        self.process.kill()

    def add(self, body):
        return self.post("/add-checkpoint", body, "text/plain")

    def cosigned(self, origin):
        digest = hashlib.sha256(origin.encode()).hexdigest()
        return self.get(f"/{digest}/checkpoint")


@pytest.fixture
def log_key(run, tmp_path):
    """The file of the verifier key of a set."""

    def keep(of_set):
        path = tmp_path / "log.key"
        shown = run("tidingsd", "key", "show", of_set.name, "--data", of_set.broker.data)
        path.write_text(shown.output())
        return path

    return keep


@pytest.fixture
def start_witness(start, tmp_path):
    witnesses = []

    def begin(keys, *urls, state=None, **how):
        state = state or tmp_path / f"witness{len(witnesses)}"
        witnesses.append(Witness(start, state, keys, *urls, **how))
        return witnesses[-1]

    return begin


@pytest.fixture
def news(start_broker):
    """A set of a broker without witnesses, with three changes."""
    made = start_broker(*OFTEN, "--rotate-entries", 50).set("news")
    made.post(3)
    return made


def restart(broker, *options):
    broker.stop()
    broker.set_options(*broker.options, *options)
    broker.start()


def witnessed(of_set, size=None):
    """The last cosigned checkpoint, of that size."""

    def look():
        answer = of_set.get("checkpoint?witnessed")
        found = answer.status == 200 and answer.text
        return found and (size is None or found.split("\n")[1] == str(size)) and found

    return wait_for(f"a cosigned checkpoint of {size}", look)


def request_of(of_set, old):
    """A request of add-checkpoint, as the broker prints it."""
    answer = of_set.get(f"checkpoint?old={old}")
    assert answer.status == 200
    return answer.text


# What a broker asks


def test_cosignatures_of_all_witnesses_are_kept_and_served(
    news, start_witness, log_key, run, tmp_path
):
    broker, keys = news.broker, log_key(news)
    everybody = [start_witness(keys, url) for url in (f"{broker.url}/", news.url)]
    # A mirror and a relay are witnesses of what they follow.
    everybody.append(start_witness(keys, news.url, command="sync"))
    everybody.append(start_witness(keys, news.url, broker.set("copy").url, command="harvest"))
    restart(broker, "--witness", ", ".join(one.option for one in everybody))
    for n in 3, 40, 120:
        if n > news.last():
            news.post(n - news.last())
        note = witnessed(news, n)
        assert all(check_cosigned(note, one.verifier) for one in everybody)
        # The fresh checkpoint has them, too: it is of the same size.
        fresh = news.get("checkpoint").text
        assert all(check_cosigned(fresh, one.verifier) for one in everybody)
    # So have those of streams.
    events = news.events("checkpoints=yes")
    while events.event != "checkpoint":
        assert events.read_event()
    assert all(check_cosigned(json.loads(events.data)["checkpoint"], one.verifier) for one in everybody)
    # So has the end of the closed lists, which was a checkpoint of its own.
    file = news.broker.data / "sets/news/changes/checkpoint"
    wait_for("the end", lambda: file.exists() and file.read_text().split("\n")[1] == "100")
    wait_for("its cosignatures", lambda: len(split(file.read_text())[1]) == 2 + len(everybody))
    assert all(check_cosigned(file.read_text(), one.verifier) for one in everybody)
    proof = news.get("proof?seq=2").text
    assert all(check_cosigned(proof.partition("\n\n")[2], one.verifier) for one in everybody)
    # A follower who demands all is satisfied; of a third one it is not.
    trusted = tmp_path / "witnesses"
    trusted.write_text("".join(one.verifier + "\n" for one in everybody))
    demand = ("tidings", "verify", news.url, "--key", keys, "--witness", trusted)
    run(*demand, "--require-witnesses", 4)
    trusted.write_text(everybody[0].verifier + "\n" + Signer().verifier + "\n")
    run(*demand, "--require-witnesses", 2, status=1)
    metrics = broker.metrics()
    for one in everybody:
        assert metrics[f'tidings_witness_cosignatures_total{{witness="{one.verifier.split("+")[0]}"}}'] >= 3


def test_a_set_that_rests_causes_no_traffic(news, start_witness, log_key):
    broker = news.broker
    one = start_witness(log_key(news), f"{broker.url}/")
    restart(broker, "--witness", one.option)
    witnessed(news, 3)
    name = one.verifier.split("+")[0]
    got = f'tidings_witness_cosignatures_total{{witness="{name}"}}'
    assert broker.metrics()[got] == 1
    other = broker.set("other")
    other.post(1)
    witnessed(other, 1)
    assert broker.metrics()[got] == 2
    # A start asks for nothing that was cosigned: the file is read.
    restart(broker)
    other.post(1)
    witnessed(other, 2)
    assert broker.metrics()[got] == 1
    assert check_cosigned(witnessed(news, 3), one.verifier)


class Peer(Server):
    """A witness that a test plays: `answer` makes the bytes from a request."""

    def __init__(self, answer):
        self.answer = answer
        self.bodies = []
        super().__init__()

    async def serve(self, peer):
        while request := await peer.request():
            self.bodies.append(request.body.decode())
            answer = self.answer(self.bodies[-1])
            if answer is None:
                await peer.gone()
                return
            await peer.send(answer)


def answered(status, text, type="text/plain"):
    body = text.encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def text_of(body):
    return split(body.partition("\n\n")[2])[0]


signer, stranger = Signer(), Signer()

LIES = {
    "garbage": lambda body: answered(200, "\0\1 garbage\n\n\n"),
    "another key": lambda body: answered(200, stranger.cosign(text_of(body))),
    "another checkpoint": lambda body: answered(200, signer.cosign("a\n1\nAAAA\n")),
    "without a time": lambda body: answered(200, signer.cosign(text_of(body), 0)),
    "another text": lambda body: answered(
        200, "\n" + "b\n1\nAAAA\n\n" + signer.cosign("b\n1\nAAAA\n")
    ),
    "endless": lambda body: b"HTTP/1.1 200 X\r\nContent-Length: 99999999\r\n\r\n" + b"x" * 999999,
    "one size for ever": lambda body: answered(409, "1\n", "text/x.tlog.size"),
    "no size": lambda body: answered(409, "1\n2\n", "text/x.tlog.size"),
    "a size that it has never seen": lambda body: answered(409, "99\n", "text/x.tlog.size"),
    "always another size": lambda body: answered(
        409, "2\n" if body.startswith("old 1\n") else "1\n", "text/x.tlog.size"
    ),
    "a fault": lambda body: answered(500, ""),
    "refusal": lambda body: answered(403, "no\n"),
    "nothing": lambda body: None,
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lying_witness_is_not_believed_and_delays_nobody(news, start_witness, log_key, lie):
    one = start_witness(log_key(news), f"{news.broker.url}/")
    liar = Peer(LIES[lie])
    try:
        options = f"{one.option} {liar.url} {signer.verifier}"
        restart(news.broker, "--witness", options)
        wait_for("a request", lambda: liar.bodies)
        assert check_cosigned(one_cosigned(one, news), one.verifier)
        news.post(1)
        if lie != "nothing":  # the file waits until its time is over
            note = witnessed(news, 4)
            assert check_cosigned(note, one.verifier)
            assert signer.name not in split(note)[1]
            counts = [
                news.broker.metrics()[f'tidings_witness_{what}_total{{witness="{signer.name}"}}']
                for what in ("cosignatures", "failures", "refusals")
            ]
            assert counts[0] == 0 and sum(counts) > 0
            assert len(liar.bodies) <= 12
        assert "a set goes on in a new epoch" not in news.broker.process.errors()
    finally:
        liar.end()


def one_cosigned(witness, of_set):
    """What the witness itself shows."""

    def look():
        answer = witness.cosigned(of_set.get("checkpoint").text.split("\n")[0])
        return answer.status == 200 and answer.text

    return wait_for("a cosignature", look)


def test_a_witness_that_is_down_is_asked_again_and_added(news, start_witness, log_key):
    one, late = [start_witness(log_key(news), f"{news.broker.url}/") for _ in range(2)]
    late.kill()
    restart(news.broker, "--witness", f"{late.option},{one.option}")
    note = witnessed(news, 3)
    assert check_cosigned(note, one.verifier) and not check_cosigned(note, late.verifier)
    news.broker.wait_said("a witness cosigns nothing")
    late.start()
    wait_for("the late one", lambda: check_cosigned(witnessed(news, 3), late.verifier))
    assert check_cosigned(witnessed(news, 3), one.verifier)
    news.broker.wait_said("a witness cosigns again")


# A witness reads on, and puts the end of the closed lists off. It cosigns no end behind a
# later size, so that has to wait.
@pytest.mark.parametrize("status", (429, 503))
def test_an_end_waits_for_a_witness_that_reads_on(news, start_witness, log_key, status):
    def answer(body):
        size = text_of(body).split("\n")[1]
        if size == "100" and sizes.count("100") < 2:
            sizes.append(size)
            return answered(status, "reads on\n")
        sizes.append(size)
        return answered(200, signer.cosign(text_of(body)))

    sizes = []
    one = start_witness(log_key(news), f"{news.broker.url}/")
    slow = Peer(answer)
    try:
        restart(news.broker, "--witness", f"{one.option} {slow.url} {signer.verifier}")
        witnessed(news, 3)
        news.post(117)
        witnessed(news, 120)
        assert sizes == ["3", "100", "100", "100", "120"]
        file = news.broker.data / "sets/news/changes/checkpoint"
        assert check_cosigned(file.read_text(), one.verifier)
        assert check_cosigned(file.read_text(), signer.verifier)
        assert text_of(f"\n\n{file.read_text()}").split("\n")[1] == "100"
    finally:
        slow.end()


def test_unknown_and_private_sets_do_not_bother_a_witness(start_broker):
    stranger = Peer(lambda body: answered(404, "who?\n"))
    try:
        broker = start_broker(*OFTEN, "--witness", f"{stranger.url}/ {signer.verifier}")
        hidden = broker.set("hidden").create(private=True)
        hidden.post(2)
        news = broker.set("news")
        news.post(1)
        broker.wait_said("a witness does not cosign a set")
        news.post(1)
        other = broker.set("other")
        other.post(1)
        wait_for("the other set", lambda: len(stranger.bodies) == 2)
        names = [body.partition("\n\n")[2].split("/")[2] for body in stranger.bodies]
        assert sorted(names) == ["news", "other"]
        assert news.get("checkpoint?witnessed").status == 404
    finally:
        stranger.end()


def test_a_witness_with_an_earlier_state_says_so_and_cosigns(
    news, start_witness, log_key, tmp_path
):
    one = start_witness(log_key(news), f"{news.broker.url}/")
    restart(news.broker, "--witness", one.option)
    witnessed(news, 3)
    one.kill()
    shutil.copytree(one.state, tmp_path / "earlier")
    one.start()
    news.post(60)
    witnessed(news, 63)
    one.kill()
    shutil.rmtree(one.state)
    shutil.copytree(tmp_path / "earlier", one.state)
    one.start()
    news.post(1)
    assert check_cosigned(witnessed(news, 64), one.verifier)
    # A broker that has lost what it kept begins from nothing, and hears the size.
    news.broker.stop()
    (news.broker.data / "sets/news/changes/checkpoint.witnessed").unlink()
    news.broker.start()
    assert check_cosigned(witnessed(news, 64), one.verifier)


@pytest.mark.parametrize("posts", (1, 70), ids=("shorter", "longer"))
def test_an_older_data_directory_goes_on_in_a_new_epoch(
    news, start_witness, log_key, run, tmp_path, posts
):
    """Nothing in the directory says that it is a snapshot; the witness has what the key has
    signed since."""
    one = start_witness(log_key(news), f"{news.broker.url}/")
    restart(news.broker, "--witness", one.option)
    witnessed(news, 3)
    news.broker.stop()
    shutil.copytree(news.broker.data, tmp_path / "snapshot")
    news.broker.start()
    news.post(60)
    followed = ("follow", news.url, "--state", tmp_path / "state", "--from-start")
    followed += ("--until-caught-up", "--key", one.keys)
    run("tidings", *followed)
    former = witnessed(news, 63).split("\n")[0]
    news.broker.stop()
    shutil.rmtree(news.broker.data)
    shutil.copytree(tmp_path / "snapshot", news.broker.data)
    one.kill()
    news.broker.start()
    news.post(posts, 1000)
    assert news.get("checkpoint").text.startswith(former + "\n")
    one.start()
    said = news.broker.wait_said("a set goes on in a new epoch")
    assert "a witness has cosigned what the key has signed" in said
    log_key(news)
    one.kill()
    one.start()
    restart(news.broker)  # a witness without the key has said 404, which waits for an hour
    assert not witnessed(news, 3 + posts).startswith(former)
    said = run("tidings", *followed, status=None).errors()
    assert "a new log that follows" in said


# What the key signs while the witness is asked is of this very log.
def test_a_checkpoint_of_now_shows_no_older_copy(news):
    def answer(body):
        if body:
            return answered(403, "no\n")
        news.post(1)
        return answered(200, news.get("checkpoint").text)

    liar = Peer(answer)
    try:
        restart(news.broker, "--witness", f"{liar.url} {signer.verifier}")
        news.broker.wait_said("a witness does not cosign a set")
        assert "" in liar.bodies and news.last() >= 4
        assert "a set goes on in a new epoch" not in news.broker.process.errors()
    finally:
        liar.end()


BAD_OPTIONS = {
    "http://127.0.0.1:1": "URL KEY",
    "ftp://a b": "http or https",
    "http://127.0.0.1:1 a+b+c": "no verifier key",
    " ".join(f"http://a {signer.verifier}" for _ in range(9)): "more than 8",
}


@pytest.mark.parametrize("text", BAD_OPTIONS)
def test_a_bad_witness_ends_the_start(run, tmp_path, text):
    done = run("tidingsd", "--data", tmp_path / "d", "--witness", text, status=None)
    assert done.status != 0 and BAD_OPTIONS[text] in "\n".join(done.err)


# What tidings witness answers


def altered(body, line, change):
    lines = body.split("\n")
    lines[line] = change(lines[line])
    return "\n".join(lines)


def flipped(text):
    return ("B" if text[5] != "B" else "C").join((text[:5], text[6:]))


def test_every_answer_of_a_witness(news, start_witness, log_key):
    witness = start_witness(log_key(news), news.url)
    first = request_of(news, 0)
    origin = first.split("\n")[2]
    assert witness.cosigned(origin).status == 404
    end = first.index(f"{DASH} ")
    unknown = first.replace(origin, origin[:-1] + "_")
    other_set = first.replace("/sets/news/", "/sets/olds/")
    table = [
        (400, ""), (400, "x"), (400, first[4:]), (400, first[:-1]), (400, first.replace("old 0", "old 00")),
        (400, "\n" + first), (400, first.replace("\n3\n", "\n03\n")),
        (400, "old 0\n" + ("A" * 43 + "=\n") * 64 + first[6:]), (403, first[:end]),
        (404, other_set), (404, first.replace(origin, "x/sets/news/1")), (403, unknown),
        (403, altered(first, 6, lambda s: s[:-9] + ("A" if s[-9] != "A" else "B") + s[-8:])),
        (403, first[:end] + f"{DASH} {origin} AAAAAAAA\n"),
        (403, first.replace("\n3\n", "\n4\n")),
        (400, first.replace("old 0", "old 4")),
        (422, first.replace("old 0\n", "old 0\n" + "A" * 43 + "=\n")),
    ]  # fmt: skip
    for status, body in table:
        answer = witness.add(body)
        assert answer.status == status, (body, answer, answer.text)
    answer = witness.add(first.replace("old 0", "old 2"))
    assert (answer.status, answer.text) == (409, "0\n")
    assert answer["Content-Type"] == "text/x.tlog.size"
    assert witness.post("/add-checkpoint", "x" * 70000, "text/plain").status == 413
    assert witness.get("/").status == witness.post("/", first, "text/plain").status == 404
    assert witness.put("/add-checkpoint", first, "text/plain").status == 405

    answer = witness.add(first)
    assert answer.status == 200 and answer.text.count("\n") == 1
    text = text_of(first)
    assert check_cosigned(f"{text}\n{answer.text}", witness.verifier)
    shown = witness.cosigned(origin).text
    assert check_cosigned(shown, witness.verifier) and origin in split(shown)[1]
    # Again: of the size that it has, and no other.
    answer = witness.add(first)
    assert (answer.status, answer.text) == (409, "3\n")
    assert witness.add(request_of(news, 3)).status == 200
    news.post(4)
    later = request_of(news, 3)
    assert len(later.split("\n\n")[0].split("\n")) > 1
    for bad in (altered(later, 1, flipped), later.replace(later.split("\n")[1] + "\n", "")):
        assert witness.add(bad).status == 422, bad
    assert witness.add(later).status == 200
    assert witness.cosigned(origin).text.split("\n")[1] == "7"


def test_a_witness_reads_the_lists_itself(
    news, start_broker, start_witness, log_key, run, tmp_path
):
    """The split view: a copy of the broker goes another way, and signs that."""
    broker, keys = news.broker, log_key(news)
    witness = start_witness(keys, news.url)
    assert witness.add(request_of(news, 0)).status == 200
    broker.stop()
    directory = tmp_path / "copy"
    shutil.copytree(broker.data, directory / "data")
    broker.start()
    copy = start_broker(*OFTEN, "--public-url", broker.url, directory=directory)
    twin = copy.set("news")
    news.post(5)
    twin.post_change("http://example.com/other")
    twin.post(4)
    answer = witness.add(request_of(twin, 3))
    assert answer.status == 422, answer.text
    witness.process.err.find(lambda line: "signed another history than its lists show" in line)
    (kept,) = witness.state.glob("lists-*")
    assert text_of(request_of(twin, 3)) in kept.read_text()
    # The promise holds: nothing of the copy was cosigned, and the log goes on.
    origin = request_of(news, 0).split("\n")[2]
    assert witness.cosigned(origin).text.split("\n")[1] == "3"
    assert witness.add(request_of(news, 3)).status == 200
    # Two roots of one size convince whoever has the key. R-455
    assert twin.last() == news.last() == 8
    assert not list(witness.state.glob("evidence-*"))
    assert witness.add(request_of(twin, 8)).status == 422
    witness.process.err.find(lambda line: "has signed two histories" in line)
    (evidence,) = witness.state.glob("evidence-*")
    said = run("tidings", "verify", evidence, "--key", keys, status=4).errors()
    assert "has signed two histories: of 8 and of 8 entries" in said


def test_a_killed_witness_keeps_its_promise(news, start_witness, log_key):
    witness = start_witness(log_key(news), f"{news.broker.url}/")
    size = 0
    for more in 1, 60, 1:
        news.post(more)
        assert witness.add(request_of(news, size)).status == 200
        witness.kill()
        witness.start()
        size = news.last()
        answer = witness.add(request_of(news, 0))
        assert (answer.status, answer.text) == (409, f"{size}\n")


def test_a_witness_that_cannot_read_says_later(news, start_witness, log_key):
    keys = log_key(news)
    _, keeper = port = keep_port()
    witness = start_witness(keys, f"http://127.0.0.1:{port[0]}/sets/news")
    answer = witness.add(request_of(news, 0))
    assert answer.status == 503 and int(answer["Retry-After"]) > 0
    # It has cosigned nothing.
    answer = witness.add(request_of(news, 3))
    assert (answer.status, answer.text) == (409, "0\n")


def test_the_key_of_a_witness_is_its_own_and_stays(news, start_witness, log_key, run):
    witness = start_witness(log_key(news), news.url)
    file = witness.state / "witness.key"
    assert file.stat().st_mode & 0o777 == 0o600
    # A second witness with the same state does not start.
    again = ("tidings", "witness", "--listen", "127.0.0.1:0", "--key", witness.keys)
    busy = run(*again, "--state", witness.state, *witness.urls, status=None)
    assert busy.status == 1 and "another" in "\n".join(busy.err)
    before = witness.verifier
    witness.kill()
    witness.start()
    assert witness.verifier == before
    witness.kill()
    named = run(*again, "--state", witness.state, "--name", "x", *witness.urls, status=None)
    assert named.status != 0 and "no key of x" in "\n".join(named.err)
    file.write_text("nonsense\n")
    bad = run(*again, "--state", witness.state, *witness.urls, status=None)
    assert bad.status != 0 and "no key" in "\n".join(bad.err)
    witness.keys.write_text("nonsense\n")
    bad = run(*again, "--state", witness.state, *witness.urls, status=None)
    assert bad.status != 0 and "no verifier key" in "\n".join(bad.err)
