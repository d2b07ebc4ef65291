/*
 * publish_full.c - td_publish_full: publishes all resources of a source to a
 * set. Reads them from its lists into one file of NDJSON:
 *
 *     URL  --> baseline --------------+--> listing --> json_resource
 *     FILE --> document --------------+
 *          \-> its parts and pages, as URL
 *     FILE of NDJSON ---------------------------------> json_resource
 *
 * Lists are read as those of others are (document_read.h): of two rows with one
 * loc the later one counts; `report` has what was mended and left out. An
 * incomplete reading gives nothing. Lines of NDJSON are checked as the broker
 * does, so that a fault names its line.
 */
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"
#include "base/gunzip.h"
#include "client/baseline/baseline.h"
#include "client/lib/client.h"
#include "client/lib/fetch.h"
#include "client/lib/set_url.h"
#include "client/lib/temporary_file.h"
#include "client/publish/publish.h"
#include "proto/input/input_formats.h"
#include "proto/input/list_report.h"
#include "proto/resourcesync/json.h"

/* Parts and pages of a file, at most: R-026. */
#define PARTS_MAX DOCUMENT_ENTRIES_MAX

/* Unpacked, of one file. */
#define UNPACKED_MAX ((uint64_t)1 << 40)

/* Bytes of one write. */
#define PIECE_BYTES ((size_t)1 << 18)

/* Resources between two reports of progress, and of one reading of a listing.
 */
#define REPORT_EVERY 256

/* Seconds: a server that asks for a longer pause fails the reading. */
#define PATIENCE_S 60

/* A file has no URL: what it names relatively cannot be used. */
#define FILE_BASE "file:///"

struct gather {
    struct td_client *client;
    int fd;
    uint64_t size;             /* bytes written */
    struct list_report report; /* of all lists */
    struct buf out;
    uint64_t n;                 /* resources */
    uint64_t last;              /* of those of the listing that were written */
    struct problem why;         /* the first failure */
    struct survey *listing;     /* NULL: none yet */
    const char *name;           /* of the list that is read */
    struct document *document;  /* of a file ... */
    struct input_reader *lines; /* ... or its lines */
    char **parts;               /* URLs that the file names */
    size_t n_parts, parts_capacity;
    bool is_over; /* the list at a URL */
};

/* Out */

static enum status
flush_piece(struct gather *g, struct problem *why)
{
    struct source_limits *room = &g->client->room;

    if (g->out.size > 0 && source_limits_look_at(room, temporary_directory(),
                                                 g->out.size, &g->why))
        return STATUS_IO;
    if (file_write(g->fd, buf_slice(&g->out)))
        return problem_errno(why, "cannot write a file in",
                             temporary_directory());
    g->size += g->out.size;
    buf_clear(&g->out);
    return STATUS_OK;
}

static void
count_one(struct gather *g)
{
    if (++g->n % REPORT_EVERY == 0)
        client_progress(g->client, TD_PROGRESS_READ, g->n, 0);
}

static enum status
write_resource(const struct change *change, void *user, struct problem *why)
{
    struct gather *g = user;

    json_resource(&g->out, change);
    BUF_ADD(&g->out, "\n");
    if (g->out.failed)
        return problem_memory(why);
    return g->out.size < PIECE_BYTES ? STATUS_OK : flush_piece(g, why);
}

/* Writes a resource that a line has. */
static enum status
on_line(const struct change *change, void *user, struct problem *why)
{
    struct gather *g = user;

    if (source_limits_check_resources(&g->client->room, g->n + 1, &g->why))
        return STATUS_TOO_LARGE;
    count_one(g);
    return write_resource(change, g, why);
}

/* The listing: all rows, each loc once */

/* True if `is_good`; else g->why says why not. */
static bool
has_listed(struct gather *g, bool is_good)
{
    if (!is_good && !g->why.rc)
        g->why = g->listing->why;
    return is_good;
}

/* Begins a list, or begins it again. False: g->why says why not. */
static bool
begin_list(struct gather *g, const char *name)
{
    struct survey_version unknown;

    g->name = name;
    if (!g->listing) {
        g->listing = survey_open(NULL, name, &g->client->room,
                                 g->client->stop_fd, &g->why);
        if (!g->listing || !has_listed(g, survey_begin(g->listing)))
            return false;
    }
    return has_listed(g, survey_document(g->listing, name, &unknown));
}

