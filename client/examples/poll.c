/*
 * poll.c - follows two sets from now on in its own event loop, beside another
 * descriptor: poll SET-URL SET-URL. A line on standard input asks for their
 * positions; the end of the input ends the program.
 */
#include <poll.h>
#include <stdio.h>
#include <tidings.h>
#include <unistd.h>

static int
on_message(const struct td_message *m, void *user)
{
    (void)user;
    for (size_t i = 0; i < m->n_changes; i++)
        printf("%s: %s %s\n", m->set, m->changes[i].change, m->changes[i].loc);
    fflush(stdout);
    return 0;
}

static void
on_end(enum td_status rc, const char *why, void *user)
{
    (void)rc;
    (void)user;
    fprintf(stderr, "poll: %s\n", why);
}

int
main(int argc, char **argv)
{
    struct td_client *client = argc == 3 ? td_open() : NULL;
    struct td_follow_options options = {.on_end = on_end};
    struct td_follower *follower[2] = {NULL, NULL};
    char line[100];
    int code = 0;

    if (!client)
        return fputs("usage: poll SET-URL SET-URL\n", stderr), 2;
    for (int i = 0; i < 2 && !code; i++)
        if (td_follower_open(client, argv[1 + i], &options, on_message, NULL,
                             &follower[i]) != TD_OK) {
            fprintf(stderr, "poll: %s\n", td_problem(client));
            code = 2;
        }

    while (!code) {
        struct pollfd fds[] = {{.fd = 0, .events = POLLIN},
                               {.fd = td_fd(client), .events = POLLIN}};

        poll(fds, 2, td_timeout_ms(client));
        if (td_service(client) != TD_OK)
            break;
        if (fds[0].revents) {
            if (read(0, line, sizeof(line)) <= 0)
                break;
            printf("%s %s\n", td_follower_position(follower[0]),
                   td_follower_position(follower[1]));
            fflush(stdout);
        }
    }
    for (int i = 0; i < 2; i++)
        td_follower_close(follower[i]);
    td_close(client);
    return code;
}
