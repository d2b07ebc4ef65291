/**
 * console-set.js - the page of a set in the console: its newest changes as they come, its Change
 * Lists, settings, and a form that posts a change. Its readers are in console-readers.js, and its
 * harvester in console-harvest.js.
 */

import { harvestSection, harvestView } from './console-harvest.js';
import {
    announce, ask, askJson, badge, bytes, choice, clock, commands, curl, duration, facts, fill, headline, labelled,
    make, mayDo, number, ownUrl, perform, quote, renewTimes, section, setPath, setUrl, table, time, workButton,
} from './console-parts.js';
import { readersView } from './console-readers.js';
import { removalSection, settingsForm } from './console-settings.js';
import { follow } from './tidings.js';

/* Every view is a function of the page that returns what to show. `page`: name, token, set (its
 * description), signal (aborted when the user leaves), every(ms, work); a view may set renew(), which
 * is called when `set` is read again. */

/* Live */

/** Changes that the page keeps, and those that it shows. */
const KEPT = 500;
const SHOWN = 200;

/** How often the page draws, in milliseconds, however many changes come. */
const DRAW_MS = 250;

/** How many changes from before the page starts with. */
const EARLIER = 50;

/** A URI, as a link if it leads to the web. */
function webLink(uri) {
    return /^https?:\/\//i.test(uri)
        ? make('a', { href: uri, rel: 'noopener noreferrer', target: '_blank' }, uri) : uri;
}

function describeEntry(entry) {
    const rows = Object.entries(entry).map(([name, value]) => [name,
        name === 'loc' ? webLink(value)
            : typeof value === 'object' ? JSON.stringify(value, null, 1) : String(value)]);
    return facts(rows);
}

function entryLine(entry) {
    const item = make('details', { class: 'entry' },
        make('summary', {},
            make('span', { class: 'seq' }, number(entry.seq)),
            make('span', { class: `change ${entry.change}` }, entry.change),
            make('span', { class: 'loc' },
                ...entry.title ? [make('strong', {}, entry.title), ' '] : [], entry.loc),
            make('span', { class: 'when' }, clock(entry.datetime).slice(11))));
    item.addEventListener('toggle', () => {
        if (item.open && item.childElementCount === 1)
            item.append(describeEntry(entry));
    });
    return make('li', {}, item);
}

/** A list that draws its newest entries four times a second at most. */
class Tail {
    constructor() {
        this.kept = []; // the newest last
        this.lines = new Map(); // by seq, as shown
        this.total = 0;
        this.pausedAt = 0; // what `total` was; 0: not paused
        this.text = '';
        this.change = '';
        this.list = make('ol', { class: 'tail', 'aria-label': 'Newest changes' });
        this.counter = make('span', { class: 'muted', role: 'status' });
    }

    add(entries) {
        this.total += entries.length;
        this.kept.push(...entries.slice(-KEPT));
        if (this.kept.length > KEPT)
            this.kept.splice(0, this.kept.length - KEPT);
        this.drawSoon();
    }

    drawSoon() {
        this.timer ??= setTimeout(() => {
            this.timer = undefined;
            this.draw();
        }, DRAW_MS);
    }

    passes(entry) {
        return (!this.change || entry.change === this.change)
            && (!this.text || entry.loc.toLowerCase().includes(this.text)
                || entry.title?.toLowerCase().includes(this.text)
                || (entry.tags ?? []).some(tag => tag.toLowerCase().includes(this.text)));
    }

    draw() {
        const waiting = this.total - this.pausedAt;
        this.counter.textContent = this.pausedAt
            ? `Paused. ${number(waiting)} new.` : `${number(this.total)} received`;
        if (!this.pausedAt)
            this.visible = this.kept;
        const shown = (this.visible ?? []).filter(entry => this.passes(entry)).slice(-SHOWN);
        this.place(shown.reverse());
    }

    /** Keeps the lines that stay, so that an open one stays open and keeps the focus. */
    place(entries) {
        const lines = new Map();
        for (const entry of entries)
            lines.set(entry.seq, this.lines.get(entry.seq) ?? entryLine(entry));
        for (const [seq, line] of this.lines)
            if (!lines.has(seq))
                line.remove();
        let next = this.list.firstChild;
        for (const line of lines.values()) {
            if (line === next)
                next = next.nextSibling;
            else
                this.list.insertBefore(line, next);
        }
        this.lines = lines;
        this.list.classList.toggle('empty', !lines.size);
    }

    pause(isPaused) {
        this.pausedAt = isPaused ? this.total || 0.5 : 0;
        if (isPaused)
            this.visible = [...this.kept];
        this.draw();
    }
}

