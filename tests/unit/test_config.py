"""The configuration file: defaults, values as people write them, and errors that name file and key."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

from jobd import config
from jobd.config import Config
from jobd.model.errors import InvalidArgument

SHIPPED = Path(__file__).parents[2] / "config" / "jobd.toml"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "jobd.toml"


def load(file: Path, text: str) -> Config:
    file.write_text(text)
    return config.load(file)


def test_without_a_file_the_defaults_are_in_force(file: Path) -> None:
    found = config.load(file)
    assert found.daemon.log_level == "info"
    assert found.scheduler.slots == "cpus"
    assert found.retention.finished == 30 * 86400
    assert found.retention.count is None
    assert found.storage.min_free == 256 << 20
    assert list(found.backends) == ["local"]
    assert set(found.sources.values()) == {"default"}


def test_every_key(file: Path) -> None:
    found = load(
        file,
        """
        [daemon]
        log_level = "debug"
        [scheduler]
        slots = 3
        [backends.local]
        kind = "process"
        [retention]
        finished = "1h30m"
        count = 1000
        [storage]
        min_free = "2GiB"
        """,
    )
    assert found.daemon.log_level == "debug"
    assert found.scheduler.effective_slots() == 3
    assert (found.retention.finished, found.retention.count) == (5400, 1000)
    assert found.storage.min_free == 2 << 30
    assert set(found.sources.values()) == {str(file)}


def test_each_value_says_where_it_comes_from(file: Path) -> None:
    found = load(file, "[retention]\ncount = 5\n")
    assert found.sources["retention.count"] == str(file)
    assert found.sources["retention.finished"] == "default"
    assert found.sources["backends.local"] == "default"


def test_finished_jobs_can_be_kept_for_ever(file: Path) -> None:
    assert load(file, '[retention]\nfinished = "none"\n').retention.finished is None


def test_no_slots_are_valid(file: Path) -> None:
    assert load(file, "[scheduler]\nslots = 0\n").scheduler.effective_slots() == 0


def test_slots_are_the_cpus_by_default() -> None:
    assert 1 <= config.SchedulerSection().effective_slots() <= len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("[deamon]\n", "unknown section 'deamon'", "did you mean daemon?"),
        ("[scheduler]\nslot = 1\n", "unknown key in [scheduler] 'slot'", "did you mean slots?"),
        ("[storage]\nsources = 1\n", "unknown key in [storage] 'sources'", "known are: min_free"),
        ('[daemon]\nlog_level = "inof"\n', "unknown log_level in [daemon] 'inof'", "did you mean info?"),
        (
            '[scheduler]\nslots = "many"\n',
            "[scheduler] slots must be \"cpus\" or a number from 0, not 'many'",
            None,
        ),
        ("[scheduler]\nslots = -1\n", '[scheduler] slots must be "cpus" or a number from 0, not -1', None),
        ("[scheduler]\nslots = true\n", "[scheduler]: Expected `int | str`, got `bool` - at `$.slots`", None),
        (
            '[retention]\nfinished = "soon"\n',
            "[retention] finished: 'soon' is not a duration",
            "write 90, 0.2, 90s, ",
        ),
        ("[retention]\nfinished = -1\n", "[retention] finished must be 0 or more, not -1", None),
        ("[retention]\ncount = -1\n", "[retention] count must be 0 or more, not -1", None),
        (
            '[storage]\nmin_free = "much"\n',
            "[storage] min_free: 'much' is not a size",
            "write a number of bytes",
        ),
        ("daemon = 1\n", "daemon must be a table", "write [daemon]"),
        ("backends = 1\n", "[backends] must hold a table for each backend", None),
        ("[backends]\nlocal = 1\n", "backends.local must be a table", "write [backends.local]"),
        (
            '[backends.local]\nkind = "proces"\n',
            "unknown kind in [backends.local] 'proces'",
            "did you mean process?",
        ),
        ("[backends.local]\ngrace = 1\n", "unknown key in [backends.local] 'grace'", "known are: kind"),
        (
            '[backends.other]\nkind = "process"\n',
            "[backends.other]: there is one backend for processes, and it is called local",
            "write [backends.local]",
        ),
        ("[queues.default]\nslots = 1\n", "[queues] is not available in this version of jobd", None),
    ],
)
def test_an_error_names_file_and_key(file: Path, text: str, message: str, hint: str | None) -> None:
    with pytest.raises(InvalidArgument) as refused:
        load(file, text)
    assert refused.value.message == f"{file}: {message}"
    assert (refused.value.hint or "").startswith(hint or "")
    assert (refused.value.hint is None) == (hint is None)


@pytest.mark.parametrize("kind", ["slurm", "gridengine", "htcondor", "pbs", "lsf", "kubernetes"])
def test_kinds_to_come_are_refused_in_a_sentence(file: Path, kind: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"\[backends.x\]: kind '{kind}' is not available in this version"):
        load(file, f'[backends.x]\nkind = "{kind}"\nspool = "/x"\n')


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"[daemon", "is not valid TOML"), (b'[daemon]\nlog_level = "\xff"\n', "is not UTF-8")],
)
def test_what_is_no_toml(file: Path, content: bytes, message: str) -> None:
    file.write_bytes(content)
    with pytest.raises(InvalidArgument, match=message) as refused:
        config.load(file)
    assert str(file) in refused.value.message


def test_what_can_not_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="can't be read: Is a directory"):
        config.load(tmp_path)


def test_the_shipped_file_is_valid_and_says_the_defaults(file: Path) -> None:
    assert config.load(SHIPPED) == config.load(file)
    assert tomllib.loads(SHIPPED.read_text()) == {}
    uncommented = "\n".join(_values(SHIPPED.read_text()))
    written = load(file, uncommented)
    default = Config(backends=written.backends)
    for section in ("daemon", "scheduler", "storage"):
        assert getattr(written, section) == getattr(default, section)
    assert written.retention.finished == default.retention.finished


def test_the_shipped_file_has_every_key() -> None:
    shown = tomllib.loads("\n".join(_values(SHIPPED.read_text())))
    for name, section in config.SECTIONS.items():
        assert set(shown[name]) == set(section.__struct_fields__)


def _values(text: str) -> list[str]:
    """Its commented values: those are ``#key = value`` and ``#[table]``, and remarks begin with ``# ``."""
    return [line[1:] for line in text.splitlines() if line.startswith("#") and line[1:2] not in ("", " ")]
