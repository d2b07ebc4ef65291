#include "tests/support/channel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/readers/message.h"
#include "broker/sets/framework_events.h"
#include "tests/support/schema.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

/* An empty post to the framework log comes after the events of all posts that
 * were answered. */
uint64_t
channel_last(struct sets *s)
{
    struct post nothing = {
        .kind = POST_CLOSE,
        .set = s->registry->framework->log,
        .list = UINT64_MAX,
    };
    struct head head;

    assert_int_equal(log_post_and_wait(s->registry->log, &nothing, NULL),
                     STATUS_OK);
    assert_true(log_head(s->registry->framework->log, &head));
    return head.last;
}

void
channel_add(struct sets *s, const struct event *event, unsigned n)
{
    char tag[sizeof(CHANNEL_TAG_SET) + SET_NAME_MAX] = CHANNEL_TAG_SOURCE;
    struct set *noted = event->set ? event->set : s->registry->framework;
    struct fragment *fragments = calloc(n, sizeof(*fragments));
    struct post post = {
        .kind = POST_CHANGES,
        .set = s->registry->framework->log,
        .fragments = fragments,
        .n_fragments = n,
    };
    struct change change;

    if (event->set)
        snprintf(tag, sizeof(tag), CHANNEL_TAG_SET "%s", event->set->name);
    change_init(&change);
    change.loc = event->loc;
    change.kind = event->change;
    change.capability = slice_of(capability_names[event->capability]);
    change.tags = slice_of(tag);
    buf_init(&post.bytes, SIZE_MAX);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(
            fragment_write(&post.bytes, &change, &fragments[i], NULL),
            STATUS_OK);
    assert_int_equal(log_post_and_wait(s->registry->log, &post, NULL),
                     STATUS_OK);
    atomic_store(&noted->last_event, post.last);
    buf_fini(&post.bytes);
    free(fragments);
}

static const char *
get(struct xpath *x, size_t i, const char *what)
{
    char question[120];

    snprintf(question, sizeof(question), "string(/s:urlset/s:url[%zu]/%s)", i,
             what);
    return xpath_get(x, question);
}

/* The path of a URL, behind the host. */
static const char *
path_of(const char *url)
{
    const char *host = strstr(url, "://");
    const char *path = host ? strchr(host + 3, '/') : NULL;

    return path ? path : url;
}

void
channel_lines(struct buf *to, struct slice message)
{
    struct xpath x;

    assert_valid(message);
    xpath_open(&x, message);
    assert_xpath_count(
        &x, "/s:urlset/rs:md[@capability='framework-notification']", 1);
    for (size_t i = 1; i <= xpath_count(&x, "/s:urlset/s:url"); i++) {
        const char *index = get(&x, i, "rs:ln[@rel='index']/@href");

        buf_add_format(to, "%s %s %s%s%s\n", get(&x, i, "rs:md/@change"),
                       get(&x, i, "rs:md/@capability"),
                       path_of(get(&x, i, "s:loc")), *index ? " < " : "",
                       path_of(index));
    }
    xpath_close(&x);
}

void
channel_read(struct sets *s, struct set *set, uint64_t after, struct buf *lines)
{
    struct message_wish wish = {
        .set = set,
        .form = MESSAGE_XML,
        .upto = channel_last(s),
        .max_bytes = (size_t)1 << 24,
        .patience = LOG_DISK,
        .is_framework = true,
    };
    struct buf message;

    buf_init(&message, SIZE_MAX);
    while (after < wish.upto) {
        wish.after = after;
        buf_clear(&message);
        assert_int_equal(message_write(&message, &wish, &after, NULL),
                         STATUS_OK);
        channel_lines(lines, buf_slice(&message));
    }
    buf_fini(&message);
}

void
channel_assert(struct sets *s, struct set *set, uint64_t after,
               const char *lines, const char *file, int line)
{
    struct buf found;

    buf_init(&found, SIZE_MAX);
    channel_read(s, set, after, &found);
    if (!slice_is(buf_slice(&found), lines)) {
        print_message("found:\n%.*swanted:\n%s", (int)found.size, found.data,
                      lines);
        _fail(file, line);
    }
    buf_fini(&found);
}
