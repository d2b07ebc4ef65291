"""`tidings sync` and `tidings audit` of a source: all its sets, new ones and removed
ones."""

import pytest

HEARTBEAT = ("--heartbeat", "0.2")

pytestmark = pytest.mark.broker(*HEARTBEAT)


@pytest.fixture
def other(broker):
    return broker.set()


@pytest.fixture
def source(mirrored, other):
    """Two sets, and a mirror of the source that has them."""
    mirrored.change("/a.txt", "a")
    mirrored.post()
    mirrored.change("/b.txt", "b")
    mirrored.post(other)
    mirrored.url = f"{mirrored.broker.url}/"
    return mirrored


#
def test_a_source_stands_for_all_its_sets(source, other):
    source.sync()
    said = ("compared at ", "complete as of 20")
    assert all(any(part in line for part in said) for line in source.audit().err)

    source.change("/b.txt", "newer")
    source.post(other)
    source.change("/a.txt", None)
    source.sync()


# several Source Descriptions, under an index, name the source's sets; a new
# one names the set that comes later.
@pytest.mark.broker(*HEARTBEAT, "--description-sets", "2")
def test_a_source_with_an_index_stands_for_all_its_sets(source, broker):
    for path in ("/c.txt", "/d.txt", "/e.txt"):
        source.change(path, "text")
        source.post(broker.set())
        source.sync()
    assert "<sitemapindex" in broker.get("/.well-known/resourcesync").text
    said = ("compared at ", "complete as of 20")
    assert all(any(part in line for part in said) for line in source.audit().err)


# The sync that runs finds the new set.
def test_a_set_that_comes_later_is_followed(source, broker):
    syncing = source.start("--poll", "1")
    source.wait("written")  # /a.txt and /b.txt, or the other way
    source.wait("written")
    source.change("/c.txt", "c")
    source.post(broker.set())
    source.wait("written", "/c.txt")
    source.change("/a.txt", "after")
    source.post()
    source.wait("written", "/a.txt")
    source.check_same()
    syncing.stop()


# A source that forgets a set does not empty the mirror; the user who repairs the mirror
# agrees.
def test_files_of_a_removed_set_stay_until_the_repair(source, other):
    source.sync()
    assert other.delete().status == 204
    gone = f"/sets/{other.name} is not offered any more: what the mirror has"
    assert gone in source.sync().errors()

    assert "extra=1" in source.audit(status=1).output()
    source.check_same()
    source.audit("--repair")
    del source.files["/b.txt"]
    source.check_same()


# A failed set does not stop the others; the exit status shows it.
def test_one_set_is_held_back_and_the_others_go_on(source, other):
    source.change_many(1, 150, "text")
    source.sync()
    for n in range(1, 151):
        source.tell(f"/r/{n}.txt", is_deleted=True)
    source.post()
    source.change("/b.txt", "newer")
    source.post(other)
    held = source.sync(status=1).errors()
    assert "held back: 150 of 152 resources would be deleted" in held
    source.check_same()


# No audit asks an URL that never was a source, and it hides no set.
def test_a_source_that_never_was_one_is_forgotten(mirrored):
    mirrored.change("/a.txt", "a")
    mirrored.url = mirrored.site.link("/nothing")
    mirrored.sync(status=1)
    assert "the mirror was never filled" in mirrored.audit(status=1).errors()

    mirrored.url = mirrored.set.url
    mirrored.sync()
    mirrored.audit()
    mirrored.audit(mirrored.url)


def test_a_broker_without_sets_says_so(broker, run, tmp_path):
    done = run("tidings", "sync", f"{broker.url}/", tmp_path / "m", status=1)
    assert done.errors().endswith(f"{broker.url}/: the source has no sets yet")


# An audit by one of its sets does not repair it: the set knows nothing of the others.
def test_a_mirror_is_audited_by_the_source_that_it_is_of(source):
    source.sync()
    refused = source.audit(source.set.url, "--repair", status=2)
    assert "the mirror is of " in refused.errors()
    source.check_same()
    source.audit("http://127.0.0.1:1/", status=2)
    source.audit(source.url, "--repair")
    source.check_same()


# Several sources of one mirror are audited together: no source seems to have lost the
# sets of the other.
def test_several_sources_are_audited_together(source, other):
    for one, is_same in ((source.set, False), (other, True)):
        source.url = one.url
        assert source.sync(is_same=is_same).errors() == ""

    said = ("compared at ", "complete as of 20")
    assert all(any(part in line for part in said) for line in source.audit().err)
    refused = source.audit(source.url, status=2)
    assert "one of several sources" in refused.errors()
    source.file("/a.txt").unlink()
    source.audit("--repair")
    source.check_same()
