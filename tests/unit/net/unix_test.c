/* Unix sockets: their files, the threads that serve them, and the operator's
 * own socket. The other tests of this folder show that everything else is the
 * same there. */
#include <dirent.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "broker/base/client_limits.h"
#include "broker/net/service.h"
#include "tests/test.h"
#include "tests/unit/net/served.h"

/* Two sockets: one for proxies, one for the operator. */
static struct tempdir dir;
static char proxy_path[300], control_path[300];
static const struct unix_socket sockets[] = {
    {LISTENER_UNIX, proxy_path, 0660},
    {LISTENER_CONTROL, control_path, 0600},
};

static int
open_dir(void **state)
{
    (void)state;
    tempdir_open(&dir);
    snprintf(proxy_path, sizeof(proxy_path), "%s/proxy", dir.path);
    snprintf(control_path, sizeof(control_path), "%s/control", dir.path);
    return 0;
}

static int
close_dir(void **state)
{
    (void)state;
    tempdir_close(&dir);
    return 0;
}

static int
open_with_sockets(void **state)
{
    open_dir(state);
    served_open(state);
    served.options.unix_sockets = sockets;
    served.options.n_unix_sockets = 2;
    served_reopen();
    return 0;
}

static int
close_with_sockets(void **state)
{
    served_close(state);
    assert_no_file(dir.fd, "proxy");
    assert_no_file(dir.fd, "control");
    return close_dir(state);
}

/* Files */

static unsigned
mode_of(const char *path)
{
    struct stat st;

    if (lstat(path, &st))
        fail_msg("no %s", path);
    assert_true(S_ISSOCK(st.st_mode));
    return st.st_mode & 07777;
}

static unsigned
count_files(void)
{
    DIR *all = opendir(dir.path);
    unsigned n = 0;

    while (readdir(all))
        n++;
    closedir(all);
    return n - 2; /* "." and ".." */
}

/* Returns the descriptor of a socket that takes connections or messages. */
static int
make_socket(const char *path, int type)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

    snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    if (type == SOCK_STREAM)
        assert_int_equal(listen(fd, 0), 0);
    return fd;
}

static enum status
try_server(const struct unix_socket *socket, struct server **server,
           struct problem *why)
{
    struct server_options options = {.host = "127.0.0.1",
                                     .threads = 2,
                                     .request_timeout_us = 60000000,
                                     .unix_sockets = socket,
                                     .n_unix_sockets = 1,
                                     .on_request = served_on_request};

    *why = (struct problem){"", 0, 0};
    return server_open(server, &options, why);
}

/* Another umask changes nothing. */
TEST(sockets_have_their_mode, open_dir, close_dir)
{
    static const mode_t masks[] = {0, 022, 077, 0777};

    for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
        mode_t before = umask(masks[i]);

        for (int k = 0; k < 2; k++) {
            struct server *server = NULL;
            struct problem why;

            if (try_server(&sockets[k], &server, &why))
                fail_msg("%s", why.text);
            assert_int_equal(mode_of(sockets[k].path), sockets[k].mode);
            server_close(server, 0);
            assert_int_equal(count_files(), 0);
        }
        umask(before);
    }
}

/* A killed broker leaves its sockets. The sockets of other programs that live,
 * and other files, stay. */
TEST(only_a_dead_socket_is_replaced, open_dir, close_dir)
{
    static const struct {
        const char *why;
        int type; /* of a socket; 0: no socket */
        bool is_alive;
    } rows[] = {
        {NULL, SOCK_STREAM, false},
        {"proxy: Address already in use", SOCK_STREAM, true},
        {"proxy: Protocol wrong type for socket", SOCK_DGRAM, true},
        {"proxy: a file that is no socket has that name", 0, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct server *server = NULL;
        struct stat before, after;
        struct problem why;
        enum status rc;
        int fd = -1;

        if (rows[i].type)
            fd = make_socket(proxy_path, rows[i].type);
        else
            tempdir_write(dir.fd, "proxy", "text");
        if (!rows[i].is_alive)
            file_close(&fd);
        assert_int_equal(lstat(proxy_path, &before), 0);
        assert_int_equal(server_check_unix(&sockets[0], &why),
                         rows[i].why ? STATUS_IO : STATUS_OK);
        rc = try_server(&sockets[0], &server, &why);
        assert_int_equal(rc, rows[i].why ? STATUS_IO : STATUS_OK);
        if (rows[i].why && !strstr(why.text, rows[i].why))
            fail_msg("%s", why.text);
        assert_int_equal(lstat(proxy_path, &after), 0);
        if (rows[i].why)
            assert_int_equal(after.st_ino, before.st_ino);
        server_close(server, 0);
        assert_int_equal(count_files(), rows[i].why ? 1 : 0);
        unlink(proxy_path);
        file_close(&fd);
    }
}

/* An error names the path, and leaves no file. */
TEST(says_where_no_socket_can_be, open_dir, close_dir)
{
    char missing[400], name[400], blocked[400];

    const struct {
        const char *path, *why;
    } rows[] = {
        {missing, "/none/socket: No such file or directory"},
        {name, "aaa: File name too long"},
        {blocked, "/file/socket: Not a directory"},
        {dir.path, ": a file that is no socket has that name"},
        {"/", "/: Is a directory"},
    };
    struct problem why;

    snprintf(missing, sizeof(missing), "%s/none/socket", dir.path);
    snprintf(blocked, sizeof(blocked), "%s/file/socket", dir.path);
    snprintf(name, sizeof(name), "%s/%0100d", dir.path, 0);
    memset(strrchr(name, '/') + 1, 'a', 100);
    tempdir_write(dir.fd, "file", "text");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct unix_socket socket = {LISTENER_UNIX, rows[i].path, 0600};
        struct server *server = NULL;

        assert_int_equal(try_server(&socket, &server, &why), STATUS_IO);
        if (!strstr(why.text, rows[i].why))
            fail_msg("%s", why.text);
        assert_int_equal(server_check_unix(&socket, &why), STATUS_IO);
        if (!strstr(why.text, rows[i].why))
            fail_msg("%s", why.text);
        assert_int_equal(count_files(), 1);
    }
}

