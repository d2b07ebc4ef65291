#include "client/follow/list_reader.h"

#include "base/array.h"
#include "base/gunzip.h"
#include "client/history/part_list.h"
#include "client/lib/fetch.h"
#include "client/source/document_fetch.h"
#include "proto/input/list_proof.h"

/* After so many guesses the search halves the lists that are left. */
#define GUESSES_MAX 4

/* Where a piece ends. */
#define PIECE_ENTRIES 2000
#define PIECE_BYTES   (512 * 1024)

/* What a worker does for a reader. */
struct list_work {
    struct list_reader *reader;
    struct job job;
};

/* Some fragments of a list, one after the other. */
struct piece {
    size_t at, size;      /* bytes of the text */
    uint64_t after, last; /* seqs */
    struct digest digest; /* d(last) */
};

/* It is asked for, then at work, then proven, or not: why. */
struct coming_list {
    struct list_work work;
    bool is_asked;
    size_t i; /* of the reader's parts */
    struct fetch *fetch;
    struct buf body;       /* as it came, gzip or plain */
    struct coverage known; /* the digest at an entry of the log, if known */
    struct buf text;
    struct coverage covers; /* epoch, after, last, digest */
    struct piece *pieces;
    size_t n_pieces, capacity;
    struct problem why;
};

/* A piece of a list, while a worker makes changes of it. */
struct coming_piece {
    struct list_work work;
    const struct coming_list *list;
    const struct piece *piece;
    uint64_t after; /* earlier entries were handed over before */
    struct entry entry;
    struct change_batch batch;
    enum status rc;
};

/* The search: the lists before `low` end before the place or at it; those from
 * `high` on begin after it. */
struct list_search {
    bool is_over;
    size_t low, high;
    uint64_t low_seq, high_seq;
    unsigned n_guesses;
};

struct list_reader {
    struct retired retired; /* the first */
    struct td_client *client;
    const struct filter *filter;
    unsigned silence_s;
    list_reader_batch_fn *on_batch;
    list_reader_end_fn *on_end;
    void *user;
    struct timer timer;
    bool is_paused;
    atomic_bool is_dropped; /* read by workers: they need no order with it */

    struct position at;    /* the place reached */
    struct coverage known; /* where it began: `last`, and the digest if any */
    struct document_fetch *archive;
    struct history_parts archives; /* documents that name lists */
    size_t i_archive;              /* the one being read */
    struct history_parts parts;
    struct list_search search;
    struct coming_list lists[2];
    size_t current; /* of these */
    size_t i_piece; /* the next one of its list for a worker */
    struct coming_piece pieces[LIST_READER_PIECES];
    size_t first; /* the oldest piece ... */
    size_t n;     /* ... of so many at work or done */
};

/* The end */

void
list_reader_free(void *reader)
{
    struct list_reader *r = reader;

    if (!r)
        return;
    r->client->is_catching_up = false;
    atomic_store_explicit(&r->is_dropped, true, memory_order_relaxed);
    document_fetch_free(r->archive);
    for (size_t i = 0; i < LIST_READER_PIECES; i++) {
        loop_drop_job(&r->pieces[i].work.job);
        entry_fini(&r->pieces[i].entry);
        change_batch_fini(&r->pieces[i].batch);
    }
    for (size_t i = 0; i < 2; i++) {
        loop_drop_job(&r->lists[i].work.job);
        fetch_free(r->lists[i].fetch);
        buf_fini(&r->lists[i].body);
        buf_fini(&r->lists[i].text);
        free(r->lists[i].pieces);
    }
    history_parts_fini(&r->archives);
    history_parts_fini(&r->parts);
    timer_stop(&r->timer);
    handle_loop_retire(r->client->loop, &r->retired, NULL);
}

static void
end_reader(struct list_reader *r, const struct problem *why)
{
    r->on_end(why, r->user);
    list_reader_free(r);
}

/* Ends because of a list. */
static void
end_by_list(struct list_reader *r, const struct coming_list *list,
            const struct problem *because)
{
    struct problem why = *because;

    problem_prefix(&why, because->rc, "%.300s: ", r->parts.all[list->i].url);
    end_reader(r, &why);
}

static void
end_by_form(struct list_reader *r, const struct coming_list *list,
            const char *what)
{
    struct problem why = {.text = ""};

    problem(&why, STATUS_UNSUPPORTED, "%s %" PRIu64, what, r->at.seq);
    end_by_list(r, list, &why);
}

static void
end_without_memory(struct list_reader *r)
{
    end_reader(r, &(struct problem)PROBLEM_MEMORY);
}

