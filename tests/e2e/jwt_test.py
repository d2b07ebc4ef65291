"""JSON Web Tokens of an identity provider: --jwt-keys, --jwt-issuer, --jwt-audience."""

import json
import signal
import time

import pytest

from tidings_test.http import JSON, check_refused
from tidings_test.provider import AUDIENCE, ISSUER, OPTIONS, Provider, base64url, bearer
from tidings_test.sets import Set, change

NEW_KEYS = 'msg="the identity provider has new keys"'
KEYS_READ = 'msg="the keys of the identity provider are read"'
ALL = {"publish": ["*"], "subscribe": ["*"], "manage": ["*"]}


@pytest.fixture
def provider(tmp_path):
    made = Provider(tmp_path)
    made.key("a")
    return made


@pytest.fixture
def keys(provider, tmp_path):
    """The file of the provider's keys."""
    path = tmp_path / "keys.json"
    provider.write(path)
    return path


@pytest.fixture
def start_with(start_broker):
    """start_with(keys): starts a broker with keys from a file or a URL."""
    return lambda keys, *options, **more: start_broker(
        "--jwt-keys", keys, *OPTIONS, *options, **more
    )


def post(broker, token, name="news"):
    return broker.request(
        "POST",
        f"/sets/{name}/changes",
        json.dumps(change("https://example.org/1")),
        type=JSON,
        **bearer(token),
    ).status


def get(broker, token, name="news"):
    return broker.get(f"/sets/{name}", **bearer(token)).status


def make_set(broker, provider, *names):
    token = provider.token("a", tidings=ALL)
    for name in names or ["news"]:
        made = broker.request("PUT", f"/sets/{name}", "{}", JSON, **bearer(token))
        assert made.status == 201, made


@pytest.mark.parametrize("alg", ["HS256", "RS256", "PS256", "ES256"])
def test_each_algorithm(start_with, provider, keys, alg):
    provider.key("own", alg)
    provider.write(keys)
    broker = start_with(keys)
    assert post(broker, provider.token("own", tidings=ALL)) == 200
    assert get(broker, provider.token("own", tidings=ALL)) == 200
    assert get(broker, provider.token("own")) == 403
    assert broker.get("/sets/news").status == 401


# Who can read the file can make tokens.
@pytest.mark.parametrize("alg, mode, is_warned", [
    ("HS256", 0o640, True),
    ("HS256", 0o600, False),
    ("ES256", 0o644, False),
])
def test_a_secret_that_others_can_read(
    start_with, provider, keys, alg, mode, is_warned
):
    provider.key("own", alg)
    provider.write(keys, "own")
    keys.chmod(mode)
    broker = start_with(keys)
    broker.wait_said('msg="ready"')
    assert broker.has_said("has a secret and is open to others") == is_warned


def test_a_token_has_the_rights_that_it_names(start_with, provider, keys):
    broker = start_with(keys)
    make_set(broker, provider, "news", "blog")
    reader = provider.token("a", tidings={"subscribe": ["*", "!blog"]})
    writer = provider.token("a", tidings={"publish": ["n*"]})
    assert get(broker, reader) == 200
    assert get(broker, reader, "blog") == 403
    assert post(broker, reader) == 403
    assert post(broker, writer) == 200
    assert post(broker, writer, "blog") == 403
    nobody = broker.get("/tokens", **bearer(provider.token("a", tidings=ALL)))
    check_refused(nobody, 403, "admin")
    assert broker.get("/metrics", **bearer(reader)).status == 403
    myself = broker.get("/tokens/self", **bearer(reader)).json()
    assert myself["name"].startswith("jwt:") and myself["name"].endswith(":alice")
    assert myself["subscribe"] == ["*", "!blog"]
    observer = provider.token("a", tidings={"observe": True})
    assert broker.get("/metrics", **bearer(observer)).status == 200


