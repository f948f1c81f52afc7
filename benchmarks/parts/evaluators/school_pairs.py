"""Families of queries on a school's database, written when the evaluator was done.

Of its 115 pairs at that time none was wrong, and 4 had no score: those of "all courses".
"""

from __future__ import annotations

import random
import sqlite3

SCHEMA = """
CREATE TABLE teachers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, salary INTEGER, hired DATE);
CREATE TABLE courses (
    id INTEGER PRIMARY KEY, title TEXT NOT NULL, teacher_id INTEGER REFERENCES teachers (id),
    credits INTEGER NOT NULL
);
CREATE TABLE grades (
    student TEXT NOT NULL, course_id INTEGER NOT NULL REFERENCES courses (id), grade REAL,
    PRIMARY KEY (student, course_id)
);
"""

DAYS = ("2015-09-01", "2015-08-31", "2014-02-03", "2015-03-01", "2019-09-01")

FAMILIES: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (
        (
            "SELECT student, AVG(grade) FROM grades GROUP BY student HAVING AVG(grade) >= {k}",
            "SELECT student, a FROM (SELECT student, AVG(grade) AS a FROM grades GROUP BY student)"
            " WHERE a >= {k}",
            "SELECT student, SUM(grade) / COUNT(grade) FROM grades GROUP BY student"
            " HAVING NOT AVG(grade) < {k}",
        ),
        (
            "SELECT student, AVG(grade) FROM grades GROUP BY student HAVING AVG(grade) > {k}",
            "SELECT student, AVG(grade) FROM grades WHERE grade >= {k} GROUP BY student",
            "SELECT student, AVG(grade) FROM grades GROUP BY student HAVING MIN(grade) >= {k}",
            "SELECT student, SUM(grade) / COUNT(*) FROM grades GROUP BY student"
            " HAVING AVG(grade) >= {k}",
        ),
    ),
    (
        (
            "SELECT title FROM courses WHERE teacher_id IS NULL OR credits > {k}",
            "SELECT title FROM courses WHERE NOT (teacher_id IS NOT NULL AND credits <= {k})",
        ),
        (
            "SELECT title FROM courses WHERE teacher_id IS NULL AND credits > {k}",
            "SELECT title FROM courses WHERE credits > {k}",
            "SELECT title FROM courses WHERE teacher_id IS NULL OR credits >= {k}",
        ),
    ),
    (
        (
            "SELECT t.name, COUNT(c.id) FROM teachers t LEFT JOIN courses c ON c.teacher_id = t.id"
            " AND c.credits >= {k} GROUP BY t.id",
            "SELECT t.name, (SELECT COUNT(*) FROM courses c WHERE c.teacher_id = t.id"
            " AND c.credits >= {k}) FROM teachers t",
        ),
        (
            "SELECT t.name, COUNT(c.id) FROM teachers t LEFT JOIN courses c ON c.teacher_id = t.id"
            " WHERE c.credits >= {k} GROUP BY t.id",
            "SELECT t.name, COUNT(*) FROM teachers t LEFT JOIN courses c ON c.teacher_id = t.id"
            " AND c.credits >= {k} GROUP BY t.id",
            "SELECT t.name, COUNT(c.id) FROM teachers t LEFT JOIN courses c ON c.teacher_id = t.id"
            " AND c.credits > {k} GROUP BY t.id",
        ),
    ),
    (
        (
            "SELECT DISTINCT g.student FROM grades g JOIN courses c ON c.id = g.course_id"
            " WHERE c.credits = {k}",
            "SELECT student FROM grades WHERE course_id IN"
            " (SELECT id FROM courses WHERE credits = {k}) GROUP BY student",
        ),
        (
            "SELECT g.student FROM grades g JOIN courses c ON c.id = g.course_id"
            " WHERE c.credits = {k}",
            "SELECT DISTINCT g.student FROM grades g JOIN courses c ON c.id = g.course_id"
            " WHERE c.credits >= {k}",
            "SELECT DISTINCT g.student FROM grades g WHERE g.course_id = {k}",
        ),
    ),
    (
        (
            "SELECT student FROM grades GROUP BY student HAVING COUNT(*) ="
            " (SELECT COUNT(*) FROM courses)",
            "SELECT DISTINCT student FROM grades g WHERE NOT EXISTS (SELECT 1 FROM courses c"
            " WHERE NOT EXISTS (SELECT 1 FROM grades h WHERE h.student = g.student"
            " AND h.course_id = c.id))",
        ),
        (
            "SELECT student FROM grades GROUP BY student HAVING COUNT(grade) ="
            " (SELECT COUNT(*) FROM courses)",
            "SELECT student FROM grades GROUP BY student HAVING COUNT(*) > 1",
            "SELECT DISTINCT student FROM grades",
        ),
    ),
    (
        (
            "SELECT name FROM teachers ORDER BY salary DESC, id LIMIT 2 OFFSET 1",
            "SELECT name FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY salary DESC, id) AS n"
            " FROM teachers) WHERE n IN (2, 3) ORDER BY n",
        ),
        (
            "SELECT name FROM teachers ORDER BY salary DESC, id LIMIT 2",
            "SELECT name FROM teachers ORDER BY salary, id LIMIT 2 OFFSET 1",
            "SELECT name FROM teachers ORDER BY salary DESC, id LIMIT 1 OFFSET 2",
        ),
    ),
    (
        (
            "SELECT name FROM teachers WHERE hired < '2015-09-01' OR salary > {n}000",
            "SELECT name FROM teachers WHERE salary > {n}000 OR '2015-09-01' > hired",
            "SELECT name FROM teachers WHERE id IN (SELECT id FROM teachers"
            " WHERE hired < '2015-09-01' UNION SELECT id FROM teachers WHERE salary > {n}000)",
        ),
        (
            "SELECT name FROM teachers WHERE hired <= '2015-09-01' OR salary > {n}000",
            "SELECT name FROM teachers WHERE hired < '2015-09-01' AND salary > {n}000",
            "SELECT name FROM teachers WHERE hired < '2015-09-01' UNION ALL"
            " SELECT name FROM teachers WHERE salary > {n}000",
            "SELECT name FROM teachers WHERE strftime('%Y', hired) < '2015' OR salary > {n}000",
        ),
    ),
    (
        (
            "SELECT COALESCE(salary, 0) FROM teachers",
            "SELECT CASE WHEN salary IS NULL THEN 0 ELSE salary END FROM teachers",
            "SELECT IFNULL(salary, 0) FROM teachers",
        ),
        (
            "SELECT salary FROM teachers",
            "SELECT COALESCE(salary, 0) FROM teachers WHERE salary IS NOT NULL",
            "SELECT COALESCE(salary, 1) FROM teachers",
            "SELECT NULLIF(salary, 0) FROM teachers",
        ),
    ),
    (
        (
            "SELECT c.title, MAX(g.grade) - MIN(g.grade) FROM courses c JOIN grades g"
            " ON g.course_id = c.id GROUP BY c.id",
            "SELECT title, (SELECT MAX(grade) FROM grades WHERE course_id = c.id)"
            " - (SELECT MIN(grade) FROM grades WHERE course_id = c.id) FROM courses c"
            " WHERE EXISTS (SELECT * FROM grades WHERE course_id = c.id)",
        ),
        (
            "SELECT c.title, MIN(g.grade) - MAX(g.grade) FROM courses c JOIN grades g"
            " ON g.course_id = c.id GROUP BY c.id",
            "SELECT c.title, MAX(g.grade) - MIN(g.grade) FROM courses c LEFT JOIN grades g"
            " ON g.course_id = c.id GROUP BY c.id",
            "SELECT c.title, MAX(g.grade) - AVG(g.grade) FROM courses c JOIN grades g"
            " ON g.course_id = c.id GROUP BY c.id",
        ),
    ),
    (
        (
            "SELECT t.name FROM teachers t LEFT JOIN teachers u ON u.id <> t.id"
            " AND u.salary >= t.salary WHERE t.salary IS NOT NULL AND u.id IS NULL",
            "SELECT t.name FROM teachers t WHERE t.salary IS NOT NULL AND NOT EXISTS"
            " (SELECT 1 FROM teachers u WHERE u.id <> t.id AND u.salary >= t.salary)",
        ),
        (
            "SELECT name FROM teachers WHERE salary = (SELECT MAX(salary) FROM teachers)",
            "SELECT t.name FROM teachers t WHERE NOT EXISTS"
            " (SELECT 1 FROM teachers u WHERE u.id <> t.id AND u.salary > t.salary)",
        ),
    ),
)


