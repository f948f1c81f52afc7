"""Which texts of the source are reported as prompts, by what reached the model."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from ratchet.wire.deriving.prompts import sent_prompts
from ratchet.wire.recording.model_calls import texts_of_request
from ratchet.wire.recording.recording import Frame, ModelText
from tests.wire.test_declarations import recording

SYSTEM = (
    "You decide which agent runs next. Here are the agents:\n{agents}\n"
    "Here is the state:\n{state}\nHand over now."
)
AGENTS = "Stock Lookup Agent: Looks up stock prices and symbols"


def prompts(
    root: Path,
    files: dict[str, str],
    *calls: list[tuple[str, str]],
    ran: str = "",
    read: tuple[str, ...] = (),
    inputs: tuple[str, ...] = (),
    embedded: str = "",
) -> list[str]:
    """The prompts as `FILE:LINE`, of calls whose texts are given with their roles."""
    for name, text in files.items():
        (root / name).write_text(text)
    recorded = recording(root)
    (call,) = recorded.calls
    frame = Frame(file=ran, module="main", line=1, function="main", kind="function", activation=1)
    sent = tuple(
        msgspec.structs.replace(
            call,
            number=number,
            stack=(frame,) if ran else (),
            texts=tuple(ModelText(role=role, text=text) for role, text in texts),
        )
        for number, texts in enumerate(calls)
    )
    if embedded:
        texts = (ModelText(role="user", text=embedded),)
        sent += (msgspec.structs.replace(call, path="/v1/embeddings", texts=texts),)
    recorded = msgspec.structs.replace(recorded, calls=sent, data_files_read=read)
    found, _ = sent_prompts(root, files, recorded, inputs)
    return [f"{prompt.path}:{prompt.line}" for prompt in found]


def test_names_and_descriptions_put_into_a_prompt_are_none(tmp_path: Path) -> None:
    source = (
        f"SYSTEM = {SYSTEM!r}\n"
        'AGENTS = [dict(name="Stock Lookup Agent", about="Looks up stock prices and symbols")]\n'
        'OTHER = f"Here is the state:\\n{state}"\n'
    )
    sent = SYSTEM.format(agents=AGENTS, state="{}")
    assert prompts(tmp_path, {"main.py": source}, [("system", sent)]) == ["main.py:1"]


def test_long_descriptions_from_several_files_that_fill_one_slot_are_none(tmp_path: Path) -> None:
    told = "Answers what people ask about {}. Its input is a question, and its output one sentence."
    about = [told.format(subject) for subject in ("tides", "trains", "bread")]
    files = {f"tool{number}.py": f"ABOUT = {text!r}\n" for number, text in enumerate(about)}
    files["main.py"] = f"SYSTEM = {SYSTEM!r}\n"
    sent = SYSTEM.format(agents="\n".join(about), state="{}")
    assert prompts(tmp_path, files, [("system", sent)]) == ["main.py:1"]


def test_a_text_of_the_user_is_a_prompt_where_the_input_is_the_system_message(
    tmp_path: Path,
) -> None:
    files = {"main.py": 'ROLE = "You are a careful assistant of a small bakery."\n'}
    user = ("user", "You are a careful assistant of a small bakery.")
    asked = ("system", "calculate 12 * 34")
    assert prompts(tmp_path, files, [asked, user], inputs=("calculate 12 * 34",)) == ["main.py:1"]
    assert prompts(tmp_path, files, [asked, user]) == []


def test_a_prompt_put_into_another_one_is_one_too(tmp_path: Path) -> None:
    rules = (
        "Never promise a date of delivery, and never name a price that the shop has not confirmed."
    )
    source = f"SYSTEM = {SYSTEM!r}\nRULES = {rules!r}\n"
    sent = SYSTEM.format(agents=rules, state="{}")
    assert prompts(tmp_path, {"main.py": source}, [("system", sent)]) == ["main.py:1", "main.py:2"]


def test_a_label_of_the_input_is_none_beside_a_prompt_but_one_alone(tmp_path: Path) -> None:
    source = 'SYSTEM = "You plan research for a small team."\nINPUT = "Original query: {query}"\n'
    files = {"main.py": source}
    user = ("user", "Original query: tea in Fiji")
    system = ("system", "You plan research for a small team.")
    assert prompts(tmp_path, files, [system, user]) == ["main.py:1"]
    assert prompts(tmp_path, files, [user]) == ["main.py:2"]


def test_a_role_of_one_word_counts_beside_its_goal_alone_and_a_name_in_the_code_does_not(
    tmp_path: Path,
) -> None:
    agents = (
        'agent(\n    name="DeskWriter",\n    role="Writer",\n'
        '    goal="Write reports that managers read to the end",\n)\n'
    )
    files = {"agents.py": agents, "other.py": 'TITLE = "Writer"\n'}
    sent = "You are DeskWriter, Writer.\nYour goal is: Write reports that managers read to the end"
    assert prompts(tmp_path, files, [("system", sent)]) == ["agents.py:3", "agents.py:4"]


def test_two_words_on_a_field_beside_a_prompt_count_and_a_key_of_the_code_does_not(
    tmp_path: Path,
) -> None:
    source = (
        "class Judge(Signature):\n"
        '    """Judge how useful an answer is, and return one number."""\n'
        '    usefulScore = Field(desc="score 1-10", key="usefulScore")\n'
    )
    sent = (
        "1. `usefulScore` (int): score 1-10\nJudge how useful an answer is, and return one number."
    )
    assert prompts(tmp_path, {"judge.py": source}, [("system", sent)]) == [
        "judge.py:2",
        "judge.py:3",
    ]


def test_a_document_that_was_embedded_is_no_prompt(tmp_path: Path) -> None:
    document = "The bakery opens at seven, and bakes rye bread on Mondays."
    files = {"main.py": f"SYSTEM = {SYSTEM!r}\n", "docs.txt": document}
    texts = [("system", SYSTEM.format(agents="none", state="{}")), ("user", f"{document}\nWhen?")]
    assert prompts(tmp_path, files, texts) == ["docs.txt:1", "main.py:1"]
    assert prompts(tmp_path, files, texts, embedded=document) == ["main.py:1"]


def test_a_script_without_an_ending_is_read_in_the_language_of_its_first_line(
    tmp_path: Path,
) -> None:
    text = "You are a concise assistant for people at a terminal."
    script = f"#!/usr/bin/env bash\n\nprompt=$(cat <<EOF\n{text}\nEOF\n)\n"
    python = f"#!/usr/bin/env -S uv run --script\nPROMPT = {text!r}\n"
    files = {"llm": script, "ask": python}
    assert prompts(tmp_path, files, [("system", text)]) == ["ask:2", "llm:4"]


def test_a_prompt_put_together_from_lines_is_one_and_the_data_in_it_none(tmp_path: Path) -> None:
    source = (
        "def system(model):\n"
        "    lines = [\n"
        '        "You translate questions of the sales team into SQL over the columns below.",\n'
        '        "Write one SELECT, and never use a star.",\n'
        "    ]\n"
        '    lines += ["COLUMNS, to group and filter by:"]\n'
        "    for column in model:\n"
        '        lines.append("- " + column)\n'
        '    lines.append("RULES: rank with ORDER BY and LIMIT, and round to whole euros.")\n'
    )
    columns = [
        "The company's sales goals, planned for each store and day by the people who run it",
        "One row for each product and transaction, online or in one of the stores of a market",
        "Which of the markets a store belongs to, as it stood when the transaction was made",
    ]
    data = "".join(f"- description: {column}\n" for column in columns)
    sent = "\n".join(
        [
            "You translate questions of the sales team into SQL over the columns below.",
            "Write one SELECT, and never use a star.",
            "COLUMNS, to group and filter by:",
            *(f"- {column}" for column in columns),
            "RULES: rank with ORDER BY and LIMIT, and round to whole euros.",
        ]
    )
    files = {"planner.py": source, "model.yml": data}
    assert prompts(tmp_path, files, [("system", sent)]) == ["planner.py:3"]


def test_of_copies_the_one_in_the_file_that_called_the_model_counts(tmp_path: Path) -> None:
    source = 'SYSTEM = "You answer for the shop, and say so where you do not know."\n'
    files = {"main.py": source, "main_of_others.py": source}
    sent = [("system", "You answer for the shop, and say so where you do not know.")]
    assert prompts(tmp_path, files, sent) == ["main.py:1", "main_of_others.py:1"]
    assert prompts(tmp_path, files, sent, ran="main.py") == ["main.py:1"]
    files["system.md"] = sent[0][1]
    read = ("system.md",)
    assert prompts(tmp_path, files, sent, ran="main.py", read=read) == ["system.md:1"]


def test_fields_of_records_in_a_data_file_and_descriptions_in_a_schema_are_none(
    tmp_path: Path,
) -> None:
    queries = [
        "SELECT store, total FROM sales WHERE day >= last(30, 'day') GROUP BY store",
        "SELECT month, total FROM sales WHERE day >= last(3, 'month') GROUP BY month",
        "SELECT item, total FROM sales GROUP BY item HAVING total > 1000 ORDER BY total",
    ]
    about = "Whether the findings are complete enough to end the research loop now"
    source = (
        "from pydantic import BaseModel, Field\n"
        f"class Answer(BaseModel):\n    done: bool = Field(description={about!r})\n"
        'SYSTEM = f"You write SQL over one table of sales.\\nAnswer in JSON: {Answer.schema()}"\n'
    )
    data = "examples:\n" + "".join(f"  - question: Which?\n    sql: {query}\n" for query in queries)
    sent = (
        "You write SQL over one table of sales.\n"
        f"Answer in JSON: {{'done': {{'description': '{about}', 'type': 'boolean'}}}}\n"
        + "\n".join(f"Q: Which?\nSQL: {query}" for query in queries)
    )
    files = {"main.py": source, "examples.yaml": data}
    assert prompts(tmp_path, files, [("system", sent)]) == ["main.py:4"]
    assert prompts(tmp_path, files, [("system", "\n".join(queries))]) == [
        "examples.yaml:3",
        "examples.yaml:5",
        "examples.yaml:7",
    ]


def test_a_template_of_short_labels_alone_is_none_beside_the_system_prompt(tmp_path: Path) -> None:
    source = (
        'SYSTEM = "You plan research for a small team."\n'
        'TASK = f"Search term: {term}\\nReason for searching: {reason}"\n'
        'OTHER = "Search term: {term}\\nAnswer with a number alone, without its unit."\n'
    )
    files = {"main.py": source}
    system = ("system", "You plan research for a small team.")
    labels = ("user", "Search term: tea\nReason for searching: thirst")
    telling = ("user", "Search term: tea\nAnswer with a number alone, without its unit.")
    assert prompts(tmp_path, files, [system, labels]) == ["main.py:1"]
    assert prompts(tmp_path, files, [system, telling]) == ["main.py:1", "main.py:3"]


def test_a_system_message_that_only_names_its_value_is_none_beside_a_prompt(
    tmp_path: Path,
) -> None:
    asked = "Look at what was done so far, and name the one step that comes next: {goal}"
    source = f"DONE = 'Previous tasks:\\n{{done}}'\nASK = {asked!r}\n"
    done = ("system", "Previous tasks:\nThe kettle was filled.")
    asking = ("user", asked.format(goal="tea"))
    assert prompts(tmp_path, {"main.py": source}, [done, asking]) == ["main.py:2"]
    assert prompts(tmp_path, {"main.py": source}, [done]) == ["main.py:1"]


def test_a_sentence_that_only_names_the_value_behind_it_is_none_beside_the_system_prompt(
    tmp_path: Path,
) -> None:
    system = "You write the files of a small program, one after the other."
    named = "The plan that we have agreed on is: {plan}"
    source = f"SYSTEM = {system!r}\nPLAN = {named!r}\n"
    plan = "a page with a clock, a button that stops it, and a style sheet of its own"
    sent = [("system", system), ("user", named.format(plan=plan))]
    assert prompts(tmp_path, {"main.py": source}, sent) == ["main.py:1"]
    # Most of what is sent is its own text: it asks for something.
    sent = [("system", system), ("user", named.format(plan="a clock"))]
    assert prompts(tmp_path, {"main.py": source}, sent) == ["main.py:1", "main.py:2"]


def test_the_input_of_the_first_call_is_none_where_other_calls_quote_it(tmp_path: Path) -> None:
    asked = "What are the latest developments in tea, and how can I use them in my kitchen?"
    source = (
        'PLAN = "You plan research for a small team."\n'
        'WRITE = "You write what the team has found."\n'
        f"run({asked!r})\n"
    )
    calls = [
        [("system", "You plan research for a small team."), ("user", asked)],
        [("system", "You write what the team has found."), ("user", f"Query: {asked}\nPlan: …")],
    ]
    assert prompts(tmp_path, {"main.py": source}, *calls) == ["main.py:1", "main.py:2"]


def test_a_template_with_a_loop_is_a_prompt_and_what_it_loops_over_is_its_value(
    tmp_path: Path,
) -> None:
    source = (
        'TEMPLATE = """Answer from these documents alone.\n'
        "{% for doc in documents %}{% if doc.title %}# {{ doc.title }}{% endif %}\n"
        "{{ doc.content | trim }} (page {{ doc.meta['page'] }})\n"
        '{% endfor %}Question: {{ question }}\nName the page behind each fact."""\n'
        'QUESTION = "How high is the tower that stands beside the harbour of the town?"\n'
    )
    sent = (
        "Answer from these documents alone.\nThe tower. (page 1)\nIt has 90 m. (page 2)\n"
        "Question: How high is the tower that stands beside the harbour of the town?\n"
        "Name the page behind each fact."
    )
    files = {"main.py": source}
    assert "main.py:1" in prompts(tmp_path, files, [("user", sent)])


