"""Pairs of SQL queries of which it is known whether they are equivalent.

A family is a question with several queries that answer it, written by hand, and others that do
not. Slots in braces are filled at random. That the answers of a family agree, and that the others
differ, is checked by running them on large databases of random rows, made here and unknown to the
evaluator; a wrong query that no database tells apart is dropped, and an answer that differs is an
error.

No query was written with a view to how the evaluator decides; the traps are those that are known of
other checkers: two empty results, DISTINCT, the words "order by" inside of a query, NULLs in NOT
IN, boundaries, ties, integer division, joins that multiply rows.
"""

from __future__ import annotations

import datetime
import random
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import school_pairs

SCHEMA = """
CREATE TABLE customers (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT, age INTEGER, joined DATE
);
CREATE TABLE products (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, category TEXT, price REAL NOT NULL
);
CREATE TABLE orders (
    id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers (id),
    status TEXT NOT NULL, placed DATE, total REAL
);
CREATE TABLE items (
    order_id INTEGER NOT NULL REFERENCES orders (id),
    product_id INTEGER NOT NULL REFERENCES products (id),
    quantity INTEGER NOT NULL, PRIMARY KEY (order_id, product_id)
);
"""

CITIES = ("Rome", "Oslo", "Lima", "Bonn", "rome")
STATUSES = ("open", "paid", "sent", "Paid")
CATEGORIES = ("book", "toy", "tool", "game")

