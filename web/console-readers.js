/**
 * console-readers.js - the readers of a set in the console: those that are connected, its callbacks
 * with what an operator can do for each, and a form that subscribes one.
 */

import {
    announce, ask, askJson, badge, chart, clock, commandLines, commands, curl, duration, facts, Fields, fill,
    labelled, make, mayDo, number, perform, quote, section, setPath, setUrl, table, time, workButton,
} from './console-parts.js';

/* Connected readers */

const TRANSPORTS = {
    'websocket-json': 'WebSocket, JSON', 'websocket-xml': 'WebSocket, XML',
    'websocket-json-deflate': 'WebSocket, JSON, compressed',
    'websocket-xml-deflate': 'WebSocket, XML, compressed',
    'eventsource': 'Server-sent events', 'eventsource-1.0': 'Server-sent events, HTTP/1.0',
    'eventsource-lines': 'Server-sent events, XML', 'eventsource-lines-1.0': 'Server-sent events, XML, HTTP/1.0',
    'eventsource-many': 'Server-sent events, many sets', 'eventsource-many-1.0': 'Server-sent events, many sets, HTTP/1.0',
    'eventsource-many-lines': 'Server-sent events, many sets, XML',
    'eventsource-many-lines-1.0': 'Server-sent events, many sets, XML, HTTP/1.0',
};

function readersTable(rate) {
    const rows = Object.entries(rate.readers)
        .filter(([, { connected, lag }]) => connected || lag)
        .map(([transport, { connected, lag }]) =>
            [TRANSPORTS[transport] ?? transport, number(connected), number(lag)]);
    if (!rows.length)
        return make('p', { class: 'muted' }, 'Nobody is connected.');
    return table('Readers by transport', ['Transport', 'Connected', 'Largest lag, entries'], rows,
        [1, 2]);
}

/* Redelivery */

/** The number in a position. */
function seqOf(position) {
    return Number(position.slice(position.lastIndexOf('-') + 1));
}

function changes(one, n) {
    const most = one.filter ? 'at most ' : '';
    return `${most}${number(n)} ${n === 1 ? 'change' : 'changes'}`;
}

/** What happens if the subscription goes on behind a position: how many changes come again, or,
 * where it is negative, never. */
function redeliveryText(one, position) {
    const n = seqOf(one.position) - seqOf(position);
    return Number.isNaN(n) ? 'This is no position.'
        : n > 0 ? `Sends ${changes(one, n)} again.`
        : n < 0 ? `Leaves out ${changes(one, -n)}.`
        : 'Sends nothing again: the subscription is here. Choose an earlier position.';
}

function redeliverForm(page, subscription) {
    const { position, callback } = subscription;
    const effect = make('output', { class: 'muted' }, redeliveryText(subscription, position));
    const after = make('input', {
        type: 'text', value: position, required: true, spellcheck: 'false',
        oninput: () => { effect.textContent = redeliveryText(subscription, after.value); },
    });
    const path = setPath(page.name, `/subscriptions/${subscription.id}/redeliver`);
    const button = make('button', {}, 'Redeliver from here');
    return make('form', {
        class: 'inline', onsubmit: async event => {
            event.preventDefault();
            const n = seqOf(position) - seqOf(after.value), text = redeliveryText(subscription, after.value);
            if (!n) {
                announce(text, 'bad');
                return;
            }
            await perform(button, async () => {
                await ask(`${path}?after=${encodeURIComponent(after.value)}`, { method: 'POST' });
                await page.redraw();
            }, `The hub goes on behind ${after.value}.`,
            `${text} The hub goes on behind ${after.value}, for ${callback}.`, n > 0 ? 'Send again' : 'Leave out');
        },
    }, labelled('After position', after), button, effect);
}

/* Attempts */

const KINDS = { delivery: 'delivery', again: 'sent again', test: 'test' };
const OUTCOMES = { delivered: 'good', failed: 'bad', skipped: 'bad', ended: 'warning' };

function rangeOf({ first, last, entries }) {
    return !entries ? 'none' : first === last ? number(first)
        : `${number(first)}–${number(last)}${last - first + 1 === entries ? '' : ` (${number(entries)})`}`;
}

