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
     * Verifier keys, the lines of `tidingsd key show SET`: one text, or several. Then changes are
     * read from the lines of the log, by long polls, and yielded when the signed tree has them; the
     * reader filters. A line or a checkpoint that is wrong ends the set with a CheckpointError.
     */
    verifierKey?: string | string[];
    /** The keys of witnesses, of whom `requireWitnesses` (all) have to cosign checkpoints. A key counts once. */
    witnesses?: string | string[];
    requireWitnesses?: number;
    /**
     * Called with each checkpoint that is right. Where the browser cannot check signatures,
     * `unchecked` says why, and `isSigned` is false; without this function, the console has it.
     */
    onCheckpoint?: (checkpoint: Checkpoint & Signatures & { set: string }) => void;
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
 * - "rewound": the log of the same epoch lost entries that have come, or shows others; `last` as of
 *   "gone". To accept that, follow from there.
 * - "removed": the set was removed.
 * - "unknown": there is no such set, or the reader may not know of it.
 * - "denied": the token is missing, has ended, or lacks the right.
 * - "refused": the broker cannot take the request, for example a malformed filter or change.
 * - "checkpoint": a checkpoint cannot be believed; see CheckpointError.
 * - "unreachable": no attempt of a post was answered; the broker may have kept it. A post with the
 *   same changes and the same `key` does no harm.
 */
export class TidingsError extends Error {
    code: 'gone' | 'rewound' | 'removed' | 'unknown' | 'denied' | 'refused' | 'unreachable' | 'checkpoint';
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

/** A signed note (C2SP signed-note): `body` is what was signed. */
export interface Note {
    text: string;
    body: string;
    signatures: string;
}

/** A checkpoint (C2SP tlog-checkpoint): the first `size` entries of the log `origin` have that root. */
export interface Checkpoint extends Note {
    origin: string;
    size: number;
    root: Uint8Array;
}

/** What was checked of a checkpoint. */
export interface Signatures {
    /** A key of the log has signed it. */
    isSigned: boolean;
    /** How many of the known witnesses have cosigned it. */
    witnesses: number;
    /** When the log had no other entries: seconds since 1970, 0: its key says nothing. */
    time?: number;
    /** Why no signature could be checked. */
    unchecked?: string;
}

/** A key that checks signatures: of a log (kind 1), or of a witness (kind 4). */
export interface VerifierKey {
    name: string;
    kind: number;
    publicKey: Uint8Array;
    id: Uint8Array;
}

/**
 * A checkpoint that cannot be believed.
 *
 * - "malformed": it is none, or a message has something else than lines of the log.
 * - "origin": it is of another log.
 * - "signature": no known key of the log has signed it, or the signature is wrong.
 * - "witnesses": too few have cosigned it, or a cosignature is wrong.
 * - "smaller": it has fewer entries than the last one, and is not dated before it.
 * - "root": it has as many, and another root.
 * - "inconsistent": its tree does not continue that of the last one.
 * - "digest": its tree has another history than the one that came.
 */
export class CheckpointError extends TidingsError {
    fault: 'malformed' | 'origin' | 'signature' | 'witnesses' | 'smaller' | 'root' | 'inconsistent' |
        'digest';
    /** The texts that contradict each other: the last checkpoint, or the position with its digest;
     * this checkpoint; and, if these are not enough, what its tree has instead, and the way from
     * there to its root. Joined by "\n" they are a file that `tidings verify` judges. */
    evidence: string[];
}

/** The hashes of a proof, or tilesOf(). */
export type Way = Uint8Array[] | ((begin: number, end: number) => Promise<Uint8Array>);

/** Gives the bytes of a tile by its path, LEVEL/NUMBER or LEVEL/NUMBER.p/WIDTH. */
export type ReadTile = (path: string) => Promise<Uint8Array>;

/** Reads a verifier key, NAME+HEX+BASE64. */
export function readVerifierKey(text: string): Promise<VerifierKey>;
/** These look at no signature. Each throws a CheckpointError if the text is none. */
export function readNote(text: string): Note;
export function readCheckpoint(text: string): Checkpoint;
/** The proof of an entry (C2SP tlog-proof), which has number `index` + 1. */
export function readProof(
    text: string,
): { index: number; hashes: Uint8Array[]; checkpoint: Checkpoint };

/** The time of a cosignature, 0 of another signature, undefined if the note has none of the key. */
export function checkSignature(note: Note, key: VerifierKey): Promise<number | undefined>;
/** Demands the signatures, as the options of follow() do. */
export function checkCheckpoint(
    checkpoint: Checkpoint, keys: Pick<Options, 'verifierKey' | 'witnesses' | 'requireWitnesses'>,
): Promise<Signatures>;

/** True if the digest of the log up to entry `index` + 1 is in the tree of the checkpoint. */
export function isIncluded(
    digest: Iterable<number>, index: number, checkpoint: Checkpoint, way: Way,
): Promise<boolean>;
/** True if the tree continues that of the earlier checkpoint. */
export function isContinued(
    earlier: Checkpoint, checkpoint: Checkpoint, way: Way,
): Promise<boolean>;
/** The way that the tiles of a checkpoint's tree give. Without a partial tile, it takes the full one. */
export function tilesOf(checkpoint: Checkpoint, read: ReadTile): Way;
/** Demands that a checkpoint continues the one before, and has that digest ("sha-256:...") at the
 * position, if it is so large. */
export function checkProgress(
    before: Checkpoint | undefined, checkpoint: Checkpoint, position: { epoch: string; seq: number },
    digest: string | undefined, read: ReadTile,
): Promise<void>;

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