def test_a_fixed_request_is_a_prompt_where_the_task_stands_in_the_system_message(
    tmp_path: Path,
) -> None:
    task = "computes the ratio of debt to equity"
    source = (
        'FUNCTION = "Please write a clean Python function that {task}, and nothing else."\n'
        'PAGE = "Write a short page on the purpose of this function."\n'
    )
    calls = [("system", f"Please write a clean Python function that {task}, and nothing else.")]
    user = ("user", "Write a short page on the purpose of this function.")
    assert prompts(tmp_path, {"main.py": source}, [*calls, user], inputs=[task]) == [
        "main.py:1",
        "main.py:2",
    ]


def test_the_description_of_a_tools_class_in_a_text_is_no_prompt(tmp_path: Path) -> None:
    source = (
        "class Calculator(BaseTool):\n"
        '    """Calculates."""\n'
        '    name: str = "calculator"\n'
        '    description: str = "Useful for sums. The input should be an expression in full."\n'
        "\n\nclass Desk:\n"
        '    description: str = "You answer for the desk of the shop, with the tools below."\n'
    )
    tools = "- calculator: Useful for sums. The input should be an expression in full."
    sent = f"You answer for the desk of the shop, with the tools below.\n{tools}"
    assert prompts(tmp_path, {"main.py": source}, [("system", sent)]) == ["main.py:8"]


