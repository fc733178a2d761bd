// Conversations as the browser keeps them, for all its windows.

import { local } from "./dom.js";

const store = "unmask-chats";

const newId = () => Date.now().toString(36) + Math.random().toString(36).slice(2);
export const fresh = () => ({ id: newId(), changed: 0, system: "", messages: [], branches: {} });

const object = (v) => !!v && typeof v === "object";
const text = (v) => v === undefined || typeof v === "string";
const texts = (v) => v === undefined || Array.isArray(v) && v.every((t) => typeof t === "string");
const path = (p) => object(p) && Array.isArray(p.messages) && p.messages.every((m) => object(m) && typeof m.role === "string" && typeof m.content === "string" && texts(m.notes))
	&& (p.branches === undefined || object(p.branches) && Object.values(p.branches).every((b) => object(b) && Array.isArray(b.list) && b.at in b.list && b.list.every((v) => v === null || path(v))));
/** sound reports whether a thing from the store is a conversation. */
const sound = (c) => path(c) && typeof c.id === "string" && text(c.system) && text(c.title) && text(c.draft);

/** stored reads what is kept; what is no conversation is put aside. */
function stored() {
	const kept = local[store];
	if (!kept) return [];
	let given, all = [];
	try {
		given = JSON.parse(kept);
		const old = given.filter((c) => object(c) && c.id === undefined); // of an earlier page
		for (const c of old) c.id = newId();
		all = given.filter(sound);
		for (const c of all) c.system ??= "";
		if (all.length === given.length && !old.length) return all;
	} catch { /* nothing of it can be read */ }
	try {
		if (all.length !== given?.length) local[store + "-unreadable"] = kept;
		if (all.length) local[store] = JSON.stringify(all);
		else delete local[store];
	} catch { /* a browser without room keeps what it has */ }
	return all;
}

// A conversation is a tree, of which one path is shown: messages. Where an answer was made again or a message was
// edited, branches[i].list has what followed in its other versions, and at is the one that is shown.
const tail = (c, i) => ({ messages: c.messages.slice(i), branches: Object.fromEntries(Object.entries(c.branches || {}).filter(([k]) => k > i)) });

/** grow makes message i and what follows a version beside a new one. */
export function grow(c, i) {
	c.branches ??= {};
	const b = c.branches[i] ||= { list: [null], at: 0 };
	b.list[b.at] = tail(c, i);
	b.at = b.list.push(null) - 1;
	for (const k of Object.keys(c.branches)) if (k > i) delete c.branches[k];
}

/** turn shows another version of message i. */
export function turn(c, i, by) {
	const b = c.branches[i], to = b.at + by;
	b.list[b.at] = tail(c, i);
	const { messages, branches } = b.list[to];
	for (const k of Object.keys(c.branches)) if (k > i) delete c.branches[k];
	Object.assign(c.branches, branches);
	c.messages = [...c.messages.slice(0, i), ...messages];
	b.at = to;
}

/** titleOf is the name of a conversation: its own, or how it begins. */
export const titleOf = (c) => c.title || (c.messages[0]?.content || c.draft || "").trim().split("\n")[0].slice(0, 80) || "New chat";

export class Conversations {
	/** heard is called when another window has changed something; full, when the browser keeps no more. */
	constructor(heard, full) {
		this.full = full;
		this.all = stored();
		this.deleted = []; // here, the last one last
		this.seen = new Map(this.all.map((c) => [c.id, c.changed])); // what the store had, by id
		addEventListener("storage", (e) => { if (e.key === store) heard(); });
	}

	/** listed are those that have something in them, the last changed first. */
	get listed() { return this.all.filter((c) => c.messages.length || c.system || c.draft || c.title).sort((a, b) => (b.changed || 0) - (a.changed || 0)); }

	delete(c) {
		this.deleted.push(c);
		this.all = this.all.filter((other) => other !== c);
	}

	/** restore brings back what was deleted last. */
	restore() {
		const c = this.deleted.pop();
		this.all.push(c);
		return c;
	}

	/** meet takes in what other windows have kept: of two the later, and what they deleted goes. open and busy are not taken away. */
	meet(open, busy) {
		const kept = stored(), ids = new Set(kept.map((c) => c.id));
		for (const c of kept) {
			const own = this.all.find((o) => o.id === c.id);
			if (own && own === busy) continue;
			if (own && c.changed > (own.changed || 0)) this.take(own, c);
			else if (!own && !this.deleted.some((d) => d.id === c.id)) this.all.push(c);
			this.seen.set(c.id, c.changed);
		}
		this.all = this.all.filter((c) => c === open || ids.has(c.id) || !this.seen.has(c.id));
	}

	/** take puts what a window has kept into the conversation here. What is being written here stays: an edit, or a draft where its message is gone. */
	take(own, c) {
		const { edit } = own;
		for (const k of Object.keys(own)) if (!(k in c)) delete own[k];
		Object.assign(own, c);
		delete own.edit; // that of another window
		if (own.messages[edit?.at]?.role === "user") own.edit = edit;
		else if (edit?.text) own.draft = [own.draft, edit.text].filter(Boolean).join("\n");
	}

	/** keep writes what is here over what other windows have kept before. A conversation that went on in two windows becomes two. */
	keep(changed) {
		if (changed) changed.changed = Date.now();
		for (const c of stored()) {
			const own = this.all.find((o) => o.id === c.id), theirs = this.seen.get(c.id) !== c.changed;
			if (!own && !this.deleted.some((d) => d.id === c.id)) this.all.push(c);
			else if (own && theirs && own !== changed) this.take(own, c);
			else if (own && theirs && c.messages.some((m, i) => m.content !== own.messages[i]?.content)) this.all.push({ ...c, id: newId(), title: titleOf(c) + " (another window)" });
		}
		const kept = this.listed;
		try {
			if (kept.length) local[store] = JSON.stringify(kept);
			else delete local[store];
			this.seen = new Map(kept.map((c) => [c.id, c.changed]));
		} catch {
			this.full();
		}
	}
}
