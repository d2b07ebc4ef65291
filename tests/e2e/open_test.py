"""An open broker is for its own machine: the clients that it admits, the addresses
where it may listen, and its errors about wrong options."""

import pytest

from tidings_test.http import JSON, check_refused
from tidings_test.sets import change
from tidings_test.stream import UPGRADE

# Requests that an open broker admits, by Host and Origin; PORT is that of the broker.
LET_IN = [
    ("127.0.0.1:PORT", None),
    ("localhost:PORT", None),
    ("LocalHost:PORT", None),
    ("[::1]:PORT", None),
    ("127.0.0.1:PORT", "http://127.0.0.1:PORT"),
    ("localhost:PORT", "http://localhost:PORT"),
    ("127.0.0.1", None),
    ("localhost", None),
]
KEPT_OUT = [
    ("example.org", None),
    ("example.org:PORT", None),
    ("localhost.example.org:PORT", None),
    ("127.0.0.2:PORT", None),
    ("[::]:PORT", None),
    ("", None),
    ("127.0.0.1:1", None),  # by a forwarder
    ("127.0.0.1:1", "http://127.0.0.1:1"),
    ("127.0.0.1:PORT", "null"),
    ("127.0.0.1:PORT", "http://example.org"),
    ("127.0.0.1:PORT", "http://example.org:PORT"),
    ("127.0.0.1:PORT", "http://127.0.0.1"),
    ("127.0.0.1:PORT", "http://127.0.0.1:1"),
    ("127.0.0.1:PORT", "http://127.0.0.1:PORT.example.org"),
    ("127.0.0.1:PORT", "http://localhost:PORT"),
    ("127.0.0.1:PORT", "http://example.org@127.0.0.1:PORT"),
    ("127.0.0.1:PORT", "file://"),
    ("example.org", "http://example.org"),
]


def visit(broker, visitor, path="/sets", method="GET", body=None, **headers):
    """The status of a visitor's request, on a connection of its own."""
    host, origin = (
        text and text.replace("PORT", str(broker.port)) for text in visitor
    )
    with broker.connect() as connection:
        connection.ask(path, method, body, host=host, origin=origin, **headers)
        return connection.answer_head().status


# A foreign page could do this from a browser on this machine: read, publish, follow.
def test_lets_in_nobody_from_elsewhere(news, broker):
    news.post()
    posted = broker.set()
    entry = change("http://example.com/a")
    for visitor in LET_IN + KEPT_OUT:
        is_let_in = visitor in LET_IN
        got = [
            visit(broker, visitor),
            visit(broker, visitor, f"{news.path}/changelist.xml"),
            visit(broker, visitor, posted.changes, "POST", entry, content_type=JSON),
            visit(broker, visitor, news.stream, **UPGRADE),
        ]
        expected = [200, 200, 200, 101] if is_let_in else [403, 403, 403, 403]
        if visitor == ("", None):
            expected = [400] * 4  # RFC 9112 section 3.2
        assert got == expected, visitor
    # As many entries as were let in, none of the others.
    assert posted.post().last == len(LET_IN) + 1


# A client behind a proxy is not of this machine, although the proxy is.
PROXIED = [
    ("Forwarded", "for=192.0.2.1"),
    ("Via", "1.1 proxy"),
    ("X-Forwarded-For", "192.0.2.1"),
    ("X-Forwarded-Host", "example.org"),
    ("X-Forwarded-Proto", "https"),
    ("X-Real-IP", "192.0.2.1"),
    ("x-forwarded-for", "127.0.0.1"),
]


def test_lets_in_nobody_by_a_proxy(news, broker, start_broker):
    news.post()
    visitor = ("localhost", None)
    for name, value in PROXIED:
        header = {name.replace("-", "_"): value}
        post = {"content_type": JSON, **header}
        entry = change("http://example.com/a")
        got = [
            visit(broker, visitor, **header),
            visit(broker, visitor, news.changes, "POST", entry, **post),
            visit(broker, visitor, news.stream, **UPGRADE, **header),
        ]
        assert got == [403, 403, 403], name
        answer = broker.get("/sets", **header)
        check_refused(answer, 403, f"by a proxy ({name.lower()})")
    for_all = start_broker("--insecure-open")
    assert for_all.get("/sets", x_forwarded_for="192.0.2.1").status == 200


