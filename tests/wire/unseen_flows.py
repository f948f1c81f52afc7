"""Look-alikes of how text reaches a model over classes, folders, wrappers and chains."""

# ruff: noqa: E501 - files of others, line by line

from __future__ import annotations

from tests.wire.look_alike import LONG, LookAlike

BASE_OF_STAFF = f'''from ask import ask_model
class Staff:
    def __init__(self, model="m"):
        self.model = model
        self.past = []
    def answer(self, subject, phase):
        sys_prompt = f"""You are {{self.role()}} \\nTask instructions: {{self.phase_text(phase)}}\\n{{self.commands(phase)}}"""
        note = f"Phase: {{phase}}" if phase else ""
        asked = f"Subject: {{subject}}. {{note}} Choose one shelf for it, and say in one sentence why it is the right shelf."
        return ask_model(prompt=asked, system_prompt=sys_prompt)
    def role(self):
        raise NotImplementedError("of each one")
    def phase_text(self, phase):
        raise NotImplementedError("of each one")
    def commands(self, phase):
        raise NotImplementedError("of each one")
    def boast(self):
        text = f"You are {{self.role()}} and you boast of your shelves to all who pass by the desk today."
        return ask_model(prompt="Boast now of the shelves that you have put up since spring came.", system_prompt=text)


class Librarian(Staff):
    def role(self):
        return "a librarian."
    def phase_text(self, phase):
        if phase == "plan":
            text = (
                "{LONG}\\n"
                "Keep to the plan that the head of the library gave you this morning.\\n"
            )
        elif phase == "move":
            text = "Move the books in the order of their numbers, and tell the staff before."
        return text


    def commands(self, phase):
        if phase == "plan":
            return "Use the word PLAN before the plan, and put nothing else into your answer."
        return ()
'''