def test_a_file_whose_values_pass_through_filters_is_one_prompt(tmp_path: Path) -> None:
    rules = (
        "# Instructions of the desk\n\nYou answer for the shop.\n\n"
        '- **Date**: {{ today }}\n- **User**: {{ user | default("Guest") }}\n\n'
        "Ask the agent at the desk if a task is unclear.\n"
    )
    files = {"main.py": 'run("rules.md", name="agent at the desk")\n', "rules.md": rules}
    sent = rules.replace("{{ today }}", "Monday").replace('{{ user | default("Guest") }}', "Ann")
    assert prompts(tmp_path, files, [("system", sent)]) == ["rules.md:1"]


def test_what_fills_an_open_end_of_a_template_is_none_wherever_else_it_stands(
    tmp_path: Path,
) -> None:
    task = "Write a one-page plan for a small tea shop"
    source = (
        'SYSTEM = "You plan research for a small team."\n'
        'PLAN = "Prepare a plan of how to solve the following task:\\n{task}\\n"\n'
        'WRITE = "Name the sources."\n'
        "\n\n\n\n\n"
        f"main({task!r})\n"
        'CLOSE = "Write in plain words, and end with a question."\n'
    )
    plan = f"Prepare a plan of how to solve the following task:\n{task}\n"
    calls = [
        [("system", "You plan research for a small team."), ("user", plan)],
        [
            ("system", "You plan research for a small team."),
            ("user", f"TASK:\n{task}\nSTEP: one\nWrite in plain words, and end with a question."),
        ],
    ]
    assert prompts(tmp_path, {"main.py": source}, *calls) == [
        "main.py:1",
        "main.py:2",
        "main.py:10",
    ]


