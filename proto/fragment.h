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
 *   type="text/csv"/><rs:ln rel="..." href="..."/></url>\n
 *
 * (without these line breaks: a fragment has one "\n", its last byte, which is
 * what lets a list be cut into entries again by looking for it). The prefixes
 * rs and td are declared on the document's root; foreign namespaces are
 * declared on the element that uses them.
 */
#ifndef PROTO_FRAGMENT_H
#define PROTO_FRAGMENT_H

#include <stdint.h>

#include "proto/buf.h"
#include "proto/change.h"

/* Longest fragment, stamped. An entry has a loc of 2,048 characters, links and
 * attributes: 256 KiB is generous, and a closed list's block (256 KiB) and a
 * batch (1 MB) always have room for one. */
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

/* Copies `bytes` (described by `f`) to `to`, the hole filled with event time
 * `us` and `seq`, and with the source's time where that was another one. `to`
 * has room for f->size + FRAGMENT_STAMP_MAX. Returns the stamped size. */
size_t fragment_stamp(char *to, const char *bytes, const struct fragment *f,
                      int64_t us, uint64_t seq);

/* What can be read off a stamped fragment without parsing XML. */
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

/* What can be read off faster where the stamp is known to begin at `stamp`. */

/* The event time. */
int64_t fragment_time(const char *fragment, uint32_t stamp);

enum change_kind fragment_kind(const char *fragment, uint32_t stamp);

/* The fragment from the first byte of its loc on, as it stands: escaped. */
struct slice fragment_from_loc(struct slice fragment);

/* The values of `type` and `td:tags`, escaped; empty where there is none. */
void fragment_labels(struct slice fragment, uint32_t stamp, struct slice *type,
                     struct slice *tags);

#endif
