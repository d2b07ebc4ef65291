/*
 * host_places_test.c - how many requests of a handle a host gets, and when.
 */
#include "client/lib/host_places.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "client/lib/host_name.h"
#include "tests/clock.h"
#include "tests/test.h"

#define A "http://a.example/x"
#define B "http://b.example/x"

static struct {
    int stop_fd;
    struct handle_loop *loop;
    struct host_places places;
    struct host_place requests[8];
    char turns[32]; /* the numbers of requests whose turn came, in order */
} s;

static void
on_turn(void *user)
{
    struct host_place *place = user;
    size_t n = strlen(s.turns);

    s.turns[n] = (char)('0' + (place - s.requests));
    s.turns[n + 1] = '\0';
}

static int
set_stage(void **state)
{
    (void)state;
    memset(&s, 0, sizeof(s));
    s.stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    s.loop = handle_loop_new(s.stop_fd);
    host_places_init(&s.places, s.loop);
    host_places_set(&s.places, 2);
    return 0;
}

static int
clear_stage(void **state)
{
    (void)state;
    for (size_t i = 0; i < 8; i++)
        host_place_return(&s.places, &s.requests[i]);
    host_places_fini(&s.places);
    handle_loop_free(s.loop);
    close(s.stop_fd);
    return 0;
}

FIXTURE(set_stage, clear_stage);

static bool
ask(int n, enum host_place_kind kind, const char *url)
{
    struct host_place *place = &s.requests[n];

    place->kind = kind;
    place->on_turn = on_turn;
    place->user = place;
    return host_place_ask(&s.places, place, url);
}

static void
end(int n)
{
    host_place_return(&s.places, &s.requests[n]);
}

/* Returns the requests whose turn has come since the beginning. */
static const char *
turns(void)
{
    for (int i = 0; i < 10; i++)
        assert_int_equal(handle_loop_service(s.loop), STATUS_OK);
    return s.turns;
}

static const char *
turns_after_ms(int64_t ms)
{
    clock_pass_us(ms * 1000);
    return turns();
}

TEST(a_host_gets_so_many_requests_and_other_hosts_as_many)
{
    assert_true(ask(0, HOST_PLACE_DOCUMENT, A));
    assert_true(ask(1, HOST_PLACE_FILE, A "?y"));
    assert_false(ask(2, HOST_PLACE_DOCUMENT, "HTTP://A.example:80/z"));
    assert_false(ask(3, HOST_PLACE_DOCUMENT, A));
    assert_true(ask(4, HOST_PLACE_DOCUMENT, B));
    assert_string_equal(turns(), "");

    end(1);
    assert_string_equal(turns(), "2");
    end(2);
    assert_string_equal(turns(), "23");
}

TEST(one_that_waits_may_go_and_counts_no_more)
{
    ask(0, HOST_PLACE_DOCUMENT, A);
    ask(1, HOST_PLACE_DOCUMENT, A);
    ask(2, HOST_PLACE_DOCUMENT, A);
    ask(3, HOST_PLACE_DOCUMENT, A);
    end(2);
    end(2);
    end(0);
    assert_string_equal(turns(), "3");
    assert_false(ask(0, HOST_PLACE_DOCUMENT, A));
}

/* Nobody passes one that waits, not even between two turns of the loop. */
TEST(requests_get_their_turn_in_order)
{
    ask(0, HOST_PLACE_DOCUMENT, A);
    ask(1, HOST_PLACE_DOCUMENT, A);
    ask(2, HOST_PLACE_DOCUMENT, A);
    end(0);
    assert_false(ask(3, HOST_PLACE_DOCUMENT, A));
    end(1);
    assert_string_equal(turns(), "23");
}

TEST(files_wait_for_all_others)
{
    ask(0, HOST_PLACE_FILE, A);
    ask(1, HOST_PLACE_FILE, A);
    ask(2, HOST_PLACE_FILE, A);
    ask(3, HOST_PLACE_DOCUMENT, A);
    end(0);
    assert_string_equal(turns(), "3");
    end(1);
    assert_string_equal(turns(), "32");
}

TEST(long_files_keep_no_document_waiting_for_ever)
{
    ask(0, HOST_PLACE_FILE, A);
    ask(1, HOST_PLACE_FILE, A);
    ask(2, HOST_PLACE_DOCUMENT, A);
    ask(3, HOST_PLACE_DOCUMENT, A);
    assert_string_equal(turns_after_ms(DOCUMENT_PATIENCE_MS - 1), "");
    assert_string_equal(turns_after_ms(1), "2");
    assert_string_equal(turns_after_ms(DOCUMENT_PATIENCE_MS), "2");
    end(2);
    assert_string_equal(turns(), "23");
}

/* Else what the user waits for would wait for the place. */
TEST(one_that_is_held_back_gives_its_place)
{
    ask(0, HOST_PLACE_DOCUMENT, A);
    ask(1, HOST_PLACE_DOCUMENT, A);
    ask(2, HOST_PLACE_FILE, A);
    ask(3, HOST_PLACE_DOCUMENT, A);
    host_place_hold(&s.places, &s.requests[3], true);
    host_place_hold(&s.places, &s.requests[0], true);
    assert_string_equal(turns(), "2");
    host_place_hold(&s.places, &s.requests[0], false); /* three for now */
    end(2);
    assert_string_equal(turns(), "2");
    end(1);
    host_place_hold(&s.places, &s.requests[3], false);
    assert_string_equal(turns(), "23");
}

/* All requests, streams too, begin when the pause of their host is over. */
TEST(a_host_is_left_alone_as_long_as_it_asks)
{
    unsigned status = 0;

    ask(0, HOST_PLACE_DOCUMENT, A);
    host_places_pause(&s.places, A, 429, 5);
    host_places_pause(&s.places, A, 503, 3);
    end(0);
    assert_false(ask(1, HOST_PLACE_STREAM, A));
    assert_false(ask(2, HOST_PLACE_FILE, A));
    assert_false(ask(3, HOST_PLACE_DOCUMENT, A));
    assert_true(ask(4, HOST_PLACE_DOCUMENT, B));
    assert_string_equal(turns_after_ms(4999), "");
    assert_int_equal(host_places_pause_s(&s.places, A, &status), 0);
    assert_string_equal(turns_after_ms(1), "132");
}

TEST(who_would_wait_for_long_is_told_at_once)
{
    unsigned status = 0;

    host_places_pause(&s.places, A, 429, 100000);
    assert_false(ask(0, HOST_PLACE_DOCUMENT, A));
    assert_string_equal(turns(), "0");
    assert_int_equal(host_places_pause_s(&s.places, A, &status), 3600);
    assert_int_equal(status, 429);
    assert_int_equal(host_places_pause_s(&s.places, B, &status), 0);
    end(0);
    assert_string_equal(turns_after_ms(3600 * 1000), "0");
    assert_true(ask(0, HOST_PLACE_DOCUMENT, A));
}

TEST(streams_need_no_place)
{
    for (int i = 0; i < 4; i++)
        assert_true(ask(i, HOST_PLACE_STREAM, A));
    assert_true(ask(4, HOST_PLACE_DOCUMENT, A));
    assert_true(ask(5, HOST_PLACE_FILE, A));
    assert_false(ask(6, HOST_PLACE_FILE, A));
}

/* libcurl says what is wrong with it. */
TEST(an_address_without_a_host_waits_for_nothing)
{
    for (int i = 0; i < 4; i++)
        assert_true(ask(i, HOST_PLACE_DOCUMENT, "urn:x"));
    assert_false(host_name_read(SLICE("http:///x"), NULL));
}
