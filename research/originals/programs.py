"""The authors' own programs as judges: UNMASK=./unmask python3 programs.py [NAME ...]

Clones the repositories of programs.json at their commits into a folder, saves a small model with
random weights by their own classes, runs their own generation on it, on a CPU in float32, and
compares with unmask on the saved folder: token ids, logits, and the law of many replies. The exit
status is 1 if any differs. --sources FOLDER has git directories OWNER+NAME/repo to clone from
instead of GitHub; --result FILE writes what was printed. Packages: programs.txt.

One thing of the originals is changed: the mask's logit is -1e9, since unmask never draws the mask.
"""
import argparse
import collections
import importlib
import json
import math
import os
import subprocess
import sys
import tempfile
import types

sys.path.append(sys.path.pop(0))  # this folder last: tokenizers.py in it is not the package

HERE = os.path.dirname(os.path.abspath(__file__))
UNMASK = os.environ.get("UNMASK", "unmask")
V, MASK, PAD, END = 128, 110, 101, 100


def clone(program, into, sources):
    """The folder of a repository that has the files of its paths at its commit."""
    owner, name = program["repository"].split("/")
    url = f"{sources}/{owner}+{name}/repo" if sources else f"https://github.com/{owner}/{name}"
    folder = f"{into}/{name}"
    if not os.path.exists(folder):
        partly = [] if sources else ["--filter=blob:none"]
        subprocess.run(["git", "clone", "-q", "--no-checkout", *partly, url, folder], check=True)
        subprocess.run(["git", "-C", folder, "checkout", "-q", program["commit"], "--", *program["paths"]],
                       check=True)
    return folder


def package(name, folder):
    """A package that has the modules of a folder and runs nothing of its own."""
    made = types.ModuleType(name)
    made.__path__ = [folder]
    sys.modules[name] = made
    return made


def spread(model, head, mask, scale=1, seed=1):
    """Draws weights anew, so that logits differ, and makes the mask impossible in the head. A scale of the head
    below 1 keeps entropies away from 0, where they are equal by rounding."""
    import torch
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() > 1:
                p.copy_(torch.randn(p.shape, generator=g) * 2 / math.sqrt(p.shape[-1]))
        if scale != 1:
            head.weight.mul_(scale)
    forbid(head, mask)
    return model.eval()


def forbid(head, mask):
    def hook(_, given, logits):
        logits = logits.clone()
        logits[..., mask] = -1e9
        return logits
    head.register_forward_hook(hook)


class Judge:
    """Runs unmask on a saved folder, and counts what is equal."""

    def __init__(self):
        self.rows = []

    def add(self, name, what, same, said):
        self.rows.append((name, what, same, said))
        print("equal" if same else "DIFFERS", name, what, said, flush=True)

    def replies(self, folder, prompt, new, *args):
        import torch
        from safetensors.torch import save_file
        with tempfile.TemporaryDirectory() as tmp:
            save_file({"tokens": torch.tensor([prompt])}, f"{tmp}/prompt.safetensors")
            ran = subprocess.run(
                [UNMASK, "text", "--model", folder, "--tokens-in", f"{tmp}/prompt.safetensors",
                 "--length", str(len(prompt) + new), "--json", *args], capture_output=True, text=True)
        if ran.returncode:
            raise RuntimeError(ran.stderr.strip())
        return [json.loads(line)["ids"][len(prompt):] for line in ran.stdout.splitlines()]

    def ids(self, name, what, folder, prompt, want, *args, behind=0):
        """Compares ids; behind counts positions at the end that are not the model's."""
        got = self.replies(folder, prompt, len(want) + behind, *args)[0][:len(want)]
        wrong = sum(a != b for a, b in zip(got, want))
        said = f"{len(want) - wrong} of {len(want)} ids equal"
        self.add(name, what, got == want, said if got == want else f"{said}: {got}, want {want}")

    def logits(self, name, folder, tokens, want):
        import torch
        from safetensors.torch import load_file, save_file
        with tempfile.TemporaryDirectory() as tmp:
            save_file({"tokens": tokens}, f"{tmp}/tokens.safetensors")
            subprocess.run([UNMASK, "logits", "--model", folder, "--tokens", f"{tmp}/tokens.safetensors",
                            "--out", f"{tmp}/out.safetensors"], check=True, capture_output=True)
            got = load_file(f"{tmp}/out.safetensors")["logits"]
        shown = [x for x in range(got.shape[-1]) if x != MASK]  # the mask's is not the network's
        d = ((got - want)[..., shown].abs().max() / want[..., shown].abs().max()).item()
        self.add(name, "logits", d < 1e-5, f"largest difference {d:.1e} of the largest")

    def law(self, name, what, folder, prompt, want, *args):
        """Chi-square of two samples over whole replies, rare ones together."""
        n = sum(want.values())
        length = len(next(iter(want)))
        got = collections.Counter(map(tuple, self.replies(
            folder, prompt, length, "-n", str(n), "--seed", "3", *args)))
        cells = collections.defaultdict(lambda: [0, 0])
        for key in set(want) | set(got):
            cell = cells[key if want[key] + got[key] > 15 else "rare"]
            cell[0] += want[key]
            cell[1] += got[key]
        chi = sum((a - b) ** 2 / (a + b) for a, b in cells.values())
        free = len(cells) - 1
        self.add(name, what, chi < free + 5 * math.sqrt(2 * free), f"chi-square {chi:.0f} of {free}, {n} replies")


