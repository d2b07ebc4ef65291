"""Who comes in to the console, and with which rights: signing in with an identity provider (OpenID Connect,
one of the test and one that is not ours), and the pages of tokens."""

import datetime
import json

import pytest

from tidings_test import npm
from tidings_test.console import LOOKS, Console
from tidings_test.http import JSON, keep_port
from tidings_test.provider import AUDIENCE, OpenId, Provider
from tidings_test.waiting import wait_for

RIGHTS = {"subscribe": ["*"], "publish": ["news"], "manage": ["news"]}


@pytest.fixture
def provider(tmp_path):
    keys = Provider(tmp_path)
    keys.key("a")
    made = OpenId(keys, tidings=RIGHTS)
    yield made
    made.close()


class SignIn(Console):
    """The page leaves for the provider, and comes back."""

    def __init__(self, browser, broker, provider_url):
        super().__init__(browser, broker, LOOKS[0])
        self.origins.add(provider_url)

    def holds(self, condition):
        """Soon, whichever documents come before."""

        def look():
            try:
                return self.value(f"typeof text == 'function' && {condition}")
            except AssertionError:  # the document went meanwhile
                return False

        wait_for(condition, look)

    def run_first(self, script):
        """Run it before the scripts of each document to come."""
        self.browser.call("Page.addScriptToEvaluateOnNewDocument", self.session, source=script)

    def begin(self):
        self.go("#/sign-in")
        self.focus("button", "Sign in with 127.0.0.1:")
        self.press("Enter")


@pytest.fixture
def open_console(browser):
    opened = []

    def open_one(broker, look=LOOKS[0], provider=None):
        console = SignIn(browser, broker, provider) if provider else Console(browser, broker, look)
        opened.append(console)
        return console

    yield open_one
    for console in opened:
        console.close()


@pytest.fixture
def broker(start_broker, provider):
    broker = start_broker("--jwt-keys", f"{provider.url}/keys", *provider.options)
    token = {"authorization": f"Bearer {provider.token()}"}
    assert broker.request("PUT", "/sets/news", "{}", JSON, **token).status == 201
    return broker


KEPT = "document.cookie + localStorage.length + sessionStorage.length + location.search"


def test_a_user_signs_in_with_the_provider(broker, provider, open_console):
    console = open_console(broker, provider=provider.url)
    console.go("#/sets/news/settings")
    console.wait("text('h1') == 'Sign in'")
    console.check_axe()
    console.shoot("sign-in-provider")
    console.focus("button", "Sign in with 127.0.0.1:")
    console.press("Enter")
    # Where the user wanted to be.
    console.holds("text('h1') == 'news' && text('.who').endsWith(':alice') && location.hash.endsWith('settings')")
    console.expect(KEPT, "00")
    assert [form["grant_type"] for form in provider.asked] == ["authorization_code"]
    console.focus("button", "Sign out")
    console.press("Enter")
    console.holds("text('#user') == 'Sign in'")


# Of the two tokens the broker takes the one that is for it.
@pytest.mark.parametrize("answers", [{"access_token": "opaque"}, {"access_token": "a.b.c"}, {"id_token": None}])
def test_the_token_that_is_for_the_broker_counts(broker, provider, open_console, answers):
    provider.answers = answers
    console = open_console(broker, provider=provider.url)
    console.begin()
    console.holds("text('.who').endsWith(':alice')")


FAILURES = ("refusal", "issuer", "token endpoint", "audience", "no right", "silence", "nonce", "opaque")

# Long times are short: no test waits for them.
HASTE = """
const after = setTimeout;
setTimeout = (work, ms, ...more) => after(work, ms > 30000 ? 50 : ms, ...more);
"""
DEAF = "BroadcastChannel = class { postMessage() {} };"
IMPATIENCE = """
const until = AbortSignal.timeout;
AbortSignal.timeout = () => until.call(AbortSignal, 200);
"""


def spoil(provider, what):
    """Sets the fault; the words that the user reads."""
    other = f"http://127.0.0.1:{provider.port + 1}"
    if what == "refusal":
        provider.refuses = "access_denied"
        return "refuses: not today"
    if what == "issuer":
        provider.says["issuer"] = other
        return "is about http"
    if what == "token endpoint":
        provider.says["token_endpoint"] = f"{other}/token"
        return "another server than its own"
    if what == "audience":
        provider.claims["aud"] = "https://other.example"
        return "does not accept its token"
    if what == "no right":
        provider.claims["tidings"] = {}
        return "right"
    if what == "silence":
        provider.silent = "/token"
        return "away or silent"
    if what == "nonce":
        provider.answers = {"access_token": "opaque", "id_token": provider.token(nonce="other")}
        return "no JSON Web Token"
    provider.answers = {"access_token": "opaque", "id_token": None}
    return "no JSON Web Token"


