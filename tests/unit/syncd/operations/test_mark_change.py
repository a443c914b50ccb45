"""A change by a person: what is shown is what is made, and what it needs is there when it is made."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from syncd.lake.removal_records import ListedObject, RemovalRecord
from syncd.operations.mark_change import ChangedMeanwhile, ChangePreview, apply_change, preview_change
from syncd.operations.reloadable_files import ReloadFilesMissing
from tests.builders import NOON, ORDERS, RUN, at, extract, hold, make_process
from watermarks.document import Watermark
from watermarks.history import ChangeKind, ChangeNote, Journal
from watermarks.names import document_key
from watermarks.operator import Operator
from watermarks.stores.memory import MemoryStore
from watermarks.testing import FaultyStore, ManualClock, StoreFault, StoreOperation, script_faults

Act = Callable[[Operator], Watermark]


def undo(person: Operator) -> Watermark:
    return person.undo(ORDERS)


def load_again(person: Operator) -> Watermark:
    return person.reset_marks(ORDERS, reset_extract=False)


@dataclass
class Files:
    """A lake of files whose names are all that counts, and the records of those that somebody removes."""

    standing_: set[str]
    records: list[RemovalRecord] = field(default_factory=list[RemovalRecord])

    def list_objects(self, prefix: str) -> Sequence[ListedObject]:
        if prefix.startswith("data/"):
            return [ListedObject(key=key, bytes=1, at=NOON) for key in self.standing_]
        return [ListedObject(key=record.key, bytes=1, at=record.at) for record in self.records]

    def read(self, key: str) -> bytes:
        [found] = [record.to_bytes() for record in self.records if record.key == key]
        return found

    def record(self, seconds: int, *names: str) -> None:
        """As a cleaner does before it looks at the marks once more."""
        moment, files = NOON + timedelta(seconds=seconds), dict.fromkeys(names, 1)
        self.records.append(RemovalRecord(stream=ORDERS, at=moment, who="ben", why="old", nonce="n", files=files))


class Desk:
    """A stream with two batches, both landed, and a person at the controls."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.journal = Journal(self.store, Watermark, clock=ManualClock())
        extraction = extract(self.journal, hold(make_process(self.store), self.journal), at(1, 1), at(2, 2))
        links = [
            extraction.chain.require_link(batch)
            for batch in self.state.required_extract_progress.batch_ids(after=self.state.load_progress.last_batch)
        ]
        for link in links:
            self.commit(lambda state, link=link: state.with_loaded_batch(link, rows=3, run=RUN, now=NOON))  # type: ignore[misc]  # mypy infers no type for a lambda's default
        self.names = [name for link in links for name in link.files]
        self.files = Files(set(self.names))
        self.person = Operator(journal=self.journal, author="ann", reason="again")

    @property
    def state(self) -> Watermark:
        state = self.journal.read_newest(ORDERS.stem)
        assert state
        return state

    @property
    def keys(self) -> list[str]:
        return list(self.store.list(""))

    def commit(self, change: Callable[[Watermark], Watermark]) -> None:
        def changed(state: Watermark | None) -> Watermark:
            assert state
            return change(state)

        self.journal.commit(ORDERS.stem, changed, ChangeNote(change=ChangeKind.LOAD, author="p1"))

    def lagging(self, act: Act) -> Watermark:
        """A change by a person whose document was never written, though its entry was."""
        lost = FaultyStore(
            self.store, script_faults(StoreOperation.REPLACE, document_key(ORDERS.stem), StoreFault.DOWN)
        )
        return act(replace(self.person, journal=Journal(lost, Watermark, clock=ManualClock())))

    def preview(self, act: Act) -> ChangePreview:
        return preview_change(self.journal, self.files, ORDERS, self.person, act)

    def done(self, seen: ChangePreview, act: Act) -> Watermark:
        return apply_change(seen, self.person, act)


def positions(state: Watermark) -> tuple[object, ...]:
    return (
        state.required_extract_progress.cursor,
        state.required_extract_progress.generation,
        state.load_progress.last_batch,
        state.load_progress.load_generation,
    )


