// The page: its modes, what runs, and the link that has all settings.
import { Failure, send, sleep } from "./api.js";
import { $, button, tip } from "./dom.js";
import { Image } from "./image.js";
import { Settings } from "./settings.js";
import { Chat, Compare, Text } from "./text.js";

const modes = { // button, help, and the first prompt
	text: ["Generate", "May be empty. [20] is a hole of 20 tokens, anywhere in the text.", "Once upon a time"],
	compare: ["Compare", "Both samplers get this text and the same seed.", "Once upon a time"],
	image: ["Generate", "", ""],
	chat: ["Send", "Enter sends, Shift and Enter begins a line.", ""],
};

class Page {
	constructor(models, samplers) {
		this.models = models;
		this.prompts = {};
		this.said = "";
		this.settings = new Settings(models, samplers, () => this.remember());
		this.panels = { text: new Text(this), compare: new Compare(this), image: new Image(this), chat: new Chat(this) };
		$("modes").append(...Object.keys(modes).filter((m) => this.able(m).length)
			.map((m) => button(m[0].toUpperCase() + m.slice(1), () => this.show(m), { value: m })));
		$("compose").onsubmit = (e) => { e.preventDefault(); this.start(() => this.panels[this.mode].make($("prompt").value)); };
		$("prompt").onkeydown = (e) => {
			if (e.key !== "Enter" || e.isComposing || !(e.ctrlKey || e.metaKey || this.mode === "chat" && !e.shiftKey)) return;
			e.preventDefault();
			$("compose").requestSubmit();
		};
		$("prompt").oninput = () => this.remember();
		$("cancel").onclick = () => this.abort.abort();
		$("retry").onclick = () => this.start(this.again, true);
		addEventListener("keydown", (e) => this.key(e));
		addEventListener("hashchange", () => this.open());
		addEventListener("scroll", () => tip(), { passive: true });
		addEventListener("pagehide", () => this.abort?.abort());
		this.open();
		this.announce();
	}

	/** able returns the models that can do a mode. */
	able(mode) { return this.models.filter(({ unmask: u }) => mode === "chat" ? u.chat : (u.kind === "image") === (mode === "image")); }

	get model() { return this.settings.model.id; }
	get info() { return this.settings.model.unmask; }
	get signal() { return this.abort.signal; }
	get samplers() { return [this.settings.a.text, this.settings.b.text]; }

	/** values are the settings of a run, with a seed that the page knows. */
	values() { return { seed: this.seed, ...this.settings.values() }; }

	show(mode) {
		if (this.mode) this.prompts[this.mode] = $("prompt").value;
		this.mode = mode;
		const [run, help, first] = modes[mode];
		for (const b of $("modes").children) b.ariaPressed = b.value === mode;
		for (const p of document.querySelectorAll("[data-panel]")) p.hidden = p.dataset.panel !== mode;
		$("run").textContent = run;
		$("prompt-help").textContent = help;
		this.settings.show(mode, this.able(mode));
		const field = $("prompt").parentNode;
		field.hidden = mode === "image" && !this.info.prompt;
		$("prompt").value = field.hidden ? "" : this.prompts[mode] ?? first;
		this.remember();
	}

	/** open takes mode and settings from the address. */
	open() {
		const hash = location.hash.slice(1), { mode, prompt, ...given } = Object.fromEntries(new URLSearchParams(hash));
		if (this.mode && hash === this.written) return;
		const able = [...$("modes").children].map((b) => b.value), wanted = able.includes(mode) ? mode : able[0];
		this.mode = null;
		if (mode) this.prompts[wanted] = prompt || "";
		this.show(wanted);
		this.settings.restore(given);
		this.remember();
	}

	/** remember writes all settings behind the # of the address, which is never sent. */
	remember() {
		if (this.mode === "image") this.panels.image.arrive();
		const set = Object.entries({ mode: this.mode, ...this.settings.link(), prompt: $("prompt").value }).filter(([, v]) => v);
		this.written = new URLSearchParams(set).toString();
		history.replaceState(null, "", "#" + this.written);
	}

	/** start runs one thing at a time; with same by the seed of the last. */
	async start(make, same) {
		this.abort?.abort();
		const abort = this.abort = new AbortController();
		this.again = make;
		if (!same) this.seed = String(crypto.getRandomValues(new Uint32Array(1))[0]);
		const busy = (on) => { $("cancel").hidden = !document.body.classList.toggle("busy", on); };
		busy(true);
		notice();
		this.status("sent");
		let failure, word = "done";
		await make().catch((e) => { if (e.name === "AbortError") word = "cancelled"; else failure = e; });
		if (abort !== this.abort) return;
		busy(false);
		this.status(failure ? "" : word);
		if (failure) this.fail(failure);
	}

	fail(e) {
		if (!(e instanceof Failure)) console.error(e);
		notice(e.status ? e.message : e.message + " The same seed gives the same result again.");
		this.said = $("notice-text").textContent;
	}

	status(words) {
		$("status").textContent = this.said = words;
	}

	/** announce tells screen readers what was said last, every two seconds. */
	announce() {
		if ($("live").textContent !== this.said) $("live").textContent = this.said;
		setTimeout(() => this.announce(), 2000);
	}

	/** key plays and steps wherever a key has no use of its own. */
	key(e) {
		if (e.key === "Escape") tip();
		const t = this.panels[this.mode].timeline;
		if (e.ctrlKey || e.metaKey || e.altKey || !t.max || e.target.closest("input, textarea, select, button, summary, dialog, [tabindex='0']")) return;
		if (e.key === " ") t.toggle();
		else if (e.key === "ArrowRight" || e.key === "ArrowLeft") t.move(e.key === "ArrowRight" ? 1 : -1);
		else return;
		e.preventDefault();
	}
}

function notice(words = "") {
	$("notice-text").textContent = words;
	$("notice").hidden = !words;
}

const root = document.documentElement.dataset, systemDark = matchMedia("(prefers-color-scheme: dark)");
if (localStorage.theme) root.theme = localStorage.theme;
$("theme").onclick = () => {
	root.theme = localStorage.theme = (root.theme || (systemDark.matches ? "dark" : "light")) === "dark" ? "light" : "dark";
};

for (const load = async (path) => (await send(path)).json(); !window.page;) {
	try {
		const [models, samplers] = await Promise.all([load("/v1/models"), load("/v1/samplers")]);
		if (!models.data.length) throw new Failure(0, "The models are still loading.");
		notice();
		window.page = new Page(models.data, samplers);
		document.body.classList.add("ready");
	} catch (e) {
		notice(e.message);
		if (!(e instanceof Failure)) throw e;
		await Promise.race([sleep(e.status === 401 ? 1e9 : 1500), new Promise((r) => { $("retry").onclick = r; })]);
	}
}
