"""A history that went back in its epoch: every follower says so, keeps what it has, and
ends with an exit status of its own until the user consents."""

import shutil

import pytest

REWOUND = 4
GONE = 3
DIGEST = "sha-256:"

# The ways of a follower; with --until-caught-up each run looks once.
WAYS = ("websocket", "events", "longpoll", "poll")


class Past:
    """A broker whose data directory is put back to what it was."""

    def __init__(self, broker, directory):
        self.broker = broker
        self.set = broker.set("news")
        self.copy = directory / "copy"

    def keep(self):
        self.broker.stop()
        shutil.copytree(self.broker.data, self.copy)
        self.broker.restart()

    def put_back(self):
        self.broker.stop()
        shutil.rmtree(self.broker.data)
        shutil.copytree(self.copy, self.broker.data)
        self.broker.restart()


@pytest.fixture
def past(start_broker, tmp_path):
    past = Past(start_broker(), tmp_path)
    past.set.post(3)
    past.keep()
    return past


@pytest.fixture
def follow(past, run, tmp_path):
    """Runs a follower to the end of what there is; its position is kept."""

    def follow(*options, status=0):
        return run(
            "tidings",
            "follow",
            past.set.url,
            "--from-start",
            "--until-caught-up",
            "--poll",
            "0.1",
            "--state",
            tmp_path / "state",
            *options,
            status=status,
        )

    return follow


def kept(path):
    """The position, and that with its digest; "" where lists gave none."""
    digest = path / "state.digest"
    return (path / "state").read_text(), digest.read_text() if digest.exists() else ""


def mark_of(done):
    """What the message names for the consent."""
    text = done.errors()
    return text.rsplit("accept-history ", 1)[1].split()[0]


# The source ends before the follower's position.
@pytest.mark.parametrize("way", WAYS)
def test_a_cut_off_head_is_refused(past, follow, tmp_path, way):
    past.set.post(2)
    follow("--transport", way)
    before = kept(tmp_path)
    past.put_back()

    refused = follow("--transport", way, status=REWOUND)

    epoch = before[0].split("-")[0]
    digest = "unknown" if way == "poll" else DIGEST
    assert f"has entry 5 of epoch {epoch} (digest {digest}" in refused.errors()
    assert "the source now ends at entry 3" in refused.errors()
    assert not refused.out
    assert kept(tmp_path) == before
    assert mark_of(refused) == f"{epoch}-3"

    # A consent to another history is none.
    follow("--transport", way, "--accept-history", f"{epoch}-2", status=REWOUND)
    agreed = follow("--transport", way, "--accept-history", f"{epoch}-3")
    assert "- - baseline-begin -" in agreed.out
    assert kept(tmp_path)[0] == f"{epoch}-3\n"
    past.set.post()
    assert len(follow("--transport", way).out) == 1


# The same epoch, the same number, another entry. Open lists have no digest.
@pytest.mark.parametrize("way", WAYS[:3])
def test_another_entry_is_refused(past, follow, tmp_path, way):
    past.set.post_change("http://example.com/mine")
    follow("--transport", way)
    before = kept(tmp_path)
    past.put_back()
    past.set.post_change("http://example.com/theirs")
    past.set.post_change("http://example.com/next")

    refused = follow("--transport", way, status=REWOUND)

    assert "the digest of entry 4 of epoch" in refused.errors()
    assert before[1].split()[1] in refused.errors()
    assert kept(tmp_path) == before
    assert mark_of(refused).startswith(DIGEST)
    agreed = follow("--transport", way, "--accept-history", mark_of(refused))
    assert kept(tmp_path)[0].endswith("-5\n")
    assert any("theirs" in line for line in agreed.out)


# Nothing follows the other entry: the heads are compared.
@pytest.mark.parametrize("way", WAYS[:3])
def test_another_head_is_refused(past, follow, way):
    past.set.post_change("http://example.com/mine")
    follow("--transport", way)
    past.put_back()
    past.set.post_change("http://example.com/theirs")

    refused = follow("--transport", way, status=REWOUND)

    assert "the digest of entry 4 of epoch" in refused.errors()


# Former files have no digest: then the first one is believed, as it was.
def test_a_position_alone_is_taken(past, follow, tmp_path):
    past.set.post(1)
    follow()
    (tmp_path / "state.digest").unlink()
    past.set.post(1)
    assert len(follow().out) == 1
    assert kept(tmp_path)[1].startswith(kept(tmp_path)[0].strip())
    # A digest of another position does not count.
    (tmp_path / "state.digest").write_text(f"{'0' * 16}-9 {DIGEST}{'0' * 64}\n")
    past.set.post(1)
    assert len(follow().out) == 1


# What is no fault of the source's is not refused.
@pytest.mark.parametrize("way", WAYS)
def test_what_is_usual_is_not_refused(past, follow, way):
    past.set.post(2)
    follow("--transport", way)
    past.broker.stop()
    past.broker.restart()
    past.set.post(2)
    assert len(follow("--transport", way).out) == 2
    past.set.delete()
    past.set.create()
    past.set.post(1)
    follow("--transport", way, status=GONE)


# A mirror keeps its files, and its position.
@pytest.mark.parametrize("has_other", (False, True))
def test_a_mirror_is_kept(start_broker, run, site, tmp_path, has_other):
    past = Past(start_broker(), tmp_path)
    mirror = tmp_path / "mirror"

    def sync(*options, status=0):
        followed = (past.set.url, mirror, "--until-caught-up", "--json")
        return run("tidings", "sync", *followed, *options, status=status)

    def tell(*names):
        for name in names:
            site.put(f"/{name}", name)
            past.set.post_change(site.link(f"/{name}"))

    def files():
        return {path.name[:-1] for path in mirror.glob("127*/*")}

    tell("a", "b", "c")
    past.keep()
    tell("mine")
    sync()
    assert files() == {"a", "b", "c", "mine"}
    past.put_back()
    if has_other:
        tell("theirs")

    refused = sync(status=REWOUND)

    wanted = "digest of entry 4" if has_other else "now ends at entry 3"
    assert wanted in refused.errors()
    assert files() == {"a", "b", "c", "mine"}
    assert sync(status=REWOUND).errors() == refused.errors()
    run("tidings", "audit", mirror, status=1 if has_other else REWOUND)  # compares ids
    agreed = sync("--accept-history", mark_of(refused))
    assert '"event":"baseline"' in agreed.output()
    assert '"bytes":0,' not in agreed.output()  # no file was named before it was whole
    assert files() == {"a", "b", "c"} | ({"theirs"} if has_other else set())
    tell("next")
    sync()
    assert "next" in files()


# A harvest posts nothing of the other history into its set.
def test_a_harvest_posts_nothing(past, start_broker, run, tmp_path):
    copy = start_broker(directory=tmp_path / "other").set("copy").create()

    def harvest(*options, status=0):
        state = tmp_path / "harvest"
        return run(
            "tidings",
            "harvest",
            past.set.url,
            copy.url,
            "--once",
            "--state",
            state,
            *options,
            status=status,
        )

    past.set.post_change("http://example.com/mine")
    harvest()
    assert copy.last() == 4
    past.put_back()
    past.set.post_change("http://example.com/theirs")
    refused = harvest(status=REWOUND)
    assert "digest of entry 4" in refused.errors()
    assert copy.last() == 4
    harvest("--max-delete", "none", "--accept-history", mark_of(refused))
    assert copy.last() == 6
