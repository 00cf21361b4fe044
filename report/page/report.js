"use strict";
(() => {
  const form = document.getElementById("filters");
  const shown = document.getElementById("shown");
  const fold = document.getElementById("fold");
  const field = (name) => document.getElementById("f-" + name);
  const names = ["severity", "status", "cluster", "kind"];
  // Above this many findings only what is urgent starts open.
  const manyFindings = 40;
  const cards = Array.from(document.querySelectorAll("#findings .finding"), (card) => {
    const owner = card.closest("details");
    const around = owner ? owner.querySelector("summary").textContent : "";
    const machines = owner && owner.querySelector(".machines");
    return {
      card,
      owner,
      section: card.closest("section"),
      stands: Number(card.dataset.stands),
      text: (around + " " + (machines ? machines.textContent : "") + " " + card.textContent).toLowerCase(),
    };
  });
  const owners = Array.from(document.querySelectorAll("details.owner"));
  const sections = Array.from(document.querySelectorAll("#findings section"));
  const total = cards.reduce((sum, entry) => sum + entry.stands, 0);

  const matches = (name, value, card) => {
    const own = card.dataset[name];
    return name === "kind" ? own.split("\n").includes(value) : own === value;
  };

  // The filter stands in the address, so that a link shows what its sender saw.
  const all = ["text", ...names];
  const restore = () => {
    if (!location.hash.includes("=")) return;
    const kept = new URLSearchParams(location.hash.slice(1));
    for (const name of all) field(name).value = kept.get(name) ?? "";
  };
  const keep = () => {
    const now = new URLSearchParams();
    for (const name of all) if (field(name).value) now.set(name, field(name).value);
    const text = now.toString();
    if (text || location.hash.includes("=")) history.replaceState(null, "", "#" + text);
  };

  // Owners stand as the reader left them, but for a filter: what it finds is
  // shown, and afterwards they are as before.
  let before = null;
  const unfold = (filtering, alive) => {
    if (filtering) {
      before = before ?? owners.map((owner) => owner.open);
      for (const owner of owners) owner.open = alive.has(owner);
    } else if (before) {
      owners.forEach((owner, i) => { owner.open = before[i]; });
      before = null;
    }
  };
  const label = (collapsed) => {
    fold.setAttribute("aria-pressed", String(collapsed));
    fold.textContent = collapsed ? "Expand all" : "Collapse all";
  };

  const apply = () => {
    const words = field("text").value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = names.map((name) => [name, field(name).value]).filter(([, value]) => value !== "");
    const filtering = words.length + chosen.length > 0;
    const alive = new Set();
    let count = 0;
    for (const entry of cards) {
      const ok = words.every((w) => entry.text.includes(w)) && chosen.every(([n, v]) => matches(n, v, entry.card));
      entry.card.hidden = !ok;
      if (ok) {
        count += entry.stands;
        alive.add(entry.owner);
        alive.add(entry.section);
      }
    }
    for (const owner of owners) owner.hidden = filtering && !alive.has(owner);
    for (const section of sections) section.hidden = filtering && !alive.has(section);
    unfold(filtering, alive);
    shown.textContent = filtering ? count + " of " + total + " shown" : shown.dataset.all;
  };

  form.addEventListener("input", () => { apply(); keep(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => { apply(); keep(); }));
  addEventListener("hashchange", () => { restore(); apply(); });
  fold.addEventListener("click", () => {
    const collapse = fold.getAttribute("aria-pressed") !== "true";
    for (const owner of owners) owner.open = !collapse;
    before = null;
    label(collapse);
  });
  addEventListener("beforeprint", () => {
    for (const owner of owners) owner.open = true;
  });
  if (total > manyFindings) {
    for (const owner of owners) owner.open = owner.querySelector(".finding.critical, .finding.high") !== null;
    label(true);
  }
  form.hidden = false;
  restore();
  apply();
})();