static void
on_done(struct job *job)
{
    struct list_work *work = list_entry(job, struct list_work, job);

    timer_start(&work->reader->timer, 0); /* loop_work may have called this */
}

/* Gives a worker what it has to do. */
static void
give(struct list_work *work, void (*fn)(struct job *job))
{
    work->job.work = fn;
    work->job.done = on_done;
    loop_work(handle_loop_base(work->reader->client->loop), &work->job);
}

/* Lists */

static bool
is_dropped(const struct list_reader *r)
{
    return atomic_load_explicit(&r->is_dropped, memory_order_relaxed);
}

static enum status
on_bytes(struct slice bytes, void *user, struct problem *why)
{
    struct coming_list *list = user;

    if (is_dropped(list->work.reader))
        return STATUS_STOPPED;
    buf_add_slice(&list->text, bytes);
    return problem_buf(why, &list->text, "it");
}

static enum status
on_list_head(const struct list_head *head, void *user, struct problem *why)
{
    struct coming_list *list = user;

    list->covers = head->covers;
    return head->covers.until_us == DATETIME_NONE
               ? problem(why, STATUS_UNSUPPORTED, "it is no closed Change List")
               : STATUS_OK;
}

static enum status
on_list_entry(const struct list_entry *entry, void *user, struct problem *why)
{
    struct coming_list *list = user;
    struct piece *piece =
        list->n_pieces ? &list->pieces[list->n_pieces - 1] : NULL;

    if (!piece || piece->size >= PIECE_BYTES ||
        piece->last - piece->after >= PIECE_ENTRIES) {
        if (!ONE_MORE(list->pieces, &list->capacity, list->n_pieces))
            return problem_memory(why);
        piece = &list->pieces[list->n_pieces++];
        *piece = (struct piece){.at = (size_t)entry->at,
                                .after = entry->view->seq - 1};
    }
    piece->size += entry->text.size;
    piece->last = entry->view->seq;
    piece->digest = *entry->digest;
    return is_dropped(list->work.reader) ? STATUS_STOPPED : STATUS_OK;
}

/* Unpacks and proves a list, into the memory of the one before.
 *
 * STATUS_MALFORMED: it contradicts itself; STATUS_DIFFERENT: it is of another
 * history than `known`; STATUS_UNSUPPORTED: not written by a broker, or longer
 * than LIST_READER_LIST_MAX; STATUS_MEMORY; STATUS_STOPPED. */
static void
work_on_list(struct job *job)
{
    static const struct list_proof_events events = {on_list_head,
                                                    on_list_entry};
    struct coming_list *list = list_entry(job, struct coming_list, work.job);
    struct list_chain chain = {.epoch = ""};
    struct gunzip *gunzip =
        gunzip_new(LIST_READER_LIST_MAX, GUNZIP_EITHER, on_bytes, list);
    struct list_proof *proof = list_proof_new(
        &chain, list->work.reader->parts.all[list->i].url, &events, list);
    struct problem *why = &list->why;
    enum status rc = gunzip && proof ? STATUS_OK : problem_memory(why);

    buf_clear(&list->text);
    list->n_pieces = 0;
    if (!rc)
        rc = gunzip_all(gunzip, buf_slice(&list->body), why);
    if (!rc)
        rc = gunzip_end(gunzip, why);
    if (rc == STATUS_TOO_LARGE)
        rc = problem(why, STATUS_UNSUPPORTED,
                     "it unpacks to more than %u bytes", LIST_READER_LIST_MAX);
    if (!rc && list->known.has_digest)
        list_proof_expect(proof, list->known.last, &list->known.digest,
                          "the follower");
    if (!rc)
        rc = list_proof_feed(proof, buf_slice(&list->text), why);
    if (!rc)
        rc = list_proof_end(proof, &chain, why);
    why->rc = rc;
    gunzip_free(gunzip);
    list_proof_free(proof);
    buf_fini(&list->body);
}

static void
on_fetched(struct fetch_answer *answer, const struct problem *why, void *user)
{
    struct coming_list *list = user;
    struct list_reader *r = list->work.reader;

    list->fetch = NULL;
    list->why = *why;
    if (!why->rc && answer->status != 200)
        fetch_refused(&list->why, answer);
    if (list->why.rc) {
        /* An answer that breaks HTTP says nothing about the history. */
        if (list->why.rc == STATUS_MALFORMED)
            list->why.rc = STATUS_UNSUPPORTED;
        timer_start(&r->timer, 0);
        return;
    }
    list->body = answer->body;
    buf_init(&answer->body, 0);
    give(&list->work, work_on_list);
}

