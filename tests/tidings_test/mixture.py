"""A mixture of changes, and which of them a filter lets through.

    post(news, 1, 250)
    for query, passes in FILTERS:
        ... the entries that pass that filter are [n for n in range(1, 251) if
        passes(n)]

Entry n (its number is its seq, where nothing else is posted) is of one sort or
another, each by another period, so that all combinations come about.
"""

from tidings_test.sets import change

TYPES = ["image/png", "text/csv", "Text/HTML; charset=utf-8", None, "image/svg+xml"]
TAGS = {3: ["green", "blue"], 4: ["red&green"], 7: ["red&green"], 5: ["red", "bluer"]}


def kind(n):
    return ("created", "updated", "deleted")[n % 3]


def folder(n):
    return "a" if n % 7 else "b&c"


def media_type(n):
    return TYPES[n % 5] if kind(n) != "deleted" else None


def tags(n):
    return TAGS.get(n % 11, [])


def is_image(n):
    return (media_type(n) or "").startswith("image/")


def is_blue_or_red(n):
    return "blue" in tags(n) or "red&green" in tags(n)


def is_all_of_it(n):
    return kind(n) == "updated" and folder(n) == "a" and is_image(n)


BLUE_OR_RED = "tag=blue&tag=red%26green"
ALL_OF_IT = "change=updated&prefix=http://example.com/a&type=image/*"

# A filter, and the entries that pass it.
FILTERS = [
    ("change=deleted", lambda n: kind(n) == "deleted"),
    ("prefix=http://example.com/b%26c/", lambda n: folder(n) == "b&c"),
    ("prefix=http://example.com/", lambda n: True),
    ("prefix=http://example.com/b%26amp;c/", lambda n: False),
    ("type=image/*", is_image),
    ("type=image/svg+xml&type=text/html", lambda n: media_type(n) in TYPES[2::2]),
    ("tag=blue", lambda n: "blue" in tags(n)),
    (BLUE_OR_RED, is_blue_or_red),
    ("tag=BLUE", lambda n: False),
    (f"{ALL_OF_IT}&{BLUE_OR_RED}", lambda n: is_all_of_it(n) and is_blue_or_red(n)),
    ("change=created&change=updated&change=deleted", lambda n: True),
]


def mixed(n):
    """Entry n as it is posted."""
    more = {}
    if media_type(n):
        more["type"] = media_type(n)
    if tags(n):
        more["tags"] = tags(n)
    return change(f"http://example.com/{folder(n)}/{n}", kind(n), **more)


def post(news, first, last):
    """Post entries `first` to `last`, in posts of many sizes."""
    sizes = [1, 40, 2, 7, 1, 300]
    while first <= last:
        sizes.append(sizes.pop(0))
        n = min(sizes[-1], last + 1 - first)
        receipt = news.receipt(news.send([mixed(first + k) for k in range(n)]))
        assert (receipt.first, receipt.last) == (first, first + n - 1)
        first += n