/** The position that leaves EARLIER changes before the newest one. */
function startPosition(page) {
    const { last, epoch, earliest } = page.set;
    const first = Number(earliest.slice(earliest.lastIndexOf('-') + 1));
    return `${epoch}-${Math.max(first, last - EARLIER)}`;
}

async function runTail(page, tail, showState) {
    // A set that gets changes all the time is live, too, once nothing older is missing.
    const isBehind = message => message.last < page.set.last;
    try {
        const options = {
            position: startPosition(page), signal: page.signal,
            onState: ({ state, error }) =>
                state !== 'catching up' && showState(state, error?.message),
            onGone: error => error.earliest,
        };
        for await (const message of follow.messages(setUrl(page.name), options)) {
            tail.add(message.changes);
            showState(isBehind(message) ? 'catching up' : 'live');
        }
    } catch (error) {
        if (!page.signal.aborted)
            showState('ended', error.message);
    }
}

function liveView(page) {
    const tail = new Tail();
    const state = make('span', { class: 'badge', role: 'status' }, 'connecting');
    const pause = make('button', {
        type: 'button', 'aria-pressed': 'false',
        onclick: () => {
            const isPaused = pause.getAttribute('aria-pressed') === 'false';
            pause.setAttribute('aria-pressed', isPaused);
            tail.pause(isPaused);
        },
    }, 'Pause');
    const filter = make('input', {
        type: 'search', placeholder: 'Part of the URL or of a tag',
        oninput: () => { tail.text = filter.value.toLowerCase(); tail.draw(); },
    });
    const kind = choice([['', 'All'], ['created', 'Created'], ['updated', 'Updated'],
        ['deleted', 'Deleted']], '', { onchange: () => { tail.change = kind.value; tail.draw(); } });
    runTail(page, tail, (word, why) => {
        state.textContent = word;
        state.className = `badge ${{ live: 'good', stale: 'warning', ended: 'bad' }[word] ?? ''}`;
        state.title = why ?? '';
    });
    const url = setUrl(page.name);
    return [
        make('div', { class: 'toolbar' }, labelled('Filter', filter), labelled('Change', kind), pause,
            make('p', { class: 'states' }, state, ' ', tail.counter)),
        tail.list,
        commands([
            `tidings follow ${quote(url)}`,
            curl(setPath(page.name, '/changes?after=0'), {}, page.token),
            `${curl(setPath(page.name, '/stream'), {}, page.token)} -N -H 'Accept: text/event-stream'`,
        ]),
    ];
}

/* History */

/** The lists that the page shows: the newest. The archive has all of them. */
const LISTS = 500;

/** The lists of a document that names some: their URLs and times. */
function readLists(xml) {
    const parsed = new DOMParser().parseFromString(xml, 'application/xml');
    return [...parsed.querySelectorAll('url, sitemap')].map(one => {
        const md = one.getElementsByTagNameNS('http://www.openarchives.org/rs/terms/', 'md')[0];
        const loc = one.querySelector('loc')?.textContent ?? '';
        return {
            loc, number: Number(loc.match(/\/(\d+)\.xml$/)?.[1]),
            from: md?.getAttribute('from'), until: md?.getAttribute('until'),
        };
    });
}

async function askLists(page, path) {
    const accept = 'application/xml';
    const answer = await ask(setPath(page.name, path), { signal: page.signal, accept });
    return readLists(await answer.text());
}

/** The closed lists, the newest first: those of the index, and older ones of the archive. */
async function closedLists(page) {
    if (!page.set.lists.closed)
        return [];
    const indexed = new Set((await askLists(page, '/changelist.xml')).map(list => list.number));
    let lists = await askLists(page, '/changelist-archive.xml');
    if (lists.length && !lists[0].loc.includes('/changes/')) { // an index of parts
        const parts = lists;
        lists = [];
        while (parts.length && lists.length < LISTS) {
            const { loc } = parts.pop();
            lists.unshift(...await askLists(page, loc.slice(loc.indexOf('/changelist-archive/'))));
        }
    }
    return lists.slice(-LISTS).reverse().map(list =>
        ({ ...list, state: indexed.has(list.number) ? 'closed' : 'archived' }));
}

function openList(page, closed) {
    const { open, entries } = page.set.lists;
    return {
        number: open, state: 'open', entries, until: page.set.datetime,
        from: closed[0]?.until ?? page.set.created,
        loc: `/sets/${page.name}/changes/${String(open).padStart(12, '0')}.xml`,
    };
}

/* As it was then */

/** How many resources of a past state the page shows at a time. */
const LISTED = 200;

