"""Data directories of earlier versions (tests/data/README.md): this version serves the
same bytes, and goes on where the earlier one ended."""

import base64
import gzip
import hashlib
import hmac
import io
import json
import shutil
import zipfile

import pytest

from data import answers, kept
from data.surroundings import Surroundings
from tidings_test import hub
from tidings_test.backups import Backups
from tidings_test.callbacks import check_signature
from tidings_test.documents import RS, Document, S
from tidings_test.http import NDJSON
from tidings_test.mqtt import Reader
from tidings_test.sets import change

HOUR = 3600
NEXT = "http://example.com/next"


@pytest.fixture(params=kept.archives(), ids=kept.name)
def old(request, tmp_path):
    """A data directory, unpacked."""
    return kept.Kept(request.param, tmp_path / "old")


@pytest.fixture
def around(old):
    """The callbacks and pages of others that the earlier broker knew."""
    around = Surroundings()
    old.surround(around)
    yield around
    around.end()


@pytest.fixture
def reopen(old, around, mosquitto, faults, start_broker):
    """reopen(): starts a broker on the directory, `later` so many seconds."""

    def reopen(later=1):
        old.set_clock(faults, later)
        options = old.options(mosquitto.url)
        broker = start_broker(*options, env=faults.env, directory=old.directory)
        old.wait_settled(broker)
        return broker

    return reopen


def seq_of(position):
    return int(position.partition("-")[2])


# All documents, lists, pages of the change memory and packages, with their headers;
# and again after one more restart.
def test_the_same_bytes_are_served(old, around, reopen, run):
    around.each["/cb/behind"].always(503)
    around.each["/cb/pending"].hold()
    broker = reopen()
    check_answers(old, broker)
    broker.stop()
    run("tidings", "verify", broker.data / "sets/news")
    broker.restart()
    old.wait_settled(broker)
    check_answers(old, broker)


def check_answers(old, broker):
    differences = [
        difference
        for recorded in old.answers
        if (difference := answers.difference(recorded, answers.ask(broker, recorded)))
    ]
    few = "\n".join(differences[:10])
    assert not differences, f"{len(differences)} answers differ:\n{few}"
    if unfiled := old.facts.get("unfiled"):
        plain = broker.get(unfiled["path"])
        assert plain.text == unfiled["body"]
        assert plain["ETag"] == unfiled["headers"]["ETag"]
        packed = broker.get(unfiled["path"], accept_encoding="gzip")
        assert gzip.decompress(packed.body) == plain.body


# The same of a directory that a backup of it was restored to.
def test_a_restored_backup_serves_the_same_bytes(old, around, reopen, run, tmp_path):
    around.each["/cb/behind"].always(503)
    around.each["/cb/pending"].hold()
    backups = Backups(run, tmp_path / "backup")
    broker = reopen()
    backups.make(broker)
    backups.check_whole()
    broker.stop()
    backups.restore(broker, "--same-log")
    broker.restart()
    old.wait_settled(broker)
    check_answers(old, broker)


# The same of a backup that the earlier version made.
@pytest.mark.parametrize("old", kept.backups(), ids=kept.name, indirect=True)
def test_a_backup_of_an_earlier_version_serves_the_same_bytes(old, around, reopen, run):
    around.each["/cb/behind"].always(503)
    around.each["/cb/pending"].hold()
    backup = old.unpack_backup()
    shutil.rmtree(old.directory / "data")
    run("tidingsd", "restore", backup, "--same-log", "--data", old.directory / "data")
    check_answers(old, reopen())


# Entries, lists and epochs go on; the broker recognises repeated posts, unchanged
# resources and their bytes.
def test_every_set_goes_on(old, around, reopen):
    around.pages["/files/late.txt"].status = 200
    broker = reopen(HOUR)
    check_repeats(old, broker)
    check_resources(old, broker)
    for name, known in old.facts["sets"].items():
        check_next(broker.set(name), known)
    check_unfinished(old, broker)
    check_removed(old, broker)
    check_content(old, broker)
    kept.wait_content(broker.set("fetched"), missing=1)  # the one that has no hash


def check_repeats(old, broker):
    """A post with a known key gets its earlier answer; a document that a Source posts
    again is not kept twice."""
    before = lasts(old, broker)
    for one in old.facts["repeats"]:
        answer = broker.post(
            one["path"], one["body"], one["type"], idempotency_key=one["key"]
        )
        assert (answer.status, answer.text) == (200, one["answer"])
    for one in old.facts["notified"]:
        kept.notify(broker, old.hub, **one["document"])
    assert lasts(old, broker) == before


def lasts(old, broker):
    paths = [f"/sets/{name}" for name in old.facts["sets"]] + ["/relays/blog"]
    return {path: broker.get(path).json()["last"] for path in paths}


def check_resources(old, broker):
    """The broker finds what differs from the resources that a set had."""
    known = old.facts["resources"]
    answer = broker.put(known["path"], known["body"], NDJSON)
    assert answer.status == 200, answer
    counts = ("created", "updated", "deleted", "unchanged")
    assert [answer.json()[name] for name in counts] == [known[name] for name in counts]


