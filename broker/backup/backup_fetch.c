#include "broker/backup/backup_fetch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <archive.h>
#include <archive_entry.h>

#include "base/certificates.h"
#include "broker/backup/archive_download.h"
#include "broker/backup/copied_file.h"
#include "broker/backup/manifest.h"
#include "broker/base/authorities.h"
#include "proto/resourcesync/digest.h"

/* Between two questions whether the backup is there. */
#define FIRST_PAUSE_MS 50
#define PAUSE_MS       1000

#define MANIFEST_MAX ((uint64_t)1 << 30)
#define PIECE_BYTES  ((size_t)256 << 10)

struct fetch {
    struct backup_fetch *job;
    char url[2048];
    char *authorization;    /* "Authorization: ..."; NULL: none */
    const char *headers[2]; /* of a call, which needs them until its end */

    /* One call at a time. */
    struct blocking *calls;
    const struct call *call;
    struct slice bytes; /* that came first, and were not read yet */
    bool is_over;

    struct map wanted; /* struct manifest_entry */
    uint64_t n_wanted; /* of them, not fetched */
    char piece[PIECE_BYTES];
};

/* HTTP */

static bool
is_stopped(const struct fetch *f)
{
    return f->job->is_stopped && f->job->is_stopped(f->job->user);
}

static enum status
fail_request(const struct fetch *f, struct problem *why)
{
    if (is_stopped(f))
        return problem(why, STATUS_STOPPED, "it was stopped");
    return problem(why, STATUS_UNREACHABLE, "%s: %s", f->url, f->call->why);
}

/* Waits for more of an answer 200, or for the end of any. */
static void
await_bytes(struct fetch *f)
{
    f->is_over = f->is_over || !blocking_next(f->calls, &f->bytes);
}

static unsigned
status_of(const struct fetch *f)
{
    return f->is_over ? f->call->status : 200;
}

/* Sends a request, and waits for the beginning of its answer. */
static enum status
request(struct fetch *f, enum call_method method, struct problem *why)
{
    static const struct {
        unsigned status;
        const char *text;
    } known[] = {
        {401, "it wants the token of an administrator (--token-file)"},
        {403, "the token has no right to a backup: it needs the right admin"},
        {404, "there is no backup; if the broker is older, upgrade it"},
        {405, "the broker is older, and gives no backup: upgrade it"},
        {409, "another backup is being made or sent: try again later"},
        {503, "the broker cannot make one now: try again later"},
        {0, "the log of that broker may say why"}, /* of any other */
    };
    struct call wish = download_request(f->url, f->headers);
    unsigned status;
    size_t i = 0;

    f->headers[0] = f->authorization;
    wish.method = method;
    f->is_over = false;
    f->call = blocking_begin(f->calls, &wish);
    await_bytes(f);
    if (f->is_over && f->call->failure)
        return fail_request(f, why);
    status = status_of(f);
    if (status == 200 || status == 202)
        return STATUS_OK;
    while (known[i].status && known[i].status != status)
        i++;
    return problem(why, STATUS_REFUSED, "%s: the answer is %u: %s", f->url,
                   status, known[i].text);
}

/* Has the broker make a backup, and begins to read it. */
static enum status
begin_backup(struct fetch *f, struct problem *why)
{
    unsigned pause_ms = FIRST_PAUSE_MS;
    enum status rc = request(f, CALL_POST, why);

    while (!rc) {
        while (!f->is_over)
            await_bytes(f);
        rc = request(f, CALL_GET, why);
        if (rc || status_of(f) == 200)
            break;
        if (is_stopped(f))
            return fail_request(f, why);
        usleep(pause_ms * 1000);
        pause_ms = 2 * pause_ms < PAUSE_MS ? 2 * pause_ms : PAUSE_MS;
    }
    return rc;
}

/* Reading the archive */

static la_ssize_t
read_archive(struct archive *archive, void *user, const void **bytes)
{
    struct fetch *f = user;
    size_t size;

    if (f->bytes.size == 0)
        await_bytes(f);
    size = f->bytes.size;
    if (size == 0 && f->call->failure) {
        archive_set_error(archive, EIO, "the answer ended early");
        return -1;
    }
    *bytes = f->bytes.data;
    f->bytes.size = 0; /* it is read; lent until the next piece */
    return (la_ssize_t)size;
}

