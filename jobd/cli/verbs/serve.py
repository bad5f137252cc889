"""``jobd serve``."""

from __future__ import annotations

from jobd.cli.options import Parser


def main(words: list[str]) -> int:
    """The daemon, in the foreground."""
    parser = Parser("serve", "Run the daemon in the foreground.")
    parser.add_argument("--state-dir", metavar="DIR", help="where it keeps everything (JOBD_STATE_DIR)")
    parser.add_argument("--config", metavar="FILE", help="its configuration (JOBD_CONFIG)")
    parser.add_argument("--log-level", choices=("debug", "info", "warning", "error"))
    options = parser.parse_args(words)
    from jobd.daemon import Options
    from jobd.daemon import main as serve

    return serve(Options(options.state_dir, options.socket, options.config, options.log_level))
