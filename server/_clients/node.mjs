// OpenAI's package for Node.js: chat, streams, a seed that is repeated, pictures' errors.
import assert from "node:assert";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.env.UNMASK_URL + "/v1", apiKey: "none", maxRetries: 0 });
const messages = [{ role: "developer", content: "Be brief." }, { role: "user", content: "What news?" }];
const first = await client.chat.completions.create({ model: "talk", messages });
assert(Number.isSafeInteger(first.unmask.seed), "a drawn seed is a number of JavaScript");
const again = await client.chat.completions.create({ model: "talk", messages, seed: first.unmask.seed });
assert.equal(again.choices[0].message.content, first.choices[0].message.content);
let text = "", usage;
for await (const chunk of await client.chat.completions.create({ model: "talk", messages, seed: first.unmask.seed, stream: true, stream_options: { include_usage: true } })) {
	text += chunk.choices[0]?.delta?.content ?? "";
	usage = chunk.usage ?? usage;
}
assert.equal(text, first.choices[0].message.content);
assert.deepEqual(usage, first.usage);
await assert.rejects(client.chat.completions.create({ model: "none", messages }), { status: 404 });
console.log("ok node");
