/*
 * main.c - tidingsd: options, signals, exit status.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "base/certificates.h"
#include "broker/base/client_limits.h"
#include "broker/base/diag.h"
#include "broker/base/supervisor.h"
#include "broker/base/syscall_filter.h"
#include "broker/base/watched_files.h"
#include "broker/broker.h"
#include "broker/commands/command_table.h"
#include "broker/commands/rejoin.h"
#include "broker/config/config.h"
#include "broker/http/route_table.h"

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* Memory has keys of TLS, secrets of subscriptions and passwords of MQTT
 * brokers. Unlike RLIMIT_CORE, this also holds where a program of the system
 * collects core dumps, and it keeps other processes of the same user from
 * reading the memory. */
static void
hide_memory(bool is_hidden)
{
    prctl(PR_SET_DUMPABLE, is_hidden ? 0UL : 1UL, 0UL, 0UL, 0UL);
}

/* Every subscriber needs a descriptor: raises the limit as far as the system
 * allows. */
static void
raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit))
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* Limits the hub's connections to a quarter of all descriptors: however many
 * callbacks hang, other clients can still connect. True if they are fewer than
 * wanted. */
static bool
share_descriptors(struct config *config)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) ||
        config->hub_connections <= limit.rlim_cur / 4)
        return false;
    config->hub_connections = limit.rlim_cur / 4 ? limit.rlim_cur / 4 : 1;
    return true;
}

/* Reports an error in the command line or the file. Plain text for the person
 * who typed it; the log has not begun. */
static int
bad_usage(const struct problem *why)
{
    fprintf(stderr, "tidingsd: %s\n", why->text);
    return EXIT_USAGE;
}

/* Reloading */

/* Reports an option whose value differs. */
static void
report_difference(const char *name, bool is_live, void *user)
{
    (void)user;
    if (is_live)
        DIAG_REPORT(DIAG_INFO, "broker", "a setting has changed",
                    diag_text("option", name));
    else
        DIAG_REPORT(DIAG_WARNING, "broker",
                    "a setting changes with the next start",
                    diag_text("option", name));
}

/* Reads all settings again: file and command line, as the start did. */
static void
reload_settings(struct broker *broker, struct config *config, int argc,
                char **argv)
{
    enum config_wish wish;
    struct problem why = {""}, reopening = {""};
    struct config next;
    enum status rc = config_read(&next, argc, argv, &wish, &why);

    if (!rc) {
        (void)share_descriptors(&next); /* as the start did */
        /* Uses the higher of both log levels until the report is over. */
        if (next.log_level > config->log_level)
            diag_set_level(next.log_level);
        rc = broker_reload(broker, &next, &why);
        if (!rc) {
            config_compare(config, &next, report_difference, NULL);
            config_take_live(config, &next);
            broker_report_config(broker);
            watched_files_look(broker_files(broker));
        }
        config_fini(&next);
    }
    /* The report of the end is the first line of the new format: who has seen
     * it finds no other line after it. */
    log_line_set_format(config->log_format);
    if (rc) {
        /* The settings stay. Their access log may have been renamed to begin
         * another one, so the broker opens it again all the same. */
        if (broker_reopen_log(broker, &reopening))
            DIAG_REPORT(DIAG_ERROR, "broker", "the access log is not reopened",
                        diag_text("error", reopening.text));
        DIAG_REPORT(DIAG_ERROR, "broker", "not reloaded, the old settings stay",
                    diag_text("error", why.text));
    } else {
        diag_report(DIAG_INFO, "broker", "reloaded", NULL);
    }
    diag_set_level(config->log_level);
}

/* Signals */

/* The process that started the broker. SIGHUP means "reload", unless the
 * terminal was closed: then its shell and the kernel send SIGHUP, too. */
struct origin {
    bool has_terminal; /* and ends with it: not with nohup */
    pid_t parent;
};

