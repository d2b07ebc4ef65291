/*
 * publish_command.c - tidings publish: posts a document, or changes made from
 * options.
 */
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/random.h"
#include "client/cli/cli.h"
#include "client/cli/input_check.h"
#include "client/cli/progress.h"
#include "client/cli/publish_follow.h"
#include "proto/ascii.h"
#include "proto/json/json_parse.h"
#include "proto/resourcesync/digest.h"

/* A document is held in memory. */
#define DOCUMENT_MAX ((size_t)1 << 30)

/* Most seconds of --retry: the library's limit. */
#define RETRY_MOST 43200

enum {
    OPTION_TYPE,
    OPTION_CHANGE,
    OPTION_LASTMOD,
    OPTION_HASH,
    OPTION_LENGTH,
    OPTION_MEDIA_TYPE,
    OPTION_TITLE,
    OPTION_SUMMARY,
    OPTION_AUTHOR,
    OPTION_DATA,
    OPTION_CONTENT,
    OPTION_KEY,
    OPTION_AGAIN,
    OPTION_DRY_RUN,
    OPTION_IGNORE_UNKNOWN,
    OPTION_FOLLOW,
    OPTION_STATE,
    OPTION_SKIP_BAD,
    OPTION_SPOOL,
    OPTION_RETRY,
    OPTION_FULL,
    OPTION_MAX_DELETE,
    OPTION_ACCEPT,
    OPTION_LIMITS,
    OPTION_NO_PROGRESS = OPTION_LIMITS + 2,
    OPTION_VERBOSE
};

struct publish_values {
    uint64_t spool_bytes;
    uint64_t accept_deletions;
    unsigned max_delete;
    int64_t retry_us;
    struct td_limits limits;
};

#define ROW_OF struct publish_values
#include "base/option_rows.h"

static const struct option options[] = {
    [OPTION_TYPE] =
        {"type", "xml|json|ndjson",
         .help = "of FILE; default: by its name or its first character"},
    [OPTION_CHANGE] = {"change", "created|updated|deleted",
                       .help = "post this change; operands are LOCs"},
    [OPTION_LASTMOD] = {"lastmod", "TIME",
                        .help = "when the resource was modified"},
    [OPTION_HASH] = {"hash", "sha-256:HEX",
                     .help = "digest of its representation"},
    [OPTION_LENGTH] = {"length", "BYTES",
                       .help = "length of its representation"},
    [OPTION_MEDIA_TYPE] = {"media-type", "TYPE",
                           .help = "media type of its representation"},
    [OPTION_TITLE] = {"title", "TEXT", .help = "headline of the change"},
    [OPTION_SUMMARY] = {"summary", "TEXT", .help = "what has happened"},
    [OPTION_AUTHOR] = {"author", "TEXT", .help = "who has made the change"},
    [OPTION_DATA] = {"data", "JSON", .help = "any JSON that goes with it"},
    [OPTION_CONTENT] = {"content", "FILE",
                        .help = "its bytes, for a set with content=inline"},
    [OPTION_KEY] = {"key", "KEY",
                    .help = "a repeat with it adds nothing; see below"},
    [OPTION_AGAIN] = {"again",
                      .help = "post FILE although it was posted before"},
    [OPTION_DRY_RUN] = {"dry-run",
                        .help = "report every fault, and post nothing"},
    [OPTION_IGNORE_UNKNOWN] =
        {"ignore-unknown",
         .help = "leave out members that Tidings does not know"},
    [OPTION_FOLLOW] = {"follow",
                       .help = "post lines of NDJSON as they come, from a pipe "
                               "or a file that grows"},
    [OPTION_STATE] = {"state", "FILE|DIR",
                      .help = "with --follow: the spool of lines that were "
                              "read and are not posted"},
    [OPTION_SKIP_BAD] = {"skip-bad", "FILE",
                         .help = "append refused lines (--follow), or the "
                                 "rows left out (--full), to FILE and go on"},
    [OPTION_SPOOL] = {"spool-bytes", "BYTES", BYTES(spool_bytes, 1, 1024 * GIB),
                      "1G", "with --follow: read no more while so many wait"},
    [OPTION_RETRY] = {"retry", "SECONDS",
                      SECONDS(retry_us, 0, RETRY_MOST *SECOND), "60",
                      "how long to try again without an answer, or to wait at "
                      "the end of --follow"},
    [OPTION_FULL] = {"full", "FILE",
                     .help = "all resources: a list, Sitemap, index or NDJSON"},
    [OPTION_MAX_DELETE] = {"max-delete", "PERCENT", NUMBER(max_delete, 1, 100),
                           "20", "how many of them may be deleted by --full"},
    [OPTION_ACCEPT] = {"accept-deletions", "N",
                       COUNT(accept_deletions, 1, (uint64_t)1 << 40), NULL,
                       "delete as many beyond --max-delete, if they are no "
                       "more than N"},
    [OPTION_LIMITS] = LIMIT_ROWS(limits),
    [OPTION_NO_PROGRESS] = {"no-progress", NULL,
                            .help = "no bar, even on a terminal"},
    [OPTION_VERBOSE] = {"verbose", NULL, .help = "say why it tries again"},
};

