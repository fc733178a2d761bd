// The form of settings, made of what the server has.
import { Failure } from "./api.js";
import { $, el } from "./dom.js";

// What the parameters mean to a reader; the others have the command's help.
const plain = {
	steps: "passes of the model; more are slower and better",
	temperature: "below 1 safer, above 1 more varied, 0 the most probable tokens",
	"top-p": "keeps only the most probable tokens that hold this share of probability",
	"top-k": "keeps only this many of the most probable tokens",
	cache: "a second look at a step's positions, which costs less than a step; 0 for none",
	reuse: "keeps what earlier steps computed: faster, and approximate",
	schedule: "how many positions open early and how many late",
	guidance: "how strongly class or prompt count",
};

const own = [
	{ name: "voice", help: "auto, or one of the server's folder of voices", mode: "speech", words: [], default: "auto" },
	{ name: "instructions", label: "Voice words", help: "a voice of your own: female, low pitch, british accent", mode: "speech" },
	{ name: "language", help: "an English name or a code such as de; empty to let the model guess", mode: "speech" },
	{ name: "speed", kind: "number", help: "0.25 to 4", mode: "speech", default: "1" },
	{ name: "length", label: "New tokens", kind: "whole", help: "maximum; leave empty for the default", mode: "text" },
	{ name: "class", help: "what the picture is of, by name or number", mode: "image" },
	{ name: "seed", help: "empty for another one each time" },
];

// The settings of runs that mean something for speech.
const spoken = ["voice", "instructions", "language", "speed", "seed", "steps", "schedule", "guidance", "guidance-schedule", "temperature", "top-p", "top-k", "preset", "cache"];

/** field makes a label, an input and a line of help. */
function field({ name, label = name[0].toUpperCase() + name.slice(1).replaceAll("-", " "), help = "", words, default: usual = "" }, id = "set-" + name) {
	const about = { id, "aria-describedby": id + "-help" };
	const input = words ? el("select", about, new Option("default", ""), ...words.map((w) => new Option(w))) : el("input", { ...about, placeholder: usual });
	return el("div", { className: "field" }, el("label", { htmlFor: id, textContent: label }), input, el("p", { className: "help", id: id + "-help", textContent: help.replace(/--/g, "") }));
}

/** Picker chooses a sampler, its parameters and what is inside it. */
class Picker {
	constructor(id, samplers, label) {
		const root = field({ name: id, label, words: samplers.map((s) => s.name) }, id);
		Object.assign(this, { id, samplers, params: el("div", { className: "params" }) });
		[this.label, this.select, this.line] = root.children;
		this.select.oninput = () => this.fill(); // before the form hears of it
		this.root = el("div", {}, root, this.params);
		this.fill();
	}

	fill() {
		const s = this.samplers.find((s) => s.name === this.select.value), list = [...s?.parameters || []];
		if (s?.inside) list.unshift({ name: "inside", help: s.inside + ", by name" });
		this.line.replaceChildren(s ? s.line + ". " : "What the model runs with when nothing is chosen.", el("div", { textContent: s?.paper || "" }));
		this.params.replaceChildren(...list.map((p) => field(p, this.id + "-" + p.name)));
		this.inputs = new Map(list.map((p, i) => [p.name, this.params.children[i].children[1]]));
	}

	/** text is the sampler as the command reads it: semi-ar(hybrid,block=16). */
	get text() {
		const given = [...this.inputs].filter(([, i]) => i.value).map(([k, i]) => k === "inside" ? i.value : `${k}=${i.value}`);
		return this.select.value + (given.length ? `(${given})` : "");
	}

	set text(text) {
		const [, name, args = ""] = /^([^(]*)(?:\((.*)\))?$/s.exec(text) || [], inside = [];
		this.select.value = name;
		if (this.select.selectedIndex < 0) this.select.value = "";
		this.fill();
		for (const part of args.match(/(?:[^,()]|\([^)]*\)+)+/g) || []) {
			const [k, v] = part.split("="), input = this.inputs.get(k);
			if (v && input) input.value = v;
			else inside.push(part);
		}
		if (this.inputs.has("inside")) this.inputs.get("inside").value = inside;
	}
}

