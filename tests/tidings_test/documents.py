"""ResourceSync documents: read as they are, and questions to them.

    list = news.changelist()
    assert list.count("/s:urlset/s:url") == 3
    assert list.text("//s:url[1]/rs:md/@change") == "created"
    list.check_valid()
    list.until, list.links["up"].href, list.entries[0].loc

Read with lxml, so that no fault of proto/ hides on both sides. Prefixes of XPath: s
(Sitemap), rs (ResourceSync), td (Tidings). A missing value is "".
"""

import collections
import functools
import pathlib
import re

from lxml import etree

XSD = pathlib.Path(__file__).resolve().parent.parent / "spec" / "xsd"
NAMESPACES = {
    "s": "http://www.sitemaps.org/schemas/sitemap/0.9",
    "rs": "http://www.openarchives.org/rs/terms/",
    "td": "urn:tidings:1",
}
S = f"{{{NAMESPACES['s']}}}"
RS = f"{{{NAMESPACES['rs']}}}"
TD = f"{{{NAMESPACES['td']}}}"

Link = collections.namedtuple("Link", "rel href digest")

# A <url> or <sitemap>; `line` is its bytes, newline included.
Entry = collections.namedtuple(
    "Entry", "seq loc change datetime from_ until digest capability line"
)


class Document:
    """A urlset or sitemapindex."""

    def __init__(self, text):
        self.bytes = text.encode() if isinstance(text, str) else text
        parser = etree.XMLParser(no_network=True, huge_tree=True)
        try:
            self.root = etree.fromstring(self.bytes, parser)
        except etree.XMLSyntaxError as error:
            raise AssertionError(f"{error}: {self.bytes[:2000]!r}") from None
        assert self.root.tag in (S + "urlset", S + "sitemapindex"), self.bytes[:300]
        self.is_index = self.root.tag == S + "sitemapindex"

    # Questions

    def all(self, xpath):
        """The result of the expression: text, or elements."""
        return self.root.getroottree().xpath(xpath, namespaces=NAMESPACES)

    def count(self, xpath):
        """How many nodes the expression selects."""
        return len(self.all(xpath))

    def text(self, xpath):
        """The expression's value as text: of nodes, of the first one."""
        return self.root.getroottree().xpath(f"string({xpath})", namespaces=NAMESPACES)

    def check_valid(self):
        """It is valid by the schema of its root (tests/spec/xsd/README.md)."""
        schema = _schema("rs-sitemapindex.xsd" if self.is_index else "rs-urlset.xsd")
        assert schema.validate(self.root), f"{schema.error_log}\n{self}"

    # Its own metadata

    @functools.cached_property
    def md(self):
        """The attributes of the root's rs:md, of which there is one."""
        (md,) = self.root.findall(RS + "md")
        return md.attrib

    capability = property(lambda self: self.md["capability"])
    at = property(lambda self: self.md.get("at", ""))
    from_ = property(lambda self: self.md.get("from", ""))
    until = property(lambda self: self.md.get("until", ""))
    epoch = property(lambda self: self.md.get(TD + "epoch", ""))
    digest = property(lambda self: self.md.get(TD + "digest", ""))
    has_coverage = property(lambda self: TD + "last" in self.md)
    after = property(lambda self: int(self.md[TD + "after"]))
    last = property(lambda self: int(self.md[TD + "last"]))

    @functools.cached_property
    def links(self):
        """The root's links by their relations."""
        links = {}
        for ln in self.root.findall(RS + "ln"):
            link = Link(ln.get("rel"), ln.get("href"), ln.get(TD + "digest", ""))
            links.setdefault(link.rel, link)
        return links

    @functools.cached_property
    def entries(self):
        """Its entries. Each stands on a line of its own, which is checked."""
        tag = "sitemap" if self.is_index else "url"
        lines = re.findall(rb"^<%s>.*\n" % tag.encode(), self.bytes, re.MULTILINE)
        elements = self.root.findall(S + tag)
        assert len(lines) == len(elements), "entries are not one line each"
        return [_entry(element, line) for element, line in zip(elements, lines)]

    def locs(self):
        return [entry.loc for entry in self.entries]

    def __repr__(self):
        return self.bytes[:5000].decode("utf-8", "backslashreplace")


def _entry(element, line):
    loc = element.findtext(S + "loc")
    assert loc, line
    md = element.find(RS + "md")
    md = {} if md is None else md.attrib
    return Entry(
        int(md.get(TD + "seq", 0)),
        loc,
        md.get("change", ""),
        md.get("datetime", ""),
        md.get("from", ""),
        md.get("until", ""),
        md.get(TD + "digest", ""),
        md.get("capability", ""),
        line,
    )


@functools.cache
def _schema(name):
    return etree.XMLSchema(etree.parse(str(XSD / name)))
