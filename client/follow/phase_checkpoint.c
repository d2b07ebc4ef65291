/*
 * phase_checkpoint.c - checks the signed checkpoints of the set
 * (td_keep_checkpoints).
 *
 *     a connection begins --> PROVING: checkpoint, tiles --> goes on
 *     it is caught up     --> PROVING                    --> ends
 *     each CHECK_MS       --> the same beside LIVE
 *
 *     changes have come   --> held back until the tree has them
 *     with td_key_lag     --> handed over; a tree has to have them by then
 *
 * With a key nothing is handed over that the signed tree does not have.
 * With a lag the places of what was handed over are kept, with their digests,
 * until a tree has had them: the greatest one that a tree has is compared, and
 * by its digest all before it. Positions that the caller stores carry that
 * digest (td_message_mark), so the next run, which begins with a look at the
 * place, compares what came unsigned with its first checkpoint, or with the
 * first one that is large enough: to store them hides no contradiction.
 *
 * Without a key the first check comes before the first change, and what a tree
 * does not have yet, the next one has to have: the digest of the place says
 * which history came.
 *
 * The reads of trust_progress do not wait: one that lacks a tile asks for it,
 * and the check begins anew when that has come.
 */
#include <fcntl.h>
#include <libgen.h>

#include "base/clock.h"
#include "base/file.h"
#include "client/follow/follower.h"
#include "client/lib/pause.h"
#include "client/lib/trust.h"
#include "proto/fnv1a.h"

#define CHECK_MS 300000 /* between two looks */
#define HELD_MS  1000   /* between two while changes are held */
#define STALE_S  900    /* an age that is worth a report */

#define PROOF_MAX 16384 /* two ways through a tree */

/* A proof of two ways through a tree of 2^64 leaves has fewer; and how many of
 * earlier checks are kept. */
#define TILES_MAX  64
#define TILES_KEPT 16

/* True if changes wait for the signed tree. */
static bool
is_held(const struct td_follower *f)
{
    return f->is_paused & PAUSED_FOR_PROOF;
}

/* The place of the last checkpoint, or of evidence, in the caller's files. */
static struct file_path
path_of(const struct td_follower *f, const char *what)
{
    return file_path("%s.%s-%016" PRIx64, f->client->checkpoint_path, what,
                     fnv1a(FNV1A_BEGIN, slice_of(f->offered.url)));
}

/* True if the text is a checkpoint without a wrong signature of a known key. A
 * key that has ended may have signed it. */
static bool
is_good(const struct trust *trust, struct slice text)
{
    struct checkpoint checkpoint;
    struct note note;
    uint64_t time_s;

    if (note_read(text, &note, NULL) ||
        checkpoint_read(&note, &checkpoint, NULL))
        return false;
    for (size_t i = 0; trust && i < trust->n_keys; i++)
        if (note_check(&note, &trust->keys[i], &time_s, NULL) ==
            STATUS_DIFFERENT)
            return false;
    return true;
}

/* Reads the last checkpoint, if there is a file. A file that cannot be read
 * stays: it may contradict the next checkpoint. False: the follower is over. */
static bool
load_kept(struct td_follower *f)
{
    struct follower_checkpoint *c = &f->checkpoint;
    const char *given = f->client->checkpoint_kept;
    struct problem why = {""};
    struct file_path path;
    char *room;
    ssize_t n = -1;

    if (c->kept.max > 0)
        return true;
    c->kept.max = NOTE_BYTES_MAX;
    if (f->client->checkpoint_path) {
        path = path_of(f, "checkpoint");
        room = buf_room(&c->kept, NOTE_BYTES_MAX);
        if (!room)
            return follower_fail(f, STATUS_MEMORY, NO_MEMORY);
        n = file_read(AT_FDCWD, path.text, room, NOTE_BYTES_MAX);
        if (n < 0 && errno != ENOENT) {
            problem_errno(&why, "cannot read", path.text);
            return follower_fail(f, STATUS_IO, "%s", why.text);
        }
        c->kept.size = n < 0 ? 0 : (size_t)n;
        if (n >= 0 && !is_good(f->client->trust, buf_slice(&c->kept)))
            return follower_fail(f, STATUS_INVALID, "%s holds no checkpoint",
                                 path.text);
    }
    if (n < 0 && given)
        buf_add_text(&c->kept, given);
    return true;
}

