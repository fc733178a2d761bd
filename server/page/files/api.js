// Requests: keys, errors, waiting, event streams.
import { $, session } from "./dom.js";

/** Failure is an error of the server or, with status 0, a connection that broke. */
export class Failure extends Error {
	constructor(status, message, code, retry, param) {
		super(message);
		Object.assign(this, { status, code, retry, param }); // retry: seconds; param: the field that is wrong
	}
}

export const lost = () => new Failure(0, "The connection was lost.");
export const hasKey = () => !!session.unmaskKey;

function askKey(wrong) {
	const dialog = $("key");
	$("key-help").textContent = wrong ? "The server does not know this key." : "It stays in this tab and is forgotten with it.";
	dialog.returnValue = $("key-value").value = "";
	dialog.showModal();
	return new Promise((resolve) => dialog.addEventListener("close", () => {
		const given = dialog.returnValue && $("key-value").value.trim();
		if (given) session.unmaskKey = given;
		resolve(!!given);
	}, { once: true }));
}

let asking; // one dialog for all requests that are refused at once

/** send fetches a path; body is nothing, an object, or FormData. It throws a Failure. */
export async function send(path, body, signal) {
	for (;;) {
		const headers = {}, key = session.unmaskKey, form = body instanceof FormData;
		if (key) headers.Authorization = "Bearer " + key;
		if (body && !form) headers["Content-Type"] = "application/json";
		let answer;
		try {
			answer = await fetch(path, { signal, headers, method: body ? "POST" : "GET", body: form || !body ? body : JSON.stringify(body) });
		} catch (e) {
			throw e.name === "AbortError" ? e : new Failure(0, "The server cannot be reached.");
		}
		if (answer.ok) return answer;
		const { error: e = {} } = await answer.json().catch(() => ({}));
		const failure = new Failure(answer.status, e.message || `The server answers ${answer.status}.`, e.code, +answer.headers.get("Retry-After"), e.param);
		if (answer.status !== 401) throw failure;
		asking ||= askKey(key).finally(() => { asking = null; });
		if (!(await asking)) throw failure;
	}
}

export const sleep = (ms, signal) => new Promise((resolve, reject) => {
	setTimeout(resolve, ms);
	signal?.addEventListener("abort", () => reject(new DOMException("", "AbortError")), { once: true });
});

/** patient asks again while the server is busy; wait is told the seconds left. */
export async function patient(path, body, signal, wait) {
	for (;;) {
		try {
			return await send(path, body, signal);
		} catch (e) {
			if (e.status !== 429 && !(e.status === 503 && e.retry)) throw e;
			for (let left = Math.max(1, e.retry); left > 0; left--) {
				wait(left, e.code);
				await sleep(1000, signal);
			}
		}
	}
}

/** silence is how long a stream may say nothing, in milliseconds: the server sends a comment every 10 seconds. */
export const silence = { most: 30000 };

/** heardOf reads on, and fails where the server has gone silent. */
async function heardOf(reader) {
	let timer;
	const silent = new Promise((_, reject) => { timer = setTimeout(() => reject(new Failure(0, "The server has stopped answering.")), silence.most); });
	try {
		return await Promise.race([reader.read(), silent]);
	} catch (e) {
		if (e instanceof Failure) reader.cancel().catch(() => {});
		throw e.name === "AbortError" || e instanceof Failure ? e : lost();
	} finally {
		clearTimeout(timer);
	}
}

/** events yields [event, data, data as text] of a stream, and throws a Failure where one comes or it breaks off. */
async function* events(answer) {
	const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
	for (let rest = ""; ;) {
		const part = await heardOf(reader);
		if (part.done) throw lost();
		const blocks = (rest + part.value).split("\n\n");
		rest = blocks.pop();
		for (const block of blocks) {
			const [, event, text] = /^event: (\S+)\n(?:id: .*\n)?data: (.*)/.exec(block) || [];
			if (!event) continue; // a comment
			const data = JSON.parse(text), e = data.error;
			if (e) throw new Failure(e.code === "shutting_down" ? 0 : 500, e.message, e.code);
			yield [event, data, text];
		}
	}
}

/** follow makes a request with a native stream; on has wait, start, step and done. */
export async function follow(path, body, signal, on) {
	if (body instanceof FormData) body.set("stream", "events");
	else body = { ...body, stream: "events" };
	for await (const [event, data, text] of events(await patient(path, body, signal, on.wait))) {
		on[event]?.(data, text);
		if (event === "done") return;
	}
}