/** A button that makes an attempt, says how it ended, and shows it in the table. */
function attemptButton(page, text, path, label) {
    return workButton(text, { 'aria-label': label }, async button => {
        const { outcome, status, error, ms } = await askJson(path, { method: 'POST' });
        button.dispatchEvent(new CustomEvent('attempt', { bubbles: true }));
        const words = status ? `The callback answered ${status} in ${number(ms)} ms.`
            : `The callback did not answer: ${error}.`;
        if (outcome !== 'delivered')
            throw new Error(words);
        return words;
    });
}

function attemptRow(page, path, isManaged, one) {
    const again = `${path}/attempts?delivery=${encodeURIComponent(one.delivery)}`;
    return [
        time(one.time), KINDS[one.kind], rangeOf(one),
        badge(one.status ? `${one.outcome}: ${one.status}` : one.outcome, OUTCOMES[one.outcome]),
        `${number(one.ms)} ms`,
        make('span', { class: 'answer' }, (one.answer ?? one.error ?? '–') + (one.answerCut ? ' …' : '')),
        one.nextTry && Date.parse(one.nextTry) > Date.now() ? timeToCome(one.nextTry) : '–',
        isManaged && one.entries ? attemptButton(page, 'Send again', again,
            `Send again what came ${clock(one.time)}`) : '',
    ];
}

/** The last attempts, which are read when somebody opens them, and stay open. */
function attemptsPart(page, path, one, isManaged) {
    const box = make('div', {});
    const opened = page.opened ??= new Set();
    const draw = async () => {
        const { attempts, since } = await askJson(`${path}/attempts`, { signal: page.signal });
        fill(box,
            attempts.length ? table('Attempts', ['When', 'Kind', 'Entries', 'Outcome', 'Took', 'Answer',
                'Next try', ''], attempts.map(row => attemptRow(page, path, isManaged, row)), [2, 4]) : '',
            since && make('p', { class: 'muted' }, attempts.length ? '' : 'No attempt yet. ',
                `None is missing since ${clock(since)} UTC.`));
    };
    const drawSoon = () => draw().catch(error => fill(box, make('p', { class: 'problem' }, error.message)));
    const part = make('details', {
        class: 'attempts', open: opened.has(one.id), ontoggle: () => {
            opened[part.open ? 'add' : 'delete'](one.id);
            if (part.open)
                drawSoon();
        },
    }, make('summary', {}, 'Last attempts'), box);
    return { part, drawSoon };
}

/* Callbacks */

function endButton(page, subscription) {
    const path = setPath(page.name, `/subscriptions/${subscription.id}`);
    return workButton('End', { class: 'danger' }, async () => {
        await ask(path, { method: 'DELETE' });
        await page.redraw();
    }, 'The subscription has ended.', `End the subscription of ${subscription.callback}? The hub sends it a`
        + ' denial, and no further change.', 'End subscription');
}

function subscriptionState(subscription) {
    if (subscription.lastError || subscription.nextTry)
        return badge(subscription.lastStatus ? `fails: ${subscription.lastStatus}` : 'fails', 'bad');
    if (subscription.state === 'pending')
        return badge('pending', 'warning');
    return badge(subscription.lag ? 'behind' : 'active', subscription.lag ? 'warning' : 'good');
}

/** What the buttons of a card do, in a terminal. */
function cardLines(page, path, one) {
    const command = (verb, rest = '') => `tidings subscriptions ${verb} ${quote(setUrl(page.name))} ${one.id}${rest}`;
    const post = rest => curl(`${path}/${rest}`, { method: 'POST' }, page.token);
    return [
        command('attempts'), curl(`${path}/attempts`, {}, page.token),
        ...one.kind === 'callback' ? [command('test'), post('test')] : [],
        command('redeliver', ` --after ${one.position}`), post(`redeliver?after=${one.position}`),
        command('redeliver', ' --delivery DELIVERY'), post('attempts?delivery=DELIVERY'),
        command('end'), curl(path, { method: 'DELETE' }, page.token),
    ];
}

