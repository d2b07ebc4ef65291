"""The console of a broker in a real browser, worked by keyboard.

    console = Console(browser, broker, Look(390, "dark"))
    console.go("#/sets/news")
    console.wait("text('h1') == 'news'")      a condition in JavaScript, with HELPERS
    console.press("Tab", "Enter"); console.type("words")
    console.focus("button", "Pause")          by Tab, as far as it takes
    console.close()                           also checks that the page broke no policy
"""

import base64
import collections
import json
import os

from tidings_test.broker import BIN
from tidings_test.browser import Page

Look = collections.namedtuple("Look", "width scheme")
LOOKS = [Look(width, scheme) for width in (1200, 390) for scheme in ("light", "dark")]

SCREENSHOTS = BIN.parent / "screenshots"

# Runs before the scripts of a document.
WATCH = """
var broken = [];
addEventListener('securitypolicyviolation', e => broken.push(e.violatedDirective + ' ' + e.blockedURI));
addEventListener('error', e => broken.push('' + e.message));
addEventListener('unhandledrejection', e => broken.push('' + e.reason));
"""

# The texts of the first and of all elements of a selector; what has the focus.
HELPERS = """
var text = s => document.querySelector(s)?.innerText.trim() ?? '';
var texts = s => [...document.querySelectorAll(s)].map(e => e.innerText.trim());
var label = e => (e.getAttribute('aria-label') || e.labels?.[0]?.innerText || e.innerText || '').trim();
var focused = () => `${document.activeElement.localName} ${label(document.activeElement)}`;
"""

WAIT = """
new Promise(done => {
    const look = () => (%s) ? done(true) : setTimeout(look, 10);
    look();
})
"""

# Keys without a character: their virtual key codes.
KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, "Space": 32, "PageDown": 34, "End": 35, "Home": 36, "ArrowUp": 38,
        "ArrowDown": 40}
CHARACTERS = {"Enter": "\r", "Space": " "}

# More Tabs than a page of the tests has places for the focus.
TABS = 200


class Console(Page):
    """The console in a page of its own."""

    def __init__(self, browser, broker, look=LOOKS[0]):
        self.look = look
        super().__init__(browser, broker)
        self.emulate(look)
        for domain in ("Page", "Runtime"):
            browser.call(f"{domain}.enable", self.session)
        add = "Page.addScriptToEvaluateOnNewDocument"
        browser.call(add, self.session, source=WATCH + HELPERS)
        self.open("/")
        self.wait("document.querySelector('main h1')")

    def open(self, path="/healthz"):
        """As of every page; the browser does not know the CA of the tests."""
        ignore = "Security.setIgnoreCertificateErrors"
        self.browser.call(ignore, self.session, ignore=True)
        super().open(path)

    def emulate(self, look):
        size = {"width": look.width, "height": 800, "deviceScaleFactor": 1}
        call = self.browser.call
        call("Emulation.setDeviceMetricsOverride", self.session, mobile=look.width < 700, **size)
        scheme = [{"name": "prefers-color-scheme", "value": look.scheme}]
        call("Emulation.setEmulatedMedia", self.session, features=scheme)

    def go(self, hash):
        """Go to a page of the console; it has drawn its heading."""
        self.value("document.querySelector('main').replaceChildren()")
        here = self.value("location.hash")
        step = f"location.hash = {json.dumps(hash)}" if here != hash else "dispatchEvent(new Event('hashchange'))"
        self.value(f"{step}; 1")
        self.wait("document.querySelector('main h1')")

    def wait(self, condition):
        """Look again and again until it holds."""
        self.expect(WAIT % condition, True)

    # The keyboard

    def press(self, *keys):
        for key in keys:
            event = {"key": " " if key == "Space" else key, "code": key,
                     "windowsVirtualKeyCode": KEYS[key]}
            if key in CHARACTERS:
                event["text"] = CHARACTERS[key]
            for type in ("keyDown", "keyUp"):
                self.browser.call("Input.dispatchKeyEvent", self.session, type=type, **event)

    def type(self, text):
        self.browser.call("Input.insertText", self.session, text=text)

    def focus(self, kind, label):
        """Press Tab until the element has the focus, which is visible on it."""
        for _ in range(TABS):
            self.press("Tab")
            found = self.value("focused()")
            if found.startswith(f"{kind} {label}"):
                return self.check_focus()
        raise AssertionError(f"no Tab leads to {kind} {label}")

    def check_focus(self):
        """The focus can be seen: an outline, on the element or what covers it."""
        shown = """[null, '::after'].some(part => {
            const style = getComputedStyle(document.activeElement, part);
            return style.outlineStyle != 'none' && parseFloat(style.outlineWidth) >= 2;
        })"""
        assert self.value(shown), self.value("document.activeElement.outerHTML")

    # What it looks like

    def check_width(self):
        """Nothing sticks out to the right."""
        assert self.value("document.documentElement.scrollWidth <= innerWidth")

    def shoot(self, name):
        """Keep a picture in build/PRESET/screenshots; its bytes."""
        shot = self.browser.call("Page.captureScreenshot", self.session, format="png")
        picture = base64.b64decode(shot["data"])
        os.makedirs(SCREENSHOTS, exist_ok=True)
        path = SCREENSHOTS / f"{name}-{self.look.width}-{self.look.scheme}.png"
        path.write_bytes(picture)
        return picture

    def heap_bytes(self):
        """What the scripts hold, after a collection."""
        self.browser.call("HeapProfiler.collectGarbage", self.session)
        return self.browser.call("Runtime.getHeapUsage", self.session)["usedSize"]

    def close(self):
        broken = self.value("typeof broken == 'undefined' ? [] : broken")
        names = "performance.getEntriesByType('resource').map(e => new URL(e.name).origin)"
        origins = set(self.value(names))
        super().close()
        assert broken == []
        assert origins <= {self.broker.url}
