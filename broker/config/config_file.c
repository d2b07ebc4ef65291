#include "broker/config/config_file.h"

#include "base/commands/option_file.h"

static struct bridge_config *
bridge_of(const struct option_file *file)
{
    struct config *config = file->user;

    return &config->bridges[config->n_bridges - 1];
}

/* Ends a section after its last key. */
static enum status
end_section(struct option_file *file, unsigned *line, struct problem *why)
{
    const struct bridge_config *bridge = bridge_of(file);
    const char *key;
    unsigned of_key = 0;
    enum status rc = bridge_check(bridge, &key, why);

    if (!rc)
        return rc;
    if (key)
        of_key = file->line_of[options_index(&bridge_options, slice_of(key))];
    *line = of_key > 0 ? of_key : bridge->line;
    return problem_prefix(why, rc, "%s: %s%s", bridge_place(bridge).text,
                          key ? key : "", key ? " " : "");
}

/* Keeps the lines of the broker's options. */
static void
keep_lines(struct config *config, const struct option_file *file)
{
    _Static_assert(sizeof(config->origins.line_of) == sizeof(file->line_of),
                   "both are by rows");
    memcpy(config->origins.line_of, file->line_of, sizeof(file->line_of));
}

/* Begins the section "mqtt NAME". */
static enum status
begin_section(struct option_file *file, struct slice title, struct problem *why)
{
    static const char form[] = "a bridge to an MQTT broker is [mqtt NAME]";
    struct config *config = file->user;
    struct slice rest = title, word = slice_take(&rest, ' ');
    enum status rc;

    while (slice_starts(rest, " "))
        slice_take(&rest, ' ');
    if (!slice_is(word, "mqtt"))
        return problem(why, STATUS_INVALID,
                       "[%s]: there is no such section; %s",
                       problem_quote(title).text, form);
    if (rest.size == 0)
        return problem(why, STATUS_INVALID, "[mqtt]: has no name; %s", form);
    for (size_t i = 0; i < config->n_bridges; i++)
        if (slice_is(rest, config->bridges[i].name))
            return problem(why, STATUS_INVALID,
                           "%s: is there twice, first in line %u",
                           bridge_place(&config->bridges[i]).text,
                           config->bridges[i].line);
    rc = bridging_add(&config->bridges, &config->n_bridges, why);
    if (!rc)
        rc = bridge_init(bridge_of(file), rest, file->line, why);
    if (rc)
        return problem_prefix(why, rc, "[%s]: ", problem_quote(title).text);
    if (!file->is_in_section)
        keep_lines(config, file);
    file->options = &bridge_options;
    file->values = bridge_of(file);
    return STATUS_OK;
}

/* Reports a key that does not exist here; it may exist elsewhere. */
static enum status
explain_key(const struct option_file *file, struct slice key,
            struct problem *why)
{
    const struct option *o = options_find(&config_options, key);

    if (file->is_in_section && o)
        return problem(why, STATUS_INVALID,
                       "%s: is the broker's, not the bridge's: it has to stand "
                       "before the first section",
                       o->name);
    o = options_find(&bridge_options, key);
    if (!file->is_in_section && o)
        return problem(why, STATUS_INVALID,
                       "%s: is a bridge's: it has to stand in a section [mqtt "
                       "NAME]",
                       o->name);
    return options_unknown(file->options, "", key, "", why);
}

enum status
config_file_read(struct config *config, const char *path, struct problem *why)
{
    struct option_file file = {
        .options = &config_options,
        .values = config,
        .begin = begin_section,
        .end = end_section,
        .explain = explain_key,
        .section_form = "a section is [mqtt NAME]",
        .user = config,
    };
    enum status rc = option_file_read(&file, path, why);

    if (!file.is_in_section)
        keep_lines(config, &file);
    return rc == STATUS_NOT_FOUND ? STATUS_INVALID : rc;
}
