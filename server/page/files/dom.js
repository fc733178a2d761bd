// Elements by id, and new ones.
export const $ = (id) => document.getElementById(id);

const storage = (name) => { try { return window[name]; } catch { return {}; } };

/** local and session are what the browser keeps; where it keeps nothing, they last as long as the page. */
export const local = storage("localStorage"), session = storage("sessionStorage");
export const lasting = local instanceof Storage;

/** stays keeps a word, where there is room. */
export function stays(name, word) { try { local[name] = word; } catch { /* it holds for now */ } }

/** el makes an element with properties and children; what is no property is an attribute. */
export function el(name, props = {}, ...children) {
	const e = document.createElement(name);
	for (const [k, v] of Object.entries(props)) k in e ? e[k] = v : e.setAttribute(k, v);
	e.append(...children);
	return e;
}

/** button makes one that sends no form. */
export const button = (textContent, onclick, props) => el("button", { type: "button", textContent, onclick, ...props });

/** tip shows words beside an element, or nothing. */
export function tip(element, words) {
	const t = $("tip");
	t.hidden = !words;
	if (!words) return;
	t.textContent = words;
	t.style.left = 0; // where it has its full width
	const box = element.getClientRects()[0], { width, height } = t.getBoundingClientRect();
	t.style.left = Math.max(8, Math.min(innerWidth - width - 8, box.left)) + "px";
	t.style.top = (box.bottom + 8 + height < innerHeight ? box.bottom + 6 : box.top - height - 6) + "px";
}

/** on listens to events of several names. */
export const on = (target, names, act) => { for (const name of names.split(" ")) target.addEventListener(name, act); };

/** tips shows words(element) for what is below the pointer or has the focus. */
export function tips(root, words) {
	on(root, "pointerover focusin", (e) => e.target.at === undefined || tip(e.target, words(e.target)));
	on(root, "pointerleave focusout", () => tip());
}

/** rove moves the focus among items that Tab enters once, and returns where it is. */
export function rove(items, from, to) {
	items[from].tabIndex = -1;
	items[to].tabIndex = 0;
	items[to].focus();
	return to;
}

/** used tells that a key was of use here, and nowhere else. */
export function used(e) {
	e.preventDefault();
	e.stopPropagation();
}

/** save hands a file to the reader. */
export function save(name, part) {
	const a = el("a", { href: URL.createObjectURL(new Blob([part])), download: name });
	a.click();
	setTimeout(() => URL.revokeObjectURL(a.href), 1e4);
}

/** copy puts a text onto the clipboard. */
export async function copy(text) {
	try {
		await navigator.clipboard.writeText(text);
	} catch { // plain http from elsewhere has no clipboard
		const area = document.body.appendChild(el("textarea", { value: text }));
		area.select();
		document.execCommand("copy");
		area.remove();
	}
}

/** copier is a button that copies what get returns. */
export function copier(get, name = "Copy") {
	const b = button(name, async () => {
		await copy(get());
		b.textContent = "Copied";
		setTimeout(() => { b.textContent = name; }, 1500);
	});
	return b;
}
