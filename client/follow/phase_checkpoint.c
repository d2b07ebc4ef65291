/*
 * phase_checkpoint.c - checks the signed checkpoints of the set
 * (td_keep_checkpoints).
 *
 *     a connection begins --> PROVING: checkpoint, tiles --> goes on
 *     it is caught up     --> PROVING                    --> ends
 *     each CHECK_MS       --> the same beside LIVE
 *
 * Nothing is handed over on a new connection before its checkpoint is right.
 * What a tree does not have yet, the next one has to have: the digest of the
 * place says which history came.
 *
 * The reads of trust_progress do not wait: one that lacks a tile asks for it,
 * and the check begins anew when that has come.
 */
#include <fcntl.h>

#include "base/clock.h"
#include "base/file.h"
#include "client/follow/follower.h"
#include "client/lib/trust.h"
#include "proto/fnv1a.h"

#define CHECK_MS 300000 /* between two looks */
#define STALE_S  900    /* an age that is worth a report */

/* A proof of two ways through a tree of 2^64 leaves has fewer. */
#define TILES_MAX 64

struct checkpoint_tile {
    unsigned level, wide;
    uint64_t number;
    struct digest hashes[TILE_WIDTH];
};

/* The place of the last checkpoint, or of evidence, in the caller's files. */
static struct file_path
name_of(const struct td_follower *f, const char *what)
{
    return file_path("%s.%s-%016" PRIx64, f->client->checkpoint_name, what,
                     fnv1a(FNV1A_BEGIN, slice_of(f->offered.url)));
}

static void
load_kept(struct td_follower *f)
{
    struct follower_checkpoint *c = &f->checkpoint;
    char *room = NULL;
    ssize_t n = -1;

    c->kept.max = NOTE_BYTES_MAX;
    if (!c->is_loaded && f->client->checkpoint_dir)
        room = buf_room(&c->kept, NOTE_BYTES_MAX);
    if (room)
        n = file_read(AT_FDCWD,
                      file_path("%s/%s", f->client->checkpoint_dir,
                                name_of(f, "checkpoint").text)
                          .text,
                      room, NOTE_BYTES_MAX);
    c->is_loaded = true;
    if (n > 0)
        c->kept.size = (size_t)n;
}

static enum status
store(struct td_follower *f, const char *what, struct slice text,
      struct problem *why)
{
    return f->client->checkpoint_dir
               ? file_store_in(f->client->checkpoint_dir, name_of(f, what).text,
                               text, false, why)
               : STATUS_OK;
}

/* Goes on with what waits for the check. */
static void
release(struct td_follower *f)
{
    if (f->state == FOLLOWER_PROVING)
        timer_start(&f->timer, 0);
}

static void
fail(struct td_follower *f, const struct problem *why)
{
    struct follower_checkpoint *c = &f->checkpoint;
    bool is_awaited = f->state == FOLLOWER_PROVING;

    c->due_ms = is_awaited ? 0 : clock_steady_ms() + FOLLOWER_PAUSE_LAST;
    follower_drop_check(f);
    if (why->rc != STATUS_UNREACHABLE)
        follower_end(f, why);
    else if (is_awaited)
        follower_trouble(f, why);
    else
        follower_report(f, why->text, 0);
}

/* Keeps both texts, which contradict each other, and refuses the history. */
static void
refuse(struct td_follower *f, const char *fault, const char *root,
       const struct problem *why)
{
    struct follower_checkpoint *c = &f->checkpoint;
    struct buf both = {.max = 3 * NOTE_BYTES_MAX};
    struct problem reason, unkept = {""};
    const char *dir = f->client->checkpoint_dir; /* with its "/", or "." */

    if (!strcmp(fault, "digest"))
        buf_add_format(&both, "%s-%" PRIu64 " %s\n", c->at.epoch, c->at.seq,
                       digest_text(&c->digest).text);
    else
        buf_add_slice(&both, buf_slice(&c->kept));
    BUF_ADD(&both, "\n");
    buf_add_slice(&both, buf_slice(&c->text));
    (void)!store(f, "evidence", buf_slice(&both), &unkept);
    buf_fini(&both);
    problem(&reason, STATUS_REWOUND, "%.700s%s%s%s", why->text,
            !dir ? "" : "; evidence: ",
            !dir || unkept.rc || !strcmp(dir, ".") ? "" : dir,
            !dir        ? ""
            : unkept.rc ? unkept.text
                        : name_of(f, "evidence").text);
    follower_drop_check(f);
    buf_clear(&c->kept); /* the caller may accept the new one */
    c->due_ms = 0;
    follower_refuse_history(f, &reason, root);
}

