/*
 * token_file.c - bearer tokens, and the files that have one.
 */
#include "base/token_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

enum status
token_check(struct slice text, const char *name, struct problem *why)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "abcdefghijklmnopqrstuvwxyz"
                                  "0123456789-._~+/";
    size_t size = text.size;

    if (size > TOKEN_MAX)
        return problem(why, STATUS_INVALID,
                       "%s: the token is longer than %d bytes", name,
                       TOKEN_MAX);
    while (size > 0 && text.data[size - 1] == '=')
        size--;
    if (size == 0)
        return problem(why, STATUS_INVALID, "%s: there is no token in it",
                       name);
    for (size_t i = 0; i < size; i++)
        if (!text.data[i] || !strchr(letters, text.data[i]))
            return problem(why, STATUS_INVALID,
                           "%s: byte %zu is none that a token may have "
                           "(letters, digits and -._~+/)",
                           name, i + 1);
    return STATUS_OK;
}

/* Sets *type to that of the file. */
static enum status
read_file(const char *path, int flags, char *to, size_t *size, mode_t *type,
          struct problem *why)
{
    struct stat file = {.st_mode = 0};
    ssize_t n = -1;
    enum status rc = STATUS_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC | flags);

    if (fd < 0 || fstat(fd, &file) || (n = file_read_rest(fd, to, *size)) < 0)
        rc = problem(why, STATUS_IO, "cannot read the token file %s: %s", path,
                     strerror(errno));
    else if (S_ISREG(file.st_mode) && file.st_uid == geteuid() &&
             (file.st_mode & 077))
        rc = problem(why, STATUS_IO,
                     "%s: other users can reach this token file (mode %04o): "
                     "chmod 600",
                     path, (unsigned)file.st_mode & 07777);
    *size = n > 0 ? (size_t)n : 0;
    *type = file.st_mode & S_IFMT;
    file_close(&fd);
    return rc;
}

enum status
secret_file_read(const char *path, char *to, size_t *size, struct problem *why)
{
    size_t room = *size;
    mode_t type;
    enum status rc = read_file(path, 0, to, size, &type, why);

    return !rc && *size == room
               ? problem(why, STATUS_IO, "%s: it is too large", path)
               : rc;
}

enum status
token_file_read(const char *path, bool is_regular, struct token_text *token,
                struct problem *why)
{
    char bytes[TOKEN_MAX + 3]; /* CR LF, and one too many */
    struct slice line = {bytes, sizeof(bytes)};
    mode_t type;
    enum status rc = read_file(path, is_regular ? O_NONBLOCK : 0, bytes,
                               &line.size, &type, why);

    token->is_regular = type == S_IFREG;
    if (!rc && is_regular && !token->is_regular)
        rc = problem(why, STATUS_IO, "%s: a pipe is not read again", path);
    line.size -= slice_ends(line, "\n");
    line.size -= slice_ends(line, "\r");
    if (!rc && memchr(bytes, '\n', line.size))
        rc = problem(why, STATUS_INVALID,
                     "%s: a token file is one line, this one has more", path);
    if (!rc)
        rc = token_check(line, path, why);
    if (!rc)
        slice_copy(token->text, sizeof(token->text), line);
    explicit_bzero(bytes, sizeof(bytes));
    return rc;
}

enum status
token_header_read(char **header, const char *path, bool is_regular,
                  struct problem *why)
{
    static const char begin[] = "Authorization: Bearer ";
    struct token_text token = {""};
    enum status rc = token_file_read(path, is_regular, &token, why);

    *header = rc ? NULL : memory_room(sizeof(begin) + strlen(token.text));
    if (*header)
        strcpy(stpcpy(*header, begin), token.text);
    else if (!rc)
        rc = problem_memory(why);
    explicit_bzero(&token, sizeof(token));
    return rc;
}

void
token_header_free(char *header)
{
    if (header)
        explicit_bzero(header, strlen(header));
    free(header);
}
