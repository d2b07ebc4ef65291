"""Every command on every page of doc/ is run as it stands there (documentation.py has the
forms). The tour of README.md is in readme_test.py."""

import pytest

from tidings_test import browser as browsers
from tidings_test.broker import ROOT
from tidings_test.documentation import Page, Reader

PAGES = {path.stem: Page(path) for path in sorted((ROOT / "doc").glob("*.md"))}

# Pages with commands that nobody runs yet. Each is to be converted.
UNMARKED = {
    "bridging",
}

RUN = [name for name, page in PAGES.items() if page.commands() and name not in UNMARKED]


@pytest.fixture
def reader(tmp_path, start_broker, run, start):
    reader = Reader(tmp_path, start_broker, run, start)
    yield reader
    reader.end()


@pytest.mark.parametrize("name", [name for name in RUN if name != "first_hour"])
def test_the_commands_of_a_page_do_what_it_says(reader, name, request):
    page = PAGES[name]
    if page.uses("psql"):
        reader.env.update(request.getfixturevalue("start_postgresql")().env)
    reader.read(page)


def test_no_page_has_a_command_that_nobody_runs():
    found = {
        name: [line for block in page.blocks for line in block.unmarked()]
        for name, page in PAGES.items()
    }
    assert {name for name, lines in found.items() if lines} == UNMARKED, found


# The page in the browser shows all changes that the first terminal has posted.
def test_the_first_hour_ends_with_a_page_in_a_browser(reader, browser):
    reader.read(PAGES["first_hour"])
    page = browsers.Page(browser, reader.broker)
    page.open_url(f"{reader.web_url}/page.html")
    items = "document.querySelectorAll('li').length"
    n = reader.broker.get("/sets/library/changes?after=0").json()["last"]
    page.expect(f"new Promise(done => setInterval(() => {items} == {n} && done(true), 1))", True)
    page.close()
