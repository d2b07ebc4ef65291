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
#include "client/lib/temporary_file.h"
#include "proto/ascii.h"
#include "proto/json/json_parse.h"
#include "proto/resourcesync/digest.h"

/* A document is held in memory. */
#define DOCUMENT_MAX ((size_t)1 << 30)

/* Most seconds of --retry: the library's limit. */
#define RETRY_MOST 43200

struct publish_values {
    const char *type;
    const char *change, *lastmod, *hash, *length, *media_type, *title, *summary,
        *author, *data, *content;
    const char *key, *full;
    int64_t retry_us;
    bool is_again, is_dry, is_following, is_quiet;
    struct follow_plan follow;
    struct td_full_options how_full;
    struct td_limits limits;
};

#define ROW_OF struct publish_values
#include "base/option_rows.h"

static const struct option options[] = {
    {"type", "xml|json|ndjson", LENT(type), NULL,
     "of FILE; default: by its name or its first character"},
    {"change", "created|updated|deleted", LENT(change), NULL,
     "post this change; operands are LOCs"},
    {"lastmod", "TIME", LENT(lastmod), NULL, "when the resource was modified"},
    {"hash", "sha-256:HEX", LENT(hash), NULL, "digest of its representation"},
    {"length", "BYTES", LENT(length), NULL, "length of its representation"},
    {"media-type", "TYPE", LENT(media_type), NULL,
     "media type of its representation"},
    {"title", "TEXT", LENT(title), NULL, "headline of the change"},
    {"summary", "TEXT", LENT(summary), NULL, "what has happened"},
    {"author", "TEXT", LENT(author), NULL, "who has made the change"},
    {"data", "JSON", LENT(data), NULL, "any JSON that goes with it"},
    {"content", "FILE", LENT(content), NULL,
     "its bytes, for a set with content=inline"},
    {"key", "KEY", LENT(key), NULL, "a repeat with it adds nothing; see below"},
    {"again", NULL, FLAG(is_again), NULL,
     "post FILE although it was posted before"},
    {"dry-run", NULL, FLAG(is_dry), NULL,
     "report every fault, and post nothing"},
    {"ignore-unknown", NULL, FLAG(follow.ignores_unknown), NULL,
     "leave out members that Tidings does not know"},
    {"follow", NULL, FLAG(is_following), NULL,
     "post lines of NDJSON as they come, from a pipe or a file that grows"},
    {"state", "FILE|DIR", LENT(follow.state), NULL,
     "with --follow: the spool of lines that were read and are not posted"},
    {"skip-bad", "FILE", LENT(follow.rejects), NULL,
     "append refused lines (--follow), or the rows left out (--full), to FILE "
     "and go on"},
    {"spool-bytes", "BYTES", BYTES(follow.spool_bytes, 1, 1024 * GIB), "1G",
     "with --follow: read no more while so many wait"},
    {"retry", "SECONDS", SECONDS(retry_us, 0, RETRY_MOST *SECOND), "60",
     "how long to try again without an answer, or to wait at the end of "
     "--follow"},
    {"full", "FILE", LENT(full), NULL,
     "all resources: a list, Sitemap, index or NDJSON"},
    {"max-delete", "PERCENT", NUMBER(how_full.max_delete, 1, 100), "20",
     "how many of them may be deleted by --full"},
    {"accept-deletions", "N",
     COUNT(how_full.accept_deletions, 1, (uint64_t)1 << 40), NULL,
     "delete as many beyond --max-delete, if they are no more than N"},
    LIMIT_ROWS(limits),
    PROGRESS_ROW(is_quiet),
    {"verbose", NULL, FLAG(follow.is_verbose), NULL, "say why it tries again"},
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

/* `text` from its first to its last sign: without a byte order mark. */
static struct slice
signs_of(struct slice text)
{
    if (slice_starts(text, "\xef\xbb\xbf"))
        slice_skip(&text, 3);
    return slice_without_spaces(text);
}

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
    text = signs_of(text);
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
    const struct publish_values *given = arguments->values;
    const char *length = given->length, *hash = given->hash;
    const char *kind = given->change;

    if (strcmp(kind, "created") && strcmp(kind, "updated") &&
        strcmp(kind, "deleted"))
        return "--change is created, updated or deleted";
    if (length && (!length[0] || length[strspn(length, "0123456789")] ||
                   (length[0] == '0' && length[1])))
        return "--length is a number of bytes";
    if (hash && (strcspn(hash, ":") == strlen(hash) ||
                 strcspn(hash, "\"\\") < strcspn(hash, ":")))
        return "--hash is ALGORITHM:HEX, such as sha-256:...";
    if (given->data && json_parse_text(slice_of(given->data), NULL, NULL, NULL))
        return "--data is JSON, such as '{\"price\":3.50}'";
    if (given->type)
        return "--type is for a FILE, --media-type for the resource";
    if (arguments->n_operands < 2)
        return "--change needs at least one LOC";
    if (given->content &&
        (arguments->n_operands > 2 || !strcmp(kind, "deleted")))
        return "--content is of one LOC that was created or updated";
    return NULL;
}

