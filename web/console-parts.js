/**
 * console-parts.js - what the pages of the console are made of: elements, requests, rights,
 * numbers and times, sparklines, commands to copy, fields of forms.
 *
 * Everything that a broker sends becomes text or an attribute of an element that this file makes.
 * Nothing is parsed as HTML.
 */

/* Elements */

const SVG = 'http://www.w3.org/2000/svg';

/** Sets attributes and listeners: `onclick` is a function, `class` a text; false leaves out. */
function equip(element, attributes) {
    for (const [name, value] of Object.entries(attributes ?? {})) {
        if (typeof value === 'function')
            element.addEventListener(name.slice(2), value);
        else if (value !== undefined && value !== false && value !== null)
            element.setAttribute(name, value === true ? '' : value);
    }
}

/** Makes an element. Children are elements, texts, or lists of them; empty ones are left out. */
export function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    equip(element, attributes);
    element.append(...children.flat().filter(child => child || child === 0));
    return element;
}

function makeSvg(tag, attributes, ...children) {
    const element = document.createElementNS(SVG, tag);
    equip(element, attributes);
    element.append(...children);
    return element;
}

/** Replaces the children of an element. */
export function fill(element, ...children) {
    element.replaceChildren(...children.flat().filter(child => child || child === 0));
    return element;
}

let lastId = 0;

/** A text that no other element has as its id. */
export function freshId() {
    return `part-${++lastId}`;
}

/** A field of a form with its label. */
export function labelled(text, control) {
    control.id ||= freshId();
    return make('div', { class: 'field' }, make('label', { for: control.id }, text), control);
}

export function choice(options, chosen, attributes) {
    return make('select', attributes, options.map(([value, text]) =>
        make('option', { value, selected: value === chosen }, text)));
}

/** A table whose cells are texts or elements; `numbers`: columns that are aligned to the right. */
export function table(caption, heads, rows, numbers = []) {
    const side = i => numbers.includes(i) ? 'number' : undefined;
    return make('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': caption },
        make('table', {},
            make('thead', {}, make('tr', {}, heads.map((head, i) =>
                make('th', { scope: 'col', class: side(i) }, head)))),
            make('tbody', {}, rows.map(row => make('tr', {}, row.map((cell, i) =>
                make('td', { class: side(i), 'data-head': heads[i] }, cell)))))));
}

/** Names and values. */
export function facts(pairs) {
    return make('dl', { class: 'facts' }, pairs.filter(pair => pair).map(([name, value, title]) =>
        make('div', {}, make('dt', {}, name), make('dd', { title }, value))));
}

/** The headline of a page, with a link to the page of the documentation that explains it. */
export function headline(page, ...children) {
    return make('div', { class: 'headline' }, make('h1', { tabindex: -1 }, children),
        make('a', { href: `doc/${page}.html` }, `Help: ${page}`));
}

export function section(title, ...children) {
    const id = freshId();
    return make('section', { 'aria-labelledby': id }, make('h2', { id }, title), ...children);
}

/** A short word with a colour: "good", "warning" or "bad". */
export function badge(text, kind) {
    return make('span', { class: `badge ${kind ?? ''}` }, text);
}

/** Says something to users, and to screen readers. */
export function announce(text, kind = '') {
    const line = document.getElementById('announcement');
    line.className = kind;
    line.textContent = text;
    clearTimeout(announce.timer);
    announce.timer = setTimeout(() => { line.textContent = ''; }, 8000);
}

/* Requests */

/** The address of the broker: the page is at its root, perhaps behind a prefix of a proxy. */
export const root = new URL('.', document.baseURI);

/** A refusal: its status, and the reason in words. */
export class Refusal extends Error {
    constructor(status, problem) {
        super(problem?.detail || problem?.title || `the broker answered ${status}`);
        this.status = status;
        this.problem = problem ?? {};
    }
}

/** What a refusal says: a problem as JSON, or a line of text, as the hub answers. */
async function problemOf(answer) {
    return answer.headers.get('Content-Type')?.startsWith('text/plain') ? { detail: (await answer.text()).trim() }
        : answer.json().catch(() => undefined);
}

