"""The tour of README.md, command by command, as a reader types it, beside an MQTT
broker, with the configuration that it names; and the options, files and links that
README.md and doc/ name."""

import functools
import re
import shlex

from tidings_test.broker import BIN, ROOT
from tidings_test.mqtt import wait_half

COMMAND = "    $ "
PROGRAMS = "build/release/bin"


def test_every_command_of_the_tour_works_as_it_stands(
    start_broker, mosquitto, run, tmp_path
):
    config = tmp_path / "mqtt.ini"
    example = (ROOT / "doc/mqtt.ini").read_text()
    config.write_text(example.replace("mqtt://127.0.0.1:1883", mosquitto.url))
    # The stream is read until its eighth line; the next heartbeat ends curl.
    broker = start_broker("--config", config, "--threads", "1", "--heartbeat", "0.1")
    wait_half(broker, "in", state="connected")
    mosquitto.wait_subscription("plant/+/changes")
    here = {
        "http://127.0.0.1:8787": broker.url,
        PROGRAMS: str(BIN),
        "-p 1883": f"-p {mosquitto.port}",
        "./mirror": shlex.quote(f"{tmp_path}/mirror"),
        "--max-time 1 ": "",
    }
    readme = (ROOT / "README.md").read_text().splitlines()
    tour = [line[len(COMMAND) :] for line in readme if line.startswith(COMMAND)]
    assert len(tour) >= 9
    for command in tour:
        for what, with_ in here.items():
            command = command.replace(what, with_)
        shell = ("/bin/sh", "-c", command)
        done = run(*shell, cwd=ROOT, env={"TMPDIR": str(tmp_path)})
        assert len(done.out) > 0, command
        assert "about:blank" not in done.output(), command  # a problem+json


def test_the_description_of_the_house_names_only_files_that_there_are():
    text = (ROOT / "doc/architecture.md").read_text()
    named = re.findall(r"`([a-z]+/[a-z_/]+\.[a-z]+)`", text)
    assert len(named) >= 20
    assert [path for path in named if not (ROOT / path).is_file()] == []


def anchors(text):
    """The addresses of the headings within a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)", text, re.M)
    return {re.sub(r"[^a-z0-9 _-]", "", h.lower()).replace(" ", "-") for h in headings}


def test_every_link_of_the_documentation_leads_to_a_page_and_its_heading():
    folders = [ROOT, ROOT / "doc", ROOT / "docker"]
    pages = [page for folder in folders for page in folder.glob("*.md")]
    n_links = 0
    for page in pages:
        for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text()):
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            assert target.exists(), (page, link)
            assert not anchor or anchor in anchors(target.read_text()), (page, link)
            n_links += 1
    assert n_links >= 100


def test_the_documentation_names_only_options_that_there_are(run):
    @functools.cache
    def help_of(command):
        return run("tidings", *command.split(), "--help").output()

    line = re.compile(rf"^    (?:tidings|\$ {PROGRAMS}/tidings) ([a-z]*)(.*)", re.M)
    found = 0
    for path in [ROOT / "README.md", *(ROOT / "doc").glob("*.md")]:
        for command, rest in line.findall(path.read_text()):
            for option in re.findall(r" (--[a-z-]+)", rest):
                # As the help has it, not only as the beginning of another option.
                assert f"  {option} " in help_of(command), (path, command, option)
                found += 1
    assert found >= 20