# Each family: queries that answer its question, and queries that do not.
FAMILIES: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (
        (
            "SELECT name FROM customers WHERE age > {n}",
            "SELECT c.name FROM customers AS c WHERE NOT (c.age <= {n})",
            "SELECT name FROM customers WHERE {n} < age",
            "SELECT name FROM customers WHERE age >= {n} + 1",
            "SELECT name FROM (SELECT * FROM customers) WHERE age > {n}",
        ),
        (
            "SELECT name FROM customers WHERE age >= {n}",
            "SELECT name FROM customers WHERE age > {n} + 1",
            "SELECT name FROM customers WHERE age > {n} OR age IS NULL",
            "SELECT DISTINCT name FROM customers WHERE age > {n}",
            "SELECT name FROM customers WHERE age < {n}",
            "SELECT city FROM customers WHERE age > {n}",
        ),
    ),
    (
        (
            "SELECT COUNT(*) FROM customers WHERE city = '{city}'",
            "SELECT COUNT(city) FROM customers WHERE city = '{city}'",
            "SELECT SUM(CASE WHEN city = '{city}' THEN 1 ELSE 0 END) FROM customers"
            " HAVING COUNT(*) > 0 UNION ALL SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM customers)",
            "SELECT COUNT(1) FROM customers c WHERE c.city IN ('{city}')",
        ),
        (
            "SELECT COUNT(*) FROM customers WHERE lower(city) = lower('{city}')",
            "SELECT COUNT(*) FROM customers WHERE city LIKE '{city}'",
            "SELECT COUNT(*) FROM customers WHERE city <> '{city}'",
            "SELECT COUNT(DISTINCT name) FROM customers WHERE city = '{city}'",
            "SELECT COUNT(age) FROM customers WHERE city = '{city}'",
        ),
    ),
    (
        (
            "SELECT DISTINCT city FROM customers",
            "SELECT city FROM customers GROUP BY city",
            "SELECT city FROM customers UNION SELECT city FROM customers",
        ),
        (
            "SELECT city FROM customers",
            "SELECT DISTINCT city FROM customers WHERE city IS NOT NULL",
            "SELECT DISTINCT name FROM customers",
            "SELECT DISTINCT city, age FROM customers",
        ),
    ),
    (
        (
            "SELECT c.name, o.total FROM customers c JOIN orders o ON o.customer_id = c.id",
            "SELECT c.name, o.total FROM orders o, customers c WHERE o.customer_id = c.id",
            "SELECT (SELECT name FROM customers WHERE id = o.customer_id), o.total FROM orders o"
            " WHERE o.customer_id IS NOT NULL",
            "SELECT c.name, o.total FROM customers c LEFT JOIN orders o ON o.customer_id = c.id"
            " WHERE o.id IS NOT NULL",
        ),
        (
            "SELECT c.name, o.total FROM customers c LEFT JOIN orders o ON o.customer_id = c.id",
            "SELECT DISTINCT c.name, o.total FROM customers c JOIN orders o"
            " ON o.customer_id = c.id",
            "SELECT c.name, o.total FROM customers c JOIN orders o ON o.id = c.id",
            "SELECT o.total, c.name FROM customers c JOIN orders o ON o.customer_id = c.id",
            "SELECT c.name, o.total FROM customers c, orders o",
        ),
    ),
    (
        (
            "SELECT name FROM customers WHERE id IN (SELECT customer_id FROM orders)",
            "SELECT name FROM customers c WHERE EXISTS"
            " (SELECT 1 FROM orders o WHERE o.customer_id = c.id)",
            "SELECT c.name FROM customers c JOIN (SELECT DISTINCT customer_id FROM orders) o"
            " ON o.customer_id = c.id",
        ),
        (
            "SELECT c.name FROM customers c JOIN orders o ON o.customer_id = c.id",
            "SELECT DISTINCT c.name FROM customers c JOIN orders o ON o.customer_id = c.id",
            "SELECT name FROM customers WHERE id IN (SELECT id FROM orders)",
            "SELECT name FROM customers",
        ),
    ),
    (
        (
            "SELECT name FROM customers c WHERE NOT EXISTS"
            " (SELECT 1 FROM orders o WHERE o.customer_id = c.id)",
            "SELECT c.name FROM customers c LEFT JOIN orders o ON o.customer_id = c.id"
            " WHERE o.id IS NULL",
            "SELECT name FROM customers WHERE id NOT IN"
            " (SELECT customer_id FROM orders WHERE customer_id IS NOT NULL)",
        ),
        (
            "SELECT name FROM customers WHERE id NOT IN (SELECT customer_id FROM orders)",
            "SELECT c.name FROM customers c LEFT JOIN orders o ON o.customer_id = c.id"
            " WHERE o.total IS NULL",
            "SELECT name FROM customers c WHERE EXISTS"
            " (SELECT 1 FROM orders o WHERE o.customer_id = c.id)",
        ),
    ),
    (
        (
            "SELECT city, COUNT(*) FROM customers GROUP BY city HAVING COUNT(*) > {k}",
            "SELECT city, n FROM (SELECT city, COUNT(*) AS n FROM customers GROUP BY city)"
            " WHERE n > {k}",
            "SELECT city, COUNT(id) FROM customers GROUP BY city HAVING COUNT(id) >= {k} + 1",
        ),
        (
            "SELECT city, COUNT(*) FROM customers GROUP BY city HAVING COUNT(*) >= {k}",
            "SELECT city, COUNT(*) FROM customers GROUP BY city",
            "SELECT city, COUNT(city) FROM customers GROUP BY city HAVING COUNT(city) > {k}",
            "SELECT city, COUNT(DISTINCT age) FROM customers GROUP BY city HAVING COUNT(*) > {k}",
        ),
    ),
    (
        (
            "SELECT name FROM products ORDER BY price DESC LIMIT {k}",
            "SELECT p.name FROM products p ORDER BY -p.price LIMIT {k}",
            "SELECT name FROM (SELECT name, price FROM products) ORDER BY price DESC LIMIT {k}",
        ),
        (
            "SELECT name FROM products ORDER BY price LIMIT {k}",
            "SELECT name FROM products ORDER BY price DESC LIMIT {k} + 1",
            "SELECT name FROM products ORDER BY name LIMIT {k}",
            "SELECT name FROM products ORDER BY price DESC",
            "SELECT name FROM products ORDER BY price DESC LIMIT {k} OFFSET 1",
        ),
    ),
    (
        (
            "SELECT name FROM customers ORDER BY age",
            "SELECT name FROM customers ORDER BY age ASC",
            "SELECT c.name FROM customers c ORDER BY c.age, c.id",
        ),
        (
            "SELECT name FROM customers",
            "SELECT name FROM customers ORDER BY age DESC",
            "SELECT name FROM (SELECT name FROM customers ORDER BY age) ORDER BY name",
            "SELECT name FROM customers ORDER BY name",
        ),
    ),
    (
        (
            "SELECT name FROM customers WHERE city = 'order by'",
            "SELECT name FROM customers WHERE 'order by' = city",
        ),
        (
            "SELECT name FROM customers WHERE city = 'Order By'",
            "SELECT name FROM customers WHERE city LIKE '%order%'",
        ),
    ),
    (
        (
            "SELECT MAX(price) FROM products WHERE category = '{category}'",
            "SELECT price FROM (SELECT MAX(price) AS price FROM products"
            " WHERE category = '{category}')",
            "SELECT (SELECT price FROM products WHERE category = '{category}'"
            " ORDER BY price DESC LIMIT 1)",
        ),
        (
            "SELECT MIN(price) FROM products WHERE category = '{category}'",
            "SELECT price FROM products WHERE category = '{category}'"
            " AND price = (SELECT MAX(price) FROM products WHERE category = '{category}')",
            "SELECT MAX(price) FROM products",
            "SELECT AVG(price) FROM products WHERE category = '{category}'",
            "SELECT COALESCE(MAX(price), 0) FROM products WHERE category = '{category}'",
        ),
    ),
    (
        (
            "SELECT AVG(total) FROM orders",
            "SELECT SUM(total) / COUNT(total) FROM orders",
            "SELECT AVG(total) FROM orders WHERE total IS NOT NULL",
        ),
        (
            "SELECT SUM(total) / COUNT(*) FROM orders",
            "SELECT AVG(COALESCE(total, 0)) FROM orders",
            "SELECT AVG(DISTINCT total) FROM orders",
            "SELECT ROUND(AVG(total)) FROM orders",
        ),
    ),
    (
        (
            "SELECT id FROM orders WHERE placed BETWEEN '{d1}' AND '{d2}'",
            "SELECT id FROM orders WHERE placed >= '{d1}' AND placed <= '{d2}'",
            "SELECT id FROM orders WHERE NOT (placed < '{d1}' OR placed > '{d2}')",
        ),
        (
            "SELECT id FROM orders WHERE placed > '{d1}' AND placed <= '{d2}'",
            "SELECT id FROM orders WHERE placed >= '{d1}' AND placed < '{d2}'",
            "SELECT id FROM orders WHERE placed NOT BETWEEN '{d1}' AND '{d2}'",
            "SELECT id FROM orders WHERE placed >= '{d1}' OR placed <= '{d2}'",
        ),
    ),
    (
        (
            "SELECT id FROM orders WHERE status = 'open' OR status = 'paid'",
            "SELECT id FROM orders WHERE status IN ('paid', 'open')",
            "SELECT id FROM orders WHERE status = 'open' UNION ALL"
            " SELECT id FROM orders WHERE status = 'paid'",
            "SELECT id FROM orders WHERE NOT (status <> 'open' AND status <> 'paid')",
        ),
        (
            "SELECT id FROM orders WHERE status IN ('paid', 'open', 'sent')",
            "SELECT id FROM orders WHERE status = 'open'",
            "SELECT id FROM orders WHERE lower(status) IN ('paid', 'open')",
            "SELECT id FROM orders WHERE status NOT IN ('paid', 'open')",
            "SELECT id FROM orders WHERE status = 'open' AND status = 'paid'",
        ),
    ),
    (
        (
            "SELECT id FROM orders WHERE status <> '{status}'",
            "SELECT id FROM orders WHERE NOT status = '{status}'",
            "SELECT id FROM orders EXCEPT SELECT id FROM orders WHERE status = '{status}'",
            "SELECT id FROM orders WHERE status < '{status}' OR status > '{status}'",
        ),
        (
            "SELECT id FROM orders WHERE status = '{status}'",
            "SELECT id FROM orders WHERE status > '{status}'",
            "SELECT status FROM orders WHERE status <> '{status}'",
        ),
    ),
    (
        (
            "SELECT name FROM customers WHERE city IS NULL",
            "SELECT name FROM customers WHERE NOT city IS NOT NULL",
            "SELECT name FROM customers WHERE (city IS NOT NULL) = 0",
        ),
        (
            "SELECT name FROM customers WHERE city = NULL OR city = ''",
            "SELECT name FROM customers WHERE city IS NOT NULL",
            "SELECT name FROM customers WHERE city IS NULL OR age IS NULL",
        ),
    ),
    (
        (
            "SELECT c.city, SUM(o.total) FROM customers c JOIN orders o ON o.customer_id = c.id"
            " GROUP BY c.city",
            "SELECT city, SUM(total) FROM (SELECT c.city AS city, o.total AS total FROM orders o"
            " JOIN customers c ON c.id = o.customer_id) GROUP BY city",
            "WITH joined AS (SELECT c.city, o.total FROM customers c, orders o"
            " WHERE c.id = o.customer_id) SELECT city, SUM(total) FROM joined GROUP BY city",
        ),
        (
            "SELECT c.city, SUM(o.total) FROM customers c LEFT JOIN orders o"
            " ON o.customer_id = c.id GROUP BY c.city",
            "SELECT c.city, SUM(DISTINCT o.total) FROM customers c JOIN orders o"
            " ON o.customer_id = c.id GROUP BY c.city",
            "SELECT c.city, AVG(o.total) FROM customers c JOIN orders o ON o.customer_id = c.id"
            " GROUP BY c.city",
            "SELECT c.name, SUM(o.total) FROM customers c JOIN orders o ON o.customer_id = c.id"
            " GROUP BY c.id",
            "SELECT c.city, SUM(o.total) FROM customers c JOIN orders o ON o.customer_id = c.id"
            " JOIN items i ON i.order_id = o.id GROUP BY c.city",
        ),
    ),
    (
        (
            "SELECT c.name FROM customers c JOIN orders o ON o.customer_id = c.id"
            " GROUP BY c.id, c.name HAVING SUM(o.total) > {n}",
            "SELECT name FROM customers c WHERE (SELECT SUM(total) FROM orders"
            " WHERE customer_id = c.id) > {n}",
            "SELECT c.name FROM customers c JOIN (SELECT customer_id, SUM(total) AS s FROM orders"
            " GROUP BY customer_id) o ON o.customer_id = c.id WHERE o.s > {n}",
        ),
        (
            "SELECT c.name FROM customers c JOIN orders o ON o.customer_id = c.id"
            " GROUP BY c.name HAVING SUM(o.total) > {n}",
            "SELECT c.name FROM customers c JOIN orders o ON o.customer_id = c.id"
            " GROUP BY c.id, c.name HAVING SUM(o.total) >= {n}",
            "SELECT c.name FROM customers c JOIN orders o ON o.customer_id = c.id"
            " WHERE o.total > {n} GROUP BY c.id, c.name",
            "SELECT c.name FROM customers c JOIN orders o ON o.customer_id = c.id"
            " GROUP BY c.id, c.name HAVING MAX(o.total) > {n}",
        ),
    ),
    (
        (
            "SELECT strftime('%Y', placed), COUNT(*) FROM orders WHERE placed IS NOT NULL"
            " GROUP BY strftime('%Y', placed)",
            "SELECT substr(placed, 1, 4), COUNT(*) FROM orders WHERE placed IS NOT NULL"
            " GROUP BY substr(placed, 1, 4)",
            "SELECT y, COUNT(*) FROM (SELECT substr(placed, 1, 4) AS y FROM orders)"
            " WHERE y IS NOT NULL GROUP BY y",
        ),
        (
            "SELECT strftime('%m', placed), COUNT(*) FROM orders WHERE placed IS NOT NULL"
            " GROUP BY strftime('%m', placed)",
            "SELECT strftime('%Y', placed), COUNT(*) FROM orders GROUP BY strftime('%Y', placed)",
            "SELECT strftime('%Y', placed), COUNT(DISTINCT customer_id) FROM orders"
            " WHERE placed IS NOT NULL GROUP BY strftime('%Y', placed)",
        ),
    ),
    (
        (
            "SELECT COUNT(*) FROM orders WHERE strftime('%Y', placed) = '2021'",
            "SELECT COUNT(*) FROM orders WHERE placed >= '2021-01-01' AND placed < '2022-01-01'",
            "SELECT COUNT(*) FROM orders WHERE placed LIKE '2021-%'",
        ),
        (
            "SELECT COUNT(*) FROM orders WHERE strftime('%Y', placed) = '2022'",
            "SELECT COUNT(*) FROM orders WHERE placed > '2021-01-01' AND placed < '2022-01-01'",
            "SELECT COUNT(*) FROM orders WHERE strftime('%Y', placed) >= '2021'",
            "SELECT COUNT(customer_id) FROM orders WHERE placed LIKE '2021-%'",
        ),
    ),
    (
        (
            "SELECT name FROM products WHERE name LIKE 'a%'",
            "SELECT name FROM products WHERE lower(substr(name, 1, 1)) = 'a'",
            "SELECT name FROM products WHERE upper(name) LIKE 'A%'",
        ),
        (
            "SELECT name FROM products WHERE name LIKE '%a%'",
            "SELECT name FROM products WHERE name LIKE '%a'",
            "SELECT name FROM products WHERE substr(name, 1, 1) = 'a'",
            "SELECT name FROM products WHERE name NOT LIKE 'a%'",
            "SELECT name FROM products WHERE name LIKE 'a_%'",
        ),
    ),
    (
        (
            "SELECT p.name, SUM(i.quantity) FROM products p JOIN items i ON i.product_id = p.id"
            " GROUP BY p.id",
            "SELECT p.name, q FROM products p JOIN (SELECT product_id, SUM(quantity) AS q"
            " FROM items GROUP BY product_id) x ON x.product_id = p.id",
            "SELECT p.name, (SELECT SUM(quantity) FROM items WHERE product_id = p.id)"
            " FROM products p WHERE p.id IN (SELECT product_id FROM items)",
        ),
        (
            "SELECT p.name, SUM(i.quantity) FROM products p JOIN items i ON i.product_id = p.id"
            " GROUP BY p.name",
            "SELECT p.name, COUNT(i.quantity) FROM products p JOIN items i ON i.product_id = p.id"
            " GROUP BY p.id",
            "SELECT p.name, SUM(i.quantity) FROM products p LEFT JOIN items i"
            " ON i.product_id = p.id GROUP BY p.id",
        ),
    ),
    (
        (
            "SELECT o.id, SUM(i.quantity * p.price) FROM orders o JOIN items i ON i.order_id = o.id"
            " JOIN products p ON p.id = i.product_id GROUP BY o.id",
            "SELECT i.order_id, SUM(p.price * i.quantity) FROM items i JOIN products p"
            " ON i.product_id = p.id GROUP BY i.order_id",
        ),
        (
            "SELECT o.id, SUM(p.price) FROM orders o JOIN items i ON i.order_id = o.id"
            " JOIN products p ON p.id = i.product_id GROUP BY o.id",
            "SELECT o.id, SUM(i.quantity) * SUM(p.price) FROM orders o JOIN items i"
            " ON i.order_id = o.id JOIN products p ON p.id = i.product_id GROUP BY o.id",
            "SELECT o.id, SUM(i.quantity * p.price) FROM orders o LEFT JOIN items i"
            " ON i.order_id = o.id LEFT JOIN products p ON p.id = i.product_id GROUP BY o.id",
        ),
    ),
    (
        (
            "SELECT name FROM customers UNION SELECT name FROM products",
            "SELECT DISTINCT name FROM (SELECT name FROM customers UNION ALL"
            " SELECT name FROM products)",
            "SELECT name FROM products UNION SELECT name FROM customers",
        ),
        (
            "SELECT name FROM customers UNION ALL SELECT name FROM products",
            "SELECT name FROM customers INTERSECT SELECT name FROM products",
            "SELECT name FROM customers EXCEPT SELECT name FROM products",
            "SELECT DISTINCT name FROM customers",
        ),
    ),
    (
        (
            "SELECT age / 10 FROM customers WHERE age IS NOT NULL",
            "SELECT (age - age % 10) / 10 FROM customers WHERE age IS NOT NULL",
            "SELECT CAST(age / 10.0 AS INTEGER) FROM customers WHERE NOT age IS NULL",
        ),
        (
            "SELECT age / 10.0 FROM customers WHERE age IS NOT NULL",
            "SELECT ROUND(age / 10.0) FROM customers WHERE age IS NOT NULL",
            "SELECT age / 10 FROM customers",
            "SELECT age % 10 FROM customers WHERE age IS NOT NULL",
        ),
    ),
    (
        (
            "SELECT COUNT(DISTINCT customer_id) FROM orders",
            "SELECT COUNT(*) FROM (SELECT DISTINCT customer_id FROM orders"
            " WHERE customer_id IS NOT NULL)",
            "SELECT COUNT(*) FROM customers WHERE id IN (SELECT customer_id FROM orders)",
        ),
        (
            "SELECT COUNT(customer_id) FROM orders",
            "SELECT COUNT(*) FROM (SELECT DISTINCT customer_id FROM orders)",
            "SELECT COUNT(*) FROM customers",
        ),
    ),
    (
        (
            "SELECT name, CASE WHEN age >= {n} THEN 'old' ELSE 'young' END FROM customers",
            "SELECT name, CASE WHEN age < {n} OR age IS NULL THEN 'young' ELSE 'old' END"
            " FROM customers",
            "SELECT name, IIF(age >= {n}, 'old', 'young') FROM customers",
        ),
        (
            "SELECT name, CASE WHEN age < {n} THEN 'young' ELSE 'old' END FROM customers",
            "SELECT name, CASE WHEN age > {n} THEN 'old' ELSE 'young' END FROM customers",
            "SELECT name, CASE WHEN age >= {n} THEN 'old' END FROM customers",
        ),
    ),
    (
        (
            "SELECT a.name, b.name FROM customers a JOIN customers b ON a.city = b.city"
            " AND a.id < b.id",
            "SELECT a.name, b.name FROM customers a, customers b WHERE a.city = b.city"
            " AND b.id > a.id",
        ),
        (
            "SELECT a.name, b.name FROM customers a JOIN customers b ON a.city = b.city"
            " AND a.id <> b.id",
            "SELECT a.name, b.name FROM customers a JOIN customers b ON a.city = b.city"
            " AND a.id <= b.id",
            "SELECT a.name, b.name FROM customers a JOIN customers b ON a.city = b.city",
        ),
    ),
    (
        (
            "SELECT name FROM customers WHERE age > (SELECT AVG(age) FROM customers)",
            "WITH mean AS (SELECT AVG(age) AS m FROM customers)"
            " SELECT name FROM customers, mean WHERE age > m",
            "SELECT c.name FROM customers c JOIN (SELECT AVG(age) AS m FROM customers) x"
            " ON c.age > x.m",
        ),
        (
            "SELECT name FROM customers WHERE age >= (SELECT AVG(age) FROM customers)",
            "SELECT name FROM customers c WHERE age > (SELECT AVG(age) FROM customers d"
            " WHERE d.city = c.city)",
            "SELECT name FROM customers WHERE age < (SELECT AVG(age) FROM customers)",
            "SELECT name FROM customers WHERE age > (SELECT MIN(age) FROM customers)",
        ),
    ),
    (
        (
            "SELECT name FROM products p WHERE price = (SELECT MAX(price) FROM products q"
            " WHERE q.category = p.category)",
            "SELECT name FROM products p WHERE category IS NOT NULL AND NOT EXISTS"
            " (SELECT 1 FROM products q WHERE q.category = p.category AND q.price > p.price)",
            "SELECT p.name FROM products p JOIN (SELECT category, MAX(price) AS m FROM products"
            " GROUP BY category) x ON x.category = p.category AND x.m = p.price",
        ),
        (
            "SELECT name FROM products WHERE price = (SELECT MAX(price) FROM products)",
            "SELECT name FROM products p WHERE price IN (SELECT MAX(price) FROM products"
            " GROUP BY category)",
            "SELECT name FROM products p WHERE NOT EXISTS (SELECT 1 FROM products q"
            " WHERE q.category = p.category AND q.price > p.price)",
            "SELECT name FROM products p WHERE price = (SELECT MIN(price) FROM products q"
            " WHERE q.category = p.category)",
        ),
    ),
    (
        (
            "SELECT city FROM customers GROUP BY city ORDER BY COUNT(*) DESC, city LIMIT 1",
            "SELECT city FROM (SELECT city, COUNT(*) AS n FROM customers GROUP BY city)"
            " ORDER BY n DESC, city LIMIT 1",
        ),
        (
            "SELECT city FROM customers GROUP BY city ORDER BY COUNT(*), city LIMIT 1",
            "SELECT city FROM customers GROUP BY city ORDER BY COUNT(city) DESC, city LIMIT 1",
            "SELECT city FROM customers WHERE city IS NOT NULL GROUP BY city"
            " ORDER BY COUNT(*) DESC, city LIMIT 1",
            "SELECT city FROM customers GROUP BY city ORDER BY COUNT(*) DESC, city LIMIT 2",
        ),
    ),
    (
        (
            "SELECT total * 2 FROM orders WHERE total * 2 > {n}",
            "SELECT total + total FROM orders WHERE total > {n} / 2.0",
            "SELECT 2 * total FROM orders WHERE {n} < 2 * total",
        ),
        (
            "SELECT total * 2 FROM orders WHERE total > {n}",
            "SELECT total * 2 FROM orders WHERE total * 2 >= {n}",
            "SELECT total FROM orders WHERE total * 2 > {n}",
        ),
    ),
    (
        (
            "SELECT name FROM customers WHERE city = '{city}' AND age > {n}",
            "SELECT name FROM customers WHERE age > {n} AND city = '{city}'",
            "SELECT name FROM customers WHERE city = '{city}' INTERSECT"
            " SELECT name FROM customers WHERE 1 = 0 UNION ALL"
            " SELECT name FROM customers WHERE city = '{city}' AND age > {n}",
            "SELECT x.name FROM (SELECT * FROM customers WHERE city = '{city}') x"
            " WHERE x.age > {n}",
        ),
        (
            "SELECT name FROM customers WHERE city = '{city}' OR age > {n}",
            "SELECT name FROM customers WHERE city = '{city}'",
            "SELECT name FROM customers WHERE age > {n}",
            "SELECT name FROM customers WHERE city = '{city}' AND NOT age > {n}",
        ),
    ),
    (
        (
            "SELECT name FROM customers WHERE (city = '{city}' OR age > {n})"
            " AND joined IS NOT NULL",
            "SELECT name FROM customers WHERE city = '{city}' AND joined IS NOT NULL"
            " OR age > {n} AND joined IS NOT NULL",
        ),
        (
            "SELECT name FROM customers WHERE city = '{city}' OR age > {n} AND joined IS NOT NULL",
            "SELECT name FROM customers WHERE (city = '{city}' AND age > {n})"
            " AND joined IS NOT NULL",
        ),
    ),
    (
        (
            "SELECT COUNT(*), MIN(age), MAX(age) FROM customers",
            "SELECT (SELECT COUNT(*) FROM customers), (SELECT MIN(age) FROM customers),"
            " (SELECT MAX(age) FROM customers)",
        ),
        (
            "SELECT COUNT(age), MIN(age), MAX(age) FROM customers",
            "SELECT COUNT(*), MAX(age), MIN(age) FROM customers",
            "SELECT COUNT(*), MIN(age), AVG(age) FROM customers",
        ),
    ),
    (
        (
            "SELECT c.name, COUNT(o.id) FROM customers c LEFT JOIN orders o"
            " ON o.customer_id = c.id GROUP BY c.id, c.name",
            "SELECT c.name, (SELECT COUNT(*) FROM orders o WHERE o.customer_id = c.id)"
            " FROM customers c",
        ),
        (
            "SELECT c.name, COUNT(*) FROM customers c LEFT JOIN orders o"
            " ON o.customer_id = c.id GROUP BY c.id, c.name",
            "SELECT c.name, COUNT(o.id) FROM customers c JOIN orders o ON o.customer_id = c.id"
            " GROUP BY c.id, c.name",
            "SELECT c.name, COUNT(o.total) FROM customers c LEFT JOIN orders o"
            " ON o.customer_id = c.id GROUP BY c.id, c.name",
        ),
    ),
    (
        (
            "SELECT c.name, o.total FROM customers c LEFT JOIN orders o ON o.customer_id = c.id"
            " AND o.status = '{status}'",
            "SELECT c.name, o.total FROM customers c LEFT JOIN (SELECT * FROM orders"
            " WHERE status = '{status}') o ON o.customer_id = c.id",
        ),
        (
            "SELECT c.name, o.total FROM customers c LEFT JOIN orders o ON o.customer_id = c.id"
            " WHERE o.status = '{status}'",
            "SELECT c.name, o.total FROM customers c JOIN orders o ON o.customer_id = c.id"
            " AND o.status = '{status}'",
            "SELECT c.name, o.total FROM customers c LEFT JOIN orders o ON o.customer_id = c.id",
        ),
    ),
    (
        (
            "SELECT name FROM customers ORDER BY age IS NULL, age, name, id",
            "SELECT name FROM customers ORDER BY CASE WHEN age IS NULL THEN 1 ELSE 0 END, age,"
            " name, id",
        ),
        (
            "SELECT name FROM customers ORDER BY age, name, id",
            "SELECT name FROM customers ORDER BY age IS NULL, age DESC, name, id",
        ),
    ),
    (
        (
            "SELECT id, RANK() OVER (ORDER BY price DESC) FROM products",
            "SELECT p.id, 1 + (SELECT COUNT(*) FROM products q WHERE q.price > p.price)"
            " FROM products p",
        ),
        (
            "SELECT id, DENSE_RANK() OVER (ORDER BY price DESC) FROM products",
            "SELECT id, ROW_NUMBER() OVER (ORDER BY price DESC) FROM products",
            "SELECT id, RANK() OVER (ORDER BY price) FROM products",
        ),
    ),
)

