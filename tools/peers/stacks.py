"""Times unmask beside the Python stacks that people run, in turn: decisions, embeddings and speech.

    python3 -m venv venv && venv/bin/pip install torch transformers sentence-transformers onnx onnxscript onnxruntime
    venv/bin/pip install --no-deps omnivoice && venv/bin/pip install accelerate librosa pydub soundfile
    venv/bin/python tools/peers/stacks.py decide [--threads 2] [--rounds 3] [--out bench/results/decide.json]
    venv/bin/python tools/peers/stacks.py embed
    venv/bin/python tools/peers/stacks.py speech --seconds 5 --steps 16

decide: one question about a text of 512 tokens to a model of Laya's size (ModernBERT-large and a head of
two layers, 421 M weights). PyTorch runs the encoder of transformers and the head; onnxruntime runs the graph
that PyTorch exports. embed: 1,000 texts of 8 to 24 words by a model of MiniLM-L6's size, against
sentence-transformers with its own batches. speech: so many seconds of sound in so many steps by a model of
OmniVoice's sizes, against the authors' program; torchaudio, which it needs for reference sounds only, is left
out. All weights are random.

unmask answers over HTTP, JSON and all. A round runs each program in a process of its own; its figure is the
median of a few calls after one that is not counted, and a program's the median of its rounds. Needs Go.
"""
import argparse
import importlib.machinery
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import types
import urllib.request

import needs
import results

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
ROWS, WIDTH = 512, 1024  # of a decision: tokens, hidden size
PLAN = {
    "decide": ["PyTorch f32", "onnxruntime f32", "unmask f32", "unmask bf16", "unmask int8"],
    "embed": ["sentence-transformers f32", "unmask f32", "unmask int8"],
    "speech": ["PyTorch f32", "unmask f32", "unmask bf16", "unmask int8"],
}
WORDS = ("the customer pays a bill late and asks for more time while our service was down again since monday "
         "please tell me which office can help with an old order that never came").split()


def texts(count, least, most):
    rng = random.Random(1)
    return [" ".join(rng.choices(WORDS, k=rng.randint(least, most))) for _ in range(count)]


