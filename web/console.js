/**
 * console.js - the console of a broker: all sets, the page of each, and the broker itself.
 *
 *     #/                  all sets
 *     #/sets/NAME/VIEW    console-set.js
 *     #/new               console-settings.js
 *     #/broker            health, cluster, disk, bridges, relays
 *     #/tokens/NAME       console-tokens.js
 *     #/sign-in
 *
 * Without this script the page is a list of public sets.
 */

import {
    announce, ask, askJson, badge, bytes, chart, choice, clock, commands, curl, facts, fill,
    harvestTroubles, headline, labelled, make, mayDo, number, perform, quote, redrawSparkline, Refusal,
    renewTimes, root, section, shortNumber, spaced, sparkline, table, time, workButton,
} from './console-parts.js';
import { showSet } from './console-set.js';
import { showNewSet } from './console-settings.js';
import { showToken, showTokens } from './console-tokens.js';
import { forgetProvider, leaveForProvider, provider, returnFromProvider } from './console-sign-in.js';

/** What GET /tokens/self says: the name and the rights of the user. */
let token = { name: 'everyone' };

/* All sets */

const REFRESH_MS = 2000;

/** Removed sets leave the list so late at most. */
const RELOAD_MS = 60_000;

/** Changes of clocks between sets, in milliseconds: a time is asked for again. */
const OVERLAP_MS = 5000;

/** Rows above and below the window, so that the keyboard finds a next one. */
const MARGIN = 8;

const ORDERS = {
    recent: ['Last change', (a, b) => (a.datetime < b.datetime ? 1 : a.datetime > b.datetime ? -1 : 0)],
    busy: ['Changes in the last hour', (a, b) => b.hour - a.hour],
    name: ['Name', () => 0],
    size: ['Entries', (a, b) => b.last - a.last],
};

function byName(a, b) {
    return a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
}

/** What the list keeps of a set. */
function rowOf(set) {
    const rate = set.rate ?? null;
    const last = Number(set.position.slice(set.position.lastIndexOf('-') + 1));
    return {
        name: set.name, title: set.title ?? '', datetime: last ? set.datetime : '', rate, last,
        hour: rate ? rate.reduce((a, b) => a + b, 0) : 0, harvest: set.harvest,
    };
}

/** All sets that the user sees, renewed by asking for those that have changed. */
class Sets {
    constructor(signal) {
        this.signal = signal;
        this.all = new Map();
        this.reloadedAt = 0;
        this.newest = '';
    }

    async read(since, into) {
        let path = `sets?rate=yes${since ? `&since=${since}` : ''}`;
        while (path) {
            const { sets, next } = await askJson(path, { signal: this.signal });
            for (const set of sets) {
                into.set(set.name, rowOf(set));
                if (set.datetime > this.newest)
                    this.newest = set.datetime;
            }
            path = next && `sets${new URL(next).search}`;
        }
    }

    async refresh() {
        const now = Date.now();
        if (now - this.reloadedAt > RELOAD_MS) {
            const all = new Map();
            await this.read('', all);
            this.all = all;
            this.reloadedAt = now;
        } else {
            const since = this.newest && new Date(Date.parse(this.newest) - OVERLAP_MS);
            await this.read(since && since.toISOString(), this.all);
        }
    }

    /** Those whose name or title has the text, in an order. */
    chosen(text, order) {
        const compare = ORDERS[order][1];
        return [...this.all.values()]
            .filter(set => !text || set.name.includes(text) || set.title.toLowerCase().includes(text))
            .sort((a, b) => compare(a, b) || byName(a, b));
    }
}

/** In a row: what is wrong, or since when all is well. */
function harvestLine(report) {
    const troubles = harvestTroubles(report);
    return troubles.length ? spaced(troubles)
        : [`${report.kind}, complete as of `, time(report.complete_as_of)];
}

function harvestText(report) {
    const { added, changed, deleted, held_back: held, left_out: left } = report;
    return [`${report.source} (${report.kind})`,
        report.not_complete && `not known to be complete: ${report.not_complete}`,
        `complete as of ${report.complete_as_of ? clock(report.complete_as_of) : 'never'}`,
        `last look ${clock(report.last_look)}`,
        `${added} added, ${changed} changed, ${deleted} deleted, ${held} held back, ${left} left out`,
        report.left_out_example].filter(one => one).join('\n');
}

