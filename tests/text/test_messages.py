"""What is left of a URL that holds secrets, and that the look for them takes no longer than the URL is long."""

from __future__ import annotations

import json
import time

import pytest

from geolake_nb.text.messages import url_without_secrets, value_without_secrets, without_secrets
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
    "part", ["a", "http://", "a.", "://a:", "://a@", "?", "%25", "%", "@", ":1", "https://a:1?", "%3F", "#", "\\"]
)
def test_a_long_text_takes_no_time(part):
    began = time.process_time()
    for text in (part * (100_000 // len(part)), "x://" + part * (100_000 // len(part))):
        url_without_secrets(text)
        without_secrets(text)
    assert time.process_time() - began < 1


SECRET = "wJalr XUtn/7MD"
VALUES = [
    {"fs.s3a.secret.key": SECRET},
    {"operationParameters": {"properties": json.dumps({"my.api_key": SECRET, "pwd": SECRET})}},
    {"predicate": json.dumps([json.dumps({"fs.gs.auth.service.account.private.key": SECRET})])},
    [{"authorization": f"Bearer {SECRET}"}, {"auth": SECRET}, {"passphrase": SECRET}],
]


@pytest.mark.parametrize("value", VALUES, ids=["plain", "JSON", "JSON in JSON", "lists"])
def test_nothing_is_shown_under_the_name_of_a_secret(value):
    assert "wJalr" in str(value)
    assert not {word for word in ("wJalr", "XUtn") if word in str(value_without_secrets(value))}


@pytest.mark.parametrize(
    "text",
    [
        "AccountName=x;AccountKey=wJalrXUtn",
        "jdbc:postgresql://u:wJalrXUtn@h/db",
        '{"secret": "wJalrXUtn"',  # cut off, so that it is not JSON
        '{\\"secret\\": \\"wJalrXUtn\\"',
    ],
)
def test_no_secret_is_left_in_a_text(text):
    assert "wJalr" not in value_without_secrets(text)


def test_what_is_no_secret_is_shown_as_it_is():
    stored = {
        "operation": "WRITE",
        "rows": 3,
        "ratio": 0.5,
        "path": "s3://bucket/a=1/b.parquet",
        "none": None,
        "on": True,
    }
    assert value_without_secrets(stored) == stored
