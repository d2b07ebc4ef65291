"""Requests that two HTTP servers may read differently. Nearly each hides a request in
bytes that one of them takes for a body, or behind it.

    for variant in VARIANTS:
        connection.send(variant.bytes(host, path, hidden))

In the texts of a variant {host}, {path} and {hidden} stand for what the test gives;
{size} is the length of the body, {chunk} that of the hidden request in hexadecimal;
{start} is the length of a chunk's first line, and {entry}
a change that the broker accepts.
"""

ENTRY = '{"loc":"http://example.com/variant","change":"created"}'

POST = "POST {path} HTTP/1.1\r\n"
HOST = "Host: {host}\r\n"
TYPE = "Content-Type: application/json\r\n"
LENGTH = "Content-Length: {size}\r\n"
CHUNKED = "Transfer-Encoding: chunked\r\n"
COMMON = POST + HOST + TYPE

# Bodies
HIDDEN = "{hidden}"
IN_CHUNK = "{chunk}\r\n{hidden}\r\n0\r\n\r\n"
BEHIND_CHUNKS = "0\r\n\r\n{hidden}"
ENTRY_CHUNK = "37\r\n{entry}\r\n"
assert int("37", 16) == len(ENTRY)


class Variant:
    def __init__(self, name, head, body):
        self.name = name
        self.head = head
        self.body = body

    def bytes(self, host, path, hidden):
        chunk = f"{len(hidden):x}"
        values = {
            "host": host,
            "path": path,
            "hidden": hidden,
            "chunk": chunk,
            "start": len(chunk) + 2,
            "entry": ENTRY,
        }
        body = self.body.format(**values)
        return (self.head.format(size=len(body), **values) + body).encode("latin-1")


# Names that are a prefix of a common one, or begin with a common one.
PREFIXES = """
    A Accept- Accept-Enc Al Au Author C Ca Cache- Co Con Conn Connect Cont Content
    Content- Content-L Content-Len Content-Lengt Content-Lengths Content-T Cook D Dat
    E Ex Expec Expects F For Forward Fro H Ho Hos Hosts I If If- If-M If-None If-Mod
    K Keep L La Last-Event M Max- O Or Ori P Pr Prox Proxy-Connection R Ra Ref S Sec
    Sec-WebSocket T T-E TE Tr Trail Transfer Transfer- Transfer-E Transfer-Encodin
    Transfer-Encodings U Up Upgrad User V Vi W X X- X-A X-Auth X-Forwarded X-Real
""".split()


def prefixes():
    for name in PREFIXES:
        line = f"{name}: y\r\n"
        yield f"{name} before Host", POST + line + HOST + TYPE + LENGTH + "\r\n", HIDDEN
        yield f"{name} before the length", COMMON + line + LENGTH + "\r\n", HIDDEN
        yield f"{name} before the coding", COMMON + line + CHUNKED + "\r\n", IN_CHUNK
        empty = f"{name}:\r\n"
        yield f"{name}, empty", COMMON + empty + LENGTH + "\r\n", HIDDEN


LENGTHS = (
    *("+{size}", "-{size}", "0{size}", "0x{size}", "{size}.0", "{size},", ",{size}"),
    *("{size};", "{size} 0", "{size}, {size}", "{size}, 0", "0, {size}", '"{size}"'),
    *("", "\t{size}\t", "{size}\x0b", "{size}\x0c", "\x00{size}", "{size}\x00", "0e1"),
    *("18446744073709551616", "1844674407370955161{size}", "4294967296", "{size}_0"),
    *("\xb2", "{size}\xa0", "9223372036854775808", "-1", "NaN"),
)

LENGTH_NAMES = (
    *("Content-Length ", "Content-Length\t", " Content-Length", "\tContent-Length"),
    *("Content_Length", "Content-Length\x00", "content-length", "CONTENT-LENGTH"),
    *("Content-Length\x0b", "Content\xadLength", "Content-Length:", '"Content-Length"'),
)