/* [{"loc":"...","change":"...","lastmod":"...","hash":{"sha-256":"..."},
 *   "length":3,"type":"...","title":"...",...,"data":{...}},... */
static bool
make_document(const struct arguments *arguments, char **text, size_t *size)
{
    const struct publish_values *given = arguments->values;
    const char *hash = given->hash;
    const char *colon = hash ? strchr(hash, ':') : NULL;
    FILE *to = open_memstream(text, size);
    bool is_good;

    if (!to)
        return false;
    for (int i = 1; i < arguments->n_operands; i++) {
        put_members(to, i == 1 ? "[{" : ",\n{", "loc:t change:t lastmod:t",
                    arguments->operands[i], given->change, given->lastmod);
        if (hash) {
            fprintf(to, ",\"hash\":{\"%.*s\":", (int)(colon - hash), hash);
            put_json_string(to, colon + 1);
            fputc('}', to);
        }
        if (given->length)
            fprintf(to, ",\"length\":%s", given->length);
        put_members(to, ",", "type:t title:t summary:t author:t",
                    given->media_type, given->title, given->summary,
                    given->author);
        if (given->data)
            fprintf(to, ",\"data\":%s", given->data);
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
    digest_sha256(&digest, slice_of(type));
    digest_add(&digest, text);
    return strcpy(key, digest_text(&digest).text);
}

/* `key` NULL: a random one. */
static enum exit_code
post_text(const struct arguments *arguments, const char *type, const char *text,
          size_t size, const char *key)
{
    const struct publish_values *given = arguments->values;
    struct td_publish_options how = {
        .key = given->key,
        .retry_ms = given->retry_us ? (int)(given->retry_us / 1000) + 1 : -1};
    struct td_client *client;
    struct td_receipt receipt;
    enum exit_code code;

    if (how.key && !how.key[0])
        return bad_usage("--key is 1 to 255 visible ASCII characters");
    if (!how.key && !given->is_again)
        how.key = key;
    if (given->follow.is_verbose)
        how.on_trouble = say_trouble;
    client = open_client(arguments, arguments->operands[0], NULL, &code);
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
                given->key ? "" : "; --again posts it once more");
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
    const char *type =
        ((const struct publish_values *)arguments->values)->media_type;
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
    const struct publish_values *given = arguments->values;
    const char *name = given->content, *type = given->media_type;
    char boundary[BOUNDARY_SIZE + 1], of_parts[100];
    FILE *content = NULL, *parts = NULL;
    struct problem why = {""};
    void *bytes = MAP_FAILED;
    long size;
    int fd;
    enum exit_code code = EXIT_FAILED;

    if (!ascii_is_line(arguments->operands[1]) ||
        (type && !ascii_is_line(type)))
        return bad_usage("with --content, LOC and --media-type are one line");
    content = fopen(name, "rb");
    if (!content) {
        say("cannot read %s: %s", name, strerror(errno));
        goto out;
    }
    fd = temporary_file_open(&why);
    if (fd < 0) {
        say("%s", why.text);
        goto out;
    }
    parts = fdopen(fd, "w+");
    if (!parts || !random_hex(boundary, sizeof(boundary)) ||
        !write_parts(parts, arguments, boundary, changes, content)) {
        bool is_input = ferror(content);

        say("cannot %s%s: %s", is_input ? "read " : "write a file in ",
            is_input ? name : temporary_directory(), strerror(errno));
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
        fprintf(stderr, "%" PRIu64 ":", why->line);
    fprintf(stderr, " %s\n", why->text);
}

/* Posts the document `name`, or checks it first, as the options ask. */
static enum exit_code
check_and_post(const struct arguments *arguments, const char *name,
               const char *type, struct slice text, const char *key)
{
    const struct publish_values *given = arguments->values;
    struct buf array; /* of the changes without unknown members */
    struct input_check check = {
        .on_fault = say_fault,
        .user = (void *)(uintptr_t)name,
        .ignores_unknown = given->follow.ignores_unknown,
    };
    enum exit_code code = EXIT_FAILED;

    if (!given->is_dry && !check.ignores_unknown)
        return post_text(arguments, type, text.data, text.size, key);
    if (check.ignores_unknown && type == xml_type)
        return bad_usage("--ignore-unknown is for JSON and NDJSON");
    if (!input_check_open(&check, type)) {
        say(NO_MEMORY);
    } else if (input_check_read(&check, text) && given->is_dry) {
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
    if (given->is_dry)
        print_values(false, "changes:n faults:n", check.n_changes,
                     check.n_faults);
    input_check_close(&check);
    return code;
}

static enum exit_code
post_file(const struct arguments *arguments)
{
    const struct publish_values *given = arguments->values;
    const char *name =
        arguments->n_operands == 2 ? arguments->operands[1] : "-";
    bool is_stdin = !strcmp(name, "-");
    const char *input = is_stdin ? "standard input" : name;
    FILE *f = is_stdin ? stdin : fopen(name, "rb");
    char key[FILE_KEY_SIZE];
    const char *type;
    struct buf text = {.max = DOCUMENT_MAX};
    enum exit_code code = EXIT_FAILED;

    if (!f || !read_all(f, &text)) {
        say("cannot read %s: %s%s", input, strerror(errno),
            strstr(name, "://") ? "; for a change of that resource, give "
                                  "--change created, updated or deleted"
                                : "");
        goto out;
    }
    type = type_of(given->type, name, buf_slice(&text));
    /* A query without rows writes nothing: that is no fault. */
    if (signs_of(buf_slice(&text)).size == 0 && (type || !given->type)) {
        say("%s is empty: nothing is posted", input);
        code = EXIT_GOOD;
    } else if (type) {
        code = check_and_post(arguments, is_stdin ? "-" : name, type,
                              buf_slice(&text),
                              file_key(key, f, type, buf_slice(&text)));
    } else if (given->type) {
        code = bad_usage("--type is xml, json or ndjson");
    } else {
        code = bad_usage(
            "%s is neither XML nor JSON at first sight; give --type", input);
    }

out:
    buf_fini(&text);
    if (f && !is_stdin)
        fclose(f);
    return code;
}

/* The name of an option that is given, of the rows from `first` to `last`;
 * NULL: none is. */
static const char *
given_within(const struct arguments *arguments, const char *first,
             const char *last)
{
    const struct options *rows = arguments->command->options;
    size_t i = options_index(rows, slice_of(first));
    size_t end = options_index(rows, slice_of(last));

    while (i <= end && !arguments->options[i])
        i++;
    return i <= end ? rows->rows[i].name : NULL;
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
    const char *set_url = arguments->operands[0];
    struct publish_values *given = arguments->values;
    struct full_report report = {.skip_bad = given->follow.rejects};
    struct td_full_receipt receipt;
    struct td_client *client;
    enum exit_code code;

    if (given_within(arguments, "type", "state") ||
        given_within(arguments, "spool-bytes", "retry"))
        return bad_usage("--full goes with --max-delete, "
                         "--accept-deletions, --skip-bad, "
                         "--min-free and --max-entries alone");
    if (arguments->n_operands > 1)
        return bad_usage(
            "--full names the input: no FILE and no LOC beside it");
    client = open_client(arguments, set_url, NULL, &code);
    if (!client)
        return code;
    given->how_full.on_report = on_full_report;
    given->how_full.user = &report;
    td_limit(client, &given->limits);
    progress_of_client(client);
    code = exit_of(client, td_publish_full(client, set_url, given->full,
                                           &given->how_full, &receipt));
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
    struct publish_values *given = arguments->values;
    const char *misplaced = given_within(arguments, "type", "dry-run");
    struct follow_plan *plan = &given->follow;

    plan->set_url = arguments->operands[0];
    plan->input = arguments->n_operands == 2 ? arguments->operands[1] : "-";
    plan->drain_ms = (unsigned)(given->retry_us / 1000);
    if (misplaced)
        return bad_usage("--%s does not go with --follow", misplaced);
    if (!plan->state || !plan->state[0])
        return bad_usage("--follow needs --state FILE, for the spool");
    if (arguments->n_operands > 2)
        return bad_usage("--follow reads one FILE");
    return publish_follow(arguments, plan);
}

/* The changes of --change. */
static enum exit_code
post_locs(const struct arguments *arguments)
{
    const struct publish_values *given = arguments->values;
    const char *fault = fault_of(arguments);
    char *text = NULL;
    size_t size = 0;
    enum exit_code code = EXIT_FAILED;

    if (fault)
        return bad_usage("%s", fault);
    if (!make_document(arguments, &text, &size))
        say(NO_MEMORY);
    else if (given->content && !given->is_dry)
        code = post_content(arguments, text);
    else
        code = check_and_post(arguments, "LOC", json_type,
                              (struct slice){text, size}, NULL);
    free(text);
    return code;
}

static enum exit_code
run_publish(const struct arguments *arguments)
{
    const struct publish_values *given = arguments->values;
    const char *misplaced;

    progress_begin(!given->is_quiet);
    if (uri_is_web(given->full))
        return bad_usage("--full publishes a file, once; tidings harvest URL "
                         "SET-URL keeps a set equal to a list on the web");
    if (given->full)
        return post_full(arguments);
    misplaced = given_within(arguments, "max-delete", "max-entries");
    if (misplaced)
        return bad_usage("--%s needs --full", misplaced);
    if (given->is_following)
        return follow_lines(arguments);
    misplaced = given_within(arguments, "state", "spool-bytes");
    if (misplaced)
        return bad_usage("--%s needs --follow", misplaced);
    if (given->is_again &&
        (arguments->n_operands < 2 || given->change || given->key))
        return bad_usage("--again needs a FILE, and no --key");
    if (given->change)
        return post_locs(arguments);
    misplaced = given_within(arguments, "lastmod", "content");
    if (misplaced)
        return bad_usage("--%s needs --change", misplaced);
    if (arguments->n_operands > 2)
        return bad_usage("one FILE at a time; for LOCs use --change");
    return post_file(arguments);
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
        "With --full you publish all that there is, not changes: the "
        "broker\ncompares it with what it knows, and publishes the "
        "differences. It prints\ncreated=, updated=, deleted=, unchanged=, "
        "newer= (left alone: another post\nhas changed them meanwhile) and "
        "position=. The parts of an index are read,\ntoo. tidings harvest "
        "reads a list on the web again and again. A list that is "
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
