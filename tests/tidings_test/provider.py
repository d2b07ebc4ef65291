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
import urllib.parse

from tidings_test.servers import Server

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


class OpenId(Server):
    """The provider as people meet it: OpenID Connect, authorization code with PKCE. It signs
    everybody in at once, without a question.

        provider = OpenId(keys, tidings={"subscribe": ["*"]})     `keys`: a Provider
        start_broker("--jwt-keys", f"{provider.url}/keys", *provider.options)
        provider.says["token_endpoint"] = ...     another line of its description
        provider.refuses = "access_denied"        nobody is signed in
        provider.answers = {"access_token": "opaque"}     other members of the answer
    """

    def __init__(self, keys, **claims):
        super().__init__()
        self.keys, self.claims = keys, claims
        self.says, self.answers = {}, {}
        self.refuses = None
        self.silent = None  # a path that gets no answer
        self.asked = []  # the forms of requests for tokens
        self._codes = {}

    @property
    def options(self):
        return ("--jwt-issuer", self.url, "--jwt-audience", AUDIENCE, "--jwt-client", "console")

    def token(self, **claims):
        return self.keys.token("a", iss=self.url, iat=int(time.time()), **self.claims, **claims)

    async def serve(self, peer):
        while request := await peer.request():
            path, _, query = request.target.partition("?")
            if path == self.silent:
                await peer.gone()
                return
            status, lines, body = self._answer(path, dict(urllib.parse.parse_qsl(query)), request)
            lines += [f"Content-Length: {len(body)}", "Access-Control-Allow-Origin: *", "Connection: close"]
            head = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status} -", *lines, ""))
            await peer.send(head.encode() + body)
            return

    def _answer(self, path, query, request):
        if path == "/keys":
            return 200, [], self.keys.json().encode()
        if path == "/.well-known/openid-configuration":
            said = {"issuer": self.url, "authorization_endpoint": f"{self.url}/authorize",
                    "token_endpoint": f"{self.url}/token", **self.says}
            return 200, [], json.dumps(said).encode()
        if path == "/authorize":
            back = self._authorize(query)
            return 302, [f"Location: {query['redirect_uri']}?{urllib.parse.urlencode(back)}"], b""
        if path == "/token":
            form = dict(urllib.parse.parse_qsl(request.body.decode()))
            self.asked.append(form)
            status, answer = self._token(form)
            return status, ["Content-Type: application/json"], json.dumps(answer).encode()
        return 404, [], b""

    def _authorize(self, query):
        assert query["response_type"] == "code" and query["code_challenge_method"] == "S256", query
        assert query["client_id"] == "console" and "openid" in query["scope"].split(), query
        if self.refuses:
            return {"error": self.refuses, "error_description": "not today", "state": query["state"]}
        code = base64url(os.urandom(16))
        self._codes[code] = query
        return {"code": code, "state": query["state"], "iss": self.url}

    def _token(self, form):
        """As RFC 6749, RFC 7636: a code is good once, for who has the verifier."""
        if form["grant_type"] == "refresh_token":
            return 200, {"access_token": self.token(jti=str(len(self.asked)))}
        query = self._codes.pop(form["code"], None)
        proof = base64url(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        if (not query or proof != query["code_challenge"] or form["client_id"] != query["client_id"]
                or form["redirect_uri"] != query["redirect_uri"]):
            return 400, {"error": "invalid_grant"}
        return 200, {"access_token": self.token(), "id_token": self.token(nonce=query["nonce"]), **self.answers}
