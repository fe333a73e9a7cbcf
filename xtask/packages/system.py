"""Installs the Debian package in a copy of this system that is thrown away, and starts its unit under a real systemd.

    system.py PACKAGE.deb

The copy is an overlay on memory with namespaces of its own for processes, mounts, network and control groups, so nothing of it is seen
outside. It needs root, and a Debian with systemd.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

from client import Api, expect, fail, need, until

# What systemd would start besides, which has no place in the copy.
MASKED = [
    "networking.service", "ifupdown-pre.service", "ifupdown-wait-online.service", "systemd-networkd-wait-online.service",
    "NetworkManager-wait-online.service", "systemd-sysctl.service", "systemd-udevd.service", "systemd-udev-trigger.service",
    "systemd-modules-load.service", "systemd-binfmt.service", "dev-hugepages.mount", "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount", "keyboard-setup.service", "apparmor.service",
]

PREPARE = r"""
set -eu
here=$1 package=$2
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs "$here"
mkdir "$here/upper" "$here/work" "$here/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$here/upper,workdir=$here/work" "$here/root"
cd "$here/root"
cp "$package" run.deb
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs dev
for name in null zero full random urandom tty; do
    touch "dev/$name"
    mount --bind "/dev/$name" "dev/$name"
done
ln -s /proc/self/fd dev/fd
ln -s pts/ptmx dev/ptmx
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
ip link set lo up
# The units of this system are not those of the test.
rm -rf etc/systemd/system
mkdir -p etc/systemd/system .outside
for unit in $3; do ln -s /dev/null "etc/systemd/system/$unit"; done
printf '[Unit]\nWants=multi-user.target\n' >etc/systemd/system/check.target
rm -rf lib/systemd/system/multi-user.target.wants usr/lib/systemd/system/multi-user.target.wants
chroot . env DEBIAN_FRONTEND=noninteractive dpkg --install run.deb >&2
pivot_root . .outside
umount -l /.outside
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --unit=check.target --log-target=journal
"""

NAMESPACES = ["--mount", "--pid", "--net", "--ipc", "--uts", "--cgroup"]


class System:
    """The copy, once it runs."""

    def __init__(self, folder, package):
        self.booted = subprocess.Popen(
            ["unshare", *NAMESPACES, "--fork", "--kill-child", "--propagation", "private",
             "sh", "-c", PREPARE, "prepare", folder, package, " ".join(MASKED)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )
        self.pid = until("the start of systemd", 120, self.find)

    def find(self):
        """Returns the first process of the copy, if it is systemd already."""
        expect(self.booted.poll() is None, "the copy of this system ended: its output is above")
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.booted.pid)], capture_output=True, text=True)
        for child in children.stdout.split():
            if os.path.basename(os.readlink(f"/proc/{child}/exe")) == "systemd":
                return child
        return None

    def run(self, *command, check=True):
        enter = ["nsenter", "--target", self.pid, "--mount", "--pid", "--net", "--ipc", "--uts", "--cgroup", "--root", "--wd"]
        clean = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"]
        done = subprocess.run([*enter, *clean, *command], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if check and done.returncode != 0:
            fail(f"`{shlex.join(command)}` failed ({done.returncode}):\n{done.stdout}{done.stderr}{self.journal()}")
        return done.stdout.strip()

    def journal(self):
        return self.run("journalctl", "--no-pager", "--output=cat", "--unit=branchyard", check=False)

    def property(self, name):
        return self.run("systemctl", "show", "branchyard", "--property", name, "--value", check=False)

    def as_server(self, *args):
        return self.run("runuser", "-u", "branchyard", "--", "branchyard", *args, "--data-dir", "/var/lib/branchyard")

    def wait(self):
        """Waits until the server is ready."""

        def ready():
            # Empty while systemd itself starts.
            expect(self.property("Result") in ("", "success"), f"the unit failed: {self.journal()}")
            return self.run("branchyard", "healthcheck", check=False) == "ready"

        until("the start of the unit", 60, ready)

    def end(self):
        self.booted.kill()
        self.booted.wait()


class InsideApi(Api):
    """The API of the server in the copy, whose network is another one."""

    def __init__(self, system, token):
        super().__init__("http://127.0.0.1:8080", token)
        self.system = system

    def call(self, method, path, body=None):
        command = ["curl", "--silent", "--show-error", "--request", method, "--write-out", "\n%{http_code}", self.origin + path]
        command += ["--header", f"Authorization: Bearer {self.token}", "--header", "Content-Type: application/json"]
        if body is not None:
            command += ["--data", json.dumps(body)]
        text, status = self.system.run(*command).rsplit("\n", 1)
        return int(status), json.loads(text)


def statuses(system):
    """Returns the fields of /proc/PID/status of each process of the server."""
    found = []
    for pid in system.run("systemctl", "show", "branchyard", "--property", "ControlGroup", "--value").split():
        for pid in system.run("cat", f"/sys/fs/cgroup{pid}/cgroup.procs").split():
            lines = system.run("cat", f"/proc/{pid}/status", check=False).splitlines()
            fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
            if fields:
                fields["Arguments"] = system.run("cat", f"/proc/{pid}/cmdline", check=False)
                found.append(fields)
    return found


def check(system):
    system.wait()
    expect(system.run("systemctl", "is-enabled", "branchyard") == "enabled", "the unit is not enabled")
    exposure = system.run("systemd-analyze", "security", "branchyard", "--threshold=30", "--no-pager").splitlines()[-1]
    print(exposure.strip())

    system.as_server("user", "create", "ada", "--email", "ada@example.test")
    token = system.as_server("token", "create", "--user", "ada", "--name", "check", "--expires", "30d")
    api = InsideApi(system, token)
    api.use("ada")

    processes = statuses(system)
    workers = [process for process in processes if "sql-worker" in process["Arguments"]]
    servers = [process for process in processes if "serve\0" in process["Arguments"]]
    expect(servers and len(workers) >= 2, f"a server and its worker processes: {[p['Arguments'] for p in processes]}")
    for process in processes:
        expect(process["NoNewPrivs"] == "1" and process["Seccomp"] == "2", f"a process without filter: {process}")
        expect(int(process["CapEff"], 16) == int(process["CapBnd"], 16) == 0, f"a process with capabilities: {process}")
        expect(process["Uid"].split()[0] != "0", f"a process of root: {process}")
    filters = int(servers[0]["Seccomp_filters"])
    most = max(int(worker["Seccomp_filters"]) for worker in workers)
    expect(most > filters, "no worker process has filters of its own, beside those of the unit")
    print(f"{len(processes)} processes of the unit, each without capabilities; filters of system calls: {filters} of the server, {most} of a worker")

    size = {"instance_type_id": "local.small", "volume_type_id": "local.standard", "volume_size_gb": 1}
    deployment = {"owner": "ada", "name": "gauges", "cloud": "local", "zone": "local", **size,
                  "from_database": {"owner": "ada", "name": "rivers", "ref": "main"}}
    api.expect(202, "POST", "/api/v1/deployments", deployment)
    until("the start of a deployment", 60, lambda: api.expect(200, "GET", "/api/v1/deployments/ada/gauges")["state"] == "started")
    statement = {"requests": [{"type": "execute", "stmt": {"sql": "select count(*) from rivers"}}, {"type": "close"}]}
    status, answer = api.call("POST", "/api/v1/deployments/ada/gauges/sql/v2/pipeline", statement)
    expect(status == 200 and answer["results"][0]["response"]["result"]["rows"][0][0]["value"] == "2", f"a deployment answered {answer}")
    print("a deployment started, and answers")

    folder = system.run("stat", "--format", "%U:%G %a", "/var/lib/branchyard")
    expect(folder == "branchyard:branchyard 700", f"the data folder is {folder}")
    system.run("systemctl", "restart", "branchyard")
    system.wait()
    api.read("ada")
    system.run("systemctl", "stop", "branchyard")
    expect(system.property("Result") == "success" and system.property("ExecMainStatus") == "0", f"the stop failed: {system.journal()}")
    print("restarted with its data, and stopped by itself")

    for name, command in [("completions", "complete -p branchyard"), ("man", "")]:
        if name == "completions":
            system.run("bash", "-c", f". /usr/share/bash-completion/completions/branchyard && {command}")
        else:
            text = system.run("sh", "-c", "zcat -f /usr/share/man/man1/branchyard-user-create.1*")
            expect(".TH branchyard-user-create" in text, "the manual page of `user create` is missing")
    system.run("dpkg", "--purge", "branchyard")
    expect("branchyard" in system.run("ls", "/var/lib"), "removing the package removed the data")
    expect(system.run("sh", "-c", "command -v branchyard", check=False) == "", "the program is left after the removal")
    print("removed; the data stays")


def main():
    package = os.path.abspath(sys.argv[1])
    expect(os.geteuid() == 0, "this needs root: it mounts file systems and starts a systemd")
    for program, name in [("unshare", "util-linux"), ("dpkg", "dpkg"), ("systemctl", "systemd"), ("ip", "iproute2"), ("curl", "curl"), ("ps", "procps")]:
        need(program, name)
    folder = tempfile.mkdtemp(prefix="branchyard-system.")
    system = None
    try:
        system = System(folder, package)
        check(system)
    finally:
        if system:
            system.end()
        shutil.rmtree(folder, ignore_errors=True)


main()
