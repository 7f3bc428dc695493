"use strict";
// Draws the page's plots. Columns and charts are as weir report has written them: see charts.rs.
(() => {
  const parse = (id) => JSON.parse(document.getElementById(id).textContent);
  const columns = parse("columns").map((column) => Array.isArray(column) ? column : new Array(column.length).fill(column.all));
  const { charts } = parse("charts");
  const root = document.documentElement;
  const DASH = [7, 4];
  /** How many times finer a plot is on paper than on the screen. */
  const PRINT_SCALE = 2;

  /** All plots on the page: what they show and, once they have come into view, their uPlot. */
  const plots = Array.from(document.querySelectorAll("[data-chart]"), (place) => ({
    place,
    chart: charts[Number(place.dataset.chart)],
    section: place.closest("section").id,
    choice: 0,
    uplot: null,
    readout: null,
  }));
  /** The stretch of time that all plots show, in ms; null for the whole run. */
  let zoom = null;
  let isPrinting = false;
  let isFollowing = false;

  const style = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const colorOf = (n) => style(`--color-${n}`);
  const scaled = (length) => isPrinting ? length * PRINT_SCALE : length;
  /** So much of one color in the other, both `#rrggbb`: areas over one another must not shine through. */
  const mixed = (one, other, share) => "#" + [1, 3, 5].map((at) => {
    const [a, b] = [one, other].map((color) => parseInt(color.slice(at, at + 2), 16));
    return Math.round(a * share + b * (1 - share)).toString(16).padStart(2, "0");
  }).join("");
  const font = (size) => `${scaled(size)}px ${getComputedStyle(document.body).fontFamily}`;

  /** With thousands parted, and as many decimals as `step` needs, or the number's size. */
  function shown(value, step) {
    if (value == null) return "–";
    const size = step ?? Math.abs(value) / 100;
    const decimals = size > 0 ? Math.min(6, Math.max(0, Math.ceil(-Math.log10(size) - 1e-9))) : 0;
    return value.toLocaleString("en-US", { minimumFractionDigits: step ? decimals : 0, maximumFractionDigits: decimals });
  }

  const tickLabels = (_, values, __, ___, step) => values.map((value) => value == null ? "" : shown(value, step));

  /** Ticks of a logarithmic axis: powers of ten, with 2 and 5 times them between few; those of a short one are as of any other. */
  function logTicks(u, _, min, max) {
    const decades = Math.log10(max / min);
    // Each decade takes some room for three numbers.
    const steps = u.width / scaled(1) / decades < 125 ? [1] : [1, 2, 5];
    const ticks = [];
    if (decades > 1.2) {
      for (let n = Math.floor(Math.log10(min)); n <= Math.ceil(Math.log10(max)); n++) steps.forEach((step) => ticks.push(step * 10 ** n));
    } else {
      const rough = 10 ** Math.floor(Math.log10((max - min) / 4));
      const step = [1, 2, 5, 10].map((times) => times * rough).find((step) => (max - min) / step <= 5);
      for (let n = Math.ceil(min / step); n * step <= max; n++) ticks.push(n * step);
    }
    return ticks.filter((tick) => tick >= min && tick <= max);
  }

  /** Steps between ticks. */
  const STEPS = Array.from({ length: 48 }, (_, n) => [1, 2, 5][n % 3] * 10 ** (Math.floor(n / 3) - 6));

  function axis(more) {
    const grid = { stroke: () => style("--grid"), width: scaled(1) };
    return {
      stroke: () => style("--dim"), incrs: STEPS, font: font(12), labelFont: font(12), labelSize: scaled(18), gap: scaled(4),
      grid, ticks: { ...grid, size: scaled(4) }, border: { show: true, stroke: () => style("--rule"), width: scaled(1) }, ...more,
    };
  }

  /** As wide as the widest of the labels. */
  function widthOf(labels) {
    const context = document.createElement("canvas").getContext("2d");
    context.font = font(12);
    return Math.max(0, ...(labels ?? []).map((label) => context.measureText(label).width)) + scaled(10);
  }

  const linesOf = (plot) => plot.chart.choices ? plot.chart.choices[plot.choice] ?? [] : plot.chart.lines;

  function seriesOf(line) {
    return {
      label: line.name,
      stroke: colorOf(line.color),
      width: scaled(line.is_filled ? 1 : 1.6),
      dash: line.is_dashed ? DASH.map(scaled) : undefined,
      fill: line.is_filled ? mixed(colorOf(line.color), style("--paper"), 0.6) : undefined,
      paths: line.is_stepped ? uPlot.paths.stepped({ align: 1 }) : undefined,
      points: { show: false },
      spanGaps: false,
      value: (_, value) => shown(value),
    };
  }

  /** Vertical lines at instants that matter, over the curves. */
  function drawMarks(u, marks) {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.strokeStyle = style("--bad");
    ctx.lineWidth = scaled(1.5);
    ctx.setLineDash([scaled(2), scaled(3)]);
    for (const mark of marks) {
      const x = u.valToPos(mark.at, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  }

  function drawBars(u, rows) {
    const { ctx, bbox } = u;
    const { min, max } = u.scales.x;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    rows.forEach((row, n) => {
      const top = u.valToPos(n + 0.16, "y", true);
      const height = u.valToPos(n + 0.84, "y", true) - top;
      for (const bars of row.bars) {
        ctx.fillStyle = colorOf(bars.color);
        for (const [from, to] of bars.spans) {
          if (to < min || from > max) continue;
          const x = u.valToPos(from, "x", true);
          const width = bars.are_ticks ? 2 : Math.max(1, u.valToPos(to, "x", true) - x);
          ctx.fillRect(x, top, width, height);
        }
      }
    });
    ctx.restore();
  }

  /** Tells of the thing under the pointer: a bar, an instant that matters, or nothing. */
  function tell(plot, u) {
    const { left, top } = u.cursor;
    if (left == null || left < 0) {
      plot.readout.textContent = "";
      return;
    }
    const at = u.posToVal(left, "x");
    const near = (u.scales.x.max - u.scales.x.min) * 4 / u.over.clientWidth;
    const told = [];
    const row = plot.chart.rows && top >= 0 ? plot.chart.rows[Math.floor(u.posToVal(top, "y"))] : null;
    if (plot.chart.rows) told.push(`${shown(at, 0.001)} ms`);
    if (row) {
      told.push(row.name);
      for (const bars of row.bars) {
        const span = bars.spans.find(([from, to]) => from - near <= at && at <= to + near);
        if (span) {
          told.push(bars.are_ticks ? `${bars.what} at ${shown(span[0], 0.001)} ms` :
            `${bars.what} from ${shown(span[0], 0.001)} to ${shown(span[1], 0.001)} ms (${shown((span[1] - span[0]) * 1e3)} us)`);
        }
      }
    }
    for (const mark of plot.chart.marks ?? []) {
      if (Math.abs(mark.at - at) <= near) told.push(mark.text);
    }
    plot.readout.textContent = told.join(" · ");
  }

  /** Makes all plots over time show what this one does. */
  function follow(u) {
    if (isFollowing) return;
    const { min, max } = u.scales.x;
    setZoom(min, max);
  }

  function setZoom(min, max) {
    zoom = min == null ? null : [min, max];
    isFollowing = true;
    for (const plot of plots) {
      if (plot.uplot && plot.chart.x.is_time) show(plot);
    }
    isFollowing = false;
    const end = document.getElementById("zoom-to");
    document.getElementById("zoom-from").value = zoom ? round(zoom[0]) : 0;
    end.value = zoom ? round(zoom[1]) : end.max;
  }

  const round = (ms) => Number(ms.toPrecision(7));

  function show(plot) {
    const [min, max] = (plot.chart.x.is_time && zoom) || [plot.chart.x.from, plot.chart.x.to];
    const { scales } = plot.uplot;
    if (scales.x.min !== min || scales.x.max !== max) plot.uplot.setScale("x", { min, max });
  }

  function showAll(plot, u) {
    u.setScale("y", yRange(plot));
    if (plot.chart.x.is_time) setZoom(null);
    else show(plot);
  }

  const yRange = ({ chart }) => chart.rows ? { min: 0, max: chart.rows.length } : { min: chart.y.from, max: chart.y.to };

  function options(plot, width) {
    const { chart } = plot;
    const { rows, categories } = chart;
    const series = [{ label: chart.x.is_time ? "ms" : chart.x.label, value: (_, value) => categories ? categories[value] ?? "–" : shown(value) }];
    if (rows) series.push({ label: "", points: { show: false } });
    else linesOf(plot).forEach((line) => series.push(seriesOf(line)));
    // A line through one sample can't be seen.
    if (!rows && (columns[chart.at] ?? []).length < 3) series.forEach((one) => { one.points = { show: true, size: scaled(6) }; });
    if (categories) series.forEach((one) => { one.points = { show: true, size: scaled(7) }; });
    const { min, max } = yRange(plot);
    const isWide = width / scaled(1) > 500;
    const x = axis({ label: chart.x.label, size: scaled(30), space: scaled(60), values: tickLabels });
    if (chart.x.is_log) Object.assign(x, { splits: logTicks, filter: (_, values) => values, values: (_, values) => values.map((value) => shown(value)) });
    if (categories) Object.assign(x, { splits: () => categories.map((_, n) => n), values: () => categories, grid: { show: false } });
    // Side by side the sizes would touch on a narrow screen.
    if (categories && width / scaled(1) < 90 * categories.length) Object.assign(x, { rotate: 35, size: scaled(62) });
    const y = axis({ label: chart.y.label, space: scaled(34), values: tickLabels, size: (_, labels) => widthOf(labels) });
    if (rows) {
      Object.assign(y, { label: undefined, splits: () => rows.map((_, n) => n + 0.5), values: () => rows.map((row) => row.name), space: 1, grid: { show: false }, ticks: { show: false } });
      // On a narrow screen a name may take a third.
      y.size = (_, labels) => Math.min(widthOf(labels), width / 3);
    }
    const range = (given) => (_, from, to) => from == null ? given : [from, to];
    return {
      width,
      height: scaled(rows ? rows.length * 18 + 52 : isWide ? 300 : 250),
      padding: [scaled(8), scaled(12), 0, 0],
      scales: {
        x: { time: false, auto: false, min: chart.x.from, max: chart.x.to, distr: chart.x.is_log ? 3 : 1, range: range([chart.x.from, chart.x.to]) },
        // Rows are read from the top.
        y: { auto: false, min, max, dir: rows ? -1 : 1, range: range([min, max]) },
      },
      axes: [x, y],
      series,
      legend: { show: !rows, markers: { width: 2, dash: (u, n) => u.series[n].dash ? "dashed" : "solid" } },
      cursor: {
        sync: chart.x.is_time ? { key: "time", scales: ["x", null], setSeries: false } : undefined,
        drag: { x: true, y: !rows, uni: 40 },
        points: { show: !rows },
        y: false,
        bind: { dblclick: (u) => () => { showAll(plot, u); return null; } },
      },
      hooks: {
        draw: [(u) => { if (rows) drawBars(u, rows); if (chart.marks) drawMarks(u, chart.marks); }],
        setCursor: [(u) => tell(plot, u)],
        setScale: [(u, key) => { if (key === "x" && chart.x.is_time && u.status === 1) follow(u); }],
      },
    };
  }

  function draw(plot) {
    discard(plot);
    const { chart, place } = plot;
    const width = isPrinting ? printWidth(place) : Math.max(200, place.clientWidth);
    const data = chart.rows ? [[chart.x.from, chart.x.to], [null, null]] :
      [columns[chart.at] ?? [], ...linesOf(plot).map((line) => columns[line.column])];
    plot.readout = document.createElement("div");
    plot.readout.className = "readout";
    plot.uplot = new uPlot(options(plot, width), data, place);
    place.append(plot.readout);
    if (isPrinting) plot.uplot.root.style.zoom = 1 / PRINT_SCALE;
    show(plot);
    byTouch(plot);
  }

  function discard(plot) {
    plot.uplot?.destroy();
    plot.readout?.remove();
    plot.uplot = null;
  }

  /** Half of a page, or all of it: A4 has 186 mm between the margins, 703 px. */
  function printWidth(place) {
    return (place.closest(".plots").classList.contains("single") ? 690 : 338) * PRINT_SCALE;
  }

  /** uPlot knows the mouse only: a finger that moves sideways does what the mouse does. It leaves out moves of no length. */
  function byTouch({ uplot }) {
    const { over } = uplot;
    const pass = (type, touch) => over.dispatchEvent(new MouseEvent(type, { clientX: touch.clientX, clientY: touch.clientY, movementX: 1, button: 0, bubbles: true }));
    over.addEventListener("touchstart", (event) => { pass("mousemove", event.touches[0]); pass("mousedown", event.touches[0]); }, { passive: true });
    over.addEventListener("touchmove", (event) => pass("mousemove", event.touches[0]), { passive: true });
    over.addEventListener("touchend", (event) => pass("mouseup", event.changedTouches[0]), { passive: true });
    over.addEventListener("touchcancel", (event) => pass("mouseup", event.changedTouches[0]), { passive: true });
  }

  const redraw = () => plots.filter((plot) => plot.uplot).forEach(draw);

  // A plot is drawn when it comes near the window: of many runs there are hundreds.
  const watcher = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      const plot = plots.find(({ place }) => place === target);
      if (isIntersecting && !plot.uplot) draw(plot);
    }
  }, { rootMargin: "600px" });
  plots.forEach(({ place }) => watcher.observe(place));

  let resized;
  new ResizeObserver(() => {
    clearTimeout(resized);
    resized = setTimeout(() => {
      if (isPrinting) return;
      for (const { place, uplot } of plots) {
        if (uplot && uplot.width !== place.clientWidth) uplot.setSize({ width: place.clientWidth, height: uplot.height });
      }
    }, 80);
  }).observe(document.querySelector("main"));

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

  const form = document.getElementById("zoom");
  form?.addEventListener("submit", (event) => {
    event.preventDefault();
    const [from, to] = ["zoom-from", "zoom-to"].map((id) => Number(document.getElementById(id).value));
    if (from < to) setZoom(from, to);
  });
  form?.addEventListener("reset", (event) => { event.preventDefault(); setZoom(null); });

  for (const select of document.querySelectorAll("select[data-section]")) {
    const { section } = select.dataset;
    const choose = () => {
      for (const plot of plots.filter((plot) => plot.section === section)) {
        plot.choice = select.selectedIndex;
        if (plot.uplot) draw(plot);
      }
      document.querySelector(`[data-choice="${section}"]`).textContent = select.options[select.selectedIndex].text;
    };
    select.addEventListener("change", choose);
    choose();
  }

  // On paper all is open, and all plots are there, in the light scheme.
  let unfolded = [];
  addEventListener("beforeprint", () => {
    isPrinting = true;
    root.classList.add("printing");
    unfolded = Array.from(document.querySelectorAll("details:not([open])"));
    unfolded.forEach((details) => { details.open = true; });
    plots.forEach(draw);
  });
  addEventListener("afterprint", () => {
    isPrinting = false;
    root.classList.remove("printing");
    unfolded.forEach((details) => { details.open = false; });
    redraw();
  });

  // For whoever drives the page by a script.
  window.weirReport = { plots, setZoom };
})();
