/*
 * tidings_source.h - creates, changes, describes and removes sets; finds what a
 * source offers.
 */
#ifndef TIDINGS_SOURCE_H
#define TIDINGS_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "tidings_client.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Creates a set. Leaves an existing one alone.
 *
 * client          from td_open.
 * set_url         "http(s)://host:port/sets/NAME", UTF-8.
 * settings, size  a JSON object of settings; size 0: none. Settings
 *                 that are not given take the broker's default.
 *
 * Memory   all arguments are borrowed until return.
 * Thread   blocks.
 * Errors   TD_INVALID      set_url is malformed; nothing was sent.
 *          TD_REFUSED      nothing was created; td_problem names the setting,
 *                          or 409: the set exists.
 *          TD_UNREACHABLE  no answer: it may or may not have been created.
 *          TD_STOPPED, TD_BROKEN, TD_MEMORY as for td_publish.
 * Spec     R-049. Since 1.0.
 */
TD_API enum td_status td_set_create(struct td_client *client,
                                    const char *set_url, const char *settings,
                                    size_t size);

/*
 * Changes the named settings of an existing set; others stay.
 *
 * client        from td_open.
 * set_url       "http(s)://host:port/sets/NAME", UTF-8.
 * change, size  a JSON Merge Patch (RFC 7396): {"title":"New","rotateAge":null}
 *               sets the title, and rotateAge to the broker's default.
 * may_discard   0: a change that would delete stored bytes (content as "none",
 *               a shorter retention) is refused.
 *
 * Memory   all arguments are borrowed until return.
 * Thread   blocks.
 * Errors   TD_INVALID      set_url is malformed; nothing was sent.
 *          TD_GONE         the set was removed.
 *          TD_REFUSED      nothing was changed; td_problem names the setting;
 *                          404: there is no such set; 409: it would delete
 *                          stored bytes.
 *          TD_UNREACHABLE  no answer: the change may have been made. Repeating
 *                          it does no harm.
 *          TD_STOPPED, TD_BROKEN, TD_MEMORY as for td_publish.
 * Spec     R-049. Since 1.0.
 */
TD_API enum td_status td_set_change(struct td_client *client,
                                    const char *set_url, const char *change,
                                    size_t size, int may_discard);

/*
 * Creates a set, or replaces all settings of an existing set. Settings that are
 * not given take the broker's default. To change some of them: td_set_change.
 *
 * client          from td_open.
 * set_url         "http(s)://host:port/sets/NAME", UTF-8.
 * settings, size  a JSON object of settings; size 0: none.
 * is_new          set to 1 if the set was created, else 0; may be NULL.
 *
 * Memory   all arguments are borrowed until return.
 * Thread   blocks.
 * Errors   TD_INVALID      set_url is malformed; nothing was sent.
 *          TD_REFUSED      nothing was changed; td_problem names the setting;
 *                          409: they would delete stored bytes.
 *          TD_UNREACHABLE  no answer: the change may have been made. Repeating
 *                          it does no harm.
 *          TD_STOPPED, TD_BROKEN, TD_MEMORY as for td_publish.
 * Spec     R-049. Since 1.0.
 */
TD_API enum td_status td_set_put(struct td_client *client, const char *set_url,
                                 const char *settings, size_t size,
                                 int *is_new);

/* A value of a set's description; `path` names it: "position", "lists.open",
 * "links.0.rel". Both are lent until it returns. */
typedef void td_member_fn(const char *path, const char *value, void *user);

/*
 * Reads a set's description: position, digest, settings, lists, links.
 *
 * client     from td_open.
 * set_url    "http(s)://host:port/sets/NAME", UTF-8.
 * on_member  called for every value of the description, in order; may be NULL.
 * user       passed to on_member.
 * json       set to the unchanged description, terminated; may be NULL.
 *
 * Memory   the caller frees *json with free(); NULL on failure.
 * Thread   blocks; on_member runs on the calling thread.
 * Errors   TD_GONE     the set was removed.
 *          TD_REFUSED  404: there is no such set.
 *          TD_INVALID, TD_UNREACHABLE, TD_STOPPED, TD_BROKEN, TD_MEMORY as for
 *          td_publish.
 * Spec     R-353. Since 1.0.
 */
