/*
 * The content of a set: rows of content.db against each other, and each file
 * that they refer to. Files without a row are found by check_names.
 */
#include <fcntl.h>

#include "base/file.h"
#include "broker/check/inspection.h"
#include "broker/state/content.h"
#include "broker/state/content_files.h"

static void
check_file(struct inspection *in, const char *set, const struct digest *digest,
           uint64_t length)
{
    char path[INSPECTION_PATH], whole[4096 + INSPECTION_PATH];
    struct digest_text hash = digest_text(digest);
    const char *hex = strchr(hash.text, ':') + 1;
    char name[100];
    struct problem why = {""};
    uint64_t size = 0;
    int fd = -1;
    enum status rc;

    snprintf(name, sizeof(name), CONTENT_FOLDER "/%.2s/%s", hex, hex);
    inspection_path(path, set, name);
    snprintf(whole, sizeof(whole), "%s/sets/%s", in->data, set);
    rc = content_file_look(whole, digest, &size, &why);
    if (rc == STATUS_NOT_FOUND)
        problem_set(&why, "it is missing");
    if (!rc && size != length)
        rc = problem(&why, STATUS_INVALID,
                     "it has %" PRIu64 " bytes, and %" PRIu64 " are stored",
                     size, length);
    if (!rc && in->is_deep)
        fd = openat(in->dir, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (!rc && in->is_deep && fd < 0) {
        rc = inspection_find_in_bucket(in, path, &why);
    } else if (!rc && in->is_deep) {
        rc = inspection_compare(in, fd, slice_of(hash.text), LENGTH_NONE, &why);
        if (rc == STATUS_INVALID)
            problem_set(&why, "its bytes are not those of its name");
    }
    file_close(&fd);
    in->counts.files++;
    if (rc)
        inspection_find(in, FINDING_CONTENT, path, "%s", why.text);
}

void
check_content(struct inspection *in, const struct inspected_set *set)
{
    char path[INSPECTION_PATH];
    struct slice bytes;
    uint64_t length;
    struct db_rows rows;
    struct db db;

    inspection_path(path, set->name, CONTENT_FILE);
    if (set->is_removed || check_rules(in, DATABASE_CONTENT, path, &db))
        return;
    rows = DB_SELECT(&db, "read it", &in->why,
                     "SELECT digest, length FROM files WHERE n > 0");
    while (DB_NEXT(&rows, &bytes, &length)) {
        struct digest digest;

        if (bytes.size != DIGEST_SIZE) {
            inspection_find(in, FINDING_INDEX, path,
                            "a file has no digest as its name");
            continue;
        }
        memcpy(digest.bytes, bytes.data, DIGEST_SIZE);
        check_file(in, set->name, &digest, length);
    }
    inspection_end_rows(in, path, &rows);
    db_close(&db);
}
