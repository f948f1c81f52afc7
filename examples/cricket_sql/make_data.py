"""Writes cricket.sqlite and tasks.jsonl, the same for the same seed: `python make_data.py`.

Players and matches are invented. Each kind of question is a function that draws a question, in one
of several wordings, with the query that answers it. No query is asked for twice.
"""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
SEED = 39
COUNTRIES = (
    "Australia",
    "Bangladesh",
    "England",
    "India",
    "Ireland",
    "New Zealand",
    "Pakistan",
    "South Africa",
    "Sri Lanka",
    "West Indies",
)
FIRST = (
    "Adil Arun Ben Callum Chamara Dale Dinesh Ewan Faisal Gavin Harsha Imran Jason Kamal Kieran"
    " Lahiru Liam Marlon Nasir Oliver Pradeep Quinton Rohan Shaun Tariq Umesh Vikram Wayne Yasir"
).split()
LAST = (
    "Abbott Ali Bailey Barua Chand Clarke Dhawal Duminy Edwards Fernando Gomes Hoque Joshi Khan"
    " Lamb Malik Mendis Morton Nair Osborne Perera Qadir Rao Shah Silva Taylor Umar Walsh Young"
).split()
FORMATS = ("ODI", "T20", "Test")
RUNS = {"ODI": "odi_runs", "T20": "t20_runs", "Test": "test_runs"}

Question = tuple[str, str]
"""A question in words, and its query."""


def main() -> None:
    """Write both files."""
    luck = random.Random(SEED)
    path = HERE / "cricket.sqlite"
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as database:
        fill(database, luck)
        tasks = make_tasks(database, luck)
    database.close()
    text = "".join(json.dumps(task) + "\n" for task in tasks)
    (HERE / "tasks.jsonl").write_text(text, encoding="utf-8")


def fill(database: sqlite3.Connection, luck: random.Random) -> None:
    """Write the tables."""
    database.executescript((HERE / "schema.sql").read_text(encoding="utf-8"))
    names = luck.sample([f"{first} {last}" for first in FIRST for last in LAST], 140)
    for name in names:
        debut = luck.randint(1996, 2019)
        seasons = min(2020 - debut, luck.randint(2, 16))
        database.execute(
            "INSERT INTO top_batsmen VALUES (?, ?, ?, ?, ?, ?)",
            (
                name,
                luck.choice(COUNTRIES),
                seasons * luck.randint(150, 700) + luck.randint(0, 99),
                seasons * luck.randint(20, 180) + luck.randint(0, 99),
                seasons * luck.randint(100, 750) + luck.randint(0, 99),
                debut,
            ),
        )
    for _ in range(360):
        home, away = luck.sample(COUNTRIES, 2)
        database.execute(
            "INSERT INTO matches (year, format, home, away, winner, top_scorer, top_score)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                luck.randint(2008, 2020),
                luck.choice(FORMATS),
                home,
                away,
                luck.choice((home, home, away, away, None)),
                luck.choice(names),
                luck.randint(38, 210),
            ),
        )


def make_tasks(database: sqlite3.Connection, luck: random.Random) -> list[dict[str, str]]:
    """Questions of each kind whose queries differ and return something."""
    names = [name for (name,) in database.execute("SELECT player_name FROM top_batsmen")]
    made: list[dict[str, str]] = []
    seen: set[str] = set()
    for kind, count in KINDS.items():
        wanted = len(made) + count
        while len(made) < wanted:
            question, query = kind(luck, luck.choice(names))
            if {query, question} & seen or not settled(database, query):
                continue
            seen |= {query, question}
            made.append({"input": question, "expected": query, "kind": kind.__name__})
    luck.shuffle(made)
    return [{"id": f"cricket-{number:03d}", **task} for number, task in enumerate(made, 1)]


def settled(database: sqlite3.Connection, query: str) -> bool:
    """Whether a query returns more than a 0, and no tie decides what its LIMIT cuts off."""
    whole, _, limit = query.partition(" LIMIT ")
    rows = database.execute(whole).fetchall()
    if not any(value for row in rows for value in row):
        return False
    figures = [row[-1] for row in rows][: int(limit) + 1] if limit else []
    return not limit or len(set(figures)) == int(limit) + 1


# Easy ones: a filter, a count.


def about_one_player(luck: random.Random, name: str) -> Question:
    """A value of one player."""
    column, words = luck.choice(
        (
            ("country_name", ("Which country does {} play for?", "What is {}'s country?")),
            ("odi_runs", ("How many ODI runs has {} scored?", "What are {}'s ODI runs?")),
            ("t20_runs", ("How many T20 runs has {} scored?", "What are {}'s T20 runs?")),
            ("test_runs", ("How many Test runs has {} scored?", "What are {}'s Test runs?")),
            ("odi_debut_year", ("In which year was {}'s ODI debut?", "When did {} debut?")),
        )
    )
    query = f"SELECT {column} FROM top_batsmen WHERE player_name = '{name}'"
    return luck.choice(words).format(name), query


def batsmen_where(luck: random.Random, _: str) -> Question:
    """The names of batsmen that meet a condition."""
    match, runs = luck.choice(FORMATS), luck.randrange(1000, 6000, 250)
    country, year = luck.choice(COUNTRIES), luck.randint(1997, 2018)
    words, condition = luck.choice(
        (
            (f"from {country}", f"country_name = '{country}'"),
            (f"who debuted in {year}", f"odi_debut_year = {year}"),
            (f"with more than {runs} {match} runs", f"{RUNS[match]} > {runs}"),
            (
                f"from {country} who debuted after {year}",
                f"country_name = '{country}' AND odi_debut_year > {year}",
            ),
            (
                f"from {country} with more than {runs} {match} runs",
                f"country_name = '{country}' AND {RUNS[match]} > {runs}",
            ),
        )
    )
    start = luck.choice(("List the names of all batsmen", "Name the batsmen", "Names of batsmen"))
    return f"{start} {words}.", f"SELECT player_name FROM top_batsmen WHERE {condition}"


