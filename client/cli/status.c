/*
 * status.c - tidings status: the last hour of a broker or of a set, and with
 * --plot a picture of it.
 *
 *     entries in the last hour   2114, at most 1192 in a minute
 *     1192 |                                                          #
 *          |                                                         ##
 *        0 +------------------------------------------------------------
 *           60 min ago                                               now
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cli.h"
#include "client/lib/client.h"
#include "client/lib/fetch.h"
#include "client/lib/json_slices.h"
#include "proto/number.h"

enum { OPTION_PLOT, OPTION_JSON };

static const struct option options[] = {
    [OPTION_PLOT] = {"plot", NULL, .help = "also draw the last hour"},
    [OPTION_JSON] = {"json", NULL, .help = "the broker's JSON"},
};

#define MINUTES 60
#define ROWS    6

/* Longest answer: two rows of minutes, and the readers by transport. */
#define ANSWER_MAX 65536

/* The steps of a character in the picture. */
static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
static const char *const letters[] = {".", ".", ":", ":", "|", "|", "#", "#"};

#define STEPS (sizeof(blocks) / sizeof(blocks[0]))

struct minutes {
    uint64_t all[MINUTES];
    uint64_t sum, most;
};

/* Reads the array `name` of an object; false: it has none of this length. */
static bool
read_minutes(struct slice json, const char *name, struct minutes *minutes)
{
    struct slice array, one;
    size_t n = 0;

    memset(minutes, 0, sizeof(*minutes));
    if (!json_slices_member(json, name, &array))
        return false;
    while (json_slices_element(&array, &one)) {
        if (n == MINUTES || !number_read(one, &minutes->all[n]))
            return false;
        minutes->sum += minutes->all[n];
        if (minutes->all[n] > minutes->most)
            minutes->most = minutes->all[n];
        n++;
    }
    return n == MINUTES;
}

/* True if the terminal shows characters of UTF-8. */
static bool
is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = getenv(names[i]);

        if (value && value[0])
            return strstr(value, "UTF-8") || strstr(value, "utf8");
    }
    return false;
}

/* The character of a minute in a row, counted from the bottom. A minute with
 * anything at all shows. */
static const char *
character_at(uint64_t value, uint64_t most, unsigned row,
             const char *const *steps)
{
    uint64_t height =
        most ? (uint64_t)((double)value / (double)most * ROWS * STEPS) : 0;
    uint64_t below = (uint64_t)row * STEPS;

    if (value && !height)
        height = 1;
    if (height <= below)
        return " ";
    return steps[height - below >= STEPS ? STEPS - 1 : height - below - 1];
}

/* 75 columns at most, without a colour. */
static void
plot(const struct minutes *minutes)
{
    const char *const *steps = is_utf8() ? blocks : letters;

    for (unsigned row = ROWS; row-- > 0;) {
        if (row == ROWS - 1)
            printf("%12" PRIu64 " |", minutes->most);
        else
            printf("%12s |", "");
        for (unsigned i = 0; i < MINUTES; i++)
            fputs(character_at(minutes->all[i], minutes->most, row, steps),
                  stdout);
        putchar('\n');
    }
    printf("%12d +", 0);
    for (unsigned i = 0; i < MINUTES; i++)
        putchar('-');
    printf("\n%14s%-57snow\n\n", "", "60 min ago");
}

static void
print_number(struct slice json, const char *name, const char *label)
{
    struct slice value;
    uint64_t number;

    if (json_slices_member(json, name, &value) && number_read(value, &number))
        printf("%-26s %" PRIu64 "\n", label, number);
}

static void
print_disk(struct slice json)
{
    struct slice disk, value;
    uint64_t free_bytes, total;

    if (json_slices_member(json, "disk", &disk) &&
        json_slices_member(disk, "free", &value) &&
        number_read(value, &free_bytes) &&
        json_slices_member(disk, "total", &value) && number_read(value, &total))
        printf("%-26s %" PRIu64 " MB of %" PRIu64 " MB\n", "free on the disk",
               free_bytes / 1000000, total / 1000000);
}

static enum exit_code
print_status(struct slice json, bool has_plot)
{
    struct minutes entries, lags;

    if (!read_minutes(json, "entries", &entries) ||
        !read_minutes(json, "lags", &lags)) {
        say("the answer is not the status of a broker");
        return EXIT_FAILED;
    }
    print_number(json, "sets", "sets");
    print_disk(json);
    printf("%-26s %" PRIu64 ", at most %" PRIu64 " in a minute\n",
           "entries in the last hour", entries.sum, entries.most);
    if (has_plot)
        plot(&entries);
    printf("%-26s at most %" PRIu64 " entries\n", "lag in the last hour",
           lags.most);
    if (has_plot)
        plot(&lags);
    return EXIT_GOOD;
}

/* The address of the status: BROKER-URL/status, or SET-URL/rate. */
static char *
status_url(const char *url)
{
    size_t size = strlen(url);
    char *text = malloc(size + sizeof("/status"));
    const char *set;

    if (!text)
        return NULL;
    while (size && url[size - 1] == '/')
        size--;
    sprintf(text, "%.*s", (int)size, url);
    set = strstr(text, "/sets/");
    strcat(text,
           set && !strchr(set + strlen("/sets/"), '/') ? "/rate" : "/status");
    return text;
}

/* Asks, and prints. */
static enum exit_code
ask_status(struct td_client *client, const char *url,
           const struct arguments *arguments)
{
    const struct fetch_request request = {.url = url, .max_bytes = ANSWER_MAX};
    struct fetch_answer answer;
    enum exit_code code;
    enum status rc;

    client_begin(client);
    rc = fetch_run(client, &request, &answer);
    if (!rc && answer.status != 200)
        rc = client_refused(client, &answer);
    code = exit_of(client, client_end(client, rc));
    if (!rc && arguments->options[OPTION_JSON])
        fwrite(answer.body.data, 1, answer.body.size, stdout);
    else if (!rc)
        code = print_status(buf_slice(&answer.body),
                            arguments->options[OPTION_PLOT] != NULL);
    fetch_answer_fini(&answer);
    return code;
}

static enum exit_code
run_status(const struct arguments *arguments)
{
    struct td_client *client;
    enum exit_code code;
    char *url;

    if (arguments->n_operands != 1 || !is_web_url(arguments->operands[0]))
        return bad_usage("status needs one BROKER-URL or SET-URL; see tidings "
                         "status --help");
    client = open_client(arguments, arguments->operands[0], &code);
    if (!client)
        return code;
    url = status_url(arguments->operands[0]);
    code = EXIT_FAILED;
    if (url)
        code = ask_status(client, url, arguments);
    else
        say("out of memory");
    free(url);
    td_close(client);
    return code;
}

const struct command status_command = {
    .name = "status",
    .operands = "BROKER-URL|SET-URL",
    .help = "Tells what happened in the last hour of a broker or a set.",
    .more = "Of a broker (http://host:port/): its sets, its disk, the entries "
            "of all sets\nand the largest lag of a reader; the token needs the "
            "right to observe. Of a set:\nits entries and the largest lag of "
            "its readers. A picture has a column for each\nminute, in 75 "
            "columns of text.\n",
    .options = OPTIONS(options),
    .run = run_status,
};
