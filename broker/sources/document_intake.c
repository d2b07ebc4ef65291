#include "broker/sources/document_intake.h"

#include "broker/base/metrics.h"
#include "broker/posts/ingest.h"

/*
 * A document. From begin_next until its job is done the worker owns it, except
 * `landed` and the members below, which the delivery thread owns. The log may
 * finish with it before the worker reports.
 */
struct intake {
    struct list node; /* source->intakes */
    struct foreign_source *source;
    struct intake_target target; /* the relay or set that takes it */
    struct command *command;     /* NULL: it was fetched */
    unsigned n_fetched;          /* if fetched: its number at the source, */
    struct buf copy;             /* and its body */
    struct holding holding;      /* for `copy` */
    char *type;
    struct slice body;
    struct digest digest; /* of the body */
    struct key key;       /* size 0: none */
    struct job job;
    struct ingest *ingest;
    bool is_in_log; /* and has no answer yet */
    enum status status;
    struct problem why;

    struct list landed; /* foreign->committed */
    bool is_begun, is_worked;
};

static void
intake_free(struct intake *in)
{
    ingest_free(in->ingest);
    holding_end(&in->holding);
    buf_fini(&in->copy);
    free(in->type);
    free(in);
}

/* Targets */

struct slice
intake_target_name(const struct intake_target *target)
{
    return slice_of(target->topic ? target->topic->name : target->set->name);
}

struct intake_target
intake_target_of(struct foreign_sources *foreign, struct slice url)
{
    struct intake_target target = {
        .topic = foreign_topic_of_url(foreign->topics, url)};

    if (!target.topic)
        target.set = upstreams_find(&foreign->topics->registry->upstreams, url);
    return target;
}

/* Ending */

static void begin_next(struct foreign_source *source);

static void
end_intake(struct intake *in)
{
    struct foreign_source *s = in->source;

    list_remove(&in->node);
    if (!in->status && in->target.set) {
        s->taken_into = in->target.set;
        s->is_taken_fetched = !in->command;
        s->taken = in->digest;
    }
    if (!in->command && in->n_fetched == s->n_fetched) {
        s->fetched = in->digest;
        s->fetched_into = in->status ? NULL : in->target.set;
    }
    if (in->status)
        metrics_add_label(METRIC_UPSTREAM_FAILURES, UPSTREAM_DOCUMENT, 1);
    if (!in->command) {
        if (in->status)
            diag(DIAG_WARNING, "hub", "the document from %s was refused: %s",
                 s->url, in->why.text);
    } else if (in->target.topic) { /* it waits for the commit of this turn */
        in->command->why = in->why;
        command_end(in->command, in->status, 200);
    } else {
        in->command->http = 200;
        command_answer_now(in->command, in->status, &in->why);
    }
    intake_free(in);
}

/* Coming back from the log */

/* Ends an intake when the log has answered and the worker is done, in either
 * command. */
static void
finish_if_done(struct intake *in)
{
    struct foreign_source *s = in->source;

    if (!in->is_worked || in->is_in_log)
        return;
    end_intake(in);
    begin_next(s);
}

/* Takes the answers of the log thread. */
static void
take_landed(struct task *task)
{
    struct foreign_sources *f = list_entry(task, struct foreign_sources, task);
    struct list landed;
    struct intake *in;

    list_init(&landed);
    pthread_mutex_lock(&f->mutex);
    f->is_posted = false;
    list_move(&landed, &f->committed);
    pthread_mutex_unlock(&f->mutex);
    list_drain (in, &landed, landed) {
        const struct post *post = &in->ingest->post;

        in->status = post->status;
        in->why = post->why;
        in->is_in_log = false;
        finish_if_done(in);
    }
}

