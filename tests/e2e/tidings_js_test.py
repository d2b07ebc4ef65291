"""Pages of a real browser follow sets by tidings.js, behind a real nginx: each change once,
in order, whatever happens to the broker, the token or the page."""

import json
import re
import shutil

import pytest

from tidings_test import npm
from tidings_test.browser import Page
from tidings_test.broker import ROOT
from tidings_test.frontends import Nginx, page_lines
from tidings_test.http import XML
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

# `seqs` are all that came, in order; `statuses` those of all answers. `until` waits.
HELPERS = """
var seqs = [], statuses = [], states = [], waiting = [], ended;
var real = fetch;
fetch = async (...request) => {
    const answer = await real(...request);
    statuses.push(answer.status);
    look();
    return answer;
};
function look() { waiting = waiting.filter(isOver => !isOver()); }
function until(test) {
    return new Promise(done => {
        const isOver = () => test() && (done(true), true);
        if (!isOver()) waiting.push(isOver);
    });
}
async function start(source, options) {
    const onState = state => { states.push(state.state); look(); };
    try {
        const { follow } = await import('/tidings.js');
        for await (const change of follow(source, { onState, ...options })) {
            seqs.push(change.seq);
            look();
        }
    } catch (error) {
        ended = error;
        look();
    }
}
function areAll(first, last) {
    return seqs.length == last - first + 1 && seqs.every((seq, i) => seq == first + i);
}
1
"""


@pytest.fixture
def start_behind(start_broker, tmp_path):
    """start_behind("--rotate-entries", "10"): a broker and the nginx before it, as
    doc/proxies.md has both; `lets_post`: nginx lets a page post; `before`: its first lines."""
    started = []

    def start(*options, lets_post=False, before=()):
        broker = start_broker("--insecure-open", "--heartbeat", "0.5", *options)
        directory = tmp_path / f"nginx{len(started)}"
        lines = page_lines("nginx")
        if lets_post:
            lines = [line for line in lines if "limit_except" not in line]
        proxy = Nginx(directory, broker, [*before, *lines])
        started.append(proxy)
        broker.stop()
        broker.options += ["--public-url", proxy.url]
        broker.restart()
        return broker, proxy

    yield start
    for proxy in started:
        proxy.end()


@pytest.fixture
def open_page(browser):
    """open_page(proxy): a page of it that can follow."""
    opened = []

    def make(proxy):
        opened.append(Page(browser, proxy))
        opened[-1].expect(HELPERS, 1)
        return opened[-1]

    yield make
    for page in opened:
        page.close()


def follow(page, source, **options):
    page.expect(f"void start({json.dumps(source)}, {json.dumps(options)})", None)


def expect_all(page, first, last):
    """All changes from the first to the last came, once and in order."""
    page.expect(f"until(() => seqs.at(-1) >= {last})", True)
    page.expect(f"areAll({first}, {last}) || seqs.join(' ')", True)


EVENT_SOURCE = """
    var es = new EventSource('%s?after=0'), esSeqs = [];
    es.addEventListener('changes', e => {
        for (const change of JSON.parse(e.data).changes) esSeqs.push(change.seq);
        look();
    });
    es.onerror = look;
    until(() => esSeqs.length == 3)
"""


# An EventSource never connects again after the first 502; tidings.js does, and misses
# nothing. The long form has the broker away for more than 30 seconds.
def test_a_page_survives_the_absence_of_the_broker(start_behind, open_page):
    broker, proxy = start_behind()
    news = broker.set("news")
    news.post(3)
    page = open_page(proxy)
    page.expect(EVENT_SOURCE % news.stream, True)
    follow(page, news.path, position="0")
    expect_all(page, 1, 3)
    page.expect("until(() => states.at(-1) == 'live')", True)
    broker.kill()
    page.expect(f"until(() => statuses.filter(s => s == 502).length >= {soak(2, 6)})", True)
    page.expect("until(() => es.readyState == EventSource.CLOSED)", True)
    page.expect("states.at(-1)", "stale")
    broker.restart()
    news.post(2)
    expect_all(page, 1, 5)
    page.expect("until(() => states.at(-1) == 'live')", True)
    page.expect("[es.readyState, esSeqs.join(' ')].join()", "2,1 2 3")


