"""A data directory that an earlier version left, and what a broker needs to go on.

    old = Kept(archive, tmp_path)
    old.set_clock(faults)
    broker = start_broker(*old.options(), env=faults.env, directory=old.directory)
    old.wait_settled(broker)

With the clock where it was, no lease and no idempotency key has expired meanwhile.
"""

import json
import pathlib
import tarfile
import time

from data import answers
from tidings_test import http, hub
from tidings_test.waiting import wait_for

DATA = pathlib.Path(__file__).resolve().parent

# Nobody listens there.
NO_MQTT = "mqtt://127.0.0.1:1"


def archives():
    """The archives of all versions: data directories."""
    return sorted([*DATA.glob("*/killed.tar.xz"), *DATA.glob("*/stopped.tar.xz")])


def backups():
    """The archives of directories that have a backup beside them, of the same time."""
    return [path.with_name("stopped.tar.xz") for path in sorted(DATA.glob("*/backup.tar.xz"))]


def name(archive):
    """VERSION-ENDING."""
    return f"{archive.parent.name}-{archive.name.partition('.')[0]}"


class Kept:
    """A data directory, unpacked in `directory`. `facts`: recorded by its maker
    (story.py); `answers`: the answers that a broker has to give."""

    def __init__(self, archive, directory):
        self.archive = archive
        self.directory = pathlib.Path(directory)
        with tarfile.open(archive) as packed:
            packed.extractall(self.directory)
        self.facts = json.loads((self.directory / "facts.json").read_text())
        self.answers = answers.read(self.directory / "answers.jsonl")
        self.hub = f"{self.facts['public_url']}/hub"

    def unpack_backup(self):
        """The folder of the backup of that directory."""
        backup = self.directory / "backup"
        with tarfile.open(self.archive.with_name("backup.tar.xz")) as packed:
            packed.extractall(backup)
        return backup

    def set_clock(self, faults, later=1):
        """Set the clock to so many seconds after the end of the earlier broker. With
        one second, Last-Modified of its last list is no longer in the future."""
        faults.set_clock(self.facts["time"] + later - time.time())

    def options(self, mqtt_url=NO_MQTT):
        """The options of the earlier broker, with its bridge to that MQTT broker."""
        config = write_config(self.directory, mqtt_url, self.facts["bridge"])
        return [*self.facts["options"], *hub.LOOPBACK, "--config", config]

    def surround(self, around):
        """Give the surroundings the callbacks and pages that they had."""
        for page in self.facts["pages"]:
            around.page(**page)
        for one in self.facts["subscriptions"]:
            around.add(one["target"])

    def next_document(self):
        """Another document for the relay, as notify() takes it."""
        notified = self.facts["notified"]
        (relayed,) = [one for one in notified if one["path"].startswith("/relays/")]
        topic = relayed["document"]["topic"]
        return {"topic": topic, "type": "text/plain", "body": "The next one."}

    def wait_settled(self, broker):
        """Wait until the broker has done what the earlier one had begun."""
        if unfiled := self.facts.get("unfiled"):
            wait_for("the file of a list", lambda: is_filed(broker, unfiled["path"]))
        for name, known in self.facts["sets"].items():
            if known["content"]:
                one = broker.set(name)
                wait_for(f"the content of {one}", lambda: is_content_known(one.state()))
        if unfinished := self.facts.get("unfinished"):
            one = broker.set(unfinished["set"])
            wait_for("all resources", lambda: one.last() == unfinished["last"])


def write_config(directory, mqtt_url, bridge):
    """Write a configuration file with a bridge to that MQTT broker."""
    config = directory / "tidingsd.ini"
    config.write_text(f"[mqtt hall]\nurl = {mqtt_url}\n{bridge}")
    return config


class Subscribed:
    """A set or a relay, as hub.py knows what has subscriptions."""

    def __init__(self, broker, path):
        self.broker = broker
        self.path = path

    def get(self, path):
        return self.broker.get(f"{self.path}/{path}")


def is_filed(broker, path):
    """True if the broker serves the closed list from its file."""
    answer = broker.get(path, accept_encoding="gzip")
    return answer["Content-Encoding"] == "gzip"


def is_content_known(state):
    """True if the broker has looked at the content of all entries."""
    return state["content"]["last"] == state["last"]


def wait_content(of_set, missing):
    """Wait until the broker has the content of all entries but so many."""

    def look():
        state = of_set.state()
        return is_content_known(state) and state["content"]["missing"] == missing

    wait_for(f"the content of {of_set}", look)


def wait_missing(path):
    """Wait until the file is deleted."""
    wait_for(f"{path} to be deleted", lambda: not path.exists())


def notify(broker, hub, topic, type, body, key=None):
    """Post a document of a topic to the hub, as its Source does."""
    links = f'<{topic}>; rel="self", <{hub}>; rel="hub"'
    answer = broker.post("/hub", body, type, link=links, idempotency_key=key)
    assert answer.status == 200, answer


def with_content(entry, type, content):
    """Body and type of a post of one change with its content."""
    part = f"Content-Location: {entry['loc']}\r\nContent-Type: {type}\r\n"
    pieces = [
        b"--b\r\nContent-Type: application/json\r\n\r\n",
        http.as_bytes(entry),
        f"\r\n--b\r\n{part}\r\n".encode(),
        content,
        b"\r\n--b--\r\n",
    ]
    return b"".join(pieces), "multipart/related; boundary=b"
