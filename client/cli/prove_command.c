/*
 * prove_command.c - tidings prove: the proof of an entry.
 */
#include "client/cli/cli.h"
#include "proto/number.h"

struct prove {
    struct trust_files trust;
};

#define ROW_OF struct prove
#include "base/option_rows.h"

static const struct option options[] = {TRUST_ROWS(trust)};

static void
on_proof(const char *proof, size_t size, void *user)
{
    (void)user;
    fwrite(proof, 1, size, stdout);
}

static enum exit_code
run_prove(const struct arguments *arguments)
{
    const struct prove *prove = arguments->values;
    const char *url = arguments->operands[0];
    struct td_client *client;
    enum exit_code code;
    uint64_t seq;

    if (!number_read(slice_of(arguments->operands[1]), &seq) || seq == 0)
        return bad_usage("SEQ is the number of an entry, from 1 on: %s",
                         arguments->operands[1]);
    client = open_client(arguments, url, &prove->trust, &code);
    if (!client)
        return code;
    signals_stop_client(client);
    code = exit_of(client, td_prove(client, url, seq, on_proof, NULL));
    signals_end();
    td_close(client);
    return code;
}

const struct command prove_command = {
    .name = "prove",
    .operands = "SET-URL SEQ",
    .help = "Prints the proof that an entry is in the log of a set.",
    .more = "The proof (C2SP tlog-proof) has the entry, its place in the tree "
            "of the set's checkpoint, and the checkpoint with its signatures. "
            "It is checked before it is printed. tidings verify FILE checks it "
            "again, without the broker.\n",
    .examples = "tidings prove http://localhost:8787/sets/news 7 "
                ">change.tlog-proof\n",
    .options = OPTION_ROWS(options),
    .run = run_prove,
};
