"""The tour of README.md, command by command, as a reader types it, beside an MQTT
broker, with the configuration that it names; and the options, files and links that
README.md and doc/ name."""

import functools
import re
import shlex

import pytest

from tidings_test import hub
from tidings_test.broker import BIN, ROOT
from tidings_test.documentation import Page, follow_links, is_shown
from tidings_test.mqtt import wait_half

PROGRAMS = "build/release/bin"

# Pages with tables of promises, and the tests of each.
PROMISES = ("compatibility.md", "guarantees.md", "security.md")


def take_tour(broker, mosquitto, run, tmp_path, other=None, **env):
    """Run each command of the tour, with `other` texts in it and that environment."""
    wait_half(broker, "in", state="connected")
    mosquitto.wait_subscription("plant/+/changes")
    here = {
        **(other or {}),
        "http://127.0.0.1:8787": broker.url,
        PROGRAMS: str(BIN),
        "-p 1883": f"-p {mosquitto.port}",
        "./tidings-data": shlex.quote(str(broker.data)),
        "./my-token": shlex.quote(f"{tmp_path}/my-token"),
        "./mirror": shlex.quote(f"{tmp_path}/mirror"),
        "--max-time 1 ": "",
    }
    tour = Page(ROOT / "README.md").commands()
    assert len(tour) >= 9
    for command, shown in tour:
        for what, with_ in here.items():
            command = command.replace(what, with_)
        shell = ("/bin/sh", "-c", command)
        own = {"TMPDIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "states")}
        done = run(*shell, cwd=ROOT, env={**own, **env})
        assert len(done.out) > 0, command
        assert "about:blank" not in done.output(), command  # a problem+json
        said = done.output().replace(broker.url, "http://127.0.0.1:8787")
        for line in shown:
            assert is_shown(line, said), (command, line, said)


@pytest.fixture
def options(mosquitto, tmp_path):
    """Those of a broker for the tour."""
    config = tmp_path / "mqtt.ini"
    example = (ROOT / "doc/mqtt.ini").read_text()
    config.write_text(example.replace("mqtt://127.0.0.1:1883", mosquitto.url))
    # The stream is read until its eighth line; the next heartbeat ends curl.
    return ("--config", config, "--threads", "1", "--heartbeat", "0.1")


def test_every_command_of_the_tour_works_as_it_stands(
    start_broker, mosquitto, run, tmp_path, options
):
    take_tour(start_broker(*options), mosquitto, run, tmp_path)


# The same with a token, by TLS, and with two private sets. (No bridge publishes a
# private set, so the others are public. A token goes to the server of a URL, so the audit
# names it.)
def test_the_tour_works_with_tokens_and_tls(
    start_broker, mosquitto, run, tmp_path, options, certificate
):
    options = (*options, *certificate.options, *hub.LOOPBACK)
    broker = start_broker(*options, tls=certificate.trust())
    root = tmp_path / "root-token"
    root.touch(mode=0o600)
    root.write_text(broker.add_token("root", admin=True))
    for name in ("gauges", "lists"):
        assert broker.put(f"/sets/{name}", {"private": True}).status == 201
    curl = tmp_path / "home"
    curl.mkdir()
    (curl / ".curlrc").write_text(f'oauth2-bearer = "{broker.token}"\n')
    env = {"TIDINGS_TOKEN_FILE": str(root), "CURL_HOME": str(curl)}
    audit = {"audit ./mirror": f"audit {broker.url}/sets/lists ./mirror"}
    take_tour(broker, mosquitto, run, tmp_path, audit, **env, **certificate.env)


def test_the_description_of_the_house_names_only_files_that_there_are():
    text = (ROOT / "doc/architecture.md").read_text()
    named = re.findall(r"`([a-z]+/[a-z_/]+\.[a-z]+)`", text)
    assert len(named) >= 20
    assert [path for path in named if not (ROOT / path).is_file()] == []


# Folders of tests as the tables name them: `unit/PART/NAME`, `e2e/NAME`, `fuzz/NAME`.
def test_the_tables_of_promises_name_only_tests_that_there_are():
    found = 0
    for page in [ROOT / "doc" / name for name in PROMISES]:
        rows = re.findall(r"^\| .* \|$", page.read_text(), re.M)
        for name in re.findall(r"`((?:unit|e2e|crash|fuzz)/[a-z0-9_/]+)`", "".join(rows)):
            test = ROOT / "tests" / name
            ends = ("_fuzz.c",) if name.startswith("fuzz") else ("_test.c", "_test.py")
            assert any(test.with_name(test.name + e).is_file() for e in ends), name
            found += 1
    assert found >= 80


def test_every_link_of_the_documentation_leads_to_a_page_and_its_heading():
    folders = [ROOT, ROOT / "doc", ROOT / "docker"]
    pages = [page for folder in folders for page in folder.glob("*.md")]
    n_links, broken = follow_links(pages)
    assert broken == []
    assert n_links >= 100


def test_the_documentation_names_only_options_that_there_are(run):
    @functools.cache
    def help_of(command):
        return run("tidings", *command.split(), "--help").output()

    line = re.compile(rf"^    (?:tidings|\$ {PROGRAMS}/tidings) ([a-z]*)(.*)", re.M)
    found = 0
    for path in [ROOT / "README.md", *(ROOT / "doc").glob("*.md")]:
        for command, rest in line.findall(path.read_text()):
            if not help_of(command).startswith("usage:"):  # of a group
                command += f" {rest.split()[0]}"
            for option in re.findall(r" (--[a-z-]+)", rest):
                # As the help has it, not only as the beginning of another option.
                assert f"  {option} " in help_of(command), (path, command, option)
                found += 1
    assert found >= 20
