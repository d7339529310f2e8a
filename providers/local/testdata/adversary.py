"""Programs that make it hard to end them. adversary.py VERB MARKER

Every process of one has MARKER among its arguments. The leader prints "ready"
and its cgroup once everything is in the state that the verb is about; then it
waits for the end of its standard input, and exits. Nothing lives for longer
than LIFETIME, and nothing multiplies without bound.

It is no Go program because a thousand of it have to fit into a test machine.
"""
import ctypes
import os
import signal
import sys
import threading
import time

VERB, MARKER = sys.argv[1:3]
LIFETIME = 120
BOMB_LIFETIME = 20
BORN = time.monotonic()


def rest():
    while (left := BORN + LIFETIME - time.monotonic()) > 0:
        time.sleep(left)
    os._exit(9)


def member(run=rest):
    """Fork a process that runs run, and return when it says that it is ready."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(r)
            if VERB != "holds-pipe":
                let_go()
            run_ready = lambda: (os.write(w, b"."), os.close(w))
            if run is rest:
                run_ready()
            else:
                run(run_ready)
            rest()
        finally:
            os._exit(8)
    os.close(w)
    if os.read(r, 1) != b".":
        sys.exit("the member did not get ready")
    os.close(r)
    return pid


def let_go():
    null = os.open("/dev/null", os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)


def own_cgroup():
    for line in open("/proc/self/cgroup"):
        if line.startswith("0::"):
            return line[3:].rstrip("\n")


def cgroup_dir():
    for line in open("/proc/self/mounts"):
        fields = line.split()
        if fields[2] == "cgroup2":
            return fields[1] + own_cgroup()


def new_session(ready):
    os.setsid()
    ready()


def daemon(ready):
    os.setsid()
    if os.fork():
        os._exit(0)
    ready()


def ignore_term(ready):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ready()


def own_group(ready):
    os.setpgid(0, 0)
    ready()


def fork_on_term(ready):
    def more(*_):
        for _ in range(20):
            if os.fork() == 0:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                rest()
    signal.signal(signal.SIGTERM, more)
    ready()


def bomb(pause):
    """200 chains: there is always one process of each, and never the same for long.

    Without a pause before it forks each still lives until its turn comes on the
    machine's processors, and nothing else there has a turn.
    """
    gate, opener = os.pipe()

    def refork(ready):
        os.close(opener)
        os.nice(19)
        ready()
        os.read(gate, 1)  # or the first chains would leave the last ones no time
        while time.monotonic() < BORN + BOMB_LIFETIME:
            time.sleep(pause)
            if os.fork():
                os._exit(0)
        os._exit(9)
    for _ in range(200):
        member(refork)
    os.close(opener)


def thousand():
    """1,000 members, which are born without waiting for each other."""
    r, w = os.pipe()
    for _ in range(1000):
        if os.fork() == 0:
            try:
                let_go()
                os.write(w, b".")
                rest()
            finally:
                os._exit(8)
    os.close(w)
    born = 0
    while born < 1000:
        more = os.read(r, 1000)
        if not more:
            sys.exit("the members did not get ready")
        born += len(more)


def empty_environment(ready):
    r, w = os.pipe()
    os.set_inheritable(w, True)
    pid = os.fork()
    if pid == 0:
        os.execve(sys.executable, [sys.executable, __file__, "child-of-nothing", MARKER, str(w)], {})
    os.close(w)
    os.read(r, 1)
    ready()


def sub_cgroups(ready):
    deep = os.path.join(cgroup_dir(), "own")
    for i in range(3):
        os.mkdir(deep)
        deep = os.path.join(deep, "deeper-%d" % i)
    os.mkdir(deep)
    with open(os.path.join(deep, "cgroup.procs"), "w") as procs:
        procs.write("0")
    ready()


def threaded_cgroup(ready):
    """A thread in a threaded cgroup, whose own list of processes can't be read."""
    sub = os.path.join(cgroup_dir(), "threads")
    os.mkdir(sub)
    with open(os.path.join(sub, "cgroup.type"), "w") as type_:
        type_.write("threaded")

    def run():
        with open(os.path.join(sub, "cgroup.threads"), "w") as threads:
            threads.write(str(threading.get_native_id()))
        ready()
        rest()
    threading.Thread(target=run).start()
    rest()


def stopped():
    pid = member(lambda ready: (ready(), os.kill(os.getpid(), signal.SIGSTOP)))
    os.waitpid(pid, os.WUNTRACED)


def main():
    verbs = {
        "plain": member,
        "holds-pipe": member,
        "setsid": lambda: member(new_session),
        "daemon": lambda: member(daemon),
        "ignore-term": lambda: member(ignore_term),
        "stopped": stopped,
        "own-group": lambda: member(own_group),
        "thousand": thousand,
        "bomb": lambda: bomb(0.1),
        "fast-bomb": lambda: bomb(0),
        "fork-on-term": lambda: member(fork_on_term),
        "no-environment": lambda: member(empty_environment),
        "sub-cgroups": lambda: member(sub_cgroups),
        "threaded-cgroup": lambda: member(threaded_cgroup),
    }
    if VERB == "child-of-nothing":
        assert MARKER and len(os.environ) <= 1, os.environ  # python adds LC_CTYPE
        fd = int(sys.argv[3])
        os.write(fd, b".")
        os.close(fd)
        rest()
    verbs[VERB]()
    if VERB == "ignore-term":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("ready", own_cgroup(), flush=True)
    threading.Timer(LIFETIME, lambda: os._exit(9)).start()
    sys.stdin.read()
    os._exit(0)


main()
