"""Name the risks of an MCP server that a user is about to allow.

A warning never refuses anything: the user decides. It is shown beside the exact command, because
the meaning of a variable such as `BASH_ENV` is not obvious.

Source: `docs/mcp.md`, Security.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pydantic import JsonValue

LOADING_VARIABLES: Final = frozenset(
    {
        "PATH",
        "PATHEXT",
        "IFS",
        "ENV",
        "BASH_ENV",
        "SHELLOPTS",
        "BASHOPTS",
        "PS4",
        "CDPATH",
        "PROMPT_COMMAND",
        "SHELL",
        "COMSPEC",
        "EDITOR",
        "VISUAL",
        "PAGER",
        "BROWSER",
        "LESSOPEN",
        "PYTHONPATH",
        "PYTHONHOME",
        "PYTHONSTARTUP",
        "PYTHONUSERBASE",
        "PYTHONWARNINGS",
        "PYTHONBREAKPOINT",
        "PYTHONPYCACHEPREFIX",
        "PYTHONEXECUTABLE",
        "VIRTUAL_ENV",
        "NODE_OPTIONS",
        "NODE_PATH",
        "NODE_REPL_EXTERNAL_MODULE",
        "ELECTRON_RUN_AS_NODE",
        "PERL5LIB",
        "PERLLIB",
        "PERL5OPT",
        "PERL5DB",
        "RUBYLIB",
        "RUBYOPT",
        "GEM_PATH",
        "GEM_HOME",
        "BUNDLE_GEMFILE",
        "LUA_PATH",
        "LUA_CPATH",
        "PHPRC",
        "PHP_INI_SCAN_DIR",
        "CLASSPATH",
        "JAVA_TOOL_OPTIONS",
        "JDK_JAVA_OPTIONS",
        "_JAVA_OPTIONS",
        "JAVA_HOME",
        "DOTNET_STARTUP_HOOKS",
        "GCONV_PATH",
        "OPENSSL_CONF",
        "OPENSSL_MODULES",
        "GIT_SSH",
        "GIT_SSH_COMMAND",
        "GIT_EXEC_PATH",
        "GIT_ASKPASS",
        "SSH_ASKPASS",
        "GIT_EDITOR",
        "GIT_PAGER",
        "GIT_TEMPLATE_DIR",
        "HOME",
        "XDG_CONFIG_HOME",
    }
)
"""Variables that change which code a program loads or runs."""
LOADING_PREFIXES: Final = ("LD_", "DYLD_", "BASH_FUNC_", "COR_", "CORECLR_", "GIT_CONFIG")
NETWORK_VARIABLES: Final = frozenset(
    {
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "HOSTALIASES",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "NODE_EXTRA_CA_CERTS",
        "NODE_TLS_REJECT_UNAUTHORIZED",
        "DOCKER_HOST",
        "DOCKER_CONFIG",
    }
)
"""Variables that change the hosts that a program connects to, or trusts."""
NETWORK_PREFIXES: Final = ("NPM_CONFIG_", "PIP_", "UV_", "YARN_", "PNPM_", "BUN_CONFIG_")

LAUNCHERS: Final[Mapping[str, str]] = {
    "npx": "downloads a package of npm",
    "npm": "can download a package of npm",
    "pnpm": "can download a package of npm",
    "yarn": "can download a package of npm",
    "bunx": "downloads a package of npm",
    "bun": "can download a package of npm",
    "deno": "can download code",
    "uvx": "downloads a package of PyPI",
    "uv": "can download a package of PyPI",
    "pipx": "downloads a package of PyPI",
    "docker": "downloads a container image",
    "podman": "downloads a container image",
    "nix": "can download a package",
}
"""Programs that fetch the server and run it."""
_INTERPRETERS: Final = re.compile(
    r"(?:env|sudo|doas|sh|bash|zsh|dash|ksh|fish|pwsh|powershell|cmd|python|node|ruby|perl|php)[0-9.]*"
)
"""Programs that run other programs, which their arguments name."""
_ELEVATED: Final = re.compile(r"(?:^|[\s;&|(])(?:sudo|doas|pkexec|su)(?=\s|$)")
_DELETES: Final = re.compile(r"(?:^|[\s;&|(/])(?:rm|rmdir|shred|mkfs\S{0,20})(?=\s|$)")
_PIPED: Final = re.compile(
    r"\b(?:curl|wget|fetch|iwr|irm|invoke-webrequest|invoke-restmethod)\b[^|;]{0,2000}\|"
    r"|\b(?:eval|iex|source)\b[^;]{0,200}\b(?:curl|wget)\b"
    r"|[<$]\(\s*(?:curl|wget)\b"
    r"|/dev/(?:tcp|udp)/",
    re.IGNORECASE,
)
_SUFFIX: Final = re.compile(r"\.(?:exe|cmd|bat|ps1)$", re.IGNORECASE)


def is_loading_variable(name: str) -> bool:
    """Return True if the variable changes which code a program loads or runs."""
    name = name.upper()
    return name in LOADING_VARIABLES or name.startswith(LOADING_PREFIXES)


def describe_variable(name: str) -> str:
    """Return the risk of a variable that a configuration sets; "" if none is known."""
    if is_loading_variable(name):
        return "changes which code the program loads"
    if name.upper() in NETWORK_VARIABLES or name.upper().startswith(NETWORK_PREFIXES):
        return "changes the hosts that the program uses"
    return ""


def get_program_name(command: str) -> str:
    """Return the name of the program of `command`, without its folder and suffix."""
    name = posixpath.basename(command.replace("\\", "/")).lower()
    return _SUFFIX.sub("", name)


def describe_launcher(command: str, arguments: Sequence[str] = ()) -> str:
    """Return the meaning of a launcher such as `npx`; "" for other programs.

    Another program may run it, as in `sh -c "npx …"`.
    """
    name = get_program_name(command)
    words = [name]
    if _INTERPRETERS.fullmatch(name):
        for text in arguments:
            words += [get_program_name(word) for word in text.split()[:20]]

    launcher = next((word for word in words if word in LAUNCHERS), None)
    if launcher is None:
        return ""
    return (
        f"`{launcher}` {LAUNCHERS[launcher]} and runs it: a checksum of `{launcher}` does not pin "
        "the server"
    )


def describe_command_risks(command: str, arguments: Sequence[str] = ()) -> Iterator[str]:
    """Yield the risks of a command line."""
    line = " ".join([get_program_name(command), *arguments])
    if _ELEVATED.search(line):
        yield "runs with the rights of another user"
    if _DELETES.search(line):
        yield "deletes files"
    if _PIPED.search(line):
        yield "runs code from the network"
    if launcher := describe_launcher(command, arguments):
        yield launcher


def describe_setting_risks(keys: Sequence[str], value: JsonValue) -> list[str]:
    """Return the risks of `value` at `keys` below the settings of an MCP server."""
    match list(keys), value:
        case ["env", name], _:
            return [*filter(None, [describe_variable(name)])]
        case ["variables"], list():
            marked = [(str(name), describe_variable(str(name))) for name in value]
            return [f"`{name}` {risk}" for name, risk in marked if risk]
        case ["env_file"], str():
            return ["sets further variables, which are not shown here"]
        case ["command"], str():
            return list(describe_command_risks(value))
        case ["arguments" | "variables"], {"value": inner}:  # a list with its merge strategy
            return describe_setting_risks(keys, inner)
        case ["arguments"], list():
            # The command is not known here. It may be a shell, which runs its arguments.
            return list(describe_command_risks("sh", list(map(str, value))))
        case ["insecure"], True:
            return ["anyone on the way can read and change the messages"]
        case ["instructions"], True:
            return ["the model gets the server's instructions"]
    return []
