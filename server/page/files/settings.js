// The form of settings, made from what the server says of models and samplers.
import { $, el } from "./dom.js";

const fields = [
	{ name: "steps", label: "Steps", help: "of denoising", min: 1, max: 4096 },
	{ name: "length", label: "New tokens", help: "at most; empty for all that the model has room for", min: 1, text: true },
	{ name: "seed", label: "Seed", help: "empty for another one each time", pattern: "[0-9]{1,20}" },
];
const more = [
	{ name: "schedule", label: "Schedule", help: "how many open after each step", words: [] },
	{ name: "cache", label: "Partial caching", help: "stages of a step that take keys and values from the first", words: [0, 1, 2, 3] },
	{ name: "temperature", label: "Temperature", help: "draws from p^(1/temperature)", min: 0, step: "any" },
	{ name: "top_p", label: "Top p", help: "the most probable tokens that hold this much", min: 0, max: 1, step: "any" },
	{ name: "top_k", label: "Top k", help: "only so many of the most probable tokens", min: 0 },
	{ name: "min_length", label: "Shortest", help: "positions before an end of text", min: 0, text: true },
];
const all = [...fields, ...more], names = ["model", ...all.map((f) => f.name)];

/** field makes a label, an input and words on it. */
function field({ name, label = name, help, words, pattern, ...f }, id = "set-" + name) {
	const about = { id, "aria-describedby": id + "-help" };
	const input = words ? el("select", about, new Option("default", ""), ...words.map((w) => new Option(w)))
		: el("input", { ...about, type: pattern ? "text" : "number", placeholder: f.default ?? "default", ...(pattern ? { pattern } : { step: f.step || 1, min: f.min ?? "", max: f.max ?? "" }) });
	return el("div", { className: "field" }, el("label", { htmlFor: id, textContent: label }), input, el("p", { className: "help", id: id + "-help", textContent: help || "" }));
}

/** Picker chooses a sampler, its parameters, and what is inside one that goes around others. */
class Picker {
	constructor(root, samplers, label) {
		Object.assign(this, { root, samplers, inputs: new Map() });
		const id = root.id + "-name";
		this.select = el("select", { id, "aria-describedby": id + "-help", onchange: () => this.fill() }, new Option("the model's default", ""), ...samplers.map((s) => new Option(s.name)));
		this.label = el("label", { htmlFor: id, textContent: label });
		this.line = el("p", { className: "help", id: id + "-help" });
		this.params = el("div", { className: "params" });
		root.append(el("div", { className: "field" }, this.label, this.select, this.line), this.params);
		this.fill();
	}

	fill() {
		const s = this.samplers.find((s) => s.name === this.select.value), id = (name) => `${this.root.id}-${name}`;
		this.line.replaceChildren(s ? s.line + ". " : "What the model runs with when nothing is chosen.", el("cite", { textContent: s?.paper || "" }));
		const list = (s?.parameters || []).map((p) => ({ ...p, step: p.kind === "whole" ? 1 : "any", ...(p.zero ? { min: 0 } : {}), max: undefined }));
		if (s?.inside) list.unshift({ name: "inside", help: s.inside + ", by name", pattern: ".*" });
		this.params.replaceChildren(...list.map((p) => field(p, id(p.name))));
		this.inputs = new Map(list.map((p) => [p.name, this.params.querySelector("#" + CSS.escape(id(p.name)))]));
	}

	/** text is the sampler as the command reads it: semi-ar(hybrid,block=16). */
	get text() {
		const given = [...this.inputs].filter(([, i]) => i.value).map(([k, i]) => k === "inside" ? i.value : `${k}=${i.value}`);
		return this.select.value + (given.length ? `(${given})` : "");
	}

	set text(text) {
		const [, name, args = ""] = /^([^(]*)(?:\((.*)\))?$/s.exec(text) || [];
		this.select.value = name;
		if (this.select.selectedIndex < 0) this.select.value = "";
		this.fill();
		const inside = [];
		for (const part of args.match(/(?:[^,()]|\([^)]*\)+)+/g) || []) {
			const [k, v] = part.split("="), input = this.inputs.get(k);
			if (input && v) input.value = v;
			else inside.push(part);
		}
		if (inside.length && this.inputs.has("inside")) this.inputs.get("inside").value = inside;
	}
}

/** Settings is the form; changed is called after every change. */
export class Settings {
	constructor(models, samplers, schedules, changed) {
		const form = $("settings");
		this.models = models;
		more[0].words = schedules;
		this.first = el("div", { id: "sampler" });
		this.second = el("div", { id: "other" });
		form.append(el("div", { className: "field" }, el("label", { htmlFor: "set-model", textContent: "Model" }), el("select", { id: "set-model", "aria-describedby": "model-line" }), el("p", { className: "help", id: "model-line" })),
			this.first, this.second, ...fields.map((f) => field(f)),
			el("details", {}, el("summary", { textContent: "More settings" }), ...more.map((f) => field(f))),
			el("button", { type: "reset", className: "quiet", textContent: "Back to defaults" }));
		this.a = new Picker(this.first, samplers, "Sampler");
		this.b = new Picker(this.second, samplers, "Second sampler");
		this.b.text = "random";
		form.oninput = () => { this.describe(); changed(); };
		form.onsubmit = (e) => e.preventDefault();
		form.onreset = () => setTimeout(() => {
			this.a.text = "";
			this.b.text = "random";
			form.oninput();
		});
	}

	/** show arranges the form for a mode with the models that can do it. */
	show(mode, models) {
		this.mode = mode;
		const select = $("set-model"), kept = select.value;
		select.replaceChildren(...models.map((m) => new Option(m.id)));
		if (models.some((m) => m.id === kept)) select.value = kept;
		this.second.hidden = mode !== "compare";
		this.a.label.textContent = mode === "compare" ? "First sampler" : "Sampler";
		for (const f of all) if (f.text) $("set-" + f.name).parentNode.hidden = mode === "image";
		this.describe();
	}

	get model() { return this.models.find((m) => m.id === $("set-model").value); }

	describe() {
		const u = this.model?.unmask || {}, kind = u.kind === "image" ? " cells" : " tokens";
		$("model-line").textContent = [u.shape?.join(" × ") + kind, u.precision, u.device].join(" · ");
	}

	/** values are the fields that are set, as the server takes them; seed stays a text of digits. */
	values() {
		const out = {};
		for (const f of all) {
			const v = $("set-" + f.name).value.trim();
			if (v && !(f.text && this.mode === "image")) out[f.name] = f.pattern || f.name === "schedule" ? v : +v;
		}
		if (this.a.text) out.sampler = this.a.text;
		return out;
	}

	/** link is all that is set, for an address; restore takes it. */
	link() {
		const out = { sampler: this.a.text, other: this.mode === "compare" ? this.b.text : "" };
		for (const name of names) out[name] = $("set-" + name).value;
		return out;
	}

	restore(given) {
		for (const name of names) if (given[name]) $("set-" + name).value = given[name];
		if (given.sampler) this.a.text = given.sampler;
		if (given.other) this.b.text = given.other;
		if (more.some((f) => given[f.name])) $("settings").querySelector("details").open = true;
		this.describe();
	}
}
