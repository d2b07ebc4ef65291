/*
 * log.h - the durable log: of every set, its entries in order.
 *
 * The entries of a set are numbered 1, 2, 3 ... without gaps. They arrive in
 * batches, which one commit made durable together. Every consumer of changes is
 * at a position in this sequence, and reads on from it.
 *
 *     submit --> [log thread: stamp, commit, publish] --> tail --> readers
 *                                   |
 *                                   +--> store (tidings.db) --> closed lists
 *
 * Threads: log_open and log_close belong to the thread that starts the broker;
 * all else may be called from any thread, what says "may block" not from a
 * service thread.
 *
 * This header is a seam: behind it is an engine (engine.h), which the broker
 * chooses. Today that is broker/store.
 * Callers must not assume that a batch was made in this process.
 */
#pragma once

#include "broker/log/act.h"
#include "broker/log/batch.h"
#include "broker/log/head.h"
#include "broker/log/post.h"

struct engine;
struct log;
struct thread;
struct log_set; /* one set's log; lives as long as the log */

/* Life cycle */

/* Opens the engine in the data directory `dir`, which exists, or creates its
 * files there. `forms` counts the bytes of the forms that its batches keep.
 * *engine is the caller's, to be closed by its `close`. */
typedef enum status engine_open_fn(struct engine **engine, const char *dir,
                                   atomic_size_t *forms, struct problem *why);

struct log_options {
    const char *dir; /* data directory; made if missing */
    engine_open_fn *open_engine;
    struct list_limits limits;
    uint64_t tail_bytes; /* memory for recent batches of all sets */
    int64_t linger_us;   /* how long a commit waits for company */

    /* With so many bytes of closed lists without a file changes wait
     * (log_thread.h); 0: never. */
    uint64_t unfiled_bytes;

    /* Called on log_open's thread for every existing set, with its stored
     * settings and its harvester's report; it may set the limits of its lists.
     * Returns the set's owner; NULL: no memory. */
    void *(*on_set)(struct log_set *set, struct slice settings,
                    struct slice harvest, struct list_limits *limits,
                    void *user);

    /* Called likewise for every name of a removed set, with the number of the
     * first list of the next set of that name, and the creator of the removed
     * one (log_set_creator). May be NULL. */
    enum status (*on_removed)(const char *name, uint64_t list,
                              struct slice creator, void *user);

    /* The final header of the list that ends. Log thread. */
    void (*on_header)(struct log_set *set, const struct head *head,
                      const struct list_info *info, struct buf *header,
                      void *user);

    /* Announces the acts of a round, of all kinds, in the order of the log:
     * sets *post to a post of kind POST_CHANGES, or leaves it NULL if there is
     * nothing to announce. The log borrows the post until its `done`, and puts
     * it into the same transaction: a crash leaves the acts and their
     * announcement or neither. The post's set is published last of all, when
     * every other post was answered: a reader of the announcement finds the
     * acts done wherever it looks. The acts that the post itself leads to (its
     * set gets a batch, a list of it ends) are not announced. `acts` are lent.
     * Log thread; may be NULL. STATUS_MEMORY: the round fails. */
    enum status (*on_acts)(const struct act *acts, size_t n, struct post **post,
                           void *user);

    /* The journal that orders the commits of several brokers (journal.h), lent
     * until log_close; NULL: there is one broker, whose commits are in the
     * order of its rounds. */
    struct journal *journal;

    /* The set of an act of another broker, which is about to happen here: the
     * one that log_set_new has made for a post of this broker, or a new one.
     * NULL: no memory. Log thread; only with a journal. */
    struct log_set *(*on_foreign)(const struct act *act, void *user);

    /* The acts of another broker are done: readers see them. They are lent. Log
     * thread; only with a journal; may be NULL. */
    void (*on_followed)(const struct act *acts, size_t n, void *user);
    void *user;

    /* The copy is certain up to a later moment than before (log_is_certain).
     * Log thread, or the journal's follower; only to wake; with a journal only.
     * May be NULL. */
    void (*on_certain)(void *user);

    /* A list has ended: there is a file to write. Log thread; only to wake. May
     * be NULL. */
    void (*on_closed)(void *user);
    void *wake_user; /* of the last two */
};