/* Reading: FILE, "-" */

/* Reads all of `f`. False: errno says why. */
static bool
read_all(FILE *f, struct buf *text)
{
    const size_t piece = 65536;
    char *room;
    size_t n;

    while ((room = buf_room(text, piece)) && (n = fread(room, 1, piece, f)) > 0)
        text->size += n;
    if (text->failed)
        errno = text->is_starved ? ENOMEM : EFBIG;
    return !text->failed && !ferror(f);
}

static const char xml_type[] = "application/xml";
static const char json_type[] = "application/json";
static const char ndjson_type[] = "application/x-ndjson";

/* The media type of a document; NULL: unknown. */
static const char *
type_of(const char *given, const char *name, struct slice text)
{
    static const struct {
        const char *word, *end, *type; /* of --type; of a name */
    } types[] = {{"xml", ".xml", xml_type},
                 {"json", ".json", json_type},
                 {"ndjson", ".ndjson", ndjson_type},
                 {"ndjson", ".jsonl", ndjson_type}};

    const char *end = strrchr(name, '.');

    for (size_t i = 0; i < N_ELEMENTS(types); i++)
        if (given ? !strcmp(given, types[i].word)
                  : end && !strcmp(end, types[i].end))
            return types[i].type;
    if (given)
        return NULL;
    if (slice_starts(text, "\xef\xbb\xbf")) /* a byte order mark */
        slice_skip(&text, 3);
    text = slice_without_spaces(text);
    if (slice_starts(text, "<"))
        return xml_type;
    return slice_starts(text, "[") || slice_starts(text, "{") ? json_type
                                                              : NULL;
}

/* Making: --change and LOCs */

/* Finds values that are not even JSON; the broker judges all else. */
static const char *
fault_of(const struct arguments *arguments)
{
    const char *length = arguments->options[OPTION_LENGTH];
    const char *hash = arguments->options[OPTION_HASH];
    const char *kind = arguments->options[OPTION_CHANGE];
    const char *data = arguments->options[OPTION_DATA];

    if (strcmp(kind, "created") && strcmp(kind, "updated") &&
        strcmp(kind, "deleted"))
        return "--change is created, updated or deleted";
    if (length && (!length[0] || length[strspn(length, "0123456789")] ||
                   (length[0] == '0' && length[1])))
        return "--length is a number of bytes";
    if (hash && (strcspn(hash, ":") == strlen(hash) ||
                 strcspn(hash, "\"\\") < strcspn(hash, ":")))
        return "--hash is ALGORITHM:HEX, such as sha-256:...";
    if (data && json_parse_text(slice_of(data), NULL, NULL, NULL))
        return "--data is JSON, such as '{\"price\":3.50}'";
    if (arguments->options[OPTION_TYPE])
        return "--type is for a FILE, --media-type for the resource";
    if (arguments->n_operands < 2)
        return "--change needs at least one LOC";
    if (arguments->options[OPTION_CONTENT] &&
        (arguments->n_operands > 2 || !strcmp(kind, "deleted")))
        return "--content is of one LOC that was created or updated";
    return NULL;
}

