"""tidingsd restore --from-archive: a data directory of nothing but published lists."""

import gzip
import re
import shutil

import pytest

from tidings_test.documents import Document
from tidings_test.waiting import wait_for

ROTATING = ("--rotate-entries", 20)


@pytest.fixture
def restore(run, tmp_path):
    """restore(source): makes tmp_path / "new" of that, for the same epochs."""

    def restore(source, options=("--same-log",), status=0):
        command = ("tidingsd", "restore", "--from-archive", source, "--data", tmp_path / "new")
        return run(*command, *options, status=status)

    return restore


def fill(broker, lists=3):
    """Two sets, one with closed lists, both with an open one."""
    news, books = broker.set("news"), broker.set("books")
    for _ in range(lists):
        news.post(20)
    news.post(7)
    books.post(3)
    news.wait_list_files(lists)
    return news, books


def read_all(broker, paths):
    """What each path answers, without the marks of one answer."""
    return {path: broker.get(path).steady()[2] for path in paths}


def published(broker):
    """The bytes of all lists, and those of the documents that name them."""
    paths = [
        f"/sets/{name}/{document}"
        for name in ("news", "books")
        for document in ("changelist.xml", "changelist-archive.xml", "changes/latest.xml")
    ]
    paths += [f"/sets/news/{broker.set('news').list_path(i)}" for i in (1, 2, 3)]
    return read_all(broker, paths)


def go_on(broker, data):
    """The broker serves the restored directory from now on."""
    broker.data = data
    broker.restart()
    return broker.set("news")


# the same epochs, numbers and bytes; a follower goes on, and so do
# numbers and digests.
@pytest.mark.parametrize("way", ["broker", "set", "files"])
def test_the_log_is_restored_from_its_lists(start_broker, restore, run, tmp_path, way):
    broker = start_broker(*ROTATING)
    news, books = fill(broker)
    follow = ("tidings", "follow", news.url, "--state", tmp_path / "state")
    run(*follow, "--from-start", "--count", 50)
    before = published(broker)
    if way == "files":
        files = tmp_path / "files"
        shutil.copytree(news.folder, files / "news")
        third = files / "news/changes/000000000003.xml.gz"
        (files / "plain.xml").write_bytes(gzip.decompress(third.read_bytes()))
        third.unlink()
        (files / "news/notes.xml").write_text("<notes/>")
        (files / "news/empty.xml").touch()
        for one in (news, books):
            (files / f"{one.name}.xml").write_bytes(one.get("changes/latest.xml").body)
        source = files
    else:
        source = broker.url if way == "broker" else news.url
    done = restore(source)
    n_sets = 1 if way == "set" else 2
    assert done.out[0].startswith(f"restored {n_sets} sets, {3 + n_sets} Change Lists")
    broker.stop()
    if way == "set":
        before = {path: body for path, body in before.items() if "/news/" in path}
    news = go_on(broker, tmp_path / "new")
    assert read_all(broker, before) == before
    for number in (1, 2, 3):
        packed = news.list_file(number).read_bytes()
        assert gzip.decompress(packed) == before[f"/sets/news/{news.list_path(number)}"]
    assert news.post(2, first=68).last == 69
    assert len(run(*follow, "--count", 19).out) == 19
    news.build("resourcelist")
    assert len(Document(news.get("resourcelist.xml").body).entries) == 69
    news.changelists().read()
    run("tidings", "verify", broker.data / "sets/news")


# a log of several epochs is restored as it is, and goes on in another one.
def test_epochs_are_restored(start_broker, restore, run, tmp_path):
    broker = start_broker(*ROTATING)
    fill(broker)
    epochs = []
    for copy in range(3):
        news = broker.set("news")
        epochs.append(news.state()["epoch"])
        news.post(7)
        news.wait_list_files(news.state()["lists"]["closed"])
        source = broker.data / "sets/news"
        (tmp_path / "latest.xml").write_bytes(news.get("changes/latest.xml").body)
        broker.stop()
        shutil.move(tmp_path / "latest.xml", source)
        restore(source, options=())
        shutil.move(tmp_path / "new", tmp_path / f"new{copy}")
        news = go_on(broker, tmp_path / f"new{copy}")
        read = news.changelists()
        read.history.new_epochs = copy + 1
        assert read.read().history.last == 67 + 7 * (copy + 1)
        assert news.state()["follows"] == f"{epochs[-1]}-{67 + 7 * (copy + 1)}"
        run("tidings", "verify", news.url)
        run("tidingsd", "check", "--deep", "--data", broker.data)
    assert len(set(epochs)) == 3


