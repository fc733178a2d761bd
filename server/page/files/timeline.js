// The bar under a result: play, a slider, and how many positions each step opened.
import { el } from "./dom.js";
import { calm, hue } from "./trace.js";

/** Timeline shows value 0 to max by show(value, playing), at a pace that can be seen. */
export class Timeline {
	constructor(root, show, label) {
		Object.assign(this, { root, show, label, value: 0, max: 0, goal: 0, counts: [] });
		this.button = el("button", { type: "button", className: "play", onclick: () => this.toggle() });
		this.canvas = el("canvas", { "aria-hidden": "true" });
		this.range = el("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": "Step", oninput: () => { this.pause(); this.set(+this.range.value); } });
		this.range.addEventListener("keydown", (e) => { if (e.key === " ") { e.preventDefault(); this.toggle(); } });
		this.output = el("output");
		root.append(this.button, el("div", { className: "track" }, this.canvas, this.range), this.output);
		new ResizeObserver(() => this.draw()).observe(this.canvas);
		this.pause();
	}

	/** reset begins a new run. */
	reset() {
		this.pause();
		this.max = this.goal = 0;
		this.counts = [];
		this.finished = false;
		this.following = true;
		this.set(0);
	}

	/** extend says how far the run has come, of how many; counts are for the bars. */
	extend(goal, max, counts) {
		this.goal = goal;
		this.range.max = this.max = Math.max(max, goal);
		this.counts = counts;
		this.draw();
		if (this.following) this.run();
	}

	/** finish says that the run is over, with its last value. */
	finish(goal, shown) {
		this.finished = true;
		if (shown) this.following = false;
		this.extend(goal, goal, this.counts);
		if (shown || !this.following) this.set(shown ? goal : Math.min(this.value, goal));
	}

	toggle() {
		if (this.timer) return this.pause();
		if (this.value >= this.max) this.set(0);
		this.following = true;
		this.run();
	}

	pause() {
		this.following = false;
		clearTimeout(this.timer);
		this.timer = 0;
		this.face(false);
	}

	face(playing) {
		this.root.classList.toggle("playing", playing);
		this.button.setAttribute("aria-label", playing ? "Pause" : "Play");
	}

	move(by) {
		this.pause();
		this.set(Math.max(0, Math.min(this.goal, this.value + by)));
	}

	run() {
		if (this.timer) return;
		this.face(true);
		const pace = Math.max(24, Math.min(260, 3200 / Math.max(1, this.max)));
		let before = performance.now();
		const tick = () => {
			const behind = this.goal - this.value, late = performance.now() - before;
			before += late;
			// All where motion is unwanted; several where much has come or the machine is slow.
			const by = calm.matches && !this.finished ? behind : Math.max(1, Math.ceil(behind / 120), Math.round(late / pace));
			if (behind > 0) this.set(this.value + Math.min(behind, by), true);
			if (this.value < this.goal || !this.finished) this.timer = setTimeout(tick, pace);
			else {
				this.pause();
				this.onend?.();
			}
		};
		this.timer = setTimeout(tick, this.value ? pace : 0);
	}

	set(value, playing) {
		this.range.value = this.value = value;
		this.output.textContent = this.label(value);
		this.range.setAttribute("aria-valuetext", this.output.textContent);
		this.show(value, playing);
		this.draw();
	}

	draw() {
		this.frame ||= requestAnimationFrame(() => {
			this.frame = 0;
			const c = this.canvas, scale = devicePixelRatio, w = c.width = c.clientWidth * scale, h = c.height = c.clientHeight * scale;
			const g = c.getContext("2d"), most = this.counts.reduce((a, b) => Math.max(a, b), 1), n = this.max, style = getComputedStyle(c);
			for (let i = 1; i <= n; i++) {
				const x = Math.round((i - 1) / n * w), wide = Math.round(i / n * w) - x - (w / n > 4 * scale ? scale : 0);
				const tall = Math.max(2, (this.counts[i] || 0) / most * h);
				g.fillStyle = i > this.value ? style.borderColor : `oklch(${style.getPropertyValue("--bar")} .13 ${hue(i, n)})`;
				g.fillRect(x, h - tall, Math.max(1, wide), tall);
			}
		});
	}
}