/* [{"loc":"...","change":"...","lastmod":"...","hash":{"sha-256":"..."},
 *   "length":3,"type":"...","title":"...",...,"data":{...}},... */
static bool
make_document(const struct arguments *arguments, char **text, size_t *size)
{
    const char *const *given = arguments->options;
    const char *hash = given[OPTION_HASH];
    const char *colon = hash ? strchr(hash, ':') : NULL;
    FILE *to = open_memstream(text, size);
    bool is_good;

    if (!to)
        return false;
    for (int i = 1; i < arguments->n_operands; i++) {
        put_members(to, i == 1 ? "[{" : ",\n{", "loc:t change:t lastmod:t",
                    arguments->operands[i], given[OPTION_CHANGE],
                    given[OPTION_LASTMOD]);
        if (hash) {
            fprintf(to, ",\"hash\":{\"%.*s\":", (int)(colon - hash), hash);
            put_json_string(to, colon + 1);
            fputc('}', to);
        }
        if (given[OPTION_LENGTH])
            fprintf(to, ",\"length\":%s", given[OPTION_LENGTH]);
        put_members(to, ",", "type:t title:t summary:t author:t",
                    given[OPTION_MEDIA_TYPE], given[OPTION_TITLE],
                    given[OPTION_SUMMARY], given[OPTION_AUTHOR]);
        if (given[OPTION_DATA])
            fprintf(to, ",\"data\":%s", given[OPTION_DATA]);
        fputc('}', to);
    }
    fputs("]\n", to);
    is_good = !ferror(to);
    return !fclose(to) && is_good;
}

/* The command */

/* "sha-256:HEX" of the type and the bytes of a file, and a NUL. The broker
 * keeps the keys of each set apart. */
#define FILE_KEY_SIZE (DIGEST_TEXT_SIZE + 1)

/* The key of a regular file; NULL for a pipe: two commands may write the same
 * bytes by chance. */
static const char *
file_key(char key[FILE_KEY_SIZE], FILE *f, const char *type, struct slice text)
{
    struct digest digest;
    struct stat st;

    if (f == stdin || fstat(fileno(f), &st) || !S_ISREG(st.st_mode))
        return NULL;
    digest_start(&digest, slice_of(type));
    digest_add(&digest, text);
    digest_write(key, &digest);
    key[DIGEST_TEXT_SIZE] = '\0';
    return key;
}

/* `key` NULL: a random one. */
static enum exit_code
post_text(const struct arguments *arguments, const char *type, const char *text,
          size_t size, const char *key)
{
    const char *const *given = arguments->options;
    const struct publish_values *values = arguments->values;
    struct td_publish_options how = {
        .key = given[OPTION_KEY],
        .retry_ms = values->retry_us ? (int)(values->retry_us / 1000) + 1 : -1};
    struct td_client *client;
    struct td_receipt receipt;
    enum exit_code code;

    if (how.key && !how.key[0])
        return bad_usage("--key is 1 to 255 visible ASCII characters");
    if (!how.key && !given[OPTION_AGAIN])
        how.key = key;
    if (given[OPTION_VERBOSE])
        how.on_trouble = say_trouble;
    client = open_client(arguments, arguments->operands[0], &code);
    if (!client)
        return code;
    progress_of_client(client);
    code = exit_of(client, td_publish(client, arguments->operands[0], type,
                                      text, size, &how, &receipt));
    progress_clear();
    if (code == EXIT_GOOD) {
        print_receipt(&receipt);
        if (receipt.is_repeat)
            say("nothing was added: this was posted before, with the same key: "
                "entries %" PRIu64 " to %" PRIu64 " of %s%s",
                receipt.first, receipt.last, receipt.datetime,
                given[OPTION_KEY] ? "" : "; --again posts it once more");
    }
    td_close(client);
    return code;
}

