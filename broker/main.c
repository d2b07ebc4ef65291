/*
 * main.c - tidingsd: options, signals, exit status.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "broker/base/config.h"
#include "broker/base/diag.h"
#include "broker/broker.h"

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* Every subscriber is a descriptor: take as many as the system allows. */
static void
raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit))
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int
serve(const struct config *config)
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
    raise_descriptors();

    rc = broker_open(&broker, config, &why);
    if (rc) {
        fprintf(stderr, "tidingsd: %s\n", why.text);
        return rc == STATUS_INVALID ? EXIT_USAGE : EXIT_FAILED;
    }
    printf("tidingsd: ready at %s/\n", broker_url(broker));
    fflush(stdout);
    sigwait(&signals, &signal_number);
    diag(DIAG_INFO, "broker", "ending");
    broker_close(broker);
    return EXIT_SUCCESS;
}

int
main(int argc, char **argv)
{
    struct config config;
    struct problem why = {""};
    enum config_wish wish = CONFIG_RUN;
    enum status rc = config_read(&config, argc, argv, &wish, &why);

    if (!rc && wish == CONFIG_RUN)
        rc = broker_check(&config, &why);
    if (!rc && wish == CONFIG_RUN && config.check)
        rc = broker_check_surroundings(&config, &why);
    if (rc) {
        fprintf(stderr, "tidingsd: %s\n", why.text);
        return EXIT_USAGE;
    }
    diag_set_level(config.log_level);
    switch (wish) {
    case CONFIG_HELP:
        config_help(stdout);
        return EXIT_SUCCESS;
    case CONFIG_EXAMPLE:
        config_example(stdout);
        return EXIT_SUCCESS;
    case CONFIG_VERSION:
        printf("tidingsd %s\n", TIDINGS_VERSION);
        return EXIT_SUCCESS;
    case CONFIG_RUN:
        break;
    }
    if (config.check) {
        printf("tidingsd: settings are good\n");
        return EXIT_SUCCESS;
    }
    return serve(&config);
}
