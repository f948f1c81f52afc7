"""More look-alikes: what repositories showed that no rule had been made for."""

# ruff: noqa: E501 - files of others, line by line

from __future__ import annotations

from tests.wire.look_alike import LONG, LookAlike

UNSEEN = (
    LookAlike(
        "adk-root-agent",
        {
            "pyproject.toml": '[project]\nname = "shelver"\nversion = "1"\ndependencies = ["google-adk"]\n',
            "shelver/__init__.py": "from . import agent\n",
            "shelver/prompt.py": f'ROOT = """{LONG}"""\nOLD = "{LONG}"\n',
            "shelver/parts/checker.py": (
                "from google.adk import Agent\n"
                "def travel(state):\n"
                "    if 'start' not in state:\n"
                f"        return '{LONG} Ask for the start.'\n"
                "    start, end = ends(state)\n"
                f"    return '{LONG} From {{a}} to {{b}}.'.format(a=start, b=end)\n"
                "def ends(state):\n"
                "    return 'Any time of the day', 'As soon as possible'\n"
                "checker = Agent(name='checker', model='m', instruction=travel)\n"
            ),
            "shelver/tools.py": "def send_note(to: str, tool_context) -> str:\n    '''Sends a note.'''\n    return 'sent'\n",
            "shelver/agent.py": (
                "from google.adk.agents import LlmAgent, SequentialAgent\n"
                "from . import prompt\nfrom .parts.checker import checker\nfrom .tools import send_note\n"
                "planner = LlmAgent(name='planner', model='m', instruction=prompt.ROOT, tools=[send_note])\n"
                "pipeline = SequentialAgent(name='all', sub_agents=[planner, checker])\n"
                "root_agent = pipeline\n"
            ),
        },
        "google-adk",
        "shelver/agent.py:root_agent",
        ("shelver/prompt.py:1", "shelver/parts/checker.py:4", "shelver/parts/checker.py:6"),
        ("named action shelver/tools.py",),
    ),
    LookAlike(
        "mastra-agents",
        {
            "package.json": '{"name": "shelves", "type": "module", "dependencies": {"@mastra/core": "latest"}}',
            "src/mastra/agents/evaluationAgent.ts": (
                "import { Agent } from '@mastra/core/agent';\n"
                f"export const evaluationAgent = new Agent({{ id: 'e', instructions: `{LONG}` }});\n"
            ),
            "src/mastra/agents/shelfAgent.ts": (
                "import { Agent } from '@mastra/core/agent';\n"
                "import { judgeTool } from '../tools/judge';\n"
                f"export const shelfAgent = new Agent({{ id: 's', instructions: `{LONG}`, tools: {{ judgeTool }} }});\n"
            ),
            "src/mastra/tools/judge.ts": (
                "import { createTool } from '@mastra/core/tools';\n"
                "export const judgeTool = createTool({\n"
                "  id: 'judge-shelf',\n"
                "  execute: async ({ shelf }, { mastra }) => {\n"
                "    const judge = mastra!.getAgent('evaluationAgent');\n"
                f"    const said = await judge.generate([{{ role: 'user', content: `Say whether ${{shelf}} is right. {LONG}` }}]);\n"
                "    return { text: said.text };\n"
                "  },\n});\n"
            ),
            "src/mastra/index.ts": (
                "import { Mastra } from '@mastra/core/mastra';\n"
                "import { evaluationAgent } from './agents/evaluationAgent';\n"
                "import { shelfAgent } from './agents/shelfAgent';\n"
                "export const mastra = new Mastra({ agents: { shelfAgent, evaluationAgent } });\n"
            ),
        },
        "mastra",
        "src/mastra/agents/shelfAgent.ts:shelfAgent",
        (
            "src/mastra/agents/evaluationAgent.ts:2",
            "src/mastra/agents/shelfAgent.ts:3",
            "src/mastra/tools/judge.ts:6",
        ),
    ),
    LookAlike(
        "settings-by-name",
        {
            "src/desk/config/desk.yaml": (
                f"agent:\n  system_template: |\n    {LONG}\n    {{{{ task }}}}\n"
                "  cost_limit: 3\n  note: one two three four five six seven eight nine\n"
            ),
            "src/desk/config/unused.yaml": f"agent:\n  system_template: {LONG}\n",
            "src/desk/environments/__init__.py": (
                "import importlib\n"
                "KINDS = {'local': 'desk.environments.local.Local'}\n"
                "def make(kind):\n"
                "    module, name = KINDS[kind].rsplit('.', 1)\n"
                "    return getattr(importlib.import_module(module), name)()\n"
            ),
            "src/desk/environments/local.py": (
                "import subprocess\nclass Local:\n"
                "    def execute(self, command):\n        return subprocess.Popen(command, shell=True)\n"
            ),
            "src/desk/agent.py": (
                "import litellm\nfrom jinja2 import Template\nfrom desk.environments import make\n"
                "class Desk:\n"
                "    def __init__(self, config_class=dict, **given):\n"
                "        self.config = config_class(**given)\n        self.messages = []\n"
                "    def run(self, task: str):\n"
                "        text = Template(self.config.system_template).render(task=task)\n"
                "        self.messages.append({'role': 'system', 'content': text})\n"
                "        make('local').execute('ls')\n"
                "        return litellm.completion(model='m', messages=self.messages)\n"
            ),
            "src/desk/run.py": (
                "from pathlib import Path\nimport yaml\nfrom desk.agent import Desk\n"
                "def read(path):\n    return yaml.safe_load(Path(path).read_text())\n"
                "def answer(task: str):\n"
                "    return Desk(**read(Path(__file__).parent / 'config' / 'desk.yaml')['agent']).run(task)\n"
            ),
            "tests/test_local.py": (
                "from desk.environments.local import Local\n"
                "def test_local_exists():\n    assert Local\n"
            ),
        },
        "litellm",
        "src/desk/run.py:answer",
        ("src/desk/config/desk.yaml",),
        ("shell src/desk/environments/local.py",),
        (".: python -m pytest",),
    ),
    LookAlike(
        "raw-response-loop",
        {
            "loop.py": (
                "from datetime import datetime\nfrom anthropic import Anthropic\n"
                "from anthropic.types.beta import BetaTextBlockParam\n"
                f'RULES = f"""{LONG} Today is {{datetime.today()}}."""\n'
                "async def sampling(messages: list, suffix: str = ''):\n"
                "    system = BetaTextBlockParam(type='text', text=f\"{RULES}{' ' + suffix if suffix else ''}\")\n"
                "    client = Anthropic()\n"
                "    raw = client.beta.messages.with_raw_response.create(model='m', messages=messages, system=[system])\n"
                "    return raw.parse()\n"
            ),
        },
        "anthropic",
        "loop.py:sampling",
        ("loop.py:4",),
    ),
    LookAlike(
        "pool-of-calls",
        {
            "texts.py": f'DRAFT = "{LONG} {{ask}}"\nCHECK = dict(role="system", content="{LONG}")\n',
            "model.py": (
                "from concurrent.futures import ThreadPoolExecutor\nfrom openai import OpenAI\n"
                "from texts import CHECK\n"
                "class Model:\n"
                "    def call(self, prompt):\n"
                "        messages = [CHECK, dict(role='user', content=prompt)]\n"
                "        return OpenAI().chat.completions.create(model='m', messages=messages)\n"
                "    def many(self, prompts):\n"
                "        def worker(number, prompt):\n            return self.call(prompt)\n"
                "        with ThreadPoolExecutor() as pool:\n"
                "            futures = {pool.submit(worker, i, one): i for i, one in enumerate(prompts)}\n"
                "        return [one.result() for one in futures]\n"
            ),
            "main.py": (
                "from model import Model\nfrom texts import DRAFT\n"
                "def answer(question: str):\n"
                "    prompt = DRAFT.format(ask=question)\n"
                "    return Model().many([prompt for _ in range(3)])\n"
            ),
        },
        "openai",
        "main.py:answer",
        ("texts.py:1", "texts.py:2"),
    ),
    LookAlike(
        "llama-index-templates",
        {
            "texts.py": f'RULES = """\n{LONG} {{titles}}\n""".strip()\n',
            "synth.py": (
                "from llama_index.core.prompts.prompts import QuestionAnswerPrompt, RefinePrompt\n"
                "from llama_index.core.response_synthesizers.factory import get_response_synthesizer\n"
                "def synthesizer(titles):\n"
                f'    qa = f"""\n{LONG} {{titles}} {{{{context_str}}}} {{{{query_str}}}}\n""".strip()\n'
                f'    refine = f"""\n{LONG} {{titles}} {{{{existing_answer}}}}\n""".strip()\n'
                "    return get_response_synthesizer(text_qa_template=QuestionAnswerPrompt(template=qa), refine_template=RefinePrompt(template=refine))\n"
            ),
            "engine.py": (
                "from llama_index.agent.openai import OpenAIAgent\nfrom llama_index.core.query_engine import SubQuestionQueryEngine\n"
                "from synth import synthesizer\nfrom texts import RULES\n"
                "def chat(question: str, titles: str = ''):\n"
                "    engine = SubQuestionQueryEngine.from_defaults(response_synthesizer=synthesizer(titles))\n"
                "    agent = OpenAIAgent.from_tools(tools=[engine], system_prompt=RULES.format(titles=titles))\n"
                "    return agent.chat(question)\n"
            ),
        },
        "llama-index",
        "engine.py:chat",
        ("texts.py:1", "synth.py:4", "synth.py:7"),
    ),
    LookAlike(
        "voices-of-a-base-class",
        {
            "pyproject.toml": '[project]\nname = "fund"\nversion = "1"\n[project.scripts]\nfund = "fund.run:main"\n',
            "fund/__init__.py": "",
            "fund/base.py": (
                "from fund.client import Client\n"
                "class Voice:\n"
                "    TASK = ''\n"
                "    def __init__(self, client=None):\n        self.client = client or Client.of('m')\n"
                "    def persona(self) -> str:\n        raise NotImplementedError\n"
                "    def say(self, question: str) -> str:\n"
                "        return self.client.complete(self.persona(), self.TASK + question)\n"
            ),
            "fund/voices.py": (
                "from fund.base import Voice\n"
                "class Calm(Voice):\n"
                f"    def persona(self):\n        return '{LONG} Stay calm.'\n"
                "class Bold(Voice):\n"
                f"    TASK = '{LONG} Say it in one word.'\n"
                f"    def persona(self):\n        return '{LONG} Be bold.'\n"
                "VOICES = {'calm': Calm, 'bold': Bold}\n"
            ),
            "fund/client.py": (
                "import importlib.util\n"
                "class Client:\n"
                "    def __init__(self, chat):\n        self.chat = chat\n"
                "    @classmethod\n"
                "    def of(cls, name):\n"
                "        from langchain_openai import ChatOpenAI\n"
                "        chat = ChatOpenAI(model=name)\n"
                "        return cls(chat)\n"
                "    def complete(self, system: str, user: str) -> str:\n"
                "        return self.chat.invoke([('system', system), ('human', user)]).content\n"
            ),
            "fund/run.py": (
                "from pathlib import Path\nfrom fund.voices import VOICES\n"
                "def answer(kind: str, question: str) -> str:\n    return VOICES[kind]().say(question)\n"
                "def main():\n    Path('said.txt').write_text(answer('calm', 'Buy?'))\n"
            ),
        },
        "langchain",
        "fund/run.py:main",
        ("fund/voices.py:3", "fund/voices.py:5", "fund/voices.py:7"),
        ("file write fund/run.py",),
    ),
    LookAlike(
        "family-of-prompts",
        {
            "texts.py": (
                "class Family:\n"
                "    @staticmethod\n"
                f"    def report(question):\n        return f'{LONG} On {{question}}.'\n"
                "    @staticmethod\n"
                f"    def outline(question):\n        return f'{LONG} Outline {{question}}.'\n"
                "    @staticmethod\n"
                f"    def role():\n        return '{LONG}'\n"
                "    @staticmethod\n"
                f"    def unused(question):\n        return '{LONG}'\n"
                "KINDS = {'report': 'report', 'outline': 'outline'}\n"
                "def prompt_of(kind, family: type[Family] | Family):\n"
                "    found = getattr(family, KINDS.get(kind, ''), None)\n"
                "    return found\n"
            ),
            "write.py": (
                "from openai import OpenAI\nfrom texts import Family, prompt_of\n"
                "def chat(messages):\n"
                "    return OpenAI().chat.completions.create(model='m', messages=messages)\n"
                "class Writer:\n"
                "    def __init__(self, boss):\n        self.boss = boss\n"
                "    def write(self, question: str, kind: str = 'report'):\n"
                "        make = prompt_of(kind, self.boss.family)\n"
                "        content = f'{make(question)}'\n"
                "        return chat([\n"
                "            {'role': 'system', 'content': f'{self.boss.family.role()}'},\n"
                "            {'role': 'user', 'content': content},\n"
                "        ])\n"
                "class Boss:\n"
                "    def __init__(self, family: type[Family] = Family):\n"
                "        self.family = family\n        self.writer = Writer(self)\n"
            ),
            "find.py": (
                "from langchain.retrievers import ContextualCompressionRetriever\n"
                "def find(question='How tall are the shelves of the public library in the old town?'):\n"
                "    return ContextualCompressionRetriever(base_retriever=None).invoke(question)\n"
            ),
            "main.py": (
                "from write import Boss\nfrom find import find\n"
                "def answer(question: str):\n    find()\n    return Boss().writer.write(question)\n"
            ),
            "shelf_benchmark.py": (
                "from write import chat\n"
                f"JUDGE = '{LONG} Say whether it is right.'\n"
                "def judge():\n    return chat([{'role': 'system', 'content': JUDGE}])\n"
            ),
        },
        "langchain",
        "main.py:answer",
        ("texts.py:4", "texts.py:7", "texts.py:10"),
    ),
    LookAlike(
        "specs-of-agents",
        {
            "texts.py": f"SEEK = '{LONG} Seek.'\nWRITE = '{LONG} Write.'\nBYES = {{'seek': '{LONG} Bye.'}}\n",
            "main.py": (
                "from concurrent.futures import ThreadPoolExecutor\n"
                "from autogen import AssistantAgent, UpdateSystemMessage, UserProxyAgent\n"
                "from autogen.agents.experimental import DeepResearchAgent\n"
                "from autogen.beta import Agent\n"
                "from texts import BYES, SEEK, WRITE\n"
                "SPECS = [\n"
                "    {'name': 'seeker', 'system': SEEK, 'ask': lambda q: f'About {q}'},\n"
                "    {'name': 'writer', 'system': WRITE, 'ask': lambda q: f'On {q}'},\n"
                "]\n"
                "def bye(agent, messages) -> str:\n    return BYES[agent.name]\n"
                "def one(name, system, message):\n"
                "    agent = AssistantAgent(name, system_message=system, update_agent_state_before_reply=[UpdateSystemMessage(bye)])\n"
                "    UserProxyAgent('user').initiate_chat(agent, message=message)\n"
                "def run_spec(spec, question):\n    return one(spec['name'], spec['system'], spec['ask'](question))\n"
                f"lead = Agent('lead', prompt='{LONG} Lead.')\n"
                f"deep = DeepResearchAgent('deep', system_message='{LONG} Dig.')\n"
                "def answer(question: str):\n"
                "    with ThreadPoolExecutor() as pool:\n"
                "        return [pool.submit(run_spec, spec, question) for spec in SPECS]\n"
            ),
        },
        "autogen",
        "main.py:answer",
        ("texts.py:1", "texts.py:2", "texts.py:3", "main.py:17", "main.py:18"),
    ),
    LookAlike(
        "files-named-in-code",
        {
            "desk/prompts/plan.md": f"# System\n{LONG}\n# Human\n{{{{ask}}}}\n",
            "desk/prompts/old.md": f"# System\n{LONG}\n",
            "desk/texts.py": (
                "import re\nfrom langchain_core.prompts import ChatPromptTemplate\n"
                "def pairs(text):\n    return [(one.lower(), rest) for one, rest in re.findall('# (.*)\\n(.*)', text)]\n"
                "def template(path):\n    return ChatPromptTemplate.from_messages(pairs(open(path).read()))\n"
            ),
            "desk/unused.py": (
                "from langchain_core.prompts import ChatPromptTemplate\n"
                f"THINK = ChatPromptTemplate([('system', '{LONG} Think.')])\n"
            ),
            "desk/flow.py": (
                "from langchain_openai import ChatOpenAI\nfrom langgraph.graph import StateGraph\n"
                "from desk.texts import template\n"
                "plan = template('desk/prompts/plan.md') | ChatOpenAI(model='m')\n"
                "def think(state):\n    return {'said': plan.invoke({'ask': state['ask']})}\n"
                "builder = StateGraph(dict)\nbuilder.add_node(think)\ngraph = builder.compile()\n"
            ),
            "langgraph.json": '{"graphs": {"desk": "./desk/flow.py:graph"}, "dependencies": ["."]}',
        },
        "langgraph",
        "desk/flow.py:graph",
        ("desk/prompts/plan.md",),
    ),
    LookAlike(
        "built-signature",
        {
            "module.py": (
                "import dspy\n"
                "class Answering(dspy.Module):\n"
                "    def __init__(self, signature):\n"
                "        self.signature = signature = dspy.ensure_signature(signature)\n"
                "        whole = dspy.Signature({**signature.input_fields}, signature.instructions).append('seen', dspy.InputField())\n"
                "        self.answer = dspy.Predict(whole)\n"
                "    def forward(self, **given):\n        return self.answer(**given)\n"
            ),
            "main.py": (
                "import dspy\nfrom module import Answering\n"
                "class Shelve(dspy.Signature):\n"
                f'    """{LONG}"""\n    question = dspy.InputField()\n    answer = dspy.OutputField()\n'
                "def answer(question: str) -> str:\n    return Answering(signature=Shelve)(question=question).answer\n"
            ),
        },
        "dspy",
        "main.py:answer",
        ("main.py:4",),
    ),
    LookAlike(
        "options-and-routes",
        {
            "package.json": '{"type": "module", "dependencies": {"@anthropic-ai/claude-agent-sdk": "1", "openai": "5"}}',
            "src/texts.ts": f"export const RULES = `{LONG}`;\n\n\n\n\nexport const LEAD = `{LONG} Lead.`;\n",
            "src/client.ts": (
                "import { query } from '@anthropic-ai/claude-agent-sdk';\nimport { RULES } from './texts';\n"
                "export class Client {\n  constructor(options) {\n"
                "    this.options = { maxTurns: 9, appendSystemPrompt: RULES, ...options };\n  }\n"
                "  ask(prompt) {\n    return query({ prompt, options: { ...this.options } });\n  }\n}\n"
            ),
            "src/lead.ts": (
                "import { LEAD } from './texts';\nimport { Client } from './client';\n"
                "export async function lead(text: string) {\n"
                "  new Client({}).ask(text);\n"
                "  const body = { model: 'm', input: [{ type: 'message', role: 'system', content: LEAD }] };\n"
                "  return (await fetch('/api/responses', { method: 'POST', body: JSON.stringify(body) })).json();\n}\n"
            ),
            "src/api/responses.ts": (
                "import OpenAI from 'openai';\nconst client = new OpenAI();\n"
                "export async function relay(body) {\n  return client.responses.create({ model: 'm', input: body.input, instructions:\n"
                f"    '{LONG} ' +\n    'Say it in one word.' }});\n}}\n"
            ),
        },
        "claude-agent-sdk",
        "src/lead.ts:lead",
        ("src/texts.ts:1", "src/texts.ts:6", "src/api/responses.ts:5"),
        ("post src/lead.ts",),
    ),
)