/* --content: multipart/related
 *
 * The post is repeated if its answer is lost, and may be larger than memory: so
 * a file without a name holds it.
 */
/* Of random digits: nobody can have put it into FILE. */
#define BOUNDARY_SIZE 32

static bool
write_parts(FILE *to, const struct arguments *arguments, const char *boundary,
            const char *changes, FILE *content)
{
    const char *type = arguments->options[OPTION_MEDIA_TYPE];
    char bytes[65536];
    size_t size;

    fprintf(to,
            "--%s\r\nContent-Type: %s\r\n\r\n%s\r\n--%s\r\n"
            "Content-Location: %s\r\n",
            boundary, json_type, changes, boundary, arguments->operands[1]);
    if (type)
        fprintf(to, "Content-Type: %s\r\n", type);
    fputs("\r\n", to);
    while ((size = fread(bytes, 1, sizeof(bytes), content)) > 0)
        if (fwrite(bytes, 1, size, to) != size)
            return false;
    if (ferror(content))
        return false;
    fprintf(to, "\r\n--%s--\r\n", boundary);
    return !fflush(to) && !ferror(to);
}

static enum exit_code
post_content(const struct arguments *arguments, const char *changes)
{
    const char *name = arguments->options[OPTION_CONTENT];
    const char *type = arguments->options[OPTION_MEDIA_TYPE];
    char boundary[BOUNDARY_SIZE + 1], of_parts[100];
    FILE *content = NULL, *parts = NULL;
    void *bytes = MAP_FAILED;
    long size;
    enum exit_code code = EXIT_FAILED;

    if (!ascii_is_line(arguments->operands[1]) ||
        (type && !ascii_is_line(type)))
        return bad_usage("with --content, LOC and --media-type are one line");
    content = fopen(name, "rb");
    if (!content) {
        say("cannot read %s: %s", name, strerror(errno));
        goto out;
    }
    parts = tmpfile();
    if (!parts || !random_hex(boundary, sizeof(boundary)) ||
        !write_parts(parts, arguments, boundary, changes, content)) {
        say("cannot read %s, or put it together in a temporary file: %s", name,
            strerror(errno));
        goto out;
    }
    size = ftell(parts);
    if (size > 0)
        bytes =
            mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fileno(parts), 0);
    if (bytes == MAP_FAILED) {
        say("cannot read the input: %s", strerror(errno));
        goto out;
    }
    snprintf(of_parts, sizeof(of_parts),
             "multipart/related; boundary=%s; type=\"%s\"", boundary,
             json_type);
    code = post_text(arguments, of_parts, bytes, (size_t)size, NULL);
    munmap(bytes, (size_t)size);

out:
    if (parts)
        fclose(parts);
    if (content)
        fclose(content);
    return code;
}

/* --dry-run, --ignore-unknown */

/* FILE:LINE: TEXT */
static void
say_fault(const struct problem *why, void *user)
{
    const char *name = user;

    fprintf(stderr, "%s:", name);
    if (why->line)
        fprintf(stderr, "%llu:", (unsigned long long)why->line);
    fprintf(stderr, " %s\n", why->text);
}

