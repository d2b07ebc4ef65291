"""tests/bench, without measuring anything: its pages show what was measured last, its tables
name the same scenarios, and its programs speak to each peer."""

import re

import pytest
from lxml import etree

from tidings_test.broker import BIN, ROOT

BENCH = ROOT / "tests/bench"


# Tables, targets and charts are what tests/bench/record makes of the kept figures.
def test_the_pages_show_what_was_measured_last(run):
    assert run(BENCH / "record", "--check").out[:] == []
    page = (BENCH / "README.md").read_text() + (ROOT / "README.md").read_text()
    charts = re.findall(r"\((?:../../)?(doc/speed-[a-z-]+\.svg)\)", page)
    assert len(charts) >= 7
    for chart in charts:
        texts = [text.text for text in etree.parse(ROOT / chart).iter("{*}text")]
        assert any(re.search(r"\d+ cores, load [0-9.]+", text) for text in texts), chart


# A peer that is not installed is named.
def test_measuring_names_the_peers_that_are_missing(run):
    rows = [line.split("|") for line in run(BENCH / "run", "--rows").out[:]]
    peers = {peer for row in rows for peer in [*row[2].split(), *row[3].split()]}
    missing = set()
    for peer in peers:
        if not peer.startswith(("tidings", "floor")):
            asked = run(BENCH / "peer", "--has", peer, status=None)
            missing |= set(asked.out[:])
    options = ("--build", BIN.parent, "--turns", "0", "--peers")
    done = run(BENCH / "run", *options, status=None)
    assert {line.removeprefix("left out: ") for line in done.err[:]} == missing
    assert done.status == (1 if missing else 0)


# Nobody measures here: the help of tests/bench/run and the page name the same scenarios,
# and the page describes each server that is measured.
def test_the_page_about_measuring_names_all_scenarios(run):
    page = (BENCH / "README.md").read_text()
    table = page.split("| scenario | load |")[1].split("| figure | what |")[0]
    names = re.findall(r"`([^`]+)`", "".join(re.findall(r"^\| (`.*?) \|", table, re.M)))
    patterns = [re.compile(re.sub("[A-Z]+", "[a-z0-9-]+", name)) for name in names]
    rows = [line.split("|") for line in run(BENCH / "run", "--rows").out[:]]
    help_text = run(BENCH / "run", "--help").output()
    who = page.split("## Who is compared")[1].split("\n## ")[0]
    assert len(rows) >= 15
    for name, area, compared, peers, program, load in rows:
        assert any(p.fullmatch(name) for p in patterns), name
        assert re.search(rf"^  {name} +{re.escape(load)}", help_text, re.M), name
        for server in [*compared.split(), *peers.split()]:
            assert f"`{server}`" in who, server
        assert program.split()[0] in page
    for pattern in patterns:
        assert any(pattern.fullmatch(row[0]) for row in rows), pattern


# The smallest load that there is: each entry is answered, and comes once.
@pytest.mark.parametrize("peer", ["nchan", "redis", "nats", "mosquitto"])
def test_a_fan_out_loses_nothing_at_a_peer(run, tmp_path, peer):
    start = start_of(run, tmp_path, peer)
    load = ("--subscribers", "65", "--entries", "3", "--seconds", "0.1", "--warm", "0.1")
    done = run(BIN.parent / "bench/bench_fanout", *load, *start)
    figures = dict(re.findall(r"(\S+)=(\S+)", done.output()))
    assert float(figures["deliveries_s"]) > 0
    assert (figures["lost"], figures["repeated"], figures["closed"]) == ("0", "0", "0")


@pytest.mark.parametrize("entries", ["1", "3"])
@pytest.mark.parametrize("peer", ["redis-aof", "jetstream", "postgresql"])
def test_a_peer_answers_every_post(run, tmp_path, peer, entries):
    start = start_of(run, tmp_path, peer)
    load = ("--entries", entries, "--total", "999")
    done = run(BIN.parent / "bench/bench_ingest", *load, *start)
    figures = dict(re.findall(r"(\S+)=(\S+)", done.output()))
    assert float(figures["entries_s"]) > 0


@pytest.mark.parametrize("signed", [(), ("--signed",)])
@pytest.mark.parametrize("log", [False, True])
def test_the_floor_calls_each_callback_once(run, tmp_path, signed, log):
    floor = (BIN.parent / "bench/bench_floor", *(("--log", tmp_path / "log") if log else ()))
    load = ("--callbacks", "20", "--entries", "3", "--posts", "5", *signed)
    done = run(BIN.parent / "bench/bench_webhooks", *load, "--", *floor)
    figures = dict(re.findall(r"(\S+)=(\S+)", done.output()))
    assert (figures["posts"], figures["per_delivery"]) == ("5", "3.00")
    assert (figures["lost"], figures["repeated"], figures["unanswered"]) == ("0", "0", "0")


def start_of(run, tmp_path, peer):
    """The end of a command line: any core, and the peer."""
    if run(BENCH / "peer", "--has", peer, status=None).status:
        pytest.skip(f"{peer} is not installed")
    tmp_path.chmod(0o755)  # PostgreSQL is another user
    cores = ("--server-core", "-1", "--own-core", "-1")
    return (*cores, "--", BENCH / "peer", peer, "18099", tmp_path)
