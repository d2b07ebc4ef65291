#include "broker/archive/witnesses.h"

#include "base/array.h"
#include "base/random.h"
#include "base/thread.h"
#include "broker/access/checkpoint_keys.h"
#include "broker/archive/checkpoints.h"
#include "broker/archive/set_progress.h"
#include "broker/base/metrics.h"
#include "broker/calls/blocking_call.h"
#include "broker/sets/positions.h"
#include "proto/number.h"

#define LOOK_US    ((int64_t)1000000)
#define TIMEOUT_US ((int64_t)10000000)

/* So long an end waits for its file, which is to have its cosignatures, and for
 * witnesses that read on: who has cosigned the next candidate cosigns no end
 * before it. */
#define END_US (2 * TIMEOUT_US)

/* Cosignatures of one witness take some hundred bytes. */
#define ANSWER_MAX ((size_t)16 * 1024)

/* Behind the URL of a witness. */
#define ADD_CHECKPOINT "/add-checkpoint"

/* A witness may have cosigned a later size than we believe: then it says which.
 * More often in a row it does not mean it. */
#define TRIES 3

#define HOUR_US ((int64_t)3600 * 1000000)

static const struct backoff away_pauses = {LOOK_US, 300 * LOOK_US},
                            later_pauses = {LOOK_US, 60 * LOOK_US},
                            unknown_pauses = {HOUR_US, 24 * HOUR_US},
                            refused_pauses = {60 * LOOK_US, HOUR_US};

/* What a witness has said of a set. */
struct standing {
    uint64_t size;     /* that it has cosigned, as far as we know */
    int64_t retry_us;  /* it refused: not before; steady clock */
    unsigned failures; /* in a row */
    bool is_at_work;   /* its thread asks: the candidate stays */
    bool is_done;      /* it has cosigned the candidate */
    bool was_asked;    /* or it has failed to */
    bool is_later;     /* it has put the candidate off */
};

/* A set, and its candidate. */
struct candidate {
    struct set *set;
    uint64_t size; /* 0: none */
    int64_t us;    /* T(size) */
    int64_t due_us;
    int64_t end_us;  /* that an end waits for; steady clock */
    struct buf text; /* signed by the log, with the cosignatures; empty: there
                        are none, or all are in the file */
    bool is_news;    /* the file lacks some of them */
    struct standing of[]; /* each is its witness's, but for the flags */
};

struct witness {
    struct witnesses *all;
    size_t number;
    char *url; /* of add-checkpoint */
    struct note_key key;
    struct thread thread;
    struct blocking *calls;
    unsigned failures; /* in a row, as a whole */
    int64_t retry_us;
};

struct witnesses {
    struct registry *registry;
    size_t n;
    struct witness each[WITNESSES_MAX];
    atomic_bool is_ending;

    pthread_mutex_t lock; /* guards the rest */
    int64_t looked_us;
    struct candidate **order;
    size_t n_order, capacity;
};

/* The option */

static struct slice
next_word(const char **rest)
{
    static const char between[] = ", \n\t\r";
    struct slice word = {*rest + strspn(*rest, between), 0};

    word.size = strcspn(word.data, between);
    *rest = word.data + word.size;
    return word;
}

static enum status
read_option(const char *text, struct witnesses *w, struct problem *why)
{
    struct slice url;
    enum status rc = STATUS_OK;

    while (!rc && (url = next_word(&text)).size > 0) {
        struct slice key = next_word(&text);
        struct witness *one = &w->each[w->n];

        if (w->n == WITNESSES_MAX)
            return problem(why, STATUS_INVALID,
                           "--witness: there are more than %d", WITNESSES_MAX);
        while (url.size > 0 && url.data[url.size - 1] == '/')
            url.size--;
        if (asprintf(&one->url, "%.*s" ADD_CHECKPOINT, SLICE_ARG(url)) < 0)
            return problem_memory(why);
        w->n++;
        if (!uri_is_web(one->url) || key.size == 0)
            rc = problem(why, STATUS_INVALID,
                         "--witness: \"URL KEY\", of http or https: %s",
                         problem_quote(url).text);
        else if (note_key_read(key, &one->key, why))
            rc = problem_prefix(why, STATUS_INVALID, "--witness: ");
        else if (strpbrk(one->key.name, "\"\\"))
            rc = problem(why, STATUS_INVALID,
                         "--witness: its name has a quote or a backslash: %s",
                         one->key.name);
        else if (one->key.kind != NOTE_COSIGNATURE)
            rc = problem(why, STATUS_INVALID,
                         "--witness: the key of %s signs no cosignatures",
                         one->key.name);
    }
    return rc;
}

