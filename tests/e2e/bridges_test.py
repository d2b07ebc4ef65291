"""Bridges to MQTT brokers as their operator meets them: the broker's reports of them,
its start and end with them, and a check of the documentation."""

import json

import pytest

from tidings_test.broker import ROOT
from tidings_test.certificates import Certificate
from tidings_test.http import JSON
from tidings_test.mqtt import QUICK, bridge_config, half, wait_half
from tidings_test.sets import entries
from tidings_test.waiting import wait_for

# Both directions.
SECTION = (
    *("[mqtt plant]", "prefix = tell", "out = demo", "in = plant/+/changes -> +"),
    QUICK,
)


@pytest.fixture
def start_plant(start_bridge):
    """start_plant(mosquitto, "user = me"): starts a broker with that section."""

    def start(mosquitto, *lines):
        return start_bridge(mosquitto, *SECTION, *lines, options=("--threads", "1"))

    return start


@pytest.fixture
def check_start(run, tmp_path):
    """check_start(text, "--check", status=2): runs the broker with that configuration
    to its end, and returns what it has said."""

    def start(text, *options, status=0):
        config = tmp_path / "tidingsd.ini"
        config.write_text(text)
        done = run(
            *("tidingsd", "--config", config, "--data", tmp_path / "data"),
            *("--listen", "127.0.0.1:0", *options),
            status=status,
        )
        return done.output() + done.errors()

    return start


def text(broker, path):
    answer = broker.get(path)
    assert answer.status == 200
    return answer.text


def wait_part(broker, path, part):
    """Wait until the answer has that part."""
    wait_for(f"{part!r} at {path}", lambda: part in text(broker, path))


def wait_ready(broker):
    wait_half(broker, "out", state="connected")
    wait_half(broker, "in", state="connected")


def wait_metrics(broker, series, is_so):
    """Wait until the value of the series is so, and return all values."""

    def look():
        metrics = broker.metrics()
        return is_so(metrics[series]) and metrics

    return wait_for(series, look)


def check_metrics(metrics, **values):
    """The values of tidings_mqtt_NAME are these."""
    now = {name: metrics[f"tidings_mqtt_{name}"] for name in values}
    assert now == values


def test_a_broker_without_bridges_says_so(broker):
    answer = broker.get("/bridges")
    assert (answer.status, answer.text) == (200, '{"bridges":[]}\n')
    assert answer["Content-Type"] == JSON
    assert answer["Cache-Control"] == "no-store"
    assert text(broker, "/readyz") == "ready\n"
    refused = broker.post("/bridges", "x", "text/plain")
    assert (refused.status, refused["Allow"]) == (405, "GET, HEAD")
    check_metrics(broker.metrics(), connected=0)
    assert not (broker.data / "mqtt.db").exists()


# GET /bridges, /readyz and /metrics show what went both ways.
def test_a_bridge_at_work_is_reported(start_plant, mosquitto):
    broker = start_plant(mosquitto)
    wait_ready(broker)
    mosquitto.wait_subscription("plant/+/changes")
    assert text(broker, "/readyz") == "ready\n"
    broker.set("demo").post(3)
    wait_half(broker, "out", acknowledged=1)
    wait_for("no lag", lambda: half(broker, "out")["lag"] == 0)
    teller = mosquitto.tell()
    teller.say("plant/haven/changes", json.dumps(entries(2)))
    teller.say("plant/x/changes", "{")
    wait_half(broker, "in", posted=1)
    wait_half(broker, "in", rejected=1)

    (bridge,) = broker.get("/bridges").json()["bridges"]
    facts = {"name": "plant", "url": mosquitto.url, "prefix": "tell", "version": "5"}
    assert {name: bridge[name] for name in facts} == facts
    facts = {"connections": 1, "sets": 1, "lag": 0, "setsBehind": 0}
    assert {name: bridge["out"][name] for name in facts} == facts
    assert (bridge["in"]["received"], bridge["in"]["entries"]) == (2, 2)
    rejected = "tidings_mqtt_rejected_total"
    metrics = wait_metrics(broker, rejected, lambda n: n >= 1)
    check_metrics(
        metrics,
        connected=2,
        connections_total=2,
        lag_entries=0,
        received_total=2,
        posted_total=1,
        rejected_total=1,
        left_out_entries_total=0,
    )
    assert metrics["tidings_mqtt_published_total"] >= 1