def test_claims_of_mercure(start_with, provider, keys):
    broker = start_with(keys)
    make_set(broker, provider, "news", "blog")
    token = provider.token(
        "a", mercure={"publish": ["news"], "subscribe": [f"{broker.url}/sets/blog"]}
    )
    assert post(broker, token) == 200
    assert get(broker, token) == 403
    assert get(broker, token, "blog") == 200
    everything = provider.token("a", mercure={"subscribe": ["/sets/{set}"]})
    assert get(broker, everything) == 200
    assert get(broker, provider.token("a", mercure={"subscribe": ["x"]})) == 403


def hostile(provider, keys):
    """Tokens that nobody may come in with, by what is wrong with them."""
    good = provider.token("a", tidings=ALL)
    head, body, signature = good.split(".")
    none = base64url(b'{"alg":"none"}')
    yield "none", f"{none}.{body}."
    yield "none with a signature", f"{none}.{body}.{signature}"
    yield "no signature", f"{head}.{body}."
    yield "trailing bytes", f"{good}A"
    yield "padding", f"{good}=="
    public = json.loads(provider.json("rsa"))["keys"][0]
    thief = Provider(keys.parent / "thief")
    thief.key("rsa", "HS256")
    for name, secret in (
        ("the modulus as a secret", public["n"].encode()),
        ("the JWK as a secret", json.dumps(public).encode()),
    ):
        thief.keys["rsa"].secret = secret
        yield name, thief.token("rsa", tidings=ALL)
    thief.key("a")
    yield "a key of the same name", thief.token("a", tidings=ALL)
    for kid in ("../../../dev/null", "/etc/passwd", "http://127.0.0.1:1/", "a\0", ""):
        yield repr(kid), provider.token("a", header={"kid": kid}, tidings=ALL)
    for name in ("crit", "zip", "enc", "b64"):
        yield name, provider.token("a", header={name: ["DEF"]}, tidings=ALL)
    yield "deep", f"{base64url(b'[' * 4000)}.{body}.{signature}"
    yield "expired", provider.token("a", lasts=-1, tidings=ALL)
    yield "exp as a text", provider.token("a", exp="4000000000", tidings=ALL)
    yield "another audience", provider.token("a", aud="https://x", tidings=ALL)
    yield "another issuer", provider.token("a", iss="https://x", tidings=ALL)
    yield "not yet", provider.token("a", nbf=time.time() + 3600, tidings=ALL)


# All are answered alike, and nothing of them is in the log.
def test_hostile_tokens(start_with, provider, keys):
    provider.key("rsa", "RS256")
    (keys.parent / "thief").mkdir()
    provider.write(keys)
    broker = start_with(keys)
    bodies = set()
    for name, token in hostile(provider, keys):
        answer = broker.get("/sets/news", **bearer(token))
        assert answer.status == 401, (name, len(token), answer)
        assert answer["WWW-Authenticate"] == "Bearer"
        bodies.add(answer.steady()[2])
        assert not broker.has_said(token.split(".")[1]), name
    assert broker.get("/sets/news").status == 401
    bodies.add(broker.get("/sets/news").steady()[2])
    assert len(bodies) == 1
    assert broker.get("/sets/x", **bearer(provider.token("a", tidings=ALL))).status == 404


# A file is read again when it changes; a key that is no longer in it ends what acts
# for its tokens.
def test_a_file_that_changes(start_with, provider, keys):
    provider.key("b")
    broker = start_with(keys)
    make_set(broker, provider)
    old = provider.token("a", tidings=ALL)
    new = provider.token("b", tidings=ALL)
    assert (get(broker, old), get(broker, new)) == (200, 401)
    log = broker.process.err
    log.next(lambda line: KEYS_READ in line)
    provider.write(keys, "b")
    log.next(lambda line: KEYS_READ in line)
    assert (get(broker, old), get(broker, new)) == (401, 200)

    keys.write_text('{"keys":[{"kty":"oct","kid":"weak","k":"c2VjcmV0"}]}')
    broker.wait_said("a file has changed, the old content stays")
    assert broker.has_said('key 1 (\\"weak\\")')
    assert not broker.has_said("c2VjcmV0")
    assert get(broker, new) == 200


