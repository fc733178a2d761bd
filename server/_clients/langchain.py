"""langchain's ChatOpenAI with its defaults: answers, streams, batches, a system message."""
import os

from langchain_openai import ChatOpenAI, OpenAI

url = os.environ["UNMASK_URL"] + "/v1"
chat = ChatOpenAI(model="talk", base_url=url, api_key="none", max_tokens=256, seed=1)
answer = chat.invoke([("system", "Be brief."), ("human", "What news?")])
assert answer.content and answer.response_metadata["finish_reason"] in ("stop", "length"), answer
assert answer.usage_metadata["output_tokens"] > 0, answer
streamed = list(chat.stream([("system", "Be brief."), ("human", "What news?")]))
assert "".join(c.content for c in streamed) == answer.content, streamed
greedy = ChatOpenAI(model="talk", base_url=url, api_key="none", temperature=0)
assert greedy.invoke("What news?").content == greedy.invoke("What news?").content
assert all(a.content for a in chat.batch(["Who?", "Where?"]))
text = OpenAI(model="demo", base_url=url, api_key="none", seed=1) # max_tokens 256, on a model of 256
assert text.invoke("Once upon a time")
print("ok langchain")