enum status
witnesses_check(const char *text, struct problem *why)
{
    struct witnesses *w = memory_new(1, sizeof(*w));
    enum status rc = read_option(text, w, why);

    pthread_mutex_init(&w->lock, NULL);
    witnesses_close(w);
    return rc;
}

/* Candidates: `lock` is held */

/* Brings new cosignatures to the file, once each witness was asked. */
static void
keep_file(struct witnesses *w, struct candidate *c)
{
    struct problem why = {""};
    bool is_complete = true;

    for (size_t i = 0; i < w->n; i++) {
        if (c->is_news && !c->of[i].was_asked)
            return;
        is_complete = is_complete && c->of[i].is_done;
    }
    if (c->is_news &&
        checkpoint_keep_witnessed(c->set, buf_slice(&c->text), &why)) {
        DIAG(DIAG_WARNING, "archive",
             "the cosignatures of a set are not kept, and will be tried again",
             diag_text("set", c->set->name), diag_text("error", why.text));
        return;
    }
    c->is_news = false;
    if (is_complete)
        buf_fini(&c->text);
}

/* Finds the candidate of a set, or makes it. A set that had candidates in a
 * former life of the process has their file. */
static struct candidate *
find_candidate(struct witnesses *w, struct set *set, const struct head *head)
{
    struct candidate *c = set->progress->candidate;
    struct buf lines = {.max = NOTE_BYTES_MAX};
    struct checkpoint kept;
    struct note note;

    if (c)
        return c;
    if (!ONE_MORE(w->order, &w->capacity, w->n_order))
        return NULL;
    c = memory_new(1, sizeof(*c) + w->n * sizeof(c->of[0]));
    c->set = set;
    c->text.max = NOTE_BYTES_MAX;
    if (checkpoint_read_witnessed(set, head, &c->text, &note, &kept) &&
        kept.size <= head->last) {
        c->size = kept.size;
        c->us = head->last_us;
        for (size_t i = 0; i < w->n; i++) {
            struct standing *s = &c->of[i];

            s->is_done = s->was_asked =
                note_copy_signature(&note, &w->each[i].key, &lines);
            s->size = s->is_done ? kept.size : 0;
        }
    } else {
        buf_clear(&c->text);
    }
    buf_fini(&lines);
    keep_file(w, c);
    w->order[w->n_order++] = set->progress->candidate = c;
    return c;
}

static bool
is_asked_for(const struct witnesses *w, const struct candidate *c,
             const struct head *head, int64_t now_us)
{
    bool is_end = now_us < c->end_us;

    if (is_end && checkpoint_of_lists(c->set, head) < c->size)
        return true;
    for (size_t i = 0; i < w->n; i++) {
        const struct standing *s = &c->of[i];

        if (s->is_at_work || !s->was_asked || (is_end && s->is_later))
            return true;
    }
    return false;
}

/* Gives the set its next candidate, unless the present one is still asked for.
 */
