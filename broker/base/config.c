#include "broker/base/config.h"

#include <errno.h>
#include <ini.h>
#include <limits.h>
#include <unistd.h>

#include "broker/base/option.h"
#include "broker/base/suggest.h"

#define KIB    1024ULL
#define MIB    (1024 * KIB)
#define GIB    (1024 * MIB)
#define SECOND 1000000ULL
#define DAY    (86400 * SECOND)

/* Where a member is; does not compile if it is not a `type`. */
#define AT(member, type)                              \
    _Generic(&((struct config *)NULL)->member, type * \
             : offsetof(struct config, member))
#define ROOM(member)    sizeof(((struct config *)NULL)->member)
#define AT_TEXT(member) offsetof(struct config, member)

/* Type, place and limits of a row. */
#define TEXT(member)      OPTION_TEXT, AT_TEXT(member), 0, 0, ROOM(member)
#define URL(member, room) OPTION_URL, AT_TEXT(member), 0, 0, room
#define LISTEN(host, port_member) \
    OPTION_LISTEN, AT_TEXT(host), AT(port_member, unsigned), 0, ROOM(host)
#define COUNT(member, min, max) OPTION_COUNT, AT(member, uint64_t), 0, min, max
#define BYTES(member, min, max) OPTION_BYTES, AT(member, uint64_t), 0, min, max
#define SECONDS(member, min, max) \
    OPTION_SECONDS, AT(member, int64_t), 0, min, max
#define MS(member, min, max) \
    OPTION_MILLISECONDS, AT(member, int64_t), 0, min, max
#define LEVEL(member) OPTION_LEVEL, AT(member, enum diag_level), 0, 0, 0
#define FLAG(member)  OPTION_FLAG, AT(member, bool), 0, 0, 0
#define CONFIG_FILE   OPTION_FILE, 0, 0, 0, 0
#define WISH(wish)    OPTION_WISH, 0, 0, wish, wish

