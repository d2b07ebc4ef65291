/*
 * publish.c - posts changes to a set: publish SET-URL < CHANGES, where each
 * line is one change: {"loc":"http://example.com/a","change":"updated"}
 *
 * All changes are one post, which the broker keeps whole or not at all; it may
 * be as large as the broker's --max-body. For an endless stream of changes use
 * td_publisher_open.
 */
#include <stdio.h>
#include <stdlib.h>
#include <tidings.h>

/* Reads `from` to its end. The caller frees the text. NULL: `from` is
 * unreadable, or there is no memory. */
static char *
read_all(FILE *from, size_t *size)
{
    char *text = NULL, *larger;
    size_t room = 0;

    *size = 0;
    while (!feof(from) && !ferror(from)) {
        if (*size == room) {
            room = room ? 2 * room : 65536;
            larger = realloc(text, room);
            if (!larger)
                break;
            text = larger;
        }
        *size += fread(text + *size, 1, room - *size, from);
    }
    if (feof(from))
        return text;
    free(text);
    return NULL;
}

int
main(int argc, char **argv)
{
    struct td_client *client = argc == 2 ? td_open() : NULL;
    struct td_receipt receipt;
    enum td_status rc;
    char *changes;
    size_t size;

    if (!client)
        return fputs("usage: publish SET-URL < CHANGES\n", stderr), 2;
    changes = read_all(stdin, &size);
    if (!changes) {
        fputs("publish: cannot read the changes\n", stderr);
        td_close(client);
        return 1;
    }
    rc = td_publish(client, argv[1], "application/x-ndjson", changes, size,
                    NULL, &receipt);
    if (rc == TD_OK)
        printf("%s\n", receipt.position);
    else
        fprintf(stderr, "publish: %s\n", td_problem(client));
    free(changes);
    td_close(client);
    return rc != TD_OK;
}
