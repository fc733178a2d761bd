"""What OpenAI's package for Python makes of a server of unmask. Run by TestOpenAIPython with the
server's URL; each function is a case, and fails by an exception."""

import base64
import os
import struct
import sys
import threading
import time
import zlib
from typing import Annotated, Literal

import openai
import pydantic

url = sys.argv[1]
client = openai.OpenAI(base_url=url + "/v1", api_key=os.environ["UNMASK_KEY"], max_retries=0)


def models():
    names = [m.id for m in client.models.list()]
    assert names == ["demo", "demo-image", "llada", "dream", "caller"], names
    one = client.models.retrieve("llada")
    assert one.model_extra["unmask"]["chat"] is True, one


def completions():
    args = dict(model="demo", prompt="Once upon", seed=1, max_tokens=24, extra_body={"sampler": "moment", "steps": 8})
    a = client.completions.create(**args)
    assert a.choices[0].finish_reason == "length" and 12 < a.usage.completion_tokens <= 24, a  # no pads are counted
    assert a.model_extra["unmask"]["sampler"].startswith("moment"), a
    text, steps = "", []
    for chunk in client.completions.create(stream=True, stream_options={"include_steps": True, "include_usage": True}, **args):
        if chunk.choices:
            assert len(chunk.choices) == 1, chunk
            text += chunk.choices[0].text
        if chunk.model_extra.get("unmask", {}).get("opened"):
            steps.append(chunk.model_extra["unmask"]["step"])
        usage = chunk.usage
    assert text == a.choices[0].text, (text, a)
    assert sorted(set(steps)) == list(range(1, 9)), steps
    assert usage.total_tokens == a.usage.total_tokens, usage
    many = client.completions.create(**{**args, "prompt": ["Lily had", "Ben had"], "n": 2, "logprobs": 1, "echo": True})
    assert [c.index for c in many.choices] == [0, 1, 2, 3], many
    assert all(len(c.logprobs.tokens) == len(c.logprobs.token_logprobs) for c in many.choices), many
    assert many.choices[2].text.startswith("Ben had"), many
    stopped = client.completions.create(**{**args, "stop": [a.choices[0].text[3:6]]})
    assert stopped.choices[0].finish_reason == "stop" and stopped.choices[0].text == a.choices[0].text[:3], stopped
    largest = client.completions.create(**{**args, "seed": 2**63 - 1})
    assert largest.model_extra["unmask"]["seed"] == 2**63 - 1, largest
    between = client.completions.create(**{**args, "suffix": " the end"})
    assert between.usage.completion_tokens > 0, between


def chat():
    for model in ("llada", "dream"):
        args = dict(model=model, seed=3, max_tokens=16, messages=[
            {"role": "system", "content": "be brief"}, {"role": "user", "content": [{"type": "text", "text": "hello world"}]}])
        a = client.chat.completions.create(**args)
        message = a.choices[0].message
        assert message.role == "assistant" and isinstance(message.content, str), a
        assert a.choices[0].finish_reason in ("stop", "length") and a.usage.prompt_tokens > 4, a
        text, roles = "", []
        for chunk in client.chat.completions.create(stream=True, **args):
            delta = chunk.choices[0].delta
            roles.append(delta.role)
            text += delta.content or ""
        assert text == message.content, (text, message)
        assert roles[0] == "assistant", roles
        with client.chat.completions.stream(**args) as stream:
            for _ in stream:
                pass
            try:
                final = stream.get_final_completion()
            except openai.LengthFinishReasonError as e:
                final = e.completion
        assert final.choices[0].message.content == message.content, final
        again = client.chat.completions.create(**{**args, "messages": args["messages"] + [
            {"role": "assistant", "content": "hello"}, {"role": "user", "content": "world"}]}, logprobs=True)
        assert len(again.choices[0].logprobs.content) > 0, again
    try:
        client.chat.completions.create(model="demo", messages=[{"role": "user", "content": "x"}])
        raise AssertionError("a model without a template answers")
    except openai.BadRequestError as e:
        assert e.code == "no_chat_template", e


class Toy(pydantic.BaseModel):
    kind: Literal["ball", "doll", "car"]
    colour: Literal["red", "blue"]


class Child(pydantic.BaseModel):
    """A child of a story, with toys."""

    age: Annotated[int, pydantic.Field(ge=2, le=9)]
    toys: Annotated[list[Toy], pydantic.Field(min_length=1, max_length=2)]