/** The elements of one row, which stay while the set is in sight. */
class Row {
    constructor(set) {
        this.name = make('span', { class: 'name' }, set.name);
        this.title = make('span', { class: 'muted title' });
        this.spark = sparkline(Array(60).fill(0));
        this.hour = make('span', { class: 'figure' });
        this.when = make('span', { role: 'cell', class: 'when' });
        this.last = make('span', { role: 'cell', class: 'last' });
        this.harvest = make('span', { class: 'muted from' });
        this.link = make('a', { href: `#/sets/${set.name}` }, this.name,
            make('span', { class: 'below' }, this.title, this.harvest));
        this.element = make('div', { role: 'row', class: 'set' },
            make('span', { role: 'cell', class: 'what' }, this.link),
            make('span', { role: 'cell', class: 'rate' }, this.spark, this.hour),
            this.when, this.last);
    }

    update(set, index, height) {
        this.element.style.top = `${index * height}px`;
        this.element.setAttribute('aria-rowindex', index + 2);
        this.title.textContent = set.title;
        fill(this.harvest, set.harvest && harvestLine(set.harvest));
        this.link.title = set.harvest ? harvestText(set.harvest) : '';
        this.hour.textContent = set.hour ? `${shortNumber(set.hour)} / h` : '–';
        this.element.classList.toggle('still', !set.hour);
        if (this.rate !== set.rate)
            redrawSparkline(this.spark, set.rate ?? Array(60).fill(0));
        this.rate = set.rate;
        fill(this.when, set.last ? time(set.datetime) : 'no change yet');
        this.last.textContent = `${shortNumber(set.last)}`;
        this.last.title = `${number(set.last)} entries`;
    }
}

/** A list of any length, of which only the rows in the window exist. */
class SetList {
    constructor() {
        this.rows = new Map();
        this.sets = [];
        this.body = make('div', { role: 'rowgroup', class: 'rows' });
        this.element = make('div', { role: 'table', class: 'sets', 'aria-label': 'Sets' },
            make('div', { role: 'rowgroup' }, make('div', { role: 'row', class: 'heads' },
                ['Set', 'Last hour', 'Last change', 'Entries'].map(head =>
                    make('span', { role: 'columnheader' }, head)))),
            this.body);
        this.body.addEventListener('keydown', event => this.onKey(event));
    }

    /** True while a reordering would take away what the user is about to choose. */
    isInUse() {
        return this.body.contains(document.activeElement) || this.body.matches(':hover');
    }

    show(sets) {
        this.sets = sets;
        this.indexes = new Map(sets.map((set, i) => [set.name, i]));
        this.element.setAttribute('aria-rowcount', sets.length + 1);
        this.draw();
    }

    draw() {
        const height = matchMedia('(max-width: 700px)').matches ? 76 : 52;
        const top = -this.body.getBoundingClientRect().top;
        const first = Math.max(0, Math.floor(top / height) - MARGIN);
        const end = Math.min(this.sets.length, Math.ceil((top + innerHeight) / height) + MARGIN);
        const wanted = new Map();
        this.height = height;
        this.body.style.height = `${this.sets.length * height}px`;
        for (let i = first; i < end; i++)
            wanted.set(this.sets[i].name, i);
        for (const [name, row] of this.rows) {
            if (wanted.has(name) || row.element.contains(document.activeElement)
                && this.indexes.has(name))
                continue;
            row.element.remove();
            this.rows.delete(name);
        }
        for (const [name, i] of wanted) {
            let row = this.rows.get(name);
            if (!row) {
                row = new Row(this.sets[i]);
                this.rows.set(name, row);
                this.place(row, i);
            }
            row.update(this.sets[i], i, height);
        }
    }

    /** In the order of the list, which is that of the keyboard. */
    place(row, index) {
        row.index = index;
        const next = [...this.rows.values()].filter(one => one !== row && one.index > index
            && one.element.isConnected).sort((a, b) => a.index - b.index)[0];
        this.body.insertBefore(row.element, next?.element ?? null);
    }

