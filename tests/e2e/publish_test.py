"""tidings publish: files that were posted before, input that is checked."""

import json

import pytest

from tidings_test.sets import change

A, B = "http://example.com/a", "http://example.com/b"
HEAD = (
    '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
    ' xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="changelist"/>\n'
)
GOOD = json.dumps(change(A))


# The key of a FILE comes from its bytes: whoever repeats a command adds nothing.
def test_a_file_is_posted_once(news, run, tmp_path):
    path = tmp_path / "changes.json"
    path.write_text(json.dumps([change(A), change(B)]))
    publish = ("tidings", "publish", news.url)

    first = run(*publish, path)
    assert first.errors() == ""
    news.post()
    again = run(*publish, path)
    assert again.output() == first.output()
    time = first.output().partition("datetime=")[2].strip()
    assert again.errors() == (
        "tidings: nothing was added: this was posted before, with the same key: entries "
        f"1 to 2 of {time}; --again posts it once more"
    )

    # It is a file of its bytes, whatever its name; of another type it is another one.
    copy = tmp_path / "copy.json"
    copy.write_bytes(path.read_bytes())
    assert "nothing was added" in run(*publish, copy).errors()
    copy.write_bytes(path.read_bytes() + b"\n")
    assert run(*publish, copy).errors() == ""
    assert run(*publish, path, "--again").errors() == ""
    assert news.last() == 7

    # A key of the user's own is no file's.
    key = ("--key", "mine", "--type", "json")
    assert run(*publish, path, *key).errors() == ""
    assert run(*publish, path, *key).errors().endswith("Z")

    # Neither standard input nor another set knows of it.
    for _ in range(2):
        assert run(*publish, "-", input=path.read_text()).errors() == ""
    other = news.broker.set()
    assert run("tidings", "publish", other.url, path).errors() == ""
    assert (news.last(), other.last()) == (13, 2)


@pytest.mark.parametrize(
    "name, text, faults, n",
    (
        ("a.json", f"[{GOOD},\n{GOOD}]", [], 2),
        ("a.ndjson", f"{GOOD}\n\n{GOOD}\n", [], 2),
        ("a.xml", f'{HEAD}<url><loc>{A}</loc><rs:md change="created"/></url></urlset>', [], 1),
        ("a.json", "[]", [" no entries"], 0),
        ("a.json", f"[{GOOD},\n{GOOD}\n", ["3: not JSON: it ends too early"], 2),
        (
            "a.json",
            f'[{GOOD},\n{{"loc":"a.txt","change":"created"}},\n\n{{"id":7}},{GOOD}]',
            ['2: loc: not an absolute URI, such as http://example.com/a: "a.txt"', '4: unknown member "id" in the change'],
            2,
        ),
        (
            "a.ndjson",
            f'{GOOD}\nloc,change\n{{"loc":\n{GOOD}\n{{"loc":"{A}"}}',
            [
                '2: not NDJSON: the line does not begin with "{"',
                "3: not NDJSON: the line ends within its entry",
                "5: no change: created, updated or deleted?",
            ],
            2,
        ),
        (
            "a.xml",
            f'{HEAD}<url><loc>{A}</loc></url>\n<url><loc>a</loc><rs:md change="moved"/></url>'
            "</urlset>",
            [
                "2: no change: created, updated or deleted?",
                '3: change: not created, updated or deleted: "moved"',
            ],
            0,
        ),
    ),
)  # fmt: skip
def test_a_dry_run_reports_every_fault(news, run, tmp_path, name, text, faults, n):
    path = tmp_path / name
    path.write_text(text)
    publish = ("tidings", "publish", news.url)
    done = run(*publish, path, "--dry-run", status=1 if faults else 0)
    assert done.errors().splitlines() == [f"{path}:{fault}" for fault in faults]
    assert done.output() == f"changes={n} faults={len(faults)}"
    assert news.last() == 0
    # The broker is of the same opinion.
    refused = run(*publish, path, status=1 if faults else 0).errors()
    if faults:
        assert faults[0].partition(": ")[2].strip() in refused


# A query without rows writes nothing, and a person forgets --change.
@pytest.mark.parametrize(
    ("operand", "text", "said", "status"),
    (
        ("/dev/null", None, "/dev/null is empty: nothing is posted", 0),
        ("a.ndjson", "\ufeff \n", "a.ndjson is empty: nothing is posted", 0),
        ("a.txt", "changes", "a.txt is neither XML nor JSON at first sight", 2),
        (A, None, "give --change created, updated or deleted", 1),
    ),
)
def test_what_is_no_document(news, run, tmp_path, operand, text, said, status):
    if operand.startswith("a."):
        (tmp_path / operand).write_text(text)
    publish = ("tidings", "publish", news.url, operand)
    done = run(*publish, cwd=tmp_path, status=status)
    assert said in done.errors()
    assert news.last() == 0


def test_a_dry_run_checks_options_too(news, run):
    publish = ("tidings", "publish", news.url, "--dry-run", "--change", "created")
    assert run(*publish, A).output() == "changes=1 faults=0"
    assert run(*publish, A, "b", status=1).errors() == 'LOC:2: loc: not an absolute URI, such as http://example.com/a: "b"'


def test_members_that_are_not_known_are_left_out(news, run):
    record = {"id": [{"loc": 1}], **change(A, tags=["t"]), "length": None, "links": []}
    publish = ("tidings", "publish", news.url)
    for type_, text in (("json", [record]), ("json", record), ("ndjson", record)):
        text = json.dumps(text)
        done = run(*publish, "--type", type_, input=text, status=1)
        assert 'unknown member "id" in the change' in done.errors()
        run(*publish, "--type", type_, "--ignore-unknown", input=text)
    page = json.loads(news.get("changes?after=0").body)
    assert [(e["loc"], e["tags"], "id" in e) for e in page["changes"]] == [(A, ["t"], False)] * 3

    # Only unknown members are left out: other faults stay.
    bad = json.dumps({"id": 1, "loc": "a", "change": "created"})
    done = run(*publish, "--type", "json", "--ignore-unknown", input=bad, status=1)
    assert done.errors() == '-:1: loc: not an absolute URI, such as http://example.com/a: "a"'
    assert "--ignore-unknown" in run(
        *publish, "--type", "xml", "--ignore-unknown", input=HEAD, status=2
    ).errors()
    assert news.last() == 3