EMPTY: tuple[tuple[str, str], ...] = (
    ("SELECT name FROM customers WHERE 1 = 0", "SELECT city FROM customers WHERE 1 = 0"),
    (
        "SELECT name FROM customers WHERE age > 5 AND age < 5",
        "SELECT name FROM customers WHERE age > 9 AND age < 9",
    ),
    (
        "SELECT id FROM orders WHERE status IS NULL",
        "SELECT id FROM orders WHERE status IS NULL AND total > 3",
    ),
    (
        "SELECT COUNT(*) FROM orders WHERE id <> id",
        "SELECT COUNT(*) FROM customers WHERE id <> id",
    ),
    (
        "SELECT SUM(total) FROM orders WHERE total <> total",
        "SELECT MAX(total) FROM orders WHERE total <> total",
    ),
    (
        "SELECT p.name FROM products p WHERE p.name IS NULL",
        "SELECT p.category FROM products p WHERE p.name IS NULL",
    ),
)
"""Different queries whose results are empty on every database that the schema allows."""


@dataclass(frozen=True)
class SqlPair:
    """An expected query, another one, and whether they are equivalent."""

    expected: str
    given: str
    equal: bool
    schema: str


@dataclass(frozen=True)
class Databases:
    """The databases that say which queries are equivalent."""

    usual: list[sqlite3.Connection]
    without_ties: list[sqlite3.Connection]
    """For queries that order their result: no two rows have the same age or price."""


