/* Names, with a resolver that lies or hangs: this file replaces it. */
#include <dlfcn.h>
#include <netdb.h>

#include "broker/base/lookup.h"
#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/calls/called.h"

/* The addresses of a name, one answer after the other; the last one stays. */
static struct name {
    const char *name;
    const char *addresses[3][3]; /* of an answer, NULL at the end */
    atomic_uint n_asked;
} names[] = {
    {.name = "inside.test", .addresses = {{"10.0.0.1"}}},
    {.name = "mapped.test", .addresses = {{"::ffff:10.0.0.1"}}},
    {.name = "metadata.test", .addresses = {{"169.254.169.254", "fe80::1"}}},
    {.name = "mixed.test", .addresses = {{"10.0.0.1", "127.0.0.1"}}},
    {.name = "good.test", .addresses = {{"127.0.0.1"}}},
    {.name = "xn--bcher-kva.test", .addresses = {{"127.0.0.1"}}},
    {.name = "turned.test", .addresses = {{"127.0.0.1"}, {"10.0.0.1"}}},
};

static sem_t slow_is_asked, slow_may_go_on, slow_has_gone;

typedef int resolve(const char *, const char *, const struct addrinfo *,
                    struct addrinfo **);

static bool is_replaced; /* set before there are threads */

static resolve *
real_resolve(void)
{
    resolve *real = NULL;

    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    return real;
}

static int
add_address(const char *address, const char *service,
            const struct addrinfo *hints, struct addrinfo **all)
{
    struct addrinfo numeric = *hints, *one = NULL;
    int rc;

    numeric.ai_family = AF_UNSPEC;
    numeric.ai_flags = AI_NUMERICHOST;
    rc = real_resolve()(address, service, &numeric, &one);
    while (*all)
        all = &(*all)->ai_next;
    *all = one;
    return rc;
}

/* Stands before the C library's: the threads of lookup.c come here. */
int
getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
            struct addrinfo **all)
{
    struct name *name = NULL;
    unsigned n;

    if (!is_replaced || hints->ai_flags & AI_NUMERICHOST)
        return real_resolve()(node, service, hints, all);
    *all = NULL;
    if (!strncmp(node, "slow", 4)) {
        sem_post(&slow_is_asked);
        called_wait(&slow_may_go_on);
        sem_post(&slow_has_gone);
        return EAI_AGAIN;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!strcmp(names[i].name, node))
            name = &names[i];
    if (!name)
        return EAI_NONAME;
    n = atomic_fetch_add(&name->n_asked, 1);
    while (n > 0 && (n > 2 || !name->addresses[n][0]))
        n--;
    for (size_t i = 0; name->addresses[n][i]; i++)
        if (add_address(name->addresses[n][i], service, hints, all))
            return EAI_FAIL;
    return 0;
}

static int
setup(void **state)
{
    is_replaced = true;
    sem_init(&slow_is_asked, 0, 0);
    sem_init(&slow_may_go_on, 0, 0);
    sem_init(&slow_has_gone, 0, 0);
    called_setup(state);
    called_open(4, 4, "127.0.0.0/8");
    return 0;
}

static struct name *
name_of(const char *text)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!strcmp(names[i].name, text))
            return &names[i];
    fail();
    return NULL;
}

static void
get(struct trial *t, const char *host, const char *path)
{
    trial_init(t, "http://%s:%u%s", host, odd.port, path);
    trial_run(t);
}

FIXTURE(setup, called_teardown);

/* W-160: the address that a name leads to counts. */
TEST(names_of_refused_addresses_are_refused)
{
    static const char *const hosts[] = {"inside.test", "mapped.test",
                                        "metadata.test"};
    struct trial t;

    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        get(&t, hosts[i], "/ok");
        assert_int_equal(t.call.failure, CALL_REFUSED);
        assert_non_null(strstr(t.call.why, "may not be called"));
    }
    get(&t, "unknown.test", "/ok");
    assert_outcome(&t, CALL_UNRESOLVED, "no address");
}

TEST(of_several_addresses_one_that_is_allowed_is_called)
{
    struct trial t;

    get(&t, "good.test", "/ok");
    assert_int_equal(t.call.status, 200);
    get(&t, "mixed.test", "/ok");
    assert_int_equal(t.call.status, 200);
}

TEST(a_connection_to_a_name_is_kept)
{
    struct trial t;
    char host[64];

    snprintf(host, sizeof(host), "\r\nHost: good.test:%u\r\n", odd.port);
    get(&t, "good.test", "/ok");
    assert_int_equal(t.call.status, 200);
    get(&t, "GOOD.test", "/ok");
    assert_int_equal(t.call.status, 200);
    assert_true(odd_was_sent(&odd, host));
    assert_int_equal(odd_count(&odd, &odd.n_connections), 1);
}

TEST(a_name_beyond_ascii_is_looked_up_as_it_is_registered)
{
    static const char *const hosts[] = {"b\u00fccher.test", "B%C3%BCcher.test",
                                        "xn--bcher-kva.test"};
    struct trial t;

    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        get(&t, hosts[i], "/ok");
        assert_int_equal(t.call.status, 200);
        assert_true(odd_was_sent(&odd, "\r\nHost: xn--bcher-kva.test:"));
    }
    assert_int_equal(odd_count(&odd, &odd.n_connections), 1);
    get(&t, "127.0.0.%31", "/ok");
    assert_int_equal(t.call.failure, CALL_REFUSED);
}

