"""Facts of a launch as a whole."""

from __future__ import annotations

from .fact import Fact, Kind


def _launch(name: str, kind: Kind, probe: str, means: str, label: str = "", *, named: bool = False) -> Fact:
    return Fact(name, kind, "launch", probe, means, label, named)


ROWS = (
    # The launch
    _launch("verdict", "text", "judged", "The verdict: ready, progressing, slow, suspect, hung or crashed."),
    _launch("phase", "text", "judged", "The phase of the culprit, else of the member furthest behind."),
    _launch("engine", "text", "arguments", "vllm or sglang."),
    _launch("version", "version", "packages", "Version of the engine.", "version of the engine"),
    _launch("arg", "text", "arguments", "An argument of the engine, long name without dashes; a flag is the empty text.",
            "argument", named=True),
    _launch("env", "text", "environ", "A variable of the root process, if it is on the allow-list.", "variable", named=True),
    _launch("package", "version", "packages", "Version of a Python distribution that the members import, by its normalised"
            " name.", "package", named=True),
    _launch("modified", "texts", "packages", "Files on the stuck stacks that differ from their wheel.", "changed files"),
    _launch("age", "seconds", "processes", "Since the root process started.", "age of the launch"),
    _launch("log_silence", "seconds", "logs", "Since a log of the launch last grew.", "silence of the log"),
    _launch("log", "lines", "logs", "Any line that the launch wrote.", "log"),
    _launch("last_line", "text", "logs", "The last line of the log that grew last, also one without its end.",
            "last line of the log"),
    _launch("log_via", "texts", "logs", "What stands behind the outputs: file pipe tee container terminal null …",
            "output goes to"),
    _launch("exception", "text", "logs", "The line that names the exception of the first traceback.", "first exception"),
    _launch("repeats", "bool", "logs", "The log goes on with lines that only say that something still waits.",
            "log only says that it waits"),
    _launch("port", "number", "arguments", "The port that the server should listen on."),
    _launch("listening", "bool", "sockets", "The launch listens on its port.", "listens on its port"),
    _launch("port_taken", "bool", "sockets", "A process outside of the launch listens on its port, or a rank.",
            "port is taken by another process"),
    _launch("health", "text", "health", "Status of the health path, or why there is none: 200, 503, refused, no answer …",
            "health path says"),
    _launch("head", "bool", "arguments", "This host serves HTTP (node rank 0)."),
    _launch("nodes", "number", "arguments", "Hosts that the arguments ask for.", "nodes asked for"),
    _launch("node_rank", "number", "arguments", "Number of this host among them.", "node rank"),
    _launch("nodes_missing", "text", "judged", "Nodes of the launch that were not looked at, with their ranks.",
            "not looked at"),
    _launch("never_came", "bool", "sockets", "Some node never connected to where the nodes meet, as the sockets of the others"
            " tell.", "a node never connected to where the nodes meet"),
    _launch("meeting_place", "text", "arguments", "Where the nodes were told to meet: 10.0.0.1:5000.", "nodes meet at"),
    _launch("ranks_expected", "number", "arguments", "Ranks (TP x PP, times DP where those are processes) asked for.",
            "ranks asked for"),
    _launch("ranks_seen", "number", "processes", "Ranks seen, dead ones included.", "ranks seen"),
    _launch("programs", "texts", "processes", "Names of all programs of the launch, helpers and compilers included.",
            "programs"),
    _launch("bars", "texts", "logs", "Progress bars that are not full, as LABEL DONE/TOTAL.", "progress bar"),
    _launch("bar_share", "number", "logs", "Share done of the progress bar that is furthest behind, 0 to 1.",
            "share done of a progress bar"),
    _launch("ranks_apart", "bool", "judged", "Ranks are in different phases."),
    _launch("victim_count", "number", "judged", "Needed members that wait for another.", "members that wait"),
    _launch("other_launches", "texts", "processes", "Other vLLM and SGLang launches on its hosts."),
    _launch("orphans", "texts", "processes", "Engine processes of another launch there that lost their launcher.",
            "engine processes without a launcher"),
    _launch("overdue", "bool", "baseline", "The phase lasts longer than in the good starts on record."),
    _launch("missing_lines", "texts", "baseline", "Lines that every good start had printed by now.", "lines missing"),
    _launch("ring_full", "bool", "fds", "A ring in shared memory has a reader that left all chunks unread.",
            "a shared-memory ring is full"),
    _launch("connecting", "texts", "sockets", "Addresses that members try to connect to without an answer (SYN_SENT).",
            "connects without an answer to"),
    _launch("remote_peers", "texts", "sockets", "Addresses of other hosts with which members have connections.",
            "connected with other hosts"),
    _launch("oom", "texts", "host", "What speaks for the OOM killer: kernel lines of members, counters of their cgroups.",
            "OOM killer"),
)  # fmt: skip
