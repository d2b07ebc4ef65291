"""The console at /: what an operator sees and does there, by keyboard, on a large window
and on one of a phone, in light and in dark."""

import datetime
import hmac
import json
import math
import re

import pytest

from tidings_test import hub
from tidings_test.callbacks import answer
from tidings_test.console import LOOKS, Console, Look
from tidings_test.content import multipart
from tidings_test.http import JSON
from tidings_test.proxy import RESET
from tidings_test.sets import change
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

# Lines that a page must not run. A tag has no white space, a title may be anything.
MARKUP = "<img/src=x/onerror=hacked=1>"


@pytest.fixture
def look():
    return LOOKS[0]


@pytest.fixture
def open_console(browser):
    """open_console(broker, look): the console of that broker."""
    opened = []

    def open_one(broker, look=LOOKS[0]):
        opened.append(Console(browser, broker, look))
        return opened[-1]

    yield open_one
    for console in opened:
        console.close()


PLACES = ("archive", "gallery", "harbour", "library", "museum", "press", "transit", "weather")
KINDS = ("articles", "images", "news", "records", "stations")
NAMES = [f"{place}-{kind}" for place in PLACES for kind in KINDS]
CHOSEN = "transit-news"


def busy(i, minute):
    """How many changes the set number `i` gets in a minute: some rest for a while, some
    come in waves, each sixth has none."""
    wave = 1 + math.sin((minute + 9 * i) / (3 + i % 5))
    rests = (minute + 13 * i) // 12 % 4 == 0
    return 0 if rests or i % 6 == 5 else int(wave * (1 + 7 * i % 11))


@pytest.fixture
def forty(start_broker, faults):
    """A broker with 40 sets and an hour behind it. CHOSEN has ten changes of one minute,
    the last of all."""
    faults.set_clock(-3600)
    broker = start_broker("--rotate-entries", "40", env=faults.env)
    for name in NAMES:
        place, kind = name.split("-")
        broker.set(name).create(title=f"{kind.capitalize()} of the {place}")
    for minute in range(-59, 0, soak(10, 1)):
        faults.set_clock(60 * minute)
        for i, name in enumerate(NAMES):
            n = busy(i, minute)
            if n and name != CHOSEN:
                broker.set(name).post(n)
    faults.set_clock(0)
    broker.set(CHOSEN).post(10)
    return broker


@pytest.mark.parametrize("look", LOOKS, ids="{0.width}-{0.scheme}".format)
def test_an_operator_works_by_keyboard(forty, open_console, look):
    console = open_console(forty, look)
    console.wait("texts('.set .name').length > 5 && text('h1').includes('40')")
    console.check_width()
    console.shoot("sets")
    console.press("Tab")
    console.expect("focused()", "a Skip to the content")
    console.focus("input", "Filter")
    console.type("news of the tra")
    console.wait(f"texts('.set .name').join() == '{CHOSEN}'")
    console.focus("a", CHOSEN)
    console.press("Enter")
    console.wait(f"text('h1') == '{CHOSEN}' && texts('.tail .seq').length == 10")
    console.wait("text('.states .badge') == 'live'")
    # A live post
    news = forty.set(CHOSEN)
    news.post_change("http://example.com/page-1")
    console.wait("texts('.tail .loc')[0] == 'http://example.com/page-1'")
    console.check_width()
    console.shoot("live")
    # Paused, it waits.
    console.focus("button", "Pause")
    console.press("Space")
    news.post_change("http://example.com/page-2")
    console.wait("text('.states').includes('1 new')")
    console.expect("texts('.tail .loc')[0]", "http://example.com/page-1")
    console.press("Space")
    console.wait("texts('.tail .loc')[0] == 'http://example.com/page-2'")
    # Open an entry
    console.focus("summary", "12")
    console.press("Enter")
    console.wait("texts('.tail dd').includes('http://example.com/page-2')")
    # Post one
    console.go(f"#/sets/{CHOSEN}/post")
    console.focus("input", "URL of the resource")
    console.type("http://example.com/by-form")
    console.focus("button", "Post the change")
    console.press("Enter")
    console.wait("text('#announcement').startsWith('Posted as number 13')")
    console.check_width()
    console.shoot("post")
    assert news.changelist(1).entries[-1].loc == "http://example.com/by-form"


VIEWS = ("live", "history", "readers", "harvest", "settings", "post")
PAGES = ("#/", *(f"#/sets/{CHOSEN}/{view}" for view in VIEWS), "#/broker", "#/sign-in")

def visit_all(console, callbacks):
    """Go to each page, with something on it to look at."""
    for page in PAGES:
        console.go(page)
        console.wait("!document.querySelector('main').innerText.includes('Reading')")
        if page.endswith("readers"):
            console.wait("texts('.card').length == 1 && texts('.chart').length == 2")
        if page.endswith("broker"):
            console.wait("texts('.chart').length == 2")
        if page.endswith("harvest"):
            console.wait("texts('h2').join() == 'Harvest,Consent to deletions,Report,Start a harvest'")
        yield page