/** Makes a request to a path without a slash before it; the answer, if it is a good one. */
export async function ask(path, { method = 'GET', body, type, headers, signal, accept } = {}) {
    const fields = { Accept: accept ?? 'application/json', ...headers };
    if (type)
        fields['Content-Type'] = type;
    const answer = await fetch(new URL(path, root), {
        method, body, headers: fields, signal, credentials: 'same-origin', cache: 'no-store',
    });
    if (!answer.ok)
        throw new Refusal(answer.status, await problemOf(answer));
    return answer;
}

export async function askJson(path, options) {
    return (await ask(path, options)).json();
}

/** The path of a set, or of something of it. */
export function setPath(name, rest = '') {
    return `sets/${encodeURIComponent(name)}${rest}`;
}

export function setUrl(name) {
    return new URL(setPath(name), root).href;
}

/** A link of a document of the broker, whatever address the broker has for itself. */
export function ownUrl(url) {
    const at = url.indexOf('/sets/');
    return at < 0 ? undefined : new URL(url.slice(at + 1), root).href;
}

/* Rights */

/** True if a name matches a pattern, in which "*" stands for any characters. */
function matches(pattern, name) {
    const parts = pattern.split('*');
    if (parts.length === 1)
        return pattern === name;
    const first = parts.shift(), last = parts.pop();
    if (!name.startsWith(first) || !name.endsWith(last) || name.length < first.length + last.length)
        return false;
    let at = first.length;
    for (const part of parts) {
        at = name.indexOf(part, at);
        if (at < 0 || at + part.length > name.length - last.length)
            return false;
        at += part.length;
    }
    return true;
}

/** True if a token, as GET /tokens/self describes it, has the right to a set. */
export function mayDo(token, right, name) {
    if (token.admin)
        return true;
    if (right === 'observe')
        return token.observe;
    const patterns = token[right] ?? [];
    const denies = patterns.some(p => p.startsWith('!') && matches(p.slice(1), name));
    return !denies && patterns.some(p => !p.startsWith('!') && matches(p, name));
}

/* Numbers and times */

const numbers = new Intl.NumberFormat('en');
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

export function number(n) {
    return numbers.format(n);
}

export function shortNumber(n) {
    return n < 10000 ? numbers.format(n) : compact.format(n);
}

