"""What can go wrong outside of state, grouped by what to do about it."""

from types import TracebackType

from watermarks.errors import DataInDoubt, HintedError, Misuse, NotOwner, OutcomeUnknown, Transient


class ConfigError(Misuse):
    """The configuration asks for something that cannot be: mend the file."""


class SourceDown(Transient):
    """MySQL did not start, does not answer, or cut the connection."""


class ServerChanged(SourceDown):
    """Another server answers than the one that was asked before: nothing counts that would mix what the two say."""


class LakeDown(Transient):
    """S3 did not start, does not answer, or refuses for now."""


class WarehouseDown(Transient):
    """The warehouse did not start, or does not answer."""


class WarehouseStillDown(WarehouseDown):
    """The warehouse was away for as long as one stream waits for it: another need not wait anew."""


class SourceUnfit(HintedError):
    """A person has to mend the source first: a table, key, index or right is missing."""


class HorizonNotKnown(SourceUnfit):
    """Transactions that began before anybody watched have to end first; it may take them a while."""


class LakeUnfit(HintedError):
    """A person has to mend the lake first: a bucket, right or credential is missing."""


class WarehouseBehind(Transient):
    """So much waits to be loaded that the warehouse cannot be compared with its source."""


class WarehouseUnfit(HintedError):
    """A person has to mend the warehouse first: a right, a table or a setting is missing."""


class TransactionConflict(Transient):
    """Another transaction came between: run this one again, whole."""


class CommitUnknown(OutcomeUnknown):
    """COMMIT was sent to the warehouse and no answer came: ask the ledger, under the lock."""


class FileRefused(DataInDoubt):
    """COPY did not take a file as a whole: it is gone, cut, another one, or of other types than its table."""


class RowRefused(DataInDoubt):
    """COPY met a value that no row of the table can hold; facts: `file`, `column`, `reason`."""


class SchemaDrift(HintedError):
    """The table is not the one it was: ask a person."""


class TableAltered(Transient):
    """A table was altered while a batch of it was read: it has to be planned anew, with the columns of now."""


class SourceReplaced(DataInDoubt):
    """Another server answers than the one whose positions are kept, or its clock went back."""


class RowOutsideWindow(DataInDoubt):
    """A row was read that is not in its window."""


class ValueRefused(DataInDoubt):
    """A value that no policy lets pass."""


class ReaderDown(Transient):
    """Spark did not start, or ended in the middle of a reading."""


class PassStopped(Transient):
    """A pass was ended from outside, in the middle of its work: the next one goes on."""


class PassTimedOut(PassStopped):
    """A pass was ended for its length: unlike any other that was ended, it has failed."""


class PassAlreadyRunning(NotOwner):
    """Another thread of this process is at work on this stage of this stream."""


class InternalError(HintedError):
    """A fault of syncd itself: an error that nobody foresaw, which is its cause."""


def to_hinted_error(error: Exception) -> HintedError:
    """The error itself where it says what to do; else the bug that it is.

    What such an error says is left to its traceback: it was written for nobody, and may hold a value or a secret.
    """
    if isinstance(error, HintedError):
        return error
    bug = InternalError(
        f"a bug in syncd: {type(error).__name__}{_format_raise_site(error.__traceback__)}",
        hint="Run it again with --debug, and report what that shows. The mark is where it was.",
    )
    bug.__cause__ = error
    return bug


def _format_raise_site(trace: TracebackType | None) -> str:
    """Where it was raised."""
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f" at {trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
