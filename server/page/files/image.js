// Images: cells open over a picture, and painted cells are made new.
import { send } from "./api.js";
import { $, button, el, tips } from "./dom.js";
import { Mask } from "./mask.js";
import { begin, finish, play, stepLabel } from "./run.js";
import { Timeline } from "./timeline.js";
import { look, words } from "./trace.js";

export class Image {
	constructor(page) {
		Object.assign(this, { page, frames: new Map() }); // frames: pictures by step
		this.mask = new Mask($("cells"), () => this.button());
		this.timeline = new Timeline($("image-time"), (k) => this.show(k), stepLabel(() => this.current));
		this.timeline.first = () => this.current.trace?.firstShown() || 0;
		$("view").onchange = () => this.show(this.timeline.value);
		$("undo").onclick = () => this.mask.undo();
		$("clear").onclick = () => this.mask.clear();
		$("inpaint").onclick = () => page.start(() => this.inpaint());
		$("file").onchange = (e) => { this.open(e.target.files[0]); e.target.value = ""; };
		const panel = $("tools").parentNode;
		panel.ondragover = panel.ondrop = (e) => { e.preventDefault(); this.open(e.dataTransfer.files[0]); };
		addEventListener("paste", (e) => page.mode === "image" && this.open(e.clipboardData.files[0]));
		tips($("cells"), (c) => { const t = this.current?.trace; return t && words(t.at(c.at, this.timeline.value), t.steps); });
	}

	/** arrive lays out the cells of the model. */
	arrive() {
		const [rows, columns] = this.page.info.shape;
		this.grid = !!columns; // else cells have no place
		this.mask.layout(columns ? rows : 1, columns || rows);
		this.button();
	}

	/** button says what can be painted: the source, while it is what is shown. */
	button() {
		const n = this.mask.marked.size, b = $("inpaint"), shown = !!this.source && this.source.run === this.current;
		this.mask.enabled = shown && this.grid;
		b.disabled = !n || !shown;
		b.textContent = !shown ? "Make or open a picture first" : n ? `Make ${n} ${n === 1 ? "cell" : "cells"} new` : "Paint cells first";
	}

	show(k) {
		const t = this.current?.trace;
		if (!t) return;
		const frame = this.frame(k);
		this.mask.cells.forEach((c, i) => {
			const e = t.at(i, k), sure = $("view").value === "sure" ? "heat" : "";
			const kind = !e ? "masked" : e.known ? "" : sure || (frame < e.step ? "fresh" : "");
			c.className = kind + (this.mask.marked.has(i) ? " marked" : "");
			if (e) c.style.cssText = look(e, t.steps);
		});
		this.decode(k);
	}

	/** frame shows the newest picture that is not of a later step than k, and returns its step. */
	frame(k) {
		const best = [...this.frames.keys()].filter((s) => s <= k).reduce((a, b) => Math.max(a, b), -1), url = this.frames.get(best);
		$("picture").hidden = !url;
		if (url && $("picture").src !== url) $("picture").src = url;
		return best;
	}

	/** decode asks for the picture after step k, for eight of a run that comes in. */
	async decode(k) {
		const run = this.current, t = run.trace, every = t.done ? 1 : Math.ceil(t.steps / 8);
		if (this.decoding || this.frames.has(k) || !t.open[k] || k % every || run.blind) return;
		this.decoding = true;
		try {
			const answer = await send("/v1/images/decode", { model: run.body.model, codes: t.tokens(k) });
			const url = URL.createObjectURL(await answer.blob());
			if (run === this.current) this.frames.set(k, url);
		} catch {
			run.blind = true; // cells are shown without
		}
		this.decoding = false;
		if (run === this.current) this.show(this.timeline.value);
	}

	make(prompt) {
		return this.run({ kind: "image", path: "/v1/images/generations", body: { model: this.page.model, prompt, ...this.page.values() } });
	}

	/** inpaint makes the marked cells of the source new. */
	async inpaint() {
		const body = { model: this.page.model, prompt: $("prompt").value, ...this.page.values() }, form = new FormData(), { blob } = this.source;
		for (const [k, v] of Object.entries(body)) form.set(k, v);
		form.set("image", blob, "image.png");
		form.set("mask", await this.mask.png(...this.page.info.size), "mask.png");
		return this.run({ kind: "image", path: "/v1/images/edits", body, form });
	}

	run(run) {
		return play(this.page, run, this.timeline, {
			start: () => {
				this.current = run;
				this.press(this.source); // stays for another try, but is not shown
				this.frames = new Map(run.form ? [[0, this.source.url]] : []);
				this.timeline.reset();
				begin("image", run);
			},
			done: () => {
				const bytes = Uint8Array.from(atob(run.answer.data[0].b64_json), (c) => c.charCodeAt(0));
				this.mask.clear();
				this.keep(new Blob([bytes], { type: "image/png" }), run);
				this.finish();
			},
		});
	}

	finish() {
		const { blob, run } = this.source, film = async () => (await send(`/v1/results/${run.answer.unmask.key}/0.gif`)).blob();
		finish("image", this.page, run, null, [["PNG", () => blob], ["GIF", film]]);
	}

	/** keep makes a picture the next source, and puts it onto the strip of pictures. */
	keep(blob, run) {
		const source = { blob, run, url: URL.createObjectURL(blob) };
		const b = button("", () => this.choose(source, b));
		b.append(el("img", { src: source.url, alt: run ? `picture of seed ${run.body.seed}` : "opened picture" }));
		$("strip").append(b);
		this.press(source, b);
		if (run) this.frames.set(run.trace.last, source.url);
		else this.choose(source, b);
	}

	press(source, b) {
		this.source = source;
		for (const other of $("strip").children) other.ariaPressed = other === b;
		this.button();
	}

	choose(source, b) {
		const { run, url } = source;
		this.page.abort?.abort();
		this.current = run;
		this.press(source, b);
		this.timeline.reset();
		this.frames = new Map([[run ? run.trace.last : 0, url]]);
		if (run) {
			this.timeline.finish(run.trace.last, true);
			this.finish();
		} else {
			this.frame(0);
			for (const id of ["image-facts", "image-actions"]) $(id).replaceChildren(); // of another picture
			for (const c of this.mask.cells) c.classList.remove("masked", "fresh", "heat");
		}
	}

	/** open takes a picture of the reader's, cut to the model's size. */
	async open(file) {
		if (!file) return;
		const p = await createImageBitmap(file).catch(() => this.page.status("the browser cannot read this picture"));
		if (!p) return;
		const [width, height] = this.page.info.size, c = el("canvas", { width, height }), scale = Math.max(width / p.width, height / p.height), w = p.width * scale, h = p.height * scale;
		c.getContext("2d").drawImage(p, (width - w) / 2, (height - h) / 2, w, h);
		c.toBlob((blob) => this.keep(blob));
	}
}
