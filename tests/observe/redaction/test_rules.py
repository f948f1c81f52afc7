"""What each rule takes, and what looks like it and stays."""

from __future__ import annotations

import pytest

from ratchet.observe.redaction import Redactor

redactor = Redactor()


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("mail ann.b+c@mail.example.co.uk now", "mail [redacted:email] now"),
        ("mail <ann@example.com>, please", "mail <[redacted:email]>, please"),
        ("ann (at) example (dot) com", "[redacted:email]"),
        ("ann[at]example.com", "[redacted:email]"),
        ("jörg@bücher.example", "[redacted:email]"),
        ("call +1 (415) 555-2671!", "call [redacted:phone]!"),
        ("Tel.: 030/1234567", "Tel.: [redacted:phone]"),
        ("my mobile is 415 555 2671", "my mobile is [redacted:phone]"),
        ("href='tel:+4930123456'", "href='[redacted:phone]'"),
        ("4242 4242 4242 4242", "[redacted:card]"),
        ("row 12 4111-1111-1111-1111 34", "row 12 [redacted:card] 34"),
        ("3782 822463 10005", "[redacted:card]"),
        ("pages 17 18 19 4111 1111 1111 1111", "pages 17 18 19 [redacted:card]"),
        ("4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", "[redacted:card]"),
        ("4111\n1111\n1111\n1111", "[redacted:card]"),
        ("DE89370400440532013000", "[redacted:iban]"),
        ("gb82 west 1234 5698 7654 32.", "[redacted:iban]."),
        ("HN88 CABF 0000 0000 0002 5000 5469", "[redacted:iban]"),
        ("from 84.17.2.9 at noon", "from [redacted:ip] at noon"),
        ("http://84.17.2.9:8080/x", "http://[redacted:ip]:8080/x"),
        ("2001:db8:85a3::8a2e:370:7334", "[redacted:ip]"),
        ("fe80::1ff:fe23:4567:890a%eth0", "[redacted:ip]%eth0"),
        ("AKIA IOSF ODNN 7EXA MPLE", "[redacted:key]"),
        ("Authorization: Basic YW5uOnNlc2FtZQ==", "Authorization: [redacted:credentials]"),
        ("https://ann:pa%23ss@git.example/x", "https://[redacted:credentials]@git.example/x"),
        ("redis://:s3cret@cache:6379/0", "redis://[redacted:credentials]@cache:6379/0"),
        ("GET /x?sig=aB3dE5fG7hIj9kL1mN2&page=2", "GET /x?sig=[redacted:credentials]&page=2"),
        ("password=hunter2", "password=[redacted:assignment]"),
        ("PGPASSWORD=hunter2 psql", "PGPASSWORD=[redacted:assignment] psql"),
        ("dbPassword: 'sesame'", "dbPassword: '[redacted:assignment]'"),
        ('{"api_key": "abc-def', '{"api_key": "[redacted:assignment]'),
        ("- **Password:** `open!sesame`", "- **Password:** `[redacted:assignment]`"),
        ("the password is hunter2, right?", "the password is [redacted:assignment], right?"),
        ("Cookie: sid=31d4d96e407aad42; theme=dark", "Cookie: [redacted:assignment]"),
        ("pass the token: abc123def", "pass the token: [redacted:assignment]"),
    ],
)
def test_it_is_taken_out(text: str, left: str) -> None:
    found = redactor.text(text)
    # Of several rules that find the same, any may give it its name.
    assert found.replace("assignment", "credentials") == left.replace("assignment", "credentials")


@pytest.mark.parametrize(
    "text",
    [
        "@dataclass above a class, and @ann mentioned",
        "a @ b is a matrix product",
        "npm i @scope/package@1.2.3",
        "on 2026-05-02 10:30, 02.05.2026 and 5/2/2026 10:30:21",
        "order 4111111111111112 was shipped",  # no such check digit
        "order 1234567890123456, invoice 100200300",
        "between 1735689600 and 1767225600000000000",
        "DE89370400440532013001 is no account",
        "GB25123456789012345678 has digits where a British account names its bank",
        "version 1.2.3.4, v10.0.19041.1, firmware 2.4.6.8",
        "127.0.0.1, 0.0.0.0, ::1 and x[::2]",
        "at 10:30:21 and 00:11:22:33:44:55",
        "std::vector and Foo::Bar::baz",
        "550e8400-e29b-41d4-a716-446655440000",
        "d670460b4b4aece5915caf5c68d12f560a9fe3e4",
        "token = next_token(); password = getpass()",
        "max_tokens: 600, input_tokens=3, tokens: 12",
        "the secret: be kind",
        "api_key = os.environ['API_KEY']",
        "password: ********, token: <your token>, secret=${SECRET}, key={{key}}",
        "def f(password: str, token: str | None = None): ...",
        "basic understanding, bearer instruments",
        "the key is 42 and keyboard=qwerty7",
        "sk-learn, task-force-one, risk-adjusted-return-on-capital",
        "eyJ is how a JWT begins",
        "https://example.test/a@b/c?q=1",
        "5 + 5 = 10, +1 and -1, 3.14159265358979",
        "978-3-16-148410-0 is an ISBN",
        "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16",
        "",
    ],
)
def test_it_stays(text: str) -> None:
    assert redactor.text(text) == text


def test_long_words_that_are_text_in_base64_are_looked_into() -> None:
    assert redactor.text("x YW5uQGV4YW1wbGUuY29tIGlzIG1l y") == "x [redacted:email] y"
    assert redactor.text("aGVsbG8gd29ybGQsIGhvdyBhcmUgeW91") == "aGVsbG8gd29ybGQsIGhvdyBhcmUgeW91"


@pytest.mark.parametrize(
    "text",
    [
        "it is sk-proj-Ab3dEf… [40 more characters]",
        "card 4111 1111 11… [9 more characters]",
        "write to ann@exam… [1 more characters]",
        'x": "postgres://app:hunt… [5 more characters]',
    ],
)
def test_a_secret_that_was_cut_is_taken_out_as_far_as_it_is_there(text: str) -> None:
    left = redactor.text(text)
    assert "[redacted:" in left
    assert left.endswith("more characters]")
    assert not {"sk-proj-Ab3dEf", "4111 1111 11", "ann@exam", "hunt"} & set(left.split("…"))
    assert "hunt" not in left
    assert "1111" not in left


def test_a_date_before_a_cut_is_no_beginning_of_a_number() -> None:
    for text in ('{"date":"2024-05-25', "to DTW on 2024-05-20"):
        assert redactor.text(cut := f"{text}\n[... 44 characters left out ...]") == cut