static enum status
store(struct td_follower *f, const char *what, struct slice text,
      struct problem *why)
{
    struct file_path dir, name;

    if (!f->client->checkpoint_path)
        return STATUS_OK;
    dir = name = path_of(f, what);
    return file_store_in(dirname(dir.text), basename(name.text), text, false,
                         why);
}

/* Tells the caller of the checkpoint (td_on_checkpoint). */
static void
tell(struct td_follower *f, const char *fault, struct slice evidence,
     struct slice proof)
{
    const struct td_client *client = f->client;
    struct slice text = buf_slice(&f->checkpoint.text);
    char *note = NULL, *other = NULL, *way = NULL;

    if (client->on_checkpoint)
        note = slice_dup(text);
    if (note && evidence.size > 0)
        other = slice_dup(evidence);
    if (note && proof.size > 0)
        way = slice_dup(proof);
    if (note)
        client->on_checkpoint(note, fault, other, way, client->checkpoint_user);
    free(note);
    free(other);
    free(way);
}

/* The tree ends within the changes that came, or before them. The follower reads
 * them again, hands over those in the tree, and waits for a larger tree. False.
 */
static bool
wait_for_more(struct td_follower *f)
{
    const struct position *end = &f->checkpoint.signed_to;
    struct problem why = {""};

    f->held.is_limited |= is_held(f);
    f->search.is_caught_up = true; /* lists are not cut */
    if (is_held(f) && end->seq > f->held.before.at.seq)
        return follower_rest(f, 0);
    problem(&why, STATUS_UNREACHABLE,
            "%.300s signs %" PRIu64 " entries: later ones are held back until "
            "it does",
            f->offered.checkpoint, end->seq);
    f->attempts.n_heard = 0; /* repeats are no progress: pauses grow */
    return follower_trouble(f, &why);
}

/* Goes on with what waits for the check. False: the follower has ended. */
static bool
release(struct td_follower *f)
{
    struct td_message m = {.kind = TD_CHANGES, .after = f->held.after};

    if (f->state == FOLLOWER_PROVING)
        timer_start(&f->timer, 0);
    if (f->held.n_places > 0)
        timer_start(&f->checkpoint.later, HELD_MS);
    if (!is_held(f))
        return true;
    f->held.is_limited = f->held.is_cut;
    follower_unpause(f, PAUSED_FOR_PROOF);
    return deliver_collected(f, &m) &&
           (!f->held.is_limited || wait_for_more(f));
}

static bool
fail(struct td_follower *f, const struct problem *why)
{
    struct follower_checkpoint *c = &f->checkpoint;
    bool is_awaited = f->state == FOLLOWER_PROVING || is_held(f);

    c->due_ms = is_awaited ? 0 : clock_steady_ms() + PAUSE_LONGEST;
    follower_drop_check(f);
    if (why->rc != STATUS_UNREACHABLE)
        return follower_end(f, why);
    return is_awaited ? follower_trouble(f, why)
                      : follower_report(f, why->text, 0);
}

/* Keeps both texts, which contradict each other, and refuses the history. */
static bool
refuse(struct td_follower *f, const char *fault, const char *root,
       struct slice proof, const struct problem *why)
{
    struct follower_checkpoint *c = &f->checkpoint;
    struct buf both = {.max = 3 * NOTE_BYTES_MAX};
    struct problem reason, unkept = {""};
    const char *path = f->client->checkpoint_path;

    if (!strcmp(fault, "digest"))
        buf_add_format(&both, "%s-%" PRIu64 " %s\n", c->at.epoch, c->at.seq,
                       digest_text(&c->digest).text);
    else
        buf_add_slice(&both, buf_slice(&c->kept));
    tell(f, fault, buf_slice(&both), proof);
    BUF_ADD(&both, "\n");
    buf_add_slice(&both, buf_slice(&c->text));
    if (proof.size > 0)
        BUF_ADD(&both, "\n");
    buf_add_slice(&both, proof);
    (void)!store(f, "evidence", buf_slice(&both), &unkept);
    buf_fini(&both);
    problem(&reason, STATUS_REWOUND, "%.700s%s%s", why->text,
            !path ? "" : "; evidence: ",
            !path       ? ""
            : unkept.rc ? unkept.text
                        : path_of(f, "evidence").text);
    follower_drop_check(f);
    buf_clear(&c->kept); /* the caller may accept the new one */
    c->signed_to.epoch[0] = c->proven.epoch[0] = '\0';
    f->held.n_places = 0;
    c->due_ms = 0;
    return follower_refuse_history(f, &reason, root);
}

