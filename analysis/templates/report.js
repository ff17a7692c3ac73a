(() => {
  "use strict";
  const plots = [...document.querySelectorAll("[data-plot]")];
  const narrow = window.matchMedia("(max-width: 40rem)");
  const coarse = window.matchMedia("(pointer: coarse)");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const role = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Colours are roles, and only under a key that speaks of colour: a name can never become one.
  const paint = (value, coloured = false) => {
    if (Array.isArray(value)) return value.map((one) => paint(one, coloured));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, paint(one, coloured || /color/i.test(key))]));
    }
    return coloured && typeof value === "string" && value.startsWith("var:--") ? role(value.slice(4)) : value;
  };

  const axis = (own = {}, y = false) => {
    const small = narrow.matches;
    return {
      gridcolor: role("--grid"), linecolor: role("--rule"), zerolinecolor: role("--rule"), tickcolor: role("--rule"),
      automargin: true, ticks: y ? "" : "outside", fixedrange: small || coarse.matches, separatethousands: true, exponentformat: "none", ...own,
      title: { standoff: small ? 6 : 12, font: { size: small ? 11 : 13, color: role("--soft") }, ...own.title },
    };
  };

  const layoutOf = (given) => ({
    ...given,
    xaxis: axis(given.xaxis), yaxis: axis(given.yaxis, true),
    ...(given.yaxis2 ? { yaxis2: axis(given.yaxis2, true) } : {}),
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: role("--sans"), size: narrow.matches ? 11 : 13, color: role("--ink") },
    margin: { l: 8, r: 8, t: given.annotations ? 26 : 10, b: 8 },
    legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom", traceorder: "normal", ...(given.annotations ? { y: 1.06 } : {}) },
    hoverlabel: { bgcolor: role("--card"), bordercolor: role("--rule"), font: { color: role("--ink") }, namelength: -1 },
    dragmode: coarse.matches ? false : "zoom",
    bargap: 0.35, separators: ".,",
  });

  const config = {
    displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: "reset",
  };

  // A heat map over time says what each column is once; here every cell gets it, and a log scale its logarithms.
  const heat = (one) => {
    one.text = one.z.map(() => one.meta.across);
    one.customdata = one.z;
    if (one.meta.log) one.z = one.z.map((row) => row.map((value) => (value > 0 ? Math.log10(value) : null)));
  };

  const draw = () => {
    for (const place of plots) {
      const spec = paint(JSON.parse(document.getElementById(place.dataset.plot).textContent));
      for (const one of spec.data) if (one.colorbar) {
        Object.assign(one.colorbar, { outlinewidth: 0, len: 1, separatethousands: true, exponentformat: "none", thickness: narrow.matches ? 10 : 16 });
        one.colorbar.title.font = { size: narrow.matches ? 11 : 13, color: role("--soft") };
      }
      for (const one of spec.data) if (one.meta) heat(one);
      Plotly.react(place, spec.data, layoutOf(spec.layout), config);
    }
  };

  draw();
  for (const query of [dark, narrow, coarse]) query.addEventListener("change", draw);
  const resize = () => { draw(); for (const place of plots) Plotly.Plots.resize(place); };
  window.addEventListener("beforeprint", resize);
  window.addEventListener("afterprint", resize);
})();