def llada(j, sources, tmp):
    import torch
    package("llada_net", f"{sources['fast-dllm']}/llada/model")
    net = importlib.import_module("llada_net.modeling_llada")
    config = importlib.import_module("llada_net.configuration_llada").LLaDAConfig(
        d_model=64, n_heads=4, n_kv_heads=4, n_layers=2, mlp_hidden_size=96, vocab_size=V, embedding_size=V,
        max_sequence_length=128, mask_token_id=MASK, eos_token_id=END, pad_token_id=END, rope=True, alibi=False,
        rms_norm_eps=1e-5, layer_norm_type="rms", activation_type="silu", block_type="llama", include_bias=False,
        include_qkv_bias=False, weight_tying=False, init_device="cpu", rope_theta=500000.0, flash_attention=False,
        residual_dropout=0.0, embedding_dropout=0.0, attention_dropout=0.0, input_emb_norm=False, use_cache=False,
        attention_layer_norm=False, rope_full_precision=True)
    model = net.LLaDAModelLM(config, init_params=True)
    spread(model, model.model.transformer.ff_out, MASK)
    model.save_pretrained(f"{tmp}/llada")
    package("llada_program", sources["llada"])
    generate = importlib.import_module("llada_program.generate").generate
    prompt = [3, 10, 17, 24]
    whole = torch.tensor([prompt])
    for new, steps, block in ((32, 16, 8), (48, 48, 16), (32, 4, 32)):
        for scale in (0, 0.5):
            want = generate(model, whole, torch.ones_like(whole), steps=steps, gen_length=new,
                            block_length=block, cfg_scale=scale, mask_id=MASK)[0, len(prompt):].tolist()
            more = ["--guidance", str(scale)] if scale else []
            j.ids("llada", f"generate.py, {new} in {steps}, blocks of {block}, guidance {scale}", f"{tmp}/llada",
                  prompt, want, "--sampler", f"semi-ar(low-confidence,block={block})", "--schedule", "llada",
                  "--steps", str(steps), *more)
    n = 4000
    for temperature in (0.7, 1.0):
        torch.manual_seed(5)
        want = generate(model, whole.repeat(n, 1), torch.ones(n, 4, dtype=torch.long), steps=2, gen_length=2,
                        block_length=2, temperature=temperature, mask_id=MASK)[:, 4:]
        j.law("llada", f"generate.py, temperature {temperature}", f"{tmp}/llada", prompt,
              collections.Counter(map(tuple, want.tolist())), "--sampler", "semi-ar(low-confidence,block=2)",
              "--schedule", "llada", "--steps", "2", "--temperature", str(temperature))


