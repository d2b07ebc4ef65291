"""A static web site: files and documents of a source that has no Tidings in it, and
the trouble that web servers make.

    def test_something(site):
        site.put("/a.xml", "<urlset .../>")
        site.put("/list.xml", f"<loc>{site.link('/a.txt')}</loc>")
        site.folder("/files/", directory)
        site.status("/a.xml", 503, "Retry-After: 1", times=2)
        site.cut("/files/big.bin", 1000)
        ... the program under test asks for site.link("/a.xml") ...
        assert site.asked("/a.xml").wait(3)["Authorization"] is None

A path is the target of the request line with its query, or, if that is unknown, without
it. For a client that uses the site as a proxy a path is a whole URL. Everything may be
changed at any time and applies to all later answers.

A page is as a good server has it: with an ETag; If-None-Match is answered with 304;
Range and If-Range with 206 or 416. Each can be switched off.
"""

import asyncio
import gzip
import hashlib
import pathlib
import re
import urllib.parse

from tidings_test.servers import Server, call
from tidings_test.waiting import Arrivals

TYPES = {
    ".xml": "application/xml",
    ".json": "application/json",
    ".zip": "application/zip",
    ".gz": "application/gzip",
    ".tar": "application/x-tar",
    ".html": "text/html",
    ".txt": "text/plain",
}


class Page:
    """The content of a path, and its manners."""

    def __init__(self):
        self.body = None  # None: nothing was put
        self.type = None
        self.is_deleted = False
        self.headers = []  # more header lines
        self.statuses = []  # [status, header lines, times]; times None: always
        self.cuts = []  # [bytes, times]
        self.spoils = 0
        self.is_free = asyncio.Event()  # answers may go
        self.is_free.set()
        self.gzip = False
        self.etag = True
        self.ranges = True
        self.chunked = False
        self.asked = None