/* W-160: no second look-up between the judgement and the connection; and a name
 * that is looked up later is judged again. */
TEST(a_name_that_turns_inside_is_not_followed)
{
    struct name *turned = name_of("turned.test");
    struct trial t;

    get(&t, "turned.test", "/closed");
    assert_int_equal(t.call.status, 200);
    assert_int_equal(turned->n_asked, 1);

    clock_pass_us(61000000); /* so long the answer was believed */
    get(&t, "turned.test", "/ok");
    assert_int_equal(t.call.failure, CALL_REFUSED);
    assert_int_equal(turned->n_asked, 2);
}

/* W-057, W-092: a resolver that hangs holds up neither the others, nor the call
 * beyond its deadline, nor the end. */
TEST(a_resolver_that_hangs_holds_up_nobody)
{
    struct trial slow, cancelled, cut, t;

    trial_init(&slow, "http://slow.test:%u/ok", odd.port);
    trial_init(&cancelled, "%s", slow.url);
    trial_init(&cut, "%s", slow.url);
    slow.call.timeout_us = 2000000;
    trial_start(&slow);
    trial_start(&cancelled);
    trial_start(&cut);
    get(&t, "good.test", "/ok");
    assert_int_equal(t.call.status, 200);
    clock_run_us(1, 2000000);
    trial_wait(&slow);
    clock_run_us(0, 0);
    assert_in_range(slow.call.took_us, 2000000, 2250000);
    assert_int_equal(slow.call.failure, CALL_TIMEOUT);
    assert_string_equal(slow.call.why, "no connection within 2000 ms");
    trial_cancel(&cancelled);
    get(&t, "good.test", "/ok");
    assert_int_equal(t.call.status, 200);
    called_close();

    sem_post(&slow_may_go_on); /* one question for the three, left behind */
    called_wait(&slow_has_gone);
    assert_int_equal(cancelled.place + cut.place, 0);
}

/* The look-ups alone */

static sem_t woken;

static void
on_answers(void *user)
{
    (void)user;
    sem_post(&woken);
}

/* W-092: names of strangers leave half of the threads to the others. */
TEST(doubtful_names_that_hang_leave_room)
{
    static struct lookup slow[LOOKUP_THREADS_MAX];
    const unsigned half = LOOKUP_THREADS_MAX / 2;
    struct lookup_wish wish = {.is_doubtful = true};
    struct lookup_box box;
    struct lookup good;
    char host[64];

    sem_init(&woken, 0, 0);
    lookup_box_init(&box, on_answers, NULL);
    lookup_init(&good);
    wish.host = host;
    for (unsigned i = 0; i < LOOKUP_THREADS_MAX; i++) {
        lookup_init(&slow[i]);
        snprintf(host, sizeof(host), "slow-%u.test", i);
        assert_false(lookup_begin(&slow[i], &box, &wish));
    }
    for (unsigned i = 0; i < half; i++)
        called_wait(&slow_is_asked);
    assert_int_equal(sem_trywait(&slow_is_asked), -1);

    strcpy(host, "good.test");
    wish.is_doubtful = false;
    assert_false(lookup_begin(&good, &box, &wish));
    called_wait(&woken);
    assert_ptr_equal(lookup_take(&box), &good);
    assert_int_equal(good.answer.n, 1);
    assert_null(lookup_take(&box));

    for (unsigned i = half; i < LOOKUP_THREADS_MAX; i++)
        lookup_cancel(&slow[i]); /* these are asked for no more */
    for (unsigned i = 0; i < half; i++)
        sem_post(&slow_may_go_on);
    for (unsigned i = 0; i < half; i++) {
        struct lookup *l;

        while (!(l = lookup_take(&box)))
            called_wait(&woken);
        assert_int_equal(l->answer.error, EAI_AGAIN);
    }
    assert_int_equal(sem_trywait(&slow_is_asked), -1);
}

TEST(an_answer_is_kept_for_those_who_accept_its_age)
{
    struct name *name = name_of("good.test");
    struct lookup_wish wish = {.host = "good.test", .max_age_us = 60000000};
    unsigned n_asked = name->n_asked;
    struct lookup_box box;
    struct lookup l;

    sem_init(&woken, 0, 0);
    lookup_box_init(&box, on_answers, NULL);
    lookup_init(&l);
    for (unsigned i = 0; i < 2; i++) {
        clock_pass_us(60000001);
        assert_false(lookup_begin(&l, &box, &wish));
        called_wait(&woken);
        assert_ptr_equal(lookup_take(&box), &l);
        assert_null(lookup_take(&box));
        assert_true(lookup_begin(&l, &box, &wish));
        clock_pass_us(60000000);
        assert_true(lookup_begin(&l, &box, &wish));
        assert_int_equal(name->n_asked, n_asked + i + 1);
    }
    wish.host = "127.0.0.1";
    assert_true(lookup_begin(&l, &box, &wish));
    lookup_cancel(&l);
}
