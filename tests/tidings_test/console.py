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

from tidings_test.broker import BIN, ROOT
from tidings_test.browser import Page

Look = collections.namedtuple("Look", "width scheme")
LOOKS = [Look(width, scheme) for width in (1200, 390) for scheme in ("light", "dark")]

SCREENSHOTS = BIN.parent / "screenshots"

# Those of the documentation, in a large light window: a test renews them with TIDINGS_PICTURES=1.
PICTURES = {"sets": "console.png", "live": "console-live.png", "past": "console-past.png"}

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

# WCAG 2.2: names of controls, one h1, no level of headings left out, ids once, the
# contrast of texts, and targets of 24 pixels.
CHECKS = """
(() => {
    const faults = [], all = s => [...document.querySelectorAll(s)].filter(e => e.offsetParent);
    const say = (what, e) => faults.push(what + ': ' + e.outerHTML.slice(0, 120));
    for (const e of all('a, button, input, select, textarea, summary'))
        if (!label(e) && !e.title) say('no name', e);
    for (const e of all('input, select, textarea'))
        if (!e.labels.length) say('no label', e);
    for (const e of all('button, select, input'))
        if (e.getBoundingClientRect().height < 24) say('small', e);
    if (document.querySelectorAll('h1').length != 1) faults.push('not one h1');
    let level = 1;
    for (const e of all('h1, h2, h3, h4')) {
        if (e.localName[1] > level + 1) say('a level is left out', e);
        level = +e.localName[1];
    }
    const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
    if (new Set(ids).size != ids.length) faults.push('an id twice');
    if (document.documentElement.lang != 'en') faults.push('no language');
    const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    const rgb = (colour, ground) => {
        canvas.fillStyle = ground ? `rgb(${ground})` : '#fff';
        canvas.fillRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const light = c => c.map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
    const ground = e => rgb(getComputedStyle(e).backgroundColor, e.parentElement && ground(e.parentElement));
    for (const e of all('body *')) {
        if (![...e.childNodes].some(n => n.nodeType == 3 && n.data.trim())) continue;
        const behind = ground(e), a = light(behind), b = light(rgb(getComputedStyle(e).color, behind));
        const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
        if (ratio < 4.5) say(`contrast ${ratio.toFixed(2)}`, e);
    }
    return faults;
})()
"""

# Fills in the field with a label, as somebody who types does.
FILL = """(() => {
    const label = [...document.querySelectorAll('label')].find(l => l.innerText.startsWith(%s));
    const control = document.getElementById(label.htmlFor);
    control.value = %s;
    control.dispatchEvent(new Event('input', { bubbles: true }));
})()"""

# Clicks at what has a text, in a dialog if there is one.
CLICK = """(() => {
    const within = document.querySelector('dialog') ?? document.querySelector('main');
    [...within.querySelectorAll('button, summary, a')].find(b => b.innerText.trim() == %s).click();
})()"""

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
        self.origins = {broker.url}  # servers that the page may ask
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
        # Without motion a colour is at once what it will be.
        features = {"prefers-color-scheme": look.scheme, "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in features.items()]
        call("Emulation.setEmulatedMedia", self.session, features=features)

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

    # Forms

    def fill(self, label, value):
        self.value(FILL % (json.dumps(label), json.dumps(value)))

    def click(self, text):
        self.value(CLICK % json.dumps(text))

    def sign_in(self, token):
        self.go("#/sign-in")
        self.focus("input", "Token")
        self.type(token)
        self.press("Enter")

    # What it looks like

    def check(self):
        """Everybody can use the page as it is."""
        assert self.value(CHECKS) == [], self.value("location.href")
        self.check_width()
        self.check_axe()

    def check_width(self):
        """Nothing sticks out to the right."""
        assert self.value(f"document.documentElement.scrollWidth <= {self.look.width}")

    def shoot(self, name):
        """Keep a picture in build/PRESET/screenshots; its bytes."""
        shot = self.browser.call("Page.captureScreenshot", self.session, format="png")
        picture = base64.b64decode(shot["data"])
        os.makedirs(SCREENSHOTS, exist_ok=True)
        path = SCREENSHOTS / f"{name}-{self.look.width}-{self.look.scheme}.png"
        path.write_bytes(picture)
        if "TIDINGS_PICTURES" in os.environ and name in PICTURES and self.look == LOOKS[0]:
            (ROOT / "doc" / PICTURES[name]).write_bytes(picture)
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
        assert origins <= self.origins