/** The resources of the set at a time. */
class PastState {
    constructor(page) {
        this.page = page;
        this.line = make('p', { role: 'status' });
        this.list = make('div', {});
        this.more = make('button', { type: 'button', class: 'quiet', hidden: true }, 'More');
        this.more.addEventListener('click', () => this.draw(this.state));
        this.element = make('div', { class: 'past' }, this.line, this.more, this.list);
    }

    show(time) {
        const next = setPath(this.page.name, `/resources?as-of=${encodeURIComponent(time)}`);
        this.state = { time, next, shown: [], waiting: [] };
        this.more.hidden = true;
        fill(this.list);
        this.say('Reading …', 'muted');
        this.element.scrollIntoView({ block: 'nearest' });
        return this.draw(this.state);
    }

    say(text, kind = '') {
        this.line.className = kind;
        this.line.textContent = text;
    }

    /** Shows some more, unless another time was chosen meanwhile. A page of the broker may be empty. */
    async draw(state) {
        if (state.isBusy)
            return;
        state.isBusy = true;
        try {
            while (state.waiting.length < LISTED && state.next) {
                const { resources, next } = await askJson(state.next, { signal: this.page.signal });
                state.waiting = state.waiting.concat(resources);
                state.next = next && ownUrl(next);
            }
        } catch (error) {
            if (state === this.state && !this.page.signal.aborted)
                this.say(error.message, 'problem');
            return;
        }
        state.isBusy = false;
        if (state !== this.state)
            return;
        state.shown.push(...state.waiting.splice(0, LISTED));
        this.more.hidden = !state.waiting.length && !state.next;
        this.say(`${this.more.hidden ? '' : 'The first '}${number(state.shown.length)} resources`
            + ` at ${clock(state.time)} UTC`);
        fill(this.list, state.shown.length && table('Resources', ['Resource', 'Modified (UTC)', 'Bytes', 'Type'],
            state.shown.map(({ loc, lastmod, length, type }) => [
                webLink(loc), lastmod ? clock(lastmod) : '–', length === undefined ? '–' : number(length), type ?? '–',
            ]), [2]));
    }
}

/** A form that asks for a time. Its second stands for `time`, the last change, which has microseconds. */
function timeForm(past, time) {
    const field = make('input', { type: 'datetime-local', step: 1, required: true, value: time.slice(0, 19) });
    const form = make('form', { class: 'inline reads' }, labelled('Time (UTC)', field),
        make('button', { type: 'submit', class: 'quiet' }, 'Show the set as it was then'));
    form.addEventListener('submit', event => {
        event.preventDefault();
        past.show(time.startsWith(field.value) ? time : `${field.value}Z`);
    });
    return form;
}

/** A control below the time line that chooses a point on it. */
function timeSlider(line, lists, past) {
    const slider = make('input', { type: 'range', min: 0, max: 1000, value: 1000 });
    const output = make('output', { class: 'muted' });
    // The time at the place: those of a list are spread over its part of the line.
    const chosen = () => {
        const { left, width } = line.getBoundingClientRect();
        const x = left + width * slider.value / 1000;
        const i = [...line.children].findIndex(span => span.getBoundingClientRect().right >= x - 1);
        const list = lists.at(i), span = line.children[i < 0 ? lists.length - 1 : i].getBoundingClientRect();
        const part = Math.max(0, (x - span.left) / span.width);
        const from = Date.parse(list.from), until = Date.parse(list.until);
        // Both ends have microseconds.
        return part < .01 ? list.from : part > .99 ? list.until
            : new Date(from + part * (until - from)).toISOString();
    };
    slider.addEventListener('input', () => { output.textContent = `${clock(chosen())} UTC`; });
    slider.addEventListener('change', () => past.show(chosen()));
    return make('div', { class: 'point' }, labelled('The set as it was at a point on the time line', slider), output);
}

/** A picture of the lists in their order: each as wide as the time that it covers. */
function timeLine(lists) {
    const spans = lists.map(list => Math.max(1, Date.parse(list.until) - Date.parse(list.from)));
    const widths = spans.map(span => Math.max(1, Math.sqrt(span)));
    return make('div', { class: 'timeline', role: 'group', 'aria-label': 'Time line of Change Lists' },
        lists.map((list, i) => {
            const link = make('a', {
                href: ownUrl(list.loc), class: `span ${list.state}`, target: '_blank',
                rel: 'noopener', title: `List ${list.number}, ${list.state}: from ${clock(list.from)}`
                    + ` until ${clock(list.until)}`,
                'aria-label': `List ${list.number}, ${list.state}`,
            });
            link.style.flexGrow = widths[i];
            return link;
        }));
}

