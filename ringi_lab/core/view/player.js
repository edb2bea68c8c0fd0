/* Replays a time line (schema ringi-trace/1, times in seconds). One classic script for every front end:
   a page upgrades each .ringi-player once it is loaded, a notebook's widget calls RingiPlayer.mount. */
(() => {
"use strict";
const SCHEMA = "ringi-trace/1";
const WALL = 8; // seconds for a whole trace at speed 1
const MAX_ROWS = 200, MAX_SAID = 8; // in the text table; in one sentence
// Every word a reader meets; a translation sets window.RingiWords beforehand.
const W = {
	play: "Play", pause: "Pause", back: "Step back", next: "Step forward", restart: "Restart", speed: "Speed",
	zoomIn: "Zoom in", zoomOut: "Zoom out", scrub: "Time", of: "of", slowed: "slowed",
	idle: "nothing active", done: "all done", empty: "Nothing happened in this time line.",
	text: "Time line as text", lane: "Lane", what: "What", start: "Start", end: "End", more: "more not listed", keys: "Up and down arrows walk through it.",
	upTo: "up to", ...globalThis.RingiWords,
};
const buttons = (...names) => names.map((n) => `<button class="rp-${n}" title="${W[n]}"></button>`).join("");
const HTML = `<div class="rp-live" role="group" data-lm-suppress-shortcuts="true">
<div class="rp-header"><div class="rp-title"></div><span class="rp-badge"></span></div><ul class="rp-legend"></ul>
<div class="rp-stage" tabindex="0" role="group"><canvas aria-hidden="true"></canvas><div class="rp-head" aria-hidden="true"></div>
<div class="rp-tip" aria-hidden="true" hidden></div></div>
<input class="rp-scrub" type="range" max="1000" aria-label="${W.scrub}"><div class="rp-now" aria-hidden="true"></div>
<div class="rp-controls">${buttons("restart", "back", "play", "next")}<span class="rp-clock"></span>
<span class="rp-pace"></span><select class="rp-speed" aria-label="${W.speed}">${[0.1, 0.25, 0.5, 1, 2, 4].map((s) => `<option value="${s}">${s}×`).join("")}</select>${buttons("zoomOut", "zoomIn")}</div>
<div class="rp-hidden" role="status"></div><details class="rp-text"><summary>${W.text}</summary>
<div class="rp-table" tabindex="0" role="region" aria-label="${W.text}"></div></details></div>`;

// ---- numbers for people: GB/s = 1e9 B/s, sizes in MiB; still.py says the same ----
const sig = (x, n = 3) => String(+x.toPrecision(n));
const TIMES = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
const timeUnit = (x) => TIMES.find(([u]) => Math.abs(x) >= u * 0.9999) || TIMES[3];
const time = (x) => { const [u, name] = timeUnit(x); return x ? `${sig(x / u, 4)} ${name}` : "0 s"; };
function value(v, unit) {
	const scaled = (base, prefixes) => {
		let i = 0;
		for (; Math.abs(v) >= base * 0.9995 && i < prefixes.length - 1; i++) v /= base;
		return `${sig(v)} ${prefixes[i]}${unit}`;
	};
	if (unit === "s") return time(v);
	if (unit === "B") return scaled(1024, ["", "Ki", "Mi", "Gi", "Ti"]);
	if (/\/s$|^(Hz|W|J|FLOP)$/.test(unit)) return scaled(1000, ["", "k", "M", "G", "T", "P"]);
	return `${sig(v, 4)} ${unit}`.trim();
}

const clamp = (x, a, b) => Math.min(Math.max(x, a), b);
function make(tag, text, ...kids) {
	const node = document.createElement(tag);
	node.append(text, ...kids);
	return node;
}
const canvasOf = (width, height) => Object.assign(make("canvas", ""), { width, height });
function isDark() { // the page's own theme (Sphinx, JupyterLab, VS Code) wins over the system's
	const { documentElement: html, body } = document, says = [html.dataset.theme, body.dataset.jpThemeLight, body.className].join();
	return /^dark|,false|vscode-dark/.test(says)
		|| (!/^light|,true|vscode-light/.test(says) && matchMedia("(prefers-color-scheme: dark)").matches);
}
function fingerprint(text) { // FNV-1a and the length: enough to tell the traces of one page apart
	let sum = 0x811c9dc5;
	for (let i = 0; i < text.length; i++) sum = Math.imul(sum ^ text.charCodeAt(i), 0x01000193);
	return `${(sum >>> 0).toString(16)}-${text.length.toString(16)}`;
}
/* What does not depend on how a trace is drawn. */
function study(trace) {
	if (trace?.schema !== SCHEMA) throw new Error(`RingiPlayer: schema = ${trace?.schema}: must be ${SCHEMA}`);
	const rising = (a, b) => a - b, byStart = (a, b) => a.start - b.start || a.end - b.end;
	const span = ([lane, name, start, end, kind, args]) => ({ lane, name, start, end, kind, args });
	const spans = trace.spans.map(span).sort(byStart);
	const events = trace.events.map(([lane, name, at, ...rest]) => ({ ...span([lane, name, at, at, ...rest]), instant: true }));
	const all = [...spans, ...events].sort(byStart), edges = all.flatMap((s) => [s.start, s.end]);
	const times = trace.counters.flatMap((k) => k.points.map((p) => p[0])).concat(edges).sort(rising);
	const start = times[0] || 0, end = times.at(-1) || 0, eps = (end - start) * 1e-9;
	// Spans that overlap on a lane get rows of their own, so that none hides another.
	const rows = trace.lanes.map(() => []);
	for (const s of spans) {
		const ends = rows[s.lane], free = ends.findIndex((t) => t <= s.start + eps * 1e3);
		s.row = free < 0 ? ends.length : free;
		ends[s.row] = s.end;
	}
	const counters = trace.counters.map((k, i) => {
		const peak = k.points.reduce((a, p) => Math.max(a, p[1]), 0);
		return { ...k, lane: rows.length + i, peak, top: k.max || peak || 1 };
	});
	return {
		...trace, spans, events, counters, all, start, end, eps, empty: !(end > start), stops: [start, end, ...edges].sort(rising),
		rows: rows.map((r) => r.length || 1), names: [...trace.lanes, ...counters.map((k) => k.name)],
		kinds: [...new Set(trace.spans.map((s) => s[4]))], marks: [...new Set(events.map((e) => e.kind))],
	};
}

/* Shows a trace in an element; options: speed, height of the drawing (px), alt (its text). */
function mount(root, firstTrace, { speed = 1, height = 0, alt = "" } = {}) {
	let M, L, P, looks, c, dpr = 1; // model, layout, palette; c: the canvas context being drawn on
	let t, d0, d1, v0, v1; // play-head; d: the whole axis; v: the part of it in view
	let playing = false, seen = true, picked, hovered;
	let raf, timer, later, last, shown = 0;
	speed = +speed || 1;
	const off = new AbortController();
	const on = (target, type, act, how) => target.addEventListener(type, act, { signal: off.signal, ...how });
	const calm = matchMedia("(prefers-reduced-motion: reduce)");
	study(firstTrace); // throws before anything is changed
	root.insertAdjacentHTML("afterbegin", HTML);
	const box = root.firstChild, put = (name, text) => { part(name).textContent = text; }, part = (name) => box.querySelector(`.rp-${name}`);
	const [stage, head, tip, scrub, pick, table, legend, details] =
		["stage", "head", "tip", "scrub", "speed", "table", "legend", "text"].map(part);
	const canvas = stage.firstChild, screen = canvas.getContext("2d"), layers = [canvasOf(1, 1), canvasOf(1, 1)];
	const acts = {
		restart: () => seek(M.start), back: () => step(-1), play: () => (playing ? pause() : play()), next: () => step(1),
		zoomOut: () => zoom(0.5), zoomIn: () => zoom(2),
	};
	for (const name in acts) on(part(name), "click", acts[name]);
	pick.value = speed;

	// ---- drawing: a frame only joins two kept layers (done: full, ahead: pale) at the play-head ----
	const X = (time) => L.x0 + ((time - v0) / (v1 - v0)) * (L.x1 - L.x0);
	const T = (event) => v0 + ((event.offsetX - L.x0) / (L.x1 - L.x0)) * (v1 - v0);
	const font = (size, weight = 400) => { c.font = `${weight} ${size}px ${P.font}`; };
	const shape = (x, y, w, h, r = 0) => { c.beginPath(); c.roundRect(x, y, w, h, r); };
	const rect = (fill, x, y, w, h, r) => { shape(x, y, w, h, r); c.fillStyle = fill; c.fill(); };
	const write = (text, x, y, fill, align) => { c.fillStyle = fill; c.textAlign = align; c.fillText(text, x, y); };
	const stroke = (style, width) => { c.strokeStyle = style; c.lineWidth = width; c.stroke(); };
	const Y = (k, v) => L.rows[k.lane].y + 42 - clamp(v / k.top, 0, 1) * 38;
	const fit = (text, room) => {
		const whole = c.measureText(text).width, keep = Math.floor((text.length * room) / whole) - 1;
		return whole <= room ? text : keep < 3 ? "" : text.slice(0, keep) + "…";
	};
	function hatch(line) {
		const size = 8 * dpr, tile = canvasOf(size, size);
		c = tile.getContext("2d");
		for (const o of [-size, 0, size]) { c.moveTo(o - 1, size + 1); c.lineTo(o + size + 1, -1); }
		stroke(line, 1.3 * dpr);
		const pattern = c.createPattern(tile, "repeat");
		pattern.setTransform(new DOMMatrix().scale(1 / dpr)); // drawn in device pixels: crisp
		return pattern;
	}
	function restyle() {
		box.toggleAttribute("data-dark", isDark());
		const css = getComputedStyle(box), colour = (name) => css.getPropertyValue(`--rp-${name}`).trim();
		P = {};
		for (const name of ["font", "bg", "ink", "mute", "line", "lane", "accent", "head", "counter", M.source]) P[name] = colour(name);
		const known = colour("kinds").split(" "), others = [0, 1, 2].map((i) => colour(`other-${i}`));
		const rest = M.kinds.filter((k) => !known.includes(k));
		looks = new Map(known.concat(rest).filter((k) => M.kinds.includes(k)).map((kind) => {
			const i = rest.indexOf(kind), [fill, text] = (i < 0 ? colour(`kind-${kind}`) : others[i % 3]).split(" ");
			// Waiting is not work: only a hatch.
			if (kind === "wait") return [kind, { wait: true, hatch: hatch(fill), edge: fill, text: P.ink }];
			return [kind, { fill, text, edge: `${P.ink}70`, hatch: i > 2 && hatch(`${text}90`) }];
		}));
		legend.replaceChildren(...[...looks.keys(), ...M.marks].map((kind, i) => {
			const swatch = canvasOf(18 * dpr, 12 * dpr);
			c = swatch.getContext("2d");
			c.scale(dpr, dpr);
			if (i < looks.size) bar(0.5, 0.5, 17, 11, looks.get(kind), 1); else mark(9, 6, kind);
			return make("li", swatch, kind);
		}));
	}
	function bar(x, y, w, h, look, alpha) {
		const edged = w > 5 && h > 8; // an edge, for hues that are close to the background
		c.globalAlpha = alpha;
		for (const fill of [look.fill, look.hatch]) if (fill) rect(fill, x, y, w, h, edged * 3);
		c.globalAlpha = Math.min(1, alpha * 1.8);
		if (edged) { shape(x + 0.5, y + 0.5, w - 1, h - 1, 2.5); stroke(look.edge, 1); }
		c.globalAlpha = 1;
	}
	function mark(x, y, kind) {
		const round = (M.marks.indexOf(kind) % 2) * 5; // diamond or disc
		c.save();
		c.translate(x, y);
		c.rotate(Math.PI / 4);
		rect(P.bg, -4.5, -4.5, 9, 9, round);
		rect(P.ink, -3.5, -3.5, 7, 7, round);
		c.restore();
	}
	function layout() {
		const w = stage.clientWidth || 200, narrow = w < 560, above = narrow && M.lanes.length < 13;
		c = screen;
		font(12);
		const widest = Math.max(...M.names.concat(M.counters.map((k) => value(k.top * 1.1, k.unit))).map((s) => c.measureText(s).width + 14)), half = (r) => (r + 1) / 2;
		const depth = height ? height - 30 - M.counters.length * 54 : 420, share = M.rows.reduce((a, r) => a + half(r), 0);
		const unit = clamp(Math.floor(depth / share) - (above ? 18 : 6), 5, height ? 60 : 30), gap = unit > 12 ? 6 : unit > 8 ? 2 : 0;
		let y = 26;
		L = { w, above, x0: above ? 2 : Math.round(Math.min(widest, w * (narrow ? 0.22 : 0.3))), x1: w - 2 };
		L.rows = M.names.map((_, i) => {
			const n = M.rows[i], h = n ? Math.round(unit * half(n)) : 42, row = { y: y += above ? (n ? 17 : 20) : n ? 0 : 6, h, bar: h / n };
			y += h + (n ? gap : 0);
			return row;
		});
		L.h = y + 4;
	}
	function place(s) {
		const r = L.rows[s.lane], x = X(s.start), w = X(s.end) - x, pad = r.bar > 8 ? 1 : 0.5;
		return s.instant ? { x: x - 5, y: r.y, w: 10, h: r.h }
			: { x, y: r.y + s.row * r.bar + pad, w: Math.max(w > 4 ? w - 0.75 : w, 1), h: Math.max(r.bar - 2 * pad, 2) };
	}
	function paint(full) {
		const { x0, x1, h, above } = L, alpha = full ? 1 : 0.26;
		c.setTransform(dpr, 0, 0, dpr, 0, 0);
		rect(P.bg, 0, 0, L.w, h);
		for (const r of L.rows) rect(P.lane, x0, r.y, x1 - x0, r.h);
		c.textBaseline = "middle";
		font(11);
		const span = v1 - v0, [u, unit] = timeUnit(Math.max(Math.abs(v0), Math.abs(v1))), least = (span * 84) / (x1 - x0);
		const ten = 10 ** Math.floor(Math.log10(least)), gap = [1, 2, 5, 10].find((m) => m * ten >= least) * ten;
		const places = clamp(-Math.floor(Math.log10(gap / u) + 1e-9), 0, 9);
		for (let k = Math.ceil(v0 / gap - 1e-9); k * gap <= v1 + span * 1e-9; k++) {
			const text = k ? `${((k * gap) / u).toFixed(places)} ${unit}` : "0", x = Math.round(X(k * gap)), half = c.measureText(text).width / 2;
			rect(P.line, x, 20, 1, h - 24);
			write(text, clamp(x, above ? x0 + half : x0, x1 - half), 10, P.mute, "center");
		}
		font(12);
		let free = 0;
		L.rows.forEach((r, i) => {
			const y = above ? r.y - 9 : r.y + (M.rows[i] ? r.h / 2 : 12);
			if (y < free) return; // rows thinner than a line of text: name some of them
			free = y + 13;
			write(fit(M.names[i], above ? (x1 - x0) * 0.6 : x0 - 10), above ? x0 + 4 : x0 - 8, y, P.ink, above ? "left" : "right");
		});
		c.save();
		shape(x0, 0, x1 - x0, h, 0);
		c.clip();
		const inView = (s) => s.end >= v0 && s.start <= v1;
		for (const s of M.spans.filter(inView)) {
			const { x, y, w, h } = place(s), look = looks.get(s.kind), left = Math.max(x, x0);
			bar(x, y, w, h, look, alpha);
			if (w < 22 || h < 11) continue;
			font(h < 15 ? 9.5 : 11.5);
			const text = fit(s.name, Math.min(x + w, x1) - left - 8);
			if (look.wait && text) rect(P.lane, left + 3, y + 2, c.measureText(text).width + 4, h - 4);
			write(text, left + 5, y + h / 2 + 0.5, full ? look.text : P.mute, "left");
		}
		c.globalAlpha = full ? 1 : 0.4;
		for (const e of M.events.filter(inView)) {
			const { x, y, h } = place(e);
			rect(P.ink, x + 4.5, y - 2, 1, h + 4);
			mark(x + 5, y + h / 2, e.kind);
		}
		for (const k of M.counters) {
			const { y } = L.rows[k.lane], foot = y + 42;
			let from = foot;
			c.beginPath();
			for (const [at, v] of k.points) { c.lineTo(X(at), from); c.lineTo(X(at), from = Y(k, v)); }
			c.lineTo(X(M.end), from);
			c.globalAlpha = alpha;
			stroke(P.counter, 1.5);
			c.lineTo(X(M.end), foot);
			c.globalAlpha = alpha * 0.28;
			c.fillStyle = P.counter;
			c.fill();
			c.globalAlpha = 1;
			if (k.max == null) continue;
			rect(P.mute, x0, y + 3.5, x1 - x0, 0.5);
			font(10);
			write(`max ${value(k.max, k.unit)}`, x1 - 4, y + 11, P.mute, "right");
		}
		c.restore();
		// Framed like the badge: a simulated picture looks drawn even when cut out of its page.
		c.setLineDash(M.source === "simulated" ? [5, 4] : []);
		shape(x0 - 0.5, 20.5, x1 - x0 + 1, h - 24.5, 0);
		stroke(P[M.source], 1);
	}
	function rebuild() {
		dpr = Math.min(devicePixelRatio || 1, 3);
		restyle();
		layout();
		for (const one of [canvas, ...layers]) Object.assign(one, { width: L.w * dpr, height: L.h * dpr });
		canvas.style.height = `${L.h}px`;
		scrub.style.setProperty("--rp-x0", `${L.x0}px`);
		layers.forEach((layer, i) => { c = layer.getContext("2d"); paint(i); });
		show(true);
	}
	const active = () => M.spans.filter((s) => s.start <= t + M.eps && s.end > t + M.eps).sort((a, b) => a.lane - b.lane);
	function draw(busy) {
		const { x0, x1, above } = L, { width: w, height: h } = canvas, x = X(t), cut = clamp(Math.round(x * dpr), 0, w);
		c = screen;
		c.setTransform(1, 0, 0, 1, 0, 0);
		c.drawImage(layers[0], cut, 0, w - cut, h, cut, 0, w - cut, h);
		c.drawImage(layers[1], 0, 0, cut, h, 0, 0, cut, h);
		c.setTransform(dpr, 0, 0, dpr, 0, 0);
		c.textBaseline = "middle";
		c.save();
		shape(x0 - 2, 0, x1 - x0 + 4, L.h, 0);
		c.clip();
		const ring = (s, style, width) => { const { x, y, w, h } = place(s); shape(x - 1, y - 1, w + 2, h + 2, 4); stroke(style, width); };
		for (const s of busy) ring(s, P.ink, 2);
		for (const s of [hovered, picked]) if (s) ring(s, P.accent, 3);
		c.restore();
		head.hidden = x < x0 - 1 || x > x1 + 1;
		head.style.cssText = `transform: translateX(${x}px); --rp-at: ${x / L.w}`;
		head.dataset.at = time(t);
		for (const k of M.counters) {
			const v = k.points.findLast((p) => p[0] <= t)?.[1], { y } = L.rows[k.lane];
			if (v == null) continue;
			font(12, 650);
			write(value(v, k.unit), above ? x1 - 4 : x0 - 8, above ? y - 9 : y + 28, P.counter, "right");
		}
	}

	// ---- what the page says besides the picture ----
	const facts = (s) => (s.instant ? time(s.start) : `${time(s.start)} – ${time(s.end)} (${time(s.end - s.start)})`);
	const said = (busy) => busy.slice(0, MAX_SAID).map((s) => `${M.lanes[s.lane]}: ${s.name}`).join("; ")
		+ (busy.length > MAX_SAID ? ` +${busy.length - MAX_SAID}` : "") || (t >= M.end ? W.done : W.idle);
	function announce() {
		later = 0;
		scrub.setAttribute("aria-valuetext", `${time(t)} ${W.of} ${time(M.end)}`);
		put("hidden", picked ? `${said([picked])}, ${facts(picked)}` : `${time(t)}: ${said(active())}`);
	}
	function show(force) {
		const busy = active(), stamp = performance.now(), share = (t - d0) / (d1 - d0);
		draw(busy);
		scrub.value = share * 1000;
		scrub.style.setProperty("--rp-done", `${share * 100}%`);
		put("clock", `${time(t)} / ${time(M.end)}`);
		if (!force && stamp - shown < 100) return;
		shown = stamp;
		root.dataset.time = +t.toPrecision(9);
		put("now", said(busy));
		// A screen reader must not be flooded: soon after a step, every few seconds while it plays.
		if (!playing) { clearTimeout(later); later = 0; }
		later ||= setTimeout(announce, playing ? 2500 : 250);
	}
	function listAsText() {
		const { traceHash } = root.dataset;
		if (!details.open || table.dataset.of === traceHash) return;
		table.dataset.of = traceHash;
		const rows = M.all.slice(0, MAX_ROWS).map((s) => [M.lanes[s.lane], s.name, time(s.start), s.instant ? "" : time(s.end)]);
		const lines = M.all.length > MAX_ROWS ? [`+ ${M.all.length - MAX_ROWS} ${W.more}`] : [];
		for (const k of M.counters) lines.push(`${k.name}: ${W.upTo} ${value(k.peak, k.unit)}`);
		const cells = [[W.lane, W.what, W.start, W.end], ...rows].map((r, i) => make("tr", "", ...r.map((text) => make(i ? "td" : "th", text))));
		table.replaceChildren(make("table", "", ...cells), ...lines.map((text) => make("p", text)));
	}
	function showTip(s, x, y) {
		tip.hidden = !s;
		if (!s) return;
		const plain = (key, v) => (typeof v === "number" ? value(v, /(^|_)bytes$/.test(key) ? "B" : "") : v?.trim ? v : JSON.stringify(v));
		const lines = Object.entries(s.args || {}).map(([key, v]) => `${key}: ${plain(key, v)}`);
		tip.replaceChildren(make("b", s.name), ...[`${M.lanes[s.lane]} · ${s.kind}`, facts(s), ...lines].map((text) => make("span", text)));
		tip.style.transform = `translate(${clamp(x + 14, 0, Math.max(0, L.w - tip.offsetWidth))}px, ${y + 16}px)`;
	}
	function label() {
		const source = `${W[M.source] ?? M.source} · ${M.device}`;
		put("title", M.title);
		put("badge", source);
		part("badge").dataset.source = M.source;
		box.setAttribute("aria-label", `${M.title}: ${source}`);
		stage.setAttribute("aria-label", `${alt || M.title} ${W.keys}`);
		for (const name in acts) part(name).disabled = M.empty;
		const slow = WALL / (d1 - d0) / speed, [u, name] = timeUnit(d1 - d0);
		put("pace", M.empty ? W.empty : `1 ${name} = ${sig(u * slow, 2)} s · ${W.slowed} ${(+sig(slow, 2)).toLocaleString("en")}×`);
	}

	// ---- time ----
	function seek(time) { picked = null; go(clamp(+time || 0, M.start, M.end), true); }
	function go(time, force) {
		t = time;
		if (t < v0 || t > v1) look(t - (v1 - v0) * 0.08, v1 - v0); // a zoomed view turns its page
		show(force);
	}
	function look(from, span) { v0 = clamp(from, d0, d1 - span); v1 = v0 + span; rebuild(); }
	function zoom(factor, at = t) {
		const span = clamp((v1 - v0) / factor, (d1 - d0) / 4096, d1 - d0);
		look(at - span * clamp((at - v0) / (v1 - v0), 0, 1), span);
	}
	function step(way) {
		const near = M.eps * 2;
		pause();
		seek(way > 0 ? M.stops.find((x) => x > t + near) ?? M.end : M.stops.findLast((x) => x < t - near) ?? M.start);
	}
	function play() { if (!M.empty) { if (t >= M.end) t = M.start; run(true); } }
	function pause() { run(false); }
	function run(state) {
		playing = state;
		if (state) picked = null;
		part("play").title = W[state ? "pause" : "play"];
		root.toggleAttribute("data-playing", state);
		resume();
		go(t, true);
	}
	function resume() { // runs only while someone can see it
		cancelAnimationFrame(raf);
		clearTimeout(timer);
		if (!playing || !seen || document.hidden) return;
		last = performance.now();
		if (calm.matches) timer = setTimeout(leap, 500 / speed); else raf = requestAnimationFrame(tick);
	}
	function tick(stamp) {
		const dt = clamp(stamp - last, 0, 100) / 1000; // after a stall go on from here, do not jump
		last = stamp;
		raf = requestAnimationFrame(tick);
		advance(t + (dt * speed * (d1 - d0)) / WALL);
	}
	function leap() { // reduced motion: at most sixteen moments, nothing sweeps
		timer = setTimeout(leap, 500 / speed);
		advance(M.stops.find((x) => x >= t + (M.end - M.start) / 16) ?? M.end);
	}
	function advance(to) { go(Math.min(to, M.end)); if (t >= M.end) pause(); }

	function setTrace(next) {
		const first = !M, atEnd = first || t >= M.end;
		M = study(next);
		const a = M.start > 0 && M.start < 0.3 * M.end ? 0 : M.start;
		// The axis stays while the new trace suits it: a changed parameter shows as longer or shorter bars.
		if (first || a !== d0 || M.end > d1 || M.end < 0.4 * d1) [d0, d1] = [a, M.empty ? a + 1e-6 : M.end];
		[v0, v1] = [d0, d1];
		t = atEnd ? M.end : clamp(t, M.start, M.end);
		picked = hovered = null;
		showTip(null);
		if (!first) root.querySelector(".ringi-still")?.remove(); // it shows the old one
		root.dataset.traceHash = fingerprint(JSON.stringify(next));
		label();
		rebuild();
		listAsText();
	}
	function destroy() {
		M.empty = true; // nothing left to play
		pause();
		off.abort();
		clearTimeout(later);
		for (const watcher of watchers) watcher.disconnect();
		box.remove();
		for (const name of ["rpLive", "playing"]) delete root.dataset[name];
		delete root.ringi;
	}

	// ---- pointer and keys ----
	const leave = () => { picked = hovered = null; showTip(null); if (!playing) show(true); };
	on(stage, "pointerdown", (e) => { if (!e.button) { stage.setPointerCapture(e.pointerId); seek(T(e)); } });
	on(stage, "pointermove", (e) => {
		const { offsetX: x, offsetY: y } = e, was = hovered;
		hovered = M.all.findLast((s) => {
			const p = place(s);
			return x >= L.x0 && x >= p.x - 2 && x <= p.x + p.w + 2 && y >= p.y && y <= p.y + p.h;
		});
		showTip(hovered, x, y);
		if (stage.hasPointerCapture(e.pointerId)) seek(T(e)); else if (was !== hovered && !playing) show(true);
	});
	for (const type of ["pointerleave", "blur"]) on(stage, type, leave);
	on(stage, "wheel", (e) => {
		if (e.ctrlKey || e.metaKey) { e.preventDefault(); zoom(e.deltaY < 0 ? 1.25 : 0.8, T(e)); }
	}, { passive: false });
	on(scrub, "input", () => seek(d0 + (scrub.value / 1000) * (d1 - d0)));
	on(pick, "change", () => { speed = +pick.value; label(); resume(); });
	on(details, "toggle", listAsText);
	function walk(way) { // the keyboard's way to hover
		const from = picked ? M.all.indexOf(picked) + way : M.all.findIndex((s) => s.start >= t - M.eps);
		const s = M.all.at(from % M.all.length);
		if (!s) return;
		pause();
		seek(s.start);
		picked = s;
		const p = place(s);
		showTip(s, Math.max(p.x, L.x0) - 14, p.y + p.h - 8);
		show(true);
	}
	const keys = {
		" ": acts.play, ArrowLeft: acts.back, ArrowRight: acts.next, Home: acts.restart, End: () => seek(M.end),
		"+": acts.zoomIn, "=": acts.zoomIn, "-": acts.zoomOut, Escape: leave,
	};
	on(box, "keydown", (e) => {
		const { target, key } = e, way = { ArrowUp: -1, ArrowDown: 1 }[key];
		if (e.altKey || e.ctrlKey || e.metaKey || M.empty || target === pick || details.contains(target)) return;
		if (key === " " && target.tagName === "BUTTON") return; // Space presses a button
		if (way && target === stage) walk(way); else if (keys[key]) keys[key](); else return;
		e.preventDefault();
		e.stopPropagation(); // a notebook must not also act on it
	});

	// ---- the page around it ----
	root.classList.add("ringi-player");
	root.dataset.rpLive = "";
	setTrace(firstTrace);
	const theme = new MutationObserver(() => { if (isDark() !== box.hasAttribute("data-dark")) rebuild(); }), watchers = [
		theme, new ResizeObserver(() => { if (stage.clientWidth !== L.w) rebuild(); }),
		new IntersectionObserver((list) => { seen = list.at(-1).isIntersecting; resume(); }),
	];
	for (const node of [document.documentElement, document.body]) theme.observe(node, { attributes: true });
	for (const watcher of watchers.slice(1)) watcher.observe(stage);
	on(matchMedia("(prefers-color-scheme: dark)"), "change", rebuild);
	on(calm, "change", resume);
	on(document, "visibilitychange", resume);
	return (root.ringi = { setTrace, play, pause, seek, destroy });
}

function upgrade() {
	for (const root of document.querySelectorAll(".ringi-player")) {
		try {
			const data = root.querySelector("script[type='application/json']");
			if (data && !root.ringi) mount(root, JSON.parse(data.textContent), { ...root.dataset, alt: root.querySelector("img")?.alt });
		} catch (error) {
			console.error(error); // and the still stays
		}
	}
}
globalThis.RingiPlayer = { mount, upgrade, format: { time, value } };
if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", upgrade); else upgrade();
})();
