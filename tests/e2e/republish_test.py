"""tidings harvest --republish: a set gets the bytes of its source, under addresses of its
own (R-434; ResourceSync, section 14.8)."""

import hashlib
import signal

import pytest

from tidings_test.content import multipart
from tidings_test.http import JSON
from tidings_test.layouts import urlset
from tidings_test.sets import change

A, B, C = "/data/a.csv", "/data/b.csv?year=2026", "/data/c"
FILES = {A: "alpha\n", B: "beta\n", C: "gamma\n"}
AT = "2026-01-01T00:00:00Z"


class Source:
    """A Resource List with digests, lengths and types on a site, and its files."""

    def __init__(self, site):
        self.site, self.url, self.files, self.links = site, site.link("/list.xml"), {}, {}

    def publish(self, files, **wrong):
        """These files; `wrong` are attributes that are not those of the bytes."""
        for path, text in files.items():
            if self.files.get(path) != text:
                self.site.put(path, text, "text/csv")
        for path in self.files.keys() - files.keys():
            self.site.delete(path)
        self.files = dict(files)
        entries = [self.entry(path, text, **wrong) for path, text in files.items()]
        head = f'<rs:md capability="resourcelist" at="{AT}"/>'
        self.site.put("/list.xml", urlset(entries, head))
        return self

    def entry(self, path, text, **wrong):
        facts = {"hash": f"md5:{md5(text)}", "length": len(text), "type": "text/csv"}
        md = " ".join(f'{name}="{value}"' for name, value in (facts | wrong).items())
        return (
            f"<url><loc>{self.site.link(path)}</loc><lastmod>{AT}</lastmod>"
            f"<rs:md {md}/>{self.links.get(path, '')}</url>\n"
        )


def md5(text):
    return hashlib.md5(text.encode()).hexdigest()


@pytest.fixture
def source(site):
    return Source(site).publish(FILES)


@pytest.fixture
def target(broker):
    return broker.set().create(content="inline")


@pytest.fixture
def harvest(target, run, tmp_path):
    """harvest(SOURCE, option...): runs it once; the program that has ended."""

    def harvest(source, *words, into=target, status=0):
        state = tmp_path / f"state-{into.name}"
        command = ("tidings", "harvest", source.url, into.url, "--republish", "--once")
        return run(*command, "--state", state, *words, status=status)

    return harvest


def entries(of_set):
    return of_set.get("changes?after=0", accept=JSON).json()["changes"]


def copies(of_set):
    """What the set has: the last text of each original that is not deleted, as GET of
    its address tells it."""
    last = {entry["loc"]: entry for entry in entries(of_set)}
    return {
        via(entry)["href"]: of_set.broker.get(of_set.broker.path_of(loc)).text
        for loc, entry in last.items()
        if entry["change"] != "deleted"
    }


def via(entry):
    (link,) = [link for link in entry["links"] if link["rel"] == "via"]
    return link


def bytes_of(source):
    return {source.site.link(path): text for path, text in source.files.items()}


# C examples 31 and 32: the address is the aggregator's, and `via` describes the original.
# What is not true of the copy is dropped, and counted.
def test_a_set_has_copies_under_addresses_of_its_own(source, target, harvest):
    rels = ("canonical", "collection", "duplicate", "memento", "describedby")
    lines = [f'<rs:ln rel="{rel}" href="http://x.example/{rel}"/>' for rel in rels]
    source.links[A] = "".join(lines)
    source.publish(FILES)
    done = harvest(source)
    assert "3 added, 0 changed, 0 deleted" in done.output()
    assert target.get(accept=JSON).json()["harvest"]["dropped_links"] == 4
    (a, b, _) = entries(target)
    host = source.site.link("").partition("://")[2]
    assert a["loc"] == f"{target.url}/r/http/{host}/data/a.csv"
    assert b["loc"] == f"{target.url}/r/http/{host}/data/b.csv~3Fyear=2026"
    links = {link["rel"]: link["href"] for link in a["links"]}
    assert links["describedby"] == "http://x.example/describedby"
    assert not links.keys() & {"canonical", "collection", "duplicate"}
    assert links.get("memento") != "http://x.example/memento"
    assert via(a) == {
        "rel": "via",
        "href": source.site.link(A),
        "modified": AT,
        "hash": {"md5": md5(FILES[A])},
        "length": 6,
        "type": "text/csv",
    }
    sha256 = hashlib.sha256(FILES[A].encode()).hexdigest()
    assert (a["hash"], a["length"], a["type"]) == ({"sha-256": sha256}, 6, "text/csv")
    assert copies(target) == bytes_of(source)


