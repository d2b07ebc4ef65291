/*
 * settings.h - a set's settings <-> JSON: one row each, in settings.c.
 *
 *     {"title":"Demo","description":"http://example.org/about",
 *      "rotateEntries":1000,"rotateBytes":1048576,"rotateAge":3600,
 *      "retainLists":100,"retainAge":2592000,
 *      "resourceListEvery":600,"resourceListKeep":"daily","content":"inline",
 *      "contentVersions":"30d",
 *      "private":true,"noData":true,
 *      "upstreamTopic":"https://a.example/sets/demo/notifications",
 *      "hubs":["https://hub.example/"]}
 *
 * "upstream_topic" is read as "upstreamTopic".
 *
 * An absent setting follows the broker's option of that name (rotateAge:
 * --rotate-age), also after a restart with another value. An absent title or
 * description is "".
 */
#pragma once

#include "broker/config/config.h"
#include "broker/log/head.h"

/* Bytes of the two texts. */
#define SETTINGS_TITLE_MAX 256
#define SETTINGS_URL_MAX   512

/* The largest document: all members, everything escaped. */
#define SETTINGS_BYTES_MAX 49152

struct json_shape;
struct peers;

/* Limits the history of a set: retainLists and retainAge apply to closed Change
 * Lists and to archived generations alike. */
struct retention {
    uint64_t lists; /* 0: all */
    int64_t age_us; /* 0: for ever */
};

struct settings {
    unsigned given; /* a bit per row, in order; other rows are as the options */
    unsigned named; /* of a change: also rows that it resets */
    char title[SETTINGS_TITLE_MAX + 1];
    char description[SETTINGS_URL_MAX + 1]; /* URL: `describedby` */
    struct list_limits limits;              /* at which lists end */
    int64_t rotate_age_us;
    struct retention retention;
    int64_t resource_list_every_us; /* 0: on demand only */
    uint64_t resource_list_keep;    /* OPTION_KEEP_DAILY, ... (option.h) */
    enum content_mode content;
    uint64_t content_versions;      /* OPTION_KEEP_ALL, ... */
    int64_t resource_dump_every_us; /* 0: on demand only */
    uint64_t resource_dump_keep;    /* OPTION_KEEP_NONE, ... */
    bool is_private;                /* set_is_visible (registry.h) */
    bool has_no_data;               /* entries take no bytes inline */
    struct peers *peers; /* owned: upstreamTopic and hubs; NULL: none */
};

/* Starts without any given setting. */
void settings_start(struct settings *settings, const struct config *config);

/* For settings on the heap; releases the peers. NULL is allowed. */
void settings_free(struct settings *settings);

/* Reads the JSON object `text`; nothing but white space is one without members.
 * STATUS_MALFORMED: no JSON object. STATUS_INVALID: `why` names the member, and
 * suggests another. Always call peers_unref for the
 * peers.
 *
 * `is_change`: the object is a JSON Merge Patch (RFC 7396): a null member is
 * named, and not given; and white space alone is malformed. */
MUST_CHECK enum status settings_read(struct settings *settings,
                                     const struct config *config,
                                     struct slice text, bool is_change,
                                     struct problem *why);

/* Appends `before` with the members that `change` names replaced, or left out
 * where `change` resets them. */
void settings_merge(struct buf *to, const struct settings *before,
                    const struct settings *change);

/* Appends the given settings as an object; with `all`, all those in effect (but
 * without title, description, and what is absent or false). */
void settings_write(struct buf *to, const struct settings *settings, bool all);

/* As settings_read takes them, and as a change. */
extern const struct json_shape settings_shape, settings_change_shape;

/* How many of `n` lists exceed the limit. */
uint64_t retention_over(const struct retention *retention, uint64_t n);

/* A wall-clock time (us): lists and generations that ended before it are too
 * old. INT64_MIN: none are. */
int64_t retention_since_us(const struct retention *retention);
