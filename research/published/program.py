"""Runs commands of unmask, and measures their time and memory."""
import json
import os
import subprocess
import tempfile
import time


class CommandError(Exception):
    """What a program wrote when it failed, in one line."""


def run(command, stdin="", env=None):
    """Returns standard output, standard error, seconds and the largest resident memory in bytes."""
    command = [str(c) for c in command]
    with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile("w+") as out, \
            tempfile.TemporaryFile("w+") as err:
        given.write(stdin)
        given.seek(0)
        began = time.time()
        process = subprocess.Popen(command, stdin=given, stdout=out, stderr=err, env=env)
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            process.wait()
            raise
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.time() - began
        out.seek(0)
        err.seek(0)
        printed, said = out.read(), err.read()
    if process.returncode:
        lines = [line for line in said.strip().splitlines() if line.strip()] or ["no message"]
        raise CommandError(f"{os.path.basename(command[0])} {command[1]}: {lines[-1]}")
    return printed, said, seconds, usage.ru_maxrss * 1024


class Unmask:
    """The program under test."""

    def __init__(self, path, hub="", cache="", threads=0):
        self.path = path
        self.threads = ["--threads", str(threads)] if threads else []
        self.env = {**os.environ}
        if hub:
            self.env["HF_ENDPOINT"] = hub
        if cache:
            self.env["HF_HUB_CACHE"] = cache

    def run(self, *arguments, stdin=""):
        return run([self.path, *arguments], stdin, self.env)

    def compute(self, *arguments, stdin=""):
        """Runs a command that takes --threads, on the processor."""
        return self.run(*arguments, *self.threads, "--device", "cpu", stdin=stdin)

    def pull(self, name):
        """Downloads a model and returns its directory, the first line of several: what it needs follows."""
        out, _, _, _ = self.run("pull", name)
        return out.splitlines()[0]

    def inspect(self, folder):
        out, _, _, _ = self.run("inspect", folder, "--json")
        return json.loads(out)

    def convert(self, source, folder):
        self.run("convert", "--overwrite", source, folder)

    def version(self):
        out, _, _, _ = self.run("version")
        return out.strip().splitlines()
