/*
 * contents_going.c - files that nobody needs any more go.
 */
#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"
#include "broker/archive/contents_inside.h"
#include "broker/archive/notes.h"
#include "broker/base/diag.h"

/* Files taken off the disk in one step: loose ones; of a set that keeps none;
 * and how many are looked at, a folder at least. */
#define STEP_LOOSE 256
#define STEP_CLEAR 1000
#define STEP_SWEEP 1000

enum status
contents_take_away(struct contents *c, const struct set *set,
                   struct content *content, const struct digest *digest,
                   bool *is_gone, struct problem *why)
{
    char dir[SET_DIR_MAX];
    bool is_told = false;
    enum status rc;

    *is_gone = false;
    if (!claims_go(&c->claims, set, digest))
        return STATUS_OK;
    set_dir(set, dir);
    rc = content_is_told(content, digest, &is_told, why);
    if (!rc && !is_told)
        rc = content_file_unlink(dir, digest, why);
    *is_gone = !rc && !is_told;
    claims_gone(&c->claims);
    return rc;
}

enum status
contents_take_loose(struct contents *c, struct set *set,
                    struct content *content, struct problem *why)
{
    struct digest digests[STEP_LOOSE];
    const struct digest *after = NULL;
    struct digest last;
    size_t n, n_gone = 0;
    enum status rc = STATUS_OK;

    while (!rc && n_gone == 0) {
        n = STEP_LOOSE;
        rc = content_loose(content, after, digests, &n, why);
        if (rc || n == 0) {
            set->notes->content.is_loose = rc != STATUS_OK;
            return rc;
        }
        last = digests[n - 1];
        after = &last;
        for (size_t i = 0; !rc && i < n; i++) {
            bool is_gone;

            rc =
                contents_take_away(c, set, content, &digests[i], &is_gone, why);
            if (!rc && is_gone)
                digests[n_gone++] = digests[i];
        }
    }
    return rc ? rc : content_let_go(content, digests, n_gone, why);
}

struct sweep {
    struct contents *contents;
    struct set *set;
    struct content *content;
    uint64_t n, n_gone;
};

static enum status
sweep_file(const struct digest *digest, void *user, struct problem *why)
{
    struct sweep *s = user;
    bool is_gone = false;
    enum status rc = contents_take_away(s->contents, s->set, s->content, digest,
                                        &is_gone, why);

    s->n++;
    s->n_gone += is_gone;
    return rc;
}

enum status
contents_sweep(struct contents *c, struct set *set, struct content *content,
               struct problem *why)
{
    struct sweep s = {.contents = c, .set = set, .content = content};
    char dir[SET_DIR_MAX];
    enum status rc = STATUS_OK;

    set_dir(set, dir);
    while (!rc && set->notes->content.sweep < CONTENT_FOLDERS &&
           s.n < STEP_SWEEP) {
        rc = content_files_each(dir, set->notes->content.sweep, sweep_file, &s,
                                why);
        set->notes->content.sweep += !rc;
    }
    if (s.n_gone > 0)
        DIAG(DIAG_INFO, "archive",
             "files were removed that no entry of a set tells of",
             diag_text("set", set->name), diag_number("files", s.n_gone));
    return rc;
}

enum status
contents_clear(struct contents *c, struct set *set, bool *is_more,
               struct problem *why)
{
    char dir[SET_DIR_MAX];
    size_t n_files = STEP_CLEAR;
    enum status rc;
    int fd;

    *is_more = claims_shut(&c->claims, set);
    if (!*is_more)
        return STATUS_OK; /* a post is at work that began before */
    opened_drop(&c->opened, set);
    set_dir(set, dir);
    rc = content_unlink(dir, why);
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (!rc && fd >= 0)
        rc = file_clear(fd, CONTENT_FOLDER, &n_files, why);
    if (fd >= 0)
        close(fd);
    claims_unshut(&c->claims);
    if (rc == STATUS_AGAIN)
        return STATUS_OK;
    if (!rc) {
        contents_have_none(set);
        DIAG(DIAG_INFO, "archive",
             "a set keeps no content any more: what it had is gone",
             diag_text("set", set->name));
    }
    return rc;
}