    /** Puts all rows into their order again, after the order has changed. */
    reorder() {
        for (const [name, row] of this.rows)
            row.index = this.indexes.get(name) ?? Infinity;
        const rows = [...this.rows.values()].sort((a, b) => a.index - b.index);
        rows.forEach((row, i) => {
            if (this.body.children[i] !== row.element)
                this.body.insertBefore(row.element, this.body.children[i] ?? null);
        });
    }

    onKey(event) {
        const at = this.indexes.get(event.target.closest('.set')?.querySelector('.name').textContent);
        const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity,
            End: Infinity };
        if (at === undefined || !(event.key in steps))
            return;
        event.preventDefault();
        const to = Math.min(this.sets.length - 1, Math.max(0, at + steps[event.key]));
        this.focus(to);
    }

    focus(index) {
        const top = this.body.getBoundingClientRect().top + scrollY + index * this.height;
        if (top < scrollY + 80 || top + this.height > scrollY + innerHeight)
            scrollTo(0, top - innerHeight / 2);
        this.draw();
        this.rows.get(this.sets[index].name)?.link.focus({ preventScroll: true });
    }
}

function showSets(main, { signal, every }) {
    const list = new SetList(), sets = new Sets(signal);
    const filter = make('input', { type: 'search', placeholder: 'Part of a name or title' });
    const order = choice(Object.entries(ORDERS).map(([key, [text]]) => [key, text]), 'recent', {});
    const count = make('span', { class: 'muted', role: 'status' });
    const empty = make('p', { class: 'muted', hidden: true });
    const draw = isForced => {
        if (isForced || !list.isInUse() || sets.all.size !== list.known) {
            list.show(sets.chosen(filter.value.toLowerCase(), order.value));
            list.reorder();
        } else { // only the figures
            list.show(list.sets.map(set => sets.all.get(set.name) ?? set));
        }
        list.known = sets.all.size;
        count.textContent = list.sets.length === sets.all.size ? number(sets.all.size)
            : `${number(list.sets.length)} of ${number(sets.all.size)}`;
        empty.hidden = list.sets.length > 0;
        empty.textContent = sets.all.size ? 'No set has this in its name or title.'
            : 'No set yet: a set begins with its first change.';
    };
    filter.addEventListener('input', () => draw(true));
    order.addEventListener('change', () => draw(true));
    addEventListener('scroll', () => list.draw(), { signal, passive: true });
    addEventListener('resize', () => list.draw(), { signal });
    document.title = 'Sets – Tidings';
    fill(main,
        headline('console', 'Sets ', count),
        make('div', { class: 'toolbar' }, labelled('Filter', filter), labelled('Order', order),
            token.admin || token.manage?.length ? make('a', { class: 'button', href: '#/new' }, 'New set') : ''),
        list.element, empty,
        commands([curl('sets', {}, token),
            `tidings publish ${quote(new URL('sets/NAME', root).href)} --change created http://example.com/a`]));
    return every(REFRESH_MS, async () => {
        await sets.refresh();
        draw(false);
    });
}

/* The broker */

async function readHealth(signal) {
    const answer = await fetch(new URL('readyz', root), { signal, cache: 'no-store' });
    if (answer.ok) {
        const [, ...warnings] = (await answer.text()).trim().split('\n');
        return { isReady: true, reasons: warnings };
    }
    const problem = await answer.json().catch(() => ({}));
    return { isReady: false, reasons: problem.reasons ?? [problem.detail ?? 'not ready'] };
}

function healthSection({ isReady, reasons }) {
    return section('Health',
        make('p', {}, isReady ? badge('ready', reasons.length ? 'warning' : 'good')
            : badge('not ready', 'bad'), isReady && !reasons.length ? ' The broker takes posts.' : ''),
        reasons.length > 0 && make('ul', {}, reasons.map(reason => make('li', {}, reason))));
}