/* A path that is longer than the address of a socket. */
TEST(a_path_may_be_long, open_dir, close_dir)
{
    char path[700], link[300];
    struct unix_socket socket = {LISTENER_UNIX, path, 0600};
    struct server *server = NULL;
    struct problem why;
    struct wire *w;

    snprintf(path, sizeof(path), "%s/%0150d/%0150d", dir.path, 1, 2);
    assert_int_equal(file_make_dirs(path, NULL), STATUS_OK);
    snprintf(link, sizeof(link), "%s/short", dir.path);
    assert_int_equal(symlink(path, link), 0);
    strcat(path, "/socket");
    strcat(link, "/socket");
    if (try_server(&socket, &server, &why))
        fail_msg("%s", why.text);
    assert_int_equal(mode_of(path), 0600);
    w = wire_connect_unix(link);
    assert_non_null(w);
    served_assert_kept(w);
    wire_close(w);
    server_close(server, 0);
    assert_int_equal(access(path, F_OK), -1);
}

/* Someone else has put a file there meanwhile. */
TEST(another_file_stays_at_the_end, open_dir, close_dir)
{
    struct server *server = NULL;
    struct problem why;

    assert_int_equal(try_server(&sockets[0], &server, &why), STATUS_OK);
    assert_int_equal(unlink(proxy_path), 0);
    tempdir_write(dir.fd, "proxy", "text");
    server_close(server, 0);
    assert_file(dir.fd, "proxy", "text");
}

/* Serving */

static struct wire *
dial(const char *path)
{
    struct wire *w = wire_connect_unix(path);

    assert_non_null(w);
    return w;
}

FIXTURE(open_with_sockets, close_with_sockets);

TEST(a_request_tells_its_listener)
{
    struct wire_answer a;
    struct wire *w[] = {served_connect(), dial(proxy_path), dial(control_path)};
    static const char *const kinds[] = {"tcp", "unix", "control"};

    for (int i = 0; i < 3; i++) {
        assert_true(wire_request(w[i], "GET", "/listener", NULL, NULL, &a));
        assert_string_equal(a.body, kinds[i]);
        wire_close(w[i]);
    }
}

static atomic_uint n_heads;

static void
count_heads(void)
{
    atomic_store(&n_heads, 0);
    for (unsigned i = 0; i < 2; i++) {
        struct service *s = server_service(served.server, i);

        if (pthread_equal(pthread_self(), s->thread.id))
            for (const struct list *node = s->heads.next; node != &s->heads;
                 node = node->next)
                atomic_fetch_add(&n_heads, 1);
    }
}

TEST(connections_are_spread_over_the_threads)
{
    enum { N = 10 };
    struct wire *w[N];

    for (int i = 0; i < N; i++) {
        w[i] = dial(proxy_path);
        served_assert_kept(w[i]);
    }
    for (unsigned i = 0; i < 2; i++) {
        served_on(i, count_heads);
        assert_int_equal(atomic_load(&n_heads), N / 2);
    }
    for (int i = 0; i < N; i++)
        wire_close(w[i]);
}

/* Users of unix sockets are on this machine: TLS would protect nothing. */
TEST(unix_sockets_speak_no_tls)
{
    struct wire *w;

    certificate_make(&served_certificate, dir.path, NULL);
    served.options.tls_cert = served_certificate.cert;
    served.options.tls_key = served_certificate.key;
    served_reopen();
    for (size_t i = 0; i < 2; i++) {
        w = dial(sockets[i].path);
        served_assert_kept(w);
        wire_close(w);
    }
}