static const struct option rows[] = {
    {"config", "FILE", CONFIG_FILE, NULL,
     "read options from FILE first: lines of NAME = VALUE"},

    {"listen", "HOST:PORT", LISTEN(listen_host, listen_port), "127.0.0.1:8787",
     "where to listen; port 0 is any free one"},
    {"data", "DIR", TEXT(data), "./tidings-data",
     "the data directory, made when missing"},
    {"public-url", "URL", URL(public_url, 500 + 1), NULL,
     "what clients put before the paths; the address listened on if not given"},
    {"tls-cert", "FILE", TEXT(tls_cert), NULL,
     "certificate and its chain, PEM: speak https and wss, nothing else"},
    {"tls-key", "FILE", TEXT(tls_key), NULL,
     "its private key, PEM, not encrypted"},
    {"threads", "N", COUNT(threads, 1, 64), NULL,
     "service threads; one per core if not given"},

    {"rotate-entries", "N", COUNT(rotate_entries, 1, 50000), "50000",
     "close a Change List at this many entries"},
    /* At least one largest fragment (256 KiB) with header and footer. */
    {"rotate-bytes", "BYTES", BYTES(rotate_bytes, 512 * KIB, 50 * MIB), "50M",
     "close a Change List at this size"},
    {"rotate-age", "SECONDS", SECONDS(rotate_age_us, 0, 3650 * DAY), "86400",
     "close a Change List at this age; 0 is never"},
    {"retain-lists", "N", COUNT(retain_lists, 0, 1000000), "0",
     "closed Change Lists kept of a set, the latest; 0 is all"},
    {"retain-age", "SECONDS", SECONDS(retain_age_us, 0, 36500 * DAY), "0",
     "closed Change Lists are kept for so long; 0 is for ever"},
    {"remove-grace", "SECONDS", SECONDS(remove_grace_us, 0, 3650 * DAY), "300",
     "files of removed sets and lists stay for so long, for who reads them"},
    {"index-lists", "N", COUNT(index_lists, 1, 49999), "1000",
     "closed lists in the Change List Index, and in one document of the "
     "archive, which has an index when there are more"},

    {"max-body", "BYTES", BYTES(max_body, KIB, GIB), "50M",
     "largest body of a request, also when inflated"},
    {"ingest-bytes", "BYTES", BYTES(ingest_bytes, MIB, 1024 * GIB), "256M",
     "memory for all posts at work; what needs more is answered 503"},
    {"tail-bytes", "BYTES", BYTES(tail_bytes, MIB, 1024 * GIB), "64M",
     "memory for the latest changes of all sets"},
    /* At least one largest fragment, in every form. */
    {"message-bytes", "BYTES", BYTES(message_bytes, 512 * KIB, 16 * MIB), "1M",
     "largest message to a subscriber"},

    {"linger", "MS", MS(linger_us, 0, 10 * SECOND), "0",
     "how long a commit waits for company"},
    {"heartbeat", "SECONDS", SECONDS(heartbeat_us, SECOND / 10, 3600 * SECOND),
     "20", "a subscriber hears at least this often, also when nothing changes"},
    {"request-timeout", "SECONDS",
     SECONDS(request_timeout_us, SECOND / 10, 3600 * SECOND), "30",
     "how long a request may take to arrive"},

    {"hub-lease-min", "SECONDS",
     SECONDS(hub_lease_min_us, SECOND / 100, 90 * DAY), "300",
     "shortest lease of a subscription; who asks for less gets this"},
    {"hub-lease-default", "SECONDS",
     SECONDS(hub_lease_default_us, SECOND / 100, 90 * DAY), "864000",
     "lease of a subscription that asks for none"},
    {"hub-lease-max", "SECONDS",
     SECONDS(hub_lease_max_us, SECOND / 100, 90 * DAY), "2678400",
     "longest lease; who asks for more gets this"},
    {"hub-retry-first", "SECONDS",
     SECONDS(hub_retry_first_us, SECOND / 1000, 3600 * SECOND), "1",
     "pause after a delivery's first failure; it doubles with each"},
    {"hub-retry-max", "SECONDS",
     SECONDS(hub_retry_max_us, SECOND / 1000, 7 * DAY), "3600",
     "longest pause between two tries of a delivery"},
    {"hub-give-up", "SECONDS",
     SECONDS(hub_give_up_us, SECOND / 1000, 365 * DAY), "86400",
     "a delivery that has failed for so long is skipped"},
    {"hub-timeout", "SECONDS",
     SECONDS(hub_timeout_us, SECOND / 100, 600 * SECOND), "10",
     "how long a callback may take to answer"},
    {"hub-connections", "N", COUNT(hub_connections, 1, 100000), "1000",
     "connections to callbacks at most"},
    {"hub-host-connections", "N", COUNT(hub_host_connections, 1, 100000), "32",
     "connections to one host and port of them"},
    {"hub-body-bytes", "BYTES", BYTES(hub_body_bytes, MIB, 1024 * GIB), "64M",
     "memory for the bodies of deliveries in flight"},
    {"hub-signature", "METHOD", TEXT(hub_signature), "sha256",
     "how deliveries are signed: sha1, sha256, sha384 or sha512"},
    {"hub-trust-simple", NULL, FLAG(hub_trust_simple), "no",
     "simple subscriptions hold at once, without a verification of intent"},
    {"hub-subscriptions", "N", COUNT(hub_subscriptions, 1, 10000000), "100000",
     "subscriptions at most, in all"},
    {"relay-documents", "N", COUNT(relay_documents, 1, 1000000), "1000",
     "documents kept of a relay, the latest"},
    {"relay-bytes", "BYTES", BYTES(relay_bytes, MIB, 1024 * GIB), "256M",
     "bytes of documents kept of a relay, the latest"},
    {"allow-callbacks", "CIDR,...", TEXT(allow_callbacks), NULL,
     "networks that may be called although they are not public"},

    {"insecure-open", NULL, FLAG(insecure_open), "no",
     "let everyone publish, although others than this host can connect"},
    {"log-level", "LEVEL", LEVEL(log_level), "info",
     "error, warning, info or debug"},
    {"check", NULL, FLAG(check), "no",
     "look at the options, the address, the data directory and the files of "
     "TLS, write nothing, then end"},
    {"example", NULL, WISH(CONFIG_EXAMPLE), NULL,
     "print a configuration file with every option and its default, then end"},
    {"version", NULL, WISH(CONFIG_VERSION), NULL,
     "say which version this is, then end"},
    {"help", NULL, WISH(CONFIG_HELP), NULL, "print this, then end"},
};

#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

