"""Deliveries to subscribers: the topic's content, signed, once; and subscribers that
get none. Failures: websub_retry_test."""

import json
import sys

import pytest

from tidings_test import callbacks as cb
from tidings_test import hub, npm
from tidings_test.broker import ROOT
from tidings_test.callbacks import check_links, check_signature
from tidings_test.documentation import Page
from tidings_test.documents import Document

pytestmark = pytest.mark.broker(*hub.QUICK)


# W-080, W-081, W-082, W-083, W-102, W-148, R-296, R-308: looked at while the callback
# has not answered yet.
def test_a_delivery_is_what_the_topic_is(news, callbacks, broker):
    one = callbacks.join(news, "/cb/1?a=b&c=%7E")
    one.hold()
    news.post(3)
    delivery = one.deliveries.wait(1)
    assert (delivery.method, delivery.target) == ("POST", "/cb/1?a=b&c=%7E")
    assert delivery.id
    check_links(delivery, news.topic, hub.url(broker))
    check_signature(delivery, None)
    assert delivery["webhook-id"] is None
    assert delivery["Authorization"] is None

    topic = news.get("notifications")
    assert delivery.all("Content-Type") == [topic["Content-Type"]]
    assert delivery.body == topic.body
    assert len(news.changelist().entries) == 3

    one.release()
    hub.wait_head(news, one)
    assert len(one.deliveries) == 1


# W-140: a set's changes go to its topic, and to no other.
def test_every_set_has_a_topic_of_its_own(news, callbacks, broker):
    other = broker.set()
    one = callbacks.join(news)
    other.post()
    two = callbacks.join(other)
    other.post(2)
    two.wait_last(3)
    news.post(4)
    one.wait_last(4)
    check_links(one.deliveries[0], news.topic, hub.url(broker))
    check_links(two.deliveries[0], other.topic, hub.url(broker))
    assert len(one.deliveries) == len(two.deliveries) == 1
    assert two.accepted[0].after == 1


WEBHOOK = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


# W-100, W-101, W-103, W-106, W-166, R-304
def test_who_gave_a_secret_gets_signatures(news, callbacks, broker):
    secrets = ["s", "a b+c&d=e%26é", "whsec_", "whsec_not base64!", WEBHOOK]
    each = [callbacks.join(news, secret=secret) for secret in secrets]
    listed = news.get("subscriptions").text
    assert not any(secret in listed for secret in secrets if len(secret) > 8)
    each[-1].next(500)
    news.post()
    for callback, secret in zip(each, secrets):
        check_signature(callback.deliveries.wait(1), secret)
    cb.check_webhook(each[-1].deliveries.wait(1), WEBHOOK)
    cb.check_webhook(each[-1].deliveries.wait(2), WEBHOOK)
    assert each[0].deliveries[0]["webhook-id"] is None
    assert not broker.has_said(WEBHOOK)


def keys_of(broker):
    """The hub's public keys."""
    answer = broker.get("/hub/keys")
    assert answer["Content-Type"] == "application/jwk-set+json"
    return answer.json()["keys"]


# W-109: who asks for it gets signatures by the hub's own keys, which outlive a crash; a new
# key has the former one beside it. An administrator alone makes one.
def test_who_asks_for_it_gets_signatures_that_all_can_check(news, callbacks, broker):
    asks = {
        None: {"signature": "v1a"},
        "plain": {"signature": "v1a", "secret": "plain"},
        WEBHOOK: {"signature": "v1a", "secret": WEBHOOK},
    }
    each = {secret: callbacks.join(news, **form) for secret, form in asks.items()}
    without = callbacks.join(news)

    def check(seq, keys):
        news.post()
        for secret, one in each.items():
            one.wait_last(seq)
            cb.check_keys(one.accepted[-1], keys)
            check_signature(one.accepted[-1], secret)
        cb.check_webhook(each[WEBHOOK].accepted[-1], WEBHOOK)
        without.wait_last(seq)
        assert without.accepted[-1]["webhook-signature"] is None

    (first,) = keys_of(broker)
    assert (first["kty"], first["crv"]) == ("OKP", "Ed25519")
    assert (first["use"], first["alg"]) == ("sig", "EdDSA")
    assert first["whpk"].removeprefix("whpk_").replace("+", "-").replace(
        "/", "_"
    ) == first["x"] + "="
    assert hub.find(news, without).get("signature") is None
    assert hub.find(news, each[None])["signature"] == "v1a"
    check(1, [first])
    broker.kill()
    broker.restart()
    check(2, [first])

    assert broker.post("/hub/keys", "").status == 401
    assert broker.operator.post("/hub/keys?grace=x", "").status == 400
    answer = broker.operator.post("/hub/keys?grace=100000", "")
    assert answer.status == 200 and answer.json()["keys"] == keys_of(broker)
    second, former = keys_of(broker)
    assert former["kid"] == first["kid"] != second["kid"]
    assert "ends" in former and "ends" not in second
    check(3, [second, former])
    # At once, without a grace.
    broker.operator.post("/hub/keys?grace=0", "")
    third, former = keys_of(broker)
    assert former["kid"] == first["kid"] and third["kid"] != second["kid"]
    check(4, [third, former])
    broker.stop()
    broker.restart()
    check(5, [third, former])