static bool
look_at_set(struct set *set, const struct head *head, void *user)
{
    struct witnesses *w = user;
    int64_t now_us = clock_steady_us();
    struct candidate *c = NULL;
    bool is_end;

    if (head->last > 0 && !set_is_private(set))
        c = find_candidate(w, set, head);
    if (!c || head->last <= c->size)
        return true;
    is_end = head->list_after > c->size;
    if (!is_end && now_us < c->due_us)
        return true;
    if (c->size > 0 && is_asked_for(w, c, head, now_us))
        return true;
    c->size = is_end ? head->list_after : head->last;
    c->us = is_end ? head->list_from_us : head->last_us;
    c->end_us = is_end ? now_us + END_US : 0;
    if (!is_end)
        c->due_us = now_us + w->registry->config->checkpoint_every_us;
    buf_clear(&c->text);
    c->is_news = false;
    for (size_t i = 0; i < w->n; i++)
        c->of[i].is_done = c->of[i].was_asked = c->of[i].is_later = false;
    return true;
}

/* The next candidate that this witness is to be asked for, from *i on. A
 * witness that is away has been asked. */
static bool
next_candidate(struct witness *me, size_t *i, struct candidate **c)
{
    struct witnesses *w = me->all;
    int64_t now_us = clock_steady_us();
    bool is_found = false;

    pthread_mutex_lock(&w->lock);
    if (now_us >= w->looked_us + LOOK_US) {
        w->looked_us = now_us;
        registry_each(w->registry, look_at_set, w);
    }
    for (; !is_found && *i < w->n_order; ++*i) {
        struct standing *s = &(*c = w->order[*i])->of[me->number];

        if ((*c)->size == 0 || s->is_done)
            continue;
        s->is_at_work = is_found =
            now_us >= s->retry_us && now_us >= me->retry_us;
        s->was_asked |= !is_found;
        keep_file(w, *c);
    }
    pthread_mutex_unlock(&w->lock);
    return is_found;
}

/* One call */

/* Pauses the witness as a whole; once a row of failures. */
static void
fail_witness(struct witness *me, const char *reason)
{
    if (me->failures++ == 0)
        DIAG(DIAG_WARNING, "archive", "a witness cosigns nothing",
             diag_text("witness", me->key.name), diag_text("url", me->url),
             diag_text("error", reason));
    me->retry_us = clock_steady_us() +
                   backoff_pause(&away_pauses, me->failures, random_u32());
    metrics_add_label(METRIC_WITNESS_FAILURES, me->number, 1);
}

/* Pauses the set at that witness. */
static void
pause_set(struct witness *me, const struct candidate *c, struct standing *s,
          const struct call *call)
{
    bool is_later = call->status == 429 || call->status == 503;
    const struct backoff *pauses = is_later              ? &later_pauses
                                   : call->status == 404 ? &unknown_pauses
                                                         : &refused_pauses;
    char text[300];
    struct slice rest = call->answer, line = slice_take(&rest, '\n');

    snprintf(text, sizeof(text), "%u: %s", call->status,
             problem_quote(line).text);
    if (s->failures++ == 0)
        DIAG(is_later ? DIAG_INFO : DIAG_WARNING, "archive",
             "a witness does not cosign a set, and will be asked again",
             diag_text("witness", me->key.name), diag_text("set", c->set->name),
             diag_text("answer", text));
    pthread_mutex_lock(&me->all->lock);
    s->is_later = is_later;
    pthread_mutex_unlock(&me->all->lock);
    s->retry_us = backoff_next(
        clock_steady_us(), backoff_pause(pauses, s->failures, random_u32()),
        call->retry_after_us, clock_steady_us() + 24 * HOUR_US);
    metrics_add_label(METRIC_WITNESS_REFUSALS, me->number, 1);
}

/* True if our key has signed a checkpoint of that origin, in `text`, of which
 * the log is no continuation. */
