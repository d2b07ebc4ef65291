"""Fixtures of the end-to-end tests: see tests/tidings_test/__init__.py."""

import os
import pathlib
import signal
import tempfile

import pytest

pytest.register_assert_rewrite("tidings_test")

from tidings_test import process  # noqa: E402
from tidings_test.broker import PROGRAMS, Broker  # noqa: E402
from tidings_test.process import Process  # noqa: E402
from tidings_test.watchdog import Watchdog  # noqa: E402

# A test that takes longer waits for an event that does not come. And then, its end.
WATCHDOG = int(os.environ.get("TIDINGS_TEST_SECONDS", "300"))
WATCHDOG_END = int(os.environ.get("TIDINGS_TEST_END_SECONDS", "60"))

LOG_SHOWN = 200  # lines

# Under nohup, programs would inherit that it is ignored, and not end with a terminal.
signal.signal(signal.SIGHUP, signal.SIG_DFL)


# The life of a test


_watchdog = Watchdog(WATCHDOG, WATCHDOG_END)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    process.forget_ended()
    _watchdog.begin()
    yield


# It barks in these only: pytest takes what is raised there for the failure of a test. In
# its own code it would end the run, and the tests of the file that follow.


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup(item):
    with _watchdog:
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    with _watchdog:
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item):
    with _watchdog:
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Show what the programs of a test that failed have logged."""
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        for program in process.started:
            lines = list(program.err)[-LOG_SHOWN:]
            report.sections.append((f"{program}: standard error", "\n".join(lines)))


# Directories, removed with all that is in them: pytest's own would stay.


@pytest.fixture
def tmp_path():
    """A directory of the test's own."""
    with tempfile.TemporaryDirectory(prefix="tidings-") as directory:
        yield pathlib.Path(directory)


@pytest.fixture(scope="module")
def module_path():
    """A directory of the file's tests."""
    with tempfile.TemporaryDirectory(prefix="tidings-") as directory:
        yield pathlib.Path(directory)


# Brokers


@pytest.fixture(scope="module")
def _shared_brokers(module_path):
    """Brokers that the tests of a file share, by their options."""
    brokers = {}
    yield brokers
    _end_all(list(brokers.values()))


@pytest.fixture
def broker(request, _shared_brokers, module_path):
    """A broker with the options of the nearest marker "broker". Other tests of the file
    that want the same options may share it. A test that stops or kills a broker, or
    inspects everything in it, uses start_broker."""
    marker = request.node.get_closest_marker("broker")
    options = marker.args if marker else ()
    shared = _shared_brokers.get(options)
    if not shared:
        directory = pathlib.Path(tempfile.mkdtemp("", "broker-", module_path))
        shared = _shared_brokers[options] = Broker(directory, options)
    yield shared
    if not shared.is_running:
        del _shared_brokers[options]
        shared.end()
        pytest.fail(f"the broker has ended with {shared.wait()}")
    shared.remove_sets()


@pytest.fixture
def start_broker(tmp_path):
    """start_broker("--threads", "2"): starts a broker of the test's own."""
    brokers = []

    def start(*options, env=None, tls=None, directory=None, data="data"):
        directory = directory or tmp_path / f"broker{len(brokers)}"
        brokers.append(Broker(directory, options, env, tls, data))
        return brokers[-1]

    yield start
    _end_all(brokers)


@pytest.fixture(scope="module")
def lax(module_path):
    """The environment of programs whose OpenSSL is configured to permit everything."""
    from tidings_test.lax import CONFIG

    (module_path / "openssl.cnf").write_text(CONFIG)
    return {"OPENSSL_CONF": str(module_path / "openssl.cnf")}


@pytest.fixture
def news(broker):
    """A set of the test's own, which is there and has no entry."""
    return broker.set().create()


@pytest.fixture
def mirrored(broker, site, tmp_path, run, start):
    """A source with a set and a site, and a mirror of it."""
    from tidings_test.mirrored import Mirrored

    return Mirrored(broker.set(), site, tmp_path, run, start)


# The peers of a test


@pytest.fixture(scope="module")
def browser(module_path):
    """A browser, for the pages of all tests of the file."""
    from tidings_test.browser import Browser

    browser = Browser(module_path / "profile")
    yield browser
    browser.end()


@pytest.fixture
def start_callbacks():
    """start_callbacks("127.0.0.3"): subscribers of a hub, at that address."""
    from tidings_test.callbacks import Callbacks

    started = []

    def start(host="127.0.0.2"):
        started.append(Callbacks(host))
        return started[-1]

    yield start
    _end_all(started)


@pytest.fixture
def callbacks(start_callbacks):
    """Subscribers of a hub, at an address of their own."""
    return start_callbacks()


@pytest.fixture
def start_mosquitto(tmp_path):
    """start_mosquitto(user="me", password="x"): starts an MQTT broker."""
    from tidings_test.mqtt import Mosquitto

    started = []

    def start(**options):
        started.append(Mosquitto(tmp_path / f"mosquitto{len(started)}", **options))
        return started[-1]

    yield start
    _end_all(started)


