/*
 * publish_follow.c - posts lines as they come, through a spool.
 *
 *     input --lines--> check --> batch --> spool and note --> posts --> broker
 *                        |                (one transaction)     |
 *                        +--> rejects <-------------------------+
 *
 * A line is taken when the spool has it, with the note of its place in the file
 * (line_input.h): so a crash neither loses nor doubles a line of a file. A line
 * of a pipe is safe from then on; before, it is in this process alone. A
 * rejected line is on the disk before the note passes it: a crash in between
 * rejects it again.
 */
#include "client/cli/publish_follow.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/cli/input_check.h"
#include "client/cli/line_input.h"
#include "client/cli/progress.h"

/* Most lines and bytes of a transaction of the spool. */
#define BATCH_CHANGES 1000
#define BATCH_BYTES   LINE_INPUT_MAX

/* The spool has room for lines that were read before it was full: an input's
 * buffer, which --ignore-unknown may write with more escapes. */
#define SPOOL_MARGIN (8 * LINE_INPUT_MAX)

/* A file has no descriptor to wait for. */
#define FILE_PAUSE_MS 200

/* Pause after a failure of the spool, such as a full disk. */
#define SPOOL_PAUSE_MS 1000

struct batch {
    struct buf text; /* the changes, one after the other */
    size_t n;
    size_t sizes[BATCH_CHANGES];
    bool has_lines; /* lines were taken, if only empty or rejected ones */
};

struct follow {
    const struct follow_plan *plan;
    char spool[PATH_MAX];
    struct td_client *client;
    struct td_publisher *publisher; /* NULL: closed by on_refused */
    struct line_input *input;
    struct input_check check;
    uint64_t line; /* number of the line that is checked */
    struct batch batch;
    int rejects; /* -1: none */

    volatile sig_atomic_t n_signals;
    bool has_failed;   /* a message was printed; nothing more is read */
    bool is_full;      /* a message was printed that the spool is */
    char trouble[256]; /* printed last; "": none since a post was durable */
    uint64_t n_posted, n_rejected;
    char position[TD_POSITION_SIZE]; /* of the last durable change; "": none */
};

static void
on_signal(void *user)
{
    struct follow *f = user;

    f->n_signals++;
    td_stop(f->client);
}

/* Rejected lines */

/* Writes the line to the file of rejected ones. False: it cannot be written; a
 * message was printed. */
static bool
reject_line(struct follow *f, struct slice line)
{
    char end = '\n';
    struct iovec parts[] = {
        {.iov_base = (void *)(uintptr_t)line.data, .iov_len = line.size},
        {.iov_base = &end, .iov_len = 1},
    };

    errno = ENOSPC; /* if it writes a part only */
    if (writev(f->rejects, parts, 2) != (ssize_t)line.size + 1 ||
        fsync(f->rejects)) {
        say("cannot write %s: %s", f->plan->rejects, strerror(errno));
        return false;
    }
    f->n_rejected++;
    return true;
}

static void
on_fault(const struct problem *why, void *user)
{
    struct follow *f = user;

    progress_clear();
    fprintf(stderr, "%s:%" PRIu64 ": %s\n", f->plan->input, f->line, why->text);
}

/* Callbacks of the publisher */

static void
on_durable(uint64_t number, const struct td_receipt *receipt, void *user)
{
    struct follow *f = user;

    (void)number;
    f->n_posted += receipt->last - receipt->first + 1;
    f->trouble[0] = '\0';
    snprintf(f->position, sizeof(f->position), "%s", receipt->position);
}

/* Without --skip-bad the change stays in the spool. */
static void
on_refused(uint64_t number, const char *change, const char *why, void *user)
{
    struct follow *f = user;

    (void)number;
    say("%s: the broker refuses a change: %s: %s", f->plan->input, why,
        problem_quote(slice_of(change)).text);
    if (f->rejects >= 0 && reject_line(f, slice_of(change)))
        return;
    if (f->rejects < 0)
        say("%" PRIu64 " changes wait in %s, this one first: --skip-bad FILE "
            "moves it to FILE",
            td_publisher_waiting(f->publisher, NULL), f->spool);
    f->has_failed = true;
    td_publisher_close(f->publisher);
    f->publisher = NULL;
}

static void
on_trouble(const char *why, unsigned pause_ms, void *user)
{
    struct follow *f = user;

    if (!f->plan->is_verbose &&
        !strncmp(f->trouble, why, sizeof(f->trouble) - 1))
        return;
    snprintf(f->trouble, sizeof(f->trouble), "%s", why);
    say_trouble(why, pause_ms, NULL);
}

/* Waiting */

