"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  document.documentElement.classList.add("js");

  // Tables: a click on a heading sorts by it, a second one the other way round.
  const keyOf = (row, column) => {
    const cell = row.cells[column];
    const text = cell ? (cell.dataset.v ?? cell.textContent.trim()) : "";
    const number = /^[-+]?[\d,]+(\.\d+)?(e[-+]?\d+)?/i.exec(text);
    return number ? Number(number[0].replaceAll(",", "")) : text.toLowerCase();
  };
  const compare = (a, b) => {
    if (a === "" || b === "") return (a === "") - (b === "");
    if (typeof a === "number" && typeof b === "number") return a - b;
    return typeof a === typeof b ? a.localeCompare(b) : typeof a === "number" ? -1 : 1;
  };
  for (const table of all("table.sortable")) {
    if (table.tBodies[0].rows.length < 2) continue;
    all("thead th", table).forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => {
        const down = heading.getAttribute("aria-sort") === "ascending";
        all("thead th", table).forEach((other) => other.removeAttribute("aria-sort"));
        heading.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...table.tBodies[0].rows].map((row) => [keyOf(row, column), row]);
        rows.sort(([a], [b]) => (a === "" || b === "" || !down ? compare(a, b) : compare(b, a)));
        table.tBodies[0].append(...rows.map(([, row]) => row));
      });
    });
  }

  // Copying model text gives the characters themselves, not their spelling.
  const exactText = (node) => {
    for (const spelled of all("span.u", node)) {
      spelled.textContent = String.fromCodePoint(parseInt(spelled.dataset.u, 16));
    }
    return node.textContent;
  };
  document.addEventListener("copy", (event) => {
    const selection = getSelection();
    if (selection.rangeCount !== 1 || selection.isCollapsed) return;
    const range = selection.getRangeAt(0);
    const start = range.commonAncestorContainer;
    const whole = (start.nodeType === Node.ELEMENT_NODE ? start : start.parentElement).closest(".exact, span.u");
    if (!whole) return;
    const copied = document.createElement("div");
    copied.append(whole.matches("span.u") ? whole.cloneNode(true) : range.cloneContents());
    event.clipboardData.setData("text/plain", exactText(copied));
    event.preventDefault();
  });
  const say = (button, text) => {
    const before = button.textContent;
    button.textContent = text;
    setTimeout(() => { button.textContent = before; }, 1500);
  };
  for (const button of all("button.copy")) {
    const source = document.getElementById(button.dataset.copy);
    if (!source) { button.remove(); continue; }
    button.addEventListener("click", () => {
      getSelection().selectAllChildren(source);
      say(button, document.execCommand("copy") ? "copied" : "not allowed");
    });
  }

  // An issue for others: what is needed to see the same flip again. A fence is longer than any run of ` inside it.
  const fenced = (text) => {
    const fence = "`".repeat(Math.max(3, ...(text.match(/`+/g) ?? []).map((run) => run.length + 1)));
    return `${fence}\n${text}\n${fence}`;
  };
  const issueOf = (flip) => {
    const parts = [`### ${flip.dataset.variant}: ${flip.dataset.direction} ${flip.dataset.task} at ${flip.dataset.length} tokens`,
      document.querySelector(".measured").textContent.trim()];
    for (const term of all(".body > dl > dt", flip)) {
      const value = exactText(term.nextElementSibling.cloneNode(true)).trim();
      if (term.textContent !== "sample") parts.push(`${term.textContent}:\n${fenced(value)}`);
    }
    for (const side of all(".sides > div", flip)) {
      const title = side.querySelector("h3").cloneNode(true);
      all("button", title).forEach((button) => button.remove());
      const output = side.querySelector("pre");
      parts.push(`${title.textContent.trim()}\n${fenced(output ? exactText(output.cloneNode(true)) : "")}`);
    }
    const id = flip.querySelector("dd code").textContent;
    return [...parts, `\`kveval show RUN ${id}\` prints the whole prompt.`].join("\n\n");
  };
  document.addEventListener("click", (event) => {
    if (!event.target.matches("button.issue")) return;
    const area = document.createElement("textarea");
    area.value = issueOf(event.target.closest("details.flip"));
    document.body.append(area);
    area.select();
    say(event.target, document.execCommand("copy") ? "copied" : "not allowed");
    area.remove();
  });

  const flips = all("details.flip");
  const form = document.getElementById("filters");
  let current = null;

  const show = (flip, focus = true) => {
    current?.classList.remove("current");
    current = flip;
    flip.hidden = false;
    flip.open = true;
    flip.classList.add("current");
    if (focus) flip.querySelector("summary").focus({ preventScroll: true });
    flip.scrollIntoView({ block: "start" });
    try { history.replaceState(null, "", "#" + flip.dataset.id); } catch { /* the address stays as it is */ }
  };
  // A link to the flip of a control shows it, although the filters hide controls at first.
  let linked = null;
  const followLink = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    const flip = target.closest("details.flip");
    if (flip) { linked = flip; show(flip); }
    for (let box = target.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
  };

  if (form) {
    const fields = ["variant", "task", "length", "direction", "outcome", "noise"];
    // Not elements[name]: one of the names is "length".
    const control = (name) => form.elements.namedItem(name);
    const texts = new Map();
    const textOf = (flip) => {
      if (!texts.has(flip)) texts.set(flip, (flip.dataset.id + " " + flip.textContent).toLowerCase());
      return texts.get(flip);
    };
    // Flips of controls and of the A/A run are noise or explanation: they show where their variant is chosen.
    const isSetAside = (flip) => flip.dataset.role !== "candidate" && flip.dataset.variant !== control("variant").value;
    const visible = () => flips.filter((flip) => !flip.hidden);
    const filter = () => {
      const words = control("search").value.trim().toLowerCase();
      for (const flip of flips) {
        flip.hidden = (isSetAside(flip) && flip !== linked) || fields.some((key) => control(key).value && control(key).value !== flip.dataset[key])
          || (words !== "" && !textOf(flip).includes(words));
      }
      const count = visible().length;
      const total = flips.filter((flip) => !isSetAside(flip)).length;
      document.getElementById("shown").value = count === total ? `${count} flips` : `${count} of ${total} flips`;
      document.getElementById("none-left").hidden = count > 0;
    };
    const step = (by) => {
      const rest = visible();
      if (!rest.length) return;
      const at = rest.indexOf(current);
      const next = at < 0 ? (by > 0 ? 0 : rest.length - 1) : at + by;
      if (!rest[next]) return;
      if (current) current.open = false;
      show(rest[next]);
    };
    let pending = 0;
    form.addEventListener("input", (event) => {
      clearTimeout(pending);
      if (event.target.name === "search") pending = setTimeout(filter, 60);
      else filter();
    });
    form.addEventListener("reset", () => setTimeout(filter));
    form.addEventListener("submit", (event) => event.preventDefault());
    document.getElementById("next").addEventListener("click", () => step(1));
    document.getElementById("previous").addEventListener("click", () => step(-1));
    document.addEventListener("keydown", (event) => {
      if (!control("keys").checked || event.ctrlKey || event.altKey || event.metaKey) return;
      if (event.target.matches("input, select, textarea")) return;
      if (event.key === "j") step(1);
      else if (event.key === "k") step(-1);
      else if (event.key === "/") { control("search").focus(); form.scrollIntoView({ block: "nearest" }); }
      else return;
      event.preventDefault();
    });
    filter();
  }
  addEventListener("hashchange", followLink);
  if (location.hash) followLink();

  // Paper: tables are opened, flips are printed as they are shown.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = all("details:not(.flip):not([open])");
    opened.forEach((box) => { box.open = true; });
  });
  addEventListener("afterprint", () => { opened.forEach((box) => { box.open = false; }); });
})();