static bool judge(struct td_follower *f);

/* Asks for the document at that address. */
static bool __attribute__((format(printf, 3, 4)))
ask(struct td_follower *f, fetch_end_fn *on_end, const char *format, ...)
{
    struct fetch_request request = {.max_bytes = NOTE_BYTES_MAX,
                                    .redirects = 5,
                                    .silence_s = f->options.silence_s};
    char *url = NULL;
    va_list args;

    va_start(args, format);
    if (vasprintf(&url, format, args) < 0)
        url = NULL;
    va_end(args);
    request.url = url;
    if (url)
        f->checkpoint.fetch = fetch_start(f->client, &request, NULL, on_end, f);
    free(url);
    return f->checkpoint.fetch || follower_fail(f, STATUS_MEMORY, NO_MEMORY);
}

/* True if there is a body; else the check has failed. */
static bool
take_answer(struct td_follower *f, struct fetch_answer *answer,
            const struct problem *why)
{
    struct problem copy = *why;

    if (!copy.rc && answer->status != 200)
        fetch_refused(&copy, answer);
    if (copy.rc) {
        problem_prefix(&copy, copy.rc, "%.300s: ", f->offered.checkpoint);
        fail(f, &copy);
    }
    return !copy.rc;
}

static bool ask_tile(struct td_follower *f);

static void
on_tile(struct fetch_answer *answer, const struct problem *why, void *user)
{
    struct td_follower *f = user;
    struct follower_checkpoint *c = &f->checkpoint;
    struct checkpoint_tile *tile = c->asked_tile;
    struct problem bad = {""};

    c->fetch = NULL;
    if (!why->rc && answer->status == 404 && tile->wide < TILE_WIDTH) {
        tile->wide = TILE_WIDTH; /* partial ones may go when that is there */
        ask_tile(f);
    } else if (!take_answer(f, answer, why)) {
        return;
    } else if (answer->body.size != tile->wide * sizeof(tile->hashes[0])) {
        problem(&bad, STATUS_UNREACHABLE, "%.300s: a tile of it has %zu bytes",
                f->offered.checkpoint, answer->body.size);
        fail(f, &bad);
    } else {
        memcpy(tile->hashes, answer->body.data, answer->body.size);
        judge(f);
    }
}

/* Asks for the tile that is missing. */
static bool
ask_tile(struct td_follower *f)
{
    const struct follower_checkpoint *c = &f->checkpoint;
    const struct checkpoint_tile *tile = c->asked_tile;
    size_t prefix = strlen(f->offered.checkpoint) - strlen("checkpoint");
    char path[TILE_PATH_SIZE];

    tree_tile_write(path, tile->level, tile->number, tile->wide);
    return ask(f, on_tile, "%.*stile/%s?%s", (int)prefix, f->offered.checkpoint,
               path, c->at.epoch);
}

/* The tile in memory, or a new one; NULL: no memory. */
static struct checkpoint_tile *
find_tile(struct follower_checkpoint *c, unsigned level, uint64_t number)
{
    struct checkpoint_tile *tile;

    list_walk (tile, &c->tiles, node)
        if (tile->level == level && tile->number == number)
            return tile;
    tile = memory_new(1, sizeof(*tile));
    if (!tile)
        return NULL;
    tile->level = level;
    tile->number = number;
    list_append(&c->tiles, &tile->node);
    c->n_tiles++;
    return tile;
}

/* Each tile that is missing is asked for, then the check begins anew. Those of
 * earlier checks do as far as they go: most places lie in one tile. */
static enum status
read_tile(const struct tree_tiles *tiles, unsigned level, uint64_t number,
          unsigned width, struct digest *hashes, struct problem *why)
{
    struct follower_checkpoint *c = tiles->user;
    struct checkpoint_tile *tile = find_tile(c, level, number);

    if (!tile)
        return problem_memory(why);
    if (tile->wide >= width) {
        memcpy(hashes, tile->hashes, width * sizeof(*hashes));
        return STATUS_OK;
    }
    if (c->n_tiles > TILES_MAX + TILES_KEPT)
        return problem(why, STATUS_MALFORMED, "the proof has too many tiles");
    tile->wide = tree_tile_width(c->size, level, number);
    c->asked_tile = tile;
    return problem(why, STATUS_AGAIN, "a tile is asked for");
}