def large_database(rng: random.Random, *, ties: bool) -> sqlite3.Connection:
    """A database of random rows; without ties no two teachers have the same salary."""
    connection = sqlite3.connect(":memory:")
    connection.executescript(SCHEMA)
    salaries = [rng.randrange(18, 64) * 1000 for _ in range(60)]
    if not ties:
        salaries = [n * 500 for n in rng.sample(range(30, 140), 60)]
    names = ("Kim", "Lee", "Max", "Noa", "kim")
    connection.executemany(
        "INSERT INTO teachers VALUES (?, ?, ?, ?)",
        [
            (n, rng.choice(names), None if ties and rng.random() < 0.15 else salary,
             rng.choice((None, *DAYS)))
            for n, salary in enumerate(salaries, start=1)
        ],
    )  # fmt: skip
    courses = rng.randrange(5, 12)
    connection.executemany(
        "INSERT INTO courses VALUES (?, ?, ?, ?)",
        [
            (n, rng.choice(("Art", "Music", "Latin", "art")),
             None if rng.random() < 0.2 else rng.randrange(1, 20), rng.randrange(1, 6))
            for n in range(1, courses)
        ],
    )  # fmt: skip
    connection.executemany(
        "INSERT OR IGNORE INTO grades VALUES (?, ?, ?)",
        [
            (student, course, None if rng.random() < 0.1 else rng.randrange(2, 12) / 2)
            for student in ("Ada", "Ben", "Cem", "Dan", "Eli", "Fay", "Gus")
            for course in range(1, courses - 1 if student > "D" else courses)
            if student < "C" or rng.random() < 0.7
        ],
    )
    return connection
