"""Tests that hold for any wording of the prompts. No model is called."""

import unittest

from library import PARAGRAPHS, best_titles


class Search(unittest.TestCase):
    def test_a_title_in_the_query_comes_first(self) -> None:
        for title in PARAGRAPHS:
            self.assertEqual(best_titles(f"What about {title}?", 1), [title])


if __name__ == "__main__":
    unittest.main()
