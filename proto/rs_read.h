/*
 * rs_read.h - reads the attributes of rs:md and rs:ln, of documents and
 * entries.
 *
 * They are where nearly all of ResourceSync is said. urlset_read.c decides
 * where such an element may stand, this file what may stand in it.
 */
#ifndef PROTO_RS_READ_H
#define PROTO_RS_READ_H

#include "proto/input_reader.h"
#include "proto/xml.h"

/* The names that the XML reader knows. The parser interns them, so that the
 * reader compares addresses. */
enum word {
    W_NS_SITEMAP,
    W_NS_RS,
    W_NS_TIDINGS,
    W_URLSET,
    W_URL,
    W_LOC,
    W_LASTMOD,
    W_CHANGEFREQ,
    W_PRIORITY,
    W_MD,
    W_LN,
    W_CAPABILITY,
    W_FROM,
    W_UNTIL,
    W_AT,
    W_COMPLETED,
    W_CHANGE,
    W_DATETIME,
    W_HASH,
    W_LENGTH,
    W_TYPE,
    W_ENCODING,
    W_REL,
    W_HREF,
    W_PRI,
    W_MODIFIED,
    W_TAGS,
    W_SEQ,
    W_EPOCH,
    W_AFTER,
    W_LAST,
    W_DIGEST,
    W_NOW,
    W_HEARTBEAT,
    N_WORDS
};

/* Their texts. */
extern const char *const md_words[N_WORDS];

/* The state that both files share. */
struct md_reader {
    struct reader *reader;
    xml_name names[N_WORDS];
};

static inline bool
is_word(const struct md_reader *md, xml_name name, enum word word)
{
    return name == md->names[word];
}

/* Is it a namespace in which nothing is foreign? */
static inline bool
is_ours(const struct md_reader *md, xml_name ns)
{
    return is_word(md, ns, W_NS_RS) || is_word(md, ns, W_NS_SITEMAP);
}

/* The document's rs:md: its capability and coverage. */
MUST_CHECK enum status md_read_document(struct md_reader *md,
                                        const struct xml_element *element,
                                        struct problem *why);

/* An entry's rs:md, into the reader's entry. */
MUST_CHECK enum status md_read_entry(struct md_reader *md,
                                     const struct xml_element *element,
                                     struct problem *why);

/* The document's rs:ln: the sender's own affair, but it must be a link. */
MUST_CHECK enum status ln_read_document(struct md_reader *md,
                                        const struct xml_element *element,
                                        struct problem *why);

/* An entry's rs:ln. */
MUST_CHECK enum status ln_read_entry(struct md_reader *md,
                                     const struct xml_element *element,
                                     struct problem *why);

/* "ELEMENT: attribute "NAME" REASON" */
MUST_CHECK enum status md_refuse(const char *element,
                                 const struct xml_attribute *attribute,
                                 const char *reason, struct problem *why);

#endif
