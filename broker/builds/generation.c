#include "broker/builds/generation.h"

#include <fcntl.h>
#include <unistd.h>

#include "broker/bucket/vault.h"
#include "proto/resourcesync/document_write.h"

/* The end of the name of a folder that the build of an ordered list fills. */
#define NEW ".new"

/* Text is handed over in pieces of so many bytes, or more. */
#define PIECE_BYTES ((size_t)64 * 1024)

/* "000000000007", ".new" and a NUL. */
#define NAME_SIZE 32

static void
name_of(char to[NAME_SIZE], uint64_t number)
{
    snprintf(to, NAME_SIZE, "%012" PRIu64, number);
}

void
generation_name(char to[GENERATION_NAME_SIZE], enum generation_file file,
                uint64_t part)
{
    static const char *const ends[] = {
        [GENERATION_DOCUMENT] = ".xml.gz",
        [GENERATION_MANIFEST] = "-manifest.xml.gz",
        [GENERATION_PACKAGE] = ".zip",
    };

    snprintf(to, GENERATION_NAME_SIZE, "%012" PRIu64 "%s", part, ends[file]);
}

/* Removes the folders that earlier sets of that name have left: nobody can
 * request them any more, and the numbers of this set begin behind theirs.
 * Sweeping removes most of them when due, but only this step finds an
 * interrupted build. */
static enum status
clear_older(int folder_fd, uint64_t first, struct problem *why)
{
    DIR *dir = file_open_dir(folder_fd, ".", 0);
    const struct dirent *entry;
    enum status rc = STATUS_OK;

    if (!dir)
        return problem_errno(why, "cannot open", "a folder of generations");
    while (!rc && (entry = file_next(dir)))
        if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9' &&
            (strtoull(entry->d_name, NULL, 10) < first ||
             strstr(entry->d_name, NEW)))
            rc = file_clear(folder_fd, entry->d_name, NULL, why);
    closedir(dir);
    return rc;
}

static void
writer_free(struct generation_writer *w)
{
    zfile_abandon(w->zfile);
    file_close(&w->dir_fd);
    file_close(&w->folder_fd);
    buf_fini(&w->text);
    free(w);
}

enum status
generation_begin(struct generation_writer **writer, struct set *set,
                 struct generation *generation, struct problem *why)
{
    struct generation_writer *w = memory_new(1, sizeof(*w));
    char name[NAME_SIZE];
    struct head head;
    enum status rc = STATUS_OK;

    w->set = set;
    w->folder_fd = w->dir_fd = -1;
    w->text.max =
        PIECE_BYTES + FRAGMENT_MAX + FRAGMENT_MEMBER_MAX + DOCUMENT_FRAME_MAX;
    if (!log_head(set->log, &head))
        rc = problem(why, STATUS_GONE, "the set was removed");
    w->is_shared = log_is_shared(set->registry->log);
    if (generation->number == 0)
        generation->number = head.generations[generation->kind].last + 1;
    name_of(name, generation->number);
    if (!rc)
        rc = log_folder(set->registry->log, set->log,
                        links_kinds[generation->kind].folder, true,
                        &w->folder_fd, why);
    if (!rc)
        rc = file_clear(w->folder_fd, name, NULL, why); /* left by a crash */
    if (!rc)
        rc = clear_older(w->folder_fd, head.start_list, why);
    if (w->is_shared)
        strcat(name, NEW);
    if (!rc)
        rc = file_make_dir(w->folder_fd, name, why);
    if (!rc)
        rc = file_open_folder(w->folder_fd, name, &w->dir_fd, why);
    if (rc) {
        writer_free(w);
        return rc;
    }
    w->generation = *generation;
    *writer = w;
    return STATUS_OK;
}

static enum status
hand_over(struct generation_writer *w, struct problem *why)
{
    enum status rc = generation_check_ending(w, why);

    if (w->text.failed)
        return problem_memory(why);
    if (!rc)
        rc = zfile_add(w->zfile, buf_slice(&w->text), why);
    buf_clear(&w->text);
    return rc;
}

enum status
generation_flush(struct generation_writer *w, struct problem *why)
{
    return w->text.size < PIECE_BYTES && !w->text.failed ? STATUS_OK
                                                         : hand_over(w, why);
}

/* Ends the current part, if any. */
enum status
generation_end_part(struct generation_writer *w, struct problem *why)
{
    struct zfile zfile;
    enum status rc = w->zfile ? hand_over(w, why) : STATUS_OK;

    if (rc || !w->zfile)
        return rc;
    rc = zfile_finish(w->zfile, &zfile, why);
    w->zfile = NULL;
    w->generation.bytes += zfile.packed;
    return rc;
}