def lengths():
    for value in LENGTHS:
        head = COMMON + f"Content-Length: {value}\r\n\r\n"
        yield f"Content-Length {value!r}", head, HIDDEN
    for name in LENGTH_NAMES:
        yield f"the name {name!r}", COMMON + f"{name}: {{size}}\r\n\r\n", HIDDEN
        head = COMMON + f"Content-Length: 0\r\n{name}: {{size}}\r\n\r\n"
        yield f"0 and the name {name!r}", head, HIDDEN
    for first, second in (("0", "{size}"), ("{size}", "0"), ("{size}", "{size}")):
        two = f"Content-Length: {first}\r\nContent-Length: {second}\r\n\r\n"
        yield f"lengths {first}, {second}", COMMON + two, HIDDEN
        apart = POST + two[: two.index("\n") + 1] + HOST + TYPE + two[two.index("\n") + 1 :]
        yield f"lengths {first}, {second}, apart", apart, HIDDEN
    yield "no length", COMMON + "\r\n", HIDDEN
    yield "a length that is too long", COMMON + "Content-Length: 9999\r\n\r\n", HIDDEN
    yield "a length that is too short", COMMON + "Content-Length: 3\r\n\r\n", HIDDEN


CODINGS = (
    *("chunked", "Chunked", "CHUNKED", "  chunked", "chunked ", "\tchunked"),
    *("chunked\t",),
    *("\x0bchunked", "\x0cchunked", "chunked\x0b", "\x00chunked", "chunked\x00"),
    *("xchunked", "chunkedx", "chunk", "chunked, identity", "identity, chunked"),
    *("identity", "chunked, chunked", "gzip, chunked", "chunked, gzip", "chunked;q=1"),
    *('"chunked"', "'chunked'", "", ",chunked", "chunked,", "cow", "chun ked"),
    *("\xa0chunked",),
    *("chunked;", "chunked\r\n ", "\r\n chunked", "chunk\r\n ed", "\n chunked"),
    *("x\r\n chunked",),
)

CODING_LINES = (
    *("Transfer_Encoding: chunked\r\n", "Transfer-Encoding : chunked\r\n"),
    *("Transfer-Encoding\t: chunked\r\n", " Transfer-Encoding: chunked\r\n"),
    *("\tTransfer-Encoding: chunked\r\n", "TRANSFER-ENCODING: chunked\r\n"),
    *("Transfer-Encoding:chunked\r\n", "Transfer-Encoding\x00: chunked\r\n"),
    *("Transfer-Encoding\r\n : chunked\r\n", "X: y\nTransfer-Encoding: chunked\r\n"),
    *("X: y\rTransfer-Encoding: chunked\r\n",),
    *("X: y\r\n Transfer-Encoding: chunked\r\n",),
    *("Transfer-Encoding: chunked\n", "Transfer-Encoding: chunked\r\r\n"),
    *("Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n",),
    *("Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n",),
    *("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",),
    *("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",),
    *("Transfer-Encoding: \r\nTransfer-Encoding: chunked\r\n",),
    *("Transfer-Encoding chunked\r\n", "Transfer-Encoding\r\n", "TE: chunked\r\n"),
    *("X-Transfer-Encoding: chunked\r\n",),
    *("Connection: Transfer-Encoding\r\n" + CHUNKED,),
    *('Transfer\\-Encoding: chunked\r\n', "Content-Encoding: chunked\r\n"),
)


def codings():
    lines = [f"Transfer-Encoding: {value}\r\n" for value in CODINGS]
    for line in (*lines, *CODING_LINES):
        both = COMMON + LENGTH + line + "\r\n"
        yield f"a length and {line!r}", both, BEHIND_CHUNKS
        short = COMMON + line + "Content-Length: {start}\r\n\r\n"
        yield f"{line!r} and a short length", short, IN_CHUNK
    for line in lines:
        yield f"{line!r} alone", COMMON + line + "\r\n", IN_CHUNK
        yield f"{line!r}, then a request", COMMON + line + "\r\n", BEHIND_CHUNKS


# The bytes before the hidden request where a server reads chunks wrongly.
CHUNKS = (
    *("5;x\r\n", "5 ;x\r\n", "5;x=y\r\n", '5;x="\r\n', '5;x="a\r\nb"\r\n', "5;\n"),
    *("5;x\n",),
    *("5\n", "5\r", "5\r\r\n", " 5\r\n", "5 \r\n", "5\t\r\n", "05\r\n", "0x5\r\n"),
    *("+5\r\n",),
    *("-5\r\n", "5.\r\n", "\r\n", "g\r\n", "5g\r\n", "5\x00\r\n", "5\x0b\r\n"),
    *("5,5\r\n",),
    *("00000000000000005\r\n", "10000000000000005\r\n", "100000005\r\n"),
    *("ffffffffffffffff\r\n", "8000000000000000\r\n", "5;" + "x" * 3000 + "\r\n"),
)