@pytest.mark.parametrize("what", FAILURES)
def test_a_failure_has_words(broker, provider, open_console, what):
    console = open_console(broker, provider=provider.url)
    words = spoil(provider, what)
    if what == "silence":
        console.run_first(IMPATIENCE)
    console.begin()
    console.holds(f"(text('.lead') + text('#announcement')).includes({json.dumps(words)}) && text('h1') == 'Sign in'")
    console.expect("text('.who')", "")
    console.expect(KEPT, "00")


# Somebody else's answer: a link that brings a code of the attacker.
def test_an_answer_that_nobody_asked_for_counts_nothing(broker, provider, open_console):
    console = open_console(broker, provider=provider.url)
    console.value("location.search = '?code=stolen&state=guessed'; 1")
    console.holds("text('.lead').includes('no answer to a request of this tab') && !location.search")
    assert provider.asked == []


# The broker names the provider in the policy, and no other server.
def test_the_policy_names_the_provider(broker, provider, start_broker):
    policy = broker.get("/")["Content-Security-Policy"]
    assert f"connect-src 'self' {provider.url}; " in policy
    assert "openid-" not in start_broker().get("/").text


def test_a_session_is_renewed_before_its_token_ends(broker, provider, open_console):
    provider.answers = {"refresh_token": "again"}
    console = open_console(broker, provider=provider.url)
    console.run_first(HASTE)
    console.begin()
    wait_for("two renewals", lambda: sum(form["grant_type"] == "refresh_token" for form in provider.asked) > 1)
    console.holds("text('.who').endsWith(':alice') && document.getElementById('connection').hidden")


# What one tab ends, the renewal of another one does not bring back.
def test_signing_out_ends_the_session_in_every_tab(broker, provider, open_console):
    provider.answers = {"refresh_token": "again"}

    def renewals():
        return sum(form["grant_type"] == "refresh_token" for form in provider.asked)

    renewing, other = (open_console(broker, provider=provider.url) for _ in range(2))
    renewing.run_first(HASTE + DEAF)
    renewing.begin()
    wait_for("a renewal", lambda: renewals() > 0)
    other.value("location.reload(); 1")
    other.holds("text('.who').endsWith(':alice')")
    other.value("document.querySelector('#user button').click(); 1")
    other.holds("text('#user') === 'Sign in'")
    before = renewals()
    renewing.holds("text('#announcement').includes('the session has ended')")
    other.value("location.reload(); 1")
    other.holds("text('#user') === 'Sign in'")
    assert renewals() <= before + 1
    # A tab that hears of it does not even ask.
    hearing = open_console(broker, provider=provider.url)
    hearing.run_first(HASTE)
    hearing.begin()
    hearing.holds("text('.who').endsWith(':alice')")
    other.value("location.reload(); 1")
    other.holds("text('.who').endsWith(':alice')")
    other.value("document.querySelector('#user button').click(); 1")
    hearing.holds("text('#user') === 'Sign in'")


# A provider that is not ours

PROGRAM = """
import { Provider } from 'oidc-provider';

const [port, console_url, audience, rights] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
const provider = new Provider(issuer, {
    clients: [{ client_id: 'console', token_endpoint_auth_method: 'none', application_type: 'native',
        redirect_uris: [console_url], grant_types: ['authorization_code', 'refresh_token'] }],
    clientBasedCORS: (ctx, origin) => console_url.startsWith(origin),
    findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    extraTokenClaims: () => ({ tidings: JSON.parse(rights) }),
    features: {
        resourceIndicators: {
            enabled: true, defaultResource: () => audience, useGrantedResource: () => true,
            getResourceServerInfo: () => ({ audience, scope: 'openid', accessTokenFormat: 'jwt' }),
        },
    },
});
provider.listen(Number(port), '127.0.0.1', () => console.log('listening'));
"""


def test_a_provider_that_is_not_ours(start_broker, start, open_console, tmp_path):
    port, _keeper = keep_port()
    issuer = f"http://127.0.0.1:{port}"
    broker = start_broker()
    npm.install(tmp_path)
    (tmp_path / "program.mjs").write_text(PROGRAM)
    arguments = (port, f"{broker.url}/", AUDIENCE, json.dumps(RIGHTS))
    program = start(npm.node(), tmp_path / "program.mjs", *map(str, arguments))
    program.out.wait(1)
    broker.set_options(
        *("--jwt-keys", f"{issuer}/jwks", "--jwt-issuer", issuer, "--jwt-audience", AUDIENCE),
        *("--jwt-client", "console"),
    )
    broker.stop()
    broker.start()
    console = open_console(broker, provider=issuer)
    console.begin()
    form = "document.querySelector('input[name=login]')"
    console.holds(f"{form} != null")
    console.value(f"{form}.value = 'ada'; document.querySelector('input[name=password]').value = 'x'; 1")
    submit = "document.querySelector('button[type=submit]').click(); 1"
    console.value(submit)
    console.holds("document.querySelector('input[name=prompt][value=consent]') != null")
    console.value(submit)
    console.holds("text('.who').endsWith(':ada')")


