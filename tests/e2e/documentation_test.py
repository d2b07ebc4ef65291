"""Every command on every page of doc/ is run as it stands there (documentation.py has the
forms). The tour of README.md is in readme_test.py."""

import json
import re

import pytest

from tidings_test import browser as browsers
from tidings_test.broker import BIN, ROOT, is_sanitized
from tidings_test.documentation import Page, Reader
from tidings_test.waiting import wait_for

PAGES = {path.stem: Page(path) for path in sorted((ROOT / "doc").glob("*.md"))}

RUN = [name for name, page in PAGES.items() if page.commands()]


@pytest.fixture
def reader(tmp_path, start_broker, run, start):
    reader = Reader(tmp_path, start_broker, run, start)
    yield reader
    reader.end()


# Those of cluster.md: cluster/documentation.
ELSEWHERE = ("first_hour", "tutorial_live_page", "cluster")


@pytest.mark.parametrize("name", [name for name in RUN if name not in ELSEWHERE])
def test_the_commands_of_a_page_do_what_it_says(reader, name, request):
    page = PAGES[name]
    has_programs = page.uses("cc") or any(
        text in page.path.read_text() for text in ("import tidings\n", "$ tidings mcp ")
    )
    if has_programs and page.uses("python3") and is_sanitized():
        pytest.skip("programs without the sanitizer cannot use its library")
    if page.uses("psql"):
        database = request.getfixturevalue("start_postgresql")()
        reader.env.update(database.env)
        reader.others["dbname=shop"] = f"{database.address} dbname=shop"
    if has_programs and page.uses("python3"):
        use_library(reader, request.getfixturevalue("run"))
    if "mqtt.ini" in page.path.read_text() and page.uses("./broker/start"):
        use_mosquitto(reader, request.getfixturevalue("mosquitto"))
    reader.read(page)


def use_library(reader, run):
    """libtidings is installed, and the Python package, which a sanitizer's build lacks."""
    from tidings_test import python

    prefix = reader.folder.parent / "prefix"
    for component in ("library", "development"):
        run("cmake", "--install", BIN.parent, "--prefix", prefix, "--component", component)
    reader.env["PKG_CONFIG_PATH"] = str(prefix / "lib/pkgconfig")
    reader.env["LD_LIBRARY_PATH"] = str(prefix / "lib")
    reader.env.update(python.ENV)


def use_mosquitto(reader, mosquitto):
    """Its clients find that MQTT broker without options, and the bridge of the page
    listens before the next command."""
    reader.others["127.0.0.1:1883"] = f"127.0.0.1:{mosquitto.port}"
    reader.others['"127.0.0.1", 1883'] = f'"127.0.0.1", {mosquitto.port}'
    config = reader.folder / ".config"
    config.mkdir()
    for client in ("mosquitto_pub", "mosquitto_sub"):
        (config / client).write_text(f"-h 127.0.0.1\n-p {mosquitto.port}\n")
    reader.when_served = lambda: mosquitto.wait_subscription("plant/+/changes")


# Each member that the broker takes has a row, and a value in the example.
def test_the_page_about_changes_has_every_member():
    text = PAGES["changes"].path.read_text()
    schemas = json.loads((ROOT / "broker/http/openapi.json").read_text())["components"]["schemas"]
    known = set(schemas["Change"]["properties"])
    given, added = (
        set(re.findall(r"^\| `(\w+)` \|", part, re.M))
        for part in text.split("## What the broker adds")
    )
    assert given | added == known | {"memento"}
    assert set(json.loads(PAGES["changes"].file("hat.json"))) == given


def test_no_page_has_a_command_that_nobody_runs():
    assert len(RUN) >= 14
    for name, page in PAGES.items():
        assert [line for block in page.blocks for line in block.unmarked()] == [], name


