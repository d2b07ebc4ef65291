/*
 * fragment.h - THE serialisation of a change: one line of XML, <url>...</url>.
 *
 * It is made once, when a change is accepted, with a hole where the commit puts
 * the event time and the seq. What comes out is, byte for byte, what every
 * list, message and archive holds:
 *
 *   <url><loc>http://example.com/a</loc><lastmod>2026-04-01T18:09:00Z</lastmod>
 *   <rs:md change="created" datetime="2026-04-01T18:10:00.125000Z" td:seq="7"
 *   td:datetime="2026-03-01T00:00:00Z" hash="md5:..." length="3"
 *   type="text/csv"/><rs:ln rel="..." href="..."/><td:title>...</td:title>
 *   <td:summary>...</td:summary><td:author>...</td:author><td:data>
 *   {&quot;price&quot;:3}</td:data></url>\n
 *
 * (without these line breaks: a fragment has one "\n", its last byte, which is
 * what lets a list be cut into entries again by looking for it). The prefixes
 * rs and td are declared on the document's root; foreign namespaces are
 * declared on the element that uses them.
 */
#pragma once

#include "proto/resourcesync/change.h"
#include "proto/resourcesync/resource_id.h"

/* Longest fragment, stamped. An entry has a loc of 2,048 characters, links and
 * attributes: 256 KiB is generous, and a batch (as large) always has room
 * for one. */
#define FRAGMENT_MAX 262144

/* Longest stamp: ` datetime="..." td:seq="..." td:datetime="..."`. */
#define FRAGMENT_STAMP_MAX 120

/* A fragment with its hole, as it waits for the commit. */
struct fragment {
    uint32_t size;       /* bytes without stamp, with the last "\n" */
    uint32_t hole;       /* where the stamp belongs, from the first byte */
    int64_t datetime_us; /* the source's time, or DATETIME_NONE */
};

/* Appends the fragment of `change` to `out` and describes it in `*f`; the
 * change's seq and source_us are left out: they are the commit's. Nothing is
 * appended unless it returns 0. STATUS_INVALID: longer than FRAGMENT_MAX with
 * its stamp. STATUS_BUSY: `out` is full. */
MUST_CHECK enum status fragment_write(struct buf *out,
                                      const struct change *change,
                                      struct fragment *f, struct problem *why);

/* Appends the attribute `td:traceparent`, which stands in the hole, behind the
 * stamp, in a fragment or before its rest. False: it is not valid, and nothing
 * is appended. */
bool fragment_add_traceparent(struct buf *out, struct slice traceparent);

/* The size of that attribute. */
#define FRAGMENT_TRACEPARENT_SIZE \
    (sizeof(" td:traceparent=\"\"") - 1 + TRACEPARENT_SIZE)

/* Copies `bytes` (described by `f`) to `to`, the hole filled with event time
 * `us` and `seq`, and with the source's time where that was another one. `to`
 * has room for f->size + FRAGMENT_STAMP_MAX. Returns the stamped size. */
size_t fragment_stamp(char *to, const char *bytes, const struct fragment *f,
                      int64_t us, uint64_t seq);

/* The other way: describes in `*f` what was stamped, and returns the size of
 * the stamp, which begins at `stamp`. f->datetime_us is DATETIME_NONE as well
 * where the event time was the source's own. */
size_t fragment_unstamp(struct slice stamped, uint32_t stamp,
                        struct fragment *f);

struct entry;

/* Reads a stamped fragment into `entry`. The XML reader for messages
 * (input_formats.h) makes the same change of it, but needs three to ten times
 * as long. Elements and attributes of our namespace that it does not know are a
 * later version's: it passes over them. The change lends from `fragment` and
 * from `entry`, until the entry is cleared or read again. STATUS_MALFORMED: not
 * a stamped fragment; STATUS_MEMORY. */
MUST_CHECK enum status fragment_read(struct entry *entry,
                                     struct slice fragment);

/* The parts of a stamped fragment that fragment_view finds in a quick look. */
struct fragment_view {
    struct slice loc; /* escaped, as it stands */
    enum change_kind kind;
    uint64_t seq;
    int64_t us;     /* event time */
    uint32_t stamp; /* where the stamp begins, from the first byte */
    uint32_t size;  /* with the "\n" */
};