def test_examples_that_are_shown_to_the_model_are_data_and_so_is_what_stands_in_their_place(
    tmp_path: Path,
) -> None:
    source = (
        'class Answer:\n    """Answer questions with short facts from the context."""\n'
        'EXAMPLES = [\n    Example(question="Who wrote Romeo and Juliet?", answer="Shakespeare"),\n'
        '    Example(question="What is the capital of France?", answer="Paris"),\n]\n'
        'FACTS = {"What castle did David inherit?": "David inherited Kinnairdy Castle in 1664."}\n'
        'NUDGE = "Answer again, with nothing but the name of the castle."\n'
    )
    system = ("system", "Fields: answer. Answer questions with short facts from the context.")

    def asked(question: str, context: str = "") -> tuple[str, str]:
        return "user", f"[[ context ]]\n{context}\n[[ question ]]\n{question}\nRespond."

    last = asked("What castle did David inherit?", "David inherited Kinnairdy Castle in 1664.")
    examples = [
        *(asked("Who wrote Romeo and Juliet?"), ("assistant", "Shakespeare")),
        *(asked("What is the capital of France?"), ("assistant", "Paris")),
    ]
    files = {"main.py": source}
    assert prompts(tmp_path, files, [system, last], [system, *examples, last]) == ["main.py:2"]
    # What the model itself answered before is no example.
    nudge = ("user", "Answer again, with nothing but the name of the castle.")
    rounds = [system, last, ("assistant", "Kinnairdy"), nudge, ("assistant", "Kinnairdy"), nudge]
    conversations = [rounds[:2], rounds[:4], rounds]
    assert "main.py:8" in prompts(tmp_path, files, *conversations)


