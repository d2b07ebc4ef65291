/*
 * publish.c - tells a set what changed: publish SET-URL < CHANGES, where each
 * line is one change: {"loc":"http://example.com/a","change":"updated"}
 */
#include <stdio.h>
#include <stdlib.h>
#include <tidings.h>

int
main(int argc, char **argv)
{
    struct td_client *client = td_open();
    struct td_receipt receipt;
    char *changes = malloc(1 << 20);
    enum td_status rc = TD_MEMORY;
    size_t size;

    if (!client || !changes || argc != 2)
        return fputs("usage: publish SET-URL < CHANGES\n", stderr), 2;
    size = fread(changes, 1, 1 << 20, stdin);
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