/* On the log thread. The hub waits for n_in_log to reach 0 before it ends. */
static void
on_committed(struct ingest *ingest, void *user)
{
    struct intake *in = user;
    struct foreign_sources *f = in->source->foreign;

    (void)ingest;
    pthread_mutex_lock(&f->mutex);
    list_append(&f->committed, &in->landed);
    f->n_in_log--;
    if (!f->is_posted && !f->is_ending) {
        f->is_posted = true;
        caller_post(f->topics->caller, &f->task);
    }
    pthread_cond_signal(&f->landed);
    pthread_mutex_unlock(&f->mutex);
}

static void
count_in_log(struct foreign_sources *f, int more)
{
    pthread_mutex_lock(&f->mutex);
    f->n_in_log += (unsigned)more;
    pthread_cond_signal(&f->landed);
    pthread_mutex_unlock(&f->mutex);
}

/* On a worker. */
static void
read_document(struct job *job)
{
    struct intake *in = list_entry(job, struct intake, job);
    const struct foreign_source *s = in->source;
    struct foreign_sources *f = s->foreign;
    struct problem *why = &in->why;
    char digest[DIGEST_TEXT_SIZE];
    enum status rc;

    digest_sha256(&in->digest, in->body);
    /* The same document may just have come the other way: a Source may post it
     * with a key of its own, and also ping; the fetched document then has
     * another key. (source->taken changes only when the intake at work ends,
     * and this is that intake.) */
    if (!in->target.set || (s->taken_into == in->target.set &&
                            (!in->command || s->is_taken_fetched) &&
                            digest_is_equal(&s->taken, &in->digest)))
        return;
    rc = ingest_begin(&in->ingest, f->posts, slice_of(in->target.set->name),
                      slice_of(in->type), in->body.size, why);
    /* The digest of the body is a key that is nobody's: the hub may have
     * fetched the document as well. No two documents share it, so a repeat is
     * never refused for being different. */
    if (in->key.size == 0) {
        in->key.owner[0] = '\0';
        digest_write(digest, &in->digest);
        memcpy(in->key.text, digest, DIGEST_TEXT_SIZE);
        in->key.size = DIGEST_TEXT_SIZE;
    }
    if (!rc) {
        in->ingest->reader->options.takes_any_capability = true;
        if (in->command)
            ingest_set_authority(in->ingest,
                                 authority_ref(in->command->authority));
        rc = ingest_set_key(in->ingest, &in->key, why);
    }
    if (!rc)
        rc = ingest_feed(in->ingest, in->body, why);
    in->status = rc;
    if (rc)
        return;
    /* Set before ingest_submit: after it the log owns the intake. */
    in->is_in_log = true;
    count_in_log(f, 1);
    rc = ingest_end(in->ingest, on_committed, in, why);
    if (rc) {
        count_in_log(f, -1);
        in->is_in_log = false;
        in->status = rc;
        return;
    }
    log_wake(f->topics->registry->log);
}

/* True if the topic still belongs to the target that it had when the document
 * came, and whoever posted it may still do so. */
static bool
is_wanted(struct intake *in)
{
    struct intake_target now =
        intake_target_of(in->source->foreign, slice_of(in->source->url));

    in->status =
        now.topic == in->target.topic && now.set == in->target.set
            ? authority_check(in->command ? in->command->authority : NULL,
                              clock_now_us(), &in->why)
            : problem(&in->why, STATUS_NOT_FOUND,
                      "the topic was another's meanwhile, or nobody's");
    return !in->status;
}

static void
on_read(struct job *job)
{
    struct intake *in = list_entry(job, struct intake, job);
    struct foreign_source *s = in->source;

    in->is_worked = true;
    if (in->target.topic && is_wanted(in)) {
        in->status =
            foreign_topic_take(in->target.topic, slice_of(in->type), &in->key,
                               in->body, &in->digest, &in->why);
        if (!in->status && !in->command) { /* else nothing would begin the next
                                            one */
            list_put(&s->foreign->fetched, &s->fetched_node);
        }
    }
    finish_if_done(in);
}

/* Begins the next document. When the hub is stopping none is begun, because
 * nobody would wait for it: intakes_free. */