def test_instructions_of_an_agent_that_others_are_told_of_are_a_prompt(tmp_path: Path) -> None:
    """A group chat tells each agent who takes part, and shows it what the others said."""
    source = (
        'PRO = f"You argue for the motion, with two reasons: {motion}"\n'
        'JUDGE = "You judge the debate, and say in one sentence who won it."\n'
    )
    pro = "You argue for the motion, with two reasons: Cats are better"
    judge = "You judge the debate, and say in one sentence who won it."
    intro = ("user", f"Welcome. In this room are: Pro: {pro}. Judge: {judge}")
    said = [intro, ("assistant", "They purr."), ("user", "Go on."), ("assistant", "They clean.")]
    calls = [[("system", pro), *said], [("system", judge), *said, ("user", "Who won?")]]
    assert prompts(tmp_path, {"main.py": source}, *calls) == ["main.py:1", "main.py:2"]


def test_descriptions_of_tools_in_a_system_message_are_no_prompts(tmp_path: Path) -> None:
    source = (
        'tool = Tool(name="atlas", description="this gives the population of each country")\n'
        'SYSTEM = "You answer questions on countries."\n'
    )
    system = (
        "You answer questions on countries. You have access to tools:\n> Tool Name: atlas\n"
        'Tool Description: this gives the population of each country\nTool Args: {"type": "x"}'
    )
    calls = [("system", system), ("user", "How many people live in Chile?")]
    assert prompts(tmp_path, {"main.py": source}, calls) == ["main.py:2"]