ENDS = (
    *("0\r\n\r\n", "00\r\n\r\n", "0;x\r\n\r\n", "0\n\n", "0\r\n\n", "0\n\r\n", "0\r\r"),
    *("0\r\nX: y\r\n\r\n", "0\r\nContent-Length: 5\r\n\r\n", "0\r\nX\r\n\r\n"),
    *("0\r\n \r\n",),
    *("0\r\nX: y\r\n z\r\n\r\n", "0\r\nX: y\n\n", "0\r\nHost: x\r\n\r\n"),
    *("0\r\n: y\r\n\r\n",),
    *("0 \r\n\r\n", "0;\n\r\n\r\n", "-0\r\n\r\n", "0x0\r\n\r\n"),
    *("0\r\n" + CHUNKED + "\r\n",),
    *("0\r\nX: " + "y" * 9000 + "\r\n\r\n",),
)


def chunks():
    head = COMMON + CHUNKED + "\r\n"
    for start in CHUNKS:
        body = start + "xxxxx\r\n0\r\n\r\n{hidden}"
        yield f"a chunk {start[:20]!r}", head, body
        # The hidden request stands where one reader has an extension, the other a chunk.
        hidden = start + "xxxxx\r\n{chunk}\r\n{hidden}\r\n0\r\n\r\n"
        yield f"a chunk {start[:20]!r}, then one with a request", head, hidden
    for end in ENDS:
        yield f"the end {end[:20]!r}", head, ENTRY_CHUNK + end + "{hidden}"
    yield "no line end behind a chunk", head, "37\r\n{entry}0\r\n\r\n{hidden}"
    yield "two bytes behind a chunk", head, "37\r\n{entry}xx0\r\n\r\n{hidden}"
    yield "a chunk that is too short", head, "5\r\n{entry}\r\n0\r\n\r\n{hidden}"
    yield "an extension over two lines", head, "37;\n{chunk}\r\n{entry}\r\n0\r\n\r\n{hidden}"
    yield "chunks that do not end", head, "{chunk}\r\n{hidden}\r\n"


FIELD_LINES = (
    *("X : y\r\n", "X\t: y\r\n", "X:y\r\n", "X:\t y\r\n", ": y\r\n", "X\r\n"),
    *("X y: z\r\n",),
    *(" X: y\r\n", "\tX: y\r\n", "X: y\r\n z\r\n", "X: y\r\n\tz\r\n", "X:\r\n y\r\n"),
    *("X: y\n",),
    *("X: y\r", "X: y\r\r\n", "X: y\n\r", "X: \x00\r\n", "X: \x01\r\n", "X: \x7f\r\n"),
    *("X\x00: y\r\n",),
    *("X: y\r\n \r\n", "X: y\x0bz\r\n", "X: \xff\xfe\r\n", "X\xff: y\r\n", "X(: y\r\n"),
    *('"X": y\r\n',),
    *("X: y\r\n \r\n\r\n", "\n", "\r", "\r\n", " \r\n", "\t\n"),
    *("X: " + "y" * 7000 + "\r\n",),
    *("Connection: Content-Length\r\n", "Connection: close, Content-Length\r\n"),
    *("Connection: Host\r\n", "Connection: Content-Type\r\n"),
    *("Connection: keep-alive\r\n",),
    *("Connection: close\r\n", "Connection: \r\n"),
    *("Connection: close\r\nConnection: keep-alive\r\n",),
    *("Proxy-Connection: keep-alive\r\n", "Keep-Alive: 300\r\n", "Max-Forwards: 0\r\n"),
    *("Expect: 100-continue\r\n", "Expect: 100-Continue, x\r\n", "Expect: 200-ok\r\n"),
    *("Expect: \r\n", "Expect: 100-continue\r\nExpect: 100-continue\r\n"),
    *("Upgrade: h2c\r\nConnection: Upgrade\r\n",),
    *("Upgrade: websocket\r\nConnection: upgrade\r\n",),
    *("Upgrade: websocket\r\n",),
    *("HTTP2-Settings: AAA\r\nConnection: HTTP2-Settings\r\n",),
    *("Host: {host}\r\n", "Host: x\r\n", "Host : x\r\n", "Hos: x\r\n"),
    *("host: {host}\r\n",),
    *("Content-Type: text/xml\r\n", "Content-Encoding: gzip\r\n", "Trailer: X\r\n"),
    *("X-HTTP-Method-Override: PUT\r\n", "X-Original-URL: /sets/secret\r\n"),
    *("X-Rewrite-URL: /sets/secret\r\n", "X-Forwarded-Host: {host}\r\n"),
)