static enum status
fail_archive(struct fetch *f, struct archive *archive, struct problem *why)
{
    const char *text = archive_error_string(archive);

    if (f->is_over && f->call->failure)
        return fail_request(f, why);
    return problem(why, STATUS_DIFFERENT, "%s: the backup is damaged: %s",
                   f->url, text ? text : "it is no archive");
}

/* Writes a file of the archive to the new file `path`. */
static enum status
write_file(struct fetch *f, struct archive *archive,
           struct archive_entry *entry, const char *path, struct digest *digest,
           struct problem *why)
{
    struct digest_check *digests =
        digest_check_new(SLICE(""), LENGTH_NONE, true);
    const struct timespec times[2] = {
        {.tv_nsec = UTIME_OMIT},
        {archive_entry_mtime(entry), archive_entry_mtime_nsec(entry)}};
    int to = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    la_ssize_t n;
    enum status rc = STATUS_OK;

    if (to < 0)
        rc = problem_errno(why, "cannot write", path);
    while (!rc && (n = archive_read_data(archive, f->piece, PIECE_BYTES))) {
        struct slice bytes = {f->piece, n > 0 ? (size_t)n : 0};

        rc = n < 0 ? fail_archive(f, archive, why)
                   : digest_check_add(digests, bytes, why);
        if (!rc && file_write(to, bytes))
            rc = problem_errno(why, "cannot write", path);
        f->job->bytes += bytes.size;
    }
    if (!rc)
        rc = digest_check_end(digests, why);
    if (!rc)
        digest_check_sha256(digests, digest);
    if (!rc && futimens(to, times))
        rc = problem_errno(why, "cannot set the time of", path);
    if (to >= 0 && close(to) && !rc)
        rc = problem_errno(why, "cannot write", path);
    digest_check_free(digests);
    return rc;
}

/* The manifest */

static enum status
add_wanted(const struct manifest_file *file, void *user, struct problem *why)
{
    struct fetch *f = user;

    f->n_wanted++;
    return manifest_note(file, &f->wanted, why);
}

static void
report_missing(const char *text, void *user)
{
    struct fetch *f = user;

    f->job->n_missing++;
    f->job->on_missing(text, f->job->user);
}

/* Reads it from the first file of the archive, by way of a file, which goes
 * again. */
static enum status
take_manifest(struct fetch *f, struct archive *archive,
              struct archive_entry *entry, struct problem *why)
{
    const struct manifest_reader reader = {
        .on_file = add_wanted, .on_missing = report_missing, .user = f};
    struct file_path path = file_path("%s/" MANIFEST_NAME, f->job->path);
    struct digest digest;
    enum status rc;

    if (archive_entry_size(entry) > (la_int64_t)MANIFEST_MAX)
        return problem(why, STATUS_DIFFERENT, "%s: its manifest is too large",
                       f->url);
    rc = write_file(f, archive, entry, path.text, &digest, why);
    if (!rc)
        rc = manifest_read(f->job->path, &reader, why);
    unlink(path.text);
    return rc;
}

static enum status
take_file(struct fetch *f, struct archive *archive, struct archive_entry *entry,
          const char *name, struct problem *why)
{
    const char *inner = strchr(name, '/');
    struct manifest_entry *w =
        inner ? manifest_find(&f->wanted, ++inner) : NULL;
    char path[PATH_MAX];
    struct digest digest;
    enum status rc;

    if (w)
        snprintf(path, sizeof(path), MANIFEST_FILE, w->folder, inner);
    if (!w || w->is_fetched || strcmp(path, name) != 0)
        return problem(why, STATUS_DIFFERENT,
                       "%s: the backup has a file that its manifest does not "
                       "have: %s",
                       f->url, problem_quote(slice_of(name)).text);
    if ((size_t)snprintf(path, sizeof(path), "%s/%s", f->job->path, inner) >=
        sizeof(path))
        return problem(why, STATUS_INVALID, "%s is too long a name", inner);
    rc = copied_file_make_dirs(f->job->path, inner, why);
    if (!rc)
        rc = write_file(f, archive, entry, path, &digest, why);
    if (!rc && !digest_is_equal(&digest, &w->digest))
        rc = problem(why, STATUS_DIFFERENT,
                     "%s: the backup is damaged: %s has another digest", f->url,
                     inner);
    w->is_fetched = true;
    f->job->n_files++;
    f->n_wanted--;
    return rc;
}

