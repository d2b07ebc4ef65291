/** A link of an entry (ResourceSync `rs:ln`). */
export interface Link {
    rel: string;
    href: string;
    pri?: number;
    modified?: string;
    hash?: Record<string, string>;
    length?: number;
    type?: string;
    encoding?: string;
    attributes?: Attribute[];
}

/** An attribute of a foreign namespace. */
export interface Attribute {
    ns: string;
    name: string;
    value: string;
}

/** A change, as the broker describes it in JSON. */
export interface Entry {
    /** The URI of the resource. */
    loc: string;
    change: 'created' | 'updated' | 'deleted';
    /** When the broker took it: W3C datetime in UTC, with microseconds. */
    datetime: string;
    /** When it happened, if the source says another time. */
    sourceDatetime?: string;
    lastmod?: string;
    /** Digests by their algorithm: `md5`, `sha-1`, `sha-256`. */
    hash?: Record<string, string>;
    /** Bytes. */
    length?: number;
    /** The media type. */
    type?: string;
    encoding?: string;
    changefreq?: string;
    priority?: string;
    tags?: string[];
    links?: Link[];
    attributes?: Attribute[];
    /** Words of the change, not of the resource. */
    title?: string;
    summary?: string;
    author?: string;
    /** Any JSON that came with the change. */
    data?: unknown;
    /** The number of the change in its set: 1, 2, 3 ... */
    seq: number;
}

/** A change to be posted. */
export interface NewChange
    extends Omit<Entry, 'seq' | 'datetime' | 'sourceDatetime'> {
    /** When it happened. */
    datetime?: string;
}

/** A change that follow() yields. */
export interface Change extends Entry {
    /** The name of the set. */
    set: string;
    /** The URL of the set. */
    source: string;
    /** The position after this change. */
    position: string;
}

/** Changes that came together, which follow.messages() yields. */
export interface Message {
    set: string;
    source: string;
    /** The identity of the set's log; with `after` or `last` it is a position. */
    epoch: string;
    /** The message covers the changes after this number ... */
    after: number;
    /** ... up to this one. */
    last: number;
    changes: Entry[];
}

/** Where positions are kept, one text for each key. Both may return a promise. */
export interface Store {
    get(key: string): string | null | undefined | Promise<string | null | undefined>;
    set(key: string, position: string): void | Promise<unknown>;
}

/** What localStorage and sessionStorage have, and also where TypeScript knows no browser. */
export interface WebStorage {
    getItem(key: string): string | null;
    setItem(key: string, value: string): void;
}

/** Makes a store in IndexedDB, in the database of that name ("tidings"). */
export function indexedDBStore(name?: string): Store;

/**
 * What onState is told. "stale": changes may be missing since `since`, and follow() tries to
 * connect again; `error` says why. "catching up": the broker sends older changes. "live": the
 * broker had nothing more to send. Of several connections, the worst state counts.
 */
export interface State {
    state: 'connecting' | 'catching up' | 'live' | 'stale';
    since: Date;
    error?: Error;
}

/** Values of one name are alternatives; different names must all hold. */
export interface Filter {
    change?: Entry['change'] | Entry['change'][];
    /** How `loc` begins. */
    prefix?: string | string[];
    /** A media type, or `image/*`. */
    type?: string | string[];
    tag?: string | string[];
    /** "no": changes come without their data. */
    data?: 'no';
}

