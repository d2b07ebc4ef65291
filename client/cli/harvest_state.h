/*
 * harvest_state.h - where `tidings harvest` keeps its state.
 *
 *     --state FILE
 *     $XDG_STATE_HOME/tidings/SET-from-SOURCE-HASH      ~/.local/state by
 * default
 */
#ifndef CLIENT_CLI_HARVEST_STATE_H
#define CLIENT_CLI_HARVEST_STATE_H

#include <stdbool.h>
#include <stddef.h>

#define HARVEST_STATE_PATH_MAX 4096

/* Writes the path. `given`: of --state, or NULL. `makes`: makes the directory
 * of the default path, and says where a new state is. False: it has said why.
 */
bool harvest_state_path(char path[HARVEST_STATE_PATH_MAX], const char *given,
                        const char *set, char *const *sources, size_t n,
                        bool makes);

#endif
