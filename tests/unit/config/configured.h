/*
 * configured.h - a configuration read from arguments, for the tests of options
 * and of the file.
 */
#ifndef TESTS_UNIT_BASE_CONFIGURED_H
#define TESTS_UNIT_BASE_CONFIGURED_H

#include <stdio.h>

#include "broker/config/config.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

static inline enum status
configured_read(struct config *config, enum config_wish *wish,
                struct problem *why, const char *const *argv)
{
    int argc = 0;

    while (argv[argc])
        argc++;
    return config_read(config, argc, (char **)argv, wish, why);
}

static inline void
configured_accept(struct config *config, const char *const *argv)
{
    struct problem why = {.text = ""};
    enum config_wish wish = CONFIG_HELP;

    if (configured_read(config, &wish, &why, argv))
        fail_msg("%s", why.text);
    assert_int_equal(wish, CONFIG_RUN);
}

static inline void
configured_refuse(const char *sentence, const char *const *argv)
{
    struct problem why = {.text = ""};
    struct config config;
    enum config_wish wish;

    assert_int_equal(configured_read(&config, &wish, &why, argv),
                     STATUS_INVALID);
    assert_string_equal(why.text, sentence);
}

/* Writes `text` as t.ini into the test's directory; returns its path, lent
 * until the next call. */
static inline const char *
configured_write(void **state, const char *text)
{
    static char path[300];

    snprintf(path, sizeof(path), "%s/t.ini", tempdir_path(state));
    tempdir_write(tempdir_fd(state), "t.ini", text);
    return path;
}

/* READ(&config, "--data", "x"): these arguments are accepted; REFUSED("...",
 * "--data", "x"): they are refused with that sentence. */
#define ARGV(...)            ((const char *[]){"tidingsd", __VA_ARGS__, NULL})
#define READ(config, ...)    configured_accept((config), ARGV(__VA_ARGS__))
#define REFUSED(reason, ...) configured_refuse((reason), ARGV(__VA_ARGS__))

static inline void
read_file(void **state, struct config *config, const char *text)
{
    READ(config, "--config", configured_write(state, text));
}

/* The file is refused with "FILE:sentence". */
static inline void
refused_in_file(void **state, const char *text, const char *sentence)
{
    const char *path = configured_write(state, text);
    char want[900];

    snprintf(want, sizeof(want), "%s:%s", path, sentence);
    REFUSED(want, "--config", path);
}

#endif