static void
show_progress(const struct follow *f)
{
    uint64_t n_waiting = td_publisher_waiting(f->publisher, NULL);

    progress_show(&(struct progress_figures){.unit = "changes posted",
                                             .done = f->n_posted,
                                             .all = f->n_posted + n_waiting,
                                             .failed = f->n_rejected});
}

/* Waits up to `ms`, or until the input has bytes if `reads`, while the
 * publisher goes on. */
static void
wait_ms(struct follow *f, int ms, bool reads)
{
    struct pollfd ready[] = {
        {.fd = td_fd(f->client), .events = POLLIN},
        {.fd = reads ? line_input_fd(f->input) : -1, .events = POLLIN},
    };
    int due_ms = td_timeout_ms(f->client);

    show_progress(f);
    if (ms < 0 || (due_ms >= 0 && due_ms < ms))
        ms = due_ms;
    poll(ready, 2, ms);
    (void)td_service(f->client);
}

static bool
is_over(const struct follow *f)
{
    return f->n_signals > 0 || f->has_failed;
}

/* True if lines may be read. Prints when reading stops and goes on. */
static bool
has_room(struct follow *f)
{
    uint64_t bytes;

    td_publisher_waiting(f->publisher, &bytes);
    if (bytes >= f->plan->spool_bytes && !f->is_full) {
        f->is_full = true;
        say("the spool is full: %" PRIu64 " bytes of changes wait; nothing is "
            "read from %s until the broker has some of them",
            bytes, f->plan->input);
    } else if (f->is_full && bytes <= f->plan->spool_bytes / 2) {
        f->is_full = false;
        say("the spool has room again");
    }
    return !f->is_full;
}

/* Lines */

/* Adds the line that was checked to the batch. */
static void
add_line(struct follow *f, struct slice line)
{
    struct batch *batch = &f->batch;
    struct slice change =
        f->check.ignores_unknown ? buf_slice(&f->check.changes) : line;

    batch->sizes[batch->n++] = change.size;
    buf_add_slice(&batch->text, change);
}

/* Takes lines until the batch is full, there are no more, or one is bad. */
static void
fill_batch(struct follow *f)
{
    struct batch *batch = &f->batch;
    struct slice line;

    buf_clear(&batch->text);
    batch->n = 0;
    batch->has_lines = false;
    while (batch->n < BATCH_CHANGES && batch->text.size < BATCH_BYTES &&
           line_input_next(f->input, &line, &f->line)) {
        if (slice_without_spaces(line).size > 0) {
            if (input_check_read(&f->check, line)) {
                add_line(f, line);
            } else if (f->rejects < 0 || !reject_line(f, line)) {
                line_input_return(f->input);
                f->has_failed = true;
                return;
            }
        }
        batch->has_lines = true;
    }
}

/* Puts the batch into the spool. Repeats while the disk is full, until a signal
 * comes. False: it is not in the spool. */
static bool
spool_batch(struct follow *f)
{
    struct td_change_text changes[BATCH_CHANGES];
    const struct batch *batch = &f->batch;
    char note[LINE_INPUT_NOTE_SIZE];
    size_t at = 0;
    enum td_status rc;

    for (size_t i = 0; i < batch->n; at += batch->sizes[i++])
        changes[i] =
            (struct td_change_text){batch->text.data + at, batch->sizes[i]};
    line_input_note(f->input, note);
    if (batch->n == 0 && !note[0])
        return true; /* blank lines of a pipe */
    for (;;) {
        rc = batch->text.failed
                 ? TD_MEMORY
                 : td_publisher_add_all(f->publisher, changes, batch->n,
                                        note[0] ? note : NULL, NULL);
        if (!rc)
            return true;
        say("%s", rc == TD_MEMORY ? NO_MEMORY : td_problem(f->client));
        if (rc != TD_IO || f->n_signals > 0)
            break;
        wait_ms(f, SPOOL_PAUSE_MS, false);
        if (!f->publisher)
            break;
    }
    f->has_failed = true;
    if (!line_input_is_file(f->input))
        say("%zu changes were read from %s and are lost", batch->n,
            f->plan->input);
    return false;
}

/* Spools all whole lines that were read. */
static void
take_lines(struct follow *f)
{
    while (!f->has_failed) {
        fill_batch(f);
        if (!f->batch.has_lines || !spool_batch(f))
            return;
    }
}