# The page in the browser shows all changes that the first terminal has posted.
def test_the_first_hour_ends_with_a_page_in_a_browser(reader, browser):
    reader.read(PAGES["first_hour"])
    page = browsers.Page(browser, reader.broker)
    page.open_url(f"{reader.web_url}/page.html")
    items = "document.querySelectorAll('li').length"
    n = reader.broker.get("/sets/library/changes?after=0").json()["last"]
    page.expect(f"new Promise(done => setInterval(() => {items} == {n} && done(true), 1))", True)
    page.close()


# The page in the browser has a row for each record as it is now, also while nobody reloads it.
def test_the_tutorial_of_a_live_page_ends_with_a_page_in_a_browser(reader, browser):
    reader.read(PAGES["tutorial_live_page"])
    page = browsers.Page(browser, reader.broker)
    page.open_url(f"{reader.web_url}/teas.html")
    wait_words(page, "Tea Price Left Sencha 8.50 12 Assam 6.00 29 Mate 4.20 49 Change 7, live")
    reader.broker.set("teas").post_change("http://example.com/sencha", "deleted")
    wait_words(page, "Tea Price Left Assam 6.00 29 Mate 4.20 49 Change 8, live")
    reader.broker.stop()
    wait_words(page, "Tea Price Left Assam 6.00 29 Mate 4.20 49 Change 8, stale")
    reader.broker.restart()
    again = {"title": "Sencha", "data": {"price": 9, "left": 5}}
    reader.broker.set("teas").post_change("http://example.com/sencha", **again)
    wait_words(page, "Tea Price Left Assam 6.00 29 Mate 4.20 49 Sencha 9.00 5 Change 9, live")
    page.check_axe()
    page.close()


def wait_words(page, words):
    """Wait until the table of the page, and the line below it, have these words."""
    shown = "document.querySelector('main').innerText.split(/\\s+/).join(' ')"
    wait_for(words, lambda: page.value(shown) == f"Teas {words}")


@pytest.mark.parametrize(
    "line, is_refused",
    [
        ("tidings get http://127.0.0.1:8787/sets/demo", True),
        ("curl -X DELETE http://127.0.0.1:8787/sets/demo", True),
        ("# tidings get http://127.0.0.1:8787/sets/demo", True),
        ("# systemctl reload tidingsd", False),
        ("tidings get SET-URL", False),
        ("$ tidings get http://127.0.0.1:8787/sets/demo", False),
        ("key = value", False),
    ],
)
def test_a_command_without_a_mark_is_refused(tmp_path, line, is_refused):
    (tmp_path / "page.md").write_text(f"A line:\n\n    {line}\n")
    unmarked = Page(tmp_path / "page.md").blocks[0].unmarked()
    assert unmarked == ([line] if is_refused else [])


def test_a_page_that_shows_another_output_is_refused(reader, tmp_path):
    get = "Text.\n\n    $ tidings get http://127.0.0.1:8787/sets/demo\n"
    (tmp_path / "page.md").write_text(f"{get}    position ...-3\n")
    reader.read(Page(tmp_path / "page.md"))
    (tmp_path / "page.md").write_text(f"{get}    position ...\n    earliest ...\n")
    reader.read(Page(tmp_path / "page.md"))
    for other in ("position ...-5", "earliest ...\n    position ..."):
        (tmp_path / "page.md").write_text(f"{get}    {other}\n")
        with pytest.raises(AssertionError, match="did not print"):
            reader.read(Page(tmp_path / "page.md"))


# A terminal shows both mixed; each keeps its own order.
def test_a_page_shows_output_and_errors_as_they_come(reader, tmp_path):
    both = "Text.\n\n    $ echo 1 >&2; echo 2; echo 3 >&2\n"
    (tmp_path / "page.md").write_text(f"{both}    1\n    2\n    3\n")
    reader.read(Page(tmp_path / "page.md"))
    (tmp_path / "page.md").write_text(f"{both}    3\n    2\n    1\n")
    with pytest.raises(AssertionError, match="did not print '1'"):
        reader.read(Page(tmp_path / "page.md"))
