"""A set names its channels at MQTT brokers. The bridges go to a port where nobody
listens: the named channels do not depend on a connection."""

REL = "urn:tidings:1:mqtt"
URL = "mqtt://127.0.0.1:1"

CONFIG = f"""\
[mqtt all]
url = {URL}
out = *
[mqtt some]
url = {URL}
public-url = mqtts://mqtt.example.org
prefix = plant & co
form = xml
out = demo
[mqtt secret]
url = {URL}
prefix = secret
public-url = none
out = *
[mqtt inwards]
url = {URL}
in = demo/# -> demo
"""


def check_channels(one_set, *channels):
    """The links of that relation in the set's JSON and in its Capability List are
    `channels`, pairs of href and type, in that order."""
    links = [link for link in one_set.state()["links"] if link["rel"] == REL]
    assert [(link["href"], link["type"]) for link in links] == list(channels)
    capabilities = one_set.get("capabilitylist.xml").document()
    capabilities.check_valid()
    links = capabilities.all(f"/*/rs:ln[@rel='{REL}']")
    assert [(link.get("href"), link.get("type")) for link in links] == list(channels)


def posted(broker, name):
    made = broker.set(name)
    made.post()
    return made


#
def test_each_set_names_the_bridges_that_publish_its_changes(start_broker, tmp_path):
    config = tmp_path / "t.ini"
    config.write_text(CONFIG)
    broker = start_broker("--config", config)
    some = "mqtts://mqtt.example.org/plant%20%26%20co/demo/notifications"
    check_channels(
        posted(broker, "demo"),
        (f"{URL}/tidings/demo/notifications", "application/json"),
        (some, "application/xml"),
    )
    books = (f"{URL}/tidings/books/notifications", "application/json")
    check_channels(posted(broker, "books"), books)


# and without a bridge a set names no channel.
def test_every_set_names_the_bridge_of_the_option_mqtt(start_broker):
    broker = start_broker("--mqtt", URL)
    channel = (f"{URL}/tidings/demo/notifications", "application/json")
    check_channels(posted(broker, "demo"), channel)
    check_channels(posted(start_broker(), "demo"))