/* Reads once; waits if there is nothing. False: the input has ended. */
static bool
read_lines(struct follow *f)
{
    struct problem why = {.rc = STATUS_OK};

    switch (line_input_fill(f->input, &why)) {
    case LINE_INPUT_FILLED:
        (void)td_service(f->client);
        return true;
    case LINE_INPUT_WAITS:
        wait_ms(f, line_input_is_file(f->input) ? FILE_PAUSE_MS : -1, true);
        return true;
    case LINE_INPUT_ENDED:
        return false;
    default:
        say("%s", why.text);
        f->has_failed = true;
        return false;
    }
}

static void
follow_input(struct follow *f)
{
    struct problem why = {.rc = STATUS_OK};

    do {
        take_lines(f);
        while (!is_over(f) && !has_room(f)) {
            wait_ms(f, SPOOL_PAUSE_MS, false);
            if (!line_input_watch(f->input, &why)) {
                say("%s", why.text);
                f->has_failed = true;
            }
        }
    } while (!is_over(f) && read_lines(f));
    if (!f->has_failed)
        take_lines(f); /* a signal came behind the last read */
}

/* Waits until all changes are durable, for plan->drain_ms or until a signal
 * behind the one that ended the reading. */
static void
drain(struct follow *f)
{
    int64_t end_ms = clock_steady_ms() + f->plan->drain_ms;
    int n_enough = f->n_signals > 0 ? 2 : 1;
    int64_t left_ms;

    while (f->publisher && td_publisher_waiting(f->publisher, NULL) > 0 &&
           f->n_signals < n_enough &&
           (left_ms = end_ms - clock_steady_ms()) > 0)
        wait_ms(f, (int)left_ms, false);
}

/* Prints what is left; the exit code. */
static enum exit_code
conclude(struct follow *f)
{
    uint64_t n_left =
        f->publisher ? td_publisher_waiting(f->publisher, NULL) : 0;
    size_t rest = line_input_is_file(f->input) ? 0 : line_input_rest(f->input);

    progress_clear();
    print_values(false, "posted:n rejected:n position:t", f->n_posted,
                 f->n_rejected, f->position);
    if (n_left > 0)
        say("%" PRIu64 " changes wait in %s: the same command posts them",
            n_left, f->spool);
    if (rest > 0)
        say("%zu bytes that were read from %s are lost", rest, f->plan->input);
    return f->has_failed || n_left > 0 || rest > 0 ? EXIT_FAILED : EXIT_GOOD;
}

static enum exit_code
open_publisher(struct follow *f)
{
    const struct td_publisher_options how = {
        .spool = f->spool,
        .spool_bytes = (size_t)f->plan->spool_bytes + SPOOL_MARGIN,
        .on_durable = on_durable,
        .on_refused = on_refused,
        .on_trouble = on_trouble,
        .user = f,
    };
    struct stat st;
    bool is_dir = !stat(f->plan->state, &st) && S_ISDIR(st.st_mode);

    if (snprintf(f->spool, sizeof(f->spool), is_dir ? "%s/spool" : "%s",
                 f->plan->state) >= (int)sizeof(f->spool))
        return bad_usage("--state is too long");
    return exit_of(f->client, td_publisher_open(f->client, f->plan->set_url,
                                                &how, &f->publisher));
}

static enum exit_code
open_input(struct follow *f)
{
    struct problem why = {.rc = STATUS_OK};

    if (f->plan->rejects) {
        f->rejects = open(f->plan->rejects,
                          O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
        if (f->rejects < 0)
            return failed("cannot write %s: %s", f->plan->rejects,
                          strerror(errno));
    }
    if (!input_check_open(&f->check, "application/x-ndjson"))
        return failed(NO_MEMORY);
    return line_input_open(&f->input, f->plan->input,
                           td_publisher_note(f->publisher), &why)
               ? failed("%s", why.text)
               : EXIT_GOOD;
}

enum exit_code
publish_follow(const struct arguments *arguments,
               const struct follow_plan *plan)
{
    struct follow f = {
        .plan = plan,
        .check = {.on_fault = on_fault,
                  .ignores_unknown = plan->ignores_unknown},
        .rejects = -1,
    };
    enum exit_code code;

    f.check.user = &f;
    buf_init(&f.batch.text, 8 * BATCH_BYTES + SPOOL_MARGIN);
    f.client = open_client(arguments, plan->set_url, &code);
    if (!f.client)
        return code;
    code = open_publisher(&f);
    if (!code)
        code = open_input(&f);
    if (!code) {
        signals_begin(on_signal, &f);
        follow_input(&f);
        drain(&f);
        signals_end();
        code = conclude(&f);
    }
    line_input_close(f.input);
    input_check_close(&f.check);
    buf_fini(&f.batch.text);
    if (f.rejects >= 0)
        close(f.rejects);
    td_publisher_close(f.publisher);
    td_close(f.client);
    return code;
}
