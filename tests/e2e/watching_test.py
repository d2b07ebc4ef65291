"""doc/watching.md: Prometheus scrapes a broker as the page says, the alerts and the
dashboard name only what the broker has, and each alert fires when it should."""

import functools
import json
import re

import pytest

from tidings_test import hub
from tidings_test.broker import ROOT
from tidings_test.documentation import Page
from tidings_test.feed import Feed
from tidings_test.prometheus import Prometheus, promtool
from tidings_test.waiting import wait_for

PAGE = ROOT / "doc/watching.md"
RULES = ROOT / "packaging/prometheus/tidings.rules.yml"
ALERTS = ROOT / "tests/e2e/alerts.test.yml"
DASHBOARD = ROOT / "packaging/grafana/tidings.json"

# Series of Prometheus itself.
OF_PROMETHEUS = {"up", "ALERTS"}

ROWS = (
    *("Overview", "Posts", "Push", "Subscribers", "Hub", "Bridges", "Relays", "Disk"),
    *("Requests", "Limits", "Certificates and log", "Harvests"),
)


def families(expression):
    """The families that an expression names."""
    text = re.sub(r'"[^"]*"', "", expression)
    text = re.sub(r"\{[^}]*\}|\b(?:by|on|without) *\([^)]*\)|\[[^]]*\]", "", text)
    words = re.findall(r"[a-zA-Z_][a-zA-Z0-9_]*\b(?! *\()", text)
    names = {word for word in words if "_" in word or word in OF_PROMETHEUS}
    return {re.sub(r"_(bucket|count|sum)$", "", name) for name in names}


def panels():
    return json.loads(DASHBOARD.read_text())["panels"]


def queries():
    """Each query of the dashboard, as Grafana sends it for all brokers."""
    here = {"$job": ".*", "$instance": ".*", "$__rate_interval": "1m"}
    for panel in panels():
        for target in panel.get("targets", ()):
            expression = target["expr"]
            for what, with_ in here.items():
                expression = expression.replace(what, with_)
            assert "$" not in expression, expression
            yield expression


@pytest.fixture
def page_config(certificate, tmp_path):
    """page_config(broker): the configuration of the page for a broker with tokens and
    TLS, with short pauses."""

    def make(broker):
        page = Page(PAGE)
        job = next(block for block in page.blocks if "    scheme: https" in block.lines)
        config = page.file("prometheus.yml") + "\n".join(job.lines) + "\n"
        (tmp_path / "token").write_text(broker.add_token("prometheus", observe=True))
        here = {
            "/etc/prometheus/tidings.token": f"{tmp_path}/token",
            "/etc/ssl/certs/ca-certificates.crt": str(certificate.ca),
            "127.0.0.1:8787": f"127.0.0.1:{broker.port}",
            "packaging/": f"{ROOT}/packaging/",
            "15s": "100ms",
        }
        for what, with_ in here.items():
            assert what in config, what
            config = config.replace(what, with_)
        return f"global: {{evaluation_interval: 100ms}}\n{config}"

    return make


BRIDGE = "[mqtt plant]\nurl = mqtt://127.0.0.1:1\nout = *\nas = plant\n"


# A broker with tokens and TLS, a slow reader of each kind, and the configuration as it
# stands on the page: every query of the dashboard and every alert can be computed.
def test_prometheus_scrapes_a_broker_as_the_page_says(
    start_broker, certificate, site, callbacks, page_config, tmp_path
):
    (tmp_path / "bridge.ini").write_text(BRIDGE)
    options = (*certificate.options, "--config", tmp_path / "bridge.ini")
    broker = start_broker(*options, *hub.LOOPBACK, tls=certificate.trust())
    broker.add_token("root", admin=True)
    broker.add_token("plant", subscribe=["*"])
    config = page_config(broker)
    news = broker.set().create()
    assert news.put_harvest(held_back=3, left_out=1).status == 204
    callbacks.join(news).hold()
    slow = news.websocket("after=0", narrow=True)
    for _ in range(10):
        news.post(100, size=10000)
    Feed(broker, site, callbacks).register()
    assert broker.get("/nothing").status == 404
    lag = "tidings_set_lag_entries"
    wait_for("each lag", lambda: len(broker.metrics().samples_of(lag)) == 3)

    prometheus = Prometheus(tmp_path / "prometheus", config)
    try:
        prometheus.wait_scrapes(5)
        for query in queries():  # between a scrape that was late and the next: nothing
            wait_for(f"an answer to {query}", functools.partial(prometheus.query, query))
        wait_for("the rules", lambda: are_evaluated(rules(prometheus)))
        assert {rule["health"] for rule in rules(prometheus)} == {"ok"}
        scraped = prometheus.ask("metadata")
        assert scraped.keys() == broker.metrics().families.keys()
        assert prometheus.ask("targets")["activeTargets"][0]["lastError"] == ""
    finally:
        prometheus.end()
    slow.abort()


