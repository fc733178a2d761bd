"""Tests of published.py on a hub of their own, with small random weights under the published names:

    UNMASK=./unmask python3 research/published/test_published.py

Needs torch and transformers. A row whose peer needs more must say what to install; every other row
must agree with its peer.
"""
import json
import os
import shutil
import string
import subprocess
import sys
import tempfile
import unittest

import hub
import models
import published
import texts

HERE = os.path.dirname(os.path.abspath(__file__))
PACKS = os.path.join(HERE, "..", "..", "testdata", "packs")
UNMASK = os.path.abspath(os.environ.get("UNMASK", "unmask"))

# PACK_OF has the small weights of a repository.
PACK_OF = {
    "jdeschena/sdtt": "sdtt-tiny", "kuleshov-group/mdlm-owt": "sdtt-tiny",
    "yucornetto/generator_titok_s128_imagenet": "titok-uvit-tiny",
    "yucornetto/tokenizer_titok_s128_imagenet": "titok-tokenizer-tiny",
    "amused/amused-256": "amused-256-tiny",
    "biohub/ESMC-300M": "esmc-transformers-tiny",
    "LiquidAI/LFM2.5-Encoder-350M-Diffusion": "lfm2-diffusion-tiny",
    "sentence-transformers/all-MiniLM-L6-v2": "embed-bert-tiny", "BAAI/bge-small-en-v1.5": "embed-bert-tiny",
}

# ENCODER_OF and LANGUAGE_MODEL_OF are saved by transformers' classes.
ENCODER_OF = {"google-bert/bert-base-uncased": "bert", "answerdotai/ModernBERT-base": "modernbert",
              "facebook/esm2_t6_8M_UR50D": "esm", "airkingbd/dplm_150m": "esm"}
LANGUAGE_MODEL_OF = {"dllm-hub/Qwen3-0.6B-diffusion-mdlm-v0.1": "qwen3-mdlm"}


def make_folders(root):
    """The folders of all repositories, made where no pack has them."""
    folders = {repo: os.path.join(PACKS, pack) for repo, pack in PACK_OF.items()}
    sys.path.append(os.path.join(HERE, "..", "originals"))
    import folders as saved
    saved.CORPUS += [*texts.ENGLISH, *(question for question, _ in texts.QUESTIONS), string.printable]
    for repo, name in ENCODER_OF.items():
        folders[repo] = os.path.join(root, name)
        if not os.path.exists(folders[repo]):
            saved.encoder(name, folders[repo])
    for repo, name in LANGUAGE_MODEL_OF.items():
        folders[repo] = os.path.join(root, name)
        saved.language_model(name, folders[repo])
    genmol = os.path.join(PACKS, "genmol-tiny")
    for repo, name in (("nvidia/NV-GenMol-89M-v2", "model_v2.ckpt"), ("datamol-io/safe-gpt", "tokenizer.json")):
        folders[repo] = os.path.join(root, repo)
        os.makedirs(folders[repo])
        shutil.copy(os.path.join(genmol, name), folders[repo])
    laya = os.path.join(root, "laya")
    shutil.copytree(os.path.join(PACKS, "laya-tiny"), laya)
    shutil.copytree(os.path.join(PACKS, "laya-tiny"), os.path.join(laya, "typed-decisions"))
    folders["convaiinnovations/laya"] = laya
    return folders


class PublishedTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.root)
        cls.hub = hub.Hub(make_folders(cls.root))
        cls.addClassCleanup(cls.hub.close)

    def setUp(self):
        self.work = tempfile.mkdtemp(dir=self.root)
        self.hub.fault = None

    def run_rows(self, *arguments, out="out"):
        """Runs rows, and returns the exit status, standard error and rows by name."""
        command = [sys.executable, os.path.join(HERE, "published.py"), "--unmask", UNMASK, "--hub", self.hub.url,
                   "--cache", os.path.join(self.work, "cache"), "--out", os.path.join(self.work, out),
                   "--vectors", "40", "--no-space-check", *arguments]  # packs are small, whatever rows announce
        ran = subprocess.run(command, capture_output=True, text=True)
        with open(os.path.join(self.work, out, "results.json")) as f:
            rows = {row["name"]: row for row in json.load(f)["rows"]}
        with open(os.path.join(self.work, out, "report.md")) as f:
            report = f.read()
        for name, row in rows.items():
            self.assertIn(f"| {name} |", report)
        return ran.returncode, ran.stderr, rows

    def test_all_small_rows(self):
        """Each row agrees with its peer, or says what is missing."""
        mage = os.path.join(PACKS, "mage-tiny")
        halton = os.path.join(self.work, "halton")
        subprocess.run([UNMASK, "convert", os.path.join(PACKS, "halton-tiny", "ImageNet_256_tiny.pth"), halton,
                        "--heads", "5"], check=True, capture_output=True)  # real ones have a known size
        served = [m.name for m in models.MODELS if m.group == "small" and not m.source.startswith("pip:")]
        only = [flag for name in served for flag in ("--only", name)]
        _, said, rows = self.run_rows(*only, "--file", f"mage={mage}", "--file", f"halton={halton}")
        self.assertEqual(set(rows), set(served), said)
        done = 0
        for name, row in rows.items():
            with self.subTest(name):
                if row["status"] != "done":
                    self.assertRegex(row["reason"], "pip install|modeling_lfm2", said)
                    continue
                done += 1
                for entry in row["files"]:
                    self.assertRegex(entry["sha256"], "^[0-9a-f]{64}$")
                result = row["result"]
                if "logits" in result:
                    self.assertLess(result["logits"]["f32"]["difference"], 2e-5)
                    self.assertGreater(result["logits"]["f32"]["rows"], 0)
                if "greedy" in result:
                    self.assertEqual(result["greedy"]["equal"], result["greedy"]["of"])
                    self.assertGreater(result["greedy"]["of"], 0)
                if "vectors" in result:
                    self.assertLess(result["vectors"]["f32"]["difference"], 1e-5)
                    self.assertEqual(result["vectors"]["f32"]["ranks"], 1)
        self.assertGreater(done, 8, said)

    def test_a_broken_download_goes_on(self):
        """A connection that ends in the middle of a file costs nothing but time."""
        broken = []

        def fault(handler, name, data, headers, with_body):
            if not with_body or name != "model.safetensors" or broken:
                return False
            broken.append(name)
            handler.send_response(200)
            for header, value in headers.items():
                handler.send_header(header, value)
            handler.send_header("Content-Length", str(len(data)))
            handler.end_headers()
            handler.wfile.write(data[:len(data) // 2])
            handler.close_connection = True
            return True
        self.hub.fault = fault
        status, said, rows = self.run_rows("--only", "sdtt")
        self.assertEqual((status, broken), (0, ["model.safetensors"]), said)
        self.assertEqual(rows["sdtt"]["status"], "done", said)

    def test_a_missing_file_is_a_reason(self):
        """A file that the hub lists and does not have fails its row alone, and --again mends it."""
        def fault(handler, name, data, headers, with_body):
            if name == "model.safetensors" and "sdtt" in handler.path:
                self.hub.refuse(handler, "EntryNotFound")
                return True
            return False
        self.hub.fault = fault
        rows = ("--only", "sdtt", "--only", "mdlm")
        status, said, found = self.run_rows(*rows)
        self.assertEqual(status, 1, said)
        self.assertEqual((found["sdtt"]["status"], found["mdlm"]["status"]), ("failed", "done"), said)
        self.assertIn("model.safetensors", found["sdtt"]["reason"])
        self.hub.fault = None
        _, said, _ = self.run_rows(*rows)
        self.assertIn("sdtt: failed before", said)
        status, said, found = self.run_rows(*rows, "--again")
        self.assertEqual((status, found["sdtt"]["status"]), (0, "done"), said)
        self.assertIn("mdlm: done before", said)

    def test_a_wrong_hash_is_a_reason(self):
        """Bytes other than the hub announced are not measured."""
        def fault(handler, name, data, headers, with_body):
            if name == "model.safetensors" and with_body:
                self.hub.send(handler, bytes(len(data)), True, headers)
                return True
            return False
        self.hub.fault = fault
        status, said, rows = self.run_rows("--only", "sdtt")
        self.assertEqual((status, rows["sdtt"]["status"]), (1, "failed"), said)
        self.assertRegex(rows["sdtt"]["reason"], "sha256|hash|digest")

    def test_a_full_disk_is_said_before_the_download(self):
        """Nothing is asked of the hub where there is no room."""
        model = next(m for m in models.MODELS if m.name == "sdtt")
        free = published.free_megabytes
        published.free_megabytes = lambda folder: 100
        try:
            options = published.argparse.Namespace(cache=self.work, hub=self.hub.url, no_space_check=False)
            with self.assertRaisesRegex(published.Skipped, "100 MB are free, want 1360"):
                published.fetch(model, {}, None, options)
        finally:
            published.free_megabytes = free

    def test_cleaning_up(self):
        """--clean leaves nothing of what was downloaded."""
        status, said, _ = self.run_rows("--only", "sdtt", "--clean")
        self.assertEqual(status, 0, said)
        left = [n for n in os.listdir(os.path.join(self.work, "cache")) if n.startswith("models--")]
        self.assertEqual(left, [])

    def test_wrong_arguments(self):
        """A row or a file that is not there is refused in one line."""
        for arguments in (["--only", "nothing"], ["--file", "mage"], ["--file", "mage=/not/there"]):
            ran = subprocess.run([sys.executable, os.path.join(HERE, "published.py"), *arguments],
                                 capture_output=True, text=True)
            self.assertEqual(ran.returncode, 1)
            self.assertEqual(len(ran.stderr.strip().splitlines()), 1, ran.stderr)


if __name__ == "__main__":
    unittest.main()
