#include "broker/sources/foreign_source.h"

#include "base/token_file.h"
#include "broker/base/metrics.h"
#include "broker/sets/peers.h"
#include "broker/sources/document_intake.h"
#include "broker/sources/peer_tokens.h"
#include "proto/http/link_header.h"

#define FETCHES_AT_ONCE 4

/* So many tries of a fetch in all: the second after --hub-retry-first, each
 * later one after twice the pause. Then only the next ping fetches it. */
#define FETCH_TRIES 5

/* Longest validator that is sent back. */
#define VALIDATOR_MAX 1000

/* Appends the URL of the hub that the Source of this target must name. */
static void
write_hub_of(struct buf *to, const struct foreign_sources *f,
             const struct intake_target *target)
{
    if (target->topic)
        buf_add_text(to, target->topic->hub_url);
    else
        buf_add_format(to, "%s/hub", f->topics->registry->options.public_url);
}

/* The table */

/* Clears its alarms, too: the caller links alarms with each other. */
static void
source_free(struct foreign_source *s)
{
    struct caller *caller = s->foreign->topics->caller;

    if (caller) { /* else nothing was begun */
        caller_clear_alarm(caller, &s->forget);
        caller_clear_alarm(caller, &s->retry);
    }
    map_remove(&s->foreign->sources, &s->node);
    list_remove(&s->fetch_node);
    list_remove(&s->fetched_node);
    free(s->url);
    free(s->comparable);
    free(s->believed_hub);
    free(s->etag);
    free(s->last_modified);
    token_header_free(s->head_token);
    token_header_free(s->get_token);
    free(s);
}

static void
on_forget(struct alarm *alarm)
{
    struct foreign_source *s = list_entry(alarm, struct foreign_source, forget);
    int64_t now = clock_steady_us();
    bool is_idle =
        list_is_empty(&s->asking) && !s->is_fetching && !s->is_fetch_wanted &&
        s->fetch_tries == 0 && list_is_empty(&s->fetch_node) &&
        list_is_empty(&s->fetched_node) && list_is_empty(&s->intakes);

    if (is_idle && now - s->used_us >= SOURCE_BELIEVED_US)
        source_free(s);
    else
        caller_set_alarm(s->foreign->topics->caller, &s->forget,
                         now + SOURCE_BELIEVED_US);
}

/* Finds or makes the source of a registered topic, with the URL as it is
 * registered, not as the client spelled it. */
static struct foreign_source *
find_source(struct foreign_sources *foreign, struct slice url,
            const struct intake_target *target)
{
    struct foreign_source *s, *found = NULL;
    struct websub_comparable topic;
    struct slice text = slice_of(websub_comparable(&topic, url));
    uint64_t hash = map_hash(&foreign->sources, text);
    int64_t now = clock_steady_us();
    struct peers *peers;

    map_each_same (s, &foreign->sources, hash, node) {
        if (!strcmp(topic.text, s->comparable))
            found = s;
    }
    if (!found) {
        found = memory_new(1, sizeof(*found));
        peers = target->set ? registry_peers(target->set) : NULL;
        if (target->topic)
            url = slice_of(target->topic->url);
        else if (peers && peers->upstream)
            url = slice_of(peers->upstream);
        found->url = slice_dup(url);
        found->comparable = slice_dup(text);
        peers_unref(peers);
        list_init(&found->fetch_node);
        list_init(&found->fetched_node);
        list_init(&found->asking);
        list_init(&found->intakes);
        found->foreign = foreign;
        map_add(&foreign->sources, &found->node, hash);
        found->forget.ring = on_forget;
        caller_set_alarm(foreign->topics->caller, &found->forget,
                         now + SOURCE_BELIEVED_US);
    }
    found->used_us = now;
    return found;
}

enum status
foreign_source_unknown(struct slice url, struct problem *why)
{
    return problem(why, STATUS_NOT_FOUND,
                   "\"%s\" is no topic that this hub takes in: it is of no "
                   "relay, and no set has it as its upstreamTopic",
                   problem_quote(url).text);
}