function diskSection(disk) {
    const used = disk.total ? (disk.total - disk.free) / disk.total : 0;
    return section('Disk of the data directory',
        make('p', {}, `${bytes(disk.free)} of ${bytes(disk.total)} are free.`,
            ' ', badge(`${Math.round(used * 100)} % used`, used > 0.95 ? 'bad' : used > 0.85 ? 'warning' : 'good')),
        make('progress', { max: 1, value: used.toFixed(3), 'aria-label': 'Used part of the disk' }));
}

function directionText(direction, owner) {
    if (!direction)
        return '–';
    const kind = { connected: 'good', connecting: 'warning', waiting: 'bad' }[direction.state];
    const words = direction.why ?? owner;
    const since = direction.since ? [' since ', time(direction.since), words ? ': ' : ''] : [' '];
    return make('span', {}, badge(direction.state, kind), ...since, words);
}

function setsText(out) {
    if (out?.sets == null)
        return '–';
    return number(out.sets)
        + (out.setsBehind ? `, ${number(out.setsBehind)} behind` : '')
        + (out.slowest ? `, most of all ${out.slowest.set}` : '');
}

function bridgesTable(bridges) {
    if (!bridges.length)
        return make('p', { class: 'muted' }, 'No bridge is configured.');
    return table('Bridges', ['Bridge', 'MQTT broker', 'Prefix', 'Out', 'Sets', 'Lag', 'In'], bridges.map(bridge =>
        [bridge.name, bridge.url, bridge.prefix, directionText(bridge.out, bridge.owner), setsText(bridge.out),
            bridge.out?.lag != null ? number(bridge.out.lag) : '–', directionText(bridge.in, bridge.owner)]), [5]);
}

function relaysTable(relays) {
    if (!relays.length)
        return make('p', { class: 'muted' }, 'No relay.');
    return table('Relays', ['Relay', 'Topic', 'Documents', 'Last one', 'Subscriptions'],
        relays.map(relay => [relay.name, relay.topic, number(relay.documents),
            time(relay.lastDocument), number(relay.subscriptions)]), [2, 4]);
}

/** A broker that is cut off does not know how the others are now. */
function memberState({ state, why, reads_only: readsOnly, name }, cluster) {
    const now = cluster.state !== 'cut-off' ? state : name === cluster.name ? 'cut-off' : 'unknown';
    const kind = { runs: 'good', behind: 'warning', unknown: '' }[now] ?? 'bad';
    return make('span', {}, badge(now.replace('-', ' '), kind), readsOnly ? ' reads only' : '',
        why && now === state ? `: ${why}` : '');
}

function clockText(seconds) {
    if (seconds == null)
        return '–';
    const text = `${seconds < 0 ? '−' : '+'}${Math.abs(seconds).toFixed(3)} s`;
    return Math.abs(seconds) > 1 ? badge(text, 'warning') : text; // as the alert
}

function clusterSection(cluster) {
    const { name, state, since, why, record, brokers = [], seen, last, warnings = [] } = cluster;
    return section('Cluster',
        make('p', {}, `This broker, ${name}, is `, badge(state.replace('-', ' '), why ? 'bad' : 'good'), ' since ',
            time(since), why ? `: ${why}` : '', `. It has record ${number(record)}.`),
        warnings.length > 0 && make('ul', {}, warnings.map(text => make('li', {}, text))),
        table('Brokers', ['Broker', 'State', 'Record', 'Behind', 'Last heard', 'Clock'], brokers.map(one =>
            [one.name, memberState(one, cluster), number(one.record), number(one.behind), time(one.heard),
                clockText(one.clock)]), [2, 3, 5]),
        seen && make('p', { class: 'muted' }, `The journal ended with record ${number(last)}, `, time(seen), '.'));
}

/** Readers, and brokers that are cut off, refuse requests of relays. */
async function relaysOrReason(signal) {
    try {
        return relaysTable((await askJson('relays', { signal })).relays);
    } catch (error) {
        if (!(error instanceof Refusal))
            throw error;
        return make('p', { class: 'muted' }, error.message);
    }
}