/* To add an option: a row above, its member in config.h, then
 *
 *     tidingsd --help > broker/options.txt
 *     tidingsd --example > broker/tidingsd.ini
 *
 * The test unit/base/config_file compares both. */

/* What the command line says; NULL: nothing. */
struct given {
    const char *values[N_ROWS];
};

/* The row of `name`; N_ROWS if there is none. */
static size_t
row_of(struct slice name)
{
    size_t i = 0;

    while (i < N_ROWS && !slice_is(name, rows[i].name))
        i++;
    return i;
}

/* There is no option of that name; `mark` as below, `otherwise` is said where
 * nothing like it is known either. */
static enum status
unknown(struct problem *why, const char *mark, struct slice name,
        const char *otherwise)
{
    struct suggestion s;

    suggest_begin(&s, name);
    for (size_t i = 0; i < N_ROWS; i++)
        suggest_consider(&s, rows[i].name);
    if (s.nearest)
        return problem(why, STATUS_INVALID,
                       "%s%s: there is no such option; did you mean %s%s?",
                       mark, problem_quote(name).text, mark, s.nearest);
    return problem(why, STATUS_INVALID, "%s%s: there is no such option%s", mark,
                   problem_quote(name).text, otherwise);
}

/* Reads the value of a row; `mark` stands before the name: "--" or nothing. */
static enum status
read_row(size_t row, const char *mark, const char *text, struct config *config,
         struct problem *why)
{
    struct problem inner = {.text = ""};
    enum status rc = option_read(&rows[row], text, config, &inner);

    if (rc)
        return problem(why, rc, "%s%s: %s", mark, rows[row].name, inner.text);
    return STATUS_OK;
}

static enum status
set_defaults(struct config *config, struct problem *why)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    enum status rc = STATUS_OK;

    *config = (struct config){.threads = 1};
    if (cores > 1)
        config->threads = cores > 64 ? 64 : (uint64_t)cores;
    for (size_t i = 0; !rc && i < N_ROWS; i++)
        if (rows[i].standard)
            rc = read_row(i, "--", rows[i].standard, config, why);
    return rc;
}

/* The command line */

static enum status
read_arguments(struct given *given, int argc, char **argv,
               enum config_wish *wish, struct problem *why)
{
    for (int i = 1; i < argc; i++) {
        const char *argument = argv[i];
        const char *equals = strchr(argument, '=');
        size_t size = equals ? (size_t)(equals - argument) : strlen(argument);
        struct slice name;
        const char *value;
        size_t row;

        if (size <= 2 || !slice_starts(slice_of(argument), "--"))
            return problem(why, STATUS_INVALID,
                           "\"%s\" is not an option; --help lists them",
                           problem_quote(slice_of(argument)).text);
        name = (struct slice){argument + 2, size - 2};
        row = row_of(name);
        if (row == N_ROWS)
            return unknown(why, "--", name, "; --help lists them");
        if (given->values[row])
            return problem(why, STATUS_INVALID, "--%s: is there twice",
                           rows[row].name);

        if (!rows[row].argument) {
            if (equals)
                return problem(why, STATUS_INVALID, "--%s: takes no value",
                               rows[row].name);
            value = "yes";
        } else if (equals) {
            value = equals + 1;
        } else {
            value = i + 1 < argc ? argv[++i] : NULL;
        }
        if (!value || (!equals && slice_starts(slice_of(value), "--")))
            return problem(why, STATUS_INVALID, "--%s: %s is missing",
                           rows[row].name, rows[row].argument);

        given->values[row] = value;
        if (rows[row].type == OPTION_WISH) {
            *wish = (enum config_wish)rows[row].min;
            return STATUS_OK;
        }
    }
    return STATUS_OK;
}

/* The file */

#define BYTE_ORDER_MARK "\xef\xbb\xbf"

#define NOT_A_LINE "this is not NAME = VALUE"

struct reading {
    FILE *file;
    const char *path;
    unsigned line;            /* the one at hand, from 1 */
    unsigned line_of[N_ROWS]; /* where a row's option stood; 0: not yet */
    struct config *config;
    enum status rc;
    struct problem *why;
};

static enum status
at_line(struct reading *r, unsigned line, const char *text)
{
    r->rc = problem(r->why, STATUS_INVALID, "%s:%u: %s", r->path, line, text);
    return r->rc;
}