/* Posts the document `name`, or checks it first, as the options ask. */
static enum exit_code
check_and_post(const struct arguments *arguments, const char *name,
               const char *type, struct slice text, const char *key)
{
    bool is_dry = arguments->options[OPTION_DRY_RUN] != NULL;
    struct buf array; /* of the changes without unknown members */
    struct input_check check = {
        .on_fault = say_fault,
        .user = (void *)(uintptr_t)name,
        .ignores_unknown = arguments->options[OPTION_IGNORE_UNKNOWN] != NULL,
    };
    enum exit_code code = EXIT_FAILED;

    if (!is_dry && !check.ignores_unknown)
        return post_text(arguments, type, text.data, text.size, key);
    if (check.ignores_unknown && type == xml_type)
        return bad_usage("--ignore-unknown is for JSON and NDJSON");
    if (!input_check_open(&check, type)) {
        say(NO_MEMORY);
    } else if (input_check_read(&check, text) && is_dry) {
        code = EXIT_GOOD;
    } else if (!check.n_faults) {
        buf_init(&array, check.changes.size + 3);
        BUF_ADD(&array, "[");
        buf_add_slice(&array, buf_slice(&check.changes));
        BUF_ADD(&array, "]\n");
        if (array.failed)
            say(NO_MEMORY);
        else
            code = post_text(arguments, json_type, array.data, array.size, key);
        buf_fini(&array);
    }
    if (is_dry)
        print_values(false, "changes:n faults:n", check.n_changes,
                     check.n_faults);
    input_check_close(&check);
    return code;
}

static enum exit_code
post_file(const struct arguments *arguments)
{
    const char *name =
        arguments->n_operands == 2 ? arguments->operands[1] : "-";
    bool is_stdin = !strcmp(name, "-");
    FILE *f = is_stdin ? stdin : fopen(name, "rb");
    char key[FILE_KEY_SIZE];
    const char *type;
    struct buf text;
    enum exit_code code = EXIT_FAILED;

    buf_init(&text, DOCUMENT_MAX);
    if (!f || !read_all(f, &text)) {
        say("cannot read %s: %s", is_stdin ? "standard input" : name,
            strerror(errno));
        goto out;
    }
    type = type_of(arguments->options[OPTION_TYPE], name, buf_slice(&text));
    if (type)
        code = check_and_post(arguments, is_stdin ? "-" : name, type,
                              buf_slice(&text),
                              file_key(key, f, type, buf_slice(&text)));
    else if (arguments->options[OPTION_TYPE])
        code = bad_usage("--type is xml, json or ndjson");
    else
        code =
            bad_usage("%s is neither XML nor JSON at first sight; give --type",
                      is_stdin ? "standard input" : name);

out:
    buf_fini(&text);
    if (f && !is_stdin)
        fclose(f);
    return code;
}

/* Prints "--OPTION WHY" if one of the options from `first` to `last` is given.
 */
static bool
is_misplaced(const struct arguments *arguments, int first, int last,
             const char *why)
{
    for (int i = first; i <= last; i++)
        if (arguments->options[i]) {
            say("--%s %s", options[i].name, why);
            return true;
        }
    return false;
}

/* --full */

struct full_report {
    const char *skip_bad; /* a file; NULL: none */
    enum exit_code code;
};

/* Prints what was mended and left out. */
static void
on_full_report(const struct td_report *report, void *user)
{
    struct full_report *full = user;
    FILE *f;

    say_report(report);
    if (!report->n_left_out)
        return;
    if (!full->skip_bad) {
        full->code = EXIT_FAILED;
        return;
    }
    f = fopen(full->skip_bad, "ae");
    if (!f || fprintf(f, "%s\n", report->left_out) < 0 || fflush(f))
        full->code =
            failed("cannot write %s: %s", full->skip_bad, strerror(errno));
    if (f)
        fclose(f);
}

