"""A table that another engine and this toolkit change in turn and at the same time, and the rows that it must have."""

from __future__ import annotations

import contextlib
import functools
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar
from unittest import mock

import pyarrow as pa
from hypothesis import HealthCheck, Phase, assume, note, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

import geolake_nb as gl
from geolake_nb.api.writing import plan_write
from geolake_nb.errors import ConflictError, RefusedError
from geolake_nb.formats.registry import FORMATS
from tests.promises.row_model import (
    UNVERSIONED,
    AddColumn,
    Append,
    Collate,
    Column,
    Delete,
    DropColumn,
    Enable,
    Move,
    NewRow,
    Overwrite,
    Race,
    RenameColumn,
    Repair,
    Rewrite,
    State,
    Step,
    Undo,
    Update,
    is_ours,
    operation_name,
)

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from geolake_nb.api.plan import Plan
    from tests.promises.row_model import Opening, Operation, Value

    Rows = Mapping[int, Mapping[int, Value]]

__all__ = ["RowHistory", "acting_before", "run_histories"]

_TRAVELS = 3
_ARROW = {"INT": pa.int32(), "STRING": pa.string()}


class RowHistory(RuleBasedStateMachine):
    """What all formats share: the model, both writers, and the checks of the table.

    `states` has the rows of each version, in the order in which the versions were made.
    """

    format: ClassVar[str]

    def __init__(self, spark: Any, happened: Counter[str], opening: Opening | None = None) -> None:
        super().__init__()
        self.spark = spark
        self.happened = happened
        self.opening = opening
        self.state = State((), {})
        self.states: dict[int, State] = {}
        self.current: int | None = None
        """The newest version that is known to have landed."""
        self.location = ""
        self._keys = itertools.count()
        self._is_good = True

    # ---- what a format says

    def begin(self, start: Any) -> None:
        """Make the table, with its first rows."""
        raise NotImplementedError

    def version(self) -> int | None:
        """The newest version, found without this toolkit."""
        raise NotImplementedError

    def read(self, version: int | None = None) -> tuple[list[str], Counter[tuple[Value, ...]]]:
        """The columns and the rows, by an engine that others use."""
        raise NotImplementedError

    def act(self, step: Step) -> None:
        """Have another engine do it."""
        raise NotImplementedError

    def can(self, operation: Operation) -> bool:
        """Whether the table, as it is, supports this."""
        raise NotImplementedError

    def fitting(self, operation: Operation) -> Operation:
        """The like of it that this table has work for."""
        match operation:
            case AddColumn(name) | DropColumn(name):
                return DropColumn(name) if self.has(name) else AddColumn(name)
            case RenameColumn(old, new) if not self.has(old):
                return RenameColumn(new, old) if self.has(new) else AddColumn(old)
        return operation

    def undo_step(self, undo: Undo) -> Step:
        """The version that is undone, and what that does to the rows."""
        raise NotImplementedError

    def manner(self, operation: Operation) -> str:
        """How the newest version holds what the operation did, by the words of the table alone."""
        raise NotImplementedError

    def before_commit(self, act: Callable[[], None]) -> contextlib.AbstractContextManager[Any]:
        """Have another act when our commit is ready and not yet written."""
        raise NotImplementedError

    # ---- the model

    def start(self, columns: Sequence[tuple[str, str]], rows: Sequence[NewRow]) -> Step:
        """The first rows of a table with these columns."""
        self.state = State(tuple(Column(next(self._keys), *column) for column in columns), {})
        return self.decided(Append(tuple(rows)))

    def has(self, *names: str) -> bool:
        return any(column.name in names for column in self.state.columns)

    def named(self, *names: str) -> Column:
        return next(column for column in self.state.columns if column.name in names)

    def decided(self, operation: Operation) -> Step:
        """What the operation will make of the rows that it meets."""
        column = rows = None
        match operation:
            case Append(new) | Overwrite(new):
                rows = self._made(new)
                over = self.state.rows if isinstance(operation, Overwrite) else None
                effect = functools.partial(State.put, rows=rows, over=over)
            case Delete(ids):
                effect = functools.partial(State.without, ids=ids)
            case Update(ids, value) | Move(ids, value):
                column = self.named("name", "label") if isinstance(operation, Update) else self.named("g", "geom")
                effect = functools.partial(State.updated, ids=ids, column=column, value=value)
            case AddColumn(name):
                new_column = Column(next(self._keys), name, "INT" if name == "note" else "STRING")
                effect = functools.partial(State.with_column, old=None, new=new_column)
                column = new_column
            case RenameColumn(old, name):
                column = self.named(old)
                effect = functools.partial(State.with_column, old=column, new=replace(column, name=name))
            case DropColumn(name):
                column = self.named(name)
                effect = functools.partial(State.with_column, old=column, new=None)
            case Enable():
                column = self.named("raw")
                effect = functools.partial(State.with_column, old=column, new=replace(column, type="GEOMETRY(4326)"))
            case Undo():
                return self.undo_step(operation)
            case _:
                effect = State.unchanged
        return Step(operation, effect, column, rows)

    def _made(self, new: Sequence[NewRow]) -> dict[int, dict[int, Value]]:
        rows = {}
        for row in new:
            number = next(self._keys)
            rows[number] = {column.key: self.value(column, row, number) for column in self.state.columns}
        return rows

    def value(self, column: Column, row: NewRow, number: int) -> Value:
        """What a new row has in a column: those that came later have values of their own."""
        match column.name:
            case "id":
                return row.id
            case "name" | "label":
                return row.name
            case "part":
                return row.part
            case "g" | "geom" | "raw":
                return row.shape
        return number if column.type == "INT" else f"v{number}"

    # ---- what is done

    def open(self, start: Any, draw: int) -> None:
        """Make the table and apply the opening steps; without them the table is as drawn."""
        assume(draw)  # the simplest history does the same thing again and again
        self.happened["histories"] += 1
        if self.opening is not None:
            note(f"the opening in the place of what was drawn: {self.opening}")
            start = self.opening.start
        self.begin(start)
        self.check_rows()
        for change in () if self.opening is None else self.opening.changes:
            self.happen(change)

    def happen(self, change: Operation | Race) -> None:
        """One or both writers act, and the rows are checked."""
        if isinstance(change, Race):
            self.meet(self.fitting(change.ours), self.fitting(change.theirs), change.moment)
        else:
            self.do(self.fitting(change))
        self.check_rows()

    def do(self, operation: Operation) -> None:
        """One writer, while no other acts."""
        if not self.can(operation):
            self.happened["not possible"] += 1
            return
        self._is_good = False
        step = self.decided(operation)
        if is_ours(operation):
            plan = self._plan(step)
            if plan is None:
                return
            plan.apply(spark=self.spark, consent={"collations", "geospatial"})
        else:
            self.act(step)
        self.landed(step)

    def meet(self, ours: Operation, theirs: Operation, moment: str) -> None:
        """Both act: ours lands on top of theirs, or nothing of it does."""
        if not self.can(ours) or not self.can(theirs):
            self.happened["not possible"] += 1
            return
        self._is_good = False
        step = self.decided(ours)
        plan = self._plan(step)
        if plan is None:
            return
        acted: list[int | None] = []

        def act() -> None:
            if not acted:
                acted.append(None)
                self.do(theirs)
                acted[0] = self.version()

        if moment == "planned":
            act()
        try:
            with self.before_commit(act) if moment == "committing" else self._before_writing(act):
                plan.apply(spark=self.spark, consent={"collations", "geospatial"})
        except ConflictError:
            # An append does not conflict with what does not concern its rows.
            if isinstance(theirs, Append) and isinstance(ours, (Append, Repair, Rewrite)):
                raise
            assert [self.version()] == acted
            self._met("conflict", theirs)
        else:
            self.landed(step)
            if acted:
                self._met("rebased", theirs)
            else:
                self.happened["nothing to commit"] += 1
        act()

    def _met(self, how: str, theirs: Operation) -> None:
        self.happened[how] += 1
        self.happened[f"{how} with {'this toolkit' if is_ours(theirs) else 'another'}"] += 1

    @contextlib.contextmanager
    def _before_writing(self, act: Callable[[], None]) -> Iterator[None]:
        """Have another act when our files are written, before our commit reads the table."""
        with acting_before(FORMATS[self.format], "commit", act):
            yield

    def _plan(self, step: Step) -> Plan | None:
        try:
            return self._planned(step)
        except (ConflictError, RefusedError) as problem:
            # The newest version can always be undone; others only if nothing was built on them.
            if not isinstance(step.operation, Undo) or not step.operation.back:
                raise
            self.happened[f"undo refused: {type(problem).__name__}"] += 1
            return None

    def _planned(self, step: Step) -> Plan:
        table = gl.open(self.location)
        match step.operation:
            case Append() | Overwrite():
                mode = "append" if isinstance(step.operation, Append) else "overwrite"
                return plan_write(self.arrow(step), self.location, format=self.format, mode=mode)
            case Repair(verify):
                return table.plan_repair(verify=verify)
            case Rewrite(column):
                name = self.named("g", "geom").name if column == "g" else column
                return table.plan_rewrite(cluster_by=name or (), target_file_size="1MB")
            case Collate(collation):
                return table.plan_collations({self.named("name", "label").name: collation})
            case Enable():
                return table.plan_enable({"raw": gl.geometry("EPSG:4326")})
            case Undo():
                return table.plan_undo(step.version)
        raise AssertionError(step)

    def arrow(self, step: Step) -> pa.Table:
        """The rows of a step as this toolkit is given them."""
        assert step.rows is not None
        columns = {}
        for column in self.state.columns:
            column_values = [row[column.key] for row in step.rows.values()]
            if column.is_bytes:
                column_values = [None if value is None else bytes.fromhex(str(value)) for value in column_values]
            columns[column.name] = pa.array(column_values, _ARROW.get(column.type, pa.binary()))
        return pa.table(columns)

    def landed(self, step: Step) -> None:
        """Note what the table must hold from now on."""
        after = step.effect(self.state)
        assert after is not None, f"{step.operation} landed on what was changed since"
        self.state = after
        before, self.current = self.current, self.version()
        if self.current is not None and self.current not in self.states:
            self.states[self.current] = after
        name = operation_name(step.operation)
        if self.current != before:
            self.happened[name] += 1
            self.happened[f"{name} {self.manner(step.operation)}"] += 1
        else:
            # A repair that finds nothing to repair has shown nothing.
            self.happened[name if isinstance(step.operation, UNVERSIONED) else f"{name} of nothing"] += 1

    # ---- what is checked

    def check_rows(self) -> None:
        """The rows are those of the model, for the other engine and for us."""
        self._hold(self.state, *self.read())
        table = gl.open(self.location)
        assert table.version == self.version()
        self._hold_ours(table, self.state)
        self._is_good = True
        self.happened["checks"] += 1

    def teardown(self) -> None:
        """After a history that was good, former versions have the rows of then."""
        if self._is_good and self.states:
            known = list(self.states)
            for version in {known[index * len(known) // _TRAVELS] for index in range(_TRAVELS)}:
                self._hold(self.states[version], *self.read(version))
                self._hold_ours(gl.open(self.location).at(version), self.states[version])
                self.happened["former versions"] += 1
        self.clean_up()

    def clean_up(self) -> None:
        """Remove the table."""

    def _hold(self, state: State, columns: list[str], rows: Counter[tuple[Value, ...]]) -> None:
        wanted = state.visible()
        assert columns == [column.name for column in state.columns]
        assert rows == wanted, f"lost {dict(wanted - rows)}, too many {dict(rows - wanted)}"

    def _hold_ours(self, table: gl.Table, state: State) -> None:
        assert [field.name for field in table.schema.fields] == [column.name for column in state.columns]
        rows = table.files.table["rows"]
        if self.counts_rows() and not rows.null_count:
            assert sum(rows.to_pylist()) == len(state.rows)

    def counts_rows(self) -> bool:
        """Whether the metadata of the table says how many rows are left."""
        return True


@contextlib.contextmanager
def acting_before(owner: Any, name: str, act: Callable[[], None]) -> Iterator[None]:
    """Have another act before a function of ours does."""
    original = getattr(owner, name)

    def patched(*arguments: Any, **options: Any) -> Any:
        act()
        return original(*arguments, **options)

    with mock.patch.object(owner, name, patched):
        yield


def run_histories(make: Callable[[], RowHistory], *, examples: int, steps: int, number: int) -> None:
    """So many histories of so many steps each, the same for the same number."""
    seed(number)(make)
    run_state_machine_as_test(
        make,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            derandomize=False,
            print_blob=False,
            # To make a failing history shorter costs minutes: its steps are printed as they are.
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        ),
    )
