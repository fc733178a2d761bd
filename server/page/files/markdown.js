// Markdown: a text becomes a tree whose leaves are ranges of it. All of it is shown as text, so no HTML passes.
import { copier, el } from "./dom.js";
import { tokens } from "./highlight.js";

const longest = 5e4, deepest = 6; // characters, and lists or quotes inside each other
const heading = /^ {0,3}(#{1,6})( +|$)/, quote = /^ {0,3}> ?/, item = /^([ \t]*)([-*+]|\d{1,9}[.)])([ \t]+|$)/;
const rule = /^ {0,3}([-*_])( *\1){2,} *$/, divider = /^\|?( *:?-+:? *\|)+( *:?-+:?)?$/, starts = /^[ \t]*([-*+]|1[.)])[ \t]/;

/** fence reads the line that begins a block of code: its mark and its language. */
function fence(line) {
	const [all, mark] = /^ {0,3}(`{3,}|~{3,})/.exec(line) || [], info = line.slice(all?.length).trim();
	return all && !(mark[0] === "`" && info.includes("`")) ? { mark, language: info.split(/\s/)[0], indent: all.length - mark.length } : null;
}

const blank = (line) => !line.trim();
const begins = (line) => blank(line) || heading.test(line) || quote.test(line) || rule.test(line) || starts.test(line) || !!fence(line);

/** indent is the columns of blanks before a line; a tab has four. */
function indent(line) {
	let n = 0;
	for (const c of line) if (c === " ") n++; else if (c === "\t") n += 4; else break;
	return n;
}

/** safe is an address that may be followed, or "". */
function safe(address) {
	const url = /["<>`\\]/.test(address) ? null : URL.parse(address);
	return ["http:", "https:", "mailto:"].includes(url?.protocol) ? url.href : "";
}

/**
 * parse returns the tree of a text: a list of leaves [from, to] and of { tag, props, children }. What is no leaf's is
 * syntax. A block of code has the tag "pre" and a language.
 */
export function parse(source) {
	if (source.length > longest) return [[0, source.length]];
	const lines = [];
	for (let from = 0, end; from < source.length; from = end) {
		const to = source.indexOf("\n", from);
		end = to < 0 ? source.length : to + 1;
		lines.push({ from, to: to < 0 ? end : to - (source[to - 1] === "\r" ? 1 : 0), end });
	}
	return blocks(source, lines, 0);
}

/** Joined is lines as one text whose parts have their places in the source; they are asked for in their order. */
class Joined {
	constructor(source, lines) {
		Object.assign(this, { lines, text: "", starts: [], line: 0 });
		for (const [i, l] of lines.entries()) {
			this.starts.push(this.text.length);
			this.text += source.slice(l.from, i < lines.length - 1 ? l.end : l.to);
		}
		this.starts.push(this.text.length);
	}

	leaves(from, to) {
		const out = [];
		while (from < to) {
			while (this.starts[this.line + 1] <= from) this.line++;
			const at = this.lines[this.line].from - this.starts[this.line], stop = Math.min(to, this.starts[this.line + 1]);
			out.push([at + from, at + stop]);
			from = stop;
		}
		return out;
	}
}

function blocks(source, lines, depth) {
	const out = [], text = (i) => source.slice(lines[i].from, lines[i].to), nests = depth < deepest;
	const heads = (i) => i + 1 < lines.length && text(i).includes("|") && divider.test(text(i + 1).trim()); // a table
	for (let i = 0; i < lines.length;) {
		const line = text(i), code = fence(line), from = i++;
		if (blank(line)) continue;
		if (code) {
			const shut = (l) => { const t = l.trim(); return t.length >= code.mark.length && t === code.mark[0].repeat(t.length); };
			while (i < lines.length && !shut(text(i))) i++;
			const inside = lines.slice(from + 1, i++).map((l) => strip(source, l, code.indent));
			out.push({ tag: "pre", language: code.language, children: highlight(new Joined(source, inside), code.language) });
		} else if (heading.test(line)) {
			const [all, marks] = heading.exec(line), end = all.length + line.slice(all.length).trimEnd().length;
			const hashes = /(^| )#+$/.exec(line.slice(all.length, end).slice(-200));
			const own = { ...lines[from], from: lines[from].from + all.length, to: lines[from].from + end - (hashes ? hashes[0].length : 0) };
			out.push({ tag: "h3", props: { className: "h" + marks.length }, children: inline(new Joined(source, [own])) });
		} else if (rule.test(line)) {
			out.push({ tag: "hr", children: [] });
		} else if (nests && quote.test(line)) {
			while (i < lines.length && quote.test(text(i))) i++;
			const inside = lines.slice(from, i).map((l) => ({ ...l, from: l.from + quote.exec(source.slice(l.from, l.to))[0].length }));
			out.push({ tag: "blockquote", children: blocks(source, inside, depth + 1) });
		} else if (nests && item.test(line)) {
			const made = list(source, lines, from, depth);
			out.push(made.node);
			i = made.next;
		} else if (heads(from)) {
			for (i++; i < lines.length && text(i).includes("|");) i++;
			out.push(table(source, [lines[from], ...lines.slice(from + 2, i)]));
		} else {
			while (i < lines.length && !(nests ? begins(text(i)) || heads(i) : blank(text(i)))) i++;
			out.push({ tag: "p", children: inline(new Joined(source, lines.slice(from, i).map((l) => strip(source, l, 99)))) });
		}
	}
	return out;
}