static enum exit_code
post_full(const struct arguments *arguments)
{
    const char *const *given = arguments->options;
    const char *set_url = arguments->operands[0];
    const struct publish_values *values = arguments->values;
    struct full_report report = {.skip_bad = given[OPTION_SKIP_BAD]};
    struct td_full_options how = {.max_delete = values->max_delete,
                                  .accept_deletions = values->accept_deletions,
                                  .on_report = on_full_report,
                                  .user = &report};
    struct td_full_receipt receipt;
    struct td_client *client;
    enum exit_code code;

    for (int i = OPTION_TYPE; i <= OPTION_RETRY; i++)
        if (given[i] && i != OPTION_SKIP_BAD)
            return bad_usage("--full goes with --max-delete, "
                             "--accept-deletions, --skip-bad, "
                             "--min-free and --max-entries alone");
    if (arguments->n_operands > 1)
        return bad_usage(
            "--full names the input: no FILE and no LOC beside it");
    client = open_client(arguments, set_url, &code);
    if (!client)
        return code;
    td_limit(client, &values->limits);
    progress_of_client(client);
    code = exit_of(client, td_publish_full(client, set_url, given[OPTION_FULL],
                                           &how, &receipt));
    progress_clear();
    td_close(client);
    if (code)
        return code;
    print_values(false,
                 "created:n updated:n deleted:n unchanged:n newer:n "
                 "held_back:z position:t",
                 receipt.created, receipt.updated, receipt.deleted,
                 receipt.unchanged, receipt.newer, receipt.held_back,
                 receipt.position);
    if (receipt.held_back)
        return failed("held back: %" PRIu64 " deletions of %" PRIu64
                      " resources. If that is right, run it again with "
                      "--accept-deletions %" PRIu64,
                      receipt.held_back, receipt.resources, receipt.held_back);
    return report.code;
}

/* --follow */

static enum exit_code
follow_lines(const struct arguments *arguments)
{
    const char *const *given = arguments->options;
    const struct publish_values *values = arguments->values;
    struct follow_plan plan = {
        .set_url = arguments->operands[0],
        .input = arguments->n_operands == 2 ? arguments->operands[1] : "-",
        .state = given[OPTION_STATE],
        .rejects = given[OPTION_SKIP_BAD],
        .spool_bytes = values->spool_bytes,
        .drain_ms = (unsigned)(values->retry_us / 1000),
        .ignores_unknown = given[OPTION_IGNORE_UNKNOWN] != NULL,
        .is_verbose = given[OPTION_VERBOSE] != NULL,
    };

    if (is_misplaced(arguments, OPTION_TYPE, OPTION_DRY_RUN,
                     "does not go with --follow"))
        return EXIT_USAGE;
    if (!plan.state || !plan.state[0])
        return bad_usage("--follow needs --state FILE, for the spool");
    if (arguments->n_operands > 2)
        return bad_usage("--follow reads one FILE");
    return publish_follow(arguments, &plan);
}

static enum exit_code
run_publish(const struct arguments *arguments)
{
    const char *fault;
    char *text = NULL;
    size_t size = 0;
    enum exit_code code = EXIT_FAILED;

    progress_begin(!arguments->options[OPTION_NO_PROGRESS]);
    if (uri_is_web(arguments->options[OPTION_FULL]))
        return bad_usage("--full publishes a file, once; tidings harvest URL "
                         "SET-URL keeps a set equal to a list on the web");
    if (arguments->options[OPTION_FULL])
        return post_full(arguments);
    if (is_misplaced(arguments, OPTION_MAX_DELETE, OPTION_NO_PROGRESS - 1,
                     "needs --full"))
        return EXIT_USAGE;
    if (arguments->options[OPTION_FOLLOW])
        return follow_lines(arguments);
    if (is_misplaced(arguments, OPTION_STATE, OPTION_SPOOL, "needs --follow"))
        return EXIT_USAGE;
    if (arguments->options[OPTION_AGAIN] &&
        (arguments->n_operands < 2 || arguments->options[OPTION_CHANGE] ||
         arguments->options[OPTION_KEY]))
        return bad_usage("--again needs a FILE, and no --key");
    if (!arguments->options[OPTION_CHANGE]) {
        if (is_misplaced(arguments, OPTION_LASTMOD, OPTION_CONTENT,
                         "needs --change"))
            return EXIT_USAGE;
        if (arguments->n_operands > 2)
            return bad_usage("one FILE at a time; for LOCs use --change");
        return post_file(arguments);
    }

    fault = fault_of(arguments);
    if (fault)
        return bad_usage("%s", fault);
    if (!make_document(arguments, &text, &size))
        say(NO_MEMORY);
    else if (arguments->options[OPTION_CONTENT] &&
             !arguments->options[OPTION_DRY_RUN])
        code = post_content(arguments, text);
    else
        code = check_and_post(arguments, "LOC", json_type,
                              (struct slice){text, size}, NULL);
    free(text);
    return code;
}