static bool
add_resource(struct gather *g, const struct document_entry *entry)
{
    count_one(g);
    return has_listed(g, survey_add(g->listing, entry));
}

static bool
end_list(struct gather *g, const struct list_report *report)
{
    return has_listed(
        g, survey_document_end(g->listing, NULL,
                               list_report_n(report, LIST_LEFT_OUT)));
}

static enum status
write_listed(const struct document_entry *entry,
             const struct document_head *head, void *user)
{
    struct gather *g = user;

    (void)head;
    g->last = entry->change.seq;
    return write_resource(&entry->change, g, &g->why) ? STATUS_STOPPED
                                                      : STATUS_OK;
}

/* A list at a URL */

static bool
on_resource(const struct document_entry *entry, const char *file, void *user)
{
    (void)file;
    add_resource(user, entry);
    return true;
}

static void
on_anew(const char *why, void *user)
{
    struct gather *g = user;

    (void)why;
    begin_list(g, g->name);
}

/* nothing is published of a list that may lack resources. */
static void
on_doubt(const char *why, void *user)
{
    struct gather *g = user;

    if (!g->why.rc)
        problem(&g->why, STATUS_UNREACHABLE,
                "%.600s: not known to be "
                "complete: %s",
                g->name, why);
}

static void
on_read(const struct problem *why, const struct source_position *place,
        const struct source_position *guess, void *user)
{
    struct gather *g = user;

    (void)place;
    (void)guess;
    g->is_over = true;
    if (!g->why.rc)
        g->why = *why;
    if (g->why.rc == STATUS_GONE) /* it is not the set that is */
        g->why.rc = STATUS_REFUSED;
}

static enum status
read_url(struct gather *g, char *url)
{
    const struct offered offered = {.resource_list = url};
    struct list_report report = {.n = {0}};
    const struct baseline_plan plan = {.offered = &offered,
                                       .patience_s = PATIENCE_S,
                                       .report = &report,
                                       .on_anew = on_anew,
                                       .on_doubt = on_doubt};
    struct baseline *baseline;
    enum status rc;

    if (!begin_list(g, url))
        return g->why.rc;
    g->is_over = false;
    baseline = baseline_start(g->client, &plan, on_resource, on_read, g);
    if (!baseline)
        return problem_memory(&g->why);
    rc = client_until(g->client, &g->is_over, NULL);
    if (rc)
        baseline_free(baseline);
    if (!rc && !g->why.rc)
        end_list(g, &report);
    list_report_add(&g->report, &report);
    return rc;
}

/* A file */

static enum status
add_part(struct gather *g, struct slice url)
{
    if (g->n_parts == PARTS_MAX)
        return problem(&g->why, STATUS_TOO_LARGE, "more than %d parts",
                       PARTS_MAX);
    if (!ONE_MORE(g->parts, &g->parts_capacity, g->n_parts))
        return problem_memory(&g->why);
    g->parts[g->n_parts] = slice_dup(url);
    return g->parts[g->n_parts++] ? STATUS_OK : problem_memory(&g->why);
}

static enum status
on_link(const struct link *link, void *user)
{
    return slice_is_word(link->rel, "next") ? add_part(user, link->href)
                                            : STATUS_OK;
}

static enum status
check_capability(struct gather *g, const struct document_head *head)
{
    if (head->has_capability && head->capability != CAP_RESOURCELIST)
        return problem(&g->why, STATUS_MALFORMED,
                       "%.600s: it is a %s, no list of resources", g->name,
                       capability_names[head->capability]);
    return STATUS_OK;
}

static enum status
on_entry(const struct document_entry *entry, const struct document_head *head,
         void *user)
{
    struct gather *g = user;
    enum status rc = check_capability(g, head);

    if (rc)
        return rc;
    if (head->is_index || slice_is(entry->capability, "resourcelist"))
        return add_part(g, entry->change.loc);
    return add_resource(g, entry) ? STATUS_OK : STATUS_IO;
}

