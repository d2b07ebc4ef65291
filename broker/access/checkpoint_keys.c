#include "broker/access/checkpoint_keys.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "base/file.h"
#include "base/token_file.h"
#include "broker/base/diag.h"

#define COMMENT \
    "# The keys of checkpoints; keep them secret, and keep a copy.\n"

/* The stream of a cluster, its only row, and the lease of a change. */
#define STREAM "checkpoint-keys"

struct checkpoint_keys {
    char dir[4096];
    struct file_path path;
    pthread_mutex_t changing; /* one change at a time; guards the next ones */
    struct stat file;         /* as it was when it was read or written */
    bool is_news;             /* the cluster lacks the text */
    bool is_read;             /* the cluster has one: */
    char read[CHECKPOINT_KEYS_SIZE];
    uint64_t n_read;

    pthread_rwlock_t
        lock; /* guards the rest; written while `changing` is held */
    size_t n;
    struct signing_key *all[CHECKPOINT_KEYS_MAX];
    char text[CHECKPOINT_KEYS_SIZE];
};

static void
free_all(struct signing_key **all, size_t n)
{
    while (n > 0)
        signing_key_free(all[--n]);
}

/* Reads a text, and makes it that of the keys. */
static enum status
use_text(struct checkpoint_keys *k, const char *text, struct problem *why)
{
    struct signing_key *all[CHECKPOINT_KEYS_MAX];
    struct slice rest = slice_of(text);
    size_t n = 0;
    enum status rc = STATUS_OK;

    for (unsigned line = 1; !rc && rest.size > 0; line++) {
        struct slice key = slice_take(&rest, '\n');

        if (key.size == 0 || key.data[0] == '#')
            continue;
        rc = n < CHECKPOINT_KEYS_MAX ? signing_key_read(&all[n], key, why)
                                     : STATUS_INVALID;
        n += !rc;
        if (rc == STATUS_INVALID)
            problem(why, rc,
                    "%s: line %u is no key (32 bytes in base64), or there are "
                    "more than %d",
                    k->path.text, line, CHECKPOINT_KEYS_MAX);
    }
    if (rc) {
        free_all(all, n);
        return rc;
    }
    pthread_rwlock_wrlock(&k->lock);
    free_all(k->all, k->n);
    memcpy(k->all, all, n * sizeof(*all));
    k->n = n;
    snprintf(k->text, sizeof(k->text), "%s", text);
    pthread_rwlock_unlock(&k->lock);
    return STATUS_OK;
}

/* Writes another text to the file, and uses it. */
static enum status
take_text(struct checkpoint_keys *k, const char *text, struct problem *why)
{
    enum status rc;

    if (strcmp(text, k->text) == 0)
        return STATUS_OK;
    rc = file_store_in(k->dir, CHECKPOINT_KEYS_FILE, slice_of(text), true, why);
    if (!rc)
        (void)!stat(k->path.text, &k->file);
    return rc ? rc : use_text(k, text, why);
}

enum status
checkpoint_keys_rotate(struct checkpoint_keys *k, bool is_alone,
                       struct problem *why)
{
    char line[SIGNING_KEY_TEXT], text[CHECKPOINT_KEYS_SIZE];
    const char *others = strchr(k->text, '\n');
    enum status rc;

    if (!is_alone && k->n == CHECKPOINT_KEYS_MAX)
        return problem(why, STATUS_CONFLICT,
                       "there are %d keys already: end the former ones first",
                       CHECKPOINT_KEYS_MAX);
    if (!signing_key_make_text(line))
        return problem_memory(why);
    snprintf(text, sizeof(text), COMMENT "%s\n%s", line,
             is_alone || !others ? "" : others + 1);
    rc = take_text(k, text, why);
    OPENSSL_cleanse(line, sizeof(line));
    OPENSSL_cleanse(text, sizeof(text));
    return rc;
}