/* The answer to HEAD */

/* True if the Source's answer has a link with that rel and that target. */
static bool
has_link(struct slice links, const char *rel, struct slice url)
{
    struct weblink link;
    struct problem ignored = {.text = ""};

    while (weblink_next(&links, &link))
        if (!link.is_of_another && slice_has_word(link.rel, rel) &&
            !websub_check_url(link.target, rel, &ignored) &&
            websub_is_same(link.target, url))
            return true;
    return false;
}

/* A Source that cannot be reached may be reachable later: 502, 504. One
 * that answers, but does not name us, refuses: 403. No memory: 503. */
static unsigned
judge_head(const struct foreign_source *s, struct slice hub,
           struct problem *why)
{
    const struct call *call = &s->head;
    struct slice self;
    size_t n = 0;

    if (call->failure == CALL_MEMORY) {
        problem_memory(why);
        return 503;
    }
    if (call->failure == CALL_TIMEOUT) {
        problem_set(why, "the topic did not answer HEAD in time");
        return 504;
    }
    if (call->failure) {
        problem_set(why, "the topic cannot be asked by HEAD: %s", call->why);
        return call->failure == CALL_REFUSED ? 403 : 502;
    }
    if (call->status < 200 || call->status > 299) {
        problem_set(why, "the topic answers HEAD with %u", call->status);
        return call->status >= 500 ? 502 : 403;
    }
    if (!weblink_find(call->links, "self", &self, &n) || n != 1 ||
        !has_link(call->links, "self", slice_of(s->url))) {
        problem_set(why, "the topic's own answer to HEAD has no Link with "
                         "rel=self that is the topic, and that alone");
        return 403;
    }
    if (!has_link(call->links, "hub", hub)) {
        problem_set(why,
                    "the topic's own answer to HEAD has no Link with rel=hub "
                    "that is %s",
                    problem_quote(hub).text);
        return 403;
    }
    return 200;
}

static void
on_head(struct call *call)
{
    struct foreign_source *s = list_entry(call, struct foreign_source, head);
    struct foreign_sources *f = s->foreign;
    struct command *command;

    list_drain (command, &s->asking, task.node) {
        /* HEAD took a while: the topic may have another owner by now. */
        struct intake_target target = intake_target_of(f, slice_of(s->url));
        enum status rc = STATUS_OK;
        struct buf url = {.max = LINK_URL_MAX + WEBSUB_URL_MAX};

        write_hub_of(&url, f, &target);
        command->http = judge_head(s, buf_slice(&url), &command->why);
        if (command->http == 200) {
            free(s->believed_hub);
            s->believed_hub = slice_dup(buf_slice(&url));
            s->believed_until_us = clock_steady_us() + SOURCE_BELIEVED_US;
        }
        buf_fini(&url);
        if (command->http != 200) {
            metrics_add_label(METRIC_UPSTREAM_FAILURES, UPSTREAM_SOURCE, 1);
            rc = command->http == 503 ? STATUS_MEMORY : STATUS_INVALID;
        } else if (intake_target_is_none(&target)) {
            rc = foreign_source_unknown(slice_of(s->url), &command->why);
            command->http = 403;
        }
        if (rc) {
            command_answer_now(command, rc, NULL);
        } else {
            command->http = 0;
            intake_command(s, &target, command);
        }
    }
}

/* The client whose limits count for calls about a topic: the one that has made
 * its set. NULL: of a relay, or nobody. */
static const struct client *
owner_of(const struct intake_target *target)
{
    return target->set ? set_creator(target->set) : NULL;
}

/* Notifications */

