"""doc/troubleshooting.md quotes what the programs say: each message of the page is in the
source or is said by a command here, and each command here says a message of the page."""

import os
import re

import pytest

from tidings_test.broker import BIN, ROOT
from tidings_test.documentation import is_shown

TEXT = (ROOT / "doc/troubleshooting.md").read_text()
MESSAGES = re.findall(r"^\| `([^`]+)`[^|]*\|", TEXT, re.M)

URL = "http://127.0.0.1:8787/sets/news"
LOC = "http://example.com/a"
PUBLISH = f"tidings publish {URL}"

# Commands of which each fails, beside a broker with the set "news" and one at 8788 whose
# certificate nobody trusts. "@" is a folder.
FAILING = (
    "tidingsd --listen 127.0.0.1:8787 --data @/other",
    "tidingsd --data @/broker0/data",
    "tidingsd --lisen 127.0.0.1:0",
    "tidingsd --listen 0.0.0.0:0",
    "tidingsd --listen 0.0.0.0:0 --public-url http://a.example --data @/open",
    "tidingsd --listen 127.0.0.1:0 --data /proc/none",
    "tidingsd --listen 127.0.0.1:0 --data @/other --tls-cert @/none --tls-key @/none",
    f"tidings publish http://127.0.0.1:1/sets/news --retry 0 --change created {LOC}",
    f"tidings publish https://127.0.0.1:8787/sets/news --retry 0 --change created {LOC}",
    f"tidings publish https://127.0.0.1:8788/sets/news --retry 0 --change created {LOC}",
    f"tidings publish http://127.0.0.1:8787/ --change created {LOC}",
    "tidings get http://127.0.0.1:8787/sets/none",
    "tidings follow http://127.0.0.1:8787/sets/none",
    f"tidings follow {URL} --after 99",
    f"{PUBLISH} --change created nope",
    f"{PUBLISH} --change created 'http://example.com/a b'",
    f"""echo '{{"loc":"{LOC}","change":"created","nope":1}}' | {PUBLISH} -""",
    f"""echo '{{"loc":"{LOC}"' | {PUBLISH} -""",
    f"touch @/token && chmod 644 @/token && {PUBLISH} --token-file @/token --change created {LOC}",
    f"! curl -sS -d x {URL}/changes",
    "! curl -sS -H 'Host: a.example' http://127.0.0.1:8787/sets",
    "! curl -sS -H 'Via: 1.1 a' http://127.0.0.1:8787/sets",
    "! curl -sS -H 'Origin: http://a.example' http://127.0.0.1:8787/sets",
    "! curl -sS -d hub.mode=subscribe -d hub.topic=http://a.example/ -d hub.callback=http://a.example/"
    " http://127.0.0.1:8787/hub",
)


def source():
    """All text of the programs as it is printed: literals of C, joined."""
    parts = []
    for folder in ("base", "broker", "client", "proto"):
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            parts.append(path.read_text())
    text = re.sub(r'"\s*"', "", "\n".join(parts)).replace('\\"', '"')
    # A directive of printf is what "..." stands for.
    return re.sub(r'%(?:[-+ #0-9.*]*(?:ll|l|z|j|h)*[a-z%])?(?:"\s*PRI\w+\s*")?', "%", text)


def is_in(message, text):
    """True if the parts of a message between "..." follow each other, as parts of one
    or several literals."""
    parts = [part.strip() for part in re.split(r"\.\.\.|%", message)]
    return all(part in text for part in parts if len(part) > 2)


@pytest.fixture
def said(start_broker, certificate, run, tmp_path):
    """What each of the failing commands says."""
    env = {"PATH": f"{BIN}:{os.environ['PATH']}"}
    broker = start_broker()
    broker.set("news").post()
    other = start_broker(*certificate.options, tls=certificate.trust())

    def say(command):
        command = command.replace("8788", str(other.port)).replace("8787", str(broker.port))
        command = command.replace("@", str(tmp_path))
        done = run("/bin/sh", "-c", command, status=None, env=env)
        assert done.status in (1, 2, 3), (command, done.status)
        return f"{done.output()}\n{done.errors()}".replace('\\"', '"')

    return {command: say(command) for command in FAILING}


def test_the_page_quotes_what_the_programs_say(said):
    assert len(MESSAGES) == len(set(MESSAGES)) >= 50
    text = source()
    spoken = "\n".join(said.values())
    missing = [m for m in MESSAGES if not is_in(m, text) and not is_shown(m, spoken)]
    assert missing == []


def test_the_page_has_what_a_beginner_meets(said):
    for command, output in said.items():
        assert any(is_shown(message, output) for message in MESSAGES), (command, output)
