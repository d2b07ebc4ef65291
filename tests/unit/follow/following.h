/*
 * following.h - the stage of the tests of td_follow: a broker with a script,
 * and a record of the messages that were handed over.
 */
#ifndef TESTS_UNIT_FOLLOW_FOLLOWING_H
#define TESTS_UNIT_FOLLOW_FOLLOWING_H

#include <semaphore.h>

#include "client/tidings.h"
#include "tests/support/fake_broker.h"
#include "tests/support/history.h"

#define EPOCH       "0123456789abcdef"
#define OTHER_EPOCH "fedcba9876543210"

/* The state of a test: a broker with a script, and a record of on_message. */
struct stage {
    struct fake_broker *broker;
    struct history history;
    struct history other; /* of a log made anew */
    struct td_client *client;
    struct td_follow_options options;
    uint64_t until;  /* on_message ends it with this entry */
    char seen[1024]; /* "1 2 3 h " */
    char last_text[1024];
    char position[64];
    char digest[128];
    unsigned troubles;
    char trouble[512];
    int64_t pauses_until_ms; /* from on_trouble */
    unsigned silences;       /* connections that the broker only holds */
    bool starts_on_trouble;
    unsigned busy_ms; /* how long on_message takes for the first change */
    sem_t heard;
};

int set_stage(void **state);
int clear_stage(void **state);
int on_message(const struct td_message *message, void *user);

/* Gives the broker its script, connection by connection, and starts it:
 *
 *     d                 the set is described
 *     s                 a stream begins
 *     2-5               a message on it, with the changes after 2 up to 5
 *     o4-5 | t4-5       the same of a log made anew; every third one of these
 *     x                 a message that is the next of `texts`
 *     ping | raw        raw: a frame that breaks the rules
 *     hold | wait | restart | denied | gone
 *     p1-3 | pt1-3      a page of the change memory
 *     nothing           the connection is closed at once
 *     410 | 503         a refusal, with EARLIEST; a stream is refused twice:
 *                       the second time to the GET that asks for the words
 */
void tell(struct stage *s, const char *script, const char *const texts[]);

/* The same, but it is not started yet. */
void tell_scenes(struct stage *s, const char *script,
                 const char *const texts[]);

#define EARLIEST "earliest " EPOCH "-40"
#define STREAM   "GET /sets/news/stream"
#define CHANGES  "GET /sets/news/changes?after=" EPOCH

enum td_status follow(struct stage *s, const char *after, enum td_form form,
                      uint64_t until);

/* A conversation: the broker's script, and the expected result. */
struct talk {
    const char *what; /* NULL: the test says it */
    enum td_form form;
    const char *script; /* of tell */
    const char *after;
    uint64_t until;
    enum td_status rc;
    const char *seen;
    const char *problem; /* NULL: none */
    unsigned troubles;
    const char *first, *second, *third; /* requests begin so; NULL: anyhow */
    const char *const *texts;
};

void hold_talk(struct stage *s, const struct talk *talk);

/* One in JSON that on_message stops at entry `until`, without a problem. */
void assert_follows(struct stage *s, const char *script, const char *after,
                    uint64_t until, const char *seen, unsigned troubles);

struct slice json(struct stage *s, uint64_t after, uint64_t last);
struct slice xml(struct stage *s, uint64_t after, uint64_t last);

/* A copy of the message in which the first `from` is `to`, as long; "": the
 * digest is another one. The stage's. */
char *spoil(struct stage *s, struct slice message, const char *from,
            const char *to);

/* Connection `i` began with this request? */
void assert_asked(struct stage *s, size_t i, const char *line);

#endif