static void
begin_next(struct foreign_source *s)
{
    struct intake *in;

    list_until_empty (in, &s->intakes, node) {
        if (s->foreign->is_ending || in->is_begun)
            return;
        if (!is_wanted(in)) {
            end_intake(in);
            continue;
        }
        in->is_begun = true;
        in->job.work = read_document;
        in->job.done = on_read;
        caller_work(s->foreign->topics->caller, &in->job);
        return;
    }
}

/* Beginning */

/* Appends a document to those of the source. For a set it is a Change
 * Notification, and so XML. W-144: the set of changes that it holds and
 * the name of its capability do not matter. */
static enum status
enter_intake(struct foreign_source *s, const struct intake_target *target,
             struct slice type, struct slice key, struct intake **intake,
             struct problem *why)
{
    struct slice rest = type, essence = slice_trimmed(slice_take(&rest, ';'));
    struct key read = {.size = 0};
    struct intake *in;
    enum status rc = STATUS_OK;

    if (target->set && !slice_is_word(essence, "application/xml") &&
        !slice_is_word(essence, "text/xml"))
        return problem(why, STATUS_UNSUPPORTED,
                       "a Change Notification is application/xml, not \"%s\"",
                       problem_quote(type).text);
    if (key.size > 0)
        rc = key_read(slice_trimmed(key), &read, why);
    if (rc)
        return rc;
    in = memory_new(1, sizeof(*in));
    in->type = slice_dup(type);
    in->source = s;
    in->target = *target;
    in->key = read;
    list_init(&in->landed);
    list_append(&s->intakes, &in->node);
    *intake = in;
    return STATUS_OK;
}

void
intake_command(struct foreign_source *s, const struct intake_target *target,
               struct command *command)
{
    struct problem why = {""};
    struct intake *in;
    enum status rc =
        enter_intake(s, target, command->content_type, command->key, &in, &why);

    if (rc) {
        command_answer_now(command, rc, &why);
        return;
    }
    if (command->principal)
        snprintf(in->key.owner, sizeof(in->key.owner), "%s",
                 command->principal->name);
    in->command = command;
    in->body = buf_slice(&command->body);
    begin_next(s);
}

/* Copies the body, which is freed with the call. */
enum status
intake_fetched(struct foreign_source *s, const struct intake_target *target,
               struct slice type, struct slice body, struct problem *why)
{
    struct registry *registry = s->foreign->topics->registry;
    struct intake *in;
    enum status rc = enter_intake(s, target, type, SLICE(""), &in, why);

    if (rc)
        return rc;
    in->n_fetched = s->n_fetched;
    holding_init(&in->holding, &registry->clients, NULL, CLIENT_POSTS);
    rc = holding_add(&in->holding, body.size, why);
    in->copy.max = body.size;
    if (!rc)
        buf_add_slice(&in->copy, body);
    if (!rc && in->copy.failed)
        rc = problem_memory(why);
    if (rc) {
        list_remove(&in->node);
        intake_free(in);
        return rc;
    }
    in->body = buf_slice(&in->copy);
    begin_next(s);
    return STATUS_OK;
}

/* Life */

void
intake_start(struct foreign_sources *f)
{
    pthread_mutex_init(&f->mutex, NULL);
    pthread_cond_init(&f->landed, NULL);
    list_init(&f->committed);
    f->task.run = take_landed;
}

/* The log thread continues, and answers within a commit. The jobs are done, and
 * no task runs any more: once is_ending is set on_committed posts none, and an
 * earlier one finds nothing. */
void
intake_end(struct foreign_sources *f)
{
    pthread_mutex_lock(&f->mutex);
    f->is_ending = true;
    while (f->n_in_log > 0)
        pthread_cond_wait(&f->landed, &f->mutex);
    pthread_mutex_unlock(&f->mutex);
    take_landed(&f->task);
}

void
intakes_free(struct foreign_source *s)
{
    struct problem why = {"the broker is ending"};
    struct intake *in;

    list_drain (in, &s->intakes, node) {
        if (in->command)
            command_answer_now(in->command, STATUS_STOPPED, &why);
        intake_free(in);
    }
}
