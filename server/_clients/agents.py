"""pydantic-ai's default classes for OpenAI and Anthropic: texts, streams, outputs of a class, tools."""
import os
import sys

sys.path.pop(0)  # this file has the name of a package
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, ToolOutput
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

url = os.environ["UNMASK_URL"]


class Toy(BaseModel):
    red: bool


def responses(name):
    return OpenAIResponsesModel(name, provider=OpenAIProvider(base_url=url + "/v1", api_key="none"))


def messages(name):
    return AnthropicModel(name, provider=AnthropicProvider(base_url=url, api_key="none"))


settings = {"temperature": 0, "max_tokens": 60}
for of in (responses, messages):
    agent = Agent(of("caller"), instructions="Be brief.", model_settings=settings)
    first = agent.run_sync("Tell me about Lily.")
    assert first.output and first.usage.output_tokens > 0, first
    again = agent.run_sync("And then?", message_history=first.all_messages())
    assert again.output, again
    with_stream = agent.run_stream_sync("Tell me about Lily.")
    assert with_stream.get_output() == first.output
    called = Agent(of("caller"), output_type=ToolOutput(Toy), model_settings=settings).run_sync("Is it red?")
    assert isinstance(called.output, Toy), called
native = Agent(responses("caller"), output_type=NativeOutput(Toy), model_settings=settings).run_sync("Is it red?")
assert isinstance(native.output, Toy), native
print("ok agents")