def coda(j, sources, tmp):
    import torch
    package("coda_program", f"{sources['coda']}/CoDALanguageModel")
    net = importlib.import_module("coda_program.modeling_coda")
    config = importlib.import_module("coda_program.model_config").CoDAConfig(
        vocab_size=V, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=256, mask_token_id=MASK, pad_token_id=PAD,
        attention_kernel="math", attention_bias=False, rope_theta=1000000, rms_norm_eps=1e-6, tie_word_embeddings=False,
        attn_implementation="eager")
    model = net.CoDALanguageModel(config)
    spread(model, model.lm_head, MASK, 0.3)
    model.can_generate = lambda: False  # else its settings are checked, which newer versions do otherwise
    model.save_pretrained(f"{tmp}/coda")
    prompt = [3, 10, 17, 24]
    settings = importlib.import_module("coda_program.generation_utils").DLMGenerationConfig
    orders = {"entropy": "entropy", "maskgit_plus": "confidence", "topk_margin": "margin"}
    for rule, order in orders.items():
        for new, steps in ((20, 20), (20, 7)):
            want = model.diffusion_generate(torch.tensor([prompt]), generation_config=settings(
                max_new_tokens=new, steps=steps, alg=rule, temperature=0.0, mask_token_id=MASK, pad_token_id=PAD))
            want = getattr(want, "sequences", want)[0, len(prompt):].tolist()
            j.ids("coda", f"diffusion_generate {rule}, {new} in {steps}", f"{tmp}/coda", prompt, want,
                  "--sampler", f"greedy({order})", "--schedule", "dream", "--steps", str(steps))


def rnd1(j, sources, tmp):
    import torch
    package("rnd_program", f"{sources['rnd1']}/rnd")
    net = importlib.import_module("rnd_program.modeling_rnd")
    config = importlib.import_module("rnd_program.configuration_rnd").RND1Config(mask_token_id=MASK)
    for name, value in dict(  # it sets its own sizes whatever it is given
            vocab_size=V, hidden_size=32, intermediate_size=64, moe_intermediate_size=16, num_experts=8,
            num_experts_per_tok=3, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
            pad_token_id=PAD, eos_token_id=END, max_position_embeddings=256, dtype="float32").items():
        setattr(config, name, value)
    model = net.RND1LM(config)
    spread(model, model.lm_head, MASK, 0.3)
    model.save_pretrained(f"{tmp}/rnd1")
    settings = importlib.import_module("rnd_program.generation_config").RND1GenerationConfig
    prompt = [3, 10, 17, 24, 31]
    for new, steps in ((20, 20), (20, 7), (33, 12)):
        want = model.generate(torch.tensor([prompt]), generation_config=settings(
            max_new_tokens=new, num_diffusion_steps=steps, greedy=True, temperature=1.0, mask_token_id=MASK,
            pad_token_id=PAD, eos_token_id=END))
        want = want[0, len(prompt):len(prompt) + new - 1].tolist()
        j.ids("rnd1", f"generate, {new} in {steps}", f"{tmp}/rnd1", prompt, want, "--temperature", "0", "--steps",
              str(min(steps, new - 1)), behind=1)  # an end of text, which the network sees


def wedlm(j, sources, tmp):
    import torch
    package("wedlm_program", f"{sources['wedlm']}/hf_compat")
    net = importlib.import_module("wedlm_program.modeling_wedlm")
    config = importlib.import_module("wedlm_program.configuration_wedlm").WeDLMConfig(
        vocab_size=V, hidden_size=48, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, mask_token_id=MASK, pad_token_id=PAD, eos_token_id=END,
        bos_token_id=END, max_position_embeddings=256, qk_norm=True, rope_theta=1e6, tie_word_embeddings=False)
    config._attn_implementation = "sdpa"
    model = net.WeDLMForCausalLM(config)
    spread(model, model.lm_head, MASK)
    model.save_pretrained(f"{tmp}/wedlm")
    prompt = [3, 10, 17, 24, 31]
    for new, theta in ((40, 0), (32, 0), (32, 0.2), (24, 0.05)):
        want = model.generate_wedlm(torch.tensor([prompt]), new, 16, mask_token_id=MASK, temperature=1.0,
                                    confidence_threshold=theta, return_stats=False)[0, len(prompt):].tolist()
        order = f"greedy(threshold(theta={theta}))" if theta else "greedy(confidence)"
        j.ids("wedlm", f"generate_wedlm, {new}, threshold {theta}", f"{tmp}/wedlm", prompt, want[:new], "--sampler",
              order, "--reuse", "causal", "--block-size", "16")


