from pathlib import Path

import pytest

from syncd.errors import NotWritable
from syncd.host.directories import find_cache, make_writable, remove_leftovers
from syncd.sandbox.sandbox_dirs import find_paths


def test_the_xdg_directories_decide() -> None:
    places = find_paths({"XDG_STATE_HOME": "/s", "XDG_CACHE_HOME": "/c", "HOME": "/h"})

    assert (places.directory, places.cache) == (Path("/s/syncd/sandbox"), Path("/c/syncd"))


def test_without_them_the_home_directory_does() -> None:
    places = find_paths({"HOME": "/h"})

    assert (places.directory, places.cache) == (Path("/h/.local/state/syncd/sandbox"), Path("/h/.cache/syncd"))


def test_a_relative_xdg_directory_is_ignored() -> None:
    assert find_cache({"XDG_CACHE_HOME": "c", "HOME": "/h"}) == Path("/h/.cache/syncd")


def test_a_directory_asked_for_wins() -> None:
    assert find_paths({"HOME": "/h"}, directory=Path("/d")).directory == Path("/d")


def test_a_cache_asked_for_wins() -> None:
    assert find_cache({"SYNCD_CACHE": "/k", "XDG_CACHE_HOME": "/c"}) == Path("/k")


def test_no_home_at_all_is_said() -> None:
    with pytest.raises(NotWritable, match="neither HOME nor XDG_STATE_HOME"):
        find_paths({})


def test_a_new_directory_is_its_owners_alone(tmp_path: Path) -> None:
    made = make_writable(tmp_path / "a" / "b", hint="")

    assert made.stat().st_mode & 0o777 == 0o700
    assert list(made.iterdir()) == []


@pytest.mark.parametrize("place", ["file/below", "file"])
def test_a_place_that_cannot_be_written_is_said_with_its_reason(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(NotWritable, match=r"cannot write to .*: ") as caught:
        make_writable(tmp_path / place, hint="elsewhere")

    assert caught.value.hint == "elsewhere"


def test_sweep_removes_what_a_kill_left_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "fetching-1" / "deep").mkdir(parents=True)
    (tmp_path / "kept.jar").write_text("")

    remove_leftovers(tmp_path, "fetching-")

    assert [path.name for path in tmp_path.iterdir()] == ["kept.jar"]
