"""A set's reports of the bytes that it keeps."""

from tidings_test.content import multipart
from tidings_test.sets import change
from tidings_test.waiting import wait_for

A, B, C = (f"http://example.com/{name}" for name in "abc")


# How many files, with how many bytes, and of how many entries they are missing: as of
# the last fold. A set that keeps none says nothing.
def test_a_set_tells_what_it_keeps_and_what_is_missing(news):
    def wait_content(**facts):
        facts["mode"] = "inline"
        wait_for(f"{facts}", lambda: news.state()["content"] == facts)

    assert "content" not in news.state()
    news.post_change(C, "updated")
    assert news.put(content="inline").status == 200
    wait_content(last=1, kept=0, bytes=0, missing=1)

    contents = {A: b"same", B: b"same", C: b"other"}
    changes = [change(loc, "updated") for loc in contents]
    parts = [(loc, None, content) for loc, content in contents.items()]
    news.receipt(news.send(*multipart(changes, parts)))
    wait_content(last=4, kept=2, bytes=9, missing=1)

    assert news.change(discard=True, content="none").status == 200
    assert "content" not in news.state()
