"""Unix sockets of a broker: the one of --listen-unix for proxies, and the control socket
of its operator in the data directory."""

import contextlib
import os
import socket
import stat

import pytest

from tidings_test.http import JSON, check_refused
from tidings_test.sets import Set, change


def mode_of(path):
    """The permissions of a socket's file."""
    mode = os.lstat(path).st_mode
    assert stat.S_ISSOCK(mode)
    return stat.S_IMODE(mode)


@pytest.fixture
def path(tmp_path):
    """Where --listen-unix has its socket."""
    return tmp_path / "proxy.sock"


def test_sockets_are_there_while_the_broker_runs(start_broker, path):
    broker = start_broker("--listen-unix", path)
    for _ in range(2):
        assert (mode_of(path), mode_of(broker.control)) == (0o660, 0o600)
        for where in (path, broker.control):
            client = broker.client_at(where)
            assert client.get("/healthz").status == 200
            client.disconnect()
        broker.kill()
        assert path.is_socket() and broker.control.is_socket()
        broker.restart()
    broker.stop()
    assert not path.exists() and not broker.control.exists()


# Each way reaches the same broker, and streams go on while others post.
def test_all_can_be_done_by_a_unix_socket(start_broker, path):
    broker = start_broker("--listen-unix", path, "--threads", 2)
    news = broker.set().create()
    for where in (path, broker.control):
        other = Set(broker.client_at(where), news.name)
        followers = [other.websocket() for _ in range(4)]
        for follower in followers:
            follower.next()
        last = other.post(3).last
        for follower in followers:
            follower.until(last)
            follower.leave()
        assert other.page(f"after={last - 3}").last == last
        other.broker.disconnect()


# Without --insecure-open, users of the socket are those of this machine, and requests
# that a proxy passes on may come from anywhere.
def test_an_open_broker_refuses_proxies_there(start_broker, path):
    broker = start_broker("--listen-unix", path)
    client = broker.client_at(path)
    entry = change("http://example.com/a")
    assert client.post("/sets/news/changes", entry).status == 200
    for sign in ("x_forwarded_for", "forwarded", "via"):
        answer = client.get("/sets", **{sign: "192.0.2.1"})
        check_refused(answer, 403, "came by a proxy")
    check_refused(client.get("/sets", host="example.org"), 403, "is not called")


# The file's mode says who is the operator: nothing else is asked.
def test_the_operator_is_always_let_in(start_broker):
    broker = start_broker("--client-connections", 1)
    operator = broker.client_at(broker.control)
    for headers in (
        {"host": "example.org"},
        {"origin": "http://example.org"},
        {"x_forwarded_for": "192.0.2.1"},
    ):
        assert operator.get("/sets", **headers).status == 200
        check_refused(broker.get("/sets", **headers), 403)  # on one connection
    with contextlib.ExitStack() as streams:
        for _ in range(5):
            streams.enter_context(broker.client_at(broker.control).connect())


# A stream of the operator's does not delay the end, nor does a request that hangs.
def test_the_operator_delays_no_end(start_broker):
    broker = start_broker()
    with broker.client_at(broker.control).connect() as connection:
        connection.send("POST /sets/news/changes HTTP/1.1\r\nHost: a\r\n")
        connection.send(f"Content-Type: {JSON}\r\nContent-Length: 99\r\n\r\n[")
        broker.client_at(broker.control).get("/healthz")
        broker.stop()
        assert not connection.read_all()


# With --trusted-proxies unix each client that the proxy names has limits of
# its own. Otherwise a header counts for nothing: the user of the socket is the client.
@pytest.mark.parametrize("is_trusted", (True, False))
def test_clients_behind_a_proxy(start_broker, path, is_trusted):
    options = ("--trusted-proxies", "unix") if is_trusted else ()
    broker = start_broker(
        *("--listen-unix", path, "--insecure-open", "--client-streams", 1, *options)
    )
    news = broker.set()
    news.post()
    with contextlib.ExitStack() as streams:

        def begin(forwarded_for):
            stream = streams.enter_context(broker.client_at(path).connect())
            stream.ask(
                news.stream,
                accept="text/event-stream",
                x_forwarded_for=forwarded_for,
            )
            return stream.answer_head().status

        assert begin("192.0.2.1") == 200
        assert begin("192.0.2.1") == 429
        assert begin("192.0.2.2, 192.0.2.1") == 429  # the client's own claim
        assert begin("192.0.2.3") == (200 if is_trusted else 429)


# A silent client is cut off, whichever way it came.
def test_silence_ends(start_broker, path):
    broker = start_broker("--listen-unix", path, "--request-timeout", 1)
    for where in (path, broker.control):
        with broker.client_at(where).connect() as connection:
            connection.send("GET /healthz HTTP/1.1\r\nHo")
            assert not connection.read_all()


# Errors


def start_in_vain(run, tmp_path, *options, status=1):
    """Start a broker, which has to end with `status`; its errors."""
    where = ("--listen", "127.0.0.1:0", "--data", tmp_path / "vain")
    return run("tidingsd", *where, *options, status=status).errors()


@pytest.mark.parametrize("check", ((), ("--check",)))
def test_a_path_that_is_in_use_is_named(start_broker, run, path, tmp_path, check):
    broker = start_broker("--listen-unix", path)
    said = start_in_vain(run, tmp_path, "--listen-unix", path, *check)
    assert "--listen-unix" in said and f"{path}: Address already in use" in said
    assert broker.client_at(path).get("/healthz").status == 200

    file = tmp_path / "file"
    file.write_text("text")
    said = start_in_vain(run, tmp_path, "--listen-unix", file, *check)
    assert f"{file}: a file that is no socket" in said
    assert file.read_text() == "text"

    none = tmp_path / "none" / "socket"
    said = start_in_vain(run, tmp_path, "--listen-unix", none, *check)
    assert f"{none}: No such file or directory" in said
    assert not (tmp_path / "vain").exists()


# No socket is left behind by a start that fails later on.
def test_a_failed_start_leaves_no_socket(broker, run, path, tmp_path):
    said = run(
        *("tidingsd", "--listen", f"127.0.0.1:{broker.port}"),
        *("--data", tmp_path / "vain", "--listen-unix", path),
        status=1,
    ).errors()
    assert "in use" in said
    assert not path.exists()

    data = tmp_path / "data"
    data.mkdir()
    (data / "control.sock").write_text("text")
    said = run(
        *("tidingsd", "--listen", "127.0.0.1:0", "--data", data, "--listen-unix", path),
        status=1,
    ).errors()
    assert f"{data}/control.sock: a file that is no socket" in said
    assert not path.exists()


# An address of a socket has room for 107 bytes.
def test_a_data_directory_may_have_a_long_path(start, tmp_path):
    data = tmp_path / ("d" * 150)
    broker = start("tidingsd", "--listen", "127.0.0.1:0", "--data", data)
    broker.out.wait(1)
    directory = os.open(data, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as operator:
        operator.connect(f"/proc/self/fd/{directory}/control.sock")
        operator.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert b" 200 " in operator.recv(1000)
    os.close(directory)
    broker.stop()
    assert not (data / "control.sock").exists()
