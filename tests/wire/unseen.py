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
)
