"use strict";
// What a reader can do: sort, filter, page and copy tables, switch the ladder's time axis, choose a handshake, and the
// colours. The page can be read without any of it.

const SHOWN = 50; // rows of a table on one page

const make = (name, text, attributes = {}) => {
  const node = document.createElement(name);
  node.textContent = text;
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
};
const say = (text) => { document.getElementById("said").textContent = text; };

// Colours: as the system has them, or as chosen here.
const themeButton = document.getElementById("theme");
const remembered = (value) => {
  try {
    if (value === undefined) return localStorage.getItem("ikeanalyze-theme");
    localStorage.setItem("ikeanalyze-theme", value);
  } catch { /* a page from a file may have no storage */ }
  return null;
};
const setTheme = (theme) => {
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  themeButton.textContent = `Colours: ${theme}`;
  themeButton.dataset.next = { system: "light", light: "dark", dark: "system" }[theme];
};
setTheme({ light: "light", dark: "dark" }[remembered()] ?? "system");
themeButton.hidden = false;
themeButton.addEventListener("click", () => {
  const theme = themeButton.dataset.next;
  setTheme(theme);
  remembered(theme);
});

// Tables
// The number that a cell begins with: "1,406 in 2" is 1406, "3.1 to 4" is 3.1.
const numberOf = (text) => {
  const found = /^[<>≤≥]? ?([+-]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[+-]?\d+)?)(?![\w.,])/i.exec(text);
  return found ? Number(found[1].replaceAll(",", "")) : null;
};
const collator = new Intl.Collator("en", { numeric: true });
const compare = (column, numeric, down) => (one, other) => {
  const way = down ? -1 : 1;
  const [a, b] = [one.cells[column], other.cells[column]];
  if (!numeric) return way * collator.compare(a, b);
  const [x, y] = [numberOf(a), numberOf(b)];
  if (x === null || y === null) return (x === null) - (y === null); // what is not known is last, either way
  return way * (x - y);
};

function setUpTable(table) {
  const heads = [...table.tHead.rows[0].cells];
  const numeric = heads.map((head) => head.classList.contains("num"));
  const names = heads.map((head) => head.textContent.trim());
  const body = table.tBodies[0];
  const source = table.dataset.rows && document.getElementById(table.dataset.rows);
  const linked = new Set((table.dataset.linked ?? "").split(" "));
  const rows = source
    ? JSON.parse(source.textContent).map((cells) => ({ cells }))
    : [...body.rows].map((node) => ({ node, cells: [...node.cells].map((cell) => cell.textContent.trim()) }));
  if (!rows.length) return;
  let words = [], by = null; // what is asked for: words of the search, the order
  let order = rows, page = 0; // what is shown of it

  const nodeOf = (row) => {
    if (row.node) return row.node;
    row.node = document.createElement("tr");
    row.cells.forEach((text, column) => {
      const cell = make("td", text, numeric[column] ? { class: "num" } : {});
      if (column === 0 && linked.has(text)) {
        cell.textContent = "";
        cell.append(make("a", text, { href: `#handshake-${text}` }));
      }
      row.node.append(cell);
    });
    return row.node;
  };
  const bar = table.dataset.bar && document.getElementById(table.dataset.bar);
  const arrange = () => {
    const fits = (row) => words.every((word) => row.cells.some((cell) => cell.toLowerCase().includes(word)));
    order = rows.filter(fits);
    if (by) order.sort(by);
    page = 0;
    update();
  };
  const update = () => {
    const pages = bar ? Math.max(1, Math.ceil(order.length / SHOWN)) : 1;
    page = Math.min(page, pages - 1);
    const shown = bar ? order.slice(page * SHOWN, (page + 1) * SHOWN) : order;
    body.replaceChildren(...shown.map(nodeOf));
    if (!bar) return;
    const [where, back, forth] = ["where", "back", "forth"].map((name) => bar.querySelector(`.${name}`));
    const [first, last, all] = [page * SHOWN + Math.sign(shown.length), page * SHOWN + shown.length, order.length]
      .map((number) => number.toLocaleString("en"));
    where.textContent = `${first} to ${last} of ${all}`;
    back.hidden = forth.hidden = rows.length <= SHOWN;
    back.disabled = page === 0;
    forth.disabled = page >= pages - 1;
  };

  if (rows.length > 1) heads.forEach((head, column) => {
    const button = make("button", names[column], { type: "button" });
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      by = compare(column, numeric[column], down);
      arrange();
    });
  });

  const copy = make("button", "Copy", { type: "button", class: "copy" });
  copy.title = "Copy the table, all of its pages, for a spreadsheet";
  table.caption.append(copy);
  copy.addEventListener("click", async () => {
    const plain = (text, column) => (numeric[column] ? text.replaceAll(",", "") : text.replace(/\s+/g, " "));
    const sums = table.tFoot ? [...table.tFoot.rows].map((row) => [...row.cells].map((c) => c.textContent.trim())) : [];
    const lines = [names, ...order.map((row) => row.cells), ...sums].map((cells) => cells.map(plain).join("\t"));
    try {
      await navigator.clipboard.writeText(`${lines.join("\n")}\n`);
      copy.textContent = "Copied";
      say(`${order.length} rows copied`);
    } catch {
      getSelection().selectAllChildren(table);
      copy.textContent = "Selected: copy it with the keyboard";
    }
    setTimeout(() => { copy.textContent = "Copy"; }, 2000);
  });

  if (bar) {
    const search = bar.querySelector("input");
    search.addEventListener("input", () => {
      words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      arrange();
    });
    bar.querySelector(".back").addEventListener("click", () => { page -= 1; update(); });
    bar.querySelector(".forth").addEventListener("click", () => { page += 1; update(); });
    bar.hidden = false;
    update();
  }
}
document.querySelectorAll("table").forEach(setUpTable);