/** strip takes at most n columns of blanks from the beginning of a line. */
function strip(source, line, n) {
	let { from } = line;
	for (let c; from < line.to && n > 0 && ((c = source[from]) === " " || c === "\t"); from++) n -= c === " " ? 1 : 4;
	return { ...line, from };
}

/** list reads items of one kind from line i on; what is indented by two columns is inside an item. */
function list(source, lines, i, depth) {
	const text = (i) => source.slice(lines[i].from, lines[i].to), first = item.exec(text(i)), base = indent(first[1]), kind = first[2].at(-1), items = [];
	for (let m; i < lines.length && (m = item.exec(text(i))) && m[2].at(-1) === kind && indent(m[1]) < base + 2;) {
		const width = m[3].length > 4 ? m[0].length - m[3].length + 1 : m[0].length, own = [{ ...lines[i], from: lines[i].from + width }];
		for (i++; i < lines.length; i++) {
			const t = text(i), columns = indent(t);
			if (!blank(t) && columns < base + 2 && (blank(text(i - 1)) || begins(t) || item.test(t))) break;
			own.push(strip(source, lines[i], Math.min(columns, indent(m[1]) + width - m[1].length)));
		}
		items.push({ tag: "li", children: blocks(source, own, depth + 1) });
	}
	const ordered = /\d/.test(first[2]);
	return { node: { tag: ordered ? "ol" : "ul", props: ordered ? { start: parseInt(first[2]) } : {}, children: items }, next: i };
}

function table(source, lines) {
	const row = (l, tag) => {
		const cells = [], text = source.slice(l.from, l.to);
		for (let at = /^ *\|?/.exec(text)[0].length, stop; at < text.trimEnd().length; at = stop + 1) {
			for (stop = at; stop < text.length && (text[stop] !== "|" || text[stop - 1] === "\\");) stop++;
			const cut = text.slice(at, stop), from = l.from + at + cut.length - cut.trimStart().length;
			cells.push({ tag, children: inline(new Joined(source, [{ from, to: Math.max(from, l.from + at + cut.trimEnd().length) }])) });
		}
		return { tag: "tr", children: cells };
	};
	return { tag: "table", children: [{ tag: "tbody", children: lines.map((l, i) => row(l, i ? "td" : "th")) }] };
}