export interface Options {
    /**
     * Where to begin if the store has no position: "now" (the default), "0" (the beginning of the
     * set), or the position of a change. For several sets an object: a position for each name.
     */
    position?: string | Record<string, string>;
    /** Begin with the first change after this time; only without a position. */
    since?: Date | string;
    /**
     * Where to keep positions: localStorage, sessionStorage, indexedDBStore() or functions. A
     * position is written after the consumer has asked for the next change. The key is "tidings:"
     * and the URL of the set: consumers that share a store share their position.
     */
    store?: WebStorage | Store;
    /** A bearer token, or a function that returns one: asked again when the broker refuses it. */
    token?: string | (() => string | Promise<string>);
    filter?: Filter;
    /**
     * The names of the sets, if the source is the URL of a broker: `https://host/`. The sets of a
     * broker share one connection.
     */
    sets?: string[];
    /** Ends the iteration, which then throws the reason of the signal. */
    signal?: AbortSignal;
    onState?: (state: State) => void;
    /**
     * Called when the broker cannot serve the position any more. Returns the position to go on
     * from, for example `error.earliest`, after it has done what the lost changes need. Without
     * it, or if it returns nothing, the iteration throws the error.
     */
    onGone?: (error: TidingsError) => string | undefined | Promise<string | undefined>;
    /**
     * Called when one set ends: "removed", "unknown", or "gone" without a position to go on from.
     * The others go on; the iteration ends with the last one. Without it, the iteration throws.
     */
    onEnd?: (error: TidingsError) => void;
}

/**
 * The end of an iteration.
 *
 * - "gone": the broker cannot serve the position; see `earliest`, `last` and `restart`.
 * - "removed": the set was removed.
 * - "unknown": there is no such set, or the reader may not know of it.
 * - "denied": the token is missing, has ended, or lacks the right.
 * - "refused": the broker cannot take the request, for example a malformed filter or change.
 * - "unreachable": no attempt of a post was answered; the broker may have kept it. A post with the
 *   same changes and the same `key` does no harm.
 */
export class TidingsError extends Error {
    code: 'gone' | 'removed' | 'unknown' | 'denied' | 'refused' | 'unreachable';
    /** The name of the set. */
    set?: string;
    /** The status of the answer. */
    status?: number;
    /** The key of the post. */
    key?: string;
    /** Of "gone": the earliest position that the broker can serve. */
    earliest?: string;
    /** Of "gone": the position after the newest change. */
    last?: string;
    /** Of "gone": the URL of the Capability List, which names the set's Resource List. */
    restart?: string;
}

/**
 * Follows a set, by its URL (`https://host/sets/NAME`; in a page also `/sets/NAME`), or several
 * sets. Yields each change once; those of one set in order. Connects again whenever that may
 * help; throws a TidingsError when it does not.
 *
 * A loop that is left by `break` or by an error has not finished its last change: with a store,
 * the next call yields that change again.
 */
export function follow(
    source: string | URL | (string | URL)[], options?: Options,
): AsyncGenerator<Change, void, undefined>;

export namespace follow {
    /** The same, but yields messages of several changes. A position is kept after each message. */
    function messages(
        source: string | URL | (string | URL)[], options?: Options,
    ): AsyncGenerator<Message, void, undefined>;
}

export interface PublishOptions {
    /**
     * The idempotency key, 1 to 255 visible characters of ASCII: the broker keeps the same changes
     * under it once, for a day. Made if it is not given; a program that may end and post again
     * keeps its own.
     */
    key?: string;
    /** A bearer token, or a function that returns one: asked again when the broker refuses it. */
    token?: string | (() => string | Promise<string>);
    /** Milliseconds (60,000, twelve hours at most): no attempt begins later. */
    patience?: number;
    /** Ends it, which then throws the reason of the signal. The broker may have kept the post. */
    signal?: AbortSignal;
    /** Called before each further attempt, which follows after `pause` milliseconds. */
    onTrouble?: (error: Error, pause: number) => void;
}

/** The broker's answer: the changes are on its disk. */
export interface Receipt {
    /** The name of the set. */
    set: string;
    /** The numbers of the first and the last of the changes. */
    first: number;
    last: number;
    /** The position of the last one. */
    position: string;
    /** Its time. */
    datetime: string;
    /** The key of the post. */
    key: string;
    /** True if an earlier post with this key had added them. */
    isRepeat: boolean;
}

/**
 * Posts a change, or several, to a set, by its URL (`https://host/sets/NAME`; in a page also
 * `/sets/NAME`). Tries again after failures of the network, 408, 425, 429 and 5xx, as Retry-After
 * says; the key makes sure that the changes are added once. Throws a TidingsError when that does
 * not help.
 */
export function publish(
    source: string | URL, changes: NewChange | NewChange[], options?: PublishOptions,
): Promise<Receipt>;
