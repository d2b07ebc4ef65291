/* Long answers: handed over in pieces, no faster than they are taken. */
#include "base/clock.h"
#include "broker/calls/caller.h"
#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/calls/called.h"

#define LONG 3000001

/* The user who takes the pieces of one call. The caller's thread, while it is
 * under way; then the test's. */
static struct taker {
    struct trial trial;
    enum call_turn turn; /* its answer */
    bool keeps;          /* takes the memory along */
    bool cancels;
    struct buf kept; /* the last piece, if it keeps */
    unsigned n_pieces;
    uint64_t n_bytes;
    size_t longest;
    bool is_wrong; /* a byte differs from the one that was sent */
    struct alarm alarm;
} taker;

static sem_t taken;

static void
look(struct slice piece)
{
    for (size_t i = 0; i < piece.size; i++)
        taker.is_wrong |= piece.data[i] != odd_byte(taker.n_bytes + i);
    taker.n_bytes += piece.size;
    taker.n_pieces++;
    if (piece.size > taker.longest)
        taker.longest = piece.size;
}

static enum call_turn
take(struct call *call, struct buf *piece)
{
    assert_ptr_equal(call, &taker.trial.call);
    look(buf_slice(piece));
    if (taker.keeps) {
        struct buf mine = *piece;

        *piece = taker.kept;
        taker.kept = mine;
    }
    if (taker.cancels)
        caller_cancel(called.caller, call);
    sem_post(&taken);
    return taker.turn;
}

static void
taker_init(const char *path)
{
    buf_fini(&taker.kept);
    taker = (struct taker){.turn = CALL_READY};
    buf_init(&taker.kept, CALL_PIECE_MAX);
    sem_init(&taken, 0, 0);
    trial_init(&taker.trial, "http://127.0.0.1:%u%s", odd.port, path);
    taker.trial.call.take = take;
    taker.trial.call.max_taken = LONG;
}

static void
assert_whole(uint64_t n_bytes)
{
    assert_outcome(&taker.trial, CALL_ANSWERED, "");
    assert_int_equal(taker.trial.call.status, 200);
    assert_false(taker.trial.call.is_cut);
    assert_string_equal(taker.trial.answer, "");
    assert_int_equal(taker.n_bytes, n_bytes);
    assert_false(taker.is_wrong);
    assert_true(taker.longest <= CALL_PIECE_MAX);
}

static int
teardown(void **state)
{
    called_teardown(state);
    buf_fini(&taker.kept);
    taker.kept = (struct buf){0};
    return 0;
}

FIXTURE(called_setup_open, teardown);

TEST(a_long_answer_comes_in_pieces)
{
    static const char *const paths[] = {
        "/long?3000001", "/long-chunked?3000001", "/long-closed?3000001",
        "/to?/long?3000001"};
    unsigned n_least = LONG / CALL_PIECE_MAX;

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        taker_init(paths[i]);
        taker.trial.call.max_redirects = 1;
        taker.keeps = i % 2;
        trial_run(&taker.trial);
        assert_whole(LONG);
        assert_true(taker.n_pieces > n_least);
        assert_true(taker.n_pieces < 2 * n_least);
    }
}

/* Waits for all pieces, one at a time; takes each later. */
static void
take_all_later(void)
{
    struct trial other;
    bool is_last = false;

    for (unsigned n = 1; !is_last; n++) {
        called_wait(&taken);
        for (unsigned beside = 0; beside < 3; beside++) {
            trial_get(&other, "/ok"); /* the loop goes on meanwhile */
            assert_string_equal(other.answer, "hello");
        }
        assert_int_equal(taker.n_pieces, n);
        assert_false(trial_is_done(&taker.trial));
        assert_counts(1, 0);
        is_last = taker.n_bytes == LONG;
        trial_go(&taker.trial, true);
    }
    trial_wait(&taker.trial);
    assert_whole(LONG);
    assert_counts(0, 0);
}

TEST(nothing_more_is_read_until_a_piece_is_taken)
{
    static const char *const paths[] = {"/long?3000001",
                                        "/long-chunked?3000001"};

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        taker_init(paths[i]);
        taker.turn = CALL_LATER;
        taker.keeps = i;
        trial_start(&taker.trial);
        take_all_later();
    }
}

TEST(only_what_was_asked_for_is_handed_over)
{
    struct trial t;

    taker_init("/status/404");
    trial_run(&taker.trial);
    assert_int_equal(taker.trial.call.status, 404);
    assert_string_equal(taker.trial.answer, "hi");
    assert_int_equal(taker.n_pieces, 0);

    taker_init("/endless-404");
    trial_run(&taker.trial);
    assert_int_equal(taker.trial.call.status, 404);
    assert_true(taker.trial.call.is_cut);
    assert_int_equal(taker.n_pieces, 0);

    taker_init("/long?0"); /* an empty one is none */
    trial_run(&taker.trial);
    assert_whole(0);
    assert_int_equal(taker.n_pieces, 0);

    trial_get(&t, "/ok"); /* over the same connection */
    assert_string_equal(t.answer, "hello");
}

