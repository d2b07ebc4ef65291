"""A change with a title and data as somebody receives it who has only read a page: in a web page,
in Node with a library of webhooks, and by curl behind an nginx that was not set up for it. (In Python
from MQTT: the commands of doc/bridging.md.)"""

import pytest

from tidings_test import hub, npm
from tidings_test.broker import ROOT
from tidings_test.browser import Page as WebPage
from tidings_test.documentation import Page
from tidings_test.frontends import Nginx, page_lines
from tidings_test.http import check_refused, keep_port
from tidings_test.sets import change

HAT = change("http://example.com/hat", "updated", title="Hats are cheaper", data={"price": 3.5})
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def bare_nginx(start_broker, tmp_path):
    """An nginx with proxy_pass and nothing else."""
    broker = start_broker("--insecure-open", "--trusted-proxies", "127.0.0.1")
    lines = (
        f"location /page.html {{ root {tmp_path}; }}",
        f"location / {{ proxy_pass http://127.0.0.1:{broker.port}; }}",
    )
    nginx = Nginx(tmp_path / "nginx", broker, lines)
    broker.stop()
    broker.options += ["--public-url", nginx.url]
    broker.restart()
    yield nginx
    nginx.end()


def block(page, part):
    """The block of that page which has the part."""
    blocks = ["\n".join(one.lines) for one in Page(ROOT / f"doc/{page}.md").blocks]
    (found,) = (text for text in blocks if part in text)
    return found


def test_in_a_page(bare_nginx, browser, tmp_path):
    text = block("browser", "<!DOCTYPE html>")
    assert "token, onState" in text
    text = text.replace("token, onState", "onState").replace("['library',", "['shop', 'library',")
    (tmp_path / "page.html").write_text(text)
    broker = bare_nginx.broker
    for name in ("library", "maps", "music", "papers", "press"):
        broker.set(name).create()
    assert broker.set("shop").send([HAT]).status == 200
    page = WebPage(browser, bare_nginx)
    page.open("/page.html")
    shown = "[...document.querySelectorAll('li')].map(item => item.textContent).join()"
    wanted = "shop: updated Hats are cheaper"
    look = f"setInterval(() => {shown} === '{wanted}' && done(true), 1)"
    page.expect(f"new Promise(done => {look})", True)
    page.close()


@pytest.mark.broker("--insecure-open", *hub.LOOPBACK)
def test_in_node_with_a_library_of_webhooks(news, start, tmp_path):
    port, keeper = keep_port()
    npm.install(tmp_path)
    (tmp_path / "receive.mjs").write_text(Page(ROOT / "doc/receiving.md").file("receive.mjs"))
    env = {"TOPIC": news.topic, "SECRET": SECRET, "PORT": str(port)}
    node = start(npm.node(), "receive.mjs", cwd=tmp_path, env=env)
    assert node.out.wait(1) == "listening"
    hub.join(news, f"http://127.0.0.1:{port}/", secret=SECRET, form="json")
    assert news.send([HAT]).status == 200
    assert node.out.wait(2) == "updated Hats are cheaper { price: 3.5 }"
    keeper.close()


# Nobody asks for a type, a version or an upgrade.
def test_by_curl_behind_a_bare_nginx(bare_nginx, start):
    shop = bare_nginx.broker.set("shop").create()
    url = f"{bare_nginx.url}{shop.path}"
    line = next(line for line in block("following", "curl -sSN SET-URL").split("\n") if "SET-URL" in line)
    curl = start("/usr/bin/env", *line.replace("SET-URL", url).split())
    curl.out.find(lambda line: line == "event: heartbeat")
    assert shop.send([HAT]).status == 200
    found = curl.out.find(lambda line: '"changes":[{' in line)
    assert '"title":"Hats are cheaper","data":{"price":3.5}' in found


# The names of an upstream of nginx, and what its 403 says.
def test_a_bare_nginx_has_to_pass_on_the_host(bare_nginx):
    answer = bare_nginx.broker.get("/sets", host="upstream")
    check_refused(answer, 403, "proxy_set_header Host $host")
    assert "proxy_set_header Host $host" in "\n".join(page_lines("nginx"))
