/*
 * follow.c - prints every change of a set once: follow SET-URL FILE, where FILE
 * keeps the position. Started again, it goes on where it ended.
 */
#include <stdio.h>
#include <tidings.h>

struct place {
    struct td_client *client;
    const char *file;
};

static int
on_message(const struct td_message *m, void *user)
{
    const struct place *place = user;

    for (size_t i = 0; i < m->n_changes; i++)
        printf("%s %s\n", m->changes[i].change, m->changes[i].loc);
    return fflush(stdout) ||
           td_position_write(place->client, place->file, m->position);
}

int
main(int argc, char **argv)
{
    struct place place = {td_open(), argc == 3 ? argv[2] : NULL};
    char position[TD_POSITION_SIZE];
    struct td_follow_options options = {.after = position};

    if (!place.client || !place.file ||
        td_position_read(place.client, place.file, position))
        return fputs("usage: follow SET-URL FILE\n", stderr), 2;
    if (!position[0])
        options.after = "0"; /* all changes ever */
    td_follow(place.client, argv[1], &options, on_message, &place);
    fprintf(stderr, "follow: %s\n", td_problem(place.client));
    td_close(place.client);
    return 1;
}
