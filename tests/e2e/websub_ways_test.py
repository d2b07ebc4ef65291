"""The ways to a callback, and to the hub: TLS and IPv6."""

import pytest

from tidings_test import callbacks as cb
from tidings_test import hub
from tidings_test.callbacks import check_links, check_signature

pytestmark = pytest.mark.broker(*hub.QUICK)


def secure(callbacks, start_proxy, certificate):
    """The callbacks by HTTPS."""
    front = start_proxy(callbacks.port, behind=callbacks.host, tls=certificate.serve())
    return front.url


# W-027, W-080: verified, and delivered to, over TLS that is checked.
def test_a_callback_may_be_https(start_broker, callbacks, start_proxy, certificate):
    news = start_broker(*hub.QUICK, env=certificate.env).set().create()
    one = callbacks.add("/cb/1?a=b")
    url = secure(callbacks, start_proxy, certificate) + one.target
    hub.join(news, url, secret="s3cr3t")
    one.next(500)
    one.wait_last(news.post(2000).last)  # many records of TLS
    check_signature(one.deliveries[0], "s3cr3t")
    hub.wait_head(news, url)
    hub.check_taken(hub.unsubscribe(news, url))
    hub.wait_gone(news, url)


# A host that cannot prove that it is the callback's gets no request.
def test_a_certificate_that_is_not_trusted_confirms_nothing(
    news, callbacks, start_proxy, certificate
):
    one = callbacks.add()
    url = secure(callbacks, start_proxy, certificate) + one.target
    hub.check_taken(hub.subscribe(news, url))
    hub.wait_gone(news, url)
    assert not hub.subscriptions(news)
    assert not len(callbacks.requests)


# W-083: with TLS the hub and its topics have https URLs in deliveries.
def test_a_broker_with_tls_names_itself_so(start_broker, callbacks, certificate):
    broker = start_broker(*certificate.options, tls=certificate.trust())
    news = broker.set().create()
    assert hub.url(broker).startswith("https://")
    one = callbacks.join(news)
    assert cb.parameter(one.verifications[0], "hub.topic") == news.topic
    one.wait_last(news.post(3).last)
    check_links(one.deliveries[0], news.topic, hub.url(broker))


# W-027, W-080: an address of IPv6 stands in brackets, in the URL and in Host.
def test_a_callback_may_be_at_ipv6(news, start_callbacks):
    one = start_callbacks("::1").join(news, "/cb/1?a=b")
    host = one.server.url.removeprefix("http://")
    assert host.startswith("[")
    one.wait_last(news.post(3).last)
    assert one.deliveries[0].all("Host") == [host]
    assert one.verifications[0].all("Host") == [host]
