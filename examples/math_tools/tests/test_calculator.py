"""Tests that hold for any wording of the prompt. No model is called."""

import unittest

from calculator import value_of


class Calculator(unittest.TestCase):
    def test_arithmetic_has_a_value(self) -> None:
        self.assertEqual(value_of("(40 - 2) * 3 / 2"), 57)
        self.assertEqual(value_of(" -3 + 0.5 "), -2.5)

    def test_anything_else_is_refused(self) -> None:
        for text in (
            "",
            "2 **",
            "9 ** 9",
            "1 / 0",
            "__import__('os')",
            "x + 1",
            "True",
            "1+" * 150,
        ):
            with self.subTest(text), self.assertRaises(ValueError):
                value_of(text)


if __name__ == "__main__":
    unittest.main()