export function bytes(n) {
    const units = ['B', 'KB', 'MB', 'GB', 'TB'];
    let i = 0;
    for (; n >= 1000 && i < units.length - 1; i++)
        n /= 1000;
    return `${i && n < 100 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}

export function duration(seconds) {
    if (seconds < 1)
        return 'now';
    for (const [unit, size] of [['d', 86400], ['h', 3600], ['min', 60]])
        if (seconds >= size)
            return `${Math.floor(seconds / size)} ${unit}`;
    return `${Math.floor(seconds)} s`;
}

export function ago(datetime) {
    const seconds = (Date.now() - Date.parse(datetime)) / 1000;
    return seconds < 1 ? 'now' : `${duration(seconds)} ago`;
}

/** "2026-10-18 20:00:00", in UTC. */
export function clock(datetime) {
    return datetime.slice(0, 19).replace('T', ' ');
}

/** A time, in words that change, with the exact one as its title. */
export function time(datetime) {
    return datetime
        ? make('time', { datetime, title: `${clock(datetime)} UTC` }, ago(datetime))
        : '–';
}

/** Renews the words of all times in an element. */
export function renewTimes(element) {
    for (const one of element.querySelectorAll('time[datetime]'))
        one.textContent = ago(one.dateTime);
}

/* Reports of harvesters */

/** What is wrong between a harvested set and its source, the worst first: badges, or none. */
export function harvestTroubles(report) {
    const { complete_as_of: since, not_complete: why, last_look: look, every_s: every } = report;
    // A log is looked at with its heartbeats, which may be rarer than a short pause.
    const most = 1000 * Math.max(2 * every, 60);
    const isSilent = every && Date.now() - Date.parse(look) > most;
    return [
        (why || !since) && badge('not complete', 'bad'),
        isSilent && badge('silent', 'bad'),
        report.held_back > 0 && badge(`${number(report.held_back)} held back`, 'warning'),
        report.left_out > 0 && badge(`${number(report.left_out)} left out`, 'warning'),
    ].filter(one => one);
}

/** The badges with a space before each. */
export function spaced(badges) {
    return badges.flatMap(one => [' ', one]);
}

/* Pictures */

/** The path of 60 minutes in a box of 120 by 28. */
function sparkPath(minutes) {
    const most = Math.max(1, ...minutes);
    return minutes.map((n, i) => {
        const height = n ? Math.max(1.5, n / most * 26) : 0;
        return height ? `M${i * 2 + 1} 28v-${height.toFixed(1)}` : '';
    }).join('');
}

/** A picture of the last hour. The text beside it has to say what matters. */
export function sparkline(minutes, className = 'spark') {
    const path = makeSvg('path', { d: sparkPath(minutes) });
    return makeSvg('svg', {
        class: className, viewBox: '0 0 120 28', preserveAspectRatio: 'none', 'aria-hidden': 'true',
    }, makeSvg('path', { class: 'ground', d: 'M0 27.5h120' }), path);
}

/** Draws other minutes into a sparkline. */
export function redrawSparkline(svg, minutes) {
    const d = sparkPath(minutes);
    if (svg.lastChild.getAttribute('d') !== d)
        svg.lastChild.setAttribute('d', d);
}

/** A larger picture with its figures: the last hour of something, or the time since the broker has
 * started. */
export function chart(title, minutes, unit, since) {
    const sum = minutes.reduce((a, b) => a + b, 0), most = Math.max(...minutes);
    const start = new Date(since);
    const when = Date.now() - start < 3600_000 ? `since the start of the broker at ${start.toLocaleTimeString()}`
        : 'in the last hour';
    const words = !most ? `none ${when}`
        : unit === 'lag' ? `at most ${number(most)} entries ${when}`
        : `${number(sum)} ${when}, at most ${number(most)} a minute`;
    return make('figure', { class: 'chart' },
        make('figcaption', {}, make('strong', {}, title), ` ${words}`),
        sparkline(minutes, 'spark large'),
        make('div', { class: 'axis', 'aria-hidden': 'true' },
            make('span', {}, '60 min ago'), make('span', {}, 'now')));
}

/* Commands */

/** A text as one word of a shell. */
export function quote(text) {
    return /^[A-Za-z0-9_./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** A curl line; with the field of a token where the broker asks for one. */
export function curl(path, { method, body, type } = {}, token) {
    const words = ['curl'];
    if (token && token.name !== 'everyone')
        words.push('-H', '"Authorization: Bearer $TIDINGS_TOKEN"');
    if (method && method !== 'GET' && !(method === 'POST' && body !== undefined))
        words.push('-X', method);
    if (type)
        words.push('-H', quote(`Content-Type: ${type}`));
    if (body !== undefined)
        words.push('-d', quote(body));
    words.push(quote(new URL(path, root).href));
    return words.join(' ');
}

async function copyText(text, button) {
    try {
        await navigator.clipboard.writeText(text);
        announce('Copied.', 'good');
    } catch {
        // Browsers have a clipboard for pages of https and of this machine only.
        const code = button.previousElementSibling;
        getSelection().selectAllChildren(code);
        announce('Selected: press Ctrl+C to copy.');
    }
}

/** A line with a button that copies it. */
export function copyable(line, label = `Copy ${line.split(/[ =]/)[0]} line`) {
    const button = make('button', {
        type: 'button', class: 'quiet', 'aria-label': label, onclick: () => copyText(line, button),
    }, 'Copy');
    return make('div', { class: 'command' }, make('code', {}, line), button);
}

/** Lines for a terminal or a file. */
export function commandLines(lines) {
    return lines.map(line => copyable(line));
}

/** The same, behind a line to open. */
export function commands(lines) {
    return make('details', { class: 'commands' }, make('summary', {}, 'In a terminal'), commandLines(lines));
}

/* Fields of forms */

const UNITS = { Age: 'seconds', Every: 'seconds' };

/** "Rotate entries" of rotate-entries. */
function titleOf(option) {
    return option[0].toUpperCase() + option.slice(1).replaceAll('-', ' ');
}

/** A value as a field has it. */
function textOf(value) {
    return Array.isArray(value) ? value.join('\n') : String(value ?? '');
}

/** What a field has as a value of the JSON; null: the default. */
function valueOf(kind, text) {
    if (text === '')
        return null;
    if (kind === 'list')
        return text.trim().split(/\s+/);
    if (kind === 'flag' || Array.isArray(kind) && kind.includes('true'))
        return text === 'true';
    return (kind === 'number' || /\|N$/.test(kind)) && /^[0-9.]+$/.test(text) ? Number(text) : text;
}

/** The control of a kind. */
function controlOf(kind, text, attributes) {
    const options = kind === 'flag' ? [['', 'no'], ['true', 'yes']]
        : Array.isArray(kind) && [['', 'default'], ...kind.map(one => [one, one])];
    if (options)
        return choice(options, text, attributes);
    const control = kind === 'list' ? make('textarea', { rows: 2, ...attributes })
        : make('input', { type: kind === 'url' ? 'url' : 'text', spellcheck: 'false',
            inputmode: kind === 'number' && 'decimal', autocomplete: 'off', ...attributes });
    control.value = text;
    return control;
}

/**
 * The fields of a form, each with its help. A row: the member of what the form sends, the option of
 * the command (its words are the label), the kind of the value, the help, which is that of the option,
 * and perhaps more: `label`; `word`, which stands in a command instead of the value ('' leaves the
 * option out); attributes of the control. Kinds: text, url, number, list (one a line), flag, a list (the
 * values to choose from), and any other text with "|", which says what may stand there.
 */
export class Fields {
    /** `values`: what the members have now. `onchange` is called when somebody has typed. */
    constructor(rows, values, onchange) {
        this.rows = rows;
        this.values = values;
        this.controls = new Map();
        this.elements = rows.map(([member, option, kind, help, { label, word, ...attributes } = {}]) => {
            const unit = UNITS[/[A-Z][a-z]+$/.exec(member)?.[0]], id = freshId();
            const control = controlOf(kind, textOf(values[member]),
                { 'aria-describedby': id, oninput: onchange, ...attributes });
            this.controls.set(member, control);
            const form = /\|/.test(kind) ? ` (${kind.replaceAll('|', ', ')})` : kind === 'list' ? ' (one a line)' : '';
            const field = labelled(label ?? titleOf(option) + (unit ? `, ${unit}` : ''), control);
            field.append(make('p', { class: 'muted help', id }, help + form));
            return field;
        });
    }

    /** [member, option, value, word] of each field that is not as before. */
    changed() {
        return this.rows.filter(([member]) => this.controls.get(member).value !== textOf(this.values[member]))
            .map(([member, option, kind, , more]) =>
                [member, option, valueOf(kind, this.controls.get(member).value), more?.word]);
    }

    /** The changes as an object. */
    object() {
        return Object.fromEntries(this.changed().map(([member, , value]) => [member, value]));
    }

    /** The changes as JSON. */
    json() {
        return JSON.stringify(this.object());
    }

    /** The changes as the words of options of the command. */
    words() {
        return this.changed().filter(([, , , word]) => word !== '').flatMap(([, option, value, word]) =>
            value === null ? ['--reset', option]
            : value === true ? [`--${option}`]
            : [word ?? value].flat().flatMap(one => [`--${option}`, String(one)]));
    }

    /** The same, for a shell. */
    options() {
        return this.words().map(quote).join(' ');
    }
}

/** Asks in a dialog; true if the user agrees. */
export function confirmed(question, action) {
    const id = freshId();
    const dialog = make('dialog', { 'aria-labelledby': id }, make('form', { method: 'dialog' },
        make('p', { id }, question),
        make('div', { class: 'buttons' },
            make('button', { value: '', class: 'quiet' }, 'Cancel'),
            make('button', { value: 'yes', class: 'danger' }, action))));
    document.body.append(dialog);
    dialog.showModal();
    return new Promise(resolve => dialog.addEventListener('close', () => {
        dialog.remove();
        resolve(dialog.returnValue === 'yes');
    }));
}

/** Does what a button asks for, if the user agrees to a question, where there is one; says how it
 * ended. */
export async function perform(button, action, done, question, yes) {
    if (question && !await confirmed(question, yes))
        return;
    button.disabled = true;
    try {
        const text = await action(button);
        announce(typeof text === 'string' ? text : done, 'good');
    } catch (error) {
        announce(error.message, 'bad');
    } finally {
        button.disabled = false;
    }
}

/** A button that does something: `rest` as of perform(). */
export function workButton(text, attributes, ...rest) {
    const button = make('button', { type: 'button', ...attributes, onclick: () => perform(button, ...rest) }, text);
    return button;
}
