"""--peer-tokens: the tokens that a hub itself sends, to the topics that it fetches and
to the hubs that it notifies."""

import pytest

from tidings_test import hub
from tidings_test.feed import Feed

RETRIES = ("--hub-retry-first", "0.02", "--hub-retry-max", "0.2", *hub.LOOPBACK)
SECRET = "s3cr3t-0123456789abcdef"


class Peer:
    """A broker with tokens, and its file of --peer-tokens."""

    def __init__(self, directory, name, start_broker, run):
        self.directory = directory
        self.name = name
        self.run = run
        self.file = directory / f"{name}.peers"
        self.file.write_text("# nothing yet\n")
        self.broker = start_broker(*RETRIES, "--peer-tokens", self.file)
        self.admin = self.token("admin", "--admin")

    def token(self, name, *rights):
        """Make a token; returns the path of its file."""
        path = self.directory / f"{self.name}-{name}"
        command = ("token", "add", name, *rights, "--data", self.broker.data)
        path.touch(0o600)
        path.write_text(self.run("tidingsd", *command).output())
        return path

    def tidings(self, *arguments):
        return self.run("tidings", *arguments, "--token-file", self.admin).output()

    def give(self, *lines):
        self.file.write_text("".join(f"{url}\t{path}\n" for url, path in lines))


@pytest.fixture
def peer(tmp_path, start_broker, run):
    return lambda name: Peer(tmp_path, name, start_broker, run)


# R-293, W-013, W-142: as in upstream_test, with tokens on both sides.
def test_brokers_with_tokens_are_chained(peer):
    up, down = peer("up"), peer("down")
    news = f"{up.broker.url}/sets/news"
    mirror = f"{down.broker.url}/sets/mirror"
    topic = f"{news}/notifications"
    up.give((hub.url(down.broker), down.token("up", "--publish", "mirror")))
    down.give((topic, up.token("down", "--subscribe", "news")))
    down.tidings("set", "create", mirror, "--upstream-topic", topic)
    up.tidings("set", "create", news, "--hub", hub.url(down.broker))
    posting = ("publish", news, "--change", "created")
    for n in range(3):
        up.tidings(*posting, f"http://example.com/r/{n}")
        follow = ("follow", mirror, "--from-start", "--count", n + 1)
        assert f"http://example.com/r/{n}" in down.tidings(*follow)

    # The next token counts at once.
    up.run("tidingsd", "token", "revoke", "down", "--data", up.broker.data)
    down.run("tidingsd", "token", "revoke", "up", "--data", down.broker.data)
    down.token("up", "--publish", "mirror")
    up.token("down", "--subscribe", "news")
    up.tidings(*posting, "http://example.com/r/3")
    assert "/r/3" in down.tidings(*follow[:-1], 4)


@pytest.fixture
def feed(start_broker, site, callbacks, tmp_path):
    """A relay of a site's page; feed.give(url) gives the token to that URL."""
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text(SECRET)
    peers = tmp_path / "peers"
    peers.write_text("")
    broker = start_broker(*RETRIES, "--peer-tokens", peers)
    feed = Feed(broker, site, callbacks).register()
    feed.give = lambda url: peers.write_text(f"{url} {token}\n")
    return feed


def ping(feed):
    assert hub.send(feed.broker, {"hub.mode": "publish", "hub.url": feed.topic})


def given(requests):
    return [request["Authorization"] for request in requests]


# For the HEAD before the first document of the Source, and for the fetch after a ping.
def test_a_topic_gets_its_token(feed):
    callback = feed.join()
    feed.give(feed.topic)
    feed.accept("one")
    feed.check_delivered(callback, 1, b"one")
    feed.site.put(feed.target, "two", "text/plain")
    ping(feed)
    feed.check_delivered(callback, 2, b"two")
    assert set(given(feed.asked("HEAD"))) == {f"Bearer {SECRET}"}
    assert set(given(feed.asked("GET"))) == {f"Bearer {SECRET}"}
    assert SECRET not in feed.broker.process.errors()


# Nor another URL of the server, and no server that the topic redirects to.
def test_nobody_else_gets_it(feed, start_site):
    callback = feed.join()
    feed.give(feed.site.link("/other"))
    feed.site.put(feed.target, "one", "text/plain")
    ping(feed)
    feed.check_delivered(callback, 1, b"one")
    assert set(given(feed.site.requests)) == {None}

    other = start_site("127.0.0.2")
    other.put("/feed", "two", "text/plain")
    feed.give(feed.topic)
    feed.site.status(feed.target, 302, f"Location: {other.link('/feed')}")
    ping(feed)
    feed.check_delivered(callback, 2, b"two")
    assert given(feed.site.requests)[-1] == f"Bearer {SECRET}"
    assert set(given(other.requests)) == {None}


# A callback may be at the very URL that has a token: it is a stranger's.
def test_no_callback_gets_it(feed):
    callback = feed.join()
    feed.give(callback.url)
    feed.accept("one")
    delivery = feed.check_delivered(callback, 1, b"one")
    assert delivery["Authorization"] is None


@pytest.mark.parametrize(
    "line, mode, why",
    [
        ("https://a.example/x", 0o600, "the absolute path of a token file"),
        ("https://a.example/x token", 0o600, "the absolute path of a token file"),
        ("http://a.example/x {}", 0o600, "a token is sent over https"),
        ("a.example {}", 0o600, ":2: the URL"),
        ("https://a.example/x {}", 0o644, "chmod 600"),
        ("https://a.example/x {} more", 0o600, "the absolute path of a token file"),
    ],
)
def test_a_start_tells_what_is_wrong(line, mode, why, tmp_path, run):
    token = tmp_path / "token"
    token.write_text(SECRET)
    token.chmod(mode)
    peers = tmp_path / "peers"
    peers.write_text("# ours\n" + line.format(token) + "\n")
    options = ("--data", tmp_path / "data", "--listen", "127.0.0.1:0")
    for check in (["--check"], []):
        options += ("--peer-tokens", peers, *check)
        failed = run("tidingsd", *options, status=None)
        assert failed.wait() in (1, 2)
        assert f"--peer-tokens: {peers}:2: " in failed.errors()
        assert why in failed.errors() and SECRET not in failed.errors()
        options = options[:4]