# Earlier lists that nobody publishes any more are named; the rest is there.
def test_a_history_without_its_beginning_is_restored(start_broker, restore, tmp_path):
    broker = start_broker(*ROTATING, "--remove-grace", 0)
    news = broker.set("news").create(retainLists=1)
    for _ in range(3):
        news.post(20)
    news.post(7)
    wait_for("old lists to go", lambda: news.get(news.list_path(2)).status == 410)
    news.wait_list_files(1)
    before = news.get("changelist.xml").body
    done = restore(broker.url, status=1)
    assert "missing: news: the entries up to 40" in done.errors()
    broker.stop()
    news = go_on(broker, tmp_path / "new")
    assert news.get("changelist.xml").body == before
    assert news.get(news.list_path(1)).status == 410
    assert news.post(1, first=68).last == 68
    assert news.page("after=40").last == 68


def resources_of(news):
    """The entries of its latest Resource List, of all parts."""
    document = Document(news.get("resourcelist.xml").body)
    if not document.is_index:
        return [entry.line for entry in document.entries]
    parts = [news.get_url(loc) for loc in document.locs()]
    return [entry.line for part in parts for entry in Document(part.body).entries]


# A Resource List has the resources that the first lists have told of.
@pytest.mark.parametrize("way", ["broker", "files"])
@pytest.mark.parametrize("entries", [1000, 10])
def test_a_resource_list_replaces_the_beginning(
    start_broker, restore, tmp_path, way, entries
):
    options = (*ROTATING, "--remove-grace", 0, "--resource-list-entries", entries)
    broker = start_broker(*options)
    news = broker.set("news").create(retainLists=1)
    for _ in range(3):
        news.post(20)
    news.post_change("http://example.com/r/2", "deleted")
    news.post_change("http://example.com/r/3", "updated")
    wait_for("old lists to go", lambda: news.get(news.list_path(2)).status == 410)
    news.build("resourcelist")
    news.post_change("http://example.com/r/4", "deleted")
    news.post_change("http://example.com/r/new")
    source = broker.url
    if way == "files":
        source = tmp_path / "files"
        news.wait_list_files(1)
        (tmp_path / "latest.xml").write_bytes(news.get("changes/latest.xml").body)
        shutil.copytree(news.folder, source)
        shutil.move(tmp_path / "latest.xml", source)
    restore(source)
    news.build("resourcelist")
    before = resources_of(news)
    assert len(before) == 59
    broker.stop()
    news = go_on(broker, tmp_path / "new")
    news.build("resourcelist")
    assert resources_of(news) == before

    # A part that is missing makes the list useless; one that is damaged is named.
    broker.stop()
    if way == "files":
        shutil.rmtree(broker.data)
        part = next(source.glob("resourcelist/*/000000000001.xml.gz"))
        text = gzip.decompress(part.read_bytes())
        part.write_bytes(text.replace(b"</urlset>", b""))
        assert f"{part} is damaged" in restore(source, status=1).errors()
        part.unlink()
        assert "missing: news: " in restore(source, status=1).errors()