def test_a_reload_changes_what_tokens_have_to_say(start_broker, provider, keys, tmp_path):
    ini = tmp_path / "tidingsd.ini"
    lines = f"jwt-keys = {keys}\njwt-issuer = {ISSUER}\njwt-audience = "
    ini.write_text(lines + AUDIENCE)
    broker = start_broker("--config", ini)
    make_set(broker, provider)
    log = broker.process.err
    log.next(lambda line: 'msg="ready"' in line)
    ours = provider.token("a", tidings=ALL)
    others = provider.token("a", tidings=ALL, aud="other")

    def reload(text):
        ini.write_text(text)
        broker.process.signal(signal.SIGHUP)
        return log.next(lambda line: "reloaded" in line)

    assert (get(broker, ours), get(broker, others)) == (200, 401)
    assert 'msg="reloaded"' in reload(lines + "other")
    assert (get(broker, ours), get(broker, others)) == (401, 200)
    assert "--jwt-audience is missing" in reload(lines.rpartition("jwt-audience")[0])
    assert (get(broker, ours), get(broker, others)) == (401, 200)
    assert 'msg="reloaded"' in reload("heartbeat = 5")
    assert (get(broker, ours), get(broker, others)) == (401, 401)
    assert broker.get("/sets/news").status == 401  # not open again


# The keys stay while the provider is away. (When it calls: unit/access/jwk_fetch.)
def test_keys_at_a_url(start_with, provider, site):
    site.put("/keys.json", provider.json())
    broker = start_with(site.link("/keys.json"))
    make_set(broker, provider)  # the start has waited for the keys
    site.go_down()
    assert get(broker, provider.token("a", tidings=ALL, sub="bob")) == 200
    broker.stop()
    broker.start()
    broker.wait_said("the keys of the identity provider cannot be read")
    assert get(broker, provider.token("a", tidings=ALL)) == 401
    assert broker.get("/healthz").status == 200


def test_secrets_at_a_url_are_refused(start_with, provider, site):
    provider.key("s", "HS256")
    site.put("/keys.json", provider.json())
    broker = start_with(site.link("/keys.json"))
    broker.wait_said('key 2 (\\"s\\"): a secret (\\"oct\\") that is published')
    assert get(broker, provider.token("a", tidings=ALL)) == 401


def test_keys_over_tls(start_with, provider, site, start_proxy, certificate):
    site.put("/keys.json", provider.json())
    front = start_proxy(site.port, tls=certificate.serve())
    url = f"https://localhost:{front.port}/keys.json"
    trusting = start_with(url, env=certificate.env)
    make_set(trusting, provider)
    wary = start_with(url)
    wary.wait_said("the keys of the identity provider cannot be read")
    assert get(wary, provider.token("a", tidings=ALL)) == 401


@pytest.mark.parametrize(
    "options, why",
    [
        (["--jwt-keys", "KEYS"], "--jwt-issuer is missing"),
        (["--jwt-keys", "KEYS", "--jwt-issuer", "x"], "--jwt-audience is missing"),
        (["--jwt-issuer", "x", "--jwt-audience", "y"], "--jwt-keys is missing"),
        (["--jwt-keys", "http://idp.example/", *OPTIONS], "begins with https://"),
        (["--jwt-keys", "https://u@idp.example/", *OPTIONS], "or a user"),
        (["--jwt-keys", "ftp://idp.example/", *OPTIONS], "begins with https://"),
        (["--jwt-client", "x"], "--jwt-keys is missing"),
        (["--jwt-keys", "KEYS", "--jwt-client", "x", "--jwt-issuer", "x", "--jwt-audience", "y"],
         "--jwt-client needs the URL of an OpenID provider as --jwt-issuer"),
        (["--jwt-keys", "KEYS", "--jwt-client", "x", "--jwt-issuer", "http://x.example", "--jwt-audience", "y"],
         "begins with https://"),
        (["--jwt-keys", "KEYS", "--jwt-client", "x", "--jwt-issuer", "https://a;b", "--jwt-audience", "y"],
         "has none of ;"),
    ],
)
def test_bad_options(run, tmp_path, keys, options, why):
    options = [keys if option == "KEYS" else option for option in options]
    done = run("tidingsd", "--data", tmp_path / "d", *options, status=2)
    assert why in done.err[0]


