"""A server of the S3 protocol that verifies AWS Signature Version 4, with faults.

    with Bucket() as bucket:                 or Bucket(certificate=...), by TLS
        bucket.address("archive")         "s3://tidings/archive?endpoint=http://..."
        bucket.credentials(tmp_path)      a file of them
        bucket.objects                    {key: bytes}
    bucket.times                      {key: when it was written}
        bucket.requests                   ["PUT archive/x", ...]
        bucket.fault("PUT", "500", times=2)
    bucket.taken = 304                says that there is such an object
    bucket.knows_condition = False    answers 501 to If-None-Match
    bucket.retry_after = 60           asks for a pause with each 503
    bucket.uploads                    {ID: {number: bytes}}, of objects in parts

The requests of an object in parts are BEGIN, PART, JOIN and DROP.

Faults: a status ("500", "503", "403"), "cut" (no whole answer), "late" (no answer until
release()), "mute" (done, and no answer), "body" (a changed byte), "short", "long" (a part
of the body, or more), "inside" (200 with an error), "etag" (another one), "region", "skew", "lost" (the object is gone), "kept" (a deletion
that is none).
"""

import contextlib
import email.utils
import hashlib
import hmac
import http.server
import re
import ssl
import threading
import time
import urllib.parse

KEY_ID = "AKIAIOSFODNN7EXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"

EMPTY = hashlib.sha256(b"").hexdigest()


def _hmac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def canonical_query(query):
    pairs = urllib.parse.parse_qsl(query, keep_blank_values=True)
    quoted = [(urllib.parse.quote(n, safe="-_.~"), urllib.parse.quote(v, safe="-_.~")) for n, v in pairs]
    return "&".join(f"{name}={value}" for name, value in sorted(quoted))