def open_dcoder(j, sources, tmp):
    import torch
    import transformers
    package("dcoder_program", f"{sources['open-dcoder']}/veomni/models/transformers/qwen2")
    program = importlib.import_module("dcoder_program.generation_utils")
    width, mask = 16, 15

    class Bidirectional(transformers.Qwen2ForCausalLM, program.MDMGenerationMixin):
        """transformers' Qwen2, whose layers the authors' class has, without its causal mask."""

        def forward(self, input_ids, **_):
            rows = input_ids.shape
            all_seen = torch.zeros(rows[0], 1, rows[1], rows[1])
            return super().forward(input_ids, attention_mask=all_seen, use_cache=False)

    config = transformers.Qwen2Config(
        vocab_size=width, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, rope_theta=1e6, tie_word_embeddings=True,
        bos_token_id=12, eos_token_id=12)
    model = spread(Bidirectional(config), torch.nn.Identity(), mask)
    forbid(model.lm_head, mask)
    model.save_pretrained(f"{tmp}/open-dcoder")
    with open(f"{tmp}/open-dcoder/config.json") as f:
        saved = json.load(f)
    with open(f"{tmp}/open-dcoder/config.json", "w") as f:
        json.dump(saved | {"architectures": ["Qwen2ForCausalLM"]}, f)
    with open(f"{tmp}/open-dcoder/added_tokens.json", "w") as f:
        json.dump({"<|endoftext|>": 12, "<M>": mask}, f)
    prompt = [1, 5, 9]

    def run(n, new, steps, **more):
        torch.manual_seed(7)
        made = model.diffusion_generate(
            inputs=torch.tensor([prompt] * n), generation_config=program.MDMGenerationConfig(
                mask_token_id=mask, pad_token_id=12, eos_token_id=12, max_new_tokens=new, steps=steps, alg="p2",
                alg_temp=0.5, num_return_sequences=1, return_dict_in_generate=True, **more))
        return made.sequences[:, len(prompt):].tolist()

    for new, steps in ((20, 20), (13, 5)):
        j.ids("open-dcoder", f"diffusion_generate p2, {new} in {steps}", f"{tmp}/open-dcoder", prompt,
              run(1, new, steps, temperature=0.0)[0], "--as", "open-dcoder", "--steps", str(steps),
              "--temperature", "0")
    for new, steps, temperature, k in ((3, 3, 0.5, 5), (3, 2, 1.0, 200)):
        want = collections.Counter(map(tuple, run(6000, new, steps, temperature=temperature, top_k=k)))
        j.law("open-dcoder", f"diffusion_generate p2, {new} in {steps}, temperature {temperature}, top-k {k}",
              f"{tmp}/open-dcoder", prompt, want, "--as", "open-dcoder", "--steps", str(steps), "--temperature",
              str(temperature), "--top-k", str(min(k, width)))


JUDGES = {"llada": llada, "coda": coda, "rnd1": rnd1, "wedlm": wedlm, "open-dcoder": open_dcoder}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--sources", metavar="FOLDER")
    parser.add_argument("--result", metavar="FILE")
    a = parser.parse_args()
    import torch
    import transformers
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    with open(f"{HERE}/programs.json") as f:
        programs = {p["name"]: p for p in json.load(f)}
    if wrong := set(a.names) - set(JUDGES):
        raise SystemExit(f"name is {', '.join(sorted(wrong))}, want {', '.join(JUDGES)}")
    judge = Judge()
    with tempfile.TemporaryDirectory() as tmp:
        for name in a.names or JUDGES:
            try:
                wanted = [name, *programs[name].get("with", [])]
                sources = {n: clone(programs[n], tmp, a.sources) for n in wanted}
                JUDGES[name](judge, sources, tmp)
            except Exception as e:
                judge.add(name, "runs", False, f"{type(e).__name__}: {e}")
    equal = sum(row[2] for row in judge.rows)
    total = f"{equal} equal, {len(judge.rows) - equal} different"
    print(total)
    if a.result:
        with open(a.result, "w") as f:
            f.write(f"torch {torch.__version__}, transformers {transformers.__version__}\n\n")
            used = {n for name in a.names or JUDGES for n in (name, *programs[name].get("with", []))}
            for p in (programs[n] for n in sorted(used)):
                f.write(f"{p['repository']} {p['commit'][:12]}\n")
            f.write("\n")
            for name, what, same, said in judge.rows:
                f.write(f"{'equal  ' if same else 'DIFFERS'} {name}: {what}: {said}\n")
            f.write(f"\n{total}\n")
    sys.exit(equal < len(judge.rows))


if __name__ == "__main__":
    main()