static bool
was_signed_otherwise(const struct candidate *c, const struct head *head,
                     const char *origin, struct slice text)
{
    struct registry *registry = c->set->registry;
    struct buf lines = {.max = NOTE_BYTES_MAX};
    struct checkpoint checkpoint;
    struct tree_view view;
    struct note_key key;
    struct note note;
    struct slice rest;
    uint64_t time_s;
    bool is_ours = false, is_other = false;

    checkpoint_keys_write(registry->checkpoint_keys, origin, &lines);
    rest = buf_slice(&lines);
    if (!note_read(text, &note, NULL) &&
        !checkpoint_read(&note, &checkpoint, NULL) &&
        slice_is(checkpoint.origin, origin))
        while (!is_ours && rest.size > 0)
            is_ours = !note_key_read(slice_take(&rest, '\n'), &key, NULL) &&
                      !note_check(&note, &key, &time_s, NULL);
    if (is_ours && checkpoint.size <= head->last) {
        is_other =
            !tree_view_open(&view, set_path(c->set, "").text, registry->log,
                            c->set->log, head, checkpoint.size, NULL) &&
            !digest_is_equal(&view.root, &checkpoint.root);
        tree_view_close(&view);
    }
    buf_fini(&lines);
    return is_ours && (is_other || checkpoint.size > head->last);
}

/* A witness refuses, which may know more of the log than this copy has, because
 * the whole data directory is an older one. It is believed if its own
 * checkpoint of the log, at HASH/checkpoint, has a signature of our key: then
 * the log goes on in a new epoch, and the witness is asked for that. In a
 * cluster the journal knows what is lost, and a copy may just be behind. */
static bool
goes_on_in_new_epoch(struct witness *me, struct candidate *c)
{
    struct registry *registry = me->all->registry;
    struct buf url = {.max = SIZE_MAX}, text = {.max = NOTE_BYTES_MAX};
    char origin[NOTE_NAME_SIZE];
    struct call wish = {.method = CALL_GET,
                        .timeout_us = TIMEOUT_US,
                        .max_answer = NOTE_BYTES_MAX};
    const struct call *call;
    struct head head, now;
    struct digest hash;
    bool is_lost = false;

    if (log_is_shared(registry->log) || !log_head(c->set->log, &head))
        return false;
    checkpoint_origin(origin, registry->options.public_url, c->set->name,
                      head.epoch);
    digest_sha256(&hash, slice_of(origin));
    buf_add(&url, me->url, strlen(me->url) - strlen(ADD_CHECKPOINT));
    BUF_ADD(&url, "/");
    buf_add_hex(&url, hash.bytes, DIGEST_SIZE);
    buf_add(&url, "/checkpoint", sizeof("/checkpoint"));
    wish.url = url.data;
    call = url.failed ? NULL : blocking_run(me->calls, &wish, &text);
    /* The head is read behind the answer: it has what we sign meanwhile, which
     * a witness may hand back. */
    if (call && call->failure == CALL_ANSWERED && call->status == 200 &&
        !call->is_cut && log_head(c->set->log, &now))
        is_lost = was_signed_otherwise(c, &now, origin, buf_slice(&text));
    pthread_mutex_lock(&me->all->lock); /* another one may have found it, too */
    if (is_lost)
        is_lost = log_head(c->set->log, &now) &&
                  (strcmp(now.epoch, head.epoch) != 0 ||
                   !log_begin_epoch(registry->log, c->set->log,
                                    "a witness has cosigned what the key has "
                                    "signed, and the log has not, as of an "
                                    "older copy",
                                    NULL));
    if (is_lost)
        c->of[me->number].size = 0;
    pthread_mutex_unlock(&me->all->lock);
    buf_fini(&url);
    buf_fini(&text);
    return is_lost;
}

/* Keeps the cosignature in an answer to `checkpoint`; false: it has none by the
 * key of this witness, of this checkpoint. */
static bool
keep_cosignature(struct witness *me, struct candidate *c,
                 const struct buf *checkpoint, const struct note *sent,
                 struct slice answer)
{
    struct buf answered = {.max = NOTE_BYTES_MAX + ANSWER_MAX},
               line = {.max = ANSWER_MAX};
    struct standing *s = &c->of[me->number];
    struct note note;
    bool is_there;