# W-109: the programs of the page check what the hub sends.
@pytest.mark.parametrize("language", ["py", "mjs"])
def test_the_page_checks_signatures(news, callbacks, broker, run, tmp_path, language):
    one = callbacks.join(news, signature="v1a", form="json")
    news.post()
    delivery = one.deliveries.wait(1)
    names = ("webhook-id", "webhook-timestamp", "webhook-signature")
    headers = {name: delivery[name] for name in names}
    page = Page(ROOT / "doc/receiving.md")
    name = {"py": "from_hub.py", "mjs": "from-hub.mjs"}[language]
    (block,) = [block for block in page.blocks if block.file_name == name]
    (tmp_path / name).write_text("\n".join(block.lines))
    forged = {**headers, "webhook-id": headers["webhook-id"] + "0"}
    old = {**headers, "webhook-timestamp": "1700000000"}
    given = {
        "keys": keys_of(broker),
        "body": delivery.body.decode(),
        "headers": [headers, forged, old],
    }
    (tmp_path / "given.json").write_text(json.dumps(given))
    (tmp_path / f"main.{language}").write_text(MAINS[language])
    command = {"py": sys.executable, "mjs": npm.node()}[language]
    result = run(command, f"main.{language}", cwd=tmp_path)
    assert result.output() == "true false false"


MAINS = {
    "py": """import json
from from_hub import is_from_hub
given = json.load(open("given.json"))
print(*[str(is_from_hub(given["keys"], headers, given["body"].encode())).lower()
        for headers in given["headers"]])
""",
    "mjs": """import { readFileSync } from 'node:fs';
import { isFromHub } from './from-hub.mjs';
const given = JSON.parse(readFileSync('given.json'));
console.log(given.headers.map(headers =>
    isFromHub(given.keys, headers, Buffer.from(given.body))).join(' '));
""",
}


# W-094, W-106: the library of Standard Webhooks verifies a delivery, and parses it.
@pytest.mark.parametrize("form", ["json", "cloudevents", "cloudevent"])
def test_the_library_of_standard_webhooks_takes_it(
    news, callbacks, run, tmp_path, form
):
    one = callbacks.join(news, secret=WEBHOOK, signature="v1a", form=form)
    news.post()
    delivery = one.deliveries.wait(1)
    names = ("webhook-id", "webhook-timestamp", "webhook-signature")
    given = {
        "secret": WEBHOOK,
        "body": delivery.body.decode(),
        "headers": {name: delivery[name] for name in names},
    }
    npm.install(tmp_path)
    (tmp_path / "given.json").write_text(json.dumps(given))
    (tmp_path / "main.mjs").write_text(
        """import { readFileSync } from 'node:fs';
import { Webhook } from 'standardwebhooks';
const { secret, body, headers } = JSON.parse(readFileSync('given.json'));
const webhook = new Webhook(secret);
console.log(JSON.stringify(webhook.verify(body, headers)));
try {
    webhook.verify(body + ' ', headers);
} catch (error) {
    console.log(error.message);
}
"""
    )
    result = run(npm.node(), "main.mjs", cwd=tmp_path)
    assert json.loads(result.out[0]) == json.loads(delivery.body)
    assert "signature" in result.out[1]