static void judge(struct td_follower *f);

static bool
ask(struct td_follower *f, const char *url, fetch_end_fn *on_end)
{
    const struct fetch_request request = {.url = url,
                                          .max_bytes = NOTE_BYTES_MAX,
                                          .redirects = 5,
                                          .silence_s = f->options.silence_s};

    f->checkpoint.fetch = fetch_start(f->client, &request, NULL, on_end, f);
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
    struct checkpoint_tile *tile = c->tiles[c->n_tiles - 1];
    struct problem bad;

    c->fetch = NULL;
    if (!why->rc && answer->status == 404 && tile->wide < TILE_WIDTH) {
        tile->wide = TILE_WIDTH; /* partial ones may go when that is there */
        ask_tile(f);
    } else if (!take_answer(f, answer, why)) {
        return;
    } else if (answer->body.size != tile->wide * sizeof(tile->hashes[0])) {
        problem(&bad, STATUS_MALFORMED, "%.300s: a tile of it has %zu bytes",
                f->offered.checkpoint, answer->body.size);
        fail(f, &bad);
    } else {
        memcpy(tile->hashes, answer->body.data, answer->body.size);
        judge(f);
    }
}

/* Asks for the last one of the tiles. */
static bool
ask_tile(struct td_follower *f)
{
    const struct follower_checkpoint *c = &f->checkpoint;
    const struct checkpoint_tile *tile = c->tiles[c->n_tiles - 1];
    size_t prefix = strlen(f->offered.checkpoint) - strlen("checkpoint");
    char path[TILE_PATH_SIZE];
    struct buf url = {.max = 65536};
    bool is_asked;

    tree_tile_write(path, tile->level, tile->number, tile->wide);
    buf_add_format(&url, "%.*stile/%s?%s%c", (int)prefix, f->offered.checkpoint,
                   path, c->at.epoch, '\0');
    is_asked = url.failed ? follower_fail(f, STATUS_MEMORY, NO_MEMORY)
                          : ask(f, url.data, on_tile);
    buf_fini(&url);
    return is_asked;
}

/* Each tile that is missing is asked for, then the check begins anew. */
static enum status
read_tile(const struct tree_tiles *tiles, unsigned level, uint64_t number,
          unsigned width, struct digest *hashes, struct problem *why)
{
    struct follower_checkpoint *c = tiles->user;
    struct checkpoint_tile **more, *tile;

    for (size_t i = 0; i < c->n_tiles; i++)
        if (c->tiles[i]->level == level && c->tiles[i]->number == number) {
            memcpy(hashes, c->tiles[i]->hashes, width * sizeof(*hashes));
            return STATUS_OK;
        }
    if (c->n_tiles == TILES_MAX)
        return problem(why, STATUS_MALFORMED, "the proof has too many tiles");
    more =
        realloc(c->tiles, (c->n_tiles + 1) * sizeof(struct checkpoint_tile *));
    c->tiles = more ? more : c->tiles;
    tile = more ? memory_new(1, sizeof(*tile)) : NULL;
    if (!tile)
        return problem_memory(why);
    tile->level = level;
    tile->number = number;
    tile->wide = tree_tile_width(c->size, level, number);
    more[c->n_tiles++] = tile;
    return problem(why, STATUS_AGAIN, "a tile is asked for");
}

/* Does the fault contradict what came before? */
static bool
is_of_history(const char *fault)
{
    static const char *const faults[] = {"smaller", "root", "inconsistent",
                                         "digest"};

    for (size_t i = 0; i < N_ELEMENTS(faults); i++)
        if (!strcmp(fault, faults[i]))
            return true;
    return false;
}

/* Reports an old checkpoint: a cache may hand it on, or a broker that is cut
 * off, or one whose witnesses are away. False: the
 * follower is over. */
