/*
 * foreign_source.h - foreign Sources: what they post to the hub, and whether
 * the hub believes them.
 *
 * A Source posts a notification, or a ping that a topic has changed. Only
 * registered topics are accepted: those of foreign_topic.h, or the
 * "upstreamTopic" of a set, whose log takes in the changes like a post
 * (sets/ingest.h). A Source is believed when its own answer to HEAD of the
 * topic has the Link headers rel=self (the topic) and rel=hub (us): R-295. The
 * hub checks this before it takes the first notification, and again after
 * SOURCE_BELIEVED_US.
 *
 *     notification --> HEAD, if it is not believed --> document_intake.h
 *     ping --> GET ---------------------------------------^    |
 *                                                              v
 *                                                     a set, or a relay
 *
 * After a ping the hub fetches the topic, and takes in what is new (W-121,
 * W-123):
 *
 *     ping --> waits (FETCHES_AT_ONCE) --> GET --> 304, or the same again
 *                 ^                          |  \-> taken in
 *                 +-- a ping came meanwhile -+---- fails: again later, a few
 *                                                  times
 *
 * However often a Source pings, its topic is fetched no faster than the Source
 * answers: all pings during a fetch cause one more fetch. FETCHES_AT_ONCE
 * bounds the memory for the bodies (--max-body each), and the topics of one
 * client's sets leave a fetch to others. If the turn in which a
 * relay took a document in cannot be kept, the document is fetched again: the
 * Source pinged once, was answered, and will not repeat it.
 *
 * A struct exists for each registered topic that a notification or ping has
 * named, until an hour after the last one. (Then the hub asks again: with
 * another HEAD, and a fetch without conditions.)
 *
 * The delivery thread's.
 */
#pragma once

#include <pthread.h>

#include "broker/calls/caller.h"
#include "broker/posts/posts.h"
#include "broker/sets/registry.h"
#include "broker/sources/command.h"
#include "broker/sources/foreign_topic.h"
#include "broker/sources/hub_db.h"
#include "proto/resourcesync/digest.h"

#define SOURCE_BELIEVED_US 3600000000 /* an hour */

/* The most redirects of a Source's topic that a call follows. */
#define SOURCE_REDIRECTS 3

struct foreign_sources {
    struct foreign_topics *topics; /* their caller is that of the calls here */
    struct posts *posts;
    const struct config *config;
    struct map sources;

    /* Sources, by source->fetch_node: those that wait for a fetch of their
     * topic, and those whose topic the hub fetches now. */
    struct list to_fetch, fetching;
    struct list fetched; /* sources whose document a relay has taken in this
                            turn, by source->fetched_node */
    struct hub_db_hook hook;

    /* document_intake.c: between the log thread and this one. */
    pthread_mutex_t mutex;
    pthread_cond_t landed;
    struct list committed; /* intakes, by node */
    struct task task;      /* posted while is_posted */
    bool is_posted;
    bool is_ending;
    unsigned n_in_log;
};

struct foreign_source {
    struct map_node node; /* in foreign->sources */
    struct foreign_sources *foreign;
    char *url;        /* as registered */
    char *comparable; /* in its normal form */
    int64_t used_us;  /* steady */
    struct alarm forget;

    /* HEAD, and the commands that wait for it, by command->task.node: it is
     * under way while there are some. */
    struct call head;
    struct list asking;
    int64_t believed_until_us; /* steady */
    char *believed_hub;        /* its name for us; or NULL */

    /* GET */
    struct list fetch_node, fetched_node;
    struct call get;
    bool is_fetching;
    bool is_fetch_wanted; /* another ping came meanwhile: fetch once more */
    unsigned fetch_tries;
    struct alarm retry;
    unsigned n_fetched;         /* bodies */
    char *etag, *last_modified; /* of the last body. When its intake ended: its
                                   digest, and the set that took it (a relay
                                   knows its own): */
    struct digest fetched;
    const struct set *fetched_into; /* or NULL; only its address is compared */
    char header[2][1100];
    const char *headers[4];

    /* For HEAD and GET, with their tokens (peer_tokens.h); or NULL. */
    char *head_token, *get_token;
    const char *head_headers[2];

    /* document_intake.c: documents on their way in; the first one is at work.
     */
    struct list intakes;
    const struct set *taken_into; /* the set that took the last one; or NULL. A
                                     set that was removed and made again is
                                     another set */
    bool is_taken_fetched;
    struct digest taken;
};

/* Makes the table, before there is a thread; `topics` and `posts` are lent.
 * foreign_sources_close frees it when the thread has ended; it is harmless
 * before foreign_sources_open. */
void foreign_sources_open(struct foreign_sources *foreign,
                          struct foreign_topics *topics, struct posts *posts);
void foreign_sources_close(struct foreign_sources *foreign);

/* COMMAND_NOTIFY: calls command->done when the document is durable (200) or
 * refused: 400 if links, Content-Type or body are missing or malformed; 403 if
 * the topic is not registered, or its own links do not name us; 502 and 504 if
 * it cannot be reached, or not in time; else the status of a post to the set
 * (413, 415, 422, 503). */
void foreign_source_notify(struct foreign_sources *foreign,
                           struct command *command);

/* After a ping: fetches the topic, no faster than it answers. Nothing, if
 * nobody takes it in. */
void foreign_source_fetch(struct foreign_sources *foreign, struct slice url);

/* Says that nobody takes in the topic. STATUS_NOT_FOUND. */
enum status foreign_source_unknown(struct slice url, struct problem *why);

/* On the delivery thread, when its calls are cut and its jobs are done:
 * commands get STATUS_STOPPED, except those in the log, which get the log's
 * answer. */
void foreign_sources_end(struct foreign_sources *foreign);