def pairs(seed: int, rounds: int) -> list[SqlPair]:
    """The verified pairs; each family gives several per round.

    Raises:
        AssertionError: Two answers of a family differ, so the family is wrong.
    """
    rng = random.Random(seed)
    made: dict[tuple[str, str], SqlPair] = {}
    worlds = (
        (SCHEMA, FAMILIES, large_database),
        (school_pairs.SCHEMA, school_pairs.FAMILIES, school_pairs.large_database),
    )
    for _ in range(rounds):
        for schema, families, filled in worlds:
            databases = Databases(
                [filled(rng, ties=True) for _ in range(3)],
                [filled(rng, ties=False) for _ in range(3)],
            )
            for answers, others in families:
                slots = _slots(rng)
                same = [query.format(**slots) for query in answers]
                wrong = [query.format(**slots) for query in others]
                for one, other in _chosen(rng, same):
                    assert not _differ(databases, one, other), (one, other)
                    made[one, other] = SqlPair(one, other, True, schema)
                for query in wrong:
                    expected = rng.choice(same)
                    if _differ(databases, expected, query):
                        made[expected, query] = SqlPair(expected, query, False, schema)
            for connection in (*databases.usual, *databases.without_ties):
                connection.close()
    return list(made.values())


def _chosen(rng: random.Random, same: Sequence[str]) -> Iterator[tuple[str, str]]:
    """As many pairs of answers as there are answers, each answer expected once."""
    for at, one in enumerate(same):
        others = [query for number, query in enumerate(same) if number != at]
        yield one, rng.choice(others)