static enum status
on_bytes(struct slice bytes, void *user, struct problem *why)
{
    static const struct document_events events = {on_link, on_entry};
    struct gather *g = user;

    if (!g->lines && !g->document) { /* the first byte decides what it is */
        struct slice rest = slice_without_spaces(bytes);

        if (slice_starts(rest, "\xef\xbb\xbf"))
            slice_skip(&rest, 3);
        if (slice_starts(rest, "{"))
            g->lines =
                input_reader_new(format_of(SLICE("application/x-ndjson")),
                                 INPUT_RESOURCES, SIZE_MAX, on_line, g);
        else if (!begin_list(g, g->name))
            return g->why.rc;
        else
            g->document = document_new(FILE_BASE, &events, g);
        if (!g->lines && !g->document)
            return problem_memory(why);
    }
    return g->lines ? input_reader_feed(g->lines, bytes, why)
                    : document_feed(g->document, bytes, why);
}

/* Reads all of the file. Failures that are not of its bytes are in g->why. */
static enum status
feed_file(struct gather *g, FILE *f, struct gunzip *gunzip, struct problem *why)
{
    /* td_stop may be called: a file may be long, or a pipe. */
    struct pollfd stop = {.fd = g->client->stop_fd, .events = POLLIN};
    enum status rc = STATUS_OK;
    char bytes[65536];
    size_t n;

    while (!g->why.rc && !rc && poll(&stop, 1, 0) <= 0 &&
           (n = fread(bytes, 1, sizeof(bytes), f)) > 0)
        rc = gunzip_all(gunzip, (struct slice){bytes, n}, why);
    if (g->why.rc || rc)
        return rc;
    if (stop.revents)
        return problem(&g->why, STATUS_STOPPED, "%s", "");
    if (ferror(f))
        return problem_errno(&g->why, "cannot read", g->name);
    rc = gunzip_end(gunzip, why);
    if (g->why.rc || rc)
        return rc;
    if (g->lines)
        return input_reader_end(g->lines, why);
    return g->document ? document_end(g->document, why)
                       : problem(why, STATUS_MALFORMED, "it is empty");
}

static enum status
read_file(struct gather *g, const char *path)
{
    FILE *f = fopen(path, "re");
    struct gunzip *gunzip =
        gunzip_new(UNPACKED_MAX, GUNZIP_EITHER, on_bytes, g);
    struct problem why = {""};
    enum status rc = STATUS_OK;
    char place[64] = "";

    g->name = path;
    if (!f)
        problem_errno(&g->why, "cannot read", path);
    else if (!gunzip)
        problem_memory(&g->why);
    else
        rc = feed_file(g, f, gunzip, &why);
    /* Names the file and the place in it. */
    if (why.entry)
        snprintf(place, sizeof(place), "entry %" PRIu64 ", ", why.entry);
    if (why.line)
        snprintf(place + strlen(place), sizeof(place) - strlen(place),
                 "line %" PRIu64 ": ", why.line);
    if (rc && !g->why.rc) {
        if (rc == STATUS_MEMORY)
            problem_memory(&g->why);
        else if (rc == STATUS_IO)
            problem(&g->why, rc, "%s", why.text);
        else
            problem(&g->why, STATUS_MALFORMED, "%.600s: %s%s", g->name, place,
                    why.text[0] ? why.text : "it cannot be read");
    }

    if (g->document && !g->why.rc &&
        !check_capability(g, document_head(g->document))) {
        const struct list_report *report = &document_head(g->document)->report;

        list_report_add(&g->report, report);
        end_list(g, report);
    }
    document_free(g->document);
    input_reader_free(g->lines);
    gunzip_free(gunzip);
    if (f)
        fclose(f);
    return g->why.rc;
}

/* Writes them to g->fd. The client's problem says what went wrong. */
static enum status
gather(struct gather *g, const char *from)
{
    static const struct document_events events = {.on_entry = write_listed};
    const struct survey_guard none = {.max_percent = -1};
    enum status rc;

    buf_init(&g->out, SIZE_MAX);
    rc = uri_is_web(from) ? add_part(g, slice_of(from)) : read_file(g, from);
    for (size_t i = 0; !rc && !g->why.rc && i < g->n_parts; i++)
        rc = read_url(g, g->parts[i]);
    if (!rc && !g->why.rc && g->listing &&
        has_listed(g, survey_compare(g->listing, &none)))
        while (!g->why.rc && g->last < g->listing->extent.last)
            has_listed(g, survey_changes(g->listing, g->last, REPORT_EVERY,
                                         &events, g));
    if (!rc && !g->why.rc)
        flush_piece(g, &g->why);
    if (g->why.rc)
        rc = client_take_problem(g->client, &g->why);
    for (size_t i = 0; i < g->n_parts; i++)
        free(g->parts[i]);
    free(g->parts);
    survey_close(g->listing);
    buf_fini(&g->out);
    return rc;
}

