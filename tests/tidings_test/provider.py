"""An identity provider: keys, their JWK set, and JSON Web Tokens signed with them, by
Debian's openssl and Python's hmac.

    provider = Provider(tmp_path)
    provider.key("a", "RS256")
    provider.write(keys)                        the JWK set, to a file
    site.put("/keys.json", provider.json())     or at a URL
    token = provider.token("a", tidings={"publish": ["news"]})
"""

import base64
import hashlib
import hmac
import json
import os
import subprocess
import time

ISSUER = "https://idp.example"
AUDIENCE = "https://push.example"

OPTIONS = ("--jwt-issuer", ISSUER, "--jwt-audience", AUDIENCE)


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def bearer(token):
    """The header that carries a token, for the methods of a client."""
    return {"authorization": f"Bearer {token}"}


class Key:
    """A key of "HS256", "RS256", "PS256" or "ES256"."""

    def __init__(self, directory, kid, alg):
        self.kid, self.alg = kid, alg
        self.path = directory / f"{kid}.pem"
        self.secret = os.urandom(32)
        if alg == "ES256":
            kind = ["EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
        else:
            kind = ["RSA", "-pkeyopt", "rsa_keygen_bits:2048"]
        if alg != "HS256":
            _openssl("genpkey", "-algorithm", *kind, "-out", self.path)

    def jwk(self):
        jwk = {"kid": self.kid, "alg": self.alg, "use": "sig"}
        if self.alg == "HS256":
            return {**jwk, "kty": "oct", "k": base64url(self.secret)}
        der = _openssl("pkey", "-in", self.path, "-pubout", "-outform", "DER")
        if self.alg == "ES256":  # the point stands at the end
            x, y = base64url(der[-64:-32]), base64url(der[-32:])
            return {**jwk, "kty": "EC", "crv": "P-256", "x": x, "y": y}
        modulus = _openssl("rsa", "-in", self.path, "-noout", "-modulus")
        n = bytes.fromhex(modulus.decode().strip().removeprefix("Modulus="))
        return {**jwk, "kty": "RSA", "n": base64url(n), "e": "AQAB"}

    def sign(self, text):
        if self.alg == "HS256":
            return hmac.new(self.secret, text, hashlib.sha256).digest()
        padding = ["-sigopt", "rsa_padding_mode:pss", "-sigopt", "rsa_pss_saltlen:32"]
        signature = _openssl(
            "dgst", "-sha256", "-sign", self.path,
            *(padding if self.alg == "PS256" else []), input=text,
        )  # fmt: skip
        return _flatten(signature) if self.alg == "ES256" else signature


class Provider:
    """Keys by their names."""

    def __init__(self, directory):
        self.directory = directory / "provider"
        self.directory.mkdir()
        self.keys = {}

    def key(self, kid, alg="ES256"):
        self.keys[kid] = Key(self.directory, kid, alg)

    def json(self, *kids):
        """The JWK set, of these keys or of all."""
        return json.dumps({"keys": [self.keys[kid].jwk() for kid in kids or self.keys]})

    def write(self, path, *kids):
        """Replace a file by the JWK set."""
        new = path.with_suffix(".new")
        new.write_text(self.json(*kids))
        os.replace(new, path)

    def token(self, kid, lasts=3600, header=None, **claims):
        """A token for `lasts` seconds, with these members in its header and these
        claims beside those that it needs."""
        key = self.keys[kid]
        head = {"alg": key.alg, "kid": kid, "typ": "JWT", **(header or {})}
        body = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "exp": time.time() + lasts,
            "sub": "alice",
            **claims,
        }
        text = ".".join(base64url(json.dumps(part).encode()) for part in (head, body))
        return f"{text}.{base64url(key.sign(text.encode()))}"


def _flatten(der):
    """The two numbers of an ECDSA signature, 32 bytes each."""
    size = der[3]
    r, s = der[4 : 4 + size], der[6 + size :]
    return b"".join(part.lstrip(b"\0").rjust(32, b"\0") for part in (r, s))


def _openssl(*arguments, input=b""):
    done = subprocess.run(
        ["/usr/bin/openssl", *map(str, arguments)], input=input, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