// Ladders: even spacing, or the true time axis
function setLayout(isTrue) {
  document.querySelectorAll("svg.ladder").forEach((svg) => {
    svg.classList.toggle("is-true", isTrue);
    [svg, ...svg.querySelectorAll("[data-a]")].forEach((node) => {
      node.setAttribute(node.dataset.a, node.dataset.v.split("|")[isTrue ? 1 : 0]);
    });
  });
  document.querySelectorAll("button[data-layout]").forEach((button) => {
    button.setAttribute("aria-pressed", String((button.dataset.layout === "true") === isTrue));
  });
}
document.querySelectorAll("button[data-layout]").forEach((button) => {
  button.addEventListener("click", () => setLayout(button.dataset.layout === "true"));
});

// One handshake at a time
const sections = [...document.querySelectorAll("section.handshake")];
const chooser = document.getElementById("chooser");
function show(id, move) {
  const wanted = sections.find((section) => section.id === id);
  if (!wanted) return;
  sections.forEach((section) => { section.hidden = section !== wanted; });
  if (chooser) chooser.value = id;
  if (move) document.getElementById("handshake").scrollIntoView();
}
if (sections.length > 1) {
  const wanted = location.hash.slice(1);
  const known = sections.some((section) => section.id === wanted);
  show(known ? wanted : sections[0].id, known);
  window.addEventListener("hashchange", () => show(location.hash.slice(1), true));
  chooser.addEventListener("change", () => { location.hash = chooser.value; });
  document.querySelectorAll("button[data-step]").forEach((button) => {
    button.addEventListener("click", () => {
      const at = sections.findIndex((section) => !section.hidden) + Number(button.dataset.step);
      location.hash = sections[(at + sections.length) % sections.length].id;
    });
  });
}
document.querySelectorAll("[data-script]").forEach((node) => { node.hidden = false; });

// What the marks of a chart say when they are pointed at
const hint = document.getElementById("hint");
document.querySelectorAll("figure svg").forEach((svg) => {
  svg.addEventListener("pointerover", (event) => {
    const mark = event.target.closest("[aria-label]");
    hint.hidden = !mark || mark === svg;
    if (hint.hidden) return;
    hint.textContent = mark.getAttribute("aria-label");
    const left = Math.min(event.pageX + 12, document.documentElement.clientWidth - hint.offsetWidth - 8);
    hint.style.left = `${Math.max(left, 4)}px`;
    hint.style.top = `${event.pageY + 16}px`;
  });
  svg.addEventListener("pointerleave", () => { hint.hidden = true; });
});
