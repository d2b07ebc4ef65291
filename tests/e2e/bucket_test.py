"""`tidingsd bucket check` against a server that verifies signatures, with its faults."""

import hashlib
import re

import pytest

from tidings_test import s3
from tidings_test.s3 import Bucket, signature


# The signatures of Amazon's documentation (examplebucket, 24 May 2013), also those of
# tests/unit/bucket/sigv4_test.c.
VECTORS = (
    ("GET", "/test.txt", {"range": "bytes=0-9"}, b"",
     "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"),
    ("PUT", "/test%24file.text",
     {"date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"},
     b"Welcome to Amazon S3.",
     "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"),
    ("GET", "/?lifecycle", {}, b"",
     "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
    ("GET", "/?max-keys=2&prefix=J", {}, b"",
     "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
)  # fmt: skip


@pytest.mark.parametrize("method,target,headers,body,expected", VECTORS)
def test_the_server_of_these_tests_knows_the_published_signatures(
    method, target, headers, body, expected
):
    headers = {
        "host": "examplebucket.s3.amazonaws.com",
        "x-amz-date": "20130524T000000Z",
        "x-amz-content-sha256": hashlib.sha256(body).hexdigest(),
        **headers,
    }
    assert signature(s3.SECRET, method, target, headers, list(headers)) == expected


GOOD = "the bucket stores, returns and deletes objects, also in parts"


@pytest.fixture
def check(run, tmp_path):
    def call(bucket, *options, status=0, prefix="archive", credentials=None, **more):
        credentials = credentials or bucket.credentials(tmp_path)
        return run(
            "tidingsd", "bucket", "check", bucket.address(prefix),
            "--s3-credentials", credentials, *options, status=status, **more,
        )  # fmt: skip

    return call


@pytest.mark.parametrize("prefix", ("", "/", "a", "a/b/"))
def test_it_tries_a_bucket(check, prefix):
    with Bucket() as bucket:
        bucket.objects["other"] = b"x"
        assert check(bucket, prefix=prefix).output() == GOOD
        assert not bucket.refused and list(bucket.objects) == ["other"]
        methods, keys = zip(*(request.split() for request in bucket.requests))
        assert methods == METHODS
        assert len(set(keys[:5])) == len(set(keys[5:])) == 1
        for key in (keys[0], keys[5]):
            assert re.fullmatch(prefix.strip("/") + "/?[0-9a-f]{64}", key)


METHODS = ("PUT", "HEAD", "GET", "DELETE", "HEAD")
METHODS += ("HEAD", "BEGIN", "PART", "PART", "JOIN", "HEAD", "GET", "DELETE", "HEAD")


def test_it_signs_for_a_region_with_a_session(check, tmp_path):
    with Bucket(region="eu-central-1", token="a+token/==") as bucket:
        text = (
            f"[default]\naws_access_key_id = {s3.KEY_ID}\n"
            f"aws_secret_access_key = {s3.SECRET}\naws_session_token = a+token/==\n"
            "[other]\naws_access_key_id = x\naws_secret_access_key = y\n"
        )
        credentials = bucket.credentials(tmp_path, text)
        assert check(bucket, credentials=credentials).output() == GOOD


def test_it_speaks_tls(check, certificate):
    with Bucket(certificate=certificate) as bucket:
        assert check(bucket, env=certificate.env).output() == GOOD
        assert "certificate" in check(bucket, status=1).errors()


def test_credentials_come_from_the_environment(run):
    with Bucket() as bucket:
        environment = {"AWS_ACCESS_KEY_ID": s3.KEY_ID, "AWS_SECRET_ACCESS_KEY": s3.SECRET}
        arguments = ("tidingsd", "bucket", "check", bucket.address())
        assert run(*arguments, env=environment).output() == GOOD
        environment["AWS_SECRET_ACCESS_KEY"] = "0ther"
        failed = run(*arguments, env=environment, status=1)
        assert "403 SignatureDoesNotMatch" in failed.errors()
        assert "0ther" not in failed.errors()
        assert "has no access key ID" in run(*arguments, status=2).errors()


# An object that is there is as good as a new one.
def test_an_object_of_another_writer_is_no_failure(check):
    with Bucket() as bucket:
        bucket.fault("PUT", "mute")
        assert check(bucket).output() == GOOD
        assert bucket.requests.count(bucket.requests[0]) == 2


# Faults that pass: the request is made again.
@pytest.mark.parametrize("kind", ("500", "503", "cut"))
@pytest.mark.parametrize("method", ("GET", "HEAD", "PUT", "DELETE", "BEGIN", "PART", "JOIN"))
def test_a_fault_that_passes_is_repeated(check, method, kind):
    with Bucket() as bucket:
        bucket.fault(method, kind, times=2)
        assert check(bucket).output() == GOOD
        assert not bucket.objects


# Only the request that failed is made again: an error may stand in an answer 200, and
# parts may be joined by a request whose answer got lost.
@pytest.mark.parametrize("method,kind", (("PART", "500"), ("JOIN", "inside"), ("JOIN", "mute")))
def test_only_the_part_that_failed_is_repeated(check, method, kind):
    with Bucket() as bucket:
        bucket.fault(method, kind)
        assert check(bucket).output() == GOOD
        made = [request.split()[0] for request in bucket.requests]
        counts = {name: made.count(name) for name in ("BEGIN", "PART", "JOIN")}
        assert counts == {"BEGIN": 1, "PART": 2, "JOIN": 1, method: 3 if method == "PART" else 2}


LASTING = (
    ("PUT", "503", 9, "503 SlowDown Please reduce your request rate. 4442587FB7D0A2F9"),
    ("PUT", "403", 1, "the answer is 403 AccessDenied"),
    ("PUT", "region", 1, "eu-west-1"),
    ("PUT", "skew", 1, "RequestTimeTooSkewed"),
    ("PART", "503", 9, "503 SlowDown"),
    ("PART", "etag", 1, "400 InvalidPart"),
    ("JOIN", "inside", 9, "200 InternalError"),
    ("JOIN", "403", 1, "403 AccessDenied"),
    ("GET", "body", 1, "has other bytes"),
    ("GET", "short", 1, "has other bytes"),
    ("GET", "long", 1, "has other bytes"),
    ("HEAD", "lost", 1, "the answer is 404"),
    ("GET", "lost", 1, "the answer is 404 NoSuchKey"),
    ("DELETE", "kept", 1, "an object that was deleted"),
)  # fmt: skip


@pytest.mark.parametrize("method,kind,times,words", LASTING)
def test_a_fault_that_stays_is_named(check, method, kind, times, words):
    with Bucket() as bucket:
        bucket.fault(method, kind, times)
        failed = check(bucket, status=1)
        assert words in failed.errors(), failed.errors()
        assert s3.SECRET not in failed.errors()
        assert not bucket.uploads


def test_a_bucket_that_is_missing_is_named(check):
    with Bucket() as bucket:
        address = bucket.address()
        bucket.name = "other"
        bucket.address = lambda prefix: address
        assert "NoSuchBucket" in check(bucket, status=1).errors()


# What a server cannot do, it cannot do a second time.
def test_a_bucket_without_conditions_is_named_and_taken_if_allowed(check):
    with Bucket() as bucket:
        bucket.knows_condition = False
        failed = check(bucket, status=1).errors()
        assert "does not know If-None-Match" in failed and "--bucket-overwrite" in failed
        made = [request.split()[0] for request in bucket.requests]
        assert made == ["PUT", "DELETE"]
        bucket.requests.clear()
        assert check(bucket, "--bucket-overwrite").output() == GOOD
        made = [request.split()[0] for request in bucket.requests]
        assert made[:4] == ["PUT", "HEAD", "PUT", "HEAD"] and made.count("PUT") == 2
        assert not bucket.objects and not bucket.uploads


# It is not asked before the end of the pause, whatever the request.
@pytest.mark.parametrize("method", ("PUT", "HEAD", "GET", "BEGIN", "PART", "JOIN"))
def test_a_bucket_that_asks_for_a_pause_gets_it(check, method):
    with Bucket() as bucket:
        bucket.retry_after = 60
        bucket.fault(method, "503")
        assert "the answer is 503" in check(bucket, status=1).errors()
        assert bucket.requests[-1].split()[0] == method
        bucket.retry_after = 1
        bucket.fault(method, "503")
        assert check(bucket).output() == GOOD