# Tokens


def token_fields(console, **values):
    for label, value in values.items():
        console.fill(label.capitalize(), value)


@pytest.fixture
def guarded(start_broker):
    broker = start_broker()
    broker.add_token("root", admin=True)
    broker.reader = broker.add_token("reader", subscribe=["news"])
    return broker


@pytest.mark.parametrize("look", LOOKS, ids="{0.width}-{0.scheme}".format)
def test_a_token_is_made_shown_once_rotated_and_revoked(guarded, open_console, look):
    console = open_console(guarded, look)
    console.sign_in(guarded.token)
    console.wait("text('.who') == 'root'")
    console.go("#/tokens")
    console.wait("texts('tbody a').join(' ') == 'reader root'")
    token_fields(console, name="press", publish="news-*, !news-secret", observe="true", expires="90d")
    line = console.value("[...document.querySelectorAll('form .command code')].at(-1).textContent")
    assert line == "tidingsd token add press --publish 'news-*, !news-secret' --observe --expires 90d"
    console.check()
    console.shoot("tokens")
    console.click("Make the token")
    console.wait("text('#announcement') == 'The token press is made.'")
    console.wait("texts('tbody a').join(' ') == 'press reader root'")
    text = console.value("document.querySelector('[role=status] code').textContent")
    made = guarded.get("/tokens/press").json()["tokens"][0]
    assert (made["publish"], made["observe"], made["admin"]) == (["news-*", "!news-secret"], True, False)
    ends = datetime.datetime.fromisoformat(made["expires"]) - datetime.datetime.now(datetime.UTC)
    assert datetime.timedelta(days=89) < ends < datetime.timedelta(days=91)
    name = guarded.get("/tokens/self", authorization=f"Bearer {text}").json()["name"]
    assert name == "press"
    # Its page does not show the text.
    console.go("#/tokens/press")
    console.wait("text('h1') == 'press'")
    assert text not in console.value("document.body.innerText")
    console.fill("Grace, seconds", "0")
    console.click("Rotate")
    console.wait("text('#announcement') == 'The token press has a new text.'")
    assert guarded.get("/tokens/self", authorization=f"Bearer {text}").status == 401
    console.check()
    console.shoot("token")
    console.click("Revoke")
    console.wait("document.querySelector('dialog')")
    console.click("Revoke")
    console.wait("text('#announcement') == 'The token press is revoked.'")
    console.wait("location.hash == '#/tokens' && texts('tbody a').join(' ') == 'reader root'")
    assert guarded.get("/tokens/press").status == 404


@pytest.mark.parametrize("values, words", [
    ({"name": "a b"}, "a b"),
    ({"name": "x", "expires": "soon"}, "is no number of s, m, h, d or w"),
    ({"name": "reader", "publish": "news"}, "reader"),
    ({"name": "x", "certificate": "12"}, "certificate"),
])
def test_a_token_that_cannot_be_made_says_why(guarded, open_console, values, words):
    console = open_console(guarded)
    console.sign_in(guarded.token)
    console.wait("text('.who') == 'root'")
    console.go("#/tokens")
    console.wait("texts('tbody a').length == 2")
    token_fields(console, **values)
    console.click("Make the token")
    console.wait(f"text('#announcement.bad').includes({json.dumps(words)})")
    console.expect("document.querySelector('[role=status] code')", None)
    assert len(guarded.get("/tokens").json()["tokens"]) == 2


# Who is no administrator sees no tokens; an open broker has none.
def test_tokens_are_for_administrators(guarded, start_broker, open_console):
    console = open_console(guarded)
    console.sign_in(guarded.reader)
    console.wait("text('.who') == 'reader'")
    console.expect("document.querySelector('#pages [href=\"#/tokens\"]').hidden", True)
    console.go("#/tokens")
    console.wait("text('h1') == 'Not possible' && text('.problem').includes('admin')")
    own = open_console(start_broker())
    own.go("#/tokens")
    own.wait("text('.command code') == 'tidingsd token add root --admin'")
    own.check()
