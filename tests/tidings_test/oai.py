"""A provider of OAI-PMH 2.0, good or hostile.

    provider = Provider()
    provider.put(1, "2026-09-01T00:00:00Z")
    provider.delete(1, "2026-09-02T00:00:00Z")
    ... the program under test asks for provider.link("verb=ListRecords") ...
    assert provider.last_list()["from"] == ["2026-09-02T00:00:00Z"]

Its manners are attributes, or functions in `tricks`: each gets the parameters of a
request and the answer that a good provider gives, and returns what is sent instead: a
text, or (status, header lines, text).
"""

import asyncio
import pathlib
import subprocess
import urllib.parse
from xml.sax.saxutils import escape

from tidings_test.servers import Server, call
from tidings_test.waiting import Arrivals

NS = "http://www.openarchives.org/OAI/2.0/"
DC = (
    'xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/"'
    ' xmlns:dc="http://purl.org/dc/elements/1.1/"'
)


def envelope(body, date):
    return (
        f'<?xml version="1.0"?><OAI-PMH xmlns="{NS}"><responseDate>{date}</responseDate>'
        f"<request>http://10.0.0.1/other</request>{body}</OAI-PMH>"
    )


class Provider(Server):
    """Records by their numbers: [stamp, urls, title, is deleted]; `more` follows the
    title of each."""

    def __init__(self, host="127.0.0.1"):
        self.records = {}
        self.asked = Arrivals("the requests to the provider")  # their parameters
        self.date = "2026-10-01T00:00:00Z"  # its clock
        self.earliest = "2000-01-01T00:00:00Z"
        self.deleted = "persistent"
        self.granularity = "YYYY-MM-DDThh:mm:ssZ"
        self.size = 3  # records of an answer
        self.counts = True  # completeListSize
        self.more = ""
        self.tricks = []
        self.is_free = asyncio.Event()  # answers may go; on the servers' thread
        self.is_free.set()
        super().__init__(host)

    def link(self, query="verb=ListRecords&metadataPrefix=oai_dc"):
        return f"{self.url}/oai?{query}" if query else f"{self.url}/oai"

    def put(self, n, stamp, urls=None, title="A title"):
        urls = [f"http://r.example/{n}"] if urls is None else urls
        self.records[n] = [stamp, urls, title, False]

    def delete(self, n, stamp):
        self.records[n] = [stamp, [], "", True]

    def hold(self):
        """Take requests and answer none, until release()."""
        call(self.is_free.clear)

    def release(self):
        call(self.is_free.set)

    def last_list(self):
        """The first request of the last list."""
        lists = [a for a in self.asked if "verb" in a and "resumptionToken" not in a]
        return [a for a in lists if a["verb"][0].startswith("List")][-1]

    async def serve(self, peer):
        while request := await peer.request():
            query = request.target.partition("?")[2]
            asked = urllib.parse.parse_qs(query)
            self.asked.add(asked)
            await self.is_free.wait()
            answer = self.answer(asked)
            for trick in self.tricks:
                answer = trick(asked, answer)
            status, lines, text = (
                answer if isinstance(answer, tuple) else (200, [], answer)
            )
            body = text if isinstance(text, bytes) else text.encode()
            head = "".join(f"{line}\r\n" for line in lines)
            await peer.send(
                f"HTTP/1.1 {status} OK\r\nContent-Type: text/xml\r\n{head}"
                f"Content-Length: {len(body)}\r\n\r\n".encode()
                + body
            )

    def answer(self, asked):
        return envelope(self._body(asked), self.date)

    def _body(self, asked):
        (verb,) = asked.get("verb", [""])
        if verb == "Identify":
            return (
                f"<Identify><earliestDatestamp>{self.earliest}</earliestDatestamp>"
                f"<deletedRecord>{self.deleted}</deletedRecord>"
                f"<granularity>{self.granularity}</granularity></Identify>"
            )
        if verb not in ("ListRecords", "ListIdentifiers") or "identifier" in asked:
            return '<error code="badVerb">no such verb</error>'
        return self._list(verb, asked)

    def _list(self, verb, asked):
        if "resumptionToken" in asked:
            if asked.keys() - {"verb", "resumptionToken", "page"}:
                return '<error code="badArgument">a token is exclusive</error>'
            since, _, begin = asked["resumptionToken"][0].partition("!")
        else:
            since, begin = asked.get("from", [""])[0], 0
        if begin and not str(begin).isdigit():
            return '<error code="badResumptionToken">never given</error>'
        begin = int(begin or 0)
        found = sorted(
            (r[0], n) for n, r in self.records.items() if r[0][: len(since)] >= since
        )
        if not found:
            return '<error code="noRecordsMatch">none</error>'
        part = found[begin : begin + self.size]
        end = begin + len(part)
        of_list = f' completeListSize="{len(found)}"' if self.counts else ""
        token = f"{since}!{end}" if end < len(found) else ""
        if token or begin:
            part_end = f"<resumptionToken{of_list}>{token}</resumptionToken>"
        else:
            part_end = ""
        is_full = verb == "ListRecords"
        records = "".join(self.record(n, is_full) for _, n in part)
        return f"<{verb}>{records}{part_end}</{verb}>"

    def record(self, n, is_full=True):
        stamp, urls, title, is_deleted = self.records[n]
        status = ' status="deleted"' if is_deleted else ""
        header = (
            f"<header{status}><identifier>oai:p.example:{n}</identifier>"
            f"<datestamp>{stamp}</datestamp></header>"
        )
        if not is_full:
            return header
        names = "".join(f"<dc:identifier>{escape(url)}</dc:identifier>" for url in urls)
        metadata = (
            f"<metadata><oai_dc:dc {DC}>{names}<dc:title>{escape(title)}</dc:title>"
            f"{self.more}</oai_dc:dc></metadata>"
        )
        return f"<record>{header}{'' if is_deleted else metadata}</record>"


class PerlProvider(Provider):
    """The same, but all answers are made by Debian's libhttp-oai-perl."""

    program = pathlib.Path(__file__).parent / "oai_provider.pl"

    @staticmethod
    def is_installed():
        return not subprocess.run(("perl", "-MHTTP::OAI", "-e", "1"), capture_output=True).returncode

    def answer(self, asked):
        lines = [
            "\t".join((str(n), stamp, "" if is_deleted else urls[0], title))
            for n, (stamp, urls, title, is_deleted) in self.records.items()
        ]
        words = [f"{name}={value[0]}" for name, value in asked.items()]
        command = ("perl", self.program, *words)
        done = subprocess.run(
            command, input="\n".join(lines).encode(), capture_output=True, check=True
        )
        return done.stdout.decode()