function showBroker(main, { signal, every }) {
    const box = make('div', { class: 'broker' });
    document.title = 'Broker – Tidings';
    fill(main, headline('watching', 'Broker'), box,
        commands([curl('readyz'), curl('status', {}, token), curl('cluster', {}, token),
            'tidingsd cluster status --cluster CONNINFO', curl('bridges', {}, token),
            curl('relays', {}, token), curl('metrics', {}, token)]));
    return every(5000, async () => {
        const health = await readHealth(signal);
        if (!mayDo(token, 'observe')) {
            fill(box, healthSection(health), make('p', { class: 'muted' },
                'Rates, cluster, disk, bridges and relays need a token with the right to observe.'));
            return;
        }
        const [relays, status, cluster, { bridges }] = await Promise.all([relaysOrReason(signal),
            ...['status', 'cluster', 'bridges'].map(path => askJson(path, { signal }))]);
        fill(box, healthSection(health), cluster.cluster && clusterSection(cluster),
            section('Last hour', make('div', { class: 'charts' },
                chart('Entries', status.entries, 'rate', status.since),
                chart('Lag of readers', status.lags, 'lag', status.since))),
            diskSection(status.disk),
            section('Bridges', bridgesTable(bridges)), section('Relays', relays),
            facts([['Version', status.version], ['Sets', number(status.sets)],
                ['As of', `${clock(new Date().toISOString())} UTC`]]));
    });
}

/* Signing in */

async function readToken() {
    token = await askJson('tokens/self');
    drawUser();
}

async function signIn(text) {
    try {
        await ask('session', { method: 'POST', headers: { Authorization: `Bearer ${text}` } });
    } catch (error) {
        throw error.status === 401 ? new Error('The broker does not know this token, or it has ended.')
            : error;
    }
    await readToken();
    if (token.name === 'everyone')
        throw new Error('The browser did not keep the cookie: use https.');
    location.hash = '#/';
}

async function signOut() {
    forgetProvider();
    await ask('session', { method: 'DELETE' });
    tabs.postMessage('signed out');
    await showSignedOut();
}

async function showSignedOut() {
    await readToken();
    announce('You are signed out.');
    navigate();
}

/** A browser has one session: signing out in one tab does so in all. */
const tabs = new BroadcastChannel(`tidings ${root.pathname}`);
tabs.onmessage = () => {
    forgetProvider();
    showSignedOut().catch(showTrouble);
};

function showSignIn(main, reason) {
    const input = make('input', {
        type: 'password', required: true, autocomplete: 'current-password', spellcheck: 'false',
        placeholder: 'td_…',
    });
    const button = make('button', { class: 'primary' }, 'Sign in');
    document.title = 'Sign in – Tidings';
    fill(main, headline('tokens', 'Sign in'),
        reason && make('p', { class: 'lead' }, reason),
        make('form', {
            class: 'card narrow', onsubmit: event => {
                event.preventDefault();
                const text = input.value.trim();
                input.value = '';
                perform(button, () => signIn(text), 'You are signed in.');
            },
        }, provider && workButton(`Sign in with ${new URL(provider.issuer).host}`, { class: 'primary' }, leaveForProvider, ''),
        provider && make('p', { class: 'muted' }, 'Or with a token of the broker:'),
        labelled('Token', input),
        make('p', { class: 'muted' }, 'The browser keeps a cookie instead of the token. It ends after'
            + ' twelve hours, with the token, or when you sign out.'), button),
        commands(['tidingsd token add NAME --subscribe \'*\'']));
}

function drawUser() {
    const box = document.getElementById('user');
    document.querySelector('#pages [href="#/tokens"]').hidden = !token.admin;
    if (token.name !== 'everyone') {
        fill(box, make('span', { class: 'who' }, token.name), make('button', {
            type: 'button', class: 'quiet', onclick: event => perform(event.target, signOut, ''),
        }, 'Sign out'));
    } else if (token.manage.includes('*')) {
        fill(box, make('a', { href: '#/tokens', title: 'Everybody who reaches the broker may publish'
            + ' and manage sets.' }, 'open broker'));
    } else {
        fill(box, make('a', { href: '#/sign-in' }, 'Sign in'));
    }
}

/* Pages */

/** Aborted when the user goes to another page. */
let leaving = new AbortController();

/**
 * Does work now and again after pauses, until the signal; not while the page is hidden. Returns a
 * promise of the first time. With `isLater` the first time comes after a pause.
 */
