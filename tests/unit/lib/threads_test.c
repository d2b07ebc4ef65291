/*
 * threads_test.c - handles share nothing: each on a thread of its own, from the
 * first td_open of the process on. ThreadSanitizer makes it a proof.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "client/tidings.h"
#include "tests/support/site.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define THREADS 4
#define ROUNDS  5

struct user {
    pthread_t thread;
    const char *url; /* of a Capability List */
    const char *set; /* that takes no posts */
    char file[300];  /* for positions */
    char fault[300]; /* "": all went as it should */
};

static int
on_message(const struct td_message *message, void *user)
{
    (void)message;
    (void)user;
    return 0;
}

/* XML, JSON, HTTP, a database and files: all that libtidings stands on. */
static const char *
use(struct td_client *client, const struct user *u)
{
    static const char change[] =
        "{\"loc\":\"http://example.com/a\",\"change\":\"updated\"}";
    struct td_follow_options how = {.after = "0", .until_caught_up = 1};
    char position[TD_POSITION_SIZE];
    struct td_publisher *publisher;

    if (td_position_write(client, u->file, "0123456789abcdef-1") ||
        td_position_read(client, u->file, position) ||
        strcmp(position, "0123456789abcdef-1"))
        return "the position";
    if (td_follow(client, u->url, &how, on_message, NULL) != TD_GONE ||
        !strstr(td_problem(client), "does not have the whole"))
        return "following";
    if (td_publisher_open(client, u->set, NULL, &publisher) ||
        td_publisher_add(publisher, change, sizeof(change) - 1, NULL) ||
        td_publisher_flush(publisher) != TD_REFUSED)
        return "publishing";
    return NULL;
}

static void *
run(void *user)
{
    struct user *u = user;

    for (int i = 0; i < ROUNDS && !u->fault[0]; i++) {
        struct td_client *client = td_open();
        const char *fault = client ? use(client, u) : "td_open";

        if (fault)
            snprintf(u->fault, sizeof(u->fault), "%s: %s", fault,
                     client ? td_problem(client) : "");
        td_close(client);
    }
    return NULL;
}

TEST(handles_of_several_threads_share_nothing)
{
    struct site *site = site_new();
    struct user users[THREADS];
    struct tempdir dir;

    tempdir_open(&dir);
    site_putf(site, "/list.xml", "application/xml",
              "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\" "
              "xmlns:rs=\"http://www.openarchives.org/rs/terms/\">"
              "<rs:md capability=\"changelist\" "
              "from=\"2026-01-01T00:00:00Z\"/>"
              "</urlset>");
    site_putf(site, "/capabilitylist.xml", "application/xml",
              "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\" "
              "xmlns:rs=\"http://www.openarchives.org/rs/terms/\">"
              "<rs:md capability=\"capabilitylist\"/><url><loc>%s/list.xml"
              "</loc><rs:md capability=\"changelist\"/></url></urlset>",
              site_url(site));
    for (size_t i = 0; i < THREADS; i++) {
        users[i] = (struct user){
            .url = site_link(site, "/capabilitylist.xml"),
            .set = site_link(site, "/sets/none"),
        };
        snprintf(users[i].file, sizeof(users[i].file), "%s/%zu", dir.path, i);
    }
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&users[i].thread, NULL, run, &users[i]),
                         0);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(users[i].thread, NULL), 0);
    for (size_t i = 0; i < THREADS; i++)
        assert_string_equal(users[i].fault, "");
    site_free(site);
    tempdir_close(&dir);
}

static void *
stop(void *user)
{
    td_stop(user);
    return NULL;
}

/* td_stop is the one call that another thread may make. */
TEST(another_thread_may_stop_it)
{
    struct site *site = site_new();
    struct td_client *client = td_open();

    assert_non_null(client);
    site_hold(site, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, stop, client), 0);
        assert_int_equal(td_follow(client, site_link(site, "/sets/a"), NULL,
                                   on_message, NULL),
                         TD_STOPPED);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    td_close(client);
    site_free(site);
}