# a Sitemap says nothing of its resources but when they changed. Their type is
# that of the answer.
def test_a_copy_has_the_type_of_the_answer(site, target, harvest):
    source = Source(site)
    site.put("/a", "<p>a</p>", "text/html; charset=utf-8")
    site.put("/list.xml", urlset([f"<url><loc>{site.link('/a')}</loc></url>"]))
    harvest(source)
    (a,) = entries(target)
    assert via(a) == {"rel": "via", "href": site.link("/a")}
    answer = target.broker.get(target.broker.path_of(a["loc"]))
    assert answer["Content-Type"] == "text/html; charset=utf-8"
    # A foreign page acts as nobody here.
    assert "sandbox" in answer["Content-Security-Policy"]


def test_an_address_is_served_as_a_file_is(source, target, harvest):
    harvest(source)
    get = target.broker.get
    path = target.broker.path_of(entries(target)[0]["loc"])
    whole = get(path)
    assert (whole.status, whole.text) == (200, "alpha\n")
    assert whole["Content-Type"] == "text/csv"
    assert whole["Last-Modified"]
    assert get(path, **{"If-None-Match": whole["ETag"]}).status == 304
    part = get(path, Range="bytes=1-3")
    assert (part.status, part.text) == (206, "lph")
    assert get(path, Range="bytes=9-").status == 416
    assert get(path + ".x").status == 404


def test_changes_and_deletions_follow(source, target, harvest):
    harvest(source)
    source.publish({A: "alpha, again\n", C: FILES[C]})
    assert "0 added, 1 changed, 1 deleted" in harvest(source).output()
    assert copies(target) == bytes_of(source)
    (deleted,) = [e for e in entries(target) if e["change"] == "deleted"]
    assert via(deleted) == {"rel": "via", "href": source.site.link(B)}
    answer = target.broker.get(target.broker.path_of(deleted["loc"]))
    assert answer.status in (404, 410)
    n = len(entries(target))
    harvest(source)
    assert len(entries(target)) == n


# A post of deletions alone has no bytes.
def test_a_deletion_may_come_alone(source, target, harvest):
    harvest(source)
    source.publish({A: FILES[A]})
    assert "0 added, 0 changed, 2 deleted" in harvest(source).output()
    assert copies(target) == bytes_of(source)


# What only one of two sources has is deleted with it; a copy of each has its own address.
def test_two_sources_share_no_address(source, start_site, target, run, tmp_path):
    other = Source(start_site()).publish({A: "another alpha\n"})
    command = ("tidings", "harvest", source.url, other.url, target.url, "--republish")
    state = ("--once", "--state", tmp_path / "state")
    run(*command, *state)
    assert copies(target) == bytes_of(source) | bytes_of(other)
    other.publish({B: "another beta\n"})
    run(*command, *state)
    assert copies(target) == bytes_of(source) | bytes_of(other)


FAULTS = {
    "digest": ({"hash": "md5:" + "0" * 32}, (), "the source announced 0000"),
    "length": ({"length": 5}, (), "the source announced"),
    "404": (None, (), "the server answers 404"),
    "too large": ({}, ("--max-file", "5"), "--max-file"),
}


