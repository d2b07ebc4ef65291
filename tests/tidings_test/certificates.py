"""A CA and a certificate of it, made for one test by Debian's openssl.

    def test_something(start_broker, certificate):
        broker = start_broker(*certificate.options, tls=certificate.trust())
        tidings("get", news.url, env=certificate.env)

P-256 keys. An intermediate CA, which stands behind the certificate in the file, signs
it: a client that trusts only the root needs the chain.
"""

import hashlib
import os
import pathlib
import ssl
import subprocess

NAMES = "DNS:localhost,IP:127.0.0.1,IP:::1"


class Certificate:
    """`ca` is the root, `cert` the certificate and the intermediate, `key` its key;
    PEM files. `expired`: since yesterday. `rsa`: bits of an RSA key; else P-256.
    `password`: of the key's file. `usage`: an extendedKeyUsage, "clientAuth"; else any.
    `sha1`: signed by it. `middle_rsa`: bits of an RSA key of the intermediate."""

    def __init__(
        self,
        directory,
        names=NAMES,
        expired=False,
        rsa=None,
        password=None,
        usage=None,
        sha1=False,
        middle_rsa=None,
    ):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(exist_ok=True)
        self.ca = self.directory / "root.pem"
        self.cert = self.directory / "cert.pem"
        self.key = self.directory / "key.pem"
        self._key("root")
        self._key("middle", middle_rsa)
        self._key("key", rsa, password)
        # What RFC 5280 demands, and Python from 3.13 on.
        authority = "basicConstraints=critical,CA:TRUE"
        usage_of_authority = "keyUsage=critical,keyCertSign,cRLSign"
        self._openssl(
            "req", "-x509", "-key", "root-key.pem", "-subj", "/CN=a root",
            "-days", "2", "-addext", authority, "-addext", usage_of_authority,
            "-out", "root.pem",
        )  # fmt: skip
        identifiers = "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid"
        extensions = f"{authority}\n{usage_of_authority}\n{identifiers}"
        self._sign("middle", "in between", "root", extensions)
        names = f"basicConstraints=critical,CA:FALSE\n{identifiers}\nsubjectAltName={names}"
        names += f"\nextendedKeyUsage={usage}" if usage else ""
        digest = "-sha1" if sha1 else "-sha256"
        self._sign("cert", "a broker", "middle", names, "key", password, expired, digest)
        chain = self.cert.read_text() + (self.directory / "middle.pem").read_text()
        self.cert.write_text(chain)

    @property
    def options(self):
        """The options of a broker that speaks TLS with it."""
        return "--tls-cert", self.cert, "--tls-key", self.key

    @property
    def fingerprint(self):
        """The SHA-256 of the certificate."""
        pem = self.cert.read_text().partition("-----END CERTIFICATE-----")
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem[0] + pem[1])).hexdigest()

    @property
    def env(self):
        """The environment of programs that trust the CA."""
        return {"CURL_CA_BUNDLE": str(self.ca), "SSL_CERT_FILE": str(self.ca)}

    def trust(self):
        """An SSLContext of a client that trusts the CA."""
        return ssl.create_default_context(cafile=self.ca)

    def serve(self):
        """An SSLContext of a server with the certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, self.key)
        return context

    def _key(self, name, rsa=None, password=None):
        kind = ["RSA", "-pkeyopt", f"rsa_keygen_bits:{rsa}"] if rsa else (
            ["EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
        )
        path = self.directory / ("key.pem" if name == "key" else f"{name}-key.pem")
        protect = ["-aes-128-cbc", "-pass", f"pass:{password}"] if password else []
        self._openssl("genpkey", "-algorithm", *kind, *protect, "-out", path)
        os.chmod(path, 0o600)

    def _sign(
        self,
        name,
        subject,
        by,
        extensions,
        key=None,
        password=None,
        expired=False,
        digest="-sha256",
    ):
        key = f"{key}.pem" if key else f"{name}-key.pem"
        opening = ["-passin", f"pass:{password}"] if password else []
        (self.directory / "extensions").write_text(extensions)
        self._openssl(
            "req", "-new", "-key", key, *opening, "-subj", f"/CN={subject}",
            "-out", "request",
        )  # fmt: skip
        self._openssl(
            "x509", "-req", "-in", "request", "-CA", f"{by}.pem",
            "-CAkey", f"{by}-key.pem", "-days", "2",
            "-extfile", "extensions", digest, "-out", f"{name}.pem",
            around=("faketime", "-f", "-3d") if expired else (),
        )  # fmt: skip

    def _openssl(self, *arguments, around=()):
        done = subprocess.run(
            [*around, "/usr/bin/openssl", *map(str, arguments)],
            cwd=self.directory,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