# It is a warning, not a failure: the broker takes posts.
def test_an_mqtt_broker_that_is_away_is_reported_until_it_is_back(
    start_plant, mosquitto
):
    broker = start_plant(mosquitto)
    wait_ready(broker)
    mosquitto.stop()
    for way in ("out", "in"):
        warning = f"warning: bridge plant, {way}: not connected since 20"
        wait_part(broker, "/readyz", warning)
    assert text(broker, "/readyz").startswith("ready\n")
    broker.set("demo").post(5)
    assert wait_half(broker, "out", lag=5, setsBehind=1)["slowest"]["lag"] == 5
    failures = "tidings_mqtt_failures_total"
    metrics = wait_metrics(broker, failures, lambda n: n >= 2)
    check_metrics(metrics, connected=0, lag_entries=5)
    assert metrics['tidings_set_lag_entries{readers="bridges",set="demo"}'] == 5

    mosquitto.restart()
    wait_ready(broker)
    lag = "tidings_mqtt_lag_entries"
    metrics = wait_metrics(broker, lag, lambda n: n == 0)
    check_metrics(metrics, connected=2, directions=2, connections_total=4)
    assert text(broker, "/readyz") == "ready\n"


# Nobody is there: the broker starts, and ends, all the same.
def test_an_mqtt_broker_out_of_reach_delays_neither_start_nor_end(
    start_broker, mosquitto
):
    mosquitto.stop()
    broker = start_broker("--mqtt", mosquitto.url)
    broker.set("demo").post()
    warning = "warning: bridge mqtt, out: not connected since 20"
    wait_part(broker, "/readyz", warning)
    wait_part(broker, "/bridges", '"why":"')
    (bridge,) = broker.get("/bridges").json()["bridges"]
    assert (bridge["name"], bridge["prefix"]) == ("mqtt", "tidings")
    assert half(broker, "out")["connections"] == 0
    assert "in" not in bridge
    broker.stop()


# A password is in no answer and in no log, not even a wrong one.
def test_a_password_is_kept_secret(start_plant, start_mosquitto, tmp_path):
    mosquitto = start_mosquitto(user="karin", password="other")
    password = tmp_path / "password"
    password.write_text("fjordsecret\n")
    broker = start_plant(mosquitto, "user = karin", f"password-file = {password}")
    wait_part(broker, "/bridges", '"why":"')
    broker.wait_said("cannot connect to the MQTT broker")
    bridges = text(broker, "/bridges")
    assert "fjordsecret" not in bridges and "karin" not in bridges
    assert "fjordsecret" not in text(broker, "/readyz")
    broker.stop()
    assert not broker.has_said("fjordsecret")


# Exit status 2 where a setting is wrong, 1 where the directory is.
def test_a_bridge_that_cannot_be_opened_ends_the_start(
    check_start, mosquitto, tmp_path
):
    lines = (*SECTION, f"password-file = {tmp_path}/none", "user = a")
    said = check_start(bridge_config(mosquitto, *lines), status=2)
    assert "plant" in said
    assert "/none: No such file or directory" in said

    (tmp_path / "data").mkdir(exist_ok=True)
    text = "this is no database, but it is long enough to be taken for one"
    (tmp_path / "data/mqtt.db").write_text(text)
    said = check_start(bridge_config(mosquitto, *SECTION), status=1)
    assert "cannot start" in said
    assert "mqtt.db" in said


# doc/mqtt.ini as it is, and the section with every key that doc/bridging.md shows.
def test_the_configurations_of_the_documentation_are_good(check_start, tmp_path):
    example = (ROOT / "doc/mqtt.ini").read_text()
    assert check_start(example, "--check") == "tidingsd: settings are good"

    Certificate(tmp_path / "certificate")
    for name, file in (("ca", "root"), ("cert", "cert"), ("key", "key")):
        (tmp_path / "certificate" / f"{file}.pem").rename(tmp_path / f"{name}.pem")
    (tmp_path / "password").write_text("p\n")
    manual = (ROOT / "doc/bridging.md").read_text()
    _, head, rest = manual.partition("    [mqtt plant]\n")
    section = (head + rest.partition("\n\n")[0]).replace("    ", "")
    section = section.replace("/etc/tidings", str(tmp_path))
    assert section.count("\n") > 10
    assert check_start(section, "--check") == "tidingsd: settings are good"