# what cannot be had is named and counted, and not published; and published
# when it can be had.
@pytest.mark.parametrize("fault", FAULTS)
def test_what_cannot_be_had_is_named(source, target, harvest, fault):
    wrong, options, why = FAULTS[fault]
    files = {A: FILES[A]}
    if wrong is None:
        source.publish(files).site.delete(A)
    else:
        source.publish(files, **wrong)
    for _ in range(2):
        done = harvest(source, *options, status=1)
        assert "could not be had: 1" in done.errors()
        assert source.site.link(A) in done.errors()
        assert why in done.errors()
        assert entries(target) == []
        report = target.get(accept=JSON).json()["harvest"]
        assert "could not be had: 1" in report["not_complete"]
    source.site.put(A, FILES[A], "text/csv")
    source.publish(files)
    harvest(source)
    assert copies(target) == {source.site.link(A): FILES[A]}
    assert target.get(accept=JSON).json()["harvest"]["not_complete"] is None


# The same of a set of Tidings, which sends each change once.
def test_a_set_is_read_again_for_what_could_not_be_had(source, target, broker, harvest):
    first = broker.set()
    first.send([change(source.site.link(path), "created") for path in FILES])
    source.site.status(A, 503)
    for _ in range(2):
        assert "could not be had: 1" in harvest(first, status=1).errors()
        assert len(entries(target)) == 2
    source.site.status(A, None)
    harvest(first)
    assert copies(target) == bytes_of(source)
    n = len(entries(target))
    harvest(first)
    assert len(entries(target)) == n == 3


# One fault keeps nothing else away.
def test_all_others_are_published(source, target, harvest):
    source.site.status(A, 503)
    harvest(source, status=1)
    expected = bytes_of(source)
    del expected[source.site.link(A)]
    assert copies(target) == expected


def test_the_set_must_store_bytes(source, broker, harvest):
    done = harvest(source, into=broker.set().create(), status=1)
    assert 'its setting "content" is not "inline"' in done.errors()


# Records are no files.
def test_a_provider_of_records_is_refused(source, harvest):
    source.url += "?verb=Identify"
    assert "takes no OAI-PMH" in harvest(source, status=2).errors()


def test_a_dry_run_fetches_nothing(source, target, harvest):
    done = harvest(source, "--dry-run")
    assert "3 added" in done.output()
    assert not len(source.site.asked(A))
    assert entries(target) == []


# Killed while an original comes: the next run has each of them once.
@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGTERM])
def test_a_harvest_goes_on_where_it_was_stopped(
    source, target, harvest, start, tmp_path, kill
):
    site = source.site
    site.hold(C)
    state = tmp_path / f"state-{target.name}"
    command = ("tidings", "harvest", source.url, target.url, "--republish", "--once")
    process = start(*command, "--state", state)
    site.asked(C).wait(1)
    process.signal(kill)
    site.release(C)
    process.wait()
    harvest(source)
    assert sorted(via(e)["href"] for e in entries(target)) == sorted(bytes_of(source))
    assert copies(target) == bytes_of(source)


# C example 33: each aggregator of a chain keeps the `via` of the original alone. A mirror
# gets all bytes from the last one.
def test_a_chain_keeps_the_via_of_the_original(
    source, target, broker, harvest, run, tmp_path
):
    second = broker.set().create(content="inline")
    harvest(source)
    harvest(target, into=second)
    for one, other in zip(entries(target), entries(second)):
        assert via(one) == via(other)
        assert other["loc"].startswith(f"{second.url}/r/http/")
        assert other["hash"] == one["hash"]
    source.site.status(None, 503)
    n = len(source.site.requests)
    run("tidings", "sync", second.url, tmp_path / "m", "--until-caught-up")
    texts = [p.read_text() for p in (tmp_path / "m").rglob("*") if p.is_file()
             and ".tidings" not in p.parts]
    assert sorted(texts) == sorted(FILES.values())
    run("tidings", "audit", tmp_path / "m")
    assert len(source.site.requests) == n

    # And what changes goes through.
    source.site.status(None, None)
    source.publish({A: "new\n"})
    harvest(source)
    harvest(target, into=second)
    assert copies(second) == bytes_of(source)


