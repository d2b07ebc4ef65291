"""Resource Dumps of the real broker: when it builds and offers them; and a mirror
begins with one."""

import zipfile

import pytest

from tidings_test.content import Package, digest, multipart
from tidings_test.waiting import wait_for

pytestmark = pytest.mark.broker("--heartbeat", "0.5")


class Source:
    """Resources /1.txt and so on, on a site, and a set that announces their changes. It
    remembers all resources of the source: `texts`, by their paths, None for a deleted
    one."""

    def __init__(self, news, site):
        self.set = news
        self.site = site
        self.texts = {}

    def change(self, first, last, text, with_content=True):
        """Change resources `first` to `last`, to TEXT and their number; None: they are
        deleted."""
        changes, parts = [], []
        for i in range(first, last + 1):
            path = f"/{i}.txt"
            loc = self.site.link(path)
            if not text:
                self.texts[path] = None
                self.site.delete(path)
                changes.append({"loc": loc, "change": "deleted"})
                continue
            content = f"{text} {i}\n".encode()
            self.texts[path] = content
            self.site.put(path, content)
            hashes = {"sha-256": digest(content).removeprefix("sha-256:")}
            told = {"length": len(content), "hash": hashes}
            changes.append({"loc": loc, "change": "updated", **told})
            parts.append((loc, "text/plain", content))
        posted = multipart(changes, parts) if with_content else (changes,)
        assert self.set.send(*posted).status == 200

    def check_mirror(self, directory):
        """Every resource is in the mirror, as it is here, and no other file."""
        place = directory / self.site.url.removeprefix("http://")
        files = [path for path in directory.rglob("*") if path.is_file()]
        mirrored = {
            f"/{path.relative_to(place)}": path.read_bytes()
            for path in files
            if ".tidings" not in path.parts
        }
        assert mirrored == {path: text for path, text in self.texts.items() if text}


@pytest.fixture
def make_source(broker, site):
    return lambda **settings: Source(broker.set().create(**settings), site)


#
def check_package(news, url):
    """Check the statements of a package's entry in the dump. Returns the package."""
    md = url.find("rs:md", url.nsmap).attrib
    answer = news.get_url(url.findtext("loc", namespaces=url.nsmap))
    assert answer.status == 200
    assert answer["Content-Length"] == md["length"]
    assert answer["Content-Type"] == md["type"]
    assert digest(answer.body) == md["hash"]
    package = Package(answer.body)
    package.check()
    contents = url.find("rs:ln[@rel='contents']", url.nsmap).get("href")
    manifest = news.get_url(contents).document()
    manifest.check_valid()
    assert manifest.bytes == package.members["manifest.xml"]
    return package


# no offer before there is a dump; then the dump describes itself.
def test_is_offered_from_the_first_one_on(make_source):
    source = make_source(content="inline")
    news = source.set
    source.change(1, 40, "first")
    assert news.get("resourcedump.xml").status == 404
    assert not news.offered("resourcedump")

    said = news.build("resourcedump").json()
    assert (said["generation"], said["resources"], said["packages"]) == (1, 40, 1)
    assert news.offered("resourcedump")
    assert news.offered("resourcelist")
    dump = news.get("resourcedump.xml").document()
    dump.check_valid()
    (url,) = dump.all("/s:urlset/s:url")
    assert len(check_package(news, url).names) == 1 + 40

    # Nothing has changed: it is the same one, at once.
    assert news.build("resourcedump").json()["generation"] == 1


# not by us.
def test_its_packages_open_in_common_tools(make_source, run, tmp_path):
    source = make_source(content="inline")
    source.change(1, 300, "text")
    source.set.build("resourcedump")
    package = tmp_path / "p.zip"
    url = f"{source.set.url}/resourcedump/000000000001/000000000001.zip"
    run("/usr/bin/curl", "-sf", "-o", package, url)
    run("/usr/bin/unzip", "-t", package)
    with zipfile.ZipFile(package) as opened:
        assert opened.testzip() is None
        assert len(opened.namelist()) == 301
        assert opened.read("resources/000000000300.txt") == b"text 300\n"


# if the history is incomplete, a mirror begins with the dump, and goes on
# from there; R-118: also if the whole history is there: one package arrives sooner than
# all its members.
@pytest.mark.parametrize("is_cut", [True, False])
def test_a_mirror_begins_with_the_dump(make_source, run, tmp_path, is_cut):
    cut = {"rotate_entries": 5, "retain_lists": 1} if is_cut else {}
    source = make_source(content="inline", **cut)
    news, site = source.set, source.site
    source.change(1, 30, "first")
    source.change(3, 4, None)
    source.change(5, 6, "second")
    news.build("resourcedump")
    source.change(7, 7, "third")
    source.change(8, 8, None)
    source.change(31, 31, "new")
    if is_cut:
        wait_for("old lists to go", lambda: news.state()["lists"]["closed"] == 1)
    mirror = tmp_path / "m"
    run("tidings", "sync", news.url, mirror, "--until-caught-up")
    source.check_mirror(mirror)
    # The mirror does not ask the site for members of the dump.
    assert not any(len(site.asked(path)) for path in ("/1.txt", "/5.txt", "/30.txt"))
    run("tidings", "audit", mirror)


# it says of how many resources the content is not there.
def test_what_is_not_whole_is_refused(make_source):
    source = make_source()
    news = source.set
    source.change(1, 3, "first", with_content=False)
    answer = news.build("resourcedump", status=409)
    assert answer.json()["missing"] == 3
    assert answer["Retry-After"] is None
    assert news.put(content="inline").status == 200
    source.change(2, 4, "second")
    assert news.build("resourcedump", status=409).json()["missing"] == 1
    assert news.get("resourcedump.xml").status == 404
    source.change(1, 1, "second")
    assert news.build("resourcedump").json()["resources"] == 4


# Nobody asks for it.
def test_is_built_by_age(make_source):
    source = make_source(content="inline", resource_dump_every=0.1)
    news = source.set
    source.change(1, 3, "first")

    def look():
        answer = news.get("resourcedump.xml")
        return answer.status == 200 and answer

    wait_for("the Resource Dump", look).document().check_valid()