// What the new text may have to spell, by the request's field.
const forms = {
	schema: { label: "JSON Schema", help: "the text is JSON that follows it", placeholder: '{"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}}}' },
	regex: { label: "Regular expression", help: "all of the text matches it, in RE2's syntax", placeholder: "Lily is (happy|sad)\\." },
	choice: { label: "Choices", help: "one to a line; the text is one of them", placeholder: "yes\nno" },
};

/** Form chooses a schema, an expression or choices for the new text. */
class Form {
	constructor() {
		const root = field({ name: "form", label: "Form of the text", words: [] });
		this.select = root.children[1];
		this.select.replaceChildren(new Option("any text", ""), ...Object.entries(forms).map(([kind, f]) => new Option(f.label, kind)));
		this.select.oninput = () => this.fill();
		this.box = el("div", { className: "params" });
		this.root = el("div", {}, root, this.box);
	}

	get kind() { return this.select.value; }
	get input() { return $("set-" + this.kind); }

	fill() {
		if (!this.kind) return this.box.replaceChildren();
		const { label, help, placeholder } = forms[this.kind], id = "set-" + this.kind;
		this.box.replaceChildren(el("div", { className: "field" }, el("label", { htmlFor: id, textContent: label }),
			el("textarea", { id, rows: 3, spellcheck: false, placeholder, "aria-describedby": id + "-help" }), el("p", { className: "help", id: id + "-help", textContent: help })));
	}

	/** values is the request's field. */
	values() {
		const text = this.kind && !this.root.hidden ? this.input.value : "";
		if (!text.trim()) return {};
		if (this.kind === "regex") return { regex: text };
		if (this.kind === "choice") return { choice: text.split("\n").filter((line) => line) };
		try {
			return { schema: JSON.parse(text) };
		} catch (e) {
			throw new Failure(400, `This is not JSON: ${e.message}`, "", 0, "schema");
		}
	}

	link() { return this.kind && !this.root.hidden ? { [this.kind]: this.input.value } : {}; }

	restore(given) {
		this.select.value = Object.keys(forms).find((kind) => given[kind]) || "";
		this.fill();
		if (this.kind) this.input.value = given[this.kind];
	}
}

export class Settings {
	constructor(models, { data, schedules, parameters }, voices, changed) {
		const form = $("settings"), seen = ["sampler", "steps", "ban", "bias"];
		const known = parameters.map((p) => ({ ...p, help: plain[p.name] || p.help, words: p.name === "schedule" ? schedules : p.words }));
		this.fields = [...own.slice(0, 4), known.find((p) => p.name === "steps"), ...own.slice(4), ...known.filter((p) => !seen.includes(p.name))];
		this.fields[0].words = voices?.filter((v) => v !== "auto") || [];
		this.samplers = data;
		this.models = models;
		this.a = new Picker("sampler", data, "Sampler");
		this.b = new Picker("other", data, "Second sampler");
		const model = field({ name: "model", words: [] });
		this.select = model.children[1];
		const [first, rest] = [this.fields.slice(0, 8), this.fields.slice(8)].map((list) => list.map((f) => field(f)));
		this.form = new Form();
		form.append(model, this.a.root, this.b.root, ...first, this.form.root, el("details", {}, el("summary", { textContent: "More settings" }), ...rest));
		form.oninput = () => { this.describe(); changed(); };
		form.onsubmit = (e) => e.preventDefault();
		this.b.text = "random";
	}

	/** show arranges the form for a mode with the models that can do it. */
	show(mode, models) {
		this.mode = mode;
		this.select.replaceChildren(...models.map((m) => new Option(m.id)));
		this.b.root.hidden = mode !== "compare";
		this.a.root.hidden = mode === "decide";
		this.a.label.textContent = mode === "compare" ? "First sampler" : "Sampler";
		this.describe();
	}

	get model() { return this.models.find((m) => m.id === this.select.value); }

	/** describe shows what the model is and runs with. */
	describe() {
		const { kind, shape, precision, device, recipe = "", class_count: classes, classes: names } = this.model?.unmask || {};
		$("set-model-help").textContent = [shape?.join(" × ") + (kind === "image" ? " cells" : " tokens"), precision, device].join(" · ");
		const own = Object.fromEntries(recipe.split(" ").map((part) => part.split(/=(.*)/)));
		for (const { name, default: usual } of [{ name: "sampler" }, ...this.fields]) {
			const input = $(name === "sampler" ? name : "set-" + name), v = own[name] ?? usual ?? "";
			if (input.options && name !== "class") input.options[0].text = v ? `default (${v})` : "default";
			else input.placeholder = v;
		}
		this.classes(names, classes);
		for (const f of this.fields) $("set-" + f.name).parentNode.hidden = !this.applies(f);
		this.form.root.hidden = kind === "image" || kind === "speech" || this.mode === "decide";
	}