FLOWS = (
    LookAlike(
        "prompts-from-methods",
        {
            "requirements.txt": "openai\n",
            "ask.py": (
                "from openai import OpenAI\n"
                "def ask_model(prompt, system_prompt, kind='plain'):\n"
                "    client = OpenAI()\n"
                "    if kind == 'thinking':\n"
                "        messages = [{'role': 'user', 'content': system_prompt + prompt}]\n"
                "        return client.chat.completions.create(model='t', messages=messages)\n"
                "    messages = [{'role': 'system', 'content': system_prompt}, {'role': 'user', 'content': prompt}]\n"
                "    return client.chat.completions.create(model='m', messages=messages)\n"
            ),
            "staff.py": BASE_OF_STAFF,
            "report.py": (
                "from ask import ask_model\n"
                "TIPS = {\n"
                "    'opening': 'Say what the library has, in one paragraph without breaks.',\n"
                "    'closing': 'Say what the library needs, and thank those who gave to it.',\n"
                "}\n"
                "\n\n\n"
                "def write(part, books):\n"
                "    shown = ', '.join(f'{book[\"title\"]} of {book[\"year\"]}' for book in books)\n"
                "    system = f'You write the yearly report of a library. Advice: {TIPS[part]}'\n"
                "    return ask_model(f'The books: {shown}', system)\n"
            ),
            "run.py": (
                "from staff import Librarian\nfrom report import write\n"
                "def main(subject):\n    print(Librarian().answer(subject, 'plan'), write('opening', []))\n"
                "if __name__ == '__main__':\n    main(input('Subject? '))\n"
            ),
        },
        "openai",
        "run.py:main",
        (
            "staff.py:7",
            "staff.py:9",
            "staff.py:28",
            "staff.py:38",
            "report.py:3",
            "report.py:11",
        ),
    ),
    LookAlike(
        "file-of-prompts-in-each-folder",
        {
            "requirements.txt": "langchain\n",
            "settings/staff/porter/AGENT.md": f"---\nname: porter\n---\n{LONG}\n",
            "settings/staff/porter/config.yaml": "tools: []\nrules: _all/manners.md\n",
            "settings/staff/clerk/AGENT.md": f"---\nname: clerk\n---\n{LONG} Count them too.\n",
            "settings/staff/_all/manners.md": "Speak softly in all rooms, and greet whoever comes to the desk.\n",
            "settings/staff/_all/history.md": "The library was built long ago, and nothing reads this.\n",
            "AGENTS.md": f"How to work on this code. {LONG}\n",
            "app/loader.py": (
                "from pathlib import Path\n"
                "class StaffLoader:\n"
                "    def __init__(self, root='settings/staff'):\n"
                "        self.root = Path(root)\n"
                "    def load(self, name):\n"
                "        path = self.root / name / 'AGENT.md'\n"
                "        return path.read_text().split('---')[-1].strip()\n"
            ),
            "app/agents.py": (
                "from langchain.agents import create_agent\nfrom .loader import StaffLoader\n"
                "def staff(name, question):\n"
                "    agent = create_agent(model='m', system_prompt=StaffLoader().load(name))\n"
                "    return agent.invoke({'messages': [('user', question)]})\n"
            ),
            "app/__init__.py": "",
        },
        "langchain",
        "app/agents.py:staff",
        (
            "settings/staff/porter/AGENT.md",
            "settings/staff/clerk/AGENT.md",
            "settings/staff/_all/manners.md",
        ),
    ),
    LookAlike(
        "functions-in-wrappers",
        {
            "package.json": '{"name": "shelf-news", "dependencies": {"@langchain/langgraph": "1", "langsmith": "1"}}',
            "langgraph.json": '{"graphs": {"archive": "./src/archive.ts:archiveGraph", "news": "./src/news.ts:newsGraph"}}',
            "src/judge.ts": (
                "import { ChatOpenAI } from '@langchain/openai';\n"
                "import { traceable } from 'langsmith/traceable';\n"
                "async function judgeNewsFunc(content: string, args: { systemPrompt: string }) {\n"
                "  const model = new ChatOpenAI({ model: 'm' });\n"
                "  return model.invoke([\n"
                "    { role: 'system', content: args.systemPrompt },\n"
                "    { role: 'user', content },\n"
                "  ]);\n}\n"
                "export const judgeNews = traceable(judgeNewsFunc, { name: 'judge-news' });\n"
            ),
            "src/texts.ts": (
                "export const CONTEXT = `The library has three rooms, and its news go to all who have a card.`;\n"
                "\n\n\n"
                "export const RULES = `Leave out news that are older than a week, whatever they are about.`;\n"
                "\n\n\n"
                "export function getTexts() {\n  return { context: CONTEXT, rules: RULES };\n}\n"
                "\n\n"
                "export function formatPrompt(report: string) {\n"
                "  return `Here is the report that the head of the library has sent, for you to shorten:\n${report}`;\n"
                "}\n"
            ),
            "src/news.ts": (
                "import { StateGraph } from '@langchain/langgraph';\n"
                "import { ChatOpenAI } from '@langchain/openai';\n"
                "import { judgeNews } from './judge.js';\n"
                "import { formatPrompt, getTexts } from './texts.js';\n"
                "const JUDGE = `You read news of a library and say whether they are worth to be sent.\n\n"
                "${getTexts().context}\n\n${getTexts().rules}`;\n"
                "async function judge(state) {\n"
                "  return { right: await judgeNews(state.news, { systemPrompt: JUDGE }) };\n}\n"
                "async function shorten(state) {\n"
                "  const prompt = formatPrompt(state.news);\n"
                "  return { short: await new ChatOpenAI({}).invoke([{ role: 'user', content: prompt }]) };\n}\n"
                "export const newsGraph = new StateGraph({}).addNode('judge', judge).addNode('shorten', shorten).compile();\n"
            ),
            "src/archive.ts": (
                "import { StateGraph } from '@langchain/langgraph';\n"
                "async function keep(state) {\n  return state;\n}\n"
                "export const archiveGraph = new StateGraph({}).addNode('keep', keep).compile();\n"
            ),
        },
        "langgraph",
        "src/news.ts:newsGraph",
        ("src/news.ts:5", "src/texts.ts:1", "src/texts.ts:5", "src/texts.ts:14"),
        tracing=("langsmith src/judge.ts",),
    ),
    LookAlike(
        "slots-filled-when-a-chain-runs",
        {
            "requirements.txt": "langchain\n",
            "queries.py": (
                "from langchain_core.prompts import ChatPromptTemplate\n"
                "from langchain_openai import ChatOpenAI\n"
                "FORMAT_RULES = '''Write exactly four lines about {library}, and put nothing before them.'''\n"
                "\n\n\n"
                "def queries(library, wish):\n"
                "    prompt = ChatPromptTemplate.from_messages([\n"
                "        ('system', 'You look for books that the readers of a library may want to borrow.'),\n"
                "        ('user', '{wish}\\n{rules}'),\n"
                "    ])\n"
                "    chain = prompt | ChatOpenAI()\n"
                "    return chain.invoke({'wish': wish, 'rules': FORMAT_RULES.format(library=library)})\n"
                "\n\n\n"
                "def demonstrated():\n"
                "    prompt = ChatPromptTemplate.from_template('Say in three words what the reader thinks of us: {review}')\n"
                "    review = 'The rooms are cold in winter and the staff were busy when we came to ask.'\n"
                "    return (prompt | ChatOpenAI()).invoke({'review': review})\n"
            ),
        },
        "langchain",
        "queries.py:queries",
        ("queries.py:3", "queries.py:8", "queries.py:18"),
    ),
    LookAlike(
        "agents-whose-text-a-function-updates",
        {
            "requirements.txt": "ag2\n",
            "desk.py": (
                "from autogen import SwarmAgent, UPDATE_SYSTEM_MESSAGE, initiate_swarm_chat\n"
                "def advise(wish):\n"
                "    task = f'''\n    Advise a reader who has come to the desk and has told us the following wish: {wish}\n    '''\n"
                "\n\n"
                "    texts = {\n"
                f"        'finder': '{LONG}',\n"
                "        \n        \n        \n"
                "        'lender': 'You lend the books that were found, and you say until when they must be back.',\n"
                "    }\n"
                "    def text_of(agent, messages):\n"
                "        return texts[agent.name]\n"
                "    update = UPDATE_SYSTEM_MESSAGE(text_of)\n"
                "    finder = SwarmAgent('finder', update_agent_state_before_reply=[update])\n"
                "    lender = SwarmAgent('lender', update_agent_state_before_reply=[update])\n"
                "    return initiate_swarm_chat(initial_agent=finder, agents=[finder, lender], messages=task)\n"
            ),
        },
        "autogen",
        "desk.py:advise",
        ("desk.py:3", "desk.py:9", "desk.py:13"),
    ),
    LookAlike(
        "agent-on-a-terminal",
        {
            "requirements.txt": "agno\n",
            "talk.py": (
                "import asyncio\nimport uuid\nfrom textwrap import dedent\nfrom agno.agent import Agent\n"
                "async def main():\n"
                "    reader = f'reader_{uuid.uuid4().hex[:8]}'\n"
                "    print(reader)\n"
                "    shelf = 'https://shelves.example/all'\n"
                "    print(shelf)\n"
                "    agent = Agent(\n"
                "        model='m',\n"
                "        instructions=dedent(f'''\n"
                f"            {LONG}\n"
                "            The reader is {reader}.\n"
                "        '''),\n"
                "    )\n"
                "    await agent.acli_app(user_id=reader, stream=True)\n"
                "if __name__ == '__main__':\n    asyncio.run(main())\n"
            ),
        },
        "agno",
        "talk.py:main",
        ("talk.py:12",),
    ),
    LookAlike(
        "texts-that-another-service-is-sent",
        {
            "package.json": '{"name": "shelf-rules", "dependencies": {"@langchain/langgraph": "1"}}',
            "langgraph.json": '{"graphs": {"rules": "./src/rules.ts:rulesGraph"}}',
            "src/rules.ts": (
                "import { StateGraph } from '@langchain/langgraph';\n"
                "import { ChatOpenAI } from '@langchain/openai';\n"
                "import { Client } from '@langchain/langgraph-sdk';\n"
                "const WHEN_INSTRUCTIONS = `Change the rules of the library when a reader has asked for it in so many words, and only then.`;\n"
                "\n\n\n"
                "const SETUP_INSTRUCTIONS = `Change the rules of the library in the file of settings before you start the program on a machine of your own.`;\n"
                "\n\n\n"
                "async function change(state) {\n"
                "  if (!state.rules) throw new Error(SETUP_INSTRUCTIONS);\n"
                "  return new Client({}).runs.wait(null, 'optimize', { input: { prompts: [{ when: WHEN_INSTRUCTIONS }] } });\n}\n"
                "async function tell(state) {\n"
                "  const content = `Tell the readers in one line of these rules:\n\n${state.rules}`;\n"
                "  return new ChatOpenAI({}).invoke([{ role: 'user', content }]);\n}\n"
                "export const rulesGraph = new StateGraph({}).addNode('change', change).addNode('tell', tell).compile();\n"
            ),
        },
        "langgraph",
        "src/rules.ts:rulesGraph",
        ("src/rules.ts:4", "src/rules.ts:17"),
    ),
    LookAlike(
        "workflow-that-an-instance-serves",
        {
            "package.json": '{"name": "shelves", "type": "module", "dependencies": {"@mastra/core": "latest"}}',
            "src/mastra/agents/porter.ts": (
                "import { Agent } from '@mastra/core/agent';\n"
                f"export const porter = new Agent({{ id: 'p', instructions: `{LONG}` }});\n"
            ),
            "src/mastra/workflows/move.ts": (
                "import { createStep, createWorkflow } from '@mastra/core/workflows';\n"
                "const carry = createStep({\n"
                "  id: 'carry',\n"
                "  execute: async ({ inputData, mastra }) => {\n"
                "    const said = await mastra.getAgent('porter').generate(inputData.books);\n"
                "    return { text: said.text };\n"
                "  },\n});\n"
                "export const moveWorkflow = createWorkflow({ id: 'move', steps: [carry] }).then(carry).commit();\n"
            ),
            "src/mastra/index.ts": (
                "import { Mastra } from '@mastra/core/mastra';\n"
                "import { porter } from './agents/porter';\nimport { moveWorkflow } from './workflows/move';\n"
                "export const mastra = new Mastra({ agents: { porter }, workflows: { moveWorkflow } });\n"
            ),
        },
        "mastra",
        "src/mastra/workflows/move.ts:moveWorkflow",
        ("src/mastra/agents/porter.ts:2",),
    ),
)