POST = """
import('/tidings.js').then(async ({ publish }) => {
    const one = { loc: 'http://example.com/%s', change: 'created' };
    const receipt = await publish('%s', one, { onTrouble: look });
    return `${receipt.first} ${receipt.last} ${receipt.position}`;
})
"""


# Its answer is lost by nginx: the broker is away, and comes back.
def test_a_page_posts_each_change_once(start_behind, open_page):
    broker, proxy = start_behind(lets_post=True)
    news = broker.set("news").create()
    page = open_page(proxy)
    page.expect(POST % ("a", news.path), f"1 1 {news.state()['epoch']}-1")
    broker.kill()
    page.expect(f"var posting = {POST % ('b', news.path)}; 1", 1)
    page.expect("until(() => statuses.includes(502))", True)
    broker.restart()
    page.expect("posting", f"2 2 {news.state()['epoch']}-2")
    assert news.last() == 2


# The lines of doc/following.md for an EventSource by hand survive a 502.
def test_an_eventsource_by_hand_survives_the_absence_of_the_broker(start_behind, open_page):
    text = (ROOT / "doc/following.md").read_text()
    (lines,) = re.findall(r"    function listen\(after\) \{\n(?:    .*\n)+", text)
    broker, proxy = start_behind()
    news = broker.set("news")
    news.post(3)
    page = open_page(proxy)
    page.expect("var show = change => { seqs.push(change.seq); look(); }, anew = 0; 1", 1)
    page.expect(f"{lines.replace('listen, 2000', 'again, 20')}; 1", 1)
    page.expect("var again = after => { anew++; listen(after); look(); }; 1", 1)
    expect_all(page, 1, 3)
    broker.kill()
    page.expect("until(() => anew > 0)", True)
    broker.restart()
    news.post(2)
    expect_all(page, 1, 5)


# Lists are closed and dropped behind its back.
def test_a_page_catches_up_with_many_changes(start_behind, open_page):
    broker, proxy = start_behind("--rotate-entries", "1000")
    news = broker.set("news")
    news.post(10)
    page = open_page(proxy)
    follow(page, news.path, position="0")
    expect_all(page, 1, 10)
    broker.stop()
    page.expect("until(() => statuses.includes(502))", True)
    broker.restart()
    for _ in range(10):
        news.post(999)
    expect_all(page, 1, 10_000)


def test_a_page_hears_that_its_position_is_gone(start_behind, open_page):
    broker, proxy = start_behind("--rotate-entries", "10", "--retain-lists", "1")
    news = broker.set("news")
    news.post(35)
    earliest = f"{news.state()['epoch']}-20"
    wait_for("lists to be dropped", lambda: news.state()["earliest"] == earliest)
    page = open_page(proxy)
    follow(page, news.path, position=f"{news.state()['epoch']}-3")
    page.expect("until(() => ended).then(() => ended.code)", "gone")
    page.expect("ended.earliest", earliest)
    follow(page, news.path, position=earliest)
    expect_all(page, 21, 35)


# Stream and change memory do not have the position any more; files of lists do, as where
# a web server keeps them.
NO_MEMORY = """
    var asked = fetch;
    fetch = async (url, init) => /(stream|changes)$/.test(new URL(url).pathname)
        ? new Response('{"detail": "x", "earliest": "%s"}', { status: 410 }) : asked(url, init);
    1
"""


# With a key it hashes their lines: from the beginning, where the digest is known. R-450
@pytest.mark.parametrize("after", [3, 0])
def test_a_page_reads_change_lists_behind_the_memory(start_behind, open_page, run, after):
    broker, proxy = start_behind("--rotate-entries", "10")
    news = broker.set("news")
    news.post(35)
    epoch = news.state()["epoch"]
    page = open_page(proxy)
    page.expect(NO_MEMORY % f"{epoch}-25", 1)
    options = {"position": f"{epoch}-{after}"}
    if after == 0:
        options["verifierKey"] = run("tidingsd", "key", "show", news.name, "--data", broker.data).out[0]
    follow(page, news.path, **options)
    page.expect("until(() => ended).then(() => ended.code)", "gone")
    page.expect(f"areAll({after + 1}, 30)", True)


TOKENS = """
    var names = %s;
    void start('%s', {position: '0', token: () => names.shift()})
"""