/* Finds the topic of a notification: its only link with rel=self. */
static enum status
read_self(struct slice links, struct slice *self, struct problem *why)
{
    struct weblink link;
    size_t n;

    (void)weblink_find(links, "self", self, &n);
    while (weblink_next(&links, &link))
        ;
    if (links.size > 0)
        return problem(why, STATUS_MALFORMED, "Link: is malformed at \"%s\"",
                       problem_quote(links).text);
    if (n != 1)
        return problem(why, STATUS_MALFORMED,
                       "Link: a notification has one link with rel=self, its "
                       "topic; there are %zu",
                       n);
    return websub_check_url(*self, "Link rel=self", why);
}

/* Finds who takes in the notification, and its Source. After a failure
 * command->http is the status of the answer. */
static enum status
judge_notification(struct foreign_sources *f, struct command *command,
                   struct intake_target *target, struct foreign_source **source,
                   bool *is_believed)
{
    struct problem *why = &command->why;
    struct slice self, other;
    struct buf hub = {.max = LINK_URL_MAX + WEBSUB_URL_MAX};
    enum status rc;

    command->http = 400;
    if (command->body.size == 0)
        return problem(why, STATUS_MALFORMED, "the notification is empty");
    rc = read_self(command->links, &self, why);
    if (rc)
        return rc;
    command->http = 403;
    *target = intake_target_of(f, self);
    if (intake_target_is_none(target))
        return foreign_source_unknown(self, why);
    rc = command_allow(command, RIGHT_PUBLISH, intake_target_name(target), why);
    if (rc)
        return rc;
    command->http = 400;
    write_hub_of(&hub, f, target);
    if (!weblink_find(command->links, "hub", &other, NULL)) {
        rc = problem(why, STATUS_MALFORMED,
                     "Link: a notification has a link with rel=hub; there is "
                     "none");
    } else if (!has_link(command->links, "hub", buf_slice(&hub))) {
        rc = problem(why, STATUS_MALFORMED,
                     "Link: no link with rel=hub is \"%s\", as this hub is "
                     "called here",
                     problem_quote(buf_slice(&hub)).text);
    } else {
        *source = find_source(f, self, target);
        /* It has named us as its hub, not long ago. */
        *is_believed =
            (*source)->believed_hub &&
            clock_steady_us() < (*source)->believed_until_us &&
            websub_is_same(buf_slice(&hub), slice_of((*source)->believed_hub));
    }
    buf_fini(&hub);
    return rc;
}

void
foreign_source_notify(struct foreign_sources *f, struct command *command)
{
    struct intake_target target;
    struct foreign_source *source;
    bool is_believed, is_asked;
    enum status rc =
        judge_notification(f, command, &target, &source, &is_believed);

    if (rc) {
        command_answer_now(command, rc, NULL);
        return;
    }
    command->http = 0;
    if (is_believed) {
        intake_command(source, &target, command);
        return;
    }
    /* Asks the Source by HEAD of its topic. */
    is_asked = !list_is_empty(&source->asking);
    list_append(&source->asking, &command->task.node);
    if (is_asked)
        return;
    token_header_free(source->head_token);
    source->head_token =
        peer_tokens_header(f->config->peer_tokens, source->url);
    source->head_headers[0] = source->head_token;
    source->head = (struct call){
        .method = CALL_HEAD,
        .url = source->url,
        .timeout_us = f->config->hub_timeout_us,
        .max_redirects = SOURCE_REDIRECTS,
        .owner = owner_of(&target),
        .done = on_head,
        .headers = source->head_headers,
    };
    caller_start(f->topics->caller, &source->head);
}

/* Fetches */

static void begin_fetch(struct foreign_source *s);

/* Begins the fetches that may begin. A client leaves room for others. */
static void
begin_waiting(struct foreign_sources *f)
{
    struct foreign_source *s, *other;

    list_walk (s, &f->to_fetch, fetch_node) {
        struct intake_target target = intake_target_of(f, slice_of(s->url));
        const struct client *owner = owner_of(&target);
        unsigned own = 0, rest = FETCHES_AT_ONCE;

        list_walk (other, &f->fetching, fetch_node) {
            own += other->get.owner == owner;
            rest--;
        }
        if (rest > 0 && (!owner || client_leaves_room(own, rest - 1)))
            begin_fetch(s);
    }
}

