/*
 * inside.h - struct hub, for the files of this folder. All of it is the
 * delivery thread's, but what stands under "Other threads".
 */
#ifndef BROKER_HUB_INSIDE_H
#define BROKER_HUB_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "broker/hub/hub.h"
#include "broker/hub/records.h"
#include "broker/hub/subscription.h"
#include "broker/hub/verify.h"
#include "broker/net/caller.h"

struct engine; /* deliver.c: bodies, what is due */

struct hub {
    struct registry *registry;
    const struct config *config;
    struct networks allowed;
    struct caller *caller;
    struct records *records;
    struct list topics;
    struct list relays;
    struct subscriptions *subscriptions; /* subscription.c: tables */
    struct requests *requests;           /* verify.c: tables, limits */
    struct deliveries *deliveries;       /* deliver.c */
    struct list answers; /* orders that are done when this turn is kept */

    /* Other threads */
    atomic_bool is_dirty; /* some topic is: look at them */
    atomic_bool sets_changed;
    atomic_bool is_stopping;
};

#endif
