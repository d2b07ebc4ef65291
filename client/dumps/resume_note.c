/*
 * resume_note.c - the note beside an incomplete file.
 */
#include "client/dumps/resume_note.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "proto/buf.h"
#include "proto/resourcesync/change.h"

#define NOTE_MAX 16384

static void
name_of(char name[NAME_MAX + 1], const char *file)
{
    snprintf(name, NAME_MAX + 1, "%s.of", file);
}

bool
resume_note_init(struct resume_note *partial, const char *url,
                 struct slice hash, uint64_t length)
{
    partial->url = strdup(url);
    partial->hash = slice_dup(hash);
    partial->length = length;
    partial->validator[0] = '\0';
    return partial->url && partial->hash;
}

void
resume_note_fini(struct resume_note *partial)
{
    free(partial->url);
    free(partial->hash);
}

void
resume_note_validate(struct resume_note *partial, const char *etag,
                     const char *last_modified)
{
    const char *best = etag[0] == '"' ? etag : last_modified;

    if (strlen(best) >= RESUME_NOTE_VALIDATOR_MAX)
        best = "";
    snprintf(partial->validator, RESUME_NOTE_VALIDATOR_MAX, "%s", best);
}

/* Writes the lines of a note, with `validator` as the second one. */
static void
compose_note(struct buf *to, const struct resume_note *partial,
             const char *validator)
{
    buf_add_format(to, "%s\n%s\n%s\n", partial->url, validator, partial->hash);
    if (partial->length != LENGTH_NONE)
        buf_add_number(to, partial->length);
    BUF_ADD(to, "\n");
}

bool
resume_note_write(const struct resume_note *partial, int dir_fd,
                  const char *file)
{
    char name[NAME_MAX + 1];
    struct buf text;
    bool is_written = false;
    int fd;

    if (!partial->validator[0])
        return false;
    name_of(name, file);
    buf_init(&text, NOTE_MAX);
    compose_note(&text, partial, partial->validator);
    fd = openat(dir_fd, name,
                O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd >= 0) {
        is_written = !text.failed &&
                     write(fd, text.data, text.size) == (ssize_t)text.size;
        close(fd);
    }
    buf_fini(&text);
    if (!is_written)
        resume_note_forget(dir_fd, file);
    return is_written;
}

bool
resume_note_read(struct resume_note *partial, int dir_fd, const char *file)
{
    char name[NAME_MAX + 1], bytes[NOTE_MAX];
    struct slice rest, validator;
    struct buf text;
    bool is_same = false;
    ssize_t n = 0;
    int fd;

    name_of(name, file);
    fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return false;
    n = read(fd, bytes, sizeof(bytes));
    close(fd);
    if (n <= 0)
        return false;
    rest = (struct slice){bytes, (size_t)n};
    slice_take(&rest, '\n');
    validator = slice_take(&rest, '\n');
    if (validator.size == 0 || validator.size >= RESUME_NOTE_VALIDATOR_MAX ||
        memchr(validator.data, '\0', validator.size))
        return false;
    memcpy(partial->validator, validator.data, validator.size);
    partial->validator[validator.size] = '\0';

    /* The same request makes the same note. */
    buf_init(&text, NOTE_MAX);
    compose_note(&text, partial, partial->validator);
    is_same = !text.failed &&
              slice_equal(buf_slice(&text), (struct slice){bytes, (size_t)n});
    buf_fini(&text);
    if (!is_same)
        partial->validator[0] = '\0';
    return is_same;
}

bool
resume_note_is_there(int dir_fd, const char *file)
{
    char name[NAME_MAX + 1];

    name_of(name, file);
    return !faccessat(dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW);
}

void
resume_note_forget(int dir_fd, const char *file)
{
    char name[NAME_MAX + 1];

    name_of(name, file);
    unlinkat(dir_fd, name, 0);
}