/* Each user of the machine is a client. */
TEST(a_user_has_limits)
{
    struct clients clients;
    struct wire *kept;

    clients_init(&clients, 25);
    clients_limit_each(&clients, CLIENT_CONNECTIONS, 1);
    served.options.clients = &clients;
    served_reopen();
    kept = dial(proxy_path);
    served_assert_kept(kept);
    served_assert_ended(dial(proxy_path));
    served_assert_kept(kept);
    wire_close(kept);
    server_close(served.server, 0);
    served.server = NULL;
    assert_null(clients.tree);
    clients_fini(&clients);
}

/* The operator */

static void
assert_operator_gets_in(void)
{
    enum { N = 4 };
    struct wire *w[N];
    struct wire_answer a;

    for (int i = 0; i < N; i++) {
        w[i] = dial(control_path);
        served_assert_kept(w[i]);
        assert_true(wire_request(w[i], "GET", "/peer", NULL, NULL, &a));
        assert_string_equal(a.body, ""); /* no client */
    }
    for (int i = 0; i < N; i++)
        wire_close(w[i]);
}

TEST(an_operator_has_no_limits_of_clients)
{
    struct clients clients;
    struct wire *kept;

    clients_init(&clients, 25);
    clients_limit_each(&clients, CLIENT_CONNECTIONS, 1);
    clients_limit_all(&clients, CLIENT_CONNECTIONS, 1);
    clients_limit_all(&clients, CLIENT_HALF_HEADS, 1);
    served.options.clients = &clients;
    served_reopen();
    kept = served_connect();
    served_assert_kept(kept);
    assert_operator_gets_in();
    assert_int_equal(clients_held(&clients, CLIENT_CONNECTIONS), 1);
    wire_close(kept);
    server_close(served.server, 0);
    served.server = NULL;
    assert_null(clients.tree);
    clients_fini(&clients);
}

static struct listeners *
listeners(void)
{
    return &server_service(served.server, 0)->listeners;
}

static atomic_uint n_paused;

static void
count_paused(void)
{
    atomic_store(&n_paused, 0);
    for (unsigned i = 0; i < listeners()->n; i++)
        atomic_fetch_add(&n_paused, listeners()->all[i].is_paused);
}

/* Strangers have taken all descriptors for connections, until the server is
 * reopened. The first thread, which accepts, alone needs to know. */
static void
take_descriptors(void)
{
    served.server->fd_end = 0;
}

TEST(an_operator_gets_in_without_free_descriptors)
{
    struct wire *stranger;

    served_on(0, take_descriptors);
    stranger = dial(proxy_path);
    served_assert_ended(stranger);
    served_on(0, count_paused);
    assert_int_equal(atomic_load(&n_paused), listeners()->n - 1);
    assert_operator_gets_in();

    served_reopen();
    stranger = dial(proxy_path);
    served_assert_kept(stranger);
    wire_close(stranger);
}

/* A connection that waits for a request is displaced; not an operator's. */
TEST(an_operator_is_not_displaced)
{
    struct wire *own, *stranger;

    own = dial(control_path);
    served_assert_kept(own);
    served_on(0, take_descriptors);
    stranger = dial(proxy_path);
    served_assert_ended(stranger);
    served_assert_kept(own);
    wire_close(own);
}

static int descriptors_taken[2];

/* From now on a connection gets a descriptor only if another one is displaced:
 * the test takes the two descriptors of a connection that has ended, and ends
 * the range of connections behind them. The first thread writes the new limit;
 * a connection that it sends to the second thread shows the limit there. */
static void
take_free_descriptors(void)
{
    descriptors_taken[0] = dup(0);
    descriptors_taken[1] = dup(0);
    served.server->fd_end = dup(0);
    close(served.server->fd_end);
}

/* The connection of the first thread has ended; that of the second thread waits
 * for a request, and gives way. */
TEST(a_thread_displaces_for_another_one)
{
    struct wire *ended, *waiting, *later;

    ended = dial(proxy_path);
    served_assert_kept(ended);
    waiting = dial(proxy_path);
    served_assert_kept(waiting);
    wire_close(ended);
    served_turn();
    served_on(0, take_free_descriptors);
    for (int i = 0; i < 3; i++) {
        later = dial(proxy_path);
        served_assert_kept(later);
        served_assert_ended(waiting);
        waiting = later;
    }
    wire_close(waiting);
    served_on(0, count_paused);
    assert_int_equal(atomic_load(&n_paused), 0);
    close(descriptors_taken[0]);
    close(descriptors_taken[1]);
}

/* The clock stands, so a wait would not end. */
TEST(the_end_does_not_wait_for_an_operator)
{
    struct wire *w = dial(control_path);

    clock_run_us(0, 0);
    assert_true(wire_send_text(w, GET("/never")));
    served_await(&served.n_open, 1);
    server_close(served.server, 10000000);
    served.server = NULL;
    served_assert_ended(w);
}

/* The other clients' deadlines and rates hold for operators, too: a program
 * that hangs keeps nothing. */
TEST(an_operator_may_not_be_silent)
{
    struct wire *w = dial(control_path);

    assert_true(wire_send_text(w, "GET /sm"));
    served_pass_seconds(11);
    served_assert_ended(w);
}
