/*
 * document_read.c - reads documents of others: finds what they are, and reads
 * lists that are no XML. list_read.h reads XML.
 */
#include "proto/input/document_read.h"

#include "proto/input/list_read.h"
#include "proto/input/text_encoding.h"

enum document_form { FORM_UNKNOWN, FORM_XML, FORM_TEXT, FORM_ROBOTS };

struct document_reader {
    struct list_reader list;
    struct entry entry; /* under way */
    enum document_form form;
    enum status rc; /* the failure that ended the reading */
};

/* Lines: a robots.txt, or a text of URLs */

/* "Sitemap: URL", in any case, perhaps with blanks before the colon and before
 * a comment (RFC 9309 section 2.2.4, sitemaps.org). False: another line. */
static bool
read_robots_line(struct document_reader *d, struct slice line)
{
    const char *comment = slice_find(line, " #");

    if (comment)
        line.size = (size_t)(comment - line.data);
    if (!slice_starts_word(line, "sitemap"))
        return false;
    slice_skip(&line, sizeof("sitemap") - 1);
    slice_skip_blanks(&line);
    if (!slice_take_char(&line, ':'))
        return false;
    line = slice_without_spaces(line);
    if (line.size == 0)
        return false;
    list_reader_set_loc(&d->list, line);
    d->list.head.has_root = d->list.head.is_index = true;
    return true;
}

/* True if the beginning of a text is that of a URL, or may become it. */
static bool
is_url_begin(struct slice text)
{
    static const char begin[] = "http";
    size_t size = text.size < 4 ? text.size : 4;

    return size == 0 || !strncasecmp(text.data, begin, size);
}

static enum status
refuse_text(struct problem *why)
{
    return problem(why, STATUS_MALFORMED, "neither XML nor a list of URLs");
}

static enum status
end_line(struct document_reader *d, struct problem *why)
{
    struct list_reader *list = &d->list;
    struct slice line = slice_without_spaces(buf_slice(&list->text));
    bool is_entry = line.size > 0 && line.data[0] != '#';
    enum status rc = STATUS_OK;

    list_reader_begin_entry(list);
    if (d->form == FORM_ROBOTS) {
        is_entry = !list->text.failed && read_robots_line(d, line);
    } else if (is_entry && !list->head.has_root && !is_url_begin(line)) {
        rc = refuse_text(why);
    } else if (is_entry) {
        if (list->text.failed)
            list_reader_bad_loc(list, line);
        else
            list_reader_set_loc(list, line);
        list->head.has_root = true;
    }
    if (!rc && is_entry)
        rc = list_reader_end_entry(list);
    if (!list->fn_rc && (list->is_starved || list->text.is_starved))
        rc = problem_memory(why);
    buf_clear(&list->text);
    return rc;
}

/* Splits bytes into lines. A line too long for `text` has only its beginning
 * there. */
static enum status
take_lines(struct document_reader *d, struct slice bytes, struct problem *why)
{
    enum status rc = STATUS_OK;

    while (!rc && bytes.size > 0) {
        struct slice line;
        size_t n = 0;

        while (n < bytes.size && bytes.data[n] != '\n' && bytes.data[n] != '\r')
            n++;
        buf_add(&d->list.text, bytes.data, n);
        line = buf_slice(&d->list.text);
        if (n < bytes.size) {
            rc = end_line(d, why);
            d->list.lines += bytes.data[n] == '\n';
            n++;
        } else if (d->form == FORM_TEXT && !d->list.head.has_root &&
                   line.size >= 4 && line.data[0] != '#' &&
                   !is_url_begin(slice_without_spaces(line))) {
            rc = refuse_text(why);
        }
        slice_skip(&bytes, n);
    }
    return rc;
}

/* Bytes */