static bool
has_terminal(void)
{
    int fd = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static struct origin
find_origin(void)
{
    struct sigaction action;
    bool is_ignored =
        !sigaction(SIGHUP, NULL, &action) && action.sa_handler == SIG_IGN;

    return (struct origin){!is_ignored && has_terminal(), getppid()};
}

/* True if SIGHUP comes from the kernel or from the shell that started the
 * broker, and the terminal is gone. From any other process it requests a
 * reload, even if the broker has outlived its terminal. */
static bool
is_hangup(const struct origin *origin, const struct signalfd_siginfo *info)
{
    pid_t sender = (pid_t)info->ssi_pid;

    return info->ssi_signo == SIGHUP && origin->has_terminal &&
           (info->ssi_code == SI_KERNEL || sender == origin->parent ||
            sender == getsid(0)) &&
           !has_terminal();
}

/* Blocks the signals that the broker waits for, before any thread starts: so
 * only the descriptor reports them. -1: none is left. */
static int
open_signals(void)
{
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
}

/* A start that fetches a copy. */
struct fetching {
    struct supervisor *supervisor;
    int64_t reported_us; /* steady clock */
    bool is_over;        /* the process does so once while it runs */
};

/* So often a broker with --cluster-from looks whether it needs a copy. */
#define COPY_MS 1000

/* Reloads at each SIGHUP, reads files that change, and shows the service
 * manager that no thread hangs, until a signal ends the broker. Returns its
 * name; NULL: the broker is to fetch a copy of another one. */
static const char *
await_end(struct broker *broker, struct config *config, int argc, char **argv,
          int signals, const struct origin *origin, struct fetching *fetching)
{
    struct supervisor *supervisor = fetching->supervisor;
    bool may_join = config->cluster_from[0] && !fetching->is_over;
    struct watched_files *files = broker_files(broker);
    struct signalfd_siginfo info;

    for (;;) {
        struct pollfd fds[] = {
            {.fd = signals, .events = POLLIN},
            {.fd = watched_files_fd(files), .events = POLLIN}};
        int wait_ms = watched_files_wait_ms(files); /* -1: no limit */
        int turn_ms = supervisor_wait_ms(supervisor);
        const struct thread *silent;

        if (wait_ms < 0 || (turn_ms >= 0 && turn_ms < wait_ms))
            wait_ms = turn_ms;
        if (may_join && (wait_ms < 0 || wait_ms > COPY_MS))
            wait_ms = COPY_MS;
        poll(fds, 2, wait_ms);
        while (read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
            if (info.ssi_signo != SIGHUP)
                return info.ssi_signo == SIGINT ? "SIGINT" : "SIGTERM";
            if (is_hangup(origin, &info))
                return "SIGHUP";
            supervisor_say(supervisor, SUPERVISOR_RELOADING, clock_steady_us());
            reload_settings(broker, config, argc, argv);
            supervisor_say(supervisor, SUPERVISOR_READY, broker_url(broker));
        }
        watched_files_turn(files);
        silent = broker_most_silent(broker);
        supervisor_turn(supervisor, silent->name, thread_silent_us(silent));
        if (may_join && broker_needs_copy(broker))
            return NULL;
    }
}

/* A kernel that takes no filter is no reason to serve nobody. */
static void
filter_syscalls(const struct config *config)
{
    struct problem why = {""};
    enum status rc = config->seccomp
                         ? syscall_filter_apply(config->cluster_from[0], &why)
                         : STATUS_UNSUPPORTED;

    if (!rc)
        diag(DIAG_INFO, "broker", "system calls are filtered");
    else if (rc == STATUS_UNSUPPORTED)
        DIAG(DIAG_INFO, "broker", "system calls are not filtered",
             diag_text("reason", config->seccomp ? why.text : "--seccomp off"));
    else
        DIAG(DIAG_WARNING, "broker", "system calls are not filtered",
             diag_text("error", why.text));
}

/* Once a second: reports to the service manager, and looks for a signal to end,
 * which stays for await_end. */
static bool
is_start_ended(void *user)
{
    struct fetching *f = user;
    int64_t now_us = clock_steady_us();
    sigset_t waiting;

    supervisor_turn(f->supervisor, "", 0); /* if the broker has served before */
    if (now_us >= f->reported_us + 10 * (int64_t)1000000) {
        supervisor_say(f->supervisor, SUPERVISOR_DELAY,
                       "fetching a copy of another broker");
        f->reported_us = now_us;
    }
    return !sigpending(&waiting) && (sigismember(&waiting, SIGTERM) > 0 ||
                                     sigismember(&waiting, SIGINT) > 0);
}

static int
run_broker(struct config *config, int argc, char **argv)
{
    struct origin origin = find_origin();
    struct broker *broker = NULL;
    struct supervisor supervisor;
    struct fetching fetching = {&supervisor, INT64_MIN / 2, false};
    struct problem why = {""};
    int signals = open_signals();
    enum status rc;
    const char *ending;

    if (signals < 0) {
        fprintf(stderr, "tidingsd: no descriptor is left for signals\n");
        return EXIT_FAILED;
    }
    if (config->seccomp)
        syscall_filter_begin();
    raise_descriptors();
    if (share_descriptors(config))
        DIAG(DIAG_WARNING, "broker",
             "few files may be open (ulimit -n): the hub has fewer connections",
             diag_number("hub_connections", config->hub_connections));

    /* Only the broker's own user may access its files, also those that
     * libraries make, such as SQLite's. file.h explains which of them other
     * users may read. */
    umask(S_IRWXG | S_IRWXO);
    DIAG(DIAG_INFO, "broker", "starting", diag_text("version", TIDINGS_VERSION),
         diag_number("pid", (uint64_t)getpid()),
         diag_text("data", config->data));
    supervisor_open(&supervisor);
    do {
        rc = broker_check(config, &why);
        if (!rc)
            rc = rejoin_if_needed(config, is_start_ended, &fetching, &why);
        if (rc == STATUS_STOPPED)
            break;
        if (!rc)
            rc = broker_open(&broker, config, &why);
        if (rc == STATUS_INVALID)
            return bad_usage(&why);
        if (rc) {
            DIAG(DIAG_ERROR, "broker", "cannot start",
                 diag_text("error", why.text));
            return EXIT_FAILED;
        }
        if (!fetching.is_over)
            filter_syscalls(config);
        DIAG(DIAG_INFO, "broker", "ready", diag_text("url", broker_url(broker)),
             diag_number("threads", config->threads));
        printf("tidingsd: ready at %s/\n", broker_url(broker));
        fflush(stdout);
        supervisor_say(&supervisor, SUPERVISOR_READY, broker_url(broker));
        ending =
            await_end(broker, config, argc, argv, signals, &origin, &fetching);
        fetching.is_over = true;
        if (ending)
            supervisor_say(&supervisor, SUPERVISOR_STOPPING);
        DIAG(DIAG_INFO, "broker", "ending",
             diag_text("signal", ending ? ending : "none: it joins anew"));
        broker_close(broker);
    } while (!ending);
    supervisor_close(&supervisor);
    close(signals);
    diag(DIAG_INFO, "broker", "ended");
    diag_end();
    return EXIT_SUCCESS;
}

/* Checks the files that the settings name and, with --check, everything else
 * that a start needs. The exit status is that of such a start. */
static int
check(struct config *config)
{
    struct problem why = {""}, unfiltered = {""};
    enum status rc = broker_check_files(config, &why);

    if (!rc && config->check) {
        raise_descriptors();
        rc = broker_check_surroundings(config, &why);
    }
    if (!rc && config->check && config->seccomp &&
        syscall_filter_apply(false, &unfiltered) == STATUS_IO)
        fprintf(stderr, "tidingsd: --seccomp: %s: it would start without\n",
                unfiltered.text);
    if (rc) {
        fprintf(stderr, "tidingsd: %s\n", why.text);
        return rc == STATUS_INVALID ? EXIT_USAGE : EXIT_FAILED;
    }
    printf("tidingsd: settings are good\n");
    return command_table_end();
}

/* Does what the command line requests. */
static int
fulfil_wish(struct config *config, enum config_wish wish, int argc, char **argv)
{
    struct buf text;

    diag_set_level(config->log_level);
    log_line_set_format(config->log_format);
    switch (wish) {
    case CONFIG_RUN:
        return config->check || config->check_settings
                   ? check(config)
                   : run_broker(config, argc, argv);
    case CONFIG_HELP:
        command_table_help(stdout);
        break;
    case CONFIG_EXAMPLE:
        config_example(stdout);
        break;
    case CONFIG_ROUTES:
        route_table_print(stdout);
        break;
    case CONFIG_LIMITS:
        clients_table_print(stdout);
        break;
    case CONFIG_OPENAPI:
    case CONFIG_ASYNCAPI:
        buf_init(&text, OPENAPI_MAX);
        (wish == CONFIG_OPENAPI ? route_table_openapi
                                : route_table_asyncapi)(&text);
        fwrite(text.data, 1, text.size, stdout);
        buf_fini(&text);
        break;
    case CONFIG_VERSION:
        printf("tidingsd %s\n", TIDINGS_VERSION);
        break;
    }
    return command_table_end();
}

/* Ends without memory for `size` bytes. As after kill -9, what is durable is
 * durable: no handler of exit() may ask for memory again. */
static void
end_without_memory(size_t size)
{
    char line[128];
    int length = snprintf(line, sizeof(line),
                          "tidingsd: there is no memory for %zu bytes: it ends "
                          "here\n",
                          size);

    (void)!write(STDERR_FILENO, line, (size_t)length);
    _exit(EXIT_FAILED);
}

/* Blocks of OpenSSL: without memory SHA256() would leave a digest unset, and
 * none of its callers could trust it. */

static void *
take_block(size_t size, const char *file, int line)
{
    (void)file;
    (void)line;
    return memory_room(size);
}

static void
free_block(void *block, const char *file, int line)
{
    (void)file;
    (void)line;
    free(block);
}

static void *
resize_block(void *block, size_t size, const char *file, int line)
{
    if (size > 0)
        return memory_grow(block, 1, size);
    free_block(block, file, line);
    return NULL;
}

/* A command's name is first, or behind a wish for its help. */
static bool
names_command(int argc, char **argv)
{
    if (argc > 2 && (!strcmp(argv[1], "-h") || !strcmp(argv[1], "--help")))
        argv++;
    return argc > 1 && *argv[1] != '-';
}

int
main(int argc, char **argv)
{
    struct config config;
    struct problem why = {""};
    enum config_wish wish = CONFIG_RUN;
    sigset_t hangup;
    enum status rc;
    int result;

    memory_end_without_small(end_without_memory);
    CRYPTO_set_mem_functions(take_block, resize_block, free_block);
    command_table_begin();
    certificates_use_system();
    hide_memory(true);
    if (names_command(argc, argv))
        return command_table_run(argc, argv);
    /* Keeps a request to reload pending until the broker waits for signals: by
     * default SIGHUP would kill it. */
    sigemptyset(&hangup);
    sigaddset(&hangup, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &hangup, NULL);
    rc = config_read(&config, argc, argv, &wish, &why);
    if (rc)
        return bad_usage(&why);
    hide_memory(!config.core_dumps);
    if (wish == CONFIG_RUN)
        rc = broker_check(&config, &why);
    result = rc ? bad_usage(&why) : fulfil_wish(&config, wish, argc, argv);
    config_fini(&config);
    return result;
}