# W-100, W-101
@pytest.mark.parametrize("method", ["sha1", "sha256", "sha384", "sha512"])
def test_the_method_of_signatures_is_a_setting(start_broker, callbacks, method):
    news = start_broker("--hub-signature", method).set().create()
    one = callbacks.join(news, secret="s3cr3t")
    news.post()
    check_signature(one.deliveries.wait(1), "s3cr3t", method)


# W-085: and the body of the answer is nobody's business.
def test_every_2xx_is_success(news, callbacks):
    behaviours = [
        cb.answer(200, body="thank you"),
        *(201, 202, 204, 299),
        cb.endless_body,
        cb.slow_read(pause=0.001),
    ]
    each = [callbacks.join(news) for _ in behaviours]
    for callback, behaviour in zip(each, behaviours):
        callback.always(behaviour)
    news.post()
    for callback in each:
        hub.wait_head(news, callback)
    news.post()
    for callback in each:
        callback.wait_last(2)
        hub.wait_head(news, callback)
        assert len(callback.deliveries) == len(callback.accepted) == 2


# W-086, R-305
def test_a_410_ends_the_subscription(news, callbacks):
    fence = callbacks.join(news)
    one = callbacks.join(news)
    one.always(410)
    news.post()
    one.deliveries.wait(1)
    hub.wait_gone(news, one)
    hub.fence(news, fence)
    hub.fence(news, fence)
    assert len(one.deliveries) == 1

    # It may come back: from then on, as anybody.
    one.always(200)
    hub.join(news, one)
    hub.fence(news, fence)
    one.wait_last(4)
    assert one.accepted[0].after == 3


# W-092, R-310: the sick ones hang as long as the test lasts.
@pytest.mark.broker(*hub.QUICK, "--hub-timeout", "600", "--hub-connections", "40")
def test_who_hangs_delays_nobody(news, callbacks, start_callbacks):
    other_host = start_callbacks("127.0.0.3")
    healthy = callbacks.join(news)
    sick = [other_host.join(news) for _ in range(60)]
    for callback in sick:
        callback.always(cb.hang)
    for _ in range(100):
        healthy.wait_last(news.post().last)
    sick[0].deliveries.wait(1)  # they did, and do, hang
    assert not any(len(callback.accepted) for callback in sick)


# W-160, W-161: in every spelling. The log states why: the answer to the request cannot
# (W-031).
def test_addresses_that_are_not_allowed_are_not_called(news, callbacks, broker):
    urls = [
        "http://10.1.2.3:9/cb/1",
        "http://169.254.169.254/cb/1",
        "http://[fe80::1]:9/cb/1",
        "http://0x0a010203:9/cb/1",
        "http://[::ffff:10.1.2.3]:9/1",
        "http://0.0.0.0:9/cb/1",
        "http://167838211:9/cb/1",
        "http://10.66051:9/cb/1",
    ]
    fence = callbacks.join(news)
    for url in urls:
        hub.check_taken(hub.subscribe(news, url))
        hub.wait_gone(news, url)
    broker.wait_said("a callback did not confirm")
    broker.wait_said("its address 10.1.2.3 may not be called")
    hub.fence(news, fence)
    assert len(hub.subscriptions(news)) == 1


# R-320, W-042: a subscriber of the framework topic gets the removal of the set, and is
# denied then.
def test_a_removed_set_is_told_before_it_is_denied(news, callbacks):
    news.post()  # its creation is announced by then
    plain = callbacks.join(news)
    framework = callbacks.add()
    hub.check_taken(hub.subscribe(hub.framework(news), framework))
    hub.wait_head(news, framework)
    framework.next(503, 503, 503)
    assert news.delete().status == 204
    plain.denials.wait(1)
    framework.deliveries.wait(1)
    # A set of the same name is another one, and announced to others.
    news.create()

    denial = framework.denials.wait(1)
    assert cb.parameter(denial, "hub.topic") == news.framework_topic
    assert len(framework.deliveries) == 4
    told = framework.deliveries[3]
    assert told.order < denial.order
    assert told.is_accepted
    deleted = "rs:md[@change='deleted' and @capability='capabilitylist']"
    assert Document(told.body).count(f"/s:urlset/s:url[1]/{deleted}") == 1
    assert Document(told.body).count("//rs:md[@change='created']") == 0