# Nobody has a right by being there.
def test_a_provider_ends_openness(start_with, start_broker, provider, keys, tmp_path):
    assert start_with(keys).get("/sets").status == 401
    ini = tmp_path / "tidingsd.ini"
    ini.write_text("")
    broker = start_broker("--config", ini)
    assert broker.get("/sets").status == 200
    ini.write_text(
        f"jwt-keys = {keys}\njwt-issuer = {ISSUER}\njwt-audience = {AUDIENCE}\n"
    )
    broker.process.signal(signal.SIGHUP)
    broker.wait_said('msg="reloaded"')
    assert broker.get("/sets").status == 401
    assert post(broker, provider.token("a", tidings=ALL)) == 200
    broker.stop()
    ini.write_text("")
    broker.start()
    assert broker.get("/sets").status == 401
    broker.wait_said("stays closed")


# Streams and long polls end with the token: when its key goes, or at its end.
@pytest.mark.parametrize("end", ["key", "exp"])
def test_streams_end_with_their_token(start_with, provider, keys, faults, end):
    provider.key("b")
    provider.write(keys)
    broker = start_with(keys, "--heartbeat", "3600", env=faults.env)
    broker.token = provider.token("b", tidings=ALL, lasts=36000)
    news = Set(broker, "news").create()
    mine = Set(broker.holder(provider.token("a", tidings=ALL)), "news")
    socket, events, rest = mine.websocket(), mine.events(), news.websocket()
    for follower in (socket, events, rest):
        follower.next()
    poll = mine.broker.connect()
    poll.ask(f"{mine.changes}?wait=300")
    if end == "key":
        provider.write(keys, "b")
    else:
        faults.set_clock(3600)
    socket.wait_close(4401)
    events.wait_end("denied")
    assert poll.answer().status == 401
    assert mine.get().status == 401
    news.post(1)
    rest.until(1)


# A running broker answers by its own options; without one, the command has them.
@pytest.mark.parametrize("beside", [True, False], ids=["beside a broker", "without one"])
def test_the_command_says_what_a_token_may_do(
    start_with, provider, keys, run, tmp_path, beside
):
    broker = start_with(keys)
    command = ["tidingsd", "token", "check"]
    options = ["--data", broker.data]
    if not beside:
        broker.stop()
        options += ["--jwt-keys", keys, *OPTIONS]
    file = tmp_path / "token"

    def check(token, *what, status=0):
        file.write_text(token)
        return run(*command, file, *what, *options, status=status)

    long = {"sub": "a" * 150, "tidings": {"publish": ["n*"]}}
    good = provider.token("a", **long)
    assert check(good, "news", "publish").output() == "yes"
    assert check(good, "blog", "publish", status=1).output() == "no"
    assert check(good, "news", "subscribe", status=1).output() == "no"
    bad = (
        provider.token("a", **long, iss="https://other.example"),
        provider.token("a", lasts=-1, **long),
        good[:-8] + "AAAAAAAA",
    )
    for token in bad:
        assert check(token, "news", "publish", status=1).output() == ""
    if not beside:
        options[2:] = []
        refused = check(good, "news", "publish", status=2).errors()
        assert "--jwt-keys" in refused
        options += ["--jwt-keys", keys]
        assert "--jwt-issuer" in check(good, "news", "publish", status=2).errors()
