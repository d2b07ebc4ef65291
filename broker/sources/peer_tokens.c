#include "broker/sources/peer_tokens.h"

#include "base/token_file.h"
#include "broker/base/diag.h"
#include "proto/http/websub.h"

#define BLANKS " \t\r\n"

/* Takes a line apart. *url NULL: it has nothing to say. */
static enum status
read_line(char *line, const char **url, const char **file, struct problem *why)
{
    char *rest = NULL;

    *url = line[strspn(line, BLANKS)] == '#' ? NULL
                                             : strtok_r(line, BLANKS, &rest);
    if (!*url)
        return STATUS_OK;
    *file = strtok_r(NULL, BLANKS, &rest);
    if (!*file || **file != '/' || strtok_r(NULL, BLANKS, &rest))
        return problem(why, STATUS_INVALID,
                       "a line is a URL and the absolute path of a token file");
    if (websub_check_url(slice_of(*url), "the URL", why))
        return STATUS_INVALID;
    if (strncasecmp(*url, "https:", 6) != 0 &&
        !websub_is_loopback(slice_of(*url)))
        return problem(why, STATUS_INVALID,
                       "a token is sent over https, or over http to this "
                       "machine itself");
    return STATUS_OK;
}

/* Reads the file until the line whose URL is `wanted`, and sets *found to its
 * token file, or NULL; the caller frees it. `wanted` NULL: reads all, and the
 * token files, too. */
static enum status
read_lines(const char *path, const char *wanted, char **found,
           struct problem *why)
{
    FILE *file = fopen(path, "re");
    enum status rc = STATUS_OK;
    char *line = NULL;
    size_t size = 0;
    unsigned n = 0;

    if (!file)
        return problem(why, STATUS_IO, "cannot read %s: %s", path,
                       strerror(errno));
    while (!rc && !*found && getline(&line, &size, file) >= 0) {
        const char *url, *token_path;
        struct websub_comparable comparable;
        char *header;

        n++;
        rc = read_line(line, &url, &token_path, why);
        if (rc || !url)
            continue;
        if (!wanted) {
            rc = token_header_read(&header, token_path, true, why);
            token_header_free(header);
            continue;
        }
        websub_comparable(&comparable, slice_of(url));
        if (!strcmp(comparable.text, wanted))
            *found = slice_dup(slice_of(token_path));
    }
    if (rc)
        problem_prefix(why, rc, "%s:%u: ", path, n);
    else if (ferror(file))
        rc = problem(why, STATUS_IO, "cannot read %s", path);
    free(line);
    fclose(file);
    return rc;
}

enum status
peer_tokens_check(const char *path, struct problem *why)
{
    return read_lines(path, NULL, &(char *){NULL}, why);
}

char *
peer_tokens_header(const char *path, const char *url)
{
    struct problem why = {.text = ""};
    struct websub_comparable wanted;
    char *found = NULL, *header = NULL;
    enum status rc;

    if (!path[0])
        return NULL;
    websub_comparable(&wanted, slice_of(url));
    rc = read_lines(path, wanted.text, &found, &why);
    if (!rc && found)
        rc = token_header_read(&header, found, true, &why);
    if (rc)
        diag(DIAG_WARNING, "hub", "no token for %s: %s", url, why.text);
    free(found);
    return header;
}
