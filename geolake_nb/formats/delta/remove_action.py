"""The `remove` action of a file, built from its `add`."""

from __future__ import annotations

import re

from geolake_nb.text.json_splice import member

__all__ = ["remove_action", "with_deletion_time", "without_deletion_time"]

# Delta, Remove file: the fields that extendedFileMetadata requires, then those that identify the file.
_KEPT = ("partitionValues", "size", "tags", "deletionVector", "baseRowId", "defaultRowCommitVersion")
_TIME = re.compile(r'^(\{"remove":\{"path":"(?:[^"\\]|\\.)*","deletionTimestamp":)\d+')


def remove_action(add: str, *, data_change: bool, deletion_timestamp: int) -> str:
    """The action that removes a file; `add` is the JSON of the object inside its `add` action, as in the log.

    `deletion_timestamp` is in milliseconds; VACUUM counts its retention from there.

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
    """The action without anything that depends on when it was built; an action of another kind is unchanged.

    >>> action = remove_action('{"path":"a"}', data_change=True, deletion_timestamp=5)
    >>> without_deletion_time(action) == without_deletion_time(action.replace(":5", ":6"))
    True
    >>> without_deletion_time('{"add":{}}')
    '{"add":{}}'
    """
    return with_deletion_time(action, 0)


def with_deletion_time(action: str, deletion_timestamp: int) -> str:
    """The action with that deletion time; an action of another kind is unchanged.

    >>> with_deletion_time(remove_action('{"path":"a"}', data_change=True, deletion_timestamp=5), 77)[:45]
    '{"remove":{"path":"a","deletionTimestamp":77,'
    """
    return _TIME.sub(rf"\g<1>{deletion_timestamp}", action) if action.startswith('{"remove"') else action
