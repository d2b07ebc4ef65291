#include "proto/resourcesync/vocab.h"

#include "proto/token.h"
#include "proto/uri.h"
#include "proto/utf8.h"

const char *const change_kind_names[] = {
    [CHANGE_CREATED] = "created",
    [CHANGE_UPDATED] = "updated",
    [CHANGE_DELETED] = "deleted",
};

const char *const capability_names[] = {
    [CAP_DESCRIPTION] = "description",
    [CAP_CAPABILITYLIST] = "capabilitylist",
    [CAP_RESOURCELIST] = "resourcelist",
    [CAP_RESOURCEDUMP] = "resourcedump",
    [CAP_RESOURCEDUMP_MANIFEST] = "resourcedump-manifest",
    [CAP_CHANGELIST] = "changelist",
    [CAP_CHANGEDUMP] = "changedump",
    [CAP_CHANGEDUMP_MANIFEST] = "changedump-manifest",
    [CAP_RESOURCELIST_ARCHIVE] = "resourcelist-archive",
    [CAP_RESOURCEDUMP_ARCHIVE] = "resourcedump-archive",
    [CAP_CHANGELIST_ARCHIVE] = "changelist-archive",
    [CAP_CHANGEDUMP_ARCHIVE] = "changedump-archive",
    [CAP_CHANGE_NOTIFICATION] = "change-notification",
    [CAP_FRAMEWORK_NOTIFICATION] = "framework-notification",
};

static const char *const changefreqs[] = {
    "always", "hourly", "daily", "weekly", "monthly", "yearly", "never",
};

bool
namespace_is_draft(struct slice ns)
{
    static const char *const drafts[] = {
        "www.openarchives.org/rs", "openarchives.org/rs",
        "www.resourcesync.org", "resourcesync.org"};

    if (!slice_skip_start(&ns, "http://"))
        slice_skip_start(&ns, "https://");
    for (size_t i = 0; i < N_ELEMENTS(drafts); i++)
        if (slice_skip_start(&ns, drafts[i]))
            return (ns.size == 0 || ns.data[0] == '/') &&
                   !slice_starts(ns, "/terms");
    return false;
}

enum status
change_kind_of(struct slice name, enum change_kind *kind)
{
    /* All three have seven letters: this is done for every entry. */
    for (size_t i = 0; i < N_ELEMENTS(change_kind_names); i++)
        if (name.size == 7 && !memcmp(name.data, change_kind_names[i], 7)) {
            *kind = (enum change_kind)i;
            return STATUS_OK;
        }
    return STATUS_INVALID;
}

enum status
namespace_refuse_draft(struct slice ns, struct problem *why)
{
    return problem(why, STATUS_INVALID,
                   "the namespace \"%s\" is of a draft of ResourceSync of "
                   "2012, which is no longer read; now it is " NS_RS,
                   problem_quote(ns).text);
}

enum status
change_kind_meant(struct slice word, enum change_kind *kind)
{
    static const struct meant {
        const char *word;
        enum change_kind kind;
    } meant[] = {
        {"created", CHANGE_CREATED}, {"create", CHANGE_CREATED},
        {"new", CHANGE_CREATED},     {"add", CHANGE_CREATED},
        {"added", CHANGE_CREATED},   {"updated", CHANGE_UPDATED},
        {"update", CHANGE_UPDATED},  {"modified", CHANGE_UPDATED},
        {"modify", CHANGE_UPDATED},  {"changed", CHANGE_UPDATED},
        {"change", CHANGE_UPDATED},  {"deleted", CHANGE_DELETED},
        {"delete", CHANGE_DELETED},  {"remove", CHANGE_DELETED},
        {"removed", CHANGE_DELETED},
    };

    for (size_t i = 0; i < N_ELEMENTS(meant); i++)
        if (slice_is_word(word, meant[i].word)) {
            *kind = meant[i].kind;
            return STATUS_OK;
        }
    return STATUS_INVALID;
}

enum status
capability_of(struct slice name, enum capability *capability)
{
    for (size_t i = 0; i < N_ELEMENTS(capability_names); i++)
        if (slice_is(name, capability_names[i])) {
            *capability = (enum capability)i;
            return STATUS_OK;
        }
    if (slice_is(name, "changelist-notification")) {
        *capability = CAP_CHANGE_NOTIFICATION;
        return STATUS_OK;
    }
    return STATUS_INVALID;
}

bool
is_changefreq(struct slice text)
{
    for (size_t i = 0; i < N_ELEMENTS(changefreqs); i++)
        if (slice_is(text, changefreqs[i]))
            return true;
    return false;
}

bool
is_priority(struct slice text)
{
    bool is_one = slice_take_char(&text, '1');

    if (!is_one && !slice_take_char(&text, '0'))
        return false;
    if (text.size == 0)
        return true;
    /* A bound: nobody needs more decimals. */
    return slice_take_char(&text, '.') && text.size > 0 && text.size < 15 &&
           slice_is_of(text, is_one ? "0" : "0123456789");
}

bool
is_media_type(struct slice text)
{
    size_t size;

    if (token_take(&text).size == 0 || !slice_take_char(&text, '/') ||
        token_take(&text).size == 0)
        return false;
    while (text.size > 0) {
        slice_skip_blanks(&text);
        if (!slice_take_char(&text, ';'))
            return false;
        slice_skip_blanks(&text);
        if (token_take(&text).size == 0 || !slice_take_char(&text, '=') ||
            !token_take_value(&text, NULL, 0, &size))
            return false;
    }
    return true;
}

bool
is_relation(struct slice text)
{
    return (text.size > 0 && text.data[0] >= 'a' &&
            slice_is_of(text, "abcdefghijklmnopqrstuvwxyz0123456789.-")) ||
           !uri_check(text, "rel", NULL);
}

/* Productions [4] and [4a] of XML 1.0, fifth edition, without the colon. */
static const struct range {
    uint32_t first;
    uint32_t last;
} name_start[] =
    {
        {'A', 'Z'},       {'_', '_'},       {'a', 'z'},
        {0xc0, 0xd6},     {0xd8, 0xf6},     {0xf8, 0x2ff},
        {0x370, 0x37d},   {0x37f, 0x1fff},  {0x200c, 0x200d},
        {0x2070, 0x218f}, {0x2c00, 0x2fef}, {0x3001, 0xd7ff},
        {0xf900, 0xfdcf}, {0xfdf0, 0xfffd}, {0x10000, 0xeffff},
},
  name_more[] = {
      {'-', '.'}, {'0', '9'}, {0xb7, 0xb7}, {0x300, 0x36f}, {0x203f, 0x2040},
};

static bool
is_in(const struct range *ranges, size_t n, uint32_t c)
{
    for (size_t i = 0; i < n; i++)
        if (c >= ranges[i].first && c <= ranges[i].last)
            return true;
    return false;
}

bool
is_ncname(struct slice text)
{
    bool is_first = true;

    if (text.size == 0)
        return false;
    while (text.size > 0) {
        uint32_t c;
        size_t size = utf8_read(text.data, text.size, &c);

        if (size == 0 ||
            (!is_in(name_start, N_ELEMENTS(name_start), c) &&
             (is_first || !is_in(name_more, N_ELEMENTS(name_more), c))))
            return false;
        slice_skip(&text, size);
        is_first = false;
    }
    return true;
}