# A bare proxy_pass of nginx. The log warns of a client that looks like one of this
# machine.
def test_lets_in_no_http_1_0(broker, start_broker):
    asked = b"GET /sets HTTP/1.0\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n"
    for_all = start_broker("--insecure-open")
    for one, status in ((broker, 403), (for_all, 200)):
        with one.connect() as connection:
            connection.send(asked % one.port)
            assert connection.answer_head().status == status
    warning = "a proxy here must send X-Forwarded-For"
    broker.wait_said(warning)
    for_all.wait_said('msg="ready"')
    assert not for_all.has_said(warning)


# What programs of this machine send over HTTP/1.0 is no sign of a proxy: text browsers
# read, and HAProxy's default probe has no Host.
OLD = (
    ("GET /sets HTTP/1.0\r\nHost: {host}\r\nAccept: text/html\r\nUser-Agent: Lynx/2.9.0\r\n", 200),
    ("GET / HTTP/1.0\r\nUser-Agent: w3m/0.5.3\r\nAccept: text/html\r\nHost: {host}\r\n", 200),
    ("HEAD /sets HTTP/1.0\r\nHost: {host}\r\n", 200),
    ("OPTIONS / HTTP/1.0\r\n", 204),
    ("OPTIONS * HTTP/1.0\r\n", 204),
    ("OPTIONS /sets/news/changes HTTP/1.0\r\n", 204),
    ("OPTIONS / HTTP/1.0\r\nOrigin: http://example.org\r\n", 403),
    ("OPTIONS / HTTP/1.0\r\nHost: {host}\r\n", 403),
    ("OPTIONS / HTTP/1.1\r\nHost: example.org\r\n", 403),
    ("GET /sets HTTP/1.0\r\n", 403),
    ("GET /sets HTTP/1.0\r\nHost: example.org\r\n", 403),
    ("GET /sets HTTP/1.0\r\nHost: {host}\r\nVia: 1.0 proxy\r\n", 403),
    ("GET /sets HTTP/1.0\r\nHost: {host}\r\nConnection: keep-alive\r\n", 403),
    ("POST /sets/news/changes HTTP/1.0\r\nHost: {host}\r\nContent-Length: 0\r\n", 403),
)


@pytest.mark.parametrize("head,status", OLD)
def test_an_old_client_of_this_machine_comes_in(broker, head, status):
    with broker.connect() as connection:
        connection.send((head.format(host=f"127.0.0.1:{broker.port}") + "\r\n").encode())
        assert connection.answer_head().status == status


def test_says_why_it_lets_nobody_in(broker):
    stranger = broker.get("/sets", host="example.org")
    check_refused(stranger, 403, "example.org")
    check_refused(stranger, 403, "--public-url")
    page = broker.get("/sets", origin="http://example.org")
    check_refused(page, 403, "example.org")


# The name in --public-url is the broker's, too. Its own pages may use it under any
# Host: a proxy may name another one than the address of the page. With --insecure-open
# a broker has no other names: a page of any name may point here.
@pytest.mark.parametrize(
    "options, visitors",
    [
        (
            ["--public-url", "http://localhost:1"],
            [
                ("localhost:1", "http://localhost:1", 200),
                ("127.0.0.1:PORT", "http://localhost:1", 200),
                ("localhost:PORT", "http://localhost:1", 200),
                ("127.0.0.1:PORT", "http://localhost:2", 403),
                ("127.0.0.1:PORT", "http://localhost", 403),
                ("example.org", "http://localhost:1", 403),
            ],
        ),
        (
            ["--insecure-open", "--public-url", "http://example.org"],
            [
                ("example.org", None, 200),
                ("example.org", "http://example.org", 200),
                ("example.org", "http://example.org:80", 200),
                ("example.org", "https://example.org", 403),
                ("example.org", "http://example.com", 403),
                ("localhost:PORT", None, 200),
                ("localhost:PORT", "http://localhost:PORT", 200),
                ("localhost:PORT", "https://localhost:PORT", 403),
                ("example.com", None, 403),
                ("example.com", "http://example.com", 403),
                ("192.0.2.1:PORT", None, 403),
            ],
        ),
    ],
)
def test_answers_to_other_names_by_option(start_broker, options, visitors):
    broker = start_broker(*options)
    for host, origin, status in visitors:
        assert visit(broker, (host, origin)) == status, (host, origin)


