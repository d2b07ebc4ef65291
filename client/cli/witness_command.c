/*
 * witness_command.c - tidings witness: cosigns the checkpoints of sets that it
 * follows itself.
 */
#include "client/cli/cli.h"
#include "client/witness/witness.h"

struct witness_values {
    struct witness_options how;
    struct trust_files trust;
};

#define ROW_OF struct witness_values
#include "base/option_rows.h"

static const struct option options[] = {
    {"listen", "HOST:PORT", LENT(how.listen), "127.0.0.1:8788",
     "where logs send checkpoints"},
    {"key", "FILE", LENT(trust.keys), NULL,
     "the keys of the logs, a line each, as tidingsd key show prints them",
     .is_required = true},
    {"state", "DIR", LENT(how.dir), NULL,
     "its own key, and what it has cosigned; made if it is missing",
     .is_required = true},
    {"name", "NAME", LENT(how.name), NULL,
     "of the key that the first start makes: host and path of the witness; "
     "default: that of --listen"},
};

static void
print_ready(const char *url, const char *key)
{
    printf("%s %s\n", url, key);
    fflush(stdout);
}

static enum exit_code
run_witness(const struct arguments *arguments)
{
    struct witness_values *values = arguments->values;
    struct witness_options *o = &values->how;
    enum exit_code code;
    struct td_client *client =
        open_client(arguments, arguments->operands[0], &values->trust, &code);
    enum status rc;

    if (!client)
        return code;
    o->urls = arguments->operands;
    o->on_ready = print_ready;
    o->on_text = say_text;
    signals_stop_client(client);
    rc = witness_run(client, o);
    code = rc == STATUS_STOPPED ? EXIT_GOOD
                                : exit_of(client, client_end(client, rc));
    signals_end();
    td_close(client);
    return code;
}

struct cosigner {
    struct witness_options how;
    struct witness *witness;
    struct td_client *reader;
    char *dir, **urls;
};

static void
say_ready(const char *url, const char *key)
{
    say("cosigns at %s %s", url, key);
}

enum exit_code
cosigner_open(struct cosigner **cosigner, const char *listen, const char *dir,
              struct td_client *client, const struct trust_files *trust,
              const struct arguments *arguments, size_t n)
{
    struct cosigner *c = *cosigner = calloc(1, sizeof(*c));
    enum exit_code code;

    if (!trust->keys)
        return bad_usage(COSIGN_NEEDS_KEY);
    if (c) {
        c->dir = strdup(dir);
        c->urls = calloc(n + 1, sizeof(*c->urls));
    }
    if (!c || !c->dir || !c->urls)
        return failed(NO_MEMORY);
    memcpy(c->urls, arguments->operands, n * sizeof(*c->urls));
    c->how = (struct witness_options){.listen = listen,
                                      .dir = c->dir,
                                      .urls = c->urls,
                                      .on_ready = say_ready,
                                      .on_text = say_text};
    c->reader = open_client(arguments, c->urls[0], trust, &code);
    return code ? code
                : exit_of(
                      client,
                      client_end(client, witness_open(client, c->reader,
                                                      &c->how, &c->witness)));
}

void
cosigner_close(struct cosigner *c)
{
    if (!c)
        return;
    witness_close(c->witness);
    td_close(c->reader);
    free(c->dir);
    free(c->urls);
    free(c);
}

const struct command witness_command = {
    .name = "witness",
    .operands = "SET-URL|SOURCE-URL...",
    .help = "Cosigns the checkpoints of sets that it follows itself.",
    .more =
        "A broker with --witness sends it the signed checkpoints of its sets "
        "(C2SP tlog-witness). The witness reads the Change Lists of the set, "
        "builds the tree of all entries, and cosigns a checkpoint only if it "
        "continues the last one and has the root of that tree. So two readers "
        "who demand its cosignature see one history.\n\n"
        "The first line of output is the address and the verifier key of the "
        "witness: the value of tidingsd --witness. The first start makes the "
        "key in DIR; keep DIR, and run one witness with it.\n\n"
        "A log that signs another history than its lists show gets 422: DIR "
        "keeps that checkpoint as evidence-..., and standard error has a "
        "line.\n",
    .examples =
        "tidings witness --listen 127.0.0.1:8788 --key news.key \\\n"
        "    --state /var/lib/witness http://127.0.0.1:8787/sets/news\n",
    .options = OPTION_ROWS(options),
    .run = run_witness,
};