class Site(Server):
    """A site on a port of its own of `host`. `requests` are all requests (Arrivals),
    each with `status`, that of its answer, None before."""

    def __init__(self, host="127.0.0.1"):
        self.requests = Arrivals(f"the requests to the site at {host}")
        self.most_parallel = 0  # requests that were under way at once
        self._parallel = 0
        self._turn = None
        self._pages = {}
        self._all = Page()
        self._folders = {}
        super().__init__(host)

    def link(self, path):
        return self.url + path

    # Pages

    def put(self, path, body, type=...):
        """Put a page there; its type is that of the path's end, None for none."""
        page = self._page(path)
        page.type = _type(path) if type is ... else type
        page.body = body.encode() if isinstance(body, str) else body
        page.is_deleted = False

    def folder(self, prefix, directory):
        """Paths that begin with `prefix` are files of a directory, read when they are
        asked for."""
        self._folders[prefix] = pathlib.Path(directory)

    def delete(self, path):
        """404 from now on, also for a file of a folder; until it is put again."""
        self._page(path).is_deleted = True

    def headers(self, path, *lines):
        """More header lines of the page's answers."""
        self._page(path).headers = list(lines)

    # Manners; `path` None: of all pages, those to come included.

    def status(self, path, status, *headers, times=None):
        """The next `times` answers (None: all) have that status, those header lines
        and no body. Status None: as at the beginning."""
        self._page(path).statuses = [[status, headers, times]] if status else []

    def cut(self, path, size, times=1):
        """Close the connection after so many bytes of the body of the next `times`
        answers (None: of all)."""
        self._page(path).cuts = [[size, times]]

    def heal(self, path):
        """No status, no cut and no more header lines any longer."""
        page = self._page(path)
        page.statuses, page.cuts, page.headers = [], [], []

    def spoil(self, path, times):
        """The bodies of the next `times` answers have a byte that is not theirs: as
        long, with the same ETag."""
        self._page(path).spoils = times

    def does(self, path, **manners):
        """Switch gzip (off), etag (on), ranges (on) or chunked (off)."""
        page = self._page(path)
        for name, value in manners.items():
            assert isinstance(getattr(page, name), bool)
            setattr(page, name, value)

    def hold(self, path):
        """Take requests and answer none, until release(). The answer then shows the
        page as it is then."""
        call(self._page(path).is_free.clear)

    def release(self, path):
        call(self._page(path).is_free.set)

    def turn(self, function):
        """Call function() before each answer, on the servers' thread: it may change the
        pages. None: call nothing."""
        self._turn = function

    # Requests

    def asked(self, path):
        """The requests for that page (Arrivals)."""
        return self._page(path).asked

    # On the servers' thread

    def _page(self, path):
        if path is None:
            return self._all
        if path not in self._pages:
            self._pages[path] = Page()
            self._pages[path].asked = Arrivals(f"the requests for {path}")
        return self._pages[path]

    def _page_asked(self, target):
        plain = target.partition("?")[0]
        return self._page(target if target in self._pages else plain)

    async def serve(self, peer):
        while request := await peer.request():
            page = self._page_asked(request.target)
            request.status = None
            self.requests.add(request)
            page.asked.add(request)
            self._parallel += 1
            self.most_parallel = max(self.most_parallel, self._parallel)
            try:
                await page.is_free.wait()
                await self._all.is_free.wait()
                if self._turn:
                    self._turn()
                head, body, cut = self._answer(request, page)
                await peer.send(head + body)
            finally:
                self._parallel -= 1
            if cut or request["Connection"] == "close":
                return

    def _answer(self, request, page):
        manners = (page, self._all)
        etag = all(page.etag for page in manners)
        chunked = any(page.chunked for page in manners)
        chunked = chunked and request.version != "HTTP/1.0"
        lines = []
        body = b""
        for one in manners:
            if one.statuses:
                status, headers, _ = one.statuses[0]
                lines += headers
                _use_up(one.statuses)
                break
        else:
            status, body, lines = self._content(request, page, etag)
        request.status = status
        for one in manners:
            lines += one.headers
        cut = next((one.cuts for one in manners if one.cuts), None)
        if status in (204, 304):
            return _head(status, lines), b"", False
        if chunked:
            lines.append("Transfer-Encoding: chunked")
            half = len(body) // 2  # in two chunks, so that there is a seam
            body = _chunk(body[:half]) + _chunk(body[half:]) + b"0\r\n\r\n"
        else:
            lines.append(f"Content-Length: {len(body)}")
        if request.method == "HEAD":
            body = b""
        if cut:
            body = body[: cut[0][0]]
            _use_up(cut)
            return _head(status, lines), body, True
        return _head(status, lines), body, False

    def _content(self, request, page, has_etag):
        body, type = self._find(request.target, page)
        if body is None:
            return 404, b"", []
        manners = (page, self._all)
        lines = []
        is_gzip = any(one.gzip for one in manners) and (
            "gzip" in (request["Accept-Encoding"] or "")
        )
        tag = hashlib.sha256(body).hexdigest()[:16] + ("-gzip" if is_gzip else "")
        if is_gzip:
            body = gzip.compress(body, mtime=0)
        if has_etag:
            lines.append(f'ETag: "{tag}"')
            if f'"{tag}"' in (request["If-None-Match"] or ""):
                return 304, b"", lines
        status, whole = 200, body
        if all(one.ranges for one in manners):
            lines.append("Accept-Ranges: bytes")
            same = request["If-Range"] in (None, f'"{tag}"' if has_etag else "")
            if same and not is_gzip:
                status, body, more = _range(request, body)
                lines += more
        if status != 416 and type:
            lines.append(f"Content-Type: {type}")
        if status == 200 and is_gzip:
            lines += ["Content-Encoding: gzip", "Vary: Accept-Encoding"]
        for one in manners:
            if one.spoils and whole:
                one.spoils -= 1
                at = len(body) // 2
                body = body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]
                break
        return status, body, lines

    def _find(self, target, page):
        """The bytes and the type of a page as it is now; None: it is not there."""
        if page.is_deleted:
            return None, None
        if page.body is not None:
            return page.body, page.type
        for prefix in sorted(self._folders, key=len, reverse=True):
            if target.startswith(prefix):
                name = urllib.parse.unquote(target.removeprefix(prefix))
                path = self._folders[prefix] / name
                if ".." not in name and path.is_file():
                    return path.read_bytes(), _type(name, "application/octet-stream")
                break
        return None, None


def _range(request, body):
    match = re.fullmatch(r"bytes=(\d*)-(\d*)", request["Range"] or "")
    if not match:
        return 200, body, []
    first, last = match.groups()
    size = len(body)
    if first:
        begin, end = int(first), min(int(last) + 1, size) if last else size
    else:
        begin, end = max(0, size - int(last)), size
    if begin >= end:
        return 416, b"", [f"Content-Range: bytes */{size}"]
    return 206, body[begin:end], [f"Content-Range: bytes {begin}-{end - 1}/{size}"]


def _use_up(rules):
    """The first rule was followed once; times None: for ever."""
    if rules[0][-1] is not None:
        rules[0][-1] -= 1
        if rules[0][-1] == 0:
            rules.pop(0)


def _type(path, otherwise=None):
    return TYPES.get(pathlib.PurePath(path.partition("?")[0]).suffix, otherwise)


def _chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


def _head(status, lines):
    return "\r\n".join([f"HTTP/1.1 {status} So", *lines, "", ""]).encode()