@pytest.mark.parametrize("look", LOOKS, ids="{0.width}-{0.scheme}".format)
def test_everybody_can_use_it(forty, open_console, callbacks, look):
    console = open_console(forty, look)
    callbacks.join(forty.set(CHOSEN))
    forty.set(CHOSEN).put_harvest(held_back=120)
    for page in visit_all(console, callbacks):
        console.check()
    console.shoot("sign-in")


# Each page names the one of the documentation that explains it, and the broker has it.
def test_each_page_leads_to_its_documentation(forty, open_console):
    console = open_console(forty)
    pages = "console following documents hub harvesting sets publishing watching tokens"
    for page, name in zip(PAGES, pages.split(), strict=True):
        console.go(page)
        console.expect("text('.headline a')", f"Help: {name}")
        path = console.value("new URL(document.querySelector('.headline a').href).pathname")
        assert path == f"/doc/{name}.html" and forty.get(path).status == 200


def test_markup_stays_text(start_broker, open_console):
    broker = start_broker()
    news = broker.set("news").create(title=MARKUP)
    news.post_change("http://example.com/a", tags=[MARKUP], title=MARKUP, data={MARKUP: 7})
    console = open_console(broker)
    console.wait(f"texts('.set .title').includes('{MARKUP}')")
    console.go("#/sets/news")
    console.wait("texts('.tail .loc').length == 1")
    console.value("document.querySelector('.entry').open = true; 1")
    console.wait(f"text('.tail').includes('{MARKUP}')")
    # The headline stands before the resource, the data among the facts.
    console.expect("texts('.tail .loc')[0]", f"{MARKUP} http://example.com/a")
    console.wait("texts('.tail dd').some(text => text.includes('onerror=hacked=1>\": 7'))")
    console.go("#/sets/" + MARKUP.replace("/", "%2F"))
    console.wait("text('.problem').includes('onerror')")
    console.expect("document.images.length + typeof hacked", "0undefined")


