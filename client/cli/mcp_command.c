/*
 * mcp_command.c - tidings mcp: the server of the Model Context Protocol in the
 * Python package (python/tidings/mcp.py).
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/cli.h"

struct mcp_options {
    const char *http, *token_file;
};

#define ROW_OF struct mcp_options
#include "base/option_rows.h"

static const struct option options[] = {
    {"http", "HOST:PORT", LENT(http), NULL,
     "serve /mcp there instead of standard input and output"},
    {"token-file", "FILE", LENT(token_file), NULL,
     "bearer token for the source"},
};

/* Python searches the current directory first, as "": anybody may have put a
 * module there, and this removes it from the search. */
static const char start[] =
    "import sys\n"
    "sys.path = [path for path in sys.path if path]\n"
    "try:\n"
    "    from tidings.mcp import main\n"
    "except ImportError as error:\n"
    "    sys.exit(f'tidings mcp: {error}: it needs the Python package of '\n"
    "             'Tidings (Debian: python3-tidings)')\n"
    "main()\n";

static enum exit_code
run_mcp(const struct arguments *arguments)
{
    const struct mcp_options *given = arguments->values;
    const char *command[9] = {"python3", "-c", start};
    size_t n = 3;

    if (given->http) {
        command[n++] = "--http";
        command[n++] = given->http;
    }
    if (given->token_file) {
        command[n++] = "--token-file";
        command[n++] = given->token_file;
    }
    if (arguments->operands[0])
        command[n++] = arguments->operands[0];
    execvp(command[0], (char *const *)(uintptr_t)command);
    return failed("cannot start python3: %s", strerror(errno));
}

const struct command mcp_command = {
    .name = "mcp",
    .operands = "[SOURCE-URL]",
    .help = "Tells a language model what has changed (Model Context Protocol).",
    .more =
        "Tools: list_sets, changes_since, wait_for_change and what_did_i_miss, "
        "which proves that nothing is left out. Needs the Python package of "
        "Tidings (Debian: python3-tidings). The source is "
        "http://127.0.0.1:8787/ if no other is given.\n",
    .examples = "mcp https://example.org/.well-known/resourcesync\n"
                "mcp http://127.0.0.1:8787/ --http 127.0.0.1:8788\n",
    .options = OPTION_ROWS(options),
    .run = run_mcp,
    .is_plain = true,
};