function subscriptionCard(page, one) {
    const isManaged = mayDo(page.token, 'manage', page.name);
    const path = setPath(page.name, `/subscriptions/${one.id}`);
    const { part, drawSoon } = attemptsPart(page, path, one, isManaged);
    return make('article', {
        class: 'card', 'aria-label': `Callback ${one.callback}`, onattempt: drawSoon,
    },
        make('h3', {}, one.callback, ' ', subscriptionState(one)),
        facts([
            ['Lag', one.lag ? `${number(one.lag)} behind` : 'none'],
            ['Position', one.position],
            ['Deliveries', number(one.deliveries ?? 0)],
            ['Failed attempts', number(one.failures ?? 0)],
            one.lastSuccess && ['Last success', time(one.lastSuccess)],
            one.lastError && ['Last error', one.lastError],
            one.nextTry && ['Next try', timeToCome(one.nextTry)],
            one.leaseEnd && ['Lease ends', `${clock(one.leaseEnd)} UTC`],
            one.requested && ['Requested', time(one.requested)],
            one.topic.endsWith('/framework-notifications') && ['Topic', 'documents of the set'],
            one.owner && ['Owner', one.owner],
            one.filter && ['Filter', one.filter],
            one.form && ['Form', one.form],
            one.signature && ['Signature', one.signature],
        ]),
        isManaged && one.state === 'active' && make('div', { class: 'buttons' },
            redeliverForm(page, one), one.kind === 'callback' && attemptButton(page, 'Send a test', `${path}/test`),
            endButton(page, one)),
        one.state === 'active' && part,
        isManaged && one.state === 'active' && commands(cardLines(page, path, one)));
}

/** A time to come. */
function timeToCome(datetime) {
    const seconds = Math.max(0, (Date.parse(datetime) - Date.now()) / 1000);
    return make('time', { title: `${clock(datetime)} UTC` }, `in ${duration(seconds)}`);
}

async function drawSubscriptions(page, box) {
    const { subscriptions, next } = await askJson(setPath(page.name, '/subscriptions'),
        { signal: page.signal });
    fill(box,
        !subscriptions.length && make('p', { class: 'muted' }, 'No callback subscribes to this set.'),
        subscriptions.map(one => subscriptionCard(page, one)),
        next && make('p', { class: 'muted' }, 'There are more. `tidings` and curl list all of them.'));
}

/* Subscribing */

/** Parameters of a form to the hub: rows of Fields, whose options are those of
 * `tidings subscriptions add`. */
const PARAMETERS = [
    ['hub.callback', 'callback', 'url', 'http or https; the hub asks it for its consent',
        { word: '', required: true, placeholder: 'https://example.org/hook/8d1f0c' }],
    ['hub.secret', 'secret-file', 'text', 'the hub signs the deliveries with it, and never shows it: copy it',
        { label: 'Secret', word: 'FILE', maxlength: 199 }],
    ['framework', 'framework', 'flag', "subscribe to the changes of the set's documents"],
    ['hub.lease_seconds', 'lease', 'number', 'the wanted lease', { label: 'Lease, seconds' }],
    ['after', 'after', 'text', 'begin behind this position; else from now'],
    ['interval', 'interval', 'number', 'the least time between two deliveries', { label: 'Interval, seconds' }],
    ['form', 'form', ['xml', 'json', 'cloudevents', 'cloudevent'], 'of the deliveries'],
    ['signature', 'signature', ['v1a'], "sign with the hub's own key, too"],
    ['change', 'change', 'list', 'only these', { label: 'Change: created, updated or deleted' }],
    ['prefix', 'prefix', 'list', 'only of resources that begin so'],
    ['type', 'type', 'list', 'only of this media type, or of TYPE/*'],
    ['tag', 'tag', 'list', 'only with this tag'],
];

/** How often the page asks whether the callback has answered the hub, in milliseconds. */
const LOOK_MS = 300;

/** A secret of Standard Webhooks. */
function newSecret() {
    return `whsec_${btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(24))))}`;
}

/** The request of a form to the hub, without the secret. */
function hubForm(page, { framework, 'hub.secret': secret, ...fields }) {
    const rel = `${framework ? 'framework' : 'change'}-notification`;
    const form = new URLSearchParams({
        'hub.mode': 'subscribe', 'hub.topic': page.set.links.find(link => link.rel === rel).href,
    });
    for (const [name, value] of Object.entries(fields))
        for (const one of [value].flat())
            form.append(name, one);
    return form;
}

/** The subscription of a callback to a topic, and a request that waits for its answer. */
async function standing(page, form) {
    const { subscriptions } = await askJson(setPath(page.name,
        `/subscriptions?callback=${encodeURIComponent(form.get('hub.callback'))}`), { signal: page.signal });
    const own = subscriptions.filter(one => one.topic === form.get('hub.topic'));
    return { active: own.find(one => one.state === 'active'), isPending: own.some(one => one.state === 'pending') };
}