def fields():
    for line in FIELD_LINES:
        yield f"the line {line[:30]!r}", COMMON + line + LENGTH + "\r\n", HIDDEN
        behind = COMMON + LENGTH + line + "\r\n"
        yield f"the line {line[:30]!r} behind the length", behind, HIDDEN
        yield f"the line {line[:30]!r} first", POST + line + HOST + TYPE + LENGTH + "\r\n", HIDDEN
    yield "line feeds", (COMMON + LENGTH + "\r\n").replace("\r\n", "\n"), HIDDEN
    yield "carriage returns", (COMMON + LENGTH + "\r\n").replace("\r\n", "\r"), HIDDEN
    yield "an end of two line feeds", COMMON + LENGTH + "\n", HIDDEN
    yield "an end of carriage returns", COMMON + LENGTH + "\r\r", HIDDEN
    yield "line feeds, reversed", (COMMON + LENGTH + "\r\n").replace("\r\n", "\n\r"), HIDDEN
    yield "no Host", POST + TYPE + LENGTH + "\r\n", HIDDEN
    yield "an empty Host", POST + "Host:\r\n" + TYPE + LENGTH + "\r\n", HIDDEN
    yield "empty lines first", "\r\n\r\n" + COMMON + LENGTH + "\r\n", HIDDEN
    yield "a line feed first", "\n" + COMMON + LENGTH + "\r\n", HIDDEN
    yield "a blank first", " " + COMMON + LENGTH + "\r\n", HIDDEN
    many = "".join(f"X{i}: y\r\n" for i in range(120))
    yield "many fields", COMMON + many + LENGTH + "\r\n", HIDDEN


REQUEST_LINES = (
    *("POST {path} HTTP/1.0", "POST {path} HTTP/1.2", "POST {path} HTTP/2.0"),
    *("POST {path}",),
    *("POST {path} HTTP/0.9", "POST {path} http/1.1", "POST {path} HTTP/1.1 "),
    *("POST {path} HTTP/1",),
    *("POST  {path} HTTP/1.1", "POST {path}  HTTP/1.1", "POST\t{path}\tHTTP/1.1"),
    *("POST {path} HTTP/01.1",),
    *("POST {path}\x00 HTTP/1.1", "POST {path} x HTTP/1.1", "POST {path}#x HTTP/1.1"),
    *("POST {path}?x HTTP/1.1",),
    *("POST http://{host}{path} HTTP/1.1", "POST http://x{path} HTTP/1.1"),
    *("POST x{path} HTTP/1.1",),
    *("POST http://{host}@x{path} HTTP/1.1", "POST HTTP://{host}{path} HTTP/1.1"),
    *("POST * HTTP/1.1",),
    *("POST https://{host}{path} HTTP/1.1", "POST //{host}{path} HTTP/1.1"),
    *("POST  HTTP/1.1",),
    *("POST {host} HTTP/1.1", "POST {path}%00 HTTP/1.1", "POST {path}%zz HTTP/1.1"),
    *("POST \\{path} HTTP/1.1",),
    *("post {path} HTTP/1.1", "BREW {path} HTTP/1.1", "CONNECT {host} HTTP/1.1"),
    *("TRACE {path} HTTP/1.1",),
    *("GET {path} HTTP/1.1", "GET /healthz HTTP/1.1", "HEAD {path} HTTP/1.1"),
    *("DELETE {path} HTTP/1.1",),
    *("OPTIONS {path} HTTP/1.1", "OPTIONS * HTTP/1.1", "PATCH {path} HTTP/1.1"),
    *("PUT {path} HTTP/1.1",),
    *("POST /nowhere HTTP/1.1", "POST /healthz HTTP/1.1", "POST / HTTP/1.1"),
    *("POST /hub HTTP/1.1",),
    *("GET http://{host}/healthz HTTP/1.1", "GET /healthz HTTP/1.0"),
    *("HEAD /healthz HTTP/1.0",),
    *("PRI * HTTP/2.0", "LINK {path} HTTP/1.1", "POST\x0b{path} HTTP/1.1"),
    *("P\x00ST {path} HTTP/1.1",),
)