/** inline reads emphasis, code, links and escapes. Where no end of a mark is found, none is looked for again. */
function inline(joined) {
	const { text } = joined, word = (c) => !!c && /[\p{L}\p{N}]/u.test(c), space = (c) => !c || /\s/.test(c);
	let link = -1;
	const run = (i) => { let n = i; while (text[n] === text[i]) n++; return n - i; };

	/** closing finds the end of emphasis that begins at i. */
	function closing(mark, i, to) {
		const c = mark[0], n = mark.length;
		for (let j = text.indexOf(mark, i + n + 1); j >= 0 && j + n <= to; j = text.indexOf(mark, j + 1)) {
			if (n > 1) while (text[j + n] === c && j + n < to) j++;
			else if (text[j - 1] === c || text[j + 1] === c && j + 1 < to) { j += run(j) - 1; continue; }
			if (!space(text[j - 1]) && text[j - 1] !== "\\" && !(c === "_" && word(text[j + n]))) return j;
		}
		return -1;
	}

	/** linked reads [label](address) at i. */
	function linked(i, to) {
		if (link < i && link !== Infinity) link = text.indexOf("](", i);
		if (link < 0) link = Infinity;
		const j = link;
		if (j >= to || text.lastIndexOf("[", j) !== i || j === i + 1) return null;
		let k = j + 2;
		for (let open = 1; k < to && k < j + 2000 && text[k] !== "\n"; k++) {
			if (text[k] === "(") open++;
			else if (text[k] === ")" && !--open) break;
		}
		const href = text[k] === ")" && k < to && safe(text.slice(j + 2, k).trim().split(/\s/)[0].replace(/^<|>$/g, ""));
		return href ? { href, from: i + 1, to: j, next: k + 1 } : null;
	}

	/** bare reads an address that stands in the text, or one in < and >. */
	function bare(i, to) {
		const pattern = text[i] === "<" ? /<((?:https?:\/\/|mailto:)[^\s<>]+)>/y : /https?:\/\/[^\s<>"'`|\\^{}[\]*]+/y;
		pattern.lastIndex = i;
		const found = pattern.exec(text);
		if (!found || i + found[0].length > to || text[i] !== "<" && word(text[i - 1])) return null;
		if (found[1]) return { href: safe(found[1]), from: i + 1, to: i + 1 + found[1].length, next: i + found[0].length };
		let end = i + found[0].length;
		while (".,;:!?)_~".includes(text[end - 1])) end--;
		return { href: safe(text.slice(i, end)), from: i, to: end, next: end };
	}

	function scan(from, to, depth, inLink) {
		const out = [], none = new Set();
		let at = from; // what is not in out yet
		const put = (upto, next, node) => {
			for (const leaf of joined.leaves(at, upto)) out.push(leaf);
			if (node) out.push(node());
			return at = next;
		};
		for (let i = from; i < to;) {
			const c = text[i], n = "`*_~".includes(c) ? run(i) : 1;
			let found = null;
			if (c === "\\" && i + 1 < to && /[!-/:-@[-`{-~]/.test(text[i + 1])) {
				put(i, i + 1);
				i += 2;
				continue;
			} else if (c === "`") {
				const mark = "`".repeat(n);
				let j = none.has(mark) ? -1 : text.indexOf(mark, i + n);
				while (j >= 0 && run(j) !== n) j = text.indexOf(mark, j + run(j));
				if (j >= 0 && j + n <= to) found = [j + n, () => ({ tag: "code", children: joined.leaves(i + n, j) })];
				else none.add(mark);
			} else if (depth < deepest && (c === "*" || c === "_" || c === "~" && n === 2) && n < 4 && !space(text[i + n]) && !(c === "_" && word(text[i - 1]))) {
				const mark = c.repeat(Math.min(n, 2)), j = none.has(mark) ? -1 : closing(mark, i, to);
				if (j < 0) none.add(mark);
				else found = [j + mark.length, () => ({ tag: c === "~" ? "del" : mark.length > 1 ? "strong" : "em", children: scan(i + mark.length, j, depth + 1, inLink) })];
			} else if (!inLink && depth < deepest && "[!<h".includes(c)) {
				const l = c === "[" ? linked(i, to) : c === "!" ? text[i + 1] === "[" ? linked(i + 1, to) : null : bare(i, to);
				if (l?.href) found = [l.next, () => ({ tag: "a", props: { href: l.href, target: "_blank", rel: "noopener noreferrer" }, children: scan(l.from, l.to, depth + 1, true) })];
			}
			i = found ? put(i, found[0], found[1]) : i + n;
		}
		put(to, to);
		return out;
	}
	return scan(0, text.length, 0, false);
}

/** highlight is a block of code with its kinds of tokens. */
function highlight(joined, language) {
	const out = [];
	let at = 0;
	for (const { from, to, kind } of tokens(joined.text, language)) {
		out.push(...joined.leaves(at, from), { tag: "span", props: { className: kind }, children: joined.leaves(from, to) });
		at = to;
	}
	return [...out, ...joined.leaves(at, joined.text.length)];
}

/** build makes the elements of a tree; leaf makes the nodes of a leaf. */
export function build(tree, leaf) {
	return tree.flatMap((node) => {
		if (Array.isArray(node)) return leaf(node);
		const made = el(node.tag === "pre" ? "code" : node.tag, node.props, ...build(node.children, leaf));
		if (node.tag !== "pre") return [made];
		return [el("div", { className: "code" }, el("div", { className: "row help" }, node.language, copier(() => made.innerText)), el("pre", { tabIndex: 0, ariaLabel: "Code" }, made))];
	});
}

/** markdown makes the elements of a text. */
export const markdown = (text) => build(parse(text), ([from, to]) => [text.slice(from, to)]);