enum status
generation_part(struct generation_writer *w, enum generation_file file,
                uint64_t part, struct problem *why)
{
    char name[GENERATION_NAME_SIZE];
    enum status rc = generation_end_part(w, why);

    generation_name(name, file, part);
    if (part != GENERATION_INDEX)
        w->generation.parts = part;
    return rc ? rc : zfile_begin(&w->zfile, w->dir_fd, name, why);
}

enum status
generation_check_ending(const struct generation_writer *w, struct problem *why)
{
    const struct log *log = w->set->registry->log;

    return load_relaxed(log_ending(log))
               ? problem(why, STATUS_STOPPED, "the broker is ending")
               : STATUS_OK;
}

/* Checks that an ordered list is current or archived, and is the one that other
 * brokers have built. STATUS_AGAIN: a later one is current. */
static enum status
check_served(const struct generation_writer *w, struct problem *why)
{
    const struct generation *own = &w->generation;
    struct generation served;
    struct head head;
    enum status rc;

    if (!log_head(w->set->log, &head))
        return problem(why, STATUS_GONE, "the set was removed");
    rc = generation_find(w->set, &head, own->kind, own->number, &served, why);
    if (rc == STATUS_NOT_FOUND)
        return problem(why, STATUS_AGAIN, "a later list is current");
    if (!rc && served.seq != own->seq)
        return problem(why, STATUS_AGAIN, "another one has this number");
    if (!rc && (served.n != own->n || served.parts != own->parts ||
                served.bytes != own->bytes))
        DIAG(DIAG_ERROR, "archive",
             "a list differs from that of another broker: both need the same "
             "options, version and state of the set",
             diag_text("set", w->set->name), diag_number("list", own->number));
    return rc;
}

enum status
generation_finish(struct generation_writer *w, struct problem *why)
{
    const struct generation *own = &w->generation;
    struct act act = {.kind = ACT_GENERATION};
    char name[NAME_SIZE], begun[NAME_SIZE];
    struct head head;
    enum status rc = generation_end_part(w, why);

    name_of(name, own->number);
    snprintf(begun, sizeof(begun), "%012" PRIu64 NEW, own->number);
    /* All names are on the disk before the log announces them. */
    if (!rc)
        rc = file_sync_dir(w->dir_fd, why);
    if (!rc && w->is_shared &&
        renameat(w->folder_fd, begun, w->folder_fd, name))
        rc = problem_errno(why, "cannot rename", begun);
    if (!rc)
        rc = file_sync_dir(w->folder_fd, why);
    if (own->completed_us == 0)
        w->generation.completed_us = clock_now_us();
    act.generation.build = *own;
    /* Another broker may have been first: then the list is ordered no longer.
     */
    if (!rc && !(w->is_shared && log_head(w->set->log, &head) &&
                 generations_next(&head.generations[own->kind]) != own->number))
        rc = log_act(w->set->registry->log, w->set->log, &act,
                     w->set->registry->config->remove_grace_us, why);
    if (!rc && w->is_shared)
        rc = check_served(w, why);
    if (rc)
        generation_abandon(w);
    else
        writer_free(w);
    return rc;
}

void
generation_abandon(struct generation_writer *w)
{
    char name[NAME_SIZE];
    struct problem why = {""};
    enum status rc;

    name_of(name, w->generation.number);
    zfile_abandon(w->zfile);
    w->zfile = NULL;
    rc = file_clear(w->folder_fd, name, NULL, &why);
    strcat(name, NEW);
    if (!rc && w->is_shared)
        rc = file_clear(w->folder_fd, name, NULL, &why);
    /* The next build clears the rest. */
    if (rc)
        DIAG(DIAG_WARNING, "archive", "a build that failed stays on the disk",
             diag_text("set", w->set->name), diag_text("error", why.text));
    writer_free(w);
}

/* The path of the folder of a kind of a set, which may be removed; of a
 * generation, too, if `number` is not 0. */
static struct file_path
path_of(struct registry *registry, const char *set, enum generation_kind kind,
        uint64_t number)
{
    return file_path(number > 0 ? "%s/sets/%s/%s/%012" PRIu64 : "%s/sets/%s/%s",
                     registry->config->data, set, links_kinds[kind].folder,
                     number);
}

