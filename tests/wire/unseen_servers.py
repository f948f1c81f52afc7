"""Look-alikes of agents that stand behind servers: of tools, of messages, of assistants."""

# ruff: noqa: E501 - files of others, line by line

from __future__ import annotations

from tests.wire.look_alike import LONG, LookAlike

UNSEEN_SERVERS = (
    LookAlike(
        "tools-for-any-client",
        {
            "pyproject.toml": '[project]\nname = "shelver"\nversion = "1"\ndependencies = ["mcp", "openai"]\n',
            "src/server.py": (
                "import sys\nfrom pathlib import Path\n"
                "sys.path.append(str(Path(__file__).parent.parent / 'graph'))\n"
                "from mcp.server.fastmcp import FastMCP\n"
                "from shelving import place\nfrom words import describe\n"
                "mcp = FastMCP('shelves')\n"
                "@mcp.tool()\n"
                "async def shelve(book: str) -> str:\n"
                "    '''Finds a shelf.'''\n"
                "    add_documents([book])\n"
                "    return place(describe(book))\n"
                "if __name__ == '__main__':\n    mcp.run()\n"
            ),
            "src/words.py": (
                "import openai\n"
                "def describe(book):\n"
                f"    prompt = f'''{LONG} The book is {{book}}.'''\n"
                "    return openai.chat.completions.create(model='m', messages=[{'role': 'user', 'content': prompt}])\n"
            ),
            "graph/shelving.py": (
                "from neo4j import GraphDatabase\n"
                "def place(book):\n"
                "    GraphDatabase.driver('u').session().run('CREATE (b:Book {name: $name})', name=book)\n"
            ),
        },
        "openai",
        "src/server.py:shelve",
        ("src/words.py:3",),
        ("database write graph/shelving.py", "database write src/server.py"),
    ),
    LookAlike(
        "questions-to-an-index",
        {
            "requirements.txt": "llama-index\nslack-bolt\n",
            "desk.py": (
                "from slack_bolt import App\n"
                "from llama_index.core import PromptTemplate, VectorStoreIndex\n"
                "app = App(token='t')\n"
                "index = VectorStoreIndex([])\n"
                "def answer(query):\n"
                f"    template = PromptTemplate('{LONG} Answer {{query_str}}.')\n"
                "    engine = index.as_query_engine(similarity_top_k=20)\n"
                "    engine.update_prompts({'response_synthesizer:text_qa_template': template})\n"
                "    return engine.query(query)\n"
                "@app.message()\n"
                "def hear(message, say):\n"
                "    say(str(answer(message['text'])))\n"
            ),
        },
        "llama-index",
        "desk.py:hear",
        ("desk.py:6",),
        ("post desk.py",),
    ),
    LookAlike(
        "messages-of-two-templates",
        {
            "requirements.txt": "llama-index\n",
            "desk/engine.py": (
                "from llama_index.core.chat_engine import CondensePlusContextChatEngine\n"
                "async def opened(index):\n"
                "    return CondensePlusContextChatEngine.from_defaults(index.as_retriever())\n"
            ),
            "desk/talk.py": (
                "from llama_index.core import ChatPromptTemplate\n"
                "from desk.engine import opened\n"
                f"RULES = '{LONG}'\n"
                f"ASKED = '{LONG} The question is {{question}}.'\n"
                "def messages(question):\n"
                "    both = [('system', RULES), ('user', ASKED)]\n"
                "    return ChatPromptTemplate.from_messages(both).format_messages(question=question)\n"
                "async def talk(llm, index, question):\n"
                "    engine = await opened(index)\n"
                f"    given = f'''{LONG} {{question}}'''.strip()\n"
                "    answer = await engine.astream_chat(given)\n"
                "    return await llm.astream_chat(messages(question)), answer\n"
            ),
        },
        "llama-index",
        "desk/talk.py:talk",
        ("desk/talk.py:3", "desk/talk.py:4", "desk/talk.py:10"),
    ),
    LookAlike(
        "assistants-of-a-client-elsewhere",
        {
            "package.json": '{"name": "desk", "dependencies": {"openai": "4"}}',
            "app/client.ts": "import OpenAI from 'openai';\nexport const openai = new OpenAI();\n",
            "app/api/desk/route.ts": (
                "import { openai } from '@/app/client';\n"
                "export async function POST() {\n"
                "  const desk = await openai.beta.assistants.create({\n"
                f"    instructions: '{LONG}',\n"
                "    tools: [{ type: 'code_interpreter' }],\n  });\n"
                "  return Response.json({ id: desk.id });\n}\n"
                "export async function DELETE(id) {\n"
                "  await openai.beta.vectorStores.del(id);\n}\n"
            ),
        },
        "openai",
        "app/api/desk/route.ts",
        ("app/api/desk/route.ts:4",),
        ("post app/api/desk/route.ts", "exec app/api/desk/route.ts"),
    ),
    LookAlike(
        "prompts-as-lines-of-settings",
        {
            "requirements.txt": "langchain\n",
            "settings.json": '{"title": "Desk", "desk_prompt_template": ["You plan the shelves of a library.", "Say why, in one sentence."],'
            ' "prompt_rules": ["be_brief", "be_kind", "be_right", "be_calm", "be_quick"]}',
            "flags.json": '{"system_prompt_rules": ["be_brief", "be_kind", "be_right", "be_calm"]}',
            "desk.py": (
                "import json\nfrom langchain.chat_models import init_chat_model\n"
                "FLAGS = json.load(open('/srv/flags.json'))['system_prompt_rules']\n"
                "HELD = {}\n"
                "def load():\n"
                "    with open('/srv/settings.json') as file:\n        raw = json.load(file)\n"
                "    for key, value in raw.items():\n        HELD[key] = value\n"
                "    HELD['rules'] = '\\n'.join(one.format(**raw) for one in raw['desk_prompt_template'])\n"
                "def setting(key, default=''):\n    return HELD.get(key, default)\n"
                "def ask(question: str):\n"
                "    return init_chat_model('m').invoke([('system', setting('rules')), ('user', question)])\n"
            ),
        },
        "langchain",
        "desk.py:ask",
        ("settings.json",),
    ),
    LookAlike(
        "functions-called-by-their-registry",
        {
            "requirements.txt": "litellm\n",
            "desk/registry.py": "from desk.core import Registry\ndesk = Registry()\n",
            "desk/asking.py": (
                "from desk.registry import desk\n"
                "@desk.register(imports=['litellm'])\n"
                "def ask(prompt: str) -> str:\n"
                "    from litellm import completion\n"
                "    return completion(model='m', messages=[{'role': 'user', 'content': prompt}])\n"
                "@desk.register(dependencies=['ask'])\n"
                "def describe(book: str) -> str:\n"
                f"    text = f'{LONG} The book is {{book}}.'\n"
                "    return desk.ask(text)\n"
            ),
        },
        "litellm",
        "desk/asking.py:describe",
        ("desk/asking.py:8",),
    ),
    LookAlike(
        "a-model-beside-its-agent",
        {
            "requirements.txt": "smolagents\n",
            "desk.py": (
                "from smolagents import LiteLLMModel, ToolCallingAgent, tool\n"
                "class Desk:\n"
                "    def __init__(self):\n        self.model = LiteLLMModel(model_id='m')\n"
                "    def agent(self):\n"
                "        @tool\n"
                "        def describe(books: list) -> str:\n"
                "            '''Describes books.'''\n"
                f"            prompt = '{LONG} The books are {{books}}.'.format(books=books)\n"
                "            return self.model.complete(prompt=prompt)\n"
                "        return ToolCallingAgent(tools=[describe], model=self.model)\n"
                "    def run(self, question: str):\n        return self.agent().run(question)\n"
            ),
        },
        "smolagents",
        "desk.py:Desk.run",
        ("desk.py:9",),
    ),
    LookAlike(
        "servers-in-a-file",
        {
            "requirements.txt": "openai-agents\n",
            "mcp_config.json": '{"mcpServers": {"files": {"command": "npx", "args": ["files"]}, "far": {"url": "u"}}}',
            "desk.py": (
                "import json\nfrom agents import Agent, Runner\n"
                "def servers():\n    return connect(json.load(open('mcp_config.json')))\n"
                "async def ask(question: str):\n"
                f"    desk = Agent(name='Desk', instructions='{LONG}', mcp_servers=servers())\n"
                "    return await Runner.run(desk, question)\n"
            ),
        },
        "openai-agents",
        "desk.py:ask",
        ("desk.py:6",),
        ("shell desk.py", "post desk.py"),
        tracing=("openai-agents desk.py",),
    ),
)