static enum status
take_archive(struct fetch *f, struct archive *archive, struct problem *why)
{
    struct archive_entry *entry;
    bool is_first = true;
    int n = ARCHIVE_OK;
    enum status rc = STATUS_OK;

    if (archive_read_support_format_tar(archive) ||
        archive_read_open(archive, f, NULL, read_archive, NULL))
        return fail_archive(f, archive, why);
    while (!rc &&
           (n = archive_read_next_header(archive, &entry)) == ARCHIVE_OK) {
        const char *name = archive_entry_pathname(entry);

        if (!name || archive_entry_filetype(entry) != AE_IFREG ||
            archive_entry_hardlink(entry) ||
            is_first != !strcmp(name, MANIFEST_NAME))
            return problem(why, STATUS_DIFFERENT, "%s: this is no backup",
                           f->url);
        rc = is_first ? take_manifest(f, archive, entry, why)
                      : take_file(f, archive, entry, name, why);
        is_first = false;
    }
    if (!rc && n != ARCHIVE_EOF)
        rc = fail_archive(f, archive, why);
    if (!rc && (is_first || f->n_wanted > 0))
        rc = problem(why, STATUS_DIFFERENT,
                     "%s: %" PRIu64 " files of the backup are missing", f->url,
                     f->n_wanted);
    /* What is behind the end of the archive. */
    while (!rc && !f->is_over)
        await_bytes(f);
    return !rc && f->call->failure ? fail_request(f, why) : rc;
}

/* Reads the tokens and the authorities of the job. */
static enum status
read_files(struct fetch *f, struct problem *why)
{
    const struct backup_fetch *job = f->job;
    struct stack_st_X509 *all = NULL;
    enum status rc = STATUS_OK;

    if (job->ca_file[0])
        rc = certificates_read(&all, job->ca_file,
                               "certificates of authorities", why);
    if (!rc && all)
        (void)authorities_replace(all);
    if (!rc && !job->authorization)
        return download_authorization(f->url, job->token_file,
                                      &f->authorization, why);
    if (!rc)
        f->authorization = job->authorization(job->peer_tokens, f->url);
    return rc || !f->authorization ? rc : download_check_safe(f->url, why);
}

enum status
backup_fetch(struct backup_fetch *job, struct problem *why)
{
    struct fetch *f = memory_new(1, sizeof(*f));
    size_t n = strlen(job->url);
    enum status rc;

    job->data = (struct new_data){.path = job->path, .fd = -1, .lock = -1};
    f->job = job;
    /* "http://host/backup" */
    while (n > 0 && job->url[n - 1] == '/')
        n--;
    if ((size_t)snprintf(f->url, sizeof(f->url), "%.*s/backup", (int)n,
                         job->url) < sizeof(f->url))
        rc = read_files(f, why);
    else
        rc = problem(why, STATUS_INVALID, "the URL is too long");
    if (!rc)
        rc =
            blocking_open(&f->calls,
                          &(struct blocking_options){
                              .is_stopped = job->is_stopped, .user = job->user},
                          why);
    if (!rc)
        rc = new_data_begin(&job->data, job->path, why);
    if (!rc)
        rc = begin_backup(f, why);
    if (!rc) {
        struct archive *archive = archive_read_new();

        rc = archive ? take_archive(f, archive, why) : problem_memory(why);
        archive_read_free(archive);
    }
    if (!rc)
        rc = new_data_end(&job->data, why);
    blocking_close(f->calls);
    manifest_forget(&f->wanted);
    token_header_free(f->authorization);
    free(f);
    return rc;
}
