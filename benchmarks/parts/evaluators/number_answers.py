"""Answers in prose whose number is known, each with numbers that it does not give.

Templates are filled with random numbers; the others are written by hand. A wrong number is one that
the text holds too, one that is a part of it, or the right one with a digit, a sign or a unit of
scale changed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class NumberAnswer:
    """An answer, its number, and wrong ones."""

    text: str
    number: float
    wrong: tuple[float, ...]
    decimal_comma: bool = False


# {x} is the answer; {a}, {b} are other numbers of the text.
TEMPLATES = (
    "The answer is {x}.",
    "The answer is {x}",
    "Answer: {x}",
    "**Answer:** {x}",
    "Final answer: {x}.",
    "### Final Answer\n{x}",
    "The final answer is **{x}**.",
    "So the total is {x} dollars.",
    "{a} + {b} = {x}",
    "Adding {a} and {b} gives {x}.",
    "We have {a} boxes with {b} items. In total, there are {x} items.",
    "First, {a} are taken. Then {b} more. Therefore, {x} are left.",
    "Step 1: start with {a}.\nStep 2: add {b}.\nStep 3: the result is {x}.",
    "1. There are {a} cats.\n2. There are {b} dogs.\n3. Together that makes {x} animals.",
    "<<{a}+{b}={x}>>{x} apples.\n#### {x}",
    "Thus $\\boxed{{{x}}}$.",
    "$$\\boxed{{x = {x}}}$$",
    "The sum of {a} and {b} is \\({x}\\).",
    "x = {x}",
    "Let x be the price. Then {a}x = {b}, so x = {x}.",
    "It costs ${x}.",
    "The price is €{x} per piece.",
    "You will need {x} tiles for the floor.",
    "{x}",
    "{x} km",
    "**{x}**",
    "Approximately {x} people attended.",
    "She has {x} marbles now, not {a}.",
    "The value is {x} (see table {b}).",
    "Based on the report from 2019, there were {x} cases.",
    "There were {x} cases in 2019.",
    "According to [1], the population is {x}.",
    "The population is {x} [2].",
    "The train needs {x} minutes for the trip.",
    "After {b} days, {x} remain.",
    "Of the {a} students, {x} passed.",
    "{x} out of {a} students passed.",
    "The average is {x}, rounded to 2 decimal places.",
    "My calculation: {a} * {b} = 777; 777 - 7 = {x}. The answer is {x}.",
    "The answer is {x}, because {a} and {b} were counted twice.",
    "The correct answer is {x}. Note that {a} would be wrong.",
    "It is {x}.",
    "I think it is around {x}.",
    "Result: {x}",
    "The result is {x} units, up from {a}.",
    "Output: `{x}`",
)

STYLES = ("{:d}", "{:,d}", "{:d}.0", "{:.2f}", "{:,.2f}")

# Text, its number, wrong ones.
WRITTEN: tuple[tuple[str, float, tuple[float, ...]], ...] = (
    ("about 3.5 million", 3_500_000, (3.5, 35_000_000, 3_500)),
    ("roughly 2 billion dollars", 2e9, (2, 2e6)),
    ("The city has 1.2M inhabitants.", 1_200_000, (1.2, 12_000_000)),
    ("Salaries start at $45k.", 45_000, (45, 4_500)),
    ("around 7 thousand", 7_000, (7, 70_000)),
    ("It weighs 12 kg.", 12, (12_000, 2)),
    ("The room is 5 m wide.", 5, (5_000_000,)),
    ("It takes 90 min.", 90, (90_000, 9)),
    ("1,234.50 EUR", 1234.5, (1234, 1.2345, 50)),
    ("USD 1,000,000", 1e6, (1, 1_000, 0)),
    ("12%", 12, (1.2, 2)),
    ("The share is 12.5 percent.", 12.5, (12, 5, 125)),
    ("3/4", 0.75, (3, 4, 34)),
    ("The probability is 1/6.", 1 / 6, (1, 6, 0.6)),
    ("You need 1 1/2 cups of flour.", 1.5, (1, 2, 0.5, 11)),
    ("2½ hours", 2.5, (2, 0.5)),
    ("½", 0.5, (1, 2)),
    ("two dozen", 24, (2, 12)),
    ("a dozen", 12, (1, 2)),
    ("half a dozen eggs", 6, (12, 0.5)),
    ("forty-two", 42, (40, 2)),
    ("Forty two.", 42, (40, 2)),
    ("seventeen", 17, (7, 70)),
    ("one hundred and five", 105, (100, 5, 1)),
    ("three hundred", 300, (3, 100)),
    ("two thousand and twelve", 2012, (2, 12, 2000)),
    ("one million two hundred thousand", 1_200_000, (1, 200_000)),
    ("minus five", -5, (5,)),
    ("negative twelve", -12, (12,)),
    ("three and a half", 3.5, (3, 0.5)),
    ("two thirds", 2 / 3, (2, 3)),
    ("three quarters of the class", 0.75, (3, 4)),
    ("zero", 0, (1,)),
    ("There are nineteen of them.", 19, (9, 90)),
    ("She is twenty-one years old.", 21, (20, 1)),
    ("-7", -7, (7,)),
    ("\u22127 degrees", -7, (7,)),
    ("The temperature fell to -12.5 °C.", -12.5, (12.5, 12, -12)),
    ("-$40", -40, (40,)),
    ("+15", 15, (-15, 5)),
    ("6.02e23", 6.02e23, (6.02, 23)),
    ("1.5e-3", 0.0015, (1.5, 3)),
    ("3 × 10^8 m/s", 3e8, (3, 10, 8)),
    ("4.2 x 10^3", 4200, (4.2, 3)),
    ("2 \\times 10^{5}", 2e5, (2, 5)),
    ("1\u202f500\u202f000", 1_500_000, (1, 500, 0)),
    ("12'500 Franken", 12_500, (12, 500)),
    ("1.234.567,89", 1_234_567.89, (89, 1.234)),
    ("25,00,000 rupees", 2_500_000, (25, 0)),
    ("Founded in 1998.", 1998, (98, 8)),
    ("It was in 2010", 2010, (10, 20)),
    ("18.00", 18, (1800, 0)),
    ("0.50", 0.5, (50, 5)),
    (".5", 0.5, (5,)),
    ("007", 7, (0,)),
    ("123456", 123456, (123457, 123450)),
    ("3.14159", 3.14159, (3.14, 3.1416)),
    ("\\frac{3}{8}", 0.375, (3, 8, 38)),
    ("Thus \\boxed{\\dfrac{1}{4}}.", 0.25, (1, 4)),
    ("\\boxed{1{,}024}", 1024, (1, 24)),
    ("The answer is \\(\\frac{5}{2}\\).", 2.5, (5, 2)),
    ("$x = -3$", -3, (3,)),
    ("The area is 24 cm^2.", 24, (2, 242)),
    ("The volume is 8 m³.", 8, (3, 83)),
    ("The angle is 45°.", 45, (4,)),
    ("The answer is 10 - 3 = 7.", 7, (10, 3, -3)),
    ("5 apples + 7 apples = 12 apples", 12, (5, 7)),
    ("12 (that is, 5 + 7)", 12, (5, 7)),
    ("The ratio simplifies, so the answer is 4 (four).", 4, (3,)),
    ("It's 42! I checked it 3 times.", 42, (3,)),
    ("Option B: 36", 36, (6,)),
    ("The score was 95 ± 2.", 95, (2, 97)),
    ("The mean was 3.2 (95% CI 2.8 to 3.6).", 3.2, (95, 2.8, 3.6)),
    ("He finished 2nd with 310 points.", 310, (2,)),
    ("On May 4, 2021, the shop sold 58 bikes.", 58, (4, 2021)),
    ("The meeting at 10:30 had 14 guests.", 14, (10, 30)),
    ("By 2030 emissions fall to 120 tonnes.", 120, (2030,)),
    ("Chapter 7 says there are 206 bones.", 206, (7,)),
    ("More than 300 people came.", 300, (3, 0)),
    ("Between the two, the larger is 81.", 81, (2,)),
    ("No fewer than 12 jurors.", 12, (2,)),
    ("each of the 4 friends gets 9 coins", 9, (4,)),
    ("Each friend gets 9 coins.", 9, (1,)),
    ("You can seat 6 people per table, so 8 tables are needed.", 8, (6,)),
    ("They need 8 tables for 48 people.", 8, (48,)),
    ("Jim earns 15 dollars for 3 hours of work.", 15, (3,)),
    ("It is 45, rather than 54.", 45, (54,)),
    ("The answer is not 12 but 13.", 13, (12,)),
    ("Hence there are 2 solutions in all: 3 and 5.", 2, (3, 5)),
    ("The answer is between 7 and 9, namely 8.", 8, (7, 9)),
    ("As an integer: 64", 64, (6, 4)),
    ("She spent $3 on tea and $4 on cake, which makes $7.", 7, (3, 4)),
    ("After subtracting, 17 apples are left from the 40.", 17, (40,)),
    ("Speed: 60 km/h", 60, (6,)),
    ("The GDP was 21.4 trillion dollars in 2019.", 21.4e12, (21.4, 2019)),
    ("It needs 16 GB of memory.", 16, (16e9, 6)),
    ("COVID-19 infected 4.5 million people there.", 4_500_000, (19, 4.5)),
    ("Boeing 747s: 12 of them", 12, (747,)),
    ("H2O boils at 100 °C", 100, (2,)),
    ("Yes, exactly 11.", 11, (1,)),
)

COMMAS: tuple[tuple[str, float, tuple[float, ...]], ...] = (
    ("Das macht 1.234,50 Euro.", 1234.5, (50, 1.234, 123450)),
    ("3,14", 3.14, (314, 14, 3)),
    ("Es sind 1.500 Menschen.", 1500, (1.5, 500)),
    ("12,5 %", 12.5, (125, 5)),
    ("Il y a 2\u202f500,75 euros", 2500.75, (75, 2500)),
    ("Gesamt: 7.000.000", 7_000_000, (7, 0)),
    ("-4,25", -4.25, (4.25, -425)),
    ("0,5", 0.5, (5,)),
)


def answers(seed: int, rounds: int) -> list[NumberAnswer]:
    """Answers by templates, `rounds` of each, and those written by hand."""
    rng = random.Random(seed)
    made = [NumberAnswer(text, number, wrong) for text, number, wrong in WRITTEN]
    made += [NumberAnswer(text, number, wrong, True) for text, number, wrong in COMMAS]
    for template in TEMPLATES:
        for _ in range(rounds):
            number = rng.choice(
                (rng.randrange(2, 100), rng.randrange(100, 10_000), rng.randrange(10**6))
            )
            # Other numbers are no part of the year, the table or the lists of the texts.
            a, b = rng.sample([n for n in range(101, 999) if n != number], 2)
            style = rng.choice(STYLES)
            shown = style.format(number)
            text = template.format(x=shown, a=a, b=b)
            held = {n for n, mark in ((a, "{a}"), (b, "{b}")) if mark in template}
            wrong = {number + 1, number - 1, -number, number * 10, number * 1_000, *held}
            digits = str(number)
            if len(digits) > 1:
                wrong |= {int(digits[1:]), int(digits[:-1]), int(digits[::-1])}
            made.append(NumberAnswer(text, number, tuple(sorted(wrong - {number}))))
    return made