/* Reads the file. */
static enum status
read_file(struct checkpoint_keys *k, struct problem *why)
{
    char text[CHECKPOINT_KEYS_SIZE];
    size_t size = sizeof(text) - 1;
    enum status rc;

    if ((k->file.st_mode & (S_IRWXG | S_IRWXO)) &&
        !chmod(k->path.text, S_IRUSR | S_IWUSR))
        DIAG(DIAG_WARNING, "access",
             "other users could read the keys of checkpoints, and cannot any "
             "more: tidingsd key rotate --only makes another one",
             diag_text("file", k->path.text));
    rc = secret_file_read(k->path.text, text, &size, why);
    if (!rc) {
        text[size] = '\0';
        k->is_news = strcmp(text, k->text) != 0;
        rc = use_text(k, text, why);
    }
    OPENSSL_cleanse(text, sizeof(text));
    return rc;
}

/* True if the file is another one than before. */
static bool
has_changed(struct checkpoint_keys *k)
{
    struct stat now, before = k->file;

    if (stat(k->path.text, &now))
        return false;
    k->file = now;
    return now.st_ino != before.st_ino || now.st_size != before.st_size ||
           now.st_mtim.tv_sec != before.st_mtim.tv_sec ||
           now.st_mtim.tv_nsec != before.st_mtim.tv_nsec;
}

enum status
checkpoint_keys_look(struct checkpoint_keys *k, struct problem *why)
{
    enum status rc = STATUS_OK;

    pthread_mutex_lock(&k->changing);
    if (has_changed(k))
        rc = read_file(k, why);
    pthread_mutex_unlock(&k->changing);
    return rc;
}

enum status
checkpoint_keys_open(struct checkpoint_keys **keys, const char *dir,
                     bool is_made, struct problem *why)
{
    struct checkpoint_keys *k = memory_new(1, sizeof(*k));
    enum status rc = STATUS_OK;

    snprintf(k->dir, sizeof(k->dir), "%s", dir);
    k->path = file_path("%s/" CHECKPOINT_KEYS_FILE, dir);
    pthread_mutex_init(&k->changing, NULL);
    pthread_rwlock_init(&k->lock, NULL);
    if (has_changed(k))
        rc = read_file(k, why);
    else if (is_made)
        rc = checkpoint_keys_rotate(k, true, why);
    k->is_news = false;
    if (rc)
        checkpoint_keys_close(k);
    else
        *keys = k;
    return rc;
}

void
checkpoint_keys_close(struct checkpoint_keys *k)
{
    if (!k)
        return;
    free_all(k->all, k->n);
    OPENSSL_cleanse(k->text, sizeof(k->text));
    OPENSSL_cleanse(k->read, sizeof(k->read));
    pthread_rwlock_destroy(&k->lock);
    pthread_mutex_destroy(&k->changing);
    free(k);
}

/* In a cluster */

static enum status
read_row(const struct stream_row *row, uint64_t n, void *user,
         struct problem *why)
{
    struct checkpoint_keys *k = user;

    (void)n;
    (void)why;
    k->is_read = !row->is_deleted && row->value.size < sizeof(k->read);
    if (k->is_read)
        slice_copy(k->read, sizeof(k->read), row->value);
    return STATUS_OK;
}

static enum status
read_stream(struct checkpoint_keys *k, struct streams *streams,
            struct problem *why)
{
    enum status rc =
        streams->ops->read(streams, STREAM, &k->n_read, read_row, k, why);

    if (rc == STATUS_GONE || rc == STATUS_DIFFERENT) { /* from its beginning */
        k->n_read = 0;
        k->is_read = false;
        rc = streams->ops->read(streams, STREAM, &k->n_read, read_row, k, why);
    }
    return rc;
}