def _slots(rng: random.Random) -> dict[str, Any]:
    first = datetime.date(2020, 1, 1) + datetime.timedelta(days=rng.randrange(600))
    return {
        "n": rng.randrange(20, 60),
        "k": rng.randrange(1, 5),
        "city": rng.choice(CITIES[:4]),
        "status": rng.choice(STATUSES[:3]),
        "category": rng.choice(CATEGORIES),
        "d1": first.isoformat(),
        "d2": (first + datetime.timedelta(days=rng.randrange(20, 300))).isoformat(),
    }


def large_database(rng: random.Random, *, ties: bool) -> sqlite3.Connection:
    """A database of some hundred random rows a table."""
    connection = sqlite3.connect(":memory:")
    connection.executescript(SCHEMA)
    names = ["Ann", "Bob", "ann", "Cid", "Dora", "apple", "ball", "Anvil", "a", "saw", "Eve"]

    def maybe(value: Any, share: float = 0.1) -> Any:
        return None if rng.random() < share else value

    def day() -> str:
        return (datetime.date(2020, 1, 1) + datetime.timedelta(days=rng.randrange(900))).isoformat()

    ages = [rng.randrange(18, 65) if ties else age for age in rng.sample(range(18, 200), 150)]
    prices = [rng.randrange(1, 40) / 2 if ties else n / 2 for n in rng.sample(range(1, 99), 50)]
    cities = [*CITIES, "order by", "Order By", ""]
    size = rng.randrange(60, 150)
    connection.executemany(
        "INSERT INTO customers VALUES (?, ?, ?, ?, ?)",
        [
            (n, rng.choice(names), maybe(rng.choice(cities)), maybe(ages[n], 0.1 if ties else 0.0),
             maybe(day()))
            for n in range(1, size)
        ],
    )  # fmt: skip
    connection.executemany(
        "INSERT INTO products VALUES (?, ?, ?, ?)",
        [(n, rng.choice(names), maybe(rng.choice(CATEGORIES)), prices[n]) for n in range(1, 50)],
    )
    connection.executemany(
        "INSERT INTO orders VALUES (?, ?, ?, ?, ?)",
        [
            (n, maybe(rng.randrange(1, size)), rng.choice(STATUSES), maybe(day()),
             maybe(rng.randrange(2, 130) / 2))
            for n in range(1, rng.randrange(150, 400))
        ],
    )  # fmt: skip
    connection.executemany(
        "INSERT OR IGNORE INTO items VALUES (?, ?, ?)",
        [(rng.randrange(1, 140), rng.randrange(1, 45), rng.randrange(1, 6)) for _ in range(500)],
    )
    return connection


def _differ(databases: Databases, one: str, other: str) -> bool:
    ordered = "ORDER BY" in one.rpartition(")")[2]
    return any(
        not _same(connection, one, other, ordered)
        for connection in (databases.without_ties if ordered else databases.usual)
    )


def _same(connection: sqlite3.Connection, one: str, other: str, ordered: bool) -> bool:
    left, right = (
        [tuple(round(v, 6) if isinstance(v, float) else v for v in row) for row in found]
        for found in (connection.execute(query).fetchall() for query in (one, other))
    )
    return left == right if ordered else Counter(left) == Counter(right)