/* Opens the log in its directory, or creates it, and takes the directory's
 * lock. Ends what a crash interrupted, so that every acknowledged entry is
 * there. `*log` is the caller's, to be given to log_close. STATUS_BUSY:
 * another broker has the directory. */
MUST_CHECK enum status log_open(struct log **log,
                                const struct log_options *options,
                                struct problem *why);

/* Checks that log_open could use `dir`: that the directory can be made and
 * used, and that no other broker has it. Writes nothing, and does not ask the
 * engine. */
MUST_CHECK enum status log_check(const char *dir, struct problem *why);

/* Takes no more posts; commits and answers the submitted ones. Reading goes on.
 * Only the thread that closes calls it. */
void log_stop(struct log *log);

/* True from the beginning of log_stop on, for as long as the log lives: a
 * thread then gives up long work whose result it would post to the log, for the
 * log would not take it. Any thread, relaxed: a look that comes too early costs
 * one more piece of work. */
const atomic_bool *log_ending(const struct log *log);

/* log_stop, then frees the log: no thread may read any more. NULL is
 * allowed. */
void log_close(struct log *log);

/* Sets */

/* Makes a set without a head: the commit of its first post gives it one. `list`
 * is the number of its first list if another set of this name was removed
 * (on_removed), else 0. The caller gives no name twice. */
struct log_set *log_set_new(struct log *log, const char *name, uint64_t list,
                            void *owner);

/* Sets and returns the client whose request makes the set: client_store
 * (client_limits.h), empty: none. The store keeps it from the first post on.
 * Setting is for a set from log_set_new without a post. */
void log_set_begin_for(struct log_set *set, struct slice creator);
struct slice log_set_creator(const struct log_set *set);

/* From the next round on, its lists are full at these limits. Log thread, in
 * on_followed. */
void log_set_limit(struct log_set *set, const struct list_limits *limits);

const char *log_set_name(const struct log_set *set);

/* Its number: sets get them in order when they begin, and keep them for as long
 * as they are there; 0: it has not begun. Any thread. */
uint64_t log_set_number(const struct log_set *set);

/* How many sets have begun in this process. A set is counted after all threads
 * see it, and every other set that began in the same commit: a thread that
 * finds the number unchanged has missed none. Any thread. */
uint64_t log_births(const struct log *log);

/* The owner from log_set_new or on_set. */
void *log_set_owner(const struct log_set *set);

/* Copies the head; returns head->exists. */
bool log_head(struct log_set *set, struct head *head);

/* Writing */

/* Hands `post` to the log thread and returns at once. `post->done` is called,
 * on the log thread, when all is on disk or refused as a whole; until then the
 * post is the log's. STATUS_STOPPED: the log is ending, nothing was taken. */
MUST_CHECK enum status log_submit(struct log *log, struct post *post,
                                  struct problem *why);

/* The same, but the log thread may sleep on until log_wake: a caller with many
 * posts at once lets them share one commit. */
MUST_CHECK enum status log_submit_later(struct log *log, struct post *post,
                                        struct problem *why);

/* Log thread, in `done` of a post that got STATUS_GONE and has another set now:
 * the post keeps its place, before all later ones. */
void log_submit_again(struct log *log, struct post *post);

/* Submits `post`, waits for its outcome and returns it; it is then in `post` as
 * well. The log sets `done`. STATUS_STOPPED: the log is ending. Not from a
 * service thread, nor from the log thread. */
MUST_CHECK enum status log_post_and_wait(struct log *log, struct post *post,
                                         struct problem *why);

/* Likewise posts one act, whose "given" fields are set. `set` is NULL if the
 * act has none. Trash of the act stays for `grace_us`. STATUS_GONE: the set was
 * removed. */
MUST_CHECK enum status log_act(struct log *log, struct log_set *set,
                               const struct act *act, int64_t grace_us,
                               struct problem *why);

/* A file in a data directory that was restored: all its sets get new epochs at
 * the start (broker/archive/epochs.h). */
#define LOG_NEW_EPOCHS "new-epochs"

/* The log of the set goes on in a new epoch (head.h), and the broker's log says
 * so. As log_act; STATUS_OK if the set is gone. */