TEST(no_more_is_taken_than_its_limit)
{
    static const char *const longer[] = {
        "/long?3000002", "/long-chunked?3000002", "/endless-body"};

    for (size_t i = 0; i < sizeof(longer) / sizeof(longer[0]); i++) {
        taker_init(longer[i]);
        trial_run(&taker.trial);
        assert_outcome(&taker.trial, CALL_ANSWERED, "");
        assert_true(taker.trial.call.is_cut);
        assert_string_equal(taker.trial.answer, "");
        assert_true(taker.n_bytes <= LONG);
        if (i == 0)
            assert_int_equal(taker.n_pieces, 0); /* its head says so */
        odd_await_least(&odd, &odd.n_left, (unsigned)i + 1);
    }
    taker_init("/long-chunked?7");
    taker.trial.call.max_taken = 6;
    trial_run(&taker.trial);
    assert_true(taker.trial.call.is_cut);
}

TEST(an_answer_that_fails_is_no_answer)
{
    static const char *const paths[] = {"/short", "/reset-in-body"};

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        taker_init(paths[i]);
        trial_run(&taker.trial);
        assert_int_equal(taker.trial.call.failure, CALL_BROKEN);
        assert_int_equal(taker.trial.call.status, 0);
    }
}

/* Content codings */

static void
get_coded(const char *path, bool takes)
{
    taker_init(path);
    taker.trial.call.undoes_coding = true;
    taker.trial.call.max_answer = sizeof(taker.trial.answer) - 1;
    if (!takes)
        taker.trial.call.take = NULL;
    trial_run(&taker.trial);
}

/* One step of the inflation may fill a piece, and must fit into it. */
TEST(a_coded_answer_that_inflates_far_comes_in_pieces)
{
    static const char *const paths[] = {"/gzip?3000001", "/deflate?3000001",
                                        "/gzip-chunked?3000001"};

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        get_coded(paths[i], true);
        assert_whole(LONG);
        assert_true(taker.trial.call.is_coded);
        taker_init(paths[i]);
        taker.trial.call.undoes_coding = true;
        taker.turn = CALL_LATER;
        taker.keeps = true;
        trial_start(&taker.trial);
        take_all_later();
    }
    assert_true(odd_was_sent(&odd, "GET /ok "));
}