const struct command publish_command = {
    .name = "publish",
    .operands = "SET-URL [FILE|-|LOC]...",
    .help = "Posts changes to a set and returns when they are durable.",
    .more =
        "Without FILE, or with -, standard input is read to its end. "
        "Several LOCs\nare several entries of one post. When all were "
        "kept it prints one line:\n\n"
        "  first=1 last=3 position=0123456789abcdef-3 datetime=...Z\n\n"
        "the numbers of the first and the last entry, and the position "
        "and event\ntime of the last. A post is kept whole or not at "
        "all. If its answer\nis lost it is posted again, with the same "
        "key, so that it is kept once; also\nwhen the broker asks to come "
        "again. --retry 0 tries once.\n\n"
        "The key of a FILE comes from its bytes: after a failure the same "
        "command may be\ngiven again. If the broker has the file already (of "
        "the last 24 hours at least),\nnothing is added, and a line says so; "
        "--again posts it once more. Standard input\nand LOCs have random "
        "keys: use --key to repeat such a command.\n\n"
        "--dry-run reads everything as the broker does, and prints a line "
        "FILE:LINE: TEXT\nfor each fault, on standard error, and "
        "changes=N faults=N. It asks no broker, so\nit does not check "
        "rights, the size of a post, or content.\n"
        "--ignore-unknown is for records of JSON or NDJSON that have more "
        "members than a\nchange.\n\n"
        "With --follow, FILE is a pipe, a FIFO or a file that grows: each line "
        "is one change in JSON, and is posted as soon as it is there. A line "
        "is first written to the spool of --state, with its place in the file, "
        "so the command may be killed at any time and continues where it was. "
        "A file may be rotated by renaming; one that is truncated is refused. "
        "Lines of a pipe are safe once the spool has them: if the "
        "process is killed, it loses what it has read and not yet spooled. A "
        "line that is no "
        "change ends the command with status 1, and FILE:LINE: TEXT; "
        "--skip-bad appends it to another file instead.\n\n"
        "At the end of a pipe, and after SIGINT or SIGTERM, --follow waits "
        "until all changes are posted, for --retry seconds. It prints "
        "posted=N rejected=N position=P, and ends with 0 if nothing is left. "
        "The same command posts the rest later.\n\n"
        "With --content the bytes of FILE go along, to a set that keeps "
        "content inline:\nthe broker keeps them, and adds their SHA-256 and "
        "length to the entry.\n\n"
        "With --full what is published is not changes but all that there "
        "is: the\nbroker compares it with what it knows and tells the "
        "differences. An index\nis read with its parts. It prints "
        "created=, updated=, deleted=, unchanged=,\nnewer= (left alone: "
        "others told of them meanwhile) and position=. A list on the "
        "web, that is read\nagain and again: tidings harvest. A list that is "
        "too large is refused: N resources, or BYTES (500M, 2G or none) that "
        "stay free of\nthe disk of temporary files.\n",
    .examples =
        "tidings publish http://localhost:8787/sets/news changes.json\n"
        "tidings publish http://localhost:8787/sets/news \\\n    --change "
        "created http://example.com/1 http://example.com/2\n"
        "tidings publish http://localhost:8787/sets/news changes.json "
        "--dry-run\n"
        "tidings publish http://localhost:8787/sets/news --full sitemap.xml\n"
        "tidings publish http://localhost:8787/sets/news \\\n    --follow "
        "changes.ndjson --state spool\n",
    .options = OPTION_ROWS(options),
    .run = run_publish,
};