/* Looks at the fragment that `text` begins with. STATUS_MALFORMED: it is none
 * that fragment_stamp made. */
MUST_CHECK enum status fragment_view(struct slice text,
                                     struct fragment_view *view);

/* Faster readers for callers that know where the stamp begins: `stamp`. */

/* The event time. */
int64_t fragment_time(const char *fragment, uint32_t stamp);

enum change_kind fragment_kind(const char *fragment, uint32_t stamp);

/* The fragment from the first byte of its loc on, as it stands: escaped. */
struct slice fragment_from_loc(struct slice fragment);

/* Its loc, escaped. */
struct slice fragment_loc(struct slice fragment);

/* The values of `type` and `td:tags`, escaped; empty where there is none. */
void fragment_labels(struct slice fragment, uint32_t stamp, struct slice *type,
                     struct slice *tags);

/* The value of `td:traceparent`; empty: it has none. */
struct slice fragment_traceparent(struct slice fragment, uint32_t stamp);

/* The values of `hash` (a normalised list without escapes; empty if there is
 * none) and `length` (or LENGTH_NONE). */
void fragment_bytes(struct slice fragment, uint32_t stamp, struct slice *hash,
                    uint64_t *length);

/* Computes the id of the resource (resource_id.h) of a stamped fragment, or of
 * an entry that fragment_resource made of one. */
void fragment_id(struct digest *id, struct slice entry);

/* Appends a fragment, with a hole or stamped, without its td:data. */
void fragment_without_data(struct buf *to, struct slice fragment);

/* True if the fragment has td:data. */
bool fragment_has_data(struct slice fragment);

/* Appends what a Resource List has of the resource: the stamped
 * fragment of a created or updated one without what was of the event, its
 * change, times and words; td:seq stays. Links to patches are of Change Lists
 * only.
 *
 *   <url><loc>http://example.com/a</loc><lastmod>2026-04-01T18:09:00Z</lastmod>
 *   <rs:md td:seq="7" hash="md5:..." length="3" type="text/csv"/><rs:ln .../>
 *   </url>\n
 */
void fragment_resource(struct buf *to, struct slice fragment, uint32_t stamp);

/* Entries of manifests, out of those of lists: stamped ones as well as those of
 * fragment_resource. */

/* The loc and the type of an entry, escaped; empty where there is none. */
void fragment_names(struct slice entry, struct slice *loc, struct slice *type);

/* A member of a package: the bytes of an entry. */
struct fragment_member {
    struct slice path;           /* with its leading slash */
    const struct digest *digest; /* SHA-256 */
    uint64_t length;
};

/* Appends what a manifest has of an entry: where its member is
 * and, where the entry does not have them, the hash and the length of that
 * . NULL: it has none. Links to patches are left out: packages
 * have none of these.
 *
 *   <url><loc>http://example.com/a</loc><rs:md change="created" datetime="..."
 *   td:seq="7" type="text/csv" hash="sha-256:..." length="3"
 *   path="/resources/000000000001.csv"/></url>\n
 */
void fragment_in_manifest(struct buf *to, struct slice entry,
                          const struct fragment_member *member);

/* How much longer than the entry that is at most, with a path of 48 bytes. */
#define FRAGMENT_MEMBER_MAX 192

/* Resources that a source posted whole, kept as fragments with a hole. */

/* Does the entry of a resource, as fragment_resource makes it, say what the
 * fragment of a created one does? The seq is no part of it. */
bool fragment_is_resource(struct slice fragment, uint32_t hole,
                          struct slice entry);

/* Changes the kind of a fragment with a hole. */
void fragment_set_kind(char *fragment, uint32_t hole, enum change_kind kind);

/* Appends the fragment of the deletion of the resource that `entry`
 * (fragment_resource) describes, and describes it in `*f`. Its link `via`
 * stays, which names the resource at its source. */
void fragment_write_deleted(struct buf *out, struct slice entry,
                            struct fragment *f);