# How it is started


def check_starts(run, tmp_path, cases):
    """Each row is options, a status, and a part of what it has to print. Status 2 comes
    with one sentence. No data directory is made."""
    data = tmp_path / "data"
    for line, status, part in cases:
        done = run("tidingsd", "--data", data, *line.split(), status=status)
        printed = [*done.out, *done.err]
        assert any(part in each for each in printed), (line, printed)
        if status == 2:
            assert len(printed) == 1 and printed[0].startswith("tidingsd: "), line
        assert not data.exists(), line


def test_does_not_listen_to_all_without_being_told_twice(run, tmp_path):
    insecure = "--insecure-open"
    cases = [
        ("--listen 0.0.0.0:0", 2, "--public-url"),
        ("--listen [::]:0", 2, "--public-url"),
        ("--listen 0.0.0.0:0 --public-url http://127.0.0.1:1", 2, insecure),
        ("--listen 192.0.2.1:0", 2, insecure),
        ("--public-url http://example.org", 2, insecure),
        ("--public-url http://127.example.org", 2, insecure),
        ("--public-url http://localhost.example.org", 2, insecure),
        ("--public-url http://127.0.0.1@example.org", 2, ""),
        ("--insecure-open --public-url http://a.example/x&y", 2, "without & <"),
        ("--listen 0.0.0.0:0 --insecure-open", 2, "--public-url"),
        (
            "--listen 0.0.0.0:0 --check --insecure-open "
            "--public-url=http://example.org",
            0,
            "",
        ),
        ("--public-url=http://example.org --insecure-open --check", 0, ""),
        ("--public-url=http://example.org --closed --check", 0, ""),
        ("--closed --insecure-open", 2, "exclude each other"),
        ("--public-url=http://localhost:80/news --check", 0, ""),
    ]
    check_starts(run, tmp_path, cases)


def test_checks_options_without_doing_anything(run, tmp_path):
    cases = [
        ("--check", 0, ""),
        ("--check --listen 127.0.0.1:0", 0, ""),
        ("--check --listen 0.0.0.0:0", 2, "0.0.0.0"),
        ("--check --threads 0", 2, "--threads"),
        ("--version", 0, "tidingsd "),
        ("--help", 0, "usage: tidingsd"),
    ]
    check_starts(run, tmp_path, cases)


def test_refuses_wrong_options_with_a_sentence(run, tmp_path):
    cases = [
        ("--threads 2 --threads 3", 2, "twice"),
        ("--config /nonexistent", 2, "/nonexistent"),
        ("--mqtt mqtt://me:secret@127.0.0.1", 2, "password-file"),
    ]
    for wrong in (
        "--nothing",
        "nothing",
        "-d",
        "--listen",
        "--listen nowhere",
        "--listen 127.0.0.1:99999",
        "--threads 0",
        "--threads many",
        "--rotate-entries 50001",
        "--rotate-bytes 51M",
        "--rotate-age -1",
        "--max-body 1X",
        "--heartbeat 0",
        "--message-bytes 17M",
        "--public-url ftp://127.0.0.1",
        "--log-level loud",
        "--check=yes",
        "--mqtt http://127.0.0.1",
    ):
        name = wrong.split()[0].partition("=")[0]
        cases.append((wrong, 2, name))
    check_starts(run, tmp_path, cases)
