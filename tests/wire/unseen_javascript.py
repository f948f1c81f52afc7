"""Look-alikes of programs in JavaScript and TypeScript, each for an idiom that was missed once."""

# ruff: noqa: E501 - files of others, line by line

from __future__ import annotations

from tests.wire.look_alike import LONG, LookAlike

UNSEEN_JAVASCRIPT = (
    LookAlike(
        "texts-in-an-object",  # made by a function, sent by a class of the program's own
        {
            "package.json": '{"name": "shelves", "dependencies": {"ai": "^5.0.0"}}',
            "src/sender.ts": (
                "import { generateObject } from 'ai';\n"
                "export class Sender {\n"
                "  async send(options: { system?: string; prompt?: string }) {\n"
                "    const { system, prompt } = options;\n"
                "    return generateObject({ model: 'm', system, prompt });\n"
                "  }\n}\n"
            ),
            "src/shelve.ts": (
                "import { Sender } from './sender';\n"
                "const tidy = (text: string) => {\n  return text.replace(/\\n+/g, '\\n');\n};\n"
                "function texts(strict: boolean, book: string) {\n"
                "  const sections: string[] = [];\n  const rules: string[] = [];\n"
                f"  sections.push(`{LONG} ${{new Date()}}`);\n"
                f"  if (strict) {{\n    rules.push(`{LONG}`);\n  }}\n"
                f"  sections.push(`{LONG} ${{rules.join('\\n')}}`);\n"
                "  return { system: tidy(sections.join('\\n')), user: book };\n}\n"
                "export async function shelve(book: string) {\n"
                "  const sender = new Sender();\n"
                "  const { system, user } = texts(true, book);\n"
                "  return sender.send({ system, prompt: user });\n}\n"
            ),
        },
        "vercel-ai-sdk",
        "src/shelve.ts:shelve",
        ("src/shelve.ts:8", "src/shelve.ts:10", "src/shelve.ts:12"),
    ),
    LookAlike(
        "slots-filled-by-replace",  # with texts that are prompts too, and a role that is chosen
        {
            "package.json": '{"name": "shelves", "dependencies": {"@langchain/openai": "*", "@langchain/langgraph": "*", "@langchain/langgraph-sdk": "*"}}',
            "langgraph.json": '{"graphs": {"shelves": "./src/graph.ts:graph"}}',
            "src/texts.ts": (
                f"export const OUTER = `{LONG} {{inner}}`;\n"
                f"export const FULL = `{LONG} {{book}}`;\n"
                "export const NONE = `The reader has borrowed nothing so far.`;\n"
            ),
            "src/graph.ts": (
                "import { StateGraph, START } from '@langchain/langgraph';\n"
                "import { Client } from '@langchain/langgraph-sdk';\n"
                "import { ChatOpenAI } from '@langchain/openai';\n"
                "import { OUTER, FULL, NONE } from './texts.js';\n"
                "const fill = (template: string, book: string) => {\n  return template.replace('{book}', book);\n};\n"
                "async function shelve(state: any, config: any) {\n"
                "  const text = OUTER.replace('{inner}', state.book ? fill(FULL, state.book) : NONE);\n"
                "  const model = new ChatOpenAI({ model: 'm' });\n"
                "  const said = await model.invoke([{ role: state.old ? 'user' : 'system', content: text }]);\n"
                "  await new Client().threads.update(state.thread, { metadata: { said } });\n"
                "  await config.store.put(['shelves'], 'last', { said });\n"
                "  return { said };\n}\n"
                "export const graph = new StateGraph({}).addNode('shelve', shelve).addEdge(START, 'shelve').compile();\n"
            ),
        },
        "langgraph",
        "src/graph.ts:graph",
        ("src/texts.ts:1", "src/texts.ts:2", "src/texts.ts:3"),
        ("database write src/graph.ts",),
    ),
    LookAlike(
        "request-to-a-model",  # by fetch, through the program's own route; the page's clicks are none
        {
            "package.json": '{"name": "shelves", "dependencies": {"openai": "^6", "next": "15"}}',
            "src/app/api/responses/route.ts": (
                "import OpenAI from 'openai';\n"
                "export async function POST(request: Request) {\n"
                "  const body = await request.json();\n"
                "  return Response.json(await new OpenAI().responses.create({ ...body, stream: false }));\n}\n"
            ),
            "src/app/rate.ts": (
                "import { zodTextFormat } from 'openai/helpers/zod';\n"
                "export async function rate(book: string) {\n"
                f"  const messages = [{{ role: 'user', content: `{LONG} ${{book}}` }}];\n"
                "  const done = await fetch('/api/responses', {\n    method: 'POST',\n"
                "    body: JSON.stringify({ model: 'm', input: messages, text: zodTextFormat({}, 'x') }),\n  });\n"
                "  await fetch('/api/notes', { method: 'POST', body: JSON.stringify({ book }) });\n"
                "  document.createElement('a').click();\n"
                "  const zeros = new Array(3).fill(0);\n"
                "  return [done, new Function('return 1')(), zeros];\n}\n"
            ),
        },
        "openai",
        "src/app/api/responses/route.ts:POST",
        ("src/app/rate.ts:3",),
        ("exec src/app/rate.ts", "post src/app/rate.ts"),
    ),
    LookAlike(
        "graph-in-an-object",  # built by a long chain, in a class that a server action makes
        {
            "package.json": '{"name": "shelves", "dependencies": {"@langchain/langgraph": "*", "@langchain/openai": "*", "@vercel/blob": "*", "next": "15"}}',
            "lib/engine.ts": (
                "import { StateGraph, START, END } from '@langchain/langgraph';\n"
                "import { ChatOpenAI } from '@langchain/openai';\n"
                "import { SystemMessage } from '@langchain/core/messages';\n"
                "import { put } from '@vercel/blob';\n"
                "export class Engine {\n  private graph: ReturnType<typeof this.build>;\n"
                "  constructor() {\n    this.graph = this.build();\n  }\n"
                "  private build() {\n    const plan = this.plan.bind(this);\n"
                "    const graph = new StateGraph({}).addNode('a', plan).addNode('b', plan).addNode('c', plan).addNode('d', plan)\n"
                "      .addEdge(START, 'a').addEdge('a', 'b').addEdge('b', 'c').addEdge('c', 'd').addEdge('d', END);\n"
                "    return graph.compile();\n  }\n"
                "  private async plan(state: any) {\n"
                f"    const said = await new ChatOpenAI({{ model: 'm' }}).invoke([new SystemMessage(`{LONG} ${{state.book}}`)]);\n"
                "    await put('plans/a.txt', said.content, { access: 'public' });\n    return { said };\n  }\n"
                "  async search(query: string) {\n    return this.graph.invoke({ query });\n  }\n}\n"
            ),
            "app/search.ts": (
                "'use server';\nimport { Engine } from '@/lib/engine';\n"
                "export async function search(query: string) {\n  return new Engine().search(query);\n}\n"
            ),
        },
        "langgraph",
        "app/search.ts:search",
        ("lib/engine.ts:17",),
        ("post lib/engine.ts",),
    ),
    LookAlike(
        "tools-that-factories-make",
        {
            "package.json": '{"name": "shelves", "dependencies": {"ai": "^5.0.0"}}',
            "src/order.ts": (
                "import { tool } from 'ai';\n"
                "export const orderBook = ({ reader }: { reader: string }) =>\n  tool({\n"
                "    description: 'Orders.',\n    execute: async () => ({ reader }),\n  });\n"
            ),
            "src/desk.ts": (
                "import { generateText, tool } from 'ai';\nimport { orderBook } from './order';\n"
                "export async function ask(question: string) {\n"
                "  const look_up = tool({ description: 'Looks.', execute: async () => 'here' });\n"
                f"  return generateText({{ model: 'm', system: '{LONG}', prompt: question,\n"
                "    tools: { look_up, order: orderBook({ reader: 'ada' }) } });\n}\n"
            ),
        },
        "vercel-ai-sdk",
        "src/desk.ts:ask",
        ("src/desk.ts:5",),
        ("named action src/order.ts",),
    ),
    LookAlike(
        "routes-and-a-server-of-tools",  # beside the agent's route, which imports neither
        {
            "package.json": '{"name": "shelves", "dependencies": {"ai": "^5.0.0", "next": "15"}}',
            "app/api/ask/route.ts": (
                "import { generateText } from 'ai';\n"
                "export async function POST(request: Request) {\n"
                "  const { question } = await request.json();\n"
                f"  const done = await generateText({{ model: 'm', system: '{LONG}', prompt: question }});\n"
                "  return Response.json(done);\n}\n"
            ),
            "app/api/sandbox/route.ts": (
                "import { Sandbox } from '@e2b/code-interpreter';\n"
                "export async function POST(request: Request) {\n"
                "  const box = await Sandbox.create();\n"
                "  return Response.json(await box.runCode((await request.json()).code));\n}\n"
            ),
            "examples/app/api/ask/route.ts": (
                "import { generateText } from 'ai';\n"
                f"export async function POST() {{\n  return generateText({{ model: 'm', system: '{LONG}' }});\n}}\n"
            ),
            "server/index.ts": (
                "import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';\n"
                "import { google } from 'googleapis';\n"
                "const server = new McpServer({ name: 'days' });\n"
                "server.tool('add-day', async ({ day }) => {\n"
                "  return google.calendar('v3').events.insert({ requestBody: { day } });\n});\n"
            ),
        },
        "vercel-ai-sdk",
        "app/api/ask/route.ts:POST",
        ("app/api/ask/route.ts:4",),
        ("exec app/api/sandbox/route.ts", "post server/index.ts"),
    ),
)