MUST_CHECK enum status log_begin_epoch(struct log *log, struct log_set *set,
                                       const char *because,
                                       struct problem *why);

/* True if the broker was closed to requests without a token, be it before a
 * restart or a restore. Any thread. */
bool log_is_guarded(const struct log *log);

/* Remembers that, for ever. As log_act; STATUS_OK at once if it is known. */
MUST_CHECK enum status log_guard(struct log *log, struct problem *why);

/* Wakes the log thread if there are posts of log_submit_later. */
void log_wake(struct log *log);

/* True while changes wait for files of lists (unfiled_bytes). The thread that
 * files them then does nothing else for long. Any thread, relaxed. */
bool log_is_holding(const struct log *log);

#define LOG_NEARLY_FULL "the disk is nearly full"

/* The health of the log, for monitoring. */
struct log_health {
    bool has_room;    /* the disk has room for posts: after it was full, for
                         three rounds of them; as of the last second */
    int64_t ahead_us; /* how far the last event time of any set is ahead of the
                         clock: it was set back, or too much was posted */
};

/* Any thread; never blocks. */
void log_health(struct log *log, struct log_health *health);

/* True if a journal orders the commits: other brokers serve the same sets. Any
 * thread. */
bool log_is_shared(const struct log *log);

/* How far the log is in its journal; all zero without one. Any thread. */
void log_place(struct log *log, struct journal_place *place);

/* Whether a broker of a cluster can do the work that one of them has to do, and
 * why not. The leases that it asks for, its report to the others, /readyz and
 * the metrics rest on this alone. */
enum copy_state {
    COPY_CERTAIN,     /* it can: it has all records, or had less than
                         COPY_GRACE_US ago, and its account has the rights */
    COPY_CATCHING_UP, /* it has not had all records yet since its start */
    COPY_BEHIND,      /* it had them, and the journal gives it more */
    COPY_NO_TURNS,    /* it has them, and got no turn for COPY_GRACE_US */
    COPY_CUT_OFF,     /* the journal does not answer */
    COPY_REFUSED,     /* this broker does not trust the server, or is refused */
    COPY_NO_RIGHT,    /* its account may not write what work needs */
    COPY_NO_ROOM,     /* its disk is nearly full */
    COPY_AHEAD,       /* the journal has lost records that it has */
    COPY_DIFFERENT,   /* the journal has another history */
    COPY_FORGOTTEN,   /* the journal has forgotten records that it needs */
    COPY_STATES
};

/* A state that ends within this time moves no work. */
#define COPY_GRACE_US 10000000

/* Their names in reports. */
extern const char *const copy_state_names[COPY_STATES];

/* How much of its journal the log has, for monitoring and for readers. */
struct log_copy {
    enum copy_state state;
    bool is_cut_off;    /* the journal gives no turns or no records: the log
                           refuses posts, and its entries may be old ones */
    struct problem why; /* of both; "": neither */
    int64_t since_us;   /* when it was cut off, or that ended */
    int64_t silent_us;  /* since the log last had all records, or since the
                           start, if it has not had them yet */
    bool is_answering;  /* the journal is, so the log need not be old */
    uint64_t place;     /* the last record that the log has */
    uint64_t behind;    /* records that the journal had at the last look, and
                           the log has not */
    int64_t age_us;     /* since it last had all of them */
    int64_t past_us;    /* entries that are not in the log yet will have later
                           times: by the journal's clock, which is not this
                           broker's; 0: nothing is known */
    int64_t as_of_us;   /* the copy has all that any broker of the cluster
                           answered or sent before then, by the clock of this
                           broker; the time of its last event if it has been
                           cut off since the start */
};

/* Without a journal: certain, as of now. Any thread. */
void log_copy(struct log *log, struct log_copy *copy);

/* True if the log cannot follow the journal any more. */
static inline bool
log_copy_is_wrong(const struct log_copy *copy)
{
    return copy->state == COPY_DIFFERENT || copy->state == COPY_FORGOTTEN;
}

/* True if the log has all that any broker of the cluster had answered or sent
 * before `us` (steady clock); always true without a journal. Any thread. */
