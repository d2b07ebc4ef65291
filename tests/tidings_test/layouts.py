"""Sources without a history, with only a list of their resources, in the layouts of
such sources: py-resourcesync, the simulator of the ResourceSync framework, static
sites, repositories with paged Sitemaps.

    layout = Paged(site)
    layout.publish({"/files/a.txt": "a", "/files/b.txt": "b"})
    ... the program under test asks for layout.url ...
    layout.publish({"/files/a.txt": "A"})     # b is gone

`lists` are the paths of the documents that have resources, after publish(); `url` is
the address that a user would give.
"""

import gzip
import hashlib
import math

NS = (
    'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
    ' xmlns:rs="http://www.openarchives.org/rs/terms/"'
)
HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'


def urlset(entries, before=""):
    return f"{HEAD}<urlset {NS}>\n{before}{''.join(entries)}</urlset>\n"


def sitemapindex(links, before=""):
    listed = "".join(f"<sitemap><loc>{link}</loc></sitemap>\n" for link in links)
    return f"{HEAD}<sitemapindex {NS}>\n{before}{listed}</sitemapindex>\n"


class Layout:
    """The common part of all layouts: files on a site; the time of a file grows
    whenever its bytes change."""

    start = "/sitemap.xml"

    def __init__(self, site):
        self.site = site
        self.url = site.link(self.start)
        self.files = {}
        self.lists = []
        self._minutes = {}

    def publish(self, files):
        """These files, by their paths, and no others."""
        for path in self.files.keys() - files.keys():
            self.site.delete(path)
        for path, text in files.items():
            if self.files.get(path) != text:
                self.site.put(path, text)
                self._minutes[path] = self._minutes.get(path, 0) + 1
        self.files = dict(files)
        self.lists = []
        self.write()

    def lastmod(self, path):
        return f"2026-01-01T00:{self._minutes[path]:02}:00Z"

    def entry(self, path, md=""):
        return (
            f"<url><loc>{self.site.link(path)}</loc>"
            f"<lastmod>{self.lastmod(path)}</lastmod>{md}</url>\n"
        )

    def pages(self, size):
        """The paths of the files, so many a page; a page at least."""
        paths = sorted(self.files)
        for page in range(max(1, math.ceil(len(paths) / size))):
            yield page, paths[page * size : (page + 1) * size]

    def put_list(self, path, body):
        self.site.put(path, body)
        self.lists.append(path)

    def write(self):
        raise NotImplementedError


class Sitemap(Layout):
    """A static site: one sitemap.xml with loc and lastmod, as generators write it."""

    def write(self):
        self.put_list(self.start, urlset(map(self.entry, sorted(self.files))))


class Gzip(Layout):
    """The same in a file that is gzip: the server says nothing of that."""

    start = "/sitemap.xml.gz"

    def write(self):
        body = urlset(map(self.entry, sorted(self.files)))
        self.put_list(self.start, gzip.compress(body.encode(), mtime=0))


class Robots(Layout):
    """A static site of which a client knows only the address: /robots.txt, which is
    kept elsewhere, names its Sitemaps (R-262), one plain and one gzip."""

    start = "/"

    def write(self):
        (_, first), *rest = self.pages(2)
        self.site.put(self.start, "<html><head><title>A site</title></head></html>")
        self.put_list("/sitemap-1.xml", urlset(map(self.entry, first)))
        others = [self.entry(path) for _, paths in rest for path in paths]
        body = gzip.compress(urlset(others).encode(), mtime=0)
        self.put_list("/sitemap-2.xml.gz", body)
        self.site.status("/robots.txt", 301, "Location: /files/robots")
        self.site.put(
            "/files/robots",
            "User-agent: *\r\nDisallow: /private/\r\n\r\n"
            f"Sitemap: {self.site.link('/sitemap-1.xml')}\r\n"
            f"sitemap:{self.site.link('/sitemap-2.xml.gz')} # the rest",
        )


