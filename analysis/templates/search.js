(() => {
  "use strict";
  const FOLDED = 12;

  for (const place of document.querySelectorAll("[data-search]")) {
    const rows = [...place.querySelectorAll("tbody tr")];
    const words = rows.map((row) => row.textContent.toLowerCase());
    const [find, choice, more] = ["input", "select", ".more"].map((what) => place.querySelector(what));
    const found = place.querySelector(".found");
    let all = false;

    const show = () => {
      const asked = find.value.toLowerCase().split(/\s+/).filter(Boolean);
      const facet = choice ? choice.value : "";
      const fits = rows.map((row, k) => (!facet || row.dataset.facet === facet) && asked.every((word) => words[k].includes(word)));
      const count = fits.filter(Boolean).length;
      let shown = 0;
      rows.forEach((row, k) => { row.hidden = !fits[k] || (!all && ++shown > FOLDED); });
      found.textContent = count === rows.length ? `${count} rows` : `${count} of ${rows.length} rows`;
      more.hidden = count <= FOLDED;
      more.textContent = all ? `Show the first ${FOLDED} only` : `Show all ${count}`;
      more.setAttribute("aria-expanded", String(all));
    };

    find.addEventListener("input", show);
    find.addEventListener("keydown", (event) => { if (event.key === "Escape") { find.value = ""; show(); } });
    if (choice) choice.addEventListener("change", show);
    more.addEventListener("click", () => { all = !all; show(); });
    place.querySelector(".tools").hidden = false;
    let before = all;
    window.addEventListener("beforeprint", () => { before = all; all = true; show(); });
    window.addEventListener("afterprint", () => { all = before; show(); });
    show();
  }
})();