@pytest.mark.parametrize(
    "act",
    [
        undo,
        lambda person: person.reset_marks(ORDERS, reset_load=False),
        lambda person: person.set_marks(ORDERS, extract_cursor=at(9)),
    ],
    ids=["undo", "reset", "set"],
)
@pytest.mark.parametrize("earlier", [0, 1])
def test_what_is_shown_is_made_where_the_document_lags_behind(act: Act, earlier: int) -> None:
    desk = Desk()
    for number in range(earlier):
        desk.person.set_marks(ORDERS, extract_cursor=at(20 + number))
    changed = desk.lagging(lambda person: person.set_marks(ORDERS, extract_cursor=at(30)))
    document = desk.journal.read(ORDERS.stem)
    assert document is not None
    assert document.revision < changed.revision
    before = desk.keys

    seen = desk.preview(act)

    assert positions(seen.before) == positions(changed)
    assert desk.keys == before
    assert desk.journal.read(ORDERS.stem) == document
    assert positions(desk.done(seen, act)) == positions(seen.after)


def test_files_that_go_before_the_answer_keep_the_change_from_being_made() -> None:
    desk = Desk()
    seen, before = desk.preview(load_again), desk.state
    desk.files.record(60, desk.names[0])
    desk.files.standing_.discard(desk.names[0])

    with pytest.raises(ReloadFilesMissing, match="it was cleaned by ben"):
        desk.done(seen, load_again)

    assert desk.state == before


@pytest.mark.parametrize("how", ["removed", "recorded"])
def test_a_change_whose_files_go_while_it_is_made_is_taken_back(how: str) -> None:
    desk = Desk()
    seen, before = desk.preview(load_again), desk.state

    def meanwhile(person: Operator) -> Watermark:
        made = load_again(person)
        if person.journal is desk.journal and how == "removed":
            desk.files.standing_.discard(desk.names[1])
        elif person.journal is desk.journal:
            desk.files.record(60, desk.names[1])
        return made

    with pytest.raises(ReloadFilesMissing):
        desk.done(seen, meanwhile)

    entry = desk.journal.read_entry(ORDERS.stem, desk.state.revision)
    assert entry is not None
    assert (entry.note.change, entry.note.reason.startswith("undone: ")) == (ChangeKind.UNDO, True)
    assert (desk.state.load_progress.last_batch, desk.state.last_manual_revision) == (
        before.load_progress.last_batch,
        before.revision + 2,
    )


def test_files_that_somebody_is_about_to_remove_count_as_gone() -> None:
    """The cleaner has looked at the marks before the change was made, and removes after it."""
    desk = Desk()
    seen, before = desk.preview(load_again), desk.state
    desk.files.record(60, *desk.names)

    with pytest.raises(ReloadFilesMissing, match="it was cleaned by ben"):
        desk.done(seen, load_again)

    assert desk.state == before


def test_files_that_a_cleaner_recorded_and_left_are_there() -> None:
    desk = Desk()
    desk.files.record(60, *desk.names)

    made = desk.done(desk.preview(load_again), load_again)

    assert made.load_progress.load_generation == 2


def test_what_another_person_did_since_is_not_taken_back() -> None:
    desk = Desk()
    seen = desk.preview(load_again)
    ben = replace(desk.person, author="ben")

    def meanwhile(person: Operator) -> Watermark:
        made = load_again(person)
        if person.journal is desk.journal:
            desk.files.standing_.clear()
            ben.set_marks(ORDERS, extract_cursor=at(9))
        return made

    with pytest.raises(ReloadFilesMissing, match="could not be undone"):
        desk.done(seen, meanwhile)

    assert desk.state.required_extract_progress.cursor == at(9)
    assert desk.state.load_progress.load_generation == 2


def test_what_somebody_else_did_before_the_answer_is_told() -> None:
    desk = Desk()
    seen = desk.preview(load_again)
    desk.person.set_marks(ORDERS, extract_cursor=at(9))

    with pytest.raises(ChangedMeanwhile):
        desk.done(seen, load_again)