@pytest.fixture
def mosquitto(start_mosquitto):
    """An MQTT broker for anybody."""
    return start_mosquitto()


@pytest.fixture
def start_site():
    """start_site("127.0.0.2"): a static web site, at that address."""
    from tidings_test.site import Site

    sites = []

    def start(host="127.0.0.1"):
        sites.append(Site(host))
        return sites[-1]

    yield start
    _end_all(sites)


@pytest.fixture
def start_postgresql():
    """start_postgresql(): starts a PostgreSQL server."""
    from tidings_test.postgresql import Postgresql

    started = []

    def start():
        started.append(Postgresql())
        return started[-1]

    yield start
    _end_all(started)


@pytest.fixture(scope="module")
def _trios():
    trios = {}  # by the number of tests that had failed when it was made
    yield trios
    _end_all(trios.values())


@pytest.fixture
def trio(_trios, request):
    """Three PostgreSQL servers (failover.py) for all tests of the file. A test that
    loses some repairs them; one that fails may leave none that takes a commit, and the
    next one has others."""
    from tidings_test.failover import Trio

    failed = request.session.testsfailed
    if failed not in _trios:
        _end_all(_trios.values())
        _trios[failed] = Trio()
    return _trios[failed]


@pytest.fixture
def start_cluster(trio, tmp_path):
    """start_cluster("--rotate-entries", 50): starts three brokers of one cluster;
    names="a": one."""
    from tidings_test.cluster import Cluster

    clusters = []

    def start(*options, **how):
        directory = tmp_path / f"cluster{len(clusters)}"
        clusters.append(Cluster(trio, directory, options, **how))
        return clusters[-1]

    yield start
    _end_all(clusters)


@pytest.fixture
def bucket():
    """A server of S3 with an empty bucket (s3.py)."""
    from tidings_test.s3 import Bucket

    with Bucket() as bucket:
        yield bucket


@pytest.fixture
def start_bridge(start_broker, tmp_path):
    """start_bridge(mosquitto, "in = feed -> news"): starts a broker with a bridge "a"
    to that MQTT broker; its lines are those of mqtt.bridge_config()."""
    from tidings_test.mqtt import bridge_config

    configs = []

    def start(mosquitto, *lines, options=("--heartbeat", "3600"), env=None):
        configs.append(tmp_path / f"bridges{len(configs)}.ini")
        configs[-1].write_text(bridge_config(mosquitto, *lines))
        return start_broker("--config", configs[-1], *options, env=env)

    return start


@pytest.fixture
def site(start_site):
    """A static web site."""
    return start_site()


@pytest.fixture
def start_proxy():
    """start_proxy(port): a bad network before that port."""
    from tidings_test.proxy import Proxy

    proxies = []

    def start(*arguments, **options):
        proxies.append(Proxy(*arguments, **options))
        return proxies[-1]

    yield start
    _end_all(proxies)


@pytest.fixture
def faults(tmp_path):
    """Faults that brokers meet: start_broker(env=faults.env)."""
    from tidings_test.faults import Faults

    return Faults(tmp_path)


@pytest.fixture(scope="module")
def certificate(module_path):
    """A certificate for a broker: start_broker(*certificate.options,
    tls=certificate.trust())."""
    from tidings_test.certificates import Certificate

    return Certificate(module_path / "certificate")


# Programs


@pytest.fixture
def start():
    """start("/bin/cat", ...): starts a program, which is killed in the end if it still
    runs. start("tidings", ...) and "tidingsd" are those under test."""
    programs = []

    def start(program, *arguments, **options):
        programs.append(Process(PROGRAMS.get(program, program), *arguments, **options))
        return programs[-1]

    yield start
    for program in programs:
        program.end()


@pytest.fixture
def run(start):
    """run("tidings", "get", url): runs a program to its end, and returns it: done.out
    and done.err are its lines. It has to end with `status`; None: however it ends.
    `input` is what it reads."""

    def run(program, *arguments, status=0, input="", **options):
        done = start(program, *arguments, **options)
        done.give(input)
        ended = done.wait()
        said = f"{done.output()}\n{done.errors()}"
        assert status in (None, ended), f"{done} ended with {ended}: {said}"
        return done

    return run


@pytest.fixture
def background():
    """background(function, ...): calls it on another thread (background.py)."""
    from tidings_test.background import Background

    running = []

    def start(function, *arguments, **keywords):
        running.append(Background(function, *arguments, **keywords))
        return running[-1]

    yield start
    _end_all(running)


def _end_all(servers):
    """End each; the first failure counts, when all have ended."""
    failures = []
    for server in reversed(servers):
        try:
            server.end()
        except (AssertionError, pytest.fail.Exception) as failure:  # the watchdog's, too
            failures.append(failure)
    if failures:
        raise failures[0]
