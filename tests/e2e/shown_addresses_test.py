"""Secrets in addresses: who gives a command an address with user:password@ or with a key
finds neither in what is printed, nor in names of files, nor in what others may read."""

import os

import pytest

from tidings_test.layouts import Sitemap
from tidings_test.sets import HARVEST

SECRET = "s3cr3t"
WAYS = ["user", "key", "sig"]


@pytest.fixture
def source(site):
    source = Sitemap(site)
    source.publish({"/files/a.txt": "a", "/files/b.txt": "b"})
    return source


def hidden(url, way, secret=SECRET):
    """The address with a secret."""
    if way == "user":
        return url.replace("://", f"://ann:{secret}@")
    name = {"key": "api_key", "sig": "se=2027&sig"}[way]
    return f"{url}?page=1&{name}={secret}&lang=en"


def names(folder):
    return [str(path.relative_to(folder)) for path in folder.rglob("*")]


COMMANDS = {
    "get": "get {source}",
    "follow": "follow {source} --until-caught-up --baseline first --verbose",
    "follow json": "follow {source} --until-caught-up --baseline first --format json --verbose",
    "sync": "sync {source} {dir}/m --until-caught-up --verbose",
    "sync json": "sync {source} {dir}/m --until-caught-up --json",
    "harvest": "harvest {source} {set} --once --verbose",
    "harvest json": "harvest {source} {set} --once --json",
    "harvest into": "harvest {plain} {hidden_set} --once",
    "harvest twice": "harvest {source} {source} {set} --once",
    "audit": "audit {dir}/m {source}",
    "verify": "verify {source}",
    "diff": "diff {source} {plain}",
    "status": "status {hidden_set}",
    "set show": "set show {hidden_set}",
    "publish": "publish {hidden_set} created http://example.com/a",
    "healthy": "healthy {hidden_set}",
    "mcp": "mcp {source} --nothing",
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_there", [True, False], ids=["there", "gone"])
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_hide_secrets(command, is_there, way, source, broker, run, tmp_path):
    target = broker.set().create()
    if not is_there:
        source.site.status(None, 404)
    places = {
        "source": hidden(source.url, way),
        "plain": source.url,
        "set": target.url,
        "hidden_set": hidden(target.url, way),
        "dir": tmp_path,
    }
    words = [word.format(**places) for word in COMMANDS[command].split()]
    env = {"XDG_STATE_HOME": str(tmp_path / "states"), "HOME": str(tmp_path)}
    done = run("tidings", *words, status=None, env=env)
    said = done.output() + done.errors()
    assert SECRET not in said
    assert not [name for name in names(tmp_path) if SECRET in name]
    assert SECRET not in target.get(accept="application/json").text
    assert SECRET not in target.get("harvest").text
    if (tmp_path / "m").exists():
        for form in ([], ["--json"]):
            done = run("tidings", "status", tmp_path / "m", *form, status=None)
            assert SECRET not in done.output() + done.errors()
    if is_there and way != "user" and command.startswith("harvest"):
        assert "=*&lang=en" in said or command in ("harvest into", "harvest twice")


# What is hidden still counts: two addresses are two harvests.
def test_two_secrets_have_two_states(source, broker, run, tmp_path):
    target = broker.set().create()
    env = {"XDG_STATE_HOME": str(tmp_path)}
    for secret in ("one", "two", "one"):
        url = hidden(source.url, "key", secret)
        run("tidings", "harvest", url, target.url, "--once", env=env)
        target.broker.request("DELETE", f"{target.path}/harvest")  # each is consented to
    states = [path.name for path in (tmp_path / "tidings").iterdir()]
    states = [name for name in states if not name.endswith(".list")]
    assert len(states) == 2
    assert all("one" not in name and "two" not in name for name in states)


# A state of an earlier version, which had the secret in its name, is still that one.
def test_a_state_of_an_earlier_version_is_renamed(source, broker, run, tmp_path):
    target = broker.set().create()
    env = {"XDG_STATE_HOME": str(tmp_path)}
    command = ("tidings", "harvest", hidden(source.url, "key"), target.url, "--once")
    assert "2 added" in run(*command, env=env).output()
    names = sorted(os.listdir(tmp_path / "tidings"))
    for name in names:
        earlier = name.replace("api_key___lang", f"api_key_{SECRET}_lang")
        assert earlier != name
        os.rename(tmp_path / "tidings" / name, tmp_path / "tidings" / earlier)
    assert "0 added, 0 changed, 0 deleted" in run(*command, env=env).output()
    assert sorted(os.listdir(tmp_path / "tidings")) == names
    source.publish({"/files/a.txt": "a"})
    assert "0 added, 0 changed, 1 deleted" in run(*command, env=env).output()


# A harvester of another version, or of others, reports what it has.
def test_the_broker_hides_what_is_reported(broker):
    target = broker.set().create()
    for way in WAYS:
        url = hidden("https://example.org/feed", way)
        texts = {"source": url, "not_complete": f"{url}: 404", "left_out_example": f'"{url}"'}
        assert target.put_harvest(**texts).status == 204
        assert SECRET not in target.get("harvest").text
        assert SECRET not in target.get(accept="application/json").text
        shown = target.get("harvest").json()
        assert shown["source"].startswith("https://") and "example.org/feed" in shown["source"]
    assert target.put_harvest(source=HARVEST["source"]).status == 204
