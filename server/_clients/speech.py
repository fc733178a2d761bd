"""OpenAI's package speaks: whole sounds, streams of bytes and of events."""
import os

import openai

client = openai.OpenAI(base_url=os.environ["UNMASK_URL"] + "/v1", api_key="none")
speech = client.audio.speech

wav = speech.create(model="voice", voice="auto", input="Good morning.", response_format="wav",
                    extra_body={"seed": 3, "steps": 4}).read()
assert wav[:4] == b"RIFF" and len(wav) > 40_000, wav[:12]

said = {"model": "voice", "voice": "auto", "response_format": "pcm", "instructions": "female, low pitch",
        "input": "Nobody went out. It was cold, and then it rained. Why?"}
with speech.with_streaming_response.create(**said, extra_body={"seed": 3, "steps": 2, "stream_format": "audio"}) as r:
    sound = b"".join(r.iter_bytes())
    assert r.headers["content-type"] == "audio/pcm", r.headers
with speech.with_streaming_response.create(**said, stream_format="sse", extra_body={"seed": 3, "steps": 2}) as r:
    events = [line for line in r.iter_lines() if line]
assert len(sound) > 100_000 and sum("speech.audio.delta" in e for e in events) == 3, len(events)
assert "speech.audio.done" in events[-1], events[-1]

try:
    speech.create(model="voice", voice="auto", input="Hi", response_format="mp3")
    raise SystemExit("mp3 was made")
except openai.BadRequestError as e:
    assert "want wav, flac or pcm" in str(e), e
print("speech: ok")