def test_data_that_a_program_wrote_on_one_line_holds_no_prompt(tmp_path: Path) -> None:
    page = "Canada is a country in the north of America with a long border. " * 12
    files = {
        "store.json": json.dumps({"docs": {"1": {"text": page.strip()}}}),
        "main.py": 'SYSTEM = "You answer questions on countries."\n',
    }
    calls = [("system", "You answer questions on countries."), ("user", f"Context: {page}")]
    assert prompts(tmp_path, files, calls) == ["main.py:1"]


def test_what_is_embedded_is_no_prompt(tmp_path: Path) -> None:
    question = "Which of the towers beside the harbour of the town is the highest one?"
    (tmp_path / "main.py").write_text(f"embed({question!r})\n")
    recorded = recording(tmp_path)
    (call,) = recorded.calls
    texts = (ModelText(role="user", text=question),)
    for path, count in (("/v1/chat/completions", 1), ("/v1/embeddings", 0), ("/api/embed", 0)):
        sent = msgspec.structs.replace(call, path=path, texts=texts)
        run = msgspec.structs.replace(recorded, calls=(sent,))
        assert len(sent_prompts(tmp_path, ["main.py"], run, ())[0]) == count


def test_a_template_with_several_labels_is_a_prompt_beside_the_system_prompt(
    tmp_path: Path,
) -> None:
    source = (
        'SYSTEM = "You plan research for a small team."\n'
        'TASK = f"ORIGINAL QUERY:\\n{q}\\nKNOWLEDGE GAP TO ADDRESS:\\n{gap}\\n"\\\n'
        '    f"HISTORY OF ACTIONS, FINDINGS AND THOUGHTS:\\n{history}"\n'
    )
    task = (
        "ORIGINAL QUERY:\ntea\nKNOWLEDGE GAP TO ADDRESS:\nFiji\n"
        "HISTORY OF ACTIONS, FINDINGS AND THOUGHTS:\nnone"
    )
    sent = [("system", "You plan research for a small team."), ("user", task)]
    assert prompts(tmp_path, {"main.py": source}, sent) == ["main.py:1", "main.py:2"]


def test_a_prompt_in_json_that_a_shell_script_sends_is_one(tmp_path: Path) -> None:
    script = (
        "#!/bin/sh\n"
        'curl "$URL" -d "{\\"messages\\": [\n'
        '  {\\"role\\": \\"system\\", \\"content\\": \\"You name the capital of a land.\\"},\n'
        '  {\\"role\\": \\"user\\", \\"content\\": \\"$1\\"}]}"\n'
    )
    sent = [("system", "You name the capital of a land."), ("user", "Fiji")]
    assert prompts(tmp_path, {"ask.sh": script}, sent) == ["ask.sh:3"]


def test_what_a_tool_returned_is_none_although_the_user_sends_it(tmp_path: Path) -> None:
    source = (
        'SYSTEM = "You browse for a small team, and open what it asks for."\n'
        'ERROR = f"Failed to open {url}: the address of the page is not valid"\n'
    )
    result = "Failed to open x: the address of the page is not valid"
    request = {
        "system": "You browse for a small team, and open what it asks for.",
        "messages": [
            {"role": "user", "content": "Open x"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "open"}]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t", "content": result}],
            },
        ],
    }
    sent = [(text.role, text.text) for text in texts_of_request(request)]
    assert ("tool", result) in sent
    assert prompts(tmp_path, {"main.py": source}, sent) == ["main.py:1"]