def test_a_page_asks_for_another_token(start_behind, open_page):
    broker, proxy = start_behind()
    broker.add_token("root", admin=True)
    tokens = [broker.add_token(name, subscribe=["*"]) for name in ("one", "two")]
    news = broker.set("news").create()
    news.post(3)
    page = open_page(proxy)
    page.expect(TOKENS % (json.dumps(["wrong", *tokens]), news.path), None)
    expect_all(page, 1, 3)
    assert broker.delete("/tokens/one").status == 204
    page.expect("until(() => names.length == 0)", True)
    news.post(2)
    expect_all(page, 1, 5)
    assert broker.delete("/tokens/two").status == 204
    page.expect("until(() => ended).then(() => ended.code)", "denied")


STORED = """
(async () => {
    const { indexedDBStore } = await import('/tidings.js');
    var kept = %s, key = 'tidings:' + location.origin + '%s';
    void start('%s', {store: kept, position: '0'});
    const stored = () => kept.get ? kept.get(key) : kept.getItem(key);
    await until(() => seqs.at(-1) == %d);
    while (!(await stored())?.endsWith('-%d'))
        await new Promise(done => setTimeout(done, 10));
    return seqs.join(' ');
})()
"""


# Two tabs, one with positions of its own; both are loaded again.
@pytest.mark.parametrize("store", ["localStorage", "sessionStorage", "indexedDBStore()"])
def test_a_page_goes_on_where_it_was(start_behind, open_page, store):
    broker, proxy = start_behind()
    news = broker.set("news")
    news.post(3)
    tabs = [open_page(proxy) for _ in range(2 if store == "sessionStorage" else 1)]
    for page in tabs:
        page.expect(STORED % (store, news.path, news.path, 3, 3), "1 2 3")
        page.open()
    news.post(2)
    for page in tabs:
        page.expect(HELPERS, 1)
        page.expect(STORED % (store, news.path, news.path, 5, 5), "4 5")


# Four sets, and the page has connections left to ask with.
def test_a_page_follows_several_sets(start_behind, open_page):
    broker, proxy = start_behind()
    sets = [broker.set() for _ in range(4)]
    for one in sets:
        one.post(2)
    page = open_page(proxy)
    names = [one.name for one in sets]
    follow(page, "/", sets=names, position=dict.fromkeys(names, "0"))
    page.expect("until(() => seqs.length == 8).then(() => seqs.sort().join(''))", "11112222")
    for one in sets:
        one.post(1)
    page.expect("until(() => seqs.length == 12).then(() => seqs.slice(8).join(''))", "3333")


# More sets than a URL holds, on one connection.
def test_a_page_follows_very_many_sets(start_behind, open_page):
    n = soak(250, 1000)
    broker, proxy = start_behind(lets_post=True)
    sets = [broker.set(f"set-with-a-long-name-{i}") for i in range(n)]
    names = [one.create().name for one in sets]
    page = open_page(proxy)

    def post(seq):
        for one in sets:
            one.post(1)
        page.expect(f"until(() => seqs.length == {seq * n})", True)
        page.expect(f"seqs.filter(seq => seq == {seq}).length", n)

    follow(page, "/", sets=names, position=dict.fromkeys(names, "0"))
    post(1)
    broker.kill()
    page.expect("until(() => statuses.includes(502))", True)
    broker.restart()
    post(2)


# Every member that an entry may have.
WILD = """<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
    xmlns:rs="http://www.openarchives.org/rs/terms/" xmlns:td="urn:tidings:1">
<rs:md capability="changelist"/>
<url><loc>http://example.com/a?b=1&amp;c='%22é</loc><lastmod>2026-01-02</lastmod>
<changefreq>daily</changefreq><priority>0.5</priority>
<rs:md change="updated" datetime="2026-01-01T00:00:00.5Z" length="12" type="text/plain; charset=x"
    hash="md5:d41d8cd98f00b204e9800998ecf8427e sha-1:da39a3ee5e6b4b0d3255bfef95601890afd80709"
    encoding="gzip" td:tags="a b&amp;c" td:traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    xml:lang="en" xmlns:x="urn:x" x:y="&lt;&quot;&gt;'"/>
<rs:ln rel="describedby" href="http://example.com/d" modified="2026-01-01T00:00:00Z" pri="3" length="0"
    hash="md5:d41d8cd98f00b204e9800998ecf8427e" type="text/html" xmlns:q="urn:q" q:r="&#233;"/>
<rs:ln rel="via" href="http://example.com/via"/>
<td:title>a &amp; "b"</td:title><td:summary>1&#10;2&#9;3</td:summary><td:author>é</td:author>
<td:data>{"a":[1,"&lt;\\n&gt;",null,1.5e3]}</td:data></url>
<url><loc>http://example.com/plain</loc><rs:md change="deleted"/></url>
</urlset>"""

