"""What each version promises to later ones (doc/compatibility.md), as tests/data keeps it:
lists of interfaces, the settings, and a conversation. tests/data/README.md says how a
release makes them; e2e/data_directory has its data directories and backups.

A line or member may be added. One that is lost breaks somebody's program.
"""

import re

import pytest

from data import conversation, interface, kept


def versions():
    return [path.parent for path in sorted(kept.DATA.glob("*/conversation.jsonl"))]


@pytest.fixture(params=versions(), ids=lambda path: path.name)
def version(request):
    """The folder of an earlier version."""
    return request.param


def is_accepted(line, run):
    """True if there is the command, or its option, though no help shows it."""
    words, _, option = line.partition(" --")
    # No value where one belongs is another mistake than an unknown option.
    tried = f"--{option.removesuffix('=')}" if option else "--help"
    tried += "" if not option or option.endswith("=") else "=x"
    done = run(*words.split(), tried, status=None)
    return "there is no " not in done.errors()


# A struct of libtidings that grows at its end needs functions of a new symbol version
# (tidings.map); then this test compares its line with those of the former one.
@pytest.mark.parametrize("name", ["abi.txt", "commands.txt", "http.txt", "metrics.txt"])
def test_no_line_of_an_interface_is_lost(version, name, broker, run):
    known = (version / name).read_text().splitlines()
    now = list(interface.lists(broker)[name])
    assert len(known) > 50
    lost = [line for line in known if line not in set(now)]
    if name == "commands.txt":
        lost = [line for line in lost if not is_accepted(line, run)]
    assert lost == []
    if name == "http.txt":
        assert demanded(now) - demanded(known) - foreign(known, now) == set()


def demanded(lines):
    """Members that bodies of requests must have."""
    bodies = {found[1] for line in lines if (found := re.search(r" takes \S+ (\w+)", line))}
    while True:
        inner = {
            found[2]
            for line in lines
            if (found := re.match(r"(\w+)\S* is ([A-Z]\w+)$", line)) and found[1] in bodies
        }
        if inner <= bodies:
            break
        bodies |= inner
    parts = [re.match(r"(\w+)\S* requires ", line) for line in lines]
    return {part.string for part in parts if part and part[1] in bodies}


def foreign(known, now):
    """What schemas demand that the earlier version did not have."""
    paths = {re.split(r" (?:is|requires|may be) ", line)[0] for line in known}
    return {
        line
        for line in now
        if " requires " in line and line.partition(" requires ")[0] not in paths
    }


# Every setting with a value, at once, also of a bridge; of those with a place for one
# alone, commands.txt has the names.
def test_the_settings_are_read_without_a_warning(version, run, tmp_path):
    text = (version / "tidingsd.ini").read_text()
    lines = re.findall(r"^#([a-z0-9-]+ = .*|\[mqtt NAME\])$", text, re.M)
    lines = [line for line in lines if not re.search(r"= .*([A-Z]{2}|\bN$)", line)]
    assert len(lines) > 50
    lines[lines.index("[mqtt NAME]")] = "[mqtt hall]\nurl = mqtt://127.0.0.1:1\nout = *"
    config = tmp_path / "tidingsd.ini"
    config.write_text("\n".join(lines) + "\n")
    done = run("tidingsd", "--config", config, "--data", tmp_path / "data", "--check")
    assert (done.out[:], done.errors()) == (["tidingsd: settings are good"], "")


def test_the_conversation_goes_as_before(version, start_broker, callbacks):
    talk = conversation.Talk(start_broker(), callbacks.add())
    steps = conversation.read(version / "conversation.jsonl")
    assert len(steps) > 50
    lost = []
    for step in steps:
        told = step.get("request") or " ".join(step.get("run", [])) or "push"
        lost += conversation.lost(step["answer"], talk.answer(step), told)
    assert lost == []
