#include "tests/support/notice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_tree.h>

#include <libxml/parser.h>
#include <libxml/tree.h>
#include <openssl/evp.h>

#include "tests/support/jsonpath.h"
#include "tests/test.h"

#define NS_S  "http://www.sitemaps.org/schemas/sitemap/0.9"
#define NS_RS "http://www.openarchives.org/rs/terms/"
#define NS_TD "urn:tidings:1"

/* What stands before the digits of a digest, and its size. */
#define ALGORITHM "sha-256:"
#define DIGITS    (sizeof(ALGORITHM) - 1)

static void
set_text(char *to, size_t size, const char *text)
{
    assert_true(strlen(text) < size);
    strcpy(to, text);
}

static char *
copy_of(const char *text)
{
    char *copy = strdup(text);

    assert_non_null(copy);
    return copy;
}

/* JSON */

static void
take_text(char *to, size_t size, const struct jsonpath *j, const char *name)
{
    if (jsonpath_has(j, name)) {
        assert_non_null(jsonpath_text(j, name));
        set_text(to, size, jsonpath_text(j, name));
    }
}

static const char *
member(yajl_val object, const char *name)
{
    const char *path[] = {name, NULL};
    yajl_val value = yajl_tree_get(object, path, yajl_t_any);

    if (YAJL_IS_NUMBER(value))
        return YAJL_GET_NUMBER(value);
    if (!YAJL_IS_STRING(value))
        fail_msg("an entry without %s", name);
    return YAJL_GET_STRING(value);
}

static void
read_json(struct notice *n, struct slice text)
{
    const char *path[] = {"changes", NULL};
    struct jsonpath j;
    yajl_val changes;

    jsonpath_open(&j, text);
    take_text(n->set, sizeof(n->set), &j, "set");
    take_text(n->epoch, sizeof(n->epoch), &j, "epoch");
    take_text(n->from, sizeof(n->from), &j, "from");
    take_text(n->until, sizeof(n->until), &j, "until");
    take_text(n->digest, sizeof(n->digest), &j, "digest");
    take_text(n->now, sizeof(n->now), &j, "now");
    if (jsonpath_has(&j, "heartbeat"))
        set_text(n->heartbeat, sizeof(n->heartbeat),
                 jsonpath_digits(&j, "heartbeat"));
    if (jsonpath_has(&j, "next"))
        n->next = copy_of(jsonpath_text(&j, "next"));
    n->after = jsonpath_number(&j, "after");
    n->last = jsonpath_number(&j, "last");

    changes = yajl_tree_get(j.root, path, yajl_t_array);
    assert_non_null(changes);
    n->n = changes->u.array.len;
    n->entries = calloc(n->n ? n->n : 1, sizeof(*n->entries));
    assert_non_null(n->entries);
    for (size_t i = 0; i < n->n; i++) {
        yajl_val change = changes->u.array.values[i];

        n->entries[i] = (struct notice_entry){
            .seq = strtoull(member(change, "seq"), NULL, 10),
            .loc = copy_of(member(change, "loc")),
            .change = copy_of(member(change, "change")),
            .datetime = copy_of(member(change, "datetime")),
        };
    }
    jsonpath_close(&j);
}

/* XML */

static xmlNode *
child(xmlNode *node, const char *ns, const char *name)
{
    for (node = xmlFirstElementChild(node); node;
         node = xmlNextElementSibling(node))
        if (xmlStrEqual(node->name, BAD_CAST name) && node->ns &&
            xmlStrEqual(node->ns->href, BAD_CAST ns))
            return node;
    fail_msg("an element without %s", name);
    return NULL;
}

/* An attribute's value, `ns` NULL for none; NULL: it is not there. To be freed
 * by xmlFree. */
static xmlChar *
attribute(xmlNode *node, const char *ns, const char *name)
{
    return ns ? xmlGetNsProp(node, BAD_CAST name, BAD_CAST ns)
              : xmlGetNoNsProp(node, BAD_CAST name);
}

static void
take_attribute(char *to, size_t size, xmlNode *node, const char *ns,
               const char *name)
{
    xmlChar *value = attribute(node, ns, name);

    if (value)
        set_text(to, size, (const char *)value);
    xmlFree(value);
}

static uint64_t
number_of(xmlNode *node, const char *ns, const char *name)
{
    xmlChar *value = attribute(node, ns, name);
    uint64_t number;

    if (!value)
        fail_msg("no %s", name);
    number = strtoull((const char *)value, NULL, 10);
    xmlFree(value);
    return number;
}

static char *
text_of(xmlChar *value)
{
    char *text;

    assert_non_null(value);
    text = copy_of((const char *)value);
    xmlFree(value);
    return text;
}

static void
read_entry(struct notice_entry *entry, xmlNode *url)
{
    xmlNode *md = child(url, NS_RS, "md");

    entry->seq = number_of(md, NS_TD, "seq");
    entry->loc = text_of(xmlNodeGetContent(child(url, NS_S, "loc")));
    entry->change = text_of(attribute(md, NULL, "change"));
    entry->datetime = text_of(attribute(md, NULL, "datetime"));
}

