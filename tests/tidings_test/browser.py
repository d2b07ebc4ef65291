"""A real browser, and its pages. Debian's chromium-headless-shell speaks the DevTools
protocol on two pipes: JSON and a NUL byte each way. The whole Chromium has the same
engine, and took twice the CPU for the same pages (measured).

    def test_something(browser, broker):
        page = Page(browser, broker)              a document of that broker, or proxy
        page.expect("location.pathname", "/healthz")
        page.close()
"""

import json
import os
import pathlib

from tidings_test.broker import BIN
from tidings_test.process import Process

# Chromium's sandbox does not work for root, and root may run a test. Commands come on
# descriptor 3, answers go to 4.
CHROMIUM = """exec /usr/bin/chromium-headless-shell --headless --no-sandbox --disable-gpu \
--disable-dev-shm-usage --no-first-run --disable-background-networking \
--no-proxy-server --remote-debugging-pipe --user-data-dir="$0" about:blank \
3<&0 4>&1 </dev/null >/dev/null 2>/dev/null"""


class Browser:
    """A browser without a window, for pages of all tests."""

    def __init__(self, profile):
        self.calls = 0
        command = ("/bin/sh", "-c", CHROMIUM, profile)
        self.process = Process(*command, reads_output=False)

    def call(self, method, session=None, **parameters):
        """Call a method of the protocol; its result. Events are dropped."""
        self.calls += 1
        command = {"id": self.calls, "method": method, "params": parameters}
        if session:
            command["sessionId"] = session
        self.process.give(json.dumps(command) + "\0")
        while (answer := self._read()).get("id") != self.calls:
            pass
        assert "error" not in answer, (method, answer)
        return answer["result"]

    def _read(self):
        text = bytearray()
        while (byte := self.process.popen.stdout.read(1)) != b"\0":
            assert byte, f"the browser has ended: {bytes(text)}"
            text += byte
        return json.loads(text)

    def end(self):
        """Close it, and wait for all of its processes: the pipe ends with the last."""
        self.process.give('{"id": 0, "method": "Browser.close"}\0')
        self.process.popen.stdout.read()
        self.process.wait()


# The document is there.
LOADED = """
new Promise(done => {
    if (document.readyState == 'complete') done(location.href);
    addEventListener('load', () => done(location.href));
})
"""


# Of https://github.com/dequelabs/axe-core: npm install --prefix build/axe axe-core
AXE = pathlib.Path(
    os.environ.get("TIDINGS_AXE", BIN.parent.parent / "axe/node_modules/axe-core/axe.min.js")
)

# All rules of WCAG 2.2 A and AA, and best practices.
RUN_AXE = """
axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})
    .then(found => found.violations.map(v => v.id + ': ' + v.nodes[0].html.slice(0, 200)))
"""


class Page:
    """A page of a broker, or of a proxy before one: a document that has no script."""

    def __init__(self, browser, broker):
        self.browser = browser
        self.broker = broker
        self.target = browser.call("Target.createTarget", url="about:blank")
        attached = browser.call("Target.attachToTarget", flatten=True, **self.target)
        self.session = attached["sessionId"]
        self.open()

    def open(self, path="/healthz"):
        """Leave the document, and open this one; also the same again."""
        self.open_url(f"{self.broker.url}{path}")

    def open_url(self, url):
        """The same, of another server."""
        self.browser.call("Page.navigate", self.session, url=url)
        self.expect(LOADED, url)

    def value(self, expression):
        """The value of an expression; a promise is awaited."""
        call = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        result = self.browser.call("Runtime.evaluate", self.session, **call)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def expect(self, expression, value):
        """The expression has that value."""
        assert self.value(expression) == value

    def check_axe(self):
        """axe-core, where it is installed, finds nothing wrong."""
        if AXE.exists():
            self.value(AXE.read_text() + "; 1")
            assert self.value(RUN_AXE) == [], self.value("location.href")

    def close(self):
        self.browser.call("Target.closeTarget", **self.target)