/* Asks for the list `i`, which has to agree with `known`. False: no memory; the
 * reader is freed. */
static bool
ask_list(struct list_reader *r, struct coming_list *list, size_t i,
         const struct coverage *known)
{
    const char *headers[] = {"Accept: application/xml", "Accept-Encoding: gzip",
                             NULL};
    const struct fetch_request request = {
        .url = r->parts.all[i].url,
        .headers = headers,
        .max_bytes = LIST_READER_LIST_MAX,
        .redirects = FETCH_REDIRECTS,
        .keeps_coding = true, /* a worker inflates it */
        .silence_s = r->silence_s,
    };

    list->is_asked = true;
    list->i = i;
    list->known = *known;
    problem_clear(&list->why);
    list->fetch = fetch_start(r->client, &request, NULL, on_fetched, list);
    if (list->fetch)
        return true;
    end_without_memory(r);
    return false;
}

/* The search */

/* Asks for the list that may have the place: lists are about as long as each
 * other. */
static void
search_next(struct list_reader *r)
{
    struct list_search *s = &r->search;
    size_t n = s->high - s->low;
    size_t guess = n / 2;

    if (n == 0) { /* all end before the place, or begin after it */
        end_reader(r, &(struct problem){.rc = STATUS_OK});
        return;
    }
    if (s->n_guesses++ < GUESSES_MAX && s->high_seq > s->low_seq)
        guess = (size_t)((double)n * (double)(r->at.seq - s->low_seq) /
                         (double)(s->high_seq - s->low_seq));
    ask_list(r, &r->lists[0], s->low + (guess < n ? guess : n - 1), &r->known);
}

/* True if the list has the entry behind the place; else the search goes on. */
static bool
search_ends(struct list_reader *r, const struct coming_list *list)
{
    const struct coverage *covers = &list->covers;
    struct list_search *s = &r->search;

    if (covers->last <= r->at.seq) {
        s->low = list->i + 1;
        s->low_seq = covers->last;
    } else if (covers->after > r->at.seq) {
        s->high = list->i;
        s->high_seq = covers->after;
    } else {
        s->is_over = true;
        return true;
    }
    search_next(r);
    return false;
}

/* Pieces */

static void
work_on_piece(struct job *job)
{
    struct coming_piece *p = list_entry(job, struct coming_piece, work.job);
    struct slice rest = {p->list->text.data + p->piece->at, p->piece->size};
    uint64_t seq = p->piece->after;

    p->rc = STATUS_OK;
    while (!p->rc && rest.size > 0 && !is_dropped(p->work.reader)) {
        size_t left = rest.size;
        struct slice fragment = slice_take(&rest, '\n');

        fragment.size = left - rest.size; /* with its newline */
        if (++seq > p->after)
            p->rc = change_batch_add_fragment(&p->batch, p->work.reader->filter,
                                              &p->entry, fragment);
    }
}

/* Gives workers the next pieces of the current list. */
static void
give_pieces(struct list_reader *r)
{
    const struct coming_list *list = &r->lists[r->current];

    while (r->n < LIST_READER_PIECES && r->i_piece < list->n_pieces) {
        const struct piece *piece = &list->pieces[r->i_piece++];
        struct coming_piece *p =
            &r->pieces[(r->first + r->n) % LIST_READER_PIECES];

        if (piece->last <= r->at.seq)
            continue;
        r->n++;
        p->list = list;
        p->piece = piece;
        p->after = r->at.seq;
        change_batch_clear(&p->batch);
        give(&p->work, work_on_piece);
    }
}

/* Hands over the oldest piece, which is done. */
static void
hand_over_piece(struct list_reader *r)
{
    struct coming_piece *p = &r->pieces[r->first];
    const struct coming_list *list = &r->lists[r->current];
    struct digest digest = p->piece->digest;
    bool goes_on;
    struct position upto;

    if (p->rc == STATUS_MEMORY) {
        end_without_memory(r);
        return;
    }
    if (p->rc) {
        end_by_form(r, list, "an entry is in another form, behind");
        return;
    }
    memcpy(r->at.epoch, p->list->covers.epoch, sizeof(r->at.epoch));
    r->at.seq = p->piece->last;
    upto = r->at;
    r->first = (r->first + 1) % LIST_READER_PIECES;
    r->n--;
    goes_on = r->on_batch(&p->batch, &upto, &digest, r->user);
    if (r->retired.is_over)
        return;
    if (!goes_on)
        r->is_paused = true; /* until it is freed */
    timer_start(&r->timer, 0);
}

