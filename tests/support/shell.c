#include "tests/support/shell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/buf.h"
#include "tests/test.h"

#define SAID_MAX (1 << 20)

char *
shell(const char *format, ...)
{
    struct buf said;
    char *line, *all, *text;
    va_list args;
    FILE *out;
    size_t n;
    int status;

    va_start(args, format);
    assert_true(vasprintf(&line, format, args) >= 0);
    va_end(args);
    assert_true(asprintf(&all, "{ %s\n} 2>&1", line) >= 0);
    fflush(stdout);
    out = popen(all, "re");
    assert_non_null(out);
    buf_init(&said, SAID_MAX);
    do {
        char *room = buf_room(&said, 4096);

        assert_non_null(room);
        n = fread(room, 1, 4096, out);
        said.size += n;
    } while (n > 0);
    status = pclose(out);
    text = slice_dup(buf_slice(&said));
    assert_non_null(text);
    buf_fini(&said);
    free(all);
    if (status) { /* too long for a message of cmocka's */
        fprintf(stderr, "%s\n%s\n", line, text);
        fail_msg("the line above ended with %d", status);
    }
    free(line);
    return text;
}