bool log_is_certain(struct log *log, int64_t us);

/* Has the journal looked at soon: then log_options.on_certain is called, unless
 * the log is cut off. Any thread. */
void log_ask_journal(struct log *log);

/* For the journal's follower: what a look at the journal, begun at `asked_us`
 * (steady clock), came to. Records that come later have later times than
 * `past_us`; 0: as far as was known. log_note_end comes first, before the
 * follower hands over the records up to `end`; log_note_copy when it has handed
 * over all of them, or with the status that kept it from that.
 * STATUS_FORBIDDEN: a turn would be refused; the log thread asks for one each
 * second until it gets one. Any thread. */
void log_note_end(struct log *log, uint64_t end);
void log_note_copy(struct log *log, int64_t asked_us, int64_t past_us,
                   enum status rc, const struct problem *why);

/* Likewise: `why` the account of this broker may not write what work of the
 * cluster needs; NULL: it may. */
void log_note_rights(struct log *log, const struct problem *why);

/* The log thread, to watch whether it hangs. Lent until log_close. */
const struct thread *log_writer(const struct log *log);

/* Reading */

enum log_patience {
    LOG_MEMORY, /* answer STATUS_AGAIN rather than wait for a disk */
    LOG_DISK    /* may block */
};

/* Most batches of a view: a full message of usual commits. */
#define LOG_VIEW_BATCHES 64

/* A set's log at one moment, as far as memory has it. */
struct log_view {
    struct head head;
    struct batch *batches[LOG_VIEW_BATCHES]; /* references; consecutive, the
                                                first has entry `after` + 1 */
    size_t n; /* 0: `after` is not before the head, or not in memory */
};

/* Copies the head, and takes the batches of the entries after `after` up to
 * `upto`, under one hold of the set's lock. After the first, it takes no batch
 * once they have `max_bytes` of fragments. The caller closes the view. Any
 * thread. */
void log_view_open(struct log_set *set, uint64_t after, uint64_t upto,
                   size_t max_bytes, struct log_view *view);
void log_view_close(struct log_view *view);

/* Sets `*batch` to a batch that holds entry `after` + 1 of `set`, or to NULL at
 * the head. The caller owns one reference (batch_unref). The answer comes from
 * memory, the store or a closed list; callers cannot tell which. STATUS_GONE:
 * that entry is older than what is retained, or `after` is ahead of the
 * log. */
MUST_CHECK enum status log_read(struct log *log, struct log_set *set,
                                uint64_t after, enum log_patience patience,
                                struct batch **batch, struct problem *why);

/* A subscription of a thread to the commits of a set. */
struct watch {
    struct list node;
    /* Called on the log thread under the set's lock: mark, wake, return. */
    void (*wake)(struct watch *watch);
};

/* From here on `watch` is woken after each commit; look at the head after this
 * call, not before it. Any thread. */
void log_watch(struct log_set *set, struct watch *watch);

/* When it returns, `watch` is not and will not be called. Any thread. */
void log_unwatch(struct log_set *set, struct watch *watch);

/* Sets *seq to the last entry of `set` whose time is not after `us` (0: none
 * is), so that all later entries happened after `us`: times grow strictly.
 * STATUS_GONE: the entry after it is no longer retained. */
MUST_CHECK enum status log_since(struct log *log, struct log_set *set,
                                 int64_t us, enum log_patience patience,
                                 uint64_t *seq, struct problem *why);

/* The closed lists from `number` on, at most *n; sets *n. May block. */
MUST_CHECK enum status log_lists(struct log *log, struct log_set *set,
                                 uint64_t number, struct list_info *lists,
                                 size_t *n, struct problem *why);

/* Closed list `number` with its final header (NULL: not wanted).
 * STATUS_NOT_FOUND. May block. */
MUST_CHECK enum status log_list(struct log *log, struct log_set *set,
                                uint64_t number, struct list_info *info,
                                struct buf *header, struct problem *why);

/* Opens the gzip file of closed list `number`, which is filed; the caller
 * closes it. May block. */
MUST_CHECK enum status log_list_file(struct log *log, struct log_set *set,
                                     uint64_t number, int *fd,
                                     struct problem *why);