@pytest.fixture
def mirror(source, target, broker, harvest, run, tmp_path):
    """A mirror of the second aggregator of a chain."""
    second = broker.set().create(content="inline")
    harvest(source)
    harvest(target, into=second)
    run("tidings", "sync", second.url, tmp_path / "m", "--until-caught-up")
    return tmp_path / "m"


D = "/data/d"


# The `via` leads to the first source, which is asked itself. A finding names it.
def test_an_audit_compares_with_the_originals(
    source, target, broker, harvest, run, tmp_path
):
    source.publish(FILES | {D: "delta\n"})
    second = broker.set().create(content="inline")
    harvest(source)
    harvest(target, into=second)
    # What is no copy has no original.
    source.site.put("/own", "own")
    own = source.site.link("/own")
    second.receipt(second.send(*multipart(change(own), [(own, None, b"own")])))
    mirror = tmp_path / "m"
    run("tidings", "sync", second.url, mirror, "--until-caught-up")
    audit = ("tidings", "audit", mirror, "--original")
    equal = run(*audit).output()
    assert "compared=5 missing=0 stale=0 extra=0 corrupt=0 " in equal
    assert equal.endswith("by_original=4 without_via=1")

    source.site.put(A, "ALPHA\n", "text/csv")  # as long
    source.site.put(B, "beta, and more\n", "text/csv")
    source.site.delete(C)
    source.site.status(D, 403)
    found = {A: "stale", B: "stale", C: "extra", D: "unknown"}
    done = run(*audit, status=1)
    for path, kind in found.items():
        original = f": its original {source.site.link(path)}: "
        (line,) = [line for line in done.output().splitlines() if original in line]
        assert line.startswith(f"{kind:8}{second.url}/r/http/")
    assert "stale=2 extra=1 corrupt=0 repaired=0 " in done.output()
    assert "by_original=3 unknown=1 without_via=1" in done.output()
    assert "not known to be as its source: 4 findings" in done.errors()
    done = run(*audit, "--json", "--skip-bad", status=1)
    assert '"by_original":3,"unknown":1,"without_via":1}' in done.output()
    assert done.output().count('{"finding":') == 4
    # Nothing of the originals stays, and the aggregator's audit is another question.
    assert not list((mirror / ".tidings" / "incoming").iterdir())
    assert "unknown=" not in run("tidings", "audit", mirror).output()


# One that cannot be had is no proof of anything.
def test_an_audit_says_which_originals_cannot_be_had(source, mirror, run):
    source.site.status(A, 503)
    source.site.cut(C, 3, times=None)
    done = run("tidings", "audit", mirror, "--original", "--skip-bad", status=1)
    assert "stale=0 extra=0 " in done.output()
    assert "by_original=1 unknown=2" in done.output()
    assert "not known to be as its source: 2 findings" in done.errors()


# A file that the aggregator has another version of is not asked for.
def test_an_audit_of_originals_audits_the_aggregator_first(source, mirror, run):
    n = len(source.site.asked(A))
    for file in mirror.rglob("a.csv"):
        file.write_text("other")
    done = run("tidings", "audit", mirror, "--original", status=1)
    assert "corrupt=1 " in done.output()
    assert "by_original=2" in done.output()
    assert len(source.site.asked(A)) == n


def test_originals_are_of_now_and_repair_nothing(target, mirror, run, tmp_path):
    past = tmp_path / "past"
    at = entries(target)[-1]["datetime"]
    run("tidings", "sync", target.url, past, "--as-of", at)
    for words in ((mirror, "--repair"), (past,)):
        done = run("tidings", "audit", *words, "--original", status=2)
        assert "originals are of now, and repair no mirror" in done.errors()