/* As fgets, but whole lines only, without a NUL in them; STATUS_INVALID:
 * something else. *length is 0 at the end of the file. */
static enum status
get_line(FILE *file, char *line, size_t size, size_t *length)
{
    int c = 0;

    *length = 0;
    while (c != '\n' && (c = getc(file)) != EOF) {
        if (c == '\0' || *length + 1 == size)
            return STATUS_INVALID;
        line[(*length)++] = (char)c;
    }
    line[*length] = '\0';
    return STATUS_OK;
}

/*
 * fgets for libinih, which would otherwise cut a long line without a word, and
 * would take an indented line for the rest of the one before. Ends the file
 * after the first error.
 */
static char *
next_line(char *line, int size, void *stream)
{
    struct reading *r = stream;
    char text[PROBLEM_QUOTE_MAX + 40];
    size_t length, blanks;
    struct slice section;
    enum status rc;

    if (r->rc)
        return NULL;
    rc = get_line(r->file, line, (size_t)size, &length);
    if (!rc && length == 0)
        return NULL;
    r->line++;
    if (rc) {
        (void)at_line(r, r->line, "this line is too long, or has a NUL");
        return NULL;
    }
    blanks = r->line == 1 && slice_starts(slice_of(line), BYTE_ORDER_MARK)
                 ? strlen(BYTE_ORDER_MARK)
                 : 0;
    blanks += strspn(line + blanks, " \t");
    memmove(line, line + blanks, length - blanks + 1);
    if (line[0] != '[')
        return line;
    /* libinih tells of a section only when a key comes in it. */
    section = (struct slice){line + 1, strcspn(line + 1, "]\r\n")};
    snprintf(text, sizeof(text), "[%s]: there are no sections",
             problem_quote(section).text);
    (void)at_line(r, r->line, text);
    return NULL;
}

static bool
is_quoted(const char *value)
{
    size_t size = strlen(value);

    return size > 1 && (*value == '"' || *value == '\'') &&
           value[size - 1] == *value;
}

static enum status
take_key(struct reading *r, const char *key, const char *value,
         struct problem *why)
{
    size_t row = row_of(slice_of(key));

    if (!*key || strpbrk(key, " \t"))
        return problem(why, STATUS_INVALID, NOT_A_LINE);
    if (row == N_ROWS)
        return unknown(why, "", slice_of(key), "");
    if (rows[row].type <= OPTION_FILE)
        return problem(why, STATUS_INVALID,
                       "%s: stands on the command line only", rows[row].name);
    if (r->line_of[row])
        return problem(why, STATUS_INVALID,
                       "%s: is there twice, first in line %u", rows[row].name,
                       r->line_of[row]);
    r->line_of[row] = r->line;
    /* They would be taken for part of it: of a directory's name, say. */
    if (is_quoted(value))
        return problem(why, STATUS_INVALID,
                       "%s: a value has no quotes around it", rows[row].name);
    return read_row(row, "", value, r->config, why);
}

static int
take_line(void *user, const char *section, const char *key, const char *value)
{
    struct reading *r = user;
    struct problem inner = {.text = ""};

    (void)section; /* next_line lets none pass */
    if (take_key(r, key, value, &inner))
        (void)at_line(r, r->line, inner.text);
    return !r->rc;
}

static enum status
read_file(struct config *config, const char *path, struct problem *why)
{
    struct reading r = {.path = path, .config = config, .why = why};
    int bad;

    r.file = fopen(path, "re");
    if (!r.file) {
        problem_errno(why, "--config: cannot read", path);
        return STATUS_INVALID;
    }

    bad = ini_parse_stream(next_line, &r, take_line, &r);
    if (ferror(r.file)) {
        problem_errno(why, "--config: cannot read", path);
        r.rc = STATUS_INVALID;
    } else if (bad > 0 && (!r.rc || (unsigned)bad < r.line)) {
        /* libinih found it by itself. */
        r.rc = at_line(&r, (unsigned)bad, NOT_A_LINE);
    } else if (bad < 0) {
        r.rc = problem(why, STATUS_MEMORY, "no memory to read %s", path);
    }
    fclose(r.file);
    return r.rc;
}

enum status
config_read(struct config *config, int argc, char **argv,
            enum config_wish *wish, struct problem *why)
{
    struct given given = {{NULL}};
    size_t file = row_of(slice_of("config"));
    enum status rc;