/*
 * Publishes all resources of a source to a set.
 *
 * Gathers them in a temporary file first: a server wants to know the length of
 * a body, and a source that cannot be read to its end must not be sent.
 */

/* The broker is silent while it compares. */
#define SILENCE_S 3600

/* Percent */
#define MAX_DELETE_DEFAULT 20

/* Sends the file, and reads the answer. */
static enum status
put_file(struct td_client *client, const char *target, int fd, uint64_t size,
         struct td_full_receipt *receipt)
{
    static const char *const headers[] = {"Content-Type: application/x-ndjson",
                                          "Accept: application/json", NULL};
    struct json_fields_member members[] = {
        JSON_NUMBER("created", &receipt->created),
        JSON_NUMBER("updated", &receipt->updated),
        JSON_NUMBER("deleted", &receipt->deleted),
        JSON_NUMBER("unchanged", &receipt->unchanged),
        JSON_NUMBER("newer", &receipt->newer),
        JSON_NUMBER("held_back", &receipt->held_back),
        JSON_NUMBER("resources", &receipt->resources),
        JSON_TEXT("position", receipt->position),
    };
    struct slice body = {"", size};
    const struct fetch_request request = {
        .url = target,
        .headers = headers,
        .body = &body,
        .max_bytes = POST_ANSWER_MAX,
        .method = "PUT",
        .silence_s = SILENCE_S,
        .is_own = true,
    };
    struct fetch_answer answer;
    void *map = NULL;
    enum status rc;

    if (size > 0) {
        map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map == MAP_FAILED)
            return client_fail(client, STATUS_IO,
                               "cannot read the temporary file: %s",
                               strerror(errno));
        body.data = map;
    }
    rc = fetch_run(client, &request, NULL, NULL, &answer);
    /* A position may be null, and older brokers hold nothing back. */
    if (!rc && answer.status != 200)
        rc = fetch_refused(&client->problem, &answer);
    else if (!rc && !post_answer(buf_slice(&answer.body), members, 8, 5))
        rc = client_fail(client, STATUS_MALFORMED,
                         "200, but the answer is none of a whole state");
    buf_fini(&answer.body);
    if (map)
        munmap(map, size);
    return rc;
}

enum td_status
td_publish_full(struct td_client *client, const char *set_url, const char *from,
                const struct td_full_options *options,
                struct td_full_receipt *receipt)
{
    static const struct td_full_options defaults = {.max_delete = 0};
    struct td_full_receipt unwanted;
    struct gather g = {.client = client};
    char url[SET_URL_MAX + 1];
    char target[SET_URL_MAX + 128];
    enum status rc;

    receipt = receipt ? receipt : &unwanted;
    options = options ? options : &defaults;
    memset(receipt, 0, sizeof(*receipt));
    client_begin(client);
    rc = set_url_read(client, set_url, url);
    if (!rc && options->max_delete > 100)
        rc = client_fail(client, STATUS_INVALID,
                         "max_delete is a number of percent, up to 100");
    if (!rc) /* a file is not a URL: does nothing */
        rc = client_add_source(client, from);
    if (rc)
        return client_end(client, rc);
    g.fd = temporary_file_open(&g.why);
    rc = g.fd < 0 ? client_take_problem(client, &g.why) : gather(&g, from);
    if (!rc) {
        client_report(&g.report, options->on_report, options->user);
        /* A broker that finds `accept-deletions` there answers 200 also when it
         * holds deletions back. */
        snprintf(target, sizeof(target),
                 "%s/resources?accept-deletions=%" PRIu64 "&left-out=%" PRIu64
                 "&max-delete=%u",
                 url, options->accept_deletions,
                 options->left_out + list_report_n(&g.report, LIST_LEFT_OUT),
                 options->max_delete ? options->max_delete
                                     : MAX_DELETE_DEFAULT);
        rc = put_file(client, target, g.fd, g.size, receipt);
    }
    file_close(&g.fd);
    return client_end(client, rc);
}