static void
read_xml(struct notice *n, struct slice text)
{
    xmlDoc *document =
        xmlReadMemory(text.data, (int)text.size, NULL, NULL,
                      XML_PARSE_NONET | XML_PARSE_HUGE | XML_PARSE_NOERROR);
    char capability[64] = "";
    xmlNode *root, *md;

    if (!document)
        fail_msg("not well-formed: %.*s",
                 text.size < 300 ? (int)text.size : 300, text.data);
    root = xmlDocGetRootElement(document);
    assert_string_equal(root->name, "urlset");
    md = child(root, NS_RS, "md");
    take_attribute(capability, sizeof(capability), md, NULL, "capability");
    assert_string_equal(capability, "change-notification");
    take_attribute(n->from, sizeof(n->from), md, NULL, "from");
    take_attribute(n->until, sizeof(n->until), md, NULL, "until");
    take_attribute(n->epoch, sizeof(n->epoch), md, NS_TD, "epoch");
    take_attribute(n->digest, sizeof(n->digest), md, NS_TD, "digest");
    take_attribute(n->now, sizeof(n->now), md, NS_TD, "now");
    take_attribute(n->heartbeat, sizeof(n->heartbeat), md, NS_TD, "heartbeat");
    n->after = number_of(md, NS_TD, "after");
    n->last = number_of(md, NS_TD, "last");

    n->entries = calloc(xmlChildElementCount(root), sizeof(*n->entries));
    assert_non_null(n->entries);
    for (xmlNode *node = xmlFirstElementChild(root); node;
         node = xmlNextElementSibling(node))
        if (xmlStrEqual(node->name, BAD_CAST "url"))
            read_entry(&n->entries[n->n++], node);
    xmlFreeDoc(document);
}

void
notice_read(struct notice *n, enum notice_form form, struct slice text)
{
    *n = (struct notice){.next = NULL};
    if (form == NOTICE_JSON)
        read_json(n, text);
    else
        read_xml(n, text);
}

void
notice_free(struct notice *n)
{
    for (size_t i = 0; i < n->n; i++) {
        free(n->entries[i].loc);
        free(n->entries[i].change);
        free(n->entries[i].datetime);
    }
    free(n->entries);
    free(n->next);
    *n = (struct notice){.next = NULL};
}

static void
check(const struct notice *n, bool is_filtered)
{
    const char *before = n->from;
    uint64_t seq = n->after;

    assert_int_equal(strlen(n->epoch), 16);
    assert_int_equal(strlen(n->digest), NOTICE_DIGEST_SIZE - 1);
    assert_int_equal(strspn(n->digest + DIGITS, "0123456789abcdef"), 64);
    /* "2026-04-05T09:00:00.000001Z": so texts compare as the times do. */
    assert_int_equal(strlen(n->from), 27);
    assert_int_equal(strlen(n->until), 27);
    if (!is_filtered)
        assert_int_equal(n->last - n->after, n->n);
    for (size_t i = 0; i < n->n; i++) {
        const struct notice_entry *e = &n->entries[i];

        if (!is_filtered)
            assert_int_equal(e->seq, seq + 1);
        assert_true(e->seq > seq && e->seq <= n->last);
        seq = e->seq;
        assert_int_equal(strlen(e->datetime), 27);
        if (strcmp(before, e->datetime) >= 0)
            fail_msg("entry %llu has the time %s after %s",
                     (unsigned long long)e->seq, e->datetime, before);
        before = e->datetime;
    }
    if (seq == n->last)
        assert_string_equal(before, n->until);
    else
        assert_true(strcmp(before, n->until) < 0);
    if (n->n > 0) {
        assert_string_equal(n->now, "");
        assert_string_equal(n->heartbeat, "");
    }
}

void
notice_check(const struct notice *n)
{
    check(n, false);
}

void
notice_check_filtered(const struct notice *n)
{
    check(n, true);
}

void
notice_check_chain(const struct notice *n, const struct notice *next)
{
    assert_string_equal(next->epoch, n->epoch);
    assert_int_equal(next->after, n->last);
    assert_string_equal(next->from, n->until);
    if (next->last == n->last)
        assert_string_equal(next->digest, n->digest);
    else
        assert_string_not_equal(next->digest, n->digest);
}

/* Digests */

static void
write_hex(char digest[NOTICE_DIGEST_SIZE], const unsigned char bytes[32])
{
    memcpy(digest, ALGORITHM, DIGITS);
    for (size_t i = 0; i < 32; i++)
        snprintf(digest + DIGITS + 2 * i, 3, "%02x", bytes[i]);
}

void
notice_digest_start(char digest[NOTICE_DIGEST_SIZE], const char *epoch)
{
    unsigned char bytes[32];

    assert_int_equal(
        EVP_Digest(epoch, strlen(epoch), bytes, NULL, EVP_sha256(), NULL), 1);
    write_hex(digest, bytes);
}

void
notice_digest_add(char digest[NOTICE_DIGEST_SIZE], struct slice fragment)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    unsigned char bytes[32];

    assert_non_null(context);
    for (size_t i = 0; i < 32; i++) {
        char pair[] = {digest[DIGITS + 2 * i], digest[DIGITS + 2 * i + 1],
                       '\0'};

        bytes[i] = (unsigned char)strtoul(pair, NULL, 16);
    }
    assert_int_equal(EVP_DigestInit_ex(context, EVP_sha256(), NULL), 1);
    assert_int_equal(EVP_DigestUpdate(context, bytes, sizeof(bytes)), 1);
    assert_int_equal(EVP_DigestUpdate(context, fragment.data, fragment.size),
                     1);
    assert_int_equal(EVP_DigestFinal_ex(context, bytes, NULL), 1);
    EVP_MD_CTX_free(context);
    write_hex(digest, bytes);
}