static bool
report_age(struct td_follower *f)
{
    int64_t age_s = clock_now_us() / 1000000 - f->checkpoint.time_s;
    char time[DATETIME_SIZE + 1], text[1200];

    if (!f->checkpoint.time_s || age_s < STALE_S)
        return true;
    time[datetime_write_short(time, f->checkpoint.time_s * 1000000)] = '\0';
    snprintf(text, sizeof(text),
             "%.900s: the newest checkpoint is of %s; changes after that may "
             "be missing",
             f->offered.url, time);
    return follower_report(f, text, 0);
}

static void
judge(struct td_follower *f)
{
    struct follower_checkpoint *c = &f->checkpoint;
    const struct trust_progress progress = {
        .trust = f->client->trust,
        .kept = buf_slice(&c->kept),
        .epoch = c->at.epoch,
        .seq = c->at.seq,
        .digest = c->has_digest ? &c->digest : NULL,
        .tiles = {read_tile, c},
        .size = &c->size,
    };
    struct td_checkpoint found;
    struct problem why = {""};
    const char *fault = "";
    enum status rc =
        trust_progress(&progress, buf_slice(&c->text), &found, &fault, &why);

    if (rc == STATUS_AGAIN) {
        ask_tile(f);
        return;
    }
    if (rc)
        problem_prefix(&why, rc, "%.300s: ", f->offered.checkpoint);
    else
        rc = store(f, "checkpoint", buf_slice(&c->text), &why);
    c->is_lagging = !rc && c->has_digest && c->at.seq > c->size;
    if (rc == STATUS_DIFFERENT && is_of_history(fault)) {
        refuse(f, fault, found.root, &why);
    } else if (rc) {
        fail(f, &why);
    } else {
        buf_clear(&c->kept);
        buf_add_slice(&c->kept, buf_slice(&c->text));
        c->time_s = found.time_s;
        follower_drop_check(f);
        if (report_age(f))
            release(f);
    }
}

static void
on_text(struct fetch_answer *answer, const struct problem *why, void *user)
{
    struct td_follower *f = user;
    struct follower_checkpoint *c = &f->checkpoint;

    c->fetch = NULL;
    if (!why->rc && answer->status == 404 && c->is_witnessed) {
        c->is_witnessed = false; /* none is cosigned yet: judge says so */
        ask(f, f->offered.checkpoint, on_text);
    } else if (take_answer(f, answer, why)) {
        c->text = answer->body;
        buf_init(&answer->body, 0);
        judge(f);
    }
}

static bool
begin_check(struct td_follower *f)
{
    const struct message_sequence *order = &f->place.order;
    struct follower_checkpoint *c = &f->checkpoint;
    const char *url = f->offered.checkpoint;
    struct position head = {.seq = 0};
    char *witnessed = NULL;

    if (!url || !slice_ends(slice_of(url), "/checkpoint"))
        return follower_fail(f, STATUS_REFUSED,
                             "%.800s has no checkpoints: nobody signs its "
                             "history",
                             f->offered.url);
    load_kept(f);
    follower_drop_check(f);
    if (!c->is_lagging || strcmp(c->at.epoch, order->at.epoch) != 0) {
        c->at = order->at;
        slice_copy(c->at.epoch, sizeof(c->at.epoch),
                   slice_of(follower_epoch(f, &head)));
        c->has_digest = order->has_digest;
        c->digest = order->digest;
    }
    c->asked_seq = order->at.seq;
    c->due_ms = clock_steady_ms() + CHECK_MS;
    c->is_witnessed = f->client->trust && f->client->trust->required > 0;
    if (!c->is_witnessed)
        return ask(f, url, on_text);
    if (asprintf(&witnessed, "%s?witnessed", url) < 0)
        return follower_fail(f, STATUS_MEMORY, NO_MEMORY);
    ask(f, witnessed, on_text);
    free(witnessed);
    return true;
}

bool
follower_checkpoint_turn(struct td_follower *f)
{
    return f->state != FOLLOWER_LIVE || f->checkpoint.fetch ||
           !follower_checkpoint_is_due(f, false) || begin_check(f);
}

bool
follower_reach(struct td_follower *f)
{
    return follower_checkpoint_is_due(f, true)
               ? f->phases[FOLLOWER_PROVING]->begin(f)
               : follower_fail(f, STATUS_OK, "%s", "");
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

const struct phase phase_checkpoint = {.begin = begin_proving, .go_on = go_on};