function pastButton(past, list) {
    const button = make('button', {
        type: 'button', class: 'quiet', 'aria-label': `As it was then, at the end of list ${list.number}`,
    }, 'As it was then');
    button.addEventListener('click', () => past.show(list.until));
    return button;
}

function historyView(page) {
    const past = new PastState(page);
    const box = make('div', {}, make('p', { class: 'muted' }, 'Reading …'));
    closedLists(page).then(closed => {
        const lists = [openList(page, closed), ...closed];
        // The picture has room for so many: each is wide enough for a finger.
        const pictured = lists.slice(0, Math.floor((Math.min(innerWidth, 1120) - 32) / 26)).reverse();
        const line = timeLine(pictured);
        fill(box, line, timeSlider(line, pictured, past),
            make('p', { class: 'legend' }, badge('open', 'open'), ' ', badge('closed', 'closed'), ' ',
                badge('archived', 'archived'), make('span', { class: 'muted' },
                    ' Wider means a longer time. The newest is on the right.')),
            table('Change Lists', ['List', 'State', 'From (UTC)', 'Until (UTC)', 'Resources'],
                lists.map(list => [
                    make('a', { href: ownUrl(list.loc), target: '_blank', rel: 'noopener' },
                        number(list.number)),
                    badge(list.state, list.state), clock(list.from), clock(list.until),
                    pastButton(past, list),
                ]), [0]),
            page.set.lists.closed > LISTS && make('p', {}, make('a',
                { href: ownUrl(`/sets/${page.name}/changelist-archive.xml`) }, 'All closed lists')));
    }, error => fill(box, make('p', { class: 'problem' }, error.message)));
    return [
        section('Change Lists', box),
        section('As it was then', timeForm(past, page.set.datetime ?? page.set.created), past.element),
        documentsOf(page),
        commands([
            curl(setPath(page.name, `/resources?as-of=${page.set.datetime ?? page.set.created}`), {}, page.token),
            `tidings verify ${quote(setUrl(page.name))}`,
            curl(setPath(page.name, '/changelist.xml'), {}, page.token),
            ...mayDo(page.token, 'manage', page.name)
                ? [curl(setPath(page.name, '/rotate'), { method: 'POST' }, page.token),
                    curl(setPath(page.name, '/resourcelist'), { method: 'POST' }, page.token)] : [],
        ]),
    ];
}

const DOCUMENTS = {
    'capabilitylist': 'Capability List',
    'resourcelist': 'Resource List: all resources of now',
    'resourcelist-archive': 'Resource List Archive',
    'resourcedump': 'Resource Dump: all resources with their content',
    'resourcedump-archive': 'Resource Dump Archive',
    'changelist': 'Change List, or their index',
    'changelist-archive': 'Change List Archive',
    'changedump': 'Change Dump',
    'changedump-archive': 'Change Dump Archive',
};

function documentsOf(page) {
    const links = page.set.links.filter(link => DOCUMENTS[link.rel]);
    return section('Resources and documents',
        make('ul', { class: 'links' }, links.map(link => make('li', {},
            make('a', { href: ownUrl(link.href), target: '_blank', rel: 'noopener' },
                DOCUMENTS[link.rel])))),
        mayDo(page.token, 'manage', page.name) && make('div', { class: 'buttons' },
            actionButton(page, 'Close the open list', '/rotate', 'The open list is closed.'),
            actionButton(page, 'Build a Resource List', '/resourcelist',
                'A Resource List is being built.')));
}

function actionButton(page, text, path, done) {
    return workButton(text, {}, async () => {
        await ask(setPath(page.name, path), { method: 'POST' });
        await page.reload();
    }, done);
}

/* Settings */