def request_lines():
    for line in REQUEST_LINES:
        rest = "\r\n" + HOST + TYPE
        yield f"{line!r}, a length", line + rest + LENGTH + "\r\n", HIDDEN
        yield f"{line!r}, a coding", line + rest + CHUNKED + "\r\n", IN_CHUNK
        yield f"{line!r}, both", line + rest + LENGTH + CHUNKED + "\r\n", BEHIND_CHUNKS
        kept = "Connection: keep-alive\r\n"
        yield f"{line!r}, kept", line + rest + kept + LENGTH + "\r\n", HIDDEN
        yield f"{line!r}, no length", line + rest + "\r\n", HIDDEN
    inside = "POST {path} HTTP/1.1\r\nHost: x\r\n\r\n HTTP/1.1\r\n"
    yield "a target with a line end", inside + HOST + LENGTH + "\r\n", HIDDEN


HANDSHAKE = (
    "GET {stream} HTTP/1.1\r\nHost: {{host}}\r\nConnection: Upgrade\r\n"
    "Upgrade: websocket\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: {version}\r\n"
)


def handshakes():
    for name, key, version in (
        ("whole", "dGhlIHNhbXBsZSBub25jZQ==", "13"),
        ("of another version", "dGhlIHNhbXBsZSBub25jZQ==", "7"),
        ("with a bad key", "x", "13"),
    ):
        for path in ("/sets/variants/stream", "/healthz", "/nowhere"):
            head = HANDSHAKE.format(stream=path, key=key, version=version)
            yield f"a handshake {name} of {path}", head + "\r\n", HIDDEN
            yield f"a handshake {name} of {path}, a length", head + LENGTH + "\r\n", HIDDEN


# Nothing is hidden here, but the answers end in different ways. A reader that takes an
# answer for longer or shorter than it is gives the rest to the next client.
ANSWERS = (
    *("HEAD {path}", "HEAD /", "HEAD /nowhere", "HEAD /sets/variants/stream"),
    *("OPTIONS *",),
    *("HEAD /sets/variants/changelist.xml", "GET /sets/variants/changelist.xml"),
    *("HEAD {path}?after=0&wait=0.01", "GET {path}?after=0&wait=0.01"),
    *("GET {path}?after=x",),
    *("OPTIONS {path}", "DELETE {path}", "PUT {path}", "PATCH {path}", "POST /nowhere"),
    *("GET /nowhere", "GET /metrics", "GET /robots.txt", "GET /sets/variants"),
    *("POST {path}",),
)

CONDITIONS = (
    *("", "If-None-Match: *\r\n"),
    *("If-Modified-Since: Fri, 31 Dec 2100 23:59:59 GMT\r\n",),
    *("If-Match: \"x\"\r\n", "Range: bytes=0-0\r\n", "Range: bytes=9999999-\r\n"),
    *("Accept-Encoding: gzip\r\n", "Accept: text/html\r\n", "Expect: 100-continue\r\n"),
)


def answers():
    for line in ANSWERS:
        for more in CONDITIONS:
            head = f"{line} HTTP/1.1\r\n" + HOST + more + "\r\n"
            yield f"{line}, {more!r}", head, ""
            old = f"{line} HTTP/1.0\r\nConnection: keep-alive\r\n" + HOST + more + "\r\n"
            yield f"{line}, {more!r}, HTTP/1.0", old, ""


VARIANTS = [
    Variant(*variant)
    for part in (prefixes, lengths, codings, chunks, fields, request_lines, handshakes, answers)
    for variant in part()
]
