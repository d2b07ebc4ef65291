"""Files that settings name are read again when they change, without a signal."""

import os
import shutil
import signal
import ssl

import pytest

from tidings_test import hub
from tidings_test.certificates import Certificate
from tidings_test.lax import Lax
from tidings_test.soak import soak
from tidings_test.waiting import Arrivals

TAKEN = 'msg="new connections get a new certificate"'
RELOADED = 'msg="reloaded"'
STAYS = 'msg="a file has changed, the old content stays"'


class Mount:
    """A folder as Kubernetes mounts a secret: `cert.pem` and `key.pem` are links to
    `..data/...`, and `..data` a link to the folder with the files."""

    def __init__(self, directory):
        self.directory = directory
        directory.mkdir()
        self.cert, self.key = directory / "cert.pem", directory / "key.pem"
        for file in (self.cert, self.key):
            file.symlink_to(f"..data/{file.name}")
        self._n = 0

    def put(self, certificate):
        """Show other files, all at once."""
        self._n += 1
        folder = self.directory / f"..{self._n}"
        folder.mkdir()
        shutil.copy(certificate.cert, folder / "cert.pem")
        shutil.copy(certificate.key, folder / "key.pem")
        (self.directory / "..new").symlink_to(folder.name)
        os.replace(self.directory / "..new", self.directory / "..data")
        if self._n > 1:
            shutil.rmtree(self.directory / f"..{self._n - 1}")


@pytest.fixture
def made(tmp_path):
    """Two certificates."""
    return Certificate(tmp_path / "one"), Certificate(tmp_path / "two")


def trust(*certificates):
    context = ssl.create_default_context()
    for certificate in certificates:
        context.load_verify_locations(certificate.ca)
    return context


def shown(broker):
    """The certificate that the broker shows to a new connection, as PEM."""
    return ssl.get_server_certificate(("127.0.0.1", broker.port)).strip()


def leaf(certificate):
    end = "-----END CERTIFICATE-----"
    return certificate.cert.read_text().partition(end)[0] + end


def replace(file, by):
    """As certbot and others do: a rename."""
    new = file.with_suffix(".new")
    shutil.copy(by, new)
    os.replace(new, file)


# A certificate of one pair and the key of another never meet: the broker waits for the
# second file, or says once that it does not fit.
def test_a_certificate_is_shown_when_its_key_is_there(start_broker, made, tmp_path):
    one, two = made
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    shutil.copy(one.cert, cert)
    shutil.copy(one.key, key)
    files = ("--tls-cert", cert, "--tls-key", key)
    broker = start_broker(*files, tls=trust(one, two))
    log = broker.process.err
    news = broker.set()
    news.post()
    follower = news.websocket("after=0").until(1)

    replace(cert, two.cert)
    assert "key.pem: not the private key of" in log.next(lambda line: STAYS in line)
    assert shown(broker) == leaf(one)
    assert broker.get("/healthz").status == 200
    replace(key, two.key)
    log.next(lambda line: TAKEN in line)
    assert shown(broker) == leaf(two)

    key.write_text("none")
    assert "no private key in it" in log.next(lambda line: STAYS in line)
    cert.write_text(one.cert.read_text())
    key.write_text(one.key.read_text())
    log.next(lambda line: TAKEN in line)
    assert shown(broker) == leaf(one)
    assert len([line for line in log if STAYS in line]) == 2
    news.post()
    follower.until(2)


# A callback is called while its authority is in the file.
def test_authorities_are_those_of_the_file(start_broker, made, tmp_path):
    one, two = made
    file = tmp_path / "authorities.pem"
    shutil.copy(two.ca, file)
    broker = start_broker("--ca-file", file, *hub.QUICK)
    log = broker.process.err
    server = Lax(one)

    def call():
        news = broker.set().create()
        hub.check_taken(hub.subscribe(news, f"{server.url()}/cb"))
        return log.next(lambda line: "did not confirm" in line)

    assert "unable to get local issuer certificate" in call()
    replace(file, one.ca)
    log.next(lambda line: f"trust other authorities\" file={file}" in line)
    assert "the answer is 200" in call()
    file.write_text("-----BEGIN CERTIFICATE-----")
    assert f"{file}: not a certificate" in log.next(lambda line: STAYS in line)
    assert "the answer is 200" in call()
    replace(file, two.ca)
    log.next(lambda line: "trust other authorities" in line)
    assert "unable to get local issuer certificate" in call()
    server.close()


def test_a_file_of_authorities_must_be_good(run, tmp_path):
    (tmp_path / "none.pem").write_text("none")
    start = ("--data", tmp_path / "data", "--listen", "127.0.0.1:0")
    for file, words in (
        ("/no/such/file", "cannot read the certificates of authorities /no/such/file"),
        (tmp_path / "none.pem", "none.pem: there is no certificate in it"),
    ):
        for more in ((), ("--check-settings",)):
            done = run("tidingsd", *start, "--ca-file", file, *more, status=1)
            assert words in done.errors()


# --cacert is read for each connection.
def test_a_follower_goes_on_when_the_authority_is_replaced(
    start_broker, made, tmp_path, start
):
    one, two = made
    mount, authorities = Mount(tmp_path / "mount"), tmp_path / "authorities.pem"
    mount.put(one)
    shutil.copy(one.ca, authorities)
    files = ("--tls-cert", mount.cert, "--tls-key", mount.key)
    broker = start_broker(*files, tls=trust(one, two))
    news = broker.set()
    news.post()
    follow = ("tidings", "follow", news.url, "--from-start", "--cacert", authorities)
    followed = start(*follow)
    followed.out.wait(1)
    broker.kill()
    mount.put(two)
    replace(authorities, two.ca)
    broker.restart()
    news.post()
    followed.out.wait(2)
    followed.signal(signal.SIGINT)
    assert followed.wait() == 0


# By a signal, and because the files change; new connections, kept ones and a stream.
def test_nobody_notices_a_hundred_reloads(start_broker, made, tmp_path, background):
    mount = Mount(tmp_path / "mount")
    mount.put(made[0])
    files = ("--tls-cert", mount.cert, "--tls-key", mount.key)
    broker = start_broker(*files, "--threads", "2", tls=trust(*made))
    news = broker.set()
    news.post()
    follower = news.websocket("after=0").until(1)
    is_over = []
    answers = [Arrivals(f"answers of load {i}") for i in range(3)]

    def read(answers, is_kept):
        client = broker.client()
        try:
            while not is_over:
                answers.add(client.get("/healthz").status)
                if not is_kept:
                    client.disconnect()
        finally:
            answers.close()

    loads = [background(read, each, i == 0) for i, each in enumerate(answers)]
    log = broker.process.err
    reloads = soak(20, 100)
    for i in range(reloads):
        mount.put(made[(i + 1) % 2])
        if i % 4 == 0:
            broker.process.signal(signal.SIGHUP)
            log.next(lambda line: RELOADED in line)
        else:
            log.next(lambda line: TAKEN in line)
        news.post()
        # One may have begun before the reload, the next has not.
        for each in answers:
            each.wait(len(each) + 2)
    is_over.append(True)
    for load, each in zip(loads, answers):
        load.join()
        assert set(each) == {200}
    follower.until(1 + reloads)
    assert shown(broker) == leaf(made[reloads % 2])
    assert len([line for line in log if TAKEN in line]) == reloads
    assert not broker.has_said("level=error")