/* Reports an old checkpoint: a cache may hand it on, or a broker that is cut
 * off, or one whose witnesses are away. False: the
 * follower is over. */
static bool
report_age(struct td_follower *f)
{
    int64_t age_s = clock_now_us() / 1000000 - f->checkpoint.time_s;
    char text[1200];

    if (!f->checkpoint.time_s || age_s < STALE_S)
        return true;
    snprintf(text, sizeof(text),
             "%.900s: the newest checkpoint is of %s; changes after that may "
             "be missing",
             f->offered.url,
             datetime_text_short(f->checkpoint.time_s * 1000000).text);
    return follower_report(f, text, 0);
}

/* Takes the last unsigned place that the tree has. True: the check begins anew,
 * with that place. False: the check was already of this place or a later one. */
static bool
take_unsigned(struct td_follower *f)
{
    struct follower_checkpoint *c = &f->checkpoint;
    uint64_t checked = c->at.seq <= c->size ? c->at.seq : 0;

    for (size_t i = f->held.n_places; i-- > 0;) {
        const struct unsigned_place *place = &f->held.places[i];

        if (place->at.seq > c->size || strcmp(place->at.epoch, c->at.epoch))
            continue;
        if (place->at.seq <= checked)
            return false;
        c->at.seq = place->at.seq;
        c->digest = place->digest;
        return c->has_digest = true;
    }
    return false;
}

/* The tree has the place of the check. */
static void
drop_unsigned(struct follower_held *held, const struct position *proven)
{
    size_t n = 0;

    for (size_t i = 0; i < held->n_places; i++)
        if (held->places[i].at.seq > proven->seq ||
            strcmp(held->places[i].at.epoch, proven->epoch) != 0)
            held->places[n++] = held->places[i];
    held->n_places = n;
}

/* True if something that came, and waits or was handed over, is not in the
 * tree, and has to be before the follower goes on. */
static bool
is_short(const struct td_follower *f)
{
    const struct follower_checkpoint *c = &f->checkpoint;
    const struct position *at = &f->place.order.at;
    bool is_end = f->how.until_caught_up && f->state == FOLLOWER_PROVING;
    bool lacks = at->seq > c->size && !strcmp(at->epoch, c->at.epoch);

    return f->client->trust && ((is_held(f) && lacks) ||
                                (is_end && (lacks || f->held.n_places > 0)));
}

static bool
judge(struct td_follower *f)
{
    struct follower_checkpoint *c = &f->checkpoint;
    struct buf proof = {.max = PROOF_MAX};
    const struct trust_progress progress = {
        .trust = f->client->trust,
        .kept = buf_slice(&c->kept),
        .epoch = c->at.epoch,
        .seq = c->at.seq,
        .digest = c->has_digest ? &c->digest : NULL,
        .tiles = {read_tile, c},
        .size = &c->size,
        .proof = &proof,
    };
    struct td_checkpoint *found = &f->client->checkpoint;
    struct problem why = {""};
    const char *fault = "";
    bool is_new = !c->signed_to.epoch[0] ||
                  !slice_equal(buf_slice(&c->text), buf_slice(&c->kept));
    enum status rc =
        trust_progress(&progress, buf_slice(&c->text), found, &fault, &why);

    if (rc == STATUS_AGAIN)
        return ask_tile(f);
    if (!rc && take_unsigned(f))
        return judge(f);
    if (rc)
        problem_prefix(&why, rc, "%.300s: ", f->offered.checkpoint);
    else if (is_new)
        rc = store(f, "checkpoint", buf_slice(&c->text), &why);
    c->is_lagging = !rc && c->has_digest && c->at.seq > c->size;
    if (rc == STATUS_REWOUND) {
        is_new = refuse(f, fault, found->root, buf_slice(&proof), &why);
        buf_fini(&proof);
        return is_new;
    }
    if (rc == STATUS_DIFFERENT)
        tell(f, fault, SLICE(""), SLICE(""));
    if (rc)
        return fail(f, &why);
    if (is_new)
        tell(f, NULL, SLICE(""), SLICE(""));
    buf_clear(&c->kept);
    buf_add_slice(&c->kept, buf_slice(&c->text));
    c->signed_to = c->at;
    c->signed_to.seq = c->size;
    c->time_s = found->time_s;
    if (c->has_digest && !c->is_lagging) {
        c->proven = c->at;
        drop_unsigned(&f->held, &c->at);
    }
    buf_fini(&c->text);
    if (is_short(f)) {
        c->due_ms = 0;
        return wait_for_more(f);
    }
    return (!is_new || report_age(f)) && release(f);
}

