"""The `remove` action of a file, made of its `add`."""

from __future__ import annotations

import re

from geolake_nb.core.json_splice import member

__all__ = ["remove_action", "with_deletion_time", "without_deletion_time"]

# Delta, Remove file: what extendedFileMetadata promises, then what makes the file the one that is meant.
_KEPT = ("partitionValues", "size", "tags", "deletionVector", "baseRowId", "defaultRowCommitVersion")
_TIME = re.compile(r'^(\{"remove":\{"path":"(?:[^"\\]|\\.)*","deletionTimestamp":)\d+')


def remove_action(add: str, *, data_change: bool, deletion_timestamp: int) -> str:
    """The action that takes a file away; `add` is the JSON of the object inside its `add` action, as the log has it.

    `deletion_timestamp` is in milliseconds, and from when VACUUM counts.

    >>> remove_action('{"path":"a","size":3,"partitionValues":{"p":"1"}}', data_change=False, deletion_timestamp=5)
    '{"remove":{"path":"a","deletionTimestamp":5,"dataChange":false,"extendedFileMetadata":true,...,"size":3}}'
    """
    fields = [
        f'"path":{member(add, ("path",))}',
        f'"deletionTimestamp":{deletion_timestamp}',
        f'"dataChange":{"true" if data_change else "false"}',
        '"extendedFileMetadata":true',
    ]
    for name in _KEPT:
        value = member(add, (name,))
        if value is not None and value != "null":
            fields.append(f'"{name}":{value}')
    return f'{{"remove":{{{",".join(fields)}}}}}'


def without_deletion_time(action: str) -> str:
    """The action with nothing in it that depends on when it was made; an action of another kind is as it was.

    >>> action = remove_action('{"path":"a"}', data_change=True, deletion_timestamp=5)
    >>> without_deletion_time(action) == without_deletion_time(action.replace(":5", ":6"))
    True
    >>> without_deletion_time('{"add":{}}')
    '{"add":{}}'
    """
    return with_deletion_time(action, 0)


def with_deletion_time(action: str, deletion_timestamp: int) -> str:
    """The action as if it had been made at that time; an action of another kind is as it was.

    >>> with_deletion_time(remove_action('{"path":"a"}', data_change=True, deletion_timestamp=5), 77)[:45]
    '{"remove":{"path":"a","deletionTimestamp":77,'
    """
    return _TIME.sub(rf"\g<1>{deletion_timestamp}", action) if action.startswith('{"remove"') else action
