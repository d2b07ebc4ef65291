"""GET /config: every option of the running broker, and where it is from."""

import signal

import pytest


@pytest.fixture
def ini(tmp_path):
    return tmp_path / "tidingsd.ini"


def options(broker):
    answer = broker.operator.get("/config")
    assert (answer.status, answer["Cache-Control"]) == (200, "no-store")
    found = {option.pop("name"): option for option in answer.json()["options"]}
    assert len(found) == len(answer.json()["options"])
    return found


def test_each_option_has_its_value_and_its_origin(start_broker, ini):
    ini.write_text(
        "# one\nrotate-age = 0.25\nheartbeat = 5\nresource-list-keep = 7\n"
        "compress-streams = off\nmax-body = 2M\nlinger = 1.5\n"
        "[mqtt a]\nurl = mqtt://127.0.0.1:1\nout = *\n"
    )
    broker = start_broker("--config", ini, "--heartbeat", "6", "--hub-trust-simple")
    found = options(broker)
    for name, option in {
        "rotate-age": {"value": "0.25", "default": "86400", "place": f"{ini}:2"},
        "resource-list-keep": {"value": "7", "default": "daily", "place": f"{ini}:4"},
        "compress-streams": {"value": "off", "default": "on", "place": f"{ini}:5"},
        "max-body": {"value": "2097152", "default": "50M", "place": f"{ini}:6"},
        "linger": {"value": "1.5", "default": "0", "place": f"{ini}:7"},
    }.items():
        assert found[name] == {**option, "from": "file", "reload": False}, name
    of_line = {"from": "command line", "reload": False}
    assert found["heartbeat"] == {"value": "6", "default": "20", **of_line}
    assert found["hub-trust-simple"] == {"value": "yes", "default": "no", **of_line}
    assert found["listen"]["value"] == f"127.0.0.1:{broker.port}"
    of_default = {"from": "default", "reload": False}
    assert found["content"] == {"value": "none", "default": "none", **of_default}
    assert found["tls-cert"] == {"value": "", "from": "default", "reload": True}
    assert not {"config", "help", "version"} & found.keys()


def test_every_option_of_the_help_is_there(broker, run):
    names = {
        line.split()[0].removeprefix("--")
        for line in run("tidingsd", "--help").output().splitlines()
        if line.startswith("  --")
    }
    wishes = {"config", "example", "routes", "limits", "version", "help"}
    wishes |= {"openapi", "asyncapi"}
    assert names - options(broker).keys() <= wishes


# A reload changes what it can; the others keep the value that the broker uses.
def test_a_reload_shows(start_broker, ini):
    ini.write_text("log-level = info\nheartbeat = 5\n")
    broker = start_broker("--config", ini)
    ini.write_text("\n\nlog-level = debug\nheartbeat = 6\n")
    broker.process.signal(signal.SIGHUP)
    broker.wait_said('msg="reloaded"')
    found = options(broker)
    level, heartbeat = found["log-level"], found["heartbeat"]
    assert (level["value"], level["place"]) == ("debug", f"{ini}:3")
    assert level["reload"] and not heartbeat["reload"]
    assert (heartbeat["value"], heartbeat["place"]) == ("5", f"{ini}:2")


def test_secrets_of_urls_are_left_out(start_broker, ini):
    broker = start_broker(
        "--jwt-keys=https://127.0.0.1:1/keys?key=SECRET",
        "--jwt-issuer=https://id.example/",
        "--jwt-audience=us",
    )
    answer = broker.holder(None).get("/config")
    assert answer.status == 401
    found = broker.operator.get("/config")
    assert b"SECRET" not in found.body
    assert b'"https://127.0.0.1:1/keys?..."' in found.body