static void
queue_fetch(struct foreign_source *s)
{
    list_put(&s->foreign->to_fetch, &s->fetch_node);
    begin_waiting(s->foreign);
}

/* True if the body that the validators belong to is what we kept last. Only
 * then may the Source answer that nothing is new. */
static bool
is_newest(const struct foreign_source *s, const struct intake_target *target)
{
    const struct documents_sum *sum;

    if (!target->topic)
        return target->set && s->fetched_into == target->set;
    sum = &target->topic->kept;
    return sum->last > sum->earliest &&
           digest_is_equal(&sum->last_digest, &s->fetched);
}

static char *
copy_validator(struct slice value)
{
    return value.size > 0 && value.size <= VALIDATOR_MAX ? slice_dup(value)
                                                         : NULL;
}

static void
on_retry(struct alarm *alarm)
{
    queue_fetch(list_entry(alarm, struct foreign_source, retry));
}

/* Returns false when the fetch is given up. */
static bool
try_again(struct foreign_source *s)
{
    int64_t wait_us = s->foreign->config->hub_retry.first_us << s->fetch_tries;

    if (++s->fetch_tries >= FETCH_TRIES) {
        s->fetch_tries = 0;
        return false;
    }
    s->retry.ring = on_retry;
    caller_set_alarm(s->foreign->topics->caller, &s->retry,
                     clock_steady_us() + wait_us);
    return true;
}

/* Takes in the answer. STATUS_AGAIN: a later try may succeed. */
static enum status
take_answer(struct foreign_source *s, struct problem *why)
{
    const struct call *call = &s->get;
    struct intake_target target =
        intake_target_of(s->foreign, slice_of(s->url));
    struct slice type = call->content_type;
    enum status rc;

    if (intake_target_is_none(&target) || call->status == 304)
        return STATUS_OK;
    if (call->failure == CALL_REFUSED)
        return problem(why, STATUS_INVALID, "%s", call->why);
    if (call->failure)
        return problem(why, STATUS_AGAIN, "%s", call->why);
    if (call->status != 200)
        return problem(why, call->status >= 500 ? STATUS_AGAIN : STATUS_INVALID,
                       "the answer is %u", call->status);
    if (call->is_cut)
        return problem(why, STATUS_TOO_LARGE,
                       "it has more than %zu bytes (--max-body)",
                       call->max_answer);
    free(s->etag);
    free(s->last_modified);
    s->etag = copy_validator(s->get.etag);
    s->last_modified = copy_validator(s->get.last_modified);
    s->n_fetched++;
    s->fetched = (struct digest){{0}};
    s->fetched_into = NULL;
    if (type.size == 0)
        type = SLICE("application/octet-stream"); /* RFC 9110, 8.3 */
    rc = intake_fetched(s, &target, type, call->answer, why);
    return rc == STATUS_BUSY || rc == STATUS_MEMORY ? STATUS_AGAIN : rc;
}

static void
on_get(struct call *call)
{
    struct foreign_source *s = list_entry(call, struct foreign_source, get);
    struct problem why = {""};
    enum status rc = take_answer(s, &why);
    bool again = false;

    s->is_fetching = false;
    list_remove(&s->fetch_node);
    if (rc == STATUS_AGAIN)
        again = try_again(s);
    else
        s->fetch_tries = 0;
    if (rc && !again) {
        metrics_add_label(METRIC_UPSTREAM_FAILURES, UPSTREAM_FETCH, 1);
        diag(DIAG_WARNING, "hub", "%s is not fetched: %s", s->url, why.text);
    }
    if (s->is_fetch_wanted && !again) {
        s->is_fetch_wanted = false;
        queue_fetch(s);
    }
    begin_waiting(s->foreign);
}

