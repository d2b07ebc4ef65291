#include "broker/base/config.h"

#include <errno.h>
#include <ini.h>
#include <limits.h>
#include <unistd.h>

#include "broker/base/option.h"

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
    {"index-lists", "N", COUNT(index_lists, 1, 49999), "1000",
     "closed lists in the Change List Index; older ones are in the archive"},

    {"max-body", "BYTES", BYTES(max_body, KIB, GIB), "50M",
     "largest body of a request"},
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

    {"insecure-open", NULL, FLAG(insecure_open), "no",
     "let everyone publish, although others than this host can connect"},
    {"log-level", "LEVEL", LEVEL(log_level), "info",
     "error, warning, info or debug"},
    {"check", NULL, FLAG(check), "no", "look at the options, then end"},
    {"version", NULL, WISH(CONFIG_VERSION), NULL,
     "say which version this is, then end"},
    {"help", NULL, WISH(CONFIG_HELP), NULL, "print this, then end"},
};

#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

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
            return problem(why, STATUS_INVALID,
                           "--%s: there is no such option; --help lists them",
                           problem_quote(name).text);
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

struct reading {
    FILE *file;
    const char *path;
    unsigned line; /* the one at hand, from 1 */
    bool is_there[N_ROWS];
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

/*
 * fgets for libinih, which would otherwise cut a long line without a word, and
 * would take an indented line for the rest of the one before. Ends the file
 * after the first error.
 */
static char *
next_line(char *line, int size, void *stream)
{
    struct reading *r = stream;
    size_t length, blanks;

    if (r->rc || !fgets(line, size, r->file))
        return NULL;
    r->line++;
    length = strlen(line);
    if (!memchr(line, '\n', length) && !feof(r->file)) {
        (void)at_line(r, r->line, "this line is too long, or has a NUL");
        return NULL;
    }
    blanks = strspn(line, " \t");
    memmove(line, line + blanks, length - blanks + 1);
    return line;
}

static enum status
take_key(struct reading *r, const char *section, const char *key,
         const char *value, struct problem *why)
{
    size_t row = row_of(slice_of(key));

    if (section[0])
        return problem(why, STATUS_INVALID, "[%s]: there are no sections",
                       problem_quote(slice_of(section)).text);
    if (row == N_ROWS)
        return problem(why, STATUS_INVALID, "%s: there is no such option",
                       problem_quote(slice_of(key)).text);
    if (rows[row].type <= OPTION_FILE)
        return problem(why, STATUS_INVALID,
                       "%s: stands on the command line only", rows[row].name);
    if (r->is_there[row])
        return problem(why, STATUS_INVALID, "%s: is there twice",
                       rows[row].name);
    r->is_there[row] = true;
    return read_row(row, "", value, r->config, why);
}

static int
take_line(void *user, const char *section, const char *key, const char *value)
{
    struct reading *r = user;
    struct problem inner = {.text = ""};

    if (take_key(r, section, key, value, &inner))
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
        r.rc = at_line(&r, (unsigned)bad, "this is not NAME = VALUE");
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

/* Help */

#define HELP_WIDTH  80
#define HELP_COLUMN 29

/* Writes `text` from column `column` on, broken at blanks, each new line
 * indented to HELP_COLUMN. */
static void
print_wrapped(FILE *to, const char *text, size_t column)
{
    while (*text) {
        size_t word = strcspn(text, " ");

        if (column + 1 + word > HELP_WIDTH) {
            fprintf(to, "\n%*s", HELP_COLUMN, "");
            column = HELP_COLUMN;
        } else if (column > HELP_COLUMN) {
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

static void
print_row(FILE *to, const struct option *o)
{
    char limits[OPTION_LIMITS_SIZE];
    char text[256];
    bool has_default = o->standard && o->argument;
    int n = fprintf(to, "  --%s%s%s", o->name, o->argument ? " " : "",
                    o->argument ? o->argument : "");

    fprintf(to, "%*s", HELP_COLUMN - n, "");
    option_limits(o, limits, sizeof(limits));
    if (limits[0] || has_default)
        snprintf(text, sizeof(text), "%s (%s%s%s%s)", o->help, limits,
                 limits[0] && has_default ? "; " : "",
                 has_default ? "default " : "", has_default ? o->standard : "");
    else
        snprintf(text, sizeof(text), "%s", o->help);
    print_wrapped(to, text, HELP_COLUMN);
}

void
config_help(FILE *to)
{
    fprintf(to, "usage: tidingsd [OPTION]...\n\n"
                "Tells the world what changed: takes changes by HTTP POST, "
                "keeps them in\nResourceSync Change Lists, pushes them to "
                "subscribers.\n\n");
    for (size_t i = 0; i < N_ROWS; i++)
        print_row(to, &rows[i]);
    fprintf(to, "\nBYTES may end in K, M or G (1024 each); SECONDS and MS may "
                "have decimals.\n\"--name=value\" is the same as \"--name "
                "value\".\n");
}
