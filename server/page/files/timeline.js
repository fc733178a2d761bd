// The bar under a result: play and a slider.
import { button, el } from "./dom.js";
import { calm } from "./trace.js";

/** Timeline shows value 0 to max by show(value, playing), at a pace that can be seen. */
export class Timeline {
	constructor(root, show, label) {
		Object.assign(this, { root, show, label, value: 0, max: 0, goal: 0, first: () => 0 }); // first is the value at which there is something to see
		this.button = button("", () => this.toggle(), { className: "play" });
		this.range = el("input", { type: "range", min: 0, max: 0, value: 0, ariaLabel: "Step", oninput: () => this.move(+this.range.value - this.value) });
		this.range.onkeydown = (e) => { if (e.key === " ") { e.preventDefault(); this.toggle(); } };
		this.output = el("output");
		root.append(this.button, this.range, this.output);
		this.pause();
	}

	/** settled resolves when all that has come was shown, or the reader has taken over. */
	settled() { return this.value >= this.goal || !this.following ? Promise.resolve() : new Promise((r) => { this.waiting = r; }); }

	/** reset begins a new run. */
	reset() {
		this.pause();
		this.max = this.goal = 0;
		this.finished = false;
		this.following = true;
		this.set(0);
	}

	/** extend says how far the run has come, of how many. */
	extend(goal, max) {
		this.goal = goal;
		this.range.max = this.max = Math.max(max, goal);
		if (this.following) this.run();
	}

	/** finish says the last value, and with shown goes there at once. What is there already is shown again, as complete. */
	finish(goal, shown) {
		this.finished = true;
		if (shown) this.following = false;
		this.extend(goal, goal);
		if (!this.following || this.value === goal) this.set(shown ? goal : Math.min(this.value, goal));
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
		this.waiting?.();
	}

	face(playing) {
		this.root.classList.toggle("playing", playing);
		this.button.ariaLabel = playing ? "Pause" : "Play";
	}

	move(by) {
		this.pause();
		this.set(Math.max(0, Math.min(this.goal, this.value + by)));
	}

	run() {
		if (this.timer) return;
		this.face(true);
		const pace = Math.max(24, Math.min(260, 3200 / Math.max(1, this.max)));
		let before = performance.now(), wait = 0;
		const tick = () => {
			const behind = this.goal - this.value, late = performance.now() - before;
			before += late;
			// Drawing takes a third of the time at most.
			wait = Math.max(pace, 2 * (late - wait));
			// All where motion is unwanted; several where much came.
			const by = calm.matches && !this.finished ? behind : Math.max(1, Math.ceil(behind / 120), Math.round(late / pace));
			if (behind > 0) this.set(Math.min(this.goal, Math.max(this.value + by, this.first())), true);
			if (this.value < this.goal || !this.finished) this.timer = setTimeout(tick, wait);
			else this.pause();
		};
		this.timer = setTimeout(tick, wait = this.value ? pace : 0);
	}

	set(value, playing) {
		this.range.value = this.value = value;
		this.range.ariaValueText = this.output.textContent = this.label(value);
		this.show(value, playing);
	}
}