def structured():
    for model in ("llada", "dream"):
        args = dict(model=model, seed=3, max_tokens=160, messages=[{"role": "user", "content": "hello world"}])
        a = client.chat.completions.parse(response_format=Child, **args)
        child = a.choices[0].message.parsed
        assert isinstance(child, Child) and 1 <= len(child.toys) <= 2, a
        with client.chat.completions.stream(response_format=Child, **args) as stream:
            for _ in stream:
                pass
            assert stream.get_final_completion().choices[0].message.parsed == child, child

        tools = [openai.pydantic_function_tool(Child), openai.pydantic_function_tool(Toy)]
        for choice, kinds in (("required", (Child, Toy)), ({"type": "function", "function": {"name": "Toy"}}, (Toy,))):
            a = client.chat.completions.parse(tools=tools, tool_choice=choice, **args)
            message = a.choices[0].message
            assert a.choices[0].finish_reason == "tool_calls" and message.content is None, a
            call = message.tool_calls[0].function
            assert isinstance(call.parsed_arguments, kinds) and type(call.parsed_arguments).__name__ == call.name, a
            with client.chat.completions.stream(tools=tools, tool_choice=choice, **args) as stream:
                for _ in stream:
                    pass
                streamed = stream.get_final_completion().choices[0].message.tool_calls[0].function
            assert streamed.parsed_arguments == call.parsed_arguments, (streamed, call)
        made = client.chat.completions.create(tools=tools, tool_choice="required", **args).choices[0].message
        result = {"role": "tool", "tool_call_id": made.tool_calls[0].id, "content": "done"}
        try:
            client.chat.completions.create(**{**args, "messages": args["messages"] + [made, result]})
            raise AssertionError("calls are taken that the template leaves out")
        except openai.BadRequestError as e:
            assert "chat template leaves them out" in e.message, e
        try:
            client.chat.completions.create(tools=tools, **args)
            raise AssertionError("a model whose template leaves functions out chooses between text and calls")
        except openai.BadRequestError as e:
            assert e.code == "unsupported_parameter" and e.param == "tool_choice", e


def tools():
    """A model whose template spells calls: text or calls as it chooses, several of them, in parts as they settle."""
    args = dict(model="caller", seed=3, max_tokens=160, messages=[{"role": "user", "content": "hello world"}],
                tools=[openai.pydantic_function_tool(Child), openai.pydantic_function_tool(Toy)])
    likely = {"bias": ["<tool_call>=400"], "steps": 160, "sampler": "random"}
    for more in ({"tool_choice": "required"}, {"extra_body": likely}, {"tool_choice": "auto", "extra_body": likely},
                 {"tool_choice": "required", "parallel_tool_calls": False, "extra_body": likely}, {"tool_choice": "auto"}):
        try:
            a = client.chat.completions.parse(**args, **more)
        except openai.LengthFinishReasonError as e:
            assert more == {"tool_choice": "auto"}, e  # a text that fills its room
            continue
        message, finish = a.choices[0].message, a.choices[0].finish_reason
        calls = message.tool_calls or []
        assert (finish == "tool_calls") == bool(calls) and (calls or more == {"tool_choice": "auto"}), a
        if "parallel_tool_calls" in more:
            assert len(calls) == 1, a
        parts = 0
        with client.chat.completions.stream(**args, **more) as stream:
            for event in stream:
                parts += event.type == "tool_calls.function.arguments.delta"
            streamed = stream.get_final_completion().choices[0].message
        assert (streamed.content or "") == (message.content or ""), (streamed, message)
        assert [c.function for c in streamed.tool_calls or []] == [c.function for c in calls], (streamed, message)
        assert all(isinstance(c.function.parsed_arguments, (Child, Toy)) for c in calls), a
        if "extra_body" in more:
            assert parts > len(calls), (parts, calls)
        results = [{"role": "tool", "tool_call_id": c.id, "content": "done"} for c in calls]
        if calls:
            client.chat.completions.create(**{**args, "max_tokens": 8, "tool_choice": "none", "messages": args["messages"] + [message, *results]})


def png(side, white):
    rows = b"".join(b"\0" + bytes(255 if white(x, y) else 60 for x in range(side)) for y in range(side))
    part = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)) + part(
        b"IDAT", zlib.compress(rows)) + part(b"IEND", b"")