def test_prompts_in_scripts_without_spaces_are_found(tmp_path: Path) -> None:
    agents = (
        "from library import PREFIX\n"
        'triage = agent(instructions=(f"{PREFIX} " "あなたは質問を他の適切な担当に委任します。"))\n'
        'shop = f"你是{name}商店的客服，请用一句话回答。"\n'  # noqa: RUF001
        'label = f"问题：{question}"\n'  # noqa: RUF001
    )
    sent = [
        (
            "system",
            "# Context\nYou are one of many agents. あなたは質問を他の適切な担当に委任します。",
        ),
        ("system", "你是月光商店的客服，请用一句话回答。"),  # noqa: RUF001
        ("user", "问题：锅在哪里？"),  # noqa: RUF001
    ]
    assert prompts(tmp_path, {"agents.py": agents}, sent) == ["agents.py:2", "agents.py:3"]


def test_of_copies_the_one_beside_a_prompt_that_is_nowhere_else_counts(tmp_path: Path) -> None:
    expert = 'EXPERT = "You are a math expert. Always use one tool at a time."\n'
    lead = "You lead a team of two. For current events, use research. For math, use the expert."
    files = {
        "team.py": f"{expert}LEAD = {lead!r}\n",
        "levels.py": f'{expert}LEAD = ["For current events, use research."]\n',
    }
    sent = [("system", lead)], [("system", "You are a math expert. Always use one tool at a time.")]
    assert prompts(tmp_path, files, *sent) == ["team.py:1", "team.py:2"]


def test_few_words_in_a_message_of_the_user_count_beside_a_prompt_in_it(tmp_path: Path) -> None:
    goal = "Find out what the numbers of the shop really say this week."
    source = f"ROLE = 'Data Analyst'\nGOAL = {goal!r}\nFIELD = dict(about='tone to adopt')\n"
    sent = f"You are Data Analyst.\nYour goal: {goal}\n- tone (str): tone to adopt"
    listed = prompts(tmp_path, {"agents.py": source}, [("user", sent)])
    assert listed == ["agents.py:1", "agents.py:2", "agents.py:3"]


def test_what_a_file_says_that_is_the_input_is_none_though_the_source_says_it_too(
    tmp_path: Path,
) -> None:
    guide = "To release, run the tests.\nuv build --no-sources, then tag it.\n"
    files = {
        "main.py": f"SYSTEM = {SYSTEM!r}\n",
        "release.yml": "steps:\n  - run: uv build --no-sources, then tag it.\n",
    }
    (tmp_path / "guide.md").write_text(guide)
    sent = [("system", SYSTEM.format(agents="", state="")), ("user", f"Explain this:\n{guide}")]
    assert prompts(tmp_path, files, sent, inputs=("guide.md",)) == ["main.py:1"]
    assert "release.yml:2" in prompts(tmp_path, files, sent)


def test_short_instructions_of_fields_that_a_framework_puts_together_are_prompts(
    tmp_path: Path,
) -> None:
    fields = (
        'steps = Field(desc="Actionable steps or workflows described")\n'
        'risks = Field(desc="Warnings and mistakes to avoid")\n'
    )
    files = {"main.py": f"SYSTEM = {SYSTEM!r}\n", "fields.py": fields}
    system = SYSTEM.format(agents="", state="")
    sent = f"1. Actionable steps or workflows described 2. Warnings and mistakes to avoid {system}"
    assert prompts(tmp_path, files, [("system", sent), ("user", "Hi")]) == [
        "fields.py:1",
        "fields.py:2",
        "main.py:1",
    ]


def test_the_other_branch_of_a_conditional_text_is_a_prompt_of_its_own(tmp_path: Path) -> None:
    source = (
        f"goal = {SYSTEM!r}\n"
        "form = (\n"
        '    "A JSON scorecard that matches the schema which the caller has required from you."\n'
        "    if as_json\n"
        '    else "A scorecard in Markdown:\\n"\n'
        '    "- a table of all the dimensions with their scores and with the reasons for them"\n'
        ")\n"
    )
    sent = SYSTEM.format(agents="", state="") + (
        " A scorecard in Markdown:\n"
        "- a table of all the dimensions with their scores and with the reasons for them"
    )
    assert prompts(tmp_path, {"main.py": source}, [("user", sent)]) == ["main.py:1", "main.py:5"]
