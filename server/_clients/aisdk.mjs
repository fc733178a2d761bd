// Vercel's AI SDK with its default classes for OpenAI and Anthropic, and the packages of OpenAI, Anthropic and Ollama
// for Node.js: texts, streams, objects, tools, a conversation that goes on.
import assert from "node:assert";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import Anthropic from "@anthropic-ai/sdk";
import { generateText, jsonSchema, Output, stepCountIs, streamText, tool } from "ai";
import { Ollama } from "ollama";
import OpenAI from "openai";

const url = process.env.UNMASK_URL;
const openai = createOpenAI({ baseURL: url + "/v1", apiKey: "none" });
const anthropic = createAnthropic({ baseURL: url + "/v1", apiKey: "none" });
const toy = jsonSchema({ type: "object", properties: { toy: { enum: ["ball", "doll"] } }, required: ["toy"], additionalProperties: false });
const usual = { system: "Be brief.", temperature: 0, maxOutputTokens: 60, maxRetries: 0 };

for (const of of [openai, anthropic]) {
	const first = await generateText({ model: of("caller"), prompt: "Tell me about Lily.", ...usual });
	assert(first.text && first.usage.outputTokens > 0);
	let text = "";
	for await (const part of streamText({ model: of("caller"), prompt: "Tell me about Lily.", ...usual }).textStream) text += part;
	assert.equal(text, first.text);
	const talk = [{ role: "user", content: "Tell me about Lily." }, ...first.response.messages, { role: "user", content: "And then?" }];
	assert((await generateText({ model: of("caller"), messages: talk, ...usual })).text); // OpenAI's refers to the item by its id
	const made = await generateText({ model: of("caller"), prompt: "What toy?", output: Output.object({ schema: toy }), ...usual });
	assert(["ball", "doll"].includes(made.output.toy));
	let asked;
	const find = tool({ description: "Finds a toy.", inputSchema: toy, execute: async ({ toy }) => ((asked = toy), "under the bed") });
	const called = await generateText({ model: of("caller"), prompt: "Where is it?", tools: { find }, stopWhen: stepCountIs(2), ...usual,
		prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber ? "none" : "required" }) });
	assert(called.steps.length === 2 && ["ball", "doll"].includes(asked));
}

const client = new OpenAI({ baseURL: url + "/v1", apiKey: "none", maxRetries: 0 });
const whole = await client.responses.create({ model: "caller", input: "Tell me about Lily.", temperature: 0 });
let text = "";
for await (const event of await client.responses.create({ model: "caller", input: "Tell me about Lily.", temperature: 0, stream: true }))
	if (event.type === "response.output_text.delta") text += event.delta;
assert(text && text === whole.output_text);
assert.equal((await client.responses.retrieve(whole.id)).output[0].content[0].text, text);
await assert.rejects(client.responses.retrieve("resp_none"), { status: 404, code: "response_not_found" });
await assert.rejects(client.responses.create({ model: "none", input: "?" }), { status: 404, code: "model_not_found" });

const claude = new Anthropic({ baseURL: url, apiKey: "none", maxRetries: 0 });
const message = { model: "caller", max_tokens: 60, temperature: 0, messages: [{ role: "user", content: "Tell me about Lily." }] };
const said = await claude.messages.create(message);
assert.equal((await claude.messages.stream(message).finalMessage()).content[0].text, said.content[0].text);
await assert.rejects(claude.messages.create({ ...message, model: "none" }), { status: 404 });

const ollama = new Ollama({ host: url });
assert((await ollama.list()).models.some((m) => m.model === "caller"));
const one = { model: "caller", messages: message.messages, options: { temperature: 0, num_predict: 60 } };
const answer = await ollama.chat(one);
text = "";
for await (const part of await ollama.chat({ ...one, stream: true })) text += part.message.content;
assert(text && text === answer.message.content && text === said.content[0].text);
const vectors = (await ollama.embed({ model: "vectors", input: ["the dog", "a cat"], truncate: true })).embeddings;
assert(vectors.length === 2 && Math.abs(vectors[0].reduce((sum, x) => sum + x * x, 0) - 1) < 1e-5);
assert.equal((await ollama.embeddings({ model: "vectors", prompt: "the dog" })).embedding.length, vectors[0].length);
console.log("ok aisdk");