/** Asks the hub, and follows what the callback answers it. Returns the outcome; fails if there is no consent. */
async function subscribe(page, form, secret, seesCallbacks, say) {
    if (secret && !isSecureContext)
        throw new Error('The secret would go in the clear to the hub: use https.');
    const { active: before } = seesCallbacks ? await standing(page, form) : {};
    const body = new URLSearchParams(form);
    if (secret)
        body.set('hub.secret', secret);
    await ask('hub', { method: 'POST', body, accept: '*/*' });
    if (!seesCallbacks)
        return 'The hub has the request, and asks the callback. Whether it confirms is shown to tokens with the'
            + ' right to manage or observe.';
    say('The hub has the request, and asks the callback …');
    await page.redraw();
    let now = await standing(page, form);
    while (now.isPending) {
        await new Promise(resolve => setTimeout(resolve, LOOK_MS));
        now = await standing(page, form);
    }
    await page.redraw();
    if (!now.active || now.active.id === before?.id && now.active.leaseEnd === before.leaseEnd)
        throw new Error('The callback has not confirmed, so the hub has dropped the request: it has to answer the'
            + " hub's GET with 200 and the challenge. The log of the broker has the reason.");
    return `The callback has confirmed: subscription ${now.active.id}, until ${clock(now.active.leaseEnd)} UTC.`;
}

function subscribeForm(page, seesCallbacks) {
    const outcome = make('p', { role: 'status' }), lines = make('div', {});
    const button = make('button', { class: 'primary' }, 'Subscribe');
    const say = (text, kind = '') => {
        outcome.className = kind;
        outcome.textContent = text;
    };
    const draw = () => {
        const { 'hub.callback': callback, 'hub.secret': secret, ...rest } = fields.object();
        const line = curl('hub', { method: 'POST', body: String(hubForm(page,
            { 'hub.callback': callback ?? 'CALLBACK', ...rest })) }, page.token);
        fill(lines, commandLines([
            `tidings subscriptions add ${quote(setUrl(page.name))} ${quote(callback ?? 'CALLBACK')} ${fields.options()}`
                .trimEnd(),
            secret ? `tr -d '\\n' <FILE | ${line} --data-urlencode hub.secret@-` : line,
        ]));
    };
    const fields = new Fields(PARAMETERS, {}, draw);
    const secret = fields.controls.get('hub.secret');
    secret.after(make('button', {
        type: 'button', class: 'quiet', onclick: () => {
            secret.value = newSecret();
            secret.select();
            draw();
        },
    }, 'Make a secret'));
    draw();
    return make('form', {
        class: 'settings', onsubmit: event => {
            event.preventDefault();
            perform(button, async () => {
                say('');
                announce('');
                try {
                    const form = hubForm(page, fields.object());
                    say(await subscribe(page, form, secret.value, seesCallbacks, say));
                } catch (error) {
                    say(error.message, 'problem');
                    throw error;
                }
                return outcome.textContent;
            });
        },
    }, make('div', { class: 'fields' }, fields.elements), button, outcome, lines);
}

/* The view */

export function readersView(page) {
    const rates = make('div', {}), callbacks = make('div', {});
    const seesCallbacks = mayDo(page.token, 'manage', page.name) || mayDo(page.token, 'observe');

    page.redraw = () => seesCallbacks && drawSubscriptions(page, callbacks)
        .catch(error => fill(callbacks, make('p', { class: 'problem' }, error.message)));
    page.every(5000, async () => {
        const rate = await askJson(setPath(page.name, '/rate'), { signal: page.signal });
        fill(rates, make('div', { class: 'charts' }, chart('Entries', rate.entries, 'rate', rate.since),
            chart('Lag of readers', rate.lags, 'lag', rate.since)), readersTable(rate));
        // What somebody fills in stays.
        if (!callbacks.contains(document.activeElement))
            await page.redraw();
    }).catch(error => fill(rates, make('p', { class: 'problem' }, error.message)));
    return [
        section('Connected readers', rates),
        seesCallbacks && section('Callbacks (WebSub)', callbacks),
        ['publish', 'subscribe'].some(right => mayDo(page.token, right, page.name))
            && section('Subscribe a callback', subscribeForm(page, seesCallbacks)),
        commands([
            ...seesCallbacks ? [`tidings subscriptions list ${quote(setUrl(page.name))}`,
                curl(setPath(page.name, '/subscriptions'), {}, page.token)] : [],
            curl(setPath(page.name, '/rate'), {}, page.token),
        ]),
    ];
}
