"""The parts of end-to-end tests.

An end-to-end test starts the programs of a build, speaks to them as their users do,
and looks at every byte. It is a function of 5 to 30 lines in tests/e2e/NAME_test.py:

    from tidings_test.sets import change

    # R-148: a list ends with the entry that fills it.
    @pytest.mark.broker("--rotate-entries", "3")
    def test_a_list_closes_when_it_is_full(news, run):
        receipt = news.post(4)
        assert receipt.last == 4
        closed = news.changelist(1)
        assert [entry.seq for entry in closed.entries] == [1, 2, 3]
        closed.check_valid()
        followed = run("tidings", "follow", news.url, "--from-start", "--count", "4")
        assert len(followed.out) == 4

It says what it wants by the names of its arguments (fixtures, tests/conftest.py):

    broker              a broker, shared by the tests of the file that want the same
                        options; broker.set() is a set that nobody else uses
    news                such a set, created and without an entry
    start_broker        start_broker("--threads", "2"): a broker of the test's own, to
                        be stopped, killed, filled or looked at as a whole
    callbacks           subscribers of a hub; start_callbacks(host) for more of them
    mosquitto           an MQTT broker; start_mosquitto(user=..., more=...)
    start_bridge        a broker with a bridge to an MQTT broker
    site                a web site as a foreign source; start_site(host)
    mirrored            a set, a site with its resources, and a mirror of them
    start_proxy         a bad network before a port; TLS before a plain server
    trio                three PostgreSQL servers
    start_cluster       three brokers on them: start_cluster("--rotate-entries", 50)
    run, start          a program, to its end or beside the test
    background          a function on another thread
    faults              a failing disk, a full one, no memory, a clock that is set
    certificate         TLS: start_broker(*certificate.options, tls=...)

At the end of a test everything that it started is ended and checked: brokers end with
0, sanitizers report nothing, callbacks got nothing wrong. If the test failed, the logs
of its programs are shown.

Nothing has a deadline but the test as a whole (300 seconds; TIDINGS_TEST_SECONDS), and
nothing sleeps: tests wait for events (a line of a log, a message, a delivery, an exit)
or, by waiting.wait_for, look again and again.

The modules:

    abroad        sources as other programs make them: tables of answers
    background    a function on another thread
    backups       backups of a broker's data directory
    broker        the program tidingsd, its port, directory and log
    callbacks     subscribers of a hub that do as they are told, and what they got
    certificates  a CA and a certificate of it
    changelists   all of a set's history, pulled by links, every rule checked
    cluster       three brokers of one cluster, and bad networks around them
    content       changes with their bytes, and the packages that these come back in
    documentation pages of doc/: their commands, run as a reader types them
    documents     ResourceSync documents: XPath, schemas, entries, links
    failover      three PostgreSQL servers, and the manager that promotes one
    faults        disks, memory and clocks that fail
    feed          a foreign Source of documents that a broker relays
    frontends     Caddy, HAProxy, nginx and Varnish before a broker
    history       what a receiver has got: every entry once, in order
    http          HTTP as the wire has it: answers, connections of raw bytes
    hub           what a subscriber asks of a hub, and the states of subscriptions
    layouts       sources with only a list of resources, laid out as others do it
    looks         looks of the commands at such a source, and what is right
    messages      a message or a page of the change memory, in JSON or XML
    metrics       GET /metrics, read strictly
    middle        proxies with habits: HTTP/1.0, no Upgrade, few fields, no patience
    mirrored      a source with a set and a site, and a mirror of it
    mixture       changes of many sorts, and filters of them
    mqtt          Mosquitto and its clients; a careful reader of a bridge's messages
    npm           packages of npm that tests meet
    openapi       the description of the routes, and answers that it allows
    packages      a package index of Debian
    postgresql    a PostgreSQL server, for what publishes from it
    postgresql_proxy  a bad network before one, message by message
    prometheus    Debian's Prometheus, and promtool
    process       programs that die with the test, and what they say
    provider      an identity provider: keys and JSON Web Tokens
    proxy         a TCP proxy that cuts, stalls and refuses
    publishers    several sources that post at once until the broker ends
    python        the Python package of the build, and programs that use it
    servers       what callbacks, site and proxy have in common
    sets          a set: posting changes, reading what it serves
    site          a static web site and the trouble that web servers make
    storm         publishers and followers of a cluster, whatever happens to it
    stream        followers by WebSocket and server-sent events
    variants      requests that two HTTP servers may read differently
    waiting       lists that grow while a test waits, and looking again and again
    watched       a directory, a watch of it, and what its set comes to

A check for one file is a function of that file; a check for several comes here, in the
module of its noun. Requirements are cited in a comment above the test.

    TIDINGS_BIN=build/dev/bin /usr/bin/python3 -m pytest -q tests/e2e/rotation_test.py
    ... -k when_it_is_full          tests whose names have that in them
"""
