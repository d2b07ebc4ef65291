/*
 * schemas.h - JSON Schemas of all JSON and forms that the broker takes and
 * writes, made of the shapes (proto/json_shape.h) beside the code that does so.
 * Those of the handlers stand in schemas.c.
 */
#pragma once

#include "proto/json_shape.h"

extern const struct json_shape sets_shape, set_shape, rate_shape, posted_shape,
    resources_posted_shape, closed_shape, built_shape, ticket_shape,
    status_shape, backup_shape, subscribe_form_shape, hub_form_shape,
    event_shape, events_shape;

/* All of bodies and answers of routes; the last one is NULL. */
extern const struct json_shape *const route_shapes[];

/* Appends the schemas of such shapes: "NAME":{...},... */
void schemas_write(struct buf *to, const struct json_shape *const *shapes);
