"""TLS as it must not be: a server that speaks any version with any certificate, and a
configuration of OpenSSL (OPENSSL_CONF) with which programs permit everything.

    server = Lax(certificate, ssl.TLSVersion.TLSv1_1)
    assert server.reached.wait(1).startswith(b"GET ")
    server.close()
"""

import contextlib
import socket
import ssl
import threading
import warnings

from tidings_test.waiting import Arrivals

CONFIG = """\
openssl_conf = all
[all]
ssl_conf = tls
[tls]
system_default = lax
[lax]
MinProtocol = TLSv1
CipherString = DEFAULT@SECLEVEL=0
"""


def permit_all(context, version=None):
    """Let an SSLContext speak any version, or `version` as the latest, and use any
    cipher and key."""
    context.set_ciphers("ALL:COMPLEMENTOFALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        if version:
            context.maximum_version = version
    return context


class Lax:
    """A server that speaks any TLS with any certificate, HTTP, and the first word of
    MQTT. `reached` are the first bytes of connections whose client trusted it, `body` is
    what it answers: no other server has it, so that a broker asks each for its own."""

    def __init__(self, certificate, version=None):
        context = permit_all(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), version)
        context.load_cert_chain(certificate.cert, certificate.key)
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.body = f"content of {self.port}".encode()
        self.reached = Arrivals(f"the clients of port {self.port}")
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, scheme="https"):
        return f"{scheme}://127.0.0.1:{self.port}"

    def close(self):
        self._listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                peer = self._listener.accept()[0]
                threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer):
        with peer, contextlib.suppress(OSError):
            peer = self._context.wrap_socket(peer, server_side=True)
            first = peer.recv(4096)
            if not first:
                return
            self.reached.add(first)
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(self.body)}\r\n\r\n"
            peer.sendall(head.encode() + self.body)