def check_next(one, known):
    """The next entry has the next seq and is in the list that was open; a subscriber
    at the recorded position gets it, by push and by pull."""
    last = one.last()
    assert last >= seq_of(known["position"])
    follower = one.websocket(f"after={known['position']}")
    loc = f"{NEXT}/{one.name}"
    if known["content"] == "inline":
        posted = one.send(*kept.with_content(change(loc), "text/plain", b"Next.\n"))
    else:
        posted = one.send(change(loc))
    receipt = one.receipt(posted)
    assert receipt.first == last + 1
    assert known["position"].startswith(f"{receipt.epoch}-")
    assert follower.until(receipt.last).history.locs()[-1] == loc
    page = one.page(f"after={known['position']}")
    page.check()
    assert page.entries[-1].loc == loc
    assert one.rotate() == known["list"]
    assert one.changelist(known["list"]).entries[-1].loc == loc


def check_unfinished(old, broker):
    """The killed broker had received a complete list of a set: it deletes all other
    resources."""
    if unfinished := old.facts.get("unfinished"):
        one = broker.set(unfinished["set"])
        one.build("resourcelist")
        locs = one.get("resourcelist.xml").document().locs()
        assert locs == [*unfinished["left"], f"{NEXT}/{one.name}"]


def check_removed(old, broker):
    """A removed set that is made again has another epoch, and goes on with the numbers
    of lists; the earlier files are deleted."""
    known = old.facts["gone"]
    gone = broker.set("gone")
    assert gone.post().epoch != known["epoch"]
    assert gone.state()["lists"]["open"] == known["list"] + 1
    kept.wait_missing(broker.data / known["file"])


def check_content(old, broker):
    """A dump that is built now has all bytes, the earlier ones and the next."""
    files = broker.set("files")
    files.build("resourcedump")
    packed = {}
    for loc in files.get("resourcedump.xml").document().locs():
        package = broker.get(loc.removeprefix(old.facts["public_url"]))
        packed.update(unpack(package.body))
    known = old.facts["content"].items()
    expected = {loc: base64.b64decode(text) for loc, text in known}
    assert packed == {**expected, f"{NEXT}/{files.name}": b"Next.\n"}


def unpack(package):
    """The contents of a package, by loc."""
    with zipfile.ZipFile(io.BytesIO(package)) as files:
        manifest = Document(files.read("manifest.xml"))
        return {
            url.findtext(S + "loc"): files.read(url.find(RS + "md").get("path")[1:])
            for url in manifest.root.findall(S + "url")
        }


# Subscriptions go on at their positions and with their secrets; the hub repeats a
# failed delivery as it was, and repeats a verification.
def test_subscriptions_go_on(old, around, reopen):
    broker = reopen()
    for one in old.facts["subscriptions"]:
        hub.wait_active(kept.Subscribed(broker, one["of"]), around.each[one["target"]])
    assert len(around.each["/cb/pending"].verifications) == 1
    news = broker.set("news")
    last = news.post_change(NEXT, "deleted").last
    news.rotate()
    kept.notify(broker, old.hub, **old.next_document())
    for one in old.facts["subscriptions"]:
        check_deliveries(one, around.each[one["target"]], last)

    last = broker.set("named").post().last
    document = Document(around.pages["/otherhub"].requests.wait(1).body)
    assert (document.after, document.last) == (last - 1, last)


def check_deliveries(one, callback, last):
    first = callback.deliveries.wait(1)
    check_signed(first, one["secret"])
    if one["kind"] == "relay":
        assert first.body == b"The next one."
    elif one["kind"] == "framework":
        assert Document(first.body).after == seq_of(one["position"])
    else:
        callback.wait_last(last)
        assert Document(callback.accepted[-1].body).locs()[-1] == NEXT
    if one["kind"] == "deleted":
        assert Document(first.body).locs() == [NEXT]
    if one["kind"] == "changes":
        assert first.after == seq_of(one["position"])
        assert callback.history().locs()[-1] == NEXT
    if waits := one.get("waits"):
        assert first.id == waits["id"]
        assert hashlib.sha256(first.body).hexdigest() == waits["sha256"]


def check_signed(delivery, secret):
    """check_webhook() goes by the true time, and the broker does not."""
    check_signature(delivery, secret)
    if secret and secret.startswith("whsec_"):
        key = base64.b64decode(secret.removeprefix("whsec_") + "==")
        head = f"{delivery.id}.{delivery['webhook-timestamp']}."
        code = hmac.digest(key, head.encode() + delivery.body, hashlib.sha256)
        signed = f"v1,{base64.b64encode(code).decode()}"
        assert delivery["webhook-signature"] == signed


# The bridge goes on behind the last message that the MQTT broker had acknowledged. It
# recognises a message that comes again, and takes no retained ones of a filter that it
# has seen before.
def test_the_bridge_goes_on(old, mosquitto, reopen):
    heard = old.facts["heard"]
    hearer = mosquitto.hear("hall/#")
    teller = mosquitto.tell()
    retained = json.dumps(change("http://example.com/retained"))
    teller.say(heard["filter"].replace("+", "late"), retained, retain=True)
    teller.wait_said()
    broker = reopen()
    for name, acknowledged in old.facts["lanes"].items():
        last = seq_of(old.facts["sets"][name]["position"])
        Reader(hearer, f"hall/{name}/notifications", after=acknowledged).until(last)

    one = broker.set(heard["set"])
    last = one.last()
    behind = len(hearer.messages)
    reader = Reader(hearer, f"hall/{one.name}/notifications", after=last, behind=behind)
    mosquitto.wait_subscription(heard["filter"])
    topic = heard["filter"].replace("+", one.name)
    teller.say(topic, heard["text"])
    teller.say(topic, json.dumps(change(NEXT)))
    reader.until(last + 1)
    assert reader.history[last + 1].loc == NEXT
    assert broker.get("/sets/late").status == 404