TD_API enum td_status td_set_get(struct td_client *client, const char *set_url,
                                 td_member_fn *on_member, void *user,
                                 char **json);

/*
 * Removes a set and returns when that is durable. Its history is gone then; a
 * new set of the same name is another one.
 *
 * Memory   all arguments are borrowed until return.
 * Thread   blocks.
 * Errors   TD_GONE         it was removed before.
 *          TD_REFUSED      404: there is no such set.
 *          TD_UNREACHABLE  no answer: it may or may not have been removed.
 *          TD_INVALID, TD_STOPPED, TD_BROKEN, TD_MEMORY as for td_publish.
 * Spec     R-049. Since 1.0.
 */
TD_API enum td_status td_set_delete(struct td_client *client,
                                    const char *set_url);

/* A channel or document of a set. Strings are UTF-8; NULL: not given. */
struct td_item {
    const char *rel; /* a capability of Z39.99 ("changelist"), or a relation */
    const char *href;
    const char *type;
    const char *from; /* W3C Datetime */
    const char *until;
};

/* The offer of a set, as far as its server states it. */
struct td_offer {
    const char *set_url;
    const char *title;
    const char *position; /* of the last entry */
    const char *earliest; /* the first position to follow from */
    const char *digest;   /* of the log up to the last entry */
    const char *from;     /* where the change lists begin */
    uint64_t n_lists;     /* change lists, open and closed; 0: unknown */
    const struct td_item *items;
    size_t n_items;
    const char *description; /* the set's own JSON object, not terminated */
    size_t description_size;
};

typedef void td_offer_fn(const struct td_offer *offer, void *user);

/*
 * Finds out what a set offers: from its description (JSON), its Capability List
 * and its Change List, by their links. A server may lack some of them.
 *
 * client      from td_open.
 * set_url     "http(s)://host:port/sets/NAME", or the URL of a Capability List
 *             or of one of its documents, UTF-8.
 * on_offer    called once, on TD_OK.
 *
 * Memory   all arguments are borrowed until return; the offer, until on_offer
 *          returns.
 * Thread   blocks; on_offer runs on the calling thread.
 * Errors   TD_INVALID      set_url is malformed; nothing was sent.
 *          TD_GONE         the set was removed.
 *          TD_REFUSED      the server has no such set; or the URL is that
 *                          of a source with several sets (td_sets).
 *          TD_UNREACHABLE  no answer, or 503 and the like.
 *          TD_BROKEN       a document is unreadable.
 *          TD_STOPPED, TD_MEMORY
 * Spec    . Since 1.0.
 */
TD_API enum td_status td_describe(struct td_client *client, const char *set_url,
                                  td_offer_fn *on_offer, void *user);

/* Receives a set of a source: its URL, for td_describe, td_follow and
 * td_verify. With a `why`, `url` is a document that the source names but that
 * is unreadable; `why` is the reason, a sentence. Both are lent until it
 * returns.
 */
typedef void td_set_fn(const char *url, const char *why, void *user);

/*
 * Finds all sets of a source, from any of its addresses. The URL of a set, of
 * its Capability List or of one of its lists stands for that set; every other
 * address for the whole source: the call reads its Source Descriptions and
 * their index.
 *
 * client  from td_open.
 * url     any address of a ResourceSync source, UTF-8.
 * on_set  called for each set, and for each unreadable document.
 *
 * Memory   all arguments are borrowed until return.
 * Thread   blocks; on_set runs on the calling thread.
 * Errors   TD_INVALID      no URL of http or https.
 *          TD_REFUSED, TD_UNREACHABLE, TD_BROKEN  no set was found, or a
 *                          document that the source names is unreadable:
 *                          on_set received the sets that were found. TD_BROKEN
 *                          also if documents lead in a circle, or to more than
 *                          10,000 sets.
 *          TD_STOPPED, TD_MEMORY
 * Spec    . Since 1.0.
 */
TD_API enum td_status td_sets(struct td_client *client, const char *url,
                              td_set_fn *on_set, void *user);

#ifdef __cplusplus
}
#endif

#endif
