/*
 * way.c - clears the path of a resource before its file comes.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/dumps/file_check.h"
#include "client/mirror/mirror.h"
#include "proto/change.h"

static void
fail_file(struct mirror *m, const char *what, const char *path)
{
    struct problem why = {.text = ""};

    problem_clear(&why);
    problem(&why, STATUS_IO, "%s %s: %s", what, path, strerror(errno));
    mirror_fail(m, &why);
}

/* True if the file matches the source's digest and length. */
static bool
is_right(struct mirror *m, const struct mirror_db_resource *r)
{
    struct digest_check *digests = digest_check_new(r->hash, r->length);
    struct problem why = {""};
    const char *name;
    int fd = shelf_directory(m->shelf, r->path, &name);
    bool is = digests && digest_check_has_any(digests) && fd >= 0 &&
              !digests_file(digests, fd, name, UINT64_MAX, &why);

    if (fd >= 0)
        close(fd);
    digest_check_free(digests);
    return is;
}

bool
mirror_make_way(struct mirror *m, const struct mirror_db_resource *r,
                bool *is_there)
{
    char where[SHELF_WHERE_SIZE] = "";
    char text[2 * RESOURCE_PATH_MAX];
    struct shelf_mark mark;
    struct problem why = {.text = ""};
    enum shelf_found found = shelf_look(m->shelf, r->path, &mark);

    problem_clear(&why);
    *is_there = found == SHELF_FILE && is_right(m, r);
    if (*is_there)
        return true;
    if (found == SHELF_FAILED) {
        fail_file(m, "cannot look at", r->path);
        return false;
    }
    if (found == SHELF_OTHER || (found == SHELF_FILE && !r->is_expected)) {
        if (shelf_set_aside(m->shelf, r->path, where, &why)) {
            mirror_fail(m, &why);
            return false;
        }
        snprintf(text, sizeof(text),
                 "%s was in the way, not written by this mirror; it is now %s",
                 r->path, where);
        mirror_tell(m, TD_SYNC_TROUBLE,
                    &(struct td_sync_event){.path = r->path, .why = text});
    }
    return true;
}