/* Does what can be done now. One piece is handed over in each turn of the loop,
 * for the sake of its other users. */
static void
on_timer(void *user)
{
    struct list_reader *r = user;
    struct coming_list *list = &r->lists[r->current];
    struct coming_list *next = &r->lists[1 - r->current];
    const struct coverage *covers = &list->covers;
    bool is_last = list->i + 1 == r->parts.n;

    if (r->is_paused || !list->is_asked || list->fetch ||
        list->work.job.at_work)
        return;
    if (list->why.rc) {
        end_by_list(r, list, &list->why);
        return;
    }
    if (!r->search.is_over && !search_ends(r, list))
        return;
    if (covers->after > r->at.seq || covers->last < r->at.seq ||
        (r->at.epoch[0] && strcmp(r->at.epoch, covers->epoch) != 0)) {
        end_by_form(r, list, "it does not continue at");
        return;
    }
    /* The next list comes while this one is handed over. */
    if (!next->is_asked && !is_last && !ask_list(r, next, list->i + 1, covers))
        return;
    give_pieces(r);
    if (r->n > 0) {
        if (!r->pieces[r->first].work.job.at_work)
            hand_over_piece(r);
    } else if (is_last) {
        end_reader(r, &(struct problem){.rc = STATUS_OK});
    } else { /* its memory is used for another one */
        list->is_asked = false;
        r->current = 1 - r->current;
        r->i_piece = 0;
        timer_start(&r->timer, 0);
    }
}

/* The archive, which may be an index of archives */

static enum status
on_entry(const struct document_entry *entry, const struct document_head *head,
         void *user)
{
    struct list_reader *r = user;

    if (!head->is_index && entry->until_us == DATETIME_NONE)
        return STATUS_UNSUPPORTED;
    return history_parts_add(head->is_index ? &r->archives : &r->parts,
                             entry->change.loc, NULL);
}

static bool ask_archive(struct list_reader *r);

static void
on_archive(const struct document_fetch_answer *answer,
           const struct problem *why, void *user)
{
    struct list_reader *r = user;
    struct problem end = *why;

    (void)answer;
    r->archive = NULL;
    if (why->rc) {
        if (why->rc != STATUS_MEMORY) /* other ways may be open */
            end.rc = STATUS_UNSUPPORTED;
        end_reader(r, &end);
        return;
    }
    if (++r->i_archive < r->archives.n) {
        if (!ask_archive(r))
            end_without_memory(r);
        return;
    }
    r->search.high = r->parts.n;
    search_next(r);
}

/* False: no memory. */
static bool
ask_archive(struct list_reader *r)
{
    static const struct document_events events = {.on_entry = on_entry};
    const struct document_fetch_request request = {
        .url = r->archives.all[r->i_archive].url, .silence_s = r->silence_s};

    r->archive =
        document_fetch_start(r->client, &request, &events, on_archive, r);
    return r->archive != NULL;
}

/* The beginning */

struct list_reader *
list_reader_start(struct td_client *client, const struct list_reader_plan *plan,
                  list_reader_batch_fn *on_batch, list_reader_end_fn *on_end,
                  void *user)
{
    struct list_reader *r = calloc(1, sizeof(*r));

    if (!r)
        return NULL;
    r->client = client;
    client->is_catching_up = true;
    r->filter = plan->filter;
    r->silence_s = plan->silence_s;
    r->on_batch = on_batch;
    r->on_end = on_end;
    r->user = user;
    r->at = plan->after;
    r->known.last = plan->after.seq;
    if (plan->digest) {
        r->known.has_digest = true;
        r->known.digest = *plan->digest;
    }
    r->search.high_seq = plan->head;
    for (size_t i = 0; i < LIST_READER_PIECES; i++) {
        r->pieces[i].work.reader = r;
        entry_init(&r->pieces[i].entry);
        change_batch_init(&r->pieces[i].batch, plan->form);
    }
    for (size_t i = 0; i < 2; i++) {
        r->lists[i].work.reader = r;
        buf_init(&r->lists[i].text, LIST_READER_LIST_MAX);
    }
    timer_init(&r->timer, client->loop, on_timer, r);
    if (history_parts_add(&r->archives, slice_of(plan->archive), NULL) ||
        !ask_archive(r)) {
        list_reader_free(r);
        return NULL;
    }
    return r;
}

void
list_reader_hold(void *reader, bool is_held)
{
    struct list_reader *r = reader;

    r->is_paused = is_held;
    if (!is_held)
        timer_start(&r->timer, 0);
}