def how_many(luck: random.Random, _: str) -> Question:
    """A count."""
    match, year, country = luck.choice(FORMATS), luck.randint(2008, 2020), luck.choice(COUNTRIES)
    words, query = luck.choice(
        (
            (f"{match} matches were played in {year}", f"format = '{match}' AND year = {year}"),
            (f"matches did {country} win in {year}", f"winner = '{country}' AND year = {year}"),
            (f"{match} matches did {country} win", f"winner = '{country}' AND format = '{match}'"),
        )
    )
    return f"How many {words}?", f"SELECT COUNT(*) FROM matches WHERE {query}"


# Hard ones: aggregation and HAVING, in the style of the house, which the agent has to learn.
# 1. What was ranked or counted to find a player or a country is shown behind it.
# 2. An average is rounded to a whole number.
# 3. A newcomer is a batsman who debuted after 2012.


def country_with_most(luck: random.Random, _: str) -> Question:
    """The country with the most of something, and how many."""
    words, condition = some_batsmen(luck)
    start = luck.choice(("Which country has the most", "What country has most"))
    query = (
        f"SELECT country_name, COUNT(*) FROM top_batsmen WHERE {condition}"
        " GROUP BY country_name ORDER BY COUNT(*) DESC LIMIT 1"
    )
    return f"{start} {words}?", query


def countries_having(luck: random.Random, _: str) -> Question:
    """The countries that have enough of something, and how many."""
    few = luck.randint(2, 9)
    words, condition = some_batsmen(luck)
    start = luck.choice(("Which countries have more than", "What countries have over"))
    query = (
        f"SELECT country_name, COUNT(*) FROM top_batsmen WHERE {condition}"
        f" GROUP BY country_name HAVING COUNT(*) > {few}"
    )
    return f"{start} {few} {words}?", query


def some_batsmen(luck: random.Random) -> tuple[str, str]:
    """Batsmen in words, and the condition that they meet."""
    match, runs, year = (
        luck.choice(FORMATS),
        luck.randrange(500, 6000, 250),
        luck.randint(1998, 2016),
    )
    return luck.choice(
        (
            (f"debutants after {year}", f"odi_debut_year > {year}"),
            (f"debutants before {year}", f"odi_debut_year < {year}"),
            (f"batsmen with over {runs} {match} runs", f"{RUNS[match]} > {runs}"),
            (f"batsmen with under {runs} {match} runs", f"{RUNS[match]} < {runs}"),
        )
    )


def top_players(luck: random.Random, _: str) -> Question:
    """The batsmen with the most runs, and how many."""
    match, top, country = luck.choice(FORMATS), luck.randint(2, 8), luck.choice(COUNTRIES)
    words, condition = luck.choice(
        ((f" from {country}", f" WHERE country_name = '{country}'"), ("", ""))
    )
    start = luck.choice(("Who are the top {} {} scorers{}?", "Who are the best {} {} batsmen{}?"))
    query = (
        f"SELECT player_name, {RUNS[match]} FROM top_batsmen{condition}"
        f" ORDER BY {RUNS[match]} DESC LIMIT {top}"
    )
    return start.format(top, match, words), query


def average(luck: random.Random, _: str) -> Question:
    """An average, which is a whole number."""
    match, country, year = luck.choice(FORMATS), luck.choice(COUNTRIES), luck.randint(1998, 2016)
    words, condition = luck.choice(
        (
            (f"batsmen from {country}", f"country_name = '{country}'"),
            (f"batsmen who debuted after {year}", f"odi_debut_year > {year}"),
            (f"batsmen who debuted before {year}", f"odi_debut_year < {year}"),
        )
    )
    start = luck.choice(("What is the average of the {} runs of {}?", "Average {} runs of {}?"))
    query = f"SELECT ROUND(AVG({RUNS[match]})) FROM top_batsmen WHERE {condition}"
    return start.format(match, words), query


def newcomers(luck: random.Random, _: str) -> Question:
    """Newcomers, by name or number."""
    match, runs = luck.choice(FORMATS), luck.randrange(250, 4000, 250)
    country = luck.choice(COUNTRIES)
    start, column = luck.choice(
        (("How many newcomers", "COUNT(*)"), ("List the names of all newcomers", "player_name"))
    )
    words, condition = luck.choice(
        (
            (f"from {country}", f"country_name = '{country}'"),
            (f"with over {runs} {match} runs", f"{RUNS[match]} > {runs}"),
        )
    )
    end = "are there?" if column == "COUNT(*)" else "."
    query = f"SELECT {column} FROM top_batsmen WHERE odi_debut_year > 2012 AND {condition}"
    return f"{start} {words} {end}".replace(" .", "."), query


KINDS: dict[Callable[[random.Random, str], Question], int] = {
    about_one_player: 60,
    batsmen_where: 60,
    how_many: 40,
    country_with_most: 70,
    countries_having: 70,
    top_players: 50,
    average: 40,
    newcomers: 10,
}
"""How many questions there are of each kind."""


if __name__ == "__main__":
    main()
