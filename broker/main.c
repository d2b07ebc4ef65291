/*
 * main.c - tidingsd: options, signals, exit status.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/base/config.h"
#include "broker/base/diag.h"
#include "broker/broker.h"

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* Every subscriber is a descriptor: take as many as the system allows. Of these
 * the hub's connections get a quarter at most, so that however many callbacks
 * hang, others can still connect. */
static void
share_descriptors(struct config *config)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit))
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (getrlimit(RLIMIT_NOFILE, &limit) ||
        config->hub_connections <= limit.rlim_cur / 4)
        return;
    config->hub_connections = limit.rlim_cur / 4 ? limit.rlim_cur / 4 : 1;
    DIAG(DIAG_WARNING, "broker",
         "few files may be open (ulimit -n): the hub has fewer connections",
         diag_number("files", limit.rlim_cur),
         diag_number("hub_connections", config->hub_connections));
}

/* What the command line or the file says will not do: told to whoever typed it,
 * before there is anything to be diagnosed. */
static int
bad_usage(const struct problem *why)
{
    fprintf(stderr, "tidingsd: %s\n", why->text);
    return EXIT_USAGE;
}

/* The end of what only says something: it has to have got there. */
static int
end_saying(void)
{
    if (!fflush(stdout) && !ferror(stdout))
        return EXIT_SUCCESS;
    fprintf(stderr, "tidingsd: cannot write to standard output\n");
    return EXIT_FAILED;
}

static int
serve(struct config *config)
{
    struct broker *broker = NULL;
    struct problem why = {""};
    sigset_t signals;
    enum status rc;
    int signal_number;

    /* Blocked before any thread starts, so that only sigwait sees them. */
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    share_descriptors(config);

    /* What the broker makes is its own user's: also what libraries make, as
     * SQLite's files. file.h says who else may read what. */
    umask(S_IRWXG | S_IRWXO);
    DIAG(DIAG_INFO, "broker", "starting", diag_text("version", TIDINGS_VERSION),
         diag_number("pid", (uint64_t)getpid()),
         diag_text("data", config->data));
    rc = broker_open(&broker, config, &why);
    if (rc == STATUS_INVALID)
        return bad_usage(&why);
    if (rc) {
        DIAG(DIAG_ERROR, "broker", "cannot start",
             diag_text("error", why.text));
        return EXIT_FAILED;
    }
    DIAG(DIAG_INFO, "broker", "ready", diag_text("url", broker_url(broker)),
         diag_number("threads", config->threads));
    printf("tidingsd: ready at %s/\n", broker_url(broker));
    fflush(stdout);
    sigwait(&signals, &signal_number);
    DIAG(DIAG_INFO, "broker", "ending",
         diag_text("signal", signal_number == SIGINT ? "SIGINT" : "SIGTERM"));
    broker_close(broker);
    diag(DIAG_INFO, "broker", "ended");
    diag_end();
    return EXIT_SUCCESS;
}

/* Looks at what the settings name, and, with --check, at what else a start
 * needs. The exit status is that of such a start. */
static int
check(struct config *config)
{
    struct problem why = {""};
    enum status rc = broker_check_files(config, &why);

    if (!rc && config->check) {
        share_descriptors(config);
        rc = broker_check_surroundings(config, &why);
    }
    if (rc) {
        fprintf(stderr, "tidingsd: %s\n", why.text);
        return rc == STATUS_INVALID ? EXIT_USAGE : EXIT_FAILED;
    }
    printf("tidingsd: settings are good\n");
    return end_saying();
}

/* What was asked for, with what there is to be known. */
static int
fulfil(struct config *config, enum config_wish wish)
{
    diag_set_level(config->log_level);
    switch (wish) {
    case CONFIG_HELP:
        config_help(stdout);
        return end_saying();
    case CONFIG_EXAMPLE:
        config_example(stdout);
        return end_saying();
    case CONFIG_VERSION:
        printf("tidingsd %s\n", TIDINGS_VERSION);
        return end_saying();
    case CONFIG_RUN:
        break;
    }
    return config->check || config->check_settings ? check(config)
                                                   : serve(config);
}

int
main(int argc, char **argv)
{
    struct config config;
    struct problem why = {""};
    enum config_wish wish = CONFIG_RUN;
    enum status rc = config_read(&config, argc, argv, &wish, &why);
    int result;

    if (rc)
        return bad_usage(&why);
    if (wish == CONFIG_RUN)
        rc = broker_check(&config, &why);
    result = rc ? bad_usage(&why) : fulfil(&config, wish);
    config_fini(&config);
    return result;
}
