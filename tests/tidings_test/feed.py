"""A foreign Source of documents, and the relay by which a broker delivers them.

    feed = Feed(broker, site, callbacks).register()
    one = feed.join()
    feed.accept("some text", "more text")
    assert one.deliveries.wait(1).body == b"some text"

A feed is a topic for hub.subscribe() and its like.
"""

import itertools

from tidings_test import hub
from tidings_test.callbacks import check_links, parameter
from tidings_test.http import JSON

numbers = itertools.count(1)


class Feed:
    """A topic of a foreign Source, and the relay that makes it a topic of the
    broker."""

    def __init__(self, broker, site, callbacks):
        self.broker = broker
        self.site = site
        self.callbacks = callbacks
        self.target = "/feed?of=1"
        self.topic = site.link(self.target)
        # A port may come again when its site has ended.
        self.path = f"/relays/feed{next(numbers)}"
        self.links = self.name(self.topic, hub.url(broker))
        site.put(self.target, "")

    def put(self):
        """Ask the broker for the relay; the answer."""
        return self.broker.put(self.path, {"topic": self.topic})

    def register(self):
        """Make the relay, which must not be there yet; returns the feed."""
        made = self.put()
        assert (made.status, made["Content-Type"]) == (201, JSON), made
        return self

    def name(self, topic, hub_url):
        """Let the Source name that topic and that hub; the links."""
        links = f'<{topic}>; rel="self", <{hub_url}>; rel="hub"'
        self.site.headers(self.target, f"Link: {links}")
        return links

    def get(self, path):
        """GET what is below the relay, as Set.get() does."""
        return self.broker.get(f"{self.path}/{path}")

    def join(self, target=None, **form):
        """A callback that gets all later posts."""
        callback = self.callbacks.join(self, target, **form)
        verification = callback.verifications.wait(1)
        assert parameter(verification, "hub.topic") == self.topic
        return callback

    def post(self, body, type="text/plain", links=None):
        """Post a document as the Source does."""
        return self.broker.post("/hub", body, type, link=links or self.links)

    def accept(self, *documents):
        """Post documents, which the hub has to accept."""
        for document in documents:
            assert self.post(document).status == 200

    def asked(self, method):
        """The requests with that method to the Source."""
        asked = self.site.asked(self.target)
        return [request for request in asked if request.method == method]

    def check_delivered(self, callback, n, body, type="text/plain"):
        """The callback's n-th delivery is that document; returns it."""
        delivery = callback.deliveries.wait(n)
        assert delivery.body == body
        assert delivery.all("Content-Type") == [type]
        check_links(delivery, self.topic, hub.url(self.broker))
        return delivery