/* Brings the keys of this broker, unless another one has brought some. */
static enum status
bring(struct checkpoint_keys *k, struct streams *streams, struct problem *why)
{
    struct lease lease = {.name = STREAM};
    const struct leases leases = {{&lease}};
    struct stream_row row = {.key = SLICE("keys")};
    uint64_t id;
    enum status rc = streams->ops->hold(streams, &lease, why);

    if (rc) /* another broker does it, or this one only reads: the next time */
        return rc == STATUS_CONFLICT ? STATUS_OK : rc;
    rc = streams->ops->identify(streams, STREAM, &id, why);
    if (!rc)
        rc = read_stream(k, streams, why);
    if (!rc && (k->is_news || !k->is_read)) {
        if (k->n == 0)
            rc = checkpoint_keys_rotate(k, true, why);
        row.value = slice_of(k->text);
        if (!rc)
            rc = streams->ops->append(streams, STREAM, &leases, &k->n_read,
                                      &row, 1, NULL, why);
    }
    if (!rc) {
        k->is_news = false;
        k->is_read = true;
        memcpy(k->read, k->text, sizeof(k->read));
    }
    streams->ops->leave(streams, &lease);
    return rc;
}

enum status
checkpoint_keys_follow(struct checkpoint_keys *k, struct streams *streams,
                       struct problem *why)
{
    enum status rc;

    pthread_mutex_lock(&k->changing);
    rc = read_stream(k, streams, why);
    if (!rc && (k->is_news || !k->is_read))
        rc = bring(k, streams, why);
    else if (!rc)
        rc = take_text(k, k->read, why);
    pthread_mutex_unlock(&k->changing);
    return rc;
}

void
checkpoint_origin(char to[NOTE_NAME_SIZE], const char *public_url,
                  const char *set, const char *epoch)
{
    const char *host = strstr(public_url, "://");

    snprintf(to, NOTE_NAME_SIZE, "%s/sets/%s/%s", host ? host + 3 : public_url,
             set, epoch);
    for (char *p = to; *p; p++) /* no name of a key has these */
        if (*p == '+' || *p == ' ')
            *p = '_';
}

void
checkpoint_keys_write(struct checkpoint_keys *k, const char *name,
                      struct buf *to)
{
    struct note_key key = {.kind = NOTE_SIGNATURE};
    char text[NOTE_KEY_SIZE];

    snprintf(key.name, sizeof(key.name), "%s", name);
    pthread_rwlock_rdlock(&k->lock);
    for (size_t i = 0; i < k->n; i++) {
        memcpy(key.public, signing_key_public(k->all[i]), SIGNING_KEY_SIZE);
        note_key_write(text, &key);
        buf_add_format(to, "%s\n", text);
    }
    pthread_rwlock_unlock(&k->lock);
}

enum status
checkpoint_keys_sign(struct checkpoint_keys *k,
                     const struct checkpoint *checkpoint, uint64_t time_s,
                     struct buf *to, struct problem *why)
{
    struct buf text = {.max = NOTE_BYTES_MAX};
    struct note_key log = {.kind = NOTE_SIGNATURE}, cosigner;
    struct slice signed_text;
    bool is_signed;
    size_t n;

    checkpoint_write(&text, checkpoint);
    buf_add_slice(to, buf_slice(&text));
    is_signed = !text.failed;
    signed_text = (struct slice){text.data, text.size - is_signed};
    slice_copy(log.name, sizeof(log.name), checkpoint->origin);
    cosigner = note_cosigner(&log, false);
    pthread_rwlock_rdlock(&k->lock);
    n = k->n;
    for (size_t i = 0; is_signed && i < n; i++)
        is_signed = note_sign(to, signed_text, log.name, k->all[i],
                              NOTE_SIGNATURE, 0) &&
                    note_sign(to, signed_text, cosigner.name, k->all[i],
                              NOTE_COSIGNATURE, time_s);
    pthread_rwlock_unlock(&k->lock);
    buf_fini(&text);
    if (n == 0)
        return problem(why, STATUS_BUSY,
                       "this broker has no key for checkpoints yet: its "
                       "cluster has not answered");
    return is_signed ? STATUS_OK : problem_memory(why);
}