    buf_add_slice(&answered, sent->text);
    BUF_ADD(&answered, "\n");
    buf_add_slice(&answered, answer);
    is_there = !answered.failed &&
               !note_read(buf_slice(&answered), &note, NULL) &&
               slice_equal(note.text, sent->text) &&
               note_copy_signature(&note, &me->key, &line);
    if (is_there) {
        pthread_mutex_lock(&me->all->lock);
        if (c->text.size == 0)
            buf_add_slice(&c->text, buf_slice(checkpoint));
        buf_add_slice(&c->text, buf_slice(&line));
        s->is_done = c->is_news = true;
        s->is_later = false;
        pthread_mutex_unlock(&me->all->lock);
        s->size = c->size;
        s->failures = 0;
    }
    buf_fini(&answered);
    buf_fini(&line);
    return is_there;
}

/* The witness refuses. True: ask again. */
static bool
goes_on_or_pause(struct witness *me, struct candidate *c,
                 const struct call *call)
{
    bool goes_on = goes_on_in_new_epoch(me, c);

    if (!goes_on)
        pause_set(me, c, &c->of[me->number], call);
    return goes_on;
}

/* True if the answer says of which size the witness has the set: asked again,
 * it may cosign. Another broker of the cluster may have been earlier; or the
 * log went back. */
static bool
take_size(struct witness *me, struct candidate *c, const struct call *call)
{
    struct standing *s = &c->of[me->number];
    struct slice rest = call->answer, line = slice_take(&rest, '\n');
    struct head head;
    uint64_t size;

    if (!number_read(line, &size) || rest.size > 0 || size == s->size ||
        !log_head(c->set->log, &head) || size > head.last)
        return goes_on_or_pause(me, c, call);
    s->size = size;
    if (size > c->size)
        s->retry_us =
            clock_steady_us() + me->all->registry->config->checkpoint_every_us;
    return size <= c->size;
}

/* Handles an answer. True: ask again. */
static bool
take_answer(struct witness *me, struct candidate *c, const struct call *call,
            const struct buf *checkpoint, const struct note *sent)
{
    char status[64];

    snprintf(status, sizeof(status), "it answers %u%s", call->status,
             call->status == 200 ? " without a cosignature of its key" : "");
    if (call->failure != CALL_ANSWERED) {
        fail_witness(me, call->why);
    } else if (call->status == 409) {
        return take_size(me, c, call);
    } else if (call->status / 100 == 4 && call->status != 404 &&
               call->status != 429) {
        return goes_on_or_pause(me, c, call);
    } else if (call->status / 100 == 4 || call->status == 503) {
        pause_set(me, c, &c->of[me->number], call);
    } else if (call->status != 200 || call->is_cut ||
               !keep_cosignature(me, c, checkpoint, sent, call->answer)) {
        fail_witness(me, status);
    } else {
        metrics_add_label(METRIC_WITNESS_COSIGNATURES, me->number, 1);
        metrics_set_label(METRIC_WITNESS_TIME, me->number, clock_now_us());
        if (me->failures > 0)
            DIAG(DIAG_INFO, "archive", "a witness cosigns again",
                 diag_text("witness", me->key.name));
        me->failures = 0;
    }
    return false;
}

/* Writes the body of a request. `checkpoint` has the signed one. STATUS_BUSY:
 * the tree is not folded so far; the next look tries again. */
static enum status
write_body(struct candidate *c, const struct standing *s, struct buf *body,
           struct buf *checkpoint, struct problem *why)
{
    uint64_t from = s->size <= c->size ? s->size : 0;
    struct tree_path path = {.n = 0};
    struct tree_view view;
    struct head head;
    enum status rc = STATUS_GONE;

    buf_clear(checkpoint);
    if (!log_head(c->set->log, &head))
        return rc;
    rc = checkpoint_open_tree(c->set, &head, c->size, c->us, &view, checkpoint,
                              why);
    if (!rc && from > 0)
        rc = tree_consistency(&view.tiles, from, c->size, &path, why);
    tree_view_close(&view);
    buf_add_format(body, "old %" PRIu64 "\n", from);
    tree_path_write(body, &path);
    buf_add_slice(body, buf_slice(checkpoint));
    return rc;
}

