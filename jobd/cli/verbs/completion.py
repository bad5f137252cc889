"""``jobd completion``: scripts for shells."""

from __future__ import annotations

from jobd.cli.actions import add_action
from jobd.cli.options import Parser

_SCRIPTS = {
    "bash": """\
_jobd() {
    local words=("${COMP_WORDS[@]:1:COMP_CWORD-1}")
    mapfile -t COMPREPLY < <(compgen -W "$(jobd __complete "${words[@]}" 2>/dev/null)" -- "${COMP_WORDS[COMP_CWORD]}")
}
complete -o default -F _jobd jobd
""",
    "zsh": """\
#compdef jobd
_jobd() {
    local -a found
    found=("${(@f)$(jobd __complete "${(@)words[2,CURRENT-1]}" 2>/dev/null)}")
    compadd -a found || _files
}
compdef _jobd jobd
""",
    "fish": """\
complete -c jobd -f -a '(jobd __complete (commandline -opc)[2..] 2>/dev/null)'
""",
}


def main(words: list[str]) -> int:
    """Print a completion script."""
    parser = Parser("completion", "Print a completion script: source it, or put it where the shell looks.")
    add_action(parser, _SCRIPTS)
    options = parser.parse_args(words)
    print(_SCRIPTS[options.action], end="")
    return 0