/* Finds a place in a list to begin reading for byte `offset` of its fragments:
 * near `offset` and not behind it if marks or batches are known, else the
 * list's beginning. May block. */
MUST_CHECK enum status log_seek(struct log *log, struct log_set *set,
                                const struct list_info *info, uint64_t offset,
                                struct list_place *place, struct problem *why);

/* Keeping */

/* The folders of a set's directory that have its closed lists, the tiles of its
 * tree, and the bytes of its resources; and files beside the lists
 * (broker/archive/checkpoints.h). Of all but the lists the log knows no more
 * than that they go with the set. */
#define LOG_CHANGES    "changes"
#define LOG_TILES      "tile"
#define LOG_CONTENT    "content"
#define LOG_CHECKPOINT "checkpoint"
#define LOG_WITNESSED  "checkpoint.witnessed"

/* Opens a folder of the set's directory for documents, made if `is_made`: who
 * may pass the data directory may read them. The caller closes it. May block.
 */
MUST_CHECK enum status log_folder(struct log *log, const struct log_set *set,
                                  const char *name, bool is_made, int *fd,
                                  struct problem *why);

/* Deleting: a backup keeps a running broker from deleting files.
 *
 *     tidingsd backup    shares the data directory from its first look to its
 *                        last copy (file_share_folder)
 *     archive thread     has it alone around each step that deletes; if a
 *                        backup shares it, leaves the step for later
 *
 * So a backup finds every file that the databases of its moment name, and the
 * broker waits for nothing. Retention stands still, too: a copied state then
 * lacks no entry that the copied log still has. The lock ends with the process
 * that has it.
 *
 * log_begin_deleting returns false if a backup copies files; else the caller
 * calls log_end_deleting. log_may_delete: as of the last attempt. Archive
 * thread. */
MUST_CHECK bool log_begin_deleting(struct log *log);
void log_end_deleting(struct log *log);
bool log_may_delete(const struct log *log);

/* Writes the file of one closed list that has none, byte for byte what was
 * served from the log before, makes it durable, and lets the log forget those
 * batches. *is_done: there was none to write. STATUS_STOPPED: the log is
 * ending, nothing of it is there. Archive thread; may block. */
MUST_CHECK enum status log_file_list(struct log *log, bool *is_done,
                                     struct problem *why);

/* Removes the `n` oldest lists, which are closed and filed, from the history of
 * a set, in one commit. Files and rows go `grace_us` later, because readers may
 * still use them. Archive thread; may block. */
MUST_CHECK enum status log_retire(struct log *log, struct log_set *set,
                                  const struct list_info *lists, size_t n,
                                  int64_t grace_us, struct problem *why);

/* Fills a page of the archived generations of a set. May block. */
MUST_CHECK enum status log_generations(struct log *log, struct log_set *set,
                                       struct generation_page *page,
                                       struct problem *why);

/* What is known about the content of a set behind fact->id, and its bytes,
 * unless they are in a file. STATUS_NOT_FOUND: no more. May block. */
MUST_CHECK enum status log_fact(struct log *log, struct log_set *set,
                                struct content_fact *fact, struct buf *bytes,
                                struct problem *why);

/* The first generation behind *due (all zero: of all) whose files may go, those
 * of removed sets among them; then, when they are gone, post ACT_SWEPT.
 * STATUS_NOT_FOUND: none is due. Archive thread; may block. */
MUST_CHECK enum status log_due(struct log *log, struct due_generation *due,
                               struct problem *why);

/* True if this process still needs the entries of a retired list of the set
 * with that owner (log_set_owner). */
typedef bool log_needs_fn(void *owner, const struct list_info *list);

/* Deletes some trash that is due: files, then rows; also the whole folder of a
 * removed set, unless a set has that name now. Then each owner of files there
 * must check by the epoch to which set they belong. Retired lists stay as long
 * as `needs` (NULL: nobody) returns true for the last one of their act: another
 * broker may have retired them. *is_done: nothing can be deleted now. Archive
 * thread; may block. */
MUST_CHECK enum status log_purge(struct log *log, log_needs_fn *needs,
                                 bool *is_done, struct problem *why);