def rules(prometheus):
    groups = prometheus.ask("rules")["groups"]
    return [rule for group in groups for rule in group["rules"]]


def are_evaluated(rules):
    return rules and all(rule["health"] != "unknown" for rule in rules)


def test_promtool_finds_nothing_wrong_with_the_metrics(broker):
    broker.set().post(3)
    assert promtool("check", "metrics", stdin=broker.get("/metrics").text) == ""


def test_the_dashboard_shows_only_what_the_broker_has(broker):
    known = broker.metrics().families.keys() | OF_PROMETHEUS
    n = 0
    for query in queries():
        assert families(query) and families(query) <= known, query
        n += 1
    assert n >= 60


# Grafana takes a panel without a type, or two with one id, and shows nothing.
def test_the_dashboard_is_one_that_grafana_loads():
    dashboard = json.loads(DASHBOARD.read_text())
    assert dashboard["schemaVersion"] >= 30 and dashboard["uid"] and dashboard["title"]
    assert "id" not in dashboard  # or the import replaces another one
    variables = [each["name"] for each in dashboard["templating"]["list"]]
    assert variables == ["datasource", "job", "instance"]
    ids = [panel["id"] for panel in panels()]
    assert len(set(ids)) == len(ids)
    assert tuple(p["title"] for p in panels() if p["type"] == "row") == ROWS
    taken = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {
            (place["x"] + dx, place["y"] + dy)
            for dx in range(place["w"])
            for dy in range(place["h"])
        }
        assert place["x"] + place["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
        if panel["type"] == "row":
            continue
        assert panel["type"] in ("timeseries", "stat", "bargauge")
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        refs = [target["refId"] for target in panel["targets"]]
        assert refs and len(set(refs)) == len(refs), panel["title"]


def alerts():
    """The alerts by their names: the text of each."""
    parts = re.split(r"^ +- alert: (\S+)$", RULES.read_text(), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def test_each_alert_fires_when_it_should_and_only_then():
    promtool("check", "rules", RULES)
    promtool("test", "rules", ALERTS)
    named = set(re.findall(r'alertname="(\w+)"', ALERTS.read_text()))
    assert named == alerts().keys()


def test_each_alert_is_of_what_the_broker_has_and_leads_to_its_section(broker):
    known = broker.metrics().families.keys() | OF_PROMETHEUS
    sections = re.split(r"^## (.*)$", PAGE.read_text(), flags=re.M)
    by_anchor = {
        heading.lower().replace(" ", "-"): text
        for heading, text in zip(sections[1::2], sections[2::2])
    }
    for name, text in alerts().items():
        expression = re.search(r"expr: (.*?)\n +(?:for|labels):", text, re.S)[1]
        assert families(expression) and families(expression) <= known, name
        anchor = re.search(r"page: doc/watching.md#(\S+)", text)[1]
        assert f"`{name}`" in by_anchor[anchor], name
    assert set(re.findall(r"`(Tidings\w+)`", PAGE.read_text())) == alerts().keys()


# The page names families by their beginnings.
def test_the_page_names_what_is_measured(broker):
    known = broker.metrics().families
    _, _, section = PAGE.read_text().partition("\n## What is measured\n")
    table = "\n".join(re.findall(r"^\| `.*$", section, re.M))
    beginnings = tuple(re.findall(r"`([a-z_]+)…?`", table))
    for beginning in beginnings:
        assert any(family.startswith(beginning) for family in known), beginning
    assert [family for family in known if not family.startswith(beginnings)] == []
