"""Ollama's package for Python, and langchain's for it: models, conversations, texts, vectors, schemas, calls, errors."""
import os
import sys

sys.path.pop(0)  # this file has the name of the package
import ollama
import pydantic
from langchain_ollama import ChatOllama, OllamaEmbeddings

url = os.environ["UNMASK_URL"]
client = ollama.Client(host=url)
names = [m.model for m in client.list().models]
assert {"demo", "caller"} <= set(names), names
shown = client.show("caller")
assert "completion" in shown.capabilities and shown.modelinfo["general.architecture"], shown
assert "tools" in client.show("caller").capabilities
assert "caller" in [m.model for m in client.ps().models]

messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Tell me about Lily."}]
options = {"seed": 3, "num_predict": 60, "num_ctx": 4096, "repeat_penalty": 1.0, "top_k": -1}
answer = client.chat("caller", messages, options=options, keep_alive="5m", think=False)
assert answer.message.content and answer.done and answer.done_reason in ("stop", "length") and answer.eval_count, answer
parts = list(client.chat("caller:latest", messages, options=options, stream=True))
assert "".join(p.message.content for p in parts) == answer.message.content, parts
assert [p.done for p in parts] == [False] * (len(parts) - 1) + [True] and parts[-1].eval_count == answer.eval_count, parts
asked = client.generate("caller", "Tell me about Lily.", system="Be brief.", options=options)
assert asked.response == answer.message.content, asked
text = client.generate("demo", "Once upon a time", options=options)
assert text.response == "".join(p.response for p in client.generate("demo", "Once upon a time", options=options, stream=True))
between = client.generate("demo", "Once upon a time", suffix=" the end.", options=options)
assert between.response and between.response != text.response, between
assert client.generate("caller").done_reason == "load"


assert "embedding" in client.show("vectors").capabilities and "vectors" in names, names
embedded = client.embed("vectors", ["the dog", "a cat"], options={"num_ctx": 4096}, keep_alive="5m", truncate=True)
assert len(embedded.embeddings) == 2 and embedded.prompt_eval_count > 4, embedded
assert all(abs(sum(x * x for x in v) - 1) < 1e-5 for v in embedded.embeddings), embedded
assert len(client.embed("vectors:latest", "the dog", dimensions=3).embeddings[0]) == 3
older = client.embeddings("vectors", "the dog").embedding
assert len(older) == len(embedded.embeddings[0]), older
lang = OllamaEmbeddings(model="vectors", base_url=url, temperature=0.1, num_ctx=4096)
for mine, theirs in zip(lang.embed_documents(["the dog", "a cat"]), embedded.embeddings):
    assert max(abs(x - y) for x, y in zip(mine, theirs)) < 1e-6, mine


class Toy(pydantic.BaseModel):
    red: bool


made = client.chat("caller", messages, format=Toy.model_json_schema(), options=options)
assert isinstance(Toy.model_validate_json(made.message.content), Toy), made


def find(toy: str) -> str:
    """Finds a toy.

    Args:
      toy: its name
    """


likely = {**options, "bias": ["{\"=400"]}
called = client.chat("caller", messages, tools=[find], options=likely)
call = called.message.tool_calls[0].function
assert call.name == "find" and isinstance(call.arguments["toy"], str), called
streamed = [p for p in client.chat("caller", messages, tools=[find], options=likely, stream=True) if p.message.tool_calls]
assert streamed[-1].message.tool_calls[0].function == call, streamed
told = client.chat("caller", [*messages, called.message, {"role": "tool", "tool_name": "find", "content": "under the bed"}],
                   options=options)
assert told.done and told.prompt_eval_count > answer.prompt_eval_count, told
for more, status in (({"model": "none"}, 404), ({"options": {"mirostat": 2}}, 400), ({"think": True}, 400)):
    try:
        client.chat(**{"model": "caller", "messages": messages, **more})
        raise SystemExit(f"{more} is taken")
    except ollama.ResponseError as e:
        assert e.status_code == status and e.error, e

chat = ChatOllama(model="caller", base_url=url, temperature=0, num_predict=60, validate_model_on_init=True)
answer = chat.invoke([("system", "Be brief."), ("human", "Tell me about Lily.")])
assert answer.content and answer.usage_metadata["output_tokens"] > 0, answer
assert "".join(c.content for c in chat.stream([("system", "Be brief."), ("human", "Tell me about Lily.")])) == answer.content
print("ok ollama")