# Each fault is named by its file, and nothing is restored.
def test_faulty_lists_are_refused(start_broker, restore, tmp_path):
    broker = start_broker(*ROTATING)
    news, _ = fill(broker)
    latest = news.get("changes/latest.xml").body
    broker.stop()
    files = tmp_path / "files"
    lists = [files / f"{number:012}.xml" for number in (1, 2, 3)]

    def damage(name, change):
        shutil.rmtree(files, ignore_errors=True)
        files.mkdir()
        for number, path in enumerate(lists, 1):
            path.write_bytes(gzip.decompress(news.list_file(number).read_bytes()))
        (files / "latest.xml").write_bytes(latest)
        change()
        done = restore(files, status=1)
        assert str(name) in done.errors(), done.errors()
        assert not (tmp_path / "new").exists()
        return done.errors()

    def edit(path, old, new):
        text = path.read_bytes()
        assert old in text
        path.write_bytes(text.replace(old, new, 1))

    two = lists[1]
    said = damage(two, lambda: edit(two, b"/r/25<", b"/r/26<"))
    assert "an entry from 21 to 40 was altered" in said
    said = damage(two, lambda: edit(two, b"</urlset>", b""))
    assert "neither an entry nor the end" in said
    said = damage(two, lambda: edit(two, b'td:seq="25"', b'td:seq="26"'))
    assert "expected entry 25, found entry 26" in said
    said = damage(lists[2], lambda: two.unlink())
    assert "lacks its closed Change List 2" in said
    said = damage(two, lambda: edit(two, b'td:after="20"', b'td:after="21"'))
    assert "entries 21 to 21 are missing" in said
    opened = files / "latest.xml"
    said = damage(opened, lambda: edit(opened, b" td:digest=", b" td:digests="))
    assert "is damaged: line " in said
    said = damage(files, lambda: shutil.rmtree(files) or files.mkdir())
    assert "has no Change List of Tidings" in said
    packed = lists[0].with_suffix(".xml.gz")
    half = news.list_file(1).read_bytes()[:-20]
    said = damage(packed, lambda: lists[0].unlink() or packed.write_bytes(half))
    assert "is damaged" in said
    epoch = Document(latest).epoch.encode()
    other = epoch[::-1]
    said = damage(two, lambda: edit(two, epoch, other))
    assert "of different histories" in said

    # The same after a list that is there twice.
    def copy_two():
        again = files / "again"
        again.mkdir()
        shutil.copy(lists[0], again)
        text = two.read_bytes()
        digest = re.compile(rb'( td:digest="[^"]*)(.)"')
        (again / two.name).write_bytes(
            digest.sub(lambda m: m[1] + (b"0" if m[2] != b"0" else b"1") + b'"', text)
        )

    said = damage(two, copy_two)
    assert "of different histories" in said


# Private sets are restored with a token that may read them.
def test_a_token_opens_private_sets(start_broker, restore, run, tmp_path):
    broker = start_broker(*ROTATING)
    fill(broker)
    token = run(
        "tidingsd", "token", "add", "reader", "--subscribe", "news", "--data", broker.data
    )
    file = tmp_path / "token"
    file.write_text(token.output())
    file.chmod(0o600)
    said = restore(broker.url, status=1).errors()
    assert "the answer is 401" in said
    to = ("--data", tmp_path / "new", "--token-file", file)
    said = run(
        "tidingsd", "restore", "--from-archive", "http://example.com", *to, status=2
    ).errors()
    assert "a token is not sent without TLS" in said
    run("tidingsd", "restore", "--from-archive", f"{broker.url}/sets/news", *to)
    broker.stop()
    news = go_on(broker, tmp_path / "new")
    assert broker.get("/sets").status == 401  # what needed a token needs one again
    broker.add_token("root", admin=True)
    assert news.last() == 67


# A broker that has other answers is named, and nothing is restored.
def test_faulty_brokers_are_refused(start_broker, restore, tmp_path):
    said = restore("http://127.0.0.1:1", status=1).errors()
    assert "http://127.0.0.1:1/.well-known/resourcesync: " in said
    broker = start_broker()
    said = restore(broker.url, status=1).errors()
    assert f"{broker.url} has no sets" in said
    said = restore(f"{broker.url}/sets/none", status=1).errors()
    assert "/sets/none/changes/latest.xml: the answer is 404" in said
    said = restore(f"{broker.url}/sets/a/b", status=2).errors()
    assert "the URL of a set ends with its name" in said
    assert not (tmp_path / "new").exists()


# A part of a Source Description has no parts: one that names itself has no end.
def test_a_part_of_a_description_has_no_parts(site, restore, tmp_path):
    description = "/.well-known/resourcesync"
    part = f"<loc>{site.link(description)}/1</loc>"
    site.put(description, f"<sitemapindex>{part}</sitemapindex>")
    site.put(f"{description}/1", f"<urlset>{part}</urlset>")
    said = restore(site.url, status=1).errors()
    assert f"{description} names no set: " in said
    assert len(site.requests) == 2
    assert not (tmp_path / "new").exists()
