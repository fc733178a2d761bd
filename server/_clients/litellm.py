"""litellm as a client of an OpenAI-compatible server: chat, streams, text, errors."""
import os
import sys

sys.path.pop(0)  # this file has the name of the package
import litellm

args = dict(api_base=os.environ["UNMASK_URL"] + "/v1", api_key="none", seed=1)
messages = [{"role": "user", "content": "What news?"}]
answer = litellm.completion(model="openai/talk", messages=messages, max_tokens=4096, **args)
assert answer.choices[0].message.content and answer.usage.completion_tokens > 0, answer
chunks = litellm.completion(model="openai/talk", messages=messages, max_tokens=4096, stream=True,
                            stream_options={"include_usage": True}, **args)
text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
assert text == answer.choices[0].message.content, text
assert litellm.text_completion(model="text-completion-openai/demo", prompt="Once upon", **args).choices[0].text
try:
    litellm.completion(model="openai/none", messages=messages, num_retries=0, **args)
    raise SystemExit("a model that is not there answers")
except litellm.NotFoundError:
    pass
print("ok litellm")
