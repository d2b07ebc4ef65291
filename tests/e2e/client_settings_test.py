"""What `tidings` takes from its environment and its client file."""

import pytest

TOKEN = "td_0123456789ab_" + 64 * "0"


@pytest.fixture
def client_file(tmp_path):
    """client_file("url = ...", ...): writes a client file and returns its path."""

    def write(*lines):
        path = tmp_path / "client.ini"
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    return write


def test_a_name_is_enough_beside_the_url_of_the_broker(broker, client_file, run):
    news = broker.set().create()
    news.post(3)
    path = client_file("# mine", f"url = {broker.url}/")
    home = path.parent / "home"
    (home / ".config" / "tidings").mkdir(parents=True)
    path.rename(home / ".config/tidings/client.ini")
    moved = home / ".config/tidings/client.ini"
    follow = ("follow", news.name, "--from-start", "--count", "3")
    ways = (
        (("--url", broker.url), {}),
        ((), {"TIDINGS_URL": f"{broker.url}/"}),
        (("--config", moved), {}),
        ((), {"TIDINGS_CONFIG": str(moved)}),
        ((), {"HOME": str(home), "XDG_CONFIG_HOME": ""}),
        ((), {"XDG_CONFIG_HOME": str(home / ".config")}),
    )
    for options, environment in ways:
        done = run("tidings", *follow, *options, env=environment)
        assert len(done.out) == 3, options
    listed = run("tidings", "set", "list", env={"TIDINGS_URL": broker.url})
    assert news.name in listed.output()


def test_a_directory_comes_before_a_set_of_that_name(broker, run, tmp_path):
    news = broker.set().create()
    status = ("status", news.name)
    home = {"cwd": tmp_path, "env": {"TIDINGS_URL": broker.url}}
    assert "entries in the last hour" in run("tidings", *status, **home).output()
    (tmp_path / news.name).mkdir()
    assert "is no mirror" in run("tidings", *status, **home, status=1).errors()


def test_the_command_line_comes_before_the_environment_before_the_file(
    broker, client_file, run
):
    news = broker.set().create()
    nowhere = "http://127.0.0.1:1"
    path = client_file(f"url = {nowhere}")
    get = ("get", news.name, "--config", path)
    good, bad = {"TIDINGS_URL": broker.url}, {"TIDINGS_URL": nowhere}
    run("tidings", *get, status=1)
    run("tidings", *get, env=good)
    run("tidings", *get, "--url", broker.url, env=bad)
    run("tidings", *get, "--url", nowhere, env=good, status=1)


def test_a_name_without_a_broker_is_explained(run):
    wrong = run("tidings", "get", "news", status=2)
    assert wrong.errors() == (
        'tidings get: "news" is no URL; for a set\'s name give the broker: --url, or '
        "TIDINGS_URL"
    )
    wrong = run("tidings", "set", "list", status=2)
    assert wrong.errors() == "tidings set list: it needs BROKER-URL; --help says more"


ERRORS = (
    (["rul = http://a/"], ":1: rul: there is no such option; did you mean url?"),
    (["# x", "", "url = ftp://a/"], ':3: url: "ftp://a/" is not an http:// or https://'),
    (["url = http://a", "url = http://a"], ":2: url: is there twice, first in line 1"),
    (["url = 'http://a'"], ":1: url: a value has no quotes around it"),
    (["header = A: b"], ":1: header: stands on the command line only"),
    (["config = x"], ":1: config: stands on the command line only"),
    (["[mqtt a]"], ":1: [mqtt a]: this file has no sections"),
    (["nonsense"], ":1: this is not NAME = VALUE"),
    ([f"url = http://a/{'b' * 300}"], ":1: this line is too long, or has a NUL"),
    (["token-file = t"], ": token-file and cert need a url, the broker that they are for"),
)


def test_an_error_of_the_file_names_it_and_the_line(client_file, run):
    for lines, says in ERRORS:
        path = client_file(*lines)
        get = ("get", "http://127.0.0.1:1/sets/a", "--config", path)
        wrong = run("tidings", *get, status=2).errors()
        assert wrong.startswith(f"tidings get: {path}{says}"), wrong
    path.unlink()
    assert f"cannot read {path}" in run("tidings", *get, status=2).errors().replace('"', "")
    wrong = run("tidings", *get[:2], env={"TIDINGS_URL": "a"}, status=2)
    assert wrong.errors().startswith('tidings get: TIDINGS_URL: "a" is not a')
    run("tidings", "help", "get", env={"TIDINGS_CONFIG": str(path)})


# The token and the certificate of the file are for the server of its url alone.
def test_no_other_server_gets_the_token_of_the_file(start_site, client_file, run):
    own, other = start_site("127.0.0.1"), start_site("127.0.0.2")
    token = client_file().with_name("press.token")
    token.write_text(f"{TOKEN}\n")
    token.chmod(0o600)
    path = client_file(f"url = {own.link('')}", "token-file = press.token")
    for site in (own, other):
        run("tidings", "get", site.link("/sets/a"), "--config", path, status=None, cwd="/")
    assert {each["Authorization"] for each in own.requests} == {f"Bearer {TOKEN}"}
    assert {each["Authorization"] for each in other.requests} == {None}
    before = len(own.requests)
    mine = ("--header", "Authorization: Bearer mine")
    get = ("get", "a", "--config", path)
    run("tidings", *get, *mine, status=None)
    run("tidings", *get, env={"TIDINGS_TOKEN": "yours"}, status=None)
    sent = [each["Authorization"] for each in own.requests[before:]]
    assert set(sent) == {"Bearer mine", "Bearer yours"}


def test_the_set_of_a_harvest_gets_the_token_of_its_server(
    broker, start_site, client_file, run, tmp_path
):
    news = broker.set().create()
    news.post(1)
    target = start_site("127.0.0.2")
    token = client_file().with_name("press.token")
    token.write_text(TOKEN)
    token.chmod(0o600)
    path = client_file(f"url = {target.link('')}", "token-file = press.token")
    harvest = ("harvest", news.url, target.link("/sets/copy"), "--once")
    options = ("--state", tmp_path / "state", "--config", path)
    run("tidings", *harvest, *options, status=None)
    assert {each["Authorization"] for each in target.requests} == {f"Bearer {TOKEN}"}


def test_the_token_file_is_for_its_owner_alone(start_site, client_file, run):
    site = start_site()
    path = client_file(f"url = {site.link('')}", "token-file = press.token")
    token = path.with_name("press.token")
    get = ("tidings", "get", "a", "--config", path)
    assert str(token) in run(*get, status=1).errors()
    token.write_text(TOKEN)
    token.chmod(0o644)
    refused = run(*get, status=None)
    assert refused.status in (1, 2)
    assert refused.errors().startswith("tidings: token-file: ")
    assert len(site.requests) == 0
