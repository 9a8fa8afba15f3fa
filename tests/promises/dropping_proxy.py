"""A proxy that loses the commit of a table, or one of the requests that a change without a commit consists of."""

from __future__ import annotations

import contextlib
import itertools
import re
from typing import TYPE_CHECKING

from tests.http_proxy import Fate, proxy_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.http_proxy import Exchange, Proxy

# Delta: the next entry of the log. Havasu: the next metadata file. Iceberg, REST: the update of a table.
_COMMIT = re.compile(
    r"PUT .*/_delta_log/[0-9]{20}\.json|PUT .*/metadata/v[0-9]+\.metadata\.json|POST .*/namespaces/[^/]+/tables/[^/]+"
)


class DroppingProxy:
    """The running proxy; commits pass until `losing` says otherwise."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self.url = proxy.url

    @contextlib.contextmanager
    def losing(self, fate: Fate, *, count: int | None = None) -> Iterator[None]:
        """What becomes of the first commits, of all of them by default, that are sent within the block."""
        left = [fate] * count if count is not None else None

        def rule(method: str, path: str) -> Fate:
            if not _COMMIT.fullmatch(f"{method} {path}"):
                return Fate.PASSES
            if left is None:
                return fate
            return left.pop() if left else Fate.PASSES

        with self._ruled(rule):
            yield

    @contextlib.contextmanager
    def losing_change(self, number: int, fate: Fate) -> Iterator[None]:
        """What becomes of the nth request within the block that writes, copies or removes, the first being 1."""
        changes = itertools.count(1)

        def rule(method: str, path: str) -> Fate:
            return fate if _is_change(method, path) and next(changes) == number else Fate.PASSES

        with self._ruled(rule):
            yield

    @contextlib.contextmanager
    def _ruled(self, rule: Callable[[str, str], Fate]) -> Iterator[None]:
        before = self._proxy.rule
        self._proxy.rule = rule
        try:
            yield
        finally:
            self._proxy.rule = before

    @property
    def changes(self) -> list[Exchange]:
        """The writes, copies and removals that clients have requested so far, except files that probe the store."""
        return [exchange for exchange in self._proxy.seen if _is_change(exchange.method, exchange.path)]

    @property
    def commits(self) -> list[Exchange]:
        """The commits that clients have sent so far."""
        return [exchange for exchange in self._proxy.seen if _COMMIT.fullmatch(f"{exchange.method} {exchange.path}")]

    @property
    def removals(self) -> list[str]:
        """The removals that clients have requested so far, except files that probe the store."""
        return [exchange.path for exchange in self.changes if exchange.method != "PUT"]


def _is_change(method: str, path: str) -> bool:
    is_removal = method == "DELETE" or (method == "POST" and "?delete" in path)
    return (is_removal or method == "PUT") and not path.endswith(".probe")


@contextlib.contextmanager
def dropping_proxy(target: str) -> Iterator[DroppingProxy]:
    """A proxy to the server at a URL, as long as the block lasts."""
    with proxy_to(target) as proxy:
        yield DroppingProxy(proxy)
