// Elements by id, and new ones.
export const $ = (id) => document.getElementById(id);

/** el makes an element with properties and children; what is no property is an attribute. */
export function el(name, props = {}, ...children) {
	const e = document.createElement(name);
	for (const [k, v] of Object.entries(props)) k in e ? e[k] = v : e.setAttribute(k, v);
	e.append(...children);
	return e;
}

/** toast shows a short word for a moment. */
export function toast(words) {
	const t = $("toast");
	t.textContent = words;
	clearTimeout(toast.timer);
	toast.timer = setTimeout(() => { t.textContent = ""; }, 1800);
}

/** tip shows words beside an element, or nothing. */
export function tip(element, words) {
	const t = $("tip");
	t.hidden = !words;
	if (!words) return;
	t.textContent = words;
	const box = element.getClientRects()[0], own = t.getBoundingClientRect(), below = box.bottom + 8 + own.height < innerHeight;
	t.style.left = Math.max(8, Math.min(innerWidth - own.width - 8, box.left)) + "px";
	t.style.top = (below ? box.bottom + 6 : box.top - own.height - 6) + "px";
}

/** on listens to events of several names. */
export const on = (target, names, act) => { for (const name of names.split(" ")) target.addEventListener(name, act); };

/** tips shows words(element) for what is below the pointer or has the focus. */
export function tips(root, words) {
	on(root, "pointerover focusin", (e) => e.target.at === undefined || tip(e.target, words(e.target)));
	on(root, "pointerleave focusout", () => tip());
}

/** used tells that a key was of use here, and nowhere else. */
export function used(e) {
	e.preventDefault();
	e.stopPropagation();
}

/** save hands a file to the reader. */
export function save(name, ...parts) {
	const a = el("a", { href: URL.createObjectURL(new Blob(parts)), download: name });
	a.click();
	setTimeout(() => URL.revokeObjectURL(a.href), 1e4);
}