function settingText(name, value) {
    if (/Bytes$/.test(name) && value >= 1000)
        return `${value} (${bytes(value)})`;
    if (/(Age|Every)$/.test(name) && value)
        return `${value} s (${duration(value)})`;
    return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

function settingsView(page) {
    const { settings, lists, epoch, position, digest, created } = page.set;
    const isManaged = mayDo(page.token, 'manage', page.name);
    return [
        section('Settings', table('Settings', ['Setting', 'Value'],
            Object.entries(settings).map(([name, value]) => [name, settingText(name, value)]))),
        isManaged && section('Change settings', settingsForm(page)),
        section('Log', table('Log', ['Fact', 'Value'], [
            ['Position', position], ['Epoch', epoch], ['Digest', digest],
            ['Created', `${clock(created)} UTC`],
            ['Entries of the open list', number(lists.entries)],
            ['Files of closed lists', bytes(lists.fileBytes)],
        ])),
        commands([`tidings get ${quote(setUrl(page.name))}`, curl(setPath(page.name), {}, page.token)]),
        isManaged && removalSection(page),
    ];
}

/* Post */

function postView(page) {
    const loc = make('input', {
        type: 'url', required: true, placeholder: 'http://example.com/page', autocomplete: 'off',
    });
    const change = choice([['created', 'Created'], ['updated', 'Updated'], ['deleted', 'Deleted']],
        'updated', {});
    const type = make('input', { type: 'text', placeholder: 'text/html', autocomplete: 'off' });
    const tags = make('input', { type: 'text', placeholder: 'words with spaces between' });
    const button = make('button', { class: 'primary' }, 'Post the change');
    const lines = make('div', {}), result = make('p', {});
    const entry = () => ({
        loc: loc.value || 'http://example.com/page', change: change.value,
        ...type.value && { type: type.value },
        ...tags.value.trim() && { tags: tags.value.trim().split(/\s+/) },
    });
    const path = setPath(page.name, '/changes');
    const request = () =>
        ({ method: 'POST', body: JSON.stringify(entry()), type: 'application/json' });
    const drawLines = () => fill(lines, commands([
        `tidings publish ${quote(setUrl(page.name))} --change ${change.value} ${quote(entry().loc)}`,
        curl(path, request(), page.token),
    ]));
    for (const field of [loc, change, type, tags])
        field.addEventListener('input', drawLines);
    drawLines();
    return [section('Post a change', make('form', {
        onsubmit: event => {
            event.preventDefault();
            perform(button, async () => {
                const posted = await askJson(path, request());
                result.textContent = `Posted as number ${number(posted.last)}, position`
                    + ` ${posted.position}.`;
                await page.reload();
                return result.textContent;
            });
        },
    }, labelled('URL of the resource', loc), labelled('What happened', change),
    labelled('Media type (optional)', type), labelled('Tags (optional)', tags), button, result), lines)];
}

/* The page */

/** Title, what shows it, its page of the documentation, and the rights of which it needs one. */
const VIEWS = {
    live: ['Live', liveView, 'following'],
    history: ['History', historyView, 'documents'],
    readers: ['Readers', readersView, 'hub'],
    harvest: ['Harvest', harvestView, 'harvesting', ['publish', 'manage']],
    settings: ['Settings', settingsView, 'sets'],
    post: ['Post', postView, 'publishing', ['publish']],
};

function drawFacts(box, set) {
    const readers = Object.values(set.subscribers).reduce((a, b) => a + b, 0);
    fill(box, facts([
        ['Entries', number(set.last)],
        ['Last change', set.last ? time(set.datetime) : 'none yet'],
        ['Closed lists', number(set.lists.closed)],
        ['Readers', number(readers)],
        set.content && ['Content', `${number(set.content.kept)} files, ${bytes(set.content.bytes)}`],
    ]), set.harvest && harvestSection(set.harvest));
}

/** Shows a set in `main` until the signal. */
export async function showSet(main, { name, view, token, signal, every }) {
    const set = await askJson(setPath(name), { signal });
    const factsBox = make('div', {}), viewBox = make('div', { class: 'view' });
    const page = {
        name, token, set, signal, every,
        async reload() {
            page.set = await askJson(setPath(name), { signal });
            drawFacts(factsBox, page.set);
            page.renew?.();
        },
    };
    const views = Object.entries(VIEWS).filter(([, [, , , rights]]) =>
        !rights || rights.some(right => mayDo(token, right, name)));
    const chosen = VIEWS[view] && views.some(([key]) => key === view) ? view : 'live';
    drawFacts(factsBox, set);
    document.title = `${name} – Tidings`;
    fill(main,
        make('nav', { class: 'crumbs', 'aria-label': 'Where you are' },
            make('a', { href: '#/' }, 'Sets'), make('span', { 'aria-hidden': 'true' }, ' / ')),
        headline(VIEWS[chosen][2], name),
        set.title && make('p', { class: 'lead' }, set.title),
        factsBox,
        make('nav', { class: 'views', 'aria-label': 'Views of the set' }, views.map(([key, [title]]) =>
            make('a', {
                href: `#/sets/${name}/${key}`, 'aria-current': key === chosen && 'page',
            }, title))),
        viewBox);
    page.show = () => fill(viewBox, VIEWS[chosen][1](page));
    page.show();
    every(5000, async () => {
        await page.reload();
        renewTimes(main);
    }, true);
    signal.addEventListener('abort', () => announce(''));
}
