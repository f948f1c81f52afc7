"""The documents: people's names for things, each once, nothing private."""

from __future__ import annotations

import re
import unittest

from stdlib_helper.documents import Document, exists, read_library


class DocumentsTest(unittest.TestCase):
    found: list[Document]
    by_name: dict[str, Document]

    @classmethod
    def setUpClass(cls) -> None:
        cls.found = read_library()
        cls.by_name = {document.name: document for document in cls.found}

    def test_things_have_the_name_that_people_import(self) -> None:
        public = (
            "os.path.join",
            "collections.Counter",
            "sorted",
            "json.JSONDecoder",
            "asyncio.TaskGroup",
            "concurrent.futures.ThreadPoolExecutor",
            "weakref.ref",
        )
        self.assertEqual([name for name in public if name not in self.by_name], [])
        others = ("posixpath.join", "builtins.sorted", "json.decoder.JSONDecoder", "io.open")
        self.assertEqual([name for name in others if name in self.by_name], [])

    def test_each_object_is_there_once_under_a_public_name(self) -> None:
        self.assertEqual(len(self.by_name), len(self.found))
        for name in self.by_name:
            self.assertFalse([part for part in name.split(".") if part.startswith("_")], name)

    def test_each_name_imports(self) -> None:
        self.assertEqual([name for name in self.by_name if not exists(name)][:5], [])

    def test_they_are_sorted_and_hold_no_memory_addresses(self) -> None:
        names = [document.name for document in self.found]
        unsorted = [pair for pair in zip(names, names[1:], strict=False) if pair[0] >= pair[1]]
        self.assertEqual(unsorted[:5], [])
        address = re.compile(" at 0x[0-9a-f]{6}")
        addressed = [
            document.name
            for document in self.found
            if address.search(document.signature + document.details)
        ]
        self.assertEqual(addressed[:5], [])

    def test_reading_twice_gives_the_same(self) -> None:
        again = read_library()
        self.assertEqual(len(again), len(self.found))
        pairs = zip(again, self.found, strict=True)
        self.assertEqual([new.name for new, old in pairs if new != old][:5], [])

    def test_a_document_holds_what_the_library_says(self) -> None:
        counter = self.by_name["collections.Counter"]
        self.assertEqual((counter.kind, counter.module), ("class", "collections"))
        self.assertIn("most_common", counter.members)
        self.assertIn("Counting", counter.summary.title())
        self.assertIn("path", self.by_name["os.path.exists"].signature)

    def test_signatures_at_the_head_of_a_docstring_are_not_its_summary(self) -> None:
        self.assertTrue(self.by_name["range"].signature.startswith("range("))
        self.assertTrue(self.by_name["range"].summary.startswith("Return an object"))

    def test_an_exception_is_told_from_a_class(self) -> None:
        self.assertEqual(self.by_name["json.JSONDecodeError"].kind, "exception")

    def test_a_name_that_is_not_there_does_not_exist(self) -> None:
        self.assertFalse(exists("os.path.nothing"))
        self.assertFalse(exists("nothing.at_all"))
        self.assertTrue(exists("len"))
