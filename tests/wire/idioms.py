"""Look-alikes of ways in which Python programs hold, join and send prompts, and act."""

# ruff: noqa: E501 - files of others, line by line

from __future__ import annotations

from tests.wire.look_alike import LONG, LookAlike

IDIOMS = (
    LookAlike(
        "models-known-by-name",
        {
            "desk/roles/weigh.py": (
                "from desk.tone import tone\nfrom desk.ask import ask_model\n"
                "def make_weigher(llm):\n    def weigh(state):\n"
                f"        text = f'''{LONG}\n        {{state['notes']}} {{tone()}}'''\n"
                "        return {'said': llm.invoke(text).content}\n    return weigh\n"
                "def make_judge(llm):\n    sure = llm.with_structured_output(dict)\n    def judge(state):\n"
                f"        messages = [{{'role': 'system', 'content': '{LONG} Judge.' + tone()}},\n\n\n\n"
                f"            {{'role': 'user', 'content': f'Here are the notes of all readers so far, weigh them well: {{state}}'}}]\n"
                "        return ask_model(sure, llm, messages)\n    return judge\n"
            ),
            "desk/roles/read.py": (
                "from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder\n"
                "from desk.tone import fetch_notes\n"
                "def make_reader(llm):\n    def read(state):\n"
                f"        duty = ('{LONG} '\n            + '''\n\n\n\nAppend a table of all that you found at the end of it.'''\n            + fetch_notes(state))\n"
                f"        prompt = ChatPromptTemplate.from_messages([('system', 'You read for others and stop when told. {LONG} {{duty}}'),\n"
                "            MessagesPlaceholder(variable_name='messages')])\n"
                "        prompt = prompt.partial(duty=duty, notes=fetch_notes(state))\n"
                "        return (prompt | llm.bind_tools([])).invoke(state['messages'])\n    return read\n"
            ),
            "desk/tone.py": (
                "def tone():\n    return ''\n"
                "def fetch_notes(state):\n"
                "    return f'<no notes of any reader could be read for the topic {state} on this day>'\n"
            ),
            "desk/ask.py": (
                "from typing import Any\n"
                "def ask_model(structured_llm: Any, llm: Any, messages: Any):\n"
                "    try:\n        return structured_llm.invoke(messages)\n"
                "    except ValueError:\n        return llm.invoke(messages)\n"
            ),
            "desk/graph.py": (
                "from langgraph.graph import StateGraph\nfrom desk.clients import client\n"
                "from desk.roles.weigh import make_weigher, make_judge\nfrom desk.roles.read import make_reader\n"
                "def desk_graph():\n    builder = StateGraph(dict)\n"
                "    for make in (make_weigher, make_judge, make_reader):\n"
                "        builder.add_node(make(client('m')))\n    return builder.compile()\n"
            ),
            "desk/clients.py": "def client(name):\n    return __import__(name).Client()\n",
        },
        "langgraph",
        "desk/graph.py:desk_graph",
        (
            "desk/roles/weigh.py:5",
            "desk/roles/weigh.py:12",
            "desk/roles/weigh.py:16",
            "desk/roles/read.py:5",
            "desk/roles/read.py:12",
        ),
    ),
    LookAlike(
        "prompty-files",
        {
            "api/draft/draft.prompty": f"---\nname: Draft\n---\nsystem:\n{LONG}\n",
            "api/draft/draft.py": (
                "import prompty\n"
                "def draft(topic):\n    return prompty.execute('draft.prompty', inputs={'topic': topic})\n"
                "if __name__ == '__main__':\n"
                "    topic = 'Tell me please which shelves the children of the house like the most of all.'\n"
                "    print(draft(topic))\n"
            ),
            "api/check/check.prompty": f"---\nname: Check\n---\nsystem:\n{LONG}\n",
            "api/check/check.py": (
                "from pathlib import Path\nfrom promptflow.core import Prompty\n"
                "folder = Path(__file__).parent.absolute().as_posix()\n"
                "def check(text):\n    path = folder + '/check.prompty'\n"
                "    return Prompty.load(path, model={})(text=text)\n"
            ),
            "api/seek/seek.prompty": f"---\nname: Seek\n---\nsystem:\n{LONG}\n",
            "api/seek/seek.py": (
                "from azure.ai.projects import AIProjectClient\n"
                "from azure.ai.inference.prompts import PromptTemplate\n"
                "def seek(topic):\n    client = AIProjectClient.from_connection_string(conn_str='')\n"
                "    template = PromptTemplate.from_prompty(file_path='seek.prompty')\n"
                "    messages = template.create_messages(topic=topic)\n"
                "    agent = client.agents.create_agent(model='m', instructions=messages[0]['content'])\n"
                "    client.agents.delete_agent(agent.id)\n    return agent\n"
            ),
            "api/evaluate/evaluators.py": (
                "import prompty\nfrom azure.ai.evaluation import FluencyEvaluator\n"
                "def mark(text):\n    return prompty.execute('kindness.prompty', inputs={'text': text})\n"
            ),
            "api/evaluate/kindness.prompty": f"---\nname: Kindness\n---\nsystem:\n{LONG}\n",
            "api/evaluate/eval_inputs.jsonl": '{"topic_context": "a b", "assignment_context": "c d"}\n'
            * 3,
            "data/products.csv": "id,name,price,category,brand,description\n"
            + "1,Tent,2.0,Tents,Ours,A tent\n" * 3,
            "api/main.py": (
                "from fastapi import FastAPI\nfrom draft import draft\nfrom check import check\nfrom seek import seek\n"
                "from evaluate.evaluators import mark\napp = FastAPI()\n"
                "@app.post('/article')\ndef article(topic: str):\n"
                "    text = draft.draft(str(seek.seek(topic)))\n    mark(text)\n    return check.check(text)\n"
            ),
        },
        "prompty",
        "api/main.py:POST /article",
        ("api/draft/draft.prompty", "api/check/check.prompty", "api/seek/seek.prompty"),
        ("delete api/seek/seek.py",),
        data=("api/evaluate/eval_inputs.jsonl: topic_context, assignment_context -> ",),
    ),
    LookAlike(
        "prompts-by-key",
        {
            "pyproject.toml": "[project]\nname = 'desk'\nversion = '1'\n[project.scripts]\ndesk = 'desk.main:app'\n",
            "desk/preprompts/plan": f"{LONG}\n",
            "desk/preprompts/write": f"{LONG} Write.\n",
            "desk/preprompts/unused": f"{LONG} Unused.\n",
            "projects/example/prompt": f"{LONG} This is what a user asks.\n",
            "desk/ai.py": (
                "import openai\nclass AI:\n"
                "    def system(self, text):\n        return {'role': 'system', 'content': text}\n"
                "    def next(self, messages, prompt=None):\n        if prompt:\n"
                "            messages += [{'role': 'user', 'content': prompt}]\n"
                "        return openai.ChatCompletion.create(messages=messages, model='m')\n"
            ),
            "desk/shelf.py": (
                "from pathlib import Path\nclass Shelf:\n"
                "    def __init__(self, path):\n        self.path = Path(path).absolute()\n"
                "    def __getitem__(self, key):\n        with (self.path / key).open() as file:\n            return file.read()\n"
                "    def __setitem__(self, key, text):\n        (self.path / key).write_text(text)\n"
            ),
            "desk/steps.py": (
                "def get_prompt(shelves):\n    return shelves.input['prompt']\n"
                "def plan(ai, shelves):\n    messages = [ai.system(shelves.preprompts['plan'])]\n"
                "    return ai.next(messages, get_prompt(shelves))\n"
                "def write(ai, shelves):\n    return ai.next(plan(ai, shelves), shelves.preprompts['write'])\n"
                "STEPS = [plan, write]\n"
            ),
            "desk/main.py": (
                "from pathlib import Path\nimport typer\nfrom desk.ai import AI\nfrom desk.shelf import Shelf\n"
                "from desk.steps import STEPS\napp = typer.Typer()\n"
                "class Shelves:\n    def __init__(self, input, preprompts):\n"
                "        self.input, self.preprompts = input, preprompts\n"
                "@app.command()\ndef main(project: str = typer.Argument('projects/example')):\n"
                "    shelves = Shelves(Shelf(Path(project)), Shelf(Path(__file__).parent / 'preprompts'))\n"
                "    for step in STEPS:\n        step(AI(), shelves)\n"
            ),
        },
        "openai",
        "desk/main.py:app started",
        ("desk/preprompts/plan", "desk/preprompts/write"),
        ("file write desk/shelf.py",),
    ),
    LookAlike(
        "memory-and-messages",
        {
            "desk/texts.py": (
                "from datetime import datetime\n"
                f"RULES = '''{LONG}\n\n\n\n\nToday is ''' + datetime.now().isoformat() + ''' - keep it in mind when you plan the week.'''\n"
            ),
            "desk/graph.py": (
                "from langgraph.graph import StateGraph\nfrom langgraph.store.base import BaseStore\n"
                "from langchain_openai import ChatOpenAI\nfrom desk.texts import RULES\nfrom desk.post import close, kick\n"
                "async def answer(state, config, store: BaseStore):\n"
                "    await store.aput(('a',), 'k', {'data': state['notes']})\n    close(state['id'])\n    await kick(state)\n"
                "    return {'said': await ChatOpenAI(model='m').ainvoke([('system', RULES), ('human', state['ask'])])}\n"
                "builder = StateGraph(dict)\nbuilder.add_node(answer)\ngraph = builder.compile()\n"
            ),
            "desk/post.py": (
                "from googleapiclient.discovery import build\nfrom langgraph_sdk import get_client\n"
                "client = get_client()\n"
                "def close(id):\n    build('gmail', 'v1').users().messages().modify(userId='me', id=id, body={}).execute()\n"
                "async def kick(state):\n    await client.runs.create(None, 'other', input=state)\n"
            ),
            "serve.py": (
                "from supabase import create_client\nfrom pydantic_ai import Agent\nfrom pydantic_ai.mcp import MCPServerStdio\n"
                "from desk.graph import graph\n"
                "supabase = create_client('a', 'b')\nfiles = MCPServerStdio('npx', ['-y', 'files'])\n"
                f"helper = Agent('m', system_prompt='{LONG} Help.', mcp_servers=[files])\n"
                "async def serve(ask: str):\n    said = await graph.ainvoke({'ask': ask})\n"
                "    supabase.table('said').insert({'said': said}).execute()\n    return await helper.run(ask)\n"
            ),
        },
        "langgraph",
        "serve.py:serve",
        ("desk/texts.py:2", "serve.py:7"),
        (
            "database write desk/graph.py",
            "mail desk/post.py",
            "post desk/post.py",
            "shell serve.py",
            "database write serve.py",
        ),
    ),
    LookAlike(
        "pages-and-demonstrations",
        {
            "1_Home.py": (
                "import streamlit as st\nfrom core.agents import state_of\n"
                "if ask := st.chat_input('Ask'):\n    st.write(state_of(st.session_state).agent.chat(ask))\n"
            ),
            "core/agents.py": (
                "from agents import Agent, Runner\n"
                f"desk = Agent(name='desk', instructions='{LONG}')\n"
                "def state_of(session):\n    session.setdefault('agent', desk)\n    return session\n"
                "async def main():\n"
                "    queries = ['FormerPlan the shelves of the small house by the river, for a budget of 300 please.',\n"
                "        'Which shelves of the house would you leave as they are for the coming three years?']\n"
                "    for query in queries:\n        print(await Runner.run(desk, query))\n"
                "    print(await Runner.run(desk, 'Say in a single line what all of the shelves cost together now.'))\n"
            ),
        },
        "openai-agents",
        "1_Home.py:1_Home.py",
        ("core/agents.py:2",),
        tracing=("openai-agents core/agents.py",),
    ),
    LookAlike(
        "histories-and-names",
        {
            "desk/model.py": (
                "import os\nfrom openai import OpenAI\n"
                "def ask(text, client, system, history=None):\n    history = history or []\n"
                "    messages = history + [{'role': 'user', 'content': text}]\n"
                "    said = client.chat.completions.create(model='m', messages=[{'role': 'system', 'content': system}, *messages],\n"
                "        user=os.getenv('DESK_URL', 'https://desk.shelves.example.org/v1/and/more'))\n"
                "    return said, messages + [{'role': 'assistant', 'content': said}]\n"
            ),
            "desk/flow.py": (
                "import os\nfrom desk.model import ask\nfrom langchain_text_splitters import TokenTextSplitter\n"
                "from langchain.text_splitter import RecursiveCharacterTextSplitter\n"
                f"PLAN = '{LONG} {{0}}'\n\n\n\n\n"
                f"CHECK = '{LONG} Check {{0}}'\n\n\n\n\n"
                f"SYSTEM = os.getenv('DESK_SYSTEM', '{LONG} System.')\n\n\n\n\n"
                "def run(goal, client):\n    history = []\n"
                "    said, history = ask(PLAN.format(goal), client, SYSTEM, history)\n"
                + "".join(
                    f"    said, history = ask('Go on with step {n}.', client, SYSTEM, history)\n"
                    for n in range(8)
                )
                + "    for _ in range(3):\n        said, history = ask(CHECK.format(goal), client, SYSTEM, history)\n"
                "    return said\n"
            ),
            "desk/hands.py": (
                "def carry(robot, goal):\n"
                f"    next_prompt = f'{LONG} Carry what {{goal}} says to where it belongs.'\n"
                "    return robot.handle(next_prompt)\n"
                "def never(robot):\n"
                f"    dead_prompt = '{LONG} Nobody ever asks for this one, at any time.'\n"
                "    return robot.handle(dead_prompt)\n"
                f"UNREAD_PROMPT = '{LONG} Nobody ever reads this one, at any time.'\n"
            ),
            "desk/records.py": (
                "import psycopg2\nclass Records:\n"
                "    def __init__(self):\n        self.cur = psycopg2.connect('').cursor()\n"
                "    def run(self, sql):\n        self.cur.execute(sql)\n        return self.cur.fetchall()\n"
            ),
            "desk/serve.py": (
                "from flask import Flask\nfrom desk.flow import run\nfrom desk.hands import carry\nfrom desk.records import Records\n"
                "app = Flask('desk')\n"
                "@app.route('/run')\ndef serve():\n    upsert_files = Records().run\n    upsert_files('SELECT 1')\n"
                "    carry(None, '')\n    return run('', None)\n"
            ),
            "custom_evals/rate.py": (
                "from openai import OpenAI\n"
                f"def rate(said):\n    return OpenAI().chat.completions.create(model='m', messages=[{{'role': 'system', 'content': '{LONG} Rate it.'}}])\n"
            ),
        },
        "openai",
        "desk/serve.py:ROUTE /run",
        (
            "desk/flow.py:5",
            "desk/flow.py:10",
            "desk/flow.py:15",
            "desk/hands.py:2",
        ),
        ("database write desk/records.py",),
    ),
    LookAlike(
        "graphs-made-by-functions",
        {
            "agent.py": (
                "from langchain.agents import create_agent\nfrom mem0 import Memory\n"
                "from managed_deepagents import define_deep_agent\n"
                "memory = Memory()\n"
                "def keep(said: str):\n    memory.add([{'role': 'user', 'content': said}], user_id='a')\n"
                f"agent = create_agent('m', tools=[keep], system_prompt='{LONG}')\n"
                "deep = define_deep_agent(name='deep', model='m', tools=[keep])\n"
                "async def trips(pool, wish):\n"
                "    await pool.fetchrow('INSERT INTO wishes (wish) VALUES ($1)', wish)\n\n\n\n"
                "    prompt = f'Find me train trips from {wish.start} to {wish.end} please.'\n"
                "    return await agent.ainvoke({'messages': [{'role': 'user', 'content': prompt}]})\n"
            ),
            "instructions.md": f"{LONG} Deep.\n",
            "texts.py": f"OLD = '{LONG} Old.'\n",
            "scripts/push_text.py": (
                "from langsmith import Client\nfrom langchain_core.prompts import ChatPromptTemplate\nfrom texts import OLD\n"
                "Client().push_prompt('desk', object=ChatPromptTemplate.from_messages([('system', OLD)]))\n"
            ),
        },
        "langgraph",
        "agent.py:agent",
        ("agent.py:7", "agent.py:14", "instructions.md"),
        ("database write agent.py",),
    ),
    LookAlike(
        "clients-by-how-often",  # one is asked first, another only now and then
        {
            "ask.py": (
                "import anthropic\nfrom openai import OpenAI\n"
                f"RULES = '{LONG}'\n"
                "def ask(question: str) -> str:\n"
                "    messages = [{'role': 'system', 'content': RULES}, {'role': 'user', 'content': question}]\n"
                "    draft = OpenAI().chat.completions.create(model='m', messages=messages)\n"
                "    return OpenAI().chat.completions.create(model='n', messages=[*messages, draft])\n"
                "def spare(question: str) -> str:\n"
                "    return anthropic.Anthropic().messages.create(model='o', max_tokens=9, system=RULES, messages=[])\n"
            ),
        },
        "openai",
        "ask.py:ask",
        ("ask.py:3",),
    ),
    LookAlike(
        "added-to-what-an-outer-scope-holds",
        {
            "desk.py": (
                "import chromadb\nfrom openai import OpenAI\n"
                "shelves = chromadb.Client().get_or_create_collection('shelves')\n"
                f"texts = ['{LONG}']\n"
                "def ask(question: str) -> str:\n"
                "    shelves.add(documents=[question], ids=['a'])\n"
                "    texts.append(question)\n"
                "    messages = [{'role': 'system', 'content': '\\n'.join(texts)}]\n"
                "    return OpenAI().chat.completions.create(model='m', messages=messages)\n"
            ),
        },
        "openai",
        "desk.py:ask",
        ("desk.py:4",),
        ("database write desk.py",),
    ),
    LookAlike(
        "called-by-an-interface",  # of which one implementation is chosen; and a client in two steps
        {
            "desk/models.py": (
                "from abc import ABC, abstractmethod\nimport anthropic\n"
                "class Model(ABC):\n    @abstractmethod\n    def complete(self, ask, system=None): ...\n"
                "class Claude(Model):\n    def complete(self, ask, system=None):\n"
                "        return anthropic.Anthropic().messages.create(model='m', max_tokens=9, system=system, messages=[{'role': 'user', 'content': ask}])\n"
            ),
            "desk/service.py": (
                "from desk.models import Model\n"
                f"_TONE = ('{LONG} '\n    'Be kind.')\n"
                "class Service:\n    def __init__(self, model: Model) -> None:\n        self._model = model\n"
                "    def answer(self, question: str):\n        return self._model.complete(question, system=_TONE)\n"
            ),
            "desk/sheet.py": (
                "import gspread\nfrom desk.service import Service\n"
                "class Readers:\n    def __init__(self):\n        self.client = self._connect()\n"
                "        self.sheet = self.client.open_by_key('a').worksheet('b')\n"
                "    def _connect(self):\n        try:\n            client = gspread.authorize(None)\n            return client\n"
                "        except OSError:\n            raise\n"
                "    def note(self, reader):\n        self.sheet.append_row([reader])\n"
            ),
        },
        "anthropic",
        "desk/service.py:Service.answer",
        ("desk/service.py:2",),
        ("post desk/sheet.py",),
    ),
    LookAlike(
        "written-and-tried",  # prompts that the program writes out, and trials beside it
        {
            "desk.py": (
                "from pathlib import Path\nfrom openai import OpenAI\n"
                f"RULES = '{LONG}'\n"
                "def ask(question: str) -> str:\n"
                "    Path('prompts/last.md').write_text(RULES)\n"
                "    messages = [{'role': 'system', 'content': RULES}, {'role': 'user', 'content': question}]\n"
                "    return OpenAI().chat.completions.create(model='m', messages=messages)\n"
            ),
            "prompts/last.md": LONG + "\n",
            "other-tryouts/trial.py": (
                "from agents import Agent, Runner\n"
                f"print(Runner.run_sync(Agent(name='a', instructions='{LONG}'), 'b'))\n"
            ),
        },
        "openai",
        "desk.py:ask",
        ("desk.py:3",),
        ("file write desk.py",),
    ),
)
