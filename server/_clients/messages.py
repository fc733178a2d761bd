"""Anthropic's package for Python, and langchain's for it: answers, streams, calls, counts, errors."""
import json
import os

import anthropic
from langchain_anthropic import ChatAnthropic

url = os.environ["UNMASK_URL"]
client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
talk = [{"role": "user", "content": [{"type": "text", "text": "Tell me about Lily.", "cache_control": {"type": "ephemeral"}}]}]
args = dict(model="caller", system=[{"type": "text", "text": "Be brief."}], messages=talk, max_tokens=60, extra_body={"seed": 3})

answer = client.messages.create(**args)
text = answer.content[0].text
assert text and answer.stop_reason in ("end_turn", "max_tokens") and answer.usage.output_tokens > 0, answer
count = client.messages.count_tokens(model="caller", system="Be brief.", messages=talk).input_tokens
assert count == answer.usage.input_tokens, (count, answer)
with client.messages.stream(**args) as stream:
    assert "".join(stream.text_stream) == text
    final = stream.get_final_message()
assert final.usage == answer.usage and final.stop_reason == answer.stop_reason and final.id == answer.id, (final, answer)
kinds = [e.type for e in client.messages.create(stream=True, **args)]
order = [k for i, k in enumerate(kinds) if k not in kinds[:i]]
assert order == ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
                 "message_stop"], kinds
stop = text[4:7]
stopped = client.messages.create(stop_sequences=["\n\n\n", stop], **args)
assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", stop), stopped
assert stopped.content[0].text == text[: text.index(stop)], stopped

toy = {"type": "object", "properties": {"toy": {"enum": ["ball", "doll"]}}, "required": ["toy"], "additionalProperties": False}
tools = [{"name": "find", "description": "Finds a toy.", "input_schema": toy}]
called = client.messages.create(tools=tools, tool_choice={"type": "any"}, **args)
use = called.content[0]
assert called.stop_reason == "tool_use" and use.name == "find" and use.input["toy"] in ("ball", "doll"), called
with client.messages.stream(tools=tools, tool_choice={"type": "tool", "name": "find"}, **args) as stream:
    parts = "".join(e.partial_json for e in stream if e.type == "input_json")
    final = stream.get_final_message()
assert json.loads(parts) == final.content[0].input == use.input and final.stop_reason == "tool_use", final
told = client.messages.create(tools=tools, tool_choice={"type": "none"}, **{**args, "messages": talk + [
    {"role": "assistant", "content": called.content},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "under the bed"}]}]})
assert told.content[0].text, told
made = client.messages.create(output_config={"format": {"type": "json_schema", "schema": toy}}, **args)
assert json.loads(made.content[0].text)["toy"] in ("ball", "doll"), made


def refused(kind, sort, param, **more):
    try:
        client.messages.create(**{**args, "model": "caller", **more})
    except anthropic.APIStatusError as e:
        told = e.body["error"]
        assert type(e) is kind and told["type"] == sort and told["param"] == param, (e, e.body)
        assert e.request_id and e.body["request_id"] == e.request_id, e
        return
    raise AssertionError(f"{more} is taken")


refused(anthropic.NotFoundError, "not_found_error", "model", model="none")
refused(anthropic.BadRequestError, "invalid_request_error", "thinking.type", thinking={"type": "enabled", "budget_tokens": 2048})
refused(anthropic.BadRequestError, "invalid_request_error", "messages", messages=talk + [{"role": "assistant", "content": "So"}])
assert "caller" in [m.id for m in client.models.list() if m.display_name and m.created_at and m.type]

chat = ChatAnthropic(model="caller", base_url=url, api_key="none", max_tokens=60, temperature=0)
answer = chat.invoke([("system", "Be brief."), ("human", "Tell me about Lily.")])
assert answer.content and answer.usage_metadata["output_tokens"] > 0, answer
assert "".join(c.text for c in chat.stream([("system", "Be brief."), ("human", "Tell me about Lily.")])) == answer.text
print("ok messages")