bool
generation_is_here(const struct set *set, enum generation_kind kind,
                   uint64_t number)
{
    return !log_is_shared(set->registry->log) ||
           !access(path_of(set->registry, set->name, kind, number).text, F_OK);
}

enum status
generation_find(const struct set *set, const struct head *head,
                enum generation_kind kind, uint64_t number,
                struct generation *generation, struct problem *why)
{
    struct generation_page page = {kind, number, generation, 1};
    enum status rc;

    *generation = head->generations[kind].current;
    if (generation->number == number)
        return STATUS_OK;
    rc = log_generations(set->registry->log, set->log, &page, why);
    return rc || (page.n == 1 && generation->number == number)
               ? rc
               : problem(why, STATUS_NOT_FOUND, "it is not kept");
}

uint64_t
generation_last_here(const struct set *set, enum generation_kind kind,
                     const struct head *head)
{
    uint64_t number = head->generations[kind].current.number;
    const struct dirent *entry;
    uint64_t last = 0;
    DIR *dir;

    if (generation_is_here(set, kind, number))
        return number;
    dir = opendir(path_of(set->registry, set->name, kind, 0).text);
    while ((entry = file_next(dir))) {
        uint64_t n = strtoull(entry->d_name, NULL, 10);

        /* Those before start_list are of a removed set of this name. */
        if (n < number && n > last && n >= head->start_list &&
            !strstr(entry->d_name, NEW))
            last = n;
    }
    if (dir)
        closedir(dir);
    return last;
}

enum status
generation_open(const struct set *set, const struct generation_place *place,
                int *fd, struct problem *why)
{
    struct file_path path =
        path_of(set->registry, set->name, place->kind, place->number);
    char name[GENERATION_NAME_SIZE];
    int dir_fd;
    enum status rc = STATUS_NOT_FOUND;

    generation_name(name, place->file, place->part);
    dir_fd = open(path.text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd >= 0)
        rc = vault_file(dir_fd, name, fd, why);
    else if (errno != ENOENT)
        rc = problem_errno(why, "cannot read", path.text);
    file_close(&dir_fd);
    return rc == STATUS_NOT_FOUND
               ? problem(why, rc, "there is no such document")
               : rc;
}

/* Sweeping */

/* Deletes the generation, and folders that are empty then. Those of a set that
 * was made again are not. */
static enum status
sweep_generation(struct registry *registry, const struct due_generation *due,
                 struct problem *why)
{
    const struct act act = {.kind = ACT_SWEPT, .swept = {due->id}};
    struct file_path path = path_of(registry, due->name, due->kind, 0);
    int fd = open(path.text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char name[NAME_SIZE];
    enum status rc = STATUS_OK;

    if (fd < 0 && errno != ENOENT)
        return problem_errno(why, "cannot open", path.text);
    name_of(name, due->number);
    if (fd >= 0) {
        rc = vault_clear(fd, name, NULL, why);
        if (!rc)
            rc = file_sync_dir(fd, why);
        close(fd);
        if (!rmdir(path.text)) {
            *strrchr(path.text, '/') = '\0';
            rmdir(path.text);
        }
    }
    return rc ? rc : log_act(registry->log, NULL, &act, 0, why);
}

/* Leaves a generation that is served. If a deletion fails, the others go
 * first. */
bool
generation_sweep_one(struct registry *registry)
{
    struct log *log = registry->log;
    struct due_generation due = {.id = 0};
    struct problem why = {""}, reason = {""};
    struct set *set;
    struct head head;
    enum status rc, failed = STATUS_OK;

    if (!log_begin_deleting(log))
        return false;
    while (!(rc = log_due(log, &due, &reason))) {
        /* In a cluster this broker serves it as long as it has not built the
         * current one. */
        set = registry_find(registry, slice_of(due.name), &head);
        if (set && due.number < head.generations[due.kind].current.number &&
            generation_last_here(set, due.kind, &head) == due.number)
            continue;
        rc = sweep_generation(registry, &due, &reason);
        if (rc != STATUS_IO)
            break;
        if (!failed)
            why = reason;
        failed = rc;
    }
    log_end_deleting(log);
    if (rc && rc != STATUS_NOT_FOUND) {
        failed = rc;
        why = reason;
    }
    if (rc && failed && failed != STATUS_STOPPED)
        DIAG(
            DIAG_WARNING, "archive",
            "an old list or dump is still on the disk, and will be tried again",
            diag_text("error", why.text));
    return !rc;
}