# Lists and, with a key, messages are read as lines of XML.
COMPARE = """
(async () => {
    const { entryOf, follow } = await import('/tidings.js');
    const taken = async (path, verifierKey) => {
        for await (const { changes } of follow.messages(path, { position: '0', verifierKey }))
            return changes;
    };
    const text = async path => (await fetch('%s' + path)).text();
    const page = JSON.parse(await text('/changes?after=0'));
    const ordered = object => JSON.stringify(object, (_, value) =>
        value && typeof value == 'object' && !Array.isArray(value)
            ? Object.fromEntries(Object.entries(value).sort()) : value);
    const list = await text('/changes/latest.xml');
    const lines = list.split('\\n').filter(line => line.startsWith('<url>')).map(entryOf);
    for (const entries of [lines, await taken('%s', '%s')])
        if (ordered(entries) != ordered(page.changes))
            return ordered(entries) + ordered(page.changes);
    return page.changes.length;
})()
"""


def test_entries_of_lists_are_those_of_messages(start_behind, open_page, run):
    broker, proxy = start_behind()
    news = broker.set("news")
    assert news.send(WILD.encode(), XML).status == 200
    page = open_page(proxy)
    (key,) = run("tidingsd", "key", "show", news.name, "--data", broker.data).out
    page.expect(COMPARE % (news.path, news.path, key), 2)


# doc/browser.md


PAGE_BLOCKS = [
    [line[4:] for line in block.split("\n")]
    for block in re.findall(
        r"\n\n((?:    .*\n|\n(?=    ))+)", (ROOT / "doc/browser.md").read_text()
    )
]
SHOWN = """
new Promise(done => {
    const shown = () => {
        const items = [...document.querySelectorAll('li')].map(item => item.textContent);
        const is = document.getElementById('state').textContent;
        if (is.startsWith('%s') && items.length >= %d) done(items.sort().join('\\n'));
        else setTimeout(shown, 20);
    };
    shown();
})
"""


# The page as a user copies it, behind the nginx that it names. The broker goes away and
# comes back, and the token ends.
def test_the_page_of_the_documentation_misses_nothing(start_broker, browser, tmp_path):
    html, nginx = PAGE_BLOCKS[:2]
    (tmp_path / "news.html").write_text("\n".join(html))
    broker = start_broker("--insecure-open", "--heartbeat", "0.5")
    lines = [line.replace("/var/www/news", str(tmp_path)) for line in nginx]
    proxy = Nginx(tmp_path / "nginx", broker, lines)
    broker.stop()
    broker.options += ["--public-url", proxy.url]
    broker.restart()
    broker.add_token("root", admin=True)
    tokens = [broker.add_token(name, subscribe=["*"]) for name in ("one", "two")]
    (tmp_path / "token.txt").write_text(tokens[0])
    names = re.search(r"sets = \[(.*)\]", "".join(html))[1].replace("'", "").split(", ")
    sets = [broker.set(name) for name in names]
    locs = []

    def post():
        for one in sets:
            locs.append(f"{one.name}: created http://example.com/{one.name}/{len(locs)}")
            one.post_change(locs[-1].split(" ")[-1])

    post()
    page = Page(browser, proxy)
    page.open("/news.html")
    page.expect(SHOWN % ("live", len(locs)), "\n".join(sorted(locs)))
    broker.kill()
    page.value(SHOWN % ("stale", len(locs)))
    broker.restart()
    post()
    page.expect(SHOWN % ("live", len(locs)), "\n".join(sorted(locs)))
    (tmp_path / "token.txt").write_text(tokens[1])
    assert broker.delete("/tokens/one").status == 204
    page.value(SHOWN % ("stale", len(locs)))
    post()
    page.expect(SHOWN % ("live", len(locs)), "\n".join(sorted(locs)))
    page.close()
    proxy.end()


# The package of npm


