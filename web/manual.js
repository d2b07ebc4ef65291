// The search of the documentation: in the page, by an index that is loaded when it is
// first needed (tools/site.py).

const form = document.getElementById("search");
const words = document.getElementById("words");
const found = document.getElementById("found");
const article = document.querySelector("article");
const MOST = 40;
let loading;

function load() {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = "search.js";
    script.onload = () => resolve(globalThis.manualIndex);
    script.onerror = () => {
      loading = undefined;
      reject(new Error("the index of the search cannot be read"));
    };
    document.head.append(script);
  });
  return loading;
}

// The rows that have all words: those with a word in the heading first.
function search(index, wanted) {
  const rows = [];
  for (const [page, title, heading, anchor, text] of index) {
    const head = `${title} ${heading}`.toLowerCase();
    const all = `${head} ${text.toLowerCase()}`;
    if (wanted.every((word) => all.includes(word))) {
      const rank = wanted.filter((word) => head.includes(word)).length;
      rows.push({ page, title, heading, anchor, text, rank });
    }
  }
  return rows.sort((a, b) => b.rank - a.rank);
}

// Some words around the first one that was found.
function extract(text, wanted) {
  const at = Math.max(0, text.toLowerCase().indexOf(wanted[0]) - 60);
  const from = at > 0 ? text.indexOf(" ", at) + 1 : 0;
  return (from > 0 ? "… " : "") + text.slice(from, from + 160) + (text.length > from + 160 ? " …" : "");
}

function element(name, text, more = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  return Object.assign(made, more);
}

async function show() {
  const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
  found.hidden = wanted.length === 0;
  article.hidden = wanted.length > 0;
  if (found.hidden) return;
  let rows;
  try {
    rows = search(await load(), wanted);
  } catch (error) {
    found.replaceChildren(element("p", error.message));
    return;
  }
  const list = document.createElement("ul");
  for (const row of rows.slice(0, MOST)) {
    const item = document.createElement("li");
    const name = row.heading === row.title ? row.title : `${row.title}: ${row.heading}`;
    item.append(element("a", name, { href: `${row.page}#${row.anchor}` }));
    item.append(element("small", extract(row.text, wanted)));
    list.append(item);
  }
  const more = rows.length > MOST ? `, the first ${MOST} here` : "";
  const count = `${rows.length} ${rows.length === 1 ? "part has" : "parts have"} these words${more}`;
  found.replaceChildren(element("h2", count), list);
}

// A link to a tab opens it.
function openTab() {
  const tab = document.getElementById(location.hash.slice(1));
  if (tab?.classList.contains("tab")) document.getElementById(`choose-${tab.id}`).checked = true;
}

openTab();
addEventListener("hashchange", openTab);
form.hidden = false;
words.addEventListener("input", show);
words.addEventListener("focus", () => load().catch(() => {}));
form.addEventListener("submit", (event) => {
  event.preventDefault();
  found.querySelector("a")?.click();
});
// A link to a part of this page shows it again.
found.addEventListener("click", () => {
  words.value = "";
  show();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== words) {
    event.preventDefault();
    words.focus();
  }
});