	/** applies reports whether a setting can have an effect on the model's runs with what else is set. */
	applies(f) {
		const { kind, chat, recipe = "", class_count: classes, prompt } = this.model?.unmask || {}, image = kind === "image", guided = !!(classes || prompt || chat || kind === "speech");
		const of = (name) => $("set-" + name).value || new RegExp(`(?:^| )${name}=(\\S+)`).exec(recipe)?.[1];
		const name = (/^[\w-]+/.exec(this.a.text || /sampler=(\S+)/.exec(recipe)?.[1] || "") || [])[0], s = this.mode === "compare" ? null : this.samplers.find((s) => s.name === name);
		if (this.mode === "decide") return false;
		if (f.mode && f.mode !== (image || kind === "speech" ? kind : "text")) return false;
		if (kind === "speech" && !spoken.includes(f.name)) return false;
		switch (f.name) {
		case "class": return !!classes;
		case "guidance": return guided;
		case "guidance-schedule": return guided && !!+of("guidance");
		case "guidance-share": return kind === "text" && !!+of("guidance");
		case "steps": return !s?.self_paced || of("reuse") === "blocks";
		case "schedule": return !s?.self_paced;
		case "cache": return !s || s.cache;
		case "block-size": return ["blocks", "causal"].includes(of("reuse"));
		case "refresh": return of("reuse") === "dkv";
		case "window": return ["none", "prefix", "dual"].includes(of("reuse") || "none");
		case "window-sigma": return !!+of("window");
		}
		return true;
	}

	/** classes makes the field of the class a list where the model has names for all of few. */
	classes(names = [], count) {
		const old = $("set-class"), list = names.length === count && count <= 60 && count > 0;
		if (list && old.options?.length !== count + 1 || !list && old.options) {
			const about = { id: "set-class", "aria-describedby": "set-class-help" };
			old.replaceWith(list ? el("select", about, new Option("any", ""), ...names.map((n) => new Option(n))) : el("input", about));
		}
		if (!list) $("set-class").placeholder = names.slice(0, 4).join(", ");
	}

	/** values are the fields that are set, as the server takes them. */
	values() {
		const out = this.a.text ? { sampler: this.a.text } : {};
		for (const f of this.fields) {
			const input = $("set-" + f.name), v = input.value.trim();
			if (v && !input.parentNode.hidden) out[f.name.replace("-", "_")] = /whole|number/.test(f.kind) && +v === +v ? +v : v; // what is no number the server names
		}
		return { ...out, ...this.form.values() };
	}

	/** link is all that is set, for an address. */
	link() {
		const out = { model: this.select.value, sampler: this.a.text, other: this.mode === "compare" && this.b.text, ...this.form.link() };
		for (const f of this.fields) if (!$("set-" + f.name).parentNode.hidden) out[f.name] = $("set-" + f.name).value;
		return out;
	}

	/** restore takes all that link has; what is not there is as in the beginning. */
	restore({ model, sampler, other, ...given }) {
		const missing = [], able = [...this.select.options].map((o) => o.value);
		if (able.includes(model)) this.select.value = model;
		else if (model) missing.push(`model ${model}`);
		for (const [picker, text] of [[this.a, sampler], [this.b, other]]) {
			if (text || picker === this.a) picker.text = text;
			if (text && !picker.select.value) missing.push(`sampler ${text}`);
		}
		this.form.restore(given);
		this.describe();
		for (const name of Object.keys(given)) if (!(name in forms) && !this.fields.some((f) => f.name === name)) missing.push(`${name} ${given[name]}`);
		this.fields.forEach((f, i) => {
			const v = given[f.name] || "", input = $("set-" + f.name);
			input.value = v;
			if (!v) return;
			if (input.value !== v) missing.push(`${f.name} ${v}`);
			if (i > 7) $("settings").querySelector("details").open = true;
		});
		this.describe();
		return missing; // what is not taken
	}
}