# ----------------------------------------------------------------- models with random weights
def laya(seed=0):
    """The encoder and the head, in PyTorch."""
    import torch
    from transformers import ModernBertConfig, ModernBertModel
    torch.manual_seed(seed)
    config = ModernBertConfig(hidden_size=WIDTH, num_hidden_layers=28, num_attention_heads=16, intermediate_size=2624,
                              pad_token_id=3, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2)

    class Laya(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = ModernBertModel(config)
            self.type_emb = torch.nn.Embedding(3, WIDTH)
            layer = torch.nn.TransformerEncoderLayer(WIDTH, WIDTH // 64, 4 * WIDTH, norm_first=True, batch_first=True)
            self.head = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            linear, gelu = torch.nn.Linear, torch.nn.GELU
            self.scorer = torch.nn.Sequential(torch.nn.LayerNorm(WIDTH), linear(WIDTH, WIDTH), gelu(), linear(WIDTH, 1))
            self.act_head = torch.nn.Sequential(linear(WIDTH + 4, 256), gelu(), linear(256, 2))

        def forward(self, ids):
            x = self.encoder(ids).last_hidden_state + self.type_emb.weight[0]
            return self.scorer(self.head(x))
    return Laya().eval(), config


def write_decide(folder):
    import torch
    from safetensors.torch import save_file
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
    net, config = laya()
    tokenizer, names = os.path.join(folder, "tokenizer"), ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    os.makedirs(tokenizer, exist_ok=True)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {w: i for i, w in enumerate(names + alphabet)}
    t = Tokenizer(models.BPE(vocab=vocab, merges=[], unk_token="[UNK]"))
    t.normalizer, t.decoder = normalizers.NFC(), decoders.ByteLevel()
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.add_special_tokens([AddedToken(n, normalized=False, special=True) for n in names])
    t.save(os.path.join(tokenizer, "tokenizer.json"))
    marks = dict(zip(("unk_token", "cls_token", "sep_token", "pad_token", "mask_token"), names))
    agent = {"encoder": "answerdotai/ModernBERT-large", "head_layers": 2, "max_len": ROWS, "head_max_len": 192,
             "temperature": [1.0, 1.0, 1.0], "amp_dtype": "bf16"}
    os.makedirs(os.path.join(folder, "encoder"), exist_ok=True)
    about = dict(config.to_dict(), architectures=["ModernBertModel"])
    for name, data in (("tokenizer/tokenizer_config.json", marks | {"tokenizer_class": "PreTrainedTokenizerFast"}),
                       ("encoder/config.json", about), ("rl_agent_config.json", agent)):
        with open(os.path.join(folder, name), "w") as f:
            json.dump(data, f)
    save_file({k: v.contiguous() for k, v in net.state_dict().items()} | {"temperature": torch.ones(3)},
              os.path.join(folder, "model.safetensors"))
    torch.onnx.export(net, (torch.zeros(1, ROWS, dtype=torch.long),), os.path.join(folder, "net.onnx"),
                      input_names=["ids"], dynamo=True, external_data=True)


def write_embed(folder):
    import torch
    from sentence_transformers import SentenceTransformer, models
    from transformers import BertConfig, BertModel, BertTokenizerFast
    torch.manual_seed(0)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + sorted(set(WORDS))
    plain = os.path.join(folder, "plain")
    os.makedirs(plain, exist_ok=True)
    with open(os.path.join(plain, "vocab.txt"), "w") as f:
        f.write("\n".join(words + [f"[unused{i}]" for i in range(30522 - len(words))]) + "\n")
    BertModel(BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12,
                         intermediate_size=1536)).save_pretrained(plain)
    BertTokenizerFast(os.path.join(plain, "vocab.txt")).save_pretrained(plain)
    body = models.Transformer(plain, max_seq_length=256)
    SentenceTransformer(modules=[body, models.Pooling(384), models.Normalize()]).save(os.path.join(folder, "model"))


def omnivoice():
    """The authors' package. It and transformers want torchaudio, whose newest build may not fit PyTorch's."""
    stub = types.ModuleType("torchaudio")
    stub.__spec__, stub.__version__ = importlib.machinery.ModuleSpec("torchaudio", None), "0"
    sys.modules.setdefault("torchaudio", stub)
    from omnivoice.models import omnivoice
    return omnivoice


def write_speech(folder):
    module = omnivoice()  # before transformers, which looks for torchaudio
    import torch
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import DacFeatureExtractor, HiggsAudioV2TokenizerConfig, HiggsAudioV2TokenizerModel, Qwen3Config
    torch.manual_seed(0)
    names = [f"<|{n}|>" for n in "denoise lang_start lang_end instruct_start instruct_end text_start text_end".split()]
    t = Tokenizer(models.BPE(vocab={w: i for i, w in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, merges=[]))
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    t.add_special_tokens([AddedToken(n, normalized=False, special=True) for n in names])
    trunk = Qwen3Config(hidden_size=1024, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8, head_dim=128,
                        intermediate_size=3072, vocab_size=151676, tie_word_embeddings=True)
    module.OmniVoice(module.OmniVoiceConfig(llm_config=trunk)).save_pretrained(folder)
    t.save(os.path.join(folder, "tokenizer.json"))
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast"}, f)
    codec = os.path.join(folder, "audio_tokenizer")
    ratios = [8, 5, 4, 2, 3]  # 25 frames a second
    acoustic = {"model_type": "dac", "encoder_hidden_size": 64, "hidden_size": 256, "decoder_hidden_size": 1024,
                "downsampling_ratios": ratios, "upsampling_ratios": ratios}
    config = HiggsAudioV2TokenizerConfig(acoustic_model_config=acoustic, target_bandwidths=[0.5, 1, 1.5, 2])
    HiggsAudioV2TokenizerModel(config).save_pretrained(codec)
    DacFeatureExtractor(sampling_rate=24000).save_pretrained(codec)


# ----------------------------------------------------------------- programs
SPOKEN = "The customer pays a bill late and asks for some more time, please."


def peer(name, folder, a):
    """A call of a program in Python."""
    import torch
    torch.set_num_threads(a.threads)
    if a.kind == "speech":
        model = omnivoice().OmniVoice.from_pretrained(folder, dtype=torch.float32)
        return lambda: model.generate(text=SPOKEN, language="en", duration=a.seconds, num_step=a.steps)
    if a.kind == "embed":
        from sentence_transformers import SentenceTransformer
        model, list_ = SentenceTransformer(os.path.join(folder, "model"), device="cpu"), texts(1000, 8, 24)
        return lambda: model.encode(list_, show_progress_bar=False)
    ids = torch.randint(5, 250, (1, ROWS))
    if name.startswith("onnxruntime"):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = a.threads
        session = onnxruntime.InferenceSession(os.path.join(folder, "net.onnx"), options, providers=["CPUExecutionProvider"])
        return lambda: session.run(None, {"ids": ids.numpy()})
    net, _ = laya()
    return lambda: torch.inference_mode()(net)(ids)


def serve(name, folder, a):
    """A call of unmask, over HTTP, and the server's process."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    model = os.path.join(folder, "model") if a.kind == "embed" else folder
    process = subprocess.Popen([os.path.join(folder, "unmask"), "serve", "--model", model, "--listen", f"127.0.0.1:{port}",
                                "--threads", str(a.threads), "--precision", name.split()[1]], stderr=subprocess.PIPE, text=True)

    def post(path, body):
        r = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(r) as answer:
            return answer.read()
    for _ in range(600):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health")
            break
        except OSError:
            if process.poll() is not None:
                sys.exit(process.stderr.read())
            time.sleep(0.1)
    if a.kind == "speech":
        body = {"input": SPOKEN, "language": "en", "seconds": a.seconds, "steps": a.steps, "response_format": "wav"}
        if name.count(" ") > 1:
            body["sampler"] = name.split()[2]
        return (lambda: post("/v1/audio/speech", body)), process
    if a.kind == "decide":
        body = {"state": " ".join(texts(1, 400, 400)), "questions": {"queue": {
            "type": "choice", "instructions": "Which queue should handle this?", "criteria": {"billing": None, "sales": None}}}}
        return (lambda: post("/v1/systemone", body)), process
    body = {"input": texts(1000, 8, 24), "encoding_format": "base64"}
    return (lambda: post("/v1/embeddings", body)), process


def one(name, folder, a):
    """The median seconds of a call."""
    process = None
    if name.startswith("unmask"):
        call, process = serve(name, folder, a)
    else:
        call = peer(name, folder, a)
    seconds = []
    try:
        for _ in range(a.calls + 1):
            began = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - began)
    finally:
        if process:
            process.kill()
    return statistics.median(seconds[1:])


def main():
    p = argparse.ArgumentParser(description="Compare decisions, embeddings and speech in unmask and in Python.")
    p.add_argument("kind", choices=PLAN)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--calls", type=int, default=3, help="calls of a round")
    p.add_argument("--seconds", type=float, default=5, help="of sound")
    p.add_argument("--steps", type=int, default=16, help="of speech")
    p.add_argument("--only", help="programs, such as 'PyTorch f32,unmask int8'; of speech with a sampler too: 'unmask int8 halton'")
    p.add_argument("--out", metavar="FILE", help="keep every round in a file of bench/results")
    p.add_argument("--cache", help="a folder that keeps the models; by default they are removed afterwards")
    p.add_argument("--one", help=argparse.SUPPRESS)
    a = p.parse_args()
    needs.need("torch", "transformers", "safetensors", "tokenizers")
    if a.one:
        print(one(a.one, a.cache, a))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = os.path.abspath(a.cache or temporary)
        os.makedirs(folder, exist_ok=True)
        subprocess.run(["go", "build", "-o", os.path.join(folder, "unmask"), "./cmd/unmask"], cwd=ROOT, check=True)
        if not os.path.exists(os.path.join(folder, "done")):
            globals()["write_" + a.kind](folder)
            open(os.path.join(folder, "done"), "w").close()
        seconds = {name: [] for name in (a.only.split(",") if a.only else PLAN[a.kind])}
        for _ in range(a.rounds):
            for name, list_ in seconds.items():
                given = [f"--{k}={getattr(a, k)}" for k in ("threads", "calls", "seconds", "steps")]
                out = subprocess.run([sys.executable, os.path.abspath(__file__), a.kind, "--one", name, "--cache", folder, *given],
                                     check=True, stdout=subprocess.PIPE, text=True).stdout
                list_.append(float(out.splitlines()[-1]))
                print(name, list_[-1], file=sys.stderr, flush=True)
        medians = {name: statistics.median(s) for name, s in seconds.items()}
        first = next(iter(medians))
        print(f"| | seconds | of {first}'s speed |\n|---|---|---|")
        for name, m in medians.items():
            print(f"| {name} | {m:.3f} | {medians[first] / m:.2f} x |")
        if a.out:
            rows = [{"name": name, "seconds": s} for name, s in seconds.items()]
            facts = {"sound": a.seconds, "steps": a.steps} if a.kind == "speech" else {}
            results.write(a.out, rows, threads=a.threads, **facts)


if __name__ == "__main__":
    main()