static enum status
take_text(struct slice text, void *user, struct problem *why)
{
    struct document_reader *d = user;
    struct list_reader *list = &d->list;
    const uint64_t *mended = list->head.report.n;
    const struct text_encoding_found *found =
        text_encoding_found(list->encoding);

    /* The first byte that is no white space says what the document is. */
    while (d->form == FORM_UNKNOWN && text.size > 0 &&
           slice_is_space(text.data[0])) {
        list->lines += text.data[0] == '\n'; /* of a declaration */
        slice_skip(&text, 1);
    }
    if (text.size == 0)
        return STATUS_OK;
    if (d->form == FORM_UNKNOWN) {
        d->form = text.data[0] == '<' ? FORM_XML : FORM_TEXT;
        list->is_lines = d->form == FORM_TEXT;
        if (list->is_lines) {
            list->head.kind = DOCUMENT_TEXT;
            list->lines++;
        }
    }
    if (found->is_behind_space && !mended[LIST_WHITE_SPACE])
        list_reader_mend(list, LIST_WHITE_SPACE, SLICE(""));
    if (found->name[0] && !mended[LIST_ENCODING])
        list_reader_mend(list, LIST_ENCODING, slice_of(found->name));
    return d->form == FORM_XML ? xml_feed(list->xml, text, why)
                               : take_lines(d, text, why);
}

struct document_reader *
document_reader_new(const char *base, bool is_robots,
                    const struct document_events *events, void *user)
{
    struct document_reader *d = memory_new(1, sizeof(*d));
    struct list_reader *list;

    if (!d)
        return NULL;
    list = &d->list;
    list->events = *events;
    list->user = user;
    list->head.at_us = list->head.completed_us = DATETIME_NONE;
    list->head.from_us = list->head.until_us = DATETIME_NONE;
    list->head.td.from_us = list->head.td.until_us = DATETIME_NONE;
    list->head.td.now_us = DATETIME_NONE;
    if (is_robots) {
        d->form = FORM_ROBOTS;
        list->head.kind = DOCUMENT_ROBOTS;
        list->is_lines = true;
        list->lines = 1;
    }
    list->entry = &d->entry;
    entry_init(&d->entry);
    d->entry.is_of_message = true;
    list->base = slice_dup(slice_of(base));
    list->encoding = text_encoding_new(take_text, d);
    if (list_reader_init(list) || !list->base || !list->encoding) {
        document_reader_free(d);
        return NULL;
    }
    return d;
}

void
document_reader_free(struct document_reader *d)
{
    if (!d)
        return;
    text_encoding_free(d->list.encoding);
    list_reader_fini(&d->list);
    entry_fini(&d->entry);
    free(d->list.outer_base);
    free(d->list.base);
    free(d);
}

/* Sets the result. An invalid text, for the parser, is a malformed document. */
static enum status
judge_status(struct document_reader *d, enum status rc)
{
    enum status its = d->list.fn_rc;

    d->rc = its ? its : rc == STATUS_INVALID ? STATUS_MALFORMED : rc;
    return d->rc;
}

enum status
document_reader_feed(struct document_reader *d, struct slice bytes,
                     struct problem *why)
{
    enum status rc = d->rc;

    if (!rc && bytes.size > 0) {
        rc = text_encoding_feed(d->list.encoding, bytes, why);
        if (rc && why && !d->list.fn_rc)
            why->line = list_reader_line(&d->list);
    }
    return judge_status(d, rc);
}

enum status
document_reader_end(struct document_reader *d, struct problem *why)
{
    enum status rc = d->rc;

    if (!rc)
        rc = text_encoding_end(d->list.encoding, why);
    if (!rc && (d->form == FORM_TEXT || d->form == FORM_ROBOTS)) {
        rc = end_line(d, why);
        if (!rc && !d->list.head.has_root)
            rc = problem(why, STATUS_MALFORMED, "it names no %s",
                         d->form == FORM_TEXT ? "resource" : "Sitemap");
    } else if (!rc && d->form == FORM_UNKNOWN) {
        rc = problem(why, STATUS_MALFORMED, "it is empty");
    } else if (!rc) {
        rc = xml_end(d->list.xml, why);
        if (rc && why)
            why->line = list_reader_line(&d->list);
    }
    if (!rc && d->list.is_starved) /* for a link of the root */
        rc = problem_memory(why);
    return judge_status(d, rc);
}

const struct document_head *
document_reader_head(const struct document_reader *d)
{
    return &d->list.head;
}

const char *
document_kind_name(enum document_kind kind)
{
    static const char *const names[] = {
        [DOCUMENT_SITEMAP] = "sitemap",
        [DOCUMENT_RESOURCESYNC] = "resourcesync",
        [DOCUMENT_TEXT] = "text",
        [DOCUMENT_RSS] = "rss",
        [DOCUMENT_ATOM] = "atom",
        [DOCUMENT_ROBOTS] = "robots",
    };

    return names[kind];
}
