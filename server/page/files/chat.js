// Conversations: kept in the browser, shown above the field in which the next message is written.
import { $, button, el, save } from "./dom.js";
import { finish, play, stepLabel, copy } from "./run.js";
import { TextView } from "./textview.js";
import { Timeline } from "./timeline.js";
import { texts } from "./trace.js";

const store = "unmask-chats", mostKept = 20;

export class Chat {
	constructor(page) {
		this.page = page;
		try {
			this.all = JSON.parse(localStorage[store] || "[]");
		} catch {
			this.all = [];
		}
		this.timeline = new Timeline($("chat-time"), (k, playing) => { this.view?.show(k, playing); this.scroll(); }, stepLabel(() => this.current));
		$("chat-new").onclick = () => { this.begin(); $("prompt").focus(); };
		$("chat-delete").onclick = () => { this.all = this.all.filter((c) => c !== this.chat); this.open(this.all[0]); this.keep(); };
		$("chats").onchange = () => this.open(this.all[$("chats").selectedIndex]);
		$("chat-markdown").onclick = () => save("unmask-chat.md", this.markdown());
		$("system").oninput = () => { this.chat.system = $("system").value; this.keep(); };
		this.open(this.all[0]);
	}

	get messages() { return this.chat.messages; }

	/** begin opens a conversation without a message; one is enough. */
	begin() { this.open(this.all.find((c) => !c.messages.length && !c.system)); }

	open(chat = { messages: [], system: "" }) {
		if (this.page.mode === "chat") this.page.abort?.abort();
		if (!this.all.includes(chat)) this.all.unshift(chat);
		this.chat = chat;
		$("system").value = chat.system;
		$("system-box").open = !!chat.system;
		this.view = this.current = null;
		$("about-chat").hidden = $("chat-time").hidden = true;
		this.render();
	}

	keep() {
		this.all.length = Math.min(this.all.length, mostKept);
		try {
			const kept = this.all.filter((c) => c.messages.length || c.system);
			if (kept.length) localStorage[store] = JSON.stringify(kept);
			else localStorage.removeItem(store);
		} catch { /* a browser without room keeps what it has */ }
		const title = (c) => c.messages[0]?.content.slice(0, 40) || "New chat";
		$("chats").replaceChildren(...this.all.map((c) => new Option(title(c), "", false, c === this.chat)));
		$("chat-markdown").disabled = !this.messages.length;
	}

	/** render shows all messages as text, with what can be done with each. */
	render() {
		$("talk").replaceChildren(...this.messages.flatMap((m, i) => this.bubble(m, i)));
		if (!this.messages.length) $("talk").append(el("p", { className: "help", textContent: "Write a message below. The model's answer opens all at once, in the sampler's order." }));
		this.keep();
		this.scroll(true);
	}

	bubble(m, i) {
		if (m.role === "user") return [el("div", { className: "bubble mine" }, el("p", { textContent: m.content }), this.acts(["Edit", () => this.edit(i)]))];
		const text = el("div", { className: "text" }, m.content.trim()), note = m.stopped ? "stopped" : m.of && m.shown < m.of ? `ended after ${m.shown} of ${m.of} tokens` : "";
		return [el("div", { className: "bubble" }, text, el("p", { className: "help", textContent: note }), this.answerActs(m, i))];
	}

	answerActs(m, i) {
		const list = [["Copy", async (b) => { await copy(m.content); b.textContent = "Copied"; setTimeout(() => { b.textContent = "Copy"; }, 1500); }]];
		if (i === this.messages.length - 1) list.push(["Regenerate", () => this.again()]);
		return this.acts(...list);
	}

	acts(...list) { return el("div", { className: "group acts" }, ...list.map(([name, act]) => { const b = button(name, () => act(b)); return b; })); }

	/** edit takes a message back into the field; it and what follows leave the conversation. */
	edit(i) {
		this.page.abort?.abort();
		$("prompt").value = this.messages[i].content;
		this.chat.messages = this.messages.slice(0, i);
		this.open(this.chat);
		$("prompt").focus();
	}

	/** again asks for the last answer with another seed than that of the settings. */
	again() {
		const last = this.messages.findLastIndex((m) => m.role === "user"), { content } = this.messages[last];
		this.chat.messages = this.messages.slice(0, last);
		this.page.start(() => this.make(content, { seed: this.page.seed }));
	}

	scroll(force) {
		const t = $("talk");
		if (force || t.scrollHeight - t.scrollTop - t.clientHeight < 160) t.scrollTop = t.scrollHeight;
	}

	async make(prompt, other = {}) {
		prompt = prompt.trim();
		if (!prompt) throw this.page.wrong("prompt", "The message is empty.");
		const { length, ...values } = this.page.values(), { page, chat } = this, asked = [...this.messages, { role: "user", content: prompt }];
		const messages = asked.map(({ role, content }) => ({ role, content }));
		if (chat.system.trim()) messages.unshift({ role: "system", content: chat.system });
		const run = this.current = { kind: "text", path: "/v1/chat/completions", body: { model: page.model, messages, ...values, ...other } };
		if (length) run.body.max_tokens = length;
		const text = el("div", { className: "text", role: "listbox", ariaLabel: "Answer" }), bubble = el("div", { className: "bubble" }, text), before = chat.messages;
		chat.messages = asked;
		this.view = null;
		this.render(); // an earlier answer is complete, however far its playback was
		$("talk").append(bubble);
		$("prompt").value = "";
		this.timeline.reset();
		$("chat-time").hidden = false;
		this.scroll(true);
		const answer = (content, more) => {
			chat.messages = [...asked, { role: "assistant", content, seed: run.body.seed, ...more }];
			bubble.append(this.answerActs(chat.messages.at(-1), chat.messages.length - 1));
			this.keep();
		};
		try {
			await play(page, run, this.timeline, {
				start: () => {
					const t = run.trace;
					this.from = t.entries(0).findIndex((e) => !e);
					this.view = new TextView(text);
					this.view.load(t, this.from, page.info.ends);
				},
				done: () => {
					const [{ message }] = run.answer.choices;
					answer(message.content, { shown: run.answer.usage.completion_tokens, of: run.trace.length - this.from });
					$("about-chat").hidden = false;
					finish("chat", page, run, () => message.content);
				},
			});
		} catch (e) {
			const t = run.trace, so = t ? this.settled(t) : "";
			if (e.name !== "AbortError" || chat !== this.chat || chat.messages !== asked) {
				if (chat.messages === asked) this.undo(before, prompt);
			} else if (so) { // stopped: what cannot change any more is the answer
				answer(so, { stopped: true });
				this.render();
			} else {
				this.undo(before, prompt);
			}
			throw e;
		}
	}

	/** settled is the text up to the first hole or end. */
	settled(t) {
		const entries = t.entries().slice(this.from), end = entries.findIndex((e) => !e || this.page.info.ends?.includes(e.token));
		return texts(end < 0 ? entries : entries.slice(0, end)).join("");
	}

	/** undo takes back a message that got no answer. */
	undo(messages, prompt) {
		this.chat.messages = messages;
		if (!$("prompt").value.trim()) $("prompt").value = prompt;
		this.render();
	}

	markdown() {
		const parts = this.messages.map((m) => `## ${m.role === "user" ? "You" : "Model"}\n\n${m.content}\n`);
		if (this.chat.system) parts.unshift(`## System\n\n${this.chat.system}\n`);
		return `# ${this.page.model}\n\n${parts.join("\n")}`;
	}
}