# The files are there without a right; everything that they show is not.
def test_the_policy_lets_own_files_run_alone(broker):
    page = broker.get("/")
    assert page["Content-Security-Policy"] == POLICY
    assert page["Cache-Control"] == "no-cache"
    files = [f"/console-{part}.js" for part in ("harvest", "parts", "readers", "set", "settings")]
    for path in ("/console.js", "/tidings.js", *files):
        answer = broker.get(path)
        assert answer["Content-Type"] == "text/javascript; charset=utf-8"
        for word in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval("):
            assert word not in answer.text, (path, word)


def test_without_scripts_it_is_a_list_of_sets(forty, browser):
    console = Console(browser, forty)
    browser.call("Emulation.setScriptExecutionDisabled", console.session, value=True)
    browser.call("Page.navigate", console.session, url=f"{forty.url}/?plain")
    # A page without scripts has no promises.
    rows = "document.querySelectorAll('main tr').length"
    wait_for("the list", lambda: console.value(rows) == 41)
    # The style sheet may come after the rows.
    width = "getComputedStyle(document.querySelector('main')).maxWidth"
    wait_for("the style", lambda: console.value(width) == "896px")
    console.shoot("without-scripts")
    browser.call("Target.closeTarget", **console.target)


# Rights


@pytest.fixture
def guarded(start_broker):
    broker = start_broker()
    broker.add_token("root", admin=True)
    broker.reader = broker.add_token("reader", subscribe=["news"])
    broker.set("news").create()
    broker.set("news").post(2)
    broker.set("secret").create(private=True)
    return broker


def test_a_user_signs_in_and_out(guarded, open_console):
    console = open_console(guarded)
    console.wait("text('h1') == 'Sign in' && text('.lead').includes('token')")
    console.sign_in("td_wrong")
    console.wait("text('#announcement').includes('does not know this token')")
    console.sign_in(guarded.reader)
    console.wait("texts('.set .name').join() == 'news' && text('.who') == 'reader'")
    # No script and no store has the token.
    console.expect("document.cookie + localStorage.length + sessionStorage.length", "00")
    console.open("/")
    console.wait("texts('.set .name').join() == 'news'")
    console.focus("button", "Sign out")
    console.press("Enter")
    console.wait("text('#user') == 'Sign in' && text('.lead').includes('token')")


# Browsers take a name with __Host- only with TLS, and without a domain.
def test_the_cookie_holds_over_tls(start_broker, open_console, certificate):
    broker = start_broker(*certificate.options, tls=certificate.trust())
    broker.add_token("root", admin=True)
    console = open_console(broker)
    console.wait("text('#user') == 'Sign in'")
    console.sign_in(broker.token)
    console.wait("text('.who') == 'root' && text('main').includes('No set yet')")
    broker.set("news").create().post(1)
    console.go("#/sets/news")
    console.wait("text('.states .badge') == 'live' && texts('.tail .loc').length == 1")


def views(console):
    console.wait("texts('.views a').length > 0 && document.querySelector('.view').children.length")
    return console.value("texts('.views a').join(' ')")


# Actions: buttons but for those of the tail and of the head and those that read, and
# forms.
ACTIONS = (
    "document.querySelectorAll('.view button:not([aria-pressed]):not(.quiet), "
    ".view form:not(.reads)').length"
)


def test_an_action_without_its_right_is_not_shown(guarded, open_console):
    console = open_console(guarded)
    console.sign_in(guarded.reader)
    console.wait("text('.who') == 'reader'")
    for view in VIEWS:
        console.go(f"#/sets/news/{view}")
        assert views(console) == "Live History Readers Settings"
        console.wait("!text('.view').includes('Reading')")
        # Who may subscribe may subscribe a callback.
        console.expect(ACTIONS, 2 if view == "readers" else 0)
    console.expect("document.body.innerText.includes('Callbacks')", False)
    console.go("#/broker")
    console.wait("text('.broker').includes('right to observe')")
    console.go("#/sets/secret")
    console.wait("text('h1') == 'Not found'")
    console.sign_in(guarded.token)
    console.wait("texts('.set .name').join(' ').includes('secret')")
    console.go("#/sets/news/settings")
    assert views(console) == "Live History Readers Harvest Settings Post"
    console.wait(f"{ACTIONS} > 0")


# Within two seconds for streams; the page says so.
def test_a_session_ends_with_its_token(guarded, open_console):
    console = open_console(guarded)
    console.sign_in(guarded.reader)
    console.wait("text('.who') == 'reader'")
    console.go("#/sets/news")
    console.wait("text('.states .badge') == 'live'")
    guarded.delete("/tokens/reader")
    console.wait("text('.states .badge') == 'ended'")
    console.wait("text('#connection').includes('has ended') && text('#user') == 'Sign in'")


# The pages


def test_lists_can_be_opened(start_broker, open_console):
    broker = start_broker("--rotate-entries", "2", "--index-lists", "2")
    news = broker.set("news").create()
    news.post(9)
    news.wait_list_files(4)
    console = open_console(broker)
    console.go("#/sets/news/history")
    states = "open closed closed archived archived"
    console.wait(f"texts('tbody .badge').join(' ') == '{states}'")
    console.expect("document.querySelectorAll('.timeline a').length", 5)
    paths = console.value("[...document.querySelectorAll('tbody a')].map(a => new URL(a.href).pathname)")
    assert [path[-5] for path in paths] == list("54321")
    for path in paths:
        assert broker.get(path).document().capability == "changelist"
    console.focus("button", "Close the open list")
    console.press("Enter")
    console.wait("text('#announcement') == 'The open list is closed.'")
    assert broker.get(news.path).json()["lists"]["open"] == 6


#
def test_a_set_is_shown_as_it_was_then(start_broker, open_console):
    broker = start_broker("--rotate-entries", "2")
    news = broker.set("news").create()
    for n in range(1, 6):
        news.post_change(f"http://example.com/{n}")
    news.post_change("http://example.com/1", "deleted")
    news.wait_list_files(3)
    console = open_console(broker)
    console.go("#/sets/news/history")
    console.wait("texts('.timeline a').length == 4")
    locs = "texts('.past tbody a').map(url => url.at(-1)).join('')"
    # By a row of the table: the end of the second list.
    console.focus("button", "As it was then, at the end of list 2")
    console.press("Enter")
    console.wait(f"{locs} == '1234'")
    console.wait("text('.past p').startsWith('4 resources at 20')")
    console.value("document.querySelector('.past table').scrollIntoView(false); 1")
    console.shoot("past")
    # By the time line, whose right end is the last change, and left one the creation.
    console.focus("input", "The set as it was at a point on the time line")
    console.press("Home")
    console.wait("text('.past p').startsWith('0 resources')")
    console.expect(locs, "")
    console.press("End")
    console.wait(f"{locs} == '2345'")
    console.expect("text('.point output').endsWith(' UTC')", True)
    # By a time.
    console.focus("input", "Time (UTC)")
    console.value("document.activeElement.value = '2001-01-01T00:00:00'; 1")
    console.press("Enter")
    console.wait("text('.past p.problem').includes('states from')")
    console.expect(locs, "")


def test_many_resources_are_shown_some_at_a_time(start_broker, open_console):
    broker = start_broker("--resource-list-entries", "150")
    news = broker.set("news").create()
    news.post(420)
    news.build("resourcelist")
    console = open_console(broker)
    console.go("#/sets/news/history")
    console.focus("button", "Show the set as it was then")
    console.press("Enter")
    shown = "document.querySelectorAll('.past tbody tr').length"
    for n, words in ((200, "The first 200 resources"), (400, "The first 400"), (420, "420 resources")):
        console.wait(f"{shown} == {n} && text('.past p').startsWith('{words}')")
        if n == 200:
            console.focus("button", "More")
        if n < 420:
            console.press("Enter")
    console.expect("document.querySelector('.past > button').hidden", True)


def test_a_callback_gets_changes_again_and_ends(start_broker, callbacks, open_console):
    broker = start_broker("--hub-retry-first", "3600")
    news = broker.set("news").create()
    callback = callbacks.join(news, form="json", signature="v1a")
    news.post(3)
    callback.wait_last(3)
    console = open_console(broker)
    console.go("#/sets/news/readers")
    console.wait("text('.card .badge') == 'active' && text('.card').includes('127.0.0.2')")
    console.expect("['json', 'v1a'].every(one => text('.card').includes(one))", True)
    n = len(callback.deliveries)
    # It begins where the subscription is: then nothing is sent again.
    console.focus("button", "Redeliver from here")
    console.press("Enter")
    console.wait("text('#announcement').includes('nothing again')")
    console.expect("document.querySelectorAll('dialog').length", 0)
    # From an earlier position the page says how many come again, and asks.
    console.focus("input", "After position")
    console.value("document.activeElement.select(); 1")
    console.type("1")
    console.wait("text('.card output') == 'Sends 2 changes again.'")
    console.press("Enter")
    console.wait("text('dialog[open]').startsWith('Sends 2 changes again.')")
    console.shoot("redeliver")
    console.press("Escape")
    console.wait("!document.querySelector('dialog')")
    assert len(callback.deliveries) == n
    console.focus("button", "Redeliver from here")
    console.press("Enter")
    console.wait("document.querySelector('dialog[open]')")
    console.press("Tab", "Enter")
    again = callback.deliveries.wait(n + 1)
    console.wait("text('#announcement').startsWith('The hub goes on')")
    assert (again.after, again.last) == (1, 3)
    # A callback takes it for a fault.
    wait_for("its judgement", lambda: callback.faults)
    callback.faults.clear()
    # A failure: its reason, and when the hub tries again
    callback.next(500)
    news.post(1)
    console.press("Escape")
    console.value("document.activeElement.blur(); 1")
    console.wait("text('.card .badge').startsWith('fails') && text('.card').includes('Next try')")
    console.expect("text('.card').includes('Last error')", True)
    console.shoot("callback")
    console.focus("button", "End")
    console.press("Enter")
    console.wait("document.querySelector('dialog[open]')")
    console.press("Tab", "Enter")
    console.wait("text('.view').includes('No callback subscribes')")
    assert broker.get(f"{news.path}/subscriptions").json()["subscriptions"] == []


# What the callback answered, row by row; a test, and one delivery again.
@pytest.mark.parametrize("look", LOOKS, ids="{0.width}-{0.scheme}".format)
def test_attempts_are_shown_and_made(start_broker, callbacks, open_console, look):
    broker = start_broker("--hub-retry-first", "3600")
    news = broker.set("news").create()
    callback = callbacks.join(news)
    callback.wait_last(news.post(3).last)
    hub.wait_head(news, callback)
    callback.next(answer(503, body=f"<h1>Down</h1> {MARKUP}"))
    news.post(2)
    hub.wait(news, callback, "failing", lambda s: s["failures"] == 1)
    console = open_console(broker, look)
    console.go("#/sets/news/readers")
    console.wait("texts('.card').length == 1")
    console.focus("summary", "Last attempts")
    console.press("Enter")
    outcomes = "texts('.attempts .badge').join()"
    console.wait(f"{outcomes} == 'failed: 503,delivered: 200'")
    console.expect(f"texts('.answer')[0].includes('{MARKUP}')", True)
    console.expect("text('.attempts p').startsWith('None is missing since 20')", True)
    console.check_width()
    console.shoot("attempts")
    console.focus("button", "Send a test")
    console.press("Enter")
    console.wait("text('#announcement').startsWith('The callback answered 200 in ')")
    console.wait(f"{outcomes} == 'delivered: 200,failed: 503,delivered: 200'")
    callback.next(500)
    console.focus("button", "Send again")
    console.press("Enter")
    console.wait("text('#announcement').startsWith('The callback answered 500 in ')")
    assert [d.last for d in callback.deliveries] == [3, 5, 3, 5]
    console.wait(f"{outcomes}.startsWith('failed: 500,delivered: 200,failed')")
    # They stay open when the page draws itself anew.
    console.value("document.activeElement.blur(); 1")
    console.wait("document.querySelector('.attempts').open && text('.card').includes('Next try')")
    console.check_width()


# what a harvester reports, and what is wrong with it, in the list and on the
# page of the set.
@pytest.mark.parametrize("look", LOOKS[::3], ids="{0.width}-{0.scheme}".format)
def test_a_harvest_shows_whether_it_is_complete(start_broker, open_console, look):
    broker = start_broker()
    now = datetime.datetime.now(datetime.UTC)
    here = {"last_look": now.isoformat(), "complete_as_of": now.isoformat()}
    good = broker.set("museum").create(title="Records of the museum")
    good.put_harvest(**here, added=3, changed=1, every_s=3600)
    lame = broker.set("archive").create()
    lame.put_harvest(
        **here,
        kind="rss",
        not_complete="page 2 answered 500",
        held_back=1200,
        left_out=2,
        left_out_example="line 7: no host: http:///x",
    )
    broker.set("press").create().put_harvest(every_s=60)
    broker.set("plain").create()

    console = open_console(broker, look)
    console.wait("texts('.set .name').length == 4")
    troubles = "texts('.set').find(t => t.startsWith('%s'))"
    console.expect(troubles % "museum" + ".includes('sitemap, complete as of')", True)
    for name, words in (
        ("archive", ("not complete", "1,200 held back", "2 left out")),
        ("press", ("not complete", "silent")),
    ):
        for word in words:
            console.expect(troubles % name + f".includes('{word}')", True)
    console.expect("document.querySelectorAll('.set .badge').length", 5)
    console.check_width()
    console.shoot("harvests")
    console.go("#/sets/archive")
    console.wait("texts('h2').includes('Harvest')")
    console.expect("texts('.harvest .badge').join()", "not complete,1,200 held back,2 left out")
    text = "text('main')"
    for part in ("page 2 answered 500", "2 rows, such as line 7: no host", "rss"):
        console.expect(f"{text}.includes('{part}')", True)
    console.check_width()
    console.shoot("harvest")
    good.put_harvest(**here, every_s=3600)
    console.go("#/sets/museum")
    console.wait("texts('.harvest .badge').join() == 'complete'")
    console.expect(f"{text}.includes('Looks every\\n1 h')", True)
    console.go("#/sets/plain")
    console.wait("text('h1') == 'plain'")
    console.expect("document.querySelector('.harvest')", None)


def test_the_broker_says_why_it_is_not_ready(start_broker, open_console, faults):
    broker = start_broker(env=faults.env)
    console = open_console(broker)
    console.go("#/broker")
    console.wait("text('.broker .badge') == 'ready' && text('.broker').includes('are free')")
    heads = "Health,Last hour,Disk of the data directory,Bridges,Relays"
    console.expect("texts('.broker h2').join()", heads)
    since = "none since the start of the broker at "
    console.expect(f"texts('.chart').every(one => one.includes('{since}'))", True)
    console.shoot("broker")
    faults.set_disk(1)
    wait_for("a full disk", lambda: broker.get("/readyz").status == 503)
    console.wait("text('.broker .badge') == 'not ready'")
    console.expect("texts('.broker li')[0]", "the disk is nearly full: posts are refused")


def test_bridges_and_relays_show_their_state(
    start_bridge, mosquitto, site, open_console
):
    broker = start_bridge(mosquitto, "out = news")
    assert broker.put("/relays/feed", {"topic": site.link("/feed")}).status == 201
    console = open_console(broker)
    console.go("#/broker")
    console.wait("text('[aria-label=Relays]').includes('/feed')")
    console.wait("text('[aria-label=Bridges] .badge') == 'connected'")
    cells = "texts('[aria-label=Bridges] td')"
    console.wait(f"{cells}[2] == 'a' && /^connected since (now|.* ago)$/.test({cells}[3])")
    broker.set("news").post(1)
    console.wait(f"{cells}[4] == '1' && {cells}[6] == '–'")
    mosquitto.stop()
    console.wait(f"/^waiting since (now|.* ago): ./.test({cells}[3])")


# Doc: cluster.md, "Watching".
def test_the_brokers_of_a_cluster_are_shown(start_cluster, open_console):
    cluster = start_cluster()
    member, _, third = cluster.members
    reader = cluster.add_reader("r")
    cluster.balancer.point(reader.port)
    console = open_console(reader)
    console.go("#/broker")
    console.wait("text('.broker').includes('This broker, r, is connected')")
    console.expect("text('.broker section:nth-of-type(6)').includes('--cluster-read-only')", True)
    cluster.balancer.point(member.port)
    cluster.balancer.end_all(RESET)
    console.wait("text('.broker').includes('This broker, a, is connected')")
    rows = "texts('[aria-label=Brokers] tbody tr').map(row => row.replace(/\\s+/g, ' '))"
    console.wait(f"{rows}.length == 4 && {rows}.every(row => row.includes('runs'))")
    console.expect(f"{rows}.map(row => row.includes('reads only')).join()", "false,false,false,true")
    last = cluster.query("SELECT max(n) FROM tidings_records")[0]
    console.wait(f"{rows}.every(row => row.includes('{last}') && / s$/.test(row))")
    third.kill()
    console.wait(f"{rows}[2].includes('away')")
    # Its last word has the reason, which is text whatever it says.
    cluster.query("UPDATE tidings_brokers SET state = 'no-room <i>5 bytes</i> are free' WHERE name = 'c' RETURNING name")
    console.wait(f"{rows}[2].includes('away: <i>5 bytes</i> are free')")
    member.cut_off()
    console.wait("text('.broker').includes('This broker, a, is cut off since')")
    console.expect(f"{rows}.map(row => /cut off|unknown/.exec(row)[0]).join()", "cut off,unknown,unknown,unknown")
    for console.look in (*LOOKS, Look(320, "dark")):
        console.emulate(console.look)
        console.check()
        console.shoot("cluster")


# The page says that it grows old, and goes on when the broker is back.
def test_a_page_survives_a_restart(start_broker, open_console):
    broker = start_broker()
    news = broker.set("news").create()
    news.post(1)
    console = open_console(broker)
    console.wait("texts('.set .last').join() == '1'")
    broker.stop()
    console.wait("text('#connection').includes('may be old')")
    broker.start()
    news.post(1)
    console.wait("texts('.set .last').join() == '2' && document.querySelector('#connection').hidden")


# Size

MANY = soak(1500, 10000)
CHANGES = soak(10000, 60000)
HEAP_MAX = 100 << 20
ROWS_MAX = 60


def test_many_sets_and_changes_stay_small(start_broker, open_console):
    broker = start_broker()
    for i in range(MANY):
        broker.put(f"/sets/s{i:05}", {})
    news = broker.set("news").create()
    console = open_console(broker)
    console.wait(f"text('h1').replace(',', '').includes('{MANY + 1}')")
    console.go("#/sets/news")
    console.wait("text('.states .badge') == 'live'")
    for i in range(CHANGES // 1000):
        news.post(1000)
        broker.post(f"/sets/s{i:05}/changes", '{"loc":"http://a.example/","change":"created"}', JSON)
    last = f"{CHANGES:,}"
    console.wait(f"texts('.tail .seq')[0] == '{last}'")
    assert console.value("document.querySelectorAll('.tail li').length") <= 200
    assert console.heap_bytes() < HEAP_MAX
    # All sets: only those in sight are elements, and the keyboard reaches the last.
    console.go("#/")
    console.wait(f"text('h1').replace(',', '').includes('{MANY + 1}')")
    assert console.value("document.querySelectorAll('.set').length") <= ROWS_MAX
    console.focus("a", "")
    console.value("document.querySelector('.set a').focus(); 1")
    first = console.value("focused()")
    console.press(*["PageDown"] * 12)
    assert console.value("focused()") != first
    assert console.value("document.querySelectorAll('.set').length") <= ROWS_MAX
    console.press("End")
    console.wait("focused().endsWith(texts('.set .name').at(-1))")
    assert console.value("document.querySelectorAll('.set').length") <= ROWS_MAX
    console.press("Home")
    console.wait("scrollY < 300")
    print(f"the scripts hold {console.heap_bytes() >> 10} KiB")
    assert console.heap_bytes() < HEAP_MAX


# Managing sets

# The help beside a field is that of the option, and the other options are known to have none.
@pytest.mark.parametrize(
    "page, command, own, others",
    [
        ("#/new", "tidings set create", "", "set-url"),
        ("#/tokens", "tidingsd token add", "name", "data json help"),
        ("#/sets/news/readers", "tidings subscriptions add", "callback secret", "secret-file json"),
        (
            "#/sets/news/harvest",
            "tidings harvest",
            "source-urls",
            "once accept-deletions accept-history dry-run state after min-free max-entries target-header json"
            " verbose key witness require-witnesses cosign",
        ),
    ],
    ids=["settings", "token", "subscription", "harvest"],
)
def test_each_field_has_the_help_of_its_option(guarded, open_console, run, page, command, own, others):
    console = open_console(guarded)
    console.sign_in(guarded.token)
    console.wait("text('.who') == 'root'")
    console.go(page)
    console.wait("texts('.fields .help').length")
    helps = console.value("[...document.querySelectorAll('.fields .help')].map(p => p.textContent)")
    labels = console.value("[...document.querySelectorAll('.fields label')].map(l => l.textContent)")
    labels = [re.split("[,:]", label)[0].lower().replace(" ", "-") for label in labels]
    known = run(*command.split(), "--help").output()
    said = " ".join(known.split())
    for option, text in zip(labels, helps, strict=True):
        text = re.sub(r" \((daily|all|one a line).*\)$", "", text)
        if option not in own.split():
            assert re.search(re.escape(f"--{option}") + r"( \S+)? " + re.escape(text), said), option
    options = set(re.findall(r"^  --([a-z-]+)", known.split("--config")[0], re.M))
    fields = set(labels) - set(own.split()) - {"token-file", "name"}
    assert fields == options - set(others.split())


@pytest.mark.parametrize("look", LOOKS, ids="{0.width}-{0.scheme}".format)
def test_a_set_is_made_changed_and_removed(broker, open_console, look):
    console = open_console(broker, look)
    console.click("New set")
    console.wait("text('h1') == 'A new set'")
    console.click("Settings")
    console.fill("Name", "harbour")
    console.fill("Title", "The harbour")
    console.fill("Rotate entries", "10")
    console.fill("Content", "fetch")
    lines = console.value("[...document.querySelectorAll('code')].map(c => c.textContent)")
    assert lines[0].startswith("curl -X PUT ")
    created = f"tidings set create {broker.url}/sets/harbour --title 'The harbour'"
    assert lines[1] == f"{created} --rotate-entries 10 --content fetch"
    console.check_width()
    console.check_axe()
    console.shoot("new-set")
    console.click("Make the set")
    console.wait("location.hash == '#/sets/harbour/settings' && text('h1') == 'harbour'")
    harbour = broker.set("harbour")
    state = harbour.state()
    settings = state["settings"]
    assert (state["title"], settings["rotateEntries"], settings["content"]) == ("The harbour", 10, "fetch")
    console.fill("Title", "")
    console.fill("Rotate entries", "20")
    console.fill("Hub", "http://127.0.0.1:9/a\nhttp://127.0.0.1:9/b")
    console.check_axe()
    console.shoot("settings-form")
    console.click("Change settings")
    console.wait("text('#announcement') == 'The settings are changed.'")
    settings = harbour.state()["settings"]
    assert "title" not in harbour.state() and settings["rotateEntries"] == 20
    assert settings["hubs"] == ["http://127.0.0.1:9/a", "http://127.0.0.1:9/b"]
    console.click("Change settings")
    console.wait("text('#announcement') == 'Nothing is different.'")
    console.fill("Rotate age", "soon")
    console.click("Change settings")
    console.wait("text('#announcement').includes('rotateAge')")
    harbour.post(3)
    console.go("#/")
    console.go("#/sets/harbour/settings")
    console.wait("document.body.innerText.includes('With it go 3 changes')")
    console.expect("[...document.querySelectorAll('button.danger')].at(-1).disabled", True)
    console.fill("Type harbour to agree", "harbour")
    console.click("Remove the set")
    console.wait("location.hash == '#/'")
    assert harbour.get("changelist.xml").status == 410


# What would be lost is shown, and asked for, first.
def test_a_setting_that_costs_bytes_asks(broker, open_console):
    news = broker.set("news").create(content="inline")
    news.receipt(news.send(*multipart(change("http://example.com/a"), [("http://example.com/a", None, b"a")])))
    wait_for("the bytes", lambda: news.state()["content"]["kept"] == 1)
    console = open_console(broker)
    console.go("#/sets/news/settings")
    console.fill("Content", "none")
    console.click("Change settings")
    console.wait("document.querySelector('dialog')")
    asked = console.value("document.querySelector('dialog p').innerText")
    assert asked == "this would delete 1 content file (1 bytes). Nobody can undo it."
    console.click("Cancel")
    console.wait("!document.querySelector('dialog')")
    assert news.state()["settings"]["content"] == "inline"
    console.click("Change settings")
    console.wait("document.querySelector('dialog')")
    console.click("Delete these bytes")
    console.wait("text('#announcement') == 'The settings are changed.'")
    assert news.state()["settings"].get("content", "none") == "none"


# Subscriptions

OUTCOME = "text('form [role=status]')"


# The hub asks the callback; the page follows what it answers.
@pytest.mark.parametrize("look", LOOKS[::3], ids="{0.width}-{0.scheme}".format)
def test_a_callback_is_subscribed(broker, callbacks, open_console, look):
    news = broker.set("news").create()
    good, bad = callbacks.add(), callbacks.add()
    bad.next(404, of="verification")
    console = open_console(broker, look)
    console.go("#/sets/news/readers")
    console.focus("input", "Callback")
    console.type(bad.url)
    console.press("Enter")
    console.wait(f"{OUTCOME}.includes('The callback has not confirmed, so the hub has dropped the request')")
    console.wait("text('.view').includes('No callback subscribes')")
    console.fill("Callback", good.url)
    console.focus("button", "Make a secret")
    console.press("Enter")
    secret = console.value("document.activeElement.value")
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{32}", secret)
    console.fill("Lease", "3600")
    console.fill("Form", "json")
    console.fill("Change", "updated\ndeleted\n")
    console.fill("Prefix", "http://example.com/a&b")
    console.fill("Interval", "0.5")
    command, request = console.value("[...document.querySelectorAll('form code')].map(c => c.textContent)")
    assert command == (
        f"tidings subscriptions add {news.url} {good.url} --secret-file FILE --lease 3600 --interval 0.5"
        " --form json --change updated --change deleted --prefix 'http://example.com/a&b'"
    )
    assert request.startswith("tr -d '\\n' <FILE | curl -d 'hub.mode=subscribe&hub.topic=http")
    assert request.endswith(f"{broker.url}/hub --data-urlencode hub.secret@-")
    console.expect(f"document.body.innerText.includes({json.dumps(secret)})", False)
    console.check_axe()
    good.hold()
    console.click("Subscribe")
    console.wait(f"text('.card .badge') == 'pending' && {OUTCOME}.includes('asks the callback')")
    console.expect("document.querySelectorAll('.card button, .card details').length", 0)
    console.check_width()
    console.check_axe()
    console.shoot("pending")
    good.release()
    console.wait(f"{OUTCOME}.startsWith('The callback has confirmed: subscription ')")
    console.wait("text('.card .badge') == 'active'")
    console.check_width()
    console.shoot("subscribed")
    one = hub.find(news, good)
    wanted = {"form": "json", "interval": 0.5, "hasSecret": True}
    assert {name: one[name] for name in wanted} == wanted
    news.post_change("http://example.com/a&b", "created")
    news.post_change("http://example.com/a&b", "updated")
    delivery = good.deliveries.wait(1)
    signed = hmac.new(secret.encode(), delivery.body, "sha256").hexdigest()
    assert delivery["X-Hub-Signature"] == f"sha256={signed}" and b'"created"' not in delivery.body
    lines = console.value("[...document.querySelectorAll('.card code')].map(c => c.textContent)")
    verbs = [line.split()[2] for line in lines if line.startswith("tidings subscriptions ")]
    assert verbs == ["attempts", "test", "redeliver", "redeliver", "end"]
    # A renewal, which the callback refuses; the subscription stays.
    good.next(404, of="verification")
    console.click("Subscribe")
    console.wait(f"{OUTCOME}.includes('has not confirmed')")
    console.expect("text('.card .badge')", "active")
    # The hub refuses at once.
    console.fill("Form", "")
    console.fill("Change", "moved")
    console.click("Subscribe")
    console.wait(f"{OUTCOME}.includes('change')")
    console.expect("document.querySelector('form [role=status]').className", "problem")


# A token that may not list subscriptions does not see how it ends.
def test_a_reader_subscribes_a_callback(start_broker, callbacks, open_console):
    broker = start_broker(*hub.LOOPBACK)
    broker.add_token("root", admin=True)
    reader = broker.add_token("reader", subscribe=["news"])
    news = broker.set("news").create()
    console = open_console(broker)
    console.sign_in(reader)
    console.wait("text('.who') == 'reader'")
    console.go("#/sets/news/readers")
    callback = callbacks.add()
    console.fill("Callback", callback.url)
    console.click("Subscribe")
    console.wait(f"{OUTCOME}.includes('right to manage or observe')")
    assert hub.wait_active(news, callback)["owner"] == "reader"


# Harvests


def lines_of(console, head):
    """The lines to copy of the section with that head."""
    section = "[...document.querySelectorAll('section')].find(s => s.querySelector('h2').innerText == %s)"
    return console.value(f"[...{section % json.dumps(head)}.querySelectorAll('code')].map(c => c.textContent)")


@pytest.mark.parametrize("look", LOOKS[::3], ids="{0.width}-{0.scheme}".format)
def test_a_form_writes_the_lines_of_a_harvest(broker, open_console, look):
    news = broker.set("news").create()
    console = open_console(broker, look)
    console.go("#/sets/news/harvest")
    console.expect("text('.view').startsWith('No harvester has reported on this set.')", True)
    console.expect("text('.view').includes('the broker does not run it')", True)
    console.focus("textarea", "Source URLs")
    console.type("https://example.org/a.xml https://example.org/b?x=1&y=it's")
    console.focus("input", "Every")
    console.type("1h")
    console.press("Enter")
    console.expect("location.hash", "#/sets/news/harvest")
    console.fill("Filter", "tag=a b")
    console.fill("Republish", "true")
    command, path, unit, start = lines_of(console, "Start a harvest")
    options = "--every 1h --filter 'tag=a b' --republish"
    sources = "https://example.org/a.xml 'https://example.org/b?x=1&y=it'\\''s'"
    assert command == f"tidings harvest {sources} {news.url} {options}"
    assert path == "/etc/tidings/harvest/news.conf"
    # systemd takes the backslashes away, in two steps.
    assert unit.splitlines() == [
        r"SOURCES=https://example.org/a.xml https://example.org/b?x=1&y=it\\'s",
        f"SET={news.url}",
        r"OPTIONS=--every 1h --filter tag=a\\ b --republish",
    ]
    assert start == "systemctl enable --now tidings-harvest@news"
    console.check_width()
    console.check_axe()
    console.shoot("harvest-form")
    console.focus("button", "Copy SOURCES line")


# What a report holds back is consented to by its number.
def test_held_back_deletions_show_their_consent(broker, open_console):
    news = broker.set("news").create()
    news.put_harvest(held_back=1200)
    console = open_console(broker)
    console.go("#/sets/news/harvest")
    console.wait("text('.view .problem').startsWith('1,200 deletions wait for consent')")
    once = f"http://example.com/sitemap.xml {news.url} "
    end = "--once --accept-deletions 1200"
    assert lines_of(console, "Consent to deletions") == [
        f"curl -X POST '{news.url}/harvest?accept-deletions=1200'",
        f"tidings harvest {once}{end}",
    ]
    # The next look has none; what somebody has typed stays.
    console.fill("Every", "2h")
    console.click("Consent to 1,200 deletions")
    console.wait("document.querySelector('dialog')")
    console.click("Consent")
    console.wait("text('.view').includes('Somebody has consented to 1,200 deletions')")
    assert news.get("harvest").json()["accept_deletions"] == 1200
    news.put_harvest(held_back=0)
    console.wait("!text('.view').includes('wait for consent')")
    assert lines_of(console, "Start a harvest")[0].endswith("--every 2h")
    assert lines_of(console, "Report") == [
        f"curl {news.url}/harvest",
        f"curl -X DELETE {news.url}/harvest",
    ]
    console.focus("button", "Forget the report")
    console.press("Enter")
    console.wait("text('#announcement') == 'The report is forgotten.'")
    console.wait("text('.view').startsWith('No harvester has reported') && !document.querySelector('.harvest')")
    assert news.get("harvest").status == 404