static void
on_text(struct fetch_answer *answer, const struct problem *why, void *user)
{
    struct td_follower *f = user;
    struct follower_checkpoint *c = &f->checkpoint;

    c->fetch = NULL;
    if (!why->rc && answer->status == 404 && c->is_witnessed) {
        c->is_witnessed = false; /* none is cosigned yet: judge says so */
        ask(f, on_text, "%s", f->offered.checkpoint);
    } else if (take_answer(f, answer, why)) {
        c->text = answer->body;
        buf_init(&answer->body, 0);
        judge(f);
    }
}

static bool
ask_checkpoint(struct td_follower *f)
{
    struct follower_checkpoint *c = &f->checkpoint;

    c->asked_ms = clock_steady_ms();
    c->due_ms = c->asked_ms + CHECK_MS;
    c->is_witnessed = f->client->trust && f->client->trust->required > 0;
    return ask(f, on_text, "%s%s", f->offered.checkpoint,
               c->is_witnessed ? "?witnessed" : "");
}

static bool
begin_check(struct td_follower *f)
{
    const struct message_sequence *order = &f->place.order;
    struct follower_checkpoint *c = &f->checkpoint;
    const char *url = f->offered.checkpoint;
    struct position head = {.seq = 0};
    int64_t wait_ms = c->asked_ms + HELD_MS - clock_steady_ms();
    bool is_same;

    if (!url || !slice_ends(slice_of(url), "/checkpoint"))
        return follower_fail(f, STATUS_REFUSED,
                             "%.800s has no checkpoints: nobody signs its "
                             "history",
                             f->offered.url);
    if (!load_kept(f))
        return false;
    if (c->fetch || c->n_tiles > TILES_KEPT ||
        strcmp(c->at.epoch, order->at.epoch) != 0)
        follower_drop_check(f);
    buf_fini(&c->text);
    if (is_held(f) || !c->is_lagging ||
        strcmp(c->at.epoch, order->at.epoch) != 0) {
        c->at = order->at;
        slice_copy(c->at.epoch, sizeof(c->at.epoch),
                   slice_of(follower_epoch(f, &head)));
        is_same = !strcmp(c->at.epoch, order->at.epoch);
        c->at.seq = is_same ? order->at.seq : 0; /* of the log to come */
        c->has_digest = is_same && order->has_digest;
        c->digest = order->digest;
    }
    c->asked_seq = order->at.seq;
    if (is_held(f) && c->signed_to.seq >= c->at.seq &&
        !strcmp(c->signed_to.epoch, c->at.epoch)) {
        c->text.max = c->kept.max;
        buf_add_slice(&c->text, buf_slice(&c->kept));
        return judge(f);
    }
    if ((is_held(f) || f->held.n_places > 0) && c->asked_ms && wait_ms > 0) {
        timer_start(&c->later, wait_ms);
        return true;
    }
    return ask_checkpoint(f);
}

void
follower_checkpoint_ask(void *follower)
{
    struct td_follower *f = follower;

    if (is_held(f))
        ask_checkpoint(f);
    else if (f->held.n_places > 0 && !f->checkpoint.fetch)
        begin_check(f);
}

static bool
begin_proving(struct td_follower *f)
{
    follower_enter(f, FOLLOWER_PROVING);
    if (!f->checkpoint.fetch)
        begin_check(f);
    return false;
}

static bool
go_on(struct td_follower *f)
{
    return f->checkpoint.fetch ? false : follower_go(f);
}

const struct phase phase_checkpoint = {
    .begin = begin_proving, .go_on = go_on, .check = begin_check};