static void
ask(struct witness *me, struct candidate *c)
{
    static const char *const headers[] = {"Content-Type: text/plain", NULL};
    struct buf checkpoint = {.max = NOTE_BYTES_MAX},
               answer = {.max = ANSWER_MAX};
    struct standing *s = &c->of[me->number];
    struct problem why = {""};
    enum status rc = STATUS_OK;
    bool again = true;

    for (unsigned i = 0; again && i < TRIES; i++) {
        struct buf body = {.max = 2 * NOTE_BYTES_MAX};
        struct call wish = {.method = CALL_POST,
                            .url = me->url,
                            .timeout_us = TIMEOUT_US,
                            .max_answer = ANSWER_MAX,
                            .headers = headers};
        struct note sent;

        rc = write_body(c, s, &body, &checkpoint, &why);
        again = !rc && !body.failed &&
                !note_read(buf_slice(&checkpoint), &sent, &why);
        wish.body = buf_slice(&body);
        buf_clear(&answer);
        if (again) {
            struct call call = *blocking_run(me->calls, &wish, &answer);

            call.answer = buf_slice(&answer);
            again = take_answer(me, c, &call, &checkpoint, &sent);
            if (again && i + 1 == TRIES)
                pause_set(me, c, s, &call);
        } else if (rc != STATUS_BUSY) { /* it has no tree, or is removed */
            s->retry_us = clock_steady_us() + HOUR_US;
        }
        buf_fini(&body);
    }
    pthread_mutex_lock(&me->all->lock);
    s->is_at_work = false;
    s->was_asked |= rc != STATUS_BUSY;
    keep_file(me->all, c);
    pthread_mutex_unlock(&me->all->lock);
    buf_fini(&checkpoint);
    buf_fini(&answer);
}

static bool
is_stopped(void *user)
{
    return load_relaxed(&((struct witnesses *)user)->is_ending);
}

static void
run_witness(struct thread *t)
{
    struct witness *me = t->user;

    while (thread_wait(t, LOOK_US)) {
        struct candidate *c;
        size_t i = 0;

        while (!is_stopped(me->all) && next_candidate(me, &i, &c))
            ask(me, c);
    }
}

/* Life */

enum status
witnesses_open(struct witnesses **witnesses, struct registry *registry,
               const char *text, struct problem *why)
{
    struct witnesses *w = memory_new(1, sizeof(*w));
    const struct blocking_options options = {.is_stopped = is_stopped,
                                             .user = w};
    enum status rc = read_option(text, w, why);

    w->registry = registry;
    pthread_mutex_init(&w->lock, NULL);
    for (size_t i = 0; i < w->n; i++) /* copies, which metrics keep for ever */
        metrics_name(LABEL_WITNESS, i,
                     slice_dup(slice_of(w->each[i].key.name)));
    for (size_t i = 0; !rc && i < w->n; i++) {
        struct witness *one = &w->each[i];

        one->all = w;
        one->number = i;
        rc = blocking_open(&one->calls, &options, why);
        if (!rc)
            rc = thread_start(&one->thread, "witness", run_witness, one, why);
    }
    if (!rc && w->n > 0) {
        *witnesses = w;
        return STATUS_OK;
    }
    witnesses_close(w);
    return rc;
}

void
witnesses_close(struct witnesses *w)
{
    if (!w)
        return;
    store_relaxed(&w->is_ending, true);
    for (size_t i = 0; i < w->n; i++) {
        thread_stop(&w->each[i].thread);
        blocking_close(w->each[i].calls);
        free(w->each[i].url);
    }
    for (size_t i = 0; i < w->n_order; i++) {
        buf_fini(&w->order[i]->text);
        free(w->order[i]);
    }
    free(w->order);
    pthread_mutex_destroy(&w->lock);
    free(w);
}