static void
begin_fetch(struct foreign_source *s)
{
    const struct config *config = s->foreign->config;
    const char *const validators[][2] = {
        {"If-None-Match", s->etag},
        {"If-Modified-Since", s->last_modified},
    };
    struct intake_target target =
        intake_target_of(s->foreign, slice_of(s->url));
    size_t n = 0;

    list_remove(&s->fetch_node);
    if (intake_target_is_none(&target)) { /* removed meanwhile */
        s->fetch_tries = 0;
        s->is_fetch_wanted = false;
        return;
    }
    s->is_fetching = true;
    s->is_fetch_wanted = false;
    list_append(&s->foreign->fetching, &s->fetch_node);
    token_header_free(s->get_token);
    s->get_token = peer_tokens_header(config->peer_tokens, s->url);
    for (size_t i = 0; i < N_ELEMENTS(validators); i++)
        if (validators[i][1] && is_newest(s, &target)) {
            snprintf(s->header[n], sizeof(s->header[n]), "%s: %s",
                     validators[i][0], validators[i][1]);
            s->headers[n] = s->header[n];
            n++;
        }
    if (s->get_token)
        s->headers[n++] = s->get_token;
    s->headers[n] = NULL;
    s->get = (struct call){
        .method = CALL_GET,
        .url = s->url,
        .timeout_us = config->hub_timeout_us,
        .max_answer = (size_t)config->max_body,
        .max_redirects = SOURCE_REDIRECTS,
        .undoes_coding = true,
        .owner = owner_of(&target),
        .done = on_get,
        .headers = s->headers,
    };
    caller_start(s->foreign->topics->caller, &s->get);
}

void
foreign_source_fetch(struct foreign_sources *f, struct slice url)
{
    struct intake_target target = intake_target_of(f, url);
    struct foreign_source *s;

    if (intake_target_is_none(&target))
        return;
    s = find_source(f, url, &target);
    if (s->is_fetching) {
        s->is_fetch_wanted = true;
        return;
    }
    /* A fetch that failed a moment ago is tried now, with all its tries. */
    caller_clear_alarm(f->topics->caller, &s->retry);
    s->fetch_tries = 0;
    queue_fetch(s);
}

static void
on_turn_ended(struct hub_db_hook *hook, bool is_kept)
{
    struct foreign_sources *f = list_entry(hook, struct foreign_sources, hook);
    struct foreign_source *s;

    list_drain (s, &f->fetched, fetched_node) {
        if (!is_kept && !s->is_fetching && !try_again(s))
            diag(DIAG_WARNING, "hub",
                 "%s is not fetched: the broker cannot store the document",
                 s->url);
    }
}

/* Life */

/* At the end: calls were cut, jobs are done. */
static void
free_sources(struct foreign_sources *foreign)
{
    struct problem why = {"the broker is ending"};
    struct foreign_source *s;

    map_walk (s, &foreign->sources, node) {
        struct command *command;

        list_drain (command, &s->asking, task.node)
            command_answer_now(command, STATUS_STOPPED, &why);
        intakes_free(s);
        source_free(s);
    }
}

void
foreign_sources_open(struct foreign_sources *f, struct foreign_topics *topics,
                     struct posts *posts)
{
    *f = (struct foreign_sources){
        .topics = topics, .posts = posts, .config = topics->registry->config};
    list_init(&f->to_fetch);
    list_init(&f->fetching);
    list_init(&f->fetched);
    f->hook.ended = on_turn_ended;
    list_append(&topics->db->hooks, &f->hook.node);
    intake_start(f);
}

void
foreign_sources_end(struct foreign_sources *f)
{
    intake_end(f);
    free_sources(f);
}

void
foreign_sources_close(struct foreign_sources *f)
{
    if (!f->topics)
        return;
    free_sources(f);
    map_fini(&f->sources);
    pthread_cond_destroy(&f->landed);
    pthread_mutex_destroy(&f->mutex);
}
