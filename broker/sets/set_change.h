/*
 * set_change.h - creates, configures and removes sets through the log's queue,
 * so that each change has its place among the posts, and is durable before the
 * broker answers.
 *
 *     set_change_settings, set_change_harvest, set_change_remove
 *         --> [log thread: commit] --> on_done --> set_change_free
 *
 * The log thread merges a change into the settings that the set has at the
 * commit: two changes at once do not undo each other, and the check of what
 * settings would delete sees the set as it is at the commit.
 *
 * Settings delete stored bytes in three ways: a shorter retention lets closed
 * Change Lists and archived documents go, and `content` as "none" lets go of
 * the bytes of resources, fewer `contentVersions` of those of former versions.
 * To prevent that by a slip, the broker refuses
 * settings that would delete something unless the request allows it. What the
 * former settings let go of already does not count.
 */
#pragma once

#include "broker/log/post.h"
#include "broker/sets/harvest.h"
#include "broker/sets/registry.h"
#include "broker/sets/settings.h"

enum set_change_mode {
    SET_CHANGE_REPLACE, /* create the set, or replace all its settings */
    SET_CHANGE_CREATE,  /* create the set; refused if the set exists */
    SET_CHANGE_MERGE    /* change the set's settings by a JSON Merge Patch (RFC
                       7396) */
};

/* Settings for a set. */
struct set_change_wish {
    enum set_change_mode mode;
    bool may_discard;            /* allowed to delete stored bytes */
    struct slice name;           /* the set's */
    struct slice body;           /* a JSON document */
    struct client *client;       /* creator of a new set; NULL: none */
    struct authority *authority; /* the commit asks it; NULL: none */
};

/* The stored bytes of a set that new settings would delete. */
struct discards {
    uint64_t lists;          /* closed Change Lists */
    uint64_t entries;        /* in them */
    uint64_t archived;       /* generations that leave their archives */
    uint64_t archived_bytes; /* of their files */
    uint64_t files;          /* of content, as far as it was counted */
    uint64_t bytes;          /* of these files */
    uint64_t versions;       /* former versions of resources, at most */
    uint64_t uncounted;      /* entries whose content is not counted yet */
};

struct set_change {
    struct post post;         /* its outcome */
    struct set *set;          /* after a failure perhaps NULL */
    struct discards discards; /* STATUS_CONFLICT: the bytes that the settings
                                 would delete; none: the set exists already */

    /* For this folder only. */
    struct registry *registry;
    enum set_change_mode mode;
    bool may_discard;
    bool has_marked;             /* set_mark_private */
    struct client *client;       /* owned reference */
    struct authority *authority; /* likewise */
    char name[SET_NAME_MAX + 1];
    struct settings *settings; /* that the set gets */
    struct settings *change; /* SET_CHANGE_MERGE: what the wish names of them */
    struct harvest *harvest; /* that the set gets */
    struct act act;
    struct buf text;
    void (*on_done)(struct set_change *change, void *user);
    void *user;
};

/* Gives a set settings. `wish` is borrowed until return; `on_done` gets the
 * change back, on the log thread. STATUS_NOT_FOUND: no set can have that
 * name, or the set to be changed does not exist; STATUS_MALFORMED and
 * STATUS_INVALID as by settings_read; STATUS_LIMITED as by registry_make;
 * STATUS_BUSY, STATUS_STOPPED. In the
 * outcome also STATUS_CONFLICT: SET_CHANGE_CREATE of a set that exists, or
 * stored bytes would be deleted. STATUS_GONE: the set to be changed was
 * removed. */
MUST_CHECK enum status set_change_settings(struct registry *registry,
                                           const struct set_change_wish *wish,
                                           void (*on_done)(struct set_change *,
                                                           void *),
                                           void *user, struct problem *why);

/* Makes the set `name` for `client` without settings of its own, unless it
 * exists, and waits until it is durable. Not from a service thread, nor from
 * the log thread. Errors as those of set_change_settings and its outcome. */
MUST_CHECK enum status set_change_make(struct registry *registry,
                                       struct slice name, struct client *client,
                                       struct set **set, struct problem *why);

/* Gives the set `name` the report of its harvester, which it takes, also when
 * it fails, and makes the set for `client` if it does not exist. NULL: the set
 * has none any more; then STATUS_NOT_FOUND and, in the outcome, STATUS_GONE:
 * there is no such set. Other errors as those of set_change_make. */
MUST_CHECK enum status
set_change_harvest(struct registry *registry, struct slice name,
                   struct client *client, struct authority *authority,
                   struct harvest *harvest,
                   void (*on_done)(struct set_change *, void *), void *user,
                   struct problem *why);

/* Removes a set that exists. The log commits earlier posts first; a later post
 * makes a new set of that name. STATUS_GONE in the outcome: another request has
 * removed the set. */
MUST_CHECK enum status
set_change_remove(struct set *set, struct authority *authority,
                  void (*on_done)(struct set_change *, void *), void *user,
                  struct problem *why);

void set_change_free(struct set_change *change); /* NULL is allowed */

bool discards_any(const struct discards *discards);

/* Appends a JSON object: {"lists":3,"entries":150,...}. */
void discards_write(struct buf *to, const struct discards *discards);

/* Fails with a name that no set can have. `of` is "set" or "relay", for the
 * problem. */
MUST_CHECK enum status name_check(const char *of, struct slice name,
                                  struct problem *why);
