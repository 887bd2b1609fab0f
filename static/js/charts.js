// Draws the figures the server made. Plotly is fetched once, on the first page that has a chart.
// Colours are names of tokens ("--c1", "--c1/0.2"), resolved here, so a change of theme only needs a new drawing.
(() => {
  const root = document.documentElement;
  let library;

  const plotly = () => {
    library ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = root.dataset.plotly;
      script.onload = () => resolve(window.Plotly);
      script.onerror = reject;
      document.head.append(script);
    });
    return library;
  };

  const probe = document.createElement("span");
  probe.hidden = true;
  const colour = (text) => {
    const [name, alpha] = text.split("/");
    probe.style.setProperty("color", `var(${name})`);
    const [r, g, b] = getComputedStyle(probe).color.match(/[\d.]+/g) ?? [0, 0, 0];
    return `rgba(${r}, ${g}, ${b}, ${alpha ?? 1})`;
  };

  const resolve = (value, known) => {
    if (typeof value === "string" && /^--[\w-]+(\/[\d.]+)?$/.test(value)) return (known[value] ??= colour(value));
    if (Array.isArray(value)) return value.map((entry) => resolve(entry, known));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, resolve(entry, known)]));
    }
    return value;
  };

  // A trace whose points all open the same kind of page says so once; the point's place on the x axis is the rest.
  const targetOf = (point) => {
    const open = point?.data?.meta?.open;
    if (typeof open === "string" && open.startsWith("/")) return open + encodeURIComponent(point.x);
    const data = [point?.customdata].flat().find((entry) => typeof entry === "string" && entry.startsWith("/"));
    return data;
  };

  const draw = async (box) => {
    const source = document.getElementById(`${box.id}-figure`);
    if (!source) return;
    const figure = JSON.parse(source.textContent);
    let Plotly;
    try {
      Plotly = await plotly();
    } catch {
      box.textContent = "The chart library did not load; the table below has the numbers.";
      return;
    }
    document.body.append(probe);
    const known = {};
    const layout = resolve(figure.layout, known);
    layout.font = { ...layout.font, family: getComputedStyle(document.body).fontFamily };
    layout.autosize = true;
    await Plotly.react(box, resolve(figure.data, known), layout, {
      displaylogo: false,
      responsive: true,
      displayModeBar: "hover",
      // Named one by one: the default bar would offer to send the data to the library's own cloud.
      modeBarButtons: [["toImage"], ["zoom2d", "pan2d", "resetScale2d"]],
      plotlyServerURL: "",
      doubleClick: "reset",
      scrollZoom: false,
    });
    if (!box.dataset.listens) {
      box.dataset.listens = "1";
      box.on("plotly_click", (event) => {
        const url = targetOf(event.points[0]);
        if (url) location.href = url;
      });
      box.on("plotly_hover", (event) => box.classList.toggle("can-open", Boolean(targetOf(event.points[0]))));
      box.on("plotly_unhover", () => box.classList.remove("can-open"));
    }
  };

  const drawAll = (scope = document) => {
    const boxes = [...(scope.querySelectorAll?.("[data-chart]") ?? [])];
    if (scope.matches?.("[data-chart]")) boxes.push(scope);
    for (const box of boxes) draw(box);
  };

  drawAll();
  document.addEventListener("htmx:load", (event) => {
    if (event.detail.elt !== document.body) drawAll(event.detail.elt);
  });
  window.addEventListener("themechange", () => requestAnimationFrame(() => drawAll()));
})();
