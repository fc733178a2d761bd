"""OpenAI's package for Python on /v1/responses: answers, streams, models of pydantic, calls, conversations that go on."""
import os
from typing import Literal

import openai
import pydantic

client = openai.OpenAI(base_url=os.environ["UNMASK_URL"] + "/v1", api_key="none", max_retries=0)
args = dict(model="caller", input="Tell me about Lily.", temperature=0, max_output_tokens=60)
seeded = {"extra_body": {"seed": 3}}

answer = client.responses.create(instructions="Be brief.", **args)
assert answer.output_text and answer.status in ("completed", "incomplete") and answer.usage.input_tokens > 4, answer
chat = client.chat.completions.create(model="caller", temperature=0, max_tokens=60, messages=[
    {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Tell me about Lily."}])
assert answer.output_text == chat.choices[0].message.content, (answer, chat)
assert answer.usage.total_tokens == chat.usage.total_tokens, (answer.usage, chat.usage)

assert client.responses.retrieve(answer.id).output_text == answer.output_text

kinds, text = [], ""
for event in client.responses.create(instructions="Be brief.", stream=True, **args):
    assert event.sequence_number == len(kinds), event
    kinds.append(event.type)
    text += event.delta if event.type == "response.output_text.delta" else ""
assert text == answer.output_text, text
order = [k for i, k in enumerate(kinds) if k not in kinds[:i]]
assert order == ["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
                 "response.output_text.delta", "response.output_text.done", "response.content_part.done",
                 "response.output_item.done", "response." + answer.status], order
with client.responses.stream(instructions="Be brief.", **args) as stream:
    events = list(stream)
    if answer.status == "completed":
        assert stream.get_final_response().output_text == text

goes_on = client.responses.create(previous_response_id=answer.id, **{**args, "input": "And then?"})
whole = client.responses.create(**{**args, "input": [
    {"role": "user", "content": [{"type": "input_text", "text": "Tell me about Lily."}]}, *answer.output,
    {"role": "user", "content": "And then?"}]})
assert goes_on.output_text == whole.output_text and goes_on.usage == whole.usage, (goes_on, whole)
by_name = client.responses.create(**{**args, "input": [
    {"role": "user", "content": "Tell me about Lily."}, {"type": "item_reference", "id": answer.output[0].id},
    {"role": "user", "content": "And then?"}]})
assert by_name.output_text == whole.output_text, by_name


class Toy(pydantic.BaseModel):
    """Finds a toy."""

    kind: Literal["ball", "doll", "car"]
    colour: Literal["red", "blue"]


parsed = client.responses.parse(text_format=Toy, **args, **seeded)
assert isinstance(parsed.output_parsed, Toy) and parsed.status == "completed", parsed
with client.responses.stream(text_format=Toy, **args, **seeded) as stream:
    for _ in stream:
        pass
    assert stream.get_final_response().output_parsed == parsed.output_parsed

tools = [openai.pydantic_function_tool(Toy)["function"] | {"type": "function"}]
called = client.responses.create(tools=tools, tool_choice="required", **args, **seeded)
call = called.output[0]
assert call.type == "function_call" and isinstance(Toy.model_validate_json(call.arguments), Toy), called
parts = ""
with client.responses.stream(tools=tools, tool_choice="required", **args, **seeded) as stream:
    for event in stream:
        parts += event.delta if event.type == "response.function_call_arguments.delta" else ""
    final = stream.get_final_response()
assert parts == call.arguments == final.output[0].arguments and final.output[0].call_id == call.call_id, final
result = {"type": "function_call_output", "call_id": call.call_id, "output": "under the bed"}
told = client.responses.create(tools=tools, tool_choice="none", **{
    **args, "input": [{"role": "user", "content": args["input"]}, *called.output, result]})
again = client.responses.create(tools=tools, tool_choice="none", previous_response_id=called.id, **{**args, "input": [result]})
assert told.output_text == again.output_text, (told, again)


def refused(kind, code, param, **more):
    try:
        client.responses.create(**{**args, "model": "caller", **more})
    except openai.APIStatusError as e:
        assert type(e) is kind and e.code == code and e.param == param, (e, e.code, e.param)
        return
    raise AssertionError(f"{more} is taken")


unkept = client.responses.create(store=False, **{**args, "input": "Who?"})
for gone in unkept.id, "resp_none":
    try:
        client.responses.retrieve(gone)
        raise SystemExit(f"{gone} is kept")
    except openai.NotFoundError as e:
        assert e.code == "response_not_found" and e.param == "response_id", e
refused(openai.BadRequestError, "unsupported_parameter", "reasoning.effort", reasoning={"effort": "high"})
refused(openai.BadRequestError, "previous_response_not_found", "previous_response_id", previous_response_id="resp_none")
refused(openai.BadRequestError, "out_of_range", "max_output_tokens", max_output_tokens=0)
refused(openai.BadRequestError, "unsupported_parameter", "input[0].type", input=[{"type": "computer_call"}])
refused(openai.NotFoundError, "model_not_found", "model", model="gpt-6")
print("ok responses")