NODE, NPM = shutil.which("node"), shutil.which("npm")


@pytest.fixture
def package(run, tmp_path):
    """The folder node_modules, into which npm has installed the package and nothing else."""
    folder = tmp_path / "installed"
    folder.mkdir()
    modules = folder / "node_modules"
    if NPM:
        options = ("--silent", "--offline", "--no-update-notifier", "--cache", tmp_path / "cache")
        packed = run(NPM, "pack", ROOT / "web", *options, cwd=folder).out[-1]
        run(NPM, "install", *options, packed, cwd=folder)
        assert [path.name for path in modules.glob("[!.]*")] == ["tidings"]
    else:
        shutil.copytree(ROOT / "web", modules / "tidings")
    return modules


@pytest.fixture
def node_example(package):
    """node_example(block, url): the file with that block of the page, beside the package, for
    the set at `url`."""

    def write(block, url):
        script = "\n".join(PAGE_BLOCKS[block])
        assert "http://127.0.0.1:8787/sets/library" in script
        script = script.replace("http://127.0.0.1:8787/sets/library", url)
        program = package.parent / f"example{block}.mjs"
        program.write_text(script)
        return program

    return write


@pytest.mark.skipif(not NODE, reason="there is no Node")
def test_the_package_posts_and_follows_in_node(news, run, start, node_example):
    posted = run(NODE, node_example(3, news.url))
    assert posted.output() == f"1 2 {news.state()['epoch']}-2"
    node = start(NODE, node_example(4, news.url))
    node.out.wait(2)
    news.post(1)
    assert [line.split(" ")[:2] for line in (node.out.wait(n) for n in (1, 2, 3))] == [
        [str(n), "created"] for n in (1, 2, 3)
    ]


# The verifier key of the page stands for that of the set.
@pytest.mark.skipif(not NODE, reason="there is no Node")
def test_the_package_checks_checkpoints_in_node(news, run, start, node_example):
    news.post(2)
    program = node_example(2, news.url)
    (key,) = run("tidingsd", "key", "show", news.name, "--data", news.broker.data).out
    text, n = re.subn(r"'127\.0\.0\.1:8787/sets/library/\S+'", f"'{key}'", program.read_text())
    assert n == 1
    program.write_text(text)
    node = start(NODE, program)
    lines = [node.out.wait(n) for n in (1, 2, 3)]
    assert "2 true" in lines and lines[-1].split(" ")[1] in ("true", "created"), lines


# Also where TypeScript knows no browser. tsc looks at all types: --skipLibCheck is missing.
def test_programs_with_the_package_have_types(run, node_example):
    programs = [node_example(block, "http://a/sets/b") for block in (2, 3, 4)]
    typed = [program.rename(program.with_suffix(".mts")) for program in programs]
    wrong = "\n    // @ts-expect-error: there is no such member\n    console.log(change.lock);"
    typed[2].write_text(typed[2].read_text().replace("'0' }))", "'0' })) {" + wrong) + "}")
    options = ("--strict", "--noEmit", "--target", "es2022", "--module", "nodenext")
    options += ("--types", "node", "--typeRoots", npm.modules() / "@types", "--lib", "es2022")
    run(npm.command("tsc"), *options, *typed, cwd=typed[0].parent)


PACKED = """
import('/node_modules/tidings/tidings.js').then(async ({ follow, publish }) => {
    const receipt = await publish('%s', { loc: 'http://example.com/a', change: 'created' });
    for await (const change of follow('%s', { position: '0' }))
        return `${receipt.last} ${change.seq} ${change.loc}`;
})
"""


def test_a_page_posts_and_follows_by_the_module_of_the_package(package, start_behind, open_page):
    files = f"root {package.parent}; types {{ text/javascript js; }}"
    lines = [f"location /node_modules/ {{ {files} }}"]
    broker, proxy = start_behind(lets_post=True, before=lines)
    news = broker.set("news").create()
    page = open_page(proxy)
    page.expect(PACKED % (news.path, news.path), "1 1 http://example.com/a")


def test_the_package_has_the_version_of_the_broker(run):
    package = json.loads((ROOT / "web/package.json").read_text())
    assert package["version"] in run("tidingsd", "--version").output()
    for name in (package["main"], package["types"], *package["files"]):
        assert (ROOT / "web" / name).is_file()
