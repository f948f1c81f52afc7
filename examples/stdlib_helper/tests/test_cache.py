"""The cache of documents: damage is repaired, and a folder that cannot be written is no failure."""

from __future__ import annotations

import json
import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from stdlib_helper import cache
from stdlib_helper.documents import Document

FOUND = [Document("a.b", "function", "a", "", "(x)", "Does b.", "", "")]


class CacheTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.path = self.folder / "deep" / "documents.json"
        patch = mock.patch.object(cache, "read_library", return_value=FOUND)
        self.reading = patch.start()
        self.addCleanup(patch.stop)

    def test_the_library_is_read_once(self) -> None:
        self.assertEqual(cache.load_documents(self.path), FOUND)
        self.assertEqual(cache.load_documents(self.path), FOUND)
        self.assertEqual(self.reading.call_count, 1)
        self.assertEqual([file.name for file in self.path.parent.iterdir()], ["documents.json"])

    def test_a_damaged_file_is_rebuilt(self) -> None:
        self.path.parent.mkdir()
        for damage in (b"", b"[{", b"\xff\xfe", b'{"a": 1}', b'[{"name": "a.b"}]', b"3", b"[3]"):
            self.path.write_bytes(damage)
            self.assertEqual(cache.load_documents(self.path), FOUND, damage)
            self.assertEqual(json.loads(self.path.read_text())[0]["name"], "a.b")

    def test_a_folder_that_cannot_be_made_is_tolerated(self) -> None:
        blocking = self.folder / "file"
        blocking.write_text("not a folder")
        self.assertEqual(cache.load_documents(blocking / "documents.json"), FOUND)

    def test_a_read_only_folder_is_tolerated(self) -> None:
        with mock.patch.object(tempfile, "mkstemp", side_effect=PermissionError("read-only")):
            self.assertEqual(cache.load_documents(self.path), FOUND)
        self.assertFalse(self.path.exists())

    def test_a_write_that_fails_leaves_nothing_behind(self) -> None:
        with mock.patch.object(os, "replace", side_effect=OSError("no space left")):
            self.assertEqual(cache.load_documents(self.path), FOUND)
        self.assertEqual(list(self.path.parent.iterdir()), [])

    def test_the_folder_comes_from_the_environment(self) -> None:
        with mock.patch.dict(os.environ, {"STDLIB_HELPER_CACHE": str(self.folder)}):
            self.assertEqual(cache.cache_file().parent, self.folder)