class Resync(Layout):
    """The layout of py-resourcesync: a directory with a Source Description at the
    well-known address, a Capability List, and a Resource List Index of numbered lists,
    with md5, length and type."""

    start = "/.well-known/resourcesync"

    def write(self):
        link = self.site.link
        caps = link("/resync/capabilitylist.xml")
        description = f"<url><loc>{caps}</loc><rs:md capability='capabilitylist'/></url>"
        self.site.put(
            self.start,
            urlset([description], "<rs:md capability='description'/>"),
            "application/xml",
        )
        index = link("/resync/resourcelist-index.xml")
        self.site.put(
            "/resync/capabilitylist.xml",
            urlset(
                [f"<url><loc>{index}</loc><rs:md capability='resourcelist'/></url>"],
                f"<rs:ln rel='up' href='{link(self.start)}'/>"
                "<rs:md capability='capabilitylist'/>",
            ),
        )
        up = f"<rs:ln rel='up' href='{caps}'/>"
        md = "<rs:md capability='resourcelist' at='2026-01-01T00:00:00Z'/>"
        parts = []
        for page, paths in self.pages(3):
            part = f"/resync/resourcelist_{page:04}.xml"
            self.put_list(part, urlset(map(self.hashed, paths), up + md))
            parts.append(link(part))
        self.site.put("/resync/resourcelist-index.xml", sitemapindex(parts, up + md))

    def hashed(self, path):
        body = self.files[path].encode()
        md5 = hashlib.md5(body).hexdigest()
        return self.entry(
            path, f'<rs:md hash="md5:{md5}" length="{len(body)}" type="text/plain"/>'
        )


class Simulator(Layout):
    """The documents of the reference simulator without its Change Lists: a Capability
    List, and a Resource List that it makes anew for each request, with the time of
    that, so that it sends no ETag and no Last-Modified; lastmod has microseconds."""

    start = "/capabilitylist.xml"

    def __init__(self, site):
        super().__init__(site)
        self.site.does("/resourcelist.xml", etag=False)
        self._n = 0

    def lastmod(self, path):
        return f"2026-01-01T00:{self._minutes[path]:02}:00.123456Z"

    def write(self):
        self._n += 1
        link = self.site.link
        listed = link("/resourcelist.xml")
        self.site.put(
            self.start,
            urlset(
                [f'<url><loc>{listed}</loc><rs:md capability="resourcelist"/></url>'],
                '<rs:md capability="capabilitylist"/>',
            ),
        )
        entries = [
            self.entry(
                path,
                f'<rs:md hash="md5:{hashlib.md5(text.encode()).hexdigest()}"'
                f' length="{len(text.encode())}"/>',
            )
            for path, text in sorted(self.files.items())
        ]
        md = f'<rs:md at="2026-01-02T00:00:{self._n:02}Z" capability="resourcelist"/>'
        up = f'<rs:ln href="{self.url}" rel="up"/>'
        self.put_list("/resourcelist.xml", urlset(entries, up + md))


class Paged(Layout):
    """The layout of a repository such as DSpace: an index whose parts are one script
    with a number as its query, and gzip on the way."""

    start = "/sitemap"

    def write(self):
        links = []
        for page, paths in self.pages(2):
            path = f"/sitemap?map={page}"
            self.put_list(path, urlset(map(self.entry, paths)))
            self.site.does(path, gzip=True)
            links.append(self.site.link(path))
        self.site.put(self.start, sitemapindex(links), "application/xml")


class Chained(Layout):
    """A Resource List in pages, of which each names the next one."""

    start = "/resources"

    def write(self):
        pages = list(self.pages(2))
        for page, paths in pages:
            path = f"/resources?page={page}" if page else self.start
            after = self.site.link(f"/resources?page={page + 1}")
            next_ = f'<rs:ln rel="next" href="{after}"/>' if page + 1 < len(pages) else ""
            md = '<rs:md capability="resourcelist" at="2026-01-01T00:00:00Z"/>'
            self.put_list(path, urlset(map(self.entry, paths), next_ + md))


LAYOUTS = [Sitemap, Gzip, Robots, Resync, Simulator, Paged, Chained]