TEST(a_coding_is_undone_where_the_call_asks_for_it)
{
    static const struct {
        const char *path;
        enum call_failure failure;
        const char *why;
    } rows[] = {
        {"/bad-gzip", CALL_BROKEN, "cannot be undone"},
        {"/short-gzip", CALL_BROKEN, "cannot be undone"},
        {"/two-codings", CALL_BROKEN, "several"},
        {"/empty-gzip", CALL_ANSWERED, ""},
        {"/br?100", CALL_BROKEN, "\"br\" is unknown"},
        {"/gzip?100", CALL_ANSWERED, ""},
        {"/ok", CALL_ANSWERED, ""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (int takes = 0; takes < 2; takes++) {
            get_coded(rows[i].path, takes);
            assert_outcome(&taker.trial, rows[i].failure, rows[i].why);
            assert_true(
                odd_was_sent(&odd, "\r\nAccept-Encoding: identity\r\n"));
        }
    get_coded("/gzip?100", false);
    assert_int_equal(strlen(taker.trial.answer), 100);
    assert_int_equal(taker.trial.answer[99], odd_byte(99));
    assert_true(taker.trial.call.is_coded);

    get_coded("/gzip?100000", false); /* longer than it may be */
    assert_true(taker.trial.call.is_cut);
    get_coded("/gzip?3000002", true);
    assert_true(taker.trial.call.is_cut);
    trial_get(&taker.trial, "/gzip?100"); /* unasked */
    assert_int_equal(taker.trial.answer[0], '\x1f');
    assert_false(taker.trial.call.is_coded);
}

/* Giving up */

enum way { BY_WHAT_IT_SAYS, BY_CANCEL, BY_GO, BY_CANCEL_LATER, WAYS };

static void
give_up(enum way way)
{
    struct trial t;

    taker_init("/endless-body");
    taker.trial.call.max_taken = UINT64_MAX;
    taker.turn = way == BY_WHAT_IT_SAYS ? CALL_NOT : CALL_LATER;
    taker.cancels = way == BY_CANCEL;
    trial_start(&taker.trial);
    called_wait(&taken);
    if (way == BY_GO)
        trial_go(&taker.trial, false);
    if (way == BY_CANCEL_LATER)
        trial_cancel(&taker.trial);
    odd_await(&odd, &odd.n_left, way + 1); /* its connection is closed */
    assert_int_equal(taker.n_pieces, 1);
    trial_go(&taker.trial, true); /* too late, and harmless */

    trial_get(&t, "/ok");
    assert_string_equal(t.answer, "hello");
    assert_false(trial_is_done(&taker.trial));
    assert_counts(0, 0);
}

TEST(a_call_is_given_up_where_its_piece_is_taken)
{
    for (enum way way = 0; way < WAYS; way++) {
        give_up(way);

        /* Its connection serves the next call. */
        taker_init("/long?3000001");
        trial_run(&taker.trial);
        assert_whole(LONG);
    }
}

/* Time */

/* W-057: also while the user has a piece; but the user learns of it when he has
 * taken the piece.
 */
TEST(the_deadline_is_one_of_all_pieces)
{
    taker_init("/trickling-body");
    taker.trial.call.timeout_us = 100000;
    clock_run_us(2, ODD_PACE_US);
    trial_run(&taker.trial);
    clock_run_us(0, 0);
    assert_outcome(&taker.trial, CALL_TIMEOUT, "no whole answer within 100 ms");

    taker_init("/endless-body");
    taker.turn = CALL_LATER;
    taker.trial.call.max_taken = UINT64_MAX;
    taker.trial.call.timeout_us = 5000000;
    trial_start(&taker.trial);
    called_wait(&taken);
    clock_pass_us(4999000);
    assert_counts(1, 0); /* the caller has looked at the time */
    assert_int_equal(odd_count(&odd, &odd.n_left), 1);
    clock_await_us(1000);
    clock_pass_us(1000);
    odd_await(&odd, &odd.n_left, 2); /* closed, whatever the user does */
    assert_counts(1, 0);
    assert_false(trial_is_done(&taker.trial));
    trial_go(&taker.trial, true);
    trial_wait(&taker.trial);
    assert_outcome(&taker.trial, CALL_TIMEOUT,
                   "no whole answer within 5000 ms");
}

TEST(silence_ends_a_call_that_has_time)
{
    static const char *const paths[] = {"/hang", "/hang-in-body"};

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        taker_init(paths[i]);
        taker.trial.call.stall_us = 150000;
        trial_start(&taker.trial);
        odd_await(&odd, &odd.n_requests, (unsigned)i + 1);
        clock_run_us(1, 150000);
        trial_wait(&taker.trial);
        clock_run_us(0, 0);
        assert_outcome(&taker.trial, CALL_TIMEOUT,
                       "no byte of an answer within 150 ms");
        odd_await(&odd, &odd.n_left, (unsigned)i + 1);
    }
}

/* In all it takes longer than what no byte may take. */
TEST(a_slow_answer_is_not_silent)
{
    taker_init("/paced?60");
    taker.trial.call.stall_us = 100000;
    clock_run_us(2, ODD_PACE_US);
    trial_run(&taker.trial);
    clock_run_us(0, 0);
    assert_whole(60);
    assert_true(taker.trial.call.took_us > taker.trial.call.stall_us);
}

static void
on_alarm(struct alarm *alarm)
{
    (void)alarm;
    caller_go(called.caller, &taker.trial.call, true);
}

static enum call_turn
take_slowly(struct call *call, struct buf *piece)
{
    look(buf_slice(piece));
    if (taker.n_pieces > 1)
        return CALL_READY;
    taker.alarm.ring = on_alarm;
    caller_set_alarm(called.caller, &taker.alarm,
                     clock_steady_us() + 3 * call->stall_us / 2);
    sem_post(&taken);
    return CALL_LATER;
}

TEST(what_the_user_takes_is_no_silence)
{
    taker_init("/long?3000001");
    taker.trial.call.stall_us = 5000000;
    taker.trial.call.take = take_slowly;
    trial_start(&taker.trial);
    called_wait(&taken);
    clock_await_us(7500000);
    clock_pass_us(7500000);
    trial_wait(&taker.trial);
    assert_whole(LONG);
}

/* The end of the thread */

TEST(the_thread_ends_while_pieces_are_taken)
{
    taker_init("/endless-body");
    taker.turn = CALL_LATER;
    taker.keeps = true;
    taker.trial.call.max_taken = UINT64_MAX;
    trial_start(&taker.trial);
    called_wait(&taken);
    called_close();

    assert_false(trial_is_done(&taker.trial));
    assert_int_equal(taker.kept.size, taker.n_bytes); /* still the taker's */
    assert_int_equal(taker.kept.data[0], 'x');
}

/* TLS */

/* TLS holds bytes that the socket does not report. */
TEST(pieces_come_over_tls)
{
    struct called_tls s;
    char *bytes = malloc(LONG);

    for (uint64_t i = 0; i < LONG; i++)
        bytes[i] = odd_byte(i);
    s.text = (struct slice){bytes, LONG};
    called_tls_open(&s, NULL);
    called_close();
    setenv("SSL_CERT_FILE", s.certificate.ca, 1);
    called_open(4, 4, LOOPBACK);
    for (int later = 0; later < 2; later++) {
        taker_init("/");
        snprintf(taker.trial.url, sizeof(taker.trial.url),
                 "https://127.0.0.1:%u/", s.port);
        taker.turn = later ? CALL_LATER : CALL_READY;
        trial_start(&taker.trial);
        if (later)
            take_all_later();
        else
            trial_wait(&taker.trial);
        assert_whole(LONG);
    }
    unsetenv("SSL_CERT_FILE");
    called_close();
    called_tls_close(&s);
    free(bytes);
}
