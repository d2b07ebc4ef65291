/*
 * asked.h - a hub of a test's own, in this process, and commands to it, as the
 * door would submit them.
 *
 *     FIXTURE(asked_setup, asked_teardown);
 */
#ifndef TESTS_UNIT_HUB_ASKED_H
#define TESTS_UNIT_HUB_ASKED_H

#include <pthread.h>

#include "broker/hub/hub.h"
#include "tests/support/sets.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define ASKED_HUB SETS_URL "/hub"

/* The longest pause between two attempts. */
#define ASKED_RETRY_US 20000

struct asked {
    struct sets sets;
    struct hub *hub;
};

extern struct asked broker;

/* The outcome of a command. */
struct told {
    enum status status;
    unsigned http;
    struct problem why;
    char text[20000]; /* terminated */
};

/* A command that waits. */
struct hub_request {
    struct command *command;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_done;
};

/* asked_setup opens `broker`. After asked_configure a test changes the options,
 * and calls asked_open(). */
int asked_setup(void **state);
int asked_configure(void **state);
int asked_teardown(void **state);
void asked_open(void);
void asked_close_hub(void);

/* Submits a command, which is freed; asked_await waits for the answer. */
struct told asked(struct command *command);
void asked_begin(struct hub_request *w, struct command *command);
struct told asked_await(struct hub_request *w);

struct told asked_of_relay(enum command_kind kind, const char *name,
                           const char *body);

/* Makes a relay; the answer has to be `http`. */
void asked_put_relay(const char *name, const char *topic, unsigned http);

/* A notification; NULL: no such header. */
struct posted {
    const char *links;
    const char *type;
    const char *key;
    struct slice body;
};

struct command *asked_notification(const struct posted *p);

/* Links as a good Source sends them, of this topic. Lent until the next. */
const char *asked_links(const char *topic);

struct told asked_post(const char *topic, const char *type, const char *key,
                       const char *body);

/* Sends a form with hub.mode=publish and `rest` behind it. */
struct told asked_ping(const char *rest);

/* Settings of a set; its removal. */
enum status asked_put_set(const char *name, const char *text,
                          struct problem *why);
void asked_remove_set(const char *name);

#endif
