"""Runs the steps of contrib/Dockerfile without a Docker engine: the RUN lines of its first stage in the tree, and the second stage as a
plain folder, in which the program is started as the image would start it.

    dockerfile.py PROFILE          of cargo; `release` is what the image has, `dev` is built already after tests

What only an engine does is left out: pulling base images, layers, and the filter of a container. The second stage has the C library and
libgcc of this system instead of the image's, and refuses every other library.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from client import expect, fail, need

TREE = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
# The libraries of gcr.io/distroless/cc-debian12 that a program in Rust and C may need.
LIBRARIES = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def instructions():
    """Returns the stages, each a list of instructions with their arguments."""
    with open(os.path.join(TREE, "contrib", "Dockerfile")) as file:
        lines = [line for line in file.read().replace("\\\n", " ").splitlines() if line.strip() and not line.startswith("#")]
    stages = []
    for line in lines:
        name, rest = line.split(None, 1)
        if name == "FROM":
            stages.append([])
        stages[-1].append((name, rest))
    expect(len(stages) == 2, f"contrib/Dockerfile has {len(stages)} stages, and this check knows two")
    return stages


def ignored(path):
    """Returns whether contrib/Dockerfile.dockerignore keeps a file of the tree out of the build."""
    with open(os.path.join(TREE, "contrib", "Dockerfile.dockerignore")) as file:
        kept = [line[1:] for line in file.read().splitlines() if line.startswith("!")]
    return not any(path == name or path.startswith(name + "/") for name in kept)


def build(stage, image, profile):
    environment = dict(os.environ)
    for name, rest in stage:
        if name == "ARG":
            environment.update(pair.split("=", 1) for pair in shlex.split(rest))
            # Their values here: a profile that is built already, and a folder that may be written to.
            environment.update({"PROFILE": profile, "IMAGE": image})
        elif name == "RUN":
            print(f"RUN {rest}", flush=True)
            done = subprocess.run(["sh", "-ec", rest], cwd=TREE, env=environment, stdin=subprocess.DEVNULL)
            expect(done.returncode == 0, f"the step failed ({done.returncode})")
            for path in re.findall(r"(?:^| )([A-Z][A-Z-]+(?:\.md)?|bins/\w+)(?= |$)", rest):
                expect(not ignored(path), f"{path} is used by a step, and is not in the context")
        elif name not in ("FROM", "WORKDIR", "COPY"):
            fail(f"the first stage has the instruction {name}, which this check does not know")
    for path in ["Cargo.lock", ".cargo/config.toml", "bins", "crates", "migrations"]:
        expect(not ignored(path), f"{path} is needed by the build, and is not in the context")
    for path in ["target", ".git"]:
        expect(ignored(path), f"{path} is sent to the build")


def lay_out(stage, image, root):
    """Lays out the second stage below `root`, and returns its settings."""
    found = {"ENV": {}}
    for name, rest in stage:
        if name == "COPY":
            words = [word for word in rest.split() if not word.startswith("--")]
            owner = re.search(r"--chown=(\d+):(\d+)", rest)
            source, target = image + words[0].removeprefix("/image"), root + words[1]
            shutil.copytree(source, target)
            shutil.copystat(source, target)
            for at, folders, files in os.walk(target):
                for path in [at, *(os.path.join(at, file) for file in files)]:
                    os.chown(path, *(map(int, owner.groups()) if owner else (0, 0)))
        elif name == "ENV":
            found["ENV"].update(pair.split("=", 1) for pair in shlex.split(rest))
        elif name in ("ENTRYPOINT", "CMD"):
            found[name] = json.loads(rest)
        elif name == "HEALTHCHECK":
            found[name] = json.loads(rest.split("CMD", 1)[1])
        elif name in ("USER", "WORKDIR"):
            found[name] = rest
        elif name not in ("FROM", "VOLUME", "EXPOSE"):
            fail(f"the second stage has the instruction {name}, which this check does not know")
    return found


def base(root, program):
    """Copies what the base image has and the program needs: libraries, of which others are refused, and root certificates."""
    certificates = "/etc/ssl/certs/ca-certificates.crt"
    expect(os.path.exists(certificates), f"{certificates} is missing\n  fix: install the package ca-certificates")
    os.makedirs(root + os.path.dirname(certificates))
    shutil.copy(certificates, root + certificates)
    listed = subprocess.run(["ldd", root + program], check=True, capture_output=True, text=True).stdout
    for path in re.findall(r"(/\S+)", listed):
        name = os.path.basename(path)
        expect(name in LIBRARIES, f"{program} needs {name}, which the base image does not have")
        os.makedirs(root + os.path.dirname(path), exist_ok=True)
        shutil.copy(path, root + path)


def start(root, found):
    """Starts the program in `root` with namespaces of its own, and asks it whether it is ready."""
    enter = ["unshare", "--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child", "--propagation", "private", "sh", "-ec"]
    # The image has no `env`, so the shell outside sets the variables.
    inside = ["chroot", f"--userspec={found['USER']}", "."]
    script = f"""
        cd {shlex.quote(root)}
        mkdir -p proc dev tmp && chmod 1777 tmp
        mount -t proc proc proc
        touch dev/null && mount --bind /dev/null dev/null
        ip link set lo up
        {" ".join(f"export {key}={shlex.quote(value)};" for key, value in found["ENV"].items())}
        {shlex.join([*inside, *found["ENTRYPOINT"], *found["CMD"]])} &
        server=$!
        for attempt in $(seq 100); do
            if {shlex.join([*inside, *found["HEALTHCHECK"]])} 2>/dev/null; then
                {shlex.join([*inside, *found["ENTRYPOINT"], "doctor"])}
                kill -TERM $server
                wait $server
                exit 0
            fi
            sleep 0.2
        done
        exit 1
    """
    done = subprocess.run([*enter, script], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    expect(done.returncode == 0, f"the program did not start in the image:\n{done.stdout}{done.stderr}")
    expect("everything is in order" in done.stdout, f"doctor has findings: {done.stdout}")


def main():
    if len(sys.argv) != 2:
        fail(__doc__)
    expect(os.geteuid() == 0, "this needs root: it changes owners, and starts the program in another root")
    for program, package in [("unshare", "util-linux"), ("ldd", "libc-bin"), ("ip", "iproute2")]:
        need(program, package)
    folder = tempfile.mkdtemp(prefix="branchyard-image.")
    try:
        image, root = os.path.join(folder, "image"), os.path.join(folder, "root")
        first, second = instructions()
        build(first, image, sys.argv[1])
        os.makedirs(root)
        os.chmod(folder, 0o755)
        found = lay_out(second, image, root)
        base(root, found["ENTRYPOINT"][0])
        start(root, found)
        print("the image as a plain folder: started as its user, ready, sound, and stopped")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


main()