def images():
    args = dict(model="demo-image", prompt="", n=2, extra_body={"seed": 4, "steps": 4, "codes": True})
    a = client.images.generate(**args)
    pictures = [base64.b64decode(d.b64_json) for d in a.data]
    assert len(pictures) == 2 and all(p.startswith(b"\x89PNG") for p in pictures), a
    codes = a.model_extra["unmask"]["codes"]
    assert [len(c) for c in codes] == [256, 256], codes
    kinds = [e.type for e in client.images.generate(stream=True, partial_images=2, **{**args, "n": 1})]
    assert kinds == ["image_generation.partial_image"] * 2 + ["image_generation.completed"], kinds
    edit = client.images.edit(model="demo-image", image=("a.png", pictures[0]), mask=("m.png", png(64, lambda x, y: x < 32)),
                              prompt="", extra_body={"seed": 4, "codes": True})
    cells = edit.model_extra["unmask"]["cells"]
    assert cells == [i for i in range(256) if i % 16 < 8], cells
    events = list(client.images.edit(model="demo-image", image=pictures[0], mask=png(64, lambda x, y: y > 40), prompt="",
                                     stream=True, partial_images=1))
    assert [e.type for e in events] == ["image_edit.partial_image", "image_edit.completed"], events
    try:
        client.images.generate(model="demo-image", prompt="a cat")
        raise AssertionError("a model without text takes a prompt")
    except openai.BadRequestError as e:
        assert e.code == "prompt_unsupported" and e.param == "prompt", e


def errors():
    def refused(kind, code, param=None, **args):
        try:
            client.completions.create(**{"model": "demo", "prompt": "x", **args})
        except openai.APIStatusError as e:
            assert type(e) is kind and e.code == code and e.param == param, (e, e.code, e.param)
            assert e.request_id, e
            return
        raise AssertionError(f"{args} is taken")

    refused(openai.BadRequestError, "out_of_range", "n", n=65)
    refused(openai.BadRequestError, "unknown_parameter", "temprature", extra_body={"temprature": 1})
    refused(openai.BadRequestError, "unsupported_parameter", "best_of", best_of=2)
    refused(openai.BadRequestError, "unknown_sampler", "sampler", extra_body={"sampler": "momnet"})
    refused(openai.NotFoundError, "model_not_found", "model", model="gpt-4")
    try:
        openai.OpenAI(base_url=url + "/v1", api_key="wrong-key-of-some-length", max_retries=0).models.list()
        raise AssertionError("a wrong key is taken")
    except openai.AuthenticationError as e:
        assert e.status_code == 401, e


LONG = dict(model="demo", prompt="", extra_body={"steps": 256, "sampler": "random", "cache": 0})


def cancel():
    begun = time.time()
    stream = client.completions.create(stream=True, stream_options={"include_steps": True}, seed=1, **LONG)
    for _ in stream:
        break
    stream.close()
    client.completions.create(model="demo", prompt="", seed=1, max_tokens=1, extra_body={"steps": 1})
    print("cancel: %.2f s" % (time.time() - begun))


def retries():
    """A full queue answers 429 with the seconds to wait, and the package asks again by itself."""
    busy = client.completions.create(stream=True, stream_options={"include_steps": True}, n=8, seed=1,
                                     **{**LONG, "extra_body": {**LONG["extra_body"], "steps": 40}})
    for _ in busy:
        break  # from now on each pass takes a while

    def at_once(c):
        """Returns what eight small requests come to that are sent at the same time."""
        out = []

        def ask(i):
            try:
                out.append(c.completions.create(model="demo", prompt="", seed=i, max_tokens=4, extra_body={"steps": 2}))
            except openai.RateLimitError as e:
                out.append(e)

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return out

    refused = [e for e in at_once(client) if isinstance(e, openai.RateLimitError)]
    assert refused and all(e.code == "queue_full" for e in refused), refused
    assert all(1 <= int(e.response.headers["retry-after"]) <= 120 for e in refused), refused[0].response.headers
    patient = at_once(client.with_options(max_retries=20))
    assert all(a.usage.completion_tokens <= 4 for a in patient), patient
    busy.close()


for case in (models, completions, chat, structured, tools, images, errors, cancel, retries):
    case()
    print("ok", case.__name__)
