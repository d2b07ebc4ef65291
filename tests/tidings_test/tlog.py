"""What tests sign and hash as a log does: keys, checkpoints and trees (C2SP, RFC 6962)."""

import base64
import hashlib

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

DASH = "\u2014"


def sha256(data):
    return hashlib.sha256(data).digest()


# RFC 6962, section 2.1; of hashes of leaves.
def root_of(hashes):
    if len(hashes) == 1:
        return hashes[0]
    k = 1 << (len(hashes) - 1).bit_length() - 1
    return sha256(b"\1" + root_of(hashes[:k]) + root_of(hashes[k:]))


class Key:
    def __init__(self, secret=None):
        make = Ed25519PrivateKey
        self.key = make.from_private_bytes(secret) if secret else make.generate()
        self.public = self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

    def id(self, name, kind):
        return sha256(f"{name}\n".encode() + bytes([kind]) + self.public)[:4]

    def verifier(self, name, kind=1):
        public = base64.b64encode(bytes([kind]) + self.public).decode()
        return f"{name}+{self.id(name, kind).hex()}+{public}"

    def sign(self, name, body):
        data = self.id(name, 1) + self.key.sign(body.encode())
        return f"{DASH} {name} {base64.b64encode(data).decode()}\n"

    def cosign(self, name, body, at=1_800_000_000):
        signed = self.key.sign(f"cosignature/v1\ntime {at}\n{body}".encode())
        data = self.id(name, 4) + at.to_bytes(8, "big") + signed
        return f"{DASH} {name} {base64.b64encode(data).decode()}\n"


def kept_by_command(url, what, state):
    """The file of the set beside the state: "checkpoint" or "evidence"."""
    value = 0xCBF29CE484222325
    for byte in url.encode():
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return state.with_name(f"{state.name}.{what}-{value:016x}")