function repeater(signal) {
    return async function every(ms, work, isLater = false) {
        let isFirst = true;
        const turn = async () => {
            try {
                if (!document.hidden)
                    await work();
                document.getElementById('connection').hidden = true;
            } catch (error) {
                if (signal.aborted)
                    return;
                if (isFirst && !isLater)
                    throw error;
                showTrouble(error);
            } finally {
                isFirst = false;
            }
            if (!signal.aborted)
                setTimeout(() => !signal.aborted && turn(), ms);
        };
        if (isLater)
            setTimeout(() => !signal.aborted && turn(), ms);
        else
            await turn();
    };
}

/** Says that what is shown grows old. */
function showTrouble(error) {
    const line = document.getElementById('connection');
    line.hidden = false;
    if (error.status === 401 && token.name !== 'everyone') {
        line.textContent = 'Your session has ended: sign in again with a token.';
        readToken().catch(() => {});
    } else if (error.status !== 401) {
        line.textContent = error instanceof Refusal ? error.message
            : 'The broker does not answer. What you see may be old.';
    }
}

function showRefusal(main, error) {
    if (error.status === 401)
        showSignIn(main, 'The broker shows this to holders of a token.');
    else
        fill(main, make('h1', { tabindex: -1 }, error.status === 404 ? 'Not found' : 'Not possible'),
            make('p', { class: 'problem' }, error.message));
}

async function navigate() {
    leaving.abort();
    leaving = new AbortController();
    const { signal } = leaving;
    const [page, name, view] = location.hash.replace(/^#\/?/, '').split('/').map(decodeURIComponent);
    const main = document.getElementById('main'), context = { signal, every: repeater(signal), token };
    const isNew = navigate.page !== `${page}/${name}`;
    navigate.page = `${page}/${name}`;
    for (const link of document.querySelectorAll('#pages a'))
        link.setAttribute('aria-current',
            link.hash === (['broker', 'tokens'].includes(page) ? `#/${page}` : '#/') ? 'page' : 'false');
    try {
        if (page === 'sets' && name)
            await showSet(main, { ...context, name, view });
        else if (page === 'broker')
            await showBroker(main, context);
        else if (page === 'sign-in')
            showSignIn(main);
        else if (page === 'tokens')
            await (name ? showToken : showTokens)(main, { ...context, name });
        else if (page === 'new')
            showNewSet(main, context);
        else
            await showSets(main, context);
    } catch (error) {
        if (signal.aborted)
            return;
        showRefusal(main, error);
    }
    if (navigate.isLater && isNew) {
        scrollTo(0, 0);
        main.querySelector('h1')?.focus({ preventScroll: true });
    } else if (navigate.isLater) {
        main.querySelector('.views [aria-current]')?.focus();
    }
    navigate.isLater = true;
}

async function start() {
    document.body.classList.add('console');
    fill(document.body,
        make('a', { class: 'skip', href: '#main', onclick: event => {
            event.preventDefault();
            document.querySelector('main h1')?.focus();
        } }, 'Skip to the content'),
        make('header', { class: 'top' },
            make('a', { class: 'brand', href: '#/' }, 'Tidings'),
            make('nav', { id: 'pages', 'aria-label': 'Pages' },
                make('a', { href: '#/' }, 'Sets'), make('a', { href: '#/broker' }, 'Broker'),
                make('a', { href: '#/tokens', hidden: true }, 'Tokens'),
                make('a', { href: 'doc/' }, 'Documentation')),
            make('div', { id: 'user' })),
        make('p', { id: 'connection', class: 'trouble', role: 'status', hidden: true }),
        make('main', { id: 'main' }, make('p', { class: 'muted' }, 'Reading …')),
        make('p', { id: 'announcement', role: 'status', 'aria-live': 'polite' }));
    addEventListener('hashchange', navigate);
    setInterval(() => !document.hidden && renewTimes(document), 1000);
    const isBack = await returnFromProvider().catch(error => error);
    await readToken().catch(showTrouble);
    await navigate();
    if (isBack instanceof Error)
        showSignIn(document.getElementById('main'), isBack.message);
    else if (isBack)
        announce('You are signed in.', 'good');
}

start();
