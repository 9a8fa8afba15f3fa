"""What is left of a URL that holds secrets, and that the look for them takes no longer than the URL is long."""

from __future__ import annotations

import time

import pytest

from geolake_nb.core.message_text import url_without_secrets
from tests.promises.canaries import leaks
from tests.promises.secret_urls import SECRET_URLS

SHOWN = {
    "": "",
    "s3://bucket/a b@2x.tif": "s3://bucket/a b@2x.tif",
    "s3://bucket/what?.tif": "s3://bucket/what?.tif",
    "https://host:8080/a@2x.tif": "https://host:8080/a@2x.tif",
    "https://[::1]:8080/a.tif": "https://[::1]:8080/a.tif",
    "file:///data/a%20b.tif": "file:///data/a%20b.tif",
    "C:/data/a.tif": "C:/data/a.tif",
    "https://host/a?": "https://host/a?...",
    "https://me:pw@host:8080/a%20b@2x.tif?sig=1": "https://host:8080/a%20b@2x.tif?...",
    "https://me:p@w@host/a.tif": "https://host/a.tif",
    "https://me:p/w@host/a.tif": "https://...",
    "https://me:p?w@host/a.tif": "https://...",
    "abfss://container@me.dfs.core.windows.net/a.tif?sig=1": "abfss://container@me.dfs.core.windows.net/a.tif?...",
    "abfss://me:pw@host/a.tif": "abfss://host/a.tif",
    "/vsicurl/https%3A%2F%2Fme%3Apw%40host%2Fa.tif%3Fsig%3D1": "/vsicurl/https://host/a.tif?...",
    "/vsicurl?url=https%3A%2F%2Fhost%2Fa.tif&header.Authorization=1": "/vsicurl?...",
}


@pytest.mark.parametrize("url", SHOWN)
def test_what_is_left_of_a_url(url):
    assert url_without_secrets(url) == SHOWN[url]
    assert url_without_secrets(SHOWN[url]) == SHOWN[url]


@pytest.mark.parametrize("url", SECRET_URLS)
def test_no_secret_is_left(url):
    assert leaks(url)
    assert leaks(url_without_secrets(url)) == []


@pytest.mark.parametrize(
    "part", ["http://", "a.", "://a:", "://a@", "?", "%25", "%", "@", ":1", "https://a:1?", "%3F", "#"]
)
def test_a_long_url_takes_no_time(part):
    began = time.process_time()
    url_without_secrets(part * (100_000 // len(part)))
    url_without_secrets("x://" + part * (100_000 // len(part)))
    assert time.process_time() - began < 1