    *wish = CONFIG_RUN;
    rc = set_defaults(config, why);
    if (!rc)
        rc = read_arguments(&given, argc, argv, wish, why);
    if (rc || *wish != CONFIG_RUN)
        return rc;

    if (given.values[file])
        rc = read_file(config, given.values[file], why);
    for (size_t i = 0; !rc && i < N_ROWS; i++)
        if (given.values[i] && i != file)
            rc = read_row(i, "--", given.values[i], config, why);
    return rc;
}

const struct option *
config_option(const char *name)
{
    size_t row = row_of(slice_of(name));

    return row < N_ROWS ? &rows[row] : NULL;
}

/* Help */

#define TEXT_WIDTH  80
#define HELP_COLUMN 29

/* Writes `text` from column `column` on, broken at blanks; each new line begins
 * with `indent`. */
static void
print_wrapped(FILE *to, const char *text, size_t column, const char *indent)
{
    bool is_first = true; /* of its line */

    for (; *text; is_first = false) {
        size_t word = strcspn(text, " ");

        if (!is_first && column + 1 + word > TEXT_WIDTH) {
            fprintf(to, "\n%s", indent);
            column = strlen(indent);
        } else if (!is_first) {
            fputc(' ', to);
            column++;
        }
        fprintf(to, "%.*s", (int)word, text);
        column += word;
        text += word;
        text += strspn(text, " ");
    }
    fputc('\n', to);
}

/* What a row does, its limits and its default. */
static void
describe(const struct option *o, char *to, size_t size)
{
    char limits[OPTION_LIMITS_SIZE];
    bool has_default = o->standard && o->argument;

    option_limits(o, limits, sizeof(limits));
    if (limits[0] || has_default)
        snprintf(to, size, "%s (%s%s%s%s)", o->help, limits,
                 limits[0] && has_default ? "; " : "",
                 has_default ? "default " : "", has_default ? o->standard : "");
    else
        snprintf(to, size, "%s", o->help);
}

static void
print_row(FILE *to, const struct option *o)
{
    char text[256], indent[HELP_COLUMN + 1];
    int n = fprintf(to, "  --%s%s%s", o->name, o->argument ? " " : "",
                    o->argument ? o->argument : "");

    /* A long name has a line of its own. */
    if (n + 1 > HELP_COLUMN)
        n = fprintf(to, "\n") - 1;
    fprintf(to, "%*s", HELP_COLUMN - n, "");
    snprintf(indent, sizeof(indent), "%*s", HELP_COLUMN, "");
    describe(o, text, sizeof(text));
    print_wrapped(to, text, HELP_COLUMN, indent);
}

#define VALUES                                                         \
    "BYTES may end in K, M or G (1024 each); SECONDS and MS may have " \
    "decimals."

void
config_help(FILE *to)
{
    fprintf(to, "usage: tidingsd [OPTION]...\n\n"
                "Tells the world what changed: takes changes by HTTP POST, "
                "keeps them in\nResourceSync Change Lists, pushes them to "
                "subscribers: WebSocket, server-sent\nevents, WebSub "
                "callbacks.\n\n");
    for (size_t i = 0; i < N_ROWS; i++)
        print_row(to, &rows[i]);
    fprintf(to, "\n" VALUES
                "\n\"--name=value\" is the same as \"--name value\".\n");
}

void
config_example(FILE *to)
{
    fprintf(to,
            "# Configuration of tidingsd: tidingsd --config FILE. Every option "
            "stands here\n# with its default; remove the # before a name to "
            "change it. An option of the\n# command line wins over the one "
            "here; tidingsd --config FILE --check looks\n# whether all is "
            "well.\n#\n# " VALUES "\n");
    for (size_t i = 0; i < N_ROWS; i++) {
        const struct option *o = &rows[i];
        char text[256], unit[32] = "";

        if (o->type <= OPTION_FILE)
            continue; /* on the command line only */
        describe(o, text, sizeof(text));
        if (o->argument)
            snprintf(unit, sizeof(unit), "%s: ", o->argument);
        fprintf(to, "\n# %s", unit);
        print_wrapped(to, text, strlen("# ") + strlen(unit), "# ");
        fprintf(to, "#%s = %s\n", o->name,
                o->standard ? o->standard : o->argument);
    }
}
