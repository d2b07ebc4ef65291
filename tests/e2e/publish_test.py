"""tidings publish: files that were posted before, input that is checked."""

import json

from tidings_test.sets import change

A, B = "http://example.com/a", "http://example.com/b"


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