def signature(secret, method, target, headers, signed, region="us-east-1"):
    """The signature of a request, from the standard's own words: `headers` by their names
    in lower case, `signed` the names that count."""
    path, _, query = target.partition("?")
    time = headers["x-amz-date"]
    scope = f"{time[:8]}/{region}/s3/aws4_request"
    canonical = "\n".join(
        [
            method,
            urllib.parse.quote(urllib.parse.unquote(path), safe="/-_.~"),
            canonical_query(query),
            *(f"{name}:{' '.join(headers[name].split())}" for name in sorted(signed)),
            "",
            ";".join(sorted(signed)),
            headers["x-amz-content-sha256"],
        ]
    )
    text = "\n".join(
        ["AWS4-HMAC-SHA256", time, scope, hashlib.sha256(canonical.encode()).hexdigest()]
    )
    key = ("AWS4" + secret).encode()
    for step in scope.split("/"):
        key = _hmac(key, step)
    return _hmac(key, text).hex()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def setup(self):
        super().setup()
        self.server.bucket.connections.add(self.connection)

    def answer(self, status, body=b"", headers=()):
        if self.fault in ("cut", "mute"):
            self.close_connection = True
            if self.fault == "cut" and body:
                half = body[: len(body) // 2]
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + half)
            return
        if self.fault == "body" and body:
            body = bytes([body[0] ^ 1]) + body[1:]
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        if status == 503 and self.server.bucket.retry_after:
            self.send_header("Retry-After", str(self.server.bucket.retry_after))
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, code, message="because of the test", **more):
        extra = "".join(f"<{name}>{value}</{name}>" for name, value in more.items())
        self.answer(
            status,
            f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code>'
            f"<Message>{message}</Message>{extra}<RequestId>4442587FB7D0A2F9</RequestId>"
            "</Error>".encode(),
        )

    def problem(self, body):
        """What is wrong with the signature; None: nothing."""
        bucket = self.server.bucket
        headers = {name.lower(): value for name, value in self.headers.items()}
        given = headers.get("authorization", "")
        if not given.startswith("AWS4-HMAC-SHA256 "):
            return "AccessDenied"
        parts = dict(part.strip().split("=", 1) for part in given[17:].split(","))
        signed = parts["SignedHeaders"].split(";")
        owed = {"host"} | {name for name in headers if name.startswith("x-amz-")}
        if parts["Credential"].split("/")[0] != KEY_ID:
            return "InvalidAccessKeyId"
        if not owed <= set(signed) or headers.get("x-amz-security-token") != bucket.token:
            return "AccessDenied"
        if headers["x-amz-content-sha256"] != hashlib.sha256(body).hexdigest():
            return "XAmzContentSHA256Mismatch"
        right = signature(SECRET, self.command, self.path, headers, signed, bucket.region)
        return None if hmac.compare_digest(right, parts["Signature"]) else "SignatureDoesNotMatch"

    def handle_one(self):
        bucket = self.server.bucket
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path, _, query = self.path.partition("?")
        self.query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        name, _, key = urllib.parse.unquote(path).lstrip("/").partition("/")
        kind = self.command
        if "uploads" in self.query:
            kind = "BEGIN"
        elif "uploadId" in self.query:
            kind = {"PUT": "PART", "POST": "JOIN", "DELETE": "DROP"}[kind]
        self.fault = bucket.begin(kind, key)
        if self.fault == "late":
            bucket.released.wait()
            self.connection.shutdown(2)
        elif self.fault in ("500", "403"):
            self.refuse(int(self.fault), "InternalError" if self.fault == "500" else "AccessDenied")
        elif self.fault == "503":
            self.refuse(503, "SlowDown", "Please reduce your request rate.")
        elif "If-None-Match" in self.headers and not bucket.knows_condition:
            self.refuse(501, "NotImplemented", "A header is not implemented.")
        elif self.fault == "region":
            self.refuse(400, "AuthorizationHeaderMalformed", Region="eu-west-1")
        elif self.fault == "skew":
            self.refuse(403, "RequestTimeTooSkewed")
        elif wrong := self.problem(body):
            bucket.refused.append(wrong)
            self.refuse(403, wrong)
        elif name != bucket.name:
            self.refuse(404, "NoSuchBucket")
        else:
            if self.fault == "lost":
                bucket.objects.pop(key, None)
            getattr(self, "object_" + kind.lower())(key, body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_one

    def object_get(self, key, body):
        data = self.server.bucket.objects.get(key)
        if data is None:
            self.refuse(404, "NoSuchKey")
            return
        sizes = {"short": data[: len(data) // 2], "long": data + b"x"}
        self.answer(200, sizes.get(self.fault, data), {"ETag": '"no-digest"'})

    def object_head(self, key, body):
        data = self.server.bucket.objects.get(key)
        at = self.server.bucket.times.get(key)
        headers = {"Last-Modified": email.utils.formatdate(at, usegmt=True)}
        self.answer(404 if data is None else 200, data or b"", headers)

    def object_put(self, key, body):
        with self.server.bucket.lock:
            if self.headers.get("If-None-Match") == "*" and key in self.server.bucket.objects:
                self.refuse(self.server.bucket.taken, "PreconditionFailed")
                return
            self.server.bucket.objects[key] = body
            self.server.bucket.times[key] = time.time()
        self.answer(200, b"", {"ETag": '"no-digest"'})

    def object_begin(self, key, body):
        id_ = f"2~{len(self.server.bucket.requests)}/+="
        self.server.bucket.uploads[id_] = {}
        self.answer(200, f"<Result><UploadId>{id_}</UploadId></Result>".encode())

    def parts(self):
        """The parts of the upload; None: there is none, which is said."""
        parts = self.server.bucket.uploads.get(self.query["uploadId"])
        if parts is None:
            self.refuse(404, "NoSuchUpload")
        return parts

    def object_part(self, key, body):
        parts = self.parts()
        if parts is not None:
            parts[int(self.query["partNumber"])] = body
            etag = hashlib.md5(body + b"x" * (self.fault == "etag")).hexdigest()
            self.answer(200, b"", {"ETag": f'"{etag}"'})

    def object_join(self, key, body):
        parts = self.parts()
        if parts is None:
            return
        row = r"<Part><PartNumber>(\d+)</PartNumber><ETag>\"(\w+)\"</ETag></Part>"
        named = re.findall(row, body.decode())
        mine = [(str(n), hashlib.md5(parts[n]).hexdigest()) for n in sorted(parts)]
        if self.fault == "inside":
            self.answer(200, b"  <Error><Code>InternalError</Code></Error>")
        elif named != mine:
            self.refuse(400, "InvalidPart")
        elif any(len(parts[n]) < 5 << 20 for n in sorted(parts)[:-1]):
            self.refuse(400, "EntityTooSmall")
        else:
            with self.server.bucket.lock:
                if self.headers.get("If-None-Match") == "*" and key in self.server.bucket.objects:
                    self.refuse(412, "PreconditionFailed")
                    return
                self.server.bucket.objects[key] = b"".join(parts[n] for n in sorted(parts))
                self.server.bucket.times[key] = time.time()
                del self.server.bucket.uploads[self.query["uploadId"]]
            self.answer(200, b"<CompleteMultipartUploadResult></CompleteMultipartUploadResult>")

    def object_drop(self, key, body):
        if self.parts() is not None:
            del self.server.bucket.uploads[self.query["uploadId"]]
            self.answer(204)

    def object_delete(self, key, body):
        if self.fault != "kept":
            self.server.bucket.objects.pop(key, None)
        self.answer(204)


class Bucket:
    def __init__(self, region="us-east-1", token=None, certificate=None):
        self.name, self.region, self.token = "tidings", region, token
        self.objects, self.requests, self.refused = {}, [], []
        self.uploads, self.times = {}, {}
        self.connections = set()
        self.taken = 412
        self.knows_condition, self.retry_after = True, None
        self.lock, self.released = threading.Lock(), threading.Event()
        self._faults = []
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self.server.daemon_threads = True
        self.server.bucket = self
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate.cert, certificate.key)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
            self.endpoint = f"https://localhost:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.release()
        self.server.shutdown()
        self.server.server_close()

    def begin(self, method, key):
        """Note a request; return its fault."""
        with self.lock:
            self.requests.append(f"{method} {key}")
            for fault in self._faults:
                if fault[0] == method and fault[2] > 0:
                    fault[2] -= 1
                    return fault[1]
        return None

    def fault(self, method, kind, times=1):
        """Make the next requests of a method fail."""
        self._faults.append([method, kind, times])

    def mend(self):
        self._faults.clear()

    def release(self):
        self.released.set()
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(2)

    def address(self, prefix="archive"):
        return f"s3://{self.name}/{prefix}?endpoint={self.endpoint}&region={self.region}"

    def credentials(self, directory, text=f"{KEY_ID}\n{SECRET}\n"):
        path = directory / "s3-credentials"
        path.write_text(text)
        path.chmod(0o600)
        return path
